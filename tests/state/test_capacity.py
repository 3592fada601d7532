"""The index of free room: whatever happens in whatever order, it is what a count of everything
would give."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scaler.clock import Skew
from scaler.decide.nodes import (
    MOST_RETURNS,
    NODE_NAME,
    Node,
    NodeClass,
    Nodes,
    PodRequest,
    Requirement,
    Return,
    Taint,
    Where,
    accepts,
)
from scaler.informers.faults import faulty_devices
from scaler.informers.pods import ENDED, PodRecord, read_pod
from scaler.informers.records import NodeFacts
from scaler.state.capacity import CapacityIndex

NPU = "huawei.com/Ascend910"
ONE = PodRequest(((NPU, 1), ("pods", 1)))
EIGHT = PodRequest(((NPU, 8), ("pods", 1)))
AMOUNTS = {NPU: 8, "cpu": 64_000, "pods": 10}
SOON = 100.0


def node(name: str = "node-1", **facts: Any) -> NodeFacts:
    return NodeFacts(**{"name": name, "allocatable": AMOUNTS, "capacity": AMOUNTS, **facts})


def load(
    npus: int, node: str = "node-1", *, cpu: int = 0, deletion: float = 0.0, ended: bool = False
) -> PodRecord:
    asked = ((NPU, npus), ("cpu", cpu), ("pods", 1))
    requests = tuple((resource, amount) for resource, amount in asked if amount)
    phase = "Succeeded" if ended else "Running"
    return replace(
        read_pod({"metadata": {}}), node=node, requests=requests, deletion=deletion, phase=phase
    )


def index(*happened: NodeFacts | PodRecord) -> CapacityIndex:
    result = CapacityIndex()
    for new in happened:
        if isinstance(new, NodeFacts):
            result.node_changed(new.name, new)
        else:
            result.pod_changed(None, new)
    return result


def only(of: CapacityIndex, request: PodRequest = ONE) -> Node:
    (found,) = of.nodes([request]).nodes
    return found


def test_bound_pods_that_have_not_ended_take_room() -> None:
    assert only(index(node())).free == (8, 10)
    assert only(index(node(), load(2), load(4), load(1, ended=True), load(1, node=""))).free == (
        2,
        8,
    )


def test_room_of_terminating_pods_is_taken_and_told_by_when_they_should_be_gone() -> None:
    found = only(
        index(
            node(),
            load(1, deletion=SOON),
            load(1, deletion=SOON),
            load(2, deletion=SOON - 1, cpu=1),
            load(3),
        )
    )
    assert (found.free, found.ending) == ((1, 6), ((SOON - 1, (2, 1)), (SOON, (2, 2))))


def test_when_pods_should_be_gone_is_counted_by_the_clock_of_the_api_server() -> None:
    of = index(node(), load(1, deletion=SOON))
    assert only(of).ending == ((SOON, (1, 1)),)
    of.adjust(Skew(10.0, 30.0))
    assert only(of).ending == ((SOON - 30, (1, 1)),)
    of.pod_changed(load(1, deletion=SOON), None)
    assert only(of).ending == ()


@pytest.mark.parametrize("facts", [{"ready": False}, {"unschedulable": True}, {"unhealthy": True}])
def test_what_is_free_is_said_of_a_node_that_takes_no_pods_now_as_well(
    facts: dict[str, Any],
) -> None:
    found = only(index(node(**facts), load(4)))
    assert (found.schedulable, found.free, found.cordoned) == (
        False,
        (4, 9),
        "unschedulable" in facts,
    )


def test_a_pod_that_changes_is_counted_anew_and_one_that_goes_leaves_nothing() -> None:
    of = index(node(), load(4))
    of.pod_changed(load(4), load(4, deletion=SOON))
    assert only(of).ending == ((SOON, (4, 1)),)
    of.pod_changed(load(4, deletion=SOON), load(4, deletion=SOON - 5))
    assert only(of).ending == ((SOON - 5, (4, 1)),)
    of.pod_changed(load(4, deletion=SOON - 5), load(4, ended=True))
    assert (only(of).free, only(of).ending) == ((8, 10), ())
    of.pod_changed(load(4, ended=True), None)
    assert only(of).free == (8, 10)


def test_pods_may_be_seen_before_their_node_and_after_it() -> None:
    of = index(load(4))
    assert of.nodes([EIGHT]).nodes == ()
    of.node_changed("node-1", node())
    assert only(of).free == (4, 9)
    of.node_changed("node-1", None)
    of.pod_changed(load(4), None)
    assert of.nodes([EIGHT]).nodes == ()
    of.node_changed("node-1", node())
    assert only(of).free == (8, 10)


def test_an_overcommitted_node_has_less_than_nothing_free() -> None:
    of = index(node(), load(8), load(4))
    assert only(of).free == (-4, 8)
    of.pod_changed(load(4), None)
    assert only(of).free == (0, 9)


def test_faulty_devices_are_not_free_and_count_once() -> None:
    faulty = faulty_devices(["Ascend910-3", "Ascend910-7", "Ascend310P-0", "strange"])
    assert faulty == {NPU: 2, "huawei.com/Ascend310P": 1}
    assert only(index(node(faulty=faulty))).free == (6, 10)
    withdrawn = {**AMOUNTS, NPU: 6}
    found = only(index(node(faulty=faulty, allocatable=withdrawn)))
    assert (found.free, found.allocatable) == ((6, 10), (8, 10))
    assert only(index(node(faulty=faulty, allocatable=withdrawn, capacity={}))).free == (4, 10)


def test_taints_that_pass_are_kept_apart_from_those_that_stay() -> None:
    words = ("not-ready", "unreachable", "unschedulable", "memory-pressure")
    passing = tuple(Taint(f"node.kubernetes.io/{word}") for word in words)
    stays = Taint("npu", "x", "NoExecute")
    weak = Taint("slow", "", "PreferNoSchedule")
    found = only(index(node(taints=(*passing, stays, weak))))
    assert (found.passing, found.node_class.taints) == (passing[3:], (stays,))


def test_nodes_are_sorted_by_name_and_alike_ones_share_their_class() -> None:
    names = [f"node-{number}" for number in (3, 1, 20, 2)]
    of = index(*(node(name, labels={"kubernetes.io/hostname": name}) for name in names))
    found = of.nodes([EIGHT]).nodes
    assert [one.name for one in found] == sorted(names)
    assert len({id(one.node_class) for one in found}) == 1
    named = PodRequest(where=Where((("kubernetes.io/hostname", "node-2"),)))
    assert len({one.node_class for one in of.nodes([named]).nodes}) == 2


def test_what_has_not_changed_is_the_same_object() -> None:
    changed: list[str] = []
    of = CapacityIndex(on_change=lambda: changed.append("room"))
    for name in ("node-1", "node-2"):
        of.node_changed(name, node(name))
    of.pod_changed(None, load(4))
    before = of.nodes([EIGHT])
    changed.clear()
    of.node_changed("node-1", node())
    of.pod_changed(load(4), load(4))
    assert changed == []
    of.pod_changed(None, load(0, cpu=100))
    of.pod_changed(load(0, cpu=100), None)
    assert changed == ["room", "room"]
    assert of.nodes(frozenset([EIGHT])) is before
    of.pod_changed(None, load(4))
    after = of.nodes([EIGHT])
    assert [old is new for old, new in zip(before.nodes, after.nodes, strict=True)] == [False, True]


def test_amounts_that_nobody_asks_for_are_not_counted_and_others_in_whole_grains() -> None:
    of = index(node(), load(0, cpu=100), load(3))
    assert only(of, EIGHT).free == (0, 8)
    assert of.nodes([PodRequest((("cpu", 1000), ("pods", 1)))]).nodes[0].free == (63_000, 8)
    of.pod_changed(load(0, cpu=100), load(0, cpu=100, deletion=SOON))
    assert of.nodes([PodRequest((("cpu", 1000), ("pods", 1)))]).nodes[0].free == (63_900, 8)


def test_since_when_a_node_is_schedulable_or_not_is_when_that_was_first_seen() -> None:
    now = [10.0]
    of = CapacityIndex(lambda: now[0])
    of.node_changed("node-1", node())
    now[0] = 20.0
    of.node_changed("node-1", node(labels={"a": "b"}))
    assert only(of).since == 10.0
    of.node_changed("node-1", node(ready=False))
    now[0] = 30.0
    of.node_changed("node-1", node(ready=False, unschedulable=True))
    assert (only(of).since, only(of).schedulable) == (20.0, False)
    of.node_changed("node-1", node())
    assert only(of).since == 30.0
    now[0] = 40.0
    of.node_changed("node-1", None)
    of.node_changed("node-1", node())
    assert only(of).since == 40.0


def past(*happened: tuple[float, NodeFacts | None], request: PodRequest = ONE) -> Node:
    """The node after these facts, each at a time; the first of them stood in the first list."""
    now = [0.0]
    of = CapacityIndex(lambda: now[0])
    of.nodes([request])
    for number, (at, facts) in enumerate(happened):
        now[0] = at
        of.node_changed("node-1", facts, listed=number == 0)
    return only(of, request)


POOL = PodRequest(((NPU, 1), ("pods", 1)), Where((("pool", "a"),)))
WELL = node()
TAINTED = node(taints=(Taint("maintenance", "x"),))


def test_a_node_of_the_first_list_did_not_become_usable_and_a_later_one_did() -> None:
    assert past((5.0, WELL)).returns == ()
    assert past((5.0, node(ready=False)), (9.0, WELL)).returns == (Return(9.0, 4.0),)
    of = CapacityIndex(lambda: 7.0)
    of.node_changed("node-1", WELL)
    assert only(of).returns == (Return(7.0),)


@pytest.mark.parametrize("facts", [{"ready": False}, {"unschedulable": True}, {"unhealthy": True}])
def test_a_node_that_was_away_returns_after_so_many_seconds(facts: dict[str, Any]) -> None:
    found = past((5.0, WELL), (10.0, node(**facts)), (30.0, WELL))
    assert found.returns == (Return(30.0, 20.0),)
    still = past((5.0, WELL), (10.0, node(**facts)), (20.0, node(**facts, labels={"a": "b"})))
    assert still.returns == ()


def test_faulty_chips_are_away_since_the_fault_was_first_seen() -> None:
    one = node(faulty={NPU: 1})
    two = node(faulty={NPU: 2})
    withdrawn = node(allocatable={**AMOUNTS, NPU: 5})
    assert past((5.0, WELL), (10.0, one)).away == ((10.0, (1, 0)),)
    assert past((5.0, one), (10.0, two)).away == ((5.0, (1, 0)), (10.0, (1, 0)))
    assert past((5.0, WELL), (10.0, withdrawn)).away == ((10.0, (3, 0)),)
    assert past((5.0, one), (10.0, WELL)).away == ()
    # of several, the newest faults are over first
    assert past((5.0, one), (10.0, two), (15.0, one)).away == ((5.0, (1, 0)),)


def test_chips_that_heal_make_the_node_usable_unless_it_is_away_itself() -> None:
    one = node(faulty={NPU: 1})
    two = node(faulty={NPU: 2})
    assert past((5.0, WELL), (10.0, two), (30.0, one)).returns == (Return(30.0, 20.0),)
    assert past((5.0, one), (10.0, two), (30.0, one)).returns == (Return(30.0, 20.0),)
    cordoned = node(unschedulable=True)
    assert past((5.0, node(faulty={NPU: 2}, unschedulable=True)), (9.0, cordoned)).returns == ()
    # the device plugin of a new node comes later than its kubelet
    bare = node(allocatable={**AMOUNTS, NPU: 0}, capacity={**AMOUNTS, NPU: 0})
    assert past((5.0, bare), (9.0, WELL)).returns == (Return(9.0),)


def test_a_taint_or_a_label_that_goes_is_kept_with_what_the_node_was_before() -> None:
    before = past((5.0, TAINTED)).node_class
    assert past((5.0, TAINTED), (9.0, WELL)).returns == (Return(9.0, node_class=before),)
    pressed = node(taints=(Taint("node.kubernetes.io/memory-pressure"),))
    (found,) = past((5.0, pressed), (9.0, WELL)).returns
    assert (found.at, found.passing) == (9.0, pressed.taints)
    pool = node(labels={"pool": "a"})
    (found,) = past((5.0, WELL), (9.0, pool), request=POOL).returns
    assert (found.node_class, past((5.0, WELL), (9.0, pool)).returns) == (NodeClass(), ())
    # what keeps more pods off makes nothing usable, nor what the node says otherwise
    assert past((5.0, WELL), (9.0, TAINTED)).returns == ()
    not_ready = node(taints=(Taint("node.kubernetes.io/not-ready"),))
    assert past((5.0, not_ready), (9.0, WELL)).returns == ()


def test_returns_are_forgotten_when_a_node_leaves_after_an_hour() -> None:
    away = node(ready=False)
    quick = [(5.0, WELL), (10.0, away), (15.0, WELL), (20.0, away), (25.0, WELL)]
    assert past(*quick).returns == (Return(15.0, 5.0), Return(25.0, 5.0))
    soon = past(*quick, (3624.0, away), (3626.0, WELL))
    assert [one.at for one in soon.returns] == [15.0, 25.0, 3626.0]
    late = past(*quick, (3625.0, away), (3626.0, WELL))
    assert [one.at for one in late.returns] == [3626.0]
    assert past(*quick, (3625.0, node(faulty={NPU: 1}))).returns == ()


def test_what_a_node_has_done_is_kept_for_an_hour_after_it_has_gone() -> None:
    quick = [(5.0, WELL), (10.0, node(ready=False)), (15.0, WELL), (20.0, None)]
    again = past(*quick, (3000.0, WELL))
    assert [one.at for one in again.returns] == [15.0, 3000.0]
    now = [0.0]
    of = CapacityIndex(lambda: now[0])
    for hour in range(1, 50):
        now[0] = 3600.0 * hour
        of.node_changed(f"node-{hour}", WELL)
        of.node_changed(f"node-{hour}", None)
    assert list(of._gone) == ["node-49"]


def test_what_a_node_did_is_kept_while_it_does_not_exist_and_there_is_a_limit() -> None:
    remade = past((5.0, WELL), (10.0, node(ready=False)), (15.0, WELL), (20.0, None), (25.0, WELL))
    assert [one.at for one in remade.returns] == [15.0, 25.0]
    flaps: list[tuple[float, NodeFacts | None]] = []
    for number in range(200):
        flaps += [(2.0 * number, node(ready=False)), (2.0 * number + 1, WELL)]
    found = past(*flaps).returns
    assert (len(found), found[-1].at) == (MOST_RETURNS, 399.0)


def test_going_of_a_pod_that_was_never_told_of_does_no_harm() -> None:
    of = index(node())
    of.pod_changed(load(4), None)
    of.node_changed("node-2", None)
    assert only(of).free == (12, 11)


# Against counting everything anew

LABELS = [{}, {"type": "a"}, {"type": "b", "gen": "3"}, {"type": "c", "gen": "x"}]
TAINTS = [(), (Taint("npu"),), (Taint("node.kubernetes.io/disk-pressure"),)]
WHERES = [
    Where(),
    Where((("type", "a"),)),
    Where(affinity=((Requirement("type", "NotIn", ("b",)),), (Requirement("gen", "Gt", ("2",)),))),
    Where(((NODE_NAME, "node-1"),)),
]
requests_strategy = st.builds(
    lambda npus, cpu, where: PodRequest(
        tuple(
            (name, amount) for name, amount in ((NPU, npus), ("cpu", cpu), ("pods", 1)) if amount
        ),
        where,
    ),
    st.integers(0, 4),
    st.sampled_from([0, 500, 750, 1000]),
    st.sampled_from(WHERES),
)
facts_strategy = st.builds(
    lambda name, npus, cpu, labels, taints, ready, faulty: NodeFacts(
        name,
        labels,
        taints,
        {NPU: npus, "cpu": cpu, "pods": 4},
        {NPU: 4},
        ready,
        faulty={NPU: faulty},
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
    lambda npus, name, cpu, deletion, ended: load(
        npus, name, cpu=cpu, deletion=deletion, ended=ended
    ),
    st.integers(0, 2),
    st.sampled_from(["", "node-1", "node-2", "node-3"]),
    st.integers(0, 1200),
    st.sampled_from([0.0, 0.0, 10.0, 20.0]),
    st.just(False) | st.booleans(),
)
events_strategy = st.lists(
    st.tuples(st.integers(0, 4), facts_strategy | loads_strategy | st.none()),
    min_size=1,
    max_size=12,
)


def played(
    events: list[tuple[int, NodeFacts | PodRecord | None]], requests: list[PodRequest]
) -> tuple[CapacityIndex, dict[str, NodeFacts], dict[int, PodRecord]]:
    """An index that saw all of it, and what there is in the end. None: the pod of that number
    goes."""
    of = CapacityIndex()
    nodes = dict[str, NodeFacts]()
    pods = dict[int, PodRecord]()
    for at, (number, new) in enumerate(events):
        if at % 3 == 0:
            of.nodes(requests[: at % 2 + 1])
        if isinstance(new, NodeFacts):
            of.node_changed(new.name, new)
            nodes[new.name] = new
        else:
            of.pod_changed(pods.pop(number, None), new)
            if new is not None:
                pods[number] = new
    return of, nodes, pods


@settings(max_examples=300, deadline=None)
@given(events_strategy, st.lists(requests_strategy, min_size=1, max_size=3))
def test_the_index_is_what_a_count_of_what_there_is_would_give(
    events: list[tuple[int, NodeFacts | PodRecord | None]], requests: list[PodRequest]
) -> None:
    of, nodes, pods = played(events, requests)
    counted = index(*pods.values(), *nodes.values()).nodes(requests)
    assert without_past(of.nodes(requests)) == without_past(counted)


def without_past(nodes: Nodes) -> list[Node]:
    """The nodes without their returns, and with the faulty chips of each in one sum."""
    known = []
    for one in nodes.nodes:
        amounts = [each for _, each in one.away]
        faulty = tuple([sum(each) for each in zip(*amounts, strict=True)])
        known.append(replace(one, returns=(), away=((0.0, faulty),)))
    return known


@settings(max_examples=300, deadline=None)
@given(events_strategy, st.lists(requests_strategy, min_size=1, max_size=3), st.booleans())
def test_nothing_is_hidden_from_the_requests(
    events: list[tuple[int, NodeFacts | PodRecord | None]], requests: list[PodRequest], soon: bool
) -> None:
    of, nodes, pods = played(events, requests)
    found = of.nodes(requests)
    for request in requests:
        for one in found.nodes:
            expected = holds(nodes[one.name], pods.values(), request, soon=soon)
            assert takes(one, found.resources, request, soon=soon) == expected


def takes(node: Node, resources: tuple[str, ...], request: PodRequest, *, soon: bool) -> int:
    """How many such pods the value says that there is room for."""
    if (
        not accepts(request.where, node.node_class)
        or not (node.ready or soon)
        or (node.passing and not soon)
    ):
        return 0
    room = dict(zip(resources, node.free, strict=True))
    for _, amounts in node.ending if soon else ():
        room = {name: room[name] + more for name, more in zip(resources, amounts, strict=True)}
    return max(0, min(room[name] // amount for name, amount in request.requests))


def holds(facts: NodeFacts, pods: Iterable[PodRecord], request: PodRequest, *, soon: bool) -> int:
    """The same, from everything that is known of the node."""
    labels = {**facts.labels, NODE_NAME: facts.name}
    passes = [taint for taint in facts.taints if taint.key.startswith("node.kubernetes.io/")]
    taints = tuple(taint for taint in facts.taints if taint not in passes)
    if not accepts(request.where, NodeClass(tuple(labels.items()), taints)) or not (
        facts.ready or soon
    ):
        return 0
    if passes and not soon:
        return 0
    free = {
        name: amount - used(facts.name, pods, name, soon=soon)
        for name, amount in facts.allocatable.items()
    }
    if facts.allocatable[NPU] == 4:
        free[NPU] -= facts.faulty[NPU]
    return max(0, min(free[name] // amount for name, amount in request.requests))


def used(name: str, pods: Iterable[PodRecord], resource: str, *, soon: bool) -> int:
    here = [
        pod
        for pod in pods
        if pod.node == name and pod.phase not in ENDED and not (soon and pod.deletion)
    ]
    return sum(dict(pod.requests).get(resource, 0) for pod in here)
