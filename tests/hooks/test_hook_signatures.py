"""Who a delivery is from: documented vectors, and every way in which a proof can be none."""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping

import pytest
from starlette.datastructures import Headers

from hooks.delivery import Delivery, Proof
from hooks.hosts import HOSTS
from tests.hooks.sender import FLAVOURS, SIGNING_TOKEN, Hooks, Incoming, host_of, push, secret_of

EVERYBODY = b"It's a Secret to Everybody"
HELLO = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
ATLASSIAN = "sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9"
STANDARD_KEY = b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
STANDARD = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
STANDARD_BODY = b'{"test": 2432232314}'
URL = "https://git.example.com/team/prompts.git"


def delivery(body: bytes, headers: Mapping[str, str]) -> Delivery:
    """Return a delivery of JSON."""
    return Delivery(Headers(headers), body, body)


def signed(secret: bytes, body: bytes, algorithm: str = "sha256") -> str:
    """Return the HMAC in hexadecimal."""
    return hmac.new(secret, body, algorithm).hexdigest()


@pytest.mark.parametrize(
    ("host", "secret", "body", "headers"),
    [
        pytest.param("github", EVERYBODY, b"Hello, World!", {"X-Hub-Signature-256": HELLO}, id="GitHub: validating webhook deliveries"),
        pytest.param("gitea", EVERYBODY, b"Hello, World!", {"X-Hub-Signature-256": HELLO}, id="Gitea sends GitHub's header, too"),
        pytest.param("bitbucket", EVERYBODY, b"Hello World!", {"X-Hub-Signature": ATLASSIAN}, id="Bitbucket Cloud: manage webhooks"),
        pytest.param("bitbucket-server", EVERYBODY, b"Hello World!", {"X-Hub-Signature": ATLASSIAN}, id="Bitbucket Data Center signs alike"),
        pytest.param("gitlab", STANDARD_KEY, STANDARD_BODY, STANDARD, id="GitLab: the example of Standard Webhooks"),
        pytest.param("generic", EVERYBODY, b"Hello, World!", {"X-Signature": HELLO}, id="Flux's header takes GitHub's example"),
        pytest.param("azure-devops", b"open sesame", b"", {"Authorization": "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="}, id="RFC 7617: Aladdin's password"),
        pytest.param(
            "azure-devops", b"Aladdin:open sesame", b"", {"Authorization": "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="}, id="RFC 7617: with his name"
        ),
    ],
)
def test_documented_vectors(host: str, secret: bytes, body: bytes, headers: Mapping[str, str]) -> None:
    """What a host documents as right is right, and one more byte in the body or the secret is not."""
    assert HOSTS[host].is_proven(delivery(body, headers), secret)
    assert not HOSTS[host].is_proven(delivery(body, headers), secret + b"x")
    assert host == "azure-devops" or not HOSTS[host].is_proven(delivery(body + b" ", headers), secret)


