"""Plays a month on a lean cluster: the same decision, on values instead of objects. About ten times
as fast as the simulated API server, with which it is compared (`bench_availability --check`).

    happening, timer -> state -> world -> decide -> actions -> state
                          \\-> a session of the scheduler, at most one a second

Owners, scheduler, kubelets and MindCluster's fault handling take as long as the stand-ins of the
simulation. An instance is bound, runs, fails and is deleted as a whole, as gangs of MindIE are.
Not modelled: failing requests, watches that are late, several instances in one PodGroup."""

from __future__ import annotations

import heapq
import itertools
import random
import time
from collections.abc import Callable

import msgspec

from scaler.decide.again import DecisionCache
from scaler.decide.decision import Admit, Complete, Evict, InstanceAction, Revoke
from scaler.decide.memory import Memory
from scaler.decide.nodes import MOST_RETURNS, Node, NodeClass, Nodes, PodRequest, Return, Where
from scaler.decide.world import (
    FailedPod,
    Instance,
    Life,
    RunPolicy,
    ServiceKey,
    World,
)
from scaler.decide.world import (
    Service as SeenService,
)
from scaler.rules.rule import Ratio, Rule
from scaler.sim.actors.devices import chip_name
from tests.bench.availability.arms import PRODUCT, Arm, Played, decider_of, settings_of
from tests.bench.availability.minutes import NPU, Job, Numbers, Pod, Reasons, Witness
from tests.bench.availability.month import (
    GROUPS,
    KIND,
    RULE,
    Happening,
    Month,
    Service,
    What,
    class_of,
)

START = 1_790_000_000.0
REACTION = 0.005
"""Seconds from a change to the decision, and from that until its writes are seen."""
SESSIONS = 1.0
SETTLE = 0.02
"""Seconds from one session of the scheduler to the next at least, and from a change to a
session."""
STARTS = (8.0, 12.0)
STOPS = (1.0, 3.0)
DETECTION = 5.0
GRACE = 30.0
RESOURCES = (NPU, "pods")
PODS_PER_NODE = 110
LIFE = Life(policy=RunPolicy(retries=True), remaining=9999)


class Seat(msgspec.Struct):
    """A pod on a node."""

    node: str
    chips: frozenset[str]


class Machine(msgspec.Struct):
    """A node. `taken` has its chips that pods hold, those of pods that end too."""

    name: str
    kind: str
    npu: int
    silent: bool = False
    ready: bool = True
    since: float = 0.0
    faulty: dict[str, float] = {}
    """Name of a faulty chip -> since when."""
    taken: set[str] = set()
    pods: int = 0
    returns: list[Return] = []

    @property
    def usable(self) -> list[str]:
        """Names of the chips that a pod could get."""
        if not self.ready:
            return []
        names = [chip_name(NPU, number) for number in range(self.npu)]
        return [name for name in names if name not in self.taken and name not in self.faulty]


class Held(msgspec.Struct):
    """One job and its pods, all in the same phase. `phase`: "" no pods, "u" unbound, "s" starting,
    "r" running, "f" failed, "t" terminating."""

    uid: str
    service: Service
    name: str
    group: str
    created: float
    phase: str = ""
    seats: list[Seat] = []
    since: float = 0.0
    """When the pods were made, or began to end."""
    hurt: bool = False
    """A fault of its hardware is known."""
    round: int = 0
    """Grows with each change, so that timers of before do nothing."""
    leaving: bool = False


class Gang(msgspec.Struct):
    """Training that waits or runs."""

    name: str
    size: int
    since: float
    seats: list[Seat] = []


