"""The index of free room: whatever happens in whatever order, it is what a count of everything would give."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.decide.nodes import NODE_NAME, Capacity, NodeClass, PodRequest, Requirement, Room, Taint, Where, accepts
from scaler.decide.room.placement import Board
from scaler.observe.capacity import CapacityIndex, NodeFacts, PodLoad, faulty_devices

NPU = "huawei.com/Ascend910"
ONE = PodRequest(((NPU, 1), ("pods", 1)))
EIGHT = PodRequest(((NPU, 8), ("pods", 1)))
AMOUNTS = {NPU: 8, "cpu": 64_000, "pods": 10}


def node(name: str = "node-1", **facts: Any) -> NodeFacts:
    return NodeFacts(**{"name": name, "allocatable": AMOUNTS, "capacity": AMOUNTS, **facts})


def load(npus: int, name: str = "node-1", *, cpu: int = 0, **more: bool) -> PodLoad:
    asked = ((NPU, npus), ("cpu", cpu), ("pods", 1))
    return PodLoad(name, tuple((resource, amount) for resource, amount in asked if amount), **more)


def index(*happened: NodeFacts | PodLoad) -> CapacityIndex:
    result = CapacityIndex()
    for new in happened:
        if isinstance(new, NodeFacts):
            result.node_changed(None, new)
        else:
            result.pod_changed(None, new)
    return result


def only_room(of: CapacityIndex) -> Room:
    (room,) = of.capacity([ONE]).rooms
    return room


def test_bound_pods_that_have_not_ended_take_room() -> None:
    assert only_room(index(node())).free == (8, 10)
    assert only_room(index(node(), load(2), load(4), load(1, ended=True), load(1, name=""))).free == (2, 8)


def test_room_of_terminating_pods_is_taken_and_due_back() -> None:
    room = only_room(index(node(), load(2, terminating=True), load(4)))
    assert (room.free, room.due_back) == ((2, 8), (2, 1))


@pytest.mark.parametrize("facts", [{"ready": False}, {"unschedulable": True}, {"unhealthy": True}])
def test_all_room_of_a_node_that_takes_no_pods_now_is_due_back(facts: dict[str, bool]) -> None:
    room = only_room(index(node(**facts), load(2, terminating=True), load(4)))
    assert (room.schedulable, room.free, room.due_back) == (False, (0, 0), (4, 9))


def test_a_pod_that_changes_is_counted_anew_and_one_that_goes_leaves_nothing() -> None:
    of = index(node(), load(4))
    of.pod_changed(load(4), load(4, terminating=True))
    assert only_room(of).due_back == (4, 1)
    of.pod_changed(load(4, terminating=True), load(4, ended=True))
    assert (only_room(of).free, only_room(of).due_back) == ((8, 10), (0, 0))
    of.pod_changed(load(4, ended=True), None)
    assert only_room(of).free == (8, 10)


def test_pods_may_be_seen_before_their_node_and_after_it() -> None:
    of = index(load(4))
    assert of.capacity([EIGHT]).rooms == ()
    assert of.problems == {"node-1": "pods are bound to it, but there is no such node"}
    of.node_changed(None, node())
    assert only_room(of).free == (4, 9)
    of.node_changed(node(), None)
    of.pod_changed(load(4), None)
    assert (of.problems, of.capacity([EIGHT]).rooms, of.home("node-1")) == ({}, (), None)


def test_an_overcommitted_node_has_less_than_nothing_free_and_says_so() -> None:
    of = index(node(), load(8), load(4))
    assert only_room(of).free == (-4, 8)
    assert of.problems == {"node-1": f"{NPU}: 12 asked for, 8 allocatable"}
    of.pod_changed(load(4), None)
    assert of.problems == {}


def test_a_node_without_the_resource_has_none_of_it_free() -> None:
    of = index(node(allocatable={"pods": 10}, capacity={}))
    assert only_room(of).free == (0, 10)
    assert Board(of.capacity([EIGHT])).fits(((EIGHT, 1),)) is not None


def test_faulty_devices_are_not_free_and_count_once() -> None:
    faulty = faulty_devices(["Ascend910-3", "Ascend910-7", "Ascend310P-0", "strange"])
    assert faulty == {NPU: 2, "huawei.com/Ascend310P": 1}
    assert only_room(index(node(faulty=faulty))).free == (6, 10)
    withdrawn = {**AMOUNTS, NPU: 6}
    room = only_room(index(node(faulty=faulty, allocatable=withdrawn)))
    assert (room.free, room.allocatable, room.due_back) == ((6, 10), (8, 10), (0, 0))
    assert only_room(index(node(faulty=faulty, allocatable=withdrawn, capacity={}))).free == (4, 10)


def test_taints_that_pass_are_kept_apart_from_those_that_stay() -> None:
    words = ("not-ready", "unreachable", "unschedulable", "memory-pressure")
    passing = tuple(Taint(f"node.kubernetes.io/{word}") for word in words)
    stays, weak = Taint("npu", "x", "NoExecute"), Taint("slow", "", "PreferNoSchedule")
    room = only_room(index(node(taints=(*passing, stays, weak))))
    assert (room.passing, room.kind.taints) == (passing[3:], (stays,))


def test_alike_nodes_are_one_room_whatever_their_names() -> None:
    of = index(*(node(f"node-{number}", labels={"kubernetes.io/hostname": f"node-{number}"}) for number in range(50)))
    assert only_room(of).count == 50
    assert of.home("node-7") == msgspec.structs.replace(only_room(of), count=1)
    named = PodRequest(where=Where((("kubernetes.io/hostname", "node-7"),)))
    assert sorted(room.count for room in of.capacity([named]).rooms) == [1, 49]


def test_the_capacity_is_the_same_value_until_something_changes() -> None:
    of = index(node(), load(4))
    before = of.capacity([EIGHT])
    of.node_changed(node(), node())
    of.pod_changed(load(4), load(4))
    of.pod_changed(None, load(0, cpu=100))
    of.pod_changed(load(0, cpu=100), None)
    assert of.capacity({EIGHT: 1}) == before
    assert of.capacity([EIGHT]) is of.capacity([EIGHT])


def test_what_no_need_asks_for_keeps_no_nodes_apart() -> None:
    of = index(node("node-1"), node("node-2"), load(0, "node-1", cpu=100))
    assert {room.count for room in of.capacity([PodRequest((("cpu", 1000), ("pods", 1)))]).rooms} == {1}
    pods_apart = index(node("node-1"), node("node-2"), PodLoad("node-1", (("cpu", 100),)))
    assert [room.count for room in pods_apart.capacity([EIGHT]).rooms] == [2]


def test_going_of_a_pod_that_was_never_told_of_does_no_harm() -> None:
    of = index(node())
    of.pod_changed(load(4), None)
    of.node_changed(None, None)
    assert only_room(of).free == (12, 11)


# Against counting everything anew

LABELS = [{}, {"type": "a"}, {"type": "b", "gen": "3"}, {"type": "c", "gen": "x"}]
TAINTS = [(), (Taint("npu"),), (Taint("node.kubernetes.io/disk-pressure"),)]
WHERES = [
    Where(),
    Where((("type", "a"),)),
    Where(affinity=((Requirement("type", "NotIn", ("b",)),), (Requirement("gen", "Gt", ("2",)),))),
    Where(((NODE_NAME, "node-1"),)),
]
needs_strategy = st.builds(
    lambda npus, cpu, where: PodRequest(
        tuple((name, amount) for name, amount in ((NPU, npus), ("cpu", cpu), ("pods", 1)) if amount), where
    ),
    st.integers(0, 4),
    st.sampled_from([0, 500, 750, 1000]),
    st.sampled_from(WHERES),
)
facts_strategy = st.builds(
    lambda name, npus, cpu, labels, taints, ready, faulty: NodeFacts(
        name, labels, taints, {NPU: npus, "cpu": cpu, "pods": 4}, {NPU: 4}, ready, faulty={NPU: faulty}
    ),
    st.sampled_from(["node-1", "node-2", "node-3"]),
    st.integers(0, 4),
    st.integers(0, 3000),
    st.sampled_from(LABELS),
    st.sampled_from(TAINTS),
    st.booleans() | st.just(True),
    st.integers(0, 1),
)
loads_strategy = st.builds(
    lambda npus, name, cpu, terminating, ended: load(npus, name, cpu=cpu, terminating=terminating, ended=ended),
    st.integers(0, 2),
    st.sampled_from(["", "node-1", "node-2", "node-3"]),
    st.integers(0, 1200),
    st.booleans(),
    st.just(False) | st.booleans(),
)
events_strategy = st.lists(
    st.tuples(st.integers(0, 4), facts_strategy | loads_strategy | st.none()), min_size=1, max_size=12
)


def played(
    events: list[tuple[int, NodeFacts | PodLoad | None]], needs: list[PodRequest]
) -> tuple[CapacityIndex, dict[str, NodeFacts], dict[int, PodLoad]]:
    """An index that saw all of it, and what there is in the end. None: the pod of that number goes."""
    of, nodes, pods = CapacityIndex(), dict[str, NodeFacts](), dict[int, PodLoad]()
    for at, (number, new) in enumerate(events):
        if at % 3 == 0:
            of.capacity(needs[: at % 2 + 1])
        if isinstance(new, NodeFacts):
            of.node_changed(nodes.get(new.name), new)
            nodes[new.name] = new
        else:
            of.pod_changed(pods.pop(number, None), new)
            if new is not None:
                pods[number] = new
    return of, nodes, pods


@settings(max_examples=300, deadline=None)
@given(events_strategy, st.lists(needs_strategy, min_size=1, max_size=3))
def test_the_index_is_what_a_count_of_what_there_is_would_give(
    events: list[tuple[int, NodeFacts | PodLoad | None]], needs: list[PodRequest]
) -> None:
    of, nodes, pods = played(events, needs)
    assert of.capacity(needs) == index(*pods.values(), *nodes.values()).capacity(needs)


@settings(max_examples=300, deadline=None)
@given(events_strategy, st.lists(needs_strategy, min_size=1, max_size=3), st.booleans())
def test_counting_alike_nodes_together_hides_nothing_from_the_needs(
    events: list[tuple[int, NodeFacts | PodLoad | None]], needs: list[PodRequest], soon: bool
) -> None:
    of, nodes, pods = played(events, needs)
    board = Board(of.capacity(needs), due_back=soon)
    for count, need in itertools.product((1, 2), needs):
        room = sum(holds(facts, pods.values(), need, soon=soon) for facts in nodes.values())
        assert (board.fits(((need, count),)) is None) == (room >= count)


def holds(facts: NodeFacts, pods: Any, need: PodRequest, *, soon: bool) -> int:
    """How many pods with this need the node takes, from everything that is known of it."""
    labels = {**facts.labels, NODE_NAME: facts.name}
    passes = [taint for taint in facts.taints if taint.key.startswith("node.kubernetes.io/")]
    taints = tuple(taint for taint in facts.taints if taint not in passes or not soon)
    if not accepts(need.where, NodeClass(tuple(labels.items()), taints)) or not (facts.ready or soon):
        return 0
    free = {name: amount - used(facts.name, pods, name, soon=soon) for name, amount in facts.allocatable.items()}
    if facts.allocatable[NPU] == 4:
        free[NPU] -= facts.faulty[NPU]
    return max(0, min(free[name] // amount for name, amount in need.requests))


def used(name: str, pods: Any, resource: str, *, soon: bool) -> int:
    here = [pod for pod in pods if pod.node == name and not pod.ended and not (soon and pod.terminating)]
    return sum(dict(pod.requests).get(resource, 0) for pod in here)


def test_needs_of_resources_that_are_spelt_alike_are_not_mixed_up() -> None:
    other: Mapping[str, int] = {"huawei.com/Ascend910B": 8, "pods": 10}
    of = index(node(), node("node-2", allocatable=other, capacity=other))
    capacity: Capacity = of.capacity([EIGHT])
    assert Board(capacity).fits(((EIGHT, 2),)) is not None
