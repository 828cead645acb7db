"""What a process is set to that holds many conversations at once."""

import subprocess
import sys

_PROGRAM = """
import gc, resource
from foundation.many_at_once import COLLECT_AFTER, prepare
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
prepare()
prepare()
print(resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard), gc.isenabled(), gc.get_threshold() == COLLECT_AFTER, gc.get_freeze_count() > 0)
"""


def test_a_process_is_set_for_many() -> None:
    """It may open what the system lets it, and garbage is still collected, but more rarely and not among what was loaded."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "True True True True\n"
