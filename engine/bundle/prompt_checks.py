"""What must hold between scenarios and the prompts, states, steps and personas that they come to.

Owns those rules. Must not read files.
"""

from engine.bundle.idle_names import check_names
from engine.bundle.model import Bundle, PromptConfig, Scenario, Turn
from engine.bundle.problems import Problems, did_you_mean, shown
from engine.bundle.scenario_prompts import Asked, compositions_of, own_composition, prompts_of, states_of
from engine.bundle.variables import literal_braces, merge_variables, missing_variables, render, template_for
from engine.errors import BundleInvalid


def check_prompts(bundle: Bundle, scenario: Scenario, problems: Problems) -> None:
    """Add every problem of a scenario with the prompts that it needs."""
    if not _has_start(bundle, scenario, problems):
        return
    found: list[PromptConfig] = []
    for asked in prompts_of(bundle, scenario):
        prompt = bundle.prompts.get(asked.task_type)
        if prompt is not None:
            found.append(prompt)
            for model in ("", *prompt.model_overrides):
                _check_template(bundle, scenario, asked, model, problems)
        else:
            hint = did_you_mean(asked.task_type, bundle.prompts, otherwise="the prompts' task types are") or "name a prompt in prompt_configs"
            who = f"of scenario '{scenario.id}'" if asked.place == scenario.location else f"that scenario '{scenario.id}' comes to"
            problems.error(asked.place, f"no prompt has the task_type '{asked.task_type}' {who}", hint)
    check_names(bundle, scenario, found, problems)
    _check_steps(bundle, scenario, problems)


def check_overrides(bundle: Bundle, problems: Problems) -> None:
    """Add a note for each model's override that no provider of the bundle would get; a job may bring one."""
    models = sorted({provider.model for provider in bundle.providers.values() if provider.model})
    for prompt in bundle.prompts.values():
        for model in prompt.model_overrides:
            if model not in models:
                message = f"no provider of the bundle has the model '{shown(model)}' that prompt '{prompt.id}' overrides its template for"
                problems.note(prompt.location, message)


def _has_start(bundle: Bundle, scenario: Scenario, problems: Problems) -> bool:
    states = states_of(bundle, scenario)
    workflow = bundle.arena.workflow
    if workflow is not None and not states:
        hint = did_you_mean(scenario.task_type, workflow.states, otherwise="states are")
        message = f"the task_type '{scenario.task_type}' of scenario '{scenario.id}' names no state of the workflow"
        problems.error(scenario.location, message, hint)
        return False
    for state in states or ():
        if state.composition and state.composition not in bundle.arena.compositions:
            hint = did_you_mean(state.composition, bundle.arena.compositions, otherwise="compositions are")
            problems.error(state.location, f"state '{state.name}' names composition '{state.composition}', which the arena does not have", hint)
    if workflow is None and not scenario.task_type and not own_composition(bundle, scenario):
        problems.error(scenario.location, f"scenario '{scenario.id}' has no task_type", "task_type names the prompt that the scenario talks to")
        return False
    return True


def _check_template(bundle: Bundle, scenario: Scenario, asked: Asked, model: str, problems: Problems) -> None:
    prompt = bundle.prompts[asked.task_type]
    values = merge_variables(prompt, bundle.prompt_vars[prompt.task_type], scenario)
    missing = missing_variables(prompt, values)
    for name in missing if not model else ():
        problems.error(
            prompt.location,
            f"required variable '{name}' of prompt '{prompt.id}' has no value in scenario '{scenario.id}'",
            f"set it in the scenario's variables, or in vars of prompt_configs '{prompt.id}'",
        )
    try:
        text, unresolved = render(template_for(prompt, model), values)
    except BundleInvalid as error:
        problems.error(prompt.location, error.message, error.hint)
        return
    whose = f"prompt '{prompt.id}'" + (f" for model '{shown(model)}'" if model else "")
    for braces in literal_braces(text):
        problems.warning(
            prompt.location,
            f"'{{{{{shown(braces)}}}}}' in the template of {whose} stays as it is: it is no variable's name",
            "templates have variables only, no conditions and no loops",
        )
    typed = {variable.name for variable in prompt.variables if variable.default is not None and not isinstance(variable.default, str)}
    for name in unresolved:
        if name in missing or name in asked.later:
            continue
        known = [*values, *asked.later]
        hint = "its default is not text: put it into quotes" if name in typed else did_you_mean(name, known, otherwise="variables with a value are")
        problems.error(prompt.location, f"'{{{{{name}}}}}' in the template of {whose} has no value in scenario '{scenario.id}'", hint)


def _check_steps(bundle: Bundle, scenario: Scenario, problems: Problems) -> None:
    for composition in compositions_of(bundle, scenario):
        for step in composition.all_steps():
            if step.kind == "tool" and step.tool not in bundle.tools:
                hint = did_you_mean(step.tool, bundle.tools, otherwise="tools are") or "name its file in the arena's tools"
                problems.error(step.location, f"step '{step.id}' calls the tool '{step.tool}', which the bundle does not have", hint)


def check_roles(bundle: Bundle, scenario: Scenario, problems: Problems) -> None:
    """Add every problem of a scenario with the self-play roles and personas that its turns name."""
    roles = [role.id for role in bundle.arena.roles]
    for turn in scenario.turns:
        if turn.role in roles:
            _check_self_play(bundle, scenario, turn, problems)
        elif turn.role != "user":
            problems.error(turn.location, f"unknown role '{turn.role}' of a turn", did_you_mean(turn.role, ["user", *roles], otherwise="roles are"))


def _check_self_play(bundle: Bundle, scenario: Scenario, turn: Turn, problems: Problems) -> None:
    if not turn.persona:
        problems.error(turn.location, f"the turn of role '{turn.role}' names no persona", "add persona, an id of self_play.personas")
    elif turn.persona not in bundle.personas:
        hint = did_you_mean(turn.persona, bundle.personas, otherwise="personas are")
        problems.error(turn.location, f"unknown persona '{turn.persona}' of a turn", hint)
    else:
        _check_persona(bundle, scenario, turn.persona, problems)


def _check_persona(bundle: Bundle, scenario: Scenario, ident: str, problems: Problems) -> None:
    from engine.bundle.personas import persona_prompt  # noqa: PLC0415 - only bundles with self-play need it

    persona = bundle.personas[ident]
    try:
        _, missing = persona_prompt(persona, scenario, bundle.prompt_vars.get(scenario.task_type, {}))
    except BundleInvalid as error:
        problems.error(persona.location, error.message, error.hint)
        return
    for name in missing:
        message = f"'{shown(name)}' of persona '{persona.id}' has no value in scenario '{scenario.id}'"
        problems.error(persona.location, message, "set it in the scenario's variables, or in the persona's optional_vars")
