"""Certificates of our own making: when one is renewed, whom to trust meanwhile, and how replicas share one."""

import asyncio
import base64
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from foundation.clock import FakeClock
from hooks.certificate_sources import MountedCertificates, SecretCertificates
from hooks.certificates import AUTHORITIES, CHAIN, KEY, LIFE, NEXT_CHAIN, NEXT_KEY, RENEW_BEFORE, STAGED, Certificate, expiry, issue, renewed
from hooks.errors import CertificateUnavailable
from reconcile.cluster.port import SECRET, ObjectKey
from reconcile.cluster.sqlite import SqliteCluster

NAMES = ("arena-webhook.arena-system.svc", "127.0.0.1")
PLACE = ObjectKey("arena-system", "arena-webhook")
NOW = FakeClock().now()
MINUTE = timedelta(minutes=1)
DUE = LIFE - RENEW_BEFORE


def first() -> dict[str, bytes]:
    """Return what is kept after the first look."""
    kept = renewed({}, NAMES, NOW)
    assert kept is not None
    return kept


def staged(before: dict[str, bytes] | None = None) -> dict[str, bytes]:
    """Return what is kept when a successor has just been made."""
    kept = renewed(before or first(), NAMES, NOW + DUE)
    assert kept is not None
    return kept


def trusted(kept: dict[str, bytes], chain: str = CHAIN) -> bool:
    """Say whether one of the kept authorities has signed a certificate."""
    leaf = x509.load_pem_x509_certificate(kept[chain])
    for authority in x509.load_pem_x509_certificates(kept[AUTHORITIES]):
        try:
            leaf.verify_directly_issued_by(authority)
        except (ValueError, InvalidSignature):
            continue
        return True
    return False


def test_what_is_made() -> None:
    """A certificate names every address of the webhook, serves 90 days from now, and is signed by an authority whose key is not kept."""
    kept = first()
    leaf = x509.load_pem_x509_certificate(kept[CHAIN])
    found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert found.get_values_for_type(x509.DNSName) == [NAMES[0]]
    assert [str(address) for address in found.get_values_for_type(x509.IPAddress)] == [NAMES[1]]
    assert expiry(kept[CHAIN]) == NOW + LIFE
    assert leaf.not_valid_before_utc < NOW
    assert trusted(kept)
    assert set(kept) == {CHAIN, KEY, AUTHORITIES}


@pytest.mark.parametrize("after", [timedelta(0), DUE - MINUTE])
def test_nothing_to_do(after: timedelta) -> None:
    """A certificate with more than 30 days left stays."""
    assert renewed(first(), NAMES, NOW + after) is None


def test_a_successor_is_trusted_before_it_is_served() -> None:
    """With 30 days left a successor is kept beside the certificate, which is served on, and both are trusted."""
    before = first()
    kept = staged(before)
    assert (kept[CHAIN], kept[KEY]) == (before[CHAIN], before[KEY])
    assert trusted(kept)
    assert trusted(kept, NEXT_CHAIN)
    assert renewed(kept, NAMES, NOW + DUE + STAGED - MINUTE) is None


def test_a_successor_takes_over() -> None:
    """A day later the successor is served; who still serves the old one stays trusted until the next renewal."""
    waiting = staged()
    kept = renewed(waiting, NAMES, NOW + DUE + STAGED)
    assert kept is not None
    assert (kept[CHAIN], kept[KEY], kept[AUTHORITIES]) == (waiting[NEXT_CHAIN], waiting[NEXT_KEY], waiting[AUTHORITIES])
    assert NEXT_CHAIN not in kept
    assert renewed(kept, NAMES, NOW + DUE + STAGED) is None


def test_trust_does_not_grow() -> None:
    """Over years of renewals no more than two authorities are trusted at a time, and there is never a moment without a valid certificate."""
    kept, now = first(), NOW
    for _ in range(4 * 365):
        now += timedelta(hours=12)
        kept = renewed(kept, NAMES, now) or kept
        assert expiry(kept[CHAIN]) > now
        assert kept[AUTHORITIES].count(b"BEGIN CERTIFICATE") <= 2


