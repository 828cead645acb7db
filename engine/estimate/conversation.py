"""One conversation, walked through without anybody in it: who would be asked how often, and how much would be read and written.

Owns how a conversation's requests follow from its script; `engine.conversation` holds it, this only counts. A failed check, which ends a conversation
early, is not foreseen.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from engine.bundle.evaluations import Evaluation
from engine.bundle.judge_names import judges_needed
from engine.bundle.model import Assertion, Bundle, Scenario
from engine.bundle.model_names import model_for
from engine.checks import ALIASES, model_slot_of
from engine.conversation.composition import Composer, CompositionFaculty
from engine.conversation.composition_run import CompiledStep
from engine.conversation.provider_set import JUDGING, NO_DEFAULTS, sampling
from engine.conversation.script import Script, ScriptTurn, compile_script
from engine.conversation.token_estimates import Estimate, estimate_for
from engine.conversation.tool_loop import Limits
from engine.conversation.transcript import Transcript
from engine.estimate.habits import LIKELY_RESULT_TOKENS, Habit
from engine.items import Usage
from engine.judging.bench import MAX_ATTEMPTS
from engine.judging.rubrics import RUBRICS
from engine.plan import Plan
from engine.providers.messages import json_text
from engine.providers.port import DEFAULT_MAX_TOKENS
from engine.providers.prices import Price, Prices
from foundation.clock import SystemClock

JUDGE_FRAME_TOKENS = 150
"""What a judge is told besides the task: how to answer, and what is quoted."""


class Asked(NamedTuple):
    """Who is asked, by which model, and what for: subject, judge, user or classifier."""

    provider: str
    model: str
    purpose: str


class Load(NamedTuple):
    """Requests, and the tokens of all of them together."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def plus(self, other: "Load", times: int = 1) -> "Load":
        """Return the sum of this and so many times the other."""
        return Load(*(mine + times * theirs for mine, theirs in zip(self, other, strict=True)))


Loads = dict[Asked, Load]
Check = tuple[str, Mapping[str, Any]]
"""A check's type and its parameters."""


