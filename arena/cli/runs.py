"""`arena run`, `cancel`, `runs`, `show` and `logs`: start a run, wait for its verdict, stop it, read what came of it."""

import secrets
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from arena import settings
from arena.cli.client import Client, ServerRefused
from arena.cli.following import PatienceOver, at_most, follow
from arena.cli.listing import cells, columns_of
from arena.cli.options import DEFAULT_STATE, Mock, Namespace, State, flag, of_namespace, state_directory
from arena.cli.outcome import EXIT_TIMED_OUT, exit_code, verdict_lines
from arena.cli.progress import ProgressLine
from arena.cli.screen import table
from arena.errors import UsageError
from gitops.content import ContentVolume
from reconcile.arena_run import created, finished, run_object
from reconcile.cluster.port import ARENA_JOB, ARENA_RUN
from reconcile.kinds.names import JOB_LABEL, MOCK_CONFIG, MOCK_PROVIDER
from reconcile.kinds.quantities import parse_duration
from reconcile.naming import MAX_LABEL, fit, request_cause, run_names

Run = Annotated[str, typer.Argument(help="Name of the run.", metavar="RUN")]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("run")(run)
    app.command("cancel")(cancel)
    app.command("runs")(runs)
    app.command("show")(show)
    app.command("logs")(logs)


def run(  # noqa: PLR0913 - one parameter an option
    job: Annotated[str, typer.Argument(help="Name of the ArenaJob.", metavar="JOB")],
    *,
    ref: Annotated[
        str, typer.Option("--ref", envvar=settings.REF, show_default="the job's", help="Branch, tag, full ref name or full SHA to test.")
    ] = "",
    wait: Annotated[bool, flag("--wait", envvar=settings.WAIT, help_text="Show progress and exit with the verdict.")] = False,
    timeout: Annotated[
        str,
        typer.Option(
            "--timeout",
            envvar=settings.WAIT_TIMEOUT,
            metavar="DURATION",
            show_default="none",
            help="Longest time to --wait, such as 90s, 10m or 1h30m; then exit 124, and the run goes on.",
        ),
    ] = "",
    mock_provider: Mock = False,
    mock_config: Annotated[
        str,
        typer.Option(
            "--mock-config", envvar=settings.MOCK_CONFIG, show_default="each provider's own", help="The mock's answers, a file of the bundle."
        ),
    ] = "",
    namespace: Namespace = "default",
    state: State = DEFAULT_STATE,
) -> int:
    """Start a run of a job; with --wait, exit 0 pass, 1 fail, 2 refused, 3 error or cancelled, 124 when --timeout is over."""
    patience = _patience(timeout, wait=wait)
    client = Client.of(state_directory(state))
    owner = client.get(ARENA_JOB, namespace, job)
    if owner["spec"].get("suspend"):
        raise UsageError(f"cannot run job '{job}': it is suspended", hint="set its spec.suspend to false")
    annotations = owner["metadata"].setdefault("annotations", {})
    if mock_provider:
        annotations[MOCK_PROVIDER] = "true"
    if mock_config:
        annotations[MOCK_CONFIG] = mock_config
    started = _create(client, owner, ref)
    name = started["metadata"]["name"]
    if not wait:
        sys.stdout.write(f"{name}\n")
        sys.stderr.write(f"  arena get arun {name} --watch{of_namespace(namespace)}\n")
        return 0
    return wait_for(client, state_directory(state).content, started, patience)


def _patience(timeout: str, *, wait: bool) -> timedelta | None:
    """Return how long a person wants to wait, None for as long as it takes."""
    if not timeout:
        return None
    if not wait:
        raise UsageError("cannot use --timeout without --wait", hint="add --wait")
    try:
        patience = parse_duration(timeout)
    except ValueError as error:
        raise UsageError(f"cannot wait for '{timeout}': {error}") from error
    if patience <= timedelta():
        raise UsageError(f"cannot wait for '{timeout}': it is no time at all", hint="leave --timeout out to wait as long as it takes")
    return patience


def _create(client: Client, job: dict[str, Any], ref: str) -> dict[str, Any]:
    """Create the run itself, named as the job controller would name it."""
    cause = request_cause(secrets.token_hex(8))
    for name in run_names(job["metadata"]["name"], job["metadata"]["uid"], cause):
        try:
            return client.create(ARENA_RUN, job["metadata"]["namespace"], run_object(job, name, cause, trigger="Manual", ref=ref))
        except ServerRefused as error:
            if error.reason != "AlreadyExists":
                raise
    raise UsageError(f"cannot name a run of job '{job['metadata']['name']}'")


def wait_for(client: Client, content: Path, started: dict[str, Any], patience: timedelta | None = None) -> int:
    """Show a run's progress on stderr until it ends or the patience with it does, print its verdict on stdout, and return the exit code."""
    line = ProgressLine(sys.stderr)
    ended = started
    try:
        with at_most(patience):
            for ended in follow(client, ARENA_RUN, started, until="it ended"):
                line.show(ended)
                if finished(ended):
                    break
    except KeyboardInterrupt:
        _leave(line, started)
        raise
    except PatienceOver:
        if not finished(ended):
            _leave(line, started)
            return EXIT_TIMED_OUT
    line.clear()
    directory = ContentVolume(content).run(ended["metadata"]["namespace"], ended["metadata"]["name"])
    sys.stdout.write("".join(f"{text}\n" for text in verdict_lines(ended, directory)))
    return exit_code(ended)


