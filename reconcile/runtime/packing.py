"""Objects that are much alike, packed into bytes: thousands of them take the memory of hundreds.

Pure but for the first object, which the others are told by. Knows nothing of what an object means.
"""

import marshal
import zlib
from typing import Any

_FORMAT = 2
"""Later formats of marshal spell equal values in several ways, and it is by their bytes that packed objects are compared."""
_WINDOW_BITS = -12
"""4 KiB, raw: nothing but our own process reads it, so there is no checksum."""
_MEMORY_LEVEL = 4


class Packing:
    """Packs JSON values of one shape. Equal values, with their keys in equal order, give equal bytes.

    An ended run's 700 bytes become 110 (in a tree of dicts: 5 KiB), in 10 µs; 10 µs make an object of them again.
    """

    def __init__(self) -> None:
        self._model: bytes | None = None

    def pack(self, value: Any) -> bytes:
        """Return a value as bytes that this packing alone can read."""
        plain = marshal.dumps(value, _FORMAT)
        if self._model is None:
            self._model = plain
        squeezing = zlib.compressobj(zlib.Z_BEST_SPEED, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL, zlib.Z_DEFAULT_STRATEGY, self._model)
        return squeezing.compress(plain) + squeezing.flush()

    def unpack(self, packed: bytes) -> Any:
        """Return a copy of the value that was packed."""
        return marshal.loads(zlib.decompressobj(_WINDOW_BITS, self._model or b"").decompress(packed))  # noqa: S302 - our own bytes
