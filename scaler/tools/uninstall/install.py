"""One install of the scaler in a cluster: its processes, the namespaces that it governs, and its
admission."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scaler.kube.api import (
    DEPLOYMENTS,
    MUTATING_POLICIES,
    MUTATING_POLICY_BINDINGS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    VALIDATING_WEBHOOKS,
    KubeApi,
    Object,
    Resource,
)
from scaler.kube.errors import NotFoundError
from scaler.names import GATE, INSTALL_LABEL, NAMESPACE_LABEL, RULE_LABEL
from scaler.rules.values import as_text, at
from scaler.tools.common.leader import Leader, leaders
from scaler.tools.common.lists import every

USUAL_NAME = "mind-cluster-scaler"
APP_LABEL = f"app.kubernetes.io/name={USUAL_NAME}"
"""Label of the Deployment of every install, and of its pods."""
ADMISSION = (MUTATING_WEBHOOKS, MUTATING_POLICY_BINDINGS, MUTATING_POLICIES, VALIDATING_WEBHOOKS)
"""In the order of deletion: first what adds the gate, a policy after its binding, last what only
checks."""


class InstallNotFoundError(Exception):
    """There is no install in that namespace, but others exist, or that is unreadable. The message
    is for people."""


class Install(msgspec.Struct, frozen=True):
    """`deployments` are its own, `leases` those that its processes hold; `governs` its namespaces,
    () for all except those of `others`."""

    namespace: str
    name: str
    deployments: tuple[Object, ...]
    leases: tuple[Leader, ...]
    governs: tuple[str, ...]
    others: tuple[Leader, ...]

    def looks_after(self, namespace: str) -> bool:
        if self.governs:
            return namespace in self.governs
        return not any(other.governs and other.looks_after(namespace) for other in self.others)

    @property
    def words(self) -> str:
        if self.governs:
            return ", ".join(self.governs)
        others: set[str] = set()
        for other in self.others:
            others.update(other.governs)
        left_out = sorted(others)
        return "every namespace" + (
            f" but those of other installs: {', '.join(left_out)}" if left_out else ""
        )


async def find(api: KubeApi, namespace: str) -> Install:
    """The install of that namespace; others count only if no tenant can write their Lease. The
    remains of an install without a namespace count if there is no other install. Raises KubeError
    and InstallNotFoundError."""
    known = await leaders(api)
    deployments = []
    async for item in every(api, DEPLOYMENTS, namespace, label_selector=APP_LABEL):
        deployments.append(item)
    own = tuple(leader for leader in known.found if leader.namespace == namespace)
    homes = set()
    async for item in every(api, NAMESPACES, label_selector=INSTALL_LABEL):
        homes.add(item["metadata"]["name"])
    found = []
    for one in known.found:
        if one.namespace != namespace and one.namespace in homes:
            found.append(one)
    others = tuple(found)
    if not deployments and not own and others:
        there = ", ".join(sorted({leader.namespace for leader in others}))
        raise InstallNotFoundError(
            f"no install in namespace {namespace}; installs are in: {there} (option -n)"
        )
    if known.unread and not own:
        raise InstallNotFoundError(f"which namespaces it looks after is not known: {known.unread}")
    names = [as_text(_pod_spec(one).get("serviceAccountName")) for one in deployments]
    governs = own[0].governs if own else _governed_by_variable(deployments)
    return Install(
        namespace, next(filter(None, names), USUAL_NAME), tuple(deployments), own, governs, others
    )


def _pod_spec(deployment: Object) -> Object:
    return dict(at(deployment, "spec", "template", "spec"))


def _governed_by_variable(deployments: Iterable[Object]) -> tuple[str, ...]:
    """The namespaces in the settings of an install that never led."""
    for deployment in deployments:
        for container in _pod_spec(deployment).get("containers") or ():
            for variable in container.get("env") or ():
                if variable.get("name") == "SCALER_NAMESPACES":
                    return tuple(filter(None, as_text(variable.get("value")).split(",")))
    return ()


async def admission_of(api: KubeApi, install: Install) -> list[tuple[Resource, Object]]:
    """Its webhook configurations and policies, in the order of deletion."""
    found: list[tuple[Resource, Object]] = []
    for resource in ADMISSION:
        for one in await _all(api, resource):
            if one["metadata"]["name"] in _names(install) or _is_served_by(one, install.namespace):
                found.append((resource, one))
    return found


def _names(install: Install) -> tuple[str, ...]:
    """Names with the install's suffix: kustomize and the chart add the suffix to every name."""
    ascend_jobs = f"{USUAL_NAME}-ascendjobs{install.name.removeprefix(USUAL_NAME)}"
    return install.name, ascend_jobs


def _is_served_by(configuration: Object, namespace: str) -> bool:
    """Whether a webhook configuration names a Service of this namespace."""
    return any(
        at(webhook, "clientConfig", "service").get("namespace") == namespace
        for webhook in configuration.get("webhooks") or ()
    )


async def still_gating(api: KubeApi) -> list[str]:
    """Other objects that may add the gate: configurations about pods that name a rule, policies
    that set our gate."""
    found = []
    for resource in (MUTATING_WEBHOOKS, MUTATING_POLICIES):
        for one in await _all(api, resource):
            text = msgspec.json.encode(one).decode()
            if GATE in text or (
                resource is MUTATING_WEBHOOKS and RULE_LABEL in text and '"pods"' in text
            ):
                found.append(f"{resource.kind} {one['metadata']['name']}")
    return found


async def opted_in(api: KubeApi, install: Install) -> list[str]:
    """The namespaces that it governs and in which admission holds pods."""
    found = []
    async for one in every(api, NAMESPACES, label_selector=f"{NAMESPACE_LABEL}=enabled"):
        found.append(one["metadata"]["name"])
    return sorted(name for name in found if install.looks_after(name))


async def _all(api: KubeApi, resource: Resource) -> list[Object]:
    """All objects; none if the API server does not know the kind."""
    try:
        return [one async for one in every(api, resource)]
    except NotFoundError:
        return []
