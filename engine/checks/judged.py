"""Checks that a judge decides: of a reply, a conversation, tool calls, a retrieval, a reply's safety (promptkit-format.md 3.6).

Owns what a judge is shown for each. How a judge is asked, and what its task says, is `engine.judging`'s.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.checks.evidence import CallRecord, Evaluate, Evidence, Outcome
from engine.checks.guardrail import personal_data
from engine.checks.params import Param, Values, names, one_of, text, texts
from engine.checks.questions import Entry, Exhibit, JudgeQuestion, Question
from engine.checks.registry import CheckType
from engine.providers.messages import Message, json_text

AGGREGATES = ("mean", "median", "min", "max", "majority")

Show = Callable[[Evidence, Values], tuple[Exhibit, ...]]
"""Chooses what a judge sees. Raises ValueError when something that must be there is not."""


def response(evidence: Evidence, _: Values) -> tuple[Exhibit, ...]:
    """Show the last reply."""
    return (_single("response", "RESPONSE", evidence.reply),)


def response_in_context(evidence: Evidence, values: Values) -> tuple[Exhibit, ...]:
    """Show the conversation before the last reply, and the reply."""
    before = evidence.messages[:-1] if _ends_with_reply(evidence) else evidence.messages
    return (Exhibit("conversation", "CONVERSATION BEFORE THE RESPONSE", _entries(before)), *response(evidence, values))


def conversation(evidence: Evidence, values: Values) -> tuple[Exhibit, ...]:
    """Show the whole conversation, tool calls and their results included; a reply that a guardrail holds back comes after it."""
    held_back = () if _ends_with_reply(evidence) else response(evidence, values)
    return (Exhibit("conversation", "CONVERSATION", _entries(evidence.messages)), *held_back)


def tool_calls(evidence: Evidence, values: Values) -> tuple[Exhibit, ...]:
    """Show what the user asked for, and the calls of the tools that the check names (of all without names) with their results."""
    chosen = [record for record in evidence.calls if not values["tools"] or record.name in values["tools"]]
    requests = _entries([message for message in evidence.messages if message.role == "user"])
    calls = tuple(_call(place, record) for place, record in enumerate(chosen, 1))
    return (Exhibit("question", "REQUESTS", requests), Exhibit("tool_calls", "TOOL CALLS", calls))


def question(evidence: Evidence, values: Values) -> tuple[Exhibit, ...]:
    """Show the question that the check gives, otherwise the last thing the user said."""
    asked = values.get("question") or next((m.content for m in reversed(evidence.messages) if m.role == "user"), "")
    if not asked:
        raise ValueError("there is no question: nobody asked anything, and the check has no 'question'")
    return (_single("question", "QUESTION", asked),)


def contexts(evidence: Evidence, values: Values) -> tuple[Exhibit, ...]:
    """Show the retrieved chunks: those that the check gives, otherwise those that tools returned under `context_field`."""
    chunks = values["contexts"] or ((values["context"],) if values["context"] else ()) or retrieved(evidence.calls, values["context_field"])
    return (Exhibit("contexts", "CONTEXT", tuple(Entry(f"chunk {place}", chunk) for place, chunk in enumerate(chunks, 1))),)


def reference(_: Evidence, values: Values) -> tuple[Exhibit, ...]:
    """Show the answer that would be right."""
    return (_single("reference", "REFERENCE", values["reference"]),)


def role(evidence: Evidence, values: Values) -> tuple[Exhibit, ...]:
    """Show the role that the check gives, otherwise the system prompt."""
    given = values["agent_role"] or evidence.system
    return (_single("role", "ROLE", given),) if given.strip() else ()


def retrieved(calls: Sequence[CallRecord], field: str) -> tuple[str, ...]:
    """Return what the last tool result with `field` at its top holds there: a text, a list of texts, or any JSON, as text.

    Raises:
        ValueError: no result has it.
    """
    from engine.checks.json_content import parse_json  # noqa: PLC0415 - only checks that read tool results need it

    for record in reversed(calls):
        try:
            found = parse_json(record.result.content)
        except ValueError:
            continue
        if isinstance(found, Mapping) and found.get(field):
            chunks = found[field] if isinstance(found[field], list) else [found[field]]
            return tuple(chunk if isinstance(chunk, str) else json_text(chunk) for chunk in chunks)
    raise ValueError(f"no tool returned a context: none of {len(calls)} results has the field '{field}'")


def _ends_with_reply(evidence: Evidence) -> bool:
    return bool(evidence.messages) and evidence.messages[-1].role == "assistant"


def _single(name: str, heading: str, content: str) -> Exhibit:
    return Exhibit(name, heading, (Entry("", content),))


def _entries(messages: Sequence[Message]) -> tuple[Entry, ...]:
    return tuple(Entry(f"[{place}] {_speaker(message)}", _said(message)) for place, message in enumerate(messages, 1))


def _speaker(message: Message) -> str:
    return {"tool": "a tool answers"}.get(message.role, message.role)


def _said(message: Message) -> str:
    lines = [message.content] if message.content else []
    lines += [_media(part) for part in message.parts if part.get("type") != "text"]
    lines += [f"calls {call.name} {json_text(call.arguments) if call.arguments is not None else call.raw}" for call in message.tool_calls]
    result = message.tool_result
    return "\n".join(lines) if result is None else f"{result.name}: {message.content}"


def _media(part: Mapping[str, Any]) -> str:
    media = part.get("media") or {}
    described = " ".join(str(media[key]) for key in ("mimeType", "caption") if media.get(key))
    return f"[{part.get('type')}{f' {described}' if described else ''}]"


def _call(place: int, record: CallRecord) -> Entry:
    result = record.result
    outcome = f"failed: {result.error}" if result.error else f"result: {result.content}"
    return Entry(f"[{place}]", f"{record.name} {json_text(dict(record.arguments))}\n{outcome}")


_JUDGE = Param("judge", names, default=(), aliases=("judges",))
_ASKING = (
    _JUDGE,
    Param("aggregate", one_of(*AGGREGATES), default="mean"),
    Param("model", text, default=""),
    Param("prompt", text, default=""),
    Param("system_prompt", text, default=""),
    Param("criteria", text, default=""),
    Param("rubric", text, default=""),
)
"""What every check of this family takes."""

_QUESTION = Param("question", text, default="")
_CONTEXTS = (Param("contexts", texts, default=()), Param("context", text, default=""), Param("context_field", text, default=""))


def judge_question(rubric_name: str, values: Values, exhibits: tuple[Exhibit, ...]) -> JudgeQuestion:
    """Return the question that a check's parameters ask of a judge."""
    return JudgeQuestion(
        rubric_name,
        exhibits,
        judges=values["judge"],
        aggregate=values["aggregate"],
        model=values["model"],
        prompt=values["prompt"],
        instructions=values["system_prompt"],
        criteria=values["criteria"],
        rubric=values["rubric"],
    )


