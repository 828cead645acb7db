"""Check a saved conversation, message by message, as if it were being held (kind Eval, promptkit-format.md 3.8).

The checks of turns are made after each turn of the assistant, on what had been said by then, and decide like any other: the reference looks at the last
message again and again, and lets none of them decide. Nobody is asked but judges, so what the recording cost is not what the item costs.
"""

from engine.bundle.evaluations import Evaluation
from engine.bundle.model import Bundle
from engine.bundle.recording_reader import load_recording
from engine.bundle.recordings import RECORDING, RecordedMessage
from engine.checks.questions import Answers
from engine.conversation.asked import compile_checks
from engine.conversation.holding import evaluate
from engine.conversation.transcript import Transcript
from engine.errors import BundleInvalid
from engine.items import CheckResult, Item, Scope, Usage
from engine.providers.ledger import Ledger
from engine.providers.messages import Message, ToolCall, ToolResult
from engine.providers.port import Reply
from engine.providers.replay import tool_call


class Rehearsal:
    """An eval over one recording, ready to be gone through.

    Raises (when made):
        BundleInvalid: the recording cannot be read, or a check is not what the loader let pass.
    """

    def __init__(self, bundle: Bundle, evaluation: Evaluation, item: Item) -> None:
        file = dict(item.variables).get(RECORDING, evaluation.recording)
        self._recording = load_recording(bundle.root, file, evaluation.recording_type)
        try:
            self._each_turn = compile_checks(evaluation.turn_assertions)
            self._at_the_end = compile_checks(evaluation.conversation_assertions)
        except ValueError as error:
            raise BundleInvalid(f"{evaluation.location}: cannot run eval '{evaluation.id}': {error}") from error

    @property
    def system(self) -> Message | None:
        """Return the recorded system message, None without one."""
        found = next((message for message in self._recording.messages if message.role == "system"), None)
        return None if found is None else Message("system", found.content)

    async def hold(self, transcript: Transcript, results: list[CheckResult], answers: Answers) -> None:
        """Go through the recording, appending to `transcript` and `results` as it goes. A failed check ends nothing: all has been said already."""
        course = _Course(transcript)
        for number, message in enumerate(self._recording.messages, 1):
            course.add(message)
            following = self._recording.messages[number : number + 1]
            if course.has_replied and not any(after.role != "user" for after in following):
                course.has_replied = False
                results.extend(await evaluate(self._each_turn, transcript.evidence(), Scope.TURN, transcript.turns - 1, answers))
        results.extend(await evaluate(self._at_the_end, transcript.evidence(), Scope.CONVERSATION, None, answers))
        # What was spent then is not spent now.
        transcript.ledger, transcript.provider_latency_ms = Ledger(), 0.0


class _Course:
    """Where a recording is: its messages become those of the transcript. `has_replied` says that the assistant spoke since it was last reset."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._open: list[ToolCall] = []
        self.has_replied = False

    def add(self, recorded: RecordedMessage) -> None:
        """Append a message to the transcript; a user's begins a turn."""
        transcript = self._transcript
        if recorded.role == "system":
            transcript.system = recorded.content
            return
        if recorded.role == "user" or not transcript.turns:
            transcript.begin_turn()
        if recorded.role == "tool":
            transcript.add_result(self._call_of(recorded), _result(recorded))
            return
        message = Message(recorded.role, recorded.content, parts=[dict(part) for part in recorded.parts])
        if recorded.role == "user":
            transcript.add_user(message)
            return
        message.tool_calls = [tool_call(call, call.id) for call in recorded.calls]
        message.latency_ms = recorded.latency_ms or 0.0
        message.usage = Usage(recorded.input_tokens, recorded.output_tokens, recorded.cached_tokens)
        message.cost_usd = recorded.cost_usd
        if message.usage != Usage() or message.cost_usd is not None:
            transcript.charge(Reply("", usage=message.usage, cost_usd=message.cost_usd))
        self._open = list(message.tool_calls)
        self.has_replied = True
        transcript.add_reply(message)

    def _call_of(self, recorded: RecordedMessage) -> ToolCall:
        """Return the open call that a result answers: by its id, else by its tool's name, else the first."""
        by_id = [call for call in self._open if recorded.call_id and call.id == recorded.call_id]
        by_name = [call for call in self._open if recorded.name and call.name == recorded.name]
        found = next(iter(by_id or by_name or self._open), None)
        if found is None:
            return ToolCall(recorded.call_id, recorded.name, {})
        self._open.remove(found)
        return found


def _result(recorded: RecordedMessage) -> ToolResult:
    return ToolResult(
        recorded.call_id,
        recorded.name,
        recorded.content,
        error=recorded.error,
        error_type="execution" if recorded.error else "",
        parts=[dict(part) for part in recorded.parts],
        latency_ms=recorded.latency_ms or 0.0,
    )
