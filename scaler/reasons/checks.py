"""What the checks of `scaler why` say, in both languages: one row for each sentence.

Names of objects, labels, reasons and the words of other programs stand in the blanks as they are
written elsewhere."""

from __future__ import annotations

from scaler.reasons.said import Said

# Labels and rule

OTHER_LABEL = Said(
    "label {name} is {wrong}, and it was admitted with {right}",
    "标签 {name} 为 {wrong}，而准入时为 {right}",
)
NO_RULE_LABEL = Said(
    "no label {name}: it is no part of any service, and the scaler leaves it alone{where}",
    "没有标签 {name}：它不属于任何服务，scaler 不处理它{where}",
)
IN_THE_TEMPLATE = Said(
    " (of Deployments and the like, labels stand in the template of the pods)",
    "（Deployment 等类型的标签写在 Pod 模板中）",
)
HAS_LABELS = Said("has its labels: {labels}", "标签齐全：{labels}")
LABEL_FAULTS = {
    "AppUnknown": "标签 app 的值不是 ClusterD 认识的名称，可能有拼写错误",
    "GroupUnknown": "规则中没有这个组",
    "GroupLabelMissing": "缺少标签 mind-cluster/group-name，或其值为空",
    "JobIdMissing": "缺少标签 jobID，或其值为空",
    "LabelMisspelt": "标签的名称有拼写错误",
    "RuleLabelEmpty": "标签 mind-cluster/scaling-rule 的值为空",
    "RuleLabelMissing": "缺少标签 mind-cluster/scaling-rule，没有规则管理它",
}
"""Code of a finding about labels -> what it means, in Chinese."""
NOT_COUNTED = Said(
    "has the jobID of this service and {label}: it is not counted here",
    "带有本服务的 jobID，但{label}：不计入本服务",
)
OF_RULE = Said("rule {rule}", "规则为 {rule}")
OF_NO_RULE = Said("no label {name}", "没有标签 {name}")
DID_YOU_MEAN_RULE = Said(
    "there is no ConfigMap {namespace}/{rule}; did you mean {near}?",
    "没有 ConfigMap {namespace}/{rule}；是否应为 {near}？",
)
VALID_ONE = Said("valid, {count} ratio", "有效，{count} 个配比")
VALID_MANY = Said("valid, {count} ratios", "有效，{count} 个配比")
PAUSED = Said(
    'annotation mind-cluster/paused is "true": nothing is admitted until it goes',
    '注解 mind-cluster/paused 为 "true"：去掉之前不会准入任何实例',
)
NEAR_JOB_ID = Said(
    "{job_id} has {mine} and {near} has {others} instances of the same rule: a typo?",
    "同一规则下，{job_id} 有 {mine} 个实例，{near} 有 {others} 个：是否有拼写错误？",
)
NEARLY_OURS = Said(
    "has jobID {other}, and is not counted here: a typo?",
    "它的 jobID 为 {other}，不计入本服务：是否有拼写错误？",
)

# Scale

SCALED = Said("spec.replicas is {replicas}{words}{by}", "spec.replicas 为 {replicas}{words}{by}")
SET_BY = Said("; set by {setters}", "；由 {setters} 设置")
SET_BY_UNKNOWN = Said("; the API server has not kept who set it", "；API server 没有保留由谁设置")
AN_AUTOSCALER = Said(
    "an autoscaler (kube-controller-manager)", "自动扩缩容（kube-controller-manager）"
)
SOMEBODY = Said("somebody", "未知的客户端")
AUTOSCALER = Said(
    "scales it{made_for}: {least} to {most} instances, {now} now; it sets the number again: change"
    " its bounds, or delete it first",
    "由它扩缩容{made_for}：{least} 到 {most} 个实例，现在 {now} 个；它会再次设置实例数："
    "请修改其上下限，或先删除它",
)
MADE_FOR = Said(", made for {kind} {name}", "（为 {kind} {name} 创建）")
AUTOSCALER_CONDITION = Said("{type} is {status}: {message}", "{type} 为 {status}：{message}")

# Minimum and room

