"""`arena controller` and `arena git-server`: what a Kubernetes cluster runs, each process until it is told to stop."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arena import settings
from arena.cli.options import AllowCode, AllowCodeNetwork, AllowCodeUnconfined, AllowNetwork, grants, network
from arena.cli.selecting import PricesFile, own_prices
from arena.logging import LogLevel, configure_logging
from foundation.crash import arm

if TYPE_CHECKING:
    from arena.cluster.settings import Replica

Content = Annotated[Path, typer.Option("--content", envvar=settings.CONTENT, help="Where the content volume is mounted.")]
Installation = Annotated[str, typer.Option("--installation", envvar=settings.INSTALLATION, help="Name that marks what belongs to this installation.")]
PodNamespace = Annotated[str, typer.Option("--pod-namespace", envvar=settings.POD_NAMESPACE, help="Namespace that this process is in.")]
Host = Annotated[str, typer.Option("--host", envvar=settings.HOST, show_default="every interface", help="Address to listen on.")]
ProbePort = Annotated[int, typer.Option("--probe-port", envvar=settings.PROBE_PORT, min=1, max=65535, help="Port of /healthz and /readyz.")]
Kubeconfig = Annotated[
    str, typer.Option("--kubeconfig", envvar=settings.KUBECONFIG, show_default="the pod's service account", help="How to reach the API server.")
]
Context = Annotated[str, typer.Option("--context", envvar=settings.CONTEXT, show_default="the current one", help="Context of the kubeconfig to use.")]
Level = Annotated[LogLevel, typer.Option("--log-level", envvar=settings.LOG_LEVEL, help="Least severe log lines to write.")]

CONTENT, INSTALLATION, NAMESPACE, PROBE_PORT = Path("/workspace-content"), "arena", "arena-system", 8081


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("controller")(controller)
    app.command("git-server")(git_server)


def controller(  # noqa: PLR0913 - one parameter an option
    *,
    redis_url: Annotated[str, typer.Option("--redis-url", envvar=settings.REDIS_URL, show_default="none", help="Queue server.")] = "",
    worker_redis_url: Annotated[
        str,
        typer.Option(
            "--worker-redis-url",
            envvar=settings.WORKER_REDIS_URL,
            show_default="that of --redis-url",
            help="Queue server as workers reach it, without a credential.",
        ),
    ] = "",
    queue_secret: Annotated[
        str,
        typer.Option(
            "--queue-secret",
            envvar=settings.QUEUE_SECRET,
            metavar="NAME/KEY",
            show_default="none",
            help="Secret, in a run's namespace, that workers read REDIS_URL from where the queue makes no users.",
        ),
    ] = "",
    content_claim: Annotated[
        str,
        typer.Option("--content-claim", envvar=settings.CONTENT_CLAIM, help="PersistentVolumeClaim, in a run's namespace, of the content volume."),
    ] = "arena-content",
    image: Annotated[str, typer.Option("--image", envvar=settings.IMAGE, show_default="none", help="Image of worker pods.")] = "",
    git_url: Annotated[str, typer.Option("--git-url", envvar=settings.GIT_URL, show_default="none", help="What clone URLs begin with.")] = "",
    max_workers: Annotated[
        int | None, typer.Option("--max-workers", envvar=settings.MAX_WORKERS, min=1, show_default="no limit", help="Most workers of one run.")
    ] = None,
    allow_network: AllowNetwork = None,
    allow_code: AllowCode = None,
    allow_code_network: AllowCodeNetwork = None,
    allow_code_unconfined: AllowCodeUnconfined = None,
    prices: PricesFile = None,
    webhook_port: Annotated[
        int, typer.Option("--webhook-port", envvar=settings.WEBHOOK_PORT, min=0, max=65535, help="Port of the admission webhook; 0: none is served.")
    ] = 9443,
    webhook_service: Annotated[
        str, typer.Option("--webhook-service", envvar=settings.WEBHOOK_SERVICE, help="Service that API servers reach the webhook by.")
    ] = "arena-webhook",
    webhook_certificate: Annotated[
        Path | None,
        typer.Option(
            "--webhook-certificate",
            envvar=settings.WEBHOOK_CERTIFICATE,
            show_default="self-made",
            help="Folder with tls.crt, tls.key and ca.crt, as cert-manager's Secret is mounted.",
        ),
    ] = None,
    content: Content = CONTENT,
    installation: Installation = INSTALLATION,
    pod_namespace: PodNamespace = NAMESPACE,
    host: Host = "",
    probe_port: ProbePort = PROBE_PORT,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    log_level: Level = LogLevel.INFO,
) -> None:
    """Reconcile the projects, jobs and runs of a Kubernetes cluster; of several replicas one leads."""
    from arena.cluster import settings as checked  # noqa: PLC0415 - the whole house, only when it is started
    from arena.cluster.connection import access_of  # noqa: PLC0415
    from arena.cluster.controller import ControllerProcess  # noqa: PLC0415

    webhook = checked.Webhook(webhook_port, webhook_service, checked.certificate_folder(webhook_certificate)) if webhook_port else None
    chosen = checked.ControllerSettings(
        _replica(content, host, probe_port),
        installation=checked.installation_name(installation),
        namespace=pod_namespace,
        redis_url=checked.queue_url(redis_url),
        worker_redis_url=checked.worker_queue_url(worker_redis_url, redis_url),
        queue_secret=checked.secret_value(queue_secret),
        claim=content_claim,
        image=checked.worker_image(image),
        git_url=checked.git_url(git_url),
        max_workers=max_workers,
        allowed_networks=tuple(network(text) for text in allow_network or ()),
        grants=grants(allow_code, allow_code_network, allow_code_unconfined, allow_network),
        prices=own_prices(prices),
        webhook=webhook,
    )
    access = access_of(kubeconfig, context, settings.process_environment())
    configure_logging(log_level)  # before anything is made that logs
    _run(ControllerProcess(chosen, access).run())


def git_server(  # noqa: PLR0913 - one parameter an option
    *,
    port: Annotated[int, typer.Option("--port", envvar=settings.PORT, min=1, max=65535, help="Port to listen on.")] = 8080,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", envvar=settings.TOKEN_FILE, show_default="none", help="Tokens beside those of the cluster.")
    ] = None,
    content: Content = CONTENT,
    host: Host = "",
    probe_port: ProbePort = PROBE_PORT,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    log_level: Level = LogLevel.INFO,
) -> None:
    """Serve git clients and take deliveries of git hosts; any number of replicas share one content volume."""
    from arena.cluster import settings as checked  # noqa: PLC0415 - the whole house, only when it is started
    from arena.cluster.connection import access_of  # noqa: PLC0415
    from arena.cluster.git_server import GitServerProcess  # noqa: PLC0415

    chosen = checked.GitServerSettings(_replica(content, host, probe_port), port, token_file)
    access = access_of(kubeconfig, context, settings.process_environment())
    configure_logging(log_level)
    _run(GitServerProcess(chosen, access).run())


def _replica(content: Path, host: str, probe_port: int) -> "Replica":
    from arena.cluster import settings as checked  # noqa: PLC0415

    return checked.Replica(checked.content_folder(content), host, probe_port)


def _run(process: Coroutine[Any, Any, None]) -> None:
    import uvloop  # noqa: PLC0415

    from arena.large_blocks import return_large_blocks  # noqa: PLC0415

    arm(settings.crash_at())
    return_large_blocks()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(process)
