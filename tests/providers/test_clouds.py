"""How clouds are asked who we are: what each library is given, what comes of its failures, and what is said where it is not installed."""

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from engine.errors import CredentialMissing, FeatureNotSupported, ProviderError
from engine.providers.clouds import AzureSigner, BedrockSigner, VertexSigner, azure_signer, bedrock_signer, vertex_signer
from engine.providers.credentials import ApiKey, Keys
from tests.providers.vendor_server import Cut, Step, VendorServer, answer, vendor_server

HERE = {"from_job": True}
URL = "https://bedrock-runtime.eu-central-1.amazonaws.com"


@pytest.fixture
async def tokens() -> AsyncIterator[VendorServer]:
    """Run a server that gives out tokens."""
    async with vendor_server() as running:
        yield running


def service_account(server: VendorServer) -> str:
    """Return a key of a service account, whose tokens the server gives out."""
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {
        "type": "service_account",
        "project_id": "p",
        "private_key_id": "k",
        "private_key": key.decode(),
        "client_email": "a@p.iam.gserviceaccount.com",
        "token_uri": f"{server.url}/token",
    }
    return json.dumps(account)


TOKEN = answer({"access_token": "t-1", "expires_in": 3600, "token_type": "Bearer"})


@pytest.mark.parametrize(
    "words",
    [
        pytest.param({"auth": {"type": "serviceAccount", "variables": {"credentials.json": "V"}}}, id="the job's"),
        pytest.param({"credential": {"credential_env": "V"}}, id="a variable"),
    ],
)
async def test_a_service_accounts_token_is_kept(tokens: VendorServer, words: dict[str, Any]) -> None:
    """A key of a service account is exchanged for a token once, while that is good."""
    pytest.importorskip("google.auth")
    tokens.then(TOKEN)
    spec = HERE | words
    signer = vertex_signer(spec, Keys({"V": service_account(tokens)}), tokens.url)
    assert [dict(await signer.headers("POST", "https://x", b"")) for _ in range(2)] == [{"Authorization": "Bearer t-1"}] * 2
    assert len(tokens.requests) == 1


async def test_a_bundles_service_account_sends_us_nowhere(tokens: VendorServer, tmp_path: Path) -> None:
    """Where tokens are asked for is in the key itself: that of a bundle's file may name no address of its choice, inside our network for instance."""
    pytest.importorskip("google.auth")
    (tmp_path / "key.json").write_text(service_account(tokens))
    with pytest.raises(CredentialMissing, match="elsewhere than https://oauth2"):
        vertex_signer({"credential": {"credential_file": "key.json"}}, Keys(root=tmp_path), "https://aiplatform.googleapis.com")


async def test_a_service_account_in_a_file(tokens: VendorServer, tmp_path: Path) -> None:
    """A file that the bundle names holds such a key as well."""
    pytest.importorskip("google.auth")
    tokens.then(TOKEN)
    (tmp_path / "key.json").write_text(service_account(tokens))
    signer = vertex_signer(HERE | {"credential": {"credential_file": "key.json"}}, Keys(root=tmp_path), tokens.url)
    assert await signer.headers("POST", "https://x", b"") == {"Authorization": "Bearer t-1"}


@pytest.mark.parametrize(
    ("step", "kind", "transient"),
    [
        pytest.param(answer({"error": "invalid_grant", "error_description": "gone"}, 400), "authentication", False, id="refused"),
        pytest.param(Cut(), "unavailable", True, id="out"),
    ],
)
async def test_a_token_that_does_not_come(tokens: VendorServer, step: Step, kind: str, transient: bool) -> None:  # noqa: FBT001 - a table's column
    """A refusal of the key does not pass, an outage of who gives tokens may."""
    pytest.importorskip("google.auth")
    tokens.then(step)
    spec = HERE | {"auth": {"variables": {"credentials.json": "V"}}}
    signer = vertex_signer(spec, Keys({"V": service_account(tokens)}), tokens.url)
    with pytest.raises(ProviderError, match="cannot sign the request") as failed:
        await signer.headers("POST", "https://x", b"")
    assert (failed.value.kind, failed.value.transient) == (kind, transient)


async def test_what_google_calls_retryable_may_pass() -> None:
    """An error that Google's library would try again is an outage."""
    errors = pytest.importorskip("google.auth.exceptions")

    def refresh(_: Any) -> None:
        raise errors.RefreshError("busy", retryable=True)

    signer = VertexSigner(lambda: SimpleNamespace(valid=False, refresh=refresh))
    with pytest.raises(ProviderError, match="busy") as failed:
        await signer.headers("POST", "https://x", b"")
    assert (failed.value.kind, failed.value.transient) == ("unavailable", True)


