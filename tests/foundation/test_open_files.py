"""How many files a process may have open."""

import subprocess
import sys

_PROGRAM = """
import resource
from foundation.open_files import allow_many
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
allow_many()
allow_many()
print(resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard))
"""


def test_a_process_may_open_what_the_system_lets_it() -> None:
    """The limit becomes the highest that is allowed, and stays there."""
    assert subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True).stdout == "True\n"
