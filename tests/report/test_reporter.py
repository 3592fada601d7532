"""The reporter on a small store, in virtual time: what is written, when, and what is left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import msgspec
import pytest
from structlog.testing import capture_logs

from scaler.clock import Clock
from scaler.decide.world import Reason, RuleProblem, ServiceKey, Warning
from scaler.informers.cache import Cache
from scaler.informers.changes import Changes
from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS, ELASTIC_SERVICES, Object, Resource
from scaler.kube.errors import ForbiddenError, UnknownOutcomeError
from scaler.kube.writer import Writer
from scaler.report.elastic_services import StatusWriter
from scaler.report.metrics import Metrics
from scaler.report.reporter import PARALLEL_WRITES, PARALLEL_WRITES_OF_ONE, Reporter
from scaler.report.service_reports import RuleKey, ServiceReport
from scaler.sim.loop import run
from scaler.state.last_valid import LastValid, decode
from tests.builders import NOW, instance, service
from tests.report.fakes import FakeStore, job, records, report, report_of

RULE = RuleKey("default", "rule")
STATUS = "elasticservices/rule-mindie"
LAST_VALID = "configmaps/default.rule-scaler-last-valid"
COLD = report("2P1D > 1P1D", "p0 Held, p1 Held, d0 Held")
LATER = report("2P1D > 1P1D", "p0 Running, p1 Held, d0 Starting")

Script = Callable[[Reporter], Coroutine[Any, Any, None]]


def nothing_absent() -> str:
    return ""


def play(
    store: FakeStore, script: Script, metrics: Metrics | None = None, absent: Callable[[], str] = nothing_absent
) -> None:
    """Run `script` beside the reporter of a new leader, then wait until everything is written."""

    async def main() -> None:
        writer, clock, made = cast("Writer", store), Clock(NOW), metrics or Metrics()
        statuses = StatusWriter(writer, Cache(Changes(), clock.now), clock, made, absent)
        reporter = Reporter(writer, statuses, clock, made)
        task = asyncio.create_task(reporter.run())
        await script(reporter)
        while not reporter.idle:  # noqa: ASYNC110 - virtual time, and the product needs no such event
            await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with capture_logs():
        run(main())


def notes(*reports: ServiceReport, pause: float = 5.0) -> Script:
    async def script(reporter: Reporter) -> None:
        for noted in reports:
            await reporter.note([noted])
            await asyncio.sleep(pause)

    return script


def cluster(*jobs: str) -> FakeStore:
    """A store with these AscendJobs; the jobs of a report have the version and uid that these have."""
    store = FakeStore()
    for name in jobs or ("p0", "p1", "d0"):
        store.seed(ASCEND_JOBS, job(name))
        store[f"ascendjobs/{name}"]["metadata"]["resourceVersion"] = "1"
    return store


def states(store: FakeStore) -> dict[str, str]:
    return {name: store[f"ascendjobs/{name}"]["status"]["conditions"][-1]["type"] for name in store.names("ascendjobs")}


def events(store: FakeStore) -> list[tuple[str, str]]:
    found = (store[f"events/{name}"] for name in store.names("events"))
    return sorted((event["involvedObject"]["name"], event["reason"]) for event in found)


def told_about(store: FakeStore, name: str) -> list[Object]:
    found = [store[f"events/{event}"] for event in store.names("events")]
    return [event for event in found if event["involvedObject"]["name"] == name]


def test_a_pass_is_told_in_status_conditions_and_events() -> None:
    store = cluster()
    play(store, notes(COLD))
    assert store[STATUS]["status"]["targetRatio"]["index"] == 1
    assert states(store) == {"p0": "Created", "p1": "Created", "d0": "Created"}
    assert events(store) == [
        ("d0", "WaitingForScheduler"),
        ("p0", "WaitingForScheduler"),
        ("p1", "WaitingForRatio"),
    ]


def test_a_later_pass_changes_what_changed_and_nothing_else() -> None:
    store = cluster()
    play(store, notes(COLD, LATER))
    assert states(store) == {"p0": "Running", "p1": "Created", "d0": "Created"}
    assert store.log.count("patch ascendjobs/p0/status") == 2
    assert store.log.count(f"patch {STATUS}/status") == 2


def test_who_decides_alone_from_now_on_is_told_although_nothing_else_changed() -> None:
    store = cluster()
    play(store, notes(COLD, msgspec.structs.replace(COLD, alone="the nodes may not be read")))
    assert store[STATUS]["status"]["alone"] == "the nodes may not be read"


def test_at_rest_nothing_is_written() -> None:
    store = cluster()

    async def script(reporter: Reporter) -> None:
        await notes(COLD)(reporter)
        written = list(store.log)
        await notes(*[COLD] * 100)(reporter)
        assert store.log == written

    play(store, script)
    assert store.log


def test_the_next_leader_repeats_nothing() -> None:
    store = cluster()
    play(store, notes(LATER))
    written = list(store.log)
    seen = report_of(LATER.service, jobs=records(store[f"ascendjobs/{uid[4:]}"] for uid in LATER.instances))
    play(store, notes(seen))
    assert store.log == written


def test_a_status_that_somebody_edited_is_put_right_when_it_changes_next() -> None:
    store = cluster()

    async def script(reporter: Reporter) -> None:
        await notes(COLD)(reporter)
        edited = store[STATUS]
        edited["status"]["message"] = "hello"
        store.seed(ELASTIC_SERVICES, edited)
        await notes(LATER, pause=30)(reporter)

    play(store, script)
    assert store[STATUS]["status"]["message"].startswith("d0: ")


def test_labels_that_others_put_on_the_status_stay() -> None:
    store = cluster()

    async def script(reporter: Reporter) -> None:
        await notes(COLD)(reporter)
        store[STATUS]["metadata"]["labels"]["team"] = "a"
        await notes(LATER)(reporter)

    play(store, script)
    assert store[STATUS]["metadata"]["labels"]["team"] == "a"


def test_a_config_map_of_somebody_else_is_never_touched() -> None:
    store, metrics = cluster(), Metrics()
    theirs = {"metadata": {"namespace": "default", "name": "default.rule-scaler-last-valid"}, "data": {"a": "b"}}
    store.seed(CONFIG_MAPS, theirs)
    kept = [msgspec.structs.replace(found, last_valid=LastValid("{}")) for found in (COLD, LATER)]
    play(store, notes(*kept), metrics)
    assert store[LAST_VALID]["data"] == {"a": "b"}
    assert b'scaler_reports_dropped_total{cause="foreign",kind="config-map"}' in metrics.render()


def test_a_burst_of_passes_becomes_one_write_a_second() -> None:
    store = cluster()
    flapping = [COLD, LATER] * 20
    play(store, notes(*flapping, pause=0.1))
    assert store.log.count(f"create {STATUS}") == 1
    assert store.log.count(f"patch {STATUS}/status") <= 5


def test_what_happens_again_counts_the_first_event_up() -> None:
    store = cluster()
    play(store, notes(*[COLD, LATER] * 3))
    counts = {event["reason"]: event["count"] for event in told_about(store, "p0")}
    assert counts == {"WaitingForScheduler": 3, "Running": 3}


def test_a_warning_that_passes_quickly_is_no_event() -> None:
    store = cluster("p0")
    incomplete, whole = report("1P1D", "p0 Running"), report("1P1D", "p0 Running, d0 Running")
    play(store, notes(incomplete, whole, pause=1))
    assert "TargetUnreachable" not in {reason for _, reason in events(store)}


def test_a_warning_that_lasts_is_an_event_on_the_service() -> None:
    store = cluster("p0")
    play(store, notes(report("1P1D", "p0 Running")))
    assert ("rule-mindie", "TargetUnreachable") in events(store)


def test_a_conflict_on_a_job_is_solved_by_reading_it_again() -> None:
    store = cluster("p0")
    store["ascendjobs/p0"]["metadata"]["resourceVersion"] = "77"
    play(store, notes(report("1P", "p0 Held")))
    assert states(store) == {"p0": "Created"}


def test_errors_are_retried_and_hold_nothing_else_up() -> None:
    store = cluster()
    store.failures = [UnknownOutcomeError("503") for _ in range(7)]
    play(store, notes(COLD))
    assert STATUS in store
    assert len(events(store)) == 3
    assert set(states(store).values()) == {"Created"}


def test_a_refused_event_is_dropped_and_counted() -> None:
    store, metrics = cluster("p0"), Metrics()

    async def script(reporter: Reporter) -> None:
        store.failures = [ForbiddenError(403, "Forbidden", "namespace is being terminated")] * 4
        await reporter.note([report("1P", "p0 Held")])

    play(store, script, metrics)
    assert events(store) == []
    assert b'scaler_reports_dropped_total{cause="refused",kind="event"} 1.0' in metrics.render()


def test_a_job_that_is_gone_ends_the_matter() -> None:
    store = cluster("p0")
    play(store, notes(report("1P1D", "p0 Held, d0 Held")))
    assert states(store) == {"p0": "Created"}


def test_the_last_valid_rule_is_kept_and_follows_the_rule() -> None:
    store = cluster()
    first, second = LastValid("{}", {"mind-cluster/paused": "true"}), LastValid('{"a": 1}')
    play(
        store,
        notes(msgspec.structs.replace(COLD, last_valid=first), msgspec.structs.replace(COLD, last_valid=second)),
    )
    assert decode(store[LAST_VALID], RULE) == second


def test_without_a_valid_rule_none_is_kept() -> None:
    store = cluster()
    play(store, notes(report_of(service(None, (instance("p0"),)))))
    assert STATUS in store
    assert LAST_VALID not in store


def test_a_rule_that_no_job_names_loses_its_config_map() -> None:
    store = cluster()

    async def script(reporter: Reporter) -> None:
        await notes(msgspec.structs.replace(COLD, last_valid=LastValid("{}")))(reporter)
        reporter.rule_gone(RULE)

    play(store, script)
    assert store.names("configmaps") == []


def test_what_an_earlier_process_left_of_a_forgotten_rule_goes_but_only_what_is_ours() -> None:
    store = FakeStore()
    store.seed(
        CONFIG_MAPS, {"metadata": {"namespace": "default", "name": "default.rule-scaler-last-valid"}, "data": {}}
    )

    async def script(reporter: Reporter) -> None:
        reporter.rule_gone(RULE)

    play(store, script)
    assert store.log == []


def test_a_job_that_turns_up_in_time_keeps_them() -> None:
    store = cluster()

    async def script(reporter: Reporter) -> None:
        await notes(COLD, pause=0.2)(reporter)
        reporter.rule_gone(RULE)
        await reporter.note([LATER])

    play(store, script)
    assert STATUS in store
    assert not [entry for entry in store.log if entry.startswith("delete")]


def test_a_job_that_moves_to_another_service_is_still_told_about() -> None:
    store = cluster("p0", "p1")
    moved = msgspec.structs.replace(service("1P1D", "p1 Running"), key=ServiceKey("default", "rule", "other"))
    play(
        store,
        lambda reporter: _note_together(
            reporter, [[report("2P", "p0 Held, p1 Held")], [report_of(moved), report("2P", "p0 Held")]]
        ),
    )
    assert states(store) == {"p0": "Created", "p1": "Running"}


def test_a_job_that_has_moved_on_survives_the_late_end_of_the_service_that_it_left() -> None:
    store = cluster("p0")
    left = report("1P", "p0 Held")
    joined = msgspec.structs.replace(service("1P", "p0 Running"), key=ServiceKey("default", "rule", "other"))

    async def script(reporter: Reporter) -> None:
        await reporter.note([left])
        await asyncio.sleep(5)
        await reporter.note([report_of(joined)])
        reporter.service_gone(left.plan.key)

    play(store, script)
    assert states(store) == {"p0": "Running"}


async def _note_together(reporter: Reporter, batches: list[list[ServiceReport]]) -> None:
    for batch in batches:
        await reporter.note(batch)
        await asyncio.sleep(5)


def test_a_problem_of_the_rule_is_an_event_on_the_rule_and_on_the_service() -> None:
    store = cluster("p0")
    broken = service("1P", "p0 Running", problem=RuleProblem(Warning.RULE_INVALID, "line 3: no comma"))
    play(store, notes(report_of(broken, rule_uid="uid-rule")))
    assert {("rule", "RuleInvalid"), ("rule-mindie", "RuleInvalid")} <= set(events(store))


def test_training_jobs_hear_nothing_from_us() -> None:
    store = cluster("p0")
    training = job("p0")
    training["metadata"]["labels"] = {"framework": "pytorch"}
    alone = service(None, (instance("p0", label_problem=Reason.NOT_SERVED),), key=ServiceKey("default", "", ""))
    play(store, notes(report_of(alone, jobs=records([training]))))
    assert store.log == []


def test_a_service_without_a_rule_gets_conditions_and_events_but_no_status() -> None:
    store = cluster("p0")
    alone = service(None, (instance("p0", group=None),), key=ServiceKey("default", "", "mindie"))
    play(store, notes(report_of(alone)))
    assert store.names("elasticservices") == []
    assert states(store) == {"p0": "Created"}


def test_a_flapping_job_cannot_flood_the_cluster_with_events() -> None:
    store, metrics = cluster("p0"), Metrics()
    broken = [report_of(service("1P", (instance("p0", "Broken", trouble=f"exit code {n}"),))) for n in range(60)]
    running = report("1P", "p0 Running")
    play(store, notes(*[moment for each in broken for moment in (each, running)], pause=0.5), metrics)
    assert len(events(store)) <= 27
    assert b'scaler_reports_dropped_total{cause="spam",kind="event"}' in metrics.render()


class SlowStore(FakeStore):
    """Every write takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way, self.busiest = 0, 0

    async def _slow(self) -> None:
        self.under_way += 1
        self.busiest = max(self.busiest, self.under_way)
        await asyncio.sleep(0.5)
        self.under_way -= 1

    async def create(self, resource: Resource, namespace: str | None, body: Object) -> Object:
        await self._slow()
        return await super().create(resource, namespace, body)

    async def patch(self, resource: Resource, namespace: str | None, name: str, patch: Any, **how: Any) -> Object:
        await self._slow()
        return await super().patch(resource, namespace, name, patch, **how)


def test_conditions_and_events_of_one_namespace_leave_room_for_others() -> None:
    names = [f"p{number}" for number in range(12)]
    store = SlowStore()
    for name in names:
        store.seed(ASCEND_JOBS, job(name))
    play(store, notes(report("12P > 1P", ", ".join(f"{name} Held" for name in names))))
    assert store.busiest == PARALLEL_WRITES_OF_ONE < PARALLEL_WRITES
    assert len(events(store)) == len(names)


def test_what_was_never_reported_differs_and_what_is_gone_differs_again() -> None:
    async def script(reporter: Reporter) -> None:
        def seen() -> tuple[bool, bool]:
            return reporter.differs(COLD.plan), reporter.differs_in_words(COLD.plan)

        assert seen() == (True, True)
        await reporter.note([COLD])
        assert seen() == (False, False)
        reporter.service_gone(COLD.plan.key)
        assert seen() == (True, True)

    play(cluster(), script)
