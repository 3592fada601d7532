"""The fit can be wrong: what fits nowhere is tried now and then: 3b.9 of the contract."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from scaler.decide.decide import decide, decide_anew
from scaler.decide.memory import Memory, ServiceMemory
from scaler.decide.nodes import Nodes, PodRequest
from scaler.decide.world import Service
from scaler.reasons.reasons import Reason
from tests.builders import NOW, Story, doings, nodes_for, on_nodes, reasons, world

SCATTERED = "a:8x3, a2 used 8"
"""Room for 6 + 6 + 4 in sum, and no placement."""


class Scattered:
    """Two services with jobs of 6, 6 and 4 devices each; nothing is ever bound."""

    def __init__(self, nodes: str) -> None:
        self.story = Story(nodes)
        self.admitted: set[str] = set()

    def service(self, name: str, age: int) -> Service:
        where = "unbound" if name in self.admitted else "held"
        words = f"p0:6 {where}, p1:6 {where}, d0:4 {where}"
        return on_nodes("2P1D", words, name=name, age=age)

    def at(self, time: float) -> dict[str, str]:
        """What is done to all jobs of a service alike."""
        made = self.story.at(time, self.service("a", 9), self.service("b", 0))
        of_service = {uid[0]: doing for uid, doing in made.items()}
        assert len(made) == 3 * len(of_service)
        self.admitted |= {name for name, doing in of_service.items() if doing == "Admit"}
        self.admitted -= {name for name, doing in of_service.items() if doing == "Revoke"}
        return of_service


def test_what_fits_nowhere_is_tried_after_a_minute_one_at_a_time_and_not_for_long() -> None:
    nodes = Scattered(SCATTERED)
    assert [nodes.at(time) for time in (0, 59.9)] == [{}, {}]
    assert nodes.at(60) == {"a": "Admit"}
    assert nodes.at(89.9) == {}, "one probe at a time"
    made = nodes.at(90)
    made |= nodes.at(90.1)
    assert made == {"a": "Revoke", "b": "Admit"}
    assert nodes.at(120.1) == {"b": "Revoke"}


def test_each_probe_in_vain_makes_the_next_one_rarer_up_to_an_hour() -> None:
    nodes = Scattered(SCATTERED)
    tried = []
    time = 0.0
    while time < 20_000:
        if nodes.at(time).get("a") == "Admit":
            tried.append(time)
        time = max(time + 0.5, nodes.story.recheck_in)
    gaps = [after - before for before, after in pairwise(tried)]
    assert gaps[0] >= 120
    assert sorted(gaps) == gaps
    assert max(gaps) <= 3600 + 200


def test_nothing_is_tried_where_not_even_the_sum_would_do() -> None:
    nodes = Scattered("a:8x3, a0 used 1, a2 used 8")
    assert [nodes.at(time) for time in (0, 100, 10_000)] == [{}, {}, {}]


def test_what_no_whole_pod_can_take_is_in_no_sum() -> None:
    """3b.9a: of 8, 8, 8, 7 and 4 free devices four pods of 8 could never be bound."""
    minimum = on_nodes("1P1D", "p0 held 2, d0 held 2", name="a")
    other = on_nodes("1P", "p0 on b0", name="b")
    story = Story("a:8x5 b:8, a3 used 1, a4 used 4")
    assert [story.at(time, minimum, other) for time in (0, 60, 10_000)] == [{}, {}, {}]
    assert story.reasons["a-p0"] == "MinimumDoesNotFit"


def test_what_others_have_with_the_scheduler_is_not_revoked_for_a_probe() -> None:
    climbs = on_nodes("2P > 1P", "p0:4 on a0, p1:4 unbound", name="a")
    minimum = on_nodes("1P", "p0 held", name="b")
    story = Story("a:8x3, a0 used 4, a1 used 4, a2 used 4", fit_patience=10)
    assert not any("a-p1" in story.at(time, climbs, minimum) for time in (0, 10, 20))


@pytest.mark.parametrize("amount", [7, 8])
def test_what_is_probed_has_no_reservation_whatever_was_asked_before(amount: int) -> None:
    """3b.9a: it "is released without a reservation". The older service comes before it and finds
    no room. The younger one comes after it and gets the room, also where it asks for as much as the
    older one did."""
    probed = on_nodes("1P1D", "p0@a unbound, d0@b held", name="b")
    stays = msgspec.structs.replace(probed.instances[0], unheld=1)
    probed = msgspec.structs.replace(probed, instances=(stays, probed.instances[1]))
    older = on_nodes("1P", "p0@a held", name="a")
    younger = on_nodes("1P", f"p0@a:{amount} held", name="c")
    serves = on_nodes("1P", "p0@b on b0", name="d")
    probe = ServiceMemory(ended_at=NOW - 200, fits_nowhere_since=NOW - 100, probe_began=NOW - 5)
    memory = {str(probed.key): probe, str(younger.key): ServiceMemory(ended_at=NOW - 100)}
    now = world(older, probed, younger, serves, nodes="a:8 b:8", memory=Memory(memory))
    assert doings(decide(now)) == {"b-d0": "Admit", "c-p0": "Admit"}


KEPT_BY_A_PLUGIN = "x/npu-memory"
"""A resource that no node offers: a plugin of the scheduler keeps account of it by itself."""


def _with_memory(service: Service) -> Service:
    """The service with 8192 of that resource in the request of each pod."""
    found = []
    for one in service.instances:
        pods = tuple([(_more(request), number) for request, number in one.requests])
        unbound = tuple([(_more(request), number) for request, number in one.unbound])
        found.append(msgspec.structs.replace(one, requests=pods, unbound=unbound))
    return msgspec.structs.replace(service, instances=tuple(found))


def _more(request: PodRequest) -> PodRequest:
    amounts = tuple(sorted([*request.requests, (KEPT_BY_A_PLUGIN, 8192)]))
    return msgspec.structs.replace(request, requests=amounts)


def _offering_none(text: str) -> Nodes:
    """These nodes, compared by a resource more, of which none of them has anything."""
    nodes = nodes_for(text)
    found = []
    for node in nodes.nodes:
        changed = msgspec.structs.replace(
            node, allocatable=(*node.allocatable, 0), free=(*node.free, 0)
        )
        found.append(changed)
    return Nodes((*nodes.resources, KEPT_BY_A_PLUGIN), tuple(found))


def test_a_resource_that_no_node_offers_is_not_too_large_and_is_probed() -> None:
    """3b.1f: "Where it would not fit for a resource that no node offers at all, it is not
    understood rather than too large: a probe (9) tries it." 3b.9a: the sum leaves it out."""
    shared = _with_memory(on_nodes("1P1D", "p0:1 held, d0:1 held", name="a"))
    serves = on_nodes("1P", "p0:1 on a0", name="b")
    nodes = _offering_none("a:8, a0 used 1")
    first = decide(world(shared, serves, nodes=nodes))
    assert reasons(first)["a-p0"] is Reason.MINIMUM_DOES_NOT_FIT
    assert first.recheck_at == NOW + 60
    assert f"{KEPT_BY_A_PLUGIN}, and no node offers it" in str(first.plans[0].verdicts)
    later = decide(world(shared, serves, nodes=nodes, memory=first.memory, now=NOW + 60))
    assert doings(later) == {"a-p0": "Admit", "a-d0": "Admit"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a:8, a0 used 7", Reason.MINIMUM_DOES_NOT_FIT),
        ("a:1", Reason.MINIMUM_TOO_LARGE),
    ],
)
def test_beside_a_resource_that_no_node_offers_the_others_count(text: str, reason: Reason) -> None:
    """3b.1f, 3b.9a: what nodes offer is understood: no probe where its sum does not suffice."""
    shared = _with_memory(on_nodes("1P1D", "p0:1 held, d0:1 held", name="a"))
    other = on_nodes("1P", "p0:1 held", name="b")
    nodes = _offering_none(text)
    memory = Memory({str(shared.key): ServiceMemory(fits_nowhere_since=NOW - 100)})
    made = decide(world(shared, other, nodes=nodes, memory=memory))
    assert doings(made) == {"b-p0": "Admit"}
    assert reasons(made)["a-p0"] is reason


