"""Small bundles for the tests of whole processes: one prompt, one mock provider, scenarios that pass, fail or take their time."""

from collections.abc import Mapping

API = "promptkit.altairalabs.ai/v1alpha1"


def bundle(*, answer: str = "within 30 days", trials: int = 1, latency_ms: int = 0, scenarios: int = 1) -> Mapping[str, str]:
    """Return the files of a bundle whose check wants "30 days" in the answer; each model call takes `latency_ms`."""
    names = [f"s{number}" for number in range(scenarios)]
    listed = "".join(f"    - file: scenarios/{name}.yaml\n" for name in names)
    return {
        "config.arena.yaml": (
            f"apiVersion: {API}\nkind: Arena\nmetadata:\n  name: small\nspec:\n  prompt_configs:\n    - id: support\n      file: prompts/support.yaml\n"
            f"  providers:\n    - file: providers/model.yaml\n  scenarios:\n{listed}"
        ),
        "prompts/support.yaml": (
            f"apiVersion: {API}\nkind: PromptConfig\nmetadata:\n  name: support\nspec:\n  task_type: support\n  version: v1.0.0\n"
            "  description: answers\n  system_template: You answer questions about orders.\n"
        ),
        "providers/model.yaml": (
            f"apiVersion: {API}\nkind: Provider\nmetadata:\n  name: model\nspec:\n  id: model\n  type: mock\n  model: mock-model\n"
            f"  additional_config:\n    latency_ms: {latency_ms}\n    mock_config: answers.yaml\n"
        ),
        "answers.yaml": f'defaultResponse: "Refunds are possible {answer}."\n',
        **{
            f"scenarios/{name}.yaml": (
                f"apiVersion: {API}\nkind: Scenario\nmetadata:\n  name: {name}\nspec:\n  id: {name}\n  task_type: support\n  description: refunds\n"
                f"  trials: {trials}\n  turns:\n    - role: user\n      content: Can I return my order?\n      assertions:\n"
                '        - type: content_includes\n          params:\n            patterns: ["30 days"]\n'
            )
            for name in names
        },
    }
