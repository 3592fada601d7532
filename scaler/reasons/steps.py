"""What `scaler why` tells people to do next, in both languages."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Step(StrEnum):
    """Where people look or what they do next: a command, or the words in `ADVICE`, or both."""

    RULE = "rule"
    POD_GROUP = "podgroup"
    POD = "pod"
    ROOM = "room"
    APPLY = "apply"
    SCALE = "scale"
    RESUME = "resume"


class Advice(NamedTuple):
    """One line of advice."""

    en: str
    zh: str


ADVICE = {
    Step.APPLY: Advice(
        "apply the jobs of the smallest ratio that are missing",
        "请应用最小配比中缺少的任务",
    ),
    Step.SCALE: Advice(
        "nothing, if no more is wanted; to have all instances again:",
        "如果不需要更多实例，则无需处理；要恢复全部实例：",
    ),
    Step.RESUME: Advice(
        "nothing, if the pause is meant; to end it:",
        "如果暂停是有意的，则无需处理；要结束暂停：",
    ),
    Step.ROOM: Advice(
        "wait for room, add or repair nodes, or lower the smallest ratio; scaler plan --nodes says"
        " how many do",
        "请等待资源、增加或修复节点，或者降低最小配比；scaler plan --nodes 会说明需要多少个节点",
    ),
}
FIX = Advice(
    "fix what is marked FAIL above, first {}",
    "请先处理上面标为 ✕ 的各项，首先是 {}",
)
NOTHING = Advice("nothing: this is as it should be", "无需处理：一切正常")
WAIT = Advice("wait; it passes by itself", "请等待，会自行恢复")
EVERY_ADVICE = (*ADVICE.values(), FIX, NOTHING, WAIT)
