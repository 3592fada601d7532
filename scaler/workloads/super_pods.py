"""Jobs that ask for blocks of a super-pod (Atlas A3), and what MindCluster's scheduler accepts of
them. Pure.

A super-pod is a group of nodes with a fast network of their own. A job with annotation `sp-block`
asks for *blocks*: each of `sp-block` NPUs, on wholly free nodes of one super-pod. The rules are
those of MindCluster's plugin for Volcano (`internal/npu/ascend910/ascend910a3/superpod/frame.go`,
ValidNPUJob): a job that breaks one never starts, whatever is free.

For example, four pods of 16 NPUs each, 64 in all: `sp-block` 16, 32 or 64 is valid (4, 2 or 1
blocks); 48 is not, as 64 is no multiple of it, and 8 is not, as a block has whole nodes."""

from __future__ import annotations

import re
from collections.abc import Sequence

NODE_NPUS = 16
"""NPUs of a node of a super-pod."""
LARGEST_SUPER_POD = 48
"""Nodes: `super-pod-size` as MindCluster ships it."""
_SIZE = re.compile(r"""^[^#\n]*?\bsuper-pod-size["']?\s*:\s*["']?([0-9]{1,6})\b""", re.MULTILINE)


def size_in(configuration: str) -> int:
    """The `super-pod-size` in the configuration of the scheduler; as shipped where it says none, or
    0."""
    found = _SIZE.search(configuration)
    return int(found[1]) if found and int(found[1]) else LARGEST_SUPER_POD


def why_not_placed(
    block: int,
    pods: Sequence[int],
    *,
    on_node: int = NODE_NPUS,
    largest: int = LARGEST_SUPER_POD,
) -> list[str]:
    """Why the plugin places no such job; empty when it does. `block`: its sp-block. `pods`: the
    NPUs of each of its pods; pods without NPUs are left out. `on_node`: NPUs of a node. `largest`:
    nodes of the largest super-pod."""
    npus = [number for number in pods if number]
    total = sum(npus)
    if not npus:
        return []
    if block <= 0:
        return [f"sp-block {block} is no number of NPUs"]
    if len(npus) == 1:
        return _why_one_is_not_placed(block, total, on_node)
    return [
        *_why_several_are_not_placed(block, npus, on_node),
        *_why_too_large(block // on_node, block, largest),
    ]


def _why_too_large(nodes: int, block: int, largest: int) -> list[str]:
    words = f"sp-block {block} is more than a super-pod of {largest} nodes has"
    return [words] if nodes > largest else []


def _why_one_is_not_placed(block: int, total: int, on_node: int) -> list[str]:
    found = []
    if total != 1 and (total % 2 or total > on_node):
        found.append(f"its only pod asks for {total} NPUs: 1 or an even number up to {on_node}")
    if block != total:
        found.append(f"sp-block {block} is not the {total} NPUs of its only pod")
    return found


def _why_several_are_not_placed(block: int, npus: Sequence[int], on_node: int) -> list[str]:
    total = sum(npus)
    found = []
    other = sorted({number for number in npus if number != on_node})
    if other:
        numbers = " and ".join(map(str, other))
        found.append(
            f"a pod of it asks for {numbers} NPUs: of several pods each asks for {on_node}"
        )
    if block % on_node:
        found.append(f"sp-block {block} is no multiple of the {on_node} NPUs of a node")
    elif total % block:
        found.append(f"its {total} NPUs are no multiple of sp-block {block}")
    return found


def why_no_whole_cards(pods: Sequence[int]) -> str:
    """Why the plugin places no job of Atlas A3 with such pods, which has no blocks; "" when it
    does. `pods`: the NPUs of each of its pods; pods without NPUs are left out."""
    npus = [number for number in pods if number]
    if npus == [1]:
        return ""
    for number in npus:
        if number % 2 or number > NODE_NPUS:
            return (
                f"a pod of it asks for {number} NPUs: an even number up to {NODE_NPUS}, or 1 where"
                " it is the only pod"
            )
    return ""


def valid_blocks(pods: Sequence[int]) -> list[int]:
    """Every sp-block with which the plugin places a job of such pods, the smallest first; empty
    where none does."""
    total = sum(pods)
    numbers = {total, *range(NODE_NPUS, min(total, NODE_NPUS * LARGEST_SUPER_POD) + 1, NODE_NPUS)}
    return [number for number in sorted(numbers) if not why_not_placed(number, pods)]
