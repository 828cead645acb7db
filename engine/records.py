"""Accounting records: what is kept of an item once it is counted, at most 4 KiB each.

A record alone must allow every statistic to be computed again: verdict, each check's outcome, usage, cost, latency, and where the
item's line lies. No transcript. Must not know how a queue stores it.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from engine.items import MAX_RECORD_BYTES, CheckResult, ItemError, ItemResult, Scope, Usage, Verdict
from engine.outcomes import CheckOutcome, Outcome, pack_outcomes, pack_place, titles_of, unpack_outcomes, unpack_place
from engine.results.jsonl import encode

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MAX_TEXT = 1000
_MAX_NAME = 128
_MAX_FAILED = 50
_MAX_OUTCOMES = 2000
_NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class FailedCheck:
    """A check that did not pass, with as much of its text as fits. `error` is set when it could not be evaluated."""

    scope: Scope
    turn: int | None
    ordinal: int
    type: str
    name: str = ""
    score: float | None = None
    message: str = ""
    explanation: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class PlacedLine:
    """Where an item's line lies: the part's file name, byte offset, length in bytes without the line end, and the hex SHA-256 of those bytes."""

    part: str
    offset: int
    length: int
    sha256: str


class LeaseFacts(Protocol):
    """What a record keeps of the lease under which its item ran."""

    @property
    def worker(self) -> str:
        """Return the worker's name, with the random part of its process start."""

    @property
    def entry(self) -> str:
        """Return the queue's entry id."""

    @property
    def deliveries(self) -> int:
        """Return how often the entry was handed out."""

    @property
    def crashes(self) -> int:
        """Return how often the item lost its worker."""


