"""What must hold once everything that goes wrong has ended: section 6 of the contract, counted anew
from the store.

Attainable ratios are found by trying them all. Shares nothing with scaler.decide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from scaler.decide.decision import Complete, Plan, Revoke, State, Verdict
from scaler.kube.api import ASCEND_JOBS, POD_GROUPS, PODS, SERVICES
from scaler.rules.rule import ALL
from scaler.sim.actors import objects
from scaler.sim.cluster import SimCluster
from tests.chaos.inventory import Inventory, Service, training_job
from tests.chaos.operations import Operations
from tests.chaos.view import Instance, View, view_of
from tests.chaos.witness import Witness
from tests.decide.contract import Counts, covers, limited, target_of


class AtRest(msgspec.Struct, frozen=True):
    """One service: its instances, the ladder that holds, and the nodes of its pool that take pods
    and have none."""

    service: Service
    instances: Sequence[Instance]
    ladder: Sequence[Counts]
    free: int

    def of(self, group: str) -> list[Instance]:
        return [one for one in self.instances if one.group == group]

    @property
    def live(self) -> Counts:
        return Counter(one.group for one in self.instances)

    @property
    def whole(self) -> Counts:
        return Counter(one.group for one in self.instances if one.whole)

    def attains(self, ratio: Counts) -> bool:
        """With what is bound where it is, and the cheapest completions on what is free, none where
        a pod has ended."""
        missing = 0
        for group, number in ratio.items():
            alive = [one for one in self.of(group) if not one.ended]
            cheapest = sorted(one.size - len(one.bound) for one in alive)[:number]
            if len(cheapest) < number:
                return False
            missing += sum(cheapest)
        return missing <= self.free

    @property
    def target(self) -> Counts:
        """What the service works towards (3.2)."""
        return self.ladder[target_of(self.ladder, self.whole, self.live)[0]]

    @property
    def rolls(self) -> bool:
        """Some owner has instances of two revisions."""
        own = self.instances
        return len({(one.owner, one.revision) for one in own}) > len({one.owner for one in own})

    def __str__(self) -> str:
        return ", ".join(map(str, self.instances))


class Judge:
    """`operations`: what users wrote last."""

    def __init__(
        self, cluster: SimCluster, inventory: Inventory, witness: Witness, operations: Operations
    ) -> None:
        self._cluster = cluster
        self._inventory = inventory
        self._operations = operations
        self._fail = witness.fail
        self._view = View()
        self.said: dict[str, dict[str, str]] = {}
        """Service -> instance -> reason, as the status says at rest."""
        self.half_made = False
        """Whether something broken is left at rest: since when it is so is memory, and ends with
        the process."""

    def at_rest(self) -> list[str]:
        """Fails what is promised and does not hold; returns what is not promised and does not hold
        either."""
        self._view = view_of(self._cluster)
        if not self._inventory.gated:
            self._foreign_things()
        for name in self._view.unexplained():
            self._fail(f"L2: {name} is held without a reason")
        for (key, instance), reason in self._view.reasons.items():
            self.said.setdefault(key, {})[instance] = reason
        gaps: list[str] = []
        for service in self._inventory.services:
            own = [one for one in self._view.instances if one.service == service.key]
            ladder = service.counts(self._operations.ladders[service.name])
            found = self._limited(
                AtRest(service, own, ladder, self._view.free("pool").count(service.pool))
            )
            self._whole_or_nothing(found)
            if service.kind is not None:
                gaps += self._rolled_out(found)
            else:
                self._no_surplus_waits(found)
                gaps += [] if self._inventory.shared else self._largest_ratio(found)
        return gaps

    def _limited(self, found: AtRest) -> AtRest:
        """3c: without the ratios larger than the smallest with as many instances as `spec.replicas`
        asks for. At rest nothing beyond is bound, but for pairs of revisions."""
        service = found.service
        ladder = found.ladder
        about = self._view.elastic_service(service.namespace, service.name)
        replicas = about["spec"].get("replicas", ALL) if about else ALL
        if replicas > sum(ladder[0].values()):
            return found
        left = msgspec.structs.replace(found, ladder=limited(ladder, replicas))
        for group, number in left.ladder[0].items():
            if sum(bool(one.bound) for one in left.of(group)) > number and not found.rolls:
                self._fail(f"3c: {service.name} keeps more {group} than {left.ladder[0]}: {found}")
        return left

    def status_agrees(self, plans: Sequence[Plan], had_turn: AbstractSet[str]) -> None:
        """L2 outside the process: the status said of each instance what a fresh look at the objects
        says, but for what is memory: `Revoked`, where a fresh look sees an instance that waits, and
        who had its turn."""
        for plan in plans:
            said = self.said.get(str(plan.key), {})
            if plan.key.rule and not agrees(said, plan.verdicts, had_turn):
                found = {verdict.name: verdict.reason.value for verdict in plan.verdicts}
                self._fail(f"L2: status of {plan.key} says {said}, a fresh look {found}")

    def has_its_grace_again(self, plan: Plan) -> bool:
        """Whether nothing is done but to revoke what waits in the place of what the status calls
        broken, and to heal that: since when it is broken is memory."""
        said = self.said.get(str(plan.key), {})
        broken = [verdict for verdict in plan.verdicts if said.get(verdict.name) == "Broken"]
        groups = {verdict.group for verdict in broken}
        waiting = [v for v in plan.verdicts if v.group in groups and v not in broken]
        may = {(Revoke, v.uid) for v in waiting} | {(Complete, v.uid) for v in broken}
        return bool(plan.actions) and {(type(action), action.uid) for action in plan.actions} <= may

    def _foreign_things(self) -> None:
        for job in self._cluster.peek(ASCEND_JOBS, "training"):
            if job["spec"] != training_job()["spec"] or job.get("status"):
                self._fail("S8: the training job was touched")
        owners = {objects.uid(job) for job in self._cluster.peek(ASCEND_JOBS)}
        for resource in (PODS, POD_GROUPS, SERVICES):
            for obj in self._cluster.peek(resource):
                if objects.owner_uid(obj) and objects.owner_uid(obj) not in owners:
                    self._fail(f"S8: {resource.plural} {objects.name(obj)} outlived its job")

    def _whole_or_nothing(self, found: AtRest) -> None:
        """S2: all of an instance is made, or released where others make it, or none; a broken one
        waits for a slot."""
        groups = {
            objects.owner_uid(g) for g in self._cluster.peek(POD_GROUPS, found.service.namespace)
        }
        by_others = found.service.kind is not None
        for one in found.instances:
            pods = len(one.released)
            half = one.half if by_others else pods not in (0, one.size)
            self.half_made |= half
            if half and not _may_wait(one, found):
                self._fail(f"S2: {one.name} has {pods} of {one.size} pods at rest")
            if not by_others and (objects.uid(one.job) in groups) != (pods > 0):
                self._fail(f"S2: {one.name} has {pods} pods and a PodGroup that does not fit them")

    def _rolled_out(self, found: AtRest) -> list[str]:
        """3.8 and L1 of pods that others make. During a rollout that cannot end there are no
        numbers to reach."""
        if found.rolls:
            self.half_made = True
            # Of instances none of which has to be held, with nodes for one more of each group, it
            # must end.
            replicas = self._operations.specs[found.service.name][0]
            none_held = all(
                number <= most
                for number, most in zip(replicas, found.ladder[0].values(), strict=True)
            )
            if none_held and found.free >= sum(found.service.pods):
                self._fail(f"3.8: the rollout of {found.service.name} does not end")
            return [f"{found.service.name}: its rollout does not end"]
        self.half_made |= any(one.bound and len(one.bound) < one.size for one in found.instances)
        self._no_surplus_waits(found)
        self._reached(found)
        return []

    def _no_surplus_waits(self, found: AtRest) -> None:
        """3.5: while something is missing, nothing that is too much waits for a node."""
        target = found.target
        for group, number in target.items():
            waiting = sum(bool(one.released) and not one.bound for one in found.of(group))
            if (
                waiting
                and not covers(found.whole, target)
                and waiting + found.whole.get(group, 0) > number
            ):
                self._fail(
                    f"3.5: {found.service.name} {group} waits with more than {target}: {found}"
                )

    def _largest_ratio(self, found: AtRest) -> list[str]:
        """L1: the largest ratio that its jobs and nodes allow, as far as nothing bound has to move
        for it."""
        reached = self._reached(found)
        service = found.service
        if reached is None:
            return []
        everywhere = found.free + sum(len(one.bound) for one in found.instances)
        possible = (ratio for ratio in found.ladder if covers(found.live, ratio))
        could = next(
            (ratio for ratio in possible if service.nodes_for(ratio.values()) <= everywhere), {}
        )
        if could == reached:
            return []
        # Below the minimum for want of a decode instance while a prefill instance more than the
        # minimum's runs:
        beyond, short = (
            found.whole.get(group, 0) - found.ladder[-1][group] for group in service.groups
        )
        waits = any(one.released and not one.bound for one in found.of(service.groups[1]))
        if service.mindie and waits and beyond > 0 and short < 0:
            self._fail(f"L1: {service.name} is stuck in spite of MindIE Controller: {found}")
        return [f"{service.name} stays at {reached}, {could} needs bound pods to go: {found}"]

    def _reached(self, found: AtRest) -> Counts | None:
        """The ratio that it runs; None, and a failure, when a larger one was to be had without
        moving what is bound."""
        reached = next((ratio for ratio in found.ladder if covers(found.whole, ratio)), {})
        within = next(filter(found.attains, found.ladder), {})
        if reached == within:
            return reached
        self._fail(f"L1: {found.service.name} reached {reached}, {within} was attainable: {found}")
        return None


def agrees(
    said: Mapping[str, str], verdicts: Sequence[Verdict], had_turn: AbstractSet[str]
) -> bool:
    """Whether the reasons that a status says, by instance, are those of a fresh look, which has
    forgotten who had its attempt (`had_turn`: uids). A held instance that had it is a candidate
    behind the others (3.3, 3b.5): those of its group may have each other's reasons. What is bound
    in part is broken when its attempt has ended (2, 3b.5), and waits for the scheduler in a fresh
    look."""
    if said.keys() != {verdict.name for verdict in verdicts}:
        return False
    others = [v for v in verdicts if said[v.name] not in (v.reason.value, "Revoked")]
    others = [
        v
        for v in others
        if not (v.uid in had_turn and (said[v.name], v.state) == ("Broken", State.ADMITTED))
    ]
    for other in others:
        held = [v for v in verdicts if v.group == other.group and v.state is State.HELD]
        words = Counter(said[v.name] for v in held if said[v.name] != "Revoked")
        only_order = words <= Counter(v.reason.value for v in held)
        if other not in held or not any(v.uid in had_turn for v in held) or not only_order:
            return False
    return True


def _may_wait(half: Instance, found: AtRest) -> bool:
    """Whether what is bound of an instance has no slot to be completed in: others fill its
    group."""
    others = [one for one in found.of(half.group) if len(one.released) == one.size]
    return bool(half.bound) and len(others) >= found.target[half.group]
