"""Context policies: what a model is shown of a long conversation, and when that is an error."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.bundle import check_supported
from engine.bundle.contexts import ContextPolicy, Relevance
from engine.bundle.model import Bundle
from engine.checks.questions import Answers
from engine.conversation.asking import Line
from engine.conversation.token_estimates import estimate_for
from engine.conversation.transcript import Transcript
from engine.conversation.window import Window, cut, newest, turns_of
from engine.errors import ContextExceeded, FeatureNotSupported
from engine.items import ItemResult, Usage, Verdict
from engine.plan import MockOverride, PlanRequest, make_plan
from engine.providers.messages import Message, ToolCall, ToolResult
from engine.providers.port import Reply, Request, Sampling, Script
from foundation.clock import FakeClock

Write = Callable[..., Bundle]
Hold = Callable[..., Awaitable[ItemResult]]

WORDS = "one two three four five six seven eight nine ten"


class Summarizer:
    """A model that keeps what it is asked, and says always the same."""

    always_streams = False

    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def complete(self, request: Request) -> Reply:
        """Keep the request."""
        self.requests.append(request)
        return Reply("Ann likes tea.", usage=Usage(5, 3), cost_usd=0.25)


@pytest.fixture
def line(nobody: Answers) -> Line:
    """Return a line to a model that summarizes."""
    return Line(Summarizer(), Sampling(), FakeClock(), nobody)  # type: ignore[arg-type]


def talk(*turns: tuple[str, str]) -> Transcript:
    """Return a conversation of these questions and answers; an answer of "" is still to come."""
    transcript = Transcript()
    for question, answer in turns:
        transcript.add_user(Message("user", question))
        if answer:
            transcript.add_reply(Message("assistant", answer))
    return transcript


async def shown(window: Window, transcript: Transcript, line: Line, system: str = "") -> list[str]:
    """Return the texts of what a window shows."""
    return [message.content for message in (await window.fit(transcript, system, line, Script())).messages]


def policy(room: int, **more: Any) -> ContextPolicy:
    """Return a policy with room for so many tokens."""
    return ContextPolicy(token_budget=room, **{"reserve_for_output": 0} | more)


LONG = talk(("a " + WORDS, "b"), ("c", "d " + WORDS), ("e", ""))
"""Turns of 16, 16 and 1 tokens at 1.35 tokens a word."""


@pytest.mark.parametrize(
    ("limits", "system", "first"),
    [
        pytest.param(policy(33), "", "a", id="all of it fits"),
        pytest.param(policy(32), "", "c", id="the oldest turn is left out"),
        pytest.param(policy(17), "", "c", id="exactly two fit"),
        pytest.param(policy(16), "", "e", id="only the last fits"),
        pytest.param(policy(33), "You are kind", "c", id="the system prompt takes its room"),
        pytest.param(policy(43, reserve_for_output=10), "", "a", id="so does what is reserved for the answer"),
        pytest.param(ContextPolicy(), "", "a", id="no budget, no limit"),
    ],
)
async def test_oldest_leaves_out_whole_turns(limits: ContextPolicy, system: str, first: str, line: Line) -> None:
    """The strategy oldest leaves out the oldest turns, each whole, until the rest fits."""
    assert (await shown(Window(limits, "x"), LONG, line, system))[0].split()[0] == first


async def test_no_result_loses_its_call(line: Line) -> None:
    """What is shown begins with a user's message: no tool result stands without its call."""
    transcript = talk(("a " + WORDS, ""))
    call = ToolCall("1", "search", {"q": WORDS})
    transcript.add_reply(Message("assistant", "", tool_calls=[call]))
    transcript.add_result(call, ToolResult("1", "search", WORDS))
    transcript.add_user(Message("user", "b"))
    assert await shown(Window(policy(30), "x"), transcript, line) == ["b"]


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        pytest.param(policy(32, strategy="fail"), "the conversation has about 33 tokens, and the context policy leaves room for 32", id="fail"),
        pytest.param(
            policy(0 + 1, reserve_for_output=1),
            "the last turn alone has about 1 tokens, and the context policy leaves room for 0",
            id="no room at all",
        ),
    ],
)
async def test_too_much_is_an_error(limits: ContextPolicy, words: str, line: Line) -> None:
    """What may not be left out and does not fit is an error, never a request without messages."""
    with pytest.raises(ContextExceeded, match=words):
        await shown(Window(limits, "x"), LONG, line)


async def test_a_summary_stands_for_what_is_left_out(line: Line) -> None:
    """The strategy summarize has the model itself condense what does not fit, once, and goes on from that summary; its calls are paid."""
    window, transcript = Window(policy(30, strategy="summarize"), "x"), talk(("a " + WORDS, "b"), ("c", "d " + WORDS), ("e", ""))
    view = await window.fit(transcript, "", line, Script())
    assert (view.messages[0].content, view.note.splitlines()[-1]) == ("c", "Ann likes tea.")
    await window.fit(transcript, "", line, Script())
    transcript.add_reply(Message("assistant", "f " + WORDS))
    transcript.add_user(Message("user", "g"))
    await window.fit(transcript, "", line, Script())
    asked = line.provider.requests  # type: ignore[attr-defined]
    assert [len(request.messages) for request in asked] == [3, 4]
    assert "Ann likes tea." in asked[1].messages[0].content
    assert (transcript.usage, transcript.cost_usd) == (Usage(10, 6), 0.5)


