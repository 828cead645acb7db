"""Self-play: what the simulated user is asked, what it says, when it stops, and what it costs."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from engine.bundle.loader import read_bundle
from engine.bundle.model import Bundle, RequestDefaults, Scenario
from engine.bundle.personas import persona_prompt
from engine.bundle.roles import Persona
from engine.checks.questions import Answers
from engine.conversation.asking import Line
from engine.conversation.script import compile_script
from engine.conversation.selfplay import END_MARKER, swapped
from engine.conversation.session import Session
from engine.conversation.transcript import Transcript
from engine.errors import BundleInvalid, ProviderNotFound
from engine.items import ItemResult, Usage, Verdict
from engine.job_providers import ResolvedProvider
from engine.plan import MockOverride, PlanRequest, make_plan
from engine.providers.messages import Message, ToolCall
from engine.providers.port import Attempt, Reply, Request, Sampling
from foundation.clock import SystemClock

Write = Callable[..., Bundle]
Hold = Callable[..., Awaitable[ItemResult]]

PERSONA = {"description": "d", "system_template": "You are {{name}}.", "optional_vars": {"name": "Ann"}}
USER = {"type": "mock", "model": "u", "additional_config": {"mock_config": "mock.yaml"}}


def arena(**persona: Any) -> dict[str, Any]:
    """Return the arena's keys for one role `player` and one persona `ann`."""
    return {
        "provider_specs": {"user-model": USER},
        "self_play": {"persona_specs": {"ann": PERSONA | persona}, "roles": [{"id": "player", "provider": "user-model"}]},
    }


def play(**keys: Any) -> dict[str, Any]:
    """Return a self-play turn."""
    return {"role": "player", "persona": "ann", **keys}


def lines(*texts: str) -> dict[str, Any]:
    """Return a response file's lines of the persona, from the first."""
    return {"selfplay": {"ann": {"turns": dict(enumerate(texts, 1))}}}


async def held(hold: Hold, *turns: dict[str, Any], says: tuple[str, ...], **persona: Any) -> ItemResult:
    """Hold a conversation in which the model answers `one`, `two`, `three` and so on."""
    replies = dict(enumerate(("one", "two", "three", "four", "five"), 1))
    return await hold(list(turns), replies, arena=arena(**persona), scenario={"providers": ["m"]}, mock=lines(*says))


def said(result: ItemResult, role: str) -> list[str]:
    """Return what a role said."""
    return [message["content"] for message in result.messages if message["role"] == role]


async def test_the_persona_speaks_and_the_model_answers(hold: Hold) -> None:
    """Each exchange is a line of the persona, numbered by what the simulated user said before, and the model's answer to it."""
    result = await held(hold, {"role": "user", "content": "Hello"}, play(turns=2), says=("unused", "And then?", "I see."))
    assert (said(result, "user"), said(result, "assistant")) == (["Hello", "And then?", "I see."], ["one", "two", "three"])
    assert (result.turns, result.verdict) == (3, Verdict.PASS)


async def test_self_play_can_begin(hold: Hold) -> None:
    """A conversation may begin with the simulated user."""
    result = await held(hold, play(), says=("Good day.",))
    assert said(result, "user") == ["Good day."]


async def test_checks_follow_every_exchange(hold: Hold) -> None:
    """The checks of a self-play turn are evaluated after each exchange, numbered through the conversation, until one fails."""
    check = {"type": "content_matches", "params": {"pattern": "one|two"}}
    result = await held(
        hold, {"role": "user", "content": "Hello", "assertions": [check]}, play(turns=4, assertions=[check]), says=("a", "b", "c", "d")
    )
    assert [(found.turn, found.passed) for found in result.checks] == [(0, True), (1, True), (2, False)]
    assert (result.verdict, len(said(result, "user"))) == (Verdict.FAIL, 3)


async def test_the_user_is_paid_apart(hold: Hold) -> None:
    """What the simulated user used is on its messages and sums apart; the item's spending has both."""
    result = await held(hold, play(turns=2), says=("eight ch", "more of it"))
    first, second = (message for message in result.messages if message["role"] == "user")
    assert (first["usage"]["outputTokens"], second["usage"]["outputTokens"]) == (2, 2)
    assert result.selfplay.usage.output_tokens == 4
    assert result.usage == Usage(2 + 4, 20 + 20)
    assert result.spent_usd == pytest.approx((result.cost_usd or 0) + (result.selfplay.cost_usd or 0))


@pytest.mark.parametrize(
    ("texts", "users", "answers"),
    [
        pytest.param(("a", f"Thanks! {END_MARKER}", "c"), ["a", "Thanks!"], 2, id="the marker ends it once enough was said"),
        pytest.param((f"a {END_MARKER}", "b", "c", "d"), ["a", "b", "c", "d"], 4, id="a marker before the minimum is only taken off"),
        pytest.param(("a", "b", "[conversation complete]", "d"), ["a", "b"], 2, id="a marker alone is not said"),
        pytest.param(("a", "b", "c", "d", "e"), ["a", "b", "c", "d"], 4, id="at most max_turns without one"),
    ],
)
async def test_natural_termination(hold: Hold, texts: tuple[str, ...], users: list[str], answers: int) -> None:
    """With max_turns above turns the simulated user may end the conversation by a marker."""
    result = await held(hold, play(turns=2, max_turns=4), says=texts)
    assert (said(result, "user"), len(said(result, "assistant")), result.verdict) == (users, answers, Verdict.PASS)


