"""How all but the controller moves a small world: scheduler, kubelets and owners, and what comes
from outside."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import combinations_with_replacement

from scaler.decide.memory import Memory, ServiceMemory
from tests.decide.alike import aged
from tests.decide.small_worlds import (
    GATED,
    JUST_NOW,
    NOT_THERE,
    UNBOUND,
    Inst,
    Shape,
    State,
    free,
    with_instance,
)

Step = tuple[tuple[str, ...], State]
"""What moves, in words, and the state after that."""


def moves(of: Shape, s: State) -> Iterator[Step]:
    """All that is faster than any time limit."""
    room = free(of, s)
    for number, (job, inst) in enumerate(zip(of.jobs, s.insts, strict=True)):
        if not inst.there:
            continue
        name = of.job_name(number)
        if of.gates and inst.count(".") and job.curse not in ("make", "slow"):
            yield ("make", name), with_instance(s, number, inst.turned({NOT_THERE: GATED}))
        if not s.out and inst.count("u"):
            yield from _bindings(of, s, number, room)
        ready = all(s.nodes[place][0] != "X" for _, place in inst.pods)
        if inst.count("s") and inst.bound == job.pods and job.curse != "run" and ready:
            yield (
                ("run", name),
                with_instance(s, number, inst.having(("r", place) for _, place in inst.pods)),
            )
        left = inst.having(
            NOT_THERE if pod[0] == "t" and s.nodes[pod[1]][0] != "X" else pod for pod in inst.pods
        )
        if job.curse != "stuck" and left.pods != inst.pods:
            gone = left._replace(ending=left.count("t") and left.ending)
            yield ("gone", name), with_instance(s, number, gone)
        if job.outdated and _is_replaced(of, s, number):
            yield ("replace", name), with_instance(s, number, Inst(False, (NOT_THERE,) * job.pods))


def _mates(of: Shape, s: State, number: int) -> list[int]:
    """Instances of the same owner, itself among them."""
    return [n for n, inst in enumerate(s.insts) if inst.there and of.owner(n) == of.owner(number)]


def _is_replaced(of: Shape, s: State, number: int) -> bool:
    """A Deployment goes down with what is outdated as far as newest ones are up, what is not up
    first."""
    mates = _mates(of, s, number)
    up = [n for n in mates if s.insts[n].count("r") == of.jobs[n].pods]
    spare = (
        len(mates) - of.wanted(number) - sum(not of.jobs[n].outdated and n not in up for n in mates)
    )
    if number in up:
        idle = any(of.jobs[n].outdated and n not in up for n in mates)
        return spare > 0 and not idle and len(up) > of.wanted(number)
    return spare > 0


def _bindings(of: Shape, s: State, number: int, room: Counter[int]) -> Iterator[Step]:
    job = of.jobs[number]
    inst = s.insts[number]
    if job.curse == "bind" or (job.curse == "half" and inst.bound):
        return
    if not of.one_by_one and inst.count(".", "g"):
        return
    most = 1 if of.one_by_one or job.curse == "half" else inst.count("u")
    able = [place for place in sorted(job.nodes) if job.takes(of.nodes[place][0])]
    usable = [place for place in able if room[place] >= job.units]
    for chosen in combinations_with_replacement(usable, most):
        together = {*chosen, *(place for _, place in inst.pods if place >= 0)}
        in_a_rack = not job.racks or any(together <= rack for rack in job.racks)
        if in_a_rack and all(room[place] >= job.units * chosen.count(place) for place in chosen):
            pods = list(inst.pods)
            for place in chosen:
                pods.remove(UNBOUND)
                pods.append(("s", place))
            after = with_instance(s, number, inst.having(pods))
            yield (
                ("bind", of.job_name(number), *map(str, chosen)),
                after._replace(last_bind=JUST_NOW),
            )


def events(of: Shape, s: State) -> Iterator[Step]:
    """All that comes from outside: it need not come, and comes at any moment."""
    yield from _pods_that_come(of, s)
    for event in sorted(set(s.events)):
        rest = list(s.events)
        rest.remove(event)
        left = s._replace(events=tuple(rest))
        if event == "outage" and not s.out:
            yield (event,), left._replace(out=True)
        if event == "resume" and s.out:
            yield (event,), left._replace(out=False)
        if scaled := re.fullmatch(r"scale([0-9])=([0-9]+)", event):
            team, number = map(int, scaled.groups())
            yield (
                (event,),
                left._replace(replicas=(*s.replicas[:team], number, *s.replicas[team + 1 :])),
            )
        if event == "failover":
            yield (event,), left._replace(memory=_kept(left.memory))
        if event == "delete":
            yield from _deletions(of, left)
        for number, (state, _) in enumerate(left.nodes):
            if event in ("lose", "flap", "cordon", "taint", "vanish") and state == "R":
                yield (event, f"n{number}"), _without_node(left, number, event)
            if event == "back" and state != "R":
                yield (event, f"n{number}"), _with_node(aged(left, 1), number, "R")


def _kept(memory: Memory) -> Memory:
    """What a new leader knows: the evictions that were counted (section 2)."""
    services = {}
    for name, one in memory.services.items():
        if one.evictions.number:
            services[name] = ServiceMemory(evictions=one.evictions)
    return Memory(services)


def _pods_that_come(of: Shape, s: State) -> Iterator[Step]:
    """Of jobs that arrive, one by one in a rollout, and of owners that take their time."""
    for number, (job, inst) in enumerate(zip(of.jobs, s.insts, strict=True)):
        comes = not of.owner(number) or len(_mates(of, s, number)) <= of.wanted(number)
        if not inst.there and not job.outdated and comes:
            yield (
                ("arrive", of.job_name(number)),
                with_instance(s, number, inst._replace(there=True)),
            )
        elif job.curse == "slow" and inst.count("."):
            pods = list(inst.pods)
            pods[pods.index(NOT_THERE)] = GATED
            yield (
                ("make one of", of.job_name(number)),
                with_instance(s, number, inst.having(pods, newest=0)),
            )


def _deletions(of: Shape, s: State) -> Iterator[Step]:
    """Somebody deletes a job, whose pods are gone at once."""
    for number, (job, inst) in enumerate(zip(of.jobs, s.insts, strict=True)):
        if inst.there and not of.owner(number):
            gone = Inst(False, (NOT_THERE,) * job.pods)
            yield ("delete", of.job_name(number)), with_instance(s, number, gone)


def _without_node(s: State, number: int, event: str) -> State:
    """A node that is lost has pods that end; one that vanishes takes them along."""
    insts = list(s.insts)
    after, ending = (NOT_THERE, None) if event == "vanish" else (("t", number), 0)
    for n, inst in enumerate(insts):
        if event in ("lose", "vanish") and any(place == number for _, place in inst.pods):
            pods = (after if place == number else (phase, place) for phase, place in inst.pods)
            insts[n] = inst.having(pods, ending=inst.ending if ending is None else ending)
    return _with_node(
        s._replace(insts=tuple(insts)),
        number,
        {"cordon": "C", "taint": "T", "vanish": "G"}.get(event, "X"),
    )


def _with_node(s: State, number: int, state: str) -> State:
    return s._replace(nodes=(*s.nodes[:number], (state, 0), *s.nodes[number + 1 :]))
