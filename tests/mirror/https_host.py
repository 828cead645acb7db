"""A real git host on loopback: nginx, fcgiwrap and git http-backend behind TLS of a private CA, with switches for failures.

Owns how the host is started and ended, and where its repositories lie. What nginx cannot do does `misbehaving_host`. Blocking; one host serves many
tests, each with repositories of its own.
"""

import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import trustme

from tests.ports import free_ports

NAMES = ("localhost", "127.0.0.1", "::1", "git.example.test", "*.git.example.test")
STATUSES = (401, 403, 404, 429, 500, 502, 503)
RETRY_AFTER_S = 120
PRIVATE = "private"
SLOW_BYTES_S = 200
DEADLINE_S = 20.0
_BACKEND = "/usr/lib/git-core/git-http-backend"

_NGINX = """
{user}
worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log warn;
events {{ worker_connections 512; }}
http {{
  access_log {folder}/access.log; client_max_body_size 0; keepalive_requests 100000; server_tokens off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port} ssl; ssl_certificate {folder}/host.pem; ssl_certificate_key {folder}/host.pem;
    location ~ ^/moved/(?<rest>.*)$ {{ return 301 https://$http_host/$rest$is_args$args; }}
    location ~ ^/hops/1/(?<rest>.*)$ {{ return 302 /$rest$is_args$args; }}
    location ~ ^/hops/2/(?<rest>.*)$ {{ return 307 /hops/1/$rest$is_args$args; }}
    location ~ ^/hops/3/(?<rest>.*)$ {{ return 308 /hops/2/$rest$is_args$args; }}
    location ~ ^/hops/4/(?<rest>.*)$ {{ return 301 /hops/3/$rest$is_args$args; }}
    location ^~ /loop/ {{ return 302 $request_uri; }}
    location ~ ^/away/(?<rest>.*)$ {{ return 302 https://other.git.example.test:{port}/$rest$is_args$args; }}
    location ~ ^/plain/(?<rest>.*)$ {{ return 302 http://$http_host/$rest$is_args$args; }}
    location ~ ^/other-port/(?<rest>.*)$ {{ return 302 https://$host:1/$rest$is_args$args; }}
    location ~ ^/elsewhere/ {{ return 302 https://$http_host/login; }}
    location = /last {{ return 204; }}
    location = /login {{ default_type text/html; return 200 "<html>sign in</html>"; }}
    location ~ ^/(?<repo>[a-z0-9/_-]+)\\.git(?<inner>/.*)$ {{
      {switches}
      set $realm off;
      if ($repo ~ ^{private}/) {{ set $realm git; }}
      auth_basic $realm; auth_basic_user_file {folder}/users;
      if (-f {folder}/switch/$repo.slow) {{ set $limit_rate {slow}; }}
      fastcgi_pass unix:{folder}/fcgi.sock; fastcgi_buffering off; fastcgi_request_buffering off; fastcgi_read_timeout 600s;
      fastcgi_param REQUEST_METHOD $request_method; fastcgi_param QUERY_STRING $query_string;
      fastcgi_param CONTENT_TYPE $content_type; fastcgi_param CONTENT_LENGTH $content_length;
      fastcgi_param HTTP_CONTENT_ENCODING $http_content_encoding; fastcgi_param GIT_PROTOCOL $http_git_protocol;
      fastcgi_param REMOTE_USER $remote_user; fastcgi_param PATH_INFO /$repo.git$inner;
      fastcgi_param SCRIPT_FILENAME {backend}; fastcgi_param GIT_PROJECT_ROOT {folder}/repositories; fastcgi_param GIT_HTTP_EXPORT_ALL 1;
      fastcgi_param GIT_CONFIG_COUNT 2; fastcgi_param GIT_CONFIG_KEY_0 safe.directory; fastcgi_param GIT_CONFIG_VALUE_0 "*";
      fastcgi_param GIT_CONFIG_KEY_1 uploadpack.allowAnySHA1InWant; fastcgi_param GIT_CONFIG_VALUE_1 true;
    }}
  }}
}}
"""


