"""The worker: lease items, run them, report each once, leave.

One engine a process, `concurrency` items in flight. Owns the order line written, counted, forgotten; and who renews, counts and hands back.
Must not know Redis, Kubernetes, nor what an item does.
"""

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from engine.errors import CredentialMissing, EngineError, EngineVersionMismatch, FeatureNotSupported
from engine.items import RunUID
from engine.plan import Plan
from engine.queue.port import CREDENTIAL_MISSING, NOT_SUPPORTED, Refusal, WorkQueue
from engine.version import ENGINE_VERSION
from engine.worker_hand import Assignment, Manner
from engine.worker_items import Runner
from engine.worker_output import LineOutput
from engine.worker_patience import PATIENCE_S, ExitReason, Leave, Patience, WorkerExit
from engine.worker_shift import Shift, Signals
from foundation.clock import Clock

__all__ = ["ExitReason", "Worker", "WorkerExit", "WorkerOptions"]

_REFUSALS: Final[Mapping[type[EngineError], str]] = {CredentialMissing: CREDENTIAL_MISSING, FeatureNotSupported: NOT_SUPPORTED}
"""What no other worker of the run would fare better with: its pods are all alike."""

_MAX_MESSAGE = 1024
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME = 100

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How a worker works. Seconds throughout.

    `name` is the pod's or process's; a random part is added for each start. `run_name` goes into the result lines. `concurrency` 0 takes the
    plan's. All workers of a run need one `lease_s`; `renew_s` is at most half of it. After `stop()` begun items may take `grace_s` to end.
    """

    name: str
    run_name: str = ""
    concurrency: int = 0
    lease_s: float = 30.0
    renew_s: float = 10.0
    grace_s: float = 20.0
    patience_s: float = PATIENCE_S


class Worker:
    """One process's part in one run. Used once: `work` until the run needs no worker, or until `stop`.

    `runner_factory` builds the engine from the checked plan; it is not called when nothing may be leased. What it refuses with CredentialMissing or
    FeatureNotSupported stops the run, before its first item. `output` is the run's directory, None
    when there is none.
    """

    def __init__(
        self,
        queue: WorkQueue,
        run: RunUID,
        runner_factory: Callable[[Plan], Runner],
        output: Path | None,
        options: WorkerOptions,
        clock: Clock,
    ) -> None:
        self._queue = queue
        self._run = run
        self._runner_factory = runner_factory
        self._output = output
        self._options = options
        self._clock = clock
        self._patience = Patience(clock, patience_s=options.patience_s)
        self._signals = Signals()
        self.name = f"{_UNSAFE.sub('-', options.name).strip('-._~')[:_MAX_NAME] or 'worker'}-{secrets.token_hex(8)}"

    def stop(self) -> None:
        """Ask the worker to leave: it leases nothing more, hands back what it has not begun and ends what it has. A second call cuts the begun short."""
        if self._signals.stopping.is_set():
            self._signals.hurrying.set()
        self._signals.stopping.set()

    async def work(self) -> WorkerExit:
        """Work until the run is drained, stopped or settled, `stop` was called, or the queue is lost; say which.

        Raises:
            EngineError: `runner_factory` cannot build the engine, for a cause that another worker may not meet.
            ValueError: the plan has the pinned digest, but cannot be read.
        """
        with structlog.contextvars.bound_contextvars(run=self._run, worker=self.name):
            try:
                plan = await self._read_plan()
                leaving = await self._work_through(plan)
            except Leave as leave:
                leaving = leave.exit
            _log.info("worker_left", reason=leaving.reason, cause=leaving.message)
            return leaving

    async def _read_plan(self) -> Plan:
        data = await self._patience.ask_unless(self._signals.stopping, lambda: self._queue.plan(self._run))
        if data is None:
            raise Leave(WorkerExit(ExitReason.SIGNALLED))
        try:
            return Plan.from_bytes(data, engine_version=ENGINE_VERSION)
        except EngineVersionMismatch as error:
            raise Leave(WorkerExit(ExitReason.VERSION_MISMATCH, error.message)) from error

    async def _work_through(self, plan: Plan) -> WorkerExit:
        runner = await self._begin(plan)
        output = LineOutput(self._output, self.name, self._clock)
        assignment = Assignment(self._queue, self._run, plan, self._clock, self._patience, self._how(plan))
        try:
            return await Shift(assignment, runner, output, self._signals).work()
        finally:
            output.close()
            await runner.close()

    async def _begin(self, plan: Plan) -> Runner:
        try:
            return self._runner_factory(plan)
        except tuple(_REFUSALS) as error:
            kind = next(kind for refused, kind in _REFUSALS.items() if isinstance(error, refused))
            message = f"{error.message}; {error.hint}" if error.hint else error.message
            refusal = Refusal(kind, message[:_MAX_MESSAGE])
        await self._patience.ask(lambda: self._queue.refuse(self._run, refusal))
        raise Leave(WorkerExit(ExitReason.REFUSED, refusal.message))

    def _how(self, plan: Plan) -> Manner:
        chosen = self._options
        return Manner(
            worker=self.name,
            run_name=chosen.run_name,
            concurrency=chosen.concurrency or plan.concurrency,
            lease_s=chosen.lease_s,
            renew_s=min(chosen.renew_s, chosen.lease_s / 2),
            grace_s=chosen.grace_s,
        )
