"""The price of a decision: 3b.10c of the contract. Steps are counted, not timed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import is_

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scaler.decide.again import DecisionCache
from scaler.decide.decide import decide, decide_anew
from scaler.decide.decision import Admit, Decision, State
from scaler.decide.nodes import (
    Node,
    NodeClass,
    Nodes,
    PodRequest,
    Requirement,
    Room,
    Where,
)
from scaler.decide.room.classes import NodeIndex
from scaler.decide.room.invalidation import MOST_CLASSES
from scaler.decide.room.placement import Placement, Reservation
from scaler.decide.sharing.budget import (
    FEW,
    MOST_IN_ALL,
    MOST_UNLIKE,
    NOT_NOW,
    Budget,
    rounded_up,
    within_budget,
)
from scaler.decide.world import Service, ServiceKey, World
from scaler.reasons.reasons import Reason
from scaler.reasons.warnings import Warning
from tests.builders import NOW, Machine, instance, on_machines, rule
from tests.steps import calls_of

CPU = 64_000
ANYWHERE = Where()


def pod(cpu: int, where: Where = ANYWHERE) -> PodRequest:
    return PodRequest((("cpu", cpu), ("pods", 1)), where)


def only(label: str) -> Where:
    return Where(affinity=((Requirement("kind", "In", (label,)),),))


def apart(number: int) -> Where:
    """Another constraint for each number, which all nodes meet."""
    return Where(affinity=((Requirement("kind", "NotIn", (f"x{number}",)),),))


def service_of(
    namespace: str,
    requests: Sequence[PodRequest],
    *,
    minimum: int = 1,
    states: Sequence[State] = (),
    age: int = 0,
) -> Service:
    """One instance of one pod for each request."""
    found = []
    for number, request in enumerate(requests):
        state = states[number] if number < len(states) else State.HELD
        found.append(
            instance(
                f"p{number}",
                state,
                uid=f"{namespace}-{age}-{number}",
                created=NOW - 1000 - age + number,
                expected=1,
                requests=((request, 1),),
                unbound=((request, 1),),
            )
        )
    least = f" > {minimum}P" if minimum < len(requests) else ""
    key = ServiceKey(namespace, "rule", f"s{age}")
    return Service(key, tuple(found), rule(f"{len(requests)}P{least}"))


def world_of(*services: Service, nodes: int = 10, label: str = "") -> World:
    labels = {"kind": label} if label else {}
    empty = {"cpu": CPU, "pods": 110}
    names = [f"node-{number:03}" for number in range(nodes)]
    return on_machines(services, [Machine(name, labels, empty, empty) for name in names])


def unlike(number: int) -> list[PodRequest]:
    return [pod(8_000 + milli) for milli in range(number)]


def asked_of(service: Service) -> set[PodRequest]:
    asked: set[PodRequest] = set()
    for one in service.instances:
        asked.update([request for request, _ in one.unbound])
    return asked


def admitted(made: Decision) -> list[str]:
    found: list[str] = []
    for plan in made.plans:
        found += [action.uid for action in plan.actions if isinstance(action, Admit)]
    return found


def test_as_many_unlike_requests_as_a_namespace_may_have_are_left_as_they_are() -> None:
    """10c: a fixed number for each namespace."""
    services = [service_of(f"tenant-{n}", unlike(MOST_UNLIKE), age=n) for n in range(5)]
    world = world_of(*services)
    assert within_budget(world) is world


def test_where_the_cluster_has_too_many_those_with_the_most_have_fewer() -> None:
    """10c: 15 namespaces with 32 unlike requests each are rounded to 16 at most, which are not more
    than `MOST_IN_ALL`; one with 16 of its own stays as it is."""
    many = []
    for n in range(15):
        requests = [pod(8_000 + 100 * n + milli) for milli in range(MOST_UNLIKE)]
        many.append(service_of(f"tenant-{n:02}", requests, age=n))
    honest = service_of("honest", [pod(20_000 + milli) for milli in range(16)], age=99)
    world = world_of(*many, honest)
    after = within_budget(world)
    assert after.services[0] is honest
    numbers = [len(asked_of(service)) for service in after.services[1:]]
    assert max(numbers) <= 16
    assert 16 + sum(numbers) <= MOST_IN_ALL


def test_a_namespace_with_few_requests_is_never_rounded() -> None:
    """10c: however many namespaces have how many."""
    services = []
    for n in range(MOST_IN_ALL):
        requests = [pod(8_000 + 100 * n + milli, apart(milli)) for milli in range(FEW)]
        services.append(service_of(f"tenant-{n:03}", requests, age=n))
    many = service_of("z-many", unlike(MOST_UNLIKE), age=999)
    world = world_of(*services, many)
    after = within_budget(world)
    assert all(map(is_, world.services[:-1], after.services))
    assert len(asked_of(after.services[-1])) <= FEW


def test_equal_requests_of_many_namespaces_count_once_in_the_cluster() -> None:
    services = [service_of(f"tenant-{n:02}", unlike(MOST_UNLIKE), age=n) for n in range(40)]
    world = world_of(*services)
    assert within_budget(world) is world


def test_requests_beyond_the_budget_are_rounded_up_to_few() -> None:
    """10c: a minimum is placed with its requests rounded up to few classes."""
    world = world_of(service_of("tenant", unlike(300)[::-1]))
    (before,) = world.services
    (after,) = within_budget(world).services
    assert len(asked_of(after)) <= MOST_UNLIKE
    for one, other in zip(before.instances, after.instances, strict=True):
        assert one.requests == other.requests, "what people wrote stays as it is"
        assert amounts_of(one.unbound[0][0]) <= amounts_of(other.unbound[0][0])


def amounts_of(request: PodRequest) -> tuple[int, ...]:
    return tuple(amount for _, amount in request.requests)


def test_a_tenant_with_many_unlike_requests_costs_himself_alone() -> None:
    """10c: the careful answer holds for that namespace alone."""
    honest = service_of("honest", [pod(7_000), pod(7_001)], age=5)
    world = world_of(honest, service_of("many", unlike(300)))
    after = within_budget(world)
    assert after.services[0] is honest
    assert after.services[1] is not world.services[1]


def test_the_services_of_one_namespace_share_its_budget() -> None:
    services = [service_of("tenant", [pod(8_000 + n)], age=n) for n in range(100)]
    after = within_budget(world_of(*services))
    assert len(set().union(*map(asked_of, after.services))) <= MOST_UNLIKE


def test_pods_that_have_a_node_do_not_count() -> None:
    one = service_of("tenant", unlike(100))
    instances = [replace(each, unbound=()) for each in one.instances[1:]]
    world = world_of(replace(one, instances=(one.instances[0], *instances)))
    assert within_budget(world) is world


def test_who_is_rounded_says_so() -> None:
    """10c: what was cut says so."""
    made = decide(world_of(service_of("tenant", unlike(300)), service_of("other", [pod(1)])))
    other, tenant = made.plans
    said = [note.warning for note in tenant.notes]
    assert said.count(Warning.REQUESTS_ROUNDED) == 1
    assert Warning.REQUESTS_ROUNDED not in [note.warning for note in other.notes]
    assert made.tally is not None
    assert made.tally.rounded == 1


def test_a_minimum_of_unlike_requests_is_reserved_and_released_one_by_one() -> None:
    """10c: rounded up, it is placed all the same, where there is room for what it is counted as; a
    release goes one by one."""
    made = decide(world_of(service_of("tenant", unlike(60), minimum=60)))
    reasons = Counter(verdict.reason for verdict in made.plans[0].verdicts)
    assert reasons == {Reason.WAITING_FOR_SCHEDULER: 1, Reason.WAITING_FOR_ROOM: 59}


def test_a_minimum_that_fits_only_as_it_is_is_not_called_too_large_and_is_probed() -> None:
    """10c, 9: what was cut is probed. Rounded up, pods of 1 and of 32 CPUs with constraints of
    their own ask for 40 each."""
    requests = []
    for n in range(MOST_UNLIKE):
        requests += [pod(1_000, apart(n)), pod(CPU // 2, apart(n))]
    many = service_of("tenant", requests, minimum=len(requests))
    small = service_of("other", [pod(1_000)], age=7)
    world = world_of(many, small, nodes=20)
    made = decide(world)
    assert not admitted_of(made, "tenant")
    (plan,) = [plan for plan in made.plans if plan.key.namespace == "tenant"]
    assert {verdict.reason for verdict in plan.verdicts} == {Reason.MINIMUM_DOES_NOT_FIT}


def admitted_of(made: Decision, namespace: str) -> list[str]:
    return [uid for uid in admitted(made) if uid.startswith(namespace)]


def test_of_many_constraints_the_first_count_and_the_others_are_probed() -> None:
    """10c: what was cut waits for its turn; a minimum of it is tried after `fit_patience` (9)."""
    services = [
        service_of("tenant", [pod(100 + n, only(f"x{n}"))], age=1000 - n)
        for n in range(MOST_UNLIKE + 3)
    ]
    world = world_of(*services, label="x", nodes=3)
    after = within_budget(world)
    cut = []
    for one in after.services:
        (request,) = asked_of(one)
        if NOT_NOW in dict(request.requests):
            cut.append(one.key.job_id)
    last = sorted([f"s{1000 - n}" for n in range(MOST_UNLIKE, MOST_UNLIKE + 3)])
    assert sorted(cut) == last, "the newest"


def test_what_is_with_the_scheduler_has_its_turn_first() -> None:
    """10c: a choice stays while it fits, so constraints of admitted pods go before."""
    requests = [pod(100, only(f"x{n}")) for n in range(MOST_UNLIKE + 5)]
    states = [State.HELD] * (MOST_UNLIKE + 4) + [State.ADMITTED]
    (after,) = within_budget(world_of(service_of("tenant", requests, states=states))).services
    last = after.instances[-1].unbound[0][0]
    assert last == requests[-1]


amounts = st.integers(1, 1 << 20)
requests_strategy = st.builds(
    lambda cpu, memory, label: PodRequest(
        (("cpu", cpu), ("memory", memory), ("pods", 1)), only(label) if label else ANYWHERE
    ),
    amounts,
    amounts,
    st.sampled_from(("", "a", "b")),
)


many_unlike = st.lists(
    requests_strategy, min_size=MOST_UNLIKE + 1, max_size=2 * MOST_UNLIKE, unique=True
)


@given(many_unlike)
def test_rounding_gives_few_requests_and_takes_no_room_away(requests: list[PodRequest]) -> None:
    rounded = rounded_up(dict.fromkeys(requests, (True, 0.0, "")), MOST_UNLIKE)
    assert len(set(rounded.values())) <= MOST_UNLIKE
    for one, other in rounded.items():
        assert other.where == one.where
        largest = dict(other.requests)
        assert all(largest[name] >= amount for name, amount in one.requests)


@pytest.mark.parametrize("rounded", [False, True])
def test_a_pod_that_is_rounded_up_may_be_bound_where_it_seems_not_to_fit(rounded: bool) -> None:
    """10c, S9: node a has 4 free and 4 that end, which are reserved together; a pod of 6 does not
    fit there now, one that only counts as 6 may."""
    amounts = (8, 110)
    nodes = (
        Node("a", NodeClass(), amounts, (4, 109), ending=((NOW + 10, (4, 1)),)),
        Node("b", NodeClass(), amounts, (6, 110)),
    )
    placement = Placement(NodeIndex(Nodes(("cpu", "pods"), nodes)), now=NOW, due_back=300)
    six = ((replace(pod(6), rounded=rounded), 1),)
    assert isinstance(placement.reserve(((pod(8), 1),), Room.EXPECTED), Reservation)
    assert isinstance(placement.reserve(six), Reservation)
    assert placement.may_invalidate(six, (), own=False) is rounded


@pytest.mark.parametrize("more", [0, 1])
def test_beyond_so_many_unlike_reservations_the_answer_is_careful(more: int) -> None:
    """10c: where too many have reservations, it is not weighed what the scheduler may do to them: a
    scale-up waits."""
    room = (1_000_000, 100_000)
    nodes = (Node("a", NodeClass(), room, room),)
    placement = Placement(NodeIndex(Nodes(("cpu", "pods"), nodes)))
    for cpu in range(1, MOST_CLASSES + more + 1):
        assert isinstance(placement.reserve(((pod(cpu), 1),)), Reservation)
    assert placement.may_invalidate(((pod(1), 1),), ()) is bool(more)


def test_a_cache_rounds_the_same() -> None:
    """S5: what is kept changes nothing, while requests come, go and change."""
    cache = DecisionCache()
    sizes = (10, 60, 61, 300, 299, 20, 40)
    memory = world_of().memory
    for step, size in enumerate(sizes):
        services = [
            service_of("tenant", unlike(size), minimum=3),
            service_of("two", [pod(9_000)], age=1),
        ]
        if step % 2:
            services.append(service_of("three", unlike(50), age=2))
        world = replace(world_of(*services), memory=memory, now=NOW + step)
        made = decide(world, cache)
        assert made == decide_anew(world)
        memory = made.memory


def test_a_cache_counts_what_the_cluster_has_as_without() -> None:
    """S5: the number for a namespace depends on others, who come, change and go."""
    budget = Budget()
    for step, others in enumerate((10, 40, 41, 40, 3, 60)):
        services = []
        for n in range(others):
            first = 8_000 + 100 * n + step * (n % 3)
            requests = [pod(first + milli) for milli in range(20)]
            services.append(service_of(f"tenant-{n:02}", requests, age=n))
        world = world_of(*services)
        assert budget.within(world) == within_budget(world)


def test_a_service_is_rounded_anew_when_another_of_its_namespace_changed() -> None:
    """S5: the service is the same object, and what its requests are rounded up to is another."""
    budget = Budget()
    same = service_of("tenant", unlike(60))
    for cpu in (8_061, 8_063):
        world = world_of(same, service_of("tenant", [pod(cpu)], age=1))
        found = budget.within(world)
        assert found == within_budget(world)
        assert pod(cpu).requests in {request.requests for request in asked_of(found.services[0])}


@pytest.mark.parametrize("minimum", [1, 10_000])
def test_the_price_of_unlike_requests_grows_no_faster_than_their_number(minimum: int) -> None:
    """10c: four times as many unlike requests cost about four times the steps; squared, it would be
    16 times, cubed 64 times."""
    prices = []
    for number in (200, 800):
        world = world_of(service_of("tenant", unlike(number), minimum=minimum), nodes=number)
        prices.append(calls_of(lambda world=world: decide(world)))  # type: ignore[misc]
    assert prices[1] < 8 * prices[0]


def test_the_price_of_many_tenants_grows_little_faster_than_their_number() -> None:
    """10c: four times as many tenants with a request each cost less than ten times the steps;
    each asked about each other, it would be 16 times."""
    prices = []
    for number in (50, 200):
        services = [service_of(f"tenant-{n}", [pod(8_000 + n)], age=n) for n in range(number)]
        world = world_of(*services, nodes=number)
        prices.append(calls_of(lambda world=world: decide(world)))  # type: ignore[misc]
    assert prices[1] < 10 * prices[0]
