"""`arena estimate`: requests, tokens, cost and time of a bundle, before anything of it runs."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from arena.cli import main
from tests.e2e.installation import ARENA, clean_environment, run_command

HEAD = "apiVersion: promptkit.altairalabs.ai/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n"
FILES = {
    "config.arena.yaml": HEAD.format(kind="Arena", name="estimated")
    + """  prompt_configs: [{id: p, file: p.yaml}]
  providers: [{file: subject.yaml}, {file: judge.yaml, group: judge}, {file: user.yaml, group: user}]
  scenarios: [{file: one.yaml}]
  tools: [{file: tool.yaml}]
  judges: [{name: strict, provider: judge}]
  self_play: {enabled: true, personas: [{file: persona.yaml}], roles: [{id: caller, provider: user}]}
  defaults: {max_tokens: 500}
""",
    "p.yaml": HEAD.format(kind="PromptConfig", name="p")
    + "  task_type: answer\n  version: v1.0.0\n  description: d\n  system_template: one two three four five six seven eight nine ten\n",
    "subject.yaml": HEAD.format(kind="Provider", name="subject") + "  type: openai\n  model: gpt-4o\n  rate_limit: {rps: 2, burst: 1}\n",
    "judge.yaml": HEAD.format(kind="Provider", name="judge") + "  type: claude\n  model: claude-haiku-4-5\n",
    "user.yaml": HEAD.format(kind="Provider", name="user") + "  type: openai\n  model: homemade\n",
    "persona.yaml": HEAD.format(kind="Persona", name="customer") + "  description: d\n  system_prompt: be a customer\n  goals: [g]\n  style: {}\n",
    "tool.yaml": HEAD.format(kind="Tool", name="look")
    + "  name: look\n  description: looks\n  mode: mock\n  mock_result: {}\n  input_schema: {type: object}\n",
    "one.yaml": HEAD.format(kind="Scenario", name="one")
    + """  task_type: answer
  description: d
  trials: 3
  turns:
    - role: user
      content: a b c d e f g h i j
      assertions: [{type: llm_judge, params: {criteria: is it good}}]
    - {role: user, content: a b c d e f g h i j}
""",
}


def written(folder: Path, **instead: str) -> Path:
    """Write the bundle, with other texts of some files (`__` stands for the dot of their names)."""
    for name, text in (FILES | {name.replace("__", "."): text for name, text in instead.items()}).items():
        (folder / name).write_text(text)
    return folder


def estimated(folder: Path, *words: str) -> dict[str, Any]:
    """Return the estimate of a bundle, as JSON; the command runs in this process, which saves starting one for each."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()), pytest.raises(SystemExit) as left:
        main(["estimate", str(folder), "-o", "json", *words])
    assert left.value.code == 0
    found: dict[str, Any] = json.loads(said.getvalue())
    return found


def row(found: dict[str, Any], purpose: str) -> dict[str, Any]:
    """Return the row of a purpose."""
    (only,) = [each for each in found["rows"] if each["purpose"] == purpose]
    return dict(only)


def test_requests_follow_from_turns_judges_and_trials(tmp_path: Path) -> None:
    """Two turns and a judged one make two requests and one verdict a trial, without a key and without asking anybody."""
    found = estimated(written(tmp_path))
    assert found["items"] == 3
    assert row(found, "subject")["requests"] == {"least": 6, "likely": 6, "most": 6}
    assert row(found, "judge")["requests"] == {"least": 3, "likely": 3, "most": 9}
    assert found["requests"]["likely"] == 9


def test_tokens_are_those_of_the_bundles_texts(tmp_path: Path) -> None:
    """Ten words are 13 tokens of a GPT model: the prompt and each message count in every request that carries them, with the replies before."""
    subject = row(estimated(written(tmp_path)), "subject")
    assert subject["inputTokens"]["least"] == 3 * ((13 + 13) + (13 + 13 + 1 + 13))
    assert subject["inputTokens"]["most"] == 3 * ((13 + 13) + (13 + 13 + 500 + 13))
    assert subject["outputTokens"] == {"least": 6, "likely": 6 * 200, "most": 6 * 500}


def test_cost_is_tokens_times_price(tmp_path: Path) -> None:
    """The packaged price of the model counts, for each of the three figures."""
    subject = row(estimated(written(tmp_path)), "subject")
    for name in ("least", "likely", "most"):
        assert subject["costUsd"][name] == pytest.approx((subject["inputTokens"][name] * 2.5 + subject["outputTokens"][name] * 10) / 1e6, abs=2e-6)


