"""References from one file of a bundle to another, resolved the same way everywhere.

A `file:` is relative to the file that names it. A resource (media, mock responses) is looked up in the config directory first, as the format's
reference engine does, then beside the file that names it. Both stay inside the bundle.
"""

from typing import Any

from yaml.nodes import Node

from engine.bundle.fields import INVALID, name, reads
from engine.bundle.paths import join, resolve_inside
from engine.bundle.problems import shown
from engine.bundle.yamltree import Document
from engine.errors import BundleInvalid


@reads({"type": "string", "minLength": 1})
def file_reference(document: Document, node: Node, key: str) -> Any:
    """Read the name of another file; returns it relative to the root, whether or not it is there."""
    reference = name(document, node, key)
    if reference is INVALID:
        return INVALID
    path = join(document.directory, reference)
    if path is None:
        document.error(node, f"cannot read '{shown(reference)}': the path leaves the bundle", "name a file inside the bundle, relative to this file")
        return INVALID
    return path


@reads({"type": "string", "minLength": 1})
def resource(document: Document, node: Node, key: str) -> Any:
    """Read the name of a resource; returns it relative to the root, and only if it is a file there."""
    reference = name(document, node, key)
    return INVALID if reference is INVALID else find_resource(document, node, reference)


def find_resource(document: Document, node: Node, reference: str) -> Any:
    """Return where a resource is, relative to the root, or INVALID after a problem."""
    directories = dict.fromkeys((document.config_dir, document.directory))
    paths = [path for directory in directories if (path := join(directory, reference)) is not None]
    if not paths:
        document.error(node, f"cannot read '{shown(reference)}': the path leaves the bundle", "name a file inside the bundle")
        return INVALID
    try:
        found = next((path for path in paths if resolve_inside(document.root, path).is_file()), None)
    except BundleInvalid as error:
        document.error(node, error.message, error.hint)
        return INVALID
    if found is None:
        looked = " and ".join(f"'{directory or '.'}'" for directory in directories)
        document.error(node, f"cannot find '{shown(reference)}': no such file in {looked}", "the path is relative to the arena file's directory")
        return INVALID
    return found
