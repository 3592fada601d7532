"""Kubernetes quantities."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.kube.quantity import add_quantities, parse_quantity


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("8", 8),
        (8, 8),
        ("0.5", Decimal("0.5")),
        ("500m", Decimal("0.5")),
        ("1Ki", 1024),
        ("1.5Gi", 3 * 2**29),
        ("2k", 2000),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("-1", -1),
        ("", None),
        ("x", None),
        ("1 Gi", None),
        (None, None),
        (True, None),
        ("1KI", None),
        (float("nan"), None),
    ],
)
def test_a_quantity_in_every_notation(text: object, number: object) -> None:
    assert parse_quantity(text) == number


@pytest.mark.parametrize(
    ("terms", "total"),
    [
        (["1000Gi", "1000Gi"], "2000Gi"),
        (["512Mi", "512Mi"], "1Gi"),
        (["500m", "500m"], "1"),
        (["16", "16"], "32"),
        (["100m", "200m"], "300m"),
        (["8", 8], "16"),
        ([], "0"),
        (["nonsense", "1"], "1"),
        (["1k", "1k"], "2k"),
    ],
)
def test_a_sum_is_written_as_the_api_server_writes_it(terms: list[object], total: str) -> None:
    assert add_quantities(terms) == total


@pytest.mark.parametrize(
    "terms", [["9" * 60 + "Ki"], ["1Ki", "1e999"], ["9" * 5000], ["1Ki", "9" * 5000]]
)
def test_a_sum_of_any_size_can_be_written(terms: list[object]) -> None:
    assert parse_quantity(add_quantities(terms))


@given(
    st.lists(st.from_regex(r"[0-9]{1,4}(m|k|M|Ki|Mi|Gi)?", fullmatch=True), min_size=1, max_size=5)
)
def test_a_sum_stands_for_the_sum_of_the_numbers(terms: list[str]) -> None:
    numbers = [number for term in terms if (number := parse_quantity(term)) is not None]
    assert parse_quantity(add_quantities(terms)) == sum(numbers)
