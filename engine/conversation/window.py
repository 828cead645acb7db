"""What of a conversation a model is shown when it grows beyond a budget (promptkit-format.md 2.5).

The unit is a turn: a user's message and all that followed it, so that no tool result loses its call; the last turn is always shown whole. What does
not fit is an error of its own, never a request without messages. Must not know how a request is sent.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from engine.bundle.contexts import ContextPolicy
from engine.bundle.model import Bundle
from engine.bundle.model_names import embedder_of
from engine.conversation.asking import Line
from engine.conversation.peers import Peers
from engine.conversation.token_estimates import Estimate, estimate_for, message_tokens
from engine.conversation.transcript import Transcript
from engine.errors import ContextExceeded
from engine.judging.inference import Charge, Inference, MockInference
from engine.providers.messages import Message
from engine.providers.port import Request
from engine.providers.port import Script as Place

SUMMARY_SHARE = 0.25
"""How much of the budget a summary of what is left out may take."""
SUMMARY_STEP = "context_summary"
"""A mock's summaries are this entry of its scenario's `steps`."""

_INSTRUCTION = (
    "Summarize the conversation so far for yourself: facts, names, decisions, open questions. Write at most {words} words and nothing else."
)
_HEADING = "Summary of the conversation before this:\n"


@dataclass(frozen=True, slots=True)
class View:
    """What a model is shown: messages, and a note for the system prompt."""

    messages: Sequence[Message]
    note: str = ""


@dataclass(slots=True)
class Window:
    """One conversation's window. `embedder` measures likeness for the strategy relevance."""

    policy: ContextPolicy
    model: str
    embedder: Inference = field(default_factory=lambda: MockInference(None))
    _summary: str = ""
    _summarized: int = 0
    _embeddings: dict[int, list[float]] = field(default_factory=dict)

    async def fit(self, transcript: Transcript, system: str, line: Line, place: Place) -> View:
        """Return what of `transcript` fits beside `system`.

        Raises:
            ContextExceeded: it is too much, and the strategy is fail; or the last turn alone is too much.
            ProviderError: a summary or embeddings were wanted and did not come.
        """
        if not self.policy.token_budget:
            return View(transcript.messages)
        estimate = estimate_for(self.model)
        room = self.policy.token_budget - self.policy.reserve_for_output - estimate(system)
        turns = turns_of(transcript.messages)
        sizes = [sum(message_tokens(message, estimate) for message in turn) for turn in turns]
        total = sum(sizes)
        if total <= room:
            return View(transcript.messages)
        if self.policy.strategy == "fail":
            raise ContextExceeded(self._too_much(f"the conversation has about {total} tokens", room), hint=_HINT)
        if sizes[-1] > room:
            raise ContextExceeded(self._too_much(f"the last turn alone has about {sizes[-1]} tokens", room), hint=_HINT)
        if self.policy.strategy == "summarize":
            return await self._summarize(transcript, turns, sizes, room, (line, place, estimate))
        if self.policy.strategy == "relevance":
            kept = await self._relevant(turns, sizes, room, transcript.charge)
        else:
            kept = newest(sizes, room)
        return View([message for number in kept for message in turns[number]])

    def _too_much(self, what: str, room: int) -> str:
        return f"cannot ask the model: {what}, and the context policy leaves room for {max(room, 0)} (strategy {self.policy.strategy})"

    async def _summarize(
        self, transcript: Transcript, turns: list[list[Message]], sizes: list[int], room: int, asking: tuple[Line, Place, Estimate]
    ) -> View:
        line, place, estimate = asking
        summary_room = max(1, math.floor(room * SUMMARY_SHARE))
        kept = newest(sizes, max(room - summary_room, sizes[-1]))
        gone = kept[0]
        if gone > self._summarized:
            left_out = [message for turn in turns[self._summarized : gone] for message in turn]
            self._summary = await self._condense(transcript, left_out, summary_room, line, place)
            self._summarized = gone
        note = _HEADING + cut(self._summary, min(summary_room, room - sum(sizes[number] for number in kept)), estimate)
        return View([message for number in kept for message in turns[number]], note if self._summary else "")

    async def _condense(self, transcript: Transcript, messages: list[Message], tokens: int, line: Line, place: Place) -> str:
        """Ask the conversation's own model for a summary; what it costs is the candidate's, as every call of it is."""
        before = [Message("user", _HEADING + self._summary)] if self._summary else []
        told = Message("user", _INSTRUCTION.format(words=max(1, round(tokens / 1.5))))
        sampling = replace(line.sampling, max_tokens=tokens)
        spoken = [Message(message.role, message.content) for message in messages if message.role in ("user", "assistant") and message.content]
        reply = await line.provider.complete(Request([*before, *spoken, told], sampling=sampling, script=replace(place, step=SUMMARY_STEP)))
        transcript.charge(reply)
        return reply.text.strip()

    async def _relevant(self, turns: list[list[Message]], sizes: list[int], room: int, charge: Charge) -> list[int]:
        """Return the newest turns that the policy keeps in any case, and of the others the most alike to the query that fit, in their order."""
        relevance = self.policy.relevance
        recent, messages = len(turns) - 1, len(turns[-1])
        while recent > 0 and messages < relevance.min_recent_messages:
            recent -= 1
            messages += len(turns[recent])
        kept = [number for number in newest(sizes, room) if number >= recent]
        left = room - sum(sizes[number] for number in kept)
        likeness = await self._likeness(turns[: kept[0]], self._query(turns), charge)
        for number in sorted(range(kept[0]), key=lambda number: (-likeness[number], -number)):
            alike = relevance.similarity_threshold is None or likeness[number] >= relevance.similarity_threshold
            if alike and sizes[number] <= left:
                kept.append(number)
                left -= sizes[number]
        return sorted(kept)

    def _query(self, turns: list[list[Message]]) -> str:
        relevance = self.policy.relevance
        if relevance.query_source == "custom":
            return relevance.custom_query
        if relevance.query_source == "last_n":
            messages = [message.content for turn in turns for message in turn if message.content]
            return "\n".join(messages[-relevance.last_n_count :])
        return turns[-1][0].content

    async def _likeness(self, turns: list[list[Message]], query: str, charge: Charge) -> list[float]:
        texts = ["\n".join(message.content for message in turn if message.content) for turn in turns]
        new = [number for number in range(len(turns)) if number not in self._embeddings]
        wanted, *found = await self.embedder.embed([query, *(texts[number] for number in new)], charge)
        self._embeddings.update(zip(new, found, strict=True))
        return [_cosine(wanted, self._embeddings[number]) for number in range(len(turns))]


