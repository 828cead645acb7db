"""What keeps a spec from being carried out, as a value: for conditions, admission and the CLI alike.

Knows no kind.
"""

from typing import NamedTuple


class Problem(NamedTuple):
    """The reason for the condition, the field (`spec.schedule.cron`), and a message that stands alone, without a full stop."""

    reason: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"
