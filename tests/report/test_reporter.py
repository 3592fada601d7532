"""The reporter with the real writer on the simulated API server, in virtual time: what is written,
when, and what is left alone."""

from __future__ import annotations

import asyncio
import gc
import math
import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from scaler.clock import Clock
from scaler.decide.again import NotDecided, left_alone
from scaler.decide.world import RuleProblem, Service, ServiceKey
from scaler.informers.changes import Changes
from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    ELASTIC_SERVICES,
    EVENTS,
    Object,
    PatchType,
    Resource,
)
from scaler.kube.errors import ForbiddenError, KubeError, UnknownOutcomeError
from scaler.kube.outbox import PARALLEL, PARALLEL_OF_ONE
from scaler.kube.writer import Writer
from scaler.names import GROUP_LABEL, RULE_LABEL
from scaler.reasons.reasons import Reason
from scaler.reasons.warnings import Warning
from scaler.report import reporter
from scaler.report.elastic_services import StatusWriter
from scaler.report.events import Filter
from scaler.report.metrics import Metrics
from scaler.report.reporter import Reporter
from scaler.report.service_reports import ServiceReport
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from scaler.state.cluster import ClusterState
from scaler.state.last_valid import ConfigMapName, decode, last_valid_of
from tests import jobs
from tests.builders import NOW, instance, service
from tests.faults import WRITES
from tests.report import fakes

NAMESPACE = "default"
RULE = ConfigMapName(NAMESPACE, "rule")
LAST_VALID = "default.rule-scaler-last-valid"
COLD = service("2P1D > 1P1D", "p0 Held, p1 Held, d0 Held")
LATER = service("2P1D > 1P1D", "p0 Running, p1 Held, d0 Starting")


class Line(Interceptor):
    """Between the reporter and the API server: `failures` are raised first, one per request."""

    def __init__(self) -> None:
        self.failures: list[KubeError] = []
        self.refused: Resource | None = None
        self.seconds = 0.0
        self.slow: Resource | None = None
        self.under_way = 0
        self.busiest = 0

    async def before(self, request: Request) -> None:
        if request.resource == self.refused:
            raise ForbiddenError(403, "Forbidden", "namespace is being terminated")
        if self.failures:
            raise self.failures.pop(0)
        if request.verb in WRITES:
            self.under_way += 1
            self.busiest = max(self.busiest, self.under_way)
            await asyncio.sleep(self.seconds if self.slow in (None, request.resource) else 0.0)
            self.under_way -= 1


class Stage:
    """A cluster with these AscendJobs, and the reporters of one leader after the other."""

    def __init__(self, names: tuple[str, ...], lines: list[EventDict]) -> None:
        self.lines = lines
        """What was logged."""
        self.clock = Clock(NOW)
        self.cluster = SimCluster(self.clock)
        self.cluster.apply(jobs.job(name, namespace=NAMESPACE) for name in names)
        self.line = Line()
        self.metrics = Metrics()
        self._writing: asyncio.Task[None] | None = None

    async def lead(self) -> None:
        """By another process from now on."""
        await self.end()
        client = self.cluster.client("scaler", self.line)
        writer = Writer(client, deadline=lambda: math.inf, rng=random.Random(0))
        statuses = StatusWriter(
            writer, ClusterState(Changes(), self.clock.now), self.clock, self.metrics, lambda: ""
        )
        self.reporter = Reporter(
            writer, statuses, self.clock, self.metrics, "default", shadow=False
        )
        self._writing = asyncio.create_task(self.reporter.run())

    async def end(self) -> None:
        if self._writing is not None:
            await self.written()
            self._writing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await self._writing

    async def written(self) -> None:
        async with asyncio.timeout(600):
            outbox = self.reporter._outbox
            # Virtual time, and nobody else needs an event.
            while outbox._waiting or outbox._under_way:  # noqa: ASYNC110
                await asyncio.sleep(1)

    def report(self, found: Service, **changes: Any) -> ServiceReport:
        """Its jobs are those of the cluster, as a cache would show them."""
        there = {job["metadata"]["name"]: job for job in self.cluster.peek(ASCEND_JOBS)}
        mine = [there.get(one.name, fakes.job(one.name)) for one in found.instances]
        uids = [job["metadata"]["uid"] for job in mine]
        members = [
            msgspec.structs.replace(one, uid=uid)
            for one, uid in zip(found.instances, uids, strict=True)
        ]
        taken = msgspec.structs.replace(found, instances=tuple(members))
        return fakes.report_of(taken, jobs=mine, **changes)

    async def note(
        self, *found: Service | ServiceReport, pause: float = 5.0, **changes: Any
    ) -> None:
        """One pass after the other, then time until all is written."""
        for one in found:
            self.reporter.note(self.report(one, **changes) if isinstance(one, Service) else one)
            await asyncio.sleep(pause)
        await self.written()

    async def edit(
        self, resource: Resource, name: str, patch: Object, subresource: str = ""
    ) -> None:
        """By somebody else."""
        await self.cluster.patch(
            resource, NAMESPACE, name, patch, patch_type=PatchType.MERGE, subresource=subresource
        )

    def named(self, resource: Resource) -> dict[str, Object]:
        return {found["metadata"]["name"]: found for found in self.cluster.peek(resource)}

    @property
    def status(self) -> Object:
        found: Object = self.named(ELASTIC_SERVICES)["rule-mindie"]["status"]
        return found

    @property
    def states(self) -> dict[str, str]:
        found = {name: job.get("status") for name, job in self.named(ASCEND_JOBS).items()}
        return {name: status["conditions"][-1]["type"] for name, status in found.items() if status}

    @property
    def events(self) -> list[tuple[str, str]]:
        found = self.cluster.peek(EVENTS)
        return sorted((event["involvedObject"]["name"], event["reason"]) for event in found)

    @property
    def writes(self) -> list[str]:
        found = [write for write in self.cluster.writes("scaler") if not write.error]
        return [f"{write.verb} {write.resource.plural}/{write.name}" for write in found]

    def content(self) -> list[Object]:
        resources = (ASCEND_JOBS, CONFIG_MAPS, ELASTIC_SERVICES, EVENTS)
        return [found for resource in resources for found in self.cluster.peek(resource)]


