"""What is watched, and what the cache keeps of it. Wiring only; it decides nothing.

Every cluster lacks some of the kinds, and the scaler does its work without those that are not installed; also without
those in `OPTIONAL` that it may not read.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from scaler.informers.cache import Cache
from scaler.informers.config_maps import ConfigMapObject, ConfigMapRecord, config_map_record
from scaler.informers.elastic_services import ElasticServiceObject, elastic_service_record
from scaler.informers.faults import CLUSTER_NAMESPACE, DEVICE_NAMESPACE
from scaler.informers.informer import Informer
from scaler.informers.jobs import JobObject, job_record, volcano_job_record
from scaler.informers.pods import PodObject, pod_record
from scaler.informers.records import (
    BudgetObject,
    NodeObject,
    OwnedObject,
    PriorityClassObject,
    budget_record,
    node_record,
    owned_record,
    priority_record,
)
from scaler.informers.store import Store
from scaler.informers.watched import SILENCE, History
from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    ELASTIC_SERVICES,
    LEADER_WORKER_SETS,
    NODES,
    POD_GROUPS,
    POD_SETS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
    VOLCANO_JOBS,
    KubeApi,
    Resource,
)
from scaler.names import RULE_LABEL
from scaler.workloads.ascendjob_objects import OPERATOR_NAME
from scaler.workloads.kinds import OwnerObject, owner_facts

OURS = f"training.kubeflow.org/operator-name={OPERATOR_NAME}"
OPTIONAL = frozenset(
    {
        NODES,
        PRIORITY_CLASSES,
        VOLCANO_JOBS,
        LEADER_WORKER_SETS,
        POD_SETS,
        REPLICA_SETS,
        STATEFUL_SETS,
        ELASTIC_SERVICES,
        DISRUPTION_BUDGETS,
    }
)


def informers(
    api: KubeApi,
    cache: Cache,
    namespaces: tuple[str, ...],
    rng: random.Random,
    home: str,
    *,
    silence: float = SILENCE,
    optional: Collection[Resource] = OPTIONAL,
) -> Mapping[Resource, Informer[Any, Any]]:
    """One for each resource type. Nodes have no namespace; Ascend Operator's Deployment may be in any. `home` is the
    install's own namespace: ConfigMaps are read there, too. Nothing is missing without the right to `optional`."""

    history = History()

    def watch(
        resource: Resource, store: Store[Any], decode: Any, record: Callable[[Any], Any], **options: Any
    ) -> Informer[Any, Any]:
        scope = {
            "namespaces": namespaces or None,
            "history": history,
            "may_be_forbidden": resource in optional,
            "refusals": cache.refusals,
            **options,
        }
        return Informer(api, resource, store, decode=decode, record=record, rng=rng, silence=silence, **scope)

    def owners(resource: Resource, **options: Any) -> Informer[Any, Any]:
        kind = resource.kind
        return watch(resource, cache.owners.stores[kind], OwnerObject, partial(owner_facts, kind), **options)

    watched = (
        watch(ASCEND_JOBS, cache.jobs, JobObject, job_record),
        watch(PODS, cache.pods, PodObject, pod_record),
        watch(POD_GROUPS, cache.pod_groups, OwnedObject, owned_record),
        watch(SERVICES, cache.services, OwnedObject, owned_record, label_selector=OURS),
        watch(
            CONFIG_MAPS,
            cache.config_maps,
            ConfigMapObject,
            partial(config_map_record, home=home),
            namespaces=tuple({**dict.fromkeys(namespaces), home: None}) if namespaces else None,
        ),
        watch(PRIORITY_CLASSES, cache.priorities, PriorityClassObject, priority_record, namespaces=None),
        watch(NODES, cache.nodes, NodeObject, node_record, namespaces=None),
        owners(DEPLOYMENTS, namespaces=None),
        owners(REPLICA_SETS, label_selector=RULE_LABEL),
        owners(STATEFUL_SETS),
        owners(LEADER_WORKER_SETS),
        owners(POD_SETS),
        watch(VOLCANO_JOBS, cache.volcano_jobs, JobObject, volcano_job_record),
        watch(ELASTIC_SERVICES, cache.elastic_services.store, ElasticServiceObject, elastic_service_record),
        watch(DISRUPTION_BUDGETS, cache.budgets, BudgetObject, budget_record),
    )
    return {one.resource: one for one in watched}


def report_informers(
    api: KubeApi, cache: Cache, namespaces: tuple[str, ...], rng: random.Random
) -> tuple[Informer[ConfigMapObject, ConfigMapRecord], ...]:
    """MindCluster's namespaces, unless all namespaces are watched anyway. Nothing depends on being allowed to."""
    if not namespaces:
        return ()
    return (
        Informer(
            api, CONFIG_MAPS, cache.reports, decode=ConfigMapObject, record=config_map_record,
            namespaces=(DEVICE_NAMESPACE, CLUSTER_NAMESPACE), rng=rng, refusals=cache.refusals,
        ),
    )  # fmt: skip
