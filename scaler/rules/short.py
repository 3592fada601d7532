"""A ratio in a few letters, for columns. Pure."""

from __future__ import annotations

from collections.abc import Mapping

MOST = 8
"""Groups that are shown."""
_ROLES = {"prefill": "P", "prefiller": "P", "decode": "D", "decoder": "D"}


def in_short(counts: Mapping[str, int]) -> str:
    """`2P1D` where the names of the groups, which jobs have as labels, say which one is prefill and
    which one decode; else `2+1`, in the order of `counts`, which is that of the rule; `-` for
    none."""
    by_role = {_ROLES.get(name.lower(), ""): number for name, number in counts.items()}
    if len(counts) == 2 and by_role.keys() == {"P", "D"}:
        return f"{by_role['P']}P{by_role['D']}D"
    return "+".join([str(number) for number in list(counts.values())[:MOST]]) or "-"
