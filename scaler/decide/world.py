"""What a decision reads: frozen values only. What it gives back is in `decision.py`.

A `World` goes in, a `Decision` comes out, with the next `Memory` in it. All of them serialise with
msgspec.json, so a bug report, a test fixture and the input of `scaler explain` are the same file.
Times are seconds since the epoch."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from scaler.decide.memory import Memory
from scaler.decide.nodes import Nodes, PodRequest, PodRequests
from scaler.names import service_name
from scaler.reasons.reasons import Reason
from scaler.reasons.warnings import Warning
from scaler.rules.rule import ALL, Rule, RuleOptions


class ServiceKey(msgspec.Struct, frozen=True, gc=False, order=True, cache_hash=True):
    """The key of a service. `rule` is "" for jobs that name no rule: such jobs wait for nothing."""

    namespace: str
    rule: str
    job_id: str

    def __str__(self) -> str:
        """For memory, logs and labels; people read `shown`."""
        return f"{self.namespace}/{self.rule or '-'}/{self.job_id or '-'}"

    @property
    def shown(self) -> str:
        """The one name of the service for people: `mindie/scaling-rule-mindie`, the namespace and
        the name of its ElasticService."""
        return f"{self.namespace}/{service_name(self.rule, self.job_id)}"


def shown(key: str) -> str:
    """`ServiceKey.shown` of a key as text; other texts as they are."""
    parts = key.split("/")
    if len(parts) != 3:
        return key
    namespace, rule, job_id = ["" if part == "-" else part for part in parts]
    return ServiceKey(namespace, rule, job_id).shown


class RestartBudget(msgspec.Struct, frozen=True, gc=False):
    """Restarts of an instance whose operator counts each lost pod as one, and gives it up after
    `limit`."""

    limit: int
    used: int = 0


class CleanPods(StrEnum):
    """Which pods of a finished job are deleted; the values are those of
    `spec.runPolicy.cleanPodPolicy`."""

    ALL = "All"
    RUNNING = "Running"
    """Pods that have not ended; ended pods stay for their logs."""
    NONE = "None"
    """Only pods that are not bound to a node: these could take room from others later."""


class RunPolicy(msgspec.Struct, frozen=True, gc=False):
    """The run policy of a job. Times are seconds since the epoch, durations seconds."""

    backoff_limit: int = 0
    """Restarts that the job is allowed; 0 = any number."""
    retries: bool = False
    """Volcano retries failed pods (label `fault-retry-times`), as often as `Life.remaining`
    says."""
    clean: CleanPods = CleanPods.RUNNING
    ttl: int | None = None
    """Life of the job after it has finished; None = for ever."""
    deadline: int | None = None
    """Life of the job after its first start; None = for ever."""
    all_workers: bool = False
    """The job has succeeded when all its workers have, whatever the leader does."""
    started_at: float = 0.0
    finished_at: float = 0.0
    rounds: int = 0
    """How often all its pods were bound so far: the number of the round of its next pods."""


class FailedPod(msgspec.Struct, frozen=True, gc=False):
    """A pod in phase Failed."""

    name: str
    exit_code: int
    """Exit code of its container `ascend`; -1 when there is none."""
    exit_code_decides: bool = False
    """Its replica type has restartPolicy ExitCode."""
    disrupted: bool = False
    """The cluster ended the pod: evicted, node shut down, refused by the kubelet."""


FIRST_PAUSE = 10.0
LONGEST_PAUSE = 300.0
"""Seconds from one failure of a pod to its replacement, doubling, as a kubelet has for
containers."""


class KubeletRefusal(msgspec.Struct, frozen=True, gc=False):
    """The kubelet of a node refused a pod of an instance, so many times in a row; the last time at
    `at`."""

    node: str
    times: int
    at: float

    @property
    def pause(self) -> float:
        """Seconds until the instance is made anew."""
        return min(FIRST_PAUSE * 2.0 ** min(self.times - 1, 16), LONGEST_PAUSE)

    @property
    def over_at(self) -> float:
        return self.at + self.pause


class Life(msgspec.Struct, frozen=True, gc=False):
    """What the pods of an instance show about restarts and ending, beside their counts."""

    policy: RunPolicy = RunPolicy()
    version: int = -1
    """The newest round of its pods; -1 without pods."""
    remaining: int | None = None
    """Retries that Volcano has left for the instance; None = not known."""
    failed: tuple[FailedPod, ...] = ()
    succeeded: int = 0
    workers: int = 0
    """Workers of the instance, and how many of them succeeded."""
    workers_succeeded: int = 0
    surplus: tuple[str, ...] = ()
    """Pods beyond the replicas of the job, the highest index first."""
    outgrown: bool = False
    """The PodGroup asks for another number of pods than the job does now."""
    unbound: tuple[str, ...] = ()
    """Names of pods, of a finished job only: not bound to a node; bound and still running;
    ended."""
    running_on: tuple[str, ...] = ()
    over: tuple[str, ...] = ()


class Size(msgspec.Struct, frozen=True, gc=False):
    """A size at which a training job can be started: 3d of the contract."""

    name: str
    """As the cluster records it: `8`, or the name of a task."""
    amount: int
    """Servers, or NPUs of the one server: what `spec.replicas` counts, and people see."""
    pods: int
    needs: PodRequests
    """Pod requests of all its pods."""


class OnFault(StrEnum):
    """Who restarts a training job after a fault; the values are those of label
    `fault-scheduling`."""

    GRACE = "grace"
    """The scaler, as soon as the grace periods of its pods are over."""
    FORCE = "force"
    """The scaler; pods on nodes that are not Ready are deleted without a grace period."""
    OFF = "off"
    """Its owner alone."""


NOT_STARTED = -1
MIXED = -2
"""Of `Training.started`: its released pods are of several sizes, or do not say of which."""
NOT_IN_LADDER = -3
"""Of `Training.started`: they are of one size, which is none of the ladder any more."""


class Training(msgspec.Struct, frozen=True, gc=False):
    """What makes an instance a training job, which may be started at several sizes. Its other
    fields are those of its started size while a pod is released, else of its recorded size."""

    sizes: tuple[Size, ...]
    """The full size first, the minimum last."""
    recorded: int = 0
    """The size of the next start, as the cluster has it: an index in `sizes`."""
    started: int = NOT_STARTED
    """The size that its released pods have: an index in `sizes`, or one of the values above."""
    awaited: int = 0
    """Terminating pods whose names the pods of the recorded size need."""
    is_marked: bool = False
    """A restart of ours has begun, and some of its pods are not deleted yet."""
    has_exited: bool = False
    """A pod of it failed by its own exit: its owner decides what follows."""
    on_fault: OnFault = OnFault.GRACE
    repair: float = 0.0
    """Seconds that ClusterD may take to repair its processes, before it is restarted."""
    grows: bool = False
    """It may be restarted at a larger size while it is healthy."""
    restart_cost: float = 0.0
    """Seconds that one restart takes from the training at worst; 0.0 = not said."""

    @property
    def smallest(self) -> Size:
        return self.sizes[-1]

    @property
    def is_of_recorded_size(self) -> bool:
        """Whether its released pods are of the size that is recorded. Pods of a size that the
        ladder lost run on."""
        return self.started in (NOT_STARTED, NOT_IN_LADDER, self.recorded)


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
    """Revision of the owner's template; comparable within one owner only. A change ends attempts
    and backoff."""
    outdated: bool = False
    """The owner makes instances of a newer revision now."""
    wanted: int = 0
    """Instances that `spec.replicas` of its owner names, those of a rollout's surge left out; 0 =
    not known."""
    unheld: int = 0
    """Pods that came without our gate: the pods cannot be held, and a deleted pod comes again at
    once."""
    more_to_come: bool = False
    """Pods are missing, and the owner makes each of them only when its first pods are ready, or, of
    an instance without pods, when instances of another role are ready; `newest` is then the
    creation of the newest pod of those instances that are bound, 0.0 for none."""
    first_are_ready: bool = False
    """Where more are to come: the first pods are ready, so that the owner makes the others now."""
    newest: float = 0.0
    """Creation of its newest pod that is not terminating; 0.0 without pods."""
    ends_by: float = 0.0
    """When its terminating pods should be gone, grace included; 0.0 = none, -1.0 = not known: a
    node is not Ready."""
    misplaced: bool = False
    """A released pod is in a PodGroup of several instances: the scaler has to correct that."""
    budget: RestartBudget | None = None
    """The restarts that a revocation uses up; None when a revocation costs no restart."""
    requests: PodRequests = msgspec.field(name="needs", default=())
    """Pod requests of all expected pods; empty = not known, then the instance is not arbitrated."""
    unbound: PodRequests = ()
    """Pod requests of the expected pods that hold no node: missing, gated, not bound, terminating
    or ended."""
    scheduler: str = ""
    """`schedulerName` of its pods; "" = not known, or it has none."""
    scheduler_says: str = ""
    """For people: why the scheduler does not bind its pods, as its PodGroup says; "" = nothing."""
    never_placed: str = ""
    """The scheduler's words where it binds no pod of it whatever is free, because of what the job
    asks for; "" = it does not say so. An edit of the job ends it."""
    asks: str = ""
    """What the job asks of MindCluster's scheduler in annotations and labels, as one text: an edit
    of these changes no generation."""
    priority: int = 0
    """Value of the highest PriorityClass that the job's scheduling policy names."""
    bound_pods: tuple[tuple[str, PodRequest], ...] = msgspec.field(name="seats", default=())
    """The bound pods that have not ended: name of the node, and pod request."""
    grace: float = 0.0
    """Seconds: the longest grace period of its bound pods."""
    deletion_cost: int = 0
    """Sum over its pods of the annotation controller.kubernetes.io/pod-deletion-cost."""
    irreplaceable: bool = False
    """No owner makes its pods again after a deletion."""
    refused: tuple[str, ...] = ()
    """Names of its pods that their kubelets refused: they failed before any container started, and
    have to be deleted to be made anew. None where nothing would make them."""
    refusals: tuple[KubeletRefusal, ...] = ()
    """What kubelets refused of it lately, one for each node; the refused pods may be gone."""
    replaced: bool = False
    """It has ended with its pods, and its owner makes others in its place."""
    displaced: bool = False
    """Some of its pods are bound, in blocks of a super-pod, and others cannot return to their
    nodes: the scheduler would choose the nodes of the whole instance anew for them, perhaps in
    another super-pod."""

    training: Training | msgspec.UnsetType = msgspec.UNSET
    """The sizes of a training job; of an instance with one size it is not set, and not
    written."""
    seen_together: bool = False
    """The scheduler chooses nodes for those of its pods that it sees in one session, and leaves
    something out of pods that come later: it has to see all of them at once."""

    @property
    def on_nodes(self) -> int:
        """Pods that are bound to a node and have not ended: they hold their room."""
        return self.bound - self.ended

    @property
    def may_go_on(self) -> bool:
        """Whether the pods that are bound may go on as they are. Of a training job they may not
        when one of its pods is gone, or when they are of another size than they should be: all
        have to start anew."""
        if self.training is msgspec.UNSET or not self.bound:
            return True
        if not self.training.is_of_recorded_size:
            return False
        is_healed = self.training.on_fault is OnFault.OFF
        return is_healed or self.pods - self.gated >= self.expected

    @property
    def largest(self) -> Size:
        """The largest size that it has."""
        if self.training is msgspec.UNSET:
            return Size("", 1, self.expected, self.requests)
        return self.training.sizes[0]

    @property
    def least_requests(self) -> PodRequests:
        """What its pods request at the smallest size that it has."""
        if self.training is msgspec.UNSET:
            return self.requests
        return self.training.smallest.needs

    @property
    def may_request(self) -> tuple[PodRequests, ...]:
        """What its pods may request in all: at each size that it has."""
        if self.training is msgspec.UNSET:
            return (self.requests,)
        return (self.requests, *[size.needs for size in self.training.sizes])


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
    gather: float = 60.0
    fit_patience: float = 60.0
    trade_after: float = 90.0
    eviction_pause: float = 600.0
    flap_patience: float = 30.0
    preempt: Preempt = Preempt.HIGHER_PRIORITY
    honour_preemptable: bool = True
    max_service_priority: int | None = None
    restart_after: float = 10.0
    spare_patience: float = 60.0
    grow_interval: float = 600.0
    grow_patience: float = 60.0


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
    last_binds: dict[str, float] = {}
    """The same by `schedulerName` of the pod, as far as it is known."""
    memory: Memory = Memory()
    policy: Policy = Policy()
    resource_versions: dict[str, str] = {}
    """Resource plural -> the resourceVersion up to which the cache had seen it."""
    format: int = 2
