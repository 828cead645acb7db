"""What a call costs: the packaged price table, a file that overrides it, and what a provider's own file says.

Owns which price a model has. A price that is not known is None, never 0: a cost that nobody knows must not look like one that is nothing. Must not know
protocols, plans or runs.

The name of a model is looked for as it is written; then without a router's path (`openai/`, `models/`), a cloud's region and vendor (`us.anthropic.`) and
version (`-v1:0`, `@20250929`); then without its date, `-latest` or `-preview`. A name that merely begins like a known one has no price: a variant may cost ten
times as much.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from engine.bundle.problems import did_you_mean, shown
from engine.errors import PricesInvalid
from engine.items import Usage

_FIELDS = ("input", "cached", "cache_write", "output")
_MILLION = 1_000_000
_FORM = 'write {"models": {"my-model": {"input": 1.0, "output": 4.0}}}, in USD for a million tokens'
_SELF_HOSTED = frozenset(("ollama", "vllm"))
"""Types whose machines are the user's own: a vendor's price of the same model says nothing there."""
_FREE = frozenset(("mock", "replay", "agent"))

_CLOUD = re.compile(r"(?:[a-z-]{2,6}\.)?(?:anthropic|openai|google|meta|mistral|xai)\.")
_VERSION = re.compile(r"(?:-v\d+(?::\d+)?|@[a-z0-9-]+)\Z")
_DATE = re.compile(r"(?:-\d{4}-\d{2}-\d{2}|-\d{8}|-\d{2}-\d{2,4}|-00\d|-latest|-preview)\Z")
_DOTTED = re.compile(r"(?<=\d)\.(?=\d)")


@dataclass(frozen=True, slots=True)
class Price:
    """USD for a million tokens; `cached` and `cache_write` None cost as much as other input.

    A request of more than `above_tokens` input tokens costs what `above` says, all of it.
    """

    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None
    above_tokens: int = 0
    above: "Price | None" = None

    def cost_usd(self, usage: Usage, *, cache_write_tokens: int = 0) -> float:
        """Return what one request costs. `cache_write_tokens` are, as `usage.cached_tokens`, a part of its input; reasoning is a part of its output."""
        if self.above is not None and usage.input_tokens > self.above_tokens:
            return self.above.cost_usd(usage, cache_write_tokens=cache_write_tokens)
        read = min(usage.cached_tokens, usage.input_tokens)
        written = min(cache_write_tokens, usage.input_tokens - read)
        cost = (usage.input_tokens - read - written) * self.input + usage.output_tokens * self.output
        cost += read * (self.input if self.cached is None else self.cached)
        cost += written * (self.input if self.cache_write is None else self.cache_write)
        return round(cost / _MILLION, 10)

    def to_json(self) -> dict[str, Any]:
        """Return the price as a file has it."""
        entry: dict[str, Any] = {field: value for field in _FIELDS if (value := getattr(self, field)) is not None}
        return entry | ({"above": {"tokens": self.above_tokens, **self.above.to_json()}} if self.above is not None else {})


class Prices:
    """The packaged table; `own` prices, by model, come before it."""

    def __init__(self, own: Mapping[str, Price] | None = None) -> None:
        self._own = {model.lower(): price for model, price in (own or {}).items()}

    def of_spec(self, spec: Mapping[str, Any]) -> Price | None:
        """Return the price of a provider: its own `pricing`, else its model's; None when nobody knows it.

        In a bundle's file both prices must be above 0 to count (promptkit-format.md 4.4); a job's Provider may say that nothing is paid.
        """
        pricing = spec.get("pricing") or {}
        known = pricing.keys() >= {"input_cost_per_1k", "output_cost_per_1k"}
        if known and (spec.get("from_job") or (pricing["input_cost_per_1k"] > 0 and pricing["output_cost_per_1k"] > 0)):
            cached = pricing.get("cached_cost_per_1k")
            return Price(pricing["input_cost_per_1k"] * 1000, pricing["output_cost_per_1k"] * 1000, None if cached is None else cached * 1000)
        model = str(spec.get("model") or "")
        return self._of_own(model) if spec.get("type") in _SELF_HOSTED else self.of_model(model)

    def of_model(self, model: str) -> Price | None:
        """Return the list price of a model; None when it has none."""
        own = self._of_own(model)
        return _packaged_price(model) if own is None else own

    def _of_own(self, model: str) -> Price | None:
        return next((self._own[name] for name in _names(model) if name in self._own), None)


def unknown_prices(specs: Mapping[str, Mapping[str, Any]], prices: Prices) -> Iterator[str]:
    """Yield a sentence for each model without a price, with the providers that ask it. Mocks, recordings and agents have none to look for."""
    models: dict[str, list[str]] = {}
    for ident, spec in specs.items():
        if spec.get("type") not in _FREE and prices.of_spec(spec) is None:
            models.setdefault(str(spec.get("model") or ""), []).append(f"'{ident}'")
    for model, idents in models.items():
        asked = f"provider{'s' if len(idents) > 1 else ''} {', '.join(idents)}"
        yield f"the price of model '{model}' is not known, so what {asked} costs is not counted: set its pricing, or name a file of prices (--prices)"


def read_prices(path: Path) -> dict[str, Price]:
    """Read a file of prices, in the form of the packaged `prices.json`: {"models": {model: {input, output, cached, cache_write, above{tokens, …}}}}.

    Raises:
        PricesInvalid: it cannot be read, or an entry is no price.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise PricesInvalid(f"cannot read prices '{path}': {getattr(error, 'strerror', None) or error}") from error
    models = content.get("models") if isinstance(content, dict) else None
    if not isinstance(models, dict) or not models:
        raise PricesInvalid(f"cannot read prices '{path}': it has no models", hint=_FORM)
    return {model: price_of(entry, f"model '{shown(model)}' in prices '{path}'") for model, entry in models.items()}


