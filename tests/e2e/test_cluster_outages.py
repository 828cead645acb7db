"""What the processes of a cluster say and do while the API server or the queue is away: they wait, tell by their probes, and go on."""

import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from redis import Redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from tests.apiserver.control_plane import ADMIN_TOKEN, ControlPlane, kubeconfig
from tests.apiserver.installation import START_S, Installation, Replica, installed
from tests.apiserver.wire import Wire
from tests.e2e.installation import until
from tests.ports import free_ports

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(300, func_only=True)]


@pytest.fixture
def wire(control_plane: ControlPlane) -> Iterator[Wire]:
    """Return a wire to the API server, which is cut."""
    wire = Wire(urlsplit(control_plane.url).port or 0)
    yield wire
    wire.close()


@pytest.fixture
def by_wire(control_plane: ControlPlane, wire: Wire, tmp_path: Path) -> str:
    """Return a kubeconfig that leads through the wire."""
    path = tmp_path / "by-wire"
    path.write_text(yaml.safe_dump(kubeconfig(f"https://127.0.0.1:{wire.port}", control_plane.ca_file, {"token": ADMIN_TOKEN})))
    return str(path)


@pytest.fixture
def arena(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Installation]:
    """Return an installation without any process but its queue server."""
    with installed(control_plane, tmp_path / "arena", controllers=0, git_servers=0) as running:
        yield running


def says(replica: Replica, *troubles: str, is_ready: bool = False) -> None:
    """Wait until a process tells exactly these troubles, and is not ready, or ready where there are none; with `is_ready` it is all the same."""

    def look() -> bool:
        answer = replica.ask()
        found = [line.split()[1].rstrip(":") for line in answer.text.splitlines() if line.startswith(("[-]", "[!]"))]
        return found == list(troubles) and answer.is_ready == (is_ready or not troubles) and answer.code != 0

    until(look, f"{replica.name} to say {troubles or 'that it is ready'}", deadline_s=START_S)
    assert replica.ask("healthz").is_ready


def test_a_start_without_anybody(arena: Installation, wire: Wire, by_wire: str) -> None:
    """A controller that finds neither API server nor queue waits for them, says so, and then leads."""
    arena.queue.kill()
    controller = arena.start_controller(KUBECONFIG=by_wire)
    git_server = arena.start_git_server(KUBECONFIG=by_wire)
    says(controller, "api-server", "queue", "lease")
    says(git_server, "api-server")
    assert controller.is_running
    wire.mend()
    says(controller, "queue")
    says(git_server)
    arena.queue.start()
    says(controller)
    assert arena.await_leader() is controller


def test_a_queue_that_is_away(arena: Installation) -> None:
    """While the queue is away no controller is ready, and all are when it is back."""
    leader, standby = [arena.start_controller(), arena.start_controller()]
    says(leader)
    says(standby)
    arena.queue.kill()
    says(leader, "queue")
    says(standby, "queue")
    arena.queue.start()
    says(leader)
    says(standby)


def test_a_queue_that_is_away_from_who_reviews(arena: Installation) -> None:
    """A controller that reviews what people write is ready only once it has a queue; when that is away later it says so, and reviews all the same."""
    arena.queue.kill()
    controller = arena.start_controller(ARENA_WEBHOOK_PORT=str(free_ports(1)[0]))
    says(controller, "queue")
    arena.queue.start()
    says(controller)
    arena.queue.kill()
    says(controller, "queue", is_ready=True)


def test_a_queue_that_turns_out_to_be_anothers(arena: Installation) -> None:
    """A leader that finds, when the queue is back, that another cluster holds it ends its time as leader and waits; its process goes on."""
    store = Redis.from_url(arena.queue.url, retry=Retry(ConstantBackoff(0.2), 100))
    store.set("arena:arena:cluster", "another cluster")
    arena.queue.kill(signal.SIGTERM)
    controller = arena.start_controller()
    says(controller, "queue")
    assert arena.await_leader() is controller
    arena.queue.start()
    says(controller, "ownership")
    assert controller.is_running
    store.delete("arena:arena:cluster")
    store.close()
    says(controller)
    assert controller.is_running


def test_a_leader_that_is_cut_off(arena: Installation, wire: Wire, by_wire: str) -> None:
    """A leader that no longer reaches the API server gives up, another one leads, and it stands by when it is back."""
    wire.mend()
    first = arena.start_controller(KUBECONFIG=by_wire).await_ready()
    assert arena.await_leader() is first
    second = arena.start_controller().await_ready()
    wire.cut()
    says(first, "api-server", "lease")
    assert arena.await_leader(other_than=first) is second
    until(lambda: any(event["event"] == "leader.lost" for event in first.events()), "the first leader to give up", deadline_s=START_S)
    wire.mend()
    says(first)
    assert arena.leader() is second
    assert first.is_running
