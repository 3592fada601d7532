"""The vocabulary of the decision: frozen values only.

A `World` goes in, a `Decision` comes out, with the next `Memory` in it. All of them serialise with
msgspec.json, so a bug report, a test fixture and the input of `scaler explain` are the same file.
Times are seconds since the epoch."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from scaler.decide.memory import Memory
from scaler.decide.nodes import Nodes, PodRequest, PodRequests
from scaler.decide.service.lifecycle import InstanceAction, Life, LifeAction
from scaler.rules.rule import ALL, Rule, RuleOptions


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


class Reason(StrEnum):
    """Why an instance is in its state. Stable names: events, conditions, status, metrics, CLI and
    docs use them."""

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
    """A problem of an instance or of the whole service, reported beside the reasons."""

    INSTANCE_SIZE_MISMATCH = "InstanceSizeMismatch"
    TARGET_UNREACHABLE = "TargetUnreachable"
    HOLD_NOT_POSSIBLE = "HoldNotPossible"
    UNKNOWN_OWNER = "UnknownOwner"
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
    """The key of a service. `rule` is "" for jobs that name no rule: such jobs wait for nothing."""

    namespace: str
    rule: str
    job_id: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.rule or '-'}/{self.job_id or '-'}"


class RestartBudget(msgspec.Struct, frozen=True, gc=False):
    """Restarts of an instance whose operator counts each lost pod as one, and gives it up after
    `limit`."""

    limit: int
    used: int = 0


class Instance(msgspec.Struct, frozen=True, gc=False):
    """One prefill or decode server: its owner (an AscendJob, ...) and its pods, as counts. All pod
    counts but `terminating` leave out pods with a deletionTimestamp."""

    uid: str
    """The uid of a job, or of a pod that does not return; of others their identity
    (`LeaderWorkerSet/ns/name/0`)."""
    name: str
    group: str | None
    """Value of label mind-cluster/group-name; None when the label is missing, "" when it is
    empty."""
    created: float
    """When the owner was created; with the natural order of names it orders instances."""
    expected: int
    """Pods that the instance consists of."""
    kind: str = "AscendJob"
    generation: int = 0
    """metadata.generation of the owner: after a change a refused creation is tried again at
    once."""
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
    admitted_at: float = 0.0
    """Creation of its oldest pod; 0.0 without pods."""
    leftovers: bool = False
    """An object of an admission other than pods exists (the PodGroup)."""
    stripped: bool = False
    """The instance has pods, but its PodGroup or Service was deleted: the scheduler or clients need
    it."""
    mislabelled: tuple[Reason, str] | None = None
    """The reason and words where the labels are wrong and pods are released: what to write, what it
    counts as now."""
    label_problem: Reason | None = None
    """Why its labels alone hold the instance: GroupLabelMissing, JobIdMissing, RuleMissing for an
    empty rule name, or NotServed for a job that the scaler does not serve."""
    faults: tuple[str, ...] = ()
    """Why no pods can be made of its spec; empty when pods can be made."""
    name_taken: str = ""
    """`Kind name` of an object of another owner with a name that this instance needs; "" when there
    is none."""
    trouble: str = ""
    """For people: what is wrong with its pods, e.g. `pod d0-master-0 on node node-4, which is not
    Ready`."""
    life: Life = Life()
    warnings: tuple[tuple[Warning, str], ...] = ()
    """Warnings for people, with words; the decision does not depend on them."""
    made_by_us: bool = True
    """False: the owner makes pods and objects; the scaler releases and revokes them, and never
    creates them."""
    owner: str = ""
    """Identity of what makes this instance and others like it, e.g. `Deployment/ns/name`; "" = no
    such object."""
    revision: str = ""
    """Revision of the owner's template; comparable within one owner only. A change ends turns and
    backoff."""
    outdated: bool = False
    """The owner makes instances of a newer revision now."""
    wanted: int = 0
    """Instances that `spec.replicas` of its owner names, those of a rollout's surge left out; 0 =
    not known."""
    unheld: int = 0
    """Pods that came without our gate: the pods cannot be held, and a deleted pod comes again at
    once."""
    more_to_come: bool = False
    """The owner makes the other pods when the first pods are ready."""
    newest: float = 0.0
    """Creation of its newest pod that is not terminating; 0.0 without pods."""
    ends_by: float = 0.0
    """When its terminating pods should be gone, grace included; 0.0 = none, -1.0 = not known: a
    node is not Ready."""
    misplaced: bool = False
    """A released pod is in a PodGroup of several instances: the scaler has to correct that."""
    budget: RestartBudget | None = None
    """The restarts that a revocation uses up; None when a revocation costs no restart."""
    needs: PodRequests = ()
    """Pod requests of all expected pods; empty = not known, then the instance is not arbitrated."""
    unbound: PodRequests = ()
    """Pod requests of the expected pods that are missing, gated or not bound to a node."""
    priority: int = 0
    """Value of the highest PriorityClass that the job's scheduling policy names."""
    seats: tuple[tuple[str, PodRequest], ...] = ()
    """The bound pods that have not ended: name of the node, and pod request."""
    deletion_cost: int = 0
    """Sum over its pods of the annotation controller.kubernetes.io/pod-deletion-cost."""
    irreplaceable: bool = False
    """No owner makes its pods again after a deletion."""