def test_an_unknown_price_is_said_and_not_zero(tmp_path: Path) -> None:
    """A model without a price has no cost, is named, and the sum says what it leaves out."""
    folder = written(tmp_path, subject__yaml=FILES["subject.yaml"].replace("gpt-4o", "homemade"))
    found = estimated(folder)
    assert row(found, "subject")["costUsd"] is None
    assert found["unpricedModels"] == ["homemade"]
    done = run_command([*ARENA, "estimate", str(folder)], environment=clean_environment(folder), cwd=folder)
    assert "not known" in done.out
    assert "without what has no price: homemade (give one: --prices FILE)" in " ".join(done.out.split())
    assert "the price of model 'homemade' is not known" in done.err


def test_the_table_fits_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """However long names and figures are, no line is longer than 80 characters; names stay whole."""
    names = [f"{vendor}-production-europe-west-team-support" for vendor in ("anthropic", "openai")]
    for name in names:
        (tmp_path / f"{name}.yaml").write_text(HEAD.format(kind="Provider", name=name) + f"  type: claude\n  model: model-of-{name}\n")
    config = FILES["config.arena.yaml"].replace("{file: subject.yaml}", ", ".join(f"{{file: {name}.yaml}}" for name in ("subject", *names)))
    folder = written(tmp_path, config__arena__yaml=config, one__yaml=FILES["one.yaml"].replace("trials: 3", "trials: 2000"))
    with pytest.raises(SystemExit):
        main(["estimate", str(folder)])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if line in names] == names
    at = lines.index("subject  gpt-4o  subject")
    assert [line[:14].strip() for line in lines[at + 1 : at + 4]] == ["at the least", "likely", "at the most"]


def test_a_file_of_prices_comes_first(tmp_path: Path) -> None:
    """`--prices` prices what has no price, and what has another."""
    folder = written(tmp_path)
    (folder / "prices.json").write_text('{"models": {"gpt-4o": {"input": 0, "output": 1000}}}')
    found = estimated(folder, "--prices", str(folder / "prices.json"))
    assert row(found, "subject")["costUsd"]["least"] == pytest.approx(6 * 0.001)


def test_tools_bound_the_range(tmp_path: Path) -> None:
    """A turn that offers tools makes one request at the least, and as many as its rounds, or its money, allow at the most."""
    prompt = FILES["p.yaml"] + "  allowed_tools: [look]\n"
    policy = "  tool_policy: {tool_choice: auto, max_tool_calls_per_turn: 9, max_total_tool_calls: 9, max_rounds: 7}\n"
    requests = row(estimated(written(tmp_path, p__yaml=prompt, one__yaml=FILES["one.yaml"] + policy)), "subject")["requests"]
    assert requests == {"least": 6, "likely": 12, "most": 42}
    dear = policy.replace("max_rounds: 7", "max_rounds: 7, max_cost_usd: 0.000001")
    assert row(estimated(written(tmp_path, one__yaml=FILES["one.yaml"] + dear)), "subject")["requests"]["most"] == 6


def test_self_play_is_asked_for_the_users_part(tmp_path: Path) -> None:
    """A simulated user is asked once an exchange, from its least to its most."""
    scenario = FILES["one.yaml"] + "    - {role: caller, persona: customer, turns: 2, max_turns: 5}\n"
    found = estimated(written(tmp_path, one__yaml=scenario))
    assert row(found, "user")["requests"] == {"least": 6, "likely": 6, "most": 15}
    assert row(found, "subject")["requests"] == {"least": 12, "likely": 12, "most": 21}


def test_time_is_that_of_the_tightest_limit(tmp_path: Path) -> None:
    """At two requests a second, six take two and a half seconds, however quick each is; slow ones take their latency, by what is in flight."""
    folder = written(tmp_path)
    assert estimated(folder, "--latency", "0.001")["seconds"]["likely"] == pytest.approx(2.5)
    assert estimated(folder, "--latency", "10", "-j", "1")["seconds"]["likely"] == pytest.approx(90)
    assert estimated(folder, "--latency", "10", "-j", "9")["seconds"]["likely"] == pytest.approx(30)


def test_selection_is_that_of_eval(tmp_path: Path) -> None:
    """Trials, the mock override and unknown names are taken as `arena eval` takes them."""
    folder = written(tmp_path)
    assert estimated(folder, "--trials", "10")["items"] == 10
    assert estimated(folder, "--mock-provider")["costUsd"] == {"least": 0.0, "likely": 0.0, "most": 0.0}
    done = run_command([*ARENA, "estimate", str(folder), "--scenario", "two"], environment=clean_environment(folder), cwd=folder)
    assert (done.code, done.out) == (2, "")


def test_eval_takes_prices_too(tmp_path: Path) -> None:
    """A broken file of prices is refused before anything is asked."""
    folder = written(tmp_path)
    (folder / "prices.json").write_text('{"models": {"gpt-4o": {"input": "much"}}}')
    done = run_command([*ARENA, "eval", str(folder), "--prices", "prices.json"], environment=clean_environment(folder), cwd=folder)
    assert done.code == 2
    assert "model 'gpt-4o'" in done.err
