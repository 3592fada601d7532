"""What a job says of elastic training: whether it takes part, with which sizes, and how it may be
restarted (contract 3d, who takes part and fields of the user). Pure.

The labels `elastic-scheduling` and `fault-scheduling` and the annotation `minReplicas` are those of
MindCluster's retired Resilience-Controller. The annotations `mind-cluster/...` are ours."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from scaler.decide.world import OnFault
from scaler.rules.finding import shown
from scaler.rules.limits import MAX_PODS
from scaler.rules.values import duration
from scaler.workloads.ladder import Ladder, Steps, Unit, derived, in_pairs, listed

ELASTIC = "elastic-scheduling"
"""Label of a job, value `on`: it takes part."""
FAULTS = "fault-scheduling"
"""Label of a job: who restarts it after a fault."""
LEAST_SERVERS = "minReplicas"
"""Annotation of a job: the fewest servers that it can be started with."""
SIZES = "mind-cluster/sizes"
LEAST_NPUS = "mind-cluster/min-npus"
GROW = "mind-cluster/grow"
RESTART_COST = "mind-cluster/restart-cost"
RESIZE = "mind-cluster/resize"
RECOVERY = "recover-strategy"
"""Annotation of a job: how ClusterD recovers it."""
RESIZED_BY_CLUSTERD = "elastic-training"
"""A value of it, separated from others by commas: ClusterD itself makes the job smaller."""
KUEUE = "kueue.x-k8s.io/queue-name"
"""Label of a job that Kueue admits."""
USUAL_GRACE = 30.0
"""Seconds of a pod's grace period where its template says none."""

_NUMBER = re.compile(r"[1-9][0-9]{0,4}")


class Grow(StrEnum):
    """Whether a healthy job may be restarted to grow (annotation `mind-cluster/grow`)."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class Resize(StrEnum):
    """How another size is written (annotation `mind-cluster/resize`)."""

    IN_PLACE = "in-place"
    REPLACE = "replace"


class TrainingOptions(msgspec.Struct, frozen=True, gc=False):
    """What the metadata of a training job says; the default for what is absent or unusable."""

    least_servers: int | None = None
    """None: the full size, so the job never shrinks."""
    least_npus: int = 1
    steps: Steps = Steps.POWERS_OF_TWO
    sizes: tuple[int, ...] = ()
    """The sizes that the user lists, falling; () where they are derived."""
    grow: Grow = Grow.AUTO
    restart_cost: float | None = None
    """Seconds that one restart takes from training; None where the user names none."""
    resize: Resize = Resize.IN_PLACE
    on_fault: OnFault = OnFault.OFF

    def may_grow(self, grace: float) -> bool:
        """Whether the job may be restarted to grow. `grace`: seconds of its pods' grace period. A
        restart has a price; `auto` grows only where the job saves its work or the user named the
        price."""
        if self.grow is Grow.AUTO:
            return grace > USUAL_GRACE or self.restart_cost is not None
        return self.grow is Grow.ON


class Training(msgspec.Struct, frozen=True, gc=False):
    """A job that takes part: its options, and what is wrong with them, each as `InvalidSizes: what
    was found`."""

    options: TrainingOptions
    faults: tuple[str, ...] = ()


def takes_part(labels: Mapping[str, Any]) -> bool:
    """Whether the label of the job says so."""
    return labels.get(ELASTIC) == "on"


def why_left_alone(labels: Mapping[str, Any], annotations: Mapping[str, Any]) -> str:
    """Why the size of a job that takes part is not ours to change, in words; "" when it is."""
    if KUEUE in labels:
        return f"label {KUEUE}: Kueue decides when the job starts"
    recovery = annotations.get(RECOVERY)
    words = recovery.split(",") if isinstance(recovery, str) else []
    if RESIZED_BY_CLUSTERD in [word.strip() for word in words]:
        return f"annotation {RECOVERY} has {RESIZED_BY_CLUSTERD}: ClusterD changes its size"
    return ""


def training_of(labels: Mapping[str, Any], annotations: Mapping[str, Any]) -> Training:
    """The options of a job, from its own metadata."""
    options = TrainingOptions()
    found = []
    for name, field, read, valid in _FIELDS:
        source = labels if name == FAULTS else annotations
        value = source.get(name)
        if value is None:
            continue
        usable = read(value) if isinstance(value, str) else None
        if usable is None:
            found.append(f"InvalidSizes: {name} is {shown(value)}; write {valid}")
        elif isinstance(usable, tuple):
            options = msgspec.structs.replace(options, sizes=usable)
        else:
            options = msgspec.structs.replace(options, **{field: usable})
    return Training(options, tuple(found))


def _count(text: str) -> int | None:
    found = int(text) if _NUMBER.fullmatch(text) else 0
    return found if 0 < found <= MAX_PODS else None


def _steps(text: str) -> Steps | tuple[int, ...] | None:
    """The name of a way to derive sizes, or the sizes themselves."""
    for steps in Steps:
        if text == steps:
            return steps
    sizes = list[int]()
    for part in text.split(",")[:MAX_PODS]:
        size = _count(part.strip())
        if size is None or (sizes and size >= sizes[-1]):
            return None
        sizes.append(size)
    return tuple(sizes)


_FIELDS: tuple[tuple[str, str, Callable[[str], Any], str], ...] = (
    (LEAST_SERVERS, "least_servers", _count, 'the fewest servers, for instance "2"'),
    (LEAST_NPUS, "least_npus", _count, 'the fewest NPUs, for instance "2"'),
    (SIZES, "steps", _steps, '"powers-of-two", "every", or a falling list, "8,6,4"'),
    (GROW, "grow", {one.value: one for one in Grow}.get, '"auto", "on" or "off"'),
    (RESTART_COST, "restart_cost", duration, 'a duration of at most 24h, for instance "20m"'),
    (RESIZE, "resize", {one.value: one for one in Resize}.get, '"in-place" or "replace"'),
    (FAULTS, "on_fault", {one.value: one for one in OnFault}.get, '"grace", "force" or "off"'),
)
"""Name of the label or annotation, field of the options, reader (None: unusable), usable values."""


def ladder_of(options: TrainingOptions, servers: int, npus: int, *, pairs: bool) -> Ladder:
    """The sizes of a job with so many servers and NPUs on each. `pairs`: nodes use their chips in
    pairs (Atlas A3). A job on one server without NPUs has one size."""
    if servers > 1:
        unit = Unit.SERVERS
        full = servers
        least = options.least_servers
    else:
        unit = Unit.NPUS
        full = max(npus, 1)
        least = options.least_npus
    if options.sizes:
        ladder = listed(unit, full, least or 1, options.sizes)
    else:
        ladder = derived(unit, full, min(least or full, full), options.steps)
    return in_pairs(ladder) if unit is Unit.NPUS and pairs else ladder


def why_no_ladder(options: TrainingOptions, servers: int, npus: int) -> Iterator[str]:
    """What is wrong with the options for a job of this size, each as `InvalidSizes: what was
    found`."""
    if servers > 1 and options.least_servers is not None and options.least_servers > servers:
        yield (
            f"InvalidSizes: {LEAST_SERVERS} is {options.least_servers}, but the job has {servers}"
            f" servers; write at most {servers}"
        )
    if servers == 1 and options.least_npus > max(npus, 1):
        yield (
            f"InvalidSizes: {LEAST_NPUS} is {options.least_npus}, but the job has {npus} NPUs;"
            f" write at most {npus}"
        )
