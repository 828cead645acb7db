"""What a long-lived process gives back to the system."""

import platform
import subprocess
import sys

import pytest

from arena.large_blocks import LARGE_BYTES

SCRIPT = """
import ctypes, sys
from arena.large_blocks import return_large_blocks

class Use(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks mapped usmblks fsmblks used free keep".split()]

library = ctypes.CDLL(None)
library.mallinfo2.restype = Use
if sys.argv[1] == "bounded":
    return_large_blocks()
table = bytes(2 * int(sys.argv[2]))
del table
before = library.mallinfo2().mapped
table = bytes(int(sys.argv[2]))
print(library.mallinfo2().mapped - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
@pytest.mark.parametrize(
    ("mode", "place"),
    [
        pytest.param("bounded", "mapped", id="after the call, a block is mapped by itself whatever was freed before"),
        pytest.param("plain", "heap", id="without it, one that follows a larger one lies in the heap"),
    ],
)
def test_large_blocks_go_back(mode: str, place: str) -> None:
    """The memory of a table that is rebuilt now and then is given back, and does not become a hole in the heap."""
    asked = [sys.executable, "-c", SCRIPT, mode, str(8 * LARGE_BYTES)]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    assert ("mapped" if int(said) >= 8 * LARGE_BYTES else "heap") == place
