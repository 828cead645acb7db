"""TLS connections to one checked address of a host, and the ones that are kept for the next poll.

A handshake costs several polls, so what a poll has used waits for the next. No proxy is asked, whatever the environment says. Blocking. Must not know
what is sent.
"""

import http.client
import socket
import ssl
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address
from urllib.parse import urlsplit

from foundation.addresses import Address
from gitops.remote import Remote

MOST_KEPT = 64
_HTTPS_PORT = 443


@dataclass(frozen=True, slots=True)
class Origin:
    """A host, a port, and whom one trusts to vouch for it (PEM; empty: the system's authorities)."""

    host: str
    port: int
    ca_certificates: str = ""

    @classmethod
    def of(cls, remote: Remote) -> "Origin":
        """Return the origin of a remote whose URL was checked."""
        parts = urlsplit(remote.url)
        host = (parts.hostname or "").lower()
        return cls(str(IPv6Address(host)) if ":" in host else host, parts.port or _HTTPS_PORT, remote.credentials.ca_certificates)

    @property
    def authority(self) -> str:
        """`host` or `host:port`, as the Host header and URLs spell it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _HTTPS_PORT else f"{host}:{self.port}"


class PinnedConnection(http.client.HTTPSConnection):
    """A TLS connection to one address, whose certificate must be the host's."""

    def __init__(self, origin: Origin, address: Address, timeout_s: float) -> None:
        self._tls = _tls(origin.ca_certificates)
        super().__init__(origin.host, origin.port, timeout=timeout_s, context=self._tls)
        self.address = address

    def connect(self) -> None:
        """Connect to the address, and let the certificate prove the host's name."""
        plain = socket.create_connection((str(self.address), self.port), self.timeout)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sock = self._tls.wrap_socket(plain, server_hostname=self.host)
        except BaseException:
            plain.close()
            raise


class KeptConnections:
    """Connections that wait for the next poll of their origin, the last used kept longest. Thread-safe."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Origin, Address], PinnedConnection] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, origin: Origin, addresses: Sequence[Address]) -> PinnedConnection | None:
        """Return a connection to one of the addresses that the host has not closed."""
        with self._lock:
            found = [connection for address in addresses if (connection := self._kept.pop((origin, address), None)) is not None]
        usable = [connection for connection in found if _is_silent(connection)]
        for connection in found:
            if connection not in usable[:1]:
                connection.close()
        return usable[0] if usable else None

    def keep(self, origin: Origin, connection: PinnedConnection) -> None:
        """Keep a connection whose answer was read to its end."""
        with self._lock:
            surplus = [self._kept.pop((origin, connection.address), None)]
            self._kept[origin, connection.address] = connection
            if len(self._kept) > MOST_KEPT:
                surplus.append(self._kept.popitem(last=False)[1])
        for old in surplus:
            if old is not None:
                old.close()

    def close(self) -> None:
        """Close them all."""
        with self._lock:
            kept, self._kept = list(self._kept.values()), OrderedDict()
        for connection in kept:
            connection.close()


def _is_silent(connection: PinnedConnection) -> bool:
    """Say whether nothing came since the last answer: an end of file or a word out of turn make a connection useless."""
    sock = connection.sock
    if sock is None:
        return False
    sock.settimeout(0)
    try:
        sock.recv(1)
    except ssl.SSLWantReadError:
        return True
    except OSError:
        pass
    return False


@lru_cache(maxsize=64)
def _tls(ca_certificates: str) -> ssl.SSLContext:
    """Return the context of an authority; reading the system's authorities takes longer than a poll."""
    if not ca_certificates:
        return ssl.create_default_context()
    # Between certificates stands text for people, in any language; Python takes ASCII alone.
    return ssl.create_default_context(cadata=ca_certificates.encode("ascii", "replace").decode())
