"""Workflows: who answers in which state, how a conversation moves, and what stops it."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from engine.bundle.model import Bundle
from engine.bundle.workflows import Artifact, Budget, State, Workflow
from engine.conversation import ItemRunner
from engine.conversation.workflow import Course, MoveRefused
from engine.errors import BundleInvalid
from engine.items import ItemResult, Verdict
from engine.plan import PlanRequest, make_plan
from foundation.clock import SystemClock

Write = Callable[..., Bundle]
Hold = Callable[..., Awaitable[ItemResult]]

STATES: dict[str, Any] = {
    "front": {"prompt_task": "t", "description": "First", "on_event": {"Ask": "back", "Done": "end"}},
    "back": {"prompt_task": "back", "on_event": {"Return": "front", "Done": "end"}},
    "end": {"prompt_task": "end", "terminal": True},
}
PROMPTS = {name: {"task_type": name, "system_template": f"You are {name}."} for name in ("back", "end")}


def arena(states: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return the arena's keys of a workflow with these states."""
    return {"workflow": {"version": 1, "entry": "front", "states": states or STATES, **more}, "prompt_specs": PROMPTS}


def move(event: str, text: str = "", **context: str) -> dict[str, Any]:
    """Return a reply that sends an event."""
    return {"response": text, "tool_calls": [{"name": "workflow__transition", "arguments": {"event": event, **context}}]}


def user(content: str, *checks: dict[str, Any]) -> dict[str, Any]:
    """Return a scripted turn."""
    return {"role": "user", "content": content, "assertions": list(checks)}


def replies(result: ItemResult) -> list[tuple[str, str]]:
    """Return each reply with the state it was said in."""
    return [(message["meta"]["workflowState"]["state"], message["content"]) for message in result.messages if message["role"] == "assistant"]


def results(result: ItemResult) -> list[str]:
    """Return what the model read of its calls."""
    return [message["content"] for message in result.messages if message["role"] == "tool"]


async def test_who_takes_over_answers_in_the_same_turn(hold: Hold) -> None:
    """A transition takes effect once its call is answered: the next reply of the turn is the new state's, by its own prompt."""
    check = {"type": "spoke_in_state", "params": {"state": "end"}}
    result = await hold([user("Hi", check)], {1: move("Done", "Wait."), 2: "I am the end."}, arena=arena())
    assert replies(result) == [("front", "Wait."), ("end", "I am the end.")]
    assert results(result) == ['{\n  "event": "Done",\n  "status": "transition_scheduled",\n  "target_state": "end"\n}']
    assert result.verdict is Verdict.PASS


async def test_a_state_without_ways_out_offers_none(hold: Hold) -> None:
    """The first system message shows the tools of the first state; a terminal one has no transition to offer."""
    first = await hold([user("Hi")], {1: "hello"}, arena=arena())
    assert first.messages[0]["meta"] == {"availableTools": ["workflow__transition"]}
    last = await hold([user("Hi")], {1: "hello"}, arena=arena(), scenario={"task_type": "end"})
    assert "meta" not in last.messages[0]


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        pytest.param(move("Return"), "does not take the event 'Return'; events are: Ask, Done", id="an event of another state"),
        pytest.param({"tool_calls": [{"name": "workflow__transition", "arguments": {}}]}, "lacks 'event'", id="no event"),
        pytest.param(
            {"tool_calls": [{"name": "workflow__set_artifact", "arguments": {"name": "a", "value": "b"}}]},
            "the workflow has no artifact 'a'; artifacts are: none",
            id="an artifact that no state declares",
        ),
        pytest.param(
            {
                "tool_calls": [
                    {"name": "workflow__transition", "arguments": {"event": "Ask"}},
                    {"name": "workflow__transition", "arguments": {"event": "Done"}},
                ]
            },
            "scheduled already",
            id="two moves in one reply",
        ),
    ],
)
async def test_a_refused_move_is_told(hold: Hold, reply: dict[str, Any], words: str) -> None:
    """What is not possible is said to the model, and the conversation goes on."""
    result = await hold([user("Hi")], {1: reply, 2: "ok"}, arena=arena())
    assert any(words in text for text in results(result))
    assert result.verdict is Verdict.PASS


async def test_a_scenario_starts_where_its_task_type_says(hold: Hold) -> None:
    """The task_type pins the first state: by the state's name, or by its prompt."""
    result = await hold([user("Hi")], {1: "hello"}, arena=arena(), scenario={"task_type": "back"})
    assert (replies(result), result.messages[0]["content"]) == ([("back", "hello")], "You are back.")


async def test_without_a_task_type_it_starts_at_the_entry(hold: Hold) -> None:
    """A scenario need not name a task type."""
    assert replies(await hold([user("Hi")], {1: "hello"}, arena=arena(), scenario={"task_type": ""})) == [("front", "hello")]


