"""`arena estimate PATH`: what an evaluation of a bundle would ask, cost and take; nothing is asked."""

import json
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena import settings
from arena.cli.options import Mock
from arena.cli.screen import dollars, print_warning, printable, table
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

if TYPE_CHECKING:
    from engine.estimate.estimate import Estimated, Span

_DEFAULT_LATENCY_S = 2.0
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
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
    rows = [
        [
            printable(row.asked.provider),
            printable(row.asked.model),
            row.asked.purpose,
            _counts(row.requests),
            _counts(row.input_tokens),
            _counts(row.output_tokens),
            "not known" if row.cost_usd is None else _dollars(row.cost_usd),
        ]
        for row in found.rows
    ]
    yield table(["PROVIDER", "MODEL", "FOR", "REQUESTS", "INPUT TOKENS", "OUTPUT TOKENS", "USD"], rows).rstrip("\n")
    yield ""
    yield f"items     {found.items:,}"
    yield f"requests  {_counts(found.total(lambda row: row.requests))}"
    yield f"cost      {_cost(found)}"
    times = " / ".join(_time(getattr(found.seconds, name)) for name in ("least", "likely", "most"))
    yield f"time      {times}, with {found.concurrency} items in flight and {found.latency_s:g} s a request"
    yield "\nfigures are at the least / likely / at the most"
    for sentence in found.method:
        yield f"  {sentence}"


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
    return " / ".join(f"{figure:.2f}" if figure >= 1 else dollars(figure) for figure in (span.least, span.likely, span.most)) if span.most else "0"


def _time(seconds: float) -> str:
    if seconds >= _DAY:
        return f"{seconds / _DAY:.1f} d"
    if seconds >= _HOUR:
        return f"{seconds / _HOUR:.1f} h"
    return f"{seconds / _MINUTE:.1f} min" if seconds >= _MINUTE else f"{seconds:.0f} s"