RUNS = Said("runs {counts}", "运行 {counts}")
RUNS_LESS = Said("runs less than its smallest ratio", "运行的实例少于最小配比")
RESTS = Said("rests", "处于休眠")
WORKS_TOWARDS = Said("; works towards {target}", "；目标为 {target}")
LACKS_JOBS = Said(
    "{group} has {live} of {target} jobs that can be used", "{group} 可用的任务为 {live}/{target}"
)
APPLY_OR_FIX = Said("; {missing}: apply or fix them", "；{missing}：请应用或修复这些任务")
NOT_WEIGHED = Said("free nodes are not weighed here: {why}", "此处不考虑空闲节点：{why}")
ARBITRATION_OFF = Said(
    'annotation mind-cluster/arbitration is "off"', '注解 mind-cluster/arbitration 为 "off"'
)
LACKS_ROOM = "缺少空闲资源"
HAS_ROOM = Said("room for all of them is free now", "现有空闲资源足够")
NO_NODE_TAKES = Said(
    "no node takes such pods at all; look at the pods' selector and the nodes' labels and taints",
    "没有任何节点接受这样的 Pod；请查看 Pod 的节点选择条件以及节点的标签和污点",
)
OF_SUCH_NODE = Said("of {count} such node: {parts}", "这样的节点共 {count} 个：{parts}")
OF_SUCH_NODES = Said("of {count} such nodes: {parts}", "这样的节点共 {count} 个：{parts}")
PODS_FIRST = Said("{count} reserved for {name}", "为 {name} 预留 {count}")
USED_BY = Said("{count} used by {name}", "{name} 使用 {count}")
USED_BY_OURS = Said("{count} by others of ours", "其他服务使用 {count}")
USED_BY_OTHERS = Said("{count} used by other pods or too small", "其他 Pod 占用或容量不足 {count}")

# Scheduler

NO_PODS_YET = Said(
    "no pods yet: there is nothing for the scheduler to do", "还没有 Pod：调度器无事可做"
)
QUEUE_CLOSED = Said(
    "is {state}: Volcano starts nothing of it; open it",
    "状态为 {state}：Volcano 不会启动其中的任务；请将其打开",
)
ALL_OF_RUNNING = Said(
    "{count} pods, all of instances that run", "{count} 个 Pod，都属于运行中的实例"
)
NO_POD_GROUP = Said(
    "does not exist: nobody has asked the scheduler for this gang",
    "不存在：还没有向调度器请求这组 Pod",
)
PHASE = Said("phase {phase}", "阶段为 {phase}")
PHASE_WORDS = Said("phase {phase}: {words}", "阶段为 {phase}：{words}")
NOT_SET = Said("not set", "未设置")
SILENT = Said(
    "the scheduler has said nothing yet; does Volcano run?",
    "调度器还没有给出说明；Volcano 在运行吗？",
)
WAITS_FOR_ROOM = Said("it waits for room", "它在等待资源")
SCHEDULER_SAYS = {
    "BatchOrderFailed": (
        "调度器：没有一个超节点有完整的空闲块。请腾出同一个超节点的节点，或使用更小的 sp-block。"
    ),
    "JobEnqueueFailed": "调度器：计入的空闲 NPU 少于任务所需。请释放一些，或修复节点。",
    "JobValidateFailed": (
        "调度器：按现在的写法，任务永远不会启动。请修改 NPU 数量、sp-block 或标签。"
    ),
    "NodePredicateFailed": "调度器：没有节点接受它的 Pod。scaler why 会说明节点缺少什么。",
}
"""Reason of MindCluster's plugin of the scheduler -> what it means, in Chinese."""
OTHERS_GATE = Said("held by somebody else's gate: {gates}", "被其他组件的门控暂挂：{gates}")
OUR_GATE = Said(
    "held by our gate {gate}, as its instance is", "与其实例一样，被我们的门控 {gate} 暂挂"
)
POD_STAYS = Said(
    "its job has no label fault-scheduling, so MindCluster's scheduler leaves it there: delete the"
    " pods of the instance, and write fault-scheduling: force if it is to heal by itself",
    "其任务没有标签 fault-scheduling，因此 MindCluster 的调度器会把它留在那里："
    "请删除该实例的 Pod；如果希望自动恢复，请写上 fault-scheduling: force",
)
POD_ON_NODE = Said("{phase} on {node}", "{phase}，位于 {node}")
POD_NOT_BOUND = Said("{phase}, not bound to a node", "{phase}，未绑定节点")
NODE_TROUBLE = Said("node {node}: {trouble}", "节点 {node}：{trouble}")
GROUP_SAYS_WHY = Said("not scheduled; its PodGroup says why", "未调度；原因见其 PodGroup")
CONTAINER = Said("container {name}: {reason}{words}{code}", "容器 {name}：{reason}{words}{code}")
INIT_CONTAINER = Said(
    "init container {name}: {reason}{words}{code}", "初始化容器 {name}：{reason}{words}{code}"
)
COLON_WORDS = Said(": {words}", "：{words}")
ENDED_BEFORE = Said("; ended with exit code {code} before", "；之前以退出码 {code} 结束")

# Makers of pods

