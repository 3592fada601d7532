"""All small worlds up to a bound, each state once; larger bounds: `make explore`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise, product

import pytest

from scaler.decide.minimums.parties import NOT_WAITING, Part, look_at
from scaler.decide.world import Action
from tests.decide.arbitration import timed
from tests.decide.arbitration.catalogue import Bound, Form, Make, before, forms, ladders, mirrored, plain, strata
from tests.decide.arbitration.census import Count, census, clusters
from tests.decide.arbitration.view import PLAIN, Setting, decided
from tests.decide.arbitration.world import State, World, world

ALWAYS = {
    "one kind of nodes": (Bound(pods=3), 852),
    "two kinds of nodes": (Bound(pods=2, kinds=2), 540),
    "ratios of one": (Bound(pods=4, counts=1, sizes=(1,), either_way=True), 432),
    "with time": (Bound(pods=2, timed=True), 224),
    "with probes": (Bound(pods=2, sizes=(1,), timed=True, blurred=True), 212),
}
"""And how many worlds there are on the same nodes."""

PLACES = [(name, nodes) for name, (bound, _) in ALWAYS.items() for nodes in clusters(bound)]


@pytest.mark.parametrize(("name", "nodes"), PLACES)
def test_every_state_of_every_world_within_the_bound_is_as_it_should_be(name: str, nodes: tuple[int, ...]) -> None:
    bound, worlds = ALWAYS[name]
    found = census(nodes, bound)
    assert found == Count(worlds, found.states, complete=bound.pods)


LADDER = "2P1D > 1P1D: p p d"
LARGER = {
    "a minimum that is never bound": (world((3,), "1P: p", LADDER, faults=1), {0}),
    "a larger one": (world((4,), "1P: p2", LADDER, faults=1), {0}),
    "two that are never bound": (world((4,), "1P: p", LADDER, "1P: p", faults=1), {0, 2}),
    "the younger one is never bound": (world((4,), LADDER, LADDER, faults=1), {1}),
    "a trade alone": (world((3,), LADDER, faults=1), set[int]()),
    "a trade of two": (world((4,), "3P1D > 1P1D: p p p d2", faults=1), set[int]()),
    "a trade beside others": (world((4,), LADDER, LADDER, faults=1), set[int]()),
    "a trade beside one that is never bound": (world((4,), "1P: p", "2P1D > 1P1D: p p d", faults=1), {0}),
    "a trade that would be in vain": (world((2, 1), "2P1D > 1P1D: p@0 p@0 d@1", faults=1), set[int]()),
    "a trade for a node of one kind": (world((2, 1), "2P1D > 1P1D: p p d@1", "1P: p", faults=1), set[int]()),
    "a late decode": (world((3,), LADDER, "1P: p", late=("0.d0",), faults=1), {1}),
}  # fmt: skip


@pytest.mark.parametrize("setting", [PLAIN, Setting(blurred=True)], ids=["", "nothing seems to fit"])
@pytest.mark.parametrize(("w", "never"), LARGER.values(), ids=LARGER)
def test_with_time_every_order_of_events_ends_well(w: World, never: set[int], setting: Setting) -> None:
    assert timed.explore(w, frozenset(never), setting, most=20_000).wrong == []


def test_the_ladders_are_all_there_are() -> None:
    ratios = [ratio for ratio in product(range(3), repeat=2) if any(ratio)]
    every = {
        chosen
        for number in (1, 2, 3)
        for chosen in product(ratios, repeat=number)
        if all(a != b and a[0] >= b[0] and a[1] >= b[1] for a, b in pairwise(chosen))
    }
    found = list(ladders(2, 3))
    assert set(found) == every
    assert len(found) == len(every) == 45


@pytest.mark.parametrize("bound", [Bound(pods=3), Bound(pods=3, kinds=2, either_way=True)])
def test_every_world_less_its_last_job_is_one_that_was_visited_before(bound: Bound) -> None:
    known = {pods: set(strata(bound, pods)) for pods in range(bound.pods + 1)}
    for stratum in known[bound.pods]:
        less = [stratum for _, stratum in before(stratum, bound)]
        assert less
        assert all(each in known[sum(form.pods for form in each)] for each in less)


def test_services_that_count_as_one_are_the_same_to_the_arbiter_whatever_their_pods_do() -> None:
    """Ratios that need more jobs than there are, and how many more the smallest one wants, make no difference."""
    seen = 0
    for ratios, jobs in product(ladders(2, 3), ("p", "pp", "pd", "dp", "ppd", "pdp", "pddp")):
        form = Form(ratios, (Make(), Make()), jobs)
        if plain(form).ratios != ratios:
            for pods in product((-1, -2, 0), repeat=len(jobs)):
                seen += 1
                assert _sight(form, pods) == _sight(plain(form), pods)
    assert seen > 2000


def _sight(form: Form, pods: tuple[int, ...]) -> object:
    """All that the arbiter goes by."""
    w = world((1,), str(form))
    found = decided(0, w.ladders[0], w.jobs, tuple((pod,) for pod in pods), 1, PLAIN)
    assert found is not None
    party = look_at(*found, NOT_WAITING)
    minimum = party.minimum and (_by_uid(party.minimum.parts), bool(party.minimum.lacking), party.minimum.bound)
    return _by_uid(found[1].actions), party.serves, minimum, party.climbs, party.vanishing


def _by_uid(those: Iterable[Part | Action]) -> list[Part | Action]:
    """Their order is that of the groups in the rule."""
    return sorted(those, key=lambda one: one.uid)


def test_prefill_and_decode_exchanged_are_one_service_where_that_is_asked_for() -> None:
    both, one = forms(Bound(pods=3)), forms(Bound(pods=3, either_way=True))
    for pods, those in both.items():
        assert {min(form, plain(mirrored(form)), key=repr) for form in those} == set(one[pods])


def test_what_a_world_says_of_itself_can_be_played_again() -> None:
    (form,) = (each for each in forms(Bound(pods=3))[3] if str(each) == "1P1D: p2 d")
    w = world((2,), str(form))
    assert [(job.group, job.pods) for job in w.jobs] == [("p", 2), ("d", 1)]
    assert State(w.nodes, (0,), ((-1, -1), (-1,)), 0).up == (2,)