class Lean:
    def __init__(self, month: Month, arm: Arm, *, seed: int = 0) -> None:
        self._month = month
        self._decide = decider_of(arm)
        self._settings = settings_of(arm)
        self._policy = self._settings.policy
        self._rng = random.Random(f"lean-{seed}")
        self.now = START
        self.reasons = Reasons(heard=arm in PRODUCT)
        self.witness = Witness(month, START, self.reasons.of)
        self._machines = {
            node.name: Machine(node.name, class_of(node), node.npu) for node in month.nodes
        }
        self._services = {service.name: service for service in month.services}
        self._jobs: dict[str, Held] = {}
        self._by_uid: dict[str, Held] = {}
        self._gangs: dict[str, Gang] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._session_at = 0.0
        self._decision_at = 0.0
        self._last_session = 0.0
        self._last_bind = 0.0
        self._memory = Memory()
        self._cache = DecisionCache()
        self._seen: dict[str, SeenService] = {}
        self._nodes: dict[str, Node] = {}
        self._other_services: set[str] = set()
        self._other_nodes = set(self._machines)

    # time

    def play(self) -> Numbers:
        for one in self._month.happenings:
            self._at(START + one.at, lambda one=one: self._happen(one))  # type: ignore[misc]
        end = START + self._month.seconds
        while self._timers and self._timers[0][0] < end:
            self.now, _, act = heapq.heappop(self._timers)
            act()
        return self.witness.end(end)

    def _at(self, when: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (when, next(self._count), act))

    def _changed(self, service: str = "", *nodes: str) -> None:
        """Something is other now: a decision follows, and a session."""
        if service:
            self._other_services.add(service)
        self._other_nodes.update(nodes)
        self._decide_at(self.now + REACTION)
        due = max(self.now + SETTLE, self._last_session + SESSIONS)
        if not self._session_at:
            self._session_at = due
            self._at(due, self._session)

    def _decide_at(self, when: float) -> None:
        if not self._decision_at or when < self._decision_at:
            self._decision_at = when
            self._at(when, lambda: self._decide_now(when))

    # what comes from outside

    def _happen(self, one: Happening) -> None:
        match one.what:
            case What.APPLY:
                self._apply(one)
            case What.DELETE_JOB:
                self._delete(one.name)
            case What.NODE_SILENT:
                self._machines[one.name].silent = True
                self.witness.node_silent(one.name, self.now)
            case What.NODE_NOT_READY | What.NODE_BACK:
                self._node(one)
            case What.CHIP_FAULTY | What.CHIP_HEALED:
                self._chip(one)
            case What.EXIT:
                self._exit(self._jobs.get(one.name))
            case What.TRAINING_BEGINS:
                self._gangs[one.name] = Gang(one.name, one.number, self.now)
                self._changed()
            case What.TRAINING_ENDS:
                self._end_training(self._gangs.pop(one.name))

    def _exit(self, job: Held | None) -> None:
        """A container of its first pod exits, if that runs; MindCluster deletes its pods."""
        if job is not None and job.phase == "r" and not job.hurt:
            self._becomes(job, "f", job.seats)
            self._later(job, DETECTION, self._remove)

    def _end_training(self, gang: Gang) -> None:
        for index, seat in enumerate(gang.seats):
            self._leave(seat)
            self.witness.training(f"{gang.name}-{index}", None, self.now)
        self._changed("", *[seat.node for seat in gang.seats])

    def _apply(self, one: Happening) -> None:
        service = self._services.get(one.name) or self._services[one.name.rpartition("-")[0]]
        names = service.job_names() if one.name == service.name else [one.name]
        for name in names:
            group = GROUPS["pd".index(name.rpartition("-")[2][0])]
            number = next(self._count)
            job = Held(f"uid-{name}-{number}", service, name, group, float(int(self.now)))
            self._jobs[name] = job
            self._by_uid[job.uid] = job
            seen = Job(service.name, group, service.make.pods, name)
            self.witness.job(job.uid, seen, self.now)
        self._changed(service.name)

    def _delete(self, name: str) -> None:
        job = self._jobs.pop(name, None)
        if job is None:
            return
        job.leaving = True
        self.witness.job_leaves(job.uid, self.now)
        if job.phase in ("s", "r"):
            self._end(job)
        elif job.phase in ("u", "f", ""):
            self._becomes(job, "", [])
        self._changed(job.service.name)

    def _node(self, one: Happening) -> None:
        machine = self._machines[one.name]
        machine.ready = one.what is What.NODE_BACK
        if machine.ready:
            machine.returns.append(Return(self.now, self.now - machine.since))
            machine.silent = False
            self.witness.node_back(one.name, self.now)
        machine.since = self.now
        for job in list(self._by_uid.values()):
            if any(seat.node == one.name for seat in job.seats):
                self._hurts(job)
        self._changed("", one.name)

    def _chip(self, one: Happening) -> None:
        machine = self._machines[one.name]
        name = chip_name(NPU, one.number)
        healthy = one.what is What.CHIP_HEALED
        if healthy:
            since = machine.faulty.pop(name)
            machine.returns.append(Return(self.now, self.now - since))
        else:
            machine.faulty[name] = self.now
        self.witness.chip(one.name, one.number, self.now, healthy=healthy)
        for job in list(self._by_uid.values()):
            if any(seat.node == one.name and name in seat.chips for seat in job.seats):
                self._hurts(job)
        self._changed("", one.name)

    def _hurts(self, job: Held) -> None:
        """What it is on has become faulty or healthy. MindCluster deletes its pods when that has
        lasted."""
        before = job.hurt
        job.hurt = any(self._is_faulty(seat) for seat in job.seats)
        if job.hurt and not before and job.phase in ("s", "r"):
            self._later(job, DETECTION, self._remove_hurt)
        self._changed(job.service.name)

    def _is_faulty(self, seat: Seat) -> bool:
        machine = self._machines[seat.node]
        return not machine.ready or not seat.chips.isdisjoint(machine.faulty)

    # pods

    def _later(self, job: Held, seconds: float, act: Callable[[Held], None]) -> None:
        """Unless its pods have changed by then."""
        round_ = job.round
        self._at(self.now + seconds, lambda: act(job) if job.round == round_ else None)

    def _remove_hurt(self, job: Held) -> None:
        if job.hurt:
            self._remove(job)

    def _remove(self, job: Held) -> None:
        """Its pods are deleted by force."""
        self._becomes(job, "", [])

    def _end(self, job: Held) -> None:
        """Its pods are deleted, and end in their time."""
        self._becomes(job, "t", job.seats)
        stop = max(self._rng.uniform(*STOPS) for _ in job.seats)

        def over(one: Held) -> None:
            if any(self._machines[seat.node].silent for seat in one.seats):
                self._later(one, 60.0, over)
            else:
                self._becomes(one, "", [])

        self._later(job, stop, over)

    def _becomes(self, job: Held, phase: str, seats: list[Seat]) -> None:
        """All its pods are so now."""
        nodes = {seat.node for seat in [*job.seats, *seats]}
        if seats is not job.seats or phase == "f":
            for seat in job.seats:
                self._leave(seat)
        if seats is not job.seats:
            for seat in seats:
                self._take(seat)
        before = job.phase
        job.seats = seats
        job.phase = phase
        job.round += 1
        if phase in ("", "u", "t"):
            job.since = self.now
            job.hurt = False
        if phase not in ("t", ""):
            job.hurt = any(self._is_faulty(seat) for seat in seats)
        self._tell(job, before)
        if job.leaving and not phase:
            self._by_uid.pop(job.uid, None)
        self._changed(job.service.name, *nodes)

    def _take(self, seat: Seat) -> None:
        machine = self._machines[seat.node]
        machine.taken |= seat.chips
        machine.pods += 1

    def _leave(self, seat: Seat) -> None:
        machine = self._machines[seat.node]
        if seat.chips <= machine.taken:
            machine.taken -= seat.chips
            machine.pods -= 1

    def _tell(self, job: Held, before: str) -> None:
        """The witness sees each pod."""
        phases = {"u": "Pending", "s": "Pending", "r": "Running", "f": "Failed", "t": "Running"}
        make = job.service.make
        for index in range(make.pods):
            name = f"{job.name}-{index}"
            if not job.phase:
                if before:
                    gone = Pod(
                        "",
                        "Failed" if before == "f" else "Running",
                        False,
                        make.chips,
                        frozenset(),
                        False,
                    )
                    self.witness.pod(job.uid, name, gone, self.now, gone=True)
                continue
            seat = job.seats[index] if job.seats else Seat("", frozenset())
            failed = job.phase == "f" and index == 0
            phase = phases[job.phase] if index == 0 or job.phase != "f" else "Running"
            pod = Pod(seat.node, phase, job.phase == "t", make.chips, seat.chips, failed)
            self.witness.pod(job.uid, name, pod, self.now)

    # the scheduler

    def _session(self) -> None:
        self._session_at = 0.0
        self._last_session = self.now
        waiting: list[tuple[int, float, str, Held | Gang]] = []
        for job in self._by_uid.values():
            if job.phase == "u":
                waiting.append((-job.service.make.priority, job.since, job.name, job))
        for gang in self._gangs.values():
            if not gang.seats:
                waiting.append((0, gang.since, gang.name, gang))
        for _, _, _, each in sorted(waiting, key=lambda one: one[:3]):
            if isinstance(each, Gang):
                self._bind_training(each)
            else:
                self._bind(each)

    def _bind(self, job: Held) -> None:
        make = job.service.make
        seats = self._place(make.pods, make.chips, make.kind)
        if not seats:
            return
        self._last_bind = self.now
        self._becomes(job, "s", seats)
        if any(self._machines[seat.node].silent for seat in seats):
            return
        start = max(self._rng.uniform(*STARTS) for _ in seats)

        def runs(one: Held) -> None:
            if not any(self._machines[seat.node].silent for seat in one.seats):
                hurt = one.hurt
                self._becomes(one, "r", one.seats)
                if hurt:
                    self._later(one, DETECTION, self._remove_hurt)

        self._later(job, start, runs)

    def _bind_training(self, gang: Gang) -> None:
        seats = self._place(gang.size, 8, "module-910b-8")
        for index, seat in enumerate(seats):
            self._take(seat)
            self.witness.training(f"{gang.name}-{index}", (seat.node, 8), self.now)
        if seats:
            gang.seats = seats
            self._last_bind = self.now
            self._changed("", *[seat.node for seat in seats])

    def _place(self, pods: int, chips: int, kind: str) -> list[Seat]:
        """On the fullest nodes; all or none."""
        free = {
            machine.name: machine.usable
            for machine in self._machines.values()
            if kind in ("", machine.kind)
        }
        seats = []
        for _ in range(pods):
            fitting = [(len(left), name) for name, left in free.items() if len(left) >= chips]
            if not fitting:
                return []
            _, name = min(fitting)
            seats.append(Seat(name, frozenset(free[name][:chips])))
            free[name] = free[name][chips:]
        return seats

    # the decision

    def _decide_now(self, when: float) -> None:
        if when != self._decision_at:
            return
        self._decision_at = 0.0
        world = self._world()
        self.witness.catch_up(self.now)
        decision = self._decide(world, self._cache)
        self._memory = decision.memory
        self.reasons(world, decision)
        actions = [action for plan in decision.plans for action in plan.actions]
        for action in actions:
            if isinstance(action, InstanceAction):
                self._act(action)
        if decision.recheck_at:
            self._decide_at(max(decision.recheck_at, self.now + REACTION))

    def _act(self, action: InstanceAction) -> None:
        job = self._by_uid.get(action.uid)
        if job is None or job.leaving:
            return
        match action:
            case Admit() | Complete() if not job.phase:
                self._becomes(job, "u", [])
            case Revoke() if job.phase == "u":
                self._becomes(job, "", [])
            case Evict() if job.phase in ("s", "r", "f"):
                self._end(job)

    def _world(self) -> World:
        for name in self._other_services:
            service = self._look_at(self._services[name])
            if service is None:
                self._seen.pop(name, None)
            else:
                self._seen[name] = service
        self._other_services.clear()
        for name in self._other_nodes:
            self._nodes[name] = self._node_as_seen(self._machines[name])
        self._other_nodes.clear()
        nodes = None
        if self._settings.arbitration:
            nodes = Nodes(RESOURCES, tuple(self._nodes[name] for name in sorted(self._nodes)))
        return World(
            self.now,
            tuple(self._seen[name] for name in sorted(self._seen)),
            nodes,
            alone="" if nodes else "arbitration is off",
            last_bind=self._last_bind,
            last_binds={"volcano": self._last_bind} if self._last_bind else {},
            memory=self._memory,
            policy=self._policy,
        )

    def _look_at(self, service: Service) -> SeenService | None:
        names = [name for name in service.job_names() if name in self._jobs]
        if not names:
            return None
        instances = [self._instance(self._jobs[name]) for name in names]
        ratios = []
        for ratio in service.make.ladder:
            counts = dict(zip(GROUPS, ratio, strict=True))
            ratios.append(Ratio(counts=counts, sizes=dict.fromkeys(counts, service.make.pods)))
        key = ServiceKey(service.name, RULE, service.name)
        in_order = sorted(instances, key=lambda one: (one.group or "", one.name))
        return SeenService(key, tuple(in_order), Rule(tuple(ratios)))

    def _instance(self, job: Held) -> Instance:
        make = job.service.make
        size = make.pods
        alive = size if job.phase in ("u", "s", "r", "f") else 0
        bound = len(job.seats) if alive else 0
        runs = size if job.phase == "r" else size - 1 if job.phase == "f" else 0
        terminating = size if job.phase == "t" else 0
        request = request_of(make.chips, make.kind)
        waiting = size if not bound else int(job.phase == "f")
        faulty = sum(self._is_faulty(seat) for seat in job.seats) if alive else 0
        live = [seat for index, seat in enumerate(job.seats) if job.phase != "f" or index]
        failed = (FailedPod(f"{job.name}-master-0", 1),) if job.phase == "f" else ()
        return Instance(
            uid=job.uid,
            name=job.name,
            group=job.group,
            created=job.created,
            expected=size,
            pods=alive,
            bound=bound,
            running=runs,
            ready=runs,
            ended=len(failed),
            terminating=terminating,
            faulty=faulty,
            admitted_at=job.since if alive else 0.0,
            newest=job.since if alive else 0.0,
            leftovers=alive > 0,
            ends_by=job.since + GRACE if terminating else 0.0,
            requests=((request, size),),
            unbound=((request, waiting),) if waiting else (),
            scheduler="volcano",
            grace=GRACE if bound else 0.0,
            bound_pods=tuple((seat.node, request) for seat in live) if alive else (),
            priority=make.priority,
            life=msgspec.structs.replace(LIFE, failed=failed),
        )

    def _node_as_seen(self, machine: Machine) -> Node:
        left = machine.npu - len(machine.faulty) - len(machine.taken)
        ending = []
        for job in self._by_uid.values():
            if job.phase == "t":
                for seat in job.seats:
                    if seat.node == machine.name:
                        ending.append((job.since + GRACE, (len(seat.chips), 1)))
        return Node(
            name=machine.name,
            node_class=NodeClass(((KIND, machine.kind),)),
            allocatable=(machine.npu, PODS_PER_NODE),
            free=(left, PODS_PER_NODE - machine.pods),
            ending=tuple(sorted(ending)),
            ready=machine.ready,
            since=machine.since,
            away=tuple(sorted([(since, (1, 0)) for since in machine.faulty.values()])),
            returns=tuple(machine.returns[-MOST_RETURNS:]),
        )


def request_of(chips: int, kind: str) -> PodRequest:
    where = Where(selector=((KIND, kind),)) if kind else ANYWHERE
    return PodRequest(((NPU, chips), ("pods", 1)), where)


ANYWHERE = Where()


def play_lean(month: Month, arm: Arm, *, seed: int = 0) -> Played:
    """The whole month."""
    began = time.process_time()
    lean = Lean(month, arm, seed=seed)
    numbers = lean.play()
    return Played(arm.name, numbers, lean.reasons.passes, time.process_time() - began)
