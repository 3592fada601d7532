"""Plays one story with one seed, and says what was not as promised."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from scaler.sim.stories.scenario import Scenario
from scaler.sim.stories.timeline import Timeline
from tests.crowds.services import serving
from tests.crowds.sight import Sight
from tests.crowds.stage import watched, watched_closely
from tests.crowds.stories import AT_WORK, STORIES, Tale, Teller
from tests.crowds.weather import dice, weather
from tests.crowds.witness import Witness
from tests.simulation.worlds import failures

QUIET = 300.0
"""Seconds at the end in which nothing may happen any more."""
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
    wrong: list[str]
    history: str
    """Differs where anything happened at another moment or in another order."""
    seconds: float
    """Of CPU that it cost."""


def play(
    story: str, seed: int, *, beside: bool = False, arbitration: bool = True, closely: bool = False
) -> Outcome:  # fmt: skip
    """`closely`: every arbitration is checked from inside, too."""
    began = time.process_time()
    look = watched_closely if closely else watched
    with tempfile.TemporaryDirectory() as folder:
        tale = STORIES[story](Teller(dice(story, seed), Path(folder), beside))
        sky = weather(seed)
        tale.events.sort(key=lambda event: float(event["at"]))
        what = Scenario.model_validate({
            "nodes": tale.nodes, "events": tale.events, "until": round(tale.last_event + AFTERWARDS),
            "timing": sky.timing, "arbitration": arbitration, "ascend_operator": beside,
        })  # fmt: skip
        timeline, witness = look(what, tale.services, seed=seed, given_up=tale.given_up, sky=sky)
    wrong = [*failures(timeline), *witness.wrong, *_unkept(tale, timeline, witness)]
    return Outcome(
        story, seed, len(serving(timeline)),
        settled=max(0.0, timeline.serving()[-1][0] - tale.last_event),
        rested=max(0.0, max(moment.at for moment in timeline.moments) - tale.last_event),
        revocations=witness.revocations, most_admissions=max(witness.admitted.values(), default=0), wrong=wrong,
        history=_digest(timeline), seconds=time.process_time() - began,
    )  # fmt: skip


def _digest(timeline: Timeline) -> str:
    told = "\n".join(f"{one.at:.6f} {one.service} {one.text}" for one in timeline.moments)
    return hashlib.blake2b(told.encode(), digest_size=8).hexdigest()


def _unkept(tale: Tale, timeline: Timeline, witness: Witness) -> Iterator[str]:
    """What is not as promised in the end."""
    count = len(serving(timeline))
    if tale.serving is not None and count != tale.serving:
        yield f"{count} serve, not {tale.serving}"
    early = len(serving(timeline, AT_WORK - 1))
    if tale.before is not None and early != tale.before:
        yield f"{early} serve before anything befalls them, not {tale.before}"
    yield from (f"{key} does not run its largest ratio" for key in tale.whole if not timeline.last(key).complete)
    if tale.rests:
        last = max(moment.at for moment in timeline.moments)
        if last > timeline.end - QUIET:
            yield f"L4: it does not come to rest, {last:.1f} s"
        yield from _left_over(witness.sight, tale)
    for service, samples in timeline.samples.items():
        end = samples[-1]
        if end.instances and {view.name for view in end.instances} != set(end.reasons):
            yield f"L2: {service} has instances without a reason"


def _left_over(sight: Sight, tale: Tale) -> Iterator[str]:
    """L1: nobody waits for what is free, and nothing is half in the scheduler's hands (S2)."""
    for key in set(sight.waiting()) - tale.given_up:
        if sight.fits([sight.missing(key)]):
            yield f"L1: {key} waits though {sight.missing(key)} fits on {sight.free()}"
    for key in sight.services:
        yield from (f"S2: {job.uid} of {key} is half released" for job in sight.all_of(key) if not sight.is_whole(job))