@dataclass(slots=True)
class Walk:
    """One walk through a scenario or an eval, by one habit. Used once."""

    bundle: Bundle
    plan: Plan
    habit: Habit
    prices: Prices
    loads: Loads = field(default_factory=dict)
    _said: int = 0
    _last: int = 0

    def hold(self, scenario: Scenario, provider: str) -> Loads:
        """Return the requests of one conversation of a scenario with a provider that is tested."""
        spec, arena = self.plan.providers[provider], self.bundle.arena
        model = str(spec.get("model") or "")
        count = estimate_for(model)
        script = compile_script(self.bundle, scenario, model, bare=spec.get("type") == "agent")
        limit = sampling(arena.defaults, spec).max_tokens or DEFAULT_MAX_TOKENS
        speaker = _Speaker(Asked(provider, model, "subject"), limit, count, self.prices.of_spec(spec))
        prompt = self.bundle.prompts.get(scenario.task_type)
        guards = [(guard.type, guard.params) for guard in prompt.validators if guard.enabled] if prompt is not None else []
        for turn, written in zip(script.turns, scenario.turns, strict=True):
            for _ in range(1 if turn.user is None else turn.user.most if self.habit.longest else turn.user.least):
                self._said += self._user(turn, count)
                self._answer(script, speaker)
                self._judge([*guards, *_checks(written.assertions)])
        evals = (*arena.pack_evals, *(prompt.evals if prompt is not None else ()))
        self._judge([*_checks(scenario.conversation_assertions), *((found.check, found.params) for found in evals if found.enabled)])
        return self.loads

    def replay(self, evaluation: Evaluation) -> Loads:
        """Return the requests of judging one saved conversation, without what it says."""
        self._judge(_checks(evaluation.checks))
        return self.loads

    def _add(self, asked: Asked, input_tokens: int, output_tokens: int, requests: int = 1) -> None:
        self.loads[asked] = self.loads.get(asked, Load()).plus(Load(requests, input_tokens, output_tokens))

    def _user(self, turn: ScriptTurn, count: Estimate) -> int:
        """Return the tokens of what the user says; a simulated one is asked for it."""
        if turn.user is None:
            return count(turn.content)
        spec = self.plan.serving.get(turn.user.provider, {})
        reply = self.habit.reply(sampling(turn.user.wanted, spec).max_tokens or DEFAULT_MAX_TOKENS)
        asked = Asked(turn.user.provider, str(spec.get("model") or ""), "user")
        self._add(asked, count(turn.user.system) + self._said, reply)
        return reply

    def _answer(self, script: Script, speaker: "_Speaker") -> None:
        composer = _composer_of(script)
        if composer is not None:
            for step in _steps(composer.steps):
                rounds = self.habit.rounds(step.step.max_steps) if step.step.kind == "agent" else 1
                limits = Limits(rounds) if step.brief is None else replace(step.brief.limits, max_rounds=rounds)
                self._ask(speaker, speaker.count(step.brief.system) if step.brief is not None else 0, limits)
            return
        brief = script.brief
        context = speaker.count(brief.system) + sum(
            speaker.count(json_text([tool.name, tool.description, tool.input_schema])) for tool in brief.offered
        )
        rounds = self.habit.rounds(brief.limits.max_rounds) if brief.offered or script.faculties else 1
        self._ask(speaker, context, replace(brief.limits, max_rounds=rounds))

    def _ask(self, speaker: "_Speaker", context: int, limits: Limits) -> None:
        """Ask for one answer, in as many requests as the limits allow: each but the last calls a tool, and the next one reads what came of it."""
        reply, spent_usd = self.habit.reply(speaker.limit), 0.0
        for left in range(limits.max_rounds, 0, -1):
            if spent_usd > limits.max_cost_usd:
                break
            self._add(speaker.asked, context + self._said, reply)
            if speaker.price is not None:
                spent_usd += speaker.price.cost_usd(Usage(context + self._said, reply))
            self._said += reply + (LIKELY_RESULT_TOKENS if left > 1 else 0)
        self._last = reply

    def _judge(self, checks: Iterable[Check]) -> None:
        judges = {judge.name: judge.provider for judge in self.bundle.arena.judges}
        for kind, params in checks:
            for name in judges_needed(self.bundle, kind, params):
                if name in judges:
                    self._ask_judge(judges[name], kind, params)
            if slot := model_slot_of(kind):
                provider = model_for(self.bundle, slot, next((str(params[key]) for key in _NAMES if params.get(key)), ""))
                spec = self.plan.serving.get(provider)
                if spec is not None:
                    self._add(Asked(provider, str(spec.get("model") or ""), "classifier"), self._last, 0)

    def _ask_judge(self, provider: str, kind: str, params: Mapping[str, Any]) -> None:
        spec = self.plan.serving.get(provider, {})
        model = str(params.get("model") or spec.get("model") or "")
        count, rubric = estimate_for(model), RUBRICS.get(ALIASES.get(kind, kind))
        task = f"{rubric.task} {rubric.criteria}" if rubric is not None else ""
        reply = self.habit.reply(sampling(NO_DEFAULTS, spec, otherwise=JUDGING).max_tokens or DEFAULT_MAX_TOKENS)
        shown = JUDGE_FRAME_TOKENS + count(task) + count(json_text(dict(params))) + self._said
        tries = MAX_ATTEMPTS if self.habit.longest else 1
        for attempt in range(tries):
            self._add(Asked(provider, model, "judge"), shown + attempt * reply, reply)


@dataclass(frozen=True, slots=True)
class _Speaker:
    """Whom the conversation is with: its longest reply, how its model counts, and its price, by which a turn's tool loop may end."""

    asked: Asked
    limit: int
    count: Estimate
    price: Price | None


def _checks(assertions: Iterable[Assertion]) -> list[Check]:
    return [(check.check, check.params) for check in assertions]


_NAMES = ("classifier_id", "embedder", "provider")
"""The parameters by which a check names its model."""


def _composer_of(script: Script) -> Composer | None:
    for enable in script.faculties:
        faculty = enable(Transcript(), SystemClock())
        if isinstance(faculty, CompositionFaculty) and isinstance(composer := faculty.performer(), Composer):
            return composer
    return None


def _steps(steps: Iterable[CompiledStep]) -> Iterable[CompiledStep]:
    """Yield the steps that ask a model, those of parallel branches too, as if no branch skipped any."""
    for step in steps:
        if step.step.kind in {"prompt", "agent"}:
            yield step
        yield from _steps(step.inner)


def conversations_of(plan: Plan) -> Counter[tuple[str, str]]:
    """Return how often each scenario is held with each provider."""
    return Counter({(cell.scenario, cell.provider): cell.trials * len(cell.variants) for cell in plan.cells})


def spec_of(plan: Plan, asked: Asked) -> Mapping[str, Any]:
    """Return the spec of whoever is asked, with the model that is meant: another model than its own has not its own price."""
    spec = plan.providers.get(asked.provider) if asked.purpose == "subject" else plan.serving.get(asked.provider)
    found = dict(spec or {})
    if asked.model and asked.model != found.get("model"):
        found.pop("pricing", None)
        found["model"] = asked.model
    return found
