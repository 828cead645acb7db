"""Times as Kubernetes writes them."""

from datetime import UTC, datetime


def timestamp(moment: datetime) -> str:
    """Return a time in UTC and whole seconds: `2026-11-29T15:36:00Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
