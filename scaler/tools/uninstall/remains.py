"""What is left after an install has stopped, and the commands that delete it. Reads only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import msgspec

from scaler.kube.api import (
    ASCEND_JOBS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    DISRUPTION_BUDGETS,
    ELASTIC_SERVICES,
    NAMESPACES,
    PODS,
    ROLE_BINDINGS,
    VALIDATING_POLICIES,
    VALIDATING_POLICY_BINDINGS,
    KubeApi,
    Object,
    Resource,
)
from scaler.kube.errors import ForbiddenError, KubeError, NotFoundError
from scaler.names import BUDGET, GATE, INSTALL_LABEL, MANAGED_BY, MANAGED_BY_LABEL, RULE_LABEL
from scaler.rules.values import at
from scaler.tools.common.lists import every
from scaler.tools.uninstall.install import USUAL_NAME, Install
from scaler.workloads.kinds import KINDS

_READER = "metrics-reader"
"""The role that people bind to their Prometheus."""
_ROLES = (
    "cluster",
    "watch",
    "release",
    "create",
    "view",
    "edit",
    "metrics",
    _READER,
    "webhook",
    "policy",
    "fault-data",
    "provisioning-request",
)
_GUARDS = ("gate-guard", "account", "account-webhooks")
TEMPLATES = tuple(
    written.resource
    for kind in KINDS
    for written in kind.written
    if written.by_users and written.roles is not None
)
"""Types of objects of which users write the pod templates. What these make has owners, and is left
out."""
_DEFINITION = ELASTIC_SERVICES.full_name
_PART_OF = f"app.kubernetes.io/part-of={USUAL_NAME}"
_OURS = f"{MANAGED_BY_LABEL}={MANAGED_BY}"
_RELEASE = "meta.helm.sh/release-name"
_RELEASE_NAMESPACE = "meta.helm.sh/release-namespace"


async def gates_in_templates(api: KubeApi, install: Install) -> list[str]:
    """Workloads with our gate in their own pod templates: their next pods would be held for
    ever."""
    found: list[str] = []
    for resource in TEMPLATES:
        async for one in _governed(api, resource, install):
            if (
                not one["metadata"].get("ownerReferences")
                and GATE in msgspec.json.encode(at(one, "spec")).decode()
            ):
                found.append(
                    f"{resource.kind} {one['metadata']['namespace']}/{one['metadata']['name']}"
                )
    return found


async def jobs_without_pods(api: KubeApi, install: Install) -> list[str]:
    """AscendJobs under a rule without pods: another controller has to make them."""
    jobs = []
    async for one in _governed(api, ASCEND_JOBS, install):
        if RULE_LABEL in at(one, "metadata", "labels"):
            jobs.append(one)
    if not jobs:
        return []
    owners = set()
    for namespace in sorted({one["metadata"]["namespace"] for one in jobs}):
        async for pod in every(api, PODS, namespace):
            for owner in pod["metadata"].get("ownerReferences") or ():
                owners.add(owner.get("uid"))
    found: list[str] = []
    for one in jobs:
        if one["metadata"]["uid"] not in owners:
            found.append(_place(one))
    return found


async def _governed(api: KubeApi, resource: Resource, install: Install) -> AsyncIterator[Object]:
    """Objects of a governed namespace; none if the kind is not installed or may not be read."""
    for namespace in install.governs or (None,):
        try:
            async for one in every(api, resource, namespace):
                if install.looks_after(one["metadata"]["namespace"]):
                    yield one
        except (NotFoundError, ForbiddenError):
            continue


async def removal(api: KubeApi, install: Install) -> AsyncIterator[str]:
    """The commands that delete what is left, one per line."""
    meta = at(install.deployments[0], "metadata") if install.deployments else {}
    release = at(meta, "annotations").get(_RELEASE)
    if release:
        yield (
            f"helm uninstall {release} -n"
            f" {at(meta, 'annotations').get(_RELEASE_NAMESPACE, install.namespace)}"
        )
        async for line in _bindings(api, install):
            yield line
    else:
        async for line in _without_helm(api, install):
            yield line
    async for line in _services(api, install):
        yield line
    for one in await budgets(api, install):
        yield (
            f"kubectl -n {one['metadata']['namespace']} delete poddisruptionbudget"
            f" {one['metadata']['name']} --ignore-not-found"
        )


async def _without_helm(api: KubeApi, install: Install) -> AsyncIterator[str]:
    suffix = install.name.removeprefix(USUAL_NAME)
    for resource, parts in ((VALIDATING_POLICY_BINDINGS, _GUARDS), (VALIDATING_POLICIES, _GUARDS)):
        for line in _delete(resource, await _named(api, resource, parts, suffix)):
            yield line
    async for line in _bindings(api, install):
        yield line
    for line in _delete(CLUSTER_ROLES, await _named(api, CLUSTER_ROLES, _ROLES, suffix)):
        yield line
    try:
        home = await api.get(NAMESPACES, None, install.namespace)
    except KubeError:
        return
    if INSTALL_LABEL in at(home, "metadata", "labels"):
        yield f"kubectl delete namespace {install.namespace} --ignore-not-found"
    else:
        kinds = "deployment,service,serviceaccount,role,rolebinding,poddisruptionbudget"
        yield f"kubectl -n {install.namespace} delete {kinds} -l {_PART_OF} --ignore-not-found"


async def _bindings(api: KubeApi, install: Install) -> AsyncIterator[str]:
    """The commands for bindings that neither Helm nor the end of the namespace deletes: to the
    account, such as those that people made for one namespace more (with the account made anew, its
    token would have these rights again), and of the role for Prometheus."""
    by_namespace: dict[str, list[str]] = {}
    for one in await _bound(api, ROLE_BINDINGS, install):
        if not _is_of_helm(one):
            names = by_namespace.setdefault(one["metadata"]["namespace"], [])
            names.append(one["metadata"]["name"])
    for namespace, names in sorted(by_namespace.items()):
        if namespace != install.namespace:
            yield (
                f"kubectl -n {namespace} delete rolebinding {' '.join(names)} --ignore-not-found"
            )
    bound = []
    for one in await _bound(api, CLUSTER_ROLE_BINDINGS, install):
        if not _is_of_helm(one):
            bound.append(one["metadata"]["name"])
    for line in _delete(CLUSTER_ROLE_BINDINGS, bound):
        yield line


def _is_of_helm(one: Object) -> bool:
    return _RELEASE in at(one, "metadata", "annotations")


async def _services(api: KubeApi, install: Install) -> AsyncIterator[str]:
    """The commands for ElasticServices: the last install also deletes the definition, and so all of
    them."""
    if not install.others:
        try:
            await api.get(CUSTOM_RESOURCE_DEFINITIONS, None, _DEFINITION)
        except KubeError:
            return
        yield f"kubectl delete crd {_DEFINITION} --ignore-not-found"
        return
    there = set()
    async for one in _governed(api, ELASTIC_SERVICES, install):
        there.add(one["metadata"]["namespace"])
    for namespace in sorted(there):
        yield f"kubectl -n {namespace} delete elasticservices -l {_OURS} --ignore-not-found"


async def budgets(api: KubeApi, install: Install) -> list[Object]:
    """The budgets of the install: without the scaler, which moves the labels, they refuse evictions
    for ever."""
    name = BUDGET + install.name.removeprefix(USUAL_NAME)
    found: list[Object] = []
    async for one in _governed(api, DISRUPTION_BUDGETS, install):
        if one["metadata"]["name"] == name:
            found.append(one)
    return found


async def _bound(api: KubeApi, resource: Resource, install: Install) -> list[Object]:
    """Bindings to the account of the install, and of its role for Prometheus, of any name."""
    pod = at(install.deployments[0], "spec", "template", "spec") if install.deployments else {}
    account = pod.get("serviceAccountName") or install.name
    subject = {"kind": "ServiceAccount", "name": account, "namespace": install.namespace}
    reader = f"{USUAL_NAME}-{_READER}{install.name.removeprefix(USUAL_NAME)}"
    try:
        found = [one async for one in every(api, resource)]
    except KubeError:
        return []
    result: list[Object] = []
    for one in found:
        is_bound = any(subject.items() <= it.items() for it in one.get("subjects") or ())
        if is_bound or at(one, "roleRef").get("name") == reader:
            result.append(one)
    return result


async def _named(
    api: KubeApi, resource: Resource, parts: tuple[str, ...], suffix: str
) -> list[str]:
    wanted = {f"{USUAL_NAME}-{part}{suffix}" for part in parts}
    try:
        found: list[str] = []
        async for one in every(api, resource):
            if one["metadata"]["name"] in wanted:
                found.append(one["metadata"]["name"])
        return found
    except KubeError:
        return []


def _delete(resource: Resource, names: list[str]) -> Iterator[str]:
    if names:
        yield f"kubectl delete {resource.kind.lower()} {' '.join(sorted(names))} --ignore-not-found"


def _place(one: Object) -> str:
    return f"{one['metadata']['namespace']}/{one['metadata']['name']}"
