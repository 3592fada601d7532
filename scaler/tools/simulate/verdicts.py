"""Whether a simulation met the expectations of its scenario. Pure: a timeline in, one verdict per
expectation out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

import msgspec

from scaler.sim.stories.scenario import Expectation, Scenario
from scaler.sim.stories.timeline import MomentKind, Sample, Timeline, counts_text

_WORDS = {
    "running": "running {}",
    "running_at_least": "running at least {}",
    "target": "target {}",
    "complete": "complete",
    "reasons": "{} is {}",
    "serving": "{} services serve",
    "serving_at_least": "{} services serve or more",
    "pods_deleted": "{} pods deleted",
    "lost_at_most": "{} requests lost at most",
    "queue_at_most": "{} requests wait at most",
    "revocations_at_most": "{} revocations at most",
    "evictions_at_most": "{} pods evicted at most",
}


class Verdict(msgspec.Struct, frozen=True):
    """One expectation and its result."""

    expected: str
    ok: bool
    found: str = ""
    """What was found instead; "" when the expectation holds."""


def judge(scenario: Scenario, timeline: Timeline) -> list[Verdict]:
    """All expectations in the scenario's order, and last that no error occurred."""
    return [
        *(_judge(expectation, scenario, timeline) for expectation in scenario.expect),
        _soundness(timeline),
    ]


def _soundness(timeline: Timeline) -> Verdict:
    expected = (
        f"nothing breaks: events, controller, and every invariant in {timeline.passes} passes"
    )
    broken = []
    for moment in timeline.moments:
        if moment.kind is MomentKind.FAILURE:
            broken.append(moment.text)
    if not timeline.passes:
        broken.append("the controller never made a pass")
    return Verdict(expected, not broken, "; ".join(broken[:3]))


def _judge(expectation: Expectation, scenario: Scenario, timeline: Timeline) -> Verdict:
    words = _words(expectation)
    start = _start(expectation, scenario)
    if expectation.over_all:
        found = _serving(expectation, timeline, start)
        return Verdict(words, ok=not found, found=found)
    if expectation.of_load:
        found = _load(expectation, timeline, start)
        return Verdict(words, ok=not found, found=found)
    meant = _services(expectation, timeline)
    if not meant:
        return Verdict(
            words,
            ok=False,
            found=f"no such service; there are: {', '.join(timeline.samples) or 'none'}",
        )
    wrong = {}
    for service in meant:
        if found := _of_one(expectation, timeline, service, start):
            wrong[service] = found
    several = len(meant) > 1
    shown = [f"{service}: {found}" if several else found for service, found in wrong.items()]
    return Verdict(words, ok=not wrong, found="; ".join(shown[:3]))


def _of_one(expectation: Expectation, timeline: Timeline, service: str, start: float) -> str:
    """ "" when the service meets the expectation, else its state."""
    if expectation.never_for is not None:
        return _longest(expectation, timeline, service, start)
    if expectation.within is not None:
        return _soonest(expectation, timeline, service, start)
    when = timeline.end if expectation.at is None else expectation.at
    return _mismatch(expectation, timeline.at_time(service, when), timeline.at_time(service, start))


def _start(expectation: Expectation, scenario: Scenario) -> float:
    for event in scenario.events:
        if event.name and event.name == expectation.after:
            return event.at
    return 0.0


def _serving(expectation: Expectation, timeline: Timeline, start: float) -> str:
    """ "" when as many services served as expected, else how many did."""
    spans = []
    for begin, end, count in timeline.serving():
        if end >= start:
            spans.append((max(begin, start), end, count))
    if expectation.never_for is not None:
        return _too_long(expectation.never_for, _longest_serving(expectation, spans))
    last = timeline.end if expectation.at is None else expectation.at
    first = last
    if expectation.within is not None:
        first = start
        last = start + expectation.within
    counts = []
    for begin, end, count in spans:
        if begin <= last and (end > first or end == timeline.end):
            counts.append(count)
    return (
        ""
        if any(_enough(expectation, count) for count in counts)
        else f"at {last:.0f} s: {counts[-1]} services serve"
    )


def _load(expectation: Expectation, timeline: Timeline, start: float) -> str:
    """ "" when no more requests were lost or waited than expected, else how many did."""
    services = [expectation.service] if expectation.service else list(timeline.loads)
    samples = timeline.loads.get(services[0], []) if len(services) == 1 else []
    end = timeline.end if expectation.at is None else expectation.at
    within = [sample for sample in samples if sample.end > start and sample.at < end]
    if not within:
        return f"no such load; there are: {', '.join(timeline.loads) or 'none'}"
    before = 0.0
    for sample in reversed(samples):
        if sample.end <= start:
            before = sample.lost
            break
    found = {"lost": within[-1].lost - before, "queue": max(sample.queue for sample in within)}
    wrong = []
    for what, count in found.items():
        if (most := getattr(expectation, f"{what}_at_most")) is not None and round(count) > most:
            wrong.append(f"{what} {count:.0f}")
    return ", ".join(wrong)


