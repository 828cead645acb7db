"""How much one fetch of a remote may take."""

from dataclasses import dataclass

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class MirrorLimits:
    """Limits of one fetch. Sizes are bytes, times seconds.

    `repository_bytes` is how much a mirror's objects may take altogether: a fetch gets what is left of it, and none begins once nothing is.
    A listing is every branch and tag of the remote: about 70 bytes and a name each. `stall_s` is how long a host may send less than `slowest_bytes_s`.
    """

    listing_bytes: int = 32 * _MIB
    listing_s: float = 30.0
    connect_s: float = 10.0
    pack_bytes: int = 2048 * _MIB
    repository_bytes: int = 8192 * _MIB
    fetch_s: float = 900.0
    stall_s: int = 60
    slowest_bytes_s: int = 1000
    memory_bytes: int = 2048 * _MIB
    open_files: int = 256
    lock_s: float = 60.0
