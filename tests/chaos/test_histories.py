"""Short histories, each about one thing that random schedules meet too seldom: what it is and what
must be seen.

For each mistake tests.chaos.mutants names the history that notices it: `pods killed` is
`test_pods_killed`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from functools import wraps
from typing import Any

from scaler.clock import Clock
from scaler.kube.api import (
    ASCEND_JOBS,
    LEASES,
    NODES,
    PODS,
    SERVICES,
    KubeApi,
    Page,
    PatchType,
    Resource,
    WatchEvent,
)
from scaler.sim.apiserver.client import Request
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from scaler.sim.stories.play import silence_logs
from tests.chaos.writes import LEASE
from tests.faults import WRITES, Fault, Faults, Rule
from tests.jobs import NAMESPACE, job, manifest, rule_config_map, rule_document
from tests.rig import NODE, START, Rig, controller, rig

SERVICE = (rule_config_map(), job("p0"), job("p1"), job("d0"))
ONE_AND_ONE = {"group0": 1, "group1": 1}
RAN = "2023-11-14T22:13:30Z"
"""When a container began; without one its kubelet refused the pod."""
BLIND = 3.0
"""Seconds for which a watch is away."""


class Behind:
    """A client whose server gives, once it is asleep, the first list that it ever gave."""

    def __init__(self, api: KubeApi) -> None:
        self.asleep = False
        self._api = api
        self._first: dict[tuple[Resource, str], Page[Any]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    async def list(
        self, resource: Resource, namespace: str | None = None, **options: Any
    ) -> Page[Any]:
        page = await self._api.list(resource, namespace, **options)
        key = (
            resource,
            f"{namespace} {options.get('label_selector')} {options.get('field_selector')}",
        )
        first = self._first.setdefault(key, page)
        return first if self.asleep and resource == PODS else page


class Repeating:
    """A client whose server begins each further watch of pods with the first event that it ever
    delivered."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._first: WatchEvent[Any] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    async def watch(
        self, resource: Resource, namespace: str | None = None, **options: Any
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        if resource == PODS and self._first is not None:
            yield self._first
        async for event in self._api.watch(resource, namespace, **options):
            if resource == PODS and event.object is not None and self._first is None:
                self._first = event
            yield event


class Swap(Faults):
    """Just before a Service is deleted, another tenant has one of that name."""

    def __init__(self, cluster: SimCluster, *rules: Rule) -> None:
        super().__init__(cluster.server.clock, *rules)
        self.cluster = cluster
        self.swapped = False

    async def before(self, request: Request) -> None:
        if (request.verb, request.resource) == ("delete", SERVICES) and not self.swapped:
            self.cluster.server.delete(SERVICES, request.namespace, request.name)
            foreign = manifest(
                SERVICES, request.name, request.namespace, spec={"ports": [{"port": 80}]}
            )
            self.cluster.apply([foreign])
            self.swapped = True
        await super().before(request)


class LateWrites(Faults):
    """Notes what is sent though the Lease was last renewed longer ago than a leader may write."""

    DEADLINE = 5.0

    def __init__(self, *rules: Rule) -> None:
        super().__init__(Clock(START), *rules)
        self.late: list[str] = []
        self._renewed = float("inf")
        self._sent = 0.0

    async def before(self, request: Request) -> None:
        now = asyncio.get_running_loop().time()
        if request.resource == LEASES:
            self._sent = now
        elif request.verb in WRITES and now > self._renewed + self.DEADLINE + 0.01:
            self.late.append(
                f"{request.verb} {request.resource.plural} {now - self._renewed:.1f} s after the"
                " renewal"
            )
        await super().before(request)

    async def after(self, request: Request) -> None:
        if request.resource == LEASES and request.verb in WRITES:
            self._renewed = self._sent
        await super().after(request)


