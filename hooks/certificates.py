"""A serving certificate and the authority that vouches for it, made and renewed by ourselves.

Pure: from what is kept and the time to what is to be kept. Every renewal has an authority of its own whose key is thrown away at once, so there is
none to be stolen. Who is to trust an authority hears of it a day before anything is served that it signed. Must not know where it is kept.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFE: Final = timedelta(days=90)
RENEW_BEFORE: Final = timedelta(days=30)
"""What is left of a certificate's life when its successor is made."""
STAGED: Final = timedelta(days=1)
"""How long a successor waits, its authority already trusted, before it is served."""
SKEW: Final = timedelta(hours=1)
"""How far a caller's clock may be behind ours."""

CHAIN, KEY, AUTHORITIES = "tls.crt", "tls.key", "ca.crt"
"""Names under which certificates are kept, those of cert-manager and of Secrets of type kubernetes.io/tls."""
NEXT_CHAIN, NEXT_KEY = "next.crt", "next.key"
"""The successor, before it is served."""

Kept = Mapping[str, bytes]
"""PEM texts by their names."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a server shows and what its callers trust, in PEM. `authorities` is b"" where somebody else tells the callers."""

    chain: bytes
    key: bytes = field(repr=False)
    authorities: bytes = b""

    @classmethod
    def of(cls, kept: Kept) -> "Certificate":
        """Return the certificate that is to be served now.

        Raises:
            KeyError: there is none.
        """
        return cls(kept[CHAIN], kept[KEY], kept.get(AUTHORITIES, b""))


def renewed(kept: Kept, names: Sequence[str], now: datetime) -> dict[str, bytes] | None:
    """Return what is to be kept instead, None when nothing is to be done. `names` are DNS names and addresses, at least one.

    A certificate that cannot serve (none, damaged, expired, without one of the names, signed by none of the authorities) is replaced at once. One that
    ends within 30 days gets a successor, which takes its place a day later. Authorities of what other processes may still serve stay trusted.
    """
    current, successor = _pair(kept, CHAIN, KEY), _pair(kept, NEXT_CHAIN, NEXT_KEY)
    if current is None or not _can_serve(current, kept, names, now):
        chain, key, authority = issue(names, now)
        return {**_without_successor(kept), CHAIN: chain, KEY: key, AUTHORITIES: authority + _still_needed(kept, current, now)}
    if current.not_valid_after_utc - now > RENEW_BEFORE:
        return None
    if successor is None or not _can_serve(successor, kept, names, now):
        chain, key, authority = issue(names, now)
        return {**kept, NEXT_CHAIN: chain, NEXT_KEY: key, AUTHORITIES: authority + _still_needed(kept, current, now)}
    if now - successor.not_valid_before_utc < STAGED + SKEW:
        return None
    return {**_without_successor(kept), CHAIN: kept[NEXT_CHAIN], KEY: kept[NEXT_KEY]}


def issue(names: Sequence[str], now: datetime, life: timedelta = LIFE) -> tuple[bytes, bytes, bytes]:
    """Return a new certificate, its key, and the certificate of its authority, each in PEM, valid from an hour ago."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority_name, name = _name("arena webhook authority"), _name("arena webhook")
    authority = (
        _draft(authority_name, authority_name, authority_key.public_key(), (now - SKEW, now + life))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    leaf = (
        _draft(name, authority_name, key.public_key(), (now - SKEW, now + life))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return leaf.public_bytes(Encoding.PEM), private, authority.public_bytes(Encoding.PEM)


def expiry(chain: bytes) -> datetime:
    """Return when the first certificate of a chain ends.

    Raises:
        ValueError: there is no certificate.
    """
    return x509.load_pem_x509_certificate(chain).not_valid_after_utc


def _draft(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, validity: tuple[datetime, datetime]) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key).serial_number(x509.random_serial_number())
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    return builder.not_valid_before(validity[0]).not_valid_after(validity[1])


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pair(kept: Kept, chain: str, key: str) -> x509.Certificate | None:
    """Return the certificate under a name if it can be read and its key belongs to it."""
    try:
        certificate = x509.load_pem_x509_certificate(kept.get(chain, b""))
        private = load_pem_private_key(kept.get(key, b""), None)
    except (ValueError, TypeError):
        return None
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return certificate if private.public_key().public_bytes(*form) == certificate.public_key().public_bytes(*form) else None


def _can_serve(certificate: x509.Certificate, kept: Kept, names: Sequence[str], now: datetime) -> bool:
    if not certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc:
        return False
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    return all(_alternative(name) in found for name in names) and any(_has_signed(each, certificate) for each in _authorities(kept))


def _still_needed(kept: Kept, current: x509.Certificate | None, now: datetime) -> bytes:
    """Return the authorities of what may still be served by a process that has not looked since."""
    needed = [each for each in _authorities(kept) if current is not None and now < each.not_valid_after_utc and _has_signed(each, current)]
    return b"".join(each.public_bytes(Encoding.PEM) for each in needed)


def _authorities(kept: Kept) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(kept.get(AUTHORITIES, b""))
    except ValueError:
        return []


def _has_signed(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _without_successor(kept: Kept) -> dict[str, bytes]:
    return {name: text for name, text in kept.items() if name not in (NEXT_CHAIN, NEXT_KEY)}
