"""Rolling updates of what others make, with held instances among them: when they end, and what runs
meanwhile.

The numbers are those of docs/explanation/holding-by-gates.md. A Deployment and a LeaderWorkerSet
replace their instances by the arithmetic of the simulated ones. A pod is one instance here. It runs
as soon as it is released and a node is free; a held one is never available, which is all that these
controllers see of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from scaler.decide.decide import decide
from scaler.decide.decision import Admit, Complete, GroupPlan, Plan, Revoke
from scaler.decide.invariants import violations
from scaler.decide.memory import InstanceMemory, Memory
from scaler.decide.world import Instance, Service
from scaler.kube.api import Object
from scaler.reasons.reasons import Reason
from scaler.rules.rule import CountsFrom, RuleOptions
from scaler.sim.actors.deployments import Rollout
from scaler.sim.actors.deployments import roll as rolled
from scaler.sim.actors.leader_worker_sets import GroupCondition, Leaders, next_leaders
from tests.builders import (
    NOW,
    doings,
    on_nodes,
    others,
    plan,
    reasons,
    remembering,
    rolling,
    service,
    world,
)
from tests.decide.cluster import apply

Fleet = tuple[Instance, ...]
Owner = Callable[[Fleet], Fleet]


def is_up(one: Instance) -> bool:
    return one.running > 0


def outdated(replicas: int, running: int, *, wanted: bool = True) -> Fleet:
    """What there is when the template changes: the first so many run, the others are held."""
    fleet = tuple(
        pod(number, outdated=True, wanted=replicas if wanted else 0) for number in range(replicas)
    )
    return (*(start(one) for one in fleet[:running]), *fleet[running:])


def pod(number: int, *, outdated: bool = False, wanted: int = 0) -> Instance:
    """A gated pod of the one owner."""
    return Instance(
        uid=f"{'old' if outdated else 'new'}-{number}",
        name=f"p{number}",
        group="group0",
        created=NOW - 1000 + number,
        expected=1,
        kind="Deployment",
        pods=1,
        gated=1,
        made_by_us=False,
        owner="owner",
        outdated=outdated,
        wanted=wanted,
    )


def start(one: Instance) -> Instance:
    return msgspec.structs.replace(one, gated=0, bound=1, running=1, ready=1, admitted_at=NOW)


def roll(make: Owner, fleet: Fleet, *, target: int, nodes: int) -> list[Fleet]:
    """Owner, scaler and scheduler take turns until nothing moves; every fleet on the way, the last
    one at rest."""
    memory = Memory()
    way = [fleet]
    for _ in range(100):
        seen = world(service(f"{target}P", make(fleet)), memory=memory)
        made = decide(seen)
        memory = made.memory
        assert violations(seen, made) == ()
        fleet = schedule(apply(seen, made).services[0].instances, nodes)
        if fleet == way[-1]:
            return way
        way.append(fleet)
    raise AssertionError(f"never comes to rest: {way[-1]}")


def schedule(fleet: Fleet, nodes: int) -> Fleet:
    """Released pods get the nodes that are free, one each, and run."""
    free = nodes - sum(is_up(one) for one in fleet)
    waiting = itertools.islice(
        (one.uid for one in fleet if not one.gated and not is_up(one)), max(0, free)
    )
    chosen = set(waiting)
    return tuple(start(one) if one.uid in chosen else one for one in fleet)


def deployment(replicas: int, *, surge: int, unavailable: int, wanted: bool = True) -> Owner:
    """RollingUpdate; a ReplicaSet deletes pods that are not available first."""
    strategy = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    spec = {"spec": {"replicas": replicas, "strategy": strategy}}

    def make(fleet: Fleet) -> Fleet:
        old = [one for one in fleet if one.outdated]
        new = [one for one in fleet if not one.outdated]
        sizes = rolled(Rollout(spec, _replica_set("new", new), (_replica_set("old", old),)))
        added = range(len(new), sizes.get("new", len(new)))
        gone = sorted(old, key=is_up)[: len(old) - sizes.get("old", len(old))]
        left = (one for one in fleet if one not in gone)
        return (*left, *(pod(number, wanted=replicas if wanted else 0) for number in added))

    return make


def _replica_set(name: str, pods: list[Instance]) -> Object:
    status = {"availableReplicas": sum(map(is_up, pods))}
    return {"metadata": {"name": name}, "spec": {"replicas": len(pods)}, "status": status}


def leader_worker_set(replicas: int, *, unavailable: int, at_once: bool = False) -> Owner:
    """Groups are made anew in place, the highest index first, as far as the partition allows. A
    StatefulSet goes one by one and waits for each; `at_once`: it knows maxUnavailable, and does
    nothing while so many groups are not available."""
    rolling = {"rollingUpdateConfiguration": {"maxUnavailable": unavailable}}
    spec = {"spec": {"replicas": replicas, "rolloutStrategy": rolling}}
    leaders = Leaders(replicas, replicas)

    def make(fleet: Fleet) -> Fleet:
        nonlocal leaders
        groups = [GroupCondition(is_up(one), not one.outdated) for one in fleet]
        leaders = next_leaders(spec, leaders, groups, new_revision=False, resized=False)
        if at_once and sum(not is_up(one) for one in fleet) >= unavailable:
            return fleet
        for index in range(replicas - 1, leaders.partition - 1, -1):
            if fleet[index].outdated:
                return (*fleet[:index], pod(index, wanted=replicas), *fleet[index + 1 :])
            if not is_up(fleet[index]) and not at_once:
                return fleet
        return fleet

    return make


SIZES = [(replicas, held) for replicas in range(1, 7) for held in range(replicas)]
"""Replicas, and how many of them are held: the others are the target."""


def ended(way: list[Fleet]) -> bool:
    return not any(one.outdated for one in way[-1])


def defaults(replicas: int) -> dict[str, Any]:
    """25 % up, rounded up; 25 % down, rounded down."""
    return {"surge": -(-replicas // 4), "unavailable": replicas // 4}


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize(("replicas", "held"), SIZES)
def test_a_deployments_rollout_ends_exactly_when_as_many_may_be_unavailable_as_are_held(
    replicas: int, held: int, wanted: bool
) -> None:
    for surge, unavailable in itertools.product(range(3), range(replicas + 1)):
        if surge + unavailable:
            make = deployment(replicas, surge=surge, unavailable=unavailable, wanted=wanted)
            way = roll(
                make,
                outdated(replicas, replicas - held, wanted=wanted),
                target=replicas - held,
                nodes=99,
            )
            assert ended(way) == (held <= unavailable), (surge, unavailable)


@pytest.mark.parametrize(("replicas", "held"), SIZES)
def test_on_full_nodes_one_more_has_to_go_first(replicas: int, held: int) -> None:
    running = replicas - held
    for surge, unavailable in itertools.product(range(3), range(replicas + 1)):
        if surge + unavailable:
            make = deployment(replicas, surge=surge, unavailable=unavailable)
            way = roll(make, outdated(replicas, running), target=running, nodes=running)
            assert ended(way) == (held < unavailable), (surge, unavailable)


@pytest.mark.parametrize("replicas", range(1, 13))
def test_with_the_defaults_a_quarter_may_be_held(replicas: int) -> None:
    for held in range(replicas):
        running = replicas - held
        way = roll(
            deployment(replicas, **defaults(replicas)),
            outdated(replicas, running),
            target=running,
            nodes=99,
        )
        assert ended(way) == (held <= replicas // 4)


@pytest.mark.parametrize(("replicas", "held"), SIZES)
def test_a_deployments_rollout_keeps_what_runs_and_never_releases_too_many_of_the_newest(
    replicas: int, held: int
) -> None:
    target = replicas - held
    for surge, unavailable in itertools.product(range(3), range(replicas + 1)):
        if surge + unavailable:
            make = deployment(replicas, surge=surge, unavailable=unavailable)
            for fleet in roll(make, outdated(replicas, target), target=target, nodes=99):
                assert sum(map(is_up, fleet)) >= min(target, replicas - unavailable)
                assert sum(not one.gated for one in fleet if not one.outdated) <= target


@pytest.mark.parametrize(("replicas", "held"), SIZES)
def test_a_leader_worker_sets_rollout_ends_when_one_group_is_held_at_most(
    replicas: int, held: int
) -> None:
    for unavailable in range(1, replicas + 1):
        running = replicas - held
        make = leader_worker_set(replicas, unavailable=unavailable)
        assert ended(roll(make, outdated(replicas, running), target=running, nodes=99)) == (
            held <= 1
        ), unavailable


@pytest.mark.parametrize(("replicas", "held"), SIZES)
def test_where_a_stateful_set_knows_max_unavailable_one_group_less_may_be_held(
    replicas: int, held: int
) -> None:
    for unavailable in range(1, replicas + 1):
        running = replicas - held
        make = leader_worker_set(replicas, unavailable=unavailable, at_once=True)
        assert ended(roll(make, outdated(replicas, running), target=running, nodes=99)) == (
            held < unavailable
        )


@pytest.mark.parametrize(("replicas", "held"), SIZES)
def test_on_full_nodes_a_leader_worker_set_needs_every_group_to_run(
    replicas: int, held: int
) -> None:
    running = replicas - held
    make = leader_worker_set(replicas, unavailable=1)
    assert ended(roll(make, outdated(replicas, running), target=running, nodes=running)) == (
        held == 0
    )


def decided(ratios: str, text: str, **changes: object) -> Plan:
    return plan(service(ratios, rolling(text, **changes)))


def counts(group: GroupPlan) -> tuple[int, int, int]:
    return group.running, group.in_flight, group.paired


def actions(made: Plan, kind: type) -> list[str]:
    return [one.uid.removeprefix("uid-") for one in made.actions if isinstance(one, kind)]


def test_one_of_the_newest_may_stand_beside_each_outdated_one_that_runs() -> None:
    made = decided("2P", "p0 Running old, p1 Running old, p2 Held new, p3 Held new, p4 Held new")
    assert actions(made, Admit) == ["p2", "p3"]
    assert (made.groups["group0"].admit, made.groups["group0"].beside) == (2, 2)


@pytest.mark.parametrize("state", ["Admitted", "Starting"])
def test_an_outdated_instance_that_does_not_run_lets_nobody_beside_it(state: str) -> None:
    assert actions(decided("1P", f"p0 {state} old, p1 Held new"), Admit) == []


@pytest.mark.parametrize("state", ["Admitted", "Starting", "Running"])
def test_a_pair_counts_as_one_that_runs(state: str) -> None:
    made = decided("2P > 1P", f"p0 Running old, p1 {state} new")
    assert counts(made.groups["group0"]) == (1, 0, 1)
    assert (made.target_index, made.complete, made.groups["group0"].live) == (1, True, 1)


def test_what_is_left_of_a_pair_counts_alone() -> None:
    assert counts(decided("1P", "p0 Terminating old, p1 Admitted new").groups["group0"]) == (
        0,
        1,
        0,
    )
    assert counts(decided("1P", "p0 Terminating old, p1 Running new").groups["group0"]) == (1, 0, 0)


def test_where_there_is_place_for_both_both_count() -> None:
    made = decided("2P", "p0 Running old, p1 Running new", wanted=2)
    assert counts(made.groups["group0"]) == (2, 0, 0)
    assert made.complete


def test_an_owner_that_tells_its_replicas_loses_no_ratio_in_the_middle_of_a_rollout() -> None:
    fleet = "p0 Running old, p1 Running old, p2 Running new, p3 Running new, p4 Admitted new"
    told = decided("4P > 2P", fleet, wanted=4)
    untold = decided("4P > 2P", fleet)
    assert (told.target_index, counts(told.groups["group0"])) == (0, (4, 0, 1))
    assert untold.target_index == 1


def test_outdated_held_instances_come_last() -> None:
    made = decided("1P", "p0 Held old, p1 Held new")
    assert actions(made, Admit) == ["p1"]


def test_another_owners_instance_is_no_partner() -> None:
    found = (*rolling("p0 Running old"), others("p1", owner="somebody else"))
    assert plan(service("1P", found)).actions == ()


def test_one_of_a_pair_is_not_taken_back_since_nobody_would_gain_by_it() -> None:
    found = (
        *rolling("p0 Running old, p1 Running old, p2 Admitted new"),
        others("d0", "Terminating"),
    )
    made = plan(service("1P1D", found))
    assert actions(made, Revoke) == []


def test_a_partner_that_is_half_released_is_released_whole() -> None:
    fleet = (*rolling("p0 Running old, p1 Running old"), *rolling("p2 Admitted new", gated=1))
    assert actions(plan(service("1P", fleet)), Complete) == ["p2"]


# an outdated instance that does not start


def remembered_since(uid: str, since: float) -> Memory:
    """The memory of one instance that is bound since then and does not run."""
    known = InstanceMemory(restarts=0, bound_since=since)
    return remembering(service("1P", ()), (uid, known))


@pytest.mark.parametrize(("seconds", "admitted"), [(29.9, []), (30.0, ["p1"])])
def test_what_is_bound_and_does_not_start_takes_no_place_from_the_newest(
    seconds: float, admitted: list[str]
) -> None:
    """3.8: "An outdated instance that is Broken, or has been bound for minimum_timeout and waits
    for an image or crash-loops, takes no place from the newest revision"."""
    of = service("1P", rolling("p0 Starting old, p1 Held new"))
    made = decide(world(of, memory=remembered_since("uid-p0", NOW - seconds)))
    assert actions(made.plans[0], Admit) == admitted
    assert (made.recheck_at == NOW - seconds + 30) == (seconds < 30), "it looks again in time"


