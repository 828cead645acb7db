"""Parts of prompts: fragments that templates quote, and what a template is for one model only (promptkit-format.md 5.1).

The format's reference engine applies neither. Owns the shapes, and how a fragment's file reads.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from yaml.nodes import Node

from engine.bundle.fields import Table, name, read_object, string
from engine.bundle.files import BundleFiles
from engine.bundle.model import NOWHERE, Location
from engine.bundle.yamltree import Document

STRUCTURED = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Fragment:
    """A text that a template quotes as `{{name}}`. `path` is relative to the bundle's root, "" when none is given."""

    name: str
    path: str = ""
    required: bool = False
    text: str = ""
    location: Location = NOWHERE


@dataclass(frozen=True, slots=True)
class ModelOverride:
    """What a prompt's template is for one model: another template, or the same with a suffix; both may be given."""

    system_template: str = ""
    system_template_suffix: str = ""


_FILE = Table(
    "a fragment file",
    {"fragment_type": string, "type": string, "version": string, "description": string, "content": name},
    required=("content",),
)


def load_fragments(files: BundleFiles, fragments: Sequence[Fragment]) -> tuple[Fragment, ...]:
    """Return the fragments with their texts. One that is not required and has no file is empty, with a warning; any other is a problem of `files`."""
    return tuple(replace(fragment, text=_text(files, fragment)) for fragment in fragments)


def _text(files: BundleFiles, fragment: Fragment) -> str:
    if not fragment.required and not (fragment.path and (files.root / fragment.path).exists()):
        files.problems.warning(
            fragment.location, f"fragment '{fragment.name}' is empty: it has no file", "it is not required; name its file in `path`"
        )
        return ""
    if not fragment.path:
        files.problems.error(fragment.location, f"fragment '{fragment.name}' has no file", "add `path`, relative to this file")
        return ""
    if not fragment.path.endswith(STRUCTURED):
        return (files.read_text(fragment.path, fragment.location) or "").rstrip("\n")
    opened = files.open(fragment.path, fragment.location)
    if opened is None:
        return ""
    document, node = opened
    return files.attempt(document, lambda: _content(document, node)) or ""


def _content(document: Document, node: Node) -> str:
    values = read_object(document, node, _FILE) or {}
    return str(values.get("content", "")).rstrip("\n")
