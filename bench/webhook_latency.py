"""Milliseconds from a git host's webhook to the start of the fetch that it asks for.

    python -m bench webhook_latency [--deliveries 100]

A real git host (nginx and git http-backend behind TLS of a private CA, as the tests of mirrors have it) gets a commit, and a signed delivery of GitHub's
form goes to `arena up`. The clock starts before the delivery's first byte is sent, on a connection of its own as a git host makes one, and stops when
the first byte of the fetch reaches the host: a relay before nginx notes it, so TLS, the listing and the fetch itself are not in it. One at a time, each
answered in status.lastHandledSync before the next. Every delivery brings a commit, so every look ends in a fetch. There is no peer that does all of this;
the floor printed beside it is the same stamp as the webhook makes, set through the API and timed in the same way.
Exit 1 when a bar is missed. Needs nginx and fcgiwrap.
"""

import argparse
import base64
import hashlib
import hmac
import http.client
import json
import shutil
import socket
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Sequence
from pathlib import Path

from arena.cli.client import Client
from bench.installation import NAMESPACE, BenchFailed, Installation, ensure, wait_for
from reconcile.cluster.port import ARENA_PROJECT, SECRET
from reconcile.kinds.names import REQUESTED_SYNC
from tests.mirror.https_host import HttpsHost, Upstream, https_host, is_installed

PACE_S = 1.0
"""Between two deliveries: a project takes one a second for as long as they come."""
BAR_MS = 50.0
WARM_UP = 5
FETCH_S = 60.0
PROJECT = "mirrored"
SIGNING_SECRET = b"a secret of this bench alone"
REPOSITORY = "bench"


class Relay:
    """A port before the git host that notes when something first comes from a client, and passes everything on."""

    def __init__(self, port: int) -> None:
        self._host = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self._listener.getsockname()[1])
        self.first: float | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    def expect(self) -> None:
        """Note the next first byte."""
        self.first = None

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            upstream = socket.create_connection(self._host)
            threading.Thread(target=self._pass_on, args=(client, upstream, True), daemon=True).start()
            threading.Thread(target=self._pass_on, args=(upstream, client, False), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, noted: bool) -> None:  # noqa: FBT001 - a thread's argument
        try:
            while data := source.recv(65536):
                if noted and self.first is None:
                    self.first = time.perf_counter()
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            sink.close()