async def test_without_termination_a_marker_is_text(hold: Hold) -> None:
    """Where turns is all there is, the marker is said as it stands."""
    assert said(await held(hold, play(turns=1), says=(f"a {END_MARKER}",)), "user") == [f"a {END_MARKER}"]


async def test_a_user_that_says_nothing_is_an_error(hold: Hold) -> None:
    """An empty message of the simulated user is an outage of its model, never an empty question."""
    result = await held(hold, play(turns=2), says=(" ",))
    assert (result.verdict, result.error and result.error.kind, result.retryable) == (Verdict.ERROR, "provider.protocol", True)


async def test_remarks_on_what_no_user_says(hold: Hold) -> None:
    """A message that is long, asks much or sounds like an assistant is said all the same, with a remark."""
    result = await held(hold, play(), says=("Sure. How can I help you? Is it this? Or that? Or what?",))
    assert result.messages[1]["meta"]["warnings"] == ["more than 2 sentences", "more than 2 questions", "sounds like an assistant"]


class Recorder:
    """A provider that keeps what it is asked."""

    always_streams = False

    def __init__(self, reply: Reply | None = None) -> None:
        self.reply = reply or Reply("Go on.")
        self.requests: list[Request] = []
        self.wanted: list[tuple[str, RequestDefaults]] = []

    def serving(self, name: str, wanted: RequestDefaults) -> tuple[Any, Sampling]:
        """Stand for every provider, and keep what is wanted."""
        self.wanted.append((name, wanted))
        return self, Sampling()

    async def complete(self, request: Request) -> Reply:
        """Keep the request."""
        self.requests.append(request)
        return self.reply


async def test_what_the_users_model_is_asked(write: Write, nobody: Answers) -> None:
    """It is asked as the persona, with roles swapped, in at most 200 tokens, at the persona's temperature; with an end in sight, in 300 and told of it."""
    recorder = Recorder()
    more = arena(defaults={"temperature": 0.1, "seed": 7})
    bundle = write([play(max_turns=2)], {}, arena=more, scenario={"providers": ["m"]})
    script = compile_script(bundle, bundle.scenarios["s"])

    transcript = Transcript()
    transcript.add_user(Message("user", "Hello"))
    transcript.add_reply(Message("assistant", "one"))
    user = script.turns[0].user
    assert user is not None
    await user.speak(Session(script, Line(recorder, Sampling(), SystemClock(), nobody), transcript, recorder), 0)  # type: ignore[arg-type]
    request = recorder.requests[0]
    assert [(message.role, message.content) for message in request.messages] == [("assistant", "Hello"), ("user", "one")]
    assert request.system.startswith("You are Ann.\n\n")
    assert END_MARKER in request.system
    assert recorder.wanted == [("user-model", RequestDefaults(temperature=0.1, max_tokens=300, seed=7))]


async def test_what_was_tried_for_a_line_that_is_not_said_is_kept(write: Write, nobody: Answers) -> None:
    """A user that says nothing but that it is done leaves no message; what its request met stands with what it spent."""
    recorder = Recorder(Reply(END_MARKER, cost_usd=0.5, attempts=(Attempt("rate_limit", "busy", 1.0, 500.0),)))
    bundle = write([play(turns=1, max_turns=3)], {}, arena=arena(), scenario={"providers": ["m"]})
    script, transcript = compile_script(bundle, bundle.scenarios["s"]), Transcript()
    user = script.turns[0].user
    assert user is not None
    session = Session(script, Line(recorder, Sampling(), SystemClock(), nobody), transcript, recorder)  # type: ignore[arg-type]
    assert (await user.speak(session, 1)).message is None
    spent = transcript.selfplay.spending
    assert (spent.cost_usd, [attempt["message"] for attempt in spent.attempts]) == (0.5, ["busy"])


async def test_how_the_users_model_was_asked_is_kept(write: Write, nobody: Answers) -> None:
    """Requests that brought nothing, and that a line was cut at its limit, stand with the line; its time is that of the answered request."""
    reply = Reply("Go", latency_ms=12.0, attempts=(Attempt("rate_limit", "busy", 1.0, 500.0),), meta={"finishReason": "length"})
    recorder = Recorder(reply)
    bundle = write([play()], {}, arena=arena(), scenario={"providers": ["m"]})
    script = compile_script(bundle, bundle.scenarios["s"])
    user = script.turns[0].user
    assert user is not None
    session = Session(script, Line(recorder, Sampling(), SystemClock(), nobody), Transcript(), recorder)  # type: ignore[arg-type]
    message = (await user.speak(session, 0)).message
    assert message is not None
    assert (message.latency_ms, message.meta["finishReason"], message.meta["persona"]) == (12.0, "length", "ann")
    assert message.meta["attempts"] == [{"kind": "rate_limit", "message": "busy", "latencyMs": 1.0, "waitedMs": 500.0}]


