"""Reads a Picture: each object once, several requests at a time, each with a deadline. Changes
nothing.

An access review is a create request that stores nothing. Forbidden resources are noted and left
out."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from scaler import settings as settings_module
from scaler.clock import Clock
from scaler.informers.faults import CLUSTER_NAMESPACE, DEVICE_NAMESPACE
from scaler.kube.api import (
    ACCESS_REVIEWS,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    ELASTIC_SERVICES,
    ENDPOINT_SLICES,
    LEASES,
    MUTATING_POLICY_BINDINGS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    OWN_ACCESS_REVIEWS,
    POD_GROUPS,
    PODS,
    QUEUES,
    VALIDATING_WEBHOOKS,
    KubeApi,
    Object,
    Page,
    Resource,
)
from scaler.kube.client import HttpKubeApi
from scaler.kube.deadline import within
from scaler.kube.errors import ForbiddenError, KubeError, NotFoundError
from scaler.names import MANAGED_BY_LABEL, PREFIX, RULE_KEY, RULE_LABEL
from scaler.rules.values import as_count, as_list, as_text, at
from scaler.settings import Settings, SettingsError
from scaler.timestamps import seconds_of
from scaler.tools.common.leader import USUAL, Leaders, leaders
from scaler.tools.common.lists import Send, every, with_kind
from scaler.tools.lint.files import lint
from scaler.tools.lint.source import Source
from scaler.tools.preflight.admission import served_by
from scaler.tools.preflight.picture import (
    Install,
    Linted,
    Picture,
    Right,
    container_of,
    name_of,
    namespace_of,
    scalers,
)
from scaler.tools.preflight.platform import DEFINITIONS, VOLCANO
from scaler.tools.preflight.rights import ESCALATE, needed, to_install
from scaler.workloads.kinds import KINDS

DEADLINE = 10.0
"""Seconds for one request."""
AT_ONCE = 8
"""Requests at the same time."""
MOST = 20_000
"""Objects of one kind that are read."""
MOST_LINTED = 1_000
"""Workloads whose labels are checked: 4 s."""
_WIDE = (
    CUSTOM_RESOURCE_DEFINITIONS,
    NODES,
    NAMESPACES,
    DEPLOYMENTS,
    QUEUES,
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    MUTATING_POLICY_BINDINGS,
)
"""Read from the whole cluster, whatever namespace is given."""


def _workloads() -> Iterator[Resource]:
    """What users write of kinds whose pods or jobs are instances: their labels are checked. Others
    make workloads of these kinds, or are not looked at."""
    for kind in KINDS:
        main = kind.main
        makes_instances = kind.membership is not None or kind.job is not None
        is_known = not kind.project or main.resource in DEFINITIONS
        if main.by_users and makes_instances and is_known:
            yield main.resource


_WORKLOADS = tuple(_workloads())


class _Reader:
    """The objects read so far."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self.found: dict[Resource, tuple[Object, ...]] = {}
        self.unread: dict[Resource, str] = {}
        self.missing: set[Resource] = set()
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def list(self, resource: Resource, *namespaces: str, selector: str = "") -> None:
        """List all objects of a kind (in these namespaces); objects found before stay."""
        for namespace in namespaces or ("",):
            try:
                async with self._slots:
                    items = await _list(self.api, resource, namespace or None, selector)
            except NotFoundError:
                self.missing.add(resource)
            except ForbiddenError:
                where = f" in {namespace}" if namespace else ""
                self.unread[resource] = f"the right to list {resource.full_name}{where} is missing"
            except KubeError as error:
                self.unread[resource] = f"{resource.full_name}: {error}"
            else:
                self.found[resource] = (*self.found.get(resource, ()), *items)

    async def may(self, user: str, right: Right) -> bool | None:
        """Whether the user ("" is the caller) has the right; None if the caller may not ask."""
        resource, _, subresource = right.resource.partition("/")
        attributes = {**right._asdict(), "resource": resource, "subresource": subresource}
        spec: Object = {
            "resourceAttributes": {key: value for key, value in attributes.items() if value}
        }
        kind = ACCESS_REVIEWS if user else OWN_ACCESS_REVIEWS
        if user:
            spec |= {"user": user, "groups": _groups(user)}
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec}
        try:
            async with self._slots:
                answer = await within(DEADLINE, self.api.create(kind, None, body))
        except KubeError:
            return None
        return at(answer, "status").get("allowed") is True


