"""Skills: read from files, offered, activated, filtered by state, and confined to their directories."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from engine.bundle.model import Bundle
from engine.bundle.skills import Skill
from engine.errors import BundleInvalid
from engine.items import ItemResult, Verdict

Write = Callable[..., Bundle]
Hold = Callable[..., Awaitable[ItemResult]]

SKILL = "---\nname: {name}\ndescription: About {name}\n---\nDo {name} well.\n"


def skill(root: Path, directory: str, text: str = "") -> None:
    """Write a skill into a directory of the bundle, named for it."""
    path = root / directory
    path.mkdir(parents=True, exist_ok=True)
    (path / "SKILL.md").write_text(text or SKILL.format(name=path.name))


def activate(name: str) -> dict[str, Any]:
    """Return a reply that activates a skill."""
    return {"tool_calls": [{"name": "skill__activate", "arguments": {"name": name}}]}


def read(name: str, path: str) -> dict[str, Any]:
    """Return a reply that reads a file of a skill."""
    return {"tool_calls": [{"name": "skill__read_resource", "arguments": {"name": name, "path": path}}]}


def user(*checks: dict[str, Any]) -> dict[str, Any]:
    """Return a scripted turn."""
    return {"role": "user", "content": "Hi", "assertions": list(checks)}


def results(held: ItemResult) -> list[str]:
    """Return what the model read of its calls."""
    return [message["content"] for message in held.messages if message["role"] == "tool"]


async def test_a_skill_is_activated(hold: Hold, tmp_path: Path) -> None:
    """Activating a skill returns its instructions, and checks see it."""
    skill(tmp_path, "skills/billing")
    skill(tmp_path, "skills/refunds")
    checks = [
        {"type": "skill_activated", "params": {"skill_names": ["billing"]}},
        {"type": "skill_not_activated", "params": {"skill_names": ["refunds"]}},
    ]
    held = await hold([user(*checks)], {1: activate("billing"), 2: "ok"}, arena={"skills": [{"dir": "skills"}]})
    assert (results(held), held.verdict) == (["Do billing well."], Verdict.PASS)


async def test_an_unknown_skill_is_told(hold: Hold) -> None:
    """The model is told which skills there are."""
    held = await hold([user()], {1: activate("x"), 2: "ok"}, arena={"skills": [{"name": "a", "instructions": "Do a."}]})
    assert results(held) == ["Error: there is no skill 'x' here; skills are: a"]


async def test_a_preloaded_skill_is_in_the_prompt(hold: Hold) -> None:
    """A preloaded skill stands in the system prompt, is no activation, and needs none."""
    check = {"type": "skill_not_activated", "params": {"skill_names": ["a"]}}
    held = await hold([user(check)], {1: "ok"}, arena={"skills": [{"name": "a", "instructions": "Do a.", "preload": True}]})
    assert held.messages[0] == {"role": "system", "content": "Be kind.\n\n# Skill: a\n\nDo a."}
    assert held.verdict is Verdict.PASS


async def test_a_skill_brings_its_tools(hold: Hold, tmp_path: Path) -> None:
    """Tools that a skill allows are offered and answer once it is active, not before."""
    skill(tmp_path, "s", "---\nname: s\ndescription: d\nallowed-tools: search\n---\nSearch.")
    search = {"tool_calls": [{"name": "search", "arguments": {}}]}
    more = {"arena": {"skills": [{"path": "s"}]}, "tools": {"search": {"mock_result": "found"}, "other": {}}, "prompt": {"allowed_tools": ["other"]}}
    held = await hold([user()], {1: search, 2: activate("s"), 3: search, 4: "ok"}, **more)
    before, _, after = results(held)
    assert before.startswith("Error: tool 'search' is not offered")
    assert after == "found"


async def test_a_skill_is_laid_aside(hold: Hold, tmp_path: Path) -> None:
    """A skill can be deactivated, and its tools go with it; a preloaded one stays."""
    skill(tmp_path, "s", "---\nname: s\ndescription: d\nallowed-tools: [search]\n---\nSearch.")
    aside = {"tool_calls": [{"name": "skill__deactivate", "arguments": {"name": "s"}}]}
    search = {"tool_calls": [{"name": "search", "arguments": {}}]}
    more = {"tools": {"search": {"mock_result": "found"}, "other": {}}, "prompt": {"allowed_tools": ["other"]}}
    held = await hold([user()], {1: activate("s"), 2: aside, 3: search, 4: aside, 5: "ok"}, arena={"skills": [{"dir": "s"}]}, **more)
    _, laid, searched, again = results(held)
    assert (laid, again) == ("skill 's' is no longer active", "Error: skill 's' is not active")
    assert searched.startswith("Error: tool 'search' is not offered")
    kept = await hold([user()], {1: aside, 2: "ok"}, arena={"skills": [{"dir": "s", "preload": True}]}, **more)
    assert results(kept) == ["Error: skill 's' is always active"]


async def test_a_state_filters_skills(hold: Hold, tmp_path: Path) -> None:
    """A state of a workflow may let through the skills of a directory or of a name, or none."""
    skill(tmp_path, "skills/billing/cards")
    skill(tmp_path, "skills/orders/late")
    states: dict[str, Any] = {
        "a": {"prompt_task": "t", "skills": "./skills/billing", "on_event": {"Go": "b"}},
        "b": {"prompt_task": "t", "skills": "none", "terminal": True},
    }
    more = {"skills": [{"dir": "skills/billing"}, {"dir": "skills/orders"}], "workflow": {"entry": "a", "states": states}}
    go = {"tool_calls": [{"name": "workflow__transition", "arguments": {"event": "Go"}}]}
    held = await hold([user()], {1: activate("late"), 2: activate("cards"), 3: go, 4: activate("cards"), 5: "ok"}, arena=more)
    late, cards, _, none = results(held)
    assert (late, cards) == ("Error: there is no skill 'late' here; skills are: cards", "Do cards well.")
    assert none == "Error: there is no skill 'cards' here; skills are: none"


async def test_skills_lie_anywhere_below(hold: Hold, tmp_path: Path) -> None:
    """Skills are found in every directory below the one named; a later entry may have one of them preloaded, and it stays one skill."""
    skill(tmp_path, "skills/billing/cards")
    skill(tmp_path, "skills/voice")
    more = {"skills": [{"path": "skills/"}, {"path": "skills/voice", "preload": True}]}
    held = await hold([user()], {1: activate("cards"), 2: "ok"}, arena=more)
    assert results(held) == ["Do cards well."]
    assert held.messages[0]["content"].count("Do voice well.") == 1


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        pytest.param("skills/billing", True, id="a directory above it"),
        pytest.param("./skills/billing/", True, id="the same, spelled otherwise"),
        pytest.param("skills/billing/*", True, id="a glob of directories"),
        pytest.param("billing/cards", True, id="the end of its path"),
        pytest.param("cards", True, id="its name"),
        pytest.param("card*", True, id="a glob of its name"),
        pytest.param("skills/bill", False, id="the beginning of a directory's name"),
        pytest.param("orders", False, id="another"),
        pytest.param("", False, id="nothing"),
    ],
)
def test_what_a_filter_names(wanted: str, *, named: bool) -> None:
    """A state's filter is a skill's name, a directory that it lies in, or a glob of either."""
    assert Skill("cards", "d", "i", directory="a/skills/billing/cards").is_named_by((wanted,)) is named


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        pytest.param("notes.txt", "a note", id="a file of the skill"),
        pytest.param("../b/SKILL.md", "the path leaves the skill", id="another skill"),
        pytest.param("/etc/passwd", "the path leaves the skill", id="an absolute path"),
        pytest.param("link", "the path leaves the skill", id="a symlink"),
        pytest.param("none.txt", "No such file or directory", id="no file"),
        pytest.param("binary", "it is no text", id="no text"),
    ],
)
async def test_resources_are_confined(hold: Hold, tmp_path: Path, path: str, answer: str) -> None:
    """A skill's files are read inside its own directory only, whatever the model asks for."""
    skill(tmp_path, "a")
    skill(tmp_path, "b")
    (tmp_path / "a" / "notes.txt").write_text("a note")
    (tmp_path / "a" / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "a" / "link").symlink_to(tmp_path / "b" / "SKILL.md")
    held = await hold([user()], {1: activate("a"), 2: read("a", path), 3: "ok"}, arena={"skills": [{"dir": "a"}, {"dir": "b"}]})
    assert results(held)[1].endswith(answer)