class Preempt(StrEnum):
    """Whose scale-ups a minimum may evict."""

    HIGHER_PRIORITY = "higher-priority"
    """Scale-ups of services of a lower priority."""
    EQUAL_OR_HIGHER = "equal-or-higher"
    NEVER = "never"


class Policy(msgspec.Struct, frozen=True, gc=False):
    """The settings that the decision depends on; `scaler/settings.py` says what each means.
    Seconds."""

    broken_grace: float = 60.0
    stable_after: float = 30.0
    start_timeout: float = 1800.0
    revoke: bool = True
    restart_reserve: int = -1
    minimum_timeout: float = 30.0
    backoff: float = 30.0
    backoff_max: float = 300.0
    due_back: float = 300.0
    fit_patience: float = 60.0
    trade_after: float = 90.0
    preempt: Preempt = Preempt.HIGHER_PRIORITY
    honour_preemptable: bool = True
    max_service_priority: int | None = None


class RuleProblem(msgspec.Struct, frozen=True, gc=False):
    """What is wrong with the rule now. A `Service.rule` beside it is the last valid rule, which is
    still in force."""

    kind: Warning
    """RULE_MISSING or RULE_INVALID."""
    message: str


class Service(msgspec.Struct, frozen=True, gc=False):
    """One service as the cluster shows it; an unchanged service is the same object in the next
    world."""

    key: ServiceKey
    instances: tuple[Instance, ...]
    rule: Rule | None = None
    """The rule in force; None when no valid rule was ever seen (or key.rule is "")."""
    options: RuleOptions = RuleOptions()
    problem: RuleProblem | None = None
    unread: tuple[str, ...] = ()
    """Objects of the service that cannot be read, in words."""
    replicas: int = ALL
    """Instances wanted in all: `spec.replicas` of its ElasticService; 0 = the service rests."""
    assumed: bool = False
    """Writes for the service are under way: its instances are as they will be, and its plan has no
    actions."""


class World(msgspec.Struct, frozen=True, gc=False):
    """All that a decision depends on: the same world gives the same decision, byte for byte."""

    now: float
    services: tuple[Service, ...]
    """All services of the controller's scope, sorted by key."""
    nodes: Nodes | None = None
    """Made for the pod requests of all services; None where each service decides alone."""
    alone: str = ""
    """Why each service decides alone; "" when services are weighed against each other."""
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
    """Create the missing pods (or release the gated ones) of an instance that has live pods."""


class Revoke(InstanceAction, frozen=True):
    """Undo an admission: delete unbound pods and the PodGroup. Also deletes what is left of a held
    instance."""


class Evict(InstanceAction, frozen=True):
    """Delete the pods of an instance of which a pod is bound: preemption for a missing minimum, or
    a drain."""

    beneficiary: str
    """The service that needs the room, as `str(ServiceKey)`; `NOBODY` for a drain."""


SlotAction = Admit | Complete | Revoke | Evict
"""Actions that follow from ratio and room. A `LifeAction` follows from the life of one instance
alone."""
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


class Tally(msgspec.Struct, frozen=True, gc=False):
    """The numbers of one decision for the metrics."""

    serving: int = 0
    """Weighed services that run at least their minimum."""
    minimums_waiting: int = 0
    scale_ups_waiting: int = 0
    """Instances beyond a minimum that wait for room."""
    in_backoff: int = 0
    probing: int = 0
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
