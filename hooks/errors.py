"""What can be wrong with a delivery, as the answer that says so."""

from collections.abc import Mapping
from http import HTTPStatus

from foundation.errors import ArenaError


class Refused(ArenaError):
    """A delivery that is not taken. Carries the status and the headers of its answer.

    `proven`: the sender knows the project's secret, so the refusal is no sign of guessing.
    """

    def __init__(self, status: HTTPStatus, message: str, *, hint: str = "", headers: Mapping[str, str] | None = None, proven: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.headers = dict(headers or {})
        self.proven = proven


class SenderGone(Exception):
    """The sender closed the connection before its body's end: there is nobody to answer."""


class ReviewUnreadable(ArenaError):
    """What was sent is no AdmissionReview that can be answered."""


class CertificateUnavailable(ArenaError):
    """There is no certificate to serve with, for now: what is served meanwhile stays as it is."""