async def read(api: KubeApi, clock: Clock, namespace: str = "") -> Picture:
    """The cluster, with the services of one namespace or of all ("")."""
    reader = _Reader(api, namespace)
    places = (namespace,) if namespace else ()
    async with asyncio.TaskGroup() as group:
        version = group.create_task(_version(api))
        led = group.create_task(_leaders(api))
        for resource in _WIDE:
            group.create_task(reader.list(resource))
        for resource in (*_WORKLOADS, ELASTIC_SERVICES, POD_GROUPS):
            if resource not in _WIDE:
                group.create_task(reader.list(resource, *places))
        group.create_task(reader.list(PODS, *places, selector=RULE_LABEL))
        group.create_task(reader.list(CONFIG_MAPS, DEVICE_NAMESPACE, CLUSTER_NAMESPACE))
    found = Picture(
        version.result(), clock.now(), reader.found, reader.unread, frozenset(reader.missing)
    )
    await _beside(reader, found)
    made = msgspec.structs.replace(
        found,
        leaders=led.result(),
        installs=tuple(map(install_of, scalers(found))),
        namespace=namespace,
    )
    return msgspec.structs.replace(
        made,
        found=reader.found,
        rights=await _rights(reader, made),
        linted=await _lint(reader, places),
    )


async def _list(
    api: KubeApi, resource: Resource, namespace: str | None, selector: str
) -> list[Object]:
    """The objects of a kind, at most MOST."""
    found: list[Object] = []
    objects = every(api, resource, namespace, label_selector=selector, request=_in_time)
    async with aclosing(objects):
        async for item in objects:
            found.append(with_kind(resource, item))
            if len(found) >= MOST:
                break
    return found


async def _in_time(send: Send) -> Page[Object]:
    return await within(DEADLINE, send())


async def _version(api: KubeApi) -> str:
    """The version of the API server, or why there is none. The simulated cluster has no such
    request."""
    if not isinstance(api, HttpKubeApi):
        return ""
    try:
        return as_text((await within(DEADLINE, api.version())).get("gitVersion"))
    except KubeError as error:
        return str(error)


async def _leaders(api: KubeApi) -> Leaders:
    try:
        return await within(DEADLINE * 2, leaders(api))
    except KubeError as error:
        return Leaders(unread=str(error))


async def _beside(reader: _Reader, found: Picture) -> None:
    """Read in a few other namespaces: those of Volcano's scheduler, and of Services of webhooks
    about pods."""
    homes = {namespace_of(one) for one in found.deployments(VOLCANO)}
    served = {place.partition("/")[0] for place in served_by(found)}
    before = reader.unread.get(CONFIG_MAPS)
    for resource, namespaces in (
        (CONFIG_MAPS, homes - {DEVICE_NAMESPACE, CLUSTER_NAMESPACE}),
        (LEASES, homes),
        (ENDPOINT_SLICES, served),
    ):
        if namespaces:
            await reader.list(resource, *sorted(namespaces))
    if before is None:  # a missing right beside Volcano is no finding about fault data
        reader.unread.pop(CONFIG_MAPS, None)


def install_of(deployment: Object) -> Install:
    """A scaler's Deployment, with the settings of its container."""
    spec = at(deployment, "spec", "template", "spec")
    container = container_of(deployment)
    account = as_text(spec.get("serviceAccountName")) or "default"
    fields = {"metadata.namespace": namespace_of(deployment), "spec.serviceAccountName": account}
    settings, wrong = _settings(container, fields)
    replicas = at(deployment, "spec").get("replicas", 1)
    return Install(
        namespace=namespace_of(deployment),
        name=name_of(deployment),
        account=account,
        settings=settings,
        wrong=wrong,
        image=as_text(container.get("image")),
        replicas=as_count(replicas),
        ready=as_count(at(deployment, "status").get("readyReplicas")),
        helm=at(deployment, "metadata", "labels").get(MANAGED_BY_LABEL) == "Helm",
        created=seconds_of(as_text(at(deployment, "metadata").get("creationTimestamp"))),
    )


