"""What `arena eval` prints for a person: a line a cell, the failures, the verdict."""

from collections.abc import Hashable, Iterator
from typing import TextIO

from arena.cli.alike import likeness_of, more_like_it, told_once
from arena.cli.screen import counted, paint, printable, table
from arena.evaluation import Evaluation
from engine.amounts import cost_text
from engine.records import Record
from engine.results.reader import FAILED
from engine.results.reproduce import reproduce_command

_SHOWN_FAILURES = 20


def write_table(evaluation: Evaluation, out: TextIO) -> None:
    """Write the table of cells, the first failures with the command that runs each again, and the verdict."""
    summary = evaluation.results.summary()
    rows = [
        [scenario, provider, str(tally.counts.items), str(tally.counts.passed), str(tally.counts.failed), str(tally.counts.errors)]
        for (scenario, provider), tally in summary.cells.items()
    ]
    out.write(table(["SCENARIO", "PROVIDER", "ITEMS", "PASSED", "FAILED", "ERRORS"], rows))
    _write_failures(evaluation, out)
    out.write(f"\n{ended(evaluation, out)}\n")


def ended(evaluation: Evaluation, out: TextIO) -> str:
    """Return the last line: the verdict with its figures; for an evaluation that was stopped, how much of it there is, which is no verdict."""
    summary = evaluation.results.summary()
    counts, rate = summary.total.counts, summary.rate
    cost = f"  {cost_text(summary.total.cost_usd, is_partial=summary.total.cost_is_partial)}" if summary.total.cost_usd is not None else ""
    after = f"{cost}{'  MOCKED' if summary.identity.mocked else ''}"
    if summary.stopped:
        return f"{paint('stopped', 'yellow', out)}: {counts.executed} of {counted(counts.items, 'item')} had ended  {counts.passed} passed{after}"
    bounds = f" ({100 * rate.low:.1f} to {100 * rate.high:.1f})" if rate.low is not None and rate.high is not None else ""
    share = 100 * counts.passed / counts.executed if counts.executed else 0.0
    word, colour = {"pass": ("passed", "green"), "fail": ("failed", "red")}.get(summary.verdict.value, ("error", "red"))
    return f"{paint(word, colour, out)}  {counts.passed} of {counts.executed} items  pass rate {share:.1f} %{bounds}{after}"


def _write_failures(evaluation: Evaluation, out: TextIO) -> None:
    items = evaluation.plan.items

    def failures() -> Iterator[Record]:
        return (record for record in evaluation.results.records() if record.verdict in FAILED)

    def likeness(record: Record) -> Hashable:
        return likeness_of(record.verdict, items[record.index].provider, _causes(record))

    for shown, (record, others) in enumerate(told_once(failures, likeness)):
        if shown == _SHOWN_FAILURES:
            out.write("\n… more failed items: --out DIR writes all of them\n")
            return
        item = items[record.index]
        variant = f"  {item.perturbation}" if item.perturbation else ""
        out.write(f"\n{paint(record.verdict.value, 'red', out)}  {item.scenario} x {item.provider}  trial {item.trial}{variant}\n")
        out.writelines(f"  {line}\n" for line in (*_causes(record), reproduce_command(evaluation.plan, item)))
        out.writelines(f"{line}\n" for line in more_like_it(others))


def _causes(record: Record) -> list[str]:
    """Return what went wrong, a line a cause; an error that a check has told already is not told again."""
    lines = []
    if record.error is not None and not (record.error.kind == "check" and any(check.error for check in record.failed)):
        lines.append(f"{record.error.kind}: {printable(record.error.message)}")
    for check in record.failed:
        where = f"turn {check.turn + 1}" if check.turn is not None else check.scope.value
        said = check.error or check.message or check.explanation
        lines.append(f"{where}: {check.name or check.type}: {printable(said)}")
        if check.explanation and check.explanation != said:
            lines.append(f"  {printable(check.explanation)}")
    return lines
