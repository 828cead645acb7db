"""The audit log of the tests' API server: who asked for what, and what was refused.

Owns the policy and the reading of the log. Must not know who was allowed to ask.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_FORBIDDEN = 403
_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ],
}


@dataclass(frozen=True, slots=True, order=True)
class Asked:
    """One thing that a user asked for. `resource` bears its subresource (`arenaruns/status`); `namespace` "" is all of them, or none has it.

    `name` is "" where the request named no object: list, watch, create.
    """

    verb: str
    group: str
    resource: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """Return it as a person would say it."""
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}.{self.group or 'core'} {self.name}".rstrip() + where


@dataclass(frozen=True, slots=True)
class Audit:
    """What one user asked for: `asked` everything, `refused` what was forbidden."""

    asked: frozenset[Asked]
    refused: frozenset[Asked]


class AuditLog:
    """The log of one API server, in a folder; give it `arguments` at its start."""

    def __init__(self, folder: Path) -> None:
        self._policy = folder / "audit-policy.yaml"
        self._log = folder / "audit.log"
        self._policy.write_text(yaml.safe_dump(_POLICY))

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return what the API server is told."""
        return f"--audit-policy-file={self._policy}", f"--audit-log-path={self._log}"

    def of(self, user: str) -> Audit:
        """Return what a user has asked for until now. What is not about a resource (`/version`) is left out: everybody may ask that."""
        events = [event for event in self._events() if event["user"]["username"] == user and "resource" in event.get("objectRef", {})]
        return Audit(_all(events), _all(event for event in events if event.get("responseStatus", {}).get("code") == _FORBIDDEN))

    def _events(self) -> Iterator[dict[str, Any]]:
        with self._log.open() as lines:
            yield from (json.loads(line) for line in lines if line.endswith("\n"))


def _all(events: Iterable[Mapping[str, Any]]) -> frozenset[Asked]:
    return frozenset(_asked(event) for event in events)


def _asked(event: Mapping[str, Any]) -> Asked:
    about = event["objectRef"]
    resource = about["resource"] + (f"/{about['subresource']}" if about.get("subresource") else "")
    # The server notes the name of what was created; the request, which is what RBAC decides on, had none.
    name = "" if event["verb"] == "create" else about.get("name", "")
    return Asked(event["verb"], about.get("apiGroup", ""), resource, about.get("namespace", ""), name)
