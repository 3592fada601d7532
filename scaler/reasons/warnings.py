"""Every warning beside the reasons: one row each. Whoever adds one reads
docs/howto/add-a-reason.md."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Self

from scaler.reasons.row import WarningRow, Words


class Warning(StrEnum):  # noqa: A001 - the contract's own word; nothing here uses the builtin
    """A problem of an instance or of the whole service, reported beside the reasons. The value is
    the stable name."""

    row: WarningRow

    def __new__(cls, row: Any) -> Self:
        """`row` is a `WarningRow`, as in `Reason`."""
        warning = str.__new__(cls, row.name)
        warning._value_ = row.name
        warning.row = row
        return warning

    INSTANCE_SIZE_MISMATCH = WarningRow(
        name="InstanceSizeMismatch",
        en=Words(
            short="its size is not that of the rule",
            meaning=(
                "the job's replicas are not what `server_num_per_group` says; it counts as one "
                "instance all the same"
            ),
        ),
        zh=Words(
            short="大小与规则不符",
            sentence="任务的副本数与规则不一致；仍按一个实例计数。",
            meaning=("任务的副本数与 `server_num_per_group` 不一致；仍按一个实例计数"),
        ),
    )
    TARGET_UNREACHABLE = WarningRow(
        name="TargetUnreachable",
        passing=True,
        en=Words(
            short="a larger ratio needs more jobs",
            meaning="a larger ratio needs more jobs than exist",
        ),
        zh=Words(
            short="更大的配比需要更多任务",
            sentence="要达到更大的配比，现有的任务不够。",
            meaning="要达到更大的配比，现有的任务不够",
        ),
    )
    HOLD_NOT_POSSIBLE = WarningRow(
        name="HoldNotPossible",
        en=Words(
            short="cannot be held",
            meaning=(
                "it cannot be held: a pod arrived without our gate "
                "([admission](../howto/hold-with-admission.md)), its job has the label of Ascend "
                "Operator's own gate, or its PodGroup contains pods of other instances too. It "
                "counts as it is"
            ),
        ),
        zh=Words(
            short="无法暂挂",
            sentence="无法暂挂它，按现状计数。",
            meaning=(
                "无法暂挂它：有 Pod 创建时没有我们的门控（见[准入"
                "](../howto/hold-with-admission.md)），或任务仍带有启用 Ascend Operator 自身门"
                "控的标签，或它的 PodGroup 还包含其他实例的 Pod。按现状计数"
            ),
        ),
    )
    RESTART_WAS_COUNTED = WarningRow(
        name="RestartWasCounted",
        en=Words(
            short="Volcano counted a restart",
            meaning=(
                "Volcano counted a restart although the scaler had marked the pods that it "
                "deleted. Until the scaler restarts, it leaves `restart_reserve` restarts to this "
                "job"
            ),
            to_do=(
                "look who changes the annotation `volcano.sh/job-version` of pods, or deleted pods "
                "of the job in the same seconds, or whether its new pods failed at once"
            ),
        ),
        zh=Words(
            short="Volcano 计了一次重启",
            sentence=(
                "scaler 在删除 Pod 前已做标记，Volcano 仍计了一次重启。在 scaler 重启之前，"
                "撤销和驱逐会为该任务保留 restart_reserve 次重启。"
            ),
            meaning=(
                "scaler 在删除该 Volcano Job 的 Pod 前已做标记，使其不计入重启，但 Volcano 仍计了"
                "一次。在 scaler 重启之前，撤销和驱逐会为该任务保留 `restart_reserve` 次重启"
            ),
            to_do=(
                "查明是谁修改了 Pod 的注解 `volcano.sh/job-version`，或在同一时刻删除了该任务的 "
                "Pod，或者它的新 Pod 是否立即失败"
            ),
        ),
    )
    MADE_BY_OTHERS = WarningRow(
        name="MadeByOthers",
        en=Words(
            short="another operator makes its pods",
            meaning=(
                "somebody else made a pod of this AscendJob, or wrote its status, in the last "
                "five minutes; the words name it. Until it stops for five minutes the "
                "scaler leaves pods, status and rank table to it"
            ),
            to_do=(
                "stop the other operator; or let it make the pods, and set "
                "`ascend_operator_namespace` to where it is"
            ),
        ),
        zh=Words(
            short="另有组件创建它的 Pod",
            sentence=(
                "另有组件在最近五分钟内创建了该任务的 Pod 或写入了它的状态；其间 scaler 不为它创建"
                " Pod。请停止另一个 Operator，或把 ascend_operator_namespace 设为它所在的命名空间。"
            ),
            meaning=(
                "本应由 scaler 创建 Pod，但最近五分钟内另有组件创建了该 AscendJob 的 Pod 或写入了它"
                "的状态：说明中给出该客户端的名称（其 User-Agent 中的产品名）。在没有其他组件这样做"
                "满五分钟之前，scaler 把该任务留给它：不创建 Pod，也不写状态和 rank table"
            ),
            to_do=(
                "停止另一个 Operator；或由它创建 Pod，并把 `ascend_operator_namespace` 设为它所在的"
                "命名空间"
            ),
        ),
    )
    SUPER_POD_RANK_MISSING = WarningRow(
        name="SuperPodRankMissing",
        en=Words(
            short="no rank in its super-pod",
            meaning=(
                "the scheduler bound pods of a super-pod job with an empty annotation "
                "`super-pod-rank`: one session of it saw only a part of the pods. Containers "
                "read the rank as they start, so only new pods have one"
            ),
            to_do=(
                "delete all pods of the instance with one command: the scheduler then chooses for "
                "all of them again, and what made them makes them anew"
            ),
        ),
        zh=Words(
            short="在超节点中没有编号",
            sentence=(
                "调度器绑定了超节点任务的 Pod，但注解 super-pod-rank 为空。请用一条命令删除该实例"
                "的全部 Pod，由调度器重新选择。"
            ),
            meaning=(
                "调度器绑定了超节点任务的 Pod，但注解 `super-pod-rank` 为空：它的某次调度只看到了"
                "一部分 Pod。容器在启动时读取该编号，因此只有新建的 Pod 才会有编号"
            ),
            to_do=(
                "用一条命令删除该实例的全部 Pod：调度器会为它们重新选择节点，Pod 由原来的创建者重新"
                "创建"
            ),
        ),
    )
    UNKNOWN_OWNER = WarningRow(
        name="UnknownOwner",
        en=Words(
            short="its owner is not known",
            meaning=(
                "its pods were made by a kind of workload that is not known here: each counts "
                "as an instance, unless annotations `mind-cluster/instance` and "
                "`mind-cluster/instance-size` say otherwise"
            ),
        ),
        zh=Words(
            short="属主未知",
            sentence=("它的 Pod 由这里不认识的工作负载种类创建：每个 Pod 算一个实例。"),
            meaning=(
                "它的 Pod 由这里不认识的工作负载种类创建：每个 Pod 算一个实例，除非注解 "
                "`mind-cluster/instance` 和 `mind-cluster/instance-size` 另有说明"
            ),
        ),
    )
    JOB_INVALID = WarningRow(
        name="JobInvalid",
        en=Words(
            meaning=(
                "a job with pods was edited so that none could be made of it any more: those "
                "that run stay, lost ones are not replaced (of others: held ones are not "
                "released) until it is fixed"
            )
        ),
        zh=Words(
            meaning=(
                "已有 Pod 的任务被修改，改后无法再据以创建 Pod：改正之前，运行中的 Pod 保留，失"
                "去的 Pod 不再补充（由他人创建时：暂挂的 Pod 不被移除门控）"
            )
        ),
    )
    RULE_MISSING = WarningRow(
        name="RuleMissing",
        passing=True,
        of_rule=True,
        en=Words(meaning=("the rule is gone or has an error; the last valid one stays in force")),
        zh=Words(meaning="规则不存在或有错误；最后一份有效规则继续生效"),
    )
    RULE_INVALID = WarningRow(
        name="RuleInvalid",
        of_rule=True,
        en=Words(meaning=("the rule is gone or has an error; the last valid one stays in force")),
        zh=Words(meaning="规则不存在或有错误；最后一份有效规则继续生效"),
    )
    OBJECT_UNREADABLE = WarningRow(
        name="ObjectUnreadable",
        en=Words(
            short="cannot be read",
            meaning=(
                "an object that names the service's rule, or the rule's ConfigMap, cannot be "
                "read; the words say which and why. What was read before stays in force, and "
                "everything else goes on"
            ),
        ),
        zh=Words(
            short="无法读取",
            sentence="有对象无法读取；之前读到的内容继续有效。",
            meaning=(
                "某个指定了本服务规则的对象，或规则的 ConfigMap，无法读取；说明中指出是哪个对象"
                "以及原因。之前读到的内容继续有效，其余一切照常"
            ),
        ),
    )
    NOT_DECIDED = WarningRow(
        name="NotDecided",
        en=Words(
            short="was not decided",
            meaning=(
                "an error of the scaler itself, in this service alone: the service stays as it "
                "is, the others are decided, and it is tried again. Please report it with the "
                "log line `service cannot be decided`"
            ),
        ),
        zh=Words(
            short="未作决策",
            sentence=("scaler 自身的缺陷：该服务维持现状，之后会重试。请报告此问题。"),
            meaning=(
                "scaler 自身的缺陷，只涉及这一个服务：该服务维持现状，其他服务照常决策，之后会"
                "重试。请附上日志 `service cannot be decided` 报告此问题"
            ),
        ),
    )
    REQUESTS_ROUNDED = WarningRow(
        name="RequestsRounded",
        en=Words(
            short="its requests are rounded up",
            meaning=(
                "waiting pods of this namespace have too many unlike requests: they are rounded "
                "up to few, and pods with a selector, affinity or tolerations may wait. Give "
                "jobs of one kind equal requests"
            ),
        ),
        zh=Words(
            short="请求被向上取整",
            sentence="本命名空间中等待空间的 Pod 的请求种类过多：按少数几种向上取整计算。",
            meaning=(
                "本命名空间中等待空间的 Pod 的请求种类过多，超出单个命名空间可占用的决策时间："
                "按少数几种向上取整计算，带有各自选择器、亲和性或容忍的 Pod 可能要等待轮到自己。"
                "请让同类任务使用相同的请求和约束"
            ),
        ),
    )
    NOT_KEPT = WarningRow(
        name="NotKept",
        en=Words(
            short="is not kept",
            meaning=(
                "as much is kept for this namespace as one namespace may have "
                "(`kept_per_namespace`); the words say what is not kept. Delete jobs and rules "
                "that nobody needs, or raise the setting"
            ),
        ),
        zh=Words(
            short="未保留",
            sentence="本命名空间保留的内容已达上限，更多的不再保留。",
            meaning=(
                "本命名空间保留的内容已达上限（`kept_per_namespace`）；说明中指出未保"
                "留的是什么：最后一份有效规则（仍然生效；若 scaler 重启时 ConfigMap 不在则丢失）、"
                "ElasticService（任务的状态条件和事件已说明一切），或驱逐次数（不会为该服务驱逐任何实"
                "例）。请删除不再需要的任务和规则，或调大该设置"
            ),
        ),
    )
    RANK_TABLE_MISSING = WarningRow(
        name="RankTableMissing",
        passing=True,
        en=Words(
            short="has no rank table",
            meaning=(
                "its pods mount the ConfigMap `rings-config-<job>`, which does not exist: "
                "create it, it is filled at once"
            ),
        ),
        zh=Words(
            short="没有 rank table",
            sentence=("它的 Pod 挂载的 rank table ConfigMap 不存在。请创建，内容会立即填入。"),
            meaning=(
                "它的 Pod 挂载的 ConfigMap `rings-config-<job>` 不存在：请创建，内容会立即填入"
            ),
        ),
    )
    RANK_TABLE_NOT_OURS = WarningRow(
        name="RankTableNotOurs",
        en=Words(
            short="the rank table belongs to another owner",
            meaning=("that ConfigMap has a controlling owner other than the job; it is left alone"),
        ),
        zh=Words(
            short="rank table 属于其他属主",
            sentence="rank table 的 ConfigMap 不属于该任务，不作改动。",
            meaning="该 ConfigMap 的 controller 属主不是该任务；不作改动",
        ),
    )
    RANK_TABLE_IMMUTABLE = WarningRow(
        name="RankTableImmutable",
        en=Words(
            short="the rank table is immutable",
            meaning="that ConfigMap is immutable: delete and create it",
        ),
        zh=Words(
            short="rank table 不可修改",
            sentence="rank table 的 ConfigMap 不可修改。请删除后重新创建。",
            meaning="该 ConfigMap 不可修改（immutable）：请删除后重新创建",
        ),
    )
    RANK_TABLE_WRONG_SHAPE = WarningRow(
        name="RankTableWrongShape",
        en=Words(
            short="the rank table has another shape",
            meaning=(
                "that ConfigMap has `hccl.json` among its binary data, which no program reads: it"
                " has to be text"
            ),
        ),
        zh=Words(
            short="rank table 格式不符",
            sentence="hccl.json 位于 binaryData 中，没有程序会去读：必须是文本。",
            meaning=("该 ConfigMap 的 `hccl.json` 位于 binaryData 中，没有程序会去读：必须是文本"),
        ),
    )
    RANK_TABLE_TOO_LARGE = WarningRow(
        name="RankTableTooLarge",
        en=Words(
            short="the rank table is too large",
            meaning=(
                "that ConfigMap would be larger than an object may be: take other keys out of it"
            ),
        ),
        zh=Words(
            short="rank table 过大",
            sentence=("rank table 会超出单个对象的大小上限。请移走该 ConfigMap 中的其他键。"),
            meaning="该 ConfigMap 会超出单个对象的大小上限：请移走其中的其他键",
        ),
    )
    RANK_TABLE_REFUSED = WarningRow(
        name="RankTableRefused",
        en=Words(
            short="the rank table was refused",
            meaning=(
                "the API server refused the write; the words are the server's. Tried again "
                "every minute and on change"
            ),
        ),
        zh=Words(
            short="rank table 被拒绝",
            sentence="API Server 拒绝写入 rank table；每分钟重试一次。",
            meaning=("API Server 拒绝写入；说明即服务器的原话。每分钟重试一次，对象变化时也会重试"),
        ),
    )
    DEVICE_DATA_INVALID = WarningRow(
        name="DeviceDataInvalid",
        passing=True,
        en=Words(
            short="its device data is invalid",
            meaning=(
                "the device annotations of its pods do not make a rank table; the words name "
                "the pod and what is wrong"
            ),
        ),
        zh=Words(
            short="设备数据无效",
            sentence="Pod 的设备注解不足以生成 rank table。",
            meaning=("Pod 的设备注解不足以生成 rank table；说明中指出是哪个 Pod、错在哪里"),
        ),
    )
