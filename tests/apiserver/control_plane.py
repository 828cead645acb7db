"""A real Kubernetes control plane on 127.0.0.1: etcd, the API server and the controller manager as child processes in a folder.

Owns the processes, their certificates and the kubeconfig. Nothing here knows our kinds. The processes end with this one, even when it is killed.
"""

import json
import os
import shutil
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import trustme
import yaml
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tests.ports import free_ports

ADMIN_TOKEN = "admin-token"
OTHER_TOKEN = "other-token"
_DEADLINE_S = 60.0
_STOP_S = 20.0
_STARTS = 3


class NotReady(Exception):
    """A process did not become ready; the message ends with its last lines."""


@dataclass(frozen=True, slots=True)
class Extras:
    """What a control plane has beyond what most tests need.

    `arguments` go to the API server, `controllers` run beside the usual ones. `service_accounts`: pods get the token of theirs, as in every cluster.
    """

    arguments: tuple[str, ...] = ()
    controllers: tuple[str, ...] = ()
    service_accounts: bool = False


NO_EXTRAS = Extras()


class ControlPlane:
    """One control plane. `start` and `stop` may be repeated, with the same state.

    Whoever holds ADMIN_TOKEN may do everything; the user of OTHER_TOKEN (`other`) may do what RBAC grants.
    """

    def __init__(self, programs: Path, folder: Path, extras: Extras = NO_EXTRAS) -> None:
        self.folder = folder
        self._extras = extras
        self._programs = programs
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._client_port, self._peer_port, self._port = free_ports(3)
        self.url = f"https://127.0.0.1:{self._port}"
        self.ca_file = folder / "ca.pem"
        self.kubeconfig = folder / "kubeconfig"
        self._write_files()

    def start(self) -> None:
        """Start etcd and the API server, and return when it is ready: 3 seconds.

        Raises:
            NotReady: one of them ended or did not answer within a minute.
        """
        self.start_etcd()
        self.start_api_server()

    def start_etcd(self) -> None:
        """Start etcd and wait until it is healthy."""
        client, peer = f"http://127.0.0.1:{self._client_port}", f"http://127.0.0.1:{self._peer_port}"
        self._spawn(
            "etcd",
            *("--data-dir", str(self.folder / "etcd"), "--unsafe-no-fsync", "--log-level", "warn", "--name", "default"),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"),
        )
        self._await("etcd", lambda: _answers(f"{client}/health", None))

    def start_api_server(self) -> None:
        """Start the API server and wait until it is ready."""
        at = self.folder
        self._spawn(
            "kube-apiserver",
            *(f"--etcd-servers=http://127.0.0.1:{self._client_port}", f"--secure-port={self._port}"),
            *("--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--service-cluster-ip-range=10.96.0.0/24"),
            *(f"--tls-cert-file={at / 'server.pem'}", f"--tls-private-key-file={at / 'server.key'}", f"--client-ca-file={at / 'ca.pem'}"),
            *("--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={at / 'sa.pub'}"),
            *(f"--service-account-signing-key-file={at / 'sa.key'}", f"--token-auth-file={at / 'tokens.csv'}"),
            *("--authorization-mode=RBAC", "--endpoint-reconciler-type=none", *self._extras.arguments),
            *(() if self._extras.service_accounts else ("--disable-admission-plugins=ServiceAccount",)),
        )
        self._await("kube-apiserver", lambda: _answers(f"{self.url}/readyz", self.ca_file))

    def start_controllers(self) -> None:
        """Start the controllers of Jobs, garbage and namespaces; kinds whose CRDs come later are collected half a minute later only."""
        names = ["job-controller", "garbage-collector-controller", "namespace-controller", "ttl-after-finished-controller", *self._extras.controllers]
        if self._extras.service_accounts:
            names += ["serviceaccount-controller", "root-ca-certificate-publisher-controller"]
        port = free_ports(1)[0]
        self._spawn(
            "kube-controller-manager",
            *(f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", "--use-service-account-credentials=false"),
            f"--controllers={','.join([*names, 'node-lifecycle-controller', 'taint-eviction-controller'])}",
            *(f"--root-ca-file={self.ca_file}", "--bind-address=127.0.0.1", f"--secure-port={port}"),
        )
        self._await("kube-controller-manager", lambda: _answers(f"https://127.0.0.1:{port}/healthz", None))

    def start_scheduler(self) -> None:
        """Start the scheduler, which gives pods their nodes; without it they wait, and no condition says why."""
        port = free_ports(1)[0]
        self._spawn(
            "kube-scheduler",
            *(f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", "--bind-address=127.0.0.1", f"--secure-port={port}"),
        )
        self._await("kube-scheduler", lambda: _answers(f"https://127.0.0.1:{port}/healthz", None))

    def install(self, *objects: Mapping[str, Any]) -> list[str]:
        """Create cluster-scoped objects, wait until those that are CustomResourceDefinitions are established, and return the server's warnings."""
        warnings: list[str] = []
        for obj in objects:
            with self.ask("POST", _path_of(obj), obj) as answer:
                warnings += answer.headers.get_all("Warning") or []
        for path in (f"{_path_of(obj)}/{obj['metadata']['name']}" for obj in objects if obj["kind"] == "CustomResourceDefinition"):
            self._await("kube-apiserver", partial(self._is_established, path))
        return warnings

    def _is_established(self, path: str) -> bool:
        conditions = self.json(path).get("status", {}).get("conditions") or ()
        return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)

    def json(self, path: str) -> Any:
        """Return what the API server answers to a GET."""
        with self.ask("GET", path) as answer:
            return json.load(answer)

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, **headers: str) -> Any:
        """Send a request as the administrator and return the open response."""
        request = urllib.request.Request(  # noqa: S310 - loopback
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": "application/json", **headers},
        )
        return urllib.request.urlopen(request, timeout=_DEADLINE_S, context=ssl.create_default_context(cafile=self.ca_file))  # noqa: S310

    def kill(self, name: str) -> None:
        """Kill one process, as `kill -9` does."""
        self._end(name, signal.SIGKILL)

    def stop(self) -> None:
        """End all processes, the last one started first."""
        for name in reversed([*self._processes]):
            self._end(name, signal.SIGKILL)

    def kubectl(self, *words: str, text: str = "", deadline_s: float = _DEADLINE_S) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("KUBE")}
        return subprocess.run(
            ["kubectl", "--kubeconfig", str(self.kubeconfig), "--cache-dir", str(self.folder / "kubectl"), *words],
            env=environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=deadline_s,
            check=False,
        )

    def _spawn(self, name: str, *arguments: str) -> None:
        with self._log(name).open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [*_dies_with_us(), str(self._programs / name), *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )

    def _await(self, name: str, is_ready: Callable[[], bool]) -> None:
        end = time.monotonic() + _DEADLINE_S
        while not is_ready():
            if self._processes[name].poll() is not None or time.monotonic() > end:
                raise NotReady(f"{name} is not ready:\n" + "\n".join(self._log(name).read_text(errors="replace").splitlines()[-20:]))
            time.sleep(0.1)

    def _end(self, name: str, how: signal.Signals) -> None:
        process = self._processes.pop(name)
        process.send_signal(how)
        process.wait(_STOP_S)

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _write_files(self) -> None:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self.ca_file))
        server = authority.issue_cert("127.0.0.1", "localhost")
        server.cert_chain_pems[0].write_to_path(str(self.folder / "server.pem"))
        server.private_key_pem.write_to_path(str(self.folder / "server.key"))
        admin = authority.issue_cert("admin@arena.test", common_name="admin", organization_name="system:masters")
        admin.cert_chain_pems[0].write_to_path(str(self.folder / "admin.pem"))
        admin.private_key_pem.write_to_path(str(self.folder / "admin.key"))
        key = ec.generate_private_key(ec.SECP256R1())
        (self.folder / "sa.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
        (self.folder / "sa.pub").write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        (self.folder / "tokens.csv").write_text(f'{ADMIN_TOKEN},admin,1,"system:masters"\n{OTHER_TOKEN},other,2\n')
        self.kubeconfig.write_text(yaml.safe_dump(kubeconfig(self.url, self.ca_file, {"token": ADMIN_TOKEN})))


def kubeconfig(url: str, ca_file: Path, user: dict[str, object]) -> dict[str, object]:
    """Return a kubeconfig of one context."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority": str(ca_file)}}],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }


def started(programs: Path, folder: Path, extras: Extras = NO_EXTRAS) -> ControlPlane:
    """Return a running etcd and API server; a port that somebody took meanwhile costs another try."""
    for attempt in range(_STARTS):
        place = folder / str(attempt)
        place.mkdir()
        plane = ControlPlane(programs, place, extras)
        try:
            plane.start()
        except NotReady:
            plane.stop()
            if attempt + 1 == _STARTS:
                raise
        else:
            return plane
    raise AssertionError("unreachable")


def _path_of(obj: Mapping[str, Any]) -> str:
    group = obj["apiVersion"]
    return f"/{'apis' if '/' in group else 'api'}/{group}/{obj['kind'].lower()}s"


def _dies_with_us() -> Sequence[str]:
    """Return what makes Linux end a process together with the one that started it."""
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "KILL") if setpriv else ()


def _answers(url: str, ca_file: Path | None) -> bool:
    context = ssl.create_default_context(cafile=ca_file) if ca_file else ssl._create_unverified_context()  # noqa: S323 - a self-made certificate
    try:
        with urllib.request.urlopen(url, timeout=5, context=context) as response:  # noqa: S310 - loopback
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError):
        return False
