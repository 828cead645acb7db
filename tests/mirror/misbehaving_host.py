"""A small TLS server that does what nginx cannot be made to do: answers byte by byte, breaks off, stalls, lies.

Owns one thread a connection, and what each request was. A behaviour is a function from a request to the bytes to send; when they end, the connection
is closed. `through` passes a request on to the real host and returns what it answers.
"""

import contextlib
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import trustme

from tests.mirror.https_host import NAMES, HttpsHost

DEADLINE_S = 20.0
ADVERTISEMENT = "application/x-git-upload-pack-advertisement"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class Request:
    """One request, as it came."""

    head: bytes
    body: bytes

    @property
    def line(self) -> str:
        """Return the request line without the version."""
        return self.head.decode("latin-1").split("\r\n")[0].removesuffix(" HTTP/1.1")

    @property
    def is_discovery(self) -> bool:
        """Say whether it asks for refs or capabilities."""
        return b"/info/refs?" in self.head

    @property
    def is_pack(self) -> bool:
        """Say whether it asks for a pack."""
        return b"command=fetch" in self.body


Behaviour = Callable[[Request], Iterable[bytes]]


def answer(status: str, body: bytes = b"", *headers: str) -> bytes:
    """Return a whole HTTP answer; `status` as in `503 Busy`."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


@dataclass
class MisbehavingHost:
    """The running server. `released` ends every wait of a behaviour."""

    behaviour: Behaviour
    port: int = 0
    requests: list[Request] = field(default_factory=list)
    handshakes: int = 0
    released: threading.Event = field(default_factory=threading.Event)
    _exchanged: tuple[int, ssl.SSLContext] | None = None

    def url(self, name: str, *, host: str = "localhost") -> str:
        """Return the URL of a repository."""
        return f"https://{host}:{self.port}/{name}.git"

    def stall(self) -> Iterator[bytes]:
        """Send nothing until the test is over."""
        self.released.wait(DEADLINE_S)
        yield b""

    def drip(self, data: bytes, seconds: float = 0.02) -> Iterator[bytes]:
        """Send one byte at a time."""
        for byte in data:
            yield bytes([byte])
            if self.released.wait(seconds):
                return

    def drip_in(self, data: bytes, parts: int) -> Iterator[bytes]:
        """Send an answer in equal parts, each after a pause."""
        size = len(data) // parts + 1
        for start in range(0, len(data), size):
            yield data[start : start + size]
            if self.released.wait(0.2):
                return

    def exchange_after(self, handshakes: int, context: ssl.SSLContext) -> None:
        """Show another certificate after so many more handshakes."""
        self._exchanged = (self.handshakes + handshakes, context)

    def serve(self, listener: socket.socket, context: ssl.SSLContext) -> None:
        """Take connections until the listener is closed."""
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=self._converse, args=(connection, context), daemon=True).start()

    def _converse(self, plain: socket.socket, context: ssl.SSLContext) -> None:
        plain.settimeout(DEADLINE_S)
        if self._exchanged is not None and self.handshakes >= self._exchanged[0]:
            context = self._exchanged[1]
        with contextlib.suppress(OSError), plain, context.wrap_socket(plain, server_side=True) as connection:
            self.handshakes += 1
            request = _read(connection)
            if request is not None:
                self.requests.append(request)
                for part in self.behaviour(request):
                    connection.sendall(part)


def _read(connection: socket.socket) -> Request | None:
    data = b""
    while b"\r\n\r\n" not in data:
        portion = connection.recv(65536)
        if not portion:
            return None
        data += portion
    head, _, body = data.partition(b"\r\n\r\n")
    length = _LENGTH.search(head)
    while length is not None and len(body) < int(length[1]):
        body += connection.recv(65536)
    return Request(head, body)


def through(host: HttpsHost, request: Request) -> bytes:
    """Return what the real host answers to a request, in whole, on a connection that ends with it."""
    context = ssl.create_default_context(cadata=host.ca_certificates)
    head = re.sub(rb"\r\nConnection: [^\r]*", b"", request.head, flags=re.IGNORECASE) + b"\r\nConnection: close\r\n\r\n"
    data = b""
    with (
        socket.create_connection(("127.0.0.1", host.port), DEADLINE_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        connection.sendall(head + request.body)
        while portion := connection.recv(65536):
            data += portion
    return data


@contextlib.contextmanager
def misbehaving(
    authority: trustme.CA, behaviour: Behaviour | None = None, certificate: trustme.LeafCert | None = None, address: str = "127.0.0.1"
) -> Iterator[MisbehavingHost]:
    """Run a server within the block. Its certificate is one of the authority's for the usual names, unless one is given."""
    host = MisbehavingHost(behaviour or (lambda _: []))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (certificate or authority.issue_cert(*NAMES)).configure_cert(context)
    with socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET) as listener:
        host.port = int(listener.getsockname()[1])
        thread = threading.Thread(target=host.serve, args=(listener, context), daemon=True)
        thread.start()
        try:
            yield host
        finally:
            host.released.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(DEADLINE_S)
