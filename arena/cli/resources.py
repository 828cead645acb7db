"""`arena get`, `describe`, `apply` and `delete`: the objects of a running server, as kubectl shows them."""

import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from arena import settings
from arena.cli.applying import apply_object
from arena.cli.client import Client, ServerRefused
from arena.cli.describing import describe_object
from arena.cli.listing import qualified
from arena.cli.options import DEFAULT_STATE, Format, Namespace, Output, State, flag, state_directory
from arena.cli.printing import ObjectPrinter
from arena.cli.screen import print_error
from arena.errors import UsageError
from reconcile.cluster.port import EVENT, KINDS, ResourceKind

Kind = Annotated[str, typer.Argument(help="Kind of the objects: a name such as arenaruns, a short name such as arun, or KIND/NAME.")]
Name = Annotated[str, typer.Argument(help="Name of one object.")]
Files = Annotated[
    list[Path],
    typer.Option("--filename", "-f", envvar=settings.FILENAME, show_default="none", help="File, folder or - for standard input; may be given again."),
]
_BUILD_S = 60.0
Selector = Annotated[
    str, typer.Option("--selector", "-l", envvar=settings.SELECTOR, show_default="all", help="Label selector, such as key=value,other!=value.")
]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("get")(get)
    app.command("describe")(describe)
    app.command("apply")(apply)
    app.command("delete")(delete)


def get(  # noqa: PLR0913 - one parameter an option
    kind: Kind,
    name: Name = "",
    *,
    namespace: Namespace = "default",
    output: Output = Format.TABLE,
    watch: Annotated[bool, flag("--watch", "-w", envvar=settings.WATCH, help_text="Go on and print every change.")] = False,
    selector: Selector = "",
    state: State = DEFAULT_STATE,
) -> None:
    """Print objects as a table, YAML, JSON or names."""
    resource, wanted = find_kind(kind, name)
    client = Client.of(state_directory(state))
    printer = ObjectPrinter(resource, output)
    if wanted:
        found = client.get(resource, namespace, wanted)
        version = found["metadata"]["resourceVersion"]
        printer.print_objects([found])
    else:
        listing = client.list(resource, namespace, selector)
        version = listing["metadata"]["resourceVersion"]
        printer.print_list(listing)
    if watch:
        for _, changed in client.watch(resource, namespace, version, selector):
            if wanted in {"", changed["metadata"]["name"]}:
                printer.print_objects([changed])


def describe(kind: Kind, name: Name = "", namespace: Namespace = "default", state: State = DEFAULT_STATE) -> None:
    """Show one object in words: spec, status, conditions, events."""
    resource, wanted = find_kind(kind, name)
    client = Client.of(state_directory(state))
    found = [client.get(resource, namespace, wanted)] if wanted else client.list(resource, namespace)["items"]
    events = client.list(EVENT, namespace)["items"]
    for number, item in enumerate(found):
        about = [event for event in events if event.get("involvedObject", {}).get("uid") == item["metadata"]["uid"]]
        sys.stdout.write(("\n" if number else "") + describe_object(item, about))


def apply(
    *,
    filename: Files = [],  # noqa: B006 - typer reads the default, nobody changes it
    kustomize: Annotated[
        Path | None, typer.Option("--kustomize", "-k", envvar=settings.KUSTOMIZE, show_default="none", help="Folder that kustomize builds from.")
    ] = None,
    namespace: Namespace = "default",
    state: State = DEFAULT_STATE,
) -> None:
    """Create or change the objects that files describe."""
    if not filename and kustomize is None:
        raise UsageError("cannot apply: no file named", hint="arena apply -f FILE, or arena apply -k FOLDER")
    sources = chain.from_iterable(_texts(path) for path in filename)
    client = Client.of(state_directory(state))
    refused = 0
    for source, document in _documents(chain(sources, _kustomized(kustomize) if kustomize is not None else ())):
        try:
            kind = _kind_of(document, source)
            change = apply_object(client, kind, document, namespace)
            sys.stdout.write(f"{qualified(kind)}/{document['metadata']['name']} {change}\n")
        except ServerRefused as error:
            refused += 1
            print_error(UsageError(f"{source}: {error.message}", hint=error.hint))
    if refused:
        raise UsageError(f"cannot apply {refused} of the objects")