async def test_relevance_keeps_what_is_alike(line: Line) -> None:
    """The strategy relevance keeps the newest messages and, of the others, the turns that are most alike to the question, in their order."""
    filler = "x y z " * 6
    transcript = talk(("my cat is called Tom", "nice"), (filler, "ok"), ("the weather", filler), ("what is my cat called", ""))
    relevance = Relevance(min_recent_messages=1)
    assert await shown(Window(policy(20, strategy="relevance", relevance=relevance), "x"), transcript, line) == [
        "my cat is called Tom",
        "nice",
        "what is my cat called",
    ]
    strict = Relevance(min_recent_messages=1, similarity_threshold=0.99)
    assert await shown(Window(policy(20, strategy="relevance", relevance=strict), "x"), transcript, line) == ["what is my cat called"]
    custom = Relevance(min_recent_messages=1, query_source="custom", custom_query="weather")
    assert (await shown(Window(policy(40, strategy="relevance", relevance=custom), "x"), transcript, line))[0] == "the weather"


@given(st.lists(st.integers(0, 9), min_size=1, max_size=9), st.integers(0, 60))
def test_the_newest_fit(sizes: list[int], room: int) -> None:
    """What is kept are the last turns without a gap, never more than fits, and one more would not fit; the last is kept always."""
    kept = newest(sizes, room)
    assert kept == list(range(kept[0], len(sizes)))
    total = sum(sizes[number] for number in kept)
    assert total <= room or len(kept) == 1
    assert kept[0] == 0 or total + sizes[kept[0] - 1] > room


@pytest.mark.parametrize(
    ("model", "text", "tokens"),
    [
        pytest.param("gpt-4o", WORDS, 13, id="GPT"),
        pytest.param("claude-haiku", WORDS, 13, id="Claude"),
        pytest.param("gemini-flash", WORDS, 14, id="Gemini"),
        pytest.param("other", WORDS, 14, id="another model"),
        pytest.param("other", "", 0, id="nothing"),
        pytest.param("other", "日本語です", 5, id="letters that no spaces part"),
        pytest.param("gpt", "f(x); g(y); if (a) { b(); }", 13, id="code"),
    ],
)
def test_estimates(model: str, text: str, tokens: int) -> None:
    """Tokens are estimated by words, more for code, and by letters where there are no spaces."""
    assert estimate_for(model)(text) == tokens


def test_a_long_summary_is_cut_between_words() -> None:
    """A summary that is longer than its room keeps its first words."""
    estimate = estimate_for("x")
    assert (cut(WORDS, 7, estimate), cut(WORDS, 14, estimate), cut(WORDS, 0, estimate)) == ("one two three four five", WORDS, "")


def test_turns_begin_with_the_user() -> None:
    """A conversation's turns begin with a user's message each; what stands before the first is a turn too."""
    messages = [Message("assistant", "a"), Message("user", "b"), Message("assistant", "c"), Message("user", "d")]
    assert [[message.content for message in turn] for turn in turns_of(messages)] == [["a"], ["b", "c"], ["d"]]


async def test_a_conversation_over_its_budget_is_an_error(hold: Hold) -> None:
    """With the strategy fail the item is an error that keeps what was said; the reference passes it with an empty transcript."""
    turns = [{"role": "user", "content": text, "assertions": [{"type": "min_length", "params": {"min": 1}}]} for text in ("Hi", WORDS)]
    result = await hold(
        turns, {1: "hello", 2: "never"}, scenario={"context_policy": {"token_budget": 14, "reserve_for_output": 2, "strategy": "fail"}}
    )
    assert result.error is not None
    assert (result.verdict, result.error.kind, len(result.checks)) == (Verdict.ERROR, "context", 1)
    assert [message["role"] for message in result.messages] == ["system", "user", "assistant", "user"]


async def test_numbers_of_replies_stay(hold: Hold) -> None:
    """Leaving out old turns does not change which entry of a response file answers."""
    turns = [{"role": "user", "content": f"{number} {WORDS}"} for number in range(3)]
    result = await hold(turns, {1: "a", 2: "b", 3: "c"}, scenario={"context_policy": {"token_budget": 30, "reserve_for_output": 2}})
    assert [message["content"] for message in result.messages if message["role"] == "assistant"] == ["a", "b", "c"]


def test_real_models_need_real_embeddings(write: Write) -> None:
    """Likeness by words stands for embeddings under mocks only; a real model with the strategy relevance needs an embedding provider."""
    bundle = write(
        [{"role": "user", "content": "Hi"}],
        {},
        provider={"type": "openai", "model": "x", "additional_config": {}},
        scenario={"context_policy": {"token_budget": 10, "strategy": "relevance", "relevance": {"provider": "openai", "model": "e"}}},
    )
    check_supported(bundle, make_plan(bundle, PlanRequest(mock=MockOverride())))
    with pytest.raises(FeatureNotSupported, match="its strategy relevance needs a provider of role embedding"):
        check_supported(bundle, make_plan(bundle, PlanRequest()))
