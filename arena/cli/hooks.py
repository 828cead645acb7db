"""`arena hooks test`: a signed sample of a git host's delivery, sent to the running server.

Reads the project and its secret through the API, as the installation's owner may, and never shows the secret.
"""

import http.client
import json
import sys
import urllib.parse
from typing import Annotated, Any

import typer

from arena.cli.client import Client
from arena.cli.options import DEFAULT_STATE, Namespace, State, of_namespace, state_directory
from arena.cli.screen import printable
from arena.errors import ServerUnreachable, UsageError
from reconcile.cluster.port import ARENA_PROJECT, SECRET

TIMEOUT_S = 20.0


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    group = typer.Typer(help="Webhooks of git hosts.")
    group.callback()(_hooks)
    group.command("test")(send_sample)
    app.add_typer(group, name="hooks")


def _hooks() -> None:
    """Webhooks of git hosts."""


def send_sample(
    project: Annotated[str, typer.Argument(help="Name of the ArenaProject.", metavar="PROJECT")],
    *,
    namespace: Namespace = "default",
    state: State = DEFAULT_STATE,
) -> None:
    """Send a project the webhook that its git host would send for a push, signed with the project's secret, and say what came back.

    The delivery asks for a fetch like a real one. It goes to the server itself, so it says nothing about a proxy or firewall before it.
    """
    client = Client.of(state_directory(state))
    host, path, headers, body = _sample(client, namespace, project)
    sys.stderr.write(f"POST {client.url}{path}\n")
    status, answer = _post(client.url, path, headers, body)
    if status != http.HTTPStatus.ACCEPTED:
        cause = str(answer.get("error") or answer.get("message") or "it says no more")
        raise UsageError(f"cannot deliver to project '{project}': the server answered {status}: {cause}", hint=str(answer.get("hint") or ""))
    requested = answer["requested"][0]
    sys.stdout.write(f"{status} accepted: {host} asked project {project} for a fetch, {requested['sync']}\n")
    if requested["suspended"]:
        sys.stdout.write(f"{printable(str(answer.get('message')))}\n")
    sys.stderr.write(f"  arena describe ap {project}{of_namespace(namespace)}\n")


def _sample(client: Client, namespace: str, project: str) -> tuple[str, str, dict[str, str], bytes]:
    """Return the host's name, the path, the headers and the body of the project's sample.

    Raises:
        UsageError: the project takes no webhooks, or has no secret.
    """
    from foundation.clock import SystemClock  # noqa: PLC0415 - what follows costs a tenth of a second that other commands need not pay
    from hooks.hosts import HOSTS  # noqa: PLC0415
    from hooks.intake import JSON  # noqa: PLC0415
    from hooks.subscriptions import SecretUnusable, secret_value  # noqa: PLC0415

    external = client.get(ARENA_PROJECT, namespace, project)["spec"].get("external") or {}
    webhook = external.get("webhook")
    if webhook is None:
        raise UsageError(
            f"cannot test the webhook of project '{project}': it has none", hint="set spec.external.webhook: {host: …, secretRef: {name: …, key: …}}"
        )
    host, reference = HOSTS[webhook["host"]], webhook["secretRef"]
    try:
        secret = secret_value(client.find(SECRET, namespace, reference["name"]), reference["name"], reference["key"])
    except SecretUnusable as error:
        raise UsageError(f"cannot test the webhook of project '{project}': {error}") from error
    sample = host.sample(external["url"])
    body = json.dumps(sample.payload).encode()
    headers = {**sample.headers, **host.sign(secret, body, SystemClock().now()), "Content-Type": JSON, "Connection": "close"}
    return host.name, f"/hooks/{host.name}/{namespace}/{project}", headers, body


def _post(url: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, Any]]:
    address = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=TIMEOUT_S)
    try:
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
    except (OSError, http.client.HTTPException) as error:
        raise ServerUnreachable(f"cannot reach the server at {url}: {str(error).lower()}", hint="start it with `arena up`") from error
    except ValueError as error:  # not the error's own text, which may hold the header
        raise UsageError("cannot send the sample: the secret cannot stand in a header", hint="choose one of printable characters") from error
    finally:
        connection.close()
    return response.status, answer if isinstance(answer, dict) else {}
