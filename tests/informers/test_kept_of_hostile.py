"""What is kept of objects that are made to hurt, caches included: a hundred of any kind take at
most 20 MB."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from scaler.informers.config_maps import ConfigMapObject, config_map_record
from scaler.informers.jobs import MOST_KEPT, JobObject, job_record, volcano_job_record
from scaler.informers.pods import PodObject, pod_record
from scaler.informers.records import OwnedObject, owned_record
from scaler.informers.refusals import MOST, Refusals
from scaler.kube.api import PODS, STATEFUL_SETS, Refused
from scaler.kube.wire import LONGEST_WHY
from scaler.rules.limits import MAX_BYTES
from scaler.workloads.kind import OwnerObject
from scaler.workloads.kinds import owner_facts
from scaler.workloads.pod_requests import LONGEST_PLACEMENT, MOST_RESOURCES
from tests.jobs import job, rule_config_map

OBJECTS = 5
MOST_OF_ONE = 200_000
"""Bytes."""
LARGE = 250_000
"""Bytes of one object; what has no bound shows it with less than the 1.5 MB of the API server."""
JOB = MOST_KEPT - 6_000
"""Bytes that a job may have beside what every job has."""
LABELS = {"mind-cluster/scaling-rule": "rule", "jobID": "s", "mind-cluster/group-name": "group0"}

Json = dict[str, Any]
Make = Callable[[int], Json]


def meta(number: int, **more: Any) -> Json:
    return {
        "name": f"n{number}",
        "namespace": "ns",
        "uid": f"u{number}",
        "resourceVersion": "1",
        **more,
    }


def owner(number: int, **words: str) -> Json:
    known = {"apiVersion": "mindxdl.gitee.com/v1", "kind": "AscendJob", "name": "j", "uid": "u"}
    return {
        **known,
        **{name: f"{word}{number}" for name, word in words.items()},
        "controller": True,
    }


def pairs(number: int, size: int) -> dict[str, str]:
    return {f"example.com/k{number}-{index}": "1" for index in range(size // 34)}


def pod(
    number: int, *, annotations: Json | None = None, status: Json | None = None, **spec: Any
) -> Json:
    metadata = meta(
        number, labels=LABELS, annotations=annotations or {}, ownerReferences=spec.pop("owners", [])
    )
    return {"metadata": metadata, "spec": spec, "status": status or {}}


def asking(*requests: Json) -> list[Json]:
    return [{"resources": {"requests": each}} for each in requests]


def fields_of(metadata: Json, **fields: Any) -> Json:
    return {"metadata": metadata, **fields}


def ascend_job(number: int, change: Callable[[Json, Json], None]) -> Json:
    """`change` gets the job and the spec of its leader."""
    made = job(f"n{number}", "group0")
    made["metadata"] |= {"uid": f"u{number}", "resourceVersion": "1"}
    change(made, made["spec"]["replicaSpecs"]["Master"]["template"]["spec"])
    return made


def volcano_job(number: int, *tasks: Json) -> Json:
    return {"metadata": meta(number, labels={}), "spec": {"tasks": list(tasks)}}


def task(name: str, replicas: int = 1, labels: Json | None = None, **spec: Any) -> Json:
    return {
        "name": name,
        "replicas": replicas,
        "template": {"metadata": {"labels": labels or LABELS}, "spec": spec},
    }


TOLERATIONS = [{"key": f"k{index}"} for index in range(LONGEST_PLACEMENT // 16)]

POD_KINDS: dict[str, Make] = {
    "names of resources": lambda n: pod(n, containers=asking(pairs(n, LARGE))),
    "resources of many containers": lambda n: pod(
        n, containers=asking(*(pairs(n * 1000 + i, 900) for i in range(100)))
    ),
    "resources of init containers": lambda n: pod(n, initContainers=asking(pairs(n, LARGE))),
    "a long quantity": lambda n: pod(n, containers=asking({"cpu": "0" * LARGE + str(n)})),
    "a long name of a resource": lambda n: pod(n, containers=asking({"x" * LARGE + str(n): "1"})),
    "a selector": lambda n: pod(n, nodeSelector=pairs(n, LARGE)),
    "a selector at the limit": lambda n: pod(n, nodeSelector=pairs(n, LONGEST_PLACEMENT - 100)),
    "tolerations at the limit": lambda n: pod(
        n, tolerations=[*TOLERATIONS[:-100], {"key": str(n)}]
    ),
    "annotations": lambda n: pod(n, annotations={"mind-cluster/instance": "x" * LARGE + str(n)}),
    "chips": lambda n: pod(
        n,
        annotations={"ascend.kubectl.kubernetes.io/ascend-910-configuration": "x" * LARGE + str(n)},
    ),
    "the uid of an owner": lambda n: pod(n, owners=[owner(n, uid="x" * LARGE)]),
    "the kind of an owner": lambda n: pod(n, owners=[owner(n, kind="x" * LARGE)]),
    "the name of an owner": lambda n: pod(
        n, owners=[owner(n, kind="ReplicaSet", name="x" * LARGE)]
    ),
    "a phase": lambda n: pod(
        n, status={"phase": "x" * LARGE + str(n), "podIP": "y" * LARGE + str(n)}
    ),
}


def _env(made: Json, spec: Json) -> None:
    spec["containers"][0]["env"] = [
        {"name": f"{made['metadata']['uid']}-{i}"} for i in range(JOB // 30)
    ]


def _selector(made: Json, spec: Json) -> None:
    spec["nodeSelector"] = pairs(int(made["metadata"]["uid"][1:]), JOB)


def _resources(made: Json, spec: Json) -> None:
    spec["containers"][0]["resources"] = {"requests": pairs(int(made["metadata"]["uid"][1:]), JOB)}


def _types(made: Json, _spec: Json) -> None:
    more = {f"{i}": {"restartPolicy": "ExitCode"} for i in range(JOB // 40)}
    made["spec"]["replicaSpecs"] |= more


def _message(made: Json, _spec: Json) -> None:
    words = "x" * JOB + made["metadata"]["uid"]
    made["status"] = {
        "conditions": [{"type": "Failed", "status": "True", "reason": "r", "message": words}]
    }


def _disagree(number: int) -> Json:
    return volcano_job(
        number, task("first"), *(task(f"{i}", labels={"a": "b"}) for i in range(JOB // 90))
    )


ASCEND_KINDS: dict[str, Callable[[Json, Json], None]] = {
    "variables": _env,
    "a selector": _selector,
    "names of resources": _resources,
    "replica types": _types,
    "the message of a condition": _message,
}
VOLCANO_KINDS: dict[str, Make] = {
    "a long name of a task": lambda n: volcano_job(n, task("x" * (JOB - 1000) + str(n), 500)),
    "tasks that disagree": _disagree,
    "a selector for each task": lambda n: volcano_job(
        n, *(task(f"t{i}", nodeSelector=pairs(n * 1000 + i, 6000)) for i in range(JOB // 8000))
    ),
}
CONFIG_MAP_KINDS: dict[str, Make] = {
    "keys": lambda n: fields_of(meta(n), data=pairs(n, LARGE), binaryData=pairs(n, LARGE)),
    "a rule": lambda n: fields_of(
        meta(n), data={"elastic_scaling.json": "{" + "x" * 600_000 + str(n)}
    ),
    "annotations of ours": lambda n: fields_of(
        meta(n, annotations={f"mind-cluster/{n}-{i}": "x" * 1000 for i in range(LARGE // 1000)})
    ),
    "a rank table": lambda n: fields_of(
        meta(n, name=f"rings-config-{n}", ownerReferences=[owner(n, uid="x" * LARGE)]),
        data={"hccl.json": '{"status":"' + "x" * LARGE + '"}', "version": "1" * LARGE},
    ),
    "one of our own": lambda n: fields_of(
        meta(
            n,
            labels={
                "mind-cluster/scaler-rule": "r",
                "app.kubernetes.io/managed-by": "mind-cluster-scaler",
            },
            annotations={"mind-cluster/scaler-rule": "x" * LARGE + str(n)},
        ),
        data=pairs(n, LARGE),
    ),
}
OWNED = partial(fields_of, spec={"minMember": 1})
OTHER_KINDS: dict[str, tuple[Any, Callable[[Any], Any], Make]] = {
    "Service": (
        OwnedObject,
        owned_record,
        lambda n: OWNED(meta(n, ownerReferences=[owner(n, uid="x" * LARGE)])),
    ),
    "PodGroup": (
        OwnedObject,
        owned_record,
        lambda n: OWNED(
            meta(n, annotations=pairs(n, LARGE), ownerReferences=[owner(n, uid="x" * LARGE)])
        ),
    ),
    "StatefulSet": (
        OwnerObject,
        owner_facts(STATEFUL_SETS),
        lambda n: fields_of(
            meta(n, annotations=pairs(n, LARGE), ownerReferences=[owner(n, name="x" * LARGE)]),
            spec={"replicas": 1},
        ),
    ),
}


def kept(decode: Any, record: Callable[[Any], Any], make: Make) -> int:
    """Bytes for each object that are there when OBJECTS were read, and the objects themselves are
    gone."""
    made = [msgspec.json.encode(make(number)) for number in range(OBJECTS)]
    record(msgspec.json.decode(msgspec.json.encode(make(OBJECTS)), type=decode))
    tracemalloc.start()
    try:
        records = [record(msgspec.json.decode(text, type=decode)) for text in made]
        gc.collect()
        return tracemalloc.get_traced_memory()[0] // len(records)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("what", POD_KINDS)
def test_little_is_kept_of_a_pod(what: str) -> None:
    assert kept(PodObject, pod_record, POD_KINDS[what]) < MOST_OF_ONE


@pytest.mark.parametrize("what", ASCEND_KINDS)
def test_little_is_kept_of_an_ascend_job(what: str) -> None:
    assert kept(JobObject, job_record, partial(ascend_job, change=ASCEND_KINDS[what])) < MOST_OF_ONE


@pytest.mark.parametrize("what", VOLCANO_KINDS)
def test_little_is_kept_of_a_volcano_job(what: str) -> None:
    assert kept(JobObject, volcano_job_record, VOLCANO_KINDS[what]) < MOST_OF_ONE


@pytest.mark.parametrize("what", CONFIG_MAP_KINDS)
def test_little_is_kept_of_a_config_map_that_is_no_rule(what: str) -> None:
    assert kept(ConfigMapObject, config_map_record, CONFIG_MAP_KINDS[what]) < MOST_OF_ONE


def test_little_is_kept_of_a_large_document_with_an_emoji() -> None:
    """Python keeps four bytes for each character of a text that has one emoji."""

    def large(number: int) -> Any:
        text = f"\N{GRINNING FACE}{number}" + " " * (MAX_BYTES - 20)
        return rule_config_map(text, f"rule-{number}")

    assert kept(ConfigMapObject, config_map_record, large) < MOST_OF_ONE


@pytest.mark.parametrize("what", OTHER_KINDS)
def test_little_is_kept_of_what_has_an_owner(what: str) -> None:
    assert kept(*OTHER_KINDS[what]) < MOST_OF_ONE


def test_a_pod_asks_for_no_more_resources_than_any_node_has_and_for_cpu_always() -> None:
    made = pod(1, containers=asking(pairs(1, LARGE) | {"cpu": "2"}))
    requests = dict(pod_record(msgspec.convert(made, PodObject)).requests)
    assert len(requests) == MOST_RESOURCES
    assert (requests["cpu"], requests["pods"]) == (2000, 1)


def test_refusals_of_a_namespace_are_few_and_leave_nothing_behind() -> None:
    refusals = Refusals(lambda _: None, lambda: 0.0)
    for namespace in range(50):
        for number in range(2 * MOST):
            refusals.note(
                PODS,
                Refused("x" * LONGEST_WHY, f"ns-{namespace}", f"p-{number}", "u", labels=LABELS),
            )
    assert len(refusals) == 50 * MOST
    for namespace in range(50):
        refusals.retain(PODS, f"ns-{namespace}", ())
    assert (len(refusals), list(refusals._found)) == (0, [])
