"""The steps of a training job, as an amount that flows: values in, values out.

Steps are done while all pods of one size run, each in the time that this size takes. A restart
loses what was done since the last checkpoint, unless the script saves when it gets SIGTERM and the
grace period is long enough. After a start the script needs some time until its first step. An
example, with a checkpoint every 100 steps and a second for each step:

    at    0 s   starts at size 8, first step at 60 s
    at  310 s   250 steps are done; a node is lost: 50 steps are lost, 200 are kept
    at  400 s   starts at size 4, which takes 2 s a step, first step at 460 s

Must not: know of pods, of clocks or of the cluster."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

HELD = 0
"""The size of a job that does not run."""


class Script(msgspec.Struct, frozen=True):
    """How a training script behaves."""

    steps: float
    """Steps until it is complete."""
    step_time: Mapping[int, float]
    """Size -> seconds of one step."""
    checkpoint_every: float
    """Steps from one checkpoint to the next."""
    starts_in: float = 0.0
    """Seconds from the start of all pods to the first step."""
    saves_on_sigterm: float | None = None
    """Seconds that it needs to save when it gets SIGTERM; None = it does not save then."""

    @property
    def full(self) -> int:
        """The largest size."""
        return max(self.step_time)


class Progress(msgspec.Struct, frozen=True):
    """Where the job is. Totals count from the start."""

    at: float = 0.0
    """Seconds."""
    size: int = HELD
    first_step_at: float = 0.0
    """When the pods that run now do their first step."""
    done: float = 0.0
    """Steps since the beginning that are not lost."""
    saved: float = 0.0
    """Of these, the steps that a restart would keep."""
    lost: float = 0.0
    restarts: int = 0
    """Ends of pods after which the job had to start again."""
    seconds_at: Mapping[int, float] = {}
    """Size -> how long the job ran at it; `HELD`: how long it did not run."""


def is_complete(progress: Progress, script: Script) -> bool:
    """Whether all its steps are done."""
    return progress.done >= script.steps


def later(progress: Progress, script: Script, now: float) -> Progress:
    """The progress at `now`, which is not before it, when nothing happens to the job until then."""
    seconds = now - progress.at
    done = progress.done
    if progress.size != HELD:
        working = now - max(progress.at, progress.first_step_at)
        if working > 0:
            done = min(script.steps, done + working / script.step_time[progress.size])
    checkpoints = int(done / script.checkpoint_every)
    saved = max(progress.saved, checkpoints * script.checkpoint_every)
    if done >= script.steps:
        saved = script.steps
    spent = dict(progress.seconds_at)
    spent[progress.size] = spent.get(progress.size, 0.0) + seconds
    return msgspec.structs.replace(progress, at=now, done=done, saved=saved, seconds_at=spent)


def started(progress: Progress, script: Script, now: float, size: int) -> Progress:
    """All pods of this size run from `now` on."""
    before = later(progress, script, now)
    return msgspec.structs.replace(before, size=size, first_step_at=now + script.starts_in)


def ended(progress: Progress, script: Script, now: float, grace: float | None) -> Progress:
    """The pods end. `grace`: seconds that they had from SIGTERM on; None when they ended without
    it, as with their node."""
    before = later(progress, script, now)
    if before.size == HELD or is_complete(before, script):
        return msgspec.structs.replace(before, size=HELD)
    needs = script.saves_on_sigterm
    saves = needs is not None and grace is not None and needs <= grace
    kept = before.done if saves and now >= before.first_step_at else before.saved
    return msgspec.structs.replace(
        before,
        size=HELD,
        done=kept,
        saved=kept,
        lost=before.lost + before.done - kept,
        restarts=before.restarts + 1,
    )


def goodput(progress: Progress, script: Script) -> float:
    """The share of the time that went into steps that are kept, measured by the step time of the
    full size: 1.0 is a job that always runs at the full size, without start and loss."""
    if not progress.at:
        return 0.0
    return progress.done * script.step_time[script.full] / progress.at
