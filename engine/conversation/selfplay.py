"""Self-play: a model that speaks as the user, in the voice of a persona (promptkit-format.md 7.2).

Owns what that model is asked and what of its reply is said. Its usage is kept on the user's message, apart from the candidate's. Must not know how
the candidate answers.
"""

import re
from dataclasses import dataclass

from engine.bundle.model import NOTHING, Bundle, RequestDefaults, Scenario, Turn
from engine.bundle.personas import persona_prompt
from engine.conversation.session import Session
from engine.errors import BundleInvalid, ProviderError
from engine.providers.messages import Message
from engine.providers.port import Request
from engine.providers.port import Script as Place

TEMPERATURE, SEED = 0.7, 42
MAX_TOKENS, MAX_TOKENS_WITH_END = 200, 300
MAX_SENTENCES, MAX_QUESTIONS = 2, 2

END_MARKER = "[CONVERSATION_COMPLETE]"
"""What a simulated user writes when it has what it came for."""

_END = re.compile(r"\s*\[\s*conversation[ _-]complete\s*\]\s*", re.IGNORECASE)
_END_INSTRUCTION = f"When the conversation has reached its natural end and your goals are met, end your last message with {END_MARKER}."
_OPENING = Message("user", "Begin the conversation: write your first message.")
_SENTENCE_END = re.compile(r"[.!?]+(?=\s|\Z)")
_LIKE_AN_ASSISTANT = re.compile(
    r"\b(as an ai|i(?: am|'m) here to help|how (?:can|may) i (?:help|assist)|i(?:'d| would) be happy to (?:help|assist))\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Said:
    """What a simulated user does next: a message, or None for nothing more; after `is_last` it is not asked again."""

    message: Message | None
    is_last: bool


@dataclass(frozen=True, slots=True)
class SimulatedUser:
    """A persona that a provider speaks for, in at least `least` and at most `most` exchanges."""

    role: str
    persona: str
    provider: str
    system: str
    wanted: RequestDefaults
    least: int
    most: int

    async def speak(self, session: Session, exchange: int) -> Said:
        """Return what the user says in the `exchange`-th exchange of this entry, from 0.

        Raises:
            ProviderError: the provider gave no reply, or an empty one.
        """
        provider, sampling = session.peers.serving(self.provider, self.wanted)
        messages = swapped(session.transcript.messages)
        place = Place(session.script.scenario, 1 + sum(message.role == "assistant" for message in messages), persona=self.persona)
        thread = f"persona {self.role}/{self.persona}"
        request = Request(messages or [_OPENING], system=self.system, sampling=sampling, script=place, thread=thread)
        started = session.line.clock.monotonic()
        reply = await provider.complete(request)
        session.transcript.selfplay.charge(reply)
        message = Message("user", reply.text, usage=reply.usage, cost_usd=reply.cost_usd, meta=dict(reply.meta))
        message.latency_ms = (session.line.clock.monotonic() - started) * 1000 if reply.latency_ms is None else reply.latency_ms
        return self._said(message, session, exchange + 1)

    def _said(self, message: Message, session: Session, exchanges: int) -> Said:
        raw = message.content
        ends = self.most > self.least and _END.search(raw) is not None
        message.content = _END.sub(" ", raw).strip() if ends else raw
        message.meta |= {"role": self.role, "persona": self.persona, **_remarks(message.content), **({"rawResponse": raw} if ends else {})}
        if message.content.strip():
            message.meta |= session.transcript.selfplay.tell()
            return Said(message, ends and exchanges >= self.least)
        if ends and exchanges > self.least:
            return Said(None, is_last=True)
        raise ProviderError(f"the simulated user '{self.persona}' said nothing", kind="protocol", transient=True)


def swapped(messages: list[Message]) -> list[Message]:
    """Return a conversation from the user's side: roles swapped, without tools and without messages that say nothing."""
    roles = {"user": "assistant", "assistant": "user"}
    return [Message(roles[message.role], message.content) for message in messages if message.role in roles and message.content]


def _remarks(text: str) -> dict[str, list[str]]:
    """Return what is unlike a user in a generated message; it is said all the same."""
    found = []
    if len(_SENTENCE_END.findall(text)) > MAX_SENTENCES:
        found.append(f"more than {MAX_SENTENCES} sentences")
    if text.count("?") > MAX_QUESTIONS:
        found.append(f"more than {MAX_QUESTIONS} questions")
    if _LIKE_AN_ASSISTANT.search(text):
        found.append("sounds like an assistant")
    return {"warnings": found} if found else {}


def compile_user(turn: Turn, scenario: Scenario, bundle: Bundle) -> SimulatedUser:
    """Compile the simulated user of a self-play turn.

    Raises:
        BundleInvalid: its role or persona is not there, or the persona's template keeps a placeholder without a value.
    """
    providers = {role.id: role.provider for role in bundle.arena.roles}
    persona = bundle.personas.get(turn.persona)
    if turn.role not in providers or persona is None:
        raise BundleInvalid(f"{turn.location}: cannot hold a turn of role '{turn.role}' and persona '{turn.persona}': the bundle does not have them")
    system, missing = persona_prompt(persona, scenario, bundle.prompt_vars.get(scenario.task_type, NOTHING))
    if missing:
        names = ", ".join(f"'{name}'" for name in missing)
        raise BundleInvalid(f"{turn.location}: cannot speak as persona '{persona.id}': no value for {names}")
    most = max(turn.turns, turn.max_turns or 0)
    ends = most > turn.turns
    defaults = persona.defaults or NOTHING
    return SimulatedUser(
        role=turn.role,
        persona=persona.id,
        provider=providers[turn.role],
        system=f"{system}\n\n{_END_INSTRUCTION}" if ends else system,
        wanted=RequestDefaults(
            temperature=defaults.get("temperature", TEMPERATURE),
            max_tokens=MAX_TOKENS_WITH_END if ends else MAX_TOKENS,
            seed=defaults.get("seed", SEED),
        ),
        least=turn.turns,
        most=most,
    )
