"""Two git servers under trial, each in a cgroup of its own: ours as the product runs it, and nginx with fcgiwrap and git http-backend.

Owns how they are started, accounted for and ended, and the settings of git that both share. `python -m bench.git_servers ROOT` is ours in a process of
its own. Linux only.
"""

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

import structlog
import uvicorn
import uvloop

from arena.http_protocol import BoundedProtocol
from foundation.clock import SystemClock
from gitops.content import ContentVolume, ProjectKey
from gitops.repositories import Repositories
from gitops.smart_http import Access, SmartHTTP
from hooks.web_server import server_config

NAMESPACE = "bench"
WAIT_S = 60.0
BACKEND = "/usr/lib/git-core/git-http-backend"
SETTINGS = {
    "receive.fsckObjects": "true",
    "receive.unpackLimit": "1",
    "receive.autogc": "false",
    "receive.denyNonFastForwards": "true",
    "receive.denyDeletes": "true",
    "http.receivepack": "true",
    "uploadpack.allowFilter": "true",
    "core.fsync": "all",
    "pack.threads": "1",
    "index.threads": "1",
    "gc.auto": "0",
}
"""What our server gives each git process, for the peer's to read in the configuration of its repositories."""


class ServerFailed(Exception):
    """What was to be measured did not work; the message says what."""


def git(*words: str, stdin: bytes = b"") -> str:
    """Run git without anybody's configuration and return what it prints."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    done = subprocess.run(["git", *words], input=stdin, env=environment, capture_output=True, check=False)
    if done.returncode != 0:
        raise ServerFailed(f"git {' '.join(words[:6])}: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout.decode()


class Account:
    """A cgroup: who is in it, and how much CPU they and all that ended in it have used."""

    def __init__(self) -> None:
        self._folder, self._kind = _make_cgroup()

    def __str__(self) -> str:
        """Return which kind it is."""
        return f"cgroup {self._kind}"

    def within(self, words: Sequence[str]) -> list[str]:
        """Return the command that runs `words` in the cgroup."""
        return ["sh", "-c", f'echo $$ >"{self._folder}/cgroup.procs" && exec "$@"', "sh", *words]

    def members(self) -> dict[int, str]:
        """Return the names of the processes in it; a zombie is none, its time is counted."""
        return {int(line): name for line in (self._folder / "cgroup.procs").read_text().split() if (name := _name_of(int(line)))}

    def cpu_s(self) -> float:
        """Return the CPU seconds used so far."""
        if self._kind == "v1":
            return int((self._folder / "cpuacct.usage").read_text()) / 1e9
        words = (self._folder / "cpu.stat").read_text().split()
        return int(words[words.index("usage_usec") + 1]) / 1e6

    def close(self) -> None:
        """End all who are in it, and remove it."""
        deadline = time.monotonic() + WAIT_S
        while (members := self.members()) and time.monotonic() < deadline:
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        with contextlib.suppress(OSError):
            self._folder.rmdir()


def _name_of(pid: int) -> str:
    try:
        head, _, tail = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")
    except OSError:
        return ""
    return "" if tail.startswith("Z") else head.partition("(")[2]


def _make_cgroup() -> tuple[Path, str]:
    root = Path("/sys/fs/cgroup")
    own = next((line.rpartition("::")[2] for line in Path("/proc/self/cgroup").read_text().split() if line.startswith("0::")), "/").lstrip("/")
    for parent, kind in ((root / own, "v2"), (root, "v2"), (root / "unified", "v2"), (root / "cpuacct", "v1")):
        folder = parent / f"arena-bench-{secrets.token_hex(4)}"
        if not (parent / "cgroup.procs").exists():
            continue
        with contextlib.suppress(OSError):
            folder.mkdir()
            if (folder / ("cpu.stat" if kind == "v2" else "cpuacct.usage")).exists():
                return folder, kind
            folder.rmdir()
    raise ServerFailed("cannot make a cgroup to measure the servers' CPU in: run as root, or in `systemd-run --user --scope -p Delegate=yes`")


class Server:
    """A server under trial. A context manager."""

    name: ClassVar[str]
    residents: ClassVar[tuple[str, ...]]
    """How the names of the processes begin that stay between requests."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / self.name
        self.root.mkdir()
        self.account = Account()
        self.port = 0

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.account.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.account.close()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        raise NotImplementedError

    def repository(self, name: str) -> Path:
        """Return where a repository of the name lies."""
        raise NotImplementedError

    def create(self, name: str) -> None:
        """Make a repository, empty, instead of one that is there."""
        path = self.repository(name)
        shutil.rmtree(path, ignore_errors=True)
        git("init", "-q", "--bare", "--template=", "-b", "main", str(path))
        for key, value in SETTINGS.items():
            git("-C", str(path), "config", key, value)

    def url(self, name: str) -> str:
        """Return the clone URL."""
        return f"http://127.0.0.1:{self.port}/git/{NAMESPACE}/{name}.git"

    def cpu_s(self) -> float:
        """Return the CPU seconds that it and all its processes have used."""
        return self.account.cpu_s()

    def rest(self) -> None:
        """Wait until only the processes are left that stay between requests."""
        deadline = time.monotonic() + WAIT_S
        while not all(name.startswith(self.residents) for name in self.account.members().values()):
            if time.monotonic() > deadline:
                raise ServerFailed(f"{self.name}: processes do not end")
            time.sleep(0.005)


