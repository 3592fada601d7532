"""How many instances are wanted, and whose pods they are: what a status says of it, and whom that
number outlives."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from structlog.testing import capture_logs

from scaler.clock import Clock
from scaler.decide.world import ServiceKey
from scaler.informers.elastic_services import (
    ElasticServiceObject,
    ElasticServiceRecord,
    elastic_service_record,
)
from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    ELASTIC_SERVICES,
    EVENTS,
    POD_GROUPS,
    PODS,
    SERVICES,
    Object,
    PatchType,
)
from scaler.kube.errors import ForbiddenError, UnknownOutcomeError
from scaler.reasons.reasons import Reason
from scaler.report.elastic_services import _UNDECLARED
from scaler.report.service_events import service_events
from scaler.report.service_status import (
    MAX_SELECTOR,
    scaling_limited,
    selector_of,
    status_of,
    without_jobs,
)
from scaler.rules.rule import ALL, RuleOptions
from scaler.sim.actors import objects
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.apiserver.list_watch import label_predicate
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from scaler.workloads.ascendjob import JOB_LABEL
from tests.builders import NOW, decision, instance, plan, service
from tests.jobs import NAMESPACE
from tests.report.fakes import report_of
from tests.report.test_elastic_services import SERVICE, all_of, esvc, story
from tests.rig import START, Rig, controller, rig

LADDER = "3P1D > 2P1D > 1P1D"
THEN = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:10:00Z"
ALL_RUN = "p0 Running, p1 Running, p2 Running, d0 Running"
AT_TWO = "p0 Running, p1 Held, p2 Held, d0 Running"


def said(states: str, replicas: int = ALL, before: Object | None = None) -> Object:
    return status_of(
        report_of(service(LADDER, states, replicas=replicas)),
        before or {},
        LATER if before else THEN,
    )


def condition(status: Object, kind: str) -> Object:
    (found,) = [found for found in status["conditions"] if found["type"] == kind]
    return dict(found)


# What is said


@pytest.mark.parametrize(
    ("replicas", "wanted", "condition", "words"),
    [
        (
            ALL,
            "all",
            "AllWanted",
            "as many instances as the rule allows are wanted; works up to 3 group0 + 1 group1",
        ),
        (
            9,
            "9",
            "AllWanted",
            "9 instances are wanted; the largest ratio has 4: works up to 3 group0 + 1 group1",
        ),
        (3, "3", "WithinRule", "3 instances are wanted; works up to 2 group0 + 1 group1"),
        (
            1,
            "1",
            "BelowMinimum",
            "1 instance is wanted; the smallest ratio has 2: works up to 1 group0 + 1 group1",
        ),
        (0, "0", "NoneWanted", "no instance is wanted; the service rests"),
    ],
)
def test_the_number_is_a_column_and_what_follows_from_it_a_condition(
    replicas: int, wanted: str, condition: str, words: str
) -> None:
    seen = service(LADDER, AT_TWO, replicas=replicas)
    assert said(AT_TWO, replicas)["wanted"] == wanted
    assert scaling_limited(seen, plan(seen)) == (condition == "BelowMinimum", (condition, words))


def test_a_ladder_with_a_gap_says_which_ratio_is_next() -> None:
    seen = service("4P2D > 1P1D", AT_TWO, replicas=3)
    assert (
        scaling_limited(seen, plan(seen))[1].message
        == "3 instances are wanted; the next ratio has 6: works up to 4 group0 + 2 group1"
    )
    without = service(None, AT_TWO, replicas=3)
    assert scaling_limited(without, plan(without))[1].reason == "NoRule"


def test_while_a_lower_number_is_delayed_nothing_rests_and_the_condition_says_until_when() -> None:
    slow = {"options": RuleOptions(scale_down_delay=300)}
    seen = [service(LADDER, ALL_RUN, replicas=number, **slow) for number in (ALL, 0)]
    first = decision(seen[0])
    made = decision(seen[1], now=NOW + 10, memory=first.memory).plans[0]
    status = status_of(report_of(seen[1], plan=made), {}, THEN)
    assert (status["wanted"], status["reason"], condition(status, "Complete")["status"]) == (
        "0",
        "Complete",
        "True",
    )
    assert (
        condition(status, "ScalingLimited")["message"]
        == "no instance is wanted; works up to 3 group0 + 1 group1 until"
        " mind-cluster/scale-down-delay is over"
    )


@pytest.mark.parametrize(
    ("replicas", "states"), [(2, AT_TWO), (0, AT_TWO), (0, "p0 Held, p1 Held, p2 Held, d0 Held")]
)
def test_who_scales_down_degrades_nothing(replicas: int, states: str) -> None:
    before = said(ALL_RUN)
    after = said(states, replicas, before)
    assert condition(after, "Degraded")["status"] == "False"
    assert [reason for reason, _ in service_events(before, after)] == ["Scaled"]


def test_a_loss_below_the_number_is_one() -> None:
    before = said(ALL_RUN, 3)
    after = said(AT_TWO, 3, before)
    assert condition(after, "Degraded")["status"] == "True"
    assert [reason for reason, _ in service_events(before, after)] == ["Degraded"]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (ALL, 2, "2 instances are wanted, before all; runs 1 group0 + 1 group1"),
        (
            2,
            3,
            (
                "3 instances are wanted, before 2; runs 1 group0 + 1 group1, works towards 2 group0"
                " + 1 group1"
            ),
        ),
        (
            3,
            ALL,
            (
                "as many instances as the rule allows are wanted, before 3; runs 1 group0 + 1"
                " group1, works towards"
            ),
        ),
        (
            2,
            1,
            (
                "1 instance is wanted; the smallest ratio has 2: works up to 1 group0 + 1 group1,"
                " before 2; runs"
            ),
        ),
        (2, 0, "no instance is wanted, before 2; the service rests"),
    ],
)
def test_a_change_of_the_number_is_one_event_with_what_follows(
    before: int, after: int, words: str
) -> None:
    was = said(AT_TWO, before)
    ((reason, message),) = service_events(was, said(AT_TWO, after, was))
    assert reason == "Scaled"
    assert message.startswith(words)


def test_pods_that_came_to_an_end_between_two_looks_because_of_the_number_are_no_loss() -> None:
    before = said(ALL_RUN, 2)  # they end
    after = said("p0 Running, d0 Running", 2, before)
    assert service_events(before, after) == []
    lost = said("p0 Running, d0 Held", 2, before)
    assert [reason for reason, _ in service_events(before, lost)] == ["Unavailable"]


def test_a_status_of_an_earlier_version_is_one_of_a_service_that_nobody_scaled() -> None:
    before = said(ALL_RUN)
    del before["wanted"]
    assert service_events(before, said(ALL_RUN, ALL, before)) == []


# The selector


@pytest.mark.parametrize(
    ("key", "kind", "selector"),
    [
        (ServiceKey("a", "rule", "chat"), "AscendJob", f"{JOB_LABEL} in (d0,p0)"),
        (
            ServiceKey("a", "rule", "chat"),
            "Deployment",
            "mind-cluster/scaling-rule=rule,jobID=chat",
        ),
        (ServiceKey("a", "rule", ""), "Job", "mind-cluster/scaling-rule=rule,!jobID"),
        (
            ServiceKey("a", "no label value!", "x y"),
            "Pod",
            "mind-cluster/scaling-rule,!mind-cluster/scaling-rule",
        ),
    ],
)
def test_pods_of_ascend_jobs_carry_the_name_of_their_job_and_all_others_the_labels(
    key: ServiceKey, kind: str, selector: str
) -> None:
    found = tuple(msgspec.structs.replace(instance(name), kind=kind) for name in ("p0", "d0"))
    assert selector_of(service(LADDER, found, key=key)) == selector


@pytest.mark.parametrize("number", [0, 1, 3000])
def test_a_selector_is_never_empty_nor_too_long_and_always_one(number: int) -> None:
    many = tuple(instance(f"{'x' * 40}-{each}") for each in range(number))
    for found in (many, tuple(msgspec.structs.replace(one, name="No Name!") for one in many)):
        selector = selector_of(service(LADDER, found))
        assert 0 < len(selector) <= MAX_SELECTOR
        assert not label_predicate(selector)({"metadata": {"labels": {"app": "another"}}})


def test_the_pods_that_are_made_have_what_the_selector_asks_for() -> None:
    async def play() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
            await on.settle(3)
            pods = [pod for name in ("p0", "p1", "d0") for pod in on.pods_of(name)]
            selects = label_predicate(on.said()["selector"])
            assert [selects(pod) for pod in pods] == [True] * len(on.cluster.peek(PODS, NAMESPACE))

    run(play())


# The number


@pytest.mark.parametrize(
    ("written", "number"),
    [
        (b"0", 0),
        (b"3", 3),
        (b"1000000", ALL),
        (b"2147483647", ALL),
        (b"-1", ALL),
        (b"3.5", ALL),
        (b'"3"', ALL),
        (b"null", ALL),
        (b"true", ALL),
        (b"[1]", ALL),
        (b"1e30", ALL),
        (b"9" * 5000, ALL),
        (b"", ALL),
    ],
)
def test_what_is_no_number_of_instances_limits_nothing(written: bytes, number: int) -> None:
    """Nor an object from before there was such a field, which is the last one."""
    field = b',"replicas":' + written if written else b""
    body = (
        b'{"metadata":{"namespace":"a","name":"x","uid":"u"},"spec":{"rule":"r","jobID":"j"%s}}'
        % field
    )
    record = elastic_service_record(msgspec.json.decode(body, type=ElasticServiceObject))
    assert record is not None
    assert record.replicas == number


async def scale(on: Rig, replicas: int | None, name: str = "rule-mindie") -> None:
    patch = {"spec": {"replicas": replicas}}
    await on.cluster.patch(ELASTIC_SERVICES, NAMESPACE, name, patch, patch_type=PatchType.MERGE)


def leaving(on: Rig) -> set[str]:
    """Instances with pods that are being deleted."""
    pods = on.cluster.peek(PODS, NAMESPACE)
    return {objects.controller(pod)["name"] for pod in pods if objects.terminating(pod)}


async def end(on: Rig, *names: str) -> None:
    """Delete jobs, with what Kubernetes collects then."""
    for name in names:
        await on.cluster.delete(ASCEND_JOBS, NAMESPACE, name)
        await on.kill(name)
        for resource in (SERVICES, POD_GROUPS):
            for left in on.cluster.peek(resource, NAMESPACE):
                if left["metadata"]["ownerReferences"][0]["name"] == name:
                    await on.cluster.delete(resource, NAMESPACE, left["metadata"]["name"])
    await on.settle(5)


def test_who_scales_to_the_minimum_to_none_and_back_to_all_gets_that() -> None:
    """The whole way: the object, the decision, what is ended and made, and what the object says
    then."""

    async def play() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
            await on.settle(3)
            await on.start("p1")
            await on.settle(3)
            await scale(on, 2)
            await on.settle(3)
            assert leaving(on) == {"p1"}
            await on.kill("p1")
            await on.settle(30)
            assert on.with_pods() == {"p0", "d0"}
            assert (on.said()["running"], on.said()["wanted"], on.said()["reason"]) == (
                "1+1",
                "2",
                "Complete",
            )
            assert on.said()["replicas"] == 2
            await scale(on, 0)
            await on.settle(3)
            assert leaving(on) == {"p0", "d0"}
            assert (
                on.said()["message"]
                == "nothing is to run: spec.replicas is 0; 2 have not ended yet"
            )
            await on.kill("p0", "d0")
            await on.settle(30)
            assert on.with_pods() == set()
            assert (on.said()["running"], on.said()["reason"], on.said()["replicas"]) == (
                "0+0",
                "Resting",
                0,
            )
            await scale(on, None)
            await on.settle(3)
            await on.start("p0", "d0")
            await on.settle(3)
            await on.start("p1")
            await on.settle(3)
            assert (on.said()["running"], on.said()["wanted"], on.said()["reason"]) == (
                "2+1",
                "all",
                "Complete",
            )
            assert [
                reason
                for reason in story(on)
                if reason in ("Degraded", "Unavailable", "InstanceLost")
            ] == []
            scaled = [one for one in on.cluster.peek(EVENTS) if one["reason"] == "Scaled"]
            assert [one["count"] for one in scaled] == [3], "orders are one event that counts up"
            assert "before 0" in scaled[0]["message"]

    run(play())


def test_a_number_that_somebody_set_outlives_jobs_rule_and_scaler_and_counts_again() -> None:
    async def play() -> None:
        async with rig(*SERVICE) as on:
            await on.settle(3)
            await scale(on, 2)
            await on.cluster.delete(CONFIG_MAPS, NAMESPACE, "rule")
            await end(on, "p0", "p1", "d0")
            found = all_of(on)["rule-mindie"]
            assert (found["spec"]["replicas"], found["status"]["reason"]) == (2, "NoJobs")
            assert (found["status"]["replicas"], found["status"]["wanted"]) == (0, "2")
        await asyncio.sleep(30)
        writes = len(on.cluster.audit)
        async with controller(on, Clock(START + 300)):
            await on.settle(30)
            assert not [
                write
                for write in list(on.cluster.audit)[writes:]
                if write.resource == ELASTIC_SERVICES
            ]
            on.apply(*SERVICE)
            await on.settle(3)
            await on.start("p0", "d0")
            await on.settle(10)
            assert on.with_pods() == {"p0", "d0"}
            assert (on.said()["wanted"], on.said()["reason"]) == ("2", "Complete")
            await scale(on, ALL)
            await on.settle(3)
            assert "p1" in on.with_pods()
            await end(on, "p0", "p1", "d0")
            assert all_of(on) == {}

    run(play())


class Written(Interceptor):
    """What is written to ElasticServices."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def before(self, request: Request) -> None:
        if request.resource == ELASTIC_SERVICES and request.verb not in ("list", "watch", "get"):
            self.requests.append(request)


