"""InferenceService of OME: its engine and its decoder become Deployments or LeaderWorkerSets, whose
pods are found as such."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from scaler.kube.api import Object, Resource
from scaler.rules.finding import Path
from scaler.rules.values import as_count, at
from scaler.workloads.kind import Kind, Look, Role, Template, Written, number_at

INFERENCE_SERVICES = Resource("ome.io", "v1beta1", "inferenceservices", "InferenceService")
SERVING_RUNTIMES = Resource("ome.io", "v1beta1", "servingruntimes", "ServingRuntime")
CLUSTER_SERVING_RUNTIMES = Resource(
    "ome.io", "v1beta1", "clusterservingruntimes", "ClusterServingRuntime", namespaced=False
)
COMPONENTS = ("engine", "decoder", "router")


def roles(look: Look, ending: str = "") -> Iterator[Role]:
    """OME copies the labels of a component to its pods, both to leader and workers. `ending`: of
    the names of components."""
    for component in COMPONENTS:
        name = component + ending
        path: Path = ("spec", name)
        if look(path) is not None:
            yield _role(look, path, is_instance=component != "router")


def _role(look: Look, path: Path, *, is_instance: bool) -> Role:
    leader = (*path, "leader")
    worker = (*path, "worker")
    size = (*worker, "size")
    workers = number_at(look, size, 1)
    name = ".".join(map(str, path))
    labels = (*path, "labels")
    if look(leader) is None and look(worker) is None:
        template = Template(name, labels, ((*path, "schedulingGates"),))
        return Role((template,), None if workers is None else 1, path, is_instance)
    gates = ((*leader, "schedulingGates"), (*worker, "schedulingGates"))
    pods = None if workers is None else 1 + workers
    return Role((Template(name, labels, gates),), pods, size, is_instance)


def pods_wanted(service: Object) -> int:
    """The pods of all its components."""
    spec = at(service, "spec")
    pods = 0
    for name in COMPONENTS:
        if name in spec:
            component = at(spec, name)
            pods += _replicas(component) * (1 + as_count(at(component, "worker").get("size")))
    return pods


def _replicas(component: Mapping[str, Any]) -> int:
    return as_count(component["minReplicas"]) if "minReplicas" in component else 1


_of_runtime = partial(roles, ending="Config")
KIND = Kind(
    name="InferenceService",
    written=(
        Written(INFERENCE_SERVICES, roles, by_users=True),
        Written(SERVING_RUNTIMES, _of_runtime),
        Written(CLUSTER_SERVING_RUNTIMES, _of_runtime),
    ),
    project="OME",
    definitions=(INFERENCE_SERVICES,),
    pods_made_by="OME",
    pods_label="ome.io/inferenceservice",
    pods_wanted=pods_wanted,
)
