"""What a plan says of its providers that a person should know before it runs. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from engine.agents.notes import agent_notes
from engine.bundle.model import Bundle, RequestDefaults
from engine.providers.prices import Price, Prices, unknown_prices
from engine.providers.sampling_ranges import sampling_faults

if TYPE_CHECKING:
    from engine.plan import Cell

Specs = Mapping[str, Mapping[str, Any]]


def provider_notes(bundle: Bundle, cells: "Iterable[Cell]", tested: Specs, serving: Specs, prices: Mapping[str, Price]) -> Iterator[str]:
    """Yield a sentence for each thing that does not reach an agent, for what a model's vendor will refuse, and for each model whose price nobody knows."""
    yield from agent_notes(bundle, cells, tested, serving)
    yield from _out_of_range(bundle, tested, bundle.arena.defaults)
    yield from _out_of_range(bundle, serving, RequestDefaults())
    yield from unknown_prices({**serving, **tested}, Prices(prices))


def _out_of_range(bundle: Bundle, specs: Specs, arena: RequestDefaults) -> Iterator[str]:
    """Yield a sentence for each value that a vendor does not take; those of `arena` win over a provider's own."""
    for ident, spec in specs.items():
        own, unsupported = spec.get("defaults") or {}, spec.get("unsupported_params") or ()
        wanted = {key: getattr(arena, key) for key in ("temperature", "top_p") if getattr(arena, key) is not None}
        asked = {key: value for key, value in {**own, **wanted}.items() if key not in unsupported}
        for key, fault in sampling_faults(str(spec.get("type")), asked):
            provider = None if spec.get("from_job") else bundle.providers.get(ident)
            place = bundle.arena.location if key in wanted else provider.location if provider else None
            yield f"{f'{place}: ' if place else ''}requests to provider '{ident}' will be refused: {fault}"
