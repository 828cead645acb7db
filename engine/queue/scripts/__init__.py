"""The queue's Lua scripts, by name: each changes several facts of one run in one step.

The `.lua` files beside this module state their keys and what is atomic; `prelude.lua` opens each. Must not know what a caller does with the answers.
"""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True, slots=True)
class Script:
    """A script's whole text and the SHA-1 by which a server that has seen it runs it."""

    text: str
    sha: str


@cache
def load_script(name: str) -> Script:
    """Return the script in `<name>.lua` behind the prelude."""
    folder = resources.files(__name__)
    text = folder.joinpath("prelude.lua").read_text() + folder.joinpath(f"{name}.lua").read_text()
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
