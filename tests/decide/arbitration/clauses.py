"""States of small worlds in one line, and what a pass makes of them."""

from __future__ import annotations

from scaler.decide.arbiter import Arbitration
from scaler.decide.world import ArbiterMemory, Reason
from tests.builders import NOW
from tests.decide.arbitration.view import PLAIN, Setting, controller, position
from tests.decide.arbitration.world import ABSENT, UNBOUND, State, World, initial


def state(w: World, text: str, *, up: tuple[int, ...] | None = None, down: tuple[int, ...] | None = None) -> State:
    """`0.p0 u, 1.d0 0`: pods of p0 of service 0 are unbound, those of d0 of service 1 are on nodes of kind 0. A job of
    several pods has so many signs: `0.p0 0u-`. What is not mentioned has no pods."""
    s = initial(w)
    pods = list(s.pods)
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, signs = part.split()
        number = next(n for n, job in enumerate(w.jobs) if f"{job.service}.{job.name}" == name)
        signs = signs * w.jobs[number].pods if len(signs) == 1 else signs
        pods[number] = tuple(
            {"u": UNBOUND, "-": ABSENT}.get(sign, int(sign) if sign.isdigit() else 0) for sign in signs
        )
    return s._replace(pods=tuple(pods), up=up or s.up, down=down or s.down)


def decide(
    w: World, s: State, setting: Setting = PLAIN, memory: ArbiterMemory | None = None, after: float = 0.0
) -> Arbitration:
    return controller(w, s, setting, memory, NOW + after).outcome


def doings(w: World, outcome: Arbitration) -> dict[str, str]:
    """`0.p0` -> `Admit`, for each job that something is done about."""
    return {name(w, action.uid): type(action).__name__ for plan in outcome.plans for action in plan.actions}


def reasons(w: World, outcome: Arbitration) -> dict[str, Reason]:
    return {name(w, verdict.uid): verdict.reason for plan in outcome.plans for verdict in plan.verdicts}


def abouts(w: World, outcome: Arbitration) -> dict[str, str]:
    return {name(w, verdict.uid): "; ".join(verdict.about) for plan in outcome.plans for verdict in plan.verdicts}


def name(w: World, uid: str) -> str:
    job = w.jobs[position(w, uid)]
    return f"{job.service}.{job.name}"