def test_the_scaler_never_writes_the_number() -> None:
    written = Written()

    async def play() -> None:
        async with rig(*SERVICE, interceptor=written) as on:
            await on.start("p0", "d0")
            await scale(on, 3)
            await on.settle(3)
            await end(on, "p1")
            await on.settle(3)
            assert on.said()["wanted"] == "3"
            assert {(one.verb, one.subresource) for one in written.requests} == {
                ("create", ""),
                ("patch", "status"),
            }
            assert [
                one for one in written.requests if "replicas" in (one.body.get("spec") or {})
            ] == []

    run(play())


class SetAtThatMoment(Interceptor):
    """Somebody scales just before the first deletion of an ElasticService arrives."""

    def __init__(self) -> None:
        self.waits_for: list[Rig] = []

    async def before(self, request: Request) -> None:
        if self.waits_for and (request.verb, request.resource) == ("delete", ELASTIC_SERVICES):
            await scale(self.waits_for.pop(), 2)


def test_a_number_that_is_set_at_the_moment_of_the_deletion_survives_it() -> None:
    moment = SetAtThatMoment()

    async def play() -> None:
        async with rig(*SERVICE, interceptor=moment) as on:
            await on.settle(3)
            moment.waits_for.append(on)
            await end(on, "p0", "p1", "d0")
            await on.settle(30)
            assert moment.waits_for == []
            assert all_of(on)["rule-mindie"]["spec"]["replicas"] == 2

    run(play())


