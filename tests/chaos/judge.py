"""What must hold once everything that goes wrong has ended: section 6 of the contract, counted anew from the store.

Attainable ratios are found by trying them all. Shares nothing with scaler.decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from scaler.decide.world import Complete, Plan, Revoke, State, Verdict
from scaler.kube.api import ASCEND_JOBS, NODES, POD_GROUPS, PODS, SERVICES
from scaler.rules.rule import ALL
from scaler.sim.actors import objects
from scaler.sim.cluster import SimCluster
from tests.chaos import outside
from tests.chaos.operations import Deeds
from tests.chaos.outside import Instance
from tests.chaos.witness import Witness
from tests.chaos.world import GROUPS, Service, World, training_job
from tests.simulation.kinds import Ratio


class Standing(msgspec.Struct, frozen=True):
    """One instance as its objects show it: pods that run on good nodes, pods bound, pods ended, pods in all."""

    job: str
    group: str
    expected: int
    running: int
    bound: int
    ended: int
    pods: int

    @property
    def whole(self) -> bool:
        return self.running == self.expected


class Judge:
    """`deeds`: what users wrote last."""

    def __init__(self, cluster: SimCluster, world: World, witness: Witness, deeds: Deeds) -> None:
        self._cluster = cluster
        self._world = world
        self._deeds = deeds
        self._witness = witness
        self._fail = witness.fail
        self.said: dict[str, dict[str, str]] = {}
        self.half_made = False
        """Whether something broken is left at rest: since when it is so is memory, and ends with the process."""

    def at_rest(self) -> list[str]:
        """Fails what is promised and does not hold; returns what is not promised and does not hold either."""
        if not self._world.gated:
            self._foreign_things()
        found = outside.instances(self._cluster)
        for name in outside.unexplained(self._cluster, found):
            self._fail(f"L2: {name} is held without a reason")
        gaps: list[str] = []
        for service in self._world.services:
            own = [one for one in found if one.service == service.key]
            standings = self._standings(service, own)
            ladder = self._wanted(service, own, standings)
            if service.kind is not None:
                self._released_whole(own, standings, ladder)
                gaps += self._rolled_out(service, own, standings, ladder)
                continue
            self._whole_or_nothing(service, standings, ladder)
            self._no_surplus_waits(service.name, standings, ladder)
            if not self._world.shared:
                gaps += self._largest_ratio(service, standings, ladder)
        return gaps

    def _wanted(
        self, service: Service, own: Sequence[Instance], standings: Sequence[Standing]
    ) -> tuple[Ratio, ...]:  # fmt: skip
        """3c: the ladder without the ratios larger than the smallest with as many instances as somebody wants. At rest
        nothing beyond is bound, but for pairs of revisions."""
        ladder = self._deeds.ladders[service.name]
        if _rolls(own):
            standings = ()
        found = outside.elastic_service(self._cluster, service.namespace, service.name)
        wanted = found["spec"].get("replicas", ALL) if found else ALL
        if wanted > sum(ladder[0]):
            return ladder
        left = ladder[max(at for at, ratio in enumerate(ladder) if sum(ratio) >= wanted) :] if wanted else ((0, 0),)
        for group, number in zip(GROUPS, left[0], strict=True):
            if sum(s.group == group and s.bound > 0 for s in standings) > number:
                self._fail(f"3c: {service.name} keeps more {group} than {left[0]}: {words(standings)}")
        return left

    def status_agrees(self, plans: Sequence[Plan]) -> None:
        """L2 outside the process: the status said of each instance what a fresh look at the objects says.

        But for what is memory: `Revoked`, where a fresh look sees an instance that waits, and who had its turn.
        """
        for plan in plans:
            said = self.said.get(str(plan.key), {})
            if plan.key.rule and not agrees(said, plan.verdicts, self._witness.had_turn):
                found = {verdict.name: verdict.reason.value for verdict in plan.verdicts}
                self._fail(f"L2: status of {plan.key} says {said}, a fresh look {found}")

    def has_its_grace_again(self, plan: Plan) -> bool:
        """Whether nothing is done but to revoke what waits in the place of what the status calls broken, and to heal
        that: since when it is broken is memory."""
        said = self.said.get(str(plan.key), {})
        broken = [verdict for verdict in plan.verdicts if said.get(verdict.name) == "Broken"]
        waiting = [v for v in plan.verdicts if v.group in {one.group for one in broken} and v not in broken]
        may = {(Revoke, v.uid) for v in waiting} | {(Complete, v.uid) for v in broken}
        return bool(plan.actions) and {(type(action), action.uid) for action in plan.actions} <= may

    def read_status(self) -> None:
        """What the ElasticServices say now: the reason of each instance."""
        for (service, instance), reason in outside.reasons(self._cluster).items():
            self.said.setdefault(service, {})[instance] = reason

    # what is there

    def _standings(self, service: Service, found: Sequence[Instance]) -> list[Standing]:
        """Held pods count as none: an instance has the pods that were released."""
        ready = outside.ready_nodes(self._cluster)
        standings = []
        for one in found:
            group = GROUPS[service.groups.index(one.group)]
            bound = [pod for pod in one.staying if objects.node_of(pod)]
            runs = [pod for pod in bound if objects.phase(pod) == "Running" and objects.node_of(pod) in ready]
            ended = sum(objects.ended(pod) for pod in bound)
            standings.append(
                Standing(one.name, group, one.size, len(runs), len(bound), ended, len(one.released))
            )  # fmt: skip
        return standings

    def _free_nodes(self, pool: str) -> int:
        """Nodes of the pool that take pods and have none."""
        nodes = {
            objects.name(node)
            for node in self._cluster.peek(NODES)
            if objects.labels_of(node).get("pool") == pool
            and objects.node_ready(node)
            and not objects.spec(node).get("unschedulable")
        }
        used = {objects.node_of(pod) for pod in self._cluster.peek(PODS) if not objects.ended(pod)}
        return len(nodes - used)

    # what is promised

    def _foreign_things(self) -> None:
        for job in self._cluster.peek(ASCEND_JOBS, "training"):
            if job["spec"] != training_job()["spec"] or job.get("status"):
                self._fail("S8: the training job was touched")
        owners = {objects.uid(job) for job in self._cluster.peek(ASCEND_JOBS)}
        for resource in (PODS, POD_GROUPS, SERVICES):
            for obj in self._cluster.peek(resource):
                if objects.owner_uid(obj) and objects.owner_uid(obj) not in owners:
                    self._fail(f"S8: {resource.plural} {objects.name(obj)} outlived its job")

    def _whole_or_nothing(self, service: Service, standings: Sequence[Standing], ladder: tuple[Ratio, ...]) -> None:
        """S2: all of an instance or none of it; what is left of a broken one waits until there is a slot for it."""
        groups = {objects.owner_uid(g) for g in self._cluster.peek(POD_GROUPS, service.namespace)}
        uids = {objects.name(job): objects.uid(job) for job in self._cluster.peek(ASCEND_JOBS, service.namespace)}
        for standing in standings:
            if standing.pods not in (0, standing.expected) and not self._may_wait(standing, standings, ladder):
                self._fail(f"S2: {standing.job} has {standing.pods} of {standing.expected} pods at rest")
            if (uids[standing.job] in groups) != (standing.pods > 0):
                self._fail(f"S2: {standing.job} has {standing.pods} pods and a PodGroup that does not fit them")

    def _released_whole(
        self, own: Sequence[Instance], standings: Sequence[Standing], ladder: tuple[Ratio, ...]
    ) -> None:  # fmt: skip
        """S2 of pods that others make: all of an instance is released or none of it."""
        for one, standing in zip(own, standings, strict=True):
            if one.half and not self._may_wait(standing, standings, ladder):
                self._fail(f"S2: {one.name} is half released at rest")

    def _rolled_out(
        self, service: Service, own: Sequence[Instance], standings: Sequence[Standing], ladder: tuple[Ratio, ...]
    ) -> list[str]:
        """3.8 and L1 of pods that others make. During a rollout that cannot end there are no numbers to reach."""
        if _rolls(own):
            self.half_made = True
            if self._must_end(service, ladder):
                self._fail(f"3.8: the rollout of {service.name} does not end")
            return [f"{service.name}: its rollout does not end"]
        self.half_made |= any(s.bound and s.bound < s.expected for s in standings)
        self._no_surplus_waits(service.name, standings, ladder)
        self._reached(service, standings, ladder)
        return []

    def _must_end(self, service: Service, ladder: tuple[Ratio, ...]) -> bool:
        """A rollout of instances none of which has to be held, with nodes for one more of each group."""
        wanted = self._deeds.told[service.name][0]
        none_held = all(number <= most for number, most in zip(wanted, ladder[0], strict=True))
        return none_held and self._free_nodes(service.pool) >= sum(service.pods)

    def _may_wait(self, half: Standing, standings: Sequence[Standing], ladder: tuple[Ratio, ...]) -> bool:
        """Whether what is bound of an instance has no slot to be completed in: others fill its group."""
        self.half_made = True
        others = sum(s.group == half.group and s.pods == s.expected for s in standings)
        return half.bound > 0 and others >= target_of(standings, ladder)[GROUPS.index(half.group)]

    def _no_surplus_waits(self, name: str, standings: Sequence[Standing], ladder: tuple[Ratio, ...]) -> None:
        """3.5: while something is missing, nothing that is too much waits for a node."""
        target = target_of(standings, ladder)
        for group, number in zip(GROUPS, target, strict=True):
            own = [s for s in standings if s.group == group]
            waiting = [s for s in own if s.pods and not s.bound]
            if waiting and not satisfied(target, standings) and len(waiting) + sum(s.whole for s in own) > number:
                self._fail(f"3.5: {name} {group} waits with more than {target}: {words(standings)}")

    def _largest_ratio(self, service: Service, standings: Sequence[Standing], ladder: tuple[Ratio, ...]) -> list[str]:
        """L1: the largest ratio that its jobs and nodes allow, as far as nothing bound has to move for it."""
        reached = self._reached(service, standings, ladder)
        if reached is None:
            return []
        everywhere = self._free_nodes(service.pool) + sum(s.bound for s in standings)
        could = next((r for r in ladder if _covered(r, standings) and service.nodes_for(r) <= everywhere), (0, 0))
        if could == reached:
            return []
        if self._mindie_should_have_helped(service, standings, ladder):
            self._fail(f"L1: {service.name} is stuck in spite of MindIE Controller: {words(standings)}")
        return [f"{service.name} stays at {reached}, {could} needs bound pods to go: {words(standings)}"]

    def _reached(self, service: Service, standings: Sequence[Standing], ladder: tuple[Ratio, ...]) -> Ratio | None:
        """The ratio that it runs; None, and a failure, when a larger one was to be had without moving what is bound."""
        reached = next((r for r in ladder if satisfied(r, standings)), (0, 0))
        within = next((r for r in ladder if attainable(r, standings, self._free_nodes(service.pool))), (0, 0))
        if reached == within:
            return reached
        self._fail(f"L1: {service.name} reached {reached}, {within} was attainable: {words(standings)}")
        return None

    def _mindie_should_have_helped(
        self, service: Service, standings: Sequence[Standing], ladder: tuple[Ratio, ...]
    ) -> bool:
        """Below the minimum for want of a decode instance while a prefill instance more than the minimum's runs."""
        prefill, decode = (sum(s.whole for s in standings if s.group == group) for group in GROUPS)
        waits = any(s.group == GROUPS[1] and s.pods and not s.bound for s in standings)
        return service.mindie and waits and prefill > ladder[-1][0] and decode < ladder[-1][1]