def on_stage(*names: str) -> Callable[[Callable[[Stage], Awaitable[None]]], Callable[[], None]]:
    """The test is played in virtual time on a stage with these jobs: p0, p1 and d0 unless others
    are named."""

    def made(story: Callable[[Stage], Awaitable[None]]) -> Callable[[], None]:
        async def main(lines: list[EventDict]) -> None:
            stage = Stage(names or ("p0", "p1", "d0"), lines)
            await stage.lead()
            await story(stage)
            await stage.end()

        def test() -> None:
            with capture_logs() as lines:
                run(main(lines))

        return test

    return made


@on_stage()
async def test_a_pass_is_told_in_status_conditions_and_events(on: Stage) -> None:
    await on.note(COLD)
    assert on.status["targetRatio"]["index"] == 1
    assert on.states == {"p0": "Created", "p1": "Created", "d0": "Created"}
    assert on.events == [
        ("d0", "WaitingForScheduler"),
        ("p0", "WaitingForScheduler"),
        ("p1", "WaitingForRatio"),
    ]


@on_stage()
async def test_a_later_pass_changes_what_changed_and_nothing_else(on: Stage) -> None:
    await on.note(COLD, LATER, last_valid=last_valid_of("{}"))
    assert on.states == {"p0": "Running", "p1": "Created", "d0": "Created"}
    assert (list(on.named(CONFIG_MAPS)), list(on.named(ELASTIC_SERVICES))) == (
        [LAST_VALID],
        ["rule-mindie"],
    )
    assert [line for line in on.lines if line["log_level"] != "info"] == []
    assert on.writes.count("patch status ascendjobs/p0") == 2
    assert on.writes.count("patch status elasticservices/rule-mindie") == 2


@on_stage()
async def test_who_decides_alone_from_now_on_is_told_although_nothing_else_changed(
    on: Stage,
) -> None:
    await on.note(COLD)
    await on.note(COLD, alone="the nodes may not be read")
    assert on.status["alone"] == "the nodes may not be read"


@on_stage()
async def test_at_rest_nothing_is_written(on: Stage) -> None:
    await on.note(COLD)
    written = on.writes
    await on.note(*[COLD] * 100)
    assert on.writes == written != []


@on_stage()
async def test_the_next_leader_repeats_nothing(on: Stage) -> None:
    await on.note(LATER, last_valid=last_valid_of("{}"))
    before = on.content()
    written = on.writes
    await on.lead()
    await on.note(LATER, last_valid=last_valid_of("{}"))
    assert (on.content(), on.writes) == (before, written)