def history(story: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """It is played in virtual time."""

    @wraps(story)
    def play() -> None:
        silence_logs()
        run(story(), limit=3600.0)

    return play


async def _whole(on: Rig) -> None:
    """Two of prefill and one of decode run."""
    await on.start("p0", "d0")
    await on.start("p1")


def _faults(*rules: Rule) -> Faults:
    return Faults(Clock(START), *rules)


def _rule(fault: Fault, verb: str, kind: str, **more: Any) -> Rule:
    return Rule(fault=fault, verbs=(verb,), kinds=(kind,), **more)


@history
async def test_start() -> None:
    """Three jobs arrive, and nothing binds a pod: the smallest ratio is all that there is."""
    async with rig(*SERVICE) as on:
        await on.settle(5)
        assert on.with_pods() == {"p0", "d0"}, f"at the start {on.with_pods()} have pods"


@history
async def test_one_ratio_up() -> None:
    """The smallest ratio of three runs: the next one is aimed at, and not yet the largest."""
    ladder = [{"group0": number, "group1": 1} for number in (3, 2, 1)]
    async with rig(*SERVICE, job("p2"), rule_config_map(rule_document(*ladder))) as on:
        await on.start("p0", "d0")
        await on.settle(5)
        assert on.with_pods() == {"p0", "p1", "d0"}, f"one step up {on.with_pods()} have pods"


@history
async def test_pods_killed() -> None:
    """All pods of one instance are gone at once, as after a fault."""
    async with rig(*SERVICE) as on:
        await _whole(on)
        await on.kill("p0")
        await on.settle(5)
        assert "p0" in on.with_pods(), "p0 has no pods for good"


async def _pods_killed_unseen(*, compacted: bool) -> None:
    away = _rule(
        Fault.REFUSED, "watch", "Pod", status=503, start=START + 10, end=START + 10 + BLIND
    )
    cut = _rule(Fault.CUT, "watch", "Pod", start=START + 10, end=START + 10 + BLIND)
    async with rig(*SERVICE, interceptor=_faults(away, cut)) as on:
        await _whole(on)
        await asyncio.sleep(START + 10.5 - on.clock.now())
        on.cluster.cut_all_watches(PODS)
        await asyncio.sleep(0.1)
        await on.kill("p0")
        if compacted:
            await asyncio.sleep(0.1)
            await on.edit("d0", "/metadata/labels/app", "mindie-ms-server-2")
            on.cluster.compact()
        await on.settle(60)
        assert "p0" in on.with_pods(), "p0 has no pods for good"


@history
async def test_pods_killed_unseen() -> None:
    """All pods of one instance are gone at once while no watch is to be had."""
    await _pods_killed_unseen(compacted=False)


@history
async def test_history_gone() -> None:
    """The same, and the server has forgotten what happened meanwhile."""
    await _pods_killed_unseen(compacted=True)


@history
async def test_node_lost() -> None:
    """The node of everything is not ready any more, and each service decides alone."""
    async with rig(*SERVICE, arbitration=False) as on:
        await _whole(on)
        await on.settle(10)
        condition = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        await on.cluster.patch(
            NODES, None, NODE, condition, patch_type=PatchType.MERGE, subresource="status"
        )
        await on.settle(1)
        assert on.reason("p0") == "Broken", f"on a lost node p0 is {on.reason('p0')}"


@history
async def test_too_much_waits() -> None:
    """The scale-up waits for a node when the only decode instance is lost."""
    async with rig(*SERVICE) as on:
        await on.start("p0", "d0")
        await on.kill("d0")
        await on.settle(5)
        assert on.with_pods() == {"p0", "d0"}, f"beside the missing d0 {on.with_pods()} have pods"


@history
async def test_broken_for_good() -> None:
    """A pod failed and stays, and after the grace period nothing else happens at all."""
    async with rig(*SERVICE, job("p2")) as on:
        await _whole(on)
        (pod,) = on.pods_of("p1")
        ended = {"name": "ascend", "state": {"terminated": {"exitCode": 1, "startedAt": RAN}}}
        await on.status(pod, phase="Failed", containerStatuses=[ended])
        await on.settle(75)
        assert "p2" in on.with_pods(), "the spare did not take over from p1"


@history
async def test_watch_behind() -> None:
    """The watch of pods is ten seconds behind, and meanwhile there is something to decide again and
    again."""
    async with rig(
        *SERVICE, interceptor=_faults(_rule(Fault.LAG, "watch", "Pod", seconds=10.0))
    ) as on:
        for number in range(5):
            await on.edit("p0", "/metadata/labels/app", f"mindie-ms-server-{number}")
            await on.settle(1)
        twice = [
            write
            for write, times in Counter(on.writes()).items()
            if " pods " in write and times > 1
        ]
        assert not twice, f"sent twice: {twice}"


@history
async def test_stale_list() -> None:
    """The history of pods is gone, and the list that replaces it is from before they were made."""
    holder: list[Behind] = []

    def through(api: KubeApi) -> KubeApi:
        holder.append(Behind(api))
        return holder[-1]

    async with rig(*SERVICE, through=through) as on:
        await _whole(on)
        await on.settle(20)
        before = len(on.writes())
        holder[0].asleep = True
        await on.edit("p0", "/metadata/annotations", {"touched": "true"})
        on.cluster.compact()
        on.cluster.cut_all_watches(PODS)
        await on.settle(5)  # longer, and it would be a restore
        holder[0].asleep = False
        await on.settle(30)
        wrong = [
            write for write in on.writes()[before:] if " pods " in write or " podgroups " in write
        ]
        assert not wrong, f"written for the sake of an old list: {wrong}"


@history
async def test_events_repeated() -> None:
    """A watch that was cut begins with an event of long ago: a pod that is not bound yet. Labels of
    minimums would make newer events of the same pods, which fix it."""
    async with rig(*SERVICE, through=Repeating, disruption_budgets=False) as on:
        await _whole(on)
        on.cluster.cut_all_watches(PODS)
        await on.settle(5)
        found = {name: on.reason(name) for name in ("p0", "p1", "d0")}
        assert set(found.values()) == {"Running"}, f"after an old event: {found}"


@history
async def test_pods_never_shown() -> None:
    """The watch of pods stands still at a pod of p1 for two minutes; meanwhile p1 is surplus."""
    shown_late = _rule(Fault.LAG, "watch", "Pod", name="p1-master-0", seconds=120.0)
    async with rig(*SERVICE, interceptor=_faults(shown_late)) as on:
        await on.start("p0", "d0")
        await on.start("p1")
        on.apply(rule_config_map(rule_document(ONE_AND_ONE)))
        await on.settle(60)
        assert on.with_pod_group() == {
            "p0",
            "p1",
            "d0",
        }, f"PodGroups of {on.with_pod_group()} are left"


@history
async def test_refused_in_part() -> None:
    """A quota has room for the first pod of an instance only: nothing of it is left at once, nor
    tried for a while."""
    quota = _rule(Fault.REFUSED, "create", "Pod", status=403, name="p0-worker-0")
    rule = rule_config_map(rule_document(ONE_AND_ONE, pods={"group0": 2, "group1": 1}))
    async with rig(interceptor=_faults(quota)) as on:
        on.apply(rule, job("p0", pods=2), job("d0"))
        seen = []
        for _ in range(20):
            await asyncio.sleep(0.02)
            seen.append(on.reason("p0"))
        left = [write for write in on.writes() if write.startswith("delete services p0")]
        assert bool(left), f"a refused instance was not undone: {on.writes()}, {Counter(seen)}"


@history
async def test_failed_once() -> None:
    """Every creation of a pod fails for three seconds, and then nothing else happens at all."""
    async with rig(
        *SERVICE,
        interceptor=_faults(_rule(Fault.REFUSED, "create", "Pod", status=500, end=START + 3)),
    ) as on:
        await on.settle(60)
        assert on.with_pods() == {"p0", "d0"}, f"after failures {on.with_pods()} have pods"


@history
async def test_report_failed() -> None:
    """Every write of a status fails for twenty seconds, and then nothing else happens at all."""
    async with rig(
        *SERVICE,
        interceptor=_faults(_rule(Fault.REFUSED, "patch", "AscendJob", status=500, end=START + 20)),
    ) as on:
        await on.settle(120)
        jobs = on.cluster.peek(ASCEND_JOBS, NAMESPACE)
        reported = {
            one["metadata"]["name"] for one in jobs if one.get("status", {}).get("conditions")
        }
        assert reported == {"p0", "p1", "d0"}, f"only {reported} have a status"


@history
async def test_request_lost() -> None:
    """The creation of a pod gets lost, and nothing says whether it is there."""
    async with rig(
        *SERVICE, interceptor=_faults(_rule(Fault.LOST_REQUEST, "create", "Pod", end=START + 3))
    ) as on:
        await on.settle(10)
        reasons = {str(verdict.reason) for _, plan in on.decisions for verdict in plan.verdicts}
        assert "CreateRefused" not in reasons, "a lost request was taken for a refusal"


@history
async def test_busy() -> None:
    """A job comes while the creation of pods takes three seconds, and then nothing else happens at
    all."""
    slow = _rule(Fault.DELAY, "create", "Pod", seconds=3.0)
    async with rig(rule_config_map(), job("p0"), job("d0"), interceptor=_faults(slow)) as on:
        await asyncio.sleep(1)
        on.apply(job("p1"))
        await on.settle(60)
        assert bool(on.reason("p1")), "a job that came meanwhile was forgotten"


@history
async def test_name_changes_hands() -> None:
    """What is taken back belongs to another tenant by the time the request arrives."""
    quota = _rule(Fault.REFUSED, "create", "Pod", status=403)
    swap = Swap(SimCluster(Clock(START)), quota)
    async with rig(interceptor=swap, cluster=swap.cluster) as on:
        on.apply(rule_config_map(rule_document({"group0": 1})), job("p0"))
        await on.settle(1)
        assert swap.swapped, "no Service was deleted"
        assert "p0-master-0" in on.services(), "the Service of another tenant was deleted"


@history
async def test_stopped_process() -> None:
    """The process stands still (SIGSTOP) while it writes, and goes on when its time to lead is
    over."""
    late = LateWrites(_rule(Fault.REFUSED, "create", "Pod", status=429, retry_after=1.0))
    at_once = SimCluster(Clock(START), latency=0.0)  # a request is out before anything can stop it
    with suppress(AssertionError):  # it ends, as it has to
        async with rig(*SERVICE, interceptor=late, cluster=at_once, leader_election=True) as on:
            loop: Any = asyncio.get_running_loop()
            for _ in range(20):
                await asyncio.sleep(0.7)
                loop._now += 9.0
            await on.settle(5)
    assert not late.late, f"written after its time: {late.late[:3]}"


@history
async def test_lease_held() -> None:
    """Another process holds the Lease, and renewed it a moment ago."""
    clock = Clock(START)
    cluster = SimCluster(clock)
    spec = {
        "holderIdentity": "other",
        "leaseDurationSeconds": 8,
        "renewTime": clock.micro_timestamp(),
    }
    cluster.apply([manifest(LEASES, LEASE, "default", spec=spec)])
    async with rig(*SERVICE, cluster=cluster, leader_election=True) as on:
        await on.settle(5)
        assert not on.writes(), f"written beside another leader: {on.writes()[:3]}"


@history
async def test_listed_late() -> None:
    """A new life hears of the pods twenty seconds after everything else."""
    async with rig(*SERVICE) as on:
        await _whole(on)
        await on.settle(20)
        before = len(on.writes("late"))
        slow = _faults(_rule(Fault.DELAY, "list", "Pod", seconds=20.0))
        async with controller(on, name="late", interceptor=slow):
            await on.settle(40)
        wrong = [
            write
            for write in on.writes("late")[before:]
            if " pods " in write or " podgroups " in write
        ]
        assert not wrong, f"written before the pods were known: {wrong}"


@history
async def test_one_pod_gone() -> None:
    """A user deletes one of two pods of an instance that has its place."""
    rule = rule_config_map(rule_document(ONE_AND_ONE, pods={"group0": 2, "group1": 1}))
    async with rig(rule, job("p0", pods=2), job("d0")) as on:
        await on.start("p0", "d0")
        await on.cluster.delete(PODS, NAMESPACE, "p0-worker-0", grace_period_seconds=0)
        await on.settle(120)
        assert len(on.pods_of("p0")) == 2, "half an instance is left"