class Bench:
    """One project, its remote, and what asks for a fetch of it."""

    def __init__(self, client: Client, upstream: Upstream, relay: Relay, url: str) -> None:
        self._client = client
        self._upstream = upstream
        self._relay = relay
        self._url = url
        self._address = urllib.parse.urlsplit(client.url)

    def deliver(self) -> tuple[float, float]:
        """Return the milliseconds from a delivery to the fetch, and to its answer."""
        commit = self._upstream.commit()
        payload = {"ref": "refs/heads/main", "before": "0" * 40, "after": commit, "repository": {"clone_url": self._url}}
        body = json.dumps(payload).encode()
        signature = hmac.new(SIGNING_SECRET, body, hashlib.sha256).hexdigest()
        headers = {"Content-Type": "application/json", "X-GitHub-Event": "push", "X-Hub-Signature-256": f"sha256={signature}", "Connection": "close"}
        self._relay.expect()
        started = time.perf_counter()
        connection = http.client.HTTPConnection(self._address.hostname or "", self._address.port, timeout=FETCH_S)
        connection.request("POST", f"/hooks/github/{NAMESPACE}/{PROJECT}", body, headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        answered = time.perf_counter()
        connection.close()
        if response.status != http.HTTPStatus.ACCEPTED:
            raise BenchFailed(f"the delivery was answered {response.status}: {answer}")
        return self._fetch_ms(started, answer["requested"][0]["sync"], commit), 1000 * (answered - started)

    def stamp(self, number: int) -> float:
        """Return the milliseconds from the bare stamp, set through the API, to the fetch."""
        commit, sync = self._upstream.commit(), f"bench-{number}"
        self._relay.expect()
        started = time.perf_counter()
        self._client.patch(ARENA_PROJECT, NAMESPACE, PROJECT, {"metadata": {"annotations": {REQUESTED_SYNC: sync}}})
        return self._fetch_ms(started, sync, commit)

    def await_head(self, commit: str) -> None:
        """Wait until the project has come to a commit."""
        wait_for(lambda: self._head() == commit or None, FETCH_S, f"the project did not come to commit {commit[:12]}: {self._words()}")

    def _fetch_ms(self, started: float, sync: str, commit: str) -> float:
        first = wait_for(lambda: self._relay.first, FETCH_S, f"request {sync} led to no fetch", step_s=0.002)
        wait_for(lambda: self._status().get("lastHandledSync") == sync or None, FETCH_S, f"request {sync} was not answered")
        self.await_head(commit)
        return 1000 * (first - started)

    def _status(self) -> dict[str, object]:
        status: dict[str, object] = self._client.get(ARENA_PROJECT, NAMESPACE, PROJECT).get("status") or {}
        return status

    def _head(self) -> object:
        head = self._status().get("head")
        return head.get("commit") if isinstance(head, dict) else None

    def _words(self) -> str:
        return json.dumps(self._status().get("conditions"))[:500]


def report(name: str, taken: Sequence[float]) -> None:
    """Print one line of figures."""
    print(
        f"{name:<34} {len(taken):>4}   p50 {at(taken, 0.5):6.1f}   p90 {at(taken, 0.9):6.1f}   p99 {at(taken, 0.99):6.1f}   max {max(taken):6.1f} ms"
    )


def at(taken: Sequence[float], share: float) -> float:
    """Return a percentile, the nearest that was measured."""
    return sorted(taken)[min(len(taken) - 1, int(share * len(taken)))]


def carry_out(folder: Path, deliveries: int) -> bool:
    """Do the whole bench in `folder`; say whether the bars are kept."""
    installation = Installation(folder, max_workers=1, environment={"ARENA_ALLOW_NETWORK": "127.0.0.0/8"})
    with https_host(folder / "git") as host:
        relay = Relay(host.port)
        try:
            bench, first = prepare(installation.start(), host, relay)
            bench.await_head(first)
            for _ in range(WARM_UP):
                bench.deliver()
            timed = []
            for _ in range(deliveries):
                time.sleep(PACE_S)
                timed.append(bench.deliver())
            floor = [bench.stamp(number) for number in range(min(deliveries, 30))]
        finally:
            installation.stop()
            relay.close()
    fetches, answers = zip(*timed, strict=True)
    report("delivery to its answer", answers)
    report("a bare stamp to fetch started", floor)
    report("delivery to fetch started", fetches)
    return all([kept("p50", at(fetches, 0.5)), kept("p99", at(fetches, 0.99))])


def prepare(client: Client, host: HttpsHost, relay: Relay) -> tuple[Bench, str]:
    """Make the remote, the Secrets and the project; return them and the remote's first commit."""
    upstream = host.create(REPOSITORY)
    url = host.url(REPOSITORY, host="127.0.0.1").replace(f":{host.port}/", f":{relay.port}/")
    first = upstream.commit()
    for name, key, value in (("remote", "ca.crt", host.ca_certificates.encode()), ("hook", "secret", SIGNING_SECRET)):
        client.create(SECRET, NAMESPACE, {"metadata": {"name": name}, "data": {key: base64.b64encode(value).decode()}})
    webhook = {"host": "github", "secretRef": {"name": "hook", "key": "secret"}}
    ensure(client, ARENA_PROJECT, PROJECT, {"external": {"url": url, "secretRef": {"name": "remote"}, "pollInterval": "1h", "webhook": webhook}})
    return Bench(client, upstream, relay, url), first


def kept(name: str, value: float) -> bool:
    """Print whether a bar is kept."""
    print(f"{'kept  ' if value <= BAR_MS else 'MISSED'} {name} of delivery to fetch started: {value:.1f} ms (at most {BAR_MS:.0f})")
    return value <= BAR_MS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench; return 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="bench webhook_latency", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deliveries", type=int, default=100)
    options = parser.parse_args(arguments)
    if not is_installed():
        print("error: nginx, fcgiwrap and git http-backend are needed")
        return 1
    folder = Path(tempfile.mkdtemp(prefix="arena-hook-"))
    try:
        return 0 if carry_out(folder, options.deliveries) else 1
    except BenchFailed as error:
        print(f"error: {error}")
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main())