DAMAGES = {
    "no certificate": {CHAIN: b""},
    "no PEM": {CHAIN: b"\x00\xff"},
    "no key": {KEY: b""},
    "the key of another": {KEY: issue(NAMES, NOW)[1]},
    "no authority": {AUTHORITIES: b""},
    "the authority of another": {AUTHORITIES: issue(NAMES, NOW)[2]},
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_what_cannot_serve_is_replaced_at_once(damage: dict[str, bytes]) -> None:
    """A certificate that is damaged, or that nobody would trust, gives way to a new one; what else is kept there stays."""
    before = first()
    kept = renewed({**before, **damage, "other": b"kept"}, NAMES, NOW)
    assert kept is not None
    assert kept[CHAIN] != before[CHAIN]
    assert trusted(kept)
    assert kept["other"] == b"kept"


@pytest.mark.parametrize("moment", [pytest.param(NOW + LIFE, id="it has expired"), pytest.param(NOW - timedelta(days=2), id="it is not valid yet")])
def test_out_of_its_time(moment: datetime) -> None:
    """A certificate that is not valid now is replaced, also after a clock was set back."""
    kept = renewed(first(), NAMES, moment)
    assert kept is not None
    assert kept[AUTHORITIES].count(b"BEGIN CERTIFICATE") >= 1
    assert trusted(kept)


def test_another_address() -> None:
    """A certificate without one of the names is replaced, and replicas that still serve it stay trusted."""
    kept = renewed(first(), (*NAMES, "webhook.example.com"), NOW)
    assert kept is not None
    assert kept[AUTHORITIES].count(b"BEGIN CERTIFICATE") == 2


def test_a_damaged_successor_is_made_again() -> None:
    """A successor that could not serve never takes over."""
    waiting = {**staged(), NEXT_KEY: b""}
    kept = renewed(waiting, NAMES, NOW + DUE + STAGED)
    assert kept is not None
    assert kept[CHAIN] == waiting[CHAIN]
    assert trusted(kept, NEXT_CHAIN)


@pytest.fixture
async def store() -> AsyncIterator[SqliteCluster]:
    """Give an empty store."""
    found = SqliteCluster(":memory:", FakeClock())
    yield found
    await found.close()


async def test_replicas_agree(store: SqliteCluster) -> None:
    """Replicas that begin at once end up with one certificate: the first makes it, the others take it."""
    sources = [SecretCertificates(store, PLACE, NAMES, FakeClock()) for _ in range(4)]
    certificates = await asyncio.gather(*(source.current() for source in sources))
    assert certificates == certificates[:1] * 4
    assert (await store.get(SECRET, PLACE.namespace, PLACE.name))["type"] == "kubernetes.io/tls"


async def test_replicas_renew_once(store: SqliteCluster) -> None:
    """The same holds for a renewal: one successor, which all replicas serve a day later."""
    clock = FakeClock()
    sources = [SecretCertificates(store, PLACE, NAMES, clock) for _ in range(4)]
    begun = await sources[0].current()
    await clock.advance(DUE.total_seconds())
    waiting = await asyncio.gather(*(source.current() for source in sources))
    assert {(each.chain, each.authorities) for each in waiting} == {(begun.chain, waiting[0].authorities)}
    await clock.advance(STAGED.total_seconds())
    renewed_ = await asyncio.gather(*(source.current() for source in sources))
    assert renewed_ == renewed_[:1] * 4
    assert renewed_[0].chain != begun.chain
    assert renewed_[0].authorities == waiting[0].authorities


async def test_a_look_writes_nothing(store: SqliteCluster) -> None:
    """A look at a certificate that is good leaves the Secret as it is."""
    source = SecretCertificates(store, PLACE, NAMES, FakeClock())
    await source.current()
    before = await store.get(SECRET, PLACE.namespace, PLACE.name)
    await source.current()
    assert await store.get(SECRET, PLACE.namespace, PLACE.name) == before


async def test_a_secret_of_somebody_else(store: SqliteCluster) -> None:
    """A Secret that is there already is filled: its type, labels and other keys stay, and what is no base64 text of ours is no obstacle."""
    metadata = {"namespace": PLACE.namespace, "name": PLACE.name, "labels": {"team": "a"}}
    data = {CHAIN: base64.b64encode(b"nonsense").decode(), "other": "a2VwdA=="}
    await store.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data})
    certificate = await SecretCertificates(store, PLACE, NAMES, FakeClock()).current()
    stored = await store.get(SECRET, PLACE.namespace, PLACE.name)
    assert (stored["type"], stored["metadata"]["labels"], stored["data"]["other"]) == ("Opaque", {"team": "a"}, "a2VwdA==")
    assert base64.b64decode(stored["data"][CHAIN]) == certificate.chain


def test_the_key_is_not_shown() -> None:
    """A certificate that comes into a log or a traceback does not bring its key along."""
    assert "PRIVATE" not in repr(Certificate.of(first()))


async def test_mounted_files(tmp_path: Path) -> None:
    """Mounted files are served as they are, now and after they were exchanged; nothing is written."""
    source, kept = MountedCertificates(tmp_path), first()
    with pytest.raises(CertificateUnavailable, match="cannot read the certificate"):
        await source.current()
    for name in (CHAIN, KEY):
        (tmp_path / name).write_bytes(kept[name])
    assert await source.current() == Certificate(kept[CHAIN], kept[KEY])
    (tmp_path / AUTHORITIES).write_bytes(kept[AUTHORITIES])
    assert await source.current() == Certificate.of(kept)