def test_of_two_about_one_service_that_of_the_user_counts() -> None:
    async def play() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
            await on.settle(3)
            await on.start("p1")
            await scale(on, 3)
            mine = esvc("chat")
            mine["spec"]["replicas"] = 2
            on.apply(mine)
            await on.settle(3)
            await on.kill(*leaving(on))
            await on.settle(30)
            assert [*all_of(on)] == ["chat"]
            assert (on.said()["running"], on.said()["wanted"], on.said()["reason"]) == (
                "1+1",
                "2",
                "Complete",
            )
            await on.cluster.delete(ELASTIC_SERVICES, NAMESPACE, "chat")
            await on.settle(60)
            assert (on.said()["wanted"], [*all_of(on)]) == ("all", ["rule-mindie"])

    run(play())


# What is decided on is seen


def limited(replicas: int) -> Object:
    found = esvc("rule-mindie", ours=True)
    found["spec"]["replicas"] = replicas
    return found


class Late(Interceptor):
    """ElasticServices are listed late, or not at all."""

    def __init__(self, seconds: float = 0.0, error: Exception | None = None) -> None:
        self._until = seconds
        self._error = error

    async def before(self, request: Request) -> None:
        if request.resource == ELASTIC_SERVICES and request.verb in ("list", "watch"):
            now = asyncio.get_running_loop().time()
            if now < self._until:
                await asyncio.sleep(self._until - now)
            if self._error is not None:
                raise self._error