def _climbs(text: str) -> Service:
    return _with_memory(on_nodes("2P > 1P", text, name="a", age=9))


SERVING = on_nodes("1P", "p0:1 on a0", name="b")


def test_a_scale_up_that_needs_what_no_node_offers_goes_where_the_rest_fits() -> None:
    """3b.7b: "one that fits into the remainder is admitted": what no node offers is not understood,
    and counts as fitting. It waited for ever."""
    held = _climbs("p0:1 on a0, p1:1 held")
    assert doings(decide(world(held, SERVING, nodes=_offering_none("a:3, a0 used 2")))) == {
        "a-p1": "Admit"
    }
    made = decide(world(held, SERVING, nodes=_offering_none("a:2, a0 used 2")))
    assert doings(made) == {}
    assert "0 free; with 1 free x/npu" in str(made.plans[0].verdicts)
    assert KEPT_BY_A_PLUGIN not in str(made.plans[0].verdicts)


@pytest.mark.parametrize(("size", "doing"), [(3, {}), (2, {"a-p1": "Revoke"})])
def test_a_scale_up_with_the_scheduler_stays_where_the_rest_fits(
    size: int, doing: dict[str, str]
) -> None:
    """3b.7b: "the same predicate for both"."""
    climbs = _climbs("p0:1 on a0, p1:1 unbound")
    nodes = _offering_none(f"a:{size}, a0 used 2")
    assert doings(decide(world(climbs, SERVING, nodes=nodes))) == doing


