"""What an operator may choose of the processes of a cluster, as values that have been checked.

Options and variables are the command line's; a value that cannot work is refused here, by the option's name and with its remedy.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from arena.errors import UsageError
from engine.permissions import NO_GRANTS, Grants
from engine.providers.prices import Price
from engine.queue.urls import without_credentials
from foundation.addresses import Network
from reconcile.worker_job import SecretValue

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_SECRET = re.compile(r"(?P<name>[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)/(?P<key>[A-Za-z0-9._-]{1,253})")
_QUEUES = ("redis", "rediss", "unix")


@dataclass(frozen=True, slots=True)
class Replica:
    """What every process of an installation is told. `host` "" is every interface."""

    content: Path
    host: str
    probe_port: int


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where the admission webhook listens, and for whom its certificate is: a Service, or whatever the mounted one says."""

    port: int
    service: str
    certificate: Path | None


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """What a controller is told. `webhook` None: API servers ask nobody. `max_workers` None: a run gets all that it asks for.

    `namespace` is the one that its pod is in.
    `redis_url` holds our own password: it is never logged and never written anywhere. Workers reach the queue by `worker_redis_url`, each run's as a
    user of its own; where the queue's server makes none, by what the Secret `queue_secret` of the run's namespace says.
    """

    replica: Replica
    installation: str
    namespace: str
    redis_url: str
    worker_redis_url: str
    queue_secret: SecretValue | None
    claim: str
    image: str
    git_url: str
    max_workers: int | None = None
    allowed_networks: tuple[Network, ...] = ()
    grants: Grants = NO_GRANTS
    prices: Mapping[str, Price] = field(default_factory=dict)
    webhook: Webhook | None = None


@dataclass(frozen=True, slots=True)
class GitServerSettings:
    """What a git server is told."""

    replica: Replica
    port: int
    token_file: Path | None = None


def installation_name(text: str) -> str:
    """Return the name of an installation, which begins the names of its keys and objects.

    Raises:
        UsageError: no object could have it.
    """
    if _LABEL.fullmatch(text) is None:
        raise UsageError(
            f"cannot use installation '{text}': it is not a DNS label of at most 40 characters",
            hint="set --installation (ARENA_INSTALLATION) to a name of a-z, 0-9 and '-', such as arena",
        )
    return text


def content_folder(path: Path) -> Path:
    """Return the root of the content volume.

    Raises:
        UsageError: nothing is mounted there.
    """
    if not path.is_dir():
        raise UsageError(
            f"cannot use content volume '{path}': there is no such directory",
            hint="mount the shared volume there, or name its mount point with --content (ARENA_CONTENT)",
        )
    return path


def queue_url(text: str) -> str:
    """Return the queue's URL. No message shows it: it may hold a password.

    Raises:
        UsageError: there is none, or it is none of a queue.
    """
    if not text:
        raise UsageError("cannot start without a queue: --redis-url (REDIS_URL) is not set", hint="set REDIS_URL from a Secret of the namespace")
    if _scheme(text) not in _QUEUES:
        raise UsageError(
            "cannot use --redis-url (REDIS_URL): it does not begin with redis://, rediss:// or unix://",
            hint="write it as rediss://USER:PASSWORD@HOST:PORT/0",
        )
    return text


def worker_queue_url(text: str, own: str) -> str:
    """Return the queue's URL as workers reach it, without a credential: that of `own` where none is named.

    Raises:
        UsageError: it is no URL of a queue, or holds a credential.
    """
    if not text:
        return without_credentials(own)
    if _scheme(text) not in _QUEUES:
        raise UsageError(
            "cannot use --worker-redis-url (ARENA_WORKER_REDIS_URL): it does not begin with redis://, rediss:// or unix://",
            hint="write it as rediss://HOST:PORT/0",
        )
    if without_credentials(text) != text:
        raise UsageError(
            "cannot use --worker-redis-url (ARENA_WORKER_REDIS_URL): it holds a user or a password, and each run gets its own",
            hint="write it as rediss://HOST:PORT/0",
        )
    return text


def secret_value(text: str) -> SecretValue | None:
    """Return the Secret and the key that NAME/KEY names; None for "".

    Raises:
        UsageError: it names none.
    """
    if not text:
        return None
    found = _SECRET.fullmatch(text)
    if found is None:
        raise UsageError(
            f"cannot use queue Secret '{text}': it is not NAME/KEY",
            hint="set --queue-secret (ARENA_QUEUE_SECRET) to NAME/KEY, such as arena-queue/url",
        )
    return SecretValue(found["name"], found["key"])


def worker_image(text: str) -> str:
    """Return the image of worker pods.

    Raises:
        UsageError: there is none.
    """
    if not text:
        raise UsageError(
            "cannot start without an image of workers: --image (ARENA_IMAGE) is not set", hint="name the image that this process runs from"
        )
    return text


def git_url(text: str) -> str:
    """Return the address that clone URLs begin with, without a slash at its end.

    Raises:
        UsageError: it is no address of a web server.
    """
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and not (parts.query or parts.fragment or parts.username)
    except ValueError:
        usable = False
    if not usable:
        cause = "it is not an http or https address without user, query and fragment" if text else "it is not set"
        raise UsageError(
            f"cannot use --git-url (ARENA_GIT_URL): {cause}",
            hint="set it to where git clients reach the git server, such as https://arena.example.com/git",
        )
    return text.rstrip("/")


def certificate_folder(path: Path | None) -> Path | None:
    """Return where the webhook's certificate is mounted; None: it is self-made.

    Raises:
        UsageError: nothing is mounted there.
    """
    if path is not None and not path.is_dir():
        raise UsageError(
            f"cannot use certificate folder '{path}': there is no such directory",
            hint="mount the Secret with tls.crt and tls.key there, or leave --webhook-certificate (ARENA_WEBHOOK_CERTIFICATE) out",
        )
    return path


def _scheme(url: str) -> str:
    return url.partition("://")[0]
