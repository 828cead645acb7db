"""junit.xml: a suite a scenario, a case an item; well-formed whatever a model says.

Streams in flat memory: counts come from the summary, cases from records in item order.
"""

import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from engine.items import Item, Scope, Verdict
from engine.records import FailedCheck, Record
from engine.results.jsonl import timestamp
from engine.results.summary import Summary
from engine.results.tally import Tally

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TEXT_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_ATTRIBUTE_ESCAPES = _TEXT_ESCAPES | str.maketrans({'"': "&quot;", "\n": "&#10;", "\t": "&#9;"})
_MESSAGE_CHARACTERS = 300


def write_junit(out: BinaryIO, summary: Summary, cases: Iterable[tuple[Item, Record]]) -> None:
    """Write the document to `out` as UTF-8. `cases` come grouped by scenario, in the summary's order of scenarios."""
    out.write(b'<?xml version="1.0" encoding="UTF-8"?>\n')
    name = summary.identity.job or summary.identity.run or "arena"
    _write(out, f"<testsuites {_attributes(name=name, **_counts(summary.total))}>\n")
    scenario: str | None = None
    for item, record in cases:
        if item.scenario != scenario:
            if scenario is not None:
                _write(out, "  </testsuite>\n")
            scenario = item.scenario
            _write(out, _suite(summary, scenario))
        _write(out, "".join(_case(item, record)))
    if scenario is not None:
        _write(out, "  </testsuite>\n")
    _write(out, "</testsuites>\n")


def xml_text(text: str) -> str:
    """Return `text` with every character that XML 1.0 does not allow replaced by U+FFFD."""
    return _NOT_XML.sub("\ufffd", text)


def _suite(summary: Summary, scenario: str) -> str:
    tally = summary.scenarios[scenario]
    started = {"timestamp": timestamp(tally.started_at)} if tally.started_at else {}
    identity = summary.identity
    properties = {
        "commit": identity.commit,
        "ref": identity.ref,
        "run": identity.run,
        "cost": "" if tally.cost_usd is None else f"{tally.cost_usd:.9f}".rstrip("0").rstrip("."),
        "cost-is-partial": "true" if tally.cost_is_partial and tally.cost_usd is not None else "",
        "mocked": "true" if identity.mocked else "",
    }
    rows = "".join(f"      <property {_attributes(name=name, value=value)}/>\n" for name, value in properties.items() if value)
    block = f"    <properties>\n{rows}    </properties>\n" if rows else ""
    return f"  <testsuite {_attributes(name=scenario, **_counts(tally), **started)}>\n{block}"


def _counts(tally: Tally) -> dict[str, str]:
    counts = tally.counts
    return {
        "tests": str(counts.items),
        "failures": str(counts.failed),
        "errors": str(counts.errors),
        "skipped": str(counts.skipped),
        "time": f"{tally.duration.value / 1000:.3f}",
    }


def _case(item: Item, record: Record) -> Iterator[str]:
    name = item.id.removeprefix(f"{item.scenario}/")
    attributes = _attributes(name=name, classname=item.scenario, time=f"{record.duration_ms / 1000:.3f}")
    match record.verdict:
        case Verdict.PASS:
            yield f"    <testcase {attributes}/>\n"
        case Verdict.SKIPPED:
            yield f'    <testcase {attributes}>\n      <skipped message="not run: the run was stopped"/>\n    </testcase>\n'
        case Verdict.FAIL:
            yield f"    <testcase {attributes}>\n      {_failure(record)}\n    </testcase>\n"
        case Verdict.ERROR:
            yield f"    <testcase {attributes}>\n      {_error(record)}\n    </testcase>\n"


def _failure(record: Record) -> str:
    first = next((check for check in record.failed if check.scope is not Scope.SESSION), None)
    message = describe_check(first) if first else f"{record.checks_total - record.checks_passed} of {record.checks_total} checks failed"
    return _element("failure", message, first.type if first else "check", record)


def _error(record: Record) -> str:
    kind, message = (record.error.kind, record.error.message) if record.error else ("unknown", "")
    return _element("error", message or kind, kind, record)


def _element(tag: str, message: str, kind: str, record: Record) -> str:
    lines = [f"{record.error.kind}: {record.error.message}"] if record.error else []
    lines += [describe_check(check) + (f"\n  {check.explanation}" if check.explanation else "") for check in record.failed]
    if record.failed_cut:
        lines.append(f"and {record.failed_cut} more failed checks")
    text = xml_text("\n".join(lines)).translate(_TEXT_ESCAPES)
    return f"<{tag} {_attributes(message=message[:_MESSAGE_CHARACTERS], type=kind)}>{text}</{tag}>"


def describe_check(check: FailedCheck) -> str:
    """Return one failed check in words: where (people count turns from 1), what and why; its texts as they are."""
    where = check.scope.value if check.turn is None else f"{check.scope.value} {check.turn + 1}"
    title = f"{check.type} '{check.name}'" if check.name else check.type
    cause = f"could not be evaluated: {check.error}" if check.error else check.message or "failed"
    return f"{where}: {title}: {cause}"


def _attributes(**values: str) -> str:
    return " ".join(f'{name}="{xml_text(value).translate(_ATTRIBUTE_ESCAPES)}"' for name, value in values.items())


def _write(out: BinaryIO, text: str) -> None:
    out.write(text.encode())
