"""What holds of every decision about training jobs: T1, T2, S5, S6 of the contract, in small worlds
of jobs and services on few nodes."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.decide.again import DecisionCache
from scaler.decide.decide import decide, decide_anew
from scaler.decide.decision import Admit, Cause, Decision, Restart
from scaler.decide.invariants import violations
from scaler.decide.memory import Memory
from scaler.decide.world import Instance, Service, Training, World
from scaler.rules.rule import ALL
from tests.builders import on_nodes, world
from tests.decide.training_jobs import job, on

LADDERS = ("4 > 2 > 1", "4 > 3 > 2", "3", "2 > 1")


@st.composite
def starting(draw: st.DrawFn, name: str) -> Service:
    """A job of which nothing is bound, or that runs, whole or hurt."""
    ladder = draw(st.sampled_from(LADDERS))
    recorded = draw(st.sampled_from(ladder.split(" > ")))
    pods = draw(
        st.sampled_from(
            ["held", "held 0", f"held {recorded}", "held 1", "released", "runs", "hurt"]
        )
    )
    number = int(recorded)
    where = {
        "released": " + ".join(["unbound"] * number),
        "runs": on("a", number, 4 * (name == "j")),
        "hurt": " + ".join([*["on a0"] * (number > 1), *["gone"] * (number - 1), "starts on a1"]),
    }.get(pods, pods)
    return job(
        ladder,
        where,
        name=name,
        recorded=recorded,
        made_by_us=pods == "held",
        priority=draw(st.integers(0, 1)),
        replicas=draw(st.sampled_from([ALL, ALL, 3, 1])),
        grows=True,
    )


SERVICES = (
    on_nodes("2P > 1P", "p0 on a0, p1 held", name="b"),
    on_nodes("2P > 1P", "p0 on a0, p1 unbound", name="b"),
    on_nodes("2P > 1P", "p0 held, p1 held", name="b"),
    on_nodes("2P > 1P", "p0 held, p1 held", name="b", priority=2),
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    services = [draw(starting("i")), draw(starting("j")), draw(st.sampled_from(SERVICES))]
    return world(*services, nodes=f"a:8x{draw(st.integers(1, 9))}")


@settings(max_examples=60, deadline=None)
@given(worlds())
def test_a_job_starts_at_a_size_of_its_ladder_within_the_limit_and_all_starts_fit(
    seen: World,
) -> None:
    """T2, and S9: what is admitted together has room together."""
    made = decide(seen)
    assert not violations(seen, made)
    trainings = trainings_of(seen)
    nodes = 0
    for plan in made.plans:
        for action in plan.actions:
            if not isinstance(action, Admit):
                continue
            training, replicas, made_here = trainings.get(action.uid, (None, ALL, True))
            if training is None:
                nodes += 1
                continue
            size = training.sizes[action.size]
            assert size.amount <= replicas or size == training.smallest
            assert made_here or action.size == training.recorded, "T1: its pods are of that size"
            nodes += size.pods
    free = sum(max(0, node.free[0] // 8) for node in seen.nodes.nodes) if seen.nodes else 0
    assert nodes <= free or len(_sharing(seen)) < 2


def _sharing(seen: World) -> list[Service]:
    return [service for service in seen.services if service.instances]


def trainings_of(seen: World) -> dict[str, tuple[Training, int, bool]]:
    found = {}
    for service in seen.services:
        for one in service.instances:
            if isinstance(one.training, Training):
                found[one.uid] = one.training, service.replicas, one.made_by_us
    return found


@settings(max_examples=40, deadline=None)
@given(worlds(), worlds())
def test_a_decision_about_jobs_is_the_same_with_a_cache_and_after_a_replay(
    first: World, second: World
) -> None:
    """S5."""
    cache = DecisionCache()
    memory = Memory()
    for later, other in enumerate((first, second, second, second)):
        seen = msgspec.structs.replace(other, now=other.now + 300 * later, memory=memory)
        made = decide(seen, cache)
        memory = made.memory
        assert made == decide(seen)
        assert made == decide_anew(seen)
        again = msgspec.json.decode(msgspec.json.encode(seen), type=World)
        assert decide(again) == made


@settings(max_examples=40, deadline=None)
@given(worlds())
def test_when_a_size_is_recorded_the_next_decision_releases_that_size(seen: World) -> None:
    """S6: nothing is recorded twice."""
    made = decide(seen)
    after = with_sizes_recorded(seen, made)
    again = decide(msgspec.structs.replace(after, memory=made.memory))
    for plan in again.plans:
        starts = [one for one in plan.actions if isinstance(one, Restart)]
        assert not [one for one in starts if one.cause is Cause.START]


def with_sizes_recorded(seen: World, made: Decision) -> World:
    """The world when the owners have made the pods of the recorded sizes, and nothing else was
    done but what `made` admits or revokes."""
    recorded = {}
    for plan in made.plans:
        for action in plan.actions:
            if isinstance(action, Restart) and action.cause is Cause.START:
                recorded[action.uid] = action.size
    services = []
    for service in seen.services:
        instances = tuple([_with_pods(one, recorded.get(one.uid)) for one in service.instances])
        services.append(msgspec.structs.replace(service, instances=instances))
    return msgspec.structs.replace(seen, services=tuple(services))


def _with_pods(one: Instance, recorded: int | None) -> Instance:
    """A job with all pods of that size, gated."""
    if recorded is None or not isinstance(one.training, Training):
        return one
    size = one.training.sizes[recorded]
    return msgspec.structs.replace(
        one,
        pods=size.pods,
        gated=size.pods,
        expected=size.pods,
        requests=size.needs,
        unbound=size.needs,
        training=msgspec.structs.replace(one.training, recorded=recorded),
    )


def test_a_size_that_is_not_recorded_or_not_in_the_ladder_is_no_decision() -> None:
    seen = world(job("4 > 2", "held 4", recorded="4"), nodes="a:8x9")
    made = decide(seen)
    assert not violations(seen, made)
    for size, promise in ((1, "T1"), (2, "T2")):
        plan = msgspec.structs.replace(made.plans[0], actions=(Admit("j-0", size),))
        wrong = msgspec.structs.replace(made, plans=(plan,))
        assert [one[:2] for one in violations(seen, wrong)] == [promise]
