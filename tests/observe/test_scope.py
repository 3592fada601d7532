"""The arbitration over all services, pass by pass: who is told what, and whose turn has come."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from scaler.decide.nodes import PODS, Capacity, PodRequest, Where
from scaler.decide.planner import plan
from scaler.decide.world import Instance, Policy, Reason, ServiceKey, Snapshot
from scaler.observe.cache import Cache
from scaler.observe.capacity import CapacityIndex, NodeFacts, PodLoad
from scaler.observe.scope import Scope, Weighed
from tests import builders
from tests.builders import NOW, SIZE

NPU = "huawei.com/Ascend910"
EIGHT = PodRequest(((NPU, 8), (PODS, 1)))
A, B, C = (ServiceKey("default", name, name) for name in "abc")


class Index(CapacityIndex):
    """Remembers what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: frozenset[PodRequest] = frozenset()

    def capacity(self, needs: Collection[PodRequest]) -> Capacity:
        self.asked = frozenset(needs)
        return super().capacity(needs)


class Stage:
    """A scope and its nodes; every instance needs two of them."""

    def __init__(self, nodes: int, *, alone: str = "") -> None:
        self.cache = Cache(lambda _: None)
        self.index = self.cache.capacity = Index()
        self.scope = Scope(self.cache, Policy(), alone=lambda: alone)
        self.nodes = 0
        self.more(nodes)

    def more(self, nodes: int) -> None:
        for _ in range(nodes):
            self.nodes += 1
            amounts = {NPU: 8, PODS: 110}
            self.index.node_changed(None, NodeFacts(f"n{self.nodes}", allocatable=amounts, capacity=amounts))

    def tell(self, *snapshots: Snapshot, after: float = 0) -> Weighed:
        """One pass over these services."""
        for snapshot in snapshots:
            self.scope.take(snapshot, plan(snapshot)[0])
        return self.scope.weigh(NOW + after)


def service(key: ServiceKey, text: str, need: PodRequest = EIGHT) -> Snapshot:
    """2P1D > 1P1D with the instances of `text`, each of which needs two nodes."""
    made = builders.service("2P1D > 1P1D", text, key=key)
    instances = tuple(asking(one, key, need) for one in made.instances)
    return msgspec.structs.replace(made, instances=instances)


def asking(one: Instance, key: ServiceKey, need: PodRequest) -> Instance:
    needs, uid = ((need, SIZE),), f"{key.job_id}-{one.name}"
    return msgspec.structs.replace(one, uid=uid, needs=needs, unbound=() if one.bound else needs)


def reasons(weighed: Weighed, key: ServiceKey) -> set[Reason]:
    return {verdict.reason for verdict in weighed.plans[key].verdicts}


def test_each_pass_gives_the_plans_of_all_services_and_turns_only_of_others() -> None:
    stage = Stage(4)
    weighed = stage.tell(service(A, "p0 Held, d0 Held"), service(B, "p0 Held, d0 Held"))
    assert reasons(weighed, A) == {Reason.WAITING_FOR_SCHEDULER}
    assert reasons(weighed, B) == {Reason.MINIMUM_DOES_NOT_FIT}
    assert (weighed.turns, stage.tell().turns) == ((), ())


def test_room_brings_the_turn_of_who_waits_for_it_once() -> None:
    stage = Stage(4)
    stage.tell(service(A, "p0 Held, d0 Held"), service(B, "p0 Held, d0 Held"))
    stage.more(4)
    assert stage.scope.waits
    weighed = stage.tell()
    assert (weighed.turns, reasons(weighed, B)) == ((B,), {Reason.WAITING_FOR_SCHEDULER})
    assert (stage.tell().turns, stage.scope.waits) == ((), False)


def test_other_words_are_news_and_no_turn() -> None:
    stage = Stage(4)
    stage.tell(service(A, "p0 Held, d0 Held"), service(B, "p0 Held, d0 Held"))
    stage.more(1)
    weighed = stage.tell()
    assert "needs 4 nodes" in weighed.plans[B].verdicts[0].about[0]
    assert (weighed.turns, weighed.news, stage.tell().news) == ((), (B,), ())


def test_a_service_that_comes_takes_the_turn_of_a_climb() -> None:
    stage = Stage(4)
    climbing = service(A, "p0 Running, d0 Running, p1 Admitted")
    assert stage.tell(climbing).turns == ()
    weighed = stage.tell(service(B, "p0 Held, d0 Held"))
    assert (weighed.turns, reasons(weighed, A)) == ((A,), {Reason.RUNNING, Reason.YIELDS_TO_MINIMUM})


def test_a_service_that_leaves_is_weighed_no_more_and_its_room_is_anothers() -> None:
    stage = Stage(4)
    stage.tell(service(A, "p0 Held, d0 Held"), service(B, "p0 Held, d0 Held"))
    stage.scope.leave(A)
    weighed = stage.tell()
    assert (set(weighed.plans), weighed.turns, stage.scope.alone(A)) == ({B}, (B,), None)
    stage.scope.leave(C)


