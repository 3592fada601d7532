"""The watched resources, and what the cache keeps of each. Wiring only.

The scaler does its work without kinds that are not installed, and without those in `OPTIONAL` that
it may not read."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import Any

from scaler.informers import jobs, pods, records
from scaler.informers.cache import Cache
from scaler.informers.config_maps import ConfigMapObject, ConfigMapRecord, config_map_record
from scaler.informers.elastic_services import ElasticServiceObject, elastic_service_record
from scaler.informers.faults import CLUSTER_NAMESPACE, DEVICE_NAMESPACE
from scaler.informers.hyper_nodes import HyperNodeObject, hyper_node_record
from scaler.informers.informer import Informer
from scaler.informers.reflector import SILENCE, History
from scaler.informers.store import Store
from scaler.kube import api as kube
from scaler.kube.api import KubeApi, Resource
from scaler.workloads.ascendjob_objects import OPERATOR_NAME
from scaler.workloads.kinds import OWNER_SOURCES, WATCHED, owner_facts
from scaler.workloads.volcanojob import VOLCANO_JOBS

OURS = f"training.kubeflow.org/operator-name={OPERATOR_NAME}"
NEEDED = frozenset({kube.ASCEND_JOBS, kube.DEPLOYMENTS})
"""Kinds of workload that are always watched: a Deployment also shows Ascend Operator."""
OPTIONAL = frozenset(
    {
        kube.NODES,
        kube.PRIORITY_CLASSES,
        kube.HYPER_NODES,
        kube.ELASTIC_SERVICES,
        kube.DISRUPTION_BUDGETS,
        *(resource for resource in WATCHED if resource not in NEEDED),
    }
)


# Wiring: everything that informers are made of.
def informers(  # noqa: PLR0913
    api: KubeApi,
    cache: Cache,
    namespaces: tuple[str, ...],
    rng: random.Random,
    home: str,
    *,
    silence: float = SILENCE,
    optional: Collection[Resource] = OPTIONAL,
) -> tuple[dict[Resource, Informer[Any, Any]], tuple[Informer[Any, Any], ...]]:
    """One for each resource type, and those of MindCluster's namespaces, unless all namespaces are
    watched anyway: nothing depends on being allowed to read these. Nodes have no namespace; Ascend
    Operator has one of its own. ConfigMaps of the install's own namespace, `home`, are read too.
    Nothing is missing without rights to `optional`."""

    history = History()

    def watch(
        resource: Resource,
        store: Store[Any],
        decode: Any,
        record: Callable[[Any], Any],
        **options: Any,
    ) -> Informer[Any, Any]:
        options = {
            "namespaces": namespaces or None,
            "may_be_forbidden": resource in optional,
        } | options
        options |= {"history": history, "refusals": cache.refusals, "rng": rng, "silence": silence}
        return Informer(api, resource, store, decode=decode, record=record, **options)

    def owners(resource: Resource) -> Informer[Any, Any]:
        store = cache.owners.stores[resource.kind]
        first = OWNER_SOURCES[resource][0]
        options: dict[str, Any] = {"label_selector": first.label_selector}
        if resource == kube.DEPLOYMENTS:  # that of Ascend Operator may be anywhere
            options["namespaces"] = None
        return watch(resource, store, first.decode, owner_facts(resource), **options)

    def rule(cm: ConfigMapObject) -> ConfigMapRecord:
        return cache.bounded(config_map_record(cm, home))

    and_home = tuple(dict.fromkeys((*namespaces, home)))
    watched = (
        watch(kube.ASCEND_JOBS, cache.jobs, jobs.JobObject, jobs.job_record),
        watch(kube.PODS, cache.pods, pods.PodObject, pods.pod_record),
        watch(kube.POD_GROUPS, cache.pod_groups, records.OwnedObject, records.owned_record),
        watch(
            kube.SERVICES,
            cache.kube_services,
            records.OwnedObject,
            records.owned_record,
            label_selector=OURS,
        ),
        watch(
            kube.CONFIG_MAPS,
            cache.config_maps,
            ConfigMapObject,
            rule,
            namespaces=and_home if namespaces else None,
        ),
        watch(
            kube.PRIORITY_CLASSES,
            cache.priorities,
            records.PriorityObject,
            records.priority_record,
            namespaces=None,
        ),
        watch(kube.NODES, cache.nodes, records.NodeObject, records.node_record, namespaces=None),
        watch(
            kube.HYPER_NODES,
            cache.hyper_nodes.store,
            HyperNodeObject,
            hyper_node_record,
            namespaces=None,
        ),
        *map(owners, OWNER_SOURCES),
        watch(VOLCANO_JOBS, cache.volcano_jobs, jobs.JobObject, jobs.volcano_job_record),
        watch(
            kube.ELASTIC_SERVICES,
            cache.elastic_services.store,
            ElasticServiceObject,
            elastic_service_record,
        ),
        watch(kube.DISRUPTION_BUDGETS, cache.budgets, records.BudgetObject, records.budget_record),
    )
    by_resource = {one.resource: one for one in watched}
    theirs = (DEVICE_NAMESPACE, CLUSTER_NAMESPACE)
    if not namespaces:
        return by_resource, ()
    reports = watch(
        kube.CONFIG_MAPS, cache.reports, ConfigMapObject, config_map_record, namespaces=theirs
    )
    return by_resource, (reports,)
