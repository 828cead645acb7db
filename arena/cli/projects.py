"""`arena project adopt`: the repository of a deleted project comes back."""

import sys
import time
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from arena import settings
from arena.cli.client import Client
from arena.cli.options import DEFAULT_STATE, Namespace, State, state_directory
from arena.cli.screen import table
from arena.errors import UsageError
from gitops.content import ContentVolume
from gitops.retained import Retained, list_retained, object_format
from reconcile.cluster.port import ARENA_PROJECT
from reconcile.kinds.names import ADOPT

WAIT_S = 60.0
_LOOK_S = 0.1


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    group = typer.Typer(help="Repositories of projects that were deleted.")
    group.callback()(_project)
    group.command("adopt")(adopt)
    app.add_typer(group, name="project")


def _project() -> None:
    """What is left of deleted projects."""


def adopt(
    name: Annotated[str, typer.Argument(help="Name of the project, the deleted one's.", metavar="NAME")],
    *,
    uid: Annotated[
        str,
        typer.Option(
            "--uid", envvar=settings.UID, show_default="the only one retained", help="Uid of the deleted project, where there were several."
        ),
    ] = "",
    namespace: Namespace = "default",
    state: State = DEFAULT_STATE,
) -> None:
    """Give a project the repository that a deleted one of its name left behind; the project is created where there is none.

    A project that has commits of its own keeps them, and the command is refused.
    """
    directory = state_directory(state)
    client = Client.of(directory)
    chosen = _choose(list_retained(ContentVolume(directory.content), namespace, name), name, uid)
    found = client.find(ARENA_PROJECT, namespace, name)
    _refuse(name, found)
    annotation = {"annotations": {ADOPT: chosen.uid}}
    if found is None:
        hosted = {"objectFormat": object_format(chosen.path)}
        client.create(ARENA_PROJECT, namespace, {"metadata": {"name": name, **annotation}, "spec": {"hosted": hosted}})
    else:
        client.patch(ARENA_PROJECT, namespace, name, {"metadata": annotation})
    project = _await(client, namespace, name, chosen)
    head = (project["status"].get("head") or {}).get("commit")
    sys.stdout.write(f"project {name} has its repository back: {f'main is {head[:12]}' if head else 'it has no commit yet'}\n")


def _refuse(name: str, project: dict[str, Any] | None) -> None:
    """Refuse at once what the project's controller would refuse."""
    if project is None:
        return
    if "hosted" not in project["spec"]:
        raise UsageError(f"cannot adopt a repository for project '{name}': it is not hosted")
    if "deletionTimestamp" in project["metadata"]:
        raise UsageError(f"cannot adopt a repository for project '{name}': it is being deleted", hint="wait until it has gone")
    if (project.get("status") or {}).get("head"):
        raise UsageError(
            f"cannot adopt a repository for project '{name}': it has commits of its own",
            hint=f"`arena delete ap {name}` retains them under another uid; then adopt again",
        )


def _choose(found: Sequence[Retained], name: str, uid: str) -> Retained:
    chosen = [retained for retained in found if uid in ("", retained.uid)]
    if len(chosen) == 1:
        return chosen[0]
    if not found:
        raise UsageError(f"cannot adopt a repository for project '{name}': none is retained", hint="see --namespace and --state")
    sys.stderr.write(table(("UID", "LAST WRITTEN", "KIB"), [(r.uid, f"{r.used:%Y-%m-%d %H:%M:%S}Z", f"{r.bytes / 1024:.0f}") for r in found]))
    cause = f"none is retained under uid '{uid}'" if uid else f"{len(found)} are retained"
    raise UsageError(f"cannot adopt a repository for project '{name}': {cause}", hint="name one of those above with --uid UID")


def _await(client: Client, namespace: str, name: str, chosen: Retained) -> dict[str, Any]:
    """Return the project once its controller has moved the repository and looked at it."""
    deadline = time.monotonic() + WAIT_S
    ready: dict[str, Any] = {}
    while time.monotonic() < deadline:
        project = client.get(ARENA_PROJECT, namespace, name)
        status = project.get("status") or {}
        ready = next((c for c in status.get("conditions", []) if c["type"] == "Ready"), {})
        if status.get("lastHandledAdopt") == chosen.uid and ready.get("reason") != "ProgressingWithRetry":
            if not chosen.path.exists() and (status.get("head") or ready.get("reason") == "RepositoryEmpty"):
                return project
            if status.get("head"):
                raise UsageError(f"cannot adopt a repository for project '{name}': it has commits of its own since")
        if ready.get("reason") == "AdoptFailed" and chosen.uid in ready["message"]:  # not the answer to an older request
            break
        time.sleep(_LOOK_S)
    raise UsageError(f"cannot adopt a repository for project '{name}': {ready.get('message', 'its controller does not answer')}")
