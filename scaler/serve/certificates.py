"""The webhook's own certificate: which step is due now, and how a pair is made. No I/O, no clock:
`now` is given.

    Keys = the pair in use + the next pair, while there is one + the certificate that was in use
    before

Each certificate is self-signed and is itself what clients trust: there is no CA key that could sign
another one. A certificate is replaced in two steps: clients first trust the new one beside the old
one; SETTLE later, when every API server has read this, the servers use the new one. The old one
stays trusted: another replica may use it for a while."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

DAY = 86_400.0
LIFE = 180 * DAY
RENEWED = 60 * DAY
"""Seconds before its end at which a certificate is replaced."""
SETTLE = 3_600.0
"""Seconds from the moment clients trust a new certificate to its use."""
SKEW = 3_600.0
"""Seconds by which a certificate is valid before it is made: clocks differ."""

TRUSTED = "ca.crt"
REPLACED = "replaced.crt"
SHOWN = ("tls.crt", "tls.key")
COMING = ("next.crt", "next.key")
"""Keys of the Secret; the first two as in type kubernetes.io/tls."""
_UNREADABLE = (KeyError, ValueError, TypeError, Warning, x509.InvalidVersion, UnsupportedAlgorithm)
"""Errors and warnings. Today cryptography only warns of a serial number that is not positive; later
it will refuse."""


class KeyPair(msgspec.Struct, frozen=True):
    """A certificate (chain) and its private key, both PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"KeyPair(certificate of {len(self.certificate)} bytes, key not shown)"


class Keys(msgspec.Struct, frozen=True):
    """The content of the Secret. Only `read` and `advance` make it, so its certificates and keys
    fit together."""

    shown: KeyPair
    coming: KeyPair | None = None
    replaced: bytes = b""

    @property
    def trusted(self) -> bytes:
        """The caBundle, PEM."""
        return b"".join(
            (self.shown.certificate, self.coming.certificate if self.coming else b"", self.replaced)
        )


def advance(keys: Keys | None, name: str, now: float) -> Keys | None:
    """The keys after the step that is due at `now` (seconds since the epoch), for a server that
    clients reach by `name`; None when no step is due."""
    if keys is None:
        return Keys(made(name, now))
    if keys.coming is not None and believed(keys.coming, name, now - SETTLE - SKEW):
        return Keys(keys.coming, None, keys.shown.certificate)
    if not believed(keys.shown, name, now):
        return Keys(made(name, now))
    if keys.coming is None and now >= ends(keys.shown) - RENEWED:
        return Keys(keys.shown, made(name, now), keys.replaced)
    return None


def read(data: Mapping[str, bytes]) -> Keys | None:
    """The keys from the decoded data of a Secret; None when they are incomplete, unreadable or no
    pairs."""
    try:
        shown = _pair(data, *SHOWN)
        coming = _pair(data, *COMING) if COMING[0] in data else None
        replaced = _pem(_certificate(data[REPLACED])) if REPLACED in data else b""
    except _UNREADABLE:
        return None
    return Keys(shown, coming, replaced)


def write(keys: Keys) -> dict[str, bytes]:
    """The data of the Secret: what `read` reads, and the trusted certificates, for people."""
    data = {TRUSTED: keys.trusted}
    for (certificate, key), pair in ((SHOWN, keys.shown), (COMING, keys.coming)):
        if pair is not None:
            data |= {certificate: pair.certificate, key: pair.key}
    return data | {REPLACED: keys.replaced} if keys.replaced else data


def _pair(data: Mapping[str, bytes], certificate: str, key: str) -> KeyPair:
    """The pair under two keys of `data`. Raises one of `_UNREADABLE`."""
    parsed = _certificate(data[certificate])
    private = serialization.load_pem_private_key(data[key], None)
    if parsed.public_key() != private.public_key():
        raise ValueError("the key is not that of the certificate")
    return KeyPair(_pem(parsed), data[key])


def _certificate(text: bytes) -> x509.Certificate:
    found = x509.load_pem_x509_certificate(text)
    if found.serial_number <= 0:
        raise ValueError("its serial number is not positive")
    return found


def believed(pair: KeyPair, name: str, now: float) -> bool:
    """Whether a client that trusts the certificate accepts it: the certificate is valid now, and
    for `name`."""
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return False
    begins = certificate.not_valid_before_utc.timestamp()
    return [str(one.value) for one in found] == [name] and begins <= now < ends(pair)


def made(name: str, now: float) -> KeyPair:
    """A new key with a certificate for `name` that it signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name.from_rfc4514_string(
        f"CN=mind-cluster-scaler {_moment(now):%Y-%m-%d %H:%M:%S}"
    )
    try:
        reached_by: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        reached_by = x509.DNSName(name)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_moment(now - SKEW))
        .not_valid_after(_moment(now + LIFE))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([reached_by]), critical=False)
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8
    return KeyPair(
        _pem(certificate),
        key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()),
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def ends(pair: KeyPair) -> float:
    """The end of the certificate in seconds since the epoch. ValueError when the certificate is
    unreadable."""
    return x509.load_pem_x509_certificate(pair.certificate).not_valid_after_utc.timestamp()


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)
