"""The check of `scaler takeover`: the cluster is observed and decided as by the controller, but
only read.

    the controller's informers -> its cache -> decide, with an empty memory -> consequences per job

Must not write anything, and must not know how the answer is printed."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

import msgspec

from scaler.app import OPTIONAL_PATIENCE, App
from scaler.clock import Clock
from scaler.decide.decide import decide
from scaler.decide.decision import Action, Plan, State, Verdict
from scaler.decide.memory import Memory
from scaler.defaults import Mode
from scaler.informers.jobs import JobRecord
from scaler.informers.resources import OURS
from scaler.kube.api import ASCEND_JOBS, POD_GROUPS, PODS, SERVICES, KubeApi, Object, Resource
from scaler.reasons.reasons import Reason
from scaler.settings import Settings
from scaler.state.assemble import WorldBuilder
from scaler.state.cluster import ClusterState
from scaler.tools.common.lists import every
from scaler.tools.takeover.comparison import Consequence, Found, Weight, compare, owner_uid
from scaler.tools.takeover.first_pass import foresee, rank_table_consequences
from scaler.workloads.ascendjob import is_foreign, read_job
from scaler.workloads.membership import Job

PATIENCE = 60.0
"""Seconds for the lists of all resources."""


class JobReport(msgspec.Struct, frozen=True):
    """One job. `state` and `reason` are from the decision."""

    namespace: str
    name: str
    service: str
    state: str
    reason: str
    pods: int
    expected: int
    consequences: tuple[Consequence, ...] = msgspec.field(name="remarks")

    @property
    def safe(self) -> bool:
        return _safe(self.consequences)


class Report(msgspec.Struct, frozen=True):
    """The whole answer. `operator` is `namespace/name` of an Ascend Operator that has replicas, ""
    when none has."""

    safe: bool
    operator: str
    consequences: tuple[Consequence, ...] = msgspec.field(name="remarks")
    """About rules and the cluster."""
    jobs: tuple[JobReport, ...]


class NotReadableError(Exception):
    """The cluster could not be read completely; `str()` says what is missing."""


async def check(api: KubeApi, settings: Settings, clock: Clock) -> Report:
    """The effect of a takeover now. Raises NotReadableError or KubeError."""
    # whatever mode the environment sets
    taking_over = settings.model_copy(update={"mode": Mode.CREATE})
    app = App(api, taking_over, clock)
    await _observe(app)
    objects = await _Objects.read(api, settings.namespaces)
    jobs = tuple(_jobs(app, clock.now(), objects))
    consequences = (*_scope(settings), *_rules(app.state))
    safe = _safe(consequences) and all(job.safe for job in jobs)
    return Report(safe, app.cache.ascend_operator(), consequences, jobs)


async def _observe(app: App) -> None:
    """List every resource once; then the watches end. The caller may lack the right to fault
    reports."""
    tasks = []
    for one in (*app.informers.values(), *app.reports):
        tasks.append(asyncio.create_task(one.run()))
    try:
        async with asyncio.timeout(PATIENCE):
            for informer in app.informers.values():
                await informer.synced_or_absent.wait()
            app.alone.follow()
        with suppress(TimeoutError):
            async with asyncio.timeout(OPTIONAL_PATIENCE):
                for reports in app.reports:
                    await reports.synced.wait()
    except TimeoutError:
        problems = sorted(
            {one.problem for one in app.informers.values() if not one.synced_or_absent.is_set()}
        )
        raise NotReadableError(
            f"the cluster could not be read within {PATIENCE:g} s: {'; '.join(problems)}"
        ) from None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Objects:
    """Pods, PodGroups and Services as the API server returns them: the cache keeps only what
    decisions need."""

    def __init__(self, objects: Mapping[Resource, Sequence[Object]]) -> None:
        self._owned: defaultdict[tuple[Resource, str], dict[str, Object]] = defaultdict(dict)
        self._named: dict[tuple[Resource, str, str], Object] = {}
        for resource, items in objects.items():
            for item in items:
                meta = item["metadata"]
                self._owned[resource, owner_uid(item)][meta["name"]] = item
                self._named[resource, meta["namespace"], meta["name"]] = item

    @classmethod
    async def read(cls, api: KubeApi, namespaces: Sequence[str]) -> _Objects:
        selectors = {PODS: OURS, POD_GROUPS: "", SERVICES: OURS, ASCEND_JOBS: ""}
        found: dict[Resource, list[Object]] = {resource: [] for resource in selectors}
        for resource, selector in selectors.items():
            for scope in namespaces or (None,):
                async for item in every(api, resource, scope, label_selector=selector):
                    found[resource].append(item)
        return cls(found)

    def foreign_jobs(self) -> Iterator[Job]:
        """Jobs of which the cache keeps nothing."""
        for (resource, _, _), item in sorted(self._named.items(), key=lambda named: named[0][1:]):
            labels, annotations = (
                item["metadata"].get(part) or {} for part in ("labels", "annotations")
            )
            if resource is ASCEND_JOBS and is_foreign(labels, annotations):
                yield read_job(item)

    def of(self, job: Job) -> Found:
        where = job.namespace
        pods = dict(self._owned.get((PODS, job.uid), {}))
        for name in job.pods:
            pod = self._named.get((PODS, where, name))
            if pod is not None:
                pods.setdefault(name, pod)
        service = self._named.get((SERVICES, where, job.pods[0])) if job.pods else None
        return Found(pods, self._named.get((POD_GROUPS, where, job.pod_group)), service)


def _jobs(app: App, now: float, objects: _Objects) -> Iterator[JobReport]:
    clusterd = app.settings.clusterd_address
    for made in _plans(app, now):
        actions = _by_uid(made)
        for verdict in made.verdicts:
            record = app.cache.job(verdict.uid)
            if record is not None:
                yield _job(
                    app.state,
                    record,
                    verdict,
                    actions[verdict.uid],
                    (objects.of(record.job), clusterd),
                )
    for job in objects.foreign_jobs():
        yield _foreign(job, objects.of(job))


def _foreign(job: Job, found: Found) -> JobReport:
    state = State.FINISHED if job.finished else State.RUNNING if found.pods else State.HELD
    reason = Reason.NOT_SERVED
    consequences = foresee(job, found, Verdict(job.uid, job.name, None, state, reason), [])
    counts = {"pods": len(found.pods), "expected": len(job.pods)}
    return JobReport(
        job.namespace,
        job.name,
        "",
        state.value,
        reason.value,
        **counts,
        consequences=tuple(sorted(set(consequences))),
    )


def _plans(app: App, now: float) -> Iterable[Plan]:
    """The plans of the first pass, with an empty memory."""
    services = WorldBuilder(app.state, app.settings.policy, alone=app.alone.why)
    for key in app.state.service_keys():
        services.read(key)
    return decide(services.world(now, Memory())).plans


def _by_uid(made: Plan) -> defaultdict[str, list[Action]]:
    actions: defaultdict[str, list[Action]] = defaultdict(list)
    for action in made.actions:
        actions[action.uid].append(action)
    return actions


def _job(
    state: ClusterState,
    record: JobRecord,
    verdict: Verdict,
    actions: list[Action],
    there: tuple[Found, str],
) -> JobReport:
    found, clusterd = there
    instance = state.instance(record.job.key, record.uid)
    # Volcano makes the pods of its own jobs, before and after
    ours = record.kind == ASCEND_JOBS.kind
    consequences = (
        [
            *foresee(record.job, found, verdict, actions),
            *compare(record.job, record.object, found, clusterd),
        ]
        if ours
        else []
    )
    if instance.name_taken:
        consequences.append(
            Consequence(
                Weight.BLOCKS, f"{instance.name_taken} has a name that it needs, and another owner"
            )
        )
    table = state.tables.of(record) if ours else None
    if table is not None:
        consequences += rank_table_consequences(
            table.table, table.table_map, table.obstacle.message if table.obstacle else ""
        )
    return JobReport(
        namespace=record.namespace,
        name=record.name,
        service=str(record.job.key),
        state=verdict.state.value,
        reason=verdict.reason.value,
        pods=instance.pods,
        expected=instance.expected,
        consequences=tuple(sorted(set(consequences))),
    )


def _rules(state: ClusterState) -> Iterator[Consequence]:
    """Each rule once, with the findings of lint."""
    for namespace, rule in sorted(
        {(key.namespace, key.rule) for key in state.service_keys() if key.rule}
    ):
        known = state.rules.follow(namespace, rule)
        if known.problem is not None:
            weight = Weight.BLOCKS if known.rule is None else Weight.DIFFERS
            yield Consequence(weight, f"rule {namespace}/{rule}: {known.problem.message}")
        for finding in known.findings:
            yield Consequence(
                Weight.DIFFERS,
                f"rule {namespace}/{rule}: {finding.level} {finding.code}: {finding.message}",
            )


def _scope(settings: Settings) -> Iterator[Consequence]:
    if settings.namespaces:
        names = ", ".join(settings.namespaces)
        yield Consequence(
            Weight.DIFFERS, f"only looked at: {names}; an Ascend Operator serves every namespace"
        )


def _safe(consequences: Sequence[Consequence]) -> bool:
    return all(consequence.weight is not Weight.BLOCKS for consequence in consequences)