OPERATOR_MAKES = Said(
    "{operator} makes the pods of AscendJobs, the scaler releases them",
    "{operator} 创建 AscendJob 的 Pod，由 scaler 放行",
)
SCALER_MAKES = Said(
    "none runs; pods of AscendJobs: the scaler makes them",
    "没有运行；AscendJob 的 Pod 由 scaler 创建",
)
OPERATOR_ELSEWHERE = Said(
    "{operators} is in another namespace than the scaler looks in, and does not count",
    "{operators} 在 scaler 查看范围之外的命名空间中，不计入",
)
PODS_NOT_MADE = Said(
    "{lacking} of its {expected} pods have not been made by their owner",
    "{expected} 个 Pod 中有 {lacking} 个尚未由其所有者创建",
)
NAME_TAKEN = Said(
    "{name} has a name that it needs, and another owner",
    "{name} 占用了它需要的名称，且属于其他所有者",
)

# Admission

ADMISSION_NOT_NEEDED = Said(
    "not needed: the scaler makes these pods, and holds them by not making them",
    "不需要：这些 Pod 由 scaler 创建，不创建即为暂挂",
)
NAMESPACE_NOT_ENABLED = Said(
    "label {name} {found}: pods get no gate here, unless templates have it; set it to enabled",
    "标签 {name} {found}：此处的 Pod 得不到门控（模板中自带的除外）；请将其设为 enabled",
)
IS_VALUE = Said("is {value}", "为 {value}")
IS_MISSING = Said("is missing", "缺失")
NAMESPACE_ENABLED = Said(
    "lets admission put our gate onto pods", "允许准入控制为 Pod 加上我们的门控"
)
GATE_SET_UP = Said("set up by {sources}", "由 {sources} 设置")
GATE_SOURCES = {
    "policy": Said("policy", "准入策略"),
    "webhook": Said("webhook", "webhook"),
}
GATE_NOT_SET_UP = Said(
    "neither the admission policy nor the webhook is installed: nothing sets the gate",
    "准入策略和 webhook 都没有安装：没有组件设置门控",
)
CAME_WITHOUT_GATE = Said(
    "{names}: pods came without our gate, nothing holds them; they count as they are",
    "{names}：Pod 创建时没有我们的门控，无法暂挂；按现状计数",
)

# Rank table