async def test_a_redirect_says_where_it_leads(hold: Hold) -> None:
    """A state that was visited often enough redirects, and the answer names the state that is really entered."""
    states = STATES | {"back": STATES["back"] | {"max_visits": 1, "on_max_visits": "end"}}
    script = {1: move("Ask"), 2: move("Return"), 3: move("Ask"), 4: "bye"}
    checks = [{"type": "workflow_transition_order", "params": {"sequence": ["back", "front", "end"]}}, {"type": "workflow_complete", "params": {}}]
    result = await hold([user("Hi", *checks)], script, arena=arena(states))
    assert '"target_state": "end"' in results(result)[2]
    assert '"requested_state": "back"' in results(result)[2]
    assert result.verdict is Verdict.PASS


async def test_a_loop_is_no_repetition(hold: Hold) -> None:
    """A state that leads to itself may be entered again by equal calls in one turn, as often as its visits allow."""
    states = STATES | {"front": STATES["front"] | {"on_event": {"More": "front"}, "max_visits": 6, "on_max_visits": "end"}}
    result = await hold([user("Hi")], {number: move("More") for number in range(1, 7)} | {7: "bye"}, arena=arena(states))
    assert [state for state, _ in replies(result)] == ["front"] * 6 + ["end"]


async def test_artifacts_reach_later_prompts(hold: Hold) -> None:
    """An artifact fills its placeholder in the prompts of states; before it is set it is empty."""
    states = STATES | {"front": STATES["front"] | {"artifacts": {"note": {"mode": "append"}}}}
    more = arena(states) | {"prompt_specs": PROMPTS | {"back": {"task_type": "back", "system_template": "Notes: {{artifacts.note}}."}}}
    keep = [{"name": "workflow__set_artifact", "arguments": {"name": "note", "value": value}} for value in ("a", "b")]
    check = {"type": "content_includes", "params": {"patterns": ["hello"]}}
    result = await hold([user("Hi", check)], {1: {"tool_calls": keep}, 2: move("Ask"), 3: "hello"}, arena=more)
    changed = [message["meta"].get("system") for message in result.messages if message["role"] == "assistant"]
    assert (changed, result.verdict) == ([None, None, "Notes: a\nb."], Verdict.PASS)


async def test_a_budget_of_calls_refuses_more(hold: Hold) -> None:
    """Once the workflow's tool calls are used up, further calls are refused, those of the same reply too."""
    twice = {"tool_calls": [{"name": "search", "arguments": {"q": str(number)}} for number in range(2)]}
    result = await hold(
        [user("Hi")], {1: twice, 2: "ok"}, arena=arena(engine={"budget": {"max_tool_calls": 1}}), tools={"search": {"mock_result": "found"}}
    )
    assert results(result) == ["found", "Error: the workflow's budget of 1 tool calls is used up"]


async def test_tools_of_the_bundle_answer_where_a_prompt_lists_none(hold: Hold) -> None:
    """Beside the workflow's tools a prompt that lists no tools forbids none; one that lists some forbids the others."""
    calls = {"tool_calls": [{"name": "search", "arguments": {}}]}
    tools = {"search": {"mock_result": "found"}}
    free = await hold([user("Hi")], {1: calls, 2: "ok"}, arena=arena(), tools=tools, prompt={"allowed_tools": []})
    assert results(free) == ["found"]
    bound = await hold([user("Hi")], {1: calls, 2: "ok"}, arena=arena(), tools=tools | {"fetch": {}}, prompt={"allowed_tools": ["fetch"]})
    assert results(bound)[0].startswith("Error: tool 'search' is not offered")


async def test_conversations_share_no_state(write: Write) -> None:
    """Two items of one runner go their own ways through the workflow."""
    bundle = write(
        [user("Hi", {"type": "transitioned_to", "params": {"state": "end"}})], {1: move("Done"), 2: "bye"}, arena=arena(), scenario={"trials": 2}
    )
    plan = make_plan(bundle, PlanRequest())
    runner = ItemRunner(bundle, plan, SystemClock())
    assert [(await runner.run(item)).verdict for item in plan.items] == [Verdict.PASS, Verdict.PASS]


def course(*, elapsed_s: float = 0.0, calls: int = 0, **budget: Any) -> Course:
    """Return a way through three states, of which `b` may be visited twice and `c` once."""
    states = {
        "a": State("a", "t", on_event={"b": "b", "c": "c"}),
        "b": State("b", "t", on_event={"a": "a", "c": "c"}, max_visits=2),
        "c": State("c", "t", on_event={"a": "a"}, max_visits=1, on_max_visits="b", artifacts=(Artifact("x"), Artifact("y", append=True))),
    }
    workflow = Workflow("a", states, Budget(**budget))
    return Course(workflow, states["a"], elapsed_s=lambda: elapsed_s, calls=lambda: calls)


