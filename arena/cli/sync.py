"""`arena sync`: a project's repository is looked at now, and what came of it."""

import secrets
import sys
from typing import Annotated, Any

import typer

from arena import settings
from arena.cli.client import Client
from arena.cli.following import follow
from arena.cli.options import DEFAULT_STATE, Namespace, State, flag, of_namespace, state_directory
from arena.cli.screen import printable
from arena.errors import UsageError
from reconcile.cluster.port import ARENA_PROJECT
from reconcile.kinds.names import REQUESTED_SYNC, request_of


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("sync")(sync)


def sync(
    name: Annotated[str, typer.Argument(help="Name of the ArenaProject.", metavar="PROJECT")],
    *,
    wait: Annotated[bool, flag("--wait", envvar=settings.WAIT, help_text="Return when the look is done, and fail when it did.")] = False,
    namespace: Namespace = "default",
    state: State = DEFAULT_STATE,
) -> None:
    """Fetch a project's remote now, whatever its poll interval says; a hosted repository is looked at again.

    With --wait, exit 0 with what the default branch is now, 2 when the remote could not be fetched or its head not exported.
    """
    client = Client.of(state_directory(state))
    project = client.get(ARENA_PROJECT, namespace, name)
    if "deletionTimestamp" in project["metadata"]:
        raise UsageError(f"cannot sync project '{name}': it is being deleted")
    if project["spec"].get("suspend"):
        raise UsageError(f"cannot sync project '{name}': it is suspended", hint="set its spec.suspend to false")
    request = f"sync-{secrets.token_hex(6)}"
    project = client.patch(ARENA_PROJECT, namespace, name, {"metadata": {"annotations": {REQUESTED_SYNC: request}}})
    if not wait:
        sys.stdout.write(f"{name} is being synced\n")
        sys.stderr.write(f"  arena describe ap {name}{of_namespace(namespace)}\n")
        return
    answered = next(found for found in follow(client, ARENA_PROJECT, project, until="it was synced") if _is_answered(found, request))
    sys.stdout.write(f"{_outcome(answered)}\n")


def _is_answered(project: dict[str, Any], request: str) -> bool:
    """Say whether the request, or one that came after it and took its place, was answered."""
    handled = (project.get("status") or {}).get("lastHandledSync", "")
    return bool(handled) and handled in (request, request_of(project["metadata"].get("annotations"), REQUESTED_SYNC))


def _outcome(project: dict[str, Any]) -> str:
    """Return what the project is now.

    Raises:
        UsageError: the remote could not be fetched, or its head cannot be exported.
    """
    status, name = project["status"], project["metadata"]["name"]
    conditions = {condition["type"]: condition for condition in status.get("conditions", [])}
    for kind, bad in (("FetchFailed", "True"), ("Ready", "False")):
        said = conditions.get(kind, {})
        if said.get("status") == bad:
            raise UsageError(f"cannot sync project '{name}': {said['reason']}: {printable(said['message'])}")
    head, refs = status["head"], status["refs"]
    branch = head["ref"].removeprefix("refs/heads/")
    return f"{name}: {printable(branch)} is {head['commit'][:12]} (branches {refs['branches']}, tags {refs['tags']})"
