"""Which scenarios and providers a request selects."""

from pathlib import Path

import pytest

from engine.bundle.model import ArenaSpec, Assertion, Bundle, Provider, Scenario
from engine.bundle.roles import Judge, SelfPlayRole
from engine.errors import BundleInvalid, NoScenarios, ProviderNotFound
from engine.job_providers import JobProviders, ResolvedProvider
from engine.plan import PlanRequest, make_plan
from engine.selection import select_subjects

MOCK = {"type": "mock"}


def bundle_of(
    *scenarios: Scenario, providers: tuple[Provider, ...] = (Provider("mock", "m.yaml", "mock", spec=MOCK),), judge: str = "", role: str = ""
) -> Bundle:
    """Return a bundle of these values."""
    arena = ArenaSpec(
        "small",
        judges=(Judge("strict", judge),) if judge else (),
        roles=(SelfPlayRole("player", role),) if role else (),
    )
    return Bundle(Path("/b"), "config.arena.yaml", arena, {s.id: s for s in scenarios}, {p.id: p for p in providers}, {}, {}, {}, {}, {})


A = Scenario("alpha", "scenarios/alpha.scenario.yaml")
B = Scenario("beta", "scenarios/slow/beta.scenario.yaml")
TWO = bundle_of(A, B)


@pytest.mark.parametrize(
    ("pattern", "selected"),
    [
        pytest.param("alpha", ["alpha"], id="an id"),
        pytest.param("*", ["alpha", "beta"], id="every id"),
        pytest.param("?lpha", ["alpha"], id="one character"),
        pytest.param("[a-b]*", ["alpha", "beta"], id="a class"),
        pytest.param("[!a]*", ["beta"], id="a negated class"),
        pytest.param("scenarios/*.yaml", ["alpha"], id="a path; a star does not cross a slash"),
        pytest.param("scenarios/*/*.yaml", ["beta"], id="a path two levels down"),
        pytest.param("scenarios?alpha.scenario.yaml", [], id="a question mark does not match a slash"),
        pytest.param("beta.scenario.yaml", ["beta"], id="a base name"),
        pytest.param("*.scenario.yaml", ["alpha", "beta"], id="base names"),
        pytest.param(r"\alpha", ["alpha"], id="a quoted character"),
        pytest.param("ALPHA", [], id="case counts"),
        pytest.param("alph", [], id="a part of a name is not the name"),
    ],
)
def test_glob(pattern: str, selected: list[str]) -> None:
    """A pattern matches the id, the path relative to the bundle, or the base name."""
    try:
        found = [s.id for s in select_subjects(TWO, [pattern], [], [])]
    except NoScenarios:
        found = []
    assert found == selected


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        pytest.param("[a", "cannot read scenario pattern '[a': the bracket at character 1 is not closed", id="an open class"),
        pytest.param("a\\", "cannot read scenario pattern 'a\\': it ends in a backslash", id="a backslash at the end"),
        pytest.param("", "cannot read scenario pattern '': it is empty", id="nothing"),
        pytest.param("[z-a]", "cannot read scenario pattern '[z-a]': the class [z-a] has a range that runs backwards", id="a class backwards"),
        pytest.param("a/**/b", "cannot read scenario pattern 'a/**/b': '**' has no meaning here", id="two stars"),
    ],
)
@pytest.mark.parametrize("where", ["include", "exclude"])
def test_bad_glob(pattern: str, message: str, where: str) -> None:
    """A pattern that cannot be read is an error, wherever it stands."""
    with pytest.raises(BundleInvalid) as caught:
        make_plan(TWO, PlanRequest(include=(pattern,)) if where == "include" else PlanRequest(exclude=(pattern,)))
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("request_", "message", "hint"),
    [
        pytest.param(PlanRequest(only_scenarios=("alfa",)), "cannot find scenario 'alfa'", "did you mean 'alpha'?", id="an unknown name"),
        pytest.param(
            PlanRequest(include=("alfa",)),
            "cannot select scenarios: the pattern 'alfa' matches none",
            "did you mean 'alpha'?",
            id="a pattern of nothing",
        ),
        pytest.param(
            PlanRequest(include=("alpha", "gamma*")),
            "cannot select scenarios: the pattern 'gamma*' matches none",
            None,
            id="one of two patterns of nothing",
        ),
        pytest.param(
            PlanRequest(include=("alpha",), exclude=("*",)),
            "cannot select scenarios: the filters leave none of the 2",
            "include, exclude and the chosen scenarios rule each other out",
            id="all excluded",
        ),
    ],
)
def test_no_scenarios(request_: PlanRequest, message: str, hint: str | None) -> None:
    """A filter that selects nothing is an error; it never shrinks the run."""
    with pytest.raises(NoScenarios) as caught:
        make_plan(TWO, request_)
    assert caught.value.message == message
    assert hint is None or caught.value.hint == hint


