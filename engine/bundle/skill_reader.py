"""Reads skills: `SKILL.md` files with front matter, found in the directories that the arena names, inside the bundle only.

Owns the front matter. What a model sees of a skill is the conversation's business.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from yaml.nodes import Node, ScalarNode

from engine.bundle.fields import INVALID, Table, json_value, name, read_object, string, strings
from engine.bundle.files import BundleFiles, valid_id
from engine.bundle.model import Location
from engine.bundle.paths import join, resolve_inside
from engine.bundle.skills import SKILL_FILE, Skill, SkillReference
from engine.bundle.yamltree import Document, compose
from engine.errors import BundleInvalid

MAX_SKILLS = 500
MAX_DIRECTORIES = 5_000

_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(.*?\n)---[ \t]*(?:\r?\n|\Z)(.*)\Z", re.DOTALL)


def _tools(document: Document, node: Node, key: str) -> Any:
    if not isinstance(node, ScalarNode):
        return strings(document, node, key)
    text = string(document, node, key)
    return INVALID if text is INVALID else tuple(re.split(r"[\s,]+", text.strip())) if text.strip() else ()


_HEAD = Table(
    "a skill's front matter",
    {
        "name": name,
        "description": string,
        "allowed-tools": _tools,
        "license": string,
        "compatibility": json_value,
        "metadata": json_value,
        "version": json_value,
    },
    required=("name", "description"),
)


def load_skills(files: BundleFiles, references: Sequence[SkillReference]) -> tuple[Skill, ...]:
    """Read the skills that an arena names, in its order, those of one directory by path. What is wrong becomes a problem of `files`.

    A later entry that comes to a skill again may have it preloaded, and changes nothing else of it.
    """
    skills: dict[str, Skill] = {}
    for reference in references:
        for skill in _skills_of(files, reference):
            known = skills.get(skill.name)
            if known is not None and known.directory == skill.directory and skill.directory:
                skills[skill.name] = replace(known, preload=known.preload or skill.preload)
            elif known is not None:
                files.problems.error(skill.location, f"duplicate skill '{skill.name}'", f"it is at {known.location} already")
            elif len(skills) >= MAX_SKILLS:
                files.problems.error(reference.location, f"the arena has more than {MAX_SKILLS} skills")
                return tuple(skills.values())
            else:
                skills[skill.name] = skill
    return tuple(skills.values())


def _skills_of(files: BundleFiles, reference: SkillReference) -> Iterator[Skill]:
    directory = reference.dir or reference.path
    if directory and (reference.dir and reference.path):
        files.problems.error(reference.location, "a skill has both 'dir' and 'path'", "they are the same key: keep one")
    elif directory and reference.instructions:
        files.problems.error(reference.location, "a skill has both a directory and instructions of its own", "keep one of them")
    elif directory:
        found = list(_directories(files, directory.removesuffix("/" + SKILL_FILE), reference.location))
        for each in found:
            skill = _read_skill(files, each, reference)
            if skill is not None:
                yield skill
    elif not reference.name or not reference.instructions:
        files.problems.error(
            reference.location, "a skill has neither a directory nor a name and instructions", f"name a directory with a {SKILL_FILE}"
        )
    else:
        yield Skill(reference.name, reference.description, reference.instructions, preload=reference.preload, location=reference.location)


def _directories(files: BundleFiles, directory: str, named_at: Location) -> Iterator[str]:
    """Yield the directory itself when it is a skill, else every skill below it, by path; a skill's own directories are its resources."""
    try:
        path = resolve_inside(files.root, directory)
        if not path.is_dir():
            files.problems.error(named_at, f"cannot find the skills of '{directory}': there is no such directory in the bundle")
            return
        found = sorted(_below(path))
    except (BundleInvalid, OSError) as error:
        files.problems.error(named_at, getattr(error, "message", f"cannot read '{directory}': {error}"))
        return
    if not found:
        files.problems.error(named_at, f"there is no skill in '{directory}'", f"a skill is a directory with a {SKILL_FILE}")
    for inner in found:
        joined = join(directory, inner)
        if joined is not None:
            yield joined


def _below(root: Path) -> Iterator[str]:
    for looked, (path, inner, names) in enumerate(os.walk(root), 1):
        if looked > MAX_DIRECTORIES:
            raise BundleInvalid(f"cannot look for skills: there are more than {MAX_DIRECTORIES} directories")
        if SKILL_FILE in names:
            inner.clear()
            yield os.path.relpath(path, root)


def _read_skill(files: BundleFiles, directory: str, reference: SkillReference) -> Skill | None:
    file = join(directory, SKILL_FILE) or SKILL_FILE
    text = files.read_text(file, reference.location)
    if text is None:
        return None
    place = Location(file, 1)
    parts = _FRONT_MATTER.match(text)
    if parts is None:
        files.problems.error(place, f"cannot read the skill: {SKILL_FILE} must begin with front matter", "'---', name and description, '---'")
        return None
    document = Document(file, files.problems, files.root, files.config_dir)
    node = files.attempt(document, lambda: compose(document, "\n" + parts[1]))
    values = None if node is None else files.attempt(document, lambda: read_object(document, node, _HEAD))
    if node is None or values is None or "name" not in values or not valid_id(document, node, values["name"]):
        return None
    return Skill(
        reference.name or values["name"],
        reference.description or values.get("description", ""),
        parts[2].strip(),
        values.get("allowed-tools", ()),
        preload=reference.preload,
        directory=directory,
        location=place,
    )