@on_stage()
async def test_a_cache_that_lags_behind_makes_no_second_write(on: Stage) -> None:
    stale = on.report(LATER)
    await on.note(stale)
    all_run = service("2P1D > 1P1D", "p0 Running, p1 Running, d0 Running")
    late = on.report(all_run)
    behind = {
        uid: msgspec.structs.replace(one, job=stale.instances[uid].job)
        for uid, one in late.instances.items()
    }
    await on.note(msgspec.structs.replace(late, instances=behind))
    assert set(on.states.values()) == {"Running"}


@on_stage()
async def test_a_status_that_somebody_edited_is_put_right_when_it_changes_next(on: Stage) -> None:
    await on.note(COLD)
    await on.edit(ELASTIC_SERVICES, "rule-mindie", {"status": {"message": "hello"}}, "status")
    await on.note(LATER, pause=30)
    assert on.status["message"].startswith("d0: ")


@on_stage()
async def test_labels_that_others_put_on_the_status_stay(on: Stage) -> None:
    await on.note(COLD)
    await on.edit(ELASTIC_SERVICES, "rule-mindie", {"metadata": {"labels": {"team": "a"}}})
    await on.note(LATER)
    assert on.named(ELASTIC_SERVICES)["rule-mindie"]["metadata"]["labels"]["team"] == "a"


@on_stage()
async def test_a_config_map_of_somebody_else_is_never_touched(on: Stage) -> None:
    on.cluster.apply([jobs.manifest(CONFIG_MAPS, LAST_VALID, NAMESPACE, data={"a": "b"})])
    await on.note(COLD, LATER, last_valid=last_valid_of("{}"))
    assert on.named(CONFIG_MAPS)[LAST_VALID]["data"] == {"a": "b"}
    assert b'scaler_reports_dropped_total{cause="foreign",kind="config-map"}' in on.metrics.render()
    written = on.writes
    on.reporter.rule_gone(RULE)
    await on.written()
    assert LAST_VALID in on.named(CONFIG_MAPS)
    assert [entry for entry in on.writes[len(written) :] if "configmaps" in entry] == []


@on_stage()
async def test_a_burst_of_passes_becomes_one_write_a_second(on: Stage) -> None:
    await on.note(*[COLD, LATER] * 20, pause=0.1)
    assert on.writes.count("create elasticservices/rule-mindie") == 1
    assert on.writes.count("patch status elasticservices/rule-mindie") <= 5


@on_stage()
async def test_what_happens_again_counts_the_first_event_up(on: Stage) -> None:
    await on.note(*[COLD, LATER] * 3)
    about = [event for event in on.cluster.peek(EVENTS) if event["involvedObject"]["name"] == "p0"]
    assert {event["reason"]: event["count"] for event in about} == {
        "WaitingForScheduler": 3,
        "Running": 3,
    }


@on_stage("p0")
async def test_a_warning_that_passes_quickly_is_no_event(on: Stage) -> None:
    await on.note(service("1P1D", "p0 Running"), service("1P1D", "p0 Running, d0 Running"), pause=1)
    await asyncio.sleep(10)
    assert "TargetUnreachable" not in {reason for _, reason in on.events}


@on_stage("p0")
async def test_a_warning_that_lasts_is_an_event_on_the_service(on: Stage) -> None:
    await on.note(service("1P1D", "p0 Running"))
    assert ("rule-mindie", "TargetUnreachable") in on.events


@on_stage("p0")
async def test_a_conflict_on_a_job_is_solved_by_reading_it_again(on: Stage) -> None:
    seen = on.report(service("1P", "p0 Held"))
    await on.edit(ASCEND_JOBS, "p0", {"metadata": {"annotations": {"touched": "by another"}}})
    await on.note(seen)
    assert on.states == {"p0": "Created"}
    errors = [write.error for write in on.cluster.writes("scaler") if write.resource == ASCEND_JOBS]
    assert (len(errors), errors[-1]) == (2, "")


@on_stage()
async def test_errors_are_retried_and_hold_nothing_else_up(on: Stage) -> None:
    on.line.failures = [UnknownOutcomeError("503") for _ in range(7)]
    await on.note(COLD)
    assert on.status
    assert len(on.events) == 3
    assert set(on.states.values()) == {"Created"}


