"""A wire between a process and a server that can be cut and mended: a port of loopback that leads to another one while it is whole."""

import contextlib
import socket
import threading

_CHUNK = 65536


class Wire:
    """A port that leads to the port `target`; cut at first. Connections that are under way when it is cut break off, and new ones at once."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._ends: set[socket.socket] = set()
        self._whole = False
        threading.Thread(target=self._accept, daemon=True).start()

    def mend(self) -> None:
        """Lead connections on from now on."""
        self._whole = True

    def cut(self) -> None:
        """Break every connection, and lead none on."""
        self._whole = False
        for end in list(self._ends):
            _break(end)

    def close(self) -> None:
        """Cut the wire for good."""
        self.cut()
        _break(self._listener)  # wakes whoever waits in accept
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self._whole:
                    threading.Thread(target=self._carry, args=(near,), daemon=True).start()
                else:
                    near.close()

    def _carry(self, near: socket.socket) -> None:
        with near, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._target)) as far:
            self._ends |= {near, far}
            back = threading.Thread(target=_pump, args=(far, near), daemon=True)
            back.start()
            _pump(near, far)
            back.join()
            self._ends -= {near, far}


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            sink.sendall(data)
    _break(source)
    _break(sink)


def _break(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
