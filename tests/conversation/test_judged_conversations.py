"""Conversations with checks that ask somebody, and session evals beside them."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.checks.compiled import CompiledCheck
from engine.checks.evidence import Outcome
from engine.conversation.evals import AFTER_A_TURN, AT_THE_END, SessionEval, due, share_of
from engine.conversation.guardrails import BLOCKED_REPLY
from engine.items import ItemResult, Scope, Usage, Verdict

Hold = Callable[..., Awaitable[ItemResult]]
Judged = Callable[..., Awaitable[ItemResult]]

VERDICT = '{"passed": true, "score": 0.8, "reasoning": "kind"}'


def user(content: str, *checks: dict[str, Any]) -> dict[str, Any]:
    """Return a scripted turn."""
    return {"role": "user", "content": content, "assertions": list(checks)}


def judge(least: float, **params: Any) -> dict[str, Any]:
    """Return a judge's check."""
    return {"type": "llm_judge", "params": {"criteria": "kindness", "min_score": least, **params}}


@pytest.fixture
def judged(hold: Hold, tmp_path: Path) -> Judged:
    """Hold a conversation in an arena with a judge that always says `says`."""

    async def run(turns: list[dict[str, Any]], replies: dict[int, Any], *, says: str = VERDICT, **more: Any) -> ItemResult:
        (tmp_path / "judge-answers.yaml").write_text(yaml.safe_dump({"defaultResponse": says}))
        arena = {
            "judges": [{"name": "j", "provider": "judge"}],
            "provider_specs": {"judge": {"type": "mock", "model": "j", "additional_config": {"mock_config": "judge-answers.yaml"}}},
        }
        scenario = {"providers": ["m"], **more.pop("scenario", {})}
        return await hold(turns, replies, arena=arena | more.pop("arena", {}), scenario=scenario, **more)

    return run


@pytest.mark.parametrize(("least", "verdict"), [pytest.param(0.8, Verdict.PASS, id="enough"), pytest.param(0.9, Verdict.FAIL, id="too little")])
async def test_a_judge_decides_a_turn(judged: Judged, least: float, verdict: Verdict) -> None:
    """The judge's score meets the author's bound; votes are kept, and what the judge used stands apart from the conversation's own."""
    result = await judged([user("Hi", judge(least))], {1: "hello"})
    [check] = result.checks
    assert (result.verdict, check.score, check.value["votes"][0]["judge"]) == (verdict, 0.8, "j")
    assert result.usage == Usage(10, 1)
    assert result.judges.usage.output_tokens == len(VERDICT) // 4
    assert result.judges.cost_usd is not None
    assert result.cost_usd is not None
    assert result.spent_usd == pytest.approx(result.cost_usd + result.judges.cost_usd)


async def test_a_judge_without_a_verdict_is_an_error(judged: Judged) -> None:
    """A judge that cannot be read makes the item an error, not a fail; other failed checks would."""
    result = await judged([user("Hi", judge(0.5))], {1: "hello"}, says="I love it")
    assert result.verdict is Verdict.ERROR
    assert result.error is not None
    assert "cannot get a verdict of judge 'j'" in result.error.message
    assert not result.retryable


async def test_the_results_of_a_turn_keep_their_order(judged: Judged) -> None:
    """Judges are asked at once, and results stand in the order of the checks."""
    says = {"type": "contains", "params": {"patterns": ["hello"]}}
    result = await judged([user("Hi", judge(0.1), says, judge(0.2, judge="j"), says)], {1: "hello"})
    assert [check.type for check in result.checks] == ["llm_judge", "contains", "llm_judge", "contains"]


async def test_a_guardrail_may_be_a_judge(judged: Judged) -> None:
    """A guardrail whose judge scores too low replaces the reply."""
    guard = {"type": "toxicity", "params": {"min_score": 0.9}}
    result = await judged([user("Hi")], {1: "hello"}, prompt={"validators": [guard]})
    assert result.messages[-1]["content"] == BLOCKED_REPLY
    assert result.judges.usage != Usage()