def is_installed() -> bool:
    """Say whether the machine has nginx, fcgiwrap and git http-backend."""
    return all(shutil.which(name, path=_path()) for name in ("nginx", "fcgiwrap")) and Path(_BACKEND).is_file()


def git(*words: str | bytes, cwd: Path | None = None, stdin: bytes = b"") -> str:
    """Run git without anybody's configuration and return what it prints, without the last newline."""
    environment = {
        "PATH": _path(),
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C",
        **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "Test"), ("EMAIL", "test@localhost"))},
    }
    done = subprocess.run(["git", *words], cwd=cwd, input=stdin, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")


class Upstream:
    """One bare repository of the host, and what a team does with it."""

    def __init__(self, path: Path, url: str, name: str) -> None:
        self.path = path
        self.url = url
        self.name = name
        self._made = 0

    def git(self, *words: str | bytes, stdin: bytes = b"") -> str:
        """Run git in the repository."""
        return git("--git-dir", str(self.path), *words, stdin=stdin)

    def commit(self, branch: str = "main", files: Mapping[str, bytes] | None = None, *, parent: str | None = "") -> str:
        """Put a commit on a branch and return it. `parent`: "" the branch's tip if it has one, None a root, or a commit (which forces the branch)."""
        self._made += 1
        ref = f"refs/heads/{branch}"
        if parent == "":
            parent = self.tip(ref)
        lines = [f"commit {ref}", f"committer Test <test@localhost> {1_700_000_000 + self._made} +0000", "data <<END", f"commit {self._made}", "END"]
        lines += [f"from {parent}"] if parent else []
        stream = bytearray("\n".join([*(["reset " + ref] if not parent else []), *lines]).encode() + b"\n")
        for path, content in (files or {"a.txt": b"%d\n" % self._made}).items():
            stream += b"M 100644 inline %b\ndata %d\n%b\n" % (path.encode(), len(content), content)
        self.git("fast-import", "--quiet", "--force", stdin=bytes(stream) + b"\n")
        tip = self.tip(ref)
        assert tip is not None
        return tip

    def tip(self, ref: str) -> str | None:
        """Return what a full ref names; None when there is none."""
        return self.git("for-each-ref", "--format=%(objectname)", ref) or None

    def set_ref(self, ref: str, commit: str) -> None:
        """Point a ref at an object, whatever it was."""
        self.git("update-ref", ref, commit)

    def delete_ref(self, ref: str) -> None:
        """Remove a ref."""
        self.git("update-ref", "-d", ref)

    def set_head(self, branch: str) -> None:
        """Make another branch the default one."""
        self.git("symbolic-ref", "HEAD", f"refs/heads/{branch}")

    def refs(self) -> dict[str, str]:
        """Return all refs by full name."""
        lines = self.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        return {name: target for name, _, target in (line.partition(" ") for line in lines)}


class HttpsHost:
    """The running host."""

    def __init__(self, folder: Path, slow_bytes_s: int = SLOW_BYTES_S) -> None:
        """`folder` must be short enough for a unix socket; `slow_bytes_s` is what a repository that is switched to `slow` sends."""
        self.folder = folder
        self._slow_bytes_s = slow_bytes_s
        self.authority = trustme.CA()
        (self.port,) = free_ports(1)
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def ca_certificates(self) -> str:
        """The certificate of the host's authority, in PEM."""
        return self.authority.cert_pem.bytes().decode("ascii")

    def url(self, name: str, *, host: str = "localhost", prefix: str = "") -> str:
        """Return the URL of a repository. `prefix`: moved/, hops/N/, loop/, away/, plain/, other-port/, elsewhere/: see the locations of nginx."""
        return f"https://{host}:{self.port}/{prefix}{name}.git"

    def create(self, name: str, *, object_format: str = "sha1", branch: str = "main") -> Upstream:
        """Make an empty repository; one under `private/` asks for a user of `users`."""
        path = self.folder / "repositories" / f"{name}.git"
        path.parent.mkdir(parents=True, exist_ok=True)
        git("init", "-q", "--bare", f"--initial-branch={branch}", f"--object-format={object_format}", str(path))
        (path / "description").unlink(missing_ok=True)
        return Upstream(path, self.url(name), name)

    def users(self, **passwords: str) -> None:
        """Say who may read what is private; takes effect at the next request."""
        scratch = self.folder / "users.new"
        scratch.write_text("".join(f"{name.replace('_', '-')}:{{PLAIN}}{password}\n" for name, password in passwords.items()), encoding="utf-8")
        scratch.rename(self.folder / "users")

    @contextlib.contextmanager
    def answering(self, name: str, switch: int | str) -> Iterator[None]:
        """Answer every request for a repository with one of `STATUSES` (429 and 503 with Retry-After), or be `slow`, within the block."""
        path = self.folder / "switch" / f"{name}.{switch}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        try:
            yield
        finally:
            path.unlink()

    def requests(self, name: str) -> list[str]:
        """Return nginx's log lines about a repository: of all requests that have their answers.

        A line is written after its answer is; the one process of nginx has written those of earlier answers when it answers once more.
        """
        with self._connected() as connection:
            connection.sendall(b"GET /last HTTP/1.0\r\n\r\n")
            assert b" 204 " in connection.recv(1024)
        return [line for line in (self.folder / "access.log").read_text(encoding="utf-8").splitlines() if f"/{name}.git" in line]

    def start(self) -> None:
        """Start nginx and fcgiwrap, and wait until a TLS connection comes about."""
        for inner in ("repositories", "switch"):
            (self.folder / inner).mkdir(parents=True)
        self.users(reader="secret")
        self.authority.issue_cert(*NAMES).private_key_and_cert_chain_pem.write_to_path(str(self.folder / "host.pem"))
        (self.folder / "nginx.conf").write_text(self._configuration(), encoding="utf-8")
        environment = {"PATH": _path(), "HOME": "/nonexistent", "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1"}
        for words in (
            ["fcgiwrap", "-c", "4", "-s", f"unix:{self.folder}/fcgi.sock"],
            ["nginx", "-p", str(self.folder), "-c", str(self.folder / "nginx.conf"), "-e", str(self.folder / "error.log")],
        ):
            with (self.folder / f"{words[0]}.log").open("wb") as log:
                self._processes.append(
                    subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
                )
        self._await()

    def stop(self) -> None:
        """End both, with the children of fcgiwrap, which outlive their parent's SIGTERM."""
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in self._processes:
            process.wait(DEADLINE_S)

    def _configuration(self) -> str:
        retry = {429: f"add_header Retry-After {RETRY_AFTER_S} always;", 503: f"add_header Retry-After {RETRY_AFTER_S} always;"}
        switches = [f"if (-f {self.folder}/switch/$repo.{status}) {{ {retry.get(status, '')} return {status}; }}" for status in STATUSES]
        user = "user root;" if os.geteuid() == 0 else ""
        return _NGINX.format(
            user=user,
            folder=self.folder,
            port=self.port,
            backend=_BACKEND,
            private=PRIVATE,
            slow=self._slow_bytes_s,
            switches="\n      ".join(switches),
        )

    @contextlib.contextmanager
    def _connected(self) -> Iterator[ssl.SSLSocket]:
        context = ssl.create_default_context(cadata=self.ca_certificates)
        with (
            socket.create_connection(("127.0.0.1", self.port), DEADLINE_S) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as connection,
        ):
            yield connection

    def _await(self) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                with self._connected():
                    if (self.folder / "fcgi.sock").exists():
                        return
            except OSError:
                pass
            ended = [process.args for process in self._processes if process.poll() is not None]
            assert not ended, f"{ended}: {(self.folder / 'nginx.log').read_text()}"
            assert time.monotonic() < deadline, "the host does not answer"
            time.sleep(0.01)


@contextlib.contextmanager
def https_host(folder: Path, slow_bytes_s: int = SLOW_BYTES_S) -> Iterator[HttpsHost]:
    """Run a host within the block."""
    host = HttpsHost(folder, slow_bytes_s)
    try:
        host.start()
        yield host
    finally:
        host.stop()


def _path() -> str:
    return os.pathsep.join(dict.fromkeys([*os.environ["PATH"].split(os.pathsep), "/usr/sbin", "/usr/bin", "/bin"]))