class Product(Server):
    """Ours: the ASGI application under uvicorn, uvloop and the connection class of `arena up`."""

    name = "ours"
    residents = ("python",)

    def start(self) -> None:
        """Start it, and wait until it prints its port."""
        words = self.account.within([sys.executable, "-m", "bench.git_servers", str(self.root)])
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        if process.stdout is None or not (line := process.stdout.readline()):
            raise ServerFailed("our server did not start")
        self.port = int(line)
        self._pid = process.pid

    def repository(self, name: str) -> Path:
        """Return where the content volume has it."""
        return ContentVolume(self.root).repository(ProjectKey(NAMESPACE, name))

    def peak_mib(self) -> float:
        """Return the largest resident size of the server process so far."""
        return int(Path(f"/proc/{self._pid}/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024


class Peer(Server):
    """nginx, fcgiwrap with eight workers, git http-backend."""

    name = "nginx"
    residents = ("nginx", "fcgiwrap")

    def start(self) -> None:
        """Start both, and wait until nginx listens."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        (self.root / "nginx.conf").write_text(self._configuration())
        log = (self.root / "log").open("ab")
        with log:
            wrap = ["fcgiwrap", "-c", "8", "-s", f"unix:{self.root}/fcgi.sock"]
            environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
            for words in (wrap, ["nginx", "-e", str(self.root / "error.log"), "-p", str(self.root), "-c", str(self.root / "nginx.conf")]):
                subprocess.Popen(self.account.within(words), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        deadline = time.monotonic() + WAIT_S
        while not (self._listens() and (self.root / "fcgi.sock").exists()):
            if time.monotonic() > deadline:
                raise ServerFailed(f"nginx does not listen: {(self.root / 'log').read_text()[-500:]}")
            time.sleep(0.02)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def repository(self, name: str) -> Path:
        """Return where git http-backend looks for it."""
        return self.root / "repositories" / NAMESPACE / f"{name}.git"

    def _configuration(self) -> str:
        user = "user root;" if os.geteuid() == 0 else ""
        temporary = "".join(f"{kind}_temp_path {self.root}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        return f"""daemon off; {user} worker_processes auto; pid {self.root}/nginx.pid; error_log {self.root}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; client_max_body_size 0; {temporary}
  server {{
    listen 127.0.0.1:{self.port};
    location ~ ^/git(/.*)$ {{
      fastcgi_pass unix:{self.root}/fcgi.sock;
      fastcgi_read_timeout 600; fastcgi_send_timeout 600; fastcgi_request_buffering off; fastcgi_max_temp_file_size 0;
      fastcgi_param SCRIPT_FILENAME {BACKEND};
      fastcgi_param GIT_PROJECT_ROOT {self.root}/repositories;
      fastcgi_param GIT_HTTP_EXPORT_ALL 1;
      fastcgi_param GIT_PROTOCOL $http_git_protocol;
      fastcgi_param PATH_INFO $1;
      fastcgi_param REQUEST_METHOD $request_method;
      fastcgi_param QUERY_STRING $query_string;
      fastcgi_param CONTENT_TYPE $content_type;
      fastcgi_param CONTENT_LENGTH $content_length;
    }}
  }}
}}
"""


async def _authorize(headers: Mapping[str, str], namespace: str, project: str, *, write: bool, source: str) -> Access:
    del headers, write, source
    return Access(ProjectKey(namespace, project))


async def _changed(project: ProjectKey) -> None:
    del project


def main(root: str) -> None:
    """Serve until killed; prints the port."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    application = SmartHTTP(Repositories(ContentVolume(Path(root)), SystemClock()), authorize=_authorize, on_change=_changed)
    config = server_config(application, BoundedProtocol)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(512)
    print(listener.getsockname()[1], flush=True)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    main(*sys.argv[1:])
