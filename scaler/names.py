"""Labels, annotations, keys and object names that the cluster knows: each once. Values only.

What only one kind of workload reads stands in the module of that kind.
"""

from __future__ import annotations

PREFIX = "mind-cluster/"
"""How our own labels and annotations begin."""

# What users write

RULE_LABEL = "mind-cluster/scaling-rule"
"""Label of an instance's job or pods: the ConfigMap of its rule."""
GROUP_LABEL = "mind-cluster/group-name"
"""Label beside it: the group of the rule."""
JOB_ID_LABEL = "jobID"
"""Label beside it: the service."""
INSTANCE = "mind-cluster/instance"
"""Annotation of a pod: the name of the instance it belongs to, whatever its owner says."""
INSTANCE_SIZE = "mind-cluster/instance-size"
"""Annotation of a pod: how many pods its instance consists of."""
RULE_KEY = "elastic_scaling.json"
"""The key of a rule's ConfigMap under which the document stands."""

# What administrators write

CLASS_NAMESPACES = "mind-cluster/namespaces"
"""Annotation of a PriorityClass: the namespaces whose jobs it is worth anything for, separated by commas."""

# Gates and admission

GATE = "mind-cluster/hold"
"""Our scheduling gate. Any other gate stays. A gate can be set only when a pod is created, by admission
or in the pod template; the scaler takes it off (docs/explanation/holding-by-gates.md)."""
NAMESPACE_LABEL = "mind-cluster/scaling"
"""A namespace with this label, value `enabled`, lets admission put the gate onto pods that name a rule."""
BESIDE_LABEL = "mind-cluster/beside-ascend-operator"
"""A namespace with this label too, value `true`, lets admission move the labels of AscendJobs into their templates."""
MOVED_RULE = "mind-cluster/moved-scaling-rule"
"""Annotation of such an AscendJob: the value that its label mind-cluster/scaling-rule had."""
WEBHOOK_SECRET = "mind-cluster-scaler-webhook"  # noqa: S105 - its name
"""Secret, beside the Lease, that holds the webhook's own certificate."""
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
HELD_COST = "-1000000000"
"""The deletion cost of a held pod: where replicas are lowered, held pods go first."""

# What the scaler keeps in the cluster

BUDGET = "mind-cluster-scaler-minimum"
"""The PodDisruptionBudget in a namespace with services; in a second install with what its name ends with."""
KEEP_LABEL = "mind-cluster/keep"
"""Label of a pod, value `true`: a minimum needs its instance, no eviction is allowed (scaler/execute/budgets.py)."""

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "mind-cluster-scaler"
KEPT_FOR_LABEL = "mind-cluster/scaler-rule"
"""Label of a ConfigMap of ours: the rule it is kept for, shortened where a label has no room for it."""
KEPT_FOR_ANNOTATION = "mind-cluster/scaler-rule-name"
"""The same in full."""
KEPT_FOR_NAMESPACE = "mind-cluster/scaler-rule-namespace"
"""Annotation beside it: the namespace of that rule, where it is not the ConfigMap's own."""
KEPT_FORMAT = "format"
"""Key of a ConfigMap of ours: the format of what it keeps; "1" where it is missing."""
ROUNDS_ANNOTATION = "mind-cluster/scaler-rounds"
"""On the AscendJob: `<rounds>.<uid>`. The uid makes a number that was copied to another job mean nothing."""
INSTALL_LABEL = "mind-cluster/install"
"""A namespace with this label is an install's own: no tenant may write there."""
GOVERNS = "mind-cluster/governs"
"""Annotation of the Lease: the namespaces that its install looks after, separated by commas; `*` = all."""
RELEASED_BY = "mind-cluster/released-by"
"""Annotation of a vacant Lease: this holder had stopped its work before it gave the Lease up: nothing to wait for."""

BLIND_SINCE = "mind-cluster/blind-since"
"""Annotation of a Lease: its holder has been out of touch with what it decides on since then."""
SEEN_BY = "mind-cluster/seen-by"
"""Annotation of such a Lease: this other replica is not, the holder may give the Lease up."""

# Volcano, MindCluster and kubectl

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation: what was applied, whole. Only kubectl reads it."""

POD_GROUP = "scheduling.k8s.io/group-name"
"""Annotation of a pod: its PodGroup, for Volcano."""
RANK_TABLE_PREFIX = "rings-config-"
"""How the name of the ConfigMap for the rank table of a job begins."""
RANK_TABLE_KEY = "hccl.json"
RANK_TABLE_VERSION_KEY = "version"
