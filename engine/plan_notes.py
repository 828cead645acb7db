"""What a plan says of its providers that a person should know before it runs. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from engine.agents.notes import agent_notes
from engine.bundle.model import Bundle
from engine.providers.prices import Price, Prices, unknown_prices

if TYPE_CHECKING:
    from engine.plan import Cell

Specs = Mapping[str, Mapping[str, Any]]


def provider_notes(bundle: Bundle, cells: "Iterable[Cell]", tested: Specs, serving: Specs, prices: Mapping[str, Price]) -> Iterator[str]:
    """Yield a sentence for each thing that does not reach an agent, and for each model whose price nobody knows."""
    yield from agent_notes(bundle, cells, tested, serving)
    yield from unknown_prices({**serving, **tested}, Prices(prices))