@on_stage("p0")
async def test_a_status_that_waits_when_deciding_fails_is_no_failure_and_follows_with_the_next_plan(
    on: Stage,
) -> None:
    held = service("1P", "p0 Held")
    undecided = left_alone(held.key, NotDecided("a bug"))
    on.line.failures = [UnknownOutcomeError("503") for _ in range(4)]
    await on.note(on.report(held), on.report(held, plan=undecided), pause=0.2)
    assert [line for line in on.lines if line["log_level"] == "error"] == []
    await on.note(held)
    assert on.states == {"p0": "Created"}


@on_stage("p0")
async def test_what_changed_while_deciding_failed_is_an_event_and_what_did_not_is_none(
    on: Stage,
) -> None:
    held = service("1P", "p0 Held")
    runs = service("1P", "p0 Running")
    undecided = left_alone(held.key, NotDecided("a bug"))
    await on.note(
        held, on.report(held, plan=undecided), held, on.report(held, plan=undecided), runs
    )
    about = [event for event in on.cluster.peek(EVENTS) if event["involvedObject"]["name"] == "p0"]
    assert {event["reason"]: event["count"] for event in about} == {
        "WaitingForScheduler": 1,
        "Running": 1,
    }


@on_stage("p0")
async def test_a_refused_event_is_dropped_and_counted(on: Stage) -> None:
    on.line.refused = EVENTS
    await on.note(service("1P", "p0 Held"))
    assert on.events == []
    assert b'scaler_reports_dropped_total{cause="refused",kind="event"} 1.0' in on.metrics.render()


@on_stage("p0")
async def test_a_job_that_is_gone_ends_the_matter(on: Stage) -> None:
    await on.note(service("1P1D", "p0 Held, d0 Held"))
    assert on.states == {"p0": "Created"}


@on_stage()
async def test_the_last_valid_rule_is_kept_and_follows_the_rule(on: Stage) -> None:
    await on.note(COLD, last_valid=last_valid_of("{}", {"mind-cluster/paused": "true"}))
    second = last_valid_of('{"a": 1}')
    await on.note(COLD, last_valid=second)
    assert decode(on.named(CONFIG_MAPS)[LAST_VALID], RULE) == second


@on_stage("p0")
async def test_without_a_valid_rule_none_is_kept(on: Stage) -> None:
    await on.note(service(None, (instance("p0"),)))
    assert on.status
    assert on.named(CONFIG_MAPS) == {}


@on_stage()
async def test_a_rule_whose_name_only_a_label_allows_has_a_status_too(on: Stage) -> None:
    await on.note(msgspec.structs.replace(COLD, key=ServiceKey(NAMESPACE, "My_Rule", "mindie")))
    (name,) = on.named(ELASTIC_SERVICES)
    assert name.startswith("my-rule-")


@on_stage()
async def test_a_rule_that_no_job_names_loses_its_config_map(on: Stage) -> None:
    await on.note(COLD, last_valid=last_valid_of("{}"))
    on.reporter.rule_gone(RULE)
    await on.written()
    assert on.named(CONFIG_MAPS) == {}


@on_stage()
async def test_a_job_that_turns_up_in_time_keeps_them(on: Stage) -> None:
    on.reporter.note(on.report(COLD))
    await asyncio.sleep(0.2)
    on.reporter.rule_gone(RULE)
    await on.note(LATER)
    assert on.status
    assert not [entry for entry in on.writes if entry.startswith("delete")]


@on_stage("p0", "p1")
async def test_a_job_that_moves_to_another_service_is_still_told_about(on: Stage) -> None:
    moved = service("1P1D", "p1 Running", key=ServiceKey(NAMESPACE, "rule", "other"))
    await on.note(service("2P", "p0 Held, p1 Held"))
    on.reporter.note(on.report(moved))
    on.reporter.note(on.report(service("2P", "p0 Held")))
    await on.written()
    assert on.states == {"p0": "Created", "p1": "Running"}


@on_stage("p0")
async def test_a_job_that_has_moved_on_survives_the_late_end_of_the_service_that_it_left(
    on: Stage,
) -> None:
    left = service("1P", "p0 Held")
    await on.note(left)
    joined = service("1P", "p0 Running", key=ServiceKey(NAMESPACE, "rule", "other"))
    on.reporter.note(on.report(joined))
    on.reporter.service_gone(left.key)
    await on.written()
    assert on.states == {"p0": "Running"}


@on_stage("p0")
async def test_a_problem_of_the_rule_is_an_event_on_the_rule_and_on_the_service(on: Stage) -> None:
    problem = RuleProblem(Warning.RULE_INVALID, "line 3: no comma")
    await on.note(service("1P", "p0 Running", problem=problem), rule_uid="uid-rule")
    assert {("rule", "RuleInvalid"), ("rule-mindie", "RuleInvalid")} <= set(on.events)


