"""How clouds that host models are asked who we are: AWS signs each request, Google and Azure give out tokens.

Owns which library of a cloud makes the proof, out of what; each is an extra, imported when a provider needs it. They block, so they work in a thread.
A proof for one cloud goes to that cloud's own hosts, unless whoever runs the job named another.
"""

import importlib
import json
import re
from asyncio import Lock
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from anyio import CapacityLimiter, to_thread

from engine.errors import CredentialMissing, FeatureNotSupported, ProviderError
from engine.providers.credentials import ApiKey, Keys, Signer
from engine.providers.refusals import shortened

Spec = Mapping[str, Any]
_T = TypeVar("_T")

_THREADS: Final = 4
_GOOGLE_SCOPES: Final = ("https://www.googleapis.com/auth/cloud-platform",)
AZURE_SCOPE: Final = "https://cognitiveservices.azure.com/.default"
_ACCESS_KEY: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_PRINCIPAL: Final = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET")
_HOSTS: Final[Mapping[str, re.Pattern[str]]] = {
    "bedrock": re.compile(r"bedrock-runtime(-fips)?\.[a-z]{2,4}(-[a-z]+)+-\d{1,2}\.(amazonaws\.com(\.cn)?|api\.aws)"),
    "vertex": re.compile(r"([a-z0-9-]+-)?aiplatform(\.[a-z0-9-]+\.rep)?\.googleapis\.com"),
    "azure": re.compile(r"[a-z0-9-]+\.(openai|cognitiveservices|services\.ai)\.azure\.(com|us|cn)"),
}
"""The hosts of each cloud's models alone: under its domains, customers have hosts as well (API gateways, buckets, virtual machines)."""
_GOOGLE_TOKENS: Final = "https://oauth2.googleapis.com/token"


class BedrockSigner:
    """Signature Version 4 by botocore. `find` returns botocore's credentials, None when there are none; it is asked once."""

    def __init__(self, region: str, find: Callable[[], Any]) -> None:
        self._region = region
        self._find = find
        self._credentials: Any = None
        self._lock = Lock()
        self._threads = CapacityLimiter(_THREADS)
        self._auth = importlib.import_module("botocore.auth").SigV4Auth
        self._request = importlib.import_module("botocore.awsrequest").AWSRequest

    async def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Return the signature of one request, and what it was made at and with.

        Raises:
            ProviderError: there are no credentials (`authentication`), or who gives them is out (`unavailable`).
        """
        async with self._lock:
            if self._credentials is None:
                self._credentials = await self._blocking(self._find)
            if self._credentials is None:
                raise _no_proof("AWS gives this process no credentials")
            wears_out = getattr(self._credentials, "refresh_needed", None)
            if wears_out is not None and wears_out():
                frozen = await self._blocking(self._credentials.get_frozen_credentials)
            else:
                frozen = self._credentials.get_frozen_credentials()
        request = self._request(method=method, url=url, data=body)
        self._auth(frozen, "bedrock", self._region).add_auth(request)
        return {str(name): str(value) for name, value in request.headers.items()}

    async def _blocking(self, work: Callable[[], _T]) -> _T:
        errors = importlib.import_module("botocore.exceptions")
        try:
            return await to_thread.run_sync(work, limiter=self._threads)
        except errors.ClientError as error:
            raise _no_proof(str(error)) from None
        except errors.BotoCoreError as error:
            raise _out(str(error)) from None


class VertexSigner:
    """A token by google-auth. `find` returns its credentials; it is asked once."""

    def __init__(self, find: Callable[[], Any]) -> None:
        self._find = find
        self._credentials: Any = None
        self._lock = Lock()
        self._threads = CapacityLimiter(_THREADS)

    async def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Return a token that is still good, and the project that pays where the credentials name one.

        Raises:
            ProviderError: there are no credentials (`authentication`), or who gives tokens is out (`unavailable`).
        """
        del method, url, body
        async with self._lock:
            if self._credentials is None or not self._credentials.valid:
                await self._renew()
        token, payer = self._credentials.token, getattr(self._credentials, "quota_project_id", None)
        return {"Authorization": f"Bearer {token}", **({"x-goog-user-project": payer} if payer else {})}

    async def _renew(self) -> None:
        errors = importlib.import_module("google.auth.exceptions")
        try:
            await to_thread.run_sync(self._renew_blocking, limiter=self._threads)
        except errors.TransportError as error:
            raise _out(str(error)) from None
        except errors.GoogleAuthError as error:
            if getattr(error, "retryable", False):
                raise _out(str(error)) from None
            raise _no_proof(str(error)) from None

    def _renew_blocking(self) -> None:
        if self._credentials is None:
            self._credentials = self._find()
        self._credentials.refresh(importlib.import_module("google.auth.transport.requests").Request())