@pytest.mark.parametrize(
    ("host", "headers"),
    [
        pytest.param("github", {"X-Hub-Signature": "sha1=" + signed(b"s", b"{}", "sha1")}, id="github: SHA-1 alone"),
        pytest.param("github", {"X-Hub-Signature-256": "sha1=" + signed(b"s", b"{}", "sha1")}, id="github: SHA-1 in the newer header"),
        pytest.param("github", {"X-Hub-Signature-256": signed(b"s", b"{}")}, id="github: no algorithm"),
        pytest.param("github", {"X-Hub-Signature-256": "sha256="}, id="github: nothing behind the algorithm"),
        pytest.param("github", {"X-Hub-Signature-256": "sha256=" + signed(b"s", b"{}")[:-1]}, id="github: cut off"),
        pytest.param("github", {"X-Hub-Signature-256": "sha256=" + signed(b"s", b"{}") + "0"}, id="github: more than it"),
        pytest.param("github", {"X-Hub-Signature-256": "sha256=\xff\xfe"}, id="github: no hexadecimal"),
        pytest.param("github", {"X-Gitea-Signature": signed(b"s", b"{}")}, id="github: another host's header"),
        pytest.param("gitea", {"X-Gitea-Signature": ""}, id="gitea: the empty header of a hook without a secret"),
        pytest.param("gitea", {"X-Hub-Signature": "sha1=" + signed(b"s", b"{}", "sha1")}, id="gitea: SHA-1 alone"),
        pytest.param(
            "gitea", {"X-Forgejo-Signature": "0" * 64, "X-Gitea-Signature": signed(b"s", b"{}")}, id="gitea: a right one behind a wrong one"
        ),
        pytest.param("gitlab", {"X-Gitlab-Token": ""}, id="gitlab: an empty token"),
        pytest.param("gitlab", {"X-Gitlab-Token": "S"}, id="gitlab: in another case"),
        pytest.param("bitbucket", {"X-Hub-Signature": "sha1=" + signed(b"s", b"{}", "sha1")}, id="bitbucket: SHA-1"),
        pytest.param("bitbucket", {"X-Hook-UUID": "s"}, id="bitbucket: the hook's UUID is no secret"),
        pytest.param("bitbucket-server", {"Authorization": "Basic " + base64.b64encode(b"x:s").decode()}, id="bitbucket-server: credentials"),
        pytest.param("azure-devops", {"Authorization": "Basic " + base64.b64encode(b"s").decode()}, id="azure-devops: a user without a password"),
        pytest.param("azure-devops", {"Authorization": "Bearer s"}, id="azure-devops: a bearer token"),
        pytest.param("azure-devops", {"Authorization": "Basic %%%"}, id="azure-devops: no base64"),
        pytest.param("azure-devops", {"Authorization": "Basic " + base64.b64encode(b"s:other").decode()}, id="azure-devops: the secret as user"),
        pytest.param("generic", {"X-Signature": "sha1=" + signed(b"s", b"{}", "sha1")}, id="generic: SHA-1, which Flux would take"),
        pytest.param("generic", {"X-Signature": "md5=" + signed(b"s", b"{}", "md5")}, id="generic: MD5"),
        pytest.param("generic", {"X-Signature": "nonsense=00"}, id="generic: no algorithm of that name"),
        pytest.param("generic", {"X-Signature": signed(b"s", b"{}")}, id="generic: no algorithm"),
    ],
)
def test_what_proves_nothing(host: str, headers: Mapping[str, str]) -> None:
    """A proof that is old, cut off, of another kind or in another place is none."""
    assert not HOSTS[host].is_proven(delivery(b"{}", headers), b"s")


@pytest.mark.parametrize("host", HOSTS)
def test_no_header_no_proof(host: str) -> None:
    """Without its header a delivery is told apart before its body is read."""
    assert HOSTS[host].proof(Headers({"content-type": "application/json"})) is Proof.ABSENT


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_header_that_is_there_twice(hooks: Hooks, flavour: str) -> None:
    """Two proofs are none, also when one of them is right."""
    await hooks.subscribe(host_of(flavour), URL, secret=secret_of(flavour))
    host = HOSTS[host_of(flavour)]
    body = b"{}"
    headers = list(host.sign(secret_of(flavour).encode(), body, hooks.clock.now()).items())
    answer = await hooks.post(f"/hooks/{host.name}/team/prompts", body, [*headers, *headers])
    assert answer.status == 401


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
def test_generic_algorithms(algorithm: str) -> None:
    """The generic form takes SHA-256 and SHA-512, in hexadecimal of either case."""
    signature = f"{algorithm}={signed(b's', b'{}', algorithm).upper()}"
    assert HOSTS["generic"].is_proven(delivery(b"{}", {"X-Signature": signature}), b"s")


@pytest.mark.parametrize("flavour", ["gitea", "forgejo", "gogs", "gitea-hub", "github"])
async def test_forms(hooks: Hooks, flavour: str) -> None:
    """GitHub signs a form's bytes, Gitea and its like the JSON text in it; both ways are taken as they are sent."""
    await hooks.subscribe(host_of(flavour), URL)
    payload, event = push(flavour, URL)
    answer = await hooks.deliver(flavour, payload, event, form=True)
    assert answer.status == 202


