"""The evictions of a service survive as a ConfigMap: 3b.4e of the contract."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.decide.memory import Evictions
from scaler.decide.world import ServiceKey
from scaler.state.kept_evictions import decode, encode, place_of, service_of

KEY = ServiceKey("tenant", "rule", "mindie")
PLACE = place_of(KEY, "scaler-home")
COUNTED = Evictions(2, 1_700_000_000.125, 1)

_values = st.builds(
    Evictions,
    st.integers(1, 10**9),
    st.floats(0, allow_nan=False, allow_infinity=False),
    st.integers(0, 6),
)
_names = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?", fullmatch=True)


@given(_values)
def test_what_was_stored_comes_back_as_it_was(value: Evictions) -> None:
    assert decode(encode(PLACE, KEY, value), KEY) == value


def test_it_says_in_clear_text_what_it_is_about() -> None:
    stored = encode(PLACE, KEY, COUNTED)
    assert stored["data"] == {
        "evictions": "2",
        "last-eviction": "1700000000.125",
        "repeated": "1",
        "format": "1",
    }
    assert service_of(stored) == KEY
    assert stored["metadata"]["namespace"] == "scaler-home"


@given(_names, _names, _names, _names)
def test_no_two_services_have_one_place(rule: str, job_id: str, other: str, other_id: str) -> None:
    one = ServiceKey("tenant", rule, job_id)
    two = ServiceKey("tenant", other, other_id)
    same = place_of(one, "home") == place_of(two, "home")
    assert same == (one == two)


@pytest.mark.parametrize(
    "changes",
    [
        {"evictions": "many"},
        {"evictions": "0"},
        {"evictions": "-1"},
        {"last-eviction": "nan"},
        {"last-eviction": "yesterday"},
        {"last-eviction": None},
        {"repeated": "-1"},
        {"repeated": "often"},
        {"format": "2"},
        {"format": None},
    ],
)
def test_what_cannot_be_read_is_none(changes: dict[str, Any]) -> None:
    stored = encode(PLACE, KEY, COUNTED)
    stored["data"] |= changes
    assert decode(stored, KEY) is None


def test_what_the_release_before_kept_had_no_room_taken() -> None:
    stored = encode(PLACE, KEY, COUNTED)
    del stored["data"]["repeated"]
    assert decode(stored, KEY) == Evictions(2, 1_700_000_000.125)


def test_the_object_of_another_service_or_owner_is_not_taken() -> None:
    assert decode(encode(PLACE, KEY, COUNTED), ServiceKey("tenant", "rule", "other")) is None
    stored = encode(PLACE, KEY, COUNTED)
    stored["metadata"]["labels"] = {}
    assert decode(stored, KEY) is None
    assert service_of({"metadata": {}}) is None
