"""Scheduler, operator and admission: the state of other components. Reads a few objects; writes
none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from scaler.decide.decision import State
from scaler.decide.world import Instance
from scaler.informers.pods import PodRecord
from scaler.kube.api import (
    DEPLOYMENTS,
    MUTATING_POLICY_BINDINGS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    QUEUES,
    KubeApi,
    Object,
    Resource,
)
from scaler.kube.errors import ForbiddenError, KubeError, NotFoundError, StatusError
from scaler.names import GATE, NAMESPACE_LABEL, POD_GROUP
from scaler.reasons import checks
from scaler.reasons.reasons import Reason
from scaler.reasons.said import AND, SEMICOLON, Said, as_is, in_one
from scaler.reasons.words import explained, with_meaning
from scaler.rules.values import as_list, as_text, at
from scaler.tools.common.check_result import CheckResult, Level, checked
from scaler.tools.common.detail import node_trouble, standing
from scaler.tools.common.records import EventRecord, condition
from scaler.tools.common.view import Cluster
from scaler.tools.why import scale
from scaler.tools.why.subject import Subject
from scaler.workloads.npu_rules import RESCHEDULING
from scaler.workloads.scheduler_words import (
    WAITS,
    Condition,
    is_about_its_group,
    said_of,
    sentence_of,
)

MOST_INSTANCES = 4
MOST_PODS = 4
"""Pods of each instance, those with problems first."""
_USUAL_INSTALL = "mind-cluster-scaler"
_OF_INSTALLS = f"app.kubernetes.io/name={_USUAL_INSTALL}"
"""Label of the Deployment of every install, whatever its name."""
_SOURCES = {"policy": MUTATING_POLICY_BINDINGS, "webhook": MUTATING_WEBHOOKS}
"""Both have the name of their install."""


class Looked(msgspec.Struct, frozen=True):
    """The objects read for this answer, beside the watched ones. `unread`: those that the caller
    may not read."""

    pods: dict[str, Object] = {}
    pod_groups: dict[str, Object] = {}
    queues: dict[str, Object] = {}
    namespace: Object = {}
    sources: dict[str, bool | None] = {}
    """Source of our gate -> whether it is installed, None if that is not known."""
    unread: tuple[str, ...] = ()
    scaled: scale.Scaled = scale.Scaled()


async def look(cluster: Cluster, api: KubeApi, subject: Subject) -> Looked:
    """Read what these checks need. Raises KubeError, except for missing rights."""
    reader = _Reader(api, [])
    shown = _in_trouble(subject)
    pods: list[PodRecord] = []
    for instance in shown:
        pods.extend(_pods_in_trouble(cluster, instance, subject.pod))
    raw = {pod.name: await reader.get(PODS, subject.namespace, pod.name) for pod in pods}
    groups = set()
    for pod in raw.values():
        if name := as_text(at(pod, "metadata", "annotations").get(POD_GROUP)):
            groups.add(name)
    for one in shown:
        if (record := cluster.cache.job(one.uid)) is not None:
            groups.add(record.job.pod_group)
    found = await reader.all(POD_GROUPS, subject.namespace, groups)
    queues = set()
    for group in found.values():
        if group:
            queues.add(as_text(at(group, "spec").get("queue")) or "default")
    others = any(not instance.made_by_us for instance in subject.instances)
    scaled = await scale.look(api, subject)
    return Looked(
        pods=raw,
        pod_groups=found,
        queues=await reader.all(QUEUES, None, queues),
        namespace=await reader.get(NAMESPACES, None, subject.namespace) if others else {},
        sources=await _sources(api, cluster.home) if others else {},
        unread=tuple(dict.fromkeys([*reader.unread, *scaled.unread])),
        scaled=scaled,
    )


class _Reader(NamedTuple):
    api: KubeApi
    unread: list[str]

    async def all(
        self, resource: Resource, namespace: str | None, names: Iterable[str]
    ) -> dict[str, Object]:
        """By name; {} for a missing object. A forbidden one is left out."""
        found = {name: await self.get(resource, namespace, name) for name in sorted(names)}
        return {} if resource.full_name in self.unread else found

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """{} for a missing or forbidden object."""
        try:
            return await self.api.get(resource, namespace, name)
        except ForbiddenError:
            self.unread.append(resource.full_name)
        except StatusError as error:
            if not isinstance(error, NotFoundError) and error.status not in (400, 405):
                raise
        return {}


async def _sources(api: KubeApi, home: str) -> dict[str, bool | None]:
    """Those with the usual name, which gate in every namespace that asks for it, else those of the
    install in `home`."""
    usual = await _sources_of(api, _USUAL_INSTALL)
    if True in usual.values():
        return usual
    name = await _name_of_install(api, home)
    if name is None:
        return dict.fromkeys(_SOURCES)
    return usual if name == _USUAL_INSTALL else await _sources_of(api, name)


async def _sources_of(api: KubeApi, install: str) -> dict[str, bool | None]:
    found: dict[str, bool | None] = {}
    for source, resource in _SOURCES.items():
        try:
            await api.get(resource, None, install)
            found[source] = True
        except NotFoundError:
            found[source] = False
        except KubeError:
            found[source] = None
    return found


async def _name_of_install(api: KubeApi, home: str) -> str | None:
    """An install has the name of its service account. The usual one if none is found; None if that
    may not be read."""
    try:
        deployments = await api.list(DEPLOYMENTS, home, label_selector=_OF_INSTALLS)
    except KubeError:
        return None
    for one in deployments.items:
        name = as_text(at(one, "spec", "template", "spec").get("serviceAccountName"))
        if name:
            return name
    return _USUAL_INSTALL


def _in_trouble(subject: Subject) -> list[Instance]:
    """Instances that do not run and have pods; the first few."""
    found = []
    for one in subject.instances:
        if one.pods and _state(subject, one) != State.RUNNING:
            found.append(one)
    if not found and subject.pod is not None:
        found = list(subject.instances)
    return found[:MOST_INSTANCES]


def _state(subject: Subject, instance: Instance) -> str:
    known = subject.standings.get(instance.uid)
    return known.state if known is not None else ""


def _pods_in_trouble(
    cluster: Cluster, instance: Instance, asked: PodRecord | None
) -> Sequence[PodRecord]:
    if asked is not None:
        return [asked]
    pods = cluster.cache.pods_of(instance.uid)
    return sorted(pods.values(), key=lambda pod: (standing(pod) == "Running", pod.name))[:MOST_PODS]


# The scheduler


def scheduler_checks(cluster: Cluster, subject: Subject, looked: Looked) -> Iterator[CheckResult]:
    """The conditions that Volcano set on the PodGroups, and the kubelet on the pods."""
    if not any(instance.pods for instance in subject.instances):
        yield checked(Level.OK, checks.NO_PODS_YET, about="scheduler")
        return
    placed = _placed_groups(looked.pods.values())
    for name, group in looked.pod_groups.items():
        yield from _group_checks(name, group, is_placed=name in placed)
    for name, queue in looked.queues.items():
        state = as_text(at(queue, "status").get("state"))
        if state not in ("", "Open"):
            yield checked(Level.ERROR, checks.QUEUE_CLOSED.of(state=state), about=f"queue {name}")
    events = cluster.last_warnings(subject.namespace)
    for pod in looked.pods.values():
        yield from _pod_checks(cluster, pod, looked.pod_groups, events)
    if not looked.pods:
        number = sum(instance.pods for instance in subject.instances)
        yield checked(Level.OK, checks.ALL_OF_RUNNING.of(count=number), about="pods")


def _placed_groups(pods: Iterable[Object]) -> set[str]:
    """PodGroups of which every pod that was looked at has a node: the scheduler has done its part,
    whatever phase it has written."""
    placed: dict[str, bool] = {}
    for pod in pods:
        name = as_text(at(pod, "metadata", "annotations").get(POD_GROUP))
        has_node = bool(at(pod, "spec").get("nodeName"))
        placed[name] = has_node and placed.get(name, True)
    return {name for name, is_placed in placed.items() if is_placed}


def _group_checks(name: str, group: Object, *, is_placed: bool) -> Iterator[CheckResult]:
    about = f"PodGroup {name}"
    if not group:
        yield checked(Level.NOTE, checks.NO_POD_GROUP, about=about)
        return
    phase = as_text(at(group, "status").get("phase"))
    if phase not in WAITS or is_placed:
        shown = phase or checks.NOT_SET
        yield checked(Level.OK, checks.PHASE.of(phase=shown), about=about)
        return
    said = said_of(_conditions(group))
    words = checks.SILENT
    if said:
        own = "; ".join(map(str, said))
        cure = said[0].cure
        meaning = checks.SCHEDULER_SAYS.get(said[0].reason, "")
        words = explained(meaning, f"{own}. {sentence_of(cure)}" if cure else own)
    shown = phase or checks.NOT_SET
    yield checked(Level.ERROR, checks.PHASE_WORDS.of(phase=shown, words=words), about=about)


def _conditions(group: Object) -> Sequence[Condition]:
    found = []
    for one in map(at, as_list(at(group, "status").get("conditions"))):
        condition = Condition(
            type=as_text(one.get("type")),
            status=as_text(one.get("status")),
            reason=as_text(one.get("reason")),
            message=as_text(one.get("message")),
            transition_id=as_text(one.get("transitionID")),
            last_transition_time=as_text(one.get("lastTransitionTime")),
        )
        found.append(condition)
    return found


def _installed(sources: Mapping[str, bool | None]) -> list[Said]:
    names = []
    for name, is_installed in sources.items():
        if is_installed:
            names.append(checks.GATE_SOURCES[name])
    return names


def _pod_checks(
    cluster: Cluster,
    pod: Object,
    groups: Mapping[str, Object],
    events: dict[str, EventRecord],
) -> Iterator[CheckResult]:
    meta = at(pod, "metadata")
    spec = at(pod, "spec")
    status = at(pod, "status")
    if not meta:
        return
    about = f"pod {meta.get('name')}"
    gates = [as_text(at(gate).get("name")) for gate in as_list(spec.get("schedulingGates"))]
    foreign = [gate for gate in gates if gate != GATE]
    if foreign:
        said = checks.OTHERS_GATE.of(gates=", ".join(foreign))
        yield checked(Level.ERROR, said, about=about)
    elif gates:
        yield checked(Level.OK, checks.OUR_GATE.of(gate=GATE), about=about)
        return
    words = list(_pod_words(status))
    of_node = _node_words(cluster, as_text(spec.get("nodeName")))
    if of_node:
        words.append(of_node)
        if not _leaves_faults(pod, groups):
            words.append(checks.POD_STAYS)
    event = events.get(as_text(meta.get("uid")))
    if event is not None and not words and not _is_ready(status):
        words.append(as_is(f"{event.reason}: {event.message}"))
    if words:
        yield checked(Level.ERROR, in_one(dict.fromkeys(words), SEMICOLON), about=about)
    else:
        row = checks.POD_ON_NODE if spec.get("nodeName") else checks.POD_NOT_BOUND
        phase = status.get("phase", "Pending")
        yield checked(Level.OK, row.of(phase=phase, node=spec.get("nodeName")), about=about)


def _leaves_faults(pod: Object, groups: Mapping[str, Object]) -> bool:
    """Whether MindCluster's scheduler deletes the pod when its node fails; True where another
    scheduler binds it."""
    if as_text(at(pod, "spec").get("schedulerName")) != "volcano":
        return True
    group = groups.get(as_text(at(pod, "metadata", "annotations").get(POD_GROUP)), {})
    for labels in (at(pod, "metadata", "labels"), at(group, "metadata", "labels")):
        if as_text(labels.get(RESCHEDULING)) not in ("", "off"):
            return True
    return False


def _is_ready(status: object) -> bool:
    return condition(status, "Ready").get("status") == "True"


def _node_words(cluster: Cluster, node: str) -> Said | None:
    trouble = node_trouble(cluster, node)
    return checks.NODE_TROUBLE.of(node=node, trouble=trouble) if trouble else None


def _pod_words(status: object) -> Iterator[Said]:
    scheduled = condition(status, "PodScheduled")
    reason = as_text(scheduled.get("reason"))
    if scheduled.get("status") == "False" and is_about_its_group(reason):
        yield checks.GROUP_SAYS_WHY
    elif scheduled.get("status") == "False" and reason != "SchedulingGated":
        yield as_is(f"{reason}: {as_text(scheduled.get('message'))}")
    statuses = []
    for kind in ("initContainerStatuses", "containerStatuses"):
        statuses += [(kind, at(one)) for one in as_list(at(status).get(kind))]
    for kind, container in statuses:
        row = checks.INIT_CONTAINER if kind.startswith("init") else checks.CONTAINER
        waiting = at(container, "state", "waiting")
        ended = at(container, "lastState", "terminated")
        reason = as_text(waiting.get("reason"))
        if reason and reason not in ("ContainerCreating", "PodInitializing"):
            said = as_text(waiting.get("message"))
            words = checks.COLON_WORDS.of(words=said) if said else ""
            code = checks.ENDED_BEFORE.of(code=ended["exitCode"]) if "exitCode" in ended else ""
            yield row.of(name=container.get("name"), reason=reason, words=words, code=code)
    if at(status).get("phase") == "Failed":
        reason = as_text(at(status).get("reason"))
        message = as_text(at(status).get("message"))
        yield as_is(f"Failed: {reason} {message}".rstrip(" :"))


# Makers of the pods


def operator_checks(cluster: Cluster, subject: Subject) -> Iterator[CheckResult]:
    """Ascend Operator beside the scaler, and other makers of pods."""
    operator = cluster.cache.ascend_operator()
    ours = [instance for instance in subject.instances if instance.kind == "AscendJob"]
    if ours:
        makes = checks.SCALER_MAKES
        if operator:
            makes = checks.OPERATOR_MAKES.of(operator=operator)
        yield checked(Level.OK, makes, about="Ascend Operator")
    elsewhere = cluster.cache.ascend_operators_elsewhere()
    if elsewhere:
        said = checks.OPERATOR_ELSEWHERE.of(operators=", ".join(elsewhere))
        yield checked(Level.NOTE, said, about="Ascend Operator")
    for instance in subject.instances:
        about = f"{instance.kind} {instance.name}"
        for fault in instance.faults:
            said = with_meaning(Reason.JOB_INVALID.value, fault)
            yield checked(Level.ERROR, said, about=about)
        for warning, words in instance.warnings:
            yield checked(Level.NOTE, with_meaning(warning.value, words), about=about)
        lacking = instance.expected - instance.pods
        if not instance.made_by_us and lacking > 0 and not instance.more_to_come:
            said = checks.PODS_NOT_MADE.of(lacking=lacking, expected=instance.expected)
            yield checked(Level.NOTE, said, about=about)
        if instance.name_taken:
            said = checks.NAME_TAKEN.of(name=instance.name_taken)
            yield checked(Level.ERROR, said, about=about)


def warnings(subject: Subject) -> Iterator[CheckResult]:
    """The scaler's own warnings, in its words."""
    names = {instance.name for instance in subject.instances}
    written = subject.view.status.get("warnings") if subject.view is not None else None
    for found in map(at, as_list(written)):
        name = as_text(found.get("instance"))
        if not name or name in names:
            kind = as_text(found.get("type"))
            said = with_meaning(kind, f"{kind}: {as_text(found.get('message'))}")
            yield checked(Level.NOTE, said, about=name or "service")


