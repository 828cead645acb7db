"""What a new bare repository is: how git makes it, and the configuration that git writes into it.

A repository's own configuration can name programs that git runs (`core.hooksPath`, `core.alternateRefsCommand`, `include.path`): one that came from
elsewhere is replaced, never read for more than its object format. Blocking. Must not know where a repository came from.
"""

import subprocess
import tempfile
from pathlib import Path

from foundation.files import write_file
from gitops.errors import GitFailed
from gitops.processes import GitCommand, git_environment, git_program
from gitops.retained import object_format

_TIMEOUT_S = 60.0


def init_arguments(object_format: str) -> list[str]:
    """Return git's arguments that make an empty bare repository whose HEAD names main, without hooks or any other file of a template."""
    return ["init", "-q", "--bare", "--template=", "--initial-branch=main", f"--object-format={object_format}"]


def reset_config(repository: Path) -> bool:
    """Give a repository the configuration of a new one of its object format; say whether it had another.

    Raises:
        GitFailed: git cannot make a repository to take the configuration from.
        OSError: the file cannot be read or written.
    """
    path = repository / "config"
    found = path.read_bytes() if path.exists() else b""
    fresh = _fresh_config(repository.parent, object_format(repository) if found else "sha1")
    if found == fresh:
        return False
    write_file(path, fresh)
    return True


def _fresh_config(beside: Path, object_format: str) -> bytes:
    """Return the configuration as git writes it on the file system of `beside`, of which it depends."""
    with tempfile.TemporaryDirectory(prefix=".tmp-", dir=beside) as scratch:
        command = GitCommand(init_arguments(object_format), repository=Path(scratch))
        try:
            subprocess.run(  # noqa: S603 - our own words
                [git_program(), *command.arguments], env=git_environment(command), cwd="/", capture_output=True, timeout=_TIMEOUT_S, check=True
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise GitFailed(f"cannot make a repository: {error}") from error
        return (Path(scratch) / "config").read_bytes()
