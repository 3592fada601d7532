"""All services as one value: what stays the same object, and what is assumed while writes are under
way."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from scaler.decide.decision import Admit, Evict, Plan, Revoke
from scaler.decide.memory import Memory
from scaler.decide.nodes import Nodes
from scaler.decide.world import Instance, Policy, Service, World
from scaler.informers.cache import MOST_SCHEDULERS
from scaler.informers.records import NodeFacts
from scaler.state.assemble import GRACE, WorldBuilder, foreseen, is_missed
from tests.builders import NOW, SIZE, instance, others
from tests.jobs import NAMESPACE
from tests.state.test_instances import KEY, Seen

NPU = "huawei.com/Ascend910"


class Stage(Seen):
    """A cache with jobs p0 and d0 of two pods each, and what is built of it."""

    def __init__(self) -> None:
        super().__init__()
        self.alone = ""
        self.builder = WorldBuilder(self.state, Policy(), alone=lambda: self.alone)
        self.job("p0", pods=2)
        self.job("d0", pods=2)
        amounts = {NPU: 16, "pods": 110}
        for name in ("n1", "n2"):
            self.node(name, ready=True)
            self.state.capacity.node_changed(
                name, NodeFacts(name, allocatable=amounts, capacity=amounts)
            )
        self.builder.read(KEY)

    def world(self) -> World:
        return self.builder.world(NOW, Memory())

    def p0(self) -> Instance:
        (service,) = self.world().services
        return next(one for one in service.instances if one.name == "p0")

    def nodes(self) -> Nodes:
        found = self.world().nodes
        assert found is not None
        return found


@pytest.fixture
def stage() -> Stage:
    return Stage()


def plan(*actions: Any) -> Plan:
    return Plan(KEY, 0, {}, False, {}, (), actions=actions)


def test_what_has_not_changed_is_the_same_object(stage: Stage) -> None:
    first = stage.world()
    second = stage.world()
    assert second.services is first.services
    assert second.nodes is first.nodes
    stage.builder.read(KEY)
    assert stage.world().services is first.services
    stage.pod("p0-master-0")
    assert stage.world().services is first.services
    stage.builder.read(KEY)
    assert stage.world().services[0] != first.services[0]
    assert stage.world().services[0].instances[0] is first.services[0].instances[0]


def test_services_are_sorted_and_one_that_left_is_gone(stage: Stage) -> None:
    stage.job("x0", rule="another")
    for key in stage.state.service_keys():
        stage.builder.read(key)
    assert [service.key.rule for service in stage.world().services] == ["another", "rule"]
    stage.builder.leave(KEY)
    assert [service.key.rule for service in stage.world().services] == ["another"]
    stage.builder.leave(KEY)


def test_nodes_are_told_apart_by_what_somebody_asks_for_now(stage: Stage) -> None:
    assert stage.nodes().resources == (NPU, "pods")
    stage.builder.leave(KEY)
    assert stage.nodes().resources == ("pods",)


def test_where_each_service_decides_alone_there_are_no_nodes(stage: Stage) -> None:
    stage.alone = "the nodes may not be read"
    assert (stage.world().nodes, stage.world().alone) == (None, stage.alone)


def test_a_world_survives_its_own_serialisation(stage: Stage) -> None:
    stage.pod("p0-master-0", node="n1", phase="Running", deleted=True)
    world = stage.world()
    assert msgspec.json.decode(msgspec.json.encode(world), type=World) == world


def test_a_bind_of_anybody_is_remembered_and_what_was_bound_before_is_not(stage: Stage) -> None:
    stage.cache.pods.add_scope(None)
    stage.now = 1.0
    stage.pod("bound-before", owner="stranger", node="n1")
    stage.pod("free", owner="stranger")
    assert stage.world().last_bind == 0.0
    stage.cache.pods.advance(None, 1000)
    stage._version = 1000
    stage.now = 2.0
    stage.pod("free", owner="stranger", node="n1")
    assert stage.world().last_bind == 2.0
    stage.now = 3.0
    stage.pod("free", owner="stranger", node="n1", phase="Running")
    assert stage.world().last_bind == 2.0
    stage.pod("bound-at-once", owner="stranger", node="n1")
    assert stage.world().last_bind == 3.0


def test_binds_are_remembered_by_the_scheduler_that_the_pod_names(stage: Stage) -> None:
    stage.cache.pods.add_scope(None)
    stage.cache.pods.advance(None, 1000)
    stage._version = 1000
    for number in range(100):
        stage.now = float(number)
        stage.scheduler = f"scheduler-{number}"
        stage.pod(f"pod-{number}", owner="stranger", node="n1")
    stage.scheduler = "volcano"
    stage.pod("p0-master-0", node="n1")
    last_binds = stage.world().last_binds
    assert (last_binds["volcano"], last_binds["scheduler-98"]) == (99.0, 98.0)
    assert len(last_binds) == MOST_SCHEDULERS


# assumed


def test_what_is_being_admitted_has_all_its_pods_until_it_is_looked_at(stage: Stage) -> None:
    stage.builder.begin(plan(Admit("uid-p0")), NOW)
    (service,) = stage.world().services
    assert (service.assumed, stage.p0().pods, stage.p0().bound, stage.p0().admitted_at) == (
        True,
        2,
        0,
        NOW,
    )
    stage.pod("p0-master-0", node="n1")
    assert (stage.p0().pods, stage.p0().bound) == (2, 1)
    assert stage.world().services is stage.world().services
    stage.builder.read(KEY)
    (service,) = stage.world().services
    assert (service.assumed, stage.p0().pods) == (False, 1)


def test_the_room_of_what_is_being_evicted_is_to_come_at_once(stage: Stage) -> None:
    stage.pod("p0-master-0", node="n1", phase="Running")
    stage.pod("p0-worker-0", node="n1", phase="Running")
    stage.builder.read(KEY)
    before = stage.nodes()
    stage.builder.begin(plan(Evict("uid-p0", "beneficiary")), NOW)
    assert (stage.p0().pods, stage.p0().bound, stage.p0().terminating, stage.p0().ends_by) == (
        0,
        0,
        2,
        NOW + GRACE,
    )
    first, second = stage.nodes().nodes
    assert (first.ending, second) == (((NOW + GRACE, (8, 1)),) * 2, before.nodes[1])
    stage.pod("p0-master-0", node="n1", phase="Running", deleted=True)
    assert (NOW + GRACE, (8, 1)) in stage.nodes().nodes[0].ending


def test_an_instance_that_is_gone_meanwhile_stays_until_its_service_is_looked_at(
    stage: Stage,
) -> None:
    stage.builder.begin(plan(Admit("uid-p0")), NOW)
    stage.cache.jobs.remove(NAMESPACE, "p0", "uid-p0")
    assert stage.p0().pods == 2
    stage.builder.read(KEY)
    assert [one.name for one in stage.world().services[0].instances] == ["d0"]


def test_after_a_failure_only_what_is_not_seen_yet_of_an_admission_is_assumed(stage: Stage) -> None:
    stage.pod("d0-master-0", owner="d0")
    stage.builder.read(KEY)
    stage.builder.begin(plan(Admit("uid-p0"), Revoke("uid-d0")), NOW)
    assert [one.pods for one in stage.world().services[0].instances] == [0, 2]
    stage.builder.plan_failed(KEY, settled=False)
    assert [one.pods for one in stage.world().services[0].instances] == [1, 2]
    stage.builder.plan_failed(KEY, settled=True)
    (service,) = stage.world().services
    assert (service.assumed, [one.pods for one in service.instances]) == (True, [1, 0])


def test_what_others_make_loses_its_gates_and_comes_again_with_them() -> None:
    coming = msgspec.structs.replace(others("p0"), pods=1, gated=1)
    admitted = foreseen(coming, Admit(coming.uid), NOW)
    assert (admitted.pods, admitted.gated) == (1, 0)
    assert foreseen(others("p0", "Admitted"), Revoke("uid-p0"), NOW).gated == SIZE


def test_what_is_being_revoked_has_no_pods_but_those_that_were_bound_meanwhile() -> None:
    revoked = foreseen(instance("p0", "Admitted"), Revoke("uid-p0"), NOW)
    assert (revoked.pods, revoked.leftovers, revoked.admitted_at) == (0, False, 0.0)
    assert foreseen(instance("p0", "Admitted", bound=1), Revoke("uid-p0"), NOW).pods == 1


def test_nobody_knows_when_pods_end_on_a_lost_node() -> None:
    lost = instance("p0", "Running", terminating=1, ends_by=-1.0)
    assert foreseen(lost, Evict("uid-p0", "ns/rule/other"), NOW).ends_by == -1.0


def test_only_what_the_plan_does_to_admissions_is_foreseen(stage: Stage) -> None:
    from scaler.decide.decision import Expire

    before = stage.world().services[0].instances
    stage.builder.begin(plan(Expire("uid-d0"), Admit("uid-p0")), NOW)
    after = stage.world().services[0].instances
    assert [one.uid for one, then in zip(before, after, strict=True) if one != then] == ["uid-p0"]


# resync


def test_a_missed_event_is_more_than_other_words() -> None:
    known = Service(KEY, (instance("p0"),))
    assert not is_missed(known, known)
    assert not is_missed(Service(KEY, (instance("p0", trouble="pod p0 has restarted"),)), known)
    assert is_missed(Service(KEY, (instance("p0", pods=1),)), known)
    assert is_missed(None, known)
    assert is_missed(known, None)


def test_a_service_in_progress_that_cannot_be_read_stays_as_foreseen_and_is_logged(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.builder.begin(plan(Admit("uid-p0")), NOW)
    before = stage.world().services
    monkeypatch.setattr(stage.state, "instance", lambda *_: 1 / 0)
    with capture_logs() as lines:
        after = stage.world().services
    assert after == before
    (line,) = lines
    assert (line["event"], line["service"]) == ("service cannot be read", str(KEY))
    assert "ZeroDivisionError" in line["traceback"]