# Admission


def admission_checks(subject: Subject, looked: Looked) -> Iterator[CheckResult]:
    """Whether its pods could be held, and whether the API server accepted them."""
    refused = [s for s in subject.standings.values() if s.reason == Reason.CREATE_REFUSED]
    for one in refused:
        said = with_meaning(Reason.CREATE_REFUSED.value, one.message)
        yield checked(Level.ERROR, said, about="API server")
    others = [instance for instance in subject.instances if not instance.made_by_us]
    if not others:
        if subject.instances and not refused:
            yield checked(Level.OK, checks.ADMISSION_NOT_NEEDED, about="admission")
        return
    value = at(looked.namespace, "metadata", "labels").get(NAMESPACE_LABEL)
    enabled = value == "enabled"
    if looked.namespace and not enabled:
        found = checks.IS_VALUE.of(value=value) if value else checks.IS_MISSING
        said = checks.NAMESPACE_NOT_ENABLED.of(name=NAMESPACE_LABEL, found=found)
        unheld = any(instance.unheld for instance in others)
        level = Level.ERROR if unheld else Level.NOTE
        yield checked(level, said, about=f"namespace {subject.namespace}")
    elif enabled:
        yield checked(Level.OK, checks.NAMESPACE_ENABLED, about=f"namespace {subject.namespace}")
    if True in looked.sources.values():
        sources = in_one(_installed(looked.sources), AND)
        yield checked(Level.OK, checks.GATE_SET_UP.of(sources=sources), about="gate")
    elif enabled and None not in looked.sources.values():
        yield checked(Level.ERROR, checks.GATE_NOT_SET_UP, about="gate")
    late = [instance.name for instance in others if instance.unheld]
    if late:
        said = checks.CAME_WITHOUT_GATE.of(names=", ".join(late[:8]))
        yield checked(Level.ERROR, said, about="gate")
