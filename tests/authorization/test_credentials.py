"""What counts as a credential in a request's headers, and what is refused before anybody compares it with anything."""

import base64

import pytest
from starlette.datastructures import Headers

from arena.authorization.credentials import BEARER, EITHER, MAX_HEADER_BYTES, read_credential
from arena.authorization.errors import NotAuthenticated
from arena.authorization.port import Scheme
from tests.authorization.headers import SOURCE, TOKEN, basic, bearer


def encoded(value: bytes) -> str:
    """Return a Basic header of any bytes."""
    return "Basic " + base64.b64encode(value).decode()


@pytest.mark.parametrize(
    ("headers", "scheme"),
    [
        pytest.param(bearer(TOKEN), "bearer", id="a bearer token"),
        pytest.param({"authorization": f"bEaReR   {TOKEN}  "}, "bearer", id="its scheme in any case, with spaces"),
        pytest.param(basic(TOKEN), "basic", id="a password"),
        pytest.param(basic(TOKEN, user="x-access-token"), "basic", id="a password of any user"),
        pytest.param(basic(TOKEN, user=""), "basic", id="a password of no user"),
    ],
)
def test_one_token_in_two_ways(headers: dict[str, str], scheme: Scheme) -> None:
    """A token comes as bearer token or as password; what it is does not depend on the way."""
    credential = read_credential(headers, SOURCE)
    assert (credential.token, credential.scheme, credential.source, credential.suspect) == (TOKEN, scheme, SOURCE, False)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("", id="an empty header"),
        pytest.param("Bearer", id="a scheme alone"),
        pytest.param("Bearer ", id="an empty token"),
        pytest.param(TOKEN, id="a token without a scheme"),
        pytest.param(f"Digest {TOKEN}", id="another scheme"),
        pytest.param(f"Bearer {TOKEN} {TOKEN}", id="two tokens"),
        pytest.param(f"Bearer {TOKEN}, Bearer {TOKEN}", id="two values that a proxy has joined"),
        pytest.param(f"Bearer {TOKEN}\xff", id="a byte that is no ASCII"),
        pytest.param(f"Bearer {TOKEN}\x00", id="a byte that is none to print"),
        pytest.param("Basic %%%", id="no base64"),
        pytest.param("Basic " + base64.b64encode(f"a:{TOKEN}".encode()).decode().rstrip("="), id="base64 cut short"),
        pytest.param(encoded(b"no-colon"), id="a user without a password"),
        pytest.param(encoded(b"user:"), id="an empty password"),
        pytest.param(encoded(b"user:\xff\xfe" + TOKEN.encode()), id="a password that is no UTF-8"),
        pytest.param(encoded("user:pässword".encode()), id="a password that no token is"),
        pytest.param(encoded(f"user:{TOKEN}\n".encode()), id="a line's end behind it"),
        pytest.param("Bearer " + "a" * MAX_HEADER_BYTES, id="more than 16 KiB"),
    ],
)
def test_what_is_no_credential(value: str) -> None:
    """A header that is not exactly one token in one of the two schemes is refused, and the refusal quotes nothing of it."""
    with pytest.raises(NotAuthenticated) as caught:
        read_credential({"authorization": value}, SOURCE)
    assert TOKEN[:12] not in f"{caught.value} {caught.value.cause} {caught.value.hint}"


@pytest.mark.parametrize("others", [[bearer(TOKEN)], [bearer("other")], [basic(TOKEN)]], ids=["the same again", "another token", "another scheme"])
def test_several_headers(others: list[dict[str, str]]) -> None:
    """Two Authorization headers are none: what stands before us may have read the other one."""
    pairs = [(name.encode(), value.encode()) for headers in (bearer(TOKEN), *others) for name, value in headers.items()]
    with pytest.raises(NotAuthenticated, match="several"):
        read_credential(Headers(raw=pairs), SOURCE)


@pytest.mark.parametrize("headers", [basic(TOKEN), {"authorization": f"Basic {TOKEN}"}], ids=["a password", "a token as if it were one"])
def test_browsers_get_nowhere_with_a_password(headers: dict[str, str]) -> None:
    """Where only bearer tokens count, a password is no credential."""
    assert read_credential(bearer(TOKEN), SOURCE, schemes=BEARER).token == TOKEN
    with pytest.raises(NotAuthenticated):
        read_credential(headers, SOURCE, schemes=BEARER)


@pytest.mark.parametrize("schemes", [BEARER, EITHER], ids=["bearer alone", "either"])
def test_no_header_at_all(schemes: tuple[Scheme, ...]) -> None:
    """A request without the header shows nothing."""
    with pytest.raises(NotAuthenticated, match="no token"):
        read_credential({"x-authorization": f"Bearer {TOKEN}"}, SOURCE, schemes=schemes)


def test_credentials_do_not_print() -> None:
    """A credential that gets into a message or a log line by mistake does not show its token."""
    assert TOKEN not in f"{read_credential(bearer(TOKEN), SOURCE)!r} {read_credential(basic(TOKEN), SOURCE)}"
