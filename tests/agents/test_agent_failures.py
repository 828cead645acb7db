"""What the words of an agent's error frames mean."""

import pytest

from engine.agents.failures import AgentFailures
from engine.agents.frames import Failed

CODES = {
    "RATE_LIMITED": ("rate_limit", True),
    "rate-limit exceeded": ("rate_limit", True),
    "TOO_MANY_REQUESTS": ("rate_limit", True),
    "overloaded_error": ("rate_limit", True),
    "QUOTA_EXCEEDED": ("rate_limit", False),
    "UNAUTHORIZED": ("authentication", False),
    "PROVIDER_AUTHENTICATION": ("authentication", False),
    "TOKEN_EXPIRED": ("authentication", False),
    "403": ("authentication", False),
    "DEADLINE_EXCEEDED": ("timeout", True),
    "provider_timeout": ("timeout", True),
    "timed out": ("timeout", True),
    "INVALID_SESSION": ("unavailable", True),
    "AGENT_NOT_FOUND": ("invalid_request", False),
    "TOKEN_LIMIT_EXCEEDED": ("invalid_request", False),
    "422": ("invalid_request", False),
    "INTERNAL_ERROR": ("unavailable", True),
    "GENERATION_FAILED": ("unavailable", True),
    "500": ("unavailable", True),
    "": ("unavailable", True),
}


@pytest.mark.parametrize(("code", "meaning"), CODES.items(), ids=CODES.keys())
def test_the_code_of_an_error_frame_says_what_kind_it_is(code: str, meaning: tuple[str, bool]) -> None:
    """What another attempt may mend is told from what it may not; a word that nobody knows is an agent that failed."""
    error = AgentFailures("clerk").of_frame(Failed(code, "words"))
    assert (error.kind, error.transient) == meaning


@pytest.mark.parametrize(
    ("secret", "remedy"),
    [
        pytest.param("", "; its token is the workers' variable AGENT_TOKEN_CLERK, which is not set", id="no token was sent"),
        pytest.param("s3cret", "; its token is the workers' variable AGENT_TOKEN_CLERK", id="a wrong one was sent"),
    ],
)
def test_who_is_not_let_in_hears_where_the_token_belongs(secret: str, remedy: str) -> None:
    """At the door: an error frame of authentication speaks of the agent's own model, whose key is not ours."""
    failures = AgentFailures("clerk", secret, "AGENT_TOKEN_CLERK")
    assert failures.of_refusal("authentication", "it answered 401", transient=False).message == f"cannot ask agent 'clerk': it answered 401{remedy}"
    assert failures.of_close(4401, "", "at once").message.endswith(remedy)
    assert "AGENT_TOKEN" not in failures.of_refusal("unavailable", "it answered 503", transient=True).message
    assert "AGENT_TOKEN" not in failures.of_frame(Failed("PROVIDER_AUTHENTICATION", "words")).message