def test_what_no_node_offers_ends_in_an_attempt_and_a_backoff_like_the_rest() -> None:
    """3b.7c: "each has an attempt and a backoff of its own": the scheduler binds none of it, and
    another scale-up waits for its room."""
    story = Story(_offering_none("a:3, a0 used 2"))
    climbs = _climbs("p0:1 on a0, p1:1 unbound")
    other = on_nodes("2P > 1P", "p0:1 on a0, p1:1 held", name="b")
    assert story.at(0, climbs, other) == {}
    assert story.at(29, climbs, other, bound=True) == {}
    assert story.at(30, climbs, other) == {"a-p1": "Revoke"}
    held = _climbs("p0:1 on a0, p1:1 held")
    assert story.at(31, held, other) == {"b-p1": "Admit"}


def test_a_reservation_is_safe_from_a_scale_up_that_needs_what_no_node_offers() -> None:
    """3b.7b: it "cannot invalidate a reservation", whatever else it needs."""
    minimum = on_nodes("1P", "p0:2 held", name="c")
    climbs = _climbs("p0:1 on a0, p1:1 held")
    nodes = _offering_none("a:3, a0 used 1")
    assert doings(decide(world(climbs, minimum, nodes=nodes))) == {"c-p0": "Admit"}
    roomy = _offering_none("a:5, a0 used 1")
    assert doings(decide(world(climbs, minimum, nodes=roomy))) == {
        "a-p1": "Admit",
        "c-p0": "Admit",
    }


def test_a_minimum_that_waits_for_its_first_probe_goes_before_scale_ups_of_its_kind() -> None:
    """3b.7b: of two free devices a scale-up takes none while a minimum that needs both, and the
    resource that no node offers as well, waits for its first probe. After that it is free."""
    climbs = _climbs("p0:1 on a0, p1:1 held")
    waits = _with_memory(on_nodes("1P1D", "p0:1 held, d0:1 held", name="c"))
    nodes = _offering_none("a:3, a0 used 1")
    first = decide(world(climbs, waits, nodes=nodes))
    assert doings(first) == {}
    assert "first this minimum is tried: default/rule-c" in str(first.plans[0].verdicts)
    later = decide(world(climbs, waits, nodes=nodes, memory=first.memory, now=NOW + 60))
    assert doings(later) == {"c-p0": "Admit", "c-d0": "Admit"}
    tried = Memory({str(waits.key): ServiceMemory(probes=1, fits_nowhere_since=NOW - 10)})
    assert doings(decide(world(climbs, waits, nodes=nodes, memory=tried))) == {"a-p1": "Admit"}
    long = Memory({str(climbs.key): ServiceMemory(waiting_since=NOW - 300)})
    assert doings(decide(world(climbs, waits, nodes=nodes, memory=long))) == {"a-p1": "Admit"}
    roomy = _offering_none("a:4, a0 used 1")
    assert doings(decide(world(climbs, waits, nodes=roomy))) == {"a-p1": "Admit"}


def test_a_cache_changes_no_answer_about_what_no_node_offers() -> None:
    """S5: of two services that ask for the same, one has waited and passes the minimum."""
    waits = _with_memory(on_nodes("1P1D", "p0:1 held, d0:1 held", name="c"))
    older = _climbs("p0:1 on a0, p1:1 held")
    younger = _with_memory(on_nodes("2P > 1P", "p0:1 on a0, p1:1 held", name="b"))
    nodes = _offering_none("a:5, a0 used 2")
    for waited in (older, younger):
        memory = Memory({str(waited.key): ServiceMemory(waiting_since=NOW - 300)})
        now = world(older, younger, waits, nodes=nodes, memory=memory)
        assert decide(now) == decide_anew(now)
        assert list(doings(decide(now)).values()) == ["Admit"]


# a pool that grows


@pytest.mark.parametrize(
    ("text", "nodes", "pods"),
    [
        ("p0 held, d0 held", "a:8x2, a0 used 8", 2),
        ("p0 held, d0 held", "a:8", 2),
        ("p0 on a0, d0 held", "a:8x2, a1 used 4", 1),
        ("p0 held, d0 held", "a:8x2", 0),
        ("p0 held", "a:8", 0),
    ],
)
def test_a_held_minimum_without_room_says_what_a_pool_would_have_to_hold(
    text: str, nodes: str, pods: int
) -> None:
    """3b.9b: "a minimum that has not fitted for fit_patience, MinimumTooLarge included, asks for
    its room". One that has room, or too few jobs, asks for nothing."""
    waits = on_nodes("1P1D", text, name="a", age=9)
    other = on_nodes("1P", "p0 held 3", name="b")
    made = decide(world(waits, other, nodes=nodes))
    assert sum(number for _, number in made.plans[0].unplaced) == pods


def test_pods_of_a_service_that_is_alone_are_seen_by_themselves() -> None:
    """3b.8: they are admitted whether they fit or not."""
    made = decide(world(on_nodes("1P1D", "p0 held, d0 held"), nodes="a:8"))
    assert set(doings(made).values()) == {"Admit"}
    assert made.plans[0].unplaced == ()
