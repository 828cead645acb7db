"""report.html: one page that needs nothing else, neither network nor script.

Owns what the page shows and its bounds. Everything foreign is escaped by the template engine, and the page's own policy forbids scripts, so that a
model's words can become neither markup nor code. The only place that knows jinja2.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO

from engine.amounts import cost_text
from engine.results import charts
from engine.results.jsonl import whole_text
from engine.results.reproduce import of_item

if TYPE_CHECKING:
    from jinja2 import Template

MAX_FAILED = 200
MAX_ITEMS = 1000
MAX_CHECKS = 200
_MAX_MESSAGES = 60
_MAX_TEXT = 4000
_FAILED = frozenset({"fail", "error"})


@dataclass(slots=True)
class _Seen:
    """What one reading of the items gathers."""

    failed: list[dict[str, Any]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    failed_count: int = 0
    count: int = 0


def write_page(out: BinaryIO, summary: Mapping[str, Any], items: Iterable[Mapping[str, Any]]) -> None:
    """Write the page to `out` as UTF-8: `summary` is summary.json's content, `items` are those of results.jsonl, in order.

    At most 200 failed items with their conversations, 1,000 items and 200 checks are shown; the page says what it left out.
    """
    seen = _read(items)
    document = _template().render(
        summary=summary,
        rate=charts.whiskers([{**summary["totals"], "label": "all", "passRate": summary["passRate"]}], "label"),
        scenarios=charts.whiskers(summary["scenarios"], "scenario"),
        providers=charts.whiskers(summary["providers"], "provider"),
        costs=charts.bars([(p["provider"], p["costUsd"], _cost(p)) for p in summary["providers"]]),
        again=summary.get("again", ""),
        latencies=[p for p in summary["providers"] if p["latencyMs"]["p50"] is not None],
        histogram=charts.histogram(seen.latencies),
        matrix=_matrix(summary),
        checks=sorted(summary["assertions"], key=lambda check: (check["failed"] + check["errors"] == 0,))[:MAX_CHECKS],
        seen=seen,
        limits={"failed": MAX_FAILED, "items": MAX_ITEMS, "checks": MAX_CHECKS, "messages": _MAX_MESSAGES},
    )
    out.write(whole_text(document).encode())


def _read(items: Iterable[Mapping[str, Any]]) -> _Seen:
    seen = _Seen()
    for item in items:
        seen.count += 1
        if isinstance(item["providerLatencyMs"], int | float):
            seen.latencies.append(float(item["providerLatencyMs"]))
        if len(seen.rows) < MAX_ITEMS:
            seen.rows.append({key: value for key, value in item.items() if key != "messages"})
        if item["verdict"] in _FAILED:
            seen.failed_count += 1
            if len(seen.failed) < MAX_FAILED:
                seen.failed.append(_bounded(item))
    return seen


def _bounded(item: Mapping[str, Any]) -> dict[str, Any]:
    messages = item["messages"]
    return {
        **item,
        "messages": [{**message, "content": _cut(message.get("content"))} for message in messages[:_MAX_MESSAGES]],
        "more": max(0, len(messages) - _MAX_MESSAGES),
    }


def _cut(text: object) -> str:
    shown = text if isinstance(text, str) else ""
    return shown if len(shown) <= _MAX_TEXT else f"{shown[:_MAX_TEXT]}…"


def _matrix(summary: Mapping[str, Any]) -> list[tuple[str, list[Mapping[str, Any] | None]]]:
    """Return a row a scenario: its cells in the order of the providers, None where a scenario does not run with one."""
    cells = {(cell["scenario"], cell["provider"]): cell for cell in summary["cells"]}
    return [(s["scenario"], [cells.get((s["scenario"], p["provider"])) for p in summary["providers"]]) for s in summary["scenarios"]]


def _cost(spent: Mapping[str, Any]) -> str:
    """Return the cost of an item, or of a summary or a part of it; they are marked in the same way."""
    return cost_text(spent["costUsd"], is_partial=spent.get("costIsPartial", False))


@cache
def _template() -> "Template":
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - only who asks for a page pays for it

    environment = Environment(
        loader=PackageLoader("engine.results"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["duration"] = charts.duration
    environment.filters["cost"] = _cost
    environment.globals["of_item"] = of_item
    return environment.get_template("page.html.jinja")
