"""What the webhook shows is believed at every moment, whatever happens when; judged as an API
server would."""

from __future__ import annotations

import base64
import re
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.serve.certificates import (
    DAY,
    LIFE,
    RENEWED,
    SETTLE,
    KeyPair,
    Keys,
    advance,
    read,
    write,
)

NAME = "mind-cluster-scaler-webhook.mind-cluster-scaler-system.svc"
START = 1_800_000_000.0


def made(now: float = START) -> Keys:
    keys = advance(None, NAME, now)
    assert keys is not None
    return keys


def replacing() -> Keys:
    both = advance(made(), NAME, START + LIFE - RENEWED)
    assert both is not None
    return both


def parsed(pair: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


def believed(keys: Keys, trusted: bytes, now: float) -> bool:
    """Whether somebody who trusts these certificates believes what is shown."""
    shown = parsed(keys.shown)
    if not shown.not_valid_before_utc.timestamp() <= now < shown.not_valid_after_utc.timestamp():
        return False
    return shown in x509.load_pem_x509_certificates(trusted)


def test_the_first_keys_are_believed_at_once_and_need_nothing() -> None:
    keys = made()
    assert believed(keys, keys.trusted, START)
    assert advance(keys, NAME, START) is None
    assert read(write(keys)) == keys


def test_the_certificate_is_for_a_server_of_these_names_and_can_sign_nothing() -> None:
    extensions = parsed(made().shown).extensions
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [NAME]
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.SERVER_AUTH
    ]


def test_an_address_is_a_name_too_and_for_another_name_a_certificate_is_made_at_once() -> None:
    keys = advance(None, "127.0.0.1", START)
    assert keys is not None
    assert advance(keys, "127.0.0.1", START) is None
    other = advance(keys, NAME, START)
    assert other is not None
    assert other.coming is None


def test_a_new_certificate_is_trusted_before_it_is_shown_and_the_old_one_after_it() -> None:
    keys = made()
    now = START + LIFE - RENEWED
    assert advance(keys, NAME, now - 1) is None
    both = advance(keys, NAME, now)
    assert both is not None
    assert both.shown == keys.shown
    assert believed(both, keys.trusted, now)
    assert read(write(both)) == both
    assert advance(both, NAME, now + SETTLE - 1) is None
    after = advance(both, NAME, now + SETTLE)
    assert after is not None
    assert after.shown == both.coming
    assert believed(after, both.trusted, now + SETTLE)
    assert believed(keys, after.trusted, now + SETTLE)
    assert read(write(after)) == after


_PAUSES = st.lists(st.floats(1, 25 * DAY) | st.floats(1, 2 * SETTLE), min_size=1, max_size=40)
"""Shorter than the two that a replacement takes out of the two months before the end."""


@settings(max_examples=40, deadline=None)
@given(_PAUSES, st.floats(0, 30 * DAY), _PAUSES)
def test_what_is_shown_is_believed_by_whoever_heard_of_the_certificates_an_hour_ago(
    pauses: list[float], outage: float, more: list[float]
) -> None:
    now = START
    keys = made()
    heard = [(now, keys.trusted)]
    for pause in [*pauses, outage, *more]:
        now += pause
        keys = advance(keys, NAME, now) or keys
        heard.append((now, keys.trusted))
        trusted = next(
            (bundle for at, bundle in reversed(heard) if at <= now - SETTLE), heard[0][1]
        )
        assert believed(keys, trusted, now)
        assert len(x509.load_pem_x509_certificates(keys.trusted)) <= 3
        assert read(write(keys)) == keys


def test_a_new_certificate_that_was_trusted_long_ago_is_shown_when_the_old_one_has_ended() -> None:
    both = replacing()
    now = START + LIFE + DAY
    late = advance(both, NAME, now)
    assert late is not None
    assert late.shown == both.coming
    assert believed(late, both.trusted, now)


def test_keys_that_nobody_looked_after_for_years_are_made_anew() -> None:
    keys = made()
    now = START + 800 * DAY
    made_anew = advance(keys, NAME, now)
    assert made_anew is not None
    assert believed(made_anew, made_anew.trusted, now)
    assert made_anew.shown != keys.shown


@pytest.mark.parametrize("field", ["tls.crt", "tls.key", "next.crt"])
def test_keys_that_are_incomplete_or_do_not_fit_together_are_not_read(field: str) -> None:
    data = write(replacing())
    other = write(replacing())
    if field == "next.crt":
        assert read({key: value for key, value in data.items() if key != "next.key"}) is None
    else:
        assert read({key: value for key, value in data.items() if key != field}) is None
    assert read(data | {field: b""}) is None
    assert read(data | {field: other[field]}) is None


def test_a_certificate_whose_serial_number_is_negative_is_not_read() -> None:
    data = write(made())
    der = x509.load_pem_x509_certificate(data["tls.crt"]).public_bytes(serialization.Encoding.DER)
    # behind the version, and type and length of the serial number
    at = der.index(b"\x02\x01\x02\x02") + 5
    spoilt = der[:at] + bytes([der[at] | 0x80]) + der[at + 1 :]
    assert read(data | {"tls.crt": ssl.DER_cert_to_PEM_cert(spoilt).encode()}) is None


@given(
    st.binary(max_size=60),
    st.integers(0, 600),
    st.sampled_from(["tls.crt", "tls.key", "next.crt", "next.key", "replaced.crt"]),
)
@settings(max_examples=200, deadline=None)
def test_reading_never_raises(noise: bytes, at: int, field: str) -> None:
    data = dict(_WRITTEN)
    data[field] = data[field][:at] + noise + data[field][at + len(noise) :]
    found = read(data)
    assert found is None or write(found).keys() == data.keys()


_WRITTEN = write(Keys(made().shown, made().shown, made().shown.certificate))


def test_no_key_is_ever_shown_by_repr() -> None:
    keys = made()
    words = f"{keys!r} {keys.shown!r} {keys} {(keys,)}"
    assert "PRIVATE" not in words
    for body in re.findall(rb"-----\n(.{40})", keys.shown.key):
        assert body.decode() not in words
        assert base64.b64encode(body).decode() not in words