class AzureSigner:
    """A token of Entra by azure-identity, which keeps it until it runs out."""

    def __init__(self, credential: Any, scope: str = AZURE_SCOPE) -> None:
        self._credential = credential
        self._scope = scope
        self._threads = CapacityLimiter(_THREADS)

    async def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Return a token.

        Raises:
            ProviderError: there are no credentials (`authentication`), or who gives tokens is out (`unavailable`).
        """
        del method, url, body
        errors = importlib.import_module("azure.core.exceptions")
        try:
            token = await to_thread.run_sync(self._credential.get_token, self._scope, limiter=self._threads)
        except errors.ClientAuthenticationError as error:
            raise _no_proof(str(error)) from None
        except errors.AzureError as error:
            raise _out(str(error)) from None
        return {"Authorization": f"Bearer {token.token}"}


def bedrock_signer(spec: Spec, keys: Keys, url: str, region: str) -> Signer:
    """Return who signs for Bedrock: its API key, an access key of the job's, or whoever AWS knows this process as; `auth.role_arn` is then assumed.

    Raises:
        FeatureNotSupported: botocore is not installed, or the host is not AWS's.
        CredentialMissing: what the spec names is not there.
    """
    _check_host(spec, url, "bedrock")
    if key := keys.of(spec):
        return ApiKey(key)
    session = _library(spec, "botocore.session", "bedrock")
    given = _given(spec, keys) or _standing(keys, _ACCESS_KEY, "AWS_SESSION_TOKEN")
    if lacking := [name for name in _ACCESS_KEY if given and name not in given]:
        raise _missing(spec, f"its access key needs {', '.join(lacking)}")

    def find() -> Any:
        of_aws = session.get_session()
        of_aws.set_config_variable("region", region)
        if given:
            of_aws.set_credentials(given["AWS_ACCESS_KEY_ID"], given["AWS_SECRET_ACCESS_KEY"], given.get("AWS_SESSION_TOKEN"))
        role = (spec.get("auth") or {}).get("role_arn")
        own = of_aws.get_credentials()
        if own is None or not role or role == keys.environment.get("AWS_ROLE_ARN"):
            return own
        made = importlib.import_module("botocore.credentials")
        fetcher = made.AssumeRoleCredentialFetcher(of_aws.create_client, own, role, extra_args={"RoleSessionName": "arena"})
        return made.DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")

    return BedrockSigner(region, find)


def vertex_signer(spec: Spec, keys: Keys, url: str) -> Signer:
    """Return who signs for Vertex: a service account's key of the job's, or whoever Google knows this process as.

    A file or a variable that the spec names holds such a key, or a token. `auth.service_account_email` is then impersonated.

    Raises:
        FeatureNotSupported: google-auth is not installed, or the host is not Google's.
        CredentialMissing: what the spec names is not there, or is no key of a service account.
    """
    _check_host(spec, url, "vertex")
    named = keys.document(spec)
    if named and not named.startswith("{"):
        return ApiKey(keys.of(spec))
    google = _library(spec, "google.auth", "vertex")
    account = _account(spec, named or next(iter(_given(spec, keys).values()), ""))
    email = (spec.get("auth") or {}).get("service_account_email")

    def find() -> Any:
        if account is not None:
            made = importlib.import_module("google.oauth2.service_account").Credentials
            own = made.from_service_account_info(account, scopes=_GOOGLE_SCOPES)
        else:
            own, _ = google.default(scopes=_GOOGLE_SCOPES)
        if not email or getattr(own, "service_account_email", None) == email:
            return own
        impersonated = importlib.import_module("google.auth.impersonated_credentials").Credentials
        return impersonated(source_credentials=own, target_principal=email, target_scopes=_GOOGLE_SCOPES)

    return VertexSigner(find)


def azure_signer(spec: Spec, keys: Keys, scope: str = AZURE_SCOPE) -> Signer:
    """Return who signs for Azure without a key, for a `scope`: a service principal of the job's, or whoever Entra knows this process as.

    Raises:
        FeatureNotSupported: azure-identity is not installed, or the host is not Azure's.
        CredentialMissing: what the spec names is not there.
    """
    _check_host(spec, str((spec.get("platform") or {}).get("endpoint") or spec.get("base_url") or ""), "azure")
    identity = _library(spec, "azure.identity", "azure")
    given = _given(spec, keys) or _standing(keys, _PRINCIPAL)
    if not given:
        return AzureSigner(identity.DefaultAzureCredential(), scope)
    if lacking := [name for name in _PRINCIPAL if name not in given]:
        raise _missing(spec, f"its service principal needs {', '.join(lacking)}")
    return AzureSigner(identity.ClientSecretCredential(*(given[name] for name in _PRINCIPAL)), scope)


def _given(spec: Spec, keys: Keys) -> dict[str, str]:
    """Return the values of the job's own Secret, by its keys."""
    named = (spec.get("auth") or {}).get("variables") or {}
    return {key: value for key, variable in named.items() if (value := keys.environment.get(variable, "").strip())}


