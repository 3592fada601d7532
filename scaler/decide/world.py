"""The vocabulary of the decision: frozen values only.

A `World` goes in, a `Decision` comes out, with the next `Memory` in it. All of them serialise with msgspec.json, so a
bug report, a test fixture and the input of `scaler explain` are the same file. Times are seconds since the epoch.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from scaler.decide.lifecycle import InstanceAction, Life, LifeAction
from scaler.decide.memory import Memory
from scaler.decide.nodes import Nodes, PodRequest, PodRequests
from scaler.rules.rule import ALL, Rule, RuleOptions


class State(StrEnum):
    """The state of an instance, derived from its pods each time; see docs/explanation/how-it-decides.md."""

    FINISHED = "Finished"
    TERMINATING = "Terminating"
    HELD = "Held"
    RUNNING = "Running"
    BROKEN = "Broken"
    STARTING = "Starting"
    ADMITTED = "Admitted"


NOBODY = "-"
"""Whom a revoked or deleted instance makes room for when nothing is missing."""


class Reason(StrEnum):
    """Why an instance is where it is. Stable names: events, conditions, status, metrics, CLI and docs use them."""

    # held
    WAITING_FOR_RATIO = "WaitingForRatio"
    NOT_IN_RATIO = "NotInRatio"
    GROUP_UNKNOWN = "GroupUnknown"
    GROUP_LABEL_MISSING = "GroupLabelMissing"
    JOB_ID_MISSING = "JobIdMissing"
    RULE_MISSING = "RuleMissing"
    RULE_INVALID = "RuleInvalid"
    MINIMUM_DOES_NOT_FIT = "MinimumDoesNotFit"
    MINIMUM_INCOMPLETE = "MinimumIncomplete"
    MINIMUM_TOO_LARGE = "MinimumTooLarge"
    MINIMUM_NOT_SCHEDULED = "MinimumNotScheduled"
    WAITING_FOR_ROOM = "WaitingForRoom"
    WAITING_FOR_CAPACITY = "WaitingForCapacity"
    REVOKED = "Revoked"
    SCALED_DOWN = "ScaledDown"
    NAME_TAKEN = "NameTaken"
    CREATE_REFUSED = "CreateRefused"
    JOB_INVALID = "JobInvalid"
    PAUSED = "Paused"
    TERMINATING = "Terminating"
    PREEMPTED = "Preempted"
    # admitted
    WAITING_FOR_SCHEDULER = "WaitingForScheduler"
    STARTING = "Starting"
    # others
    RUNNING = "Running"
    BROKEN = "Broken"
    FINISHED = "Finished"
    SURPLUS_RUNNING = "SurplusRunning"
    REVOKE_WOULD_COST_RESTARTS = "RevokeWouldCostRestarts"
    NOT_SERVED = "NotServed"


class Warning(StrEnum):  # noqa: A001 - the contract's own word; nothing here uses the builtin
    """Said beside a reason, about an instance or about the whole service."""

    INSTANCE_SIZE_MISMATCH = "InstanceSizeMismatch"
    TARGET_UNREACHABLE = "TargetUnreachable"
    HOLD_NOT_POSSIBLE = "HoldNotPossible"
    UNKNOWN_OWNER = "UnknownOwner"
    NOT_SERVED = "NotServed"
    JOB_INVALID = "JobInvalid"
    RULE_MISSING = "RuleMissing"
    RULE_INVALID = "RuleInvalid"
    OBJECT_UNREADABLE = "ObjectUnreadable"
    NOT_DECIDED = "NotDecided"
    RANK_TABLE_MISSING = "RankTableMissing"
    RANK_TABLE_NOT_OURS = "RankTableNotOurs"
    RANK_TABLE_IMMUTABLE = "RankTableImmutable"
    RANK_TABLE_WRONG_SHAPE = "RankTableWrongShape"
    RANK_TABLE_TOO_LARGE = "RankTableTooLarge"
    RANK_TABLE_REFUSED = "RankTableRefused"
    DEVICE_DATA_INVALID = "DeviceDataInvalid"


class ServiceKey(msgspec.Struct, frozen=True, gc=False, order=True, cache_hash=True):
    """The unit of decision. `rule` is "" for jobs that name none: they have nothing to wait for."""

    namespace: str
    rule: str
    job_id: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.rule or '-'}/{self.job_id or '-'}"


class RestartBudget(msgspec.Struct, frozen=True, gc=False):
    """Of an instance whose every lost pod counts as a restart with the operator that makes it."""

    limit: int
    """Restarts after which that operator gives the instance up."""
    used: int = 0


class Instance(msgspec.Struct, frozen=True, gc=False):
    """One prefill or decode server: its owner (an AscendJob, ...) and its pods, as counts.

    All pod counts but `terminating` leave out pods with a deletionTimestamp. Pods are the owner's by owner uid.
    """

    uid: str
    name: str
    group: str | None
    """Value of label mind-cluster/group-name; None when the label is missing, "" when it is empty."""
    created: float
    """When the owner was created; with the natural order of names it orders instances."""
    expected: int
    """Pods that the instance consists of."""
    kind: str = "AscendJob"
    generation: int = 0
    """metadata.generation of the owner: a refused creation is tried again at once when it changes."""
    owner_deleting: bool = False
    owner_finished: bool = False
    pods: int = 0
    """Expected pods that exist and are not terminating; expected - pods are missing."""
    gated: int = 0
    bound: int = 0
    running: int = 0
    ready: int = 0
    ended: int = 0
    """Phase Failed or Succeeded."""
    terminating: int = 0
    crashing: int = 0
    """In CrashLoopBackOff now."""
    faulty: int = 0
    """On a node or chip known as faulty."""
    restarts: int = 0
    """Sum of container restart counts."""
    admitted_at: float = 0.0
    """Creation of its oldest pod; 0.0 without pods."""
    leftovers: bool = False
    """An admission's object other than pods exists (its PodGroup)."""
    stripped: bool = False
    """It has pods and no PodGroup or Service any more: what the scheduler or its clients need was deleted."""
    mislabelled: tuple[Reason, str] | None = None
    """What is wrong with its labels while it has released pods, what to write, and what it counts as."""
    label_problem: Reason | None = None
    """What its labels alone hold it for: GroupLabelMissing, JobIdMissing, RuleMissing for an empty rule name, or
    NotServed for a job that is not ours at all."""
    faults: tuple[str, ...] = ()
    """All that keeps pods from being made of its spec; empty when nothing does."""
    name_taken: str = ""
    """`Kind name` of an object that another owner has under a name this instance needs; "" when none."""
    trouble: str = ""
    """For people: what is wrong with its pods, e.g. `pod d0-master-0 on node node-4, which is not Ready`."""
    life: Life = Life()
    """How it restarts and ends."""
    warnings: tuple[tuple[Warning, str], ...] = ()
    """What people should know of it besides, with words; nothing of it is decided on."""
    made_by_us: bool = True
    """False: its owner makes its pods and objects, which can be released and revoked here, never made."""
    owner: str = ""
    """What makes this instance and its like (uid of the Deployment, LeaderWorkerSet, ...); "" = it stands alone."""
    revision: str = ""
    """Of its owner's template; instances are compared within one owner only. For people."""
    outdated: bool = False
    """Its owner makes instances of a newer revision now."""
    wanted: int = 0
    """Instances that `spec.replicas` of its owner names, those of a rollout's surge left out; 0 = not known."""
    unheld: int = 0
    """Pods that came without our gate: nothing holds them, and what is deleted of them comes again at once."""
    more_to_come: bool = False
    """Its owner makes the rest of its pods once the first ones are ready."""
    newest: float = 0.0
    """Creation of its newest pod that is not terminating; 0.0 without pods."""
    ends_by: float = 0.0
    """When the last of its terminating pods should be gone, its grace period included; 0.0 without any, -1.0 when one
    of them is on a node that is not Ready: it is not known then."""
    misplaced: bool = False
    """A released pod of it is in a PodGroup that it shares with other instances: that has to be mended."""
    budget: RestartBudget | None = None
    """What a revocation is paid from; None when it costs nothing."""
    needs: PodRequests = ()
    """What all its expected pods ask for; empty when it is not known, then it is not arbitrated."""
    unbound: PodRequests = ()
    """What those of them ask for that are missing, gated or not bound to a node."""
    priority: int = 0
    """Value of the highest PriorityClass that the job's scheduling policy names."""
    seats: tuple[tuple[str, PodRequest], ...] = ()
    """Where its bound pods that have not ended are: the node's name, and what the pod asks for."""
    deletion_cost: int = 0
    """Of its pods together: what the annotation controller.kubernetes.io/pod-deletion-cost says."""
    irreplaceable: bool = False
    """Nothing makes its pods again."""


