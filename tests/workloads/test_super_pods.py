"""Which jobs of a super-pod MindCluster's scheduler accepts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.workloads.super_pods import (
    size_in,
    valid_blocks,
    why_no_whole_cards,
    why_not_placed,
)


@pytest.mark.parametrize(
    ("block", "pods"),
    [
        (16, [16, 16, 16, 16]),
        (32, [16, 16, 16, 16]),
        (64, [16, 16, 16, 16]),
        (16, [16]),
        (8, [8]),
        (1, [1]),
        (32, [16, 16, 0]),
        (48, [0]),
    ],
)
def test_a_job_of_whole_blocks_is_placed(block: int, pods: list[int]) -> None:
    assert why_not_placed(block, pods) == []


@pytest.mark.parametrize(
    ("block", "pods", "words"),
    [
        (48, [16, 16, 16, 16], ["its 64 NPUs are no multiple of sp-block 48"]),
        (48, [16, 16], ["its 32 NPUs are no multiple of sp-block 48"]),
        (8, [16, 16], ["sp-block 8 is no multiple of the 16 NPUs of a node"]),
        (16, [8, 8], ["a pod of it asks for 8 NPUs: of several pods each asks for 16"]),
        (16, [8], ["sp-block 16 is not the 8 NPUs of its only pod"]),
        (3, [3], ["its only pod asks for 3 NPUs: 1 or an even number up to 16"]),
        (0, [16, 16], ["sp-block 0 is no number of NPUs"]),
        (784, [16] * 49, ["sp-block 784 is more than a super-pod of 48 nodes has"]),
    ],
)
def test_a_job_of_other_blocks_is_not_placed(block: int, pods: list[int], words: list[str]) -> None:
    assert why_not_placed(block, pods) == words


@given(st.lists(st.sampled_from([0, 1, 8, 16]), max_size=8))
def test_the_valid_blocks_are_those_that_are_placed(pods: list[int]) -> None:
    valid = valid_blocks(pods)
    if any(pods):
        placed = [block for block in range(1, 17 * 16) if not why_not_placed(block, pods)]
        assert valid == placed


@pytest.mark.parametrize("pods", [[1], [1, 0], [2], [16, 16], [14, 2], [0], []])
def test_whole_cards_and_a_single_chip_alone_are_placed(pods: list[int]) -> None:
    assert why_no_whole_cards(pods) == ""


@pytest.mark.parametrize("pods", [[3], [1, 1], [16, 1], [18]])
def test_half_a_card_is_never_placed(pods: list[int]) -> None:
    assert why_no_whole_cards(pods) != ""


@pytest.mark.parametrize(
    ("arguments", "size"),
    [
        (
            '    "self-maintain-available-card":"true","super-pod-size": "8", "reserve-nodes": "2"',
            8,
        ),
        ("    super-pod-size: 16", 16),
        ("    'super-pod-size' : '64'", 64),
        ('    "super-pod-size": "0"', 48),
        ('    "super-pod-size": "many"', 48),
        ("    # super-pod-size: 8", 48),
        ("    my-super-pod-sizes: 8", 48),
        ("", 48),
    ],
)
def test_the_size_of_a_super_pod_is_read_as_the_plugin_reads_it(arguments: str, size: int) -> None:
    lines = "configurations:\n- name: init-params\n  arguments:\n"
    assert size_in(lines + arguments) == size


def test_a_block_has_at_most_the_configured_number_of_nodes() -> None:
    assert why_not_placed(64, [16] * 4, largest=4) == []
    assert why_not_placed(64, [16] * 4, largest=3) == [
        "sp-block 64 is more than a super-pod of 3 nodes has"
    ]


def test_a_node_of_eight_npus_has_rules_of_its_own() -> None:
    assert why_not_placed(16, [8, 8], on_node=8) == []
    assert why_not_placed(16, [16], on_node=8) == [
        "its only pod asks for 16 NPUs: 1 or an even number up to 8"
    ]