def test_exclude_after_include() -> None:
    """What is excluded is excluded, even if it was included."""
    assert [s.id for s in select_subjects(TWO, ["*"], ["*slow/*", "beta"], [])] == ["alpha"]


def provider(ident: str, group: str = "default", role: str = "llm", capabilities: tuple[str, ...] = ()) -> Provider:
    """Return a mock provider."""
    return Provider(ident, f"{ident}.yaml", "mock", role=role, group=group, capabilities=capabilities, spec=MOCK)


def providers_of(bundle: Bundle, request_: PlanRequest) -> list[str]:
    """Return the providers of the only scenario, as planned."""
    return [cell.provider for cell in make_plan(bundle, request_).cells]


@pytest.mark.parametrize(
    ("scenario", "providers", "expected"),
    [
        pytest.param(Scenario("s", "s"), (provider("b"), provider("a")), ["a", "b"], id="the default group, by id"),
        pytest.param(Scenario("s", "s"), (provider("a"), provider("j", "judge")), ["a"], id="other groups stay out"),
        pytest.param(Scenario("s", "s", provider_group="fast"), (provider("a"), provider("f", "fast")), ["f"], id="the scenario's group"),
        pytest.param(
            Scenario("s", "s", provider_group="none"), (provider("a"), provider("f", "fast")), ["a", "f"], id="no provider in the group: all of them"
        ),
        pytest.param(Scenario("s", "s"), (provider("a", "x,y"), provider("b", "z")), ["a", "b"], id="comma groups are opaque names"),
        pytest.param(
            Scenario("s", "s", providers=("z",)), (provider("a"), provider("z", "judge")), ["z"], id="the scenario's list, whatever the groups"
        ),
        pytest.param(
            Scenario("s", "s", providers=("a",), required_capabilities=("vision",)), (provider("a"),), ["a"], id="capabilities do not apply to a list"
        ),
        pytest.param(
            Scenario("s", "s", required_capabilities=("vision",)),
            (provider("a"), provider("v", capabilities=("text", "vision"))),
            ["v"],
            id="declared capabilities",
        ),
        pytest.param(Scenario("s", "s"), (provider("a"), provider("t", role="tts")), ["a"], id="providers of other roles are not tested"),
    ],
)
def test_bundle_providers(scenario: Scenario, providers: tuple[Provider, ...], expected: list[str]) -> None:
    """Providers are selected as section 2.9 of the format has it."""
    assert providers_of(bundle_of(scenario, providers=providers), PlanRequest()) == expected


def test_fallback_tests_no_judge_and_no_player() -> None:
    """When a group is empty and all providers stand in, those that serve judges and self-play roles stay out."""
    bundle = bundle_of(Scenario("s", "s"), providers=(provider("a", "x"), provider("j", "judge"), provider("p", "play")), judge="j", role="p")
    assert providers_of(bundle, PlanRequest()) == ["a"]


@pytest.mark.parametrize(
    ("scenario", "message", "hint"),
    [
        pytest.param(
            Scenario("s", "s", providers=("mok",)),
            ":0: cannot run scenario 's': the bundle does not have provider 'mok'",
            "did you mean 'mock'?",
            id="an unknown name",
        ),
        pytest.param(
            Scenario("s", "s", required_capabilities=("vision",)),
            ":0: cannot run scenario 's': no provider declares all of its required capabilities: vision",
            "providers declare them in 'capabilities'",
            id="capabilities that nobody has",
        ),
        pytest.param(
            Scenario("s", "s", providers=("voice",)),
            ":0: cannot run scenario 's': provider 'voice' is no model that can be tested",
            "its role is not llm or image",
            id="a provider of another role",
        ),
    ],
)
def test_provider_not_found(scenario: Scenario, message: str, hint: str) -> None:
    """A scenario that has nothing to run with is an error by name."""
    with pytest.raises(ProviderNotFound) as caught:
        make_plan(bundle_of(scenario, providers=(provider("mock"), provider("voice", role="tts"))), PlanRequest())
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_unknown_provider_filter() -> None:
    """A provider that is asked for by a wrong name is an error with the near miss."""
    with pytest.raises(ProviderNotFound) as caught:
        make_plan(TWO, PlanRequest(only_providers=("mok",)))
    assert (caught.value.message, caught.value.hint) == ("cannot find provider 'mok'", "did you mean 'mock'?")


