"""What the month's bench rests on: the bound is exact, minutes are counted right, one seed gives
one month, and the lean cluster behaves as the simulated API server does."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import combinations

import pytest

from scaler.decide.decision import Decision, Plan, State, Verdict
from scaler.decide.memory import Evictions, Memory, ServiceMemory
from scaler.decide.world import ServiceKey, World
from scaler.reasons.reasons import Reason
from scaler.sim.actors.nodes import NodeSpec
from tests.bench.availability import study
from tests.bench.availability.arms import Arm
from tests.bench.availability.lean import Lean, play_lean
from tests.bench.availability.minutes import (
    EVICTION_PAUSE,
    FAULT,
    START,
    TRADE_AFTER,
    Job,
    Pod,
    Reasons,
    Witness,
)
from tests.bench.availability.month import (
    A2,
    A3,
    KIND,
    MAKES,
    Happening,
    Make,
    Month,
    Service,
    What,
    month,
)
from tests.bench.availability.packing import ANY, Need, fits, most, need_of, places_of
from tests.bench.availability.planner import is_safe
from tests.bench.availability.play import play
from tests.bench.bench_availability import main

Free = Sequence[tuple[str, int]]
"""Class and free chips of each node."""


def fits_by_trying(free: Free, pods: Sequence[tuple[str, int]]) -> bool:
    """Each pod on each node."""
    if not pods:
        return True
    (kind, chips), *rest = pods
    for index, (other, left) in enumerate(free):
        if kind in (ANY, other) and chips <= left:
            after = [*free[:index], (other, left - chips), *free[index + 1 :]]
            if fits_by_trying(after, rest):
                return True
    return False


def listed(needs: Sequence[Need]) -> list[tuple[str, int]]:
    """The pods of these needs, the largest first."""
    pods = []
    for need in needs:
        for pod, number in need:
            pods += [pod] * number
    return sorted(pods, key=lambda pod: -pod[1])


def drawn_pods(dice: random.Random, most_pods: int) -> list[tuple[str, int]]:
    kinds = dice.choices(("a", "b", ANY), k=dice.randint(1, most_pods))
    return [(kind, dice.choice((1, 2, 4, 8))) for kind in kinds]


def drawn_nodes(dice: random.Random) -> list[tuple[str, int]]:
    return [(dice.choice("ab"), dice.randint(0, 8)) for _ in range(dice.randint(1, 4))]


@pytest.mark.parametrize("seed", range(4))
def test_what_fits_is_what_trying_everything_finds(seed: int) -> None:
    dice = random.Random(seed)
    found = set()
    for _ in range(150):
        free = drawn_nodes(dice)
        pods = drawn_pods(dice, 6)
        answer = fits(places_of(free), need_of(pods))
        assert answer == fits_by_trying(free, sorted(pods, key=lambda pod: -pod[1])), (free, pods)
        found.add(answer)
    assert found == {True, False}


@pytest.mark.parametrize("seed", range(4))
def test_the_most_services_are_as_many_as_trying_every_set_finds(seed: int) -> None:
    dice = random.Random(100 + seed)
    for _ in range(60):
        free = drawn_nodes(dice)
        needs = [need_of(drawn_pods(dice, 3)) for _ in range(dice.randint(1, 5))]
        beside = need_of(drawn_pods(dice, 1))
        if not fits_by_trying(free, listed([beside])):
            continue
        best = 0
        for size in range(1, len(needs) + 1):
            for chosen in combinations(needs, size):
                if fits_by_trying(free, listed([beside, *chosen])):
                    best = size
        positions = most(places_of(free), needs, beside)
        assert len(positions) == best, (free, needs, beside)
        assert fits_by_trying(free, listed([beside, *[needs[at] for at in positions]]))


def test_a_pod_that_may_go_anywhere_is_safe_only_where_it_takes_nothing_reserved() -> None:
    places = places_of([("a", 8), ("b", 16)])
    anywhere = need_of([(ANY, 2)])
    assert is_safe(places, need_of([("b", 8)]), anywhere)
    assert fits(places, need_of([("a", 8), (ANY, 2)]))
    assert not is_safe(places, need_of([("a", 8)]), anywhere)


def small_month(dice: random.Random) -> Month:
    """Services that ask for their minimum only come at once, on few nodes."""
    nodes = []
    for number in range(dice.randint(1, 3)):
        kind = dice.choice((A2, A3))
        nodes.append(NodeSpec(f"npu-{number}", npu=dice.choice((4, 8)), labels={KIND: kind}))
    services = []
    for number in range(dice.randint(1, 4)):
        make = Make("s", ((1, 1),), dice.randint(1, 2), dice.choice((2, 4)), dice.choice((A2, A3)))
        services.append(Service(f"s-{number}", make))
    came = tuple(Happening(1.0, What.APPLY, service.name) for service in services)
    return Month(tuple(nodes), tuple(services), came, 200.0)


@pytest.mark.parametrize("seed", range(5))
def test_under_the_bound_as_many_serve_as_trying_everything_finds(seed: int) -> None:
    dice = random.Random(seed)
    numbers = set()
    for _ in range(12):
        what = small_month(dice)
        lean = Lean(what, Arm.BOUND)
        lean.play()
        free = [(node.labels[KIND], node.npu) for node in what.nodes]
        best = 0
        for size in range(1, len(what.services) + 1):
            for chosen in combinations(what.services, size):
                if fits_by_trying(free, listed([service.need for service in chosen])):
                    best = size
        assert lean.witness.serving == best, what
        numbers.add(best)
    assert len(numbers) > 1


def test_a_bound_without_rights_evicts_nothing_and_one_with_rights_does() -> None:
    """Two nodes; a service has scaled up on both when another one comes."""
    first = Service("first-0", Make("first", ((3, 1), (1, 1)), 1, 4, A2))
    second = Service("second-0", Make("second", ((1, 1),), 1, 4, A2))
    nodes = tuple(NodeSpec(f"npu-{number}", npu=8, labels={KIND: A2}) for number in range(2))
    came = (
        Happening(1.0, What.APPLY, first.name),
        Happening(100.0, What.APPLY, second.name),
    )
    what = Month(nodes, (first, second), came, 300.0)
    outcomes = {}
    for arm in (Arm.BOUND, Arm.BOUND_DEFAULT, Arm.BOUND_EQUAL, Arm.DEFAULT, Arm.EQUAL):
        lean = Lean(what, arm)
        outcomes[arm] = (lean.play().evictions, lean.witness.serving)
    assert outcomes[Arm.BOUND] == outcomes[Arm.BOUND_DEFAULT] == outcomes[Arm.DEFAULT] == (0, 1)
    assert outcomes[Arm.BOUND_EQUAL] == outcomes[Arm.EQUAL] == (2, 2)


# the minutes


def witnessed(nodes: int) -> Witness:
    """One service of 1P1D, each on 8 chips, that serves from second 10 on, on the first two
    nodes."""
    specs = tuple(NodeSpec(f"n{number}", npu=8, labels={KIND: A2}) for number in range(nodes))
    service = Service("s-0", Make("s", ((1, 1),), 1, 8, A2))
    witness = Witness(Month(specs, (service,), (), 1000.0), 0.0, lambda *_: {})
    for number, group in enumerate(("group0", "group1")):
        witness.job(f"uid-{number}", Job("s-0", group, 1, f"s-0-{number}"), 0.0)
        witness.pod(f"uid-{number}", "pod", pod(f"n{number}", "Pending"), 0.0)
    for number in range(2):
        witness.pod(f"uid-{number}", "pod", pod(f"n{number}"), 10.0)
    return witness


def pod(node: str, phase: str = "Running", *, terminating: bool = False) -> Pod:
    return Pod(node, phase, terminating, 8, frozenset({"Ascend910-0"}), False)


def test_starting_counts_as_lost_and_its_chips_as_occupied() -> None:
    numbers = witnessed(2).end(100.0)
    assert (numbers.lost, numbers.not_serving, numbers.there) == (10.0, 10.0, 100.0)
    assert numbers.causes == {START: 10.0}
    assert (numbers.occupied, numbers.serving_chips) == (160.0, 90.0 * 16)
    assert [(seconds, service) for seconds, _, service, _ in numbers.longest] == [(10.0, "s-0")]


@pytest.mark.parametrize(("nodes", "lost"), [(2, 0.0), (3, 30.0)])
def test_time_is_lost_only_where_the_service_could_serve(nodes: int, lost: float) -> None:
    """A silent node counts from the fault on, whether anybody has noticed it or not."""
    witness = witnessed(nodes)
    witness.node_silent("n1", 50.0)
    witness.node_back("n1", 80.0)
    numbers = witness.end(100.0)
    assert numbers.not_serving == 10.0 + 30.0
    assert numbers.lost == 10.0 + lost
    assert numbers.causes.get(FAULT, 0.0) == lost


def test_training_takes_the_room_in_which_a_service_could_serve() -> None:
    witness = witnessed(3)
    witness.training("train-0", ("n2", 8), 40.0)
    witness.node_silent("n1", 50.0)
    witness.training("train-0", None, 70.0)
    numbers = witness.end(100.0)
    assert numbers.not_serving == 10.0 + 50.0
    assert numbers.lost == 10.0 + 30.0
    assert numbers.training == 30.0 * 8


def test_a_faulty_chip_ends_the_pod_that_has_it() -> None:
    witness = witnessed(3)
    witness.chip("n1", 3, 40.0, healthy=False)
    witness.chip("n1", 0, 50.0, healthy=False)
    numbers = witness.end(60.0)
    assert numbers.not_serving == 10.0 + 10.0


def test_who_waits_long_after_an_eviction_waits_for_the_next_one() -> None:
    said = Reasons()
    verdict = Verdict("uid", "s-0-d0", "group1", State.HELD, Reason.WAITING_FOR_ROOM)
    key = ServiceKey("s-0", "rule", "s-0")
    plan = Plan(key, 0, {}, complete=False, groups={}, verdicts=(verdict,))
    memory = Memory({str(key): ServiceMemory(evictions=Evictions(1, 100.0))})
    said(World(100.0, ()), Decision((plan,), memory))
    assert said.of(str(key), 103.0) == {"s-0-d0": "WaitingForRoom"}
    assert said.of(str(key), 200.0) == {"s-0-d0": EVICTION_PAUSE}
    said(World(200.0, ()), Decision((plan,), Memory({str(key): ServiceMemory(trade_since=150.0)})))
    assert said.of(str(key), 201.0) == {"s-0-d0": TRADE_AFTER}


def test_only_a_healthy_instance_that_is_deleted_is_evicted_and_counts_once() -> None:
    witness = witnessed(2)
    witness.pod("uid-0", "pod", pod("n0", terminating=True), 20.0)
    witness.pod("uid-0", "pod", pod("n0", terminating=True), 22.0, gone=True)
    witness.node_silent("n1", 30.0)
    witness.pod("uid-1", "pod", pod("n1"), 40.0, gone=True)
    assert witness.end(60.0).evictions == 1


def test_a_job_that_is_deleted_by_people_is_not_evicted_and_not_there() -> None:
    witness = witnessed(2)
    witness.job_leaves("uid-0", 20.0)
    witness.pod("uid-0", "pod", pod("n0", terminating=True), 20.0)
    witness.pod("uid-0", "pod", pod("n0", terminating=True), 25.0, gone=True)
    numbers = witness.end(60.0)
    assert numbers.evictions == 0
    assert (numbers.there, numbers.not_serving) == (20.0, 10.0)


# the month


def test_one_seed_gives_one_month_and_another_seed_another() -> None:
    def told(seed: int) -> list[tuple[float, What, str]]:
        return [(one.at, one.what, one.name) for one in month(10, 5.0, seed).happenings]

    assert told(1) == told(1)
    assert len({str(told(seed)) for seed in range(1, 6)}) == 5
    for seed in range(1, 6):
        moments = [at for at, _, _ in told(seed)]
        assert moments == sorted(moments)
        assert 0.0 < moments[0] < moments[-1] < 5.0 * study.DAY


def test_the_study_is_quoted_whole_and_its_rates_come_out() -> None:
    """Table 5 has 419 unexpected interruptions."""
    assert study.CHIP_FAULTS + study.NODE_FAULTS + study.EXITS == 419
    what = month(40, 30.0, 7, faults=20.0)
    counts = dict.fromkeys(What, 0)
    for happening in what.happenings:
        counts[happening.what] += 1
    chips = sum(node.npu for node in what.nodes)
    assert counts[What.CHIP_FAULTY] == pytest.approx(chips * 600 * study.CHIP_RATE, rel=0.3)
    assert counts[What.NODE_SILENT] == pytest.approx(120 * 600 * study.NODE_RATE, rel=0.3)


def test_training_never_has_more_nodes_than_its_queue_and_work_for_most_of_them() -> None:
    what = month(40, 20.0, 3)
    held = 0
    most_held = 0
    for happening in what.happenings:
        if happening.what is What.TRAINING_BEGINS:
            held += happening.number
        elif happening.what is What.TRAINING_ENDS:
            held -= happening.number
        most_held = max(most_held, held)
    assert 10 < most_held <= 20


def test_makes_ask_for_what_the_text_says() -> None:
    def nodes_of(kind: str, ratio: int) -> float:
        chips = [
            sum(make.ladder[ratio]) * make.pods * make.chips
            for make in MAKES
            if make.kind == kind or (kind == A2 and make.kind == ANY)
        ]
        return sum(chips) / (8 if kind == A2 else 16)

    assert (nodes_of(A2, -1), nodes_of(A2, 0)) == (17.5, 26.5)
    assert (nodes_of(A3, -1), nodes_of(A3, 0)) == (2.0, 4.0)


def runs(arms: Sequence[Arm]) -> Iterator[tuple[float, float]]:
    """Service-seconds lost on the lean cluster and on the simulated API server."""
    what = month(10, 0.5, 2, faults=30.0)
    for arm in arms:
        yield play_lean(what, arm).numbers.lost, play(what, arm).numbers.lost


@pytest.mark.long("half a day on the simulated API server")
def test_the_lean_cluster_agrees_with_the_simulated_api_server() -> None:
    for lean, simulated in runs((Arm.DEFAULT, Arm.EQUAL, Arm.BOUND_EQUAL)):
        assert lean == pytest.approx(simulated, rel=0.1, abs=120.0)


def test_it_prints_a_table_for_any_seed_and_span(capsys: pytest.CaptureFixture[str]) -> None:
    arms = ["DEFAULT", "BOUND_DEFAULT"]
    main(["--services", "10", "--days", "0.1", "--seed", "9", "--jobs", "1", "--arms", *arms])
    printed = capsys.readouterr().out
    assert "10 services, 30 nodes, 0.1 days, seed 9" in printed
    for arm in (Arm.DEFAULT, Arm.BOUND_DEFAULT):
        assert f"| {arm.value} |" in printed