def _asking(rubric_name: str, *shows: Show) -> Callable[[Values], Evaluate]:
    def prepare(values: Values) -> Evaluate:
        _check(values)

        def evaluate(evidence: Evidence) -> Outcome | Question:
            return judge_question(rubric_name, values, tuple(exhibit for show in shows for exhibit in show(evidence, values)))

        return evaluate

    return prepare


def _check(values: Values) -> None:
    if values["prompt"] and values["system_prompt"]:
        raise ValueError("'prompt' and 'system_prompt' both say what the judge is told: give one of them")
    if len(set(values["judge"])) != len(values["judge"]):
        raise ValueError("'judge' names a judge twice")
    if "contexts" in values and not any(values[param.key] for param in _CONTEXTS):
        raise ValueError("one of 'contexts', 'context' and 'context_field' must be given")


def _judged_calls(values: Values) -> Evaluate:
    ask = _asking("llm_judge_tool_calls", tool_calls)(values)

    def evaluate(evidence: Evidence) -> Outcome | Question:
        if not any(not values["tools"] or record.name in values["tools"] for record in evidence.calls):
            return Outcome(None, "there is no tool call to judge", skipped=True)
        return ask(evidence)

    return evaluate


def _pii_leakage(values: Values) -> Evaluate:
    _check(values)

    def evaluate(evidence: Evidence) -> Outcome | Question:
        found = personal_data(evidence.reply)
        return found if found.score == 0 else replace(judge_question("pii_leakage", values, response(evidence, values)), without_judge=found)

    return evaluate


def _one_is_rare(_: Values) -> str:
    return "a judge must score it exactly 1"


def _type(name: str, params: Sequence[Param], *shows: Show) -> CheckType:
    return CheckType(name, (*params, *_ASKING), _asking(name, *shows), judge="needed", falls_short=_one_is_rare)


_REFERENCE = Param("reference", text, required=True, aliases=("expected_output",))

CHECKS = (
    _type("llm_judge", (), response_in_context),
    _type("llm_judge_session", (), conversation),
    CheckType(
        "llm_judge_tool_calls", (Param("tools", texts, default=()), *_ASKING), _judged_calls, judge="needed", falls_short=_one_is_rare, spans=True
    ),
    _type("faithfulness", _CONTEXTS, contexts, response),
    _type("answer_relevancy", (_QUESTION,), question, response),
    _type("contextual_precision", (*_CONTEXTS, _QUESTION), question, contexts),
    _type("contextual_recall", (*_CONTEXTS, _REFERENCE), reference, contexts),
    _type("contextual_relevancy", (*_CONTEXTS, _QUESTION), question, contexts),
    _type("hallucination", _CONTEXTS, contexts, response),
    _type("bias", (), response),
    _type("toxicity", (), response),
    _type("role_violation", (Param("agent_role", text, default=""),), role, response),
    CheckType("pii_leakage", _ASKING, _pii_leakage, judge="welcome"),
)