def _standing(keys: Keys, needed: tuple[str, ...], *more: str) -> dict[str, str]:
    """Return what stands in the environment under a cloud's own names, nothing unless all that is `needed` does.

    The libraries would find it by themselves in the process's environment; what a job gives its workers is not always there.
    """
    found = {name: value for name in (*needed, *more) if (value := keys.environment.get(name, "").strip())}
    return found if all(name in found for name in needed) else {}


def _account(spec: Spec, text: str) -> dict[str, Any] | None:
    """Return a service account's key, None where the spec names none."""
    if not text:
        return None
    try:
        account = json.loads(text)
    except (ValueError, RecursionError):
        account = None
    if not isinstance(account, dict) or account.get("type") != "service_account":
        raise _missing(spec, "what it names is no key of a service account in JSON")
    if not spec.get("from_job") and account.get("token_uri", _GOOGLE_TOKENS) != _GOOGLE_TOKENS:
        raise _missing(spec, f"its tokens come from elsewhere than {_GOOGLE_TOKENS}, and a bundle may send us to nobody else for them")
    return account


def _library(spec: Spec, name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.replace(".", "-") if extra != "bedrock" else "botocore"
        raise FeatureNotSupported(
            f"cannot ask provider '{spec.get('id', '')}': {package} is not installed, which proves to {extra} who asks",
            hint=f"pip install 'arena-reconciler[{extra}]'",
        ) from None


def _check_host(spec: Spec, url: str, platform: str) -> None:
    host = urlsplit(url).hostname or ""
    if not spec.get("from_job") and not (_HOSTS[platform].fullmatch(host) and url.startswith("https://")):
        raise FeatureNotSupported(
            f"cannot ask provider '{spec.get('id', '')}': '{host}' is no host of {platform}, and a bundle may send our proof to nobody else",
            hint="leave out base_url and platform.endpoint, or name the provider in the job",
        )


def _missing(spec: Spec, cause: str) -> CredentialMissing:
    return CredentialMissing(f"cannot ask provider '{spec.get('id', '')}': {cause}")


def _no_proof(words: str) -> ProviderError:
    return ProviderError(f"cannot sign the request: {shortened(words)}", kind="authentication", transient=False)


def _out(words: str) -> ProviderError:
    return ProviderError(f"cannot sign the request: {shortened(words)}", kind="unavailable", transient=True)
