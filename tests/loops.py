"""The loop that tests run on: that of servers and workers."""

import warnings

import uvloop


class Loop(uvloop.Loop):
    """uvloop's own. What a failed test left open is closed with it, and only then complained of.

    uvloop warns before it closes; here a warning is an error, so it would close nothing, and wait for ever until that is closed.
    """

    def close(self) -> None:
        """Close the loop and all that is open on it."""
        with warnings.catch_warnings(record=True) as left:
            warnings.simplefilter("always")
            super().close()
        for warning in left:  # the first one is raised
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