def test_what_would_be_done_alone_is_kept_beside_what_was_said() -> None:
    stage = Stage(2)
    held = service(A, "p0 Held, d0 Held")
    weighed = stage.tell(held, service(B, "p0 Held, d0 Held"))
    assert weighed.plans[A].actions == ()
    assert stage.scope.alone(A) == plan(held)[0]


def test_nodes_are_told_apart_only_by_what_somebody_asks_for_now() -> None:
    stage = Stage(4)
    special = PodRequest(EIGHT.requests, Where(selector=(("pool", "a"),)))
    stage.tell(service(A, "p0 Held, d0 Held"), service(B, "p0 Held, d0 Held", special))
    assert stage.index.asked == {EIGHT, special}
    stage.tell(service(A, "p0 Held"), service(A, "p0 Held, d0 Held"))
    stage.tell(service(B, "p0 Held, d0 Held"))
    assert stage.index.asked == {EIGHT}
    stage.scope.leave(A)
    stage.scope.leave(B)
    stage.tell()
    assert stage.index.asked == frozenset()


def test_it_says_when_time_alone_may_change_something() -> None:
    stage = Stage(4)
    weighed = stage.tell(service(A, "p0 Held, d0 Held"))
    assert weighed.recheck_at == 0.0
    weighed = stage.tell(service(B, "p0 Held, d0 Held"))
    assert weighed.recheck_at == NOW + Policy().minimum_timeout


def test_while_each_decides_alone_the_plans_stay_as_they_are() -> None:
    stage = Stage(0, alone="the nodes may not be read")
    held = service(A, "p0 Held, d0 Held")
    weighed = stage.tell(held, service(B, "p0 Held, d0 Held"))
    assert weighed.plans[A] == plan(held)[0]
    assert (weighed.turns, weighed.tally, weighed.recheck_at, stage.scope.waits) == ((), None, 0.0, False)


def test_room_is_not_given_twice_while_the_pods_that_it_was_given_to_are_being_made() -> None:
    stage = Stage(4)
    assert len(stage.tell(service(B, "p0 Held, d0 Held")).plans[B].actions) == 2
    weighed = stage.tell(service(A, "p0 Held, d0 Held"))
    assert (reasons(weighed, A), weighed.turns) == ({Reason.MINIMUM_DOES_NOT_FIT}, ())
    assert stage.tell().turns == ()
    weighed = stage.tell(service(B, "p0 Admitted, d0 Admitted"))
    assert (weighed.turns, weighed.plans[B].actions) == ((), ())


def test_a_climb_under_way_is_still_taken_back_for_a_minimum() -> None:
    stage = Stage(4)
    assert len(stage.tell(service(B, "p0 Running, d0 Running, p1 Held")).plans[B].actions) == 1
    weighed = stage.tell(service(A, "p0 Held, d0 Held"))
    assert (weighed.turns, stage.tell().turns) == ((B,), ())
    weighed = stage.tell(service(B, "p0 Running, d0 Running, p1 Admitted"))
    assert [type(action).__name__ for action in weighed.plans[B].actions] == ["Revoke"]


def short_of_decode() -> Snapshot:
    """Two prefill instances run on the only nodes; the decode instance waits."""
    made = service(A, "p0 Running, p1 Running, d0 Admitted")
    seats = {"p0": ("n1", "n2"), "p1": ("n3", "n4")}
    instances = tuple(
        msgspec.structs.replace(one, seats=tuple((node, EIGHT) for node in seats.get(one.name, ())))
        for one in made.instances
    )
    return msgspec.structs.replace(made, instances=instances)


def test_what_a_turn_brings_is_decided_again_until_somebody_looks() -> None:
    stage = Stage(4)
    for number in range(1, 5):
        stage.index.pod_changed(None, PodLoad(f"n{number}", EIGHT.requests))
    assert stage.tell(short_of_decode()).plans[A].actions == ()
    assert stage.tell(after=90).turns == (A,)
    elsewhere = PodRequest(EIGHT.requests, Where(selector=(("pool", "a"),)))
    between = stage.tell(service(B, "p0 Held, d0 Held", elsewhere), after=91)
    assert [type(action).__name__ for action in between.plans[A].actions] == ["Evict"]
    looked = stage.tell(short_of_decode(), after=92)
    assert [type(action).__name__ for action in looked.plans[A].actions] == ["Evict"]
    assert stage.tell(short_of_decode(), after=93).plans[A].actions == ()


def test_a_minimum_counts_before_its_pods_exist_where_others_make_them() -> None:
    """Beside an operator a job has no pods until the scheduler lets its PodGroup in; a climb must not be first."""
    stage = Stage(6)
    climbing = service(A, "p0 Running, d0 Running, p1 Held")
    coming = service(B, "p0 Held, p1 Held, d0 Held")
    yet = tuple(msgspec.structs.replace(instance, made_by_us=False, pods=0, gated=0) for instance in coming.instances)
    given = stage.tell(climbing, msgspec.structs.replace(coming, instances=yet))
    verdict = next(one for one in given.plans[A].verdicts if one.name == "p1")
    assert verdict.reason is Reason.YIELDS_TO_MINIMUM
