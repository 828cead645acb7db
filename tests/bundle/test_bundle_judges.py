"""Judges and classifiers of a bundle: what is wrong between a check and who decides it, said when the bundle is loaded."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.bundle.loader import load_bundle
from engine.bundle.model import Bundle
from engine.errors import BundleInvalid
from engine.plan import MockOverride, PlanRequest, make_plan

Write = Callable[[dict[str, str | bytes | None]], Path]

ARENA = """kind: Arena
metadata: {name: a}
spec:
  prompt_configs: [{id: assistant, file: p.yaml}, {id: strict-judge, file: j.yaml}]
  providers: [{file: m.yaml}, {file: k.yaml, group: judge}]
  scenarios: [{file: s.yaml}]
"""
PROMPT = "kind: PromptConfig\nmetadata: {name: p}\nspec: {task_type: t, system_template: Be kind.}\n"
JUDGE = "kind: PromptConfig\nmetadata: {name: j}\nspec: {task_type: strict, system_template: 'Judge {{criteria}} in {{response}}, {{tone}}.', variables: [{name: tone, default: calmly}]}\n"
TWO = "  judges: [{name: strict, provider: k}, {name: kind, provider: k}]\n"
ONE = "  judges: [{name: strict, provider: k}]\n"


@pytest.fixture
def judged(tmp_path: Path) -> Callable[..., Bundle]:
    """Load a bundle with one check, its arena continued by `arena` and its judge's prompt replaced by `prompt`."""

    def load(check: str, *, arena: str = ONE, prompt: str = JUDGE, provider: str = "type: mock") -> Bundle:
        scenario = f"kind: Scenario\nmetadata: {{name: s}}\nspec:\n  task_type: t\n  turns: [{{role: user, content: Hi}}]\n  conversation_assertions:\n    - {check}\n"
        files = {
            "config.arena.yaml": ARENA + arena,
            "p.yaml": PROMPT,
            "j.yaml": prompt,
            "s.yaml": scenario,
            "m.yaml": "kind: Provider\nmetadata: {name: m}\nspec: {type: mock}\n",
            "k.yaml": f"kind: Provider\nmetadata: {{name: k}}\nspec: {{{provider}}}\n",
        }
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        return load_bundle(tmp_path)

    return load


