"""Skills as a conversation has them: which there are, what activating one does, and what a preloaded one says (promptkit-format.md 5.6).

Owns the tools of skills. Resources are read inside a skill's own directory only. Must not know where a conversation stands but for the state's filter.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.bundle.model import Bundle
from engine.bundle.paths import join, resolve_inside
from engine.bundle.skills import Skill
from engine.conversation.brief import Brief, answering_tool, named_tools
from engine.conversation.faculties import Enable, Faculty, OwnTool, object_schema
from engine.conversation.transcript import Transcript
from engine.errors import BundleInvalid
from engine.providers.port import ToolSpec
from engine.tools.port import CallableTool, CallFailed
from engine.tools.schema import Schema
from foundation.clock import Clock

ACTIVATE, DEACTIVATE, READ_RESOURCE = "skill__activate", "skill__deactivate", "skill__read_resource"
MAX_RESOURCE_BYTES = 256 * 1024

_ACTIVATE_SCHEMA = Schema(object_schema({"name": {"type": "string"}}, "name"))
_READ_PROPERTIES = {
    "name": {"type": "string", "description": "The skill."},
    "path": {"type": "string", "description": "A file, relative to the skill's directory."},
}
_READ = ToolSpec(READ_RESOURCE, "Read a file that belongs to an active skill.", object_schema(_READ_PROPERTIES, "name", "path"))
_READ_SCHEMA = Schema(_READ.input_schema)


def enable_skills(bundle: Bundle) -> Enable:
    """Compile the skills of an arena; returns what builds a conversation's own.

    Raises:
        BundleInvalid: a tool that a skill allows has a schema or a template that is none.
    """
    skills = bundle.arena.skills
    tools = {skill.name: [answering_tool(tool) for tool in named_tools(skill.allowed_tools, bundle.tools)] for skill in skills}

    def enable(transcript: Transcript, clock: Clock) -> Faculty:
        del clock
        return SkillsFaculty(skills, tools, transcript, bundle.root)

    return enable


class SkillsFaculty(Faculty):
    """A conversation's skills. `tools` are those that each skill allows."""

    def __init__(self, skills: Sequence[Skill], tools: Mapping[str, Sequence[CallableTool]], transcript: Transcript, root: Path) -> None:
        self._skills = skills
        self._tools = tools
        self._transcript = transcript
        self._root = root
        self._activated = {skill.name for skill in skills if skill.preload}
        self._own = (
            OwnTool(ToolSpec(ACTIVATE, "", {}), _ACTIVATE_SCHEMA, self._activate),
            OwnTool(ToolSpec(DEACTIVATE, "", {}), _ACTIVATE_SCHEMA, self._deactivate),
            OwnTool(_READ, _READ_SCHEMA, self._read),
        )

    def briefing(self, brief: Brief) -> str:
        """Return the instructions of the preloaded skills."""
        del brief
        return "\n\n".join(f"# Skill: {skill.name}\n\n{skill.instructions}" for skill in self._here() if skill.preload)

    def offers(self) -> Sequence[ToolSpec]:
        """Return the tool that activates what is not active yet, and what active skills bring."""
        here = self._here()
        idle = [skill for skill in here if skill.name not in self._activated]
        offers = [_activate_spec(idle)] if idle else []
        active = [skill for skill in here if skill.name in self._activated]
        if lent := [skill for skill in active if not skill.preload]:
            offers.append(_deactivate_spec(lent))
        if any(skill.directory for skill in active):
            offers.append(_READ)
        return [*offers, *(tool.spec for skill in active for tool in self._tools[skill.name])]

    def find(self, name: str) -> CallableTool | None:
        """Return a tool of skills, or one that an active skill brings."""
        own = next((tool for tool in self._own if tool.spec.name == name), None)
        brought = (tool for skill in self._here() if skill.name in self._activated for tool in self._tools[skill.name])
        return own or next((tool for tool in brought if tool.spec.name == name), None)

    def _here(self) -> list[Skill]:
        """Return the skills that the workflow's state lets through; all of them without one."""
        course = self._transcript.course
        filters = course.state.skills if course is not None else None
        return list(self._skills) if filters is None else [skill for skill in self._skills if skill.is_named_by(filters)]

    def _skill(self, name: str) -> Skill:
        found = next((skill for skill in self._here() if skill.name == name), None)
        if found is None:
            known = ", ".join(skill.name for skill in self._here()) or "none"
            raise CallFailed("execution", f"there is no skill '{name}' here; skills are: {known}")
        return found

    def _activate(self, arguments: Mapping[str, Any]) -> str:
        skill = self._skill(arguments["name"])
        self._activated.add(skill.name)
        self._transcript.skills.append(skill.name)
        return skill.instructions

    def _deactivate(self, arguments: Mapping[str, Any]) -> str:
        skill = self._skill(arguments["name"])
        if skill.preload or skill.name not in self._activated:
            raise CallFailed("execution", f"skill '{skill.name}' {'is always active' if skill.preload else 'is not active'}")
        self._activated.discard(skill.name)
        return f"skill '{skill.name}' is no longer active"

    def _read(self, arguments: Mapping[str, Any]) -> str:
        skill, path = self._skill(arguments["name"]), arguments["path"]
        if skill.name not in self._activated:
            raise CallFailed("execution", f"skill '{skill.name}' is not active")
        try:
            return _resource(self._root, skill, path)
        except (BundleInvalid, OSError, UnicodeDecodeError) as error:
            cause = "it is no text" if isinstance(error, UnicodeDecodeError) else getattr(error, "strerror", None) or "the path leaves the skill"
            raise CallFailed("execution", f"cannot read '{path}' of skill '{skill.name}': {cause}") from None


def _resource(root: Path, skill: Skill, path: str) -> str:
    if not skill.directory or join("", path) is None:
        raise BundleInvalid(f"cannot read '{path}'")
    with resolve_inside(root / skill.directory, path).open("rb") as stream:
        content = stream.read(MAX_RESOURCE_BYTES + 1)
    if len(content) > MAX_RESOURCE_BYTES:
        raise OSError(0, f"it is longer than {MAX_RESOURCE_BYTES:,} bytes")
    return content.decode()


def _activate_spec(skills: Sequence[Skill]) -> ToolSpec:
    lines = "\n".join(f"- {skill.name}: {skill.description}" for skill in skills)
    named = {"name": {"type": "string", "enum": [skill.name for skill in skills]}}
    return ToolSpec(ACTIVATE, f"Take on a skill: returns its instructions. Skills:\n{lines}", object_schema(named, "name"))


def _deactivate_spec(skills: Sequence[Skill]) -> ToolSpec:
    named = {"name": {"type": "string", "enum": [skill.name for skill in skills]}}
    return ToolSpec(DEACTIVATE, "Lay a skill aside, and the tools that it brought.", object_schema(named, "name"))
