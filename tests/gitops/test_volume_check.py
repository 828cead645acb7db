"""Which mounts can be shared, and whether locks hold on a volume."""

from pathlib import Path

import pytest

from gitops.volume_check import Mount, check_volume, mount_fault, mount_of

GOOD = {"rw", "relatime", "vers=4.2", "hard", "proto=tcp", "local_lock=none"}


@pytest.mark.parametrize(
    ("kind", "changes", "fault"),
    [
        pytest.param("ext4", {"rw"}, "", id="local"),
        pytest.param("ceph", {"rw", "acl"}, "", id="cephfs"),
        pytest.param("nfs4", GOOD, "", id="nfs-4.2"),
        pytest.param("nfs4", GOOD - {"vers=4.2"} | {"vers=4.1"}, "", id="nfs-4.1"),
        pytest.param("nfs", GOOD - {"vers=4.2"} | {"vers=3"}, "keeps the locks of a machine that died", id="nfs-3"),
        pytest.param("nfs", GOOD | {"nolock"}, "do not leave this machine", id="nolock"),
        pytest.param("nfs4", GOOD - {"local_lock=none"} | {"local_lock=flock"}, "do not leave this machine", id="local-flock"),
        pytest.param("nfs4", GOOD - {"local_lock=none"} | {"local_lock=all"}, "do not leave this machine", id="local-all"),
        pytest.param("nfs4", GOOD | {"nocto"}, "not looked for", id="nocto"),
        pytest.param("nfs4", GOOD - {"hard"} | {"soft"}, "may be given up", id="soft"),
        pytest.param("cifs", {"rw", "vers=3.1.1"}, "it is cifs", id="smb"),
        pytest.param("fuse.sshfs", {"rw"}, "it is fuse.sshfs", id="sshfs"),
    ],
)
def test_mounts_that_keep_no_promise_are_refused(kind: str, changes: set[str], fault: str) -> None:
    """A mount is refused, with the cause, when locks or writes of one machine do not reach the others."""
    found = mount_fault(Mount(kind, frozenset(changes)))
    assert fault in found
    assert bool(found) == bool(fault)


def test_mount_is_that_of_the_deepest_directory(tmp_path: Path) -> None:
    """A path belongs to the mount that lies deepest above it, and of two at one place to the later; spaces in names are read."""
    volume = tmp_path / "my volume"
    volume.mkdir()
    (tmp_path / "mountinfo").write_text(
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard\n"
        f"30 22 0:40 / {tmp_path}/my\\040volume rw shared:2 - ext4 /dev/vdb rw\n"
        f"31 30 0:41 / {tmp_path}/my\\040volume rw,noatime - nfs4 server:/content rw,vers=4.1,hard\n"
        f"32 22 0:42 / {tmp_path}/my rw - tmpfs tmpfs rw\n"
    )
    mount = mount_of(volume / "team", tmp_path / "mountinfo")
    assert mount is not None
    assert (mount.kind, mount.version) == ("nfs4", "4.1")
    assert {"noatime", "hard"} <= mount.options


def test_sound_volume_passes_and_is_left_as_it_was(tmp_path: Path) -> None:
    """A local directory passes the trial of two processes, and nothing stays behind."""
    check_volume(tmp_path)
    assert not list(tmp_path.iterdir())