def go(way: Course, *events: str) -> list[str]:
    """Send events; returns the states that were entered."""
    for event in events:
        way.schedule(event)
        way.settle()
    return way.entered


def test_a_move_waits_for_its_reply() -> None:
    """A scheduled move changes nothing before it is settled, and is made once."""
    way = course()
    way.schedule("b")
    assert (way.state.name, way.entered) == ("a", [])
    assert (way.settle(), way.settle()) == (True, False)
    assert (way.state.name, way.entered) == ("b", ["b"])


def test_redirects_are_followed() -> None:
    """A redirect leads on from a state that is visited out itself, and where all are, the move is refused and can be made otherwise."""
    way = course()
    assert go(way, "c", "a", "c", "a") == ["c", "a", "b", "a"]
    assert go(way, "c") == ["c", "a", "b", "a", "b"]
    go(way, "a")
    with pytest.raises(MoveRefused, match="state 'b' was visited 2 times, 2 allowed"):
        way.schedule("c")


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        pytest.param({"max_total_visits": 2}, "budget of 2 visits", id="visits, the first state included"),
    ],
)
def test_visits_are_counted(limits: dict[str, Any], words: str) -> None:
    """A workflow's visits are limited over all states."""
    way = course(**limits)
    go(way, "b")
    with pytest.raises(MoveRefused, match=words):
        way.schedule("a")


@pytest.mark.parametrize(
    ("so_far", "spent"),
    [
        pytest.param({"max_tool_calls": 3, "calls": 2}, "", id="calls left"),
        pytest.param({"max_tool_calls": 3, "calls": 3}, "the workflow's budget of 3 tool calls is used up", id="no calls left"),
        pytest.param({"max_wall_time_s": 5.0, "elapsed_s": 4.9}, "", id="time left"),
        pytest.param({"max_wall_time_s": 5.0, "elapsed_s": 5.0}, "the workflow's budget of 5 seconds is used up", id="no time left"),
    ],
)
def test_budgets(so_far: dict[str, Any], spent: str) -> None:
    """Calls and time are limited for the whole conversation."""
    assert course(**so_far).spent(0) == spent


def test_artifacts_replace_or_append() -> None:
    """An artifact is replaced, unless it is declared to grow; any state may keep what one declares."""
    way = course()
    with pytest.raises(MoveRefused, match="artifacts are: x, y"):
        way.keep("z", "1")
    for value in ("1", "2"):
        way.keep("x", value)
        way.keep("y", value)
    assert way.artifacts == {"x": "2", "y": "1\n2"}


@pytest.mark.parametrize(
    ("states", "more", "words"),
    [
        pytest.param(
            {"front": {"prompt_task": "t", "on_event": {"Go": "frnt"}}},
            {},
            r"event 'Go' of state 'front' leads to 'frnt', which is no state",
            id="an event",
        ),
        pytest.param({"front": {"prompt_task": "t", "on_max_visits": "x"}}, {}, "on_max_visits of state 'front' names 'x'", id="a redirect"),
        pytest.param({"front": {"prompt_tsk": "t"}}, {}, r"unknown key 'prompt_tsk' in a state", id="a mistyped key"),
        pytest.param({"front": {}}, {}, "state 'front' has no prompt_task", id="no prompt"),
        pytest.param(
            {"front": {"prompt_task": "nowhere"}},
            {"scenario": {"task_type": ""}},
            "no prompt has the task_type 'nowhere' that scenario 's' comes to",
            id="a prompt that is not there",
        ),
        pytest.param({"front": {"orchestration": "composition"}}, {}, "orchestrated by a composition and names none", id="no composition"),
        pytest.param(STATES, {"scenario": {"task_type": "bak"}}, r"the task_type 'bak' of scenario 's' names no state", id="a scenario elsewhere"),
    ],
)
def test_a_broken_workflow_is_refused(write: Write, states: dict[str, Any], more: dict[str, Any], words: str) -> None:
    """What a workflow names must be there, and what it says must be known."""
    with pytest.raises(BundleInvalid, match=f"(?s){words}"):
        write([user("Hi")], {}, arena=arena(states), **more)


def test_tools_that_no_prompt_lists_are_checked(write: Write) -> None:
    """Where a workflow's prompts list no tools, all of the bundle's may be called, so a broken one is found when the bundle is read."""
    with pytest.raises(BundleInvalid, match="cannot use tool 'search'"):
        write([user("Hi")], {}, arena=arena(), tools={"search": {"mock_template": "{{upper .q}}"}}, prompt={"allowed_tools": []})
