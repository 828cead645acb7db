"""What the tests of whole processes share: one running installation a test session, and a namespace of it a test."""

import asyncio
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings

from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.server_fixture import serving as serving_kubernetes
from tests.e2e.installation import Namespace, Server, serving
from tests.loops import Loop

# A shell that starts us in the background (`make test &`) has us ignore ctrl-c, and so would the programs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes is the machine's matter. A busy one needs more than Hypothesis' 200 ms, and on a clean clone the table of characters is made
# within the first example of whichever test comes first. The examples of a test may share its folder: each writes what it reads.
settings.register_profile("arena", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
settings.load_profile("arena")


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run tests on the loop that servers and workers run on: where it differs from asyncio's own, it is right that they see it."""
    return {"uvloop": Loop}


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run one `arena up` for all tests that do not harm it."""
    folder = tmp_path_factory.mktemp("arena")
    options = ("--max-workers", "2", "--allow-network", "127.0.0.0/8")  # the git hosts of tests are on loopback
    with serving(folder / "state", folder / "home", *options) as running:
        yield running


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Run one real Kubernetes API server with our kinds for all tests that do not harm it."""
    with serving_kubernetes(tmp_path_factory.mktemp("apiserver")) as running:
        yield running


@pytest.fixture
def namespace(installation: Server, tmp_path: Path) -> Namespace:
    """Return a namespace of the shared server that no other test uses."""
    return Namespace(installation, f"t-{uuid4().hex[:10]}", tmp_path)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Return the shared corpus; the test is skipped where it is absent."""
    folder = Path(__file__).parents[2] / "shared" / "corpus"
    if not folder.is_dir():
        pytest.skip(f"no shared corpus at {folder}")
    return folder
