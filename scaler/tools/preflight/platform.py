"""Can services of this scaler run in the cluster: Kubernetes, kinds, Volcano, operator, nodes.
Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scaler import __version__
from scaler.defaults import Mode
from scaler.informers.cache import OPERATOR_DEPLOYMENT
from scaler.informers.mode import ModeInForce, in_force
from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    ELASTIC_SERVICES,
    LEASES,
    NODES,
    POD_GROUPS,
    PODS,
    QUEUES,
    Object,
    Resource,
)
from scaler.names import RULE_LABEL
from scaler.report.definition import definition as elastic_service
from scaler.rules.values import as_count, as_list, as_text, at
from scaler.settings import Settings
from scaler.timestamps import seconds_of
from scaler.tools.common.check_result import CheckResult, Level
from scaler.tools.common.console import age
from scaler.tools.preflight.checks import Check, check, listed, ok
from scaler.tools.preflight.picture import (
    Install,
    Picture,
    container_of,
    image_version,
    labels_of,
    name_of,
    namespace_of,
    place_of,
)
from scaler.workloads.kinds import KINDS

OLDEST = 27
NEWEST = 36
"""Minor versions of Kubernetes 1 that are supported."""
VALIDATING_POLICIES_SINCE = 30
MUTATING_POLICIES_SINCE = 36
"""Minor versions from which on these kinds need no feature gate."""
DEFINITIONS: Mapping[Resource, str] = {
    resource: kind.project for kind in KINDS for resource in kind.definitions
}
"""Definitions of other projects, and the project that installs each."""
_KINDS_OF_ONE_INSTANCE = {kind.main.resource.full_name for kind in KINDS if kind.one_instance}
VOLCANO = "volcano-scheduler"
_VOLCANO_CONFIG = "volcano-scheduler-configmap"
_QUIET = 60.0
"""Seconds since Volcano's Lease was renewed."""
NPU = "huawei.com/Ascend"
SCALER_CRD = "kubectl apply --server-side -f manifests/base/elasticservices.yaml"


def missing_right(picture: Picture, *resources: Resource) -> list[CheckResult]:
    """A result about those of these resources that are forbidden to read; none if all were
    read."""
    why = []
    for one in resources:
        if one in picture.unread:
            why.append(picture.unread[one])
    return [CheckResult(Level.UNKNOWN, "; ".join(dict.fromkeys(why)))] if why else []


def kubernetes(picture: Picture) -> Check:
    """Its version, and what this version lacks."""
    minor = picture.minor
    version = picture.version
    if minor is None:
        return check(
            "Kubernetes",
            [CheckResult(Level.UNKNOWN, f"its version is not known: {version or 'no answer'}")],
        )
    if minor < OLDEST:
        words = (
            f"{version} has no scheduling gates that can be relied on; 1.{OLDEST} to 1.{NEWEST} are"
            " supported"
        )
        return check(
            "Kubernetes",
            [CheckResult(Level.ERROR, words, "upgrade, or let the scaler make all pods")],
        )
    lacks = []
    if minor < MUTATING_POLICIES_SINCE:
        lacks.append(
            f"MutatingAdmissionPolicy (1.{MUTATING_POLICIES_SINCE}):"
            " gates are put on by the webhook"
        )
    if minor < VALIDATING_POLICIES_SINCE:
        lacks.append(
            f"ValidatingAdmissionPolicy (1.{VALIDATING_POLICIES_SINCE}): no gate-guard and no"
            " account-guard"
        )
    if minor == OLDEST:
        lacks.append("matchConditions of webhooks: add the component admission-webhook-1.27")
    if minor > NEWEST:
        return check(
            "Kubernetes",
            [CheckResult(Level.WARNING, f"{version} is newer than what was tried, 1.{NEWEST}")],
        )
    without = f", without {'; '.join(lacks)}" if lacks else ""
    return check("Kubernetes", [], ok(f"{version} is supported{without}"))


def kinds(picture: Picture) -> Check:
    """The installed definitions, and their versions."""
    unread = missing_right(picture, CUSTOM_RESOURCE_DEFINITIONS)
    if unread:
        return check("kinds", unread)
    there = {name_of(one): one for one in picture.of(CUSTOM_RESOURCE_DEFINITIONS)}
    found = [*_own(picture, there.get(ELASTIC_SERVICES.full_name)), *_others(there)]
    absent = []
    for kind, by in DEFINITIONS.items():
        if kind.full_name not in there:
            absent.append(f"{kind.kind} ({by})")
    present = []
    for kind in DEFINITIONS:
        if kind.full_name in there:
            present.append(f"{kind.kind} {'/'.join(_served(there[kind.full_name]))}")
    words = (
        f"{listed(present, 9)}" if present else "none of those of MindCluster, Volcano, AIBrix, OME"
    )
    return check("kinds", found, ok(words, f"not installed: {', '.join(absent) or '-'}"))


