"""CustomResourceDefinitions: ElasticService as it is installed; minimal ones of our own for the
kinds of other projects.

AscendJob, PodGroup and Queue are in crds.yaml; kinds whose pods others make accept any spec."""

from __future__ import annotations

from functools import cache
from importlib import resources

import msgspec
import yaml

from scaler.kube.api import Object, Resource
from scaler.report.definition import definition
from scaler.sim.apiserver import kinds
from scaler.workloads.inferenceservice import INFERENCE_SERVICES
from scaler.workloads.leaderworkerset import LEADER_WORKER_SETS
from scaler.workloads.volcanojob import VOLCANO_JOBS

_SHORT_NAMES = {
    VOLCANO_JOBS: ["vcjob", "vj"],
    LEADER_WORKER_SETS: ["lws"],
    INFERENCE_SERVICES: ["isvc"],
}


@cache
def _documents() -> list[bytes]:
    """As JSON, which is copied ten times as fast as objects."""
    others = resources.files(__package__).joinpath("crds.yaml").read_text(encoding="utf-8")
    return [msgspec.json.encode(one) for one in (definition(), *yaml.safe_load_all(others))]


def definitions() -> list[Object]:
    """The four definitions, ready to be created in any cluster, simulated or real."""
    return [msgspec.json.decode(document) for document in _documents()]


def workload_definitions() -> list[Object]:
    """Of Volcano Job, LeaderWorkerSet, and of AIBrix, OME and Infer Operator; for clusters without
    the real ones."""
    return [workload_definition(resource) for resource in kinds.WORKLOADS]


def workload_definition(resource: Resource) -> Object:
    """As the definition of Queue, for another resource; with its age as the only column."""
    definition: Object = msgspec.json.decode(_documents()[-1])
    spec = definition["spec"]
    kind = resource.kind
    names: Object = {
        "plural": resource.plural,
        "singular": kind.lower(),
        "kind": kind,
        "listKind": f"{kind}List",
    }
    if resource in _SHORT_NAMES:
        names["shortNames"] = _SHORT_NAMES[resource]
    age = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    definition["metadata"]["name"] = f"{resource.plural}.{resource.group}"
    definition["spec"] = {
        "group": resource.group,
        "names": names,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "versions": [
            {**spec["versions"][0], "name": resource.version, "additionalPrinterColumns": [age]}
        ],
    }
    return definition
