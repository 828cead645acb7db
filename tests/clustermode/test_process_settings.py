"""Settings of the processes of a cluster that cannot work: refused before anything is started, by the option's name and with a remedy."""

import subprocess
import sys
from pathlib import Path

import pytest

from arena.cli import EXIT_USAGE, main
from arena.cluster.connection import access_of
from arena.cluster.settings import secret_value, worker_queue_url
from reconcile.errors import Unauthorized
from reconcile.worker_job import SecretValue

SOUND = {
    "ARENA_CONTENT": ".",
    "REDIS_URL": "redis://u:secret-word@queue:6379/0",
    "ARENA_IMAGE": "arena:1",
    "ARENA_GIT_URL": "https://arena.example.com/git",
    "KUBECONFIG": "kubeconfig",
}

KUBECONFIG = """
contexts: [{name: here, context: {cluster: here}}]
clusters: [{name: here, cluster: {server: https://api.example.com}}]
current-context: here
"""

REFUSALS = [
    pytest.param("controller", {"ARENA_CONTENT": "nowhere"}, "--content", id="a content volume that is not mounted"),
    pytest.param("git-server", {"ARENA_CONTENT": "nowhere"}, "--content", id="the same for a git server"),
    pytest.param("controller", {"REDIS_URL": ""}, "REDIS_URL", id="no queue"),
    pytest.param("controller", {"REDIS_URL": "http://u:secret-word@queue"}, "rediss://", id="a queue by http"),
    pytest.param("controller", {"ARENA_WORKER_REDIS_URL": "http://queue"}, "--worker-redis-url", id="workers' queue by http"),
    pytest.param("controller", {"ARENA_WORKER_REDIS_URL": "redis://:secret-word@queue"}, "--worker-redis-url", id="a password for all workers"),
    pytest.param("controller", {"ARENA_QUEUE_SECRET": "just-a-name"}, "--queue-secret", id="a Secret without its key"),
    pytest.param("controller", {"ARENA_IMAGE": ""}, "--image", id="no image of workers"),
    pytest.param("controller", {"ARENA_GIT_URL": ""}, "--git-url", id="no address of git"),
    pytest.param("controller", {"ARENA_GIT_URL": "git@arena.example.com:git"}, "--git-url", id="an address of git by ssh"),
    pytest.param("controller", {"ARENA_GIT_URL": "https://me:secret-word@arena.example.com"}, "--git-url", id="an address with a password"),
    pytest.param("controller", {"ARENA_INSTALLATION": "My Arena"}, "--installation", id="an installation that no object could be named for"),
    pytest.param("controller", {"ARENA_ALLOW_NETWORK": "10.0.0.1/8"}, "10.0.0.1/8", id="a network with bits beyond its mask"),
    pytest.param("controller", {"ARENA_WEBHOOK_CERTIFICATE": "nowhere"}, "--webhook-certificate", id="a certificate that is not mounted"),
    pytest.param("controller", {"ARENA_WEBHOOK_PORT": "-1"}, "--webhook-port", id="a port that is none"),
    pytest.param("controller", {"KUBECONFIG": "nowhere"}, "--kubeconfig", id="a kubeconfig that is not there"),
    pytest.param("controller", {"KUBECONFIG": "empty"}, "kubeconfig 'empty'", id="a kubeconfig that is none"),
    pytest.param("git-server", {"ARENA_CONTEXT": "elsewhere"}, "elsewhere", id="a context that the kubeconfig has not"),
    pytest.param("git-server", {"KUBECONFIG": ""}, "--kubeconfig", id="neither a pod nor a kubeconfig"),
]


@pytest.mark.parametrize(("command", "variables", "named"), REFUSALS)
def test_what_is_refused(
    command: str, variables: dict[str, str], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A setting that cannot work ends the command at once, exit code 2, and no secret is shown."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    (tmp_path / "empty").touch()
    for name, value in {**SOUND, **variables, "KUBERNETES_SERVICE_HOST": ""}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        main([command])
    said = capsys.readouterr().err
    assert ended.value.code == EXIT_USAGE
    assert named in said
    assert "hint: " in said
    assert "secret-word" not in said


def test_the_queue_as_workers_reach_it() -> None:
    """Where an operator names no other, workers reach the queue where we do, without our credentials."""
    assert worker_queue_url("", "rediss://user:word@queue:6379/0") == "rediss://queue:6379/0"
    assert worker_queue_url("redis://elsewhere:1/0", "rediss://user:word@queue:6379/0") == "redis://elsewhere:1/0"


def test_a_secret_and_its_key() -> None:
    """NAME/KEY names a Secret's key; nothing names none."""
    assert secret_value("arena-queue/url") == SecretValue("arena-queue", "url")
    assert secret_value("") is None


async def test_a_pod_without_its_token() -> None:
    """In a pod the service account is used; that its token is missing is told by the store, later, since a token may still be mounted."""
    access = access_of("", "", {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"})
    with pytest.raises(Unauthorized, match="service account"):
        await access()


def test_local_mode_knows_no_cluster() -> None:
    """`arena up` starts without the client of API servers: neither its time nor its memory pays for cluster mode."""
    script = (
        "import sys, arena.wiring, arena.cli.server; print([name for name in sys.modules if name.split('.')[0] == 'kubernetes' or '.kube' in name])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['arena.local.kube_api']"