def price_of(entry: Any, what: str) -> Price:
    """Read one entry of a file or a plan; `what` names it in errors.

    Raises:
        PricesInvalid: it is no price.
    """
    if not isinstance(entry, dict):
        raise PricesInvalid(f"cannot read {what}: it must be an object")
    keys = (*_FIELDS, "above")
    for key in entry:
        if key not in keys:
            raise PricesInvalid(f"cannot read {what}: unknown key '{shown(key)}'", hint=did_you_mean(key, keys, otherwise="its keys are"))
    numbers = {field: _number(entry[field], field, what) for field in _FIELDS if entry.get(field) is not None}
    if not {"input", "output"} <= numbers.keys():
        raise PricesInvalid(f"cannot read {what}: a price has input and output, in USD for a million tokens")
    price = Price(numbers["input"], numbers["output"], numbers.get("cached"), numbers.get("cache_write"))
    if (above := entry.get("above")) is None:
        return price
    if not isinstance(above, dict) or "above" in above:
        raise PricesInvalid(f"cannot read {what}: `above` must be an object of tokens and prices")
    tokens = _number(above.get("tokens"), "tokens", what)
    beyond = price_of({key: value for key, value in above.items() if key != "tokens"}, f"`above` of {what}")
    return replace(price, above_tokens=int(tokens), above=beyond)


def _number(value: Any, key: str, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise PricesInvalid(f"cannot read {what}: '{key}' must be a number from 0 on")
    return value


def _names(model: str) -> Iterator[str]:
    """Yield the names under which a model may stand in a table, the most exact first."""
    name = model.strip().lower()
    yield name
    name = _VERSION.sub("", _CLOUD.sub("", name.rpartition("/")[2], count=1))
    name = _DOTTED.sub("-", name) if name.startswith("claude") else name
    yield name
    while (shorter := _DATE.sub("", name)) != name:
        yield (name := shorter)


@cache
def _packaged() -> Mapping[str, Price]:
    content = json.loads(Path(__file__).with_name("prices.json").read_text(encoding="utf-8"))
    return {model: price_of(entry, f"model '{model}'") for model, entry in content["models"].items()}


def _packaged_price(model: str) -> Price | None:
    return next((_packaged()[name] for name in _names(model) if name in _packaged()), None)
