"""What training jobs offer as victims: 3d.6 of the contract. Asks only.

A minimum of a higher priority may have nodes of a running job: all pods of the job end, and it
starts anew at a smaller size.

    each job of a low enough priority -> each size below its own, the largest first

The smallest size is never offered, so no job loses its minimum. For example a job runs with 8
servers, and may run with 4 or 2:

    a minimum misses 3 nodes    8 - 4 = 4 nodes are left over: it goes on with 4
    a minimum misses 6 nodes    8 - 2 = 6: it goes on with 2
    a minimum misses 7 nodes    the job offers nothing that helps"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from scaler.decide.decision import State
from scaler.decide.draft import Draft
from scaler.decide.nodes import PodRequests, joined
from scaler.decide.service.states import Member, age
from scaler.decide.sharing.part import Part, Shrunk, Victim
from scaler.decide.sharing.victims import Surplus, leaves_room, may_go
from scaler.decide.training.needs import is_hurt, training_of

MOST_OFFERS = 16
"""The largest number of sets of offers that are tried for one minimum."""
Offer = tuple[list[Surplus], tuple[Shrunk, ...]]
"""Surplus of services, and jobs that go on at smaller sizes."""


def in_order(part: Part, surplus: Sequence[Surplus], others: Sequence[Draft]) -> Iterator[Offer]:
    """3b.4c, 3d.6: what others offer, from the lowest priority upward; in one priority surplus of
    services before jobs. `others`: the services that may lose instances for this one."""
    jobs = _jobs(part, others)
    if not jobs:
        if surplus:
            yield list(surplus), ()
        return
    offers = _offers(surplus, jobs)
    yield from islice(offers, MOST_OFFERS)


def _offers(surplus: Sequence[Surplus], jobs: Sequence[Victim]) -> Iterator[Offer]:
    priorities = {group.draft.demand.priority for group in surplus}
    priorities |= {job.draft.demand.priority for job in jobs}
    for highest in sorted(priorities):
        of_services = [group for group in surplus if group.draft.demand.priority <= highest]
        if of_services:
            yield of_services, ()
        of_level = [job for job in jobs if job.draft.demand.priority <= highest]
        for shrunk in _sets_of(of_level):
            yield of_services, shrunk


def _sets_of(jobs: Sequence[Victim]) -> Iterator[tuple[Shrunk, ...]]:
    """Each job alone, then more and more of them, of which the last has its choice of sizes."""
    for job in jobs:
        for size in _smaller_sizes(job.member):
            yield (Shrunk(job, size),)
    before: tuple[Shrunk, ...] = ()
    for job in jobs:
        for size in _smaller_sizes(job.member):
            if before:
                yield (*before, Shrunk(job, size))
        before = (*before, Shrunk(job, len(training_of(job.member.instance).sizes) - 1))


def _smaller_sizes(member: Member) -> range:
    """The sizes below its own, the largest first."""
    training = training_of(member.instance)
    return range(training.started + 1, len(training.sizes))


def _jobs(part: Part, others: Sequence[Draft]) -> list[Victim]:
    """The jobs that may be shrunk: the lowest priority first, of these the shortest grace period,
    then the newest."""
    jobs = []
    for other in others:
        for member in other.demand.training:
            if _may_be_shrunk(part, other, member):
                jobs.append(Victim(other, member))
    jobs.sort(key=lambda job: age(job.member), reverse=True)
    jobs.sort(key=lambda job: (job.draft.demand.priority, job.member.instance.grace))
    return jobs


def _may_be_shrunk(part: Part, draft: Draft, member: Member) -> bool:
    """Whether it runs or starts whole at a size above its smallest, on nodes that are ready, and is
    not to be deleted anyway; 4b, 4g, 3d.8: its pods end in time, and its owner has restarts to
    spare."""
    if draft.demand.paused or draft.demand.service.assumed:
        return False
    is_whole = member.state in (State.RUNNING, State.STARTING) and not is_hurt(member.instance)
    is_going = member.uid in draft.nominated or member.uid in draft.restarted
    has_smaller = training_of(member.instance).started >= 0 and bool(_smaller_sizes(member))
    may_lose = is_whole and has_smaller and not is_going
    return may_lose and leaves_room(part, member) and may_go(part, member)


def needs_of(shrunk: Sequence[Shrunk]) -> PodRequests:
    """What these jobs need at the sizes at which they go on."""
    needs = []
    for one in shrunk:
        needs.append(training_of(one.victim.member.instance).sizes[one.size].needs)
    return joined(*needs)
