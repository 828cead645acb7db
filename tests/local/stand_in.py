"""A stand-in for a worker process: `python -m tests.local.stand_in WORD` prints its environment and ends as WORD says.

`0`, `3`: exits with that code at once. `wait`: until SIGTERM, then exits 0. `deaf`: only says that SIGTERM came.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from itertools import count

from arena.local.spare import FLAG, follow_order

TOLD = ("ARENA_STAND_IN", "GREETING", "ARENA_WORKER_NAME", "ARENA_OUTPUT_PATH", "REDIS_URL", "ARENA_CREDENTIAL_0", "ARENA_GIVEN")


def work(environment: Mapping[str, str]) -> int:
    """Say what was given, then do what the word says."""
    word = environment["ARENA_STAND_IN"]
    asked = count(1)

    def answer(*_: object) -> None:
        if word != "deaf":
            sys.exit(0)
        os.write(1, f'{{"asked": "{next(asked)}"}}\n'.encode())

    signal.signal(signal.SIGTERM, answer)
    print(json.dumps({key: environment[key] for key in TOLD if key in environment}), flush=True)  # noqa: T201
    if word.isdigit():
        return int(word)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    sys.exit(follow_order(work) if FLAG in sys.argv else work(os.environ))