async def test_a_token_in_a_variable() -> None:
    """A variable that the spec names holds a token for Vertex, and an API key for Bedrock."""
    spec = {"credential": {"credential_env": "V"}}
    for signer in (
        vertex_signer(spec, Keys({"V": "t"}), "https://eu-aiplatform.googleapis.com"),
        bedrock_signer(spec, Keys({"V": "t"}), URL, "eu-central-1"),
        bedrock_signer({"platform": {"type": "bedrock"}}, Keys({"AWS_BEARER_TOKEN_BEDROCK": "t"}), URL, "eu-central-1"),
    ):
        assert isinstance(signer, ApiKey)
        assert await signer.headers("POST", "https://x", b"") == {"Authorization": "Bearer t"}


def test_a_bundle_names_no_variable_of_ours() -> None:
    """A job's key is not for bundles to name, and a variable that is not set is not made up for by whoever this process is."""
    for name, words in (("ARENA_CREDENTIAL_0", "Arena's own"), ("ABSENT", "variable ABSENT is not set")):
        with pytest.raises(CredentialMissing, match=words):
            vertex_signer({"credential": {"credential_env": name}}, Keys({"ARENA_CREDENTIAL_0": "{}"}), "https://eu-aiplatform.googleapis.com")


async def test_a_payer_is_named() -> None:
    """Credentials of a person name the project that pays."""
    pytest.importorskip("google.auth")
    credentials = SimpleNamespace(valid=True, token="t", quota_project_id="p-2", refresh=lambda _: None)
    headers = await VertexSigner(lambda: credentials).headers("POST", "https://x", b"")
    assert headers == {"Authorization": "Bearer t", "x-goog-user-project": "p-2"}


@pytest.mark.parametrize("text", ["not JSON", "{}", '{"type": "external_account", "token_url": "https://evil.example"}', "[]"])
def test_no_key_of_a_service_account(text: str) -> None:
    """Nothing but a service account's key is taken: other files can name programs and addresses of their own."""
    pytest.importorskip("google.auth")
    with pytest.raises(CredentialMissing, match="no key of a service account"):
        vertex_signer(HERE | {"auth": {"variables": {"k": "V"}}}, Keys({"V": text}), "https://x")


class Session:
    """AWS credentials that wear out."""

    def __init__(self, *failures: Exception) -> None:
        self.frozen = SimpleNamespace(access_key="AKID", secret_key="secret", token="session")
        self.failures = [*failures]
        self.renewed = 0

    def refresh_needed(self) -> bool:
        """Say so until it was renewed."""
        return not self.renewed

    def get_frozen_credentials(self) -> Any:
        """Renew, or fail."""
        if self.failures:
            raise self.failures.pop(0)
        self.renewed += 1
        return self.frozen


async def test_worn_out_credentials_are_renewed() -> None:
    """What the library renews is renewed before it signs; a session's token is signed along."""
    pytest.importorskip("botocore")
    signer = BedrockSigner("eu-central-1", Session)
    headers = await signer.headers("POST", f"{URL}/model/m/invoke", b"{}")
    assert headers["X-Amz-Security-Token"] == "session"
    assert headers["Authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKID/")
    assert "x-amz-security-token" in headers["Authorization"]


async def test_failures_of_aws() -> None:
    """Nobody that AWS knows, a refusal and an outage are told apart, and an outage passes."""
    errors = pytest.importorskip("botocore.exceptions")
    with pytest.raises(ProviderError, match="no credentials") as nobody:
        await BedrockSigner("eu-central-1", lambda: None).headers("POST", URL, b"")
    assert (nobody.value.kind, nobody.value.transient) == ("authentication", False)
    refusal = errors.ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "AssumeRole")
    out = errors.ConnectTimeoutError(endpoint_url="http://sts")
    session = Session(refusal, out)
    signer = BedrockSigner("eu-central-1", lambda: session)
    for kind, transient in (("authentication", False), ("unavailable", True)):
        with pytest.raises(ProviderError) as failed:
            await signer.headers("POST", URL, b"")
        assert (failed.value.kind, failed.value.transient) == (kind, transient)
    assert await signer.headers("POST", URL, b"")