def _settings(
    container: Mapping[str, Any], fields: Mapping[str, str]
) -> tuple[Settings | None, str]:
    environ = {}
    for entry in map(at, as_list(container.get("env"))):
        path = as_text(at(entry, "valueFrom", "fieldRef").get("fieldPath"))
        environ[as_text(entry.get("name"))] = as_text(entry.get("value")) or fields.get(path, "")
    parser = argparse.ArgumentParser(exit_on_error=False, add_help=False)
    settings_module.add_arguments(parser)
    environ.pop(settings_module.CONFIG_VARIABLE, None)  # the file is inside the pod
    try:
        args, _ = parser.parse_known_args(
            [as_text(one) for one in as_list(container.get("args"))][1:]
        )
        args.config = None
        return settings_module.load(
            args, {key: value for key, value in environ.items() if value}
        ), ""
    except (SettingsError, argparse.ArgumentError) as error:
        return None, f"its settings are wrong: {' '.join(str(error).split())}"


def _groups(user: str) -> list[str]:
    namespace = user.split(":")[2]
    return ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]


async def _rights(reader: _Reader, found: Picture) -> dict[tuple[str, Right], bool | None]:
    """The rights of the caller, for an installation; of each scaler's account, for its settings."""
    home = found.installs[0].namespace if found.installs else USUAL
    asked = [("", right) for right in (*to_install(home), ESCALATE)]
    for install in found.installs:
        asked += (
            [(install.user, right) for _, right in needed(install.settings)]
            if install.settings
            else []
        )
    rights = await _ask(reader, asked)
    if rights["", ESCALATE] is False:  # then the caller needs each right that it grants
        given = set()
        for _, right in needed(Settings.model_validate({"mode": "auto", "lease_namespace": home})):
            given.add(right)
        rights |= await _ask(reader, [("", right) for right in sorted(given)])
    return rights


async def _ask(
    reader: _Reader, asked: Iterable[tuple[str, Right]]
) -> dict[tuple[str, Right], bool | None]:
    pairs = list(dict.fromkeys(asked))
    return dict(
        zip(pairs, await asyncio.gather(*(reader.may(*pair) for pair in pairs)), strict=True)
    )


async def _lint(reader: _Reader, places: Sequence[str]) -> Linted:
    """Lint the rules and workloads of the namespaces that have any."""
    workloads = []
    for kind in _WORKLOADS:
        for one in reader.found.get(kind, ()):
            if _names_us(one):
                workloads.append(one)
    if places:
        workloads = [one for one in workloads if namespace_of(one) in places]
    homes = {namespace_of(one) for one in (*workloads, *reader.found.get(ELASTIC_SERVICES, ()))}
    left_out = max(0, len(workloads) - MOST_LINTED)
    workloads = workloads[:MOST_LINTED]
    beside = _Reader(reader.api, reader.namespace)
    if homes:
        await beside.list(CONFIG_MAPS, *sorted(homes))
    rules = [one for one in beside.found.get(CONFIG_MAPS, ()) if RULE_KEY in at(one, "data")]
    report = lint([_source(one) for one in (*rules, *workloads)])
    return Linted(
        dict(report.checked),
        tuple(report.findings),
        left_out,
        has_rules=CONFIG_MAPS not in beside.unread,
    )


def _names_us(workload: Object) -> bool:
    """Whether the workload contains any name of ours, also misspelt."""
    return PREFIX.encode() in msgspec.json.encode(workload)


def _source(obj: Object) -> Source:
    meta = {}
    for key, value in at(obj, "metadata").items():
        if key != "managedFields":
            meta[key] = value
    place = f"{obj['kind']} {namespace_of(obj)}/{name_of(obj)}"
    return Source(place, msgspec.json.encode({**obj, "metadata": meta}))