def _longest_serving(expectation: Expectation, spans: Iterable[tuple[float, float, int]]) -> float:
    """The longest time during which as many services served; -1 for none."""
    since = None
    longest = -1.0
    for begin, end, count in spans:
        if not _enough(expectation, count):
            since = None
            continue
        since = begin if since is None else since
        longest = max(longest, end - since)
    return longest


def _enough(expectation: Expectation, count: int) -> bool:
    if expectation.serving is not None:
        return count == expectation.serving
    return count >= (expectation.serving_at_least or 0)


def _too_long(allowed: float, longest: float) -> str:
    return (
        f"that held for {longest:.0f} s"
        if longest > allowed or (longest >= 0 and not allowed)
        else ""
    )


def _services(expectation: Expectation, timeline: Timeline) -> list[str]:
    """The services of the expectation; without a name the only one."""
    if not expectation.service:
        return list(timeline.samples) if len(timeline.samples) == 1 else []
    if "*" in expectation.service:
        found: list[str] = []
        for service in timeline.samples:
            if fnmatchcase(service, expectation.service):
                found.append(service)
        return found
    return [expectation.service] if expectation.service in timeline.samples else []


def _longest(expectation: Expectation, timeline: Timeline, service: str, start: float) -> str:
    """ "" when the conditions never held for longer than `never_for`, else since when and how
    long."""
    base = timeline.at_time(service, start)
    since = None
    longest = -1.0
    longest_at = 0.0
    for begin, end, sample in timeline.spans(service, start):
        if _mismatch(expectation, sample, base):
            since = None
            continue
        since = begin if since is None else since
        if end - since > longest:
            longest = end - since
            longest_at = since
    if longest < 0 or (longest <= (expectation.never_for or 0.0) and expectation.never_for):
        return ""
    return f"held for {longest:.0f} s from {longest_at:.0f} s on"


def _soonest(expectation: Expectation, timeline: Timeline, service: str, start: float) -> str:
    """ "" when the conditions held at some time of the window, else the state at its end."""
    base = timeline.at_time(service, start)
    deadline = start + (expectation.within or 0.0)
    for begin, _, sample in timeline.spans(service, start):
        if begin <= deadline and not _mismatch(expectation, sample, base):
            return ""
    return f"at {deadline:.0f} s: " + _mismatch(
        expectation, timeline.at_time(service, deadline), base
    )


def _mismatch(expectation: Expectation, sample: Sample, base: Sample) -> str:
    """What differs from the expectation; "" when nothing does."""
    counted = sample.running
    e = expectation
    deleted = sample.pods_deleted - base.pods_deleted
    revoked = sample.revocations - base.revocations
    evicted = sample.evictions - base.evictions
    running = f"running {counts_text(counted)}"
    checks = (
        (e.running is None or _equal(e.running, counted), running),
        (_reaches(counted, e.running_at_least or {}), running),
        (
            e.target is None or _equal(e.target, sample.target),
            f"target {counts_text(sample.target)}",
        ),
        (e.complete in (None, sample.complete), "complete" if sample.complete else "not complete"),
        *(
            (sample.reasons.get(job) == reason, f"{job} is {sample.reasons.get(job, 'unknown')}")
            for job, reason in (e.reasons or {}).items()
        ),
        (e.pods_deleted in (None, deleted), f"{deleted} pods deleted"),
        (
            e.revocations_at_most is None or revoked <= e.revocations_at_most,
            f"{revoked} revocations",
        ),
        (e.evictions_at_most is None or evicted <= e.evictions_at_most, f"{evicted} pods evicted"),
    )
    found = []
    for holds, words in checks:
        if not holds:
            found.append(words)
    return ", ".join(found)


def _equal(expected: Mapping[str, int], counted: Mapping[str, int]) -> bool:
    """Equal in every group that the expectation names."""
    return all(counted.get(group, 0) == count for group, count in expected.items())


def _words(expectation: Expectation) -> str:
    what: list[str] = []
    for field, words in _WORDS.items():
        wanted = getattr(expectation, field)
        if isinstance(wanted, bool):
            what.append(words if wanted else f"not {words}")
        elif field == "reasons":
            what += [words.format(*pair) for pair in (wanted or {}).items()]
        elif wanted is not None:
            what.append(words.format(counts_text(wanted) if isinstance(wanted, dict) else wanted))
    service = f" ({expectation.service})" if expectation.service else ""
    return f"{_when(expectation)}: {', '.join(what)}{service}"


def _when(expectation: Expectation) -> str:
    after = f" after {expectation.after}" if expectation.after else ""
    if expectation.never_for is not None:
        lasting = f" for more than {expectation.never_for:g} s" if expectation.never_for else ""
        return f"never{lasting}{after}"
    if expectation.within is not None:
        return f"within {expectation.within:g} s{after or ' of the start'}"
    return (
        f"at {expectation.at:g} s{after and f', counted{after}'}"
        if expectation.at is not None
        else "at the end"
    )


def _reaches(counted: Mapping[str, int], least: Mapping[str, int]) -> bool:
    """Whether every group has at least so many."""
    for group, count in least.items():
        if counted.get(group, 0) < count:
            return False
    return True
