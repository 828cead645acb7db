"""Every form in which vendors say how long to wait."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.providers.retry_after import retry_after_s

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)

GOOGLE = b"""{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Quota exceeded.", "details": [
  {"@type": "type.googleapis.com/google.rpc.QuotaFailure"}, {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17.5s"}]}}"""


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({}, b"", None),
        ({"Retry-After": "20"}, b"", 20.0),
        ({"retry-after": "1.5"}, b"", 1.5),
        ({"RETRY-AFTER": " 3 "}, b"", 3.0),
        ({"Retry-After": "Sun, 01 Mar 2026 12:00:30 GMT"}, b"", 30.0),
        ({"Retry-After": "Sunday, 01-Mar-26 12:01:00 GMT"}, b"", 60.0),
        ({"Retry-After": "Sun, 01 Mar 2026 11:59:00 GMT"}, b"", 0.0),
        ({"Retry-After": "soon"}, b"", None),
        ({"Retry-After": "-5"}, b"", None),
        ({"Retry-After": "nan"}, b"", None),
        ({"retry-after-ms": "250", "Retry-After": "1"}, b"", 0.25),
        ({"x-ms-retry-after-ms": "4000"}, b"", 4.0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, b"", 360.0),
        ({"x-ratelimit-remaining-requests": "12", "x-ratelimit-reset-requests": "6m0s"}, b"", None),
        (
            {
                "x-ratelimit-remaining-requests": "5",
                "x-ratelimit-reset-requests": "90s",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "20ms",
            },
            b"",
            0.02,
        ),
        ({"x-ratelimit-reset": "7"}, b"", 7.0),
        ({"X-RateLimit-Reset": str(int(NOW.timestamp()) + 9)}, b"", 9.0),
        ({"X-RateLimit-Reset": str(int(NOW.timestamp() + 9) * 1000)}, b"", 9.0),
        ({"ratelimit-reset": "11", "ratelimit-remaining": "0"}, b"", 11.0),
        ({"anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": "2026-03-01T12:00:45Z"}, b"", 45.0),
        ({"anthropic-ratelimit-tokens-remaining": "100", "anthropic-ratelimit-tokens-reset": "2026-03-01T12:00:45Z"}, b"", None),
        ({}, GOOGLE, 17.5),
        ({}, b'{"error": {"message": "Rate limit reached. Please try again in 1.2s. Visit us."}}', 1.2),
        ({}, b'{"error": {"message": "Please try again in 6m0s."}}', 360.0),
        ({}, b'{"error": {"message": "Please try again in 20ms."}}', 0.02),
        ({}, b'{"error": {"message": "Please retry after 26 seconds."}}', 26.0),
        ({}, b'{"error": {"message": "Please retry in 1 minute 30 seconds."}}', 90.0),
        ({}, b'{"error": {"message": "please try again in a moment"}}', None),
        ({}, b'{"retryDelay": broken', None),
        ({"Retry-After": "2"}, GOOGLE, 2.0),
    ],
)
def test_every_form_is_understood(headers: dict[str, str], body: bytes, expected: float | None) -> None:
    """Seconds, milliseconds, dates, spans, moments, bodies: the most exact one counts, and what cannot be read is as if it were absent."""
    found = retry_after_s(headers, body, NOW)
    assert found == (None if expected is None else pytest.approx(expected))


@given(
    headers=st.dictionaries(
        st.sampled_from(["retry-after", "retry-after-ms", "x-ratelimit-reset", "x-ratelimit-reset-tokens", "anthropic-ratelimit-requests-reset"]),
        st.text(max_size=40) | st.sampled_from(["1e999", "9" * 400, "0001-01-01", "9999-12-31T23:59:59+14:00", "1h1h"]),
    ),
    body=st.binary(max_size=60) | st.text("tryagin 0123456789smh.", max_size=60).map(str.encode) | st.just(b'{"retryDelay":' * 500),
)
def test_nothing_that_a_server_sends_breaks_it(headers: dict[str, str], body: bytes) -> None:
    """Whatever the headers and the body hold, the answer is None or a finite number from 0 on."""
    found = retry_after_s(headers, body, NOW)
    assert found is None or 0 <= found < float("inf")
