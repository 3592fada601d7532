"""A ratio in a few letters, for columns. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Stage = Literal["", "prefill", "decode"]
"""What a group does; "" where nothing says it."""
MOST = 8
"""Groups that are shown."""
_OF_NAMES: dict[str, Stage] = {
    "prefill": "prefill",
    "prefiller": "prefill",
    "engine": "prefill",
    "decode": "decode",
    "decoder": "decode",
}
"""Names of roles of AIBrix, Infer Operator, RoleBasedGroup and OME, whose engine is the prefill
where a decoder is beside it."""


def stage_of_name(group: str) -> Stage:
    """The stage that the name of a group says."""
    return _OF_NAMES.get(group.lower(), "")


def in_short(counts: Mapping[str, int], stages: Mapping[str, str] | None = None) -> str:
    """`2P1D` where one group is prefill and the other decode; else `2+1`, in the order of `counts`,
    which is that of the rule; `-` for none. `stages`: of the groups whose jobs say it
    (`workloads.stages`); of others their names may say it."""
    by_stage: dict[str, int] = {}
    for name, number in counts.items():
        by_stage[(stages or {}).get(name) or stage_of_name(name)] = number
    if len(counts) == 2 and by_stage.keys() == {"prefill", "decode"}:
        return f"{by_stage['prefill']}P{by_stage['decode']}D"
    return "+".join([str(number) for number in list(counts.values())[:MOST]]) or "-"
