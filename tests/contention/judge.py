"""What was not as promised once a story has ended: how many serve, L1, L2, L4, L5 and S2."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from scaler.decide.world import Preempt
from scaler.sim.stories.play import START
from scaler.sim.stories.timeline import Moment, MomentKind, Timeline
from tests.contention.passes import Passes
from tests.contention.services import serving
from tests.contention.stories import AT_WORK, Story
from tests.contention.view import ServicesView, alive, fit, is_whole, uid

QUIET = 300.0
"""Seconds at the end in which nothing may happen any more."""
SORTED_OUT = 60.0
"""Seconds after the last event within which what it changed is sorted out."""


def unkept(story: Story, timeline: Timeline, passes: Passes) -> Iterator[str]:
    """What is not as promised in the end."""
    count = len(serving(timeline))
    halves = _half_services(passes.view) if any(one.priority for one in story.services) else 0
    if story.serving is not None and not story.serving - halves // 2 <= count <= story.serving:
        yield f"{count} serve, not {story.serving}, {halves} half"
    early = len(serving(timeline, AT_WORK - 1))
    if story.before is not None and early != story.before:
        yield f"{early} serve before the first fault, not {story.before}"
    yield from (f"{key} does not run its largest ratio" for key in story.whole if not timeline.last(key).complete)
    yield from (f"L5: {key} does not serve" for key in story.serves if not timeline.last(key).serves)
    if story.rests:
        last = max(moment.at for moment in timeline.moments if not _is_epilogue(moment))
        if last > timeline.end - QUIET:
            yield f"L4: it does not come to rest, {last:.1f} s"
        yield from _left_over(passes.view, story)
        yield from _could_preempt(passes.view, story)
    yield from _endless(passes, story)
    for service, samples in timeline.samples.items():
        end = samples[-1]
        if passes.view.all_of(service) and {view.name for view in end.instances} != set(end.reasons):
            yield f"L2: {service} has instances without a reason"


def _half_services(view: ServicesView) -> int:
    """Services that hold nodes to no use. Where a higher one comes while a lower one is being bound, the bind may race
    the decision to take its room: that is not promised away."""
    return sum(any(alive(one, bound=True) for one in view.all_of(key)) for key in view.waiting)


def _is_epilogue(moment: Moment) -> bool:
    """Said of the story itself, at its end."""
    return moment.kind is MomentKind.WARNING and moment.text.startswith("the curse of")


def _endless(passes: Passes, story: Story) -> Iterator[str]:
    """L4: evictions end, and what can be bound is admitted once, outside events aside."""
    over = START + story.last_event + SORTED_OUT
    for key, moments in passes.evictions.items():
        late = [at - START for at in moments if at > over + QUIET]
        if late:
            yield f"L4: evictions for {key} do not end: {late[:3]}"
    cursed = {uid(one) for key in story.given_up for one in passes.view.all_of(key)}
    late_ones = Counter(one for at, one in passes.admissions_at if at > over and one not in cursed)
    for one, times in late_ones.most_common(1):
        if times > story.admissions:
            yield f"L4: {one} is admitted {times} times after the last event"


def _could_preempt(view: ServicesView, story: Story) -> Iterator[str]:
    """L1: no service waits that may evict enough."""
    policy = story.settings.get("preempt", Preempt.HIGHER_PRIORITY.value)
    for key in set(view.waiting) - story.given_up:
        own = view.services[key]
        room = view.room()
        for other in view.services.values() if policy != Preempt.NEVER.value else ():
            equal = policy == Preempt.EQUAL_OR_HIGHER.value and other.worth == own.worth
            if other is not own and (other.worth < own.worth or equal) and other.annotations.get("preemptable") is None:
                room += [other.kind] * view.beyond_minimum(other.key)
        if fit(view.missing(key), room):
            yield f"L1: {key} waits though it may evict: {view.missing(key)} on {room}"


def _left_over(view: ServicesView, story: Story) -> Iterator[str]:
    """L1: no service waits for what is free, and nothing is half in the scheduler's hands (S2)."""
    for key in set(view.waiting) - story.given_up:
        if view.fits([view.missing(key)]) and not view.ends(key):
            yield f"L1: {key} waits though {view.missing(key)} fits on {view.room()}"
    for key in view.services:
        yield from (f"S2: {one.name} of {key} is half released" for one in view.all_of(key) if not is_whole(one))
