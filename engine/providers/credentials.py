"""Keys of models: which variable or file holds a provider's, and how a key goes into a request.

Owns what each type's key is usually called (promptkit-format.md 4.3) and what may be named: a bundle that somebody else wrote names variables and files of
ours. A key is held by its signer alone, and never shown. Must not know the environment itself.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from engine.errors import CredentialMissing
from engine.tools.environment import how_to_set, is_ours

Spec = Mapping[str, Any]

USUAL: Final[Mapping[str, tuple[str, ...]]] = {
    "openai": ("OPENAI_API_KEY", "OPENAI_TOKEN"),
    "claude": ("ANTHROPIC_API_KEY", "CLAUDE_API_KEY"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "voyageai": ("VOYAGE_API_KEY",),
    "huggingface": ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"),
}
"""What each type's key is usually called, as a variable and in a Secret: the first one that is set wins."""

_HOSTS: Final[Mapping[str, str]] = {
    "openai": "openai.com",
    "claude": "anthropic.com",
    "gemini": "googleapis.com",
    "voyageai": "voyageai.com",
    "huggingface": "huggingface.co",
}
"""Each vendor's own domain, where nobody is answered without a key."""

_OF_PLATFORMS: Final[Mapping[str, tuple[str, ...]]] = {
    "azure": ("AZURE_OPENAI_API_KEY", "AZURE_API_KEY"),
    "bedrock": ("AWS_BEARER_TOKEN_BEDROCK",),
}
"""Variables that a platform's key may stand in; without one the platform signs."""

_CLOSED: Final = tuple(map(Path, ("/proc", "/sys", "/dev", "/run/secrets/kubernetes.io", "/run/secrets/eks.amazonaws.com", "/run/secrets/azure")))
"""Folders whose files say who the machine or the pod is: a bundle could send one to a host of its choice."""

_NOT_OF_A_VARIABLE: Final = re.compile(r"[^A-Z0-9]")
_KEY: Final = re.compile(r"[\x21-\x7e]{1,8192}")
_MAX_FILE_BYTES: Final = 16_384


class Signer(Protocol):
    """What proves to a model's endpoint who asks."""

    async def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Return the headers that prove it for one request; their values are secrets.

        Raises:
            ProviderError: there is no proof (`authentication`), or who gives it is out (`unavailable`).
        """
        ...


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key in a header, the same for each request; without a key, nothing is sent."""

    key: str = field(default="", repr=False)
    header: str = "Authorization"
    scheme: str = "Bearer"

    async def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Return the header."""
        del method, url, body
        return {self.header: f"{self.scheme} {self.key}".strip()} if self.key else {}


@dataclass(frozen=True, slots=True)
class Keys:
    """Where keys are looked for: in the environment, and in files, whose names are relative to `root`, the bundle.

    `places` says of variables that are ours the name of the Secret behind them, and its key.
    """

    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    root: Path = Path()
    places: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def of(self, spec: Spec) -> str:
        """Return a provider's key, "" when it names none and its type needs none.

        Raises:
            CredentialMissing: what it names is not there, or it names nothing and its type needs a key.
        """
        credential = spec.get("credential") or {}
        if file := credential.get("credential_file"):
            return self._read(spec, str(file))
        if problem := _problem(spec, self.environment):
            raise _missing(spec, *problem)
        name, found = self._set(spec)
        return _checked(spec, f"variable {name}", found) if found else ""

    def source(self, spec: Spec) -> str:
        """Return where a provider's key is found, as whoever sets it knows the place; "" when it has none, or another proof."""
        if file := (spec.get("credential") or {}).get("credential_file"):
            return f"file '{file}'"
        name, _ = self._set(spec)
        if place := self.places.get(name):
            return "Secret '{}' (key '{}')".format(*place)
        return f"variable {name}" if name else ""

    def document(self, spec: Spec) -> str:
        """Return what the file or the variable that a provider names holds, "" when it names none: a cloud's proof may be more than a word.

        Raises:
            CredentialMissing: it is not there, or not for bundles to name.
        """
        credential = spec.get("credential") or {}
        if file := credential.get("credential_file"):
            return self._text(spec, str(file))
        if problem := _problem(spec, self.environment):
            raise _missing(spec, *problem)
        return self.environment.get(str(credential.get("credential_env") or ""), "").strip()

    def _set(self, spec: Spec) -> tuple[str, str]:
        """Return the first variable of a provider that is set, and its value; "" and "" when none is."""
        return next(((name, found) for name in _looked_at(spec) if (found := self.environment.get(name, "").strip())), ("", ""))

    def _read(self, spec: Spec, name: str) -> str:
        return _checked(spec, f"file '{name}'", self._text(spec, name))

    def _text(self, spec: Spec, name: str) -> str:
        where = f"file '{name}'"
        path = (self.root / Path(name).expanduser()).resolve()
        if any(path.is_relative_to(closed.resolve()) for closed in _CLOSED):
            raise _missing(spec, f"{where} is not for bundles to name", "mount the key elsewhere, or use credential_env")
        try:
            with path.open("rb") as opened:
                return opened.read(_MAX_FILE_BYTES).decode("ascii", "replace").strip()
        except (OSError, ValueError) as error:
            raise _missing(spec, f"{where} cannot be read: {getattr(error, 'strerror', None) or type(error).__name__}") from None


