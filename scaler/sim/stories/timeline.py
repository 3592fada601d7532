"""The events of a simulation: moments for people, samples for expectations and pictures.

Must not: judge (scaler.tools.simulate.verdicts) or draw (scaler.tools.simulate.picture)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum

import msgspec

from scaler.sim.stories.instances import InstanceView, running


class MomentKind(StrEnum):
    """The kind of an event; decides colour and marks."""

    EVENT = "event"
    """An event of the scenario."""
    INSTANCE = "instance"
    TARGET = "target"
    WARNING = "warning"
    FAILURE = "failure"
    """The controller ended with an error, or an invariant did not hold."""


class Moment(msgspec.Struct, frozen=True):
    """One line of the timeline. `at` is seconds since the start; `service` is "" for the whole
    cluster."""

    at: float
    kind: MomentKind
    text: str
    service: str = ""
    subject: str = ""
    """The instance, or the event's name."""


class Sample(msgspec.Struct, frozen=True):
    """The state of one service from `at` until the next sample."""

    at: float
    instances: tuple[InstanceView, ...] = ()
    target: dict[str, int] = {}
    complete: bool = False
    smallest: dict[str, int] = {}
    """Instances per group of the smallest ratio; empty while no valid rule was seen."""
    reasons: dict[str, str] = {}
    """Job name -> reason in the controller's last plan."""
    pods_deleted: int = 0
    revocations: int = 0
    """Instances that lost pods while these had no node, over the time so far."""
    evictions: int = 0
    """Pods that had a node and were deleted."""

    @property
    def running(self) -> dict[str, int]:
        return running(self.instances)

    @property
    def serves(self) -> bool:
        """Whether the service runs at least its smallest ratio."""
        counts = self.running
        for group, count in self.smallest.items():
            if counts.get(group, 0) < count:
                return False
        return bool(self.smallest)

    def ready_of(self, group: str) -> set[str]:
        """Names of the instances of a group that take requests."""
        return {view.name for view in self.instances if view.group == group and view.ready}


class LoadSample(msgspec.Struct, frozen=True):
    """The requests of one service from `at` to `end` (seconds). Amounts are at the end, totals from
    the start."""

    at: float
    end: float
    rate: float
    """Requests per second that arrived."""
    able: float
    """Requests per second that could be served for ever."""
    prefill: int
    """Instances that took requests."""
    decode: int
    npus: int
    """NPUs of its instances, in any condition."""
    prefill_busy: float
    """Working instances."""
    decode_busy: float
    prefill_queue: float
    decode_queue: float
    wait: float
    """Waiting time of the oldest request, in seconds."""
    decoding: float
    arrived: float
    served: float
    lost: float

    @property
    def queue(self) -> float:
        return self.prefill_queue + self.decode_queue


class Timeline:
    """Grows while the simulation runs. `listener` is called with each moment as it happens."""

    def __init__(self, listener: Callable[[Moment], None] | None = None) -> None:
        self.moments: list[Moment] = []
        self.samples: dict[str, list[Sample]] = {}
        self.loads: dict[str, list[LoadSample]] = {}
        self.passes = 0
        self.end = 0.0
        self.listener = listener

    def say(self, moment: Moment) -> None:
        self.moments.append(moment)
        if self.listener:
            self.listener(moment)

    def last(self, service: str) -> Sample:
        """The service's newest sample; an empty one before the first."""
        return self.samples[service][-1] if service in self.samples else Sample(at=0.0)

    def add(self, service: str, sample: Sample) -> None:
        """Append the sample if it differs from the last one; of one instant only the last stays."""
        samples = self.samples.setdefault(service, [])
        if samples and msgspec.structs.replace(samples[-1], at=sample.at) == sample:
            return
        if samples and samples[-1].at == sample.at:
            samples[-1] = sample
        else:
            samples.append(sample)

    def spans(self, service: str, start: float = 0.0) -> Iterator[tuple[float, float, Sample]]:
        """(from, to, sample) over the time from `start` to the end; the last span includes the
        end."""
        samples = self.samples.get(service, [])
        ends = [*(sample.at for sample in samples[1:]), self.end]
        for sample, end in zip(samples, ends, strict=False):
            if end > start or sample is samples[-1]:
                yield max(sample.at, start), end, sample

    def serving(self) -> list[tuple[float, float, int]]:
        """(from, to, how many services serve) over the whole time."""
        changes = []
        for name, samples in self.samples.items():
            changes += [(sample.at, name, sample.serves) for sample in samples]
        counts = {0.0: 0}
        serving = set[str]()
        for at, name, serves in sorted(changes):
            if serves:
                serving.add(name)
            else:
                serving.discard(name)
            counts[at] = len(serving)
        spans: list[tuple[float, float, int]] = []
        for at, count in counts.items():
            if spans and spans[-1][2] == count:
                continue
            if spans:
                spans[-1] = (spans[-1][0], at, spans[-1][2])
            spans.append((at, self.end, count))
        return spans

    def at_time(self, service: str, when: float) -> Sample:
        """The state at a time; changes of that very instant count."""
        for sample in reversed(self.samples.get(service, [])):
            if sample.at <= when:
                return sample
        return Sample(at=0.0)


def counts_text(counts: Mapping[str, int]) -> str:
    """`group0=2 group1=1`."""
    return " ".join(f"{group}={count}" for group, count in sorted(counts.items())) or "nothing"