def test_nothing_is_decided_before_the_numbers_are_known() -> None:
    async def play() -> None:
        cluster = SimCluster(Clock(START))
        cluster.apply([limited(2)], NAMESPACE)
        began = asyncio.get_running_loop().time()
        async with rig(*SERVICE, cluster=cluster, interceptor=Late(began + 8)) as on:
            await on.settle(5)
            assert on.passes == 0
            await on.settle(10)
            await on.start("p0", "d0")
            await on.settle(10)
            assert on.with_pods() == {"p0", "d0"}
            assert on.reason("p1") == Reason.SCALED_DOWN

    run(play())


def test_a_new_leader_knows_the_numbers_before_it_acts() -> None:
    async def play() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
            await scale(on, 2)
            await on.settle(10)
        for number in range(3):
            async with controller(on, Clock(START + 100 * number), name=f"scaler-{number}"):
                await on.settle(10)
                assert on.with_pods() == {"p0", "d0"}
            assert [line for line in on.writes(f"scaler-{number}") if " pods " in line] == []

    run(play())


@pytest.mark.parametrize("error", [ForbiddenError(403, "Forbidden", "rbac"), None])
def test_who_may_not_read_them_or_has_no_such_kind_limits_nothing_and_says_so(
    error: Exception | None,
) -> None:
    async def play() -> None:
        cluster = SimCluster(Clock(START))
        cluster.apply([limited(2)], NAMESPACE)
        if error is None:
            await cluster.delete(
                CUSTOM_RESOURCE_DEFINITIONS, None, "elasticservices.scaler.mind-cluster.io"
            )
        with capture_logs() as lines:
            async with rig(*SERVICE, cluster=cluster, interceptor=Late(error=error)) as on:
                await on.settle(10)
                await on.start("p0", "d0")
                await on.settle(60)
                assert on.with_pods() == {"p0", "d0", "p1"}
        (told,) = [line for line in lines if line["event"] == "no ElasticServices are read"]
        assert told["so"] == "as many instances as its rule allows are wanted of each service"

    run(play())