def needed(spec: Spec) -> tuple[str, ...]:
    """Return the variables of which one must be set before a provider is asked, in the order they are looked at; () when none must."""
    credential = spec.get("credential") or {}
    if credential.get("credential_file"):
        return ()
    if named := credential.get("credential_env"):
        return (str(named),)
    return () if _platform(spec) or not _is_vendors_own(spec) else USUAL.get(str(spec.get("type")), ())


def wanted(spec: Spec) -> tuple[str, ...]:
    """Return every variable that a provider reads if it is set: those of `needed`, and those of an address that may ask for no key."""
    credential = spec.get("credential") or {}
    return () if credential.get("credential_file") else tuple(_looked_at(spec))


def agent_variable(agent: str) -> str:
    """Return the variable of the token for an agent, which may go without one: its own, since an agent's token is no other agent's to see."""
    return f"AGENT_TOKEN_{_NOT_OF_A_VARIABLE.sub('_', agent.upper())}"


def check(specs: Mapping[str, Spec], environment: Mapping[str, str]) -> None:
    """Refuse providers, by name, of which a variable is not set, before anything is asked.

    Raises:
        CredentialMissing: the message names each such provider and its variables.
    """
    named: dict[str, list[str]] = {}
    hints: list[str] = []
    for name in sorted(specs):
        if problem := _problem(specs[name], environment):
            named.setdefault(problem[0], []).append(f"'{name}'")
            hints.append(problem[1])
    if named:
        lines = (f"cannot ask provider {', '.join(names)}: {cause}" for cause, names in named.items())
        raise CredentialMissing("\n".join(lines), hint=hints[0])


def _looked_at(spec: Spec) -> Iterator[str]:
    named = (spec.get("credential") or {}).get("credential_env")
    if named:
        yield str(named)
    elif platform := _platform(spec):
        yield from _OF_PLATFORMS.get(platform, ())
    elif spec.get("type") == "agent":
        yield agent_variable(str(spec.get("agent") or ""))
    elif _is_vendors_own(spec) or not spec.get("from_job"):  # a bundle's gateway gets the usual variable, as the format has it
        yield from USUAL.get(str(spec.get("type")), ())


def _is_vendors_own(spec: Spec) -> bool:
    host, domain = urlsplit(str(spec.get("base_url") or "")).hostname or "", _HOSTS.get(str(spec.get("type")), "")
    return not host or host == domain or host.endswith(f".{domain}")


def _platform(spec: Spec) -> str:
    return str((spec.get("platform") or {}).get("type") or "")


def _problem(spec: Spec, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return what keeps a provider from its key, and the remedy; None for nothing."""
    names, signing = needed(spec), tuple((spec.get("auth") or {}).get("variables", {}).values())
    if not spec.get("from_job") and (ours := [name for name in (*wanted(spec), *signing) if is_ours(name)]):
        return f"variable {ours[0]} is Arena's own, and not for bundles to name", "name another variable"
    if unset := [name for name in signing if not environment.get(name, "").strip()]:
        return f"variable {unset[0]} is not set", ""
    if not names or any(environment.get(name, "").strip() for name in names):
        return None
    return f"variable {' or '.join(names)} is not set", how_to_set(names[0])


def _checked(spec: Spec, where: str, key: str) -> str:
    if not _KEY.fullmatch(key):
        raise _missing(spec, f"{where} holds no key: {'it is empty' if not key else 'a key is one word of printable ASCII'}")
    return key


def _missing(spec: Spec, cause: str, hint: str = "") -> CredentialMissing:
    return CredentialMissing(f"cannot ask provider '{spec.get('id', '')}': {cause}", hint=hint)
