"""A rule that lists the sizes of a training job."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.rules.check import check
from scaler.rules.size_rule import ListedSize, sizes_in


def document(*groups: list[dict[str, Any]]) -> dict[str, Any]:
    return {"version": "1.0", "elastic_scaling_list": [{"group_list": own} for own in groups]}


def group(servers: str, num: str = "1", name: str = "train", **others: str) -> dict[str, Any]:
    return {
        "group_name": name,
        "group_num": num,
        "server_num_per_group": servers,
        **others,
    }


def test_one_group_whose_servers_fall_is_a_list_of_sizes() -> None:
    value = document([group("8")], [group("6")], [group("2")])

    assert sizes_in(value) == (ListedSize(8), ListedSize(6), ListedSize(2))


def test_the_npus_of_each_server_may_fall_instead() -> None:
    value = document([group("1", npus_per_server="8")], [group("1", npus_per_server="4")])

    assert sizes_in(value) == (ListedSize(1, 8), ListedSize(1, 4))


@pytest.mark.parametrize(
    "value",
    [
        document([group("8")]),
        document([group("8")], [group("8")]),
        document([group("4")], [group("8")]),
        document([group("8", num="2")], [group("4", num="1")]),
        document([group("8")], [group("4", name="other")]),
        document([group("8"), group("8", name="decode")], [group("4")]),
        document([group("8")], [group("four")]),
        document([group("8", npus_per_server="4")], [group("4", npus_per_server="8")]),
        document([group("8")], []),
        {},
        [],
        None,
        {"elastic_scaling_list": [7, None]},
    ],
    ids=[
        "one size",
        "equal sizes",
        "rising sizes",
        "several instances",
        "two names",
        "two groups",
        "no number",
        "npus rise",
        "no group",
        "empty",
        "a list",
        "nothing",
        "other values",
    ],
)
def test_any_other_document_is_no_size_rule(value: object) -> None:
    assert sizes_in(value) == ()


def test_for_a_service_a_size_rule_is_an_error() -> None:
    rule, found = check(document([group("8")], [group("4")]))

    assert rule is None
    assert [one.code for one in found if one.level == "error"] == ["ServerNumDiffers"]
