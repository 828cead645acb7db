"""What can be wrong with the pods that an ArenaJob asks for."""

from collections.abc import Sequence

from reconcile.errors import ReconcileError


class OverridesRefused(ReconcileError):
    """`spec.workers.podOverrides` cannot be laid over the worker pods. `problems` are sentences, each of which names its field."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(f"cannot lay spec.workers.podOverrides over the worker pods: {'; '.join(problems)}")
        self.problems = tuple(problems)