def test_a_signing_token_is_not_taken_in_clear() -> None:
    """A GitLab signing token proves nothing as X-Gitlab-Token, so that it never travels."""
    token = SIGNING_TOKEN.encode()
    assert not HOSTS["gitlab"].is_proven(delivery(b"{}", {"X-Gitlab-Token": SIGNING_TOKEN}), token)


def test_a_secret_token_beside_a_signature() -> None:
    """Where GitLab sends both, a secret that is no signing token is compared with the token."""
    both = {"X-Gitlab-Token": "s", **STANDARD}
    assert HOSTS["gitlab"].is_proven(delivery(STANDARD_BODY, both), b"s")
    assert not HOSTS["gitlab"].is_proven(delivery(STANDARD_BODY, both), b"t")


@pytest.mark.parametrize(
    "signatures",
    [
        pytest.param("v1,bm90IGl0 " + STANDARD["webhook-signature"], id="a rotated key's first"),
        pytest.param(STANDARD["webhook-signature"] + " v1a,bm90IGl0", id="another version's behind it"),
    ],
)
def test_several_signatures(signatures: str) -> None:
    """One right signature of several is enough, as while a signing token is rotated."""
    headers = {**STANDARD, "webhook-signature": signatures}
    assert HOSTS["gitlab"].is_proven(delivery(STANDARD_BODY, headers), STANDARD_KEY)


@pytest.mark.parametrize("secret", [b"whsec_", b"whsec_%%%", b"whsec_\xff"], ids=["empty", "no base64", "no text"])
def test_a_signing_token_that_is_none(secret: bytes) -> None:
    """A secret that looks like a signing token and is none proves nothing, not even with an empty key."""
    empty_key = base64.b64encode(hmac.new(b"", b"i.1.{}", hashlib.sha256).digest()).decode()
    headers = {"webhook-id": "i", "webhook-timestamp": "1", "webhook-signature": f"v1,{empty_key}", "X-Gitlab-Token": "whsec_"}
    assert not HOSTS["gitlab"].is_proven(delivery(b"{}", headers), secret)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_what_we_sign_is_proven(flavour: str, hooks: Hooks) -> None:
    """The sample that `arena hooks test` sends proves itself, and no other body."""
    host, secret = HOSTS[host_of(flavour)], secret_of(flavour).encode()
    headers = host.sign(secret, b"{}", hooks.clock.now())
    assert host.is_proven(delivery(b"{}", headers), secret)
    assert not host.is_proven(delivery(b"{}", headers), b"another")
    if host.proof(Headers(headers)) is Proof.BODY:
        assert not host.is_proven(delivery(b"[]", headers), secret)


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_our_sample_is_taken(hooks: Hooks, flavour: str) -> None:
    """The sample that `arena hooks test` sends for a host is a push to the project's remote."""
    host, secret = HOSTS[host_of(flavour)], secret_of(flavour)
    await hooks.subscribe(host.name, URL, secret=secret)
    sample = host.sample(URL)
    body = json.dumps(sample.payload).encode()
    headers = {**sample.headers, **host.sign(secret.encode(), body, hooks.clock.now())}
    assert (await hooks.post(f"/hooks/{host.name}/team/prompts", body, headers)).status == 202


@pytest.mark.parametrize("flavour", ["gitlab", "azure-devops"])
async def test_a_proof_in_the_head_is_checked_before_the_body(hooks: Hooks, flavour: str) -> None:
    """A wrong token is refused without waiting for the body."""
    await hooks.subscribe(flavour, URL)
    headers = HOSTS[flavour].sign(b"wrong", b"", hooks.clock.now())
    answer = await hooks.post(f"/hooks/{flavour}/team/prompts", Incoming([b"{"], stalls=True), headers)
    assert answer.status == 401
    assert answer.headers["connection"] == "close"