def test_filter_that_leaves_a_scenario_nothing() -> None:
    """A scenario that none of the chosen providers fits is left out with a warning; if all are, it is an error."""
    other = Scenario("beta", "b", providers=("second",))
    bundle = bundle_of(A, other, providers=(provider("mock"), provider("second", "x")))
    plan = make_plan(bundle, PlanRequest(only_providers=("mock",)))
    assert plan.scenarios == ("alpha",)
    assert plan.warnings == (":0: scenario 'beta' does not run: none of the chosen providers is among its own",)
    with pytest.raises(ProviderNotFound, match="cannot run anything: no selected scenario runs with: second"):
        make_plan(bundle, PlanRequest(only_providers=("second",), only_scenarios=("alpha",)))


def test_judge_that_names_nobody() -> None:
    """A judge whose provider is not in the bundle is an error before anything runs."""
    with pytest.raises(ProviderNotFound, match="judge 'strict' names provider 'nobody', which the bundle does not have"):
        make_plan(bundle_of(A, judge="nobody"), PlanRequest())


def entry(ident: str, *capabilities: str) -> ResolvedProvider:
    """Return what a job brings for one entry."""
    return ResolvedProvider(ident, {"type": "mock", "model": "m", "capabilities": list(capabilities)})


CONFIG = bundle_of(A, providers=(provider("subject"), provider("judge-model", "judge")), judge="judge-model")


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        pytest.param({"default": (entry("gpt"), entry("claude"))}, ["gpt", "claude"], id="array entries are tested under their resource's name"),
        pytest.param({"default": (entry("gpt"),), "judge": (entry("opus"),)}, ["gpt"], id="a judge given as an array is no test subject"),
        pytest.param({"default": (entry("gpt"),), "judge": {"judge-model": entry("opus")}}, ["gpt"], id="a judge given as a map is none either"),
        pytest.param({"pool": (entry("gpt"),), "judge": (entry("opus"),)}, ["gpt"], id="no default group: every group that serves nobody"),
        pytest.param(
            {"default": {"subject": entry("gpt")}, "judge": {"judge-model": entry("opus")}}, ["subject"], id="a map stands for the config's ids"
        ),
        pytest.param({"default": (entry("gpt"),), "extra": {"subject": entry("x")}}, ["gpt"], id="a map adds nothing beside arrays"),
        pytest.param(
            {"default": {"subject": entry("gpt")}, "judge": (entry("opus"),)}, ["subject"], id="a map of subjects beside an array of judges"
        ),
    ],
)
def test_job_providers(job: JobProviders, expected: list[str]) -> None:
    """A job's providers replace the bundle's, in the order in which they are written; groups that the scenarios do not use stay out of the matrix."""
    assert providers_of(CONFIG, PlanRequest(providers=job)) == expected


def test_job_providers_named_by_a_scenario() -> None:
    """A scenario's list finds map entries by the config's id, even beside arrays."""
    bundle = bundle_of(Scenario("s", "s", providers=("primary",)))
    job: JobProviders = {"default": (entry("gpt"),), "more": {"primary": entry("claude")}}
    assert providers_of(bundle, PlanRequest(providers=job)) == ["primary"]


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        pytest.param("judge-modle", "did you mean 'judge-model'?", id="a slip"),
        pytest.param("nobody", "make the group a list", id="a name of the job's own"),
    ],
)
@pytest.mark.parametrize(
    "beside",
    [pytest.param({}, id="alone"), pytest.param({"pool": (entry("gpt"),)}, id="beside a list"), pytest.param({"all": {}}, id="beside a map")],
)
def test_a_key_that_is_no_id_of_the_config(key: str, hint: str, beside: JobProviders) -> None:
    """A map's keys are the ids that the config has: any other would be one more candidate, or nobody, so it is refused by name."""
    job: JobProviders = {"default": {"subject": entry("gpt"), key: entry("claude")}, **beside}
    with pytest.raises(ProviderNotFound, match=f"the job's group 'default' is a map, and its key '{key}' is no provider id of the config") as caught:
        make_plan(CONFIG, PlanRequest(providers=job))
    assert hint in caught.value.hint


PAIR = bundle_of(A, providers=(provider("brisk"), provider("steady"), provider("judge-model", "judge")), judge="judge-model")


