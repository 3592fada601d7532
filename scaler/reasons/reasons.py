"""Every reason of an instance: one row each. Whoever adds one reads docs/howto/add-a-reason.md.

Events, conditions, ElasticServices, commands, the page, the pages of reference and runbooks and an
alert read these rows. Instances have exactly one reason; section 5 of the contract has the list."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Self

from scaler.names import GROUP_LABEL, JOB_ID_LABEL, RULE_LABEL
from scaler.reasons.row import Lacks, Part, Row, Tone, Words
from scaler.reasons.steps import Step


class Reason(StrEnum):
    """Why an instance is in its state. The value is the stable name, `row` is all that holds of the
    reason wherever it is shown."""

    row: Row

    def __new__(cls, row: Any) -> Self:
        """`row` is a `Row`; only a look-up by the name, `Reason("Running")`, gives something
        else, and does not come here."""
        reason = str.__new__(cls, row.name)
        reason._value_ = row.name
        reason.row = row
        return reason

    WAITING_FOR_RATIO = Row(
        name="WaitingForRatio",
        part=Part.HELD,
        follows=True,
        starts_when_it_fits=True,
        of_counts="wait for {awaited}",
        en=Words(
            short="waits for another group",
            meaning=(
                "its group has all that the target ratio asks for; another group has to reach "
                "its number first"
            ),
            to_do=(
                "nothing; the words name the group and its counts. If that group makes no "
                "progress, look at its instances"
            ),
        ),
        zh=Words(
            short="等待另一组",
            sentence=(
                "它所在的组已满足目标配比，要等另一个组先达到。如果迟迟没有进展，请查看那个组的"
                "实例。"
            ),
            meaning="它所在的组已经有目标配比要求的全部实例；要等另一个组先达到",
            to_do=("无需处理；说明中有该组的名称和数量。如果该组迟迟没有进展，请查看该组的实例"),
        ),
    )
    NOT_IN_RATIO = Row(
        name="NotInRatio",
        part=Part.HELD,
        tone=Tone.WELL,
        follows=True,
        of_counts="are spares above the largest ratio",
        en=Words(
            short="spare above the largest ratio",
            sentence=(
                "Even the largest ratio has place for only {about} of {group}; this one is a "
                "spare that starts when another is lost. Raise group_num to run it too."
            ),
            meaning="even the largest ratio has no place for it: a spare",
            to_do="nothing, or raise `group_num`",
        ),
        zh=Words(
            short="超出最大配比的备用",
            sentence=("最大的配比也没有它的位置：它是备用实例，别的实例失去时会启动。"),
            meaning="最大的配比也没有它的位置：它是备用实例",
            to_do="无需处理，或增大 `group_num`",
        ),
    )
    GROUP_UNKNOWN = Row(
        name="GroupUnknown",
        part=Part.HELD,
        tone=Tone.PERSON,
        counts_for_nothing=True,
        en=Words(
            short="the rule does not know its group",
            meaning=(
                "no ratio names its group; the words name the nearest that there is. Also of "
                "one that [runs](#a-wrong-label-on-something-that-runs)"
            ),
            to_do="correct the label `mind-cluster/group-name` or the rule",
            if_it_lasts=(
                "correct the label on the job, or on the template of the pods; compare with the"
                " groups that the rule names"
            ),
        ),
        zh=Words(
            short="规则中没有它的组",
            sentence=(
                "规则中没有任何配比包含它的组。请改正标签 mind-cluster/group-name，或改正规则。"
            ),
            meaning=(
                "没有任何配比包含它的组；说明中给出最接近的组名。[运行中的实例](#运行中的实例标"
                "签有误)也可能如此"
            ),
            to_do="改正标签 `mind-cluster/group-name`，或改正规则",
            if_it_lasts="改正任务或 Pod 模板上的标签；与规则中的组对照",
        ),
    )
    GROUP_LABEL_MISSING = Row(
        name="GroupLabelMissing",
        part=Part.HELD,
        tone=Tone.PERSON,
        counts_for_nothing=True,
        missing_label=GROUP_LABEL,
        en=Words(
            short="has no group label",
            sentence=(
                "The label mind-cluster/group-name is missing or empty; set it to the group of "
                "rule {key.rule} this job belongs to."
            ),
            meaning="the job names a rule but no group. Also of one that runs",
            to_do="set the label `mind-cluster/group-name`",
            if_it_lasts=(
                "correct the label on the job, or on the template of the pods; compare with the"
                " groups that the rule names"
            ),
        ),
        zh=Words(
            short="缺少组标签",
            sentence="任务没有指定组。请设置标签 mind-cluster/group-name。",
            meaning="任务指定了规则，但没有指定组。运行中的实例也可能如此",
            to_do="设置标签 `mind-cluster/group-name`",
            if_it_lasts="改正任务或 Pod 模板上的标签；与规则中的组对照",
        ),
    )
    JOB_ID_MISSING = Row(
        name="JobIdMissing",
        part=Part.HELD,
        tone=Tone.PERSON,
        counts_for_nothing=True,
        missing_label=JOB_ID_LABEL,
        en=Words(
            short="has no jobID label",
            sentence=(
                "The label jobID is missing or empty; set it to the id of the inference service."
            ),
            meaning="the job names a rule but no service. Also of one that runs",
            to_do="set the label `jobID`",
            if_it_lasts=(
                "correct the label on the job, or on the template of the pods; compare with the"
                " groups that the rule names"
            ),
        ),
        zh=Words(
            short="缺少 jobID 标签",
            sentence="任务没有指定服务。请设置标签 jobID。",
            meaning="任务指定了规则，但没有指定服务。运行中的实例也可能如此",
            to_do="设置标签 `jobID`",
            if_it_lasts="改正任务或 Pod 模板上的标签；与规则中的组对照",
        ),
    )
    RULE_MISSING = Row(
        name="RuleMissing",
        part=Part.HELD,
        tone=Tone.PERSON,
        step=Step.RULE,
        counts_for_nothing=True,
        missing_label=RULE_LABEL,
        other_alert=True,
        en=Words(
            short="the rule does not exist",
            meaning=(
                "the ConfigMap does not exist and no valid rule was ever seen. Also of one that"
                " runs"
            ),
            to_do=("create it, or correct the label `mind-cluster/scaling-rule`"),
            if_unavailable="see [ScalerRuleInvalid](#scalerruleinvalid)",
        ),
        zh=Words(
            short="规则不存在",
            sentence=("规则的 ConfigMap 不存在。请创建它，或改正标签 mind-cluster/scaling-rule。"),
            meaning=("ConfigMap 不存在，也从未有过有效的规则。运行中的实例也可能如此"),
            to_do="创建该 ConfigMap，或改正标签 `mind-cluster/scaling-rule`",
            if_unavailable="见 [ScalerRuleInvalid](#scalerruleinvalid)",
        ),
    )
    RULE_INVALID = Row(
        name="RuleInvalid",
        part=Part.HELD,
        tone=Tone.PERSON,
        step=Step.RULE,
        counts_for_nothing=True,
        other_alert=True,
        en=Words(
            short="the rule is invalid",
            sentence=(
                "ConfigMap {key.namespace}/{key.rule} has never held a valid rule{colon}; fix "
                "it, 'scaler lint' says where."
            ),
            meaning=(
                "the ConfigMap has an error and no valid rule was ever seen. Also of one that runs"
            ),
            to_do="fix it; `scaler lint` says where",
            if_unavailable="see [ScalerRuleInvalid](#scalerruleinvalid)",
        ),
        zh=Words(
            short="规则无效",
            sentence="规则有错误。请改正；scaler lint 会指出位置。",
            meaning=("ConfigMap 有错误，也从未有过有效的规则。运行中的实例也可能如此"),
            to_do="改正；`scaler lint` 会指出位置",
            if_unavailable="见 [ScalerRuleInvalid](#scalerruleinvalid)",
        ),
    )
    MINIMUM_DOES_NOT_FIT = Row(
        name="MinimumDoesNotFit",
        part=Part.HELD,
        step=Step.ROOM,
        room_may_end_it=True,
        starts_when_it_fits=True,
        lacks=Lacks.MINIMUM,
        en=Words(
            short="the smallest ratio does not fit",
            sentence=(
                "The smallest ratio of the service does not fit on the free nodes{colon}. A cluster"
                " autoscaler sees it with the setting provisioning_request only."
            ),
            meaning=(
                "the smallest ratio does not fit on the free nodes; the words say what is "
                "missing, of which resource, on which nodes"
            ),
            to_do=(
                "wait, or add or repair nodes. `scaler plan --nodes` says how many would do. A "
                "cluster autoscaler adds nodes for it with the setting `provisioning_request` only"
            ),
            if_unavailable=(
                "The words say how many nodes of which kind are missing. Repair or uncordon "
                "such a node (`kubectl uncordon NODE`), end training that runs there, or stop a"
                " less important service"
            ),
        ),
        zh=Words(
            short="最小配比放不下",
            sentence=(
                "空闲节点放不下最小配比。请等待，或者增加、修复节点。只有设置了 "
                "provisioning_request，集群自动扩缩器才会看到它。"
            ),
            meaning=("空闲节点放不下最小配比；说明中指出哪些节点上缺哪种资源、缺多少"),
            to_do=(
                "等待，或者增加、修复节点。`scaler plan --nodes` 会算出需要多少节点。只有设置了 "
                "`provisioning_request`，集群自动扩缩器才会为它增加节点"
            ),
            if_unavailable=(
                "说明中指出缺少多少个哪种节点。修复这样的节点，或重新标记为可调度（"
                "`kubectl uncordon NODE`），结束在其上运行的训练任务，或者停掉一个不太重要的服"
                "务"
            ),
        ),
    )
    MINIMUM_INCOMPLETE = Row(
        name="MinimumIncomplete",
        part=Part.HELD,
        step=Step.APPLY,
        lacks=Lacks.ROOM,
        en=Words(
            short="jobs of the smallest ratio are missing",
            sentence=("Jobs of the smallest ratio are missing or invalid{colon}; the others wait."),
            meaning="not all jobs of the smallest ratio exist",
            to_do="apply the missing jobs",
            if_unavailable="a job of the smallest ratio does not exist: apply it",
        ),
        zh=Words(
            short="最小配比缺少任务",
            sentence="最小配比所需的任务不全。请应用缺少的任务。",
            meaning="最小配比所需的任务不全",
            to_do="应用缺少的任务",
            if_unavailable="缺少它的某个任务：应用该任务",
        ),
    )
    MINIMUM_TOO_LARGE = Row(
        name="MinimumTooLarge",
        part=Part.HELD,
        tone=Tone.PERSON,
        step=Step.ROOM,
        room_may_end_it=True,
        starts_when_it_fits=True,
        lacks=Lacks.ROOM,
        en=Words(
            short="too large for this cluster",
            sentence=(
                "The smallest ratio would not fit even on empty nodes{colon}; use a smaller one, "
                "or add such nodes."
                " A cluster autoscaler sees it with the setting provisioning_request only."
            ),
            meaning="the smallest ratio would not even fit on empty nodes",
            to_do=(
                "use a smaller one, or add nodes. A cluster autoscaler adds nodes for it with the "
                "setting `provisioning_request` only"
            ),
            if_unavailable=(
                "the smallest ratio would not fit on empty nodes: compare the node selector of "
                "the job with the labels of the nodes, or write a smaller last ratio"
            ),
            if_it_lasts=(
                "the smallest ratio would not fit on empty nodes: wrong node selector, or a "
                "smallest ratio that is too large"
            ),
        ),
        zh=Words(
            short="对本集群过大",
            sentence=(
                "即使节点全部空闲，也放不下最小配比。请使用更小的配比，或增加节点。只有设置了 "
                "provisioning_request，集群自动扩缩器才会看到它。"
            ),
            meaning="即使节点全部空闲，也放不下最小配比",
            to_do=(
                "使用更小的配比，或增加节点。只有设置了 `provisioning_request`，"
                "集群自动扩缩器才会为它增加节点"
            ),
            if_unavailable=(
                "节点全部空闲也放不下：对比任务的节点选择器与节点的标签，或在规则最后一行写一个"
                "更小的配比"
            ),
            if_it_lasts="节点全部空闲也放不下：节点选择器有误，或最小配比过大",
        ),
    )
    MINIMUM_NOT_SCHEDULED = Row(
        name="MinimumNotScheduled",
        part=Part.HELD,
        tone=Tone.PERSON,
        step=Step.POD_GROUP,
        room_may_end_it=True,
        other_alert=True,
        en=Words(
            short="the scheduler bound nothing in time",
            sentence=("The smallest ratio is not scheduled{colon}."),
            meaning=(
                "room was reserved for the smallest ratio, and the scheduler bound none of its "
                "pods within `minimum_timeout`. The service is in backoff; the words say how "
                "often, and when it is tried again"
            ),
            to_do="ask the scheduler: `kubectl describe podgroup`",
            if_unavailable="see [ScalerReservationIgnored](#scalerreservationignored)",
        ),
        zh=Words(
            short="调度器没有及时绑定",
            sentence=(
                "已为最小配比预留资源，但调度器没有及时绑定任何 Pod。稍后会重试；请查看调度器给"
                "出的原因。"
            ),
            meaning=(
                "已为最小配比预留资源，但调度器在一次尝试（`minimum_timeout`）内没有绑定任何 "
                "Pod。服务处于退避中，不预留资源；说明中有次数和下次尝试的时间"
            ),
            to_do="查看调度器给出的原因：`kubectl describe podgroup`",
            if_unavailable="见 [ScalerReservationIgnored](#scalerreservationignored)",
        ),
    )
    WAITING_FOR_ROOM = Row(
        name="WaitingForRoom",
        part=Part.HELD,
        step=Step.ROOM,
        room_may_end_it=True,
        room_is_kept=True,
        lacks=Lacks.MINIMUM,
        en=Words(
            short="reserved room is not free yet",
            sentence=("Room for the smallest ratio is reserved and not free yet{colon}."),
            meaning=(
                "room for the smallest ratio is reserved and not free yet: pods have to end, a "
                "node has to return, pods of another instance are missing, or something else is "
                "bound first. The words name it"
            ),
            to_do="nothing",
            if_unavailable=(
                "The words name what has to end. When a pod does not end because its node is "
                "gone, make sure that the machine is off and delete the Node object"
            ),
        ),
        zh=Words(
            short="预留的资源尚未空出",
            sentence="已为最小配比预留资源，但这些资源尚未空出。无需处理。",
            meaning=(
                "已为最小配比预留资源，但还不能放行：占用这些资源的 Pod 要先终止，或正在被驱逐"
                "；节点要先恢复；另一个实例的 Pod 还不存在；或者别的实例要先绑定。说明中指出是"
                "哪一种"
            ),
            to_do="无需处理",
            if_unavailable=(
                "说明中指出什么必须先终止。如果 Pod 因节点失联而无法终止：确认机器已断电后，删"
                "除 Node 对象"
            ),
        ),
    )
    WAITING_FOR_CAPACITY = Row(
        name="WaitingForCapacity",
        part=Part.HELD,
        step=Step.ROOM,
        room_may_end_it=True,
        starts_when_it_fits=True,
        lacks=Lacks.ROOM,
        en=Words(
            short="waits for free nodes",
            sentence="Waits for free nodes{colon}.",
            meaning=(
                "an instance beyond the smallest ratio has no room beside all reservations, or "
                "could invalidate one, or is in backoff; the words say which, and what is "
                "missing"
            ),
            to_do="nothing, or add nodes",
        ),
        zh=Words(
            short="等待空闲节点",
            sentence=("它超出最小配比，在各项预留之外没有资源。请等待，或增加节点。"),
            meaning=(
                "超出最小配比的实例，在各项预留之外没有资源，或者可能使某项预留失效，或者处于退"
                "避中；说明中指出是哪一种，以及缺什么"
            ),
            to_do="无需处理，或增加节点",
        ),
    )
    REVOKED = Row(
        name="Revoked",
        part=Part.HELD,
        room_may_end_it=True,
        starts_when_it_fits=True,
        en=Words(
            short="its admission was revoked",
            meaning=(
                "its admission was revoked before any pod was bound, because the ratio has no "
                "place for it or another instance goes in its place"
            ),
            to_do="nothing; it is admitted again when it has a place",
        ),
        zh=Words(
            short="放行已被撤销",
            sentence="它的放行在 Pod 被绑定之前被撤销；有位置时会再次被放行。",
            meaning=(
                "它的放行在任何 Pod 被绑定之前被撤销，因为配比中没有它的位置，或者由另一个实例"
                "代替它"
            ),
            to_do="无需处理；有位置时会再次被放行",
        ),
    )
    SCALED_DOWN = Row(
        name="ScaledDown",
        part=Part.HELD,
        tone=Tone.WELL,
        step=Step.SCALE,
        follows=True,
        of_counts="are more than is wanted",
        en=Words(
            short="not wanted by spec.replicas",
            meaning=(
                "`spec.replicas` of its ElasticService asks for fewer instances: held, or its "
                "pods are deleted and on their way out"
            ),
            to_do="nothing, or raise `spec.replicas`",
        ),
        zh=Words(
            short="按 spec.replicas 缩容",
            sentence=(
                "目前不需要它：所需的实例数量（ElasticService 的 spec.replicas）较少；调大该数"
                "量即可运行更多实例。"
            ),
            meaning=(
                "其 ElasticService 的 `spec.replicas` 要求的实例更少：它被暂挂，或其 Pod 已被删"
                "除、正在退出"
            ),
            to_do="无需处理，或调大 `spec.replicas`",
        ),
    )
    NAME_TAKEN = Row(
        name="NameTaken",
        part=Part.HELD,
        tone=Tone.PERSON,
        en=Words(
            short="its name is taken",
            sentence=("{about} already exists and belongs to another owner; it has to go first."),
            meaning="an object of another owner, which is not ending, has a name that it needs",
            to_do="delete that object, or wait until it is gone",
            if_it_lasts=(
                "an object of another owner has the name, the words name it. Delete it, or wait"
                " until it is gone"
            ),
        ),
        zh=Words(
            short="名称已被占用",
            sentence=("它需要的名称被另一属主的对象占用。请删除该对象，或等它消失。"),
            meaning="它需要的名称被另一属主的对象占用，且该对象未在终止",
            to_do="删除该对象，或等它消失",
            if_it_lasts=("名称被其他属主的对象占用：说明中有该对象。删除它，或等它消失"),
        ),
    )
    CREATE_REFUSED = Row(
        name="CreateRefused",
        part=Part.HELD,
        tone=Tone.PERSON,
        en=Words(
            short="its creation was refused",
            sentence=(
                "Its creation was refused: {about}; it is tried again on change and with pauses."
            ),
            meaning=(
                "the API server refused its pods, the words are the server's; or another client"
                " deletes its objects, ten times within a minute"
            ),
            to_do=(
                "remove the cause (quota, admission, spec, whoever deletes). It is tried again "
                "alone, on change and with pauses; the next held instance goes meanwhile"
            ),
            if_it_lasts=(
                "the words are the API server's: a quota "
                "(`kubectl describe resourcequota -n NAMESPACE`), an admission webhook or a "
                "policy, an invalid spec"
            ),
        ),
        zh=Words(
            short="创建被拒绝",
            sentence=(
                "API Server 拒绝创建它的 Pod。请消除起因（配额、准入、spec）；之后会自动重试。"
            ),
            meaning=(
                "API Server 拒绝创建它的 Pod，说明即服务器的原话；或者有人在一分钟内十次删除为"
                "它创建的 Pod"
            ),
            to_do=(
                "消除起因（配额、准入、spec、删除者）。对象变化时会自动重试，否则间隔一段时间重"
                "试；期间改为放行下一个暂挂的实例"
            ),
            if_it_lasts=(
                "说明即 API Server 的原话：配额（`kubectl describe resourcequota -n NAMESPACE`"
                "）、准入 Webhook 或策略、无效的 spec"
            ),
        ),
    )
    JOB_INVALID = Row(
        name="JobInvalid",
        part=Part.HELD,
        tone=Tone.PERSON,
        en=Words(
            short="no pods can be made of its job",
            meaning=(
                "no pods can be made of the job; the words name every fault. Or MindCluster's "
                "scheduler never starts it (`JobValidateFailed`): its `sp-block`, NPUs or policy "
                "do not fit together"
            ),
            to_do=(
                "edit the job; nothing has to be deleted, and pods that run stay. `scaler lint` "
                "finds the same. Beside Ascend Operator: delete a job that the operator has "
                "refused, and create it again"
            ),
            if_it_lasts="edit the job; the words name every fault",
        ),
        zh=Words(
            short="任务无法生成 Pod",
            sentence=(
                "无法根据该任务创建 Pod，或调度器称永远不会启动它。请修改任务；运行中的 Pod 不受影"
                "响。"
            ),
            meaning=(
                "无法根据该任务创建 Pod；说明中列出全部错误，名称与 Ascend Operator 相同。或者 "
                "MindCluster 的调度器称无论有多少空闲资源都不会启动该任务（`JobValidateFailed`）："
                "它的 `sp-block`、NPU 数量或调度策略互相不符"
            ),
            to_do=(
                "修改任务；不需要删除任何对象，运行中的 Pod 不受影响。`scaler lint` 能发现同样"
                "的问题。与 Ascend Operator 并存时：被 Operator 拒绝的任务必须删除后重新创建；"
                "说明即 Operator 的原话"
            ),
            if_it_lasts="修改任务；说明中列出全部错误",
        ),
    )
    PAUSED = Row(
        name="Paused",
        part=Part.HELD,
        step=Step.RESUME,
        of_counts="wait until the rule is no longer paused",
        en=Words(
            short="the rule is paused",
            sentence=(
                'Rule {key.rule} says mind-cluster/paused: "true"; remove the annotation to go on.'
            ),
            meaning='the rule says `mind-cluster/paused: "true"`',
            to_do="remove the annotation to go on",
            if_unavailable=(
                "the rule is paused. To end the pause: "
                "`kubectl annotate configmap -n NAMESPACE RULE mind-cluster/paused-`"
            ),
        ),
        zh=Words(
            short="规则已暂停",
            sentence="规则已暂停。移除注解 mind-cluster/paused 即可继续。",
            meaning='规则中有 `mind-cluster/paused: "true"`',
            to_do="移除该注解即可继续",
            if_unavailable=(
                "有人暂停了规则：待其完成后，执行 "
                "`kubectl annotate configmap -n NAMESPACE RULE mind-cluster/paused-`"
            ),
        ),
    )
    TERMINATING = Row(
        name="Terminating",
        part=Part.HELD,
        en=Words(
            short="its pods are ending",
            sentence=("Its pods are ending{colon}; it can start again when they are gone."),
            meaning="its pods are ending",
            to_do="nothing",
        ),
        zh=Words(
            short="Pod 正在终止",
            sentence="它的 Pod 正在终止；终止之后可以再次启动。",
            meaning="它的 Pod 正在终止",
            to_do="无需处理",
        ),
    )
    RESTARTED_FOR_FAULT = Row(
        name="RestartedForFault",
        part=Part.HELD,
        room_may_end_it=True,
        en=Words(
            short="started anew after a fault",
            sentence=(
                "All its pods are deleted, each with its own grace period, and it starts anew at "
                "the largest size that has room{colon}."
            ),
            meaning=(
                "a pod of the training job was lost, so all are deleted and it starts anew, at "
                "the largest size that has room "
                "([training jobs](../explanation/how-it-decides.md#training-jobs))"
            ),
            to_do="nothing; the words name the pod or the node",
        ),
        zh=Words(
            short="故障后重新启动",
            sentence=("它的全部 Pod 按各自的宽限期删除，然后以资源足够的最大规模重新启动。"),
            meaning=(
                "训练任务失去了一个 Pod，所以删除全部 Pod，以资源足够的最大规模重新启动"
                "（[训练任务（英文）](../../explanation/how-it-decides.md#training-jobs)）"
            ),
            to_do="无需处理；说明中有该 Pod 或节点",
        ),
    )
    GROWING = Row(
        name="Growing",
        part=Part.HELD,
        en=Words(
            short="started anew at another size",
            sentence=(
                "All its pods are deleted, each with its own grace period, and it starts anew at "
                "a larger size, or at what spec.replicas asks for."
            ),
            meaning=(
                "the training job runs, and is started anew at a larger size that has had room "
                "for a while, or at a smaller one because `spec.replicas` asks for fewer "
                "([training jobs](../explanation/how-it-decides.md#training-jobs))"
            ),
            to_do="nothing",
        ),
        zh=Words(
            short="以另一规模重新启动",
            sentence=(
                "它的全部 Pod 按各自的宽限期删除，然后以更大的规模，或 spec.replicas 要求的规模，"
                "重新启动。"
            ),
            meaning=(
                "训练任务在运行；更大的规模有资源已有一段时间，或者 `spec.replicas` 要求更少，"
                "所以以另一规模重新启动（[训练任务（英文）](../../explanation/how-it-decides.md#training-jobs)）"
            ),
            to_do="无需处理",
        ),
    )
    PREEMPTED = Row(
        name="Preempted",
        part=Part.HELD,
        room_may_end_it=True,
        en=Words(
            short="evicted for another service",
            meaning=(
                "its pods are ending: it was evicted so that a missing instance of another "
                "service, or of its own, can start; the words name that service "
                "([preemption](../explanation/minimums-first.md#preemption))"
            ),
            to_do="nothing; it is admitted again when there is room",
        ),
        zh=Words(
            short="被其他服务抢占",
            sentence="它被驱逐，使缺失的最小配比得以启动；有资源时会再次启动。",
            meaning=(
                "它的 Pod 正在终止：它被驱逐，使另一个服务或本服务中缺失的实例得以启动；说明中"
                "有该服务的名称（[抢占（英文）](../../explanation/minimums-first.md#preemption)）"
            ),
            to_do="无需处理；有资源时会再次被放行",
        ),
    )
    WAITING_FOR_SCHEDULER = Row(
        name="WaitingForScheduler",
        part=Part.ADMITTED,
        tone=Tone.WELL,
        step=Step.POD_GROUP,
        room_may_end_it=True,
        room_is_kept=True,
        en=Words(
            short="waits for the scheduler",
            meaning=(
                "its pods exist, not all are bound to a node. Where another owner makes the "
                "pods, also a held instance that has a place and no pods yet: for example, "
                "Volcano keeps its PodGroup in the queue"
            ),
            to_do="if it lasts: `kubectl describe podgroup`",
            if_unavailable=(
                "the scheduler has its pods. Are enough nodes free? A service that shares its "
                "nodes with no other may lack nodes, as with `MinimumDoesNotFit`. If there are "
                "enough: [ScalerReservationIgnored](#scalerreservationignored)"
            ),
        ),
        zh=Words(
            short="等待调度器",
            sentence=("等待调度器绑定它的 Pod。如果持续不变，请执行 kubectl describe podgroup。"),
            meaning=(
                "它的 Pod 已存在，但没有全部绑定到节点。由他人创建 Pod 时，也用于配比中有位置但"
                "还没有 Pod 的暂挂实例：例如 Volcano 让它的 PodGroup 留在队列中"
            ),
            to_do="如果持续不变：`kubectl describe podgroup`",
            if_unavailable=(
                "Pod 已交给调度器。先对照节点：不与其他服务共用节点的服务，即使没有空闲资源也会"
                "交给调度器，这时缺的是节点，处理方法同 `MinimumDoesNotFit`。如果节点足够，见 "
                "[ScalerReservationIgnored](#scalerreservationignored)"
            ),
        ),
    )
    STARTING = Row(
        name="Starting",
        part=Part.ADMITTED,
        tone=Tone.WELL,
        step=Step.POD,
        en=Words(
            short="its pods are starting",
            sentence="All its pods are bound and starting{colon}.",
            meaning="all pods are bound and not all are running",
            to_do="if it lasts: `kubectl describe pod`",
            if_unavailable=(
                "the pods are on their nodes and do not run: `kubectl describe pod -n NAMESPACE "
                "POD`, at its end. Often an image, a volume or a device plugin. If your model "
                "loads for more than 10 minutes, raise `for`"
            ),
        ),
        zh=Words(
            short="Pod 正在启动",
            sentence="全部 Pod 已绑定，正在启动。",
            meaning="全部 Pod 已绑定，但没有全部运行",
            to_do="如果持续不变：`kubectl describe pod`",
            if_unavailable=(
                "Pod 已在节点上，但没有运行：看 `kubectl describe pod -n NAMESPACE POD` 的末尾"
                "。常见起因是镜像、卷或设备插件。加载大模型也可能需要 10 分钟以上：这时请增大告"
                "警的 `for`"
            ),
        ),
    )
    RUNNING = Row(
        name="Running",
        part=Part.OTHERS,
        tone=Tone.WELL,
        en=Words(
            short="runs",
            sentence="Runs.",
            meaning="it runs and counts",
        ),
        zh=Words(
            short="运行",
            sentence="运行中，并计数。",
            meaning="运行中，并计数",
        ),
    )
    RUNNING_SMALLER = Row(
        name="RunningSmaller",
        part=Part.OTHERS,
        tone=Tone.WELL,
        en=Words(
            short="runs at a smaller size",
            sentence="Runs at size {about}.",
            meaning=(
                "the training job runs with fewer servers, or NPUs, than its full size "
                "([training jobs](../explanation/how-it-decides.md#training-jobs))"
            ),
        ),
        zh=Words(
            short="以较小的规模运行",
            sentence="以较小的规模运行。",
            meaning=(
                "训练任务以少于完整规模的服务器或 NPU 运行"
                "（[训练任务（英文）](../../explanation/how-it-decides.md#training-jobs)）"
            ),
        ),
    )
    BROKEN = Row(
        name="Broken",
        part=Part.OTHERS,
        tone=Tone.PERSON,
        step=Step.POD,
        other_alert=True,
        en=Words(
            short="a pod is lost or does not run",
            meaning=(
                "a pod failed, is missing, crash-loops or is on a faulty node; or it did not run "
                "(with `counts-from: ready`: was not Ready) for 30 minutes (`start_timeout`); or "
                "only some pods are bound. The words name it"
            ),
            to_do="look at that pod or node",
            if_unavailable=(
                "The words name the pod or the node: `kubectl logs -n NAMESPACE POD --previous`"
                ", `kubectl describe node NODE`"
            ),
        ),
        zh=Words(
            short="实例异常",
            sentence=("有 Pod 失败、缺失或反复崩溃，或者节点有故障。请查看该 Pod 或节点。"),
            meaning=(
                "有 Pod 失败、缺失、反复崩溃，或位于故障节点上；或者全部 Pod 已绑定 30 分钟（"
                "`start_timeout`）仍从未运行；或者在 `counts-from: ready` 时这么久未就绪，"
                "让位给备用实例；或者只绑定了一部分 Pod，而尝试已经结束。说明中有 Pod 的名称"
            ),
            to_do="查看该 Pod 或节点",
            if_unavailable=(
                "说明中指出 Pod 或节点：`kubectl logs -n NAMESPACE POD --previous`、"
                "`kubectl describe node NODE`"
            ),
        ),
    )
    FINISHED = Row(
        name="Finished",
        part=Part.OTHERS,
        tone=Tone.WELL,
        en=Words(
            short="has finished for good",
            sentence=(
                "Its job has finished for good{colon}; delete and apply the job to start it again."
            ),
            meaning=(
                "its job succeeded or failed for good; the words say why, and the event of a "
                "failure is a Warning. Or it was one pod, which ended and which its owner has "
                "replaced: then nothing has to be done"
            ),
            to_do="delete and apply the job to start it again",
        ),
        zh=Words(
            short="已永久结束",
            sentence="任务已结束，不会再启动。要再次启动，请删除任务后重新应用。",
            meaning=(
                "任务已成功或彻底失败；说明中有原因。失败时事件为 Warning。或者该实例只是一个 Pod，"
                "它已结束并由其所有者创建的新 Pod 替换；此时说明中会写明，无需处理"
            ),
            to_do="要再次启动，请删除任务后重新应用",
        ),
    )
    SURPLUS_RUNNING = Row(
        name="SurplusRunning",
        part=Part.OTHERS,
        en=Words(
            short="runs beyond the largest ratio",
            meaning=(
                "it runs, but the rule or `spec.replicas` has no place for it. "
                "[Preemption](../explanation/minimums-first.md#preemption) may evict it, with "
                '`mind-cluster/trade: "always"` also for its own service; or it is not drained '
                "([as many as are wanted](../explanation/how-it-decides.md#as-many-as-are-wanted))"
            ),
            to_do="delete the job if you do not want it",
        ),
        zh=Words(
            short="超出最大配比而运行",
            sentence="运行中，但规则中已没有它的位置。不需要它时，请删除任务。",
            meaning=(
                "运行中，但规则中已没有它的位置。改小规则不会删除任何实例；只有[抢占（英文）"
                "](../../explanation/minimums-first.md#preemption)可以驱逐它：最小配比需要其资"
                '源时，或者设置了 `mind-cluster/trade: "always"` 而本服务的更大配比需要时。或者'
                " `spec.replicas` 中没有它的位置，但它[不被腾空（英文）"
                "](../../explanation/how-it-decides.md#as-many-as-are-wanted)：说明中写有原因"
            ),
            to_do="如果不需要它，请删除任务",
        ),
    )
    REVOKE_WOULD_COST_RESTARTS = Row(
        name="RevokeWouldCostRestarts",
        part=Part.OTHERS,
        tone=Tone.PERSON,
        en=Words(
            short="revoking would cost a restart",
            sentence=(
                "Its admission should be revoked, but each revocation costs the job a "
                "restart{colon}; it keeps its place. Raise the limit of the job or delete it."
            ),
            meaning=(
                "it should be revoked, but beside Ascend Operator [that costs its job a "
                "restart](../explanation/holding-by-gates.md#revoking-can-cost-a-restart), and "
                "what is left is kept for faults; or revocations are off (`revoke`), or nothing "
                "would hold its pods again"
            ),
            to_do=(
                "delete the job, raise its `backoffLimit`, or lower the setting `restart_reserve`"
            ),
            if_it_lasts="delete the job, or raise its `backoffLimit`",
        ),
        zh=Words(
            short="撤销会消耗重启次数",
            sentence=("本应撤销它的放行，但这会消耗任务的一次重启，因此保留它的位置。"),
            meaning=(
                "与 Ascend Operator 并存时：本应撤销它的放行，但这会消耗任务的一次重启，而剩余"
                "的重启次数要留给故障。撤销被关闭（`revoke`）时，或撤销后没有手段再次暂挂它的 "
                "Pod 时，也是如此；说明中有具体数字（[原因（英文）"
                "](../../explanation/holding-by-gates.md#revoking-can-cost-a-restart)）"
            ),
            to_do=("删除任务，增大它的 `backoffLimit`，或减小设置 `restart_reserve`"),
            if_it_lasts="删除任务，或增大它的 `backoffLimit`",
        ),
    )
    NOT_SERVED = Row(
        name="NotServed",
        part=Part.OTHERS,
        en=Words(
            short="not part of a service",
            sentence="Not an inference server of a service: it is left alone.",
            meaning=(
                "the AscendJob has a label of ours and is no inference server of a service, or "
                "it names no rule and another operator makes it: it is left alone. A job "
                "without any label of ours gets no event"
            ),
            to_do="nothing",
        ),
        zh=Words(
            short="不属于任何服务",
            sentence="它不是某个服务的推理实例，不作处理。",
            meaning=(
                "AscendJob 带有我们的标签，但不是某个服务的推理实例；或者它没有指定规则，并由另"
                "一个 Operator 创建 Pod：不作处理。对不带我们任何标签的任务，不作任何说明"
            ),
            to_do="无需处理",
        ),
    )


ROWS: dict[str, Row] = {reason.value: reason.row for reason in Reason}
"""By name: for names that were read from a cluster, which another version may have written."""