def _own(picture: Picture, definition: Object | None) -> Iterator[CheckResult]:
    if definition is None:
        level = Level.ERROR if picture.installs else Level.WARNING
        words = (
            "ElasticService is not installed: no status is written, and no number of instances can"
            " be wanted"
        )
        yield CheckResult(
            level, words, SCALER_CRD if picture.installs else "it comes with the install"
        )
    elif _shape(definition) != _shape(elastic_service()):
        words = f"the definition of ElasticService is not that of this version ({__version__})"
        yield CheckResult(Level.WARNING, words, SCALER_CRD)


def _shape(definition: Object) -> list[Any]:
    """The versions of a definition."""
    parts = ("name", "served", "storage", "schema", "subresources", "additionalPrinterColumns")
    found: list[Any] = []
    for one in as_list(at(definition, "spec").get("versions")):
        found.append([at(one).get(part) for part in parts])
    return found


def _others(there: Mapping[str, Object]) -> Iterator[CheckResult]:
    for kind, by in DEFINITIONS.items():
        served = _served(there[kind.full_name]) if kind.full_name in there else [kind.version]
        if kind.version not in served:
            words = (
                f"{kind.kind} is served as {', '.join(served) or 'nothing'}, and the scaler asks"
                f" for {kind.version}"
            )
            yield CheckResult(
                Level.ERROR,
                words,
                f"install a release of {by} that serves it: docs/reference/kinds.md",
            )
    if ASCEND_JOBS.full_name in there and POD_GROUPS.full_name not in there:
        words = "AscendJob is installed and PodGroup is not: nobody places the pods of jobs"
        yield CheckResult(Level.ERROR, words, "install Volcano as MindCluster ships it")
    if not there.keys() & _KINDS_OF_ONE_INSTANCE:
        words = "there is no AscendJob: only Deployments and the like can be services"
        yield CheckResult(
            Level.WARNING, words, "install MindCluster's definitions where AscendJobs are to run"
        )


def _served(definition: Object) -> list[str]:
    versions = as_list(at(definition, "spec").get("versions"))
    found: list[str] = []
    for one in versions:
        if at(one).get("served"):
            found.append(as_text(at(one).get("name")))
    return found


def scheduler(picture: Picture) -> Check:
    """Is Volcano installed and alive, with gang scheduling and an open queue?"""
    unread = missing_right(picture, DEPLOYMENTS)
    if unread:
        return check("scheduler", unread)
    deployed = picture.deployments(VOLCANO)
    names = _scheduler_names(deployed)
    found = [*_queue(picture), *_asked_for(picture, names)]
    if not deployed:
        return check("scheduler", [*found, _no_volcano(picture)])
    ready = [one for one in deployed if as_count(at(one, "status").get("readyReplicas"))]
    where = place_of((ready or deployed)[0])
    if not ready:
        namespace, name = where.split("/")
        words = f"Volcano's scheduler {where} has no replica that is ready"
        found.append(
            CheckResult(Level.ERROR, words, f"kubectl -n {namespace} describe deployment {name}")
        )
    found += [*_leases(picture, ready, names), *_gang(picture)]
    version = image_version((ready or deployed)[0]) or "of an unknown version"
    return check(
        "scheduler",
        found,
        ok(f"Volcano {version} in {where}, scheduler name {', '.join(sorted(names))}"),
    )


def _no_volcano(picture: Picture) -> CheckResult:
    phases = {at(one, "status").get("phase") for one in picture.of(POD_GROUPS)}
    if phases & {"Inqueue", "Running"}:
        words = (
            f"no Deployment {VOLCANO}, but PodGroups are taken up: Volcano runs in another way, or"
            " did once"
        )
        return CheckResult(Level.WARNING, words, "kubectl get pods -A | grep volcano")
    level = Level.ERROR if picture.of(ASCEND_JOBS) else Level.WARNING
    words = (
        f"no Deployment {VOLCANO}: pods that ask for Volcano, as those of AscendJobs, are never"
        " placed"
    )
    return CheckResult(level, words, "install Volcano as MindCluster ships it")


def _scheduler_names(deployed: Sequence[Object]) -> set[str]:
    """The values of `--scheduler-name`; the usual name without this flag."""
    names = set()
    for one in deployed:
        container = container_of(one)
        words = " ".join(
            map(str, [*as_list(container.get("command")), *as_list(container.get("args"))])
        ).split()
        for word in words:
            if word.startswith("--scheduler-name="):
                names.add(word.partition("=")[2])
    return names or {"volcano"}


