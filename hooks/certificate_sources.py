"""Where the certificate of the webhook comes from: made by ourselves and kept in a Secret, or mounted as files by cert-manager.

Must not know who serves with it.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import anyio
import structlog

from foundation.clock import Clock
from hooks.certificates import AUTHORITIES, CHAIN, KEY, Certificate, renewed
from hooks.errors import CertificateUnavailable
from reconcile.cluster.port import SECRET, Cluster, Object, ObjectKey
from reconcile.errors import AlreadyExists, Conflict, NotFound

_TRIES: Final = 5
_TYPE: Final = "kubernetes.io/tls"

log = structlog.get_logger(__name__)


class CertificateSource(Protocol):
    """Gives the certificate to serve with now. Asked again and again, it renews what it owns and notices what others renew."""

    async def current(self) -> Certificate:
        """Return the certificate that is to be served now.

        Raises:
            CertificateUnavailable: there is none yet, or it cannot be read as it stands.
            ClusterError: the store that keeps it does not answer, or refuses.
        """


class SecretCertificates:
    """Certificates of our own making in a Secret that all replicas share: whoever comes first makes one, the others take it.

    A Secret that is there already is filled and keeps its type, its labels and its other keys.
    """

    def __init__(self, cluster: Cluster, secret: ObjectKey, names: Sequence[str], clock: Clock) -> None:
        self._cluster = cluster
        self._secret = secret
        self._names = tuple(names)
        self._clock = clock

    async def current(self) -> Certificate:
        """Return the certificate to serve with, made or renewed first where that is due (see `CertificateSource.current`)."""
        for _ in range(_TRIES):
            stored = await self._read()
            kept = _decoded((stored or {}).get("data") or {})
            wanted = renewed(kept, self._names, self._clock.now())
            if wanted is None:
                return Certificate.of(kept)
            try:
                await self._write(stored, wanted)
            except (Conflict, AlreadyExists):
                continue  # another replica was first: what it has made is as good
            log.info("certificate.renewed", secret=str(self._secret))
            return Certificate.of(wanted)
        raise CertificateUnavailable(f"cannot keep a certificate in Secret '{self._secret}': it changes all the time")

    async def _read(self) -> Object | None:
        try:
            return await self._cluster.get(SECRET, self._secret.namespace, self._secret.name)
        except NotFound:
            return None

    async def _write(self, stored: Object | None, kept: Mapping[str, bytes]) -> None:
        data = {name: base64.b64encode(text).decode() for name, text in kept.items()}
        if stored is not None:
            await self._cluster.update({**stored, "data": data})
            return
        metadata = {"namespace": self._secret.namespace, "name": self._secret.name, "labels": {"app.kubernetes.io/managed-by": "arena"}}
        await self._cluster.create({"apiVersion": SECRET.api_version, "kind": SECRET.kind, "metadata": metadata, "type": _TYPE, "data": data})


class MountedCertificates:
    """Certificates that cert-manager, or anyone, keeps in a mounted Secret: `tls.crt`, `tls.key` and, if callers are to hear of it, `ca.crt`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def current(self) -> Certificate:
        """Return what the files hold now (see `CertificateSource.current`). While they are exchanged, key and certificate may be of two ages."""
        return await anyio.to_thread.run_sync(self._read)

    def _read(self) -> Certificate:
        authorities = self._folder / AUTHORITIES
        try:
            chain, key = ((self._folder / name).read_bytes() for name in (CHAIN, KEY))
            return Certificate(chain, key, authorities.read_bytes() if authorities.is_file() else b"")
        except OSError as error:
            raise CertificateUnavailable(
                f"cannot read the certificate in '{self._folder}': {error.strerror}", hint=f"mount a Secret with {CHAIN} and {KEY} there"
            ) from error


def _decoded(data: Mapping[str, str]) -> dict[str, bytes]:
    decoded = {}
    for name, text in data.items():
        try:
            decoded[name] = base64.b64decode(text)
        except (binascii.Error, ValueError):
            continue
    return decoded