@pytest.mark.parametrize("group", ["default", "any"])
def test_a_map_without_an_id_that_the_config_tests(group: str) -> None:
    """The matrix is the config's: a provider that no map has fails the run by name, whatever the groups of the job are called."""
    job: JobProviders = {group: {"brisk": entry("gpt")}, "judge": {"judge-model": entry("opus")}}
    message = "cannot run scenario 'alpha': the config tests provider 'steady', which no map of the job's providers brings"
    with pytest.raises(ProviderNotFound, match=message):
        make_plan(PAIR, PlanRequest(providers=job))


@pytest.mark.parametrize(
    ("job", "tested"),
    [
        pytest.param({"default": {"brisk": entry("a"), "steady": entry("b")}, "judge": (entry("opus"),)}, ["brisk", "steady"], id="a whole map"),
        pytest.param({"a": {"brisk": entry("a")}, "b": {"steady": entry("b")}, "judge": (entry("opus"),)}, ["brisk", "steady"], id="in two groups"),
        pytest.param({"default": {"brisk": entry("a")}, "pool": (entry("gpt"),), "judge": (entry("opus"),)}, ["gpt"], id="a list says who is tested"),
    ],
)
def test_maps_that_are_whole(job: JobProviders, tested: list[str]) -> None:
    """Every id that the config tests is asked for in maps together; beside a list that is tested, none is."""
    assert providers_of(PAIR, PlanRequest(providers=job)) == tested


EMBEDDER = ResolvedProvider("words", {"type": "openai", "role": "embedding"})


@pytest.mark.parametrize(
    "job",
    [
        pytest.param({"default": {"brisk": entry("a")}, "judge": (entry("steady"),)}, id="a judge that is called so"),
        pytest.param({"default": {"brisk": entry("a"), "steady": EMBEDDER}, "judge": (entry("opus"),)}, id="a role that is not tested"),
    ],
)
def test_a_map_whose_entry_cannot_be_tested(job: JobProviders) -> None:
    """What is there for something else under that id does not stand for the provider that the config tests."""
    with pytest.raises(ProviderNotFound, match="the config tests provider 'steady', which no map"):
        make_plan(PAIR, PlanRequest(providers=job))


def test_a_map_beside_capabilities() -> None:
    """Who lacks what a scenario requires is not expected; who has it in the config has to have it in the job as well."""
    sees = ("vision",)
    scenario = Scenario("s", "s", required_capabilities=sees)
    bundle = bundle_of(scenario, providers=(provider("eyes", capabilities=sees), provider("far", capabilities=sees), provider("plain")))
    seeing = ResolvedProvider("gpt", {**MOCK, "capabilities": ["vision"]})
    assert providers_of(bundle, PlanRequest(providers={"default": {"eyes": seeing, "far": seeing}})) == ["eyes", "far"]
    with pytest.raises(ProviderNotFound, match="the config tests provider 'far', which no map"):
        make_plan(bundle, PlanRequest(providers={"default": {"eyes": seeing, "far": entry("blind")}}))


@pytest.mark.parametrize("more", [{}, {"default": {"brisk": entry("a")}}], ids=["a list alone", "beside a map"])
def test_a_list_whose_group_plays_a_role_says_who_is_tested(more: JobProviders) -> None:
    """Models and agents that play against each other are a list of a group that a role of the config has as well."""
    scenario = Scenario("s", "s", provider_group="selfplay")
    bundle = bundle_of(scenario, providers=(provider("brisk"), provider("sim", "selfplay")), role="sim")
    assert providers_of(bundle, PlanRequest(providers={**more, "selfplay": (entry("gpt"), entry("mine"))})) == ["gpt", "mine"]


def test_a_map_needs_only_what_the_chosen_scenarios_are_tested_with() -> None:
    """A provider of a group that no chosen scenario uses, and one that none of those that name theirs names, may be absent."""
    fast, named = Scenario("fast", "f", provider_group="fast"), Scenario("named", "n", providers=("steady",))
    bundle = bundle_of(A, fast, named, providers=(provider("brisk", "fast"), provider("steady")))
    job: JobProviders = {"default": {"steady": entry("gpt")}}
    assert providers_of(bundle, PlanRequest(providers=job, only_scenarios=("alpha", "named"))) == ["steady", "steady"]
    with pytest.raises(ProviderNotFound, match="cannot run scenario 'fast': the config tests provider 'brisk', which no map"):
        make_plan(bundle, PlanRequest(providers=job))


