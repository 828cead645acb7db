"""What is said of somebody who does not answer, and that a worker says it."""

from structlog.testing import capture_logs

from engine.items import Item, ItemResult
from engine.outages import Outages
from engine.worker import Worker
from foundation.clock import SystemClock
from tests.worker.conftest import OPTIONS, RecordingRunner, Scene, result_of, until


def told(outages: Outages, seconds: range, *troubles: str) -> list[tuple[int, str]]:
    """Return what is said while these providers answer nothing, and when."""
    return [(now, name) for now in seconds for name, _ in outages.news(now, dict.fromkeys(troubles, "the provider answered 500"))]


def test_an_outage_is_told_after_a_while() -> None:
    """A log hears of it after ten seconds, and then once a minute, of each provider by itself."""
    outages = Outages()
    assert list(outages.news(5, {"gpt": "the provider answered 500"})) == []
    assert list(outages.news(15, {"gpt": "the provider answered 500"})) == [("gpt", "the provider answered 500")]
    assert told(outages, range(16, 200), "gpt", "claude") == [
        (26, "claude"),
        (75, "gpt"),
        (86, "claude"),
        (135, "gpt"),
        (146, "claude"),
        (195, "gpt"),
    ]


def test_a_short_outage_is_not_told() -> None:
    """What was answered in between was no outage; one that comes back is told of no more than once a minute."""
    outages = Outages()
    assert told(outages, range(9), "gpt") == told(outages, range(9, 10)) == told(outages, range(10, 20), "gpt") == []
    assert told(outages, range(20, 22), "gpt") == [(20, "gpt")]
    assert told(outages, range(22, 23)) == []
    assert told(outages, range(23, 90), "gpt") == [(80, "gpt")]


class Hasty(SystemClock):
    """A clock on which a minute is over soon."""

    def monotonic(self) -> float:
        """Return a thousand times as many seconds."""
        return super().monotonic() * 1000


async def test_a_worker_says_whom_its_items_wait_for(scene: Scene) -> None:
    """Whoever reads the log of a run that stands still finds why: name and cause, as long as it lasts."""
    await scene.put(1)

    def said() -> list[tuple[str, str, str]]:
        return [(log["name"], log["cause"], log["log_level"]) for log in logs if log["event"] == "does_not_answer"]

    async def waits(item: Item, attempt: int) -> ItemResult:
        await until(lambda: len(said()) > 1)
        runner.troubles.clear()
        return result_of(item, attempt)

    runner = RecordingRunner(waits)
    runner.troubles["gpt"] = "the provider answered 500"
    with capture_logs() as logs:
        await Worker(scene.queue, scene.run, lambda _plan: runner, scene.output, OPTIONS, Hasty()).work()
    assert set(said()) == {("gpt", "the provider answered 500", "warning")}
