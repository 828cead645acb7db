"""Result lines: the keys and their order of one line of results.jsonl.

Owns the JSON form of an item's result. Must not know where lines are kept.
"""

from typing import Any

from engine.items import CheckResult, Item, ItemError, ItemResult, Spending, Usage, Verdict
from engine.outcomes import Outcome
from engine.records import Record
from engine.results.jsonl import encode, timestamp


def item_json(result: ItemResult, run: str) -> dict[str, Any]:
    """Return `result` as one object of results.jsonl, of the run named `run` ("" outside a run)."""
    item = result.item
    return {
        "item": item.id,
        "run": run,
        "scenario": item.scenario,
        "provider": item.provider,
        "trial": item.trial,
        "perturbation": item.perturbation,
        **({"labels": dict(result.labels)} if result.labels else {}),
        "attempt": result.attempt,
        "verdict": result.verdict.value,
        "reused": result.reused,
        "error": _error_json(result.error),
        "checks": {
            "passed": sum(check.passed for check in result.checks),
            "total": len(result.checks),
            "results": [_check_json(check) for check in result.checks],
        },
        "turns": result.turns,
        **({"unheldTurns": result.unheld_turns} if result.unheld_turns else {}),
        "messages": result.messages,
        "usage": usage_json(result.usage),
        **cost_json(result.spent_usd, is_partial=result.cost_is_partial),
        **others_json(result),
        "providerLatencyMs": result.provider_latency_ms,
        "ttftMs": result.ttft_ms,
        "itemDurationMs": result.duration_ms,
        "startedAt": timestamp(result.started_at),
        "endedAt": timestamp(result.ended_at),
        "digest": result.digest,
    }


def others_json(result: ItemResult) -> dict[str, Any]:
    """Return what others than the candidate used for an item, as `selfPlay` and `judges`, each only if there is something; `costUsd` includes them."""
    spent = {"selfPlay": result.selfplay, "judges": result.judges}
    return {who: _spending_json(spending) for who, spending in spent.items() if spending != Spending()}


def _spending_json(spent: Spending) -> dict[str, Any]:
    return {
        "usage": usage_json(spent.usage),
        **cost_json(spent.cost_usd, is_partial=spent.cost_is_partial),
        **({"attempts": spent.attempts} if spent.attempts else {}),
    }


def item_line(result: ItemResult, run: str) -> bytes:
    """Return `item_json` as one line, without its line end."""
    return encode(item_json(result, run))


def line_without_transcript(record: Record, item: Item, run: str) -> bytes:
    """Return the line of an item of which only the record is left: same keys, no messages, texts of failed checks as far as the record kept them."""
    executed = record.verdict is not Verdict.SKIPPED
    return encode(
        {
            "item": item.id,
            "run": run,
            "scenario": item.scenario,
            "provider": item.provider,
            "trial": item.trial,
            "perturbation": item.perturbation,
            "attempt": record.attempt,
            "verdict": record.verdict.value,
            "reused": record.reused,
            "error": _error_json(record.error),
            "checks": {"passed": record.checks_passed, "total": record.checks_total, "results": _kept_checks(record)},
            "turns": record.turns,
            "messages": [],
            "usage": usage_json(record.usage),
            **cost_json(record.cost_usd, is_partial=record.cost_is_partial),
            "providerLatencyMs": record.provider_latency_ms,
            "ttftMs": record.ttft_ms,
            "itemDurationMs": record.duration_ms,
            "startedAt": timestamp(record.started_at) if executed else None,
            "endedAt": timestamp(record.ended_at) if executed else None,
            "digest": record.digest,
        },
    )


def _kept_checks(record: Record) -> list[dict[str, Any]]:
    failed = {(check.scope, check.turn, check.ordinal): check for check in record.failed}
    checks = []
    for outcome in record.outcomes:
        kept = failed.get((outcome.scope, outcome.turn, outcome.ordinal))
        check = CheckResult(
            scope=outcome.scope,
            turn=outcome.turn,
            type=outcome.type,
            passed=outcome.outcome in {Outcome.PASS, Outcome.SKIPPED},
            name=outcome.name,
            score=kept.score if kept else None,
            message=kept.message if kept else "",
            explanation=kept.explanation if kept else "",
            error=kept.error if kept else "",
            skipped=outcome.outcome is Outcome.SKIPPED,
        )
        checks.append(_check_json(check))
    return checks


def _check_json(check: CheckResult) -> dict[str, Any]:
    return {
        "scope": check.scope.value,
        "turn": check.turn,
        "type": check.type,
        "name": check.name,
        "passed": check.passed,
        "score": check.score,
        "value": check.value,
        "message": check.message,
        "explanation": check.explanation,
        "error": check.error,
        "skipped": check.skipped,
    }


def _error_json(error: ItemError | None) -> dict[str, Any] | None:
    if error is None:
        return None
    return {"kind": error.kind, "message": error.message, **({"attempts": error.attempts} if error.attempts else {})}


def cost_json(cost_usd: float | None, *, is_partial: bool) -> dict[str, Any]:
    """Return `costUsd`, and `costIsPartial` where the cost of something is not known, so that `costUsd` is the least that was spent."""
    return {"costUsd": cost_usd, **({"costIsPartial": True} if is_partial else {})}


def usage_json(usage: Usage) -> dict[str, int]:
    """Return the keys of `usage`."""
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cachedTokens": usage.cached_tokens,
        "reasoningTokens": usage.reasoning_tokens,
    }
