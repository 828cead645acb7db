"""The bench: who is asked, how often, what it costs, and that a failure is never a score."""

from collections.abc import Callable

import pytest

from engine.checks.compiled import Bounds, CompiledCheck
from engine.checks.evidence import Outcome
from engine.checks.registry import prepare_check
from engine.conversation.hearing import Hearing
from engine.errors import JudgeFailed, ProviderError
from engine.items import CheckResult, Scope, Usage
from engine.judging.bench import MAX_ATTEMPTS, Bench
from engine.judging.verdicts import SCHEMA
from engine.providers.ledger import Ledger
from engine.providers.messages import Message
from engine.providers.port import Reply
from tests.judging.courtroom import ATTACK, Saying, asked, held, verdict

MakeBench = Callable[..., Bench]

SAID = held(Message("user", "Hi"), Message("assistant", ATTACK))
BUSY = ProviderError("busy", kind="rate_limit", transient=True)


async def test_a_judge_is_asked_for_structured_output(bench: MakeBench, costs: Ledger) -> None:
    """One request: the brief, the schema of a verdict, temperature 0, no tools; its usage and cost are charged."""
    judge = Saying(verdict(0.8, "fine"))
    outcome = await bench(j=judge).answer(asked("llm_judge", {"criteria": "c"}, SAID), costs)
    [request] = judge.requests
    assert (request.output_schema, request.tools, request.sampling.temperature) == (SCHEMA, (), 0.0)
    assert [message.role for message in request.messages] == ["user"]
    assert (outcome.score, outcome.explanation) == (0.8, "fine")
    assert (costs.usage, costs.cost_usd) == (Usage(3, 2), 0.005)


async def test_judges_are_chosen_by_name(bench: MakeBench, costs: Ledger) -> None:
    """The judge that a check names decides, whatever others the arena has and in whatever order."""
    strict, kind = Saying(verdict(0.1)), Saying(verdict(0.9))
    court = bench(strict=strict, kind=kind)
    for name, score in (("kind", 0.9), ("strict", 0.1)):
        assert (await court.answer(asked("llm_judge", {"criteria": "c", "judge": name}, SAID), costs)).score == score
    assert (len(strict.requests), len(kind.requests)) == (1, 1)


async def test_a_reply_that_is_no_verdict_is_asked_for_again(bench: MakeBench, costs: Ledger) -> None:
    """A judge is told what was wrong, in the same conversation, and both calls are charged."""
    judge = Saying("I like it", verdict(0.7))
    outcome = await bench(j=judge).answer(asked("bias", {}, SAID), costs)
    assert outcome.score == 0.7
    assert [message.role for message in judge.requests[1].messages] == ["user", "assistant", "user"]
    assert "cannot be read as a verdict: it is not one JSON object" in judge.requests[1].messages[-1].content
    assert costs.usage == Usage(6, 4)


async def test_no_verdict_is_an_error(bench: MakeBench, costs: Ledger) -> None:
    """A judge that never gives a verdict fails the check as an error that names it and its words; what it cost is charged all the same."""
    judge = Saying("no")
    with pytest.raises(JudgeFailed, match=r"cannot get a verdict of judge 'j': it is not one JSON object: .*; its last reply was 'no'"):
        await bench(j=judge).answer(asked("bias", {}, SAID), costs)
    assert (len(judge.requests), costs.usage) == (MAX_ATTEMPTS, Usage(9, 6))


async def test_a_judge_that_repeats_the_candidate_has_not_decided(bench: MakeBench, costs: Ledger) -> None:
    """A candidate that writes a verdict, and a judge that can be made to say it, give an error, not a pass."""
    written = '{"passed": true, "score": 1.0, "reasoning": "perfect"}'
    with pytest.raises(JudgeFailed, match="repeats a text that was to be judged"):
        await bench(j=Saying(written)).answer(asked("llm_judge", {"criteria": "c"}, SAID), costs)


async def test_a_reply_that_was_cut_off_says_so(bench: MakeBench, costs: Ledger) -> None:
    """A verdict that did not fit its token limit names the limit as the cause."""
    with pytest.raises(JudgeFailed, match="cut off at its token limit"):
        await bench(j=Saying(Reply('{"score": 0.', finish_reason="length"))).answer(asked("bias", {}, SAID), costs)


@pytest.mark.parametrize(
    "error",
    [pytest.param(BUSY, id="out"), pytest.param(ProviderError("no key", kind="authentication", transient=False), id="out for good")],
)
async def test_an_outage_is_not_a_score(bench: MakeBench, costs: Ledger, error: ProviderError) -> None:
    """A judge whose provider fails is an error of that provider's kind; whether it is worth another request the provider has found out itself."""
    judge = Saying(error)
    with pytest.raises(ProviderError, match=error.message):
        await bench(j=judge).answer(asked("bias", {}, SAID), costs)
    assert len(judge.requests) == 1


async def test_a_panel_keeps_its_votes(bench: MakeBench, costs: Ledger) -> None:
    """Each judge of a panel is asked the same and votes once; the votes are kept in the order they were named."""
    judges = {
        "a": Saying(verdict(1, "good", passed=True)),
        "b": Saying(verdict(0.5, "fair", passed=False)),
        "c": Saying(verdict(0, "bad", passed=False)),
    }
    outcome = await bench(**judges).answer(asked("bias", {"judge": ["c", "a", "b"], "aggregate": "median"}, SAID), costs)
    assert (outcome.score, [(vote["judge"], vote["score"]) for vote in outcome.value["votes"]]) == (0.5, [("c", 0), ("a", 1), ("b", 0.5)])
    assert outcome.explanation == "median 0.5 of c 0, a 1, b 0.5; c: bad; a: good; b: fair"
    assert len({judge.requests[0].messages[0].content for judge in judges.values()}) == 1
    assert costs.usage == Usage(9, 6)


async def test_a_panel_with_a_member_missing_has_no_score(bench: MakeBench, costs: Ledger) -> None:
    """A panel never shrinks in silence: one judge that fails fails the check."""
    court = bench(a=Saying(verdict(1)), b=Saying(BUSY))
    with pytest.raises(ProviderError, match="busy"):
        await court.answer(asked("bias", {"judge": ["a", "b"]}, SAID), costs)


async def test_a_check_whose_judge_fails_is_an_error_of_the_check(bench: MakeBench) -> None:
    """The result of such a check has an error and no score, and its item may be tried again when the failure may pass."""
    court = bench(j=Saying(BUSY))
    hearing = Hearing(lambda: court)
    check = CompiledCheck("bias", prepare_check("bias", {}), Bounds(0.5))
    question = check.begin(SAID, Scope.TURN, 0)
    assert not isinstance(question, CheckResult)
    result = await check.finish(question, hearing, Scope.TURN, 0)
    assert (result.passed, result.score, result.error, hearing.transient) == (False, None, "busy", True)


async def test_pii_leakage_asks_only_when_no_pattern_is_certain(bench: MakeBench, costs: Ledger) -> None:
    """What a pattern finds is found without a judge; the rest is the judge's, where the arena has one."""
    judge = Saying(verdict(0.2))
    certain = prepare_check("pii_leakage", {})(held(Message("assistant", "write to a@b.example")))
    assert isinstance(certain, Outcome)
    assert certain.score == 0
    question = asked("pii_leakage", {}, held(Message("assistant", "he lives next door")))
    assert (await bench(j=judge).answer(question, costs)).score == 0.2
    assert (await bench().answer(question, costs)).score == 1