RANKS_REST = Said("none is needed while the service rests", "服务休眠时不需要")
NOT_LOOKED_AT = Said("not looked at: {words}", "未查看：{words}")
NO_RANK_TABLES = Said(
    "none of its jobs mounts a rank table, and no ConfigMap rings-config-<job> has its jobID: none"
    " is needed",
    "没有任务挂载 rank table，也没有带有其 jobID 的 ConfigMap rings-config-<job>：不需要",
)
ALL_RANKS_MET = Said(
    "all conditions are met. ClusterD tries three times after a change and then waits for the next"
    " one: if there still is no global rank table, look at its log in mindx-dl, and change one of"
    " these ConfigMaps to wake it",
    "所有条件均已满足。ClusterD 在变化后尝试三次，然后等待下一次变化："
    "如果仍然没有全局 rank table，请查看 mindx-dl 中 ClusterD 的日志，"
    "并修改其中一个 ConfigMap 来触发它",
)
NO_SERVER_JOB = Said(
    "no AscendJob of a server has label {name}={job_id} in this namespace",
    "此命名空间中没有带标签 {name}={job_id} 的 server 类 AscendJob",
)
NO_TABLE_MADE = Said("no rank table is made for it: {why}", "不会为它生成 rank table：{why}")
CANNOT_BE_READ = Said("it cannot be read", "无法读取它")
LABEL_APP_IS = Said(
    "its label app is {app}, a server has app={server}",
    "它的标签 app 为 {app}，server 应为 app={server}",
)
LABEL_APP_MISSING = Said(
    "its label app is missing, a server has app={server}",
    "它缺少标签 app，server 应为 app={server}",
)
NO_CONFIG_MAP = Said(
    "ConfigMap {name} does not exist; apply it, it is never created for you",
    "ConfigMap {name} 不存在；请应用它，它不会自动创建",
)
LABELLED = Said("labelled for ClusterD", "带有 ClusterD 需要的标签")
NOT_SEEN = Said(
    'label {name} is not "true": ClusterD does not see it; set it',
    '标签 {name} 不为 "true"：ClusterD 看不到它；请设置该标签',
)
OTHER_SERVICE = Said(
    "label {name} {standing}: it counts for another service; set it to {job_id}",
    "标签 {name} {standing}：它被计入另一个服务；请设为 {job_id}",
)
NO_GLOBAL_LABEL = Said(
    "has neither label {first} nor {second}: the whole service is left out; set one",
    "标签 {first} 和 {second} 都没有：整个服务会被忽略；请设置其中一个",
)
TWO_GLOBAL_LABELS = Said(
    "has both labels {first} and {second}: the whole service is left out; take one off",
    "同时有标签 {first} 和 {second}：整个服务会被忽略；请去掉一个",
)
NOT_JSON = Said(
    "hccl.json is not a JSON object: one unreadable table leaves the whole service out",
    "hccl.json 不是 JSON 对象：只要有一个无法读取，整个服务就会被忽略",
)
COMPLETED = Said("completed", "已完成（completed）")
NOT_COMPLETED_YET = Said(
    "all its pods have their chips, but it is not completed: does the scaler run? see its log",
    "其所有 Pod 都已分配芯片，但它没有完成：scaler 在运行吗？请查看其日志",
)
SAYS_COMPLETED = Said(
    "says completed, but should not: {waits}; does the scaler run?",
    "标为 completed，但不应如此：{waits}；scaler 在运行吗？",
)
LEFT_OUT = Said(
    "not completed, this instance is left out of the global table: {waits}",
    "未完成，此实例不在全局表中：{waits}",
)
PODS_NOT_COMPLETE = Said("its pods are not complete", "它的 Pod 不完整")
JOB_IS_DELETED = Said("its job is being deleted", "它的任务正在删除")
POD_MISSING = Said("pod {name} does not exist", "Pod {name} 不存在")
POD_LOST = Said("pod {name} is terminating or has ended", "Pod {name} 正在终止或已结束")
POD_UNBOUND = Said("pod {name} is not bound to a node", "Pod {name} 未绑定节点")
POD_WITHOUT_DEVICES = Said(
    "pod {name} has no device annotation: do Volcano's NPU plugin and the device plugin run?",
    "Pod {name} 没有设备注解：Volcano 的 NPU 插件和设备插件在运行吗？",
)
POD_WITHOUT_ADDRESS = Said("pod {name} has no address yet", "Pod {name} 还没有地址")
SOME_COMPLETED = Said(
    "{done} of {all} rank tables are completed", "{all} 个 rank table 中 {done} 个已完成"
)
NONE_COMPLETED = Said(
    "no rank table is completed; at least one must be", "没有已完成的 rank table；至少需要一个"
)
NO_ROLE_POD = Said(
    "no pod with label app={app} and the service's {name}; apply its job",
    "没有带标签 app={app} 和本服务 {name} 的 Pod；请应用其任务",
)
ROLE_HAS_ADDRESSES = Said("has its addresses", "已有地址")
ROLE_WITHOUT_ADDRESS = Said(
    "pod {name} has no host or pod address yet", "Pod {name} 还没有节点地址或 Pod 地址"
)

# What a check is about, where that is no object with a name

ABOUT = {
    "API server": "API server",
    "admission": "准入",
    "and": "另外",
    "gate": "门控",
    "global rank table": "全局 rank table",
    "nodes": "节点",
    "pods": "Pod",
    "rank table": "rank table",
    "scheduler": "调度器",
    "service": "服务",
}
SECTIONS = {
    "admission": "准入",
    "labels and rule": "标签与规则",
    "minimum and room": "最小配比与资源",
    "operator": "Operator 与任务",
    "rank table": "rank table 文件",
    "scale": "期望实例数",
    "scheduler": "调度器",
    "warnings": "警告",
}
"""Title of a section -> the same in Chinese."""

# The state, in one line

AVAILABLE = Said("available: {message}", "可用：{message}")
NOT_AVAILABLE = Said("NOT AVAILABLE: {message}", "不可用：{message}")
NOT_KNOWN = Said("not known to be available: {message}", "不知道是否可用：{message}")
AT_REST = Said("rests: {message}", "休眠：{message}")
NO_INSTANCE = Said(
    "not an instance of any service that is seen here", "不是此处可见的任何服务的实例"
)
INSTANCE_IS = Said(
    "{name} is {state}{reason}: {message}{whose}", "{name} 为 {state}{reason}：{message}{whose}"
)
REASON = Said(", {reason}", "，{reason}")
DECIDED_HERE = Said(" (as decided here, not by a scaler)", "（由此处判断，而非 scaler）")
AND_MORE = Said(
    "... and {count} more: scaler status {service}", "…… 其余 {count} 个：scaler status {service}"
)
WHAT_TO_DO = Said("what to do", "下一步")

MORE_WELL = Said("{count} more that are as they should be", "其余 {count} 项正常")
OWN_WORDS = Said("{words}", "{meaning}（{words}）")
"""The scaler's own words, which name the objects, after what they mean."""