@on_stage("p0")
async def test_a_problem_is_an_event_on_the_service_although_its_status_is_just_being_written(
    on: Stage,
) -> None:
    await on.note(service("1P", "p0 Running"))
    on.line.slow = ELASTIC_SERVICES
    on.line.seconds = 3.0
    problem = RuleProblem(Warning.RULE_INVALID, "line 3: no comma")
    await on.note(service("1P", "p0 Running", problem=problem), rule_uid="uid-rule")
    assert ("rule-mindie", "RuleInvalid") in on.events


@on_stage("p0")
async def test_training_jobs_hear_nothing_from_us(on: Stage) -> None:
    labels = {"framework": "pytorch", RULE_LABEL: None, GROUP_LABEL: None}
    await on.edit(ASCEND_JOBS, "p0", {"metadata": {"labels": labels}})
    await on.note(
        service(
            None,
            (instance("p0", label_problem=Reason.NOT_SERVED),),
            key=ServiceKey(NAMESPACE, "", ""),
        )
    )
    assert on.writes == []


@on_stage("p0")
async def test_a_service_without_a_rule_gets_conditions_and_events_but_no_status(on: Stage) -> None:
    await on.note(
        service(None, (instance("p0", group=None),), key=ServiceKey(NAMESPACE, "", "mindie"))
    )
    assert on.named(ELASTIC_SERVICES) == {}
    assert on.states == {"p0": "Created"}


@on_stage("p0")
async def test_a_flapping_job_cannot_flood_the_cluster_with_events(on: Stage) -> None:
    broken = [
        service("1P", (instance("p0", "Broken", trouble=f"exit code {n}"),)) for n in range(60)
    ]
    await on.note(
        *[moment for each in broken for moment in (each, service("1P", "p0 Running"))], pause=0.5
    )
    assert len(on.events) <= 27 + 60, "60 warnings a minute, the others one a minute after a burst"
    assert b'scaler_reports_dropped_total{cause="spam",kind="event"}' in on.metrics.render()


@on_stage("p0")
async def test_no_more_events_wait_than_there_is_room_for_however_often_warnings_change(
    on: Stage,
) -> None:
    on.line.seconds = 30.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reporter, "MAX_EVENTS_WAITING", 10)
        for number in range(40):
            problem = RuleProblem(Warning.RULE_INVALID, f"line {number}: no comma")
            on.reporter.note(
                on.report(service("1P", "p0 Running", problem=problem), rule_uid="uid-rule")
            )
            await asyncio.sleep(0.5)
        assert len(on.reporter._outbox._waiting) < 20
    on.line.seconds = 0.0
    assert b'scaler_reports_dropped_total{cause="overflow",kind="event"}' in on.metrics.render()


@on_stage(*(f"p{number}" for number in range(12)))
async def test_conditions_and_events_of_one_namespace_leave_room_for_others(on: Stage) -> None:
    on.line.seconds = 0.5
    await on.note(service("12P > 1P", ", ".join(f"p{number} Held" for number in range(12))))
    assert on.line.busiest == PARALLEL_OF_ONE < PARALLEL
    assert len(on.events) == 12


@on_stage()
async def test_what_was_reported_is_known_until_the_service_is_gone(on: Stage) -> None:
    seen = on.report(COLD)
    assert on.reporter.reported(COLD.key) is None
    await on.note(seen)
    assert on.reporter.reported(COLD.key) is seen.plan
    on.reporter.service_gone(COLD.key)
    assert on.reporter.reported(COLD.key) is None


@on_stage("p0")
async def test_a_report_of_which_an_event_cannot_be_made_is_tried_again_as_a_whole(
    on: Stage,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Filter, "admit", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            on.reporter.note(on.report(service("1P", "p0 Running")))
    await on.note(service("1P", "p0 Running"))
    assert ("p0", "Running") in on.events
    assert on.states == {"p0": "Running"}


@on_stage("p0")
async def test_an_event_that_was_written_keeps_no_plan(on: Stage) -> None:
    first = on.report(service("1P", "p0 Held"))
    await on.note(first, service("1P", "p0 Running"))
    assert {("p0", "WaitingForScheduler"), ("p0", "Running")} <= set(on.events)
    assert gc.get_referrers(first.plan) == []
