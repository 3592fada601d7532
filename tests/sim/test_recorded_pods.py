"""One table for all kinds: what the simulated controllers write onto pods is what the real ones do.

What the scaler reads of the pods of real controllers is in tests/workloads/pods.py; values that a
controller draws (hashes, random endings) are only compared as being there."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable

import pytest

from scaler.kube.api import PODS, Object
from scaler.sim.actors import objects
from scaler.sim.actors.leader_worker_sets import label_member
from scaler.sim.actors.owners import owners
from scaler.sim.loop import run
from tests.rig import Rig
from tests.workloads.pods import LABELS, NAMESPACE, SAMPLES, Sample

API_VERSIONS = {
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
    "StormService": "orchestration.aibrix.ai/v1alpha1",
    "InferServiceSet": "mindcluster.huawei.com/v1",
}
PARALLEL = {"podManagementPolicy": "Parallel"}
SELECTOR = {"selector": {"matchLabels": LABELS}}
DRAWN = frozenset(
    {
        "pod-template-hash",
        "controller-revision-hash",
        "leaderworkerset.sigs.k8s.io/template-revision-hash",
        "leaderworkerset.sigs.k8s.io/group-key",
        "role-template-hash",
        "roleset-name",
        "stormservice.orchestration.aibrix.ai/podset-name",
    }
)
FIXED_NAMES = frozenset({"StatefulSet", "LeaderWorkerSet", "InferServiceSet of StatefulSets"})
"""Samples whose pods have names without drawn parts."""


def kind_of(sample: Sample) -> str:
    return {"InstanceSet": "InferServiceSet"}.get(sample.kind, sample.kind)


TABLE = [
    sample
    for sample in SAMPLES
    if kind_of(sample) in API_VERSIONS and sample.name != "LeaderWorkerSet unseen by its webhook"
]


def marks(pod: Object, like: Iterable[Object], *, named: bool) -> tuple[str, ...]:
    """Owner, name, labels and annotations, of these only the keys that recorded pods have."""
    known = {
        key for one in like for part in ("labels", "annotations") for key in one["metadata"][part]
    }
    written = {**objects.labels_of(pod), **objects.annotations_of(pod)}
    shown = [
        f"{key}={'*' if key in DRAWN else written[key]}" for key in sorted(known & written.keys())
    ]
    return (objects.owner_kind(pod), objects.name(pod) if named else "", *shown)


async def made(sample: Sample) -> list[Object]:
    on = Rig(label_member)
    spec = {**copy.deepcopy(sample.object["spec"]), **SELECTOR}
    for role in (spec.get("template") or {}).get("roles", ()):
        role["spec"].update({**SELECTOR, **PARALLEL})
    if sample.name == "StatefulSet":
        spec.update(PARALLEL)
    kind = kind_of(sample)
    on.cluster.apply(
        [{**sample.object, "apiVersion": API_VERSIONS[kind], "kind": kind, "spec": spec}]
    )
    await on.play(20, *owners(on.cluster))
    return on.cluster.peek(PODS, NAMESPACE)


@pytest.mark.parametrize("sample", TABLE, ids=lambda sample: sample.name)
def test_pods_carry_what_the_real_controllers_write(sample: Sample) -> None:
    recorded = [pod for instance in sample.make(sample.object) for pod in instance]
    found = run(made(sample))
    named = sample.name in FIXED_NAMES
    assert recorded
    assert Counter(marks(pod, recorded, named=named) for pod in found) == Counter(
        marks(pod, recorded, named=named) for pod in recorded
    )


def test_the_table_has_every_kind() -> None:
    assert {kind_of(sample) for sample in TABLE} == set(API_VERSIONS)