class Preempt(StrEnum):
    """Whose scale-ups a minimum may evict."""

    HIGHER_PRIORITY = "higher-priority"
    """Those of services of a lower priority than its own."""
    EQUAL_OR_HIGHER = "equal-or-higher"
    NEVER = "never"


class Policy(msgspec.Struct, frozen=True, gc=False):
    """The settings that the decision depends on. Seconds."""

    broken_grace: float = 60.0
    stable_after: float = 30.0
    start_timeout: float = 1800.0
    """How long an instance may be bound without ever running before it is of no use."""
    revoke: bool = True
    restart_reserve: int = -1
    """Restarts that a revocation never touches; -1 = half the limit, at least 2."""
    minimum_timeout: float = 30.0
    """A turn: how long a reservation may make no progress."""
    backoff: float = 30.0
    backoff_max: float = 300.0
    """The pause after a turn, doubled each time up to the longest; that is also the longest turn while the scheduler
    binds nothing anywhere."""
    due_back: float = 300.0
    """How long room of ending pods and of absent nodes counts as to come."""
    fit_patience: float = 60.0
    """How long a minimum that fits nowhere is held before it is tried all the same."""
    trade_after: float = 90.0
    """How long something must be missing before own running surplus is evicted for it."""
    preempt: Preempt = Preempt.HIGHER_PRIORITY
    honour_preemptable: bool = True
    """Whether the annotation mind-cluster/preemptable: "false" protects a service."""
    max_service_priority: int | None = None
    """The most that the annotation mind-cluster/service-priority is worth; None = what the PriorityClass is worth."""


