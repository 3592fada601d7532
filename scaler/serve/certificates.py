"""The webhook's own certificate: what is due now, and making it. No I/O, no clock: `now` is given.

    Keys = the pair that is shown + the pair that comes next, while there is one + the certificate shown before

Each certificate signs itself and is trusted by itself: no key exists that could vouch for anything else. One is
replaced in two steps: the new one is trusted beside the old one first, and shown only after SETTLE, when every API
server has heard of it. The old one stays trusted, because another replica may show it for a while.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = 86_400.0
LIFE = 180 * DAY
RENEWED = 60 * DAY
"""Before it ends."""
SETTLE = 3_600.0
"""From trusting a new certificate to showing it."""
SKEW = 3_600.0
"""Certificates are valid from this long ago: clocks differ."""

TRUSTED, REPLACED = "ca.crt", "replaced.crt"
SHOWN, COMING = ("tls.crt", "tls.key"), ("next.crt", "next.key")
"""Keys of the Secret; those of what is shown as in type kubernetes.io/tls."""
_UNREADABLE = (KeyError, ValueError, TypeError, Warning, x509.InvalidVersion, UnsupportedAlgorithm)
"""What cryptography warns of today (a serial number that is not positive), it will refuse."""


class KeyPair(msgspec.Struct, frozen=True):
    """A certificate (chain) and its private key, both PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"KeyPair(certificate of {len(self.certificate)} bytes, key not shown)"


class Keys(msgspec.Struct, frozen=True):
    """Everything that the Secret holds. Only `read` and `advance` make them, so they fit together."""

    shown: KeyPair
    coming: KeyPair | None = None
    replaced: bytes = b""

    @property
    def trusted(self) -> bytes:
        """The caBundle, PEM."""
        return b"".join((self.shown.certificate, self.coming.certificate if self.coming else b"", self.replaced))


def advance(keys: Keys | None, name: str, now: float) -> Keys | None:
    """The keys after what is due at `now` (seconds since the epoch) for a server that is reached by `name`; None when
    nothing is."""
    if keys is None:
        return Keys(_made(name, now))
    if keys.coming is not None and believed(keys.coming, name, now - SETTLE - SKEW):
        return Keys(keys.coming, None, keys.shown.certificate)
    if not believed(keys.shown, name, now):
        return Keys(_made(name, now))
    if keys.coming is None and now >= ends(keys.shown) - RENEWED:
        return Keys(keys.shown, _made(name, now), keys.replaced)
    return None


def read(data: Mapping[str, bytes]) -> Keys | None:
    """The keys from a Secret's decoded data; None when what it holds is incomplete, unreadable or does not fit."""
    try:
        shown = _pair(data, *SHOWN)
        coming = _pair(data, *COMING) if COMING[0] in data else None
        replaced = _pem(_certificate(data[REPLACED])) if REPLACED in data else b""
    except _UNREADABLE:
        return None
    return Keys(shown, coming, replaced)


def write(keys: Keys) -> dict[str, bytes]:
    """What `read` reads, and what is trusted, for people."""
    data = {TRUSTED: keys.trusted}
    for (certificate, key), pair in ((SHOWN, keys.shown), (COMING, keys.coming)):
        if pair is not None:
            data |= {certificate: pair.certificate, key: pair.key}
    return data | {REPLACED: keys.replaced} if keys.replaced else data


def _pair(data: Mapping[str, bytes], certificate: str, key: str) -> KeyPair:
    """Raises one of `_UNREADABLE`."""
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
    """Whether a client that trusts it accepts it: valid now, and for this name."""
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return False
    begins = certificate.not_valid_before_utc.timestamp()
    return [str(one.value) for one in found] == [name] and begins <= now < ends(pair)


def _made(name: str, now: float) -> KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    common_name = f"mind-cluster-scaler {_moment(now):%Y-%m-%d %H:%M:%S}"
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
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
    return KeyPair(_pem(certificate), key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def ends(pair: KeyPair) -> float:
    """Until when the certificate is valid, in seconds since the epoch. ValueError when there is none to be read."""
    return x509.load_pem_x509_certificate(pair.certificate).not_valid_after_utc.timestamp()


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)
