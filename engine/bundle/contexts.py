"""The values of what a model is shown of a conversation: how much of it, and what it remembers from before (promptkit-format.md 2.5, 5.6).

Owns the shapes. Must not know how a context is cut or a memory is searched.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.bundle.model import NOTHING, NOWHERE, Json, Location


@dataclass(frozen=True, slots=True)
class Relevance:
    """How the strategy `relevance` chooses. `query_source` is last_user, last_n (the last `last_n_count` messages) or custom (`custom_query`).

    The newest `min_recent_messages` are kept in any case. `similarity_threshold` None keeps the most similar ones that fit. `provider` and `model` name
    an embedding model. A system prompt is always kept, because it is no message here.
    """

    provider: str = ""
    model: str = ""
    min_recent_messages: int = 3
    always_keep_system_role: bool = True
    similarity_threshold: float | None = None
    query_source: str = "last_user"
    last_n_count: int = 3
    custom_query: str = ""
    cache_embeddings: bool = False


@dataclass(frozen=True, slots=True)
class ContextPolicy:
    """What a model is shown when a conversation grows; `token_budget` 0 or None is no limit. `strategy` is oldest, summarize, relevance or fail."""

    token_budget: int | None = None
    reserve_for_output: int = 4000
    strategy: str = "oldest"
    cache_breakpoints: Json = None
    relevance: Relevance = Relevance()
    location: Location = NOWHERE


@dataclass(frozen=True, slots=True)
class SeedMemory:
    """A memory that is there before a conversation begins; `confidence` is 0 to 1."""

    content: str
    type: str = "general"
    confidence: float = 0.8
    metadata: Mapping[str, Json] = field(default_factory=lambda: NOTHING)
