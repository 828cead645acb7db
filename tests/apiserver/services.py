"""Services without addresses of their own: a port of this machine for each, which leads to a ready pod. What kube-proxy and cluster DNS are elsewhere.

`NAME.NAMESPACE.svc:PORT` in a container's variables becomes such a port. API servers come by `egress`, an HTTP CONNECT proxy, as konnectivity has it.
"""

import asyncio
import contextlib
import random
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.apiserver.control_plane import ControlPlane

_NAME = re.compile(r"(?P<name>[a-z0-9-]+)\.(?P<namespace>[a-z0-9-]+)\.svc(?::(?P<port>\d+))?")
_HTTP = 80
_CHUNK = 65536

Backends = Callable[[str, Mapping[str, str], int | str], list[int]]
"""From a namespace, a selector and a target port to the ports of this machine at which ready pods answer."""


def egress_arguments(folder: Path) -> tuple[str, ...]:
    """Return what has an API server send all that is for pods to the proxy of `folder`."""
    connection = {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": str(_socket(folder))}}}
    selections = [{"name": "cluster", "connection": connection}]
    file = folder / "egress.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration", "egressSelections": selections}))
    return (f"--egress-selector-config-file={file}",)


class Services:
    """The Services of one control plane. `backends` knows the pods."""

    def __init__(self, plane: ControlPlane, backends: Backends) -> None:
        self._plane = plane
        self._backends = backends
        self._ports: dict[tuple[str, str, int], asyncio.Server] = {}
        self._opening = asyncio.Lock()
        self._led: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def serving(self, folder: Path | None = None) -> AsyncIterator[None]:
        """Serve until the block ends; with a folder, API servers too."""
        egress = await asyncio.start_unix_server(self._taker(self._connect), _socket(folder)) if folder else None
        try:
            yield
        finally:
            for server in (*self._ports.values(), *([egress] if egress else [])):
                server.close()
            self._ports.clear()
            for task in self._led:
                task.cancel()
            await asyncio.gather(*self._led, return_exceptions=True)

    def _taker(self, serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]) -> Callable[..., None]:
        """Return what takes a connection; its task is ours to end."""

        def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(serve(reader, writer))
            self._led.add(task)
            task.add_done_callback(self._led.discard)

        return take

    async def resolved(self, text: str) -> str:
        """Return a text with the addresses of Services replaced."""
        for found in [*_NAME.finditer(text)][::-1]:
            port = await self.port(found["namespace"], found["name"], int(found["port"] or _HTTP))
            text = f"{text[: found.start()]}127.0.0.1:{port}{text[found.end() :]}"
        return text

    async def port(self, namespace: str, name: str, port: int) -> int:
        """Return the port of this machine that leads to a Service's port. The Service need not exist yet."""
        key = (namespace, name, port)

        async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            service = await self._service(lambda obj: (obj["metadata"]["namespace"], obj["metadata"]["name"]) == (namespace, name))
            await self._lead(service, port, reader, writer)

        async with self._opening:  # two pods may ask for one Service at once
            if key not in self._ports:
                self._ports[key] = await asyncio.start_server(self._taker(lead), "127.0.0.1", 0)
        number: int = self._ports[key].sockets[0].getsockname()[1]
        return number

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve `CONNECT CLUSTER-IP:PORT`."""
        head = await reader.readuntil(b"\r\n\r\n")
        address, _, port = head.split()[1].decode().rpartition(":")
        service = await self._service(lambda obj: obj["spec"].get("clusterIP") == address)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await self._lead(service, int(port), reader, writer)

    async def _service(self, is_it: Callable[[Any], bool]) -> Any:
        listing = await asyncio.to_thread(self._plane.json, "/api/v1/services")
        return next((service for service in listing["items"] if is_it(service)), None)

    async def _lead(self, service: Any, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass bytes on to one ready pod and back; nobody is there: the connection ends, as one to a Service without endpoints does."""
        with contextlib.closing(writer):
            targets = [] if service is None else self._targets(service, port)
            if not targets:
                return
            with contextlib.suppress(OSError):
                there, back = await asyncio.open_connection("127.0.0.1", random.choice(targets))  # noqa: S311 - spreads load
                with contextlib.closing(back):
                    await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))

    def _targets(self, service: Any, port: int) -> list[int]:
        wanted = [each for each in service["spec"]["ports"] if each["port"] == port]
        return self._backends(service["metadata"]["namespace"], service["spec"]["selector"], wanted[0]["targetPort"]) if wanted else []


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


def _socket(folder: Path) -> Path:
    return folder / "egress.sock"