def _leave(line: ProgressLine, run: dict[str, Any]) -> None:
    """Say how to look at a run that is waited for no longer, and how to stop it."""
    line.clear()
    name, where = run["metadata"]["name"], of_namespace(run["metadata"]["namespace"])
    sys.stderr.write(f"  the run goes on: arena get arun {name} --watch{where}\n  to stop it: arena cancel {name}{where}\n")


def cancel(
    name: Run,
    *,
    wait: Annotated[bool, flag("--wait", envvar=settings.WAIT, help_text="Return when the run has ended.")] = False,
    namespace: Namespace = "default",
    state: State = DEFAULT_STATE,
) -> None:
    """Stop a run: what it has not begun is not run, what it has done keeps its results; exit 0 cancelled, 2 when it had ended."""
    client = Client.of(state_directory(state))
    found = _find(client, namespace, name)
    _refuse_ended(found)
    client.patch(ARENA_RUN, namespace, name, {"spec": {"cancelled": True}})
    if wait:
        found = next(run for run in follow(client, ARENA_RUN, found, until="it ended") if finished(run))
        _refuse_ended(found)
    sys.stdout.write(f"{name} {'cancelled' if wait else 'is being cancelled'}\n")
    sys.stderr.write(f"  arena show {name}{of_namespace(namespace)}\n")


def _find(client: Client, namespace: str, name: str) -> dict[str, Any]:
    """Return a run that a person named; one that is not there may have made way for newer ones."""
    found = client.find(ARENA_RUN, namespace, name)
    if found is None:
        hint = f"`arena runs{of_namespace(namespace)}` lists those there are; a job's failedRunsHistoryLimit and successfulRunsHistoryLimit say how many it keeps"
        raise UsageError(f"cannot find run '{name}' in namespace '{namespace}'", hint=hint)
    return found


def _refuse_ended(run: dict[str, Any]) -> None:
    """Refuse to cancel a run that has ended in another way, before the command or while it waited."""
    if not finished(run) or run["status"]["phase"] == "Cancelled":
        return
    name, where = run["metadata"]["name"], of_namespace(run["metadata"]["namespace"])
    raise UsageError(f"cannot cancel run '{name}': it has ended as {run['status']['phase']}", hint=f"arena show {name}{where}")


def runs(
    job: Annotated[str, typer.Argument(help="Only the runs of this job.", metavar="[JOB]")] = "",
    *,
    wide: Annotated[bool, flag("--wide", envvar=settings.WIDE, help_text="Show ref, trigger, workers and reason too.")] = False,
    namespace: Namespace = "default",
    state: State = DEFAULT_STATE,
) -> None:
    """List runs, newest first."""
    client = Client.of(state_directory(state))
    selector = f"{JOB_LABEL}={fit(job, MAX_LABEL)}" if job else ""
    items = sorted(client.list(ARENA_RUN, namespace, selector)["items"], key=created, reverse=True)
    if not items:
        sys.stderr.write("No runs found.\n")
        return
    columns = columns_of(ARENA_RUN, wide=wide)
    sys.stdout.write(table([column.name.upper() for column in columns], [cells(columns, item) for item in items]))


def show(
    name: Run,
    *,
    failed: Annotated[bool, flag("--failed", envvar=settings.FAILED, help_text="Show the conversations of the items that failed.")] = False,
    namespace: Namespace = "default",
    state: State = DEFAULT_STATE,
) -> None:
    """Show what came of a run: verdict, commit, pass rates, and each failed item with the line that reproduces it."""
    from arena.cli.showing import show_run  # noqa: PLC0415 - reads results; the other commands start without it

    directory = state_directory(state)
    found = _find(Client.of(directory), namespace, name)
    show_run(found, ContentVolume(directory.content).run(namespace, name), transcripts=failed)


def logs(
    name: Run,
    *,
    follow_on: Annotated[bool, flag("--follow", "-f", envvar=settings.FOLLOW, help_text="Go on until the run ends.")] = False,
    namespace: Namespace = "default",
    state: State = DEFAULT_STATE,
) -> None:
    """Print the logs of a run's workers."""
    from arena.local.log_sweep import log_folder  # noqa: PLC0415 - brings structlog, which the other commands start without

    directory = state_directory(state)
    client = Client.of(directory)
    found = _find(client, namespace, name)
    folder = log_folder(directory.logs, namespace, name)
    offsets: dict[Path, int] = {}
    while True:
        ended = finished(found)
        _print_new(folder, offsets)
        if not follow_on or ended:
            break
        time.sleep(0.5)
        found = client.get(ARENA_RUN, namespace, name)
    if not offsets:
        sys.stderr.write("No worker has written a log yet.\n")


def _print_new(folder: Path, offsets: dict[Path, int]) -> None:
    for path in sorted(folder.glob("*.log")):
        with path.open(encoding="utf-8", errors="replace") as stream:
            stream.seek(offsets.get(path, 0))
            sys.stdout.writelines(f"{path.stem}: {line}" for line in stream)
            offsets[path] = stream.tell()
    sys.stdout.flush()