class RuleProblem(msgspec.Struct, frozen=True, gc=False):
    """What is wrong with the rule now. With a `Service.rule` beside it, that is the last valid one, still in force."""

    kind: Warning
    """RULE_MISSING or RULE_INVALID."""
    message: str


class Service(msgspec.Struct, frozen=True, gc=False):
    """One service as the cluster shows it; unchanged ones are the same object in the next world."""

    key: ServiceKey
    instances: tuple[Instance, ...]
    rule: Rule | None = None
    """The rule in force; None when no valid one was ever seen (or key.rule is "")."""
    options: RuleOptions = RuleOptions()
    problem: RuleProblem | None = None
    unread: tuple[str, ...] = ()
    """What of it cannot be read, in words."""
    replicas: int = ALL
    """Instances wanted in all: `spec.replicas` of its ElasticService; 0 = the service rests."""
    assumed: bool = False
    """Writes for it are under way: its instances are as they will be, and nothing is done to it before it is seen."""


class World(msgspec.Struct, frozen=True, gc=False):
    """All that a decision depends on: the same world gives the same decision, byte for byte."""

    now: float
    services: tuple[Service, ...]
    """Of the controller's scope, at rest or not, sorted by key."""
    nodes: Nodes | None = None
    """Made for the pod requests of all services; None where each service decides alone."""
    alone: str = ""
    """Why each service decides alone; "" when they do not."""
    last_bind: float = 0.0
    """When any pod was last seen to become bound; 0.0 = never."""
    memory: Memory = Memory()
    policy: Policy = Policy()
    resource_versions: dict[str, str] = {}
    """Resource plural -> the resourceVersion up to which the cache had seen it."""
    format: int = 2


class Admit(InstanceAction, frozen=True):
    """Give a held instance all of its pods (or take all gates off)."""


class Complete(InstanceAction, frozen=True):
    """Create what is missing (or release the gated members) of an instance that has live pods."""


class Revoke(InstanceAction, frozen=True):
    """Take an admission back: delete unbound pods and the PodGroup. Also tidies what a held instance left behind."""


class Evict(InstanceAction, frozen=True):
    """Delete the pods of an instance bound at least in part: preemption for a missing minimum, or fewer are to run."""

    beneficiary: str
    """The service that needs the room, as `str(ServiceKey)`; `NOBODY` when fewer are wanted."""


SlotAction = Admit | Complete | Revoke | Evict
"""What the ratio decides; `LifeAction` is what the life of one instance asks for, whatever the ratio."""
Action = SlotAction | LifeAction


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """Where one instance is and why: exactly one per instance of the service. decide.explain puts it into words."""

    uid: str
    name: str
    group: str | None
    state: State
    reason: Reason
    about: tuple[str, ...] = ()
    """What the reason refers to: the groups waited for, the API server's words, the pod in trouble."""


class Note(msgspec.Struct, frozen=True, gc=False):
    """A warning beside the reasons. `uid` is "" when it is about the whole service."""

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
    """Instances of the newest revision that stand beside a running outdated one; the two count once, as running."""
    beside: int = 0
    """Of `admit`, those that need no place because they will stand beside a running outdated one."""


class Plan(msgspec.Struct, frozen=True, gc=False):
    """What to do for one service, with one verdict for every instance."""

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
    """Instances of the largest ratio that `spec.replicas` asks for; `ALL` = as the rule says, 0 = the service rests."""


class Tally(msgspec.Struct, frozen=True, gc=False):
    """What the metrics say of one decision."""

    serving: int = 0
    """Services that run their minimum at least; of those that are weighed against each other."""
    minimums_waiting: int = 0
    scale_ups_waiting: int = 0
    """Instances beyond a minimum that would start if there were room."""
    in_backoff: int = 0
    """Services whose minimum was not bound in its turn."""
    probing: int = 0
    revoked: int = 0
    """Admissions that this decision takes back for lack of room or at the end of a turn."""
    evicted: int = 0
    idle: dict[str, int] = {}
    """What the bound pods of services that do not serve hold to no use, by resource."""


class Decision(msgspec.Struct, frozen=True, gc=False):
    """What to do about every service of a world."""

    plans: tuple[Plan, ...]
    """In the order of `World.services`; one that is as it was is the same object."""
    memory: Memory
    recheck_at: float = 0.0
    """When time alone may change the decision; 0.0 = never."""
    tally: Tally | None = None
    """None where each service decides alone."""
