"""The worker's parts by themselves: delays, settings, where lines go."""

import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.items import RunUID
from engine.results.parts import scan_parts
from engine.worker_items import retry_delay_s
from engine.worker_output import ASK_AGAIN_S, LineOutput
from engine.worker_settings import WorkerMisconfigured, WorkerSettings, from_environment, packed, unpacked
from foundation.clock import FakeClock


@pytest.mark.parametrize(
    ("attempt", "retry_after_s", "chance", "expected_s"),
    [
        pytest.param(1, None, 0.0, 5.0, id="the first delay is the backoff"),
        pytest.param(3, None, 0.0, 20.0, id="each attempt doubles it"),
        pytest.param(1, None, 1.0, 2.5, id="chance takes up to half off"),
        pytest.param(12, None, 0.0, 300.0, id="at most five minutes"),
        pytest.param(999, None, 0.0, 300.0, id="any attempt has a delay"),
        pytest.param(1, 60.0, 0.0, 60.0, id="a provider's wish is waited out"),
        pytest.param(1, 60.0, 1.0, 66.0, id="and up to a tenth more"),
        pytest.param(3, 1.0, 0.0, 20.0, id="the longer of the two counts"),
    ],
)
def test_retry_delay(attempt: int, retry_after_s: float | None, chance: float, expected_s: float) -> None:
    """Retries back off exponentially with jitter, and honour Retry-After."""
    assert retry_delay_s(attempt=attempt, backoff_s=5.0, retry_after_s=retry_after_s, chance=chance) == pytest.approx(expected_s)


def test_settings_survive_the_environment() -> None:
    """What is written into a worker's environment is read back unchanged."""
    settings = WorkerSettings(
        RunUID("uid"),
        "unix:///q.sock",
        "home",
        Path("/c"),
        output=Path("/o"),
        media_cache=Path("/m"),
        run_name="demo",
        name="w-1",
        concurrency=7,
        workers=3,
        lease_s=5.0,
        grace_s=3.5,
        crash_at="put.after:2",
        verbose=True,
    )
    assert from_environment(settings.to_environment()) == settings
    assert from_environment(replace(settings, output=None).to_environment()).output is None


@pytest.mark.parametrize(
    ("change", "named"),
    [
        pytest.param({"ARENA_RUN_UID": ""}, "ARENA_RUN_UID", id="no run"),
        pytest.param({"REDIS_URL": ""}, "REDIS_URL", id="no queue"),
        pytest.param({"ARENA_CONCURRENCY": "many"}, "ARENA_CONCURRENCY", id="not a number"),
        pytest.param({"ARENA_LEASE_SECONDS": "0"}, "ARENA_LEASE_SECONDS", id="out of range"),
        pytest.param({"ARENA_LEASE_SECONDS": "nan"}, "ARENA_LEASE_SECONDS", id="no number at all"),
    ],
)
def test_bad_settings_are_named(change: dict[str, str], named: str) -> None:
    """A missing or unreadable variable is an error that names it."""
    good = WorkerSettings(RunUID("uid"), "unix:///q.sock", "home", Path("/c")).to_environment()
    with pytest.raises(WorkerMisconfigured, match=named):
        from_environment(good | change)


@pytest.fixture
def small_files() -> Iterator[None]:
    """Let no file grow beyond 4 KiB, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("small_files")
def test_a_failing_part_is_followed_by_a_new_one(tmp_path: Path) -> None:
    """When a part cannot take a batch, the whole batch goes into a new part, and both can be read as far as they are whole."""
    output = LineOutput(tmp_path, "w-1", FakeClock())
    first, second = [b"a" * 3000], [b"b" * 1000, b"c" * 1000]
    places = output.write(first) + output.write(second)
    output.close()
    assert [place and place.part for place in places] == ["w-1.jsonl", "w-1-1.jsonl", "w-1-1.jsonl"]
    assert set(places) <= {place for place, _ in scan_parts(tmp_path)}


async def test_a_directory_that_comes_back_is_used_again(tmp_path: Path) -> None:
    """Without a directory no line is kept; it is asked again after a while, not at every batch."""
    clock, directory = FakeClock(), tmp_path / "run"
    output = LineOutput(directory, "w-1", clock)
    assert output.write([b"{}"]) == [None]
    directory.mkdir()
    assert output.write([b"{}"]) == [None]
    await clock.advance(ASK_AGAIN_S)
    assert output.write([b"{}"]) != [None]
    output.close()


def test_what_is_given_as_data_never_replaces_a_variable_of_the_process() -> None:
    """Variables that a process gets as data are seen beside its own, which stay as they are; without any nothing is added."""
    process = {"PATH": "/usr/bin"}
    assert unpacked(process | packed({"TEAM": "support", "PATH": "/theirs"})) == {"PATH": "/usr/bin", "TEAM": "support"}
    assert packed({}) == {}
    assert unpacked(process) == process
