"""What a project's spec allows of its snapshots, in the exporter's words."""

from gitops.snapshots import SnapshotLimits
from reconcile.kinds.project import SnapshotPolicy


def snapshot_limits(policy: SnapshotPolicy) -> SnapshotLimits:
    """Return the exporter's limits for a project's `spec.snapshots`."""
    return SnapshotLimits(max_files=policy.max_files, max_bytes=policy.max_bytes)
