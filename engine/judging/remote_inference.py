"""A classifier or an embedding model behind a vendor's protocol.

Owns how a question becomes a request, and that an answer fits it. Must not know vendors.
"""

from collections.abc import Mapping, Sequence

from engine.checks.questions import LabelQuestion
from engine.errors import ProviderError
from engine.judging.inference import Charge
from engine.providers.messages import Message
from engine.providers.port import Provider, Reply, Request
from engine.providers.wires.embeddings import EMBEDDINGS
from engine.providers.wires.huggingface import LABELS


class RemoteInference:
    """Asks a provider whose wire labels or embeds (`engine.judging.inference.Inference`)."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    async def labels(self, question: LabelQuestion, charge: Charge) -> Mapping[str, float]:
        """Return the score of every label that the model gives.

        Raises:
            ProviderError: there is no answer, or the provider does not label.
        """
        message = Message("user", question.text) if question.part is None else Message("user", parts=[dict(question.part)])
        reply = await self._ask([message], charge)
        found: Mapping[str, float] | None = reply.meta.get(LABELS)
        if found is None:
            raise ProviderError("cannot label: the provider embeds", kind="invalid_request", transient=False)
        return found

    async def embed(self, texts: Sequence[str], charge: Charge) -> list[list[float]]:
        """Return the embeddings; that of a blank text, which models refuse, is like nothing.

        Raises:
            ProviderError: there is no answer, or not one of one length for each text, or the provider does not embed.
        """
        said = [text for text in texts if text.strip()]
        if not said:
            return [[0.0] for _ in texts]
        found = (await self._ask([Message("user", text) for text in said], charge)).meta.get(EMBEDDINGS)
        if found is None:
            raise ProviderError("cannot embed: the provider labels", kind="invalid_request", transient=False)
        if len(found) != len(said) or len({len(vector) for vector in found}) != 1:
            raise ProviderError("cannot read the reply: it has not one vector of one length for each text", kind="protocol", transient=True)
        vectors = iter(found)
        nothing = [0.0] * len(found[0])
        return [next(vectors) if text.strip() else nothing for text in texts]

    async def _ask(self, messages: list[Message], charge: Charge) -> Reply:
        reply = await self._provider.complete(Request(messages))
        charge(reply)
        return reply
