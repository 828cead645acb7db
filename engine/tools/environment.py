"""The variables of our own environment that a bundle may name: for a header, a token, a program of its own.

Owns which those are. What is Arena's own, and what a cluster puts into every pod, is nobody's to name. Must not read the environment itself.
"""

import re
from collections.abc import Mapping

from engine.errors import EngineError

_OURS = re.compile(r"ARENA_.*|REDIS_URL|KUBERNETES_.*")
_REFERENCE = re.compile(r"\$\{([^}]+)\}")


class VariableRefused(EngineError):
    """A bundle names a variable that is not set, or that is not its to name."""


def how_to_set(name: str) -> str:
    """Return the remedy for a variable that is not set."""
    return f"set {name} for `arena eval`; workers get it by the job's workers.podOverrides.extraEnv, or `arena up --worker-env {name}`"


class Environment:
    """What a bundle may see of our environment."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = {name: value for name, value in variables.items() if not is_ours(name)}

    def value(self, name: str, purpose: str) -> str:
        """Return the value of a variable; `purpose` says in messages what it is for.

        Raises:
            VariableRefused: it is not set or empty, or it is Arena's own.
        """
        value = self._variables.get(name, "")
        if not value:
            own = is_ours(name)
            cause = "is not for bundles to read" if own else "is not set"
            raise VariableRefused(f"variable {name} of {purpose} {cause}", hint="" if own else how_to_set(name))
        return value

    def expand(self, text: str, purpose: str) -> str:
        """Return `text` with every `${NAME}` replaced.

        Raises:
            VariableRefused: as `value`.
        """
        return _REFERENCE.sub(lambda match: self.value(match[1], purpose), text)


def is_ours(name: str) -> bool:
    """Say whether a variable is Arena's own, or a cluster's, and so not for bundles to name."""
    return _OURS.fullmatch(name) is not None


def named_in(text: str) -> bool:
    """Say whether `text` takes a value from the environment."""
    return _REFERENCE.search(text) is not None
