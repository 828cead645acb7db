"""Which temperatures and nucleus sizes a vendor's models take; outside of them each request is refused.

Owns the ranges, as the vendors document them. A number in a bundle is whatever the format takes, so there it is told and not refused. Pure.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

_MOST: Final[Mapping[str, Mapping[str, float]]] = {
    "claude": {"temperature": 1.0, "top_p": 1.0},
    "openai": {"temperature": 2.0, "top_p": 1.0},
    "gemini": {"temperature": 2.0, "top_p": 1.0},
    "ollama": {"temperature": math.inf, "top_p": 1.0},
    "vllm": {"temperature": math.inf, "top_p": 1.0},
}
"""The highest value of each type; the lowest is 0 everywhere."""


def sampling_faults(kind: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield key and sentence for each of `values` (`temperature`, `top_p`; None: not set) that models of type `kind` do not take."""
    for key, most in _MOST.get(kind, {}).items():
        value = values.get(key)
        if isinstance(value, int | float) and not 0 <= value <= most:
            yield key, f"{key} is {value:g}, and models of type {kind} take 0 {'and more' if math.isinf(most) else f'to {most:g}'}"