def test_what_is_broken_takes_no_place_from_the_newest() -> None:
    """3.8: a crash loop, for example."""
    assert actions(decided("1P", "p0 Broken old, p1 Held new"), Admit) == ["p1"]


def test_what_runs_and_is_not_ready_where_that_counts_takes_no_place_from_the_newest() -> None:
    """3.8: its state is Running."""
    fleet = rolling("p0 Running old, p1 Held new")
    waits = (msgspec.structs.replace(fleet[0], ready=0), fleet[1])
    options = RuleOptions(counts_from=CountsFrom.READY)
    assert actions(plan(service("1P", waits, options=options)), Admit) == ["p1"]


def test_a_pair_of_which_the_outdated_one_does_not_start_counts_once_and_not_as_running() -> None:
    """S1: "pairs of revisions count once"."""
    for state, expected in (("Admitted", (0, 1, 1)), ("Running", (1, 0, 1))):
        of = service("1P", rolling(f"p0 Starting old, p1 {state} new"))
        made = decide(world(of, memory=remembered_since("uid-p0", NOW - 60)))
        assert counts(made.plans[0].groups["group0"]) == expected


def test_a_first_rollout_out_of_a_bad_image_asks_for_room_as_a_minimum() -> None:
    """3.8 with 3b.1a: the newest instance is missing of the minimum, so it is reserved before
    scale-ups of others, also of a service that serves."""
    stuck = _of_one_owner(on_nodes("1P", "p0 starts on a0, p1 held", others=True, name="b"))
    other = on_nodes("2P > 1P", "p0 on a1, p1 held", name="a", age=9)
    memory = remembering(stuck, ("b-p0", InstanceMemory(restarts=0, bound_since=NOW - 60)))
    made = decide(world(stuck, other, nodes="a:8x3", memory=memory))
    assert doings(made) == {"b-p1": "Admit"}


