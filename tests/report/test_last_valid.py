"""The last valid rule survives as a ConfigMap, to the byte."""

from __future__ import annotations

import base64
import copy
import gzip
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.state.last_valid import (
    ConfigMapName,
    LastValid,
    decode,
    encode,
    last_valid_of,
    place_of,
)

RULE = ConfigMapName("default", "rule")
PLACE = place_of(RULE, "scaler-home")

_annotations = st.dictionaries(
    st.text(max_size=9).map("mind-cluster/".__add__), st.text(max_size=9), max_size=3
)
_values = st.builds(
    last_valid_of, st.text(), _annotations, st.text(max_size=9), inherited=st.booleans()
)


@given(_values)
def test_what_was_stored_comes_back_as_it_was(value: LastValid) -> None:
    assert decode(encode(PLACE, RULE, value), RULE) == value


@given(_values)
def test_the_same_value_gives_the_same_object(value: LastValid) -> None:
    assert encode(PLACE, RULE, value) == encode(PLACE, RULE, value)


def test_only_our_annotations_are_kept() -> None:
    stored = encode(
        PLACE,
        RULE,
        last_valid_of("{}", {"mind-cluster/paused": "true", "kubectl/last-applied": "x"}),
    )
    found = decode(stored, RULE)
    assert found is not None
    assert found.annotations == {"mind-cluster/paused": "true"}


def test_the_object_of_another_rule_is_not_taken() -> None:
    assert (
        decode(encode(PLACE, RULE, last_valid_of("{}")), ConfigMapName("default", "other")) is None
    )


def test_an_object_that_is_not_ours_is_not_taken() -> None:
    stored = encode(PLACE, RULE, last_valid_of("{}"))
    stored["metadata"]["labels"] = {}
    assert decode(stored, RULE) is None


def _packed(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


@pytest.mark.parametrize(
    "content",
    [
        {"binaryData": None},
        {"binaryData": {"elastic_scaling.json.gz": "%%%"}},
        {"binaryData": {"elastic_scaling.json.gz": _packed(b"not gzip")}},
        {"binaryData": {"elastic_scaling.json.gz": _packed(gzip.compress(b"{}")[:-9])}},
        {"binaryData": {"elastic_scaling.json.gz": _packed(gzip.compress(b"other"))}},
        {"binaryData": {"elastic_scaling.json.gz": _packed(gzip.compress(b"\xff"))}},
        {"data": {}},
        {"data": None},
        {"data": {"sha256": 1, "annotations.json": "[]", "origin.json": "{}"}},
        {"metadata": None},
        {"metadata": {"labels": 3, "annotations": 3}},
    ],
)
def test_garbage_is_no_rule_and_never_raises(content: dict[str, Any]) -> None:
    assert decode(encode(PLACE, RULE, last_valid_of("{}")) | content, RULE) is None


def test_a_small_object_cannot_unfold_into_a_large_document() -> None:
    stored = copy.deepcopy(encode(PLACE, RULE, last_valid_of("{}")))
    stored["binaryData"]["elastic_scaling.json.gz"] = _packed(gzip.compress(b" " * (100 << 20), 9))
    assert decode(stored, RULE) is None
