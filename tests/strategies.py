"""Hypothesis strategies for rules, instances and worlds of one service: of small numbers, where
faults show too."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from scaler.decide.decision import State
from scaler.decide.memory import HadAttempt, InstanceMemory, Memory, ServiceMemory
from scaler.decide.world import (
    Instance,
    KubeletRefusal,
    Policy,
    RestartBudget,
    RuleProblem,
    Service,
    World,
)
from scaler.reasons.reasons import Reason
from scaler.reasons.warnings import Warning
from scaler.rules.rule import ALL, CountsFrom, Ratio, Rule, RuleOptions
from tests.builders import KEY, NOW, SIZE, instance

LETTERS = "pde"
ALL_GATED = {
    "pods": SIZE,
    "gated": SIZE,
    "bound": 0,
    "running": 0,
    "ready": 0,
    "ended": 0,
    "crashing": 0,
    "faulty": 0,
}


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    """Valid ladders of up to four ratios and three groups; a group may be missing from the smaller
    ratios."""
    groups = [f"group{index}" for index in range(draw(st.integers(1, 3)))]
    counts = {group: draw(st.integers(0, 4)) for group in groups}
    ladder = [counts]
    for _ in range(draw(st.integers(0, 3))):
        counts = {
            group: draw(st.integers(0, number))
            for group, number in counts.items()
            if draw(st.integers(0, 9))
        }
        ladder.append(counts)
    ladder = [counts for counts in ladder if any(counts.values())] or [{groups[0]: 1}]
    return Rule(tuple(Ratio(counts=counts, sizes=dict.fromkeys(counts, SIZE)) for counts in ladder))


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    """Any pod counts that a cluster can show, tidy or not."""
    expected = draw(st.integers(1, 3))
    present = draw(st.integers(0, expected))
    gated = draw(st.integers(0, present)) if draw(st.booleans()) else 0
    bound = draw(st.integers(0, present - gated))
    ended = draw(st.integers(0, bound)) if draw(st.integers(0, 3)) == 0 else 0
    running = draw(st.integers(0, bound - ended))
    return {
        "expected": expected,
        "pods": present,
        "gated": gated,
        "bound": bound,
        "ended": ended,
        "running": running,
        "ready": draw(st.integers(0, running)),
        "terminating": draw(st.sampled_from((0, 0, 0, 1))),
        "crashing": draw(st.integers(0, min(1, bound))) if draw(st.integers(0, 3)) == 0 else 0,
        "faulty": draw(st.integers(0, min(1, bound))) if draw(st.integers(0, 3)) == 0 else 0,
        "admitted_at": NOW - draw(st.integers(0, 5)) if present else 0.0,
        "newest": NOW - draw(st.sampled_from((0, 29, 30, 5000))) if present else 0.0,
        "deletion_cost": draw(st.sampled_from((0, 0, -1, 1))),
    }


@st.composite
def instances(draw: st.DrawFn, number: int) -> Instance:
    """Mostly one of the plain states, sometimes any pods at all; names and ages collide on
    purpose."""
    letter = draw(st.sampled_from(LETTERS))
    shape: dict[str, Any] = {"uid": f"uid-{number}", "created": NOW - draw(st.integers(0, 3))}
    if draw(st.integers(0, 2)) == 0:
        shape |= draw(pods())
    if draw(st.integers(0, 11)) == 0:
        shape |= draw(oddities)
    if draw(st.integers(0, 2)) == 0:
        shape |= draw(made_by_others())
    if draw(st.integers(0, 9)) == 0:
        shape["refusals"] = draw(refusals)
    shape["leftovers"] = shape.get("pods", 0) > 0 or draw(st.integers(0, 4)) == 0
    one = instance(f"{letter}{number}", draw(st.sampled_from(State)), **shape)
    # Only what others make and what waits for the scheduler can be in the wrong PodGroup.
    waits = one.pods > one.gated + one.bound
    return msgspec.structs.replace(one, misplaced=one.misplaced and waits)


@st.composite
def made_by_others(draw: st.DrawFn) -> dict[str, Any]:
    """Of one or two owners, in the middle of a rollout or not; what a taking back costs, if
    anything."""
    alone = draw(st.integers(0, 2)) == 0
    budget = st.builds(RestartBudget, st.integers(1, 6), st.integers(0, 4))
    return {
        "made_by_us": False,
        "owner": "" if alone else draw(st.sampled_from(("owner-a", "owner-a", "owner-b"))),
        "outdated": not alone and draw(st.booleans()),
        "wanted": draw(st.sampled_from((0, 0, 1, 2, 3))),
        "budget": draw(st.none() | budget),
        "irreplaceable": draw(st.integers(0, 9)) == 0,
        "misplaced": draw(st.integers(0, 9)) == 0,
        "more_to_come": draw(st.integers(0, 4)) == 0,
        "first_are_ready": draw(st.booleans()),
    } | draw(st.sampled_from(({}, {}, ALL_GATED)))


refusals = st.tuples(
    st.builds(
        KubeletRefusal,
        node=st.just("node-1"),
        times=st.integers(1, 8),
        at=st.sampled_from((NOW, NOW - 9, NOW - 10, NOW - 20, NOW - 159, NOW - 160, NOW - 300)),
    )
)
"""What a kubelet refused of an instance: the pause after it runs, or is just over."""


oddities: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    (
        {"group": None, "label_problem": Reason.GROUP_LABEL_MISSING},
        {"label_problem": Reason.JOB_ID_MISSING},
        {"label_problem": Reason.NOT_SERVED},
        {"group": "nobody"},
        {"name_taken": "Pod p0-master-0"},
        {"faults": ("InvalidSpecs: spec.replicaSpecs is not set",), "expected": 0},
        {"never_placed": "JobValidateFailed: sp-block(8)"},
        {"stripped": True},
        {"owner_deleting": True},
        {"restarts": 3},
        {"generation": 2},
    )
)


times = st.sampled_from(
    (0.0, 0.0, 0.0, 0.0, NOW - 1000, NOW - 60, NOW - 59, NOW - 30, NOW - 29, NOW)
)
memories = st.builds(
    InstanceMemory,
    broken_since=times,
    restarts=st.sampled_from((-1, 0, 3)),
    restarted_at=times,
    revoked=st.sampled_from(("", "", "group1")),
    never_placed=st.sampled_from(("", "", "", "", "JobValidateFailed: sp-block(8)")),
    never_placed_as=st.sampled_from(("0  ", "2  ")),
    bound_since=st.sampled_from((0.0, 0.0, NOW - 1799, NOW - 1800)),
    gave_place=st.sampled_from((False, False, False, True)),
    ran=st.booleans(),
    had_attempt=st.sampled_from((HadAttempt.NO, HadAttempt.NO, *HadAttempt)),
    refused=st.sampled_from(("", "", "exceeded quota")),
    refused_until=st.sampled_from((NOW - 1, NOW + 20)),
    refused_times=st.just(1),
    refused_generation=st.sampled_from((0, 2)),
)
options = st.builds(
    RuleOptions,
    paused=st.sampled_from((False,) * 7 + (True,)),
    counts_from=st.sampled_from((CountsFrom.RUNNING, *CountsFrom)),
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Any one service, without nodes: most have a valid rule, some lost it, some never had one,
    some jobs name none."""
    found = tuple(draw(instances(number)) for number in range(draw(st.integers(0, 8))))
    remembered = [one for one in found if draw(st.booleans())]
    named = draw(st.integers(0, 9)) > 0
    problem = (
        draw(st.sampled_from((None,) * 6 + (Warning.RULE_MISSING, Warning.RULE_INVALID)))
        if named
        else None
    )
    ruled = named and (problem is None or draw(st.booleans()))
    seen = Service(
        key=KEY if named else msgspec.structs.replace(KEY, rule=""),
        instances=found,
        rule=draw(rules()) if ruled else None,
        options=draw(options) if named else RuleOptions(),
        problem=RuleProblem(problem, "no such ConfigMap") if problem else None,
        replicas=draw(st.sampled_from((ALL,) * 7 + tuple(range(7)))),
        assumed=draw(st.integers(0, 19)) == 0,
    )
    return World(
        now=NOW,
        services=(seen,),
        memory=Memory(
            {
                str(seen.key): ServiceMemory(
                    instances={one.uid: draw(memories) for one in remembered}
                )
            }
        ),
        policy=Policy(
            revoke=draw(st.sampled_from((True, True, True, False))),
            restart_reserve=draw(st.sampled_from((-1, -1, 0, 2))),
        ),
    )
