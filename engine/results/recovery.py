"""Records made again from result lines, for the case that the queue's store was lost (survival.md, step 8).

Must not know queues: it says what the files say, the caller decides what counts.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from engine.items import CheckResult, Item, ItemError, ItemResult, Scope, Spending, Usage, Verdict
from engine.records import PlacedLine, Record, record_of
from engine.results.parts import PartReader, scan_parts
from engine.results.summary import PlanView


def recover_records(directory: Path, plan: PlanView) -> Iterator[Record]:
    """Yield one record for each item of `plan` that has a whole line in the run's parts, in item order.

    Of several lines the one with the highest attempt is taken, then the one that ended last. Lines of other items and lines that are no results
    are passed over. Lease facts are lost, but for the worker, whose part it is.

    Raises:
        OutputUnavailable: the parts are there but cannot be read.
    """
    indexes = {item.id: item.index for item in plan.items}
    best: dict[int, tuple[tuple[int, str], PlacedLine]] = {}
    for place, line in scan_parts(directory):
        wire = _object(line)
        index = indexes.get(str(wire.get("item")))
        if index is None:
            continue
        attempt = wire.get("attempt")
        rank = (attempt if isinstance(attempt, int) else 0, str(wire.get("endedAt")))
        if index not in best or rank >= best[index][0]:
            best[index] = (rank, place)
    reader = PartReader(directory)
    try:
        for index in sorted(best):
            record = _record(reader, plan.items[index], best[index][1])
            if record is not None:
                yield record
    finally:
        reader.close()


def result_from_json(wire: dict[str, Any], item: Item) -> ItemResult:
    """Return the result of which `wire` is the object in results.jsonl.

    Raises:
        KeyError, TypeError, ValueError: it is no such object.
    """
    error = wire["error"]
    selfplay, judges = _spent(wire.get("selfPlay")), _spent(wire.get("judges"))
    others = [spent.cost_usd for spent in (selfplay, judges) if spent.cost_usd is not None]
    return ItemResult(
        item=item,
        verdict=Verdict(wire["verdict"]),
        started_at=datetime.fromisoformat(wire["startedAt"]),
        ended_at=datetime.fromisoformat(wire["endedAt"]),
        attempt=wire["attempt"],
        error=ItemError(error["kind"], error["message"], tuple(error.get("attempts", ()))) if error else None,
        checks=[CheckResult(**{**check, "scope": Scope(check["scope"])}) for check in wire["checks"]["results"]],
        turns=wire["turns"],
        messages=wire["messages"],
        usage=_usage(wire["usage"]),
        cost_usd=None if wire["costUsd"] is None else round(wire["costUsd"] - sum(others), 10),
        cost_is_partial=wire.get("costIsPartial", False),
        selfplay=selfplay,
        judges=judges,
        provider_latency_ms=wire["providerLatencyMs"],
        ttft_ms=wire["ttftMs"],
        duration_ms=wire["itemDurationMs"],
        digest=wire["digest"],
        reused=wire["reused"],
    )


def _usage(wire: Mapping[str, int]) -> Usage:
    return Usage(wire["inputTokens"], wire["outputTokens"], wire["cachedTokens"], wire["reasoningTokens"])


def _spent(wire: Mapping[str, Any] | None) -> Spending:
    if wire is None:
        return Spending()
    return Spending(_usage(wire["usage"]), wire["costUsd"], wire.get("costIsPartial", False), tuple(wire.get("attempts", ())))


def _record(reader: PartReader, item: Item, place: PlacedLine) -> Record | None:
    line = reader.line_at(place)
    try:
        return None if line is None else record_of(result_from_json(_object(line), item), line=place)
    except (KeyError, TypeError, ValueError):
        return None


def _object(line: bytes) -> dict[str, Any]:
    try:
        wire = json.loads(line)
    except ValueError:
        return {}
    return wire if isinstance(wire, dict) else {}
