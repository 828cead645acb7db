"""`arena estimate PATH`: what an evaluation of a bundle would ask, cost and take; nothing is asked."""

import json
import sys
import textwrap
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena import settings
from arena.cli.options import Mock
from arena.cli.screen import print_warning, printable
from arena.cli.selecting import (
    DEFAULT_CONCURRENCY,
    BundlePath,
    Jobs,
    MockConfig,
    PricesFile,
    Providers,
    Scenarios,
    Selection,
    Trials,
)
from engine.amounts import dollars

if TYPE_CHECKING:
    from engine.estimate.estimate import Estimated, Row, Span

_DEFAULT_LATENCY_S = 2.0
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_COLUMNS, _LABEL, _FIGURE = 80, 16, 16
"""Widths: of a line, which is the same on a terminal and in a file; of its label; of each of its four figures."""

_CASES = {"least": "at the least", "likely": "likely", "most": "at the most"}
_SIZES = ((999_500_000, 10**9, "G"), (999_500, 10**6, "M"), (10_000, 10**3, "k"))
"""From which count on a letter stands, what it means, and the letter."""


class EstimateFormat(StrEnum):
    """How an estimate is printed."""

    TABLE = "table"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("estimate")(estimate)


def estimate(  # noqa: PLR0913 - one parameter an option
    path: BundlePath = Path(),
    *,
    scenario: Scenarios = [],  # noqa: B006 - typer reads the default, nobody changes it
    provider: Providers = [],  # noqa: B006 - same
    trials: Trials = None,
    mock_provider: Mock = False,
    mock_config: MockConfig = None,
    jobs: Jobs = DEFAULT_CONCURRENCY,
    prices: PricesFile = None,
    latency: Annotated[
        float, typer.Option("--latency", envvar=settings.LATENCY, min=0.001, max=3600, help="Seconds that one request takes, for the time.")
    ] = _DEFAULT_LATENCY_S,
    output: Annotated[EstimateFormat, typer.Option("--output", "-o", envvar=settings.ESTIMATE_OUTPUT, help="How to print.")] = EstimateFormat.TABLE,
) -> int:
    """Say how many requests, tokens and dollars `arena eval` of a bundle would take, and how long; nobody is asked."""
    from arena.evaluation import planned  # noqa: PLC0415 - the engine, only when it is needed
    from engine.estimate.estimate import estimate as estimate_plan  # noqa: PLC0415 - same
    from engine.permissions import Permissions  # noqa: PLC0415 - same

    chosen = Selection(
        path=path,
        scenario=scenario,
        provider=provider,
        trials=trials,
        mock_provider=mock_provider,
        mock_config=mock_config,
        jobs=jobs,
        prices=prices,
    )
    permissions = Permissions("confined", code_network=True)  # nothing is run: what may be is asked when it is
    bundle, plan = planned(chosen.request(permissions))
    for warning in (*bundle.warnings, *plan.warnings):
        print_warning(warning)
    found = estimate_plan(bundle, plan, latency_s=latency)
    if output is EstimateFormat.JSON:
        sys.stdout.write(json.dumps(found.to_json(), indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in _lines(found))
    return 0


def _lines(found: "Estimated") -> Iterator[str]:
    yield "".join([" " * _LABEL, *(f"{title:>{_FIGURE}}" for title in ("REQUESTS", "INPUT TOKENS", "OUTPUT TOKENS", "USD"))])
    for row in found.rows:
        yield from _wrapped("  ".join(printable(word) for word in (row.asked.provider, row.asked.model, row.asked.purpose) if word))
        yield from _figures(row)
    yield ""
    yield f"items     {found.items:,}"
    yield f"requests  {_counts(found.total(lambda row: row.requests))}"
    yield from _wrapped(f"cost      {_cost(found)}")
    yield from _wrapped(f"time      {_times(found.seconds)}, with {found.concurrency} items in flight and {found.latency_s:g} s a request")
    yield "\nfigures are at the least / likely / at the most"
    for sentence in found.method:
        yield from _wrapped(f"  {sentence}", indent=4)


def _figures(row: "Row") -> Iterator[str]:
    """Yield a line a case; one alone where all are the same."""
    spans = (row.requests, row.input_tokens, row.output_tokens)
    lines = {
        label: [*(short(round(getattr(span, name))) for span in spans), "not known" if row.cost_usd is None else _dollar(getattr(row.cost_usd, name))]
        for name, label in _CASES.items()
    }
    if len({tuple(figures) for figures in lines.values()}) == 1:
        lines = {"in any case": next(iter(lines.values()))}
    for label, figures in lines.items():
        yield "".join([f"  {label}".ljust(_LABEL), *(f"{figure:>{_FIGURE}}" for figure in figures)])


def _wrapped(text: str, indent: int = 10) -> list[str]:
    """Return a text in lines that fit; names are not cut, since they are there to be copied."""
    return textwrap.wrap(text, _COLUMNS, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def _cost(found: "Estimated") -> str:
    if not found.unpriced:
        return f"{_dollars(found.cost_usd)} USD"
    models = ", ".join(printable(model) for model in found.unpriced)
    known = f"{_dollars(found.cost_usd)} USD, without what has no price" if found.cost_usd.most else "not known"
    return f"{known}: {models} (give one: --prices FILE)"


def _counts(span: "Span") -> str:
    figures = [short(round(figure)) for figure in (span.least, span.likely, span.most)]
    return figures[0] if len(set(figures)) == 1 else " / ".join(figures)


def short(figure: int) -> str:
    """Return a count in at most six characters, so that a row stays on a line; `-o json` has all digits."""
    if figure < 10_000:  # noqa: PLR2004 - five characters with the comma
        return f"{figure:,}"
    scaled, letter = next((figure / size, letter) for least, size, letter in _SIZES if figure >= least)
    return f"{scaled:.0f}{letter}" if scaled >= 100 else f"{scaled:.1f}{letter}"  # noqa: PLR2004 - three digits say enough


def _dollars(span: "Span") -> str:
    return " / ".join(_dollar(figure) for figure in (span.least, span.likely, span.most)) if span.most else "0"


def _dollar(figure: float) -> str:
    return f"{figure:,.2f}" if figure >= 1 else dollars(figure) if figure else "0"


def _times(span: "Span") -> str:
    return " / ".join(_time(getattr(span, name)) for name in _CASES)


def _time(seconds: float) -> str:
    if seconds >= _DAY:
        return f"{seconds / _DAY:.1f} d"
    if seconds >= _HOUR:
        return f"{seconds / _HOUR:.1f} h"
    return f"{seconds / _MINUTE:.1f} min" if seconds >= _MINUTE else f"{seconds:.0f} s"
