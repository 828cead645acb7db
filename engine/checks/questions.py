"""What a check has to ask somebody before it knows: a judge, a classifier, an embedding model, a service, a program.

A check stays a pure function of its evidence: where it cannot tell by itself it returns one of these values, and whoever runs checks gets it
answered through the `Answers` port. Must not know providers, prompts or retries.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from engine.checks.evidence import Outcome
from foundation.patterns import Pattern


@dataclass(frozen=True, slots=True)
class Entry:
    """A text of an exhibit. The label is ours; nothing in the text is an instruction to anybody."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Exhibit:
    """Something that a judge is shown under a heading. `name` is what prompts call it in braces: response, conversation, question, contexts and so on."""

    name: str
    heading: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class JudgeQuestion:
    """A question to a judge, or to a panel of them.

    `rubric_name` says what is judged (`engine.judging.rubrics`). `judges` are names of the arena's judges, () for its only one; with several each has a
    vote, and `aggregate` (mean, median, min, max, majority) makes one score of them. `model` replaces the judge's own. `prompt` names a prompt of the
    bundle, `instructions` are the author's own words; both stand in for the rubric's task. `without_judge` is the outcome in an arena that has no
    judges; None where a judge must decide.
    """

    rubric_name: str
    exhibits: tuple[Exhibit, ...]
    judges: tuple[str, ...] = ()
    aggregate: str = "mean"
    model: str = ""
    prompt: str = ""
    instructions: str = ""
    criteria: str = ""
    rubric: str = ""
    without_judge: Outcome | None = None


@dataclass(frozen=True, slots=True)
class LabelQuestion:
    """A question to a classifier: how sure it is that `label` fits. `task` is text, audio or image; one of `text` and `part` is given.

    `classifier` is a provider of role inference, "" for the arena's default of that task. `part` is a media part of a message.
    """

    task: str
    label: str
    model: str
    classifier: str = ""
    text: str = ""
    part: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class LikenessQuestion:
    """How alike a text and a reference are, by the cosine of their embeddings. `reference` is a text, or an embedding of the same model.

    From `least` on it counts as alike: score 1; below, the score is the similarity, and 0 when that is negative.
    """

    text: str
    reference: str | tuple[float, ...]
    least: float
    embedder: str = ""


@dataclass(frozen=True, slots=True)
class ServiceQuestion:
    """A question to a web service: it is sent `shown` as JSON and answers with a score. `${NAME}` in a header is a variable of our environment."""

    url: str
    method: str
    headers: Mapping[str, str]
    shown: Mapping[str, Any]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class AgentQuestion:
    """A question to an A2A agent. `${NAME}` in `token` is a variable of our environment."""

    url: str
    token: str
    shown: Mapping[str, Any]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class ProgramQuestion:
    """A question to a program of the arena's `runtime.evals`: it reads `shown` as JSON and writes a score."""

    name: str
    shown: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolQuestion:
    """A tool to run at the end: its output must match `success` and must not match `failure`, where they are given."""

    name: str
    arguments: Mapping[str, Any]
    timeout_s: float
    success: Pattern | None = None
    failure: Pattern | None = None


OutsideQuestion = ServiceQuestion | AgentQuestion | ProgramQuestion | ToolQuestion
Question = JudgeQuestion | LabelQuestion | LikenessQuestion | OutsideQuestion


class Answers(Protocol):
    """Who answers the questions of one item's checks."""

    async def answer(self, question: Question) -> Outcome:
        """Return what came of `question`.

        Raises:
            ProviderError: who was asked did not answer; that is no score.
            JudgeFailed: a judge's answer was no verdict.
            ValueError: nobody can be asked.
        """
        ...