def test_tools_are_not_the_users_business() -> None:
    """The swapped history has no tool messages, no calls, and no message that says nothing."""
    history = [Message("user", "a"), Message("assistant", "", tool_calls=[ToolCall("1", "t", {})]), Message("tool", "r"), Message("assistant", "b")]
    assert [(message.role, message.content, message.tool_calls) for message in swapped(history)] == [("assistant", "a", []), ("user", "b", [])]


@pytest.mark.parametrize(
    ("persona", "scenario", "text"),
    [
        pytest.param({"system_template": "Goals:\n{{persona_goals}}", "goals": ("x", "y")}, {}, "Goals:\n- x\n- y", id="goals where they are placed"),
        pytest.param(
            {"system_prompt": "Hi.", "goals": ("x",), "constraints": ("z",), "style": {"verbosity": "short"}},
            {},
            "Hi.\n\nYour goals:\n- x\n\nYour constraints:\n- z\n\nVerbosity: short",
            id="what is not placed stands at the end",
        ),
        pytest.param(
            {"system_template": "Hi.", "style": {"formality": "moderate", "expressive": True}}, {}, "Hi.\n\nFormality: moderate", id="other traits"
        ),
        pytest.param({"system_template": "{{region}} {{friction_tags}} {{domain_hint}} {{user_context}}"}, {}, "us none general user", id="defaults"),
        pytest.param({"id": "ann_uk", "system_template": "{{region}}"}, {}, "uk", id="the region of an id"),
        pytest.param(
            {"system_template": "{{domain_hint}} {{city}}"},
            {"context_metadata": {"domain": "shop"}, "variables": {"city": "Rome"}},
            "shop Rome",
            id="the scenario's",
        ),
    ],
)
def test_persona_prompts(persona: dict[str, Any], scenario: dict[str, Any], text: str) -> None:
    """A persona's prompt has its variables filled and loses nothing of what the persona says."""
    assert persona_prompt(Persona(**{"id": "ann", "file": "p.yaml", **persona}), Scenario("s", "s.yaml", **scenario), {}) == (text, ())


def test_a_persona_without_a_value_is_refused(write: Write) -> None:
    """A placeholder or a required variable of a persona without a value is an error of the bundle."""
    with pytest.raises(BundleInvalid, match=r"'town' of persona 'ann' has no value in scenario 's'.*\n.*'city' of persona"):
        write([play()], {1: "one"}, arena=arena(required_vars=["town"], system_template="In {{city}}"), scenario={"providers": ["m"]})


def test_a_style_may_have_traits_of_its_own(write: Write) -> None:
    """A trait that the format does not know is told to the model; one that is a known one mistyped is an error."""
    write([play()], {1: "one"}, arena=arena(style={"formality": "moderate", "verbosity": "short"}), scenario={"providers": ["m"]})
    with pytest.raises(BundleInvalid, match="unknown key 'verbosty' in `style`"):
        write([play()], {1: "one"}, arena=arena(style={"verbosty": "short"}), scenario={"providers": ["m"]})


def test_the_override_leaves_no_user_real(write: Write) -> None:
    """Under the mock override the simulated user is a mock too: a real one is replaced, one that is a mock keeps its own file."""
    specs = arena() | {"provider_specs": {"user-model": {"type": "openai", "model": "x"}}}
    bundle = write([play()], {1: "one"}, arena=specs, scenario={"providers": ["m"]})
    real = make_plan(bundle, PlanRequest(mock=MockOverride("mock.yaml")))
    assert real.serving["user-model"]["additional_config"] == {"mock_config": "mock.yaml"}
    mock = make_plan(write([play()], {1: "one"}, arena=arena(), scenario={"providers": ["m"]}), PlanRequest(mock=MockOverride()))
    assert mock.serving["user-model"]["additional_config"] == {"mock_config": "mock.yaml"}
    assert {spec["type"] for plan in (real, mock) for spec in (*plan.providers.values(), *plan.serving.values())} == {"mock"}


def test_a_job_must_bring_the_user(write: Write) -> None:
    """A job whose providers do not have the one that a role names is refused when it is planned."""
    bundle = write([play()], {1: "one"}, arena=arena(), scenario={"providers": ["m"]})
    with pytest.raises(ProviderNotFound, match="the job's providers do not have 'user-model'"):
        make_plan(bundle, PlanRequest(providers={"default": (ResolvedProvider("m", {"type": "mock"}),)}))


def test_reading_is_whole(write: Write) -> None:
    """The bundle of these tests is sound."""
    bundle = write([play()], {1: "one"}, arena=arena(), scenario={"providers": ["m"]})
    assert not read_bundle(bundle.root)[1].has_errors