async def test_only_active_skills_are_read(hold: Hold, tmp_path: Path) -> None:
    """A skill's files are its own until it is active."""
    skill(tmp_path, "a")
    held = await hold([user()], {1: read("a", "SKILL.md"), 2: "ok"}, arena={"skills": [{"dir": "a"}]})
    assert results(held) == ["Error: skill 'a' is not active"]


@pytest.mark.parametrize(
    ("text", "entry", "words"),
    [
        pytest.param("Do it.", {"dir": "s"}, "must begin with front matter", id="no front matter"),
        pytest.param("---\nname: s\n---\n", {"dir": "s"}, "missing key 'description'", id="no description"),
        pytest.param("---\nname: s\ndescription: d\nallowed_tools: x\n---\n", {"dir": "s"}, "unknown key 'allowed_tools'", id="a mistyped key"),
        pytest.param("", {"dir": "nowhere"}, "there is no such directory", id="no directory"),
        pytest.param("", {"dir": "../x"}, "the path leaves the bundle", id="outside the bundle"),
        pytest.param("", {"dir": "empty"}, "there is no skill in 'empty'", id="a directory without skills"),
        pytest.param("", {"name": "x"}, "neither a directory nor a name and instructions", id="nothing to do"),
    ],
)
def test_a_broken_skill_is_refused(write: Write, tmp_path: Path, text: str, entry: dict[str, Any], words: str) -> None:
    """A skill that cannot be read is an error of the bundle, with its file."""
    skill(tmp_path, "s", text)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BundleInvalid, match=words):
        write([user()], {}, arena={"skills": [entry]})


def test_tools_that_a_skill_allows_in_vain_are_said(write: Write, tmp_path: Path) -> None:
    """A skill may be written for other programs too: a tool of theirs is a warning here, never an error."""
    skill(tmp_path, "s", "---\nname: s\ndescription: d\nallowed-tools: Bash serch\n---\n")
    warnings = write([user()], {}, arena={"skills": [{"dir": "s"}]}, tools={"search": {}}).warnings
    assert [warning.partition(" allows ")[2] for warning in warnings if "skill 's'" in warning] == [
        "the tool 'Bash', which the bundle does not have",
        "the tool 'serch', which the bundle does not have",
    ]


def test_two_skills_of_one_name_are_refused(write: Write) -> None:
    """A skill is known by its name."""
    twice = [{"name": "a", "instructions": "x"}, {"name": "a", "instructions": "y"}]
    with pytest.raises(BundleInvalid, match="duplicate skill 'a'"):
        write([user()], {}, arena={"skills": twice})
