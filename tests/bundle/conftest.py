"""A small bundle that is right, and a way to make it wrong in one place."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

ARENA = """\
apiVersion: promptkit.altairalabs.ai/v1alpha1
kind: Arena
metadata:
  name: small
spec:
  prompt_configs:
    - id: assistant
      file: prompts/assistant.yaml
  providers:
    - file: providers/mock.yaml
  scenarios:
    - file: scenarios/hello.yaml
  defaults:
    temperature: 0.5
"""
PROMPT = """\
kind: PromptConfig
metadata:
  name: assistant
spec:
  task_type: assistant
  system_template: You are helpful.
"""
PROVIDER = """\
kind: Provider
metadata:
  name: mock
spec:
  type: mock
  additional_config:
    mock_config: mock.yaml
"""
SCENARIO = """\
kind: Scenario
metadata:
  name: hello
spec:
  task_type: assistant
  turns:
    - role: user
      content: Hello
      assertions:
        - type: contains
          params:
            patterns: [hi]
"""
MOCK = "defaultResponse: hi there\n"
FILES: Mapping[str, str] = {
    "config.arena.yaml": ARENA,
    "prompts/assistant.yaml": PROMPT,
    "providers/mock.yaml": PROVIDER,
    "scenarios/hello.yaml": SCENARIO,
    "mock.yaml": MOCK,
}

Write = Callable[[Mapping[str, str | bytes | None]], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes the small bundle with some files replaced, added, or (None) left out, and returns its root."""

    def write_bundle(changes: Mapping[str, str | bytes | None]) -> Path:
        root = tmp_path / "bundle"
        for name, content in {**FILES, **changes}.items():
            if content is None:
                continue
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return root

    return write_bundle


@pytest.fixture
def small(write: Write) -> Path:
    """Return the root of the small bundle, unchanged."""
    return write({})


@pytest.fixture
def corpus() -> Path:
    """Return the directory of public bundles; the test is skipped where it is absent."""
    path = Path(__file__).parents[2] / "../shared/corpus/promptkit"
    if not path.is_dir():
        pytest.skip("the corpus ../shared/corpus/promptkit is not here")
    return path.resolve()
