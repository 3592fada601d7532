"""The webhook's own authority and certificate: what is due now, and making it. No I/O, no clock: `now` is given.

    Keys = trusted authorities (newest first) + the newest one's key + the server's pair

An authority is replaced in two steps: the new one is trusted beside the old one first, and signs only after SETTLE,
when every API server has heard of it. Old ones stay trusted until they expire. So at any moment what is shown is signed
by something that was trusted a while ago.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from scaler.serve.tls import KeyPair

DAY = 86_400.0
AUTHORITY_LIFE = 730 * DAY
AUTHORITY_RENEWED = 365 * DAY
"""Before it expires: longer than a server certificate lives, so that none outlives its authority."""
SERVER_LIFE = 90 * DAY
SERVER_RENEWED = 30 * DAY
SETTLE = 3_600.0
"""From trusting a new authority to using it."""
SKEW = 3_600.0
"""Certificates are valid from this long ago: clocks differ."""
MOST_TRUSTED = 4
"""Authorities at once; two are usual."""

AUTHORITIES, AUTHORITY_KEY, CERTIFICATE, KEY = "ca.crt", "ca.key", "tls.crt", "tls.key"
"""Keys of the Secret, as those of type kubernetes.io/tls and of cert-manager are called."""


class Step(StrEnum):
    """What is to be done with the keys."""

    MAKE = "make"
    NEW_AUTHORITY = "new-authority"
    NEW_CERTIFICATE = "new-certificate"
    NOTHING = "nothing"


class Keys(msgspec.Struct, frozen=True):
    """Everything that the Secret holds. Only `read` and the functions below make them, so they fit together."""

    authorities: tuple[x509.Certificate, ...]
    authority_key: ec.EllipticCurvePrivateKey
    server: KeyPair

    def __repr__(self) -> str:
        return f"Keys({len(self.authorities)} authorities, keys not shown)"

    @property
    def trusted(self) -> bytes:
        """The caBundle: every authority, PEM."""
        return b"".join(_pem(authority) for authority in self.authorities)

    @property
    def certificate(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.server.certificate)

    @property
    def signed_by_newest(self) -> bool:
        return _signed_by(self.certificate, self.authorities[0])


def due(keys: Keys | None, names: Sequence[str], now: float) -> Step:
    """The next step at `now` (seconds since the epoch) for a server that is reached by `names`."""
    if keys is None or _ends(keys.authorities[0]) <= now:
        return Step.MAKE
    newest, shown = keys.authorities[0], keys.certificate
    if not _begins(shown) <= now < _ends(shown) or _names_of(shown) != frozenset(names):
        return Step.NEW_CERTIFICATE  # nobody believes it as it is
    if now >= _ends(newest) - AUTHORITY_RENEWED:
        return Step.NEW_AUTHORITY
    if not keys.signed_by_newest:
        return Step.NEW_CERTIFICATE if now >= _begins(newest) + SKEW + SETTLE else Step.NOTHING
    return Step.NEW_CERTIFICATE if now >= _ends(shown) - SERVER_RENEWED else Step.NOTHING


def advance(keys: Keys | None, names: Sequence[str], now: float) -> Keys | None:
    """The keys after the step that is due; None when nothing is."""
    step = due(keys, names, now)
    if step is Step.NOTHING:
        return None
    if keys is None or step is Step.MAKE:
        authority, key = _authority(now)
        return Keys((authority,), key, _server(authority, key, names, now))
    if step is Step.NEW_AUTHORITY:
        authority, key = _authority(now)
        return Keys((authority, *_alive(keys.authorities, now))[:MOST_TRUSTED], key, keys.server)
    server = _server(keys.authorities[0], keys.authority_key, names, now)
    return Keys(_alive(keys.authorities, now), keys.authority_key, server)


def read(data: Mapping[str, bytes]) -> Keys | None:
    """The keys from a Secret's decoded data; None when they are incomplete, unreadable or do not fit together."""
    try:
        authorities = tuple(x509.load_pem_x509_certificates(data[AUTHORITIES]))
        authority_key = _private_key(data[AUTHORITY_KEY])
        certificate = x509.load_pem_x509_certificate(data[CERTIFICATE])
        fits = authorities[0].public_key() == authority_key.public_key()
        fits = fits and certificate.public_key() == _private_key(data[KEY]).public_key()
    except (KeyError, ValueError, TypeError, x509.InvalidVersion, UnsupportedAlgorithm):
        return None
    fits = fits and any(_signed_by(certificate, authority) for authority in authorities)
    return Keys(authorities, authority_key, KeyPair(data[CERTIFICATE], data[KEY])) if fits else None


def write(keys: Keys) -> dict[str, bytes]:
    """What `read` reads."""
    return {
        AUTHORITIES: keys.trusted,
        AUTHORITY_KEY: _key_pem(keys.authority_key),
        CERTIFICATE: keys.server.certificate,
        KEY: keys.server.key,
    }


def _alive(authorities: Sequence[x509.Certificate], now: float) -> tuple[x509.Certificate, ...]:
    return tuple(authority for authority in authorities if _ends(authority) > now)


def _private_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError("not an elliptic curve key")
    return key


def _signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _authority(now: float) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"mind-cluster-scaler {_moment(now):%Y-%m-%d %H:%M:%S}")])
    builder = _builder(name, name, key, now, now + AUTHORITY_LIFE)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs=True), critical=True)
    return builder.sign(key, hashes.SHA256()), key


def _server(
    authority: x509.Certificate, authority_key: ec.EllipticCurvePrivateKey, names: Sequence[str], now: float
) -> KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mind-cluster-scaler-webhook")])
    ends = min(now + SERVER_LIFE, _ends(authority))
    builder = _builder(subject, authority.subject, key, now, ends)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    builder = builder.add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
    return KeyPair(_pem(builder.sign(authority_key, hashes.SHA256())), _key_pem(key))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: float, ends: float
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_moment(now - SKEW))
        .not_valid_after(_moment(ends))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _names_of(certificate: x509.Certificate) -> frozenset[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return frozenset()
    return frozenset(str(name.value) for name in names)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)


def _begins(certificate: x509.Certificate) -> float:
    return certificate.not_valid_before_utc.timestamp()


def _ends(certificate: x509.Certificate) -> float:
    return certificate.not_valid_after_utc.timestamp()