class OldDefinition(Interceptor):
    """Answers as an API server does whose definition knows neither scale nor losses, nor the state
    of the rule."""

    async def before(self, request: Request) -> None:
        if request.resource == ELASTIC_SERVICES and request.subresource == "status":
            status = request.body["status"]
            found = [field for field in ("selector", "wanted", "lost") if field in status]
            if "state" in status["rule"]:
                found.append("rule.state")
            if found:
                words = f"failed to create typed patch object: .status.{found[0]}: {_UNDECLARED}"
                raise UnknownOutcomeError(f"500: {words}")


def test_an_older_definition_costs_what_it_does_not_know_and_is_said_once() -> None:
    async def play() -> None:
        with capture_logs() as lines:
            async with rig(*SERVICE, interceptor=OldDefinition()) as on:
                await on.start("p0", "d0")
                await on.settle(3)
                await on.start("p1")
                await on.settle(3)
                assert (on.said()["running"], "wanted" in on.said()) == ("2+1", False)
        told = [
            line["event"]
            for line in lines
            if "ElasticService" in line["event"] or "not written" in line["event"]
        ]
        assert told == ["the definition of ElasticService is old"]

    run(play())


def test_a_service_without_jobs_says_only_that_and_what_is_wanted() -> None:
    key = ServiceKey("a", "rule", "chat")
    record = ElasticServiceRecord("a", "x", "u", "1", key, ours=True, replicas=3)
    status = status_of(without_jobs(key, record.replicas), {}, THEN)
    assert {found["type"]: found["reason"] for found in status["conditions"]} == {
        "Available": "NoJobs",
        "Complete": "NoJobs",
        "Degraded": "NoJobs",
        "ScalingLimited": "NoRule",
    }
    assert (status["replicas"], status["selector"]) == (
        0,
        "mind-cluster/scaling-rule=rule,jobID=chat",
    )
    assert not record.goes_with_its_jobs
