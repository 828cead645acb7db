"""Every weakness of promptkit-format.md, section 11, and the test that shows that it is none here."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
BETTER: Mapping[int, str] = {
    1: "results/test_pass_thresholds.py::test_a_threshold_holds_across_trials",
    2: "results/test_summary.py::test_keys_and_their_order",
    3: "results/test_summary.py::test_assertions_of_one_type_are_not_merged",
    4: "e2e/test_run_verdicts.py::test_failing_run_exits_1",
    5: "bundle/test_bundle_warnings.py::test_no_effect_is_a_warning",
    6: "conversation/test_guardrails.py::test_6_a_guardrail_that_fired_has_one_verdict",
    7: "bundle/test_plan.py::test_override_keeps_what_a_mock_is",
    8: "bundle/test_bundle_errors.py::test_error",
    9: "checks/test_reference_weaknesses.py::test_9_a_mistyped_parameter_is_refused",
    10: "bundle/test_starter_bundle.py::test_starter_is_flawless",
    11: "checks/test_reference_weaknesses.py::test_11_a_single_tool_name_is_read",
    12: "bundle/test_bundle_errors.py::test_error",
    13: "bundle/test_advice.py::test_13_an_id_that_does_not_count_is_spoken_of",
    14: "bundle/test_bundle_errors.py::test_error",
    15: "checks/test_reference_weaknesses.py::test_15_an_unmet_when_is_skipped_everywhere",
    16: "checks/test_reference_weaknesses.py::test_16_a_cost_budget_reads_what_was_spent",
    17: "checks/test_reference_weaknesses.py::test_17_a_check_that_hardly_ever_passes_says_so",
    18: "checks/test_reference_weaknesses.py::test_18_sentences_are_counted",
    19: "judging/test_bench.py::test_judges_are_chosen_by_name",
    20: "checks/test_reference_weaknesses.py::test_20_aliases_and_defaults_hold_for_checks",
    21: "checks/test_reference_weaknesses.py::test_21_a_turn_can_be_looked_at_alone",
    22: "conversation/test_turns.py::test_a_failed_turn_is_the_last",
    23: "conversation/test_turns.py::test_a_missing_variable_is_an_error",
    24: "conversation/test_prompt_parts.py::test_a_model_has_its_own_prompt",
    25: "providers/test_evaluation_with_models.py::test_two_models_and_a_judge",
    27: "cli/test_command_line.py::test_help_shows_defaults_and_variables",
    28: "bundle/test_schemas.py::test_the_command_prints_a_schema",
    29: "conversation/test_saved_conversations.py::test_each_turn_is_checked_as_it_was_said",
    30: "bundle/test_plan.py::test_order_and_ids",
    31: "conversation/test_workflows.py::test_conversations_share_no_state",
    32: "checks/test_reference_weaknesses.py::test_32_a_state_that_never_spoke_is_seen",
    33: "conversation/test_guardrails.py::test_what_a_guardrail_does",
    34: "conversation/test_guardrails.py::test_a_cost_guardrail_sees_the_reply_it_judges",
    35: "conversation/test_guardrails.py::test_an_input_guardrail_answers_instead_of_the_model",
    36: "outside/test_mcp_servers.py::test_one_session_a_conversation",
    37: "judging/test_briefs.py::test_what_each_judge_sees",
    38: "providers/test_openai_chat.py::test_a_conversation_with_tools",
    39: "checks/test_reference_weaknesses.py::test_39_results_belong_to_their_own_calls",
    40: "bundle/test_recordings.py::test_a_replay_names_its_recording_beside_it",
    41: "providers/test_media_out.py::test_a_mock_needs_no_picture",
    42: "bundle/test_advice.py::test_42_a_mistyped_persona_is_refused",
    43: "bundle/test_bundle_supported.py::test_refused",
}
NOT_TO_TEST: Mapping[int, str] = {
    26: "a vendor retires a model: its items are errors, which name it",
    44: "installing is the README's first step, which the tour's test takes",
}


@pytest.mark.parametrize("number", BETTER)
def test_a_weakness_has_its_test(number: int) -> None:
    """The test that a weakness names is there."""
    file, _, name = BETTER[number].partition("::")
    assert re.search(rf"def {name}\(", (TESTS / file).read_text(encoding="utf-8"))


def test_every_weakness_is_here() -> None:
    """No weakness of the document is left out."""
    document = TESTS.parent / "../shared/spec/promptkit-format.md"
    if not document.is_file():
        pytest.skip("the description of the format is not there")
    section = document.read_text(encoding="utf-8").partition("## 11. ")[2].partition("\n## ")[0]
    assert {int(number) for number in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)} == BETTER.keys() | NOT_TO_TEST.keys()