def delete(
    kind: Annotated[str, typer.Argument(help="Kind of the object, or KIND/NAME.")] = "",
    name: Name = "",
    *,
    filename: Files = [],  # noqa: B006 - typer reads the default, nobody changes it
    wait: Annotated[bool, typer.Option("--wait/--no-wait", envvar=settings.WAIT, help="Return when the objects are gone.")] = True,
    namespace: Namespace = "default",
    state: State = DEFAULT_STATE,
) -> None:
    """Delete an object by name, or the objects that files describe, and wait until they are gone."""
    targets: list[tuple[ResourceKind, str, str]] = []
    if kind:
        resource, wanted = find_kind(kind, name)
        if not wanted:
            raise UsageError(f"cannot delete {resource.plural}: no name given", hint=f"arena delete {resource.singular} NAME")
        targets.append((resource, namespace, wanted))
    for source, document in _documents(chain.from_iterable(_texts(path) for path in filename)):
        targets.append((_kind_of(document, source), document["metadata"].get("namespace", namespace), document["metadata"]["name"]))
    if not targets:
        raise UsageError("cannot delete: no object named", hint="arena delete KIND NAME, or arena delete -f FILE")
    client = Client.of(state_directory(state))
    for resource, where, wanted in targets:
        client.delete(resource, where, wanted)
        sys.stdout.write(f'{qualified(resource)} "{wanted}" deleted\n')
        sys.stdout.flush()
    if wait:
        for resource, where, wanted in targets:
            _await_removal(client, resource, where, wanted)


def _await_removal(client: Client, kind: ResourceKind, namespace: str, name: str) -> None:
    """Return when an object is gone, or when another one has its name."""
    found = client.find(kind, namespace, name)
    while found is not None and "deletionTimestamp" in found["metadata"]:
        for change, event in client.watch(kind, namespace, found["metadata"]["resourceVersion"]):
            if change == "DELETED" and event["metadata"]["uid"] == found["metadata"]["uid"]:
                return
        found = client.find(kind, namespace, name)


def find_kind(word: str, name: str = "") -> tuple[ResourceKind, str]:
    """Return the kind that a word names, and the object's name (`KIND/NAME` holds both).

    Raises:
        UsageError: no such kind; the hint lists all, with their short names.
    """
    spelled, _, inner = word.partition("/")
    wanted = spelled.lower()
    for kind in KINDS.values():
        if wanted in {kind.plural, kind.singular, qualified(kind), *kind.short_names}:
            return kind, name or inner
    raise UsageError(f"cannot find kind '{spelled}'", hint=f"the kinds are {', '.join(map(_spelling, KINDS.values()))}")


def _spelling(kind: ResourceKind) -> str:
    return f"{kind.plural} ({', '.join(kind.short_names)})" if kind.short_names else kind.plural


def _kind_of(document: dict[str, Any], source: str) -> ResourceKind:
    kind = KINDS.get(str(document.get("kind")))
    if kind is None or kind.api_version != document.get("apiVersion"):
        raise UsageError(f"{source}: cannot apply {document.get('kind')} of {document.get('apiVersion')}: no such kind here")
    if not isinstance(document.get("metadata"), dict) or not document["metadata"].get("name"):
        raise UsageError(f"{source}: cannot apply {kind}: it has no metadata.name")
    return kind


def _documents(texts: Iterable[tuple[str, str]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every object of the texts, each of which comes with its name, with where it stands; a List yields its items."""
    for source, text in texts:
        try:
            documents = list(yaml.safe_load_all(text))
        except yaml.YAMLError as error:
            raise UsageError(f"cannot read '{source}': {error}") from error
        for document in documents:
            if isinstance(document, dict) and str(document.get("kind", "")).endswith("List") and isinstance(document.get("items"), list):
                yield from ((source, item) for item in document["items"])
            elif isinstance(document, dict):
                yield source, document
            elif document is not None:
                raise UsageError(f"cannot read '{source}': a document is not an object")


def _kustomized(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield what kustomize makes of a folder, by whichever of the two programs that hold it is there."""
    program = next((words for words in (["kubectl", "kustomize"], ["kustomize", "build"]) if shutil.which(words[0])), None)
    if program is None:
        raise UsageError(f"cannot build '{folder}': neither kubectl nor kustomize is there", hint="install one of them, or name files with -f")
    built = subprocess.run([*program, str(folder)], capture_output=True, text=True, check=False, timeout=_BUILD_S)  # noqa: S603 - one of two programs, and a folder
    if built.returncode:
        raise UsageError(f"cannot build '{folder}': {built.stderr.strip().removeprefix('error: ')}")
    yield str(folder), built.stdout


def _texts(path: Path) -> Iterator[tuple[str, str]]:
    if str(path) == "-":
        yield "standard input", sys.stdin.read()
        return
    try:
        files = sorted(file for file in path.iterdir() if file.suffix in {".yaml", ".yml", ".json"}) if path.is_dir() else [path]
        for file in files:
            yield str(file), file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read '{error.filename or path}': {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot read '{path}': it is not UTF-8") from error
