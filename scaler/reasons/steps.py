"""What `scaler why` tells people to do next, in both languages."""

from __future__ import annotations

from enum import StrEnum

from scaler.reasons.said import Said


class Step(StrEnum):
    """Where people look or what they do next: a command, or the words in `ADVICE`, or both."""

    RULE = "rule"
    POD_GROUP = "podgroup"
    POD = "pod"
    ROOM = "room"
    APPLY = "apply"
    SCALE = "scale"
    RESUME = "resume"


ADVICE = {
    Step.APPLY: Said(
        "apply the jobs of the smallest ratio that are missing",
        "请应用最小配比中缺少的任务",
    ),
    Step.SCALE: Said(
        "nothing, if no more is wanted; to have all instances again:",
        "如果不需要更多实例，则无需处理；要恢复全部实例：",
    ),
    Step.RESUME: Said(
        "nothing, if the pause is meant; to end it:",
        "如果暂停是有意的，则无需处理；要结束暂停：",
    ),
}
UNCORDON = Said(
    "a node that it could use is cordoned; when the work on the node is done:",
    "有可用的节点被标记为不可调度；节点维护结束后：",
)
NOT_READY = Said(
    "a node that it could use is not Ready or faulty; see what is wrong, and repair it:",
    "有可用的节点未就绪或有故障；请查看原因并修复：",
)
SCALE_HOLDER = Said(
    "another service runs more than its smallest ratio on such nodes; to scale that one down:",
    "另一个服务在这些节点上运行的实例多于其最小配比；要将其缩容：",
)
GO_FIRST = Said(
    "that service has the same or a higher priority, so nothing of it is evicted; to let this one"
    " go first (docs/howto/who-goes-first.md):",
    "该服务的优先级相同或更高，因此不会驱逐它的实例；要让本服务优先"
    "（docs/zh/howto/who-goes-first.md）：",
)
PROTECTED = Said(
    "its rule protects that service from eviction; to end this:",
    "该服务的规则禁止驱逐其实例；要取消禁止：",
)
LOWER_MINIMUM = Said(
    "or lower the smallest ratio of the rule, if the service can work with less",
    "或者降低规则的最小配比（如果更少的实例也能提供服务）",
)
SCALE_UP_WAITS = Said(
    "nothing is urgent: the smallest ratio runs, and more instances start when there is room",
    "无需紧急处理：最小配比正在运行，有资源时会启动更多实例",
)
ADD_NODES = Said(
    "wait for room, or add nodes; scaler plan --nodes says how many it needs",
    "请等待资源，或增加节点；scaler plan --nodes 会说明需要多少个节点",
)
ABOUT_ROOM = (
    UNCORDON,
    NOT_READY,
    SCALE_HOLDER,
    GO_FIRST,
    PROTECTED,
    LOWER_MINIMUM,
    SCALE_UP_WAITS,
    ADD_NODES,
)
"""What is said of room, as the case is."""
CORRECT = Said(
    "correct what is mistyped:",
    "请改正拼写错误：",
)
OTHER_RULE = Said(
    "create the ConfigMap of the rule, or name one that exists in the label; those that there are:",
    "请创建规则的 ConfigMap，或在标签中写已有的规则；现有的 ConfigMap：",
)
MORE_RIGHTS = Said(
    "you see what the scaler says, and not why: somebody who may read more gets the whole answer",
    "您只能看到调度器给出的状态，看不到原因；拥有更多读取权限的人可以得到完整的答案",
)
FIX = Said(
    "fix what is marked FAIL above, first {}",
    "请先处理上面标为 ✕ 的各项，首先是 {}",
)
NOTHING = Said("nothing: this is as it should be", "无需处理：一切正常")
WAIT = Said("wait; it passes by itself", "请等待，会自行恢复")
EVERY_ADVICE = (*ADVICE.values(), *ABOUT_ROOM, CORRECT, OTHER_RULE, MORE_RIGHTS, FIX, NOTHING, WAIT)
