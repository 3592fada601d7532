"""Labels, annotations, keys and names in the cluster, each once; those of one workload kind are in
its module."""

import hashlib
import re

PREFIX = "mind-cluster/"

# Written by users

RULE_LABEL = "mind-cluster/scaling-rule"
GROUP_LABEL = "mind-cluster/group-name"
JOB_ID_LABEL = "jobID"
"""Labels of an instance's job or pods: the ConfigMap of its rule, the group of the rule, the
service."""
INSTANCE = "mind-cluster/instance"
"""Annotation of a pod: the name of its instance; it overrides the owner."""
INSTANCE_SIZE = "mind-cluster/instance-size"
"""Annotation of a pod: the number of pods of its instance."""
RULE_KEY = "elastic_scaling.json"
"""The key of the document in a rule's ConfigMap."""

# Written by administrators

CLASS_NAMESPACES = "mind-cluster/namespaces"
"""Annotation of a PriorityClass: the namespaces whose jobs it counts for, separated by commas."""

# Gates and admission

GATE = "mind-cluster/hold"
"""Our scheduling gate, set only when a pod is created; the scaler removes it
(docs/explanation/holding-by-gates.md)."""
NAMESPACE_LABEL = "mind-cluster/scaling"
"""Label of a namespace, value `enabled`: admission adds the gate to pods that name a rule."""
BESIDE_LABEL = "mind-cluster/beside-ascend-operator"
"""Second label of such a namespace, value `true`: admission moves the labels of AscendJobs into
their templates."""
MOVED_RULE = "mind-cluster/moved-scaling-rule"
"""Annotation of such an AscendJob: the value of its former label mind-cluster/scaling-rule."""
WEBHOOK_SECRET = "mind-cluster-scaler-webhook"  # noqa: S105 - its name
"""The Secret in the Lease's namespace with the webhook's own certificate."""
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
HELD_COST = "-1000000000"
"""The deletion cost of a held pod: owners that reduce replicas delete held pods first."""

# Written by the scaler

BUDGET = "mind-cluster-scaler-minimum"
"""The PodDisruptionBudget in a namespace with services; a second install appends the suffix of its
own name."""
KEEP_LABEL = "mind-cluster/keep"
"""Label of a pod, value `true`: a minimum needs its instance, no eviction is allowed
(scaler/execute/budgets.py)."""

CONSUMES = "autoscaling.x-k8s.io/consume-provisioning-request"
"""Annotation of a pod: the ProvisioningRequest that asked for its room."""
REQUEST_OF = "mind-cluster/service"
"""Annotation of a ProvisioningRequest of ours: the service that it asks for."""
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "mind-cluster-scaler"
KEPT_FOR_LABEL = "mind-cluster/scaler-rule"
"""Label of a ConfigMap of ours: the rule whose copy it holds, shortened to the limit of a label."""
KEPT_FOR_ANNOTATION = "mind-cluster/scaler-rule-name"
"""Annotation: the same name in full."""
KEPT_FOR_NAMESPACE = "mind-cluster/scaler-rule-namespace"
"""Annotation: the namespace of that rule, if it is not the ConfigMap's own."""
KEPT_FOR_JOB_ID = "mind-cluster/scaler-job-id"
"""Annotation of a ConfigMap of ours that is about one service of the rule: its jobID."""
KEPT_EVICTIONS = "evictions"
KEPT_EVICTIONS_AT = "last-eviction"
KEPT_EVICTIONS_REPEATED = "repeated"
"""Keys of such a ConfigMap: how many evictions were made for the service, when the last, in
seconds since the epoch, and how many beside these because others had taken the room."""
KEPT_FORMAT = "format"
"""Key of a ConfigMap of ours: the format of its content; "1" if missing."""
VERSION_BEFORE = "mind-cluster/job-version"
"""Annotation of a pod of a Volcano Job that is marked for its deletion: the version of the job that
it had before (scaler/execute/marks.py)."""
FULL_SIZE = "mind-cluster/full-size"
"""Annotation of a training job: what people wrote of its size, as JSON
(scaler/workloads/volcanojob_sizes.py)."""
SIZE = "mind-cluster/size"
"""Annotation of a training job: `<size>.<uid>`, the size of the next start as we wrote it."""
STARTED_SIZE = "mind-cluster/started-size"
"""Annotation of a pod of a training job: the size at which it was released."""
ROUNDS_ANNOTATION = "mind-cluster/scaler-rounds"
"""Annotation of the AscendJob: `<rounds>.<uid>`. With the uid, a copy of it on another job has no
effect."""
INSTALL_LABEL = "mind-cluster/install"
"""Label of a namespace that belongs to an install: no tenant may write there."""
GOVERNS = "mind-cluster/governs"
"""Annotation of the Lease: the namespaces that its install governs, separated by commas; `*` =
all."""
RELEASED_BY = "mind-cluster/released-by"
"""Annotation of a vacant Lease: this holder released it after the end of its work: no wait is
needed."""
LAST_MODE = "mind-cluster/last-mode"
"""Annotation of the Lease: what mode `auto` last resolved to, `gates` or `create`. The leader
writes it as it renews the Lease."""
BLIND_SINCE = "mind-cluster/blind-since"
"""Annotation of a Lease: since when its holder has been out of touch with the resources of its
decisions."""
SEEN_BY = "mind-cluster/seen-by"
"""Annotation of such a Lease: this other replica is in touch, the holder may release the Lease."""

# Volcano, MindCluster and kubectl

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation: the complete applied manifest. Only kubectl reads it."""

POD_GROUP = "scheduling.k8s.io/group-name"
"""Annotation of a pod: its PodGroup, for Volcano."""
RANK_TABLE_PREFIX = "rings-config-"
"""Prefix of the name of the ConfigMap for the rank table of a job."""
RANK_TABLE_KEY = "hccl.json"
RANK_TABLE_VERSION_KEY = "version"


# Names of objects

LONGEST_NAME = 253
"""Characters of the name of any object. A longer text is no name."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def object_name(text: str, limit: int = LONGEST_NAME) -> str:
    """`text` when it is a valid object name of at most `limit` characters, else a similar name with
    a hash.

    The name of a rule comes from a label, and labels allow more than names: `My_Rule`."""
    if len(text) <= limit and _NAME.fullmatch(text):
        return text
    like = re.sub(r"[^a-z0-9]+", "-", text.lower())[: limit - 17].strip("-")
    return f"{like}-{digest(text)}" if like else digest(text)


def shortened(text: str, limit: int) -> str:
    """`text` itself when it fits in `limit` characters, else its start and 16 hex digits of its
    SHA-256."""
    return text if len(text) <= limit else f"{text[: limit - 17].rstrip('-._')}-{digest(text)}"


def digest(text: str) -> str:
    """16 hex digits of its SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def service_name(rule: str, job_id: str) -> str:
    """The name of a service, which is that of its ElasticService: rule and jobID."""
    return object_name("-".join([part for part in (rule, job_id) if part]).lower())