OpenWindow = Callable[[Peers], Window]
"""Opens the window of one conversation."""

_HINT = "raise token_budget, lower reserve_for_output, or choose another strategy"


def window_for(bundle: Bundle, policy: ContextPolicy, model: str) -> OpenWindow:
    """Return what opens a conversation's window. Likeness is measured by the bundle's embedding model; without one, by the words that are shared."""
    name = embedder_of(bundle, policy) if policy.strategy == "relevance" else ""
    return lambda peers: Window(policy, model, peers.inference(name) if name else MockInference(None))


def turns_of(messages: Sequence[Message]) -> list[list[Message]]:
    """Return a conversation in turns, each from a user's message on."""
    turns: list[list[Message]] = []
    for message in messages:
        if message.role == "user" or not turns:
            turns.append([])
        turns[-1].append(message)
    return turns


def newest(sizes: Sequence[int], room: int) -> list[int]:
    """Return the numbers of the newest turns that fit together, in order; the last one always."""
    kept, left = [len(sizes) - 1], room - sizes[-1]
    for number in range(len(sizes) - 2, -1, -1):
        left -= sizes[number]
        if left < 0:
            break
        kept.insert(0, number)
    return kept


def cut(text: str, tokens: int, estimate: Estimate) -> str:
    """Return as many whole words of `text` as `tokens` allow."""
    if estimate(text) <= tokens:
        return text
    words = text.split()
    keep = max(0, math.floor(len(words) * tokens / max(1, estimate(text))))
    return " ".join(words[:keep])


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    norms = math.sqrt(sum(value * value for value in one)) * math.sqrt(sum(value * value for value in other))
    return sum(left * right for left, right in zip(one, other, strict=True)) / norms if norms else 0.0
