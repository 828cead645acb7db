"""Rules of prices: which price a model has, what a call costs, and how an unknown price is said."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import PricesInvalid
from engine.items import Usage
from engine.providers import prices as prices_module
from engine.providers.prices import Price, Prices, price_of, read_prices, unknown_prices

PACKAGED = json.loads(Path(prices_module.__file__).with_name("prices.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("model", "as_model"),
    [
        ("gpt-4o", "gpt-4o"),
        ("GPT-4o", "gpt-4o"),
        ("openai/gpt-4o-2024-11-20", "gpt-4o"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-05-13"),
        ("gpt-5-chat-latest", "gpt-5-chat"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("gemini-2.5-pro-preview-05-06", "gemini-2.5-pro"),
        ("gemini-2.0-flash-001", "gemini-2.0-flash"),
    ],
)
def test_names_of_one_model_have_one_price(model: str, as_model: str) -> None:
    """A router's path, a cloud's region and version, and a date change no price; a date that has a price of its own keeps it."""
    assert Prices().of_model(model) == price_of(PACKAGED["models"][as_model], as_model)


@pytest.mark.parametrize(
    "model", ["", "my-model", "gpt-4o-audio-preview", "gpt-4-1106-preview", "ft:gpt-4o-2024-08-06:us", "openai/gpt-4o:free", "gpt-40"]
)
def test_a_name_that_only_begins_like_a_known_one_has_no_price(model: str) -> None:
    """A variant may cost ten times as much, so nothing is guessed."""
    assert Prices().of_model(model) is None


def test_the_packaged_table_can_be_read_and_says_of_when_it_is() -> None:
    """Every entry is a price under a name that finds it, cached input costs no more than other input, and the file has a date and its sources."""
    assert date.fromisoformat(PACKAGED["date"]) >= date(2026, 11, 1)
    assert "OpenAI" in PACKAGED["source"]
    for model, entry in PACKAGED["models"].items():
        price = price_of(entry, model)
        assert Prices().of_model(model) == price
        assert price.input > 0
        assert price.cached is None or price.cached <= price.input
        assert price.above is None or price.above.input > price.input


@pytest.mark.parametrize(
    ("usage", "written", "expected"),
    [
        (Usage(1_000_000, 0), 0, 2.0),
        (Usage(0, 1_000_000), 0, 8.0),
        (Usage(1_000_000, 0, cached_tokens=400_000), 0, 1.2 + 0.2),
        (Usage(1_000_000, 0, cached_tokens=400_000), 100_000, 1.0 + 0.2 + 0.25),
        (Usage(0, 1_000, reasoning_tokens=900), 0, 0.008),
        (Usage(100, 0, cached_tokens=900), 900, 0.00005),
    ],
    ids=["input", "output", "cached", "written into the cache", "reasoning is output", "more cached than there is"],
)
def test_each_kind_of_token_has_its_price(usage: Usage, written: int, expected: float) -> None:
    """Cached and cache-written tokens are parts of the input at prices of their own; reasoning is part of the output."""
    assert Price(2.0, 8.0, 0.5, 2.5).cost_usd(usage, cache_write_tokens=written) == pytest.approx(expected)


def test_cached_tokens_without_a_price_cost_as_much_as_others() -> None:
    """A vendor without a discount gives none."""
    assert Price(2.0, 8.0).cost_usd(Usage(1_000_000, 0, cached_tokens=500_000)) == 2.0


def test_a_long_prompt_costs_more_as_a_whole() -> None:
    """Above the limit the whole request has the higher price, its output included; at the limit it has not."""
    price = Price(1.0, 10.0, above_tokens=200_000, above=Price(2.0, 15.0))
    assert price.cost_usd(Usage(200_000, 1000)) == pytest.approx(0.2 + 0.01)
    assert price.cost_usd(Usage(200_001, 1000)) == pytest.approx(0.400002 + 0.015)


@given(
    usage=st.builds(Usage, st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6)), written=st.integers(0, 10**6)
)
def test_caching_never_costs_more_than_the_dearest_input(usage: Usage, written: int) -> None:
    """Whatever a vendor reports, a call costs between its cheapest and its dearest reading."""
    price = Price(2.0, 8.0, 0.5, 2.5)
    output = usage.output_tokens * 8.0 / 1e6
    assert (
        usage.input_tokens * 0.5 / 1e6 - 1e-9 <= price.cost_usd(usage, cache_write_tokens=written) - output <= usage.input_tokens * 2.5 / 1e6 + 1e-9
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"type": "openai", "model": "gpt-4o", "pricing": {"input_cost_per_1k": 0.001, "output_cost_per_1k": 0.002}}, Price(1.0, 2.0)),
        (
            {"type": "openai", "model": "m", "pricing": {"input_cost_per_1k": 0.001, "output_cost_per_1k": 0.002, "cached_cost_per_1k": 0.0005}},
            Price(1.0, 2.0, 0.5),
        ),
        ({"type": "openai", "model": "gpt-4o", "pricing": {"input_cost_per_1k": 0, "output_cost_per_1k": 0}}, Prices().of_model("gpt-4o")),
        ({"type": "openai", "model": "gpt-4o", "pricing": {"input_cost_per_1k": 1}}, Prices().of_model("gpt-4o")),
        ({"type": "vllm", "model": "m", "from_job": True, "pricing": {"input_cost_per_1k": 0.0, "output_cost_per_1k": 0.0}}, Price(0.0, 0.0)),
        ({"type": "vllm", "model": "gpt-4o"}, None),
        ({"type": "ollama", "model": "mine"}, Price(0.1, 0.2)),
        ({"type": "openai", "model": "mine"}, Price(0.1, 0.2)),
        ({"type": "openai"}, None),
    ],
    ids=[
        "its own",
        "its own, cached",
        "zeros of a bundle",
        "half a price",
        "a job pays nothing",
        "own machine",
        "own price",
        "own price, remote",
        "no model",
    ],
)
def test_a_providers_price(spec: dict[str, Any], expected: Price | None) -> None:
    """What a provider's file says wins, then the overriding prices, then the packaged ones, which say nothing of the user's own machines."""
    assert Prices({"Mine": Price(0.1, 0.2)}).of_spec(spec) == expected


def test_an_overriding_price_wins_over_a_more_exact_packaged_one() -> None:
    """Whoever overrides a model means all its dates."""
    assert Prices({"gpt-4o": Price(1, 1)}).of_model("gpt-4o-2024-05-13") == Price(1, 1)


def test_an_unknown_price_is_said_once_a_model() -> None:
    """One sentence names the model and who asks it; mocks, recordings and agents are not looked for."""
    specs = {
        "a": {"type": "openai", "model": "secret-model"},
        "b": {"type": "vllm", "model": "secret-model"},
        "c": {"type": "openai", "model": "gpt-4o"},
        "d": {"type": "mock", "model": "whatever"},
        "e": {"type": "replay"},
        "f": {"type": "agent"},
    }
    (sentence,) = unknown_prices(specs, Prices())
    assert "'secret-model'" in sentence
    assert "providers 'a', 'b'" in sentence


def test_a_file_of_prices_is_read_back_as_it_is_written(tmp_path: Path) -> None:
    """The form of the packaged file is the form of an overriding one, and of a plan."""
    price = Price(1.0, 2.0, 0.1, 1.25, 1000, Price(2.0, 3.0))
    file = tmp_path / "prices.json"
    file.write_text(json.dumps({"models": {"mine": price.to_json(), "free": {"input": 0, "output": 0}}}))
    assert read_prices(file) == {"mine": price, "free": Price(0, 0)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot read prices"),
        ("{}", "it has no models"),
        ('{"models": {"m": 5}}', "model 'm'"),
        ('{"models": {"m": {"input": 1}}}', "has input and output"),
        ('{"models": {"m": {"input": 1, "output": -1}}}', "'output' must be a number from 0 on"),
        ('{"models": {"m": {"input": 1, "output": true}}}', "'output' must be a number from 0 on"),
        ('{"models": {"m": {"input": NaN, "output": 1}}}', "'input' must be a number from 0 on"),
        ('{"models": {"m": {"inputs": 1, "output": 1}}}', "unknown key 'inputs'"),
        ('{"models": {"m": {"input": 1, "output": 1, "above": {"input": 1, "output": 1}}}}', "'tokens' must be a number"),
        ('{"models": {"m": {"input": 1, "output": 1, "above": {"tokens": 5, "input": 1}}}}', "`above` of model 'm'"),
    ],
)
def test_a_broken_file_of_prices_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """A mistyped key or a number that is none is named with its model, never read as something else."""
    file = tmp_path / "prices.json"
    file.write_text(text)
    with pytest.raises(PricesInvalid) as raised:
        read_prices(file)
    assert said in raised.value.message