def _queue(picture: Picture) -> Iterator[CheckResult]:
    queue = None
    for one in picture.of(QUEUES):
        if name_of(one) == "default":
            queue = one
            break
    if QUEUES in picture.unread or QUEUES in picture.missing:
        yield from missing_right(picture, QUEUES)
    elif queue is None:
        advice = "it is Volcano's to make: kubectl -n volcano-system get pods"
        yield CheckResult(
            Level.WARNING,
            "there is no queue default, which PodGroups without a queue go to",
            advice,
        )
    else:
        state = at(queue, "status").get("state")
        if state not in (None, "", "Open"):
            yield CheckResult(
                Level.ERROR,
                f"queue default is {state}: nothing in it is placed",
                "kubectl get queue default -o yaml",
            )


def _asked_for(picture: Picture, names: set[str]) -> Iterator[CheckResult]:
    """Scheduler names in services for which there is no scheduler."""
    asked = {as_text(at(spec).get("schedulerName")) for spec in pod_specs(picture)}
    of_kubernetes = {"", "default-scheduler"}
    for name in sorted(asked - names - of_kubernetes):
        words = (
            f"services ask for the scheduler {name!r}, and Volcano is {', '.join(sorted(names))}"
        )
        yield CheckResult(Level.WARNING, words, "set schedulerName in their templates")


def _leases(picture: Picture, deployed: Sequence[Object], names: set[str]) -> Iterator[CheckResult]:
    """Volcano elects a leader in its own namespace, unless a flag turns that off."""
    homes = {namespace_of(one) for one in deployed}
    ours = []
    for one in picture.of(LEASES):
        if namespace_of(one) in homes and name_of(one) in names | {VOLCANO, "vc-scheduler"}:
            ours.append(one)
    silent = {}
    for one in ours:
        silent[place_of(one)] = picture.now - seconds_of(as_text(at(one, "spec").get("renewTime")))
    if silent and min(silent.values()) > _QUIET:
        place, seconds = min(silent.items(), key=lambda one: one[1])
        words = (
            f"Volcano's Lease {place} was renewed {age(seconds)} ago: its scheduler does not work"
        )
        yield CheckResult(
            Level.ERROR, words, f"kubectl -n {place.split('/')[0]} logs deployment/{VOLCANO}"
        )


def _gang(picture: Picture) -> Iterator[CheckResult]:
    maps = [one for one in picture.of(CONFIG_MAPS) if name_of(one) == _VOLCANO_CONFIG]
    found = []
    for one in maps:
        for value in at(one, "data").values():
            found.append(as_text(value))
    text = "\n".join(found)
    if text and "gang" not in text:
        words = (
            f"the plugin gang is not in ConfigMap {place_of(maps[0])}: half an instance may be"
            " placed"
        )
        yield CheckResult(
            Level.ERROR,
            words,
            f"kubectl -n {namespace_of(maps[0])} edit configmap {_VOLCANO_CONFIG}",
        )


def operator(picture: Picture) -> Check:
    """Is Ascend Operator installed, and which component will make the pods of AscendJobs?"""
    unread = missing_right(picture, DEPLOYMENTS)
    if unread:
        return check("Ascend Operator", unread)
    settings = Settings.model_validate({"mode": Mode.AUTO})
    installed = None
    for install in picture.installs:
        if install.settings:
            installed = install
            settings = install.settings
            break
    deployed = []
    for one in picture.deployments(OPERATOR_DEPLOYMENT):
        if at(one, "spec").get("replicas", 1):
            deployed.append(one)
    here = [one for one in deployed if namespace_of(one) == settings.ascend_operator_namespace]
    found = [*_elsewhere(deployed, here, settings), *_mode(picture, installed, here)]
    acting = in_force(settings.mode, place_of(here[0]) if here else "")
    who = f"{place_of(here[0])} {image_version(here[0])}".strip() + " runs" if here else "none runs"
    return check(
        "Ascend Operator", found, ok(f"{who}; in mode {settings.mode} the scaler {acting.value}")
    )


def _elsewhere(
    deployed: Sequence[Object], here: Sequence[Object], settings: Settings
) -> Iterator[CheckResult]:
    for one in deployed:
        if one not in here:
            place = settings.ascend_operator_namespace
            words = (
                f"Deployment {place_of(one)} is not taken for Ascend Operator, which is looked for"
                f" in {place}"
            )
            yield CheckResult(
                Level.WARNING,
                words,
                f"if it is: SCALER_ASCEND_OPERATOR_NAMESPACE={namespace_of(one)}",
            )