def test_on_full_nodes_what_does_not_start_gives_its_node_to_the_newest() -> None:
    """3.8 with 3.6: it is surplus that does not run as long as the newest takes its place."""
    stuck = _of_one_owner(on_nodes("1P", "p0 starts on a0, p1 held", others=True, name="b"))
    other = on_nodes("1P", "p0 on a1", name="a")
    memory = remembering(stuck, ("b-p0", InstanceMemory(restarts=0, bound_since=NOW - 60)))
    made = decide(world(stuck, other, nodes="a:8x2", memory=memory))
    assert doings(made) == {"b-p0": "Evict"}
    assert reasons(made)["b-p1"] is Reason.WAITING_FOR_ROOM


def test_where_the_owner_has_made_no_newest_one_what_does_not_start_counts_as_before() -> None:
    """3b.1f: otherwise its partners would be revoked for want of candidates."""
    of = on_nodes("1P1D", "p0 starts on a0, d0 unbound", others=True, name="b")
    memory = remembering(of, ("b-p0", InstanceMemory(restarts=0, bound_since=NOW - 60)))
    made = decide(world(_of_one_owner(of, newest=()), nodes="a:8x2", memory=memory))
    assert doings(made) == {}


def _of_one_owner(of: Service, newest: tuple[str, ...] = ("p1",)) -> Service:
    """Prefill instances of one Deployment: outdated ones, but for these of the newest revision."""
    found = []
    for one in of.instances:
        owner = f"Deployment/{one.group}"
        is_old = one.name not in newest and one.group == "group0"
        found.append(msgspec.structs.replace(one, owner=owner, outdated=is_old))
    return msgspec.structs.replace(of, instances=tuple(found))