ASSUMED = b"""<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>ASSUMED</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>of-the-role</SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration>
</Credentials></AssumeRoleResult></AssumeRoleResponse>"""


@pytest.mark.slow
async def test_a_role_is_assumed(tokens: VendorServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The role that the job names is assumed with what is there, and signs until it wears out."""
    pytest.importorskip("botocore")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", tokens.url)
    tokens.then(answer(ASSUMED, headers={"Content-Type": "text/xml"}))
    role = "arn:aws:iam::123456789012:role/eval"
    spec = HERE | {"auth": {"role_arn": role, "variables": {"AWS_ACCESS_KEY_ID": "V", "AWS_SECRET_ACCESS_KEY": "V"}}}
    signer = bedrock_signer(spec, Keys({"V": "AKID"}), URL, "eu-central-1")
    for _ in range(2):
        headers = await signer.headers("POST", URL, b"")
        assert (headers["X-Amz-Security-Token"], "Credential=ASSUMED/" in headers["Authorization"]) == ("of-the-role", True)
    [seen] = tokens.requests
    assert parse_qs(seen.body.decode())["RoleArn"] == [role]
    assert "Credential=AKID/" in seen.headers["Authorization"]


def test_half_an_access_key() -> None:
    """A Secret without one half of the key is named before anything is asked."""
    pytest.importorskip("botocore")
    with pytest.raises(CredentialMissing, match="needs AWS_SECRET_ACCESS_KEY"):
        bedrock_signer(HERE | {"auth": {"variables": {"AWS_ACCESS_KEY_ID": "V"}}}, Keys({"V": "x"}), URL, "eu-central-1")


async def test_an_access_key_in_the_environment() -> None:
    """What stands under AWS's own names is used without its library looking anywhere else; half of it is not."""
    pytest.importorskip("botocore")
    keys = Keys({"AWS_ACCESS_KEY_ID": "AKID9", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"})
    headers = await bedrock_signer(HERE, keys, URL, "eu-central-1").headers("POST", URL, b"")
    assert (headers["X-Amz-Security-Token"], "Credential=AKID9/" in headers["Authorization"]) == ("t", True)


async def test_azures_token_and_its_failures() -> None:
    """Entra's token is asked for each request, since its library keeps it; a refusal does not pass, an outage may."""
    errors = pytest.importorskip("azure.core.exceptions")
    answers: list[Any] = [SimpleNamespace(token="t"), errors.ClientAuthenticationError("no"), errors.ServiceRequestError("out")]

    class Credential:
        def get_token(self, scope: str) -> Any:
            assert scope == "https://cognitiveservices.azure.com/.default"
            found = answers.pop(0)
            if isinstance(found, Exception):
                raise found
            return found

    signer = AzureSigner(Credential())
    assert await signer.headers("POST", "https://x", b"") == {"Authorization": "Bearer t"}
    for kind, transient in (("authentication", False), ("unavailable", True)):
        with pytest.raises(ProviderError) as failed:
            await signer.headers("POST", "https://x", b"")
        assert (failed.value.kind, failed.value.transient) == (kind, transient)


def test_half_a_service_principal() -> None:
    """A Secret without a part of the principal is named before anything is asked."""
    pytest.importorskip("azure.identity")
    spec = HERE | {"auth": {"variables": {"AZURE_TENANT_ID": "V"}}}
    with pytest.raises(CredentialMissing, match="needs AZURE_CLIENT_ID, AZURE_CLIENT_SECRET"):
        azure_signer(spec, Keys({"V": "x"}))


@pytest.mark.parametrize(
    ("module", "extra"), [("botocore.session", "bedrock"), ("google.auth", "vertex"), ("azure.identity", "azure")], ids=["bedrock", "vertex", "azure"]
)
def test_a_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, module: str, extra: str) -> None:
    """A cloud's library is an extra: without it the provider is refused by name, with the command that installs it."""
    monkeypatch.setitem(sys.modules, module, None)
    spec = HERE | {"id": "p"}
    with pytest.raises(FeatureNotSupported, match=f"'p': .* is not installed, which proves to {extra} who asks") as refused:
        {
            "bedrock": lambda: bedrock_signer(spec, Keys(), URL, "eu-central-1"),
            "vertex": lambda: vertex_signer(spec, Keys(), URL),
            "azure": lambda: azure_signer(spec, Keys()),
        }[extra]()
    assert refused.value.hint == f"pip install 'arena-reconciler[{extra}]'"
