"""Plays one story with one seed, and says what was not as promised."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from scaler.decide.world import Preempt
from scaler.sim.stories.play import START
from scaler.sim.stories.scenario import Scenario
from scaler.sim.stories.timeline import Moment, MomentKind, Timeline
from tests.contention.delays import delays_of, dice
from tests.contention.services import serving
from tests.contention.stage import watched
from tests.contention.stories import AT_WORK, STORIES, Tale, Teller
from tests.contention.view import Sight, fit
from tests.contention.witness import Witness
from tests.repeat import played
from tests.simulation.worlds import failures

QUIET = 300.0
"""Seconds at the end in which nothing may happen any more."""
SORTED_OUT = 60.0
"""Seconds after the last event within which what it changed is sorted out."""
AFTERWARDS = 1500.0
"""Seconds from the last event to the end: probes and pauses are over by then."""


class Outcome(msgspec.Struct):
    story: str
    seed: int
    serving: int
    settled: float
    """Seconds from the last event until so many served for good."""
    rested: float
    """Seconds from the last event until nothing happened any more."""
    revocations: int
    most_admissions: int
    """Of one instance."""
    evictions: int
    held_up: float
    """Seconds for which, at most, a minimum waited beside nodes that were free for it."""
    wrong: list[str]
    history: str
    """Differs where anything happened at another moment or in another order."""
    seconds: float
    """Of CPU that it cost."""


def play(
    story: str, seed: int, *, beside: bool = False, arbitration: bool = True, closely: bool = False
) -> Outcome:  # fmt: skip
    """`closely`: every decision is made twice."""
    flags = ("--alone" if not arbitration else "", "--closely" if closely else "")
    mode = "beside" if beside else "create"
    played(" ".join(["tests.contention --story", story, f"--seeds {seed} --mode {mode}", *filter(None, flags)]))
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        tale = STORIES[story](Teller(dice(story, seed), Path(folder), beside))
        delays = delays_of(seed)
        tale.events.sort(key=lambda event: float(event["at"]))
        what = Scenario.model_validate({
            "nodes": tale.nodes, "events": tale.events, "until": round(tale.last_event + AFTERWARDS),
            "timing": delays.timing, "arbitration": arbitration, "ascend_operator": beside, "settings": tale.settings,
            "curse": tale.curses,
        })  # fmt: skip
        timeline, witness = watched(
            what, tale.services, seed=seed, given_up=tale.given_up, delays=delays, patience=tale.patience,
            closely=closely,
        )  # fmt: skip
    wrong = [*failures(timeline), *witness.wrong, *_unkept(tale, timeline, witness)]
    return Outcome(
        story, seed, len(serving(timeline)),
        settled=max(0.0, timeline.serving()[-1][0] - tale.last_event),
        rested=max(0.0, max(moment.at for moment in timeline.moments) - tale.last_event),
        revocations=witness.revocations, most_admissions=max(witness.admitted.values(), default=0),
        evictions=sum(map(len, witness.evictions.values())), held_up=witness.held_up, wrong=wrong,
        history=_digest(timeline), seconds=time.process_time() - began,
    )  # fmt: skip


def _digest(timeline: Timeline) -> str:
    told = "\n".join(f"{one.at:.6f} {one.service} {one.text}" for one in timeline.moments)
    return hashlib.blake2b(told.encode(), digest_size=8).hexdigest()


def _unkept(tale: Tale, timeline: Timeline, witness: Witness) -> Iterator[str]:
    """What is not as promised in the end."""
    count = len(serving(timeline))
    halves = _half_services(witness.sight) if any(one.priority for one in tale.services) else 0
    if tale.serving is not None and not tale.serving - halves // 2 <= count <= tale.serving:
        yield f"{count} serve, not {tale.serving}, {halves} half"
    early = len(serving(timeline, AT_WORK - 1))
    if tale.before is not None and early != tale.before:
        yield f"{early} serve before the first fault, not {tale.before}"
    yield from (f"{key} does not run its largest ratio" for key in tale.whole if not timeline.last(key).complete)
    yield from (f"L5: {key} does not serve" for key in tale.serves if not timeline.last(key).serves)
    if tale.rests:
        last = max(moment.at for moment in timeline.moments if not _is_epilogue(moment))
        if last > timeline.end - QUIET:
            yield f"L4: it does not come to rest, {last:.1f} s"
        yield from _left_over(witness.sight, tale)
        yield from _could_preempt(witness.sight, tale)
    yield from _endless(witness, tale)
    for service, samples in timeline.samples.items():
        end = samples[-1]
        if witness.sight.all_of(service) and {view.name for view in end.instances} != set(end.reasons):
            yield f"L2: {service} has instances without a reason"


def _half_services(sight: Sight) -> int:
    """Services that hold nodes to no use. Where a higher one comes while a lower one is being bound, the bind may race
    the decision to take its room: that is not promised away."""
    return sum(any(map(sight.has_bound, sight.all_of(key))) for key in sight.waiting())


def _is_epilogue(moment: Moment) -> bool:
    """Said of the story itself, at its end."""
    return moment.kind is MomentKind.WARNING and moment.text.startswith("the curse of")


def _endless(witness: Witness, tale: Tale) -> Iterator[str]:
    """L4: evictions end, and what can be bound is admitted once, outside events aside."""
    over = START + tale.last_event + SORTED_OUT
    for key, moments in witness.evictions.items():
        late = [at - START for at in moments if at > over + QUIET]
        if late:
            yield f"L4: evictions for {key} do not end: {late[:3]}"
    cursed = {job.uid for key in tale.given_up for job in witness.sight.all_of(key)}
    late_ones = Counter(uid for at, uid in witness.admissions_at if at > over and uid not in cursed)
    for uid, times in late_ones.most_common(1):
        if times > tale.admissions:
            yield f"L4: {uid} is admitted {times} times after the last event"


def _could_preempt(sight: Sight, tale: Tale) -> Iterator[str]:
    """L1: nobody waits who may evict enough."""
    policy = tale.settings.get("preempt", Preempt.HIGHER_PRIORITY.value)
    for key in set(sight.waiting()) - tale.given_up:
        own = sight.services[key]
        room = sight.free()
        for other in sight.services.values() if policy != Preempt.NEVER.value else ():
            equal = policy == Preempt.EQUAL_OR_HIGHER.value and other.worth == own.worth
            if other is not own and (other.worth < own.worth or equal) and other.annotations.get("preemptable") is None:
                room += [other.kind] * sight.beyond_minimum(other.key)
        if fit(sight.missing(key), room):
            yield f"L1: {key} waits though it may evict: {sight.missing(key)} on {room}"


def _left_over(sight: Sight, tale: Tale) -> Iterator[str]:
    """L1: nobody waits for what is free, and nothing is half in the scheduler's hands (S2)."""
    for key in set(sight.waiting()) - tale.given_up:
        if sight.fits([sight.missing(key)]) and not sight.ends(key):
            yield f"L1: {key} waits though {sight.missing(key)} fits on {sight.free()}"
    for key in sight.services:
        yield from (f"S2: {job.uid} of {key} is half released" for job in sight.all_of(key) if not sight.is_whole(job))
