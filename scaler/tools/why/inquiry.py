"""Reads everything that one answer needs from a cluster, with the caller's rights. Reads only."""

from __future__ import annotations

import sys
from contextlib import suppress

from scaler.decide.world import ServiceKey
from scaler.kube.errors import ForbiddenError
from scaler.reasons import checks
from scaler.tools.common.access import Access
from scaler.tools.common.check_result import CheckResult, Level, checked
from scaler.tools.common.leader import leaders
from scaler.tools.common.notes import absent_scaler, gap_words
from scaler.tools.common.view import Cluster, ask, reach
from scaler.tools.why import labels, rank_table, room, scale, workings
from scaler.tools.why.answer import RANKS, ROOM, SCHEDULER, Answer, Hints, Section, answer_of
from scaler.tools.why.pod_commands import pod_commands
from scaler.tools.why.room_advice import room_advice
from scaler.tools.why.subject import Subject, find, near_names


async def ask_why(access: Access, name: str, *, always_ranks: bool) -> Answer | None:
    """The answer; None when nothing has this name: then stderr says so. Raises KubeError."""
    (namespace,) = access.namespaces
    said = await ask(access.api, access.namespaces)
    known = await leaders(access.api)
    scope = await reach(access.api, access.namespaces)
    cluster = Cluster(access.api, access.clock, scope, known.home(namespace, access.clock.server()))
    async with cluster.watched():
        leader = known.of(namespace, access.clock.server())
        now = access.clock.server()
        stale = leader is not None and not leader.is_at_work(now)
        subject = await find(cluster, access.api, namespace, name, stale=stale)
        if subject is None:
            return await _of_nothing(
                access, cluster, Subject(namespace, name, "service"), always=always_ranks
            )
        looked = await workings.look(cluster, access.api, subject)
        ranks = await _ranks(access, subject, always=always_ranks)
        notes = list(absent_scaler(known, [namespace], access.clock.server()))
        if said.why:
            notes.append(f"{said.why}: this is decided here, from what can be read")
        notes += gap_words(cluster.gaps(), access.clock.server())
        seen = {gap.resource for gap in cluster.gaps()}
        unread = [name for name in looked.unread if name not in seen]
        if unread:
            notes.append(f"you may not read {', '.join(unread)}")
        return answer_of(
            subject,
            notes,
            sections(cluster, subject, looked, Section(RANKS, ranks, whole=always_ranks)),
            hints_for(cluster, subject, looked),
        )


async def _of_nothing(
    access: Access, cluster: Cluster, subject: Subject, *, always: bool
) -> Answer | None:
    """The answer about a name that is no service; MindIE's own pods or rank tables may still have
    it as jobID."""
    namespace = subject.namespace
    name = subject.name
    gaps = list(gap_words(cluster.gaps()))
    with suppress(ForbiddenError):
        evidence = await rank_table.gather(access.api, namespace, name)
        if always or evidence.strays or evidence.roles or evidence.left_out:
            ranks = rank_table.rank_checks(evidence, always=True)
            return answer_of(subject, gaps, [Section(RANKS, ranks, whole=True)], Hints())
    near = near_names(cluster, namespace, name)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    words = f"there is no job, pod or service {name!r} in namespace {namespace}{hint}"
    if any(gap.installed for gap in cluster.gaps()):
        words = f"no job, pod or service {name!r} is seen in namespace {namespace}{hint}"
    sys.stderr.write("".join(f"scaler why: {line}\n" for line in (words, *gaps)))
    return None


async def _ranks(access: Access, subject: Subject, *, always: bool) -> tuple[CheckResult, ...]:
    job_id = subject.key.job_id
    if not job_id:
        return ()
    if subject.view is not None and not subject.view.replicas and not always:
        return (checked(Level.OK, checks.RANKS_REST, about="rank table"),)
    job = subject.instances[0].name if subject.instances and not subject.whole else ""
    try:
        evidence = await rank_table.gather(access.api, subject.namespace, job_id)
    except ForbiddenError as error:
        said = checks.NOT_LOOKED_AT.of(words=error.message)
        return (checked(Level.NOTE, said, about="rank table"),)
    return rank_table.rank_checks(evidence, always=always, only=job)


def names_of(cluster: Cluster) -> dict[ServiceKey, str]:
    """The names of the ElasticServices."""
    return {view.key: view.name for view in cluster.views() if view.name}


def hints_for(cluster: Cluster, subject: Subject, looked: workings.Looked) -> Hints:
    """What to do where the subject waits for room, or has pods that do not run."""
    world, decision = cluster.decision()
    return Hints(
        room_advice(world, decision, subject, names_of(cluster)),
        tuple(pod_commands(cluster, subject.namespace, looked.pods.values())),
    )


def sections(
    cluster: Cluster, subject: Subject, looked: workings.Looked, ranks: Section
) -> list[Section]:
    """All sections, each with its checks."""
    world, decision = cluster.decision()
    if subject.view is not None and subject.service is None:
        return [
            Section("scale", tuple(scale.scale_checks(subject, looked.scaled))),
            Section("warnings", tuple(workings.warnings(subject))),
            ranks,
        ]
    pods = (
        workings.scheduler_checks(cluster, subject, looked) if subject.service is not None else ()
    )
    return [
        Section("labels and rule", tuple(labels.label_checks(cluster, subject))),
        Section("scale", tuple(scale.scale_checks(subject, looked.scaled))),
        Section(ROOM, tuple(room.room_checks(world, decision, subject, names_of(cluster)))),
        Section(SCHEDULER, tuple(pods)),
        Section("operator", tuple(workings.operator_checks(cluster, subject))),
        Section("admission", tuple(workings.admission_checks(subject, looked))),
        Section("warnings", tuple(workings.warnings(subject))),
        ranks,
    ]