def _rolls(own: Sequence[Instance]) -> bool:
    """Some maker has instances of two revisions."""
    return len({(one.maker, one.revision) for one in own}) > len({one.maker for one in own})


def agrees(said: Mapping[str, str], verdicts: Sequence[Verdict], had_turn: AbstractSet[str]) -> bool:
    """Whether the reasons that a status says, by instance, are those of a fresh look.

    Held instances of a group may have each other's reasons when one of them (`had_turn`: uids) had its turn: it is a
    candidate behind the others (3.3, 3b.5), and a fresh look has forgotten that. What is bound in part is broken when
    its turn has ended (2, 3b.5), and waits for the scheduler in a fresh look, which has forgotten that, too.
    """
    if said.keys() != {verdict.name for verdict in verdicts}:
        return False
    others = [v for v in verdicts if said[v.name] not in (v.reason.value, "Revoked")]
    others = [v for v in others if not (v.uid in had_turn and (said[v.name], v.state) == ("Broken", State.ADMITTED))]
    return all(_only_order_differs(said, other, verdicts, had_turn) for other in others)


def _only_order_differs(
    said: Mapping[str, str], other: Verdict, verdicts: Sequence[Verdict], had_turn: AbstractSet[str]
) -> bool:
    held = [v for v in verdicts if v.group == other.group and v.state is State.HELD]
    words = Counter(said[v.name] for v in held if said[v.name] != "Revoked")
    return other in held and any(v.uid in had_turn for v in held) and words <= Counter(v.reason.value for v in held)


