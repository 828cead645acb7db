"""report.md: what a person reads first. Verdict, commit, pass rate, matrix, failed items with the line that reproduces each, cost, latency.

Streams: failed items come from records in item order; what is listed is bounded. Must not read transcripts.
"""

from collections.abc import Iterable
from typing import BinaryIO

from engine.amounts import cost_text
from engine.items import Item, Verdict
from engine.records import FailedCheck, Record
from engine.results.intervals import Interval
from engine.results.junit import describe_check
from engine.results.markdown import code, table
from engine.results.reproduce import reproduce_command
from engine.results.summary import PERCENTILES, PlanView, Summary
from engine.results.tally import Tally

_MAX_ITEMS = 200
_MAX_ROWS = 200
_MAX_COLUMNS = 12
_MAX_CHECKS = 5
_SECOND_MS = 1000


def write_report(out: BinaryIO, summary: Summary, plan: PlanView, cases: Iterable[tuple[Item, Record]]) -> None:
    """Write the report to `out` as UTF-8. `cases` come in item order."""
    out.writelines(section.encode() for section in (_headline(summary), _facts(summary), _matrix(summary)))
    listed = failed = 0
    for item, record in cases:
        if record.verdict not in {Verdict.FAIL, Verdict.ERROR}:
            continue
        failed += 1
        if listed < _MAX_ITEMS:
            heading = "\n## Failed items\n" if not listed else ""
            out.write((heading + _failed_item(plan, item, record)).encode())
            listed += 1
    if failed > listed:
        out.write(f"\nand {failed - listed} more: see `results.jsonl`.\n".encode())


def percent(rate: Interval) -> str:
    """Return a pass rate for people: `96.7 % (91.7 to 98.7)`; `–` when nothing was counted."""
    if rate.value is None or rate.low is None or rate.high is None:
        return "–"
    return f"{100 * rate.value:.1f} % ({100 * rate.low:.1f} to {100 * rate.high:.1f})"


def milliseconds(value: float) -> str:
    """Return a duration for people, with three significant digits below a second."""
    return f"{value:.0f} ms" if value >= _SECOND_MS else f"{value:.3g} ms"


def _headline(summary: Summary) -> str:
    identity = summary.identity
    name = f" · {code(identity.run)}" if identity.run else ""
    mocked = " · MOCKED" if identity.mocked else ""
    note = "\n**MOCKED**: every provider was replaced by the mock; this says nothing about a model.\n" if identity.mocked else ""
    return f"# {summary.verdict.value}{name}{mocked}\n{note}\n"


def _facts(summary: Summary) -> str:
    identity, total = summary.identity, summary.total
    counts, latency = total.counts, total.latency
    quantiles = [(p, latency.quantile(p / 100)) for p in PERCENTILES]
    confidence = f"{100 * summary.rate.confidence:g} % interval, {summary.rate.method}"
    facts = {
        "Commit": code(identity.commit) if identity.commit else "",
        "Ref": code(identity.ref) if identity.ref else "",
        "Job": code(identity.job) if identity.job else "",
        "Pass rate": f"{percent(summary.rate)}, {confidence}",
        "Items": f"{counts.items}: {counts.passed} passed, {counts.failed} failed, {counts.errors} errors, {counts.skipped} skipped",
        "Stopped": f"{code(summary.stopped)}, {counts.skipped} items not run" if summary.stopped else "",
        "Errors": ", ".join(f"{code(kind)} {count}" for kind, count in summary.error_kinds[:20]),
        "Tokens": f"{total.usage.input_tokens} in, {total.usage.output_tokens} out",
        "Cost": cost_text(total.cost_usd, is_partial=total.cost_is_partial),
        "Provider latency": " · ".join(f"p{p} {milliseconds(value)}" for p, value in quantiles if value is not None) or "–",
        "Lost transcripts": str(summary.lost_transcripts) if summary.lost_transcripts else "",
    }
    return table(["", ""], [[f"**{name}**", value] for name, value in facts.items() if value])


def _matrix(summary: Summary) -> str:
    providers = list(summary.providers)[:_MAX_COLUMNS]
    scenarios = list(summary.scenarios)[:_MAX_ROWS]
    rows = [[code(scenario), *(_cell(summary.cells.get((scenario, provider))) for provider in providers)] for scenario in scenarios]
    rows.append(["**all**", *(percent(summary.provider_rate(provider)) for provider in providers)])
    left_out = (len(summary.scenarios) - len(scenarios), len(summary.providers) - len(providers))
    note = f"\n{left_out[0]} more scenarios and {left_out[1]} more providers: see `summary.json`.\n" if any(left_out) else ""
    return f"\n## Passed of executed\n\n{table(['scenario', *map(code, providers)], rows)}{note}"


def _cell(tally: Tally | None) -> str:
    if tally is None:
        return ""
    counts = tally.counts
    if not counts.executed:
        return "–"
    errors = f", {counts.errors} errors" if counts.errors else ""
    return f"{'' if counts.passed == counts.executed else '✗ '}{counts.passed}/{counts.executed}{errors}"


def _failed_item(plan: PlanView, item: Item, record: Record) -> str:
    lines = [f"\n### {code(item.id)} · {record.verdict.value}\n\n"]
    if record.error:
        lines.append(f"- {code(record.error.kind)}: {code(record.error.message, 400)}\n")
    lines += [_failed_check(check) for check in record.failed[:_MAX_CHECKS]]
    more = len(record.failed) - _MAX_CHECKS + record.failed_cut
    if more > 0:
        lines.append(f"- and {more} more failed checks\n")
    if again := reproduce_command(plan, item):
        lines.append(f"- again: {code(again, 1000)}\n")
    return "".join(lines)


def _failed_check(check: FailedCheck) -> str:
    why = f" · {code(check.explanation, 400)}" if check.explanation else ""
    return f"- {code(describe_check(check), 400)}{why}\n"
