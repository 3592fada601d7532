"""Whether a decision was right for what it saw: S1 and the order of ratios, counted anew from the bare facts.

Reads the counts of pods in a snapshot and what the plan does; the planner's own numbers and states are not looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from scaler.decide.world import Admit, Evict, Instance, Plan, Snapshot
from scaler.rules.rule import Ratio


def wrong(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    """Each admission and each trade that the contract does not allow on this snapshot."""
    if snapshot.rule is None:
        return
    yield from _wrong_trades(snapshot, plan)
    admitted = {action.uid for action in plan.actions if isinstance(action, Admit)}
    ratio = _target(snapshot, list(snapshot.rule.ratios))
    for group in snapshot.rule.groups:
        own = [instance for instance in snapshot.instances if instance.group == group]
        more = [instance for instance in own if instance.uid in admitted]
        out = [instance for instance in own if _runs(instance) or _is_coming(instance)]
        before, after = _places(out), _places([*out, *more])
        if more and after > max(ratio.of(group), before):
            yield (
                f"S1 anew: {len(more)} of {group} admitted beside {before}, though the target is {ratio.counts}: "
                f"{', '.join(instance.name for instance in more)}"
            )


def _wrong_trades(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    """3.6: one at a time, while nobody is served, and never below the smallest ratio."""
    evicted = {action.uid for action in plan.actions if isinstance(action, Evict)}
    minimum = snapshot.rule.ratios[-1].counts if snapshot.rule else {}
    runs = Counter(one.group for one in snapshot.instances if _runs(one))
    serves = all(runs[group] >= number for group, number in minimum.items())
    for one in snapshot.instances:
        if one.uid in evicted and (serves or len(evicted) > 1 or runs[one.group] <= minimum.get(one.group or "", 0)):
            yield f"3.6 anew: {one.name} is evicted though {dict(runs)} run and {minimum} is the smallest ratio"


def _places(out: list[Instance]) -> int:
    """An outdated one that runs and a newest one of the same owner stand in one place."""
    outdated = Counter(one.owner for one in out if one.outdated and one.owner and _runs(one))
    newest = Counter(one.owner for one in out if not one.outdated)
    return len(out) - (outdated & newest).total()


def _target(snapshot: Snapshot, ratios: list[Ratio]) -> Ratio:
    """From the last ratio upward the first that is not satisfied, of those for which there are jobs."""
    possible = [ratio for ratio in ratios if all(_live(snapshot, g) >= n for g, n in ratio.counts.items())]
    for ratio in reversed(possible):
        if any(sum(_runs(i) for i in snapshot.instances if i.group == g) < n for g, n in ratio.counts.items()):
            return ratio
    return possible[0] if possible else ratios[-1]


def _live(snapshot: Snapshot, group: str) -> int:
    return sum(i.group == group and not (i.owner_deleting or i.owner_finished) for i in snapshot.instances)


def _runs(instance: Instance) -> bool:
    """As far as pods tell; one that restarted a moment ago counts here, which only makes the target larger."""
    i = instance
    trouble = i.terminating or i.crashing or i.faulty or i.ended or i.owner_deleting or i.owner_finished
    return i.running == i.pods == i.expected and not trouble


def _is_coming(instance: Instance) -> bool:
    """Has pods, and nothing is wrong with them but that they do not run yet."""
    i = instance
    broken = i.bound and (i.ended or i.crashing or i.faulty or i.terminating or i.pods < i.expected)
    return i.pods > i.gated and not broken and not (i.owner_deleting or i.owner_finished)