def _mode(
    picture: Picture, installed: Install | None, here: Sequence[Object]
) -> Iterator[CheckResult]:
    if installed is None or installed.settings is None:
        return
    acting = in_force(installed.settings.mode, place_of(here[0]) if here else "")
    if acting is ModeInForce.STANDS_BACK:
        words = (
            f"{place_of(here[0])} runs, and mode create would make the same pods: the scaler does"
            " nothing"
        )
        yield CheckResult(
            Level.ERROR, words, "set SCALER_MODE=auto, or see scaler takeover --check"
        )
    elif acting is ModeInForce.RELEASES and not here and _has_jobs_of_services(picture):
        words = (
            "mode gates makes no pods, no Ascend Operator runs, and there are AscendJobs: nobody"
            " makes their pods"
        )
        yield CheckResult(
            Level.ERROR, words, "kubectl apply -k manifests/cluster-wide, or start Ascend Operator"
        )
    elif acting is ModeInForce.MAKES and _waits_for_operator(picture, installed.settings):
        words = (
            "no Ascend Operator runs, and mode auto waits for the one that it has seen: nobody"
            " makes the pods of AscendJobs"
        )
        yield CheckResult(
            Level.ERROR, words, "set SCALER_MODE=create to take over, or start Ascend Operator"
        )


def _waits_for_operator(picture: Picture, settings: Settings) -> bool:
    """Whether the Lease of an install in mode auto says that an Ascend Operator was there."""
    own = (settings.lease_namespace, settings.lease_name)
    for leader in picture.leaders.found:
        if (leader.namespace, leader.lease) == own and leader.last_mode == Mode.GATES:
            return settings.mode is Mode.AUTO
    return False


def _has_jobs_of_services(picture: Picture) -> bool:
    return any(RULE_LABEL in labels_of(job) for job in picture.of(ASCEND_JOBS))


def pod_specs(picture: Picture) -> Iterator[Any]:
    """The pod specs in templates of AscendJobs that name a rule, and of pods that name one."""
    for job in picture.of(ASCEND_JOBS):
        if RULE_LABEL in labels_of(job):
            for role in at(job, "spec", "replicaSpecs").values():
                yield at(role, "template", "spec")
    for pod in picture.of(PODS):
        yield at(pod, "spec")


def npu_nodes(picture: Picture) -> Check:
    """The number of NPU nodes, their resources and labels."""
    unread = missing_right(picture, NODES)
    if unread:
        return check("NPU nodes", unread)
    nodes = {}
    for item in picture.of(NODES):
        if npus(item):
            nodes[name_of(item)] = item
    if not nodes:
        words = f"none of {len(picture.of(NODES))} nodes has {NPU}* to give"
        return check(
            "NPU nodes",
            [CheckResult(Level.WARNING, words, "install the Ascend device plugin on NPU nodes")],
        )
    away = [name for name, one in nodes.items() if not _takes_pods(one)]
    devices: Counter[str] = Counter()
    types: Counter[str] = Counter()
    for one in nodes.values():
        devices.update(npus(one))
        types[str(labels_of(one).get("accelerator-type", "none"))] += 1
    found = [*_unmatched(picture, list(nodes.values()))]
    if len(away) == len(nodes):
        found.append(
            CheckResult(
                Level.WARNING,
                f"none of {len(nodes)} takes pods: {listed(away)}",
                "kubectl get nodes",
            )
        )
    amounts = ", ".join(f"{number} {what}" for what, number in sorted(devices.items()))
    labels = ", ".join(f"{name}: {number}" for name, number in sorted(types.items()))
    gone = f", {len(away)} of them take no pods ({listed(away, 3)})" if away else ""
    words = f"{len(nodes)} with {amounts} allocatable{gone}; accelerator-type {labels}"
    return check("NPU nodes", found, ok(words))


def npus(node: Object) -> dict[str, int]:
    """Allocatable NPUs, by resource; without zeros."""
    given = at(node, "status", "allocatable")
    found: dict[str, int] = {}
    for name, number in given.items():
        amount = str(number)
        if name.startswith(NPU) and amount.isdecimal() and int(amount):
            found[name] = int(amount)
    return found


def _takes_pods(node: Object) -> bool:
    conditions = as_list(at(node, "status").get("conditions"))
    ready = any(
        at(one).get("type") == "Ready" and at(one).get("status") == "True" for one in conditions
    )
    return ready and not at(node, "spec").get("unschedulable")


def _unmatched(picture: Picture, nodes: Sequence[Object]) -> Iterator[CheckResult]:
    """Node selectors of services that match no NPU node."""
    selectors = {}
    for spec in pod_specs(picture):
        selector = at(spec, "nodeSelector")
        selectors[tuple(sorted(map(str, selector.items())))] = selector
    for wanted in selectors.values():
        matched = any(wanted.items() <= labels_of(node).items() for node in nodes)
        if wanted and not matched:
            words = ",".join(f"{key}={value}" for key, value in wanted.items())
            advice = (
                f"kubectl get nodes -L {','.join(wanted)}; label them, or change the selector of"
                " the services"
            )
            yield CheckResult(
                Level.ERROR, f"services select {words}, and no NPU node has that", advice
            )
