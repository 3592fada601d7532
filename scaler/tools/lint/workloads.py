"""The paths of labels, gates and sizes of pods in each kind of workload. Paths into a manifest,
nothing else.

AscendJobs are not here: their own labels count (jobs.py). An unknown kind is recognized by the
labels in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from scaler.rules.finding import Path
from scaler.tools.common.manifest import Object, Value

LABELS = ("metadata", "labels")
GATES = ("spec", "schedulingGates")


class Role(msgspec.Struct, frozen=True):
    """A part of a workload that makes instances of one group: all of their pods have the same three
    labels."""

    labels: Mapping[str, Path]
    """Name for people -> path of the labels of its pods, one for each template."""
    gates: tuple[Path, ...] = ()
    """Paths of the gates of its pods, for each template."""
    pods: int | None = None
    """Pods of one instance; None if the manifest does not have the number."""
    pods_at: Path = ()
    """Path of that number."""
    is_instance: bool = True
    """False for a part beside the instances, such as a router."""


def roles_of(found: Object) -> list[Role] | None:
    """None for an unknown kind."""
    known = _KINDS.get((found.root.string_at("apiVersion").partition("/")[0], found.kind))
    return list(known(found.root)) if known is not None else None


def _role(*templates: tuple[str, Path], pods: int | None = None, pods_at: Path = ()) -> Role:
    labels = {name: (*path, *LABELS) for name, path in templates}
    return Role(labels, tuple((*path, *GATES) for _, path in templates), pods, pods_at)


def _number(root: Value, path: Path, default: int) -> int | None:
    """The number at `path`; `default` if it is missing, None if it is no number."""
    value = root.get(*path)
    return default if value is None else value.integer


def _listed(root: Value, path: Path) -> Iterator[tuple[Path, Value, str]]:
    """Each item of the list at `path`: its path, its value, and its name."""
    found = root.get(*path)
    for index, item in enumerate(found.items if found else ()):
        yield (*path, index), item, item.string_at("name") or str(index)


def _pod(_: Value) -> Iterator[Role]:
    yield Role({"this pod": LABELS}, (GATES,))


def _pods_alone(_: Value) -> Iterator[Role]:
    """Each pod is an instance."""
    at = ("spec", "template")
    yield _role(("the pod template", at), pods=1, pods_at=at)


def _stateful_set(root: Value) -> Iterator[Role]:
    """One that Infer Operator made is one instance with all its pods, as an annotation of the pods
    shows."""
    made = (
        root.string_at("spec", "template", *LABELS, "infer.huawei.com/ascend-infer-operator")
        == "true"
    )
    at: Path = ("spec", "replicas") if made else ("spec", "template")
    yield _role(
        ("the pod template", ("spec", "template")),
        pods=_number(root, at, 1) if made else 1,
        pods_at=at,
    )


def _cron_job(_: Value) -> Iterator[Role]:
    at = ("spec", "jobTemplate", "spec", "template")
    yield _role(("the pod template", at), pods=1, pods_at=at)


def _volcano_job(root: Value) -> Iterator[Role]:
    """All tasks together are one instance."""
    tasks = list(_listed(root, ("spec", "tasks")))
    counts = [_number(task, ("replicas",), 1) for _, task, _ in tasks]
    total = sum(count or 0 for count in counts) if None not in counts else None
    templates = [(f"the template of task {name}", (*at, "template")) for at, _, name in tasks]
    yield _role(*templates, pods=total, pods_at=("spec", "tasks"))


def _leader_worker_set(root: Value) -> Iterator[Role]:
    """A group is an instance. Without a template of its own the leader has that of the workers."""
    at = ("spec", "leaderWorkerTemplate")
    names = [
        name for name in ("leaderTemplate", "workerTemplate") if root.get(*at, name) is not None
    ]
    yield _role(
        *((name, (*at, name)) for name in names),
        pods=_number(root, (*at, "size"), 1),
        pods_at=(*at, "size"),
    )


def _storm_service(root: Value) -> Iterator[Role]:
    yield from _storm_roles(root, ("spec", "template", "spec", "roles"))


def _role_set(root: Value) -> Iterator[Role]:
    yield from _storm_roles(root, ("spec", "roles"))


def _storm_roles(root: Value, path: Path) -> Iterator[Role]:
    for at, role, name in _listed(root, path):
        pods = _number(role, ("podGroupSize",), 1)
        yield _role(
            (f"the template of role {name}", (*at, "template")),
            pods=pods,
            pods_at=(*at, "podGroupSize"),
        )


def _pod_set(root: Value) -> Iterator[Role]:
    at = ("spec", "podGroupSize")
    yield _role(("the pod template", ("spec", "template")), pods=_number(root, at, 1), pods_at=at)


def _infer_service_set(root: Value) -> Iterator[Role]:
    yield from _infer_roles(root, ("spec", "template", "roles"))


def _infer_service(root: Value) -> Iterator[Role]:
    yield from _infer_roles(root, ("spec", "roles"))


def _instance_set(root: Value) -> Iterator[Role]:
    yield _infer_role(root, ("spec",), "the pod template")


def _infer_roles(root: Value, path: Path) -> Iterator[Role]:
    for at, _, name in _listed(root, path):
        yield _infer_role(root, at, f"the template of role {name}")


def _infer_role(root: Value, at: Path, what: str) -> Role:
    """A whole workload is an instance."""
    pods_at = (*at, "spec", "replicas")
    return _role((what, (*at, "spec", "template")), pods=_number(root, pods_at, 1), pods_at=pods_at)


def _role_based_group(root: Value) -> Iterator[Role]:
    for at, role, name in _listed(root, ("spec", "roles")):
        pair = (*at, "leaderWorkerPattern")
        if role.get("leaderWorkerPattern") is not None:
            size = (*pair, "size")
            yield _role(
                (f"the template of role {name}", (*pair, "template")),
                pods=_number(root, size, 1),
                pods_at=size,
            )
        else:
            alone = (*at, "standalonePattern") if role.get("standalonePattern") is not None else at
            yield _role((f"the template of role {name}", (*alone, "template")))


def _inference_service(root: Value) -> Iterator[Role]:
    yield from _components(root, engine="engine", decoder="decoder", router="router")


def _serving_runtime(root: Value) -> Iterator[Role]:
    yield from _components(
        root, engine="engineConfig", decoder="decoderConfig", router="routerConfig"
    )


def _components(root: Value, *, engine: str, decoder: str, router: str) -> Iterator[Role]:
    """OME copies the labels of a component to its pods, both to leader and workers."""
    for name in (engine, decoder, router):
        at = ("spec", name)
        component = root.get("spec", name)
        if component is not None:
            pair = component.get("leader") is not None or component.get("worker") is not None
            workers = _number(root, (*at, "worker", "size"), 1)
            pods = None if workers is None else (1 + workers if pair else 1)
            gates = [
                (*at, part, "schedulingGates") for part in (("leader", "worker") if pair else ())
            ]
            yield Role(
                {f"spec.{name}": (*at, "labels")},
                tuple(gates) or ((*at, "schedulingGates"),),
                pods,
                (*at, "worker", "size") if pair else at,
                is_instance=name != router,
            )


_KINDS: Mapping[tuple[str, str], Callable[[Value], Iterator[Role]]] = {
    ("v1", "Pod"): _pod,
    ("v1", "ReplicationController"): _pods_alone,
    ("apps", "Deployment"): _pods_alone,
    ("apps", "ReplicaSet"): _pods_alone,
    ("apps", "DaemonSet"): _pods_alone,
    ("apps", "StatefulSet"): _stateful_set,
    ("batch", "Job"): _pods_alone,
    ("batch", "CronJob"): _cron_job,
    ("batch.volcano.sh", "Job"): _volcano_job,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _leader_worker_set,
    ("orchestration.aibrix.ai", "StormService"): _storm_service,
    ("orchestration.aibrix.ai", "RoleSet"): _role_set,
    ("orchestration.aibrix.ai", "PodSet"): _pod_set,
    ("mindcluster.huawei.com", "InferServiceSet"): _infer_service_set,
    ("mindcluster.huawei.com", "InferService"): _infer_service,
    ("mindcluster.huawei.com", "InstanceSet"): _instance_set,
    ("workloads.x-k8s.io", "RoleBasedGroup"): _role_based_group,
    ("ome.io", "InferenceService"): _inference_service,
    ("ome.io", "ServingRuntime"): _serving_runtime,
    ("ome.io", "ClusterServingRuntime"): _serving_runtime,
}
"""By API group (the part of `apiVersion` before the slash) and kind."""
KINDS = ("AscendJob", "ConfigMap", *(kind for _, kind in _KINDS))