def test_who_holds_no_conversations_is_not_tested() -> None:
    """A model of role embedding in a list of subjects is there for checks, and meets no scenario."""
    embedder = ResolvedProvider("words", {"type": "openai", "role": "embedding"})
    assert providers_of(CONFIG, PlanRequest(providers={"default": (entry("gpt"), embedder)})) == ["gpt"]
    named = bundle_of(Scenario("s", "s", providers=("words",)))
    with pytest.raises(ProviderNotFound, match="provider 'words' is no model that can be tested"):
        make_plan(named, PlanRequest(providers={"default": (entry("gpt"), embedder)}))


def test_only_judges_in_a_job() -> None:
    """A job that brings nobody to test is an error, not an empty run."""
    with pytest.raises(ProviderNotFound, match="cannot run scenario 'alpha': no provider is in its group 'default'"):
        make_plan(CONFIG, PlanRequest(providers={"judge": (entry("opus"),)}))


def test_job_capabilities() -> None:
    """Required capabilities look at what the job's providers declare."""
    bundle = bundle_of(Scenario("s", "s", required_capabilities=("vision",)))
    assert providers_of(bundle, PlanRequest(providers={"default": (entry("a"), entry("v", "vision"))})) == ["v"]


def test_a_group_that_the_job_does_not_have() -> None:
    """A scenario whose group no provider of the job is in runs with all of them, and the plan says so."""
    bundle = bundle_of(Scenario("s", "s", provider_group="premium"), providers=(provider("a", "premium"),))
    plan = make_plan(bundle, PlanRequest(providers={"default": (entry("gpt"),)}))
    assert plan.warnings == (":0: no provider of the job is in the group 'premium' of scenario 's': it runs with all of them",)
    assert make_plan(bundle, PlanRequest(providers={"premium": (entry("gpt"),)})).warnings == ()


def test_an_exclude_pattern_of_nothing() -> None:
    """An exclude pattern that names no scenario keeps nothing out, and the plan says so."""
    plan = make_plan(TWO, PlanRequest(exclude=("alpa", "beta")))
    assert (plan.scenarios, plan.warnings) == (("alpha",), ("the exclude pattern 'alpa' matches no scenario",))


def test_many_stars_are_matched_at_once() -> None:
    """A pattern that would keep a backtracking engine busy for ever is matched in linear time."""
    scenario = Scenario("a" * 100, "a")
    with pytest.raises(NoScenarios, match="matches none"):
        select_subjects(bundle_of(scenario), ["*a" * 20 + "b"], [], [])


def test_two_providers_of_one_name() -> None:
    """A list entry and a map entry that go by one name and differ are refused; one would silently stand for the other."""
    job: JobProviders = {"default": (entry("subject"),), "more": {"subject": entry("claude", "vision")}}
    with pytest.raises(ProviderNotFound, match="two different ones are called 'subject'"):
        make_plan(CONFIG, PlanRequest(providers=job))
    same: JobProviders = {"default": (entry("primary"),), "judge": (entry("primary"),)}
    assert providers_of(CONFIG, PlanRequest(providers=same)) == ["primary"]


JUDGED = bundle_of(
    Scenario("s", "s", conversation_assertions=(Assertion("llm_judge", "llm_judge", {"criteria": "kind"}),)),
    providers=(provider("subject"), provider("judge-model", "judge")),
    judge="judge-model",
)


@pytest.mark.parametrize(
    "judge",
    [
        pytest.param({"judge": (entry("opus"),)}, id="the only entry of the list of the judge's group"),
        pytest.param({"judge": {"judge-model": entry("opus")}}, id="an entry of a map, under the config's id"),
        pytest.param({"other": {"judge-model": entry("opus")}}, id="the config's id in any group"),
        pytest.param({"other": (entry("judge-model"),)}, id="an entry of a list that is called so"),
    ],
)
def test_who_judges_in_a_job(judge: JobProviders) -> None:
    """The id that the config gives its judge is found by name, or behind the only entry of the list that is called as its group."""
    plan = make_plan(JUDGED, PlanRequest(providers={"default": (entry("gpt"),), **judge}))
    assert (list(plan.providers), list(plan.serving)) == (["gpt"], ["judge-model"])


@pytest.mark.parametrize(
    "judge",
    [
        pytest.param({}, id="no judge at all"),
        pytest.param({"judge": (entry("opus"), entry("haiku"))}, id="a list of two, of which none is called so"),
    ],
)
def test_a_job_without_the_judge_is_refused_by_name(judge: JobProviders) -> None:
    """An id that the config expects and the job does not have ends the run before it begins, and the message names it."""
    with pytest.raises(ProviderNotFound, match="judge 'strict' asks provider 'judge-model', which the job's providers do not have"):
        make_plan(JUDGED, PlanRequest(providers={"default": (entry("gpt"),), **judge}))
