"""From a project's spec and its Secret to the remote that `gitops` fetches.

Owns which keys of the Secret mean what. Keeps no credential: each fetch reads the Secret afresh, so a rotated one is used at once.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from gitops.remote import Credentials, Remote
from reconcile.cluster.port import SECRET, Cluster, Object
from reconcile.errors import NotFound
from reconcile.kinds.project import External
from reconcile.kinds.reasons import ProjectReason
from reconcile.project.problems import SourceProblem

USERNAME, PASSWORD, TOKEN, CA_CERTIFICATES = "username", "password", "token", "ca.crt"


async def find_secret(cluster: Cluster, namespace: str, external: External) -> Object | None:
    """Return the Secret that `secretRef` names; None when it names none, or there is none."""
    if external.secret_ref is None:
        return None
    try:
        return await cluster.get(SECRET, namespace, external.secret_ref.name)
    except NotFound:
        return None


def secret_version(secret: Object | None) -> str:
    """Return what tells one state of a Secret from another, "" for none."""
    return str(secret["metadata"]["resourceVersion"]) if secret else ""


def remote_of(external: External, secret: Object | None) -> Remote:
    """Return the remote with its credentials; `secret` is what `find_secret` found.

    Raises:
        SourceProblem: AuthenticationFailed: the Secret that `secretRef` names, or a key of it, is missing or cannot be read.
    """
    credentials = Credentials()
    if external.secret_ref is not None:
        if secret is None:
            raise SourceProblem(ProjectReason.AUTHENTICATION_FAILED, f"Secret '{external.secret_ref.name}' does not exist", hint="create it")
        credentials = _credentials(_Keys(secret))
    return Remote(external.url, credentials, external.default_branch or "")


def _credentials(keys: "_Keys") -> Credentials:
    username, password, token = keys.line(USERNAME), keys.line(PASSWORD), keys.line(TOKEN)
    certificates = keys.text(CA_CERTIFICATES)
    if token:
        return Credentials(username=username, token=token, ca_certificates=certificates)
    if username or password:
        for key, value in ((USERNAME, username), (PASSWORD, password)):
            if not value:
                raise keys.problem(f"has no key '{key}'")
    elif not certificates:
        raise keys.problem(f"has neither '{TOKEN}' nor '{USERNAME}' and '{PASSWORD}'")
    return Credentials(username=username, password=password, ca_certificates=certificates)


class _Keys:
    """The keys of one Secret as text."""

    def __init__(self, secret: Mapping[str, Any]) -> None:
        self._name = secret["metadata"]["name"]
        self._data: Mapping[str, str] = secret.get("data") or {}

    def text(self, key: str) -> str:
        """Return a key's value, "" when it is missing."""
        try:
            return base64.b64decode(self._data.get(key) or "", validate=True).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise self.problem(f"holds no text under '{key}'") from error

    def line(self, key: str) -> str:
        """Return a key's value without the line feed that `echo` leaves behind."""
        value = self.text(key).strip("\r\n")
        if not value.isprintable():
            raise self.problem(f"holds more than one line, or a control character, under '{key}'")
        return value

    def problem(self, cause: str) -> SourceProblem:
        """Return the refusal of this Secret; it quotes no value."""
        hint = f"give it '{TOKEN}', or '{USERNAME}' and '{PASSWORD}'; '{CA_CERTIFICATES}' may stand beside them"
        return SourceProblem(ProjectReason.AUTHENTICATION_FAILED, f"Secret '{self._name}' {cause}", hint=hint)
