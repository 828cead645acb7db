"""The layout of the content volume."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gitops.content import ContentVolume, ProjectKey
from gitops.errors import UnsafeName

SHA = "4f1c9e2a7b10" + "0" * 28
SUPPORT = ProjectKey("team", "support")
VOLUME = ContentVolume(Path("/content"), workspace_of=lambda namespace: f"ws-{namespace}")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(VOLUME.namespace("team"), "", id="a namespace under its workspace"),
        pytest.param(VOLUME.repository(SUPPORT), "arena/repos/support.git", id="a repository"),
        pytest.param(VOLUME.retained(SUPPORT, "0a-1"), "arena/repos/.retained/support-0a-1.git", id="a retained repository"),
        pytest.param(VOLUME.versions(SUPPORT), "arena/sources/support/.arena/versions", id="the snapshots"),
        pytest.param(VOLUME.snapshot(SUPPORT, SHA), f"arena/sources/support/.arena/versions/{SHA}", id="a snapshot"),
        pytest.param(VOLUME.snapshot(SUPPORT, "a" * 64), f"arena/sources/support/.arena/versions/{'a' * 64}", id="a snapshot of a SHA-256 commit"),
        pytest.param(VOLUME.head_file(SUPPORT), "arena/sources/support/.arena/HEAD", id="the head file"),
        pytest.param(VOLUME.run("team", "eval-x7k2p"), "arena/runs/eval-x7k2p", id="a run"),
        pytest.param(VOLUME.history("team", "my.job"), "arena/history/my.job", id="the history of a job whose name has a dot"),
    ],
)
def test_every_path_has_its_place(path: Path, expected: str) -> None:
    """Each thing lies where resources.md says, under `<root>/<workspace>/<namespace>`, and `relative` gives the inner part back."""
    assert path == Path("/content/ws-team/team") / expected
    assert VOLUME.relative("team", path) == (expected or ".")


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda: VOLUME.namespace(".."), id="a namespace that climbs"),
        pytest.param(lambda: VOLUME.namespace("a.b"), id="a namespace with a dot"),
        pytest.param(lambda: VOLUME.namespace("team\n"), id="a namespace with a trailing newline"),
        pytest.param(lambda: VOLUME.repository(ProjectKey("team", "../x")), id="a project that climbs"),
        pytest.param(lambda: VOLUME.repository(ProjectKey("team", "")), id="an empty project"),
        pytest.param(lambda: VOLUME.repository(ProjectKey("team", "Support")), id="a project in upper case"),
        pytest.param(lambda: VOLUME.repository(ProjectKey("team", ".retained")), id="a project that begins with a dot"),
        pytest.param(lambda: VOLUME.repository(ProjectKey("team", "a..b")), id="a project with an empty label"),
        pytest.param(
            lambda: VOLUME.repository(ProjectKey("team", ".".join(["a" * 63] * 3 + ["a" * 61]))),
            id="a project whose directory name would be too long",
        ),
        pytest.param(lambda: VOLUME.retained(SUPPORT, "../0"), id="a uid that climbs"),
        pytest.param(lambda: VOLUME.snapshot(SUPPORT, "main"), id="a branch in place of a commit"),
        pytest.param(lambda: VOLUME.snapshot(SUPPORT, SHA.upper()), id="a commit in upper case"),
        pytest.param(lambda: VOLUME.snapshot(SUPPORT, SHA[:12]), id="an abbreviated commit"),
        pytest.param(lambda: VOLUME.run("team", "/etc"), id="an absolute run"),
        pytest.param(lambda: VOLUME.history("team", "a\0b"), id="a job with a NUL"),
        pytest.param(lambda: VOLUME.relative("team", Path("/content/ws-other/other/x")), id="a path of another namespace"),
        pytest.param(lambda: VOLUME.relative("team", Path("/content/ws-team/team/../other")), id="a path that climbs out"),
        pytest.param(lambda: ContentVolume(Path("/c"), lambda _: "../up").namespace("team"), id="a workspace that climbs"),
    ],
)
def test_an_unsafe_name_becomes_no_path(use: Callable[[], object]) -> None:
    """A name that Kubernetes would refuse never becomes part of a path, and the message says `cannot use …`."""
    with pytest.raises(UnsafeName, match=r"^cannot use "):
        use()
