"""What a decision gives back: frozen values only. What it reads is in `world.py`.

A `Plan` for each service has the actions, and one `Verdict` for each instance. Actions are data:
the executor carries them out."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from scaler.decide.memory import Memory
from scaler.decide.nodes import PodRequests
from scaler.decide.world import ServiceKey
from scaler.reasons.reasons import Reason
from scaler.reasons.warnings import Warning
from scaler.rules.rule import ALL


class State(StrEnum):
    """The state of an instance, derived from its pods each time; see
    docs/explanation/how-it-decides.md."""

    FINISHED = "Finished"
    TERMINATING = "Terminating"
    HELD = "Held"
    RUNNING = "Running"
    BROKEN = "Broken"
    STARTING = "Starting"
    ADMITTED = "Admitted"


NOBODY = "-"
"""The beneficiary where there is none: an instance is revoked or deleted for no other service."""


class InstanceAction(msgspec.Struct, frozen=True, gc=False, tag=True, tag_field="action"):
    uid: str


class Admit(InstanceAction, frozen=True, omit_defaults=True):
    """Give a held instance all of its pods (or take all gates off)."""

    size: int = -1
    """3d.2: the size at which a training job is started, an index in `Training.sizes`; -1 = it has
    one size."""


class Complete(InstanceAction, frozen=True):
    """Create the missing pods (or release the gated ones) of an instance that has live pods."""


class Revoke(InstanceAction, frozen=True):
    """Undo an admission: delete unbound pods and the PodGroup. Also deletes what is left of a held
    instance."""


class Evict(InstanceAction, frozen=True):
    """Delete the pods of an instance of which a pod is bound: preemption for a missing minimum, or
    more instances than are wanted (3c)."""

    beneficiary: str
    """The service that needs the room, as `str(ServiceKey)`; `NOBODY` where fewer are wanted."""


class Cause(StrEnum):
    """Why a training job is restarted, or its recorded size changes: 3d of the contract."""

    START = "start"
    """It starts at another size than the recorded one. None of its pods is bound."""
    FAULT = "fault"
    GROWTH = "growth"
    PREEMPTION = "preemption"
    LIMIT = "limit"
    """`spec.replicas` asks for a smaller size."""


class Restart(InstanceAction, frozen=True):
    """Record this size of a training job, and delete all its pods, with their own grace period: it
    starts anew, when its room is reserved, by an `Admit`."""

    size: int
    """The size of its next start, an index in `Training.sizes`; may be the one before."""
    cause: Cause
    beneficiary: str = NOBODY
    """The service that needs the room, as `str(ServiceKey)`; `NOBODY` = it is for itself."""


class Ending(StrEnum):
    """Why the scaler ended a job: the reason of its last condition."""

    JOB_SUCCEEDED = "JobSucceeded"
    POD_FAILED = "PodFailed"
    BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded"
    DEADLINE_EXCEEDED = "DeadlineExceeded"

    @property
    def outcome(self) -> str:
        """How the job ends: the type of its last condition."""
        return "Succeeded" if self is Ending.JOB_SUCCEEDED else "Failed"


class Record(InstanceAction, frozen=True):
    """Note on the job that all its pods were bound. `rounds`: the version of its next pods."""

    rounds: int


class Remove(InstanceAction, frozen=True):
    """Delete these pods, one after the other in this order, and if `pod_group` the PodGroup too."""

    pods: tuple[str, ...]
    pod_group: bool = False


class Resize(InstanceAction, frozen=True):
    """Set the number of pods in the PodGroup to that of the job."""


class Finish(InstanceAction, frozen=True):
    """Write into the job's status that the job has succeeded or failed, for good."""

    reason: Ending
    message: str


class Expire(InstanceAction, frozen=True):
    """Delete a job whose time after its end is over; the garbage collector deletes what the job
    owns."""


SlotAction = Admit | Complete | Revoke | Evict | Restart
"""Actions that follow from ratio and room."""
LifeAction = Record | Remove | Resize | Finish | Expire
"""Actions that follow from the life of one instance alone."""
Action = SlotAction | LifeAction


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """State and reason of one instance; each instance has exactly one verdict. `explain.py` makes
    sentences of them."""

    uid: str
    name: str
    group: str | None
    state: State
    reason: Reason
    about: tuple[str, ...] = ()
    """Words that the reason refers to: missing groups, the answer of the API server, the pod in
    trouble."""


class Note(msgspec.Struct, frozen=True, gc=False):
    """A warning beside the reasons. `uid` is "" for a warning about the whole service."""

    warning: Warning
    message: str
    uid: str = ""


class GroupPlan(msgspec.Struct, frozen=True, gc=False):
    """One group's share of the plan, counted before the plan takes effect."""

    target: int
    running: int
    in_flight: int
    held: int
    live: int
    admit: int = 0
    revoke: int = 0
    paired: int = 0
    """Instances of the newest revision that stand beside a running outdated one; the two count
    once, as running."""
    beside: int = 0
    """Of `admit`: instances without a place of their own, because each is in a pair with a running
    outdated one."""


class Plan(msgspec.Struct, frozen=True, gc=False):
    """The actions for one service, and one verdict for each instance."""

    key: ServiceKey
    target_index: int
    """Index in rule.ratios, 0 = the largest; -1 without a rule, and where the service rests."""
    target: dict[str, int]
    complete: bool
    groups: dict[str, GroupPlan]
    verdicts: tuple[Verdict, ...]
    actions: tuple[Action, ...] = ()
    notes: tuple[Note, ...] = ()
    serves: bool = False
    """Every group runs at least its minimum."""
    replicas: int = ALL
    """Instances of the largest ratio that `spec.replicas` needs; `ALL` = as the rule says, 0 = the
    service rests."""
    unplaced: PodRequests = ()
    """3b.9b: the pods that its minimum lacks, where they have no room."""


class Tally(msgspec.Struct, frozen=True, gc=False):
    """The numbers of one decision for the metrics."""

    serving: int = 0
    """Weighed services that run at least their minimum."""
    minimums_waiting: int = 0
    scale_ups_waiting: int = 0
    """Instances beyond a minimum that wait for room."""
    in_backoff: int = 0
    probing: int = 0
    rounded: int = 0
    """3b.10c: services of which a request is rounded up."""
    careful: int = 0
    """3b.10c: services of which something waits because too many unlike requests have reservations
    to weigh what the scheduler may do to them."""
    idle: dict[str, int] = {}
    """Resource -> amount that bound pods of services hold which do not serve."""


class Decision(msgspec.Struct, frozen=True, gc=False):
    """The plans for all services of a world, and the next memory."""

    plans: tuple[Plan, ...]
    """In the order of `World.services`; an unchanged plan is the same object as before."""
    memory: Memory
    recheck_at: float = 0.0
    """When time alone may change the decision; 0.0 = never."""
    heeds_room: bool = False
    """Whether a change of what is free alone may change the decision."""
    tally: Tally | None = None
    """None where each service decides alone."""
