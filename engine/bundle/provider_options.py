"""Which keys of `additional_config` have an effect, by type of provider, and which values they take.

Owns that table, for the reader that warns of others; the services of engine.providers read the values. Must not know protocols.
"""

from collections.abc import Mapping
from typing import Final

from engine.bundle.fields import FieldReader, boolean, integer, json_object, json_value, number, one_of, string, strings

_EVERY: Final[Mapping[str, FieldReader]] = {"stream": boolean, "extra_body": json_object}
"""Of every remote type: ask for streams even where a scenario does not; and keys of the vendor's own that go into each request as they are."""

_EFFORTS: Final = one_of("none", "minimal", "low", "medium", "high", "xhigh")

OPTIONS: Final[Mapping[str, Mapping[str, FieldReader]]] = {
    "openai": {
        **_EVERY,
        "api_mode": one_of("responses", "chat"),
        "parallel_tool_calls": boolean,
        "reasoning_effort": _EFFORTS,
        "deployment": string,
        "api_version": string,
        "dimensions": integer(1),
    },
    "claude": {**_EVERY, "thinking_budget": integer(0), "effort": one_of("low", "medium", "high", "xhigh", "max")},
    "gemini": {
        **_EVERY,
        "include_thoughts": boolean,
        "thinking_budget": integer(-1),
        "thinking_level": one_of("minimal", "low", "medium", "high", "MINIMAL", "LOW", "MEDIUM", "HIGH"),
        "response_modalities": strings,
        "dimensions": integer(1),
        "input_type": string,
    },
    "ollama": {**_EVERY, "keep_alive": json_value, "reasoning_effort": _EFFORTS, "dimensions": integer(1)},
    "voyageai": {"extra_body": json_object, "dimensions": integer(1), "input_type": string},
    "huggingface": {"extra_body": json_object},
    "vllm": {
        **_EVERY,
        "parallel_tool_calls": boolean,
        "guided_json": json_value,
        "guided_choice": json_value,
        "guided_regex": string,
        "guided_grammar": string,
        "top_k": number,
        "min_p": number,
        "repetition_penalty": number,
        "chat_template_kwargs": json_object,
    },
}
"""Keys by type. A type that is not here takes any: nothing is known of it."""

OF_LIVE_AUDIO: Final = frozenset(("voice", "audio_format", "modalities", "realtime", "audio_enabled", "response_modalities"))
"""Keys that matter to conversations by voice alone."""
