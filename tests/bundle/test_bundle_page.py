"""What docs/bundles.md shows of a model is what a bundle takes."""

import re
from pathlib import Path

from engine.bundle.loader import read_bundle
from engine.bundle.starter import starter_files

PAGE = (Path(__file__).parents[2] / "docs" / "bundles.md").read_text(encoding="utf-8")


def test_the_example_of_a_model_is_taken(tmp_path: Path) -> None:
    """A reader who copies it into the bundle that `arena init` wrote gets no problem."""
    (example,) = [block for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "kind: Provider" in block]
    for name, content in starter_files().items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content.replace(b"brisk.provider", b"gpt.provider"))
    (tmp_path / "providers" / "gpt.provider.yaml").write_text(example)
    bundle, problems = read_bundle(tmp_path)
    assert bundle is not None
    assert problems.all == []


def test_every_block_is_whole() -> None:
    """A block that is not opened shows as text, and swallows what follows."""
    assert all(not block.startswith("\n") for block in PAGE.split("```")[1::2])
