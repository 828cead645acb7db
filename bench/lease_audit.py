"""Who wrote while whose turn it was: the API server's audit log, read against the Lease.

Owns the policy that logs Leases with their content and every other write of controllers without, and the judgement. One server's clock orders both.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

_WRITES: Final = ["create", "update", "patch", "delete", "deletecollection"]
_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "RequestResponse",
            "userGroups": ["system:serviceaccounts"],
            "verbs": _WRITES,
            "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}],
        },
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"], "verbs": _WRITES},
        {"level": "None"},
    ],
}
_OK: Final = range(200, 300)


class LeaseAudit:
    """The audit log of one API server, in a folder; give it `arguments` at its start. Judge when nobody writes any more."""

    def __init__(self, folder: Path) -> None:
        self._policy = folder / "lease-audit-policy.yaml"
        self._log = folder / "lease-audit.log"
        self._policy.write_text(yaml.safe_dump(_POLICY))
        self.terms = 0
        self.writes = 0

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return what the API server is told."""
        return f"--audit-policy-file={self._policy}", f"--audit-log-path={self._log}"

    def intrusions(self) -> list[str]:
        """Return, in words, each write that the server answered well and that came from another than the one whom the Lease named when it was done.

        A write that is under way while the Lease changes hands counts for the one who had it when the write was received.
        """
        turns: list[tuple[str, str]] = []
        writes: list[tuple[str, str, str, str]] = []
        holder = ""
        for event in sorted(self._events(), key=lambda event: str(event["stageTimestamp"])):
            user, resource = str(event["user"]["username"]), event["objectRef"]["resource"]
            if resource == "leases":
                named = ((event.get("responseObject") or {}).get("spec") or {}).get("holderIdentity") or ""
                if named and named != holder:
                    holder = named
                    turns.append((str(event["stageTimestamp"]), user))
            else:
                what = f"{event['verb']} {resource} {event['objectRef'].get('name', '')}"
                writes.append((str(event["requestReceivedTimestamp"]), str(event["stageTimestamp"]), user, what))
        self.terms, self.writes = len(turns), len(writes)
        return [
            f"{user} wrote at {received}: {what}" for received, done, user, what in writes if user not in {_at(turns, received), _at(turns, done)}
        ]

    def _events(self) -> Iterator[dict[str, Any]]:
        with self._log.open() as lines:
            for line in lines:
                event = json.loads(line) if line.endswith("\n") else {}
                if event.get("stage") == "ResponseComplete" and int(event.get("responseStatus", {}).get("code", 0)) in _OK and "objectRef" in event:
                    yield event


def _at(turns: list[tuple[str, str]], moment: str) -> str:
    """Return whose turn it was."""
    return next((user for began, user in reversed(turns) if began <= moment), "")
