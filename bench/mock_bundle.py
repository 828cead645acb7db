"""A bundle of mock items, each with its own number of tokens, so that an item that is lost or counted twice shows in the sums."""

SCENARIOS, PROVIDERS = 10, ("brisk", "calm")
TRIALS = 10
ITEMS = SCENARIOS * len(PROVIDERS) * TRIALS

_HEAD = "apiVersion: promptkit.altairalabs.ai/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\n"
_PROMPT = _HEAD + "spec: {{task_type: answer, version: v1.0.0, description: a mock, system_template: Answer.}}\n"
_PROVIDER = _HEAD + (
    "spec: {{id: {name}, type: mock, model: mock-model, additional_config: {{mock_config: mock-responses.yaml, latency_ms: {latency_ms}}}}}\n"
)
_SCENARIO = _HEAD + (
    "spec:\n"
    "  id: {name}\n"
    "  task_type: answer\n"
    "  description: one turn\n"
    "  trials: {trials}\n"
    "  turns:\n"
    "    - {{role: user, content: '{question}', assertions: [{{type: content_includes, params: {{patterns: ['42']}}}}]}}\n"
    "  conversation_assertions:\n"
    "    - {{type: content_excludes, params: {{patterns: [forbidden]}}}}\n"
)


def bundle(*, scenarios: int = SCENARIOS, trials: int = TRIALS, latency_ms: int = 50) -> dict[str, str]:
    """Return the files of a bundle of `scenarios` scenarios, two providers and `trials` trials; every item passes after `latency_ms`."""
    names = [f"s{number:02}" for number in range(scenarios)]
    files = {
        "prompts/p.yaml": _PROMPT.format(kind="PromptConfig", name="p"),
        "mock-responses.yaml": "defaultResponse: the answer is 42\n",
        **{f"providers/{name}.yaml": _PROVIDER.format(kind="Provider", name=name, latency_ms=latency_ms) for name in PROVIDERS},
    }
    for number, name in enumerate(names):
        question = f"question {'why ' * 2**number}".strip()
        files[f"scenarios/{name}.scenario.yaml"] = _SCENARIO.format(kind="Scenario", name=name, trials=trials, question=question)
    lists = {
        "prompt_configs": ["{id: p, file: prompts/p.yaml}"],
        "providers": [f"{{file: providers/{name}.yaml}}" for name in PROVIDERS],
        "scenarios": [f"{{file: scenarios/{name}.scenario.yaml}}" for name in names],
    }
    body = "".join(f"  {key}:\n" + "".join(f"    - {entry}\n" for entry in entries) for key, entries in lists.items())
    settings = "  defaults: {temperature: 0.0, max_tokens: 100}\n"
    files["config.arena.yaml"] = _HEAD.format(kind="Arena", name="mock") + "spec:\n" + body + settings
    return files
