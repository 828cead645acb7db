"""The HTTP of one listing: what dulwich takes for its pool of connections.

Owns redirects, the bounds of an answer, and what each of its failures means. An answer is read whole, within its bound, before dulwich sees a byte,
so its connection is free again and a slow host meets one deadline. Blocking; `abort` ends it from another thread. Must not know git.
"""

import contextlib
import http.client
import io
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from urllib.parse import urljoin, urlsplit

from foundation.addresses import Address
from gitops.errors import RemoteCause, RemoteFailed
from gitops.mirror_limits import MirrorLimits
from gitops.remote import Remote, check_url
from gitops.remote_connection import KeptConnections, Origin, PinnedConnection
from gitops.remote_failures import TRUST_HINT, failed, redirect_failure, status_failure

MOST_REDIRECTS = 3
MOST_TRIED = 3
USER_AGENT = "git/arena"
"""Hosts answer programs that do not call themselves git with pages for people."""
DISCOVERY = "info/refs?service=git-upload-pack"
_ADVERTISEMENT = "application/x-git-upload-pack-advertisement"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_OK = 200
_CHUNK_BYTES = 1 << 16


class Answer:
    """An answer as dulwich reads it; `redirect_location` is dulwich's to set."""

    def __init__(self, url: str, status: int, headers: http.client.HTTPMessage, body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.content_type = headers.get("Content-Type")
        self.redirect_location = ""
        self.read = io.BytesIO(body).read
        self._url = url

    def geturl(self) -> str:
        """Return where the answer came from, after redirects."""
        return self._url

    def close(self) -> None:
        """Do nothing: the body is in memory."""


class RemoteSession(threading.Event):
    """The requests of one listing, all to addresses that were checked. Setting the event aborts what is under way."""

    def __init__(
        self, remote: Remote, addresses: Sequence[Address], kept: KeptConnections, limits: MirrorLimits, now: Callable[[], datetime]
    ) -> None:
        super().__init__()
        self.headers = {"User-Agent": USER_AGENT}
        self.base_url = ""
        self.address = addresses[0]
        self._remote = remote
        self._origin = Origin.of(remote)
        self._addresses = addresses
        self._kept = kept
        self._limits = limits
        self._now = now
        self._connection: PinnedConnection | None = None

    def set(self) -> None:
        """Abort: whoever waits for the host wakes with an error."""
        super().set()
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):
                # Past the TLS layer, which another thread is using.
                socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)

    def request(self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None, **_: object) -> Answer:
        """Send a request and return its answer, whose status is 200.

        Raises:
            RemoteFailed: anything else.
        """
        for _hop in range(MOST_REDIRECTS + 1):
            answer = self._exchange(method, url, headers, body)
            if answer.status not in _REDIRECTS or method != "GET":
                break
            url = self._followed(url, answer.headers.get("Location", ""))
        else:
            raise failed(
                self._remote,
                RemoteCause.REDIRECT,
                f"the host redirects more than {MOST_REDIRECTS} times",
                hint="write the repository's own address into spec.external.url",
            )
        if answer.status in _REDIRECTS:
            raise redirect_failure(self._remote, "")
        if answer.status != _OK:
            raise status_failure(self._remote, answer.status, retry_after=answer.headers.get("Retry-After", ""), now=self._now())
        if method == "GET":
            self._check_is_git(answer)
            self.base_url = url.removesuffix(DISCOVERY).rstrip("/")
        return answer

    def _check_is_git(self, answer: Answer) -> None:
        kind = (answer.content_type or "").partition(";")[0].strip()
        if kind != _ADVERTISEMENT:
            shown = kind if kind.isprintable() and kind else "of no type"
            hint = "check that spec.external.url is a repository's clone address, and that the host does not answer with a sign-in page"
            raise failed(self._remote, RemoteCause.PROTOCOL, f"what answers there is no git server (it sends {shown[:80]})", hint=hint)

    def _followed(self, url: str, location: str) -> str:
        """Return where a redirect leads, if it is the same host's and still a listing of refs."""
        target = urljoin(url, location)
        parts = urlsplit(target)
        shown = f"'{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}'"
        if not location or not target.isascii() or not target.isprintable():
            raise redirect_failure(self._remote, "nowhere")
        if not target.endswith("/" + DISCOVERY):
            raise redirect_failure(self._remote, f"{shown}, which is no repository")
        base = target.removesuffix("/" + DISCOVERY)
        if check_url(base) is not None:
            raise redirect_failure(self._remote, f"{shown}, which is no address that may be mirrored ({check_url(base)})")
        origin = Origin.of(Remote(base))
        if (origin.host, origin.port) != (self._origin.host, self._origin.port):
            raise redirect_failure(self._remote, f"{shown}, which is another host")
        return target

    def _exchange(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        with self._explained():
            kept = self._kept.take(self._origin, self._addresses)
            if kept is not None:
                # A host may close an idle connection at any moment, also this one.
                with contextlib.suppress(ConnectionError, ssl.SSLEOFError):
                    return self._send(kept, method, url, headers, body)
            return self._send(self._connected(), method, url, headers, body)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Say what the errors of a connection mean."""
        try:
            yield
        except ssl.SSLCertVerificationError as error:
            hint = "check ca.crt in the Secret" if self._origin.ca_certificates else TRUST_HINT
            words = f"the host's certificate is not trusted ({error.verify_message})"
            raise failed(self._remote, RemoteCause.CERTIFICATE, words, hint=hint) from error
        except TimeoutError as error:
            raise failed(self._remote, RemoteCause.TIMED_OUT, "the host does not answer in time", hint="check the host and the network") from error
        except http.client.IncompleteRead as error:
            raise failed(self._remote, RemoteCause.PROTOCOL, "the answer breaks off", hint="the fetch is tried again") from error
        except (ssl.SSLError, http.client.HTTPException) as error:
            if isinstance(error, ConnectionError):
                raise self._unreachable(error) from error
            words = f"what answers there does not speak HTTPS ({getattr(error, 'reason', None) or type(error).__name__})"
            raise failed(self._remote, RemoteCause.PROTOCOL, words, hint="check host and port of spec.external.url") from error
        except OSError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: OSError) -> RemoteFailed:
        words = f"no connection to {self._origin.authority} ({(error.strerror or str(error) or type(error).__name__).lower()})"
        return failed(self._remote, RemoteCause.UNREACHABLE, words, hint="check that this machine reaches the host")

    def _connected(self) -> PinnedConnection:
        """Connect to the first address that takes the connection."""
        try:
            connections = [PinnedConnection(self._origin, address, self._limits.connect_s) for address in self._addresses[:MOST_TRIED]]
        except (ssl.SSLError, ValueError) as error:
            raise failed(
                self._remote, RemoteCause.CERTIFICATE, "ca.crt holds no certificate", hint="put PEM certificates into ca.crt of the Secret"
            ) from error
        for connection in connections:
            self._raise_if_aborted()
            try:
                connection.connect()
            except OSError as error:
                if connection is connections[-1] or isinstance(error, ssl.SSLError):
                    raise
            else:
                return connection
        raise OSError("no address")

    def _send(self, connection: PinnedConnection, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        self._connection = connection
        self._raise_if_aborted()
        try:
            connection.timeout = self._limits.listing_s
            if connection.sock is not None:
                connection.sock.settimeout(self._limits.listing_s)
            parts = urlsplit(url)
            authorization = self._remote.credentials.authorization
            sent = {**headers, "Authorization": authorization} if authorization is not None else headers
            connection.request(method, f"{parts.path}?{parts.query}" if parts.query else parts.path, body, sent)
            # Closed in any case: a body of known length does not end by itself, and until then the connection takes no other request.
            with contextlib.closing(connection.getresponse()) as response:
                answer = Answer(url, response.status, response.headers, self._read(response))
        except BaseException:
            connection.close()
            raise
        self.address = connection.address
        if response.will_close:
            connection.close()
        else:
            self._kept.keep(self._origin, connection)
        return answer

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        body = bytearray()
        while chunk := response.read1(_CHUNK_BYTES):
            body += chunk
            self._raise_if_aborted()
            if len(body) > self._limits.listing_bytes:
                words = f"its list of refs is larger than {self._limits.listing_bytes} bytes"
                raise failed(self._remote, RemoteCause.TOO_LARGE, words, hint="remove branches and tags that nobody needs")
        if response.length:
            raise http.client.IncompleteRead(bytes(body), response.length)
        return bytes(body)

    def _raise_if_aborted(self) -> None:
        if self.is_set():
            raise TimeoutError
