"""The port to the other providers of a plan, for a conversation that needs more than its own model. Must not know who asks for what."""

from typing import TYPE_CHECKING, Protocol

from engine.bundle.model import RequestDefaults
from engine.providers.port import Provider, Sampling

if TYPE_CHECKING:
    from engine.judging.inference import Inference


class Peers(Protocol):
    """The other providers of a plan, by name. Both raise ProviderNotFound for a name that the plan does not have."""

    def serving(self, name: str, wanted: RequestDefaults) -> tuple[Provider, Sampling]:
        """Return a provider that plays a role, and how it samples: as `wanted`, else as its own file says."""
        ...

    def inference(self, name: str) -> "Inference":
        """Return what embeds behind a provider."""
        ...