def target_of(standings: Sequence[Standing], ladder: tuple[Ratio, ...]) -> Ratio:
    """What the service works towards: the smallest ratio that is not satisfied, of those for which there are jobs."""
    reachable = [ratio for ratio in ladder if _covered(ratio, standings)] or [ladder[-1]]
    return next((ratio for ratio in reversed(reachable) if not satisfied(ratio, standings)), reachable[0])


def satisfied(ratio: Ratio, standings: Sequence[Standing]) -> bool:
    return all(
        sum(s.whole for s in standings if s.group == group) >= number
        for group, number in zip(GROUPS, ratio, strict=True)
    )


def _covered(ratio: Ratio, standings: Sequence[Standing]) -> bool:
    """There are jobs enough."""
    return all(
        len([s for s in standings if s.group == group]) >= number for group, number in zip(GROUPS, ratio, strict=True)
    )


def attainable(ratio: Ratio, standings: Sequence[Standing], free: int) -> bool:
    """With what is bound where it is, and the cheapest completions on what is free.

    A pod that ended and that nobody removed keeps its instance from ever being whole.
    """
    cost = 0
    for group, number in zip(GROUPS, ratio, strict=True):
        own = sorted(s.expected - s.bound for s in standings if s.group == group and not s.ended)
        if len(own) < number:
            return False
        cost += sum(own[:number])
    return cost <= free


def words(standings: Sequence[Standing]) -> str:
    return ", ".join(f"{s.job} {s.running}/{s.bound}/{s.pods} of {s.expected}" for s in standings)
