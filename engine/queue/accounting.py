"""What one record adds to a run's sums: integers, so that no order of adding changes them.

Money is counted in nano-USD (10^-9 USD). Must not know where the sums are kept.
"""

import re
from dataclasses import dataclass

from engine.items import Verdict
from engine.records import Record
from engine.results.sketches import bucket_of

NANO_PER_USD = 1_000_000_000
TOTAL_OF = {Verdict.PASS: "passed", Verdict.FAIL: "failed", Verdict.ERROR: "errors", Verdict.SKIPPED: "skipped"}
_CELL = re.compile(r"(.+?)/[0-9]+(?:/[^/=]+=.*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Share:
    """One record's part in the sums. `bucket` is the log bucket of its duration, None for an item that never ran; `partial` is 1 where the cost lacks something."""

    verdict: str
    cell: str
    bucket: int | None
    cost_nano_usd: int
    partial: int
    input_tokens: int
    output_tokens: int


def share_of(record: Record) -> Share:
    """Return what counting `record` adds."""
    ran = record.verdict is not Verdict.SKIPPED and record.duration_ms > 0
    return Share(
        verdict=TOTAL_OF[record.verdict],
        cell=cell_of(record.item),
        bucket=bucket_of(record.duration_ms) if ran else None,
        cost_nano_usd=nano_usd(record.cost_usd or 0.0),
        partial=int(record.cost_is_partial),
        input_tokens=record.usage.input_tokens,
        output_tokens=record.usage.output_tokens,
    )


def cell_of(item: str) -> str:
    """Return `scenario/provider` of an item id `scenario/provider/trial[/key=value,…]`."""
    match = _CELL.fullmatch(item)
    return match.group(1) if match else item


def nano_usd(usd: float) -> int:
    """Return an amount in nano-USD, to the nearest."""
    return round(usd * NANO_PER_USD)
