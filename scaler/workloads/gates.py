"""The names by which pods that others create are held and recognised. Values only.

A gate can be set only when a pod is created, by admission or in the pod template; the scaler takes it off
(docs/explanation/holding-by-gates.md).
"""

from __future__ import annotations

GATE = "mind-cluster/hold"
"""Our scheduling gate. Any other gate is somebody else's and stays."""

NAMESPACE_LABEL = "mind-cluster/scaling"
"""A namespace with this label, value `enabled`, lets admission put the gate onto pods that name a rule."""
BESIDE_LABEL = "mind-cluster/beside-ascend-operator"
"""A namespace with this label too, value `true`, lets admission move the labels of AscendJobs into their templates."""
MOVED_RULE = "mind-cluster/moved-scaling-rule"
"""Annotation of such an AscendJob: the value that its label mind-cluster/scaling-rule had."""

WEBHOOK = "mind-cluster-scaler"
"""Name of our webhook configurations (manifests/admission-webhook)."""
POLICY = "mind-cluster-scaler-pods"
"""Name of the policy and binding that put the gate onto pods (manifests/admission-policy)."""

INSTANCE = "mind-cluster/instance"
"""Annotation of a pod: the name of the instance it belongs to, whatever its owner says."""
INSTANCE_SIZE = "mind-cluster/instance-size"
"""Annotation of a pod: how many pods its instance consists of."""

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
HELD_COST = "-1000000000"
"""The deletion cost of a held pod: whoever lowers replicas takes held pods first."""

GROUP_NAME = "scheduling.k8s.io/group-name"
"""Annotation of a pod: its PodGroup, for Volcano."""
