"""No body and no head makes any receiver fail: whatever comes, the answer is one of those that are documented."""

import asyncio
import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hooks.hosts import HOSTS
from hooks.rate_limit import Rate
from hooks.receiver import HookLimits
from tests.hooks.sender import FLAVOURS, FORM, JSON, Answer, Hooks, event_header, host_of, proof, push, secret_of

URL = "https://git.example.com/team/prompts.git"
OPEN = Rate(burst=10**9, every_s=1e-9)
EXPECTED = {200, 202, 400, 401, 413, 415}

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**400, -1, 2**64]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(), max_size=30),
    st.sampled_from(["\ud800", "\x00", "refs/heads/a/b/c", "0" * 40, URL, "http://[", "git@:", "https://git.example.com:x/", "../..", "🙂" * 500]),
)
ANY = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4), max_leaves=15)
HEAD_TEXT = st.text(st.characters(max_codepoint=255, blacklist_characters="\r\n\x00"), max_size=80)
QUIET = settings(max_examples=40)


class Bench:
    """A receiver without rate limits, and a loop to drive it from plain tests."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self.hooks = runner.run(self._make())
        self._subscribed = False

    async def _make(self) -> Hooks:
        return Hooks(HookLimits(failures=OPEN, per_project=OPEN, events=OPEN))

    def subscribe(self, flavour: str) -> None:
        """Create the project, once."""
        if self._subscribed:
            return
        self._subscribed = True
        self._runner.run(self.hooks.subscribe(host_of(flavour), URL, secret=secret_of(flavour)))

    def post(self, path: str, body: bytes, headers: list[tuple[str, str]]) -> Answer:
        """Send one request."""
        return self._runner.run(self.hooks.post(path, body, headers))

    def close(self) -> None:
        """Close the store."""
        self._runner.run(self.hooks.cluster.close())


@pytest.fixture
def bench() -> Iterator[Bench]:
    """Give a receiver."""
    with asyncio.Runner() as runner:
        found = Bench(runner)
        yield found
        found.close()


@st.composite
def distorted(draw: st.DrawFn, flavour: str) -> Any:
    """Return a right payload with something else in some places, or with keys that are not there."""
    payload: Any = copy.deepcopy(push(flavour, URL)[0])
    for _ in range(draw(st.integers(1, 3))):
        holder: Any = payload
        while isinstance(holder, dict) and holder:
            key = draw(st.sampled_from(sorted(holder)))
            inner = holder[key]
            if isinstance(inner, list) and inner and draw(st.booleans()):
                inner[0] = draw(ANY)
                break
            if not isinstance(inner, dict) or not inner or draw(st.booleans()):
                holder[key] = draw(ANY)
                break
            holder = inner
    return payload


def check(answer: Answer) -> None:
    """Check that an answer is a documented one, in JSON."""
    assert answer.status in EXPECTED
    assert answer.headers["content-type"].startswith(JSON)
    assert isinstance(answer.json, dict)


@pytest.mark.parametrize("flavour", FLAVOURS)
@QUIET
@given(data=st.data())
def test_proven_payloads_of_any_shape(bench: Bench, flavour: str, data: st.DataObject) -> None:
    """Whoever knows the secret can send any JSON under any event, in place of any part of a payload."""
    bench.subscribe(flavour)
    payload = data.draw(distorted(flavour) | ANY)
    event = data.draw(st.just(push(flavour, URL)[1]) | HEAD_TEXT)
    body = json.dumps(payload).encode()
    headers = [*proof(flavour, body, body, secret_of(flavour)).items(), *event_header(flavour, event).items()]
    path = data.draw(st.sampled_from([f"/hooks/{host_of(flavour)}/team/prompts", f"/hooks/{host_of(flavour)}"]))
    check(bench.post(path, body, headers))


@pytest.mark.parametrize("flavour", HOSTS)
@QUIET
@given(data=st.data())
def test_proven_bytes_of_any_kind(bench: Bench, flavour: str, data: st.DataObject) -> None:
    """Whoever knows the secret can send any bytes, as JSON or as a form."""
    bench.subscribe(flavour)
    body = data.draw(st.binary(max_size=300) | st.sampled_from([b"payload=%", b"payload=%00", b"{" * 5000, b"[" * 5000, b'{"a":' * 3000]))
    headers = [*proof(flavour, body, body, secret_of(flavour)).items(), *event_header(flavour, "push").items()]
    headers.append(("content-type", data.draw(st.sampled_from([JSON, FORM]))))
    path = data.draw(st.sampled_from([f"/hooks/{host_of(flavour)}/team/prompts", f"/hooks/{host_of(flavour)}"]))
    check(bench.post(path, body, headers))


@pytest.mark.parametrize("flavour", HOSTS)
@QUIET
@given(data=st.data())
def test_heads_of_any_kind(bench: Bench, flavour: str, data: st.DataObject) -> None:
    """A stranger can write anything into the headers that a receiver reads, any number of times."""
    bench.subscribe(flavour)
    names = [
        *proof(flavour, b"", b"", secret_of(flavour)),
        *event_header(flavour, ""),
        "Content-Length",
        "Content-Encoding",
        "Content-Type",
        "Authorization",
    ]
    headers = data.draw(st.lists(st.tuples(st.sampled_from(names), HEAD_TEXT), max_size=8))
    check(bench.post(f"/hooks/{host_of(flavour)}/team/prompts", data.draw(st.binary(max_size=50)), headers))