@pytest.mark.parametrize(
    ("check", "more", "message", "hint"),
    [
        pytest.param(
            "{type: bias}", {"arena": ""}, "check 'bias' needs a judge, and the arena has none", "name one in the arena's `judges`", id="no judge"
        ),
        pytest.param(
            "{type: bias, params: {judge: strikt}}", {}, "unknown judge 'strikt' of check 'bias'", "did you mean 'strict'?", id="a misspelt judge"
        ),
        pytest.param("{type: bias, params: {judge: [strict, x]}}", {}, "unknown judge 'x'", "judges are: strict", id="one of a panel"),
        pytest.param(
            "{type: bias}", {"arena": TWO}, "check 'bias' does not say which judge decides", "one of strict, kind", id="several judges, none named"
        ),
        pytest.param(
            "{type: pii_leakage}", {"arena": TWO}, "check 'pii_leakage' does not say which judge", "strict", id="also where a judge is only welcome"
        ),
        pytest.param("{type: llm_judge}", {}, "check 'llm_judge' does not say what to judge by", "add criteria", id="no criteria"),
        pytest.param(
            "{type: llm_judge, params: {criteria: c, prompt: strikt-judge}}",
            {},
            "unknown prompt 'strikt-judge' of check",
            "did you mean 'strict-judge'?",
            id="a prompt",
        ),
        pytest.param(
            "{type: llm_judge, params: {criteria: c}}",
            {"arena": ONE + "  judge_defaults: {prompt: nobody}\n"},
            "unknown prompt 'nobody' of judge_defaults",
            "prompts are: assistant, strict-judge",
            id="the default prompt",
        ),
        pytest.param(
            "{type: llm_judge, params: {criteria: c, prompt: strict}}",
            {"prompt": JUDGE.replace("{{tone}}", "{{mood}}")},
            "cannot ask a judge with prompt 'strict-judge': no value for 'mood'",
            "a judge's prompt may use criteria",
            id="a placeholder without a value",
        ),
        pytest.param(
            "{type: llm_judge, params: {prompt: strict}}",
            {"prompt": JUDGE.replace("variables: [", "variables: [{name: criteria, required: true}, ")},
            "no value for 'criteria'",
            "a judge's prompt may use criteria",
            id="required criteria that the check does not give",
        ),
        pytest.param("{type: bias, params: {judge: [strict, strict]}}", {}, "'judge' names a judge twice", "", id="a judge with two votes"),
        pytest.param("{type: bias, params: {agregate: mean}}", {}, "unknown parameter 'agregate'", "did you mean 'aggregate'?", id="a mistyped key"),
        pytest.param("{type: bias, params: {prompt: a, system_prompt: b}}", {}, "'prompt' and 'system_prompt' both say", "", id="two tasks"),
        pytest.param(
            "{type: faithfulness}", {}, "one of 'contexts', 'context' and 'context_field' must be given", "", id="a retrieval without a context"
        ),
        pytest.param("{type: contextual_recall, params: {context: c}}", {}, "missing parameter 'reference'", "", id="recall without a reference"),
        pytest.param(
            "{type: text_toxicity, params: {model: x, expected_label: toxic, classifier_id: m}}",
            {},
            "provider 'm', which is none of role inference",
            "",
            id="no classifier",
        ),
    ],
)
def test_refused(judged: Callable[..., Bundle], check: str, more: dict[str, Any], message: str, hint: str) -> None:
    """A check that nobody can decide, or of which it is not clear who does, is refused with its line."""
    with pytest.raises(BundleInvalid) as caught:
        judged(check, **more)
    assert message in caught.value.message
    assert caught.value.message.startswith("s.yaml:7: ")
    assert hint in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    ("check", "more"),
    [
        pytest.param("{type: bias, params: {min_score: 0.5}}", {}, id="the only judge needs no name"),
        pytest.param("{type: pii_leakage}", {"arena": ""}, id="a judge that is only welcome may be missing"),
        pytest.param("{type: llm_judge, params: {criteria: c, prompt: strict-judge, min_score: 0.5}}", {}, id="a prompt by its id"),
        pytest.param("{type: llm_judge, params: {criteria: c, prompt: strict, min_score: 0.5}}", {}, id="a prompt by its task_type"),
        pytest.param(
            "{type: llm_judge, params: {min_score: 0.5}}",
            {"arena": ONE + "  judge_defaults: {prompt: strict-judge}\n"},
            id="the default prompt says what",
        ),
        pytest.param(
            "{type: llm_judge_conversation, params: {rubric: r, judge: kind, min_score: 0.5}}", {"arena": TWO}, id="an alias, a judge of two"
        ),
    ],
)
def test_not_refused(judged: Callable[..., Bundle], check: str, more: dict[str, Any]) -> None:
    """What is clear needs nothing said."""
    assert not [warning for warning in judged(check, **more).warnings if "s.yaml" in warning]


@pytest.mark.parametrize(
    ("check", "more", "warning"),
    [
        pytest.param("{type: bias}", {}, "check 'bias' hardly ever passes: a judge must score it exactly 1", id="a judge without min_score"),
        pytest.param(
            "{type: tool_efficiency, params: {max_calls: 3}}", {}, "with max_calls every call lowers the score below 1", id="tool_efficiency"
        ),
        pytest.param(
            "{type: directional, params: {check: similar_content, baseline_content: x}}", {}, "only the very same words score 1", id="similar_content"
        ),
        pytest.param(
            "{type: text_toxicity, params: {model: x, expected_label: toxic}}",
            {},
            "is skipped, and so passes: the bundle has no provider of role inference",
            id="skipped",
        ),
        pytest.param(
            "{type: bias, params: {min_score: 0.5}}",
            {"arena": ONE + "  judge_defaults: {prompt_registry: x}\n"},
            "'prompt_registry'",
            id="a registry",
        ),
    ],
)
def test_warned_of(judged: Callable[..., Bundle], check: str, more: dict[str, Any], warning: str) -> None:
    """What is allowed and probably not meant is said with its remedy."""
    assert any(warning in said for said in judged(check, **more).warnings)


def test_a_check_with_a_bound_is_not_warned_of(judged: Callable[..., Bundle]) -> None:
    """min_score is the remedy."""
    assert not any("hardly ever" in said for said in judged("{type: tool_efficiency, params: {max_calls: 3, min_score: 0.2}}").warnings)


def test_the_only_classifier_answers(judged: Callable[..., Bundle]) -> None:
    """A provider of role inference needs no name when it is the only one, is part of the plan, and is no test subject."""
    check = "{type: text_toxicity, params: {model: x, expected_label: toxic}}"
    bundle = judged(check, provider="type: mock, role: inference, additional_config: {labels: {toxic: 0.1}}", arena="")
    plan = make_plan(bundle, PlanRequest(mock=MockOverride()))
    assert list(plan.serving) == ["k"]
    assert [cell.provider for cell in plan.cells] == ["m"]
