"""What holds for every check, whatever a conversation holds."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.checks import prepare_check, validate_check
from engine.checks.evidence import CallRecord, CompositionTrace, Evidence, Outcome, WorkflowTrace, of_last_turn
from engine.checks.registry import check_types
from engine.items import Usage
from engine.providers.messages import Message, ToolCall, ToolResult

JUDGED = {"criteria": "c"}
LABEL = {"expected_label": "x", "model": "m"}
EXAMPLES: dict[str, dict[str, Any]] = {
    "contains": {"patterns": ["a", "é"]},
    "contains_any": {"patterns": ["a", "b"]},
    "content_excludes": {"patterns": ["a"]},
    "banned_words": {"words": ["a", "100%"]},
    "regex": {"pattern": "(?i)a.*b"},
    "min_length": {"min": 5},
    "max_length": {"max_tokens": 2},
    "sentence_count": {"max": 1},
    "field_presence": {"fields": ["a", "b"]},
    "json_valid": {"allow_wrapped": True, "extract_json": True},
    "json_schema": {"schema": {"type": "object", "required": ["a"]}, "extract_json": True},
    "json_path": {"expression": "a", "expected": 1, "extract_json": True},
    "latency_budget": {"max_ms": 10},
    "cost_budget": {"max_cost_usd": 0.1, "max_total_tokens": 10},
    "directional": {"check": "similar_content", "baseline_content": "a b"},
    "outcome_equivalent": {"metric": "content_hash", "expected_content": "a"},
    "invariant_fields_preserved": {"tool": "t", "fields": ["a"]},
    "guardrail_triggered": {"validator": "length"},
    "tools_called": {"tool_names": ["t", "u"], "max_calls": 2},
    "tools_called_session": {"tools": ["t"], "require_args": True},
    "tools_not_called": {"tool_names": ["t"]},
    "tools_not_called_session": {"tool_names": ["t"]},
    "tool_args": {"tool_name": "t", "expected_args": {"a": 1, "b": None}},
    "tool_args_session": {"tool_name": "t", "expected_args": {"a": "x"}},
    "tool_args_excluded_session": {"tool_name": "t", "excluded_args": {"a": 1}},
    "tool_calls_with_args": {"tool_name": "t", "expected_args": {"a": 1}, "args_match": {"b": "^x"}, "result_includes": ["a"], "result_matches": "b"},
    "tool_call_count": {"tool": "t", "min": 1, "max": 2},
    "tool_call_sequence": {"sequence": ["t", "u", "t"]},
    "tool_call_chain": {"steps": [{"tool": "t", "no_error": True}, {"tool": "u", "result_includes": ["a"]}]},
    "tool_no_repeat": {},
    "tool_anti_pattern": {"patterns": [{"sequence": ["t", "u"]}]},
    "tool_efficiency": {"max_calls": 3, "max_error_rate": 0.5},
    "no_tool_errors": {},
    "agent_invoked": {"agents": ["t"]},
    "agent_not_invoked": {"agents": ["t"]},
    "agent_response_contains": {"agent": "t", "contains": "a"},
    "tool_result_includes": {"patterns": ["a"], "occurrence": 2},
    "tool_result_matches": {"tool": "t", "pattern": "a"},
    "tool_result_has_media": {"media_type": "image"},
    "tool_result_media_type": {"mime_type": "image/png"},
    "image_format": {"formats": ["png"]},
    "audio_format": {"formats": ["wav"]},
    "image_dimensions": {"min_width": 1, "height": 2},
    "audio_duration": {"max_seconds": 1},
    "video_duration": {"min_seconds": 1},
    "video_resolution": {"presets": ["720p"], "max_width": 5},
    "state_is": {"state": "a"},
    "transitioned_to": {"state": "a"},
    "workflow_complete": {},
    "spoke_in_state": {"state": "a"},
    "workflow_transition_order": {"sequence": ["a", "b"]},
    "workflow_tool_access": {"rules": [{"state": "a", "allowed": ["t"]}]},
    "skill_activated": {"skill_names": ["a"], "min_calls": 2},
    "skill_not_activated": {"skill_names": ["a"]},
    "skill_activation_order": {"sequence": ["a", "b"]},
    "composition_step_output": {"step": "a", "contains": "x"},
    "composition_branch_taken": {"branch": "a", "expected": "b"},
    "composition_parallel_complete": {"parallel": "a"},
    "composition_output": {"equals": "x"},
    **dict.fromkeys(("llm_judge", "llm_judge_session", "llm_judge_tool_calls", "bias", "toxicity", "role_violation", "pii_leakage"), JUDGED),
    "faithfulness": {"context": "c"},
    "hallucination": {"context": "c"},
    "answer_relevancy": {"question": "q"},
    "contextual_precision": {"question": "q", "contexts": ["c"]},
    "contextual_relevancy": {"contexts": ["c"]},
    "contextual_recall": {"reference": "r", "context": "c"},
    **dict.fromkeys(("text_toxicity", "text_sentiment", "audio_emotion", "image_moderation"), LABEL),
    "cosine_similarity": {"reference": "a", "min_similarity": 0.5},
}
"""Parameters of every check that this engine evaluates without an outside program."""

PREPARED = {check: prepare_check(check, params) for check, params in EXAMPLES.items()}

NAMES = st.sampled_from(["t", "u", "t\u200b"])
STATES = st.sampled_from(["a", "b", ""])
TEXTS = st.text(max_size=30) | st.sampled_from(["a", '{"a": 1}', '```json\n{"a": 1.0}\n```', "a.b! c? ", "\ud800", "١٢٣"])
ARGUMENTS = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.none() | st.booleans() | st.integers() | st.floats() | TEXTS, max_size=3)
MEDIA = st.fixed_dictionaries(
    {"type": st.sampled_from(["image", "audio", "video", "text"])},
    optional={"media": st.fixed_dictionaries({}, optional={"mimeType": TEXTS, "width": st.integers(0, 3), "height": st.none() | st.integers(0, 3)})},
)


@st.composite
def calls(draw: st.DrawFn) -> CallRecord:
    """Draw a tool call. Its id is that of every other."""
    name = draw(NAMES)
    error = draw(st.sampled_from(["", "boom\u202e"]))
    result = ToolResult("call_0", name, draw(TEXTS), error, "execution" if error else "", parts=draw(st.lists(MEDIA, max_size=2)))
    return CallRecord(ToolCall("call_0", name, draw(st.none() | ARGUMENTS)), result, draw(st.integers(0, 2)), draw(STATES))


@st.composite
def conversations(draw: st.DrawFn) -> Evidence:
    """Draw the evidence of a conversation."""
    messages = [Message("user", draw(TEXTS) or "q")]
    messages += [Message("assistant", text, parts=draw(st.lists(MEDIA, max_size=2))) for text in draw(st.lists(TEXTS, max_size=3))]
    replies = [message.content for message in messages if message.role == "assistant"]
    return Evidence(
        reply=replies[-1] if replies else "",
        replies=replies,
        calls=draw(st.lists(calls(), max_size=4)),
        latency_ms=draw(st.floats(0, 1e6)),
        usage=Usage(draw(st.integers(0, 50)), draw(st.integers(0, 50))),
        cost_usd=draw(st.floats(0, 1)),
        messages=messages,
        turn=draw(st.integers(0, 2)),
        turn_start=draw(st.integers(0, 2)),
        skills=draw(st.lists(STATES, max_size=3)),
        workflow=WorkflowTrace(draw(STATES), draw(st.booleans()), draw(st.lists(STATES, max_size=3)), draw(st.lists(STATES, max_size=3))),
        composition=CompositionTrace({"a": draw(TEXTS)}, {"a": draw(STATES)}, draw(st.lists(STATES, max_size=2)), draw(TEXTS)),
    )


def test_every_check_has_an_example() -> None:
    """No check of this engine is left out here, but those that run a program or ask a service."""
    assert all(validate_check(check, params) == [] for check, params in EXAMPLES.items())
    outside = {"rest_eval", "rest_eval_session", "a2a_eval", "a2a_eval_session", "exec", "exec_eval", "tool_exec"}
    assert set(check_types()) - outside == set(EXAMPLES)


@given(conversations())
@settings(max_examples=40)
def test_every_check_answers_every_conversation(evidence: Evidence) -> None:
    """A score is 0 to 1 or none, an explanation can be read on any screen, and asking twice gives the same."""
    for check, evaluate in PREPARED.items():
        outcome = evaluate(evidence)
        assert evaluate(evidence) == outcome, check
        if isinstance(outcome, Outcome):
            assert outcome.score is None or 0 <= outcome.score <= 1, check
            assert outcome.explanation, check
            assert outcome.explanation.isprintable(), check


@given(conversations())
@settings(max_examples=20)
def test_the_last_turn_holds_nothing_that_the_conversation_does_not(evidence: Evidence) -> None:
    """`scope: turn` only takes away: its calls and replies are among those of the whole, in their order."""
    last = of_last_turn(evidence)
    rest = iter(evidence.calls)
    assert all(any(record is other for other in rest) for record in last.calls)
    assert len(last.replies) <= len(evidence.replies)
    assert (last.reply, last.workflow, last.usage) == (evidence.reply, evidence.workflow, evidence.usage)