async def test_a_guardrail_whose_judge_fails_ends_the_conversation(judged: Judged) -> None:
    """A conversation that a broken judge would have changed is an error."""
    result = await judged([user("Hi")], {1: "hello"}, says="?", prompt={"validators": [{"type": "toxicity"}]})
    assert result.error is not None
    assert (result.verdict, result.error.kind) == (Verdict.ERROR, "judge")


async def test_a_later_turn_can_be_looked_at_alone(judged: Judged) -> None:
    """`scope: turn` sees the last turn's calls and replies only; without it the whole conversation so far counts (weakness 21 of the reference)."""
    called = {"type": "tools_called", "params": {"tool_names": ["search"]}}
    here = {"type": "tools_called", "params": {"tool_names": ["search"], "scope": "turn", "min_score": 0}}
    clean = {"type": "content_excludes", "params": {"patterns": ["found"], "scope": "turn"}}
    replies = {1: {"tool_calls": [{"name": "search", "arguments": {}}]}, 2: "found it", 3: "bye"}
    result = await judged([user("Look", here), user("Thanks", called, here, clean)], replies, tools={"search": {}})
    assert [check.score for check in result.checks] == [1, 1, 0, 1]


EVALS = [
    {"id": "kind", "type": "llm_judge_session", "params": {"criteria": "kindness"}, "threshold": {"min_score": 0.9}},
    {"id": "length", "type": "min_length", "params": {"min": 10}, "trigger": "every_turn"},
    {"id": "off", "type": "bias", "enabled": False},
    {"id": "searched", "type": "json_valid", "when": {"any_tool_called": True}},
]


@pytest.mark.parametrize("where", ["arena", "prompt"])
async def test_session_evals_measure_and_decide_nothing(judged: Judged, where: str) -> None:
    """Evals of arena and prompt are made after each turn or at the end; they keep score, threshold and id, and the item passes all the same."""
    key = "pack_evals" if where == "arena" else "evals"
    result = await judged([user("Hi"), user("Ho")], {1: "hello", 2: "and goodbye"}, **{where: {key: EVALS}})
    found = [(check.name, check.scope, check.turn, check.passed, check.score, check.skipped) for check in result.checks]
    assert found == [
        ("length", Scope.SESSION, 0, True, 0.5, False),
        ("length", Scope.SESSION, 1, True, 1.0, False),
        ("kind", Scope.SESSION, None, False, 0.8, False),
        ("searched", Scope.SESSION, None, True, None, True),
    ]
    assert result.verdict is Verdict.PASS


async def test_a_session_eval_that_breaks_is_no_error_of_the_item(judged: Judged) -> None:
    """A measurement that could not be made says why, beside a verdict that does not depend on it."""
    result = await judged([user("Hi")], {1: "hello"}, says="?", arena={"pack_evals": EVALS[:1]})
    assert (result.verdict, result.error) == (Verdict.PASS, None)
    assert "cannot get a verdict" in result.checks[0].error


def test_samples_depend_on_ids_alone() -> None:
    """A sample takes the same cases in every run, about as many as it says, all at 100 and none at 0."""
    check = CompiledCheck("x", lambda _: Outcome(1))

    def taken(percentage: float) -> list[int]:
        sampled = SessionEval("e", "sample_turns", percentage, check)
        return [case for case in range(2000) if due([sampled], AFTER_A_TURN, f"s/m/1/{case}")]

    assert taken(20) == taken(20)
    assert 300 < len(taken(20)) < 500
    assert (len(taken(100)), len(taken(0))) == (2000, 0)
    assert due([SessionEval("e", "sample_turns", 100, check)], AT_THE_END, "s/m/1") == []
    assert share_of("a") == 0x_AF63_DC4C_8601_EC8C % 10_000 / 10_000