@dataclass(frozen=True, slots=True)
class Record:
    """The accounting record of one item.

    `item` is the item's id; `index`, its place in the plan, is its identity. `part` is "" when no line was written.
    `outcomes` has every check in order of scope and turn, except the last `outcomes_cut`; `failed` the first failed checks, except `failed_cut` others.
    """

    item: str
    index: int
    verdict: Verdict
    started_at: datetime
    ended_at: datetime
    attempt: int = 1
    crashes: int = 0
    reused: bool = False
    turns: int = 0
    checks_passed: int = 0
    checks_total: int = 0
    failed: tuple[FailedCheck, ...] = ()
    failed_cut: int = 0
    outcomes: tuple[CheckOutcome, ...] = ()
    outcomes_cut: int = 0
    usage: Usage = _NO_USAGE
    cost_usd: float | None = None
    cost_is_partial: bool = False
    provider_latency_ms: float = 0.0
    ttft_ms: float | None = None
    duration_ms: float = 0.0
    error: ItemError | None = None
    digest: str = ""
    part: str = ""
    offset: int = 0
    length: int = 0
    sha256: str = ""
    worker: str = ""
    entry: str = ""
    deliveries: int = 0

    @property
    def line(self) -> PlacedLine | None:
        """Return where the item's line lies, None when none was written."""
        return PlacedLine(self.part, self.offset, self.length, self.sha256) if self.part else None

    def to_bytes(self) -> bytes:
        """Return compact UTF-8 JSON of at most `MAX_RECORD_BYTES`.

        What is too long loses, in this order: explanations, messages, failed checks (counted in `failed_cut`), names of checks, outcomes (counted in `outcomes_cut`).

        Raises:
            ValueError: the names of worker, entry and part alone do not fit.
        """
        data = _encode(self)
        return data if len(data) <= MAX_RECORD_BYTES else _shrink(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Record":
        """Return the record of which `data` is the JSON.

        Raises:
            ValueError: `data` is not a record.
        """
        try:
            return _decode(json.loads(data))
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise ValueError(f"cannot read record: {error!r}") from error


def record_of(result: ItemResult, *, line: PlacedLine | None = None, lease: LeaseFacts | None = None) -> Record:
    """Return the accounting record of `result`, whose line was written to `line` (None: nowhere) under `lease` (None: no queue)."""
    outcomes = _outcomes(result.checks)
    failed = [_failed(check, ordinal) for ordinal, check in _numbered(result.checks) if not check.passed and not check.skipped]
    error = result.error and ItemError(result.error.kind[:_MAX_NAME], result.error.message[:_MAX_TEXT])
    return Record(
        item=result.item.id,
        index=result.item.index,
        verdict=result.verdict,
        started_at=result.started_at,
        ended_at=result.ended_at,
        attempt=result.attempt,
        crashes=lease.crashes if lease else 0,
        reused=result.reused,
        turns=result.turns,
        checks_passed=sum(check.passed for check in result.checks),
        checks_total=len(result.checks),
        failed=tuple(failed[:_MAX_FAILED]),
        failed_cut=max(0, len(failed) - _MAX_FAILED),
        outcomes=outcomes[:_MAX_OUTCOMES],
        outcomes_cut=max(0, len(outcomes) - _MAX_OUTCOMES),
        usage=result.usage,
        cost_usd=result.spent_usd,
        cost_is_partial=result.cost_is_partial,
        provider_latency_ms=result.provider_latency_ms,
        ttft_ms=result.ttft_ms,
        duration_ms=result.duration_ms,
        error=error,
        digest=result.digest,
        part=line.part if line else "",
        offset=line.offset if line else 0,
        length=line.length if line else 0,
        sha256=line.sha256 if line else "",
        worker=lease.worker if lease else "",
        entry=lease.entry if lease else "",
        deliveries=lease.deliveries if lease else 0,
    )


def bare_record(index: int, item: str, verdict: Verdict, *, at: datetime, error: ItemError | None = None, crashes: int = 0) -> Record:
    """Return the record of an item that has no result: skipped after a stop, or an error because its worker was lost. It starts and ends `at`.

    What a lost worker spent on it is not known.
    """
    return Record(item=item, index=index, verdict=verdict, started_at=at, ended_at=at, error=error, crashes=crashes, cost_is_partial=crashes > 0)


def _numbered(checks: Iterable[CheckResult]) -> Iterator[tuple[int, CheckResult]]:
    """Yield each check after its ordinal within its scope and turn."""
    counts: dict[tuple[Scope, int | None], int] = {}
    for check in checks:
        place = (check.scope, check.turn)
        ordinal = counts.get(place, 0)
        counts[place] = ordinal + 1
        yield ordinal, check


def _outcomes(checks: Iterable[CheckResult]) -> tuple[CheckOutcome, ...]:
    places: dict[tuple[Scope, int | None], list[CheckOutcome]] = {}
    for ordinal, check in _numbered(checks):
        outcome = CheckOutcome(check.scope, check.turn, ordinal, check.type[:_MAX_NAME], check.name[:_MAX_NAME], _outcome(check), check.tolerance)
        places.setdefault((check.scope, check.turn), []).append(outcome)
    return tuple(outcome for place in places.values() for outcome in place)


def _outcome(check: CheckResult) -> Outcome:
    if check.skipped:
        return Outcome.SKIPPED
    if check.error:
        return Outcome.ERROR
    return Outcome.PASS if check.passed else Outcome.FAIL


def _failed(check: CheckResult, ordinal: int) -> FailedCheck:
    return FailedCheck(
        scope=check.scope,
        turn=check.turn,
        ordinal=ordinal,
        type=check.type[:_MAX_NAME],
        name=check.name[:_MAX_NAME],
        score=check.score,
        message=check.message[:_MAX_TEXT],
        explanation=check.explanation[:_MAX_TEXT],
        error=check.error[:_MAX_TEXT],
    )


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def _encode(record: Record) -> bytes:
    usage, titles = record.usage, titles_of(record.outcomes)
    wire = {
        "item": record.item,
        "i": record.index,
        "v": record.verdict,
        "from": _microseconds(record.started_at),
        "to": _microseconds(record.ended_at),
        "attempt": record.attempt,
        "crashes": record.crashes,
        "reused": int(record.reused),
        "turns": record.turns,
        "checks": [record.checks_passed, record.checks_total],
        "failed": [_pack_failed(check) for check in record.failed],
        "failedCut": record.failed_cut,
        "titles": list(titles),
        "outcomes": pack_outcomes(record.outcomes, titles),
        "outcomesCut": record.outcomes_cut,
        "usage": [usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens],
        "usd": record.cost_usd,
        **({"partial": 1} if record.cost_is_partial else {}),
        "latency": record.provider_latency_ms,
        "ttft": record.ttft_ms,
        "ms": record.duration_ms,
        "error": [record.error.kind, record.error.message] if record.error else None,
        "digest": record.digest,
        "line": [record.part, record.offset, record.length, record.sha256],
        "lease": [record.worker, record.entry, record.deliveries],
    }
    return encode(wire)


def _decode(wire: dict[str, Any]) -> Record:
    part, offset, length, sha256 = wire["line"]
    worker, entry, deliveries = wire["lease"]
    return Record(
        item=wire["item"],
        index=wire["i"],
        verdict=Verdict(wire["v"]),
        started_at=_EPOCH + wire["from"] * _MICROSECOND,
        ended_at=_EPOCH + wire["to"] * _MICROSECOND,
        attempt=wire["attempt"],
        crashes=wire["crashes"],
        reused=bool(wire["reused"]),
        turns=wire["turns"],
        checks_passed=wire["checks"][0],
        checks_total=wire["checks"][1],
        failed=tuple(_unpack_failed(check) for check in wire["failed"]),
        failed_cut=wire["failedCut"],
        outcomes=tuple(unpack_outcomes(wire["outcomes"], wire["titles"])),
        outcomes_cut=wire["outcomesCut"],
        usage=Usage(*wire["usage"]),
        cost_usd=wire["usd"],
        cost_is_partial=bool(wire.get("partial")),
        provider_latency_ms=wire["latency"],
        ttft_ms=wire["ttft"],
        duration_ms=wire["ms"],
        error=ItemError(*wire["error"]) if wire["error"] else None,
        digest=wire["digest"],
        part=part,
        offset=offset,
        length=length,
        sha256=sha256,
        worker=worker,
        entry=entry,
        deliveries=deliveries,
    )


def _pack_failed(check: FailedCheck) -> list[Any]:
    return [pack_place(check.scope, check.turn), check.ordinal, check.type, check.name, check.score, check.message, check.explanation, check.error]


def _unpack_failed(wire: list[Any]) -> FailedCheck:
    scope, turn = unpack_place(wire[0])
    return FailedCheck(scope, turn, *wire[1:])


def _shrink(record: Record) -> bytes:
    """Return the bytes of the first of ever smaller versions of `record` that fits."""
    for smaller in _smaller(record):
        data = _encode(smaller)
        if len(data) <= MAX_RECORD_BYTES:
            return data
    raise ValueError(f"cannot fit the record of item {record.index} into {MAX_RECORD_BYTES} bytes: names of worker, entry and part are too long")


def _smaller(record: Record) -> Iterator[Record]:
    for limit in (200, 60, 0):
        record = replace(record, failed=tuple(replace(check, explanation=check.explanation[:limit]) for check in record.failed))
        yield record
    for limit in (300, 150, 60):
        record = _with_shorter_messages(record, limit)
        yield record
    while record.failed:
        kept = len(record.failed) // 2
        record = replace(record, failed=record.failed[:kept], failed_cut=record.failed_cut + len(record.failed) - kept)
        yield record
    record = replace(record, outcomes=tuple(outcome._replace(name="") for outcome in record.outcomes))
    yield record
    while record.outcomes:
        kept = len(record.outcomes) // 2
        record = replace(record, outcomes=record.outcomes[:kept], outcomes_cut=record.outcomes_cut + len(record.outcomes) - kept)
        yield record
    yield replace(record, item=record.item[:256], digest=record.digest[:_MAX_NAME])


def _with_shorter_messages(record: Record, limit: int) -> Record:
    failed = tuple(replace(check, message=check.message[:limit], error=check.error[:limit]) for check in record.failed)
    error = record.error and ItemError(record.error.kind[:_MAX_NAME], record.error.message[:limit])
    return replace(record, failed=failed, error=error)
