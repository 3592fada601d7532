"""What the webhook shows is believed at every moment, whatever happens when; judged as an API server would."""

from __future__ import annotations

import base64
import re

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.serve import certificates
from scaler.serve.certificates import DAY, MOST_TRUSTED, SERVER_LIFE, SETTLE, Keys, Step, advance, due, read, write

NAMES = ("mind-cluster-scaler-webhook.mind-cluster-scaler-system.svc",)
START = 1_800_000_000.0


def made(now: float = START) -> Keys:
    keys = advance(None, NAMES, now)
    assert keys is not None
    return keys


def believed(keys: Keys, trusted: bytes, now: float) -> bool:
    """Whether somebody who trusts these authorities believes what is shown."""
    shown = keys.certificate
    if not shown.not_valid_before_utc.timestamp() <= now < shown.not_valid_after_utc.timestamp():
        return False
    return any(
        certificates._signed_by(shown, authority)
        and authority.not_valid_before_utc.timestamp() <= now < authority.not_valid_after_utc.timestamp()
        for authority in x509.load_pem_x509_certificates(trusted)
    )


def test_the_first_keys_are_believed_at_once_and_need_nothing() -> None:
    keys = made()
    assert believed(keys, keys.trusted, START)
    assert due(keys, NAMES, START) is Step.NOTHING
    again = read(write(keys))
    assert again is not None
    assert write(again) == write(keys)


def test_the_certificate_is_for_a_server_of_these_names_and_can_sign_nothing() -> None:
    extensions = made().certificate.extensions
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert tuple(names.get_values_for_type(x509.DNSName)) == NAMES
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert extensions.get_extension_for_class(x509.KeyUsage).value.digital_signature


def test_an_address_is_a_name_too() -> None:
    keys = advance(None, ("127.0.0.1",), START)
    assert keys is not None
    assert due(keys, ("127.0.0.1",), START) is Step.NOTHING
    assert due(keys, NAMES, START) is Step.NEW_CERTIFICATE


def test_a_certificate_is_renewed_a_month_before_it_ends_by_the_same_authority() -> None:
    keys = made()
    assert due(keys, NAMES, START + 59 * DAY) is Step.NOTHING
    renewed = advance(keys, NAMES, START + 60 * DAY)
    assert renewed is not None
    assert renewed.trusted == keys.trusted
    assert renewed.server != keys.server
    assert renewed.certificate.not_valid_after_utc.timestamp() == START + 60 * DAY + SERVER_LIFE


def test_a_new_authority_is_trusted_before_it_signs_and_the_old_one_stays_until_it_ends() -> None:
    now = START + 365 * DAY
    keys = advance(advance(made(), NAMES, now - DAY), NAMES, now)
    assert keys is not None
    assert (len(keys.authorities), keys.signed_by_newest) == (2, False)
    assert due(keys, NAMES, now + SETTLE - 1) is Step.NOTHING
    after = advance(keys, NAMES, now + SETTLE)
    assert after is not None
    assert (len(after.authorities), after.signed_by_newest) == (2, True)
    assert after.trusted == keys.trusted


_PAUSES = st.lists(st.floats(1, 25 * DAY) | st.floats(1, 2 * SETTLE), min_size=1, max_size=40)


@settings(max_examples=40, deadline=None)
@given(_PAUSES, st.floats(0, 300 * DAY), _PAUSES)
def test_what_is_shown_is_believed_by_whoever_heard_of_the_authorities_an_hour_ago(
    pauses: list[float], outage: float, more: list[float]
) -> None:
    now, keys = START, made()
    heard = [(now, keys.trusted)]
    for pause in [*pauses, outage, *more]:
        now += pause
        assert due(keys, NAMES, now) is not Step.MAKE
        keys = advance(keys, NAMES, now) or keys
        heard.append((now, keys.trusted))
        trusted = next((bundle for at, bundle in reversed(heard) if at <= now - SETTLE), heard[0][1])
        assert believed(keys, trusted, now)
        assert len(keys.authorities) <= MOST_TRUSTED
        assert read(write(keys)) is not None


def test_keys_that_nobody_looked_after_for_years_are_made_anew() -> None:
    keys, now = made(), START + 800 * DAY
    assert due(keys, NAMES, now) is Step.MAKE
    made_anew = advance(keys, NAMES, now)
    assert made_anew is not None
    assert believed(made_anew, made_anew.trusted, now)


@pytest.mark.parametrize("field", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
def test_keys_that_are_incomplete_or_do_not_fit_together_are_not_read(field: str) -> None:
    data, other = write(made()), write(made())
    assert read({key: value for key, value in data.items() if key != field}) is None
    assert read(data | {field: b""}) is None
    assert read(data | {field: other[field]}) is None


@given(st.binary(max_size=60), st.integers(0, 600), st.sampled_from(["ca.crt", "ca.key", "tls.crt", "tls.key"]))
@settings(max_examples=200, deadline=None)
def test_reading_never_raises(noise: bytes, at: int, field: str) -> None:
    data = dict(_WRITTEN)
    data[field] = data[field][:at] + noise + data[field][at + len(noise) :]
    found = read(data)
    assert found is None or write(found).keys() == data.keys()


_WRITTEN = write(made())


def test_no_key_is_ever_shown_by_repr() -> None:
    keys = made()
    words = f"{keys!r} {keys.server!r} {keys} {(keys,)}"
    assert "PRIVATE" not in words
    for body in re.findall(rb"-----\n(.{40})", keys.server.key + write(keys)["ca.key"]):
        assert body.decode() not in words
        assert base64.b64encode(body).decode() not in words
