"""The string map of `status.result.summary`, as the ArenaRun specification fixes it.

Every value is a string. Must not know how it reaches a status.
"""

from typing import TYPE_CHECKING

from engine.results.jsonl import encode

if TYPE_CHECKING:
    from engine.results.summary import Summary

MAX_DETAILS_BYTES = 256 * 1024
"""Both stores refuse objects over 1.5 MiB, so `details` is bounded."""

_ERRORS_WHEN_TRUNCATED = 20


def spec_summary(summary: "Summary") -> dict[str, str]:
    """Return `verdict` (ours), the keys of the specification, then what applies of `costIsPartial`, `budgetBreached`, `drainedItems`, `lostTranscripts` and `mocked`."""
    total = summary.total
    counts = total.counts
    tokens = total.usage.input_tokens + total.usage.output_tokens
    cost = total.cost_usd or 0.0
    budget_breached = summary.stopped == "budget"
    entries = {
        "verdict": summary.verdict.value,
        "passRate": f"{100 * counts.passed / counts.executed if counts.executed else 0:.1f}",
        "totalItems": str(counts.executed),
        "passedItems": str(counts.passed),
        "failedItems": str(counts.failed + counts.errors),
        "avgDurationMs": f"{total.mean_duration_ms:.0f}",
        "totalTokens": str(tokens) if tokens > 0 else "",
        "totalCost": f"{cost:.4f}" if cost > 0 or budget_breached else "",
        "costIsPartial": "true" if cost > 0 and total.cost_is_partial else "",
        "details": details(summary).decode(),
        "budgetBreached": "true" if budget_breached else "",
        "drainedItems": str(counts.skipped) if counts.skipped or budget_breached else "",
        "lostTranscripts": str(summary.lost_transcripts) if summary.lost_transcripts else "",
        "mocked": "true" if summary.identity.mocked else "",
    }
    return {key: value for key, value in entries.items() if value}


def details(summary: "Summary") -> bytes:
    """Return the JSON of `details`: scenarios, providers, cells, assertions and errors, at most `MAX_DETAILS_BYTES`.

    Over that, `truncated` is true, the first 20 errors stay, and assertions, cells and scenarios go in this order until it fits.
    """
    parts = summary.breakdown_json()
    errors = [error.to_json() for error in summary.errors]
    whole = encode({**parts, "errors": errors})
    if len(whole) <= MAX_DETAILS_BYTES:
        return whole
    few = {"truncated": True, "errors": errors[:_ERRORS_WHEN_TRUNCATED]}
    for dropped in ("assertions", "cells", "scenarios", "providers"):
        del parts[dropped]
        shorter = encode({**parts, **few})
        if len(shorter) <= MAX_DETAILS_BYTES:
            break
    return shorter
