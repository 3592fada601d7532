"""What one service needs: sections 2 and 3 of the contract. One service in, one `Demand` out. Must
not look at nodes.

service, memory -> states -> counts -> target -> missing of the minimum, candidates, instances in
hands"""

from __future__ import annotations

from copy import copy
from functools import cached_property, lru_cache
from hashlib import blake2s

import msgspec

from scaler.decide import attempts
from scaler.decide.decision import State
from scaler.decide.memory import NEVER_SEEN, ServiceMemory
from scaler.decide.nodes import PodRequests
from scaler.decide.service import groups
from scaler.decide.service import states as state
from scaler.decide.service.groups import Group
from scaler.decide.service.remembered import remembered_of
from scaler.decide.service.states import Member
from scaler.decide.world import Policy, Service
from scaler.rules.rule import ALL


class Demand:
    """One service at one moment; never changed. Lists of members are sorted: the first member is
    admitted first."""

    def __init__(self, service: Service, seen: ServiceMemory, now: float, policy: Policy) -> None:
        """`seen`: the memory of the service before this decision. `self.memory`: the memory after
        this look."""
        self.service = service
        self.name = str(service.key)
        self.policy = policy
        self.seen = seen
        self.paused = service.options.paused
        known = attempts.inherited(service, seen.instances, now)
        instances = service.instances
        self.members = tuple(
            [
                state.look_at(i, known.get(i.uid, NEVER_SEEN), service, now, policy)
                for i in instances
            ]
        )
        self.memory = remembered_of(seen, {m.instance.uid: m.memory for m in self.members}, now)
        self.rule = service.rule
        self.left_out = 0
        self.replicas = ALL
        """`rule`: without the ratios larger than `spec.replicas` needs. `left_out`: how many, of no
        meaning at rest. `replicas`: instances of the largest ratio that remains; `ALL` = none is
        left out, 0 = the service rests."""
        if service.replicas < ALL or self.memory.wanted or service.options.scale_down_delay:
            self._limit(now)
        self.groups, self.target = groups.groups_of(self.rule, self.members)
        weighs = self.target is not None and not self.paused
        self.drained: list[Member] = []
        self.undrained: list[Member] = []
        """Bound instances beyond `replicas`: those to delete, and those that stay, as
        `groups.drained` tells them."""
        if weighs and self.replicas < ALL and not service.assumed and self.rule is not None:
            for name, number in self.rule.largest.counts.items():
                drained, undrained = groups.drained(self.groups[name], number, policy)
                self.drained += drained
                self.undrained += undrained
        needs_no_rule = self.members if not service.key.rule else ()
        self.completes = {m.uid for m in needs_no_rule if m.is_ours and state.is_incomplete(m)}
        """Uids of instances with live pods that lack others: the decision makes or releases the
        missing pods."""
        self.half_made: set[str] = set()
        """Uids of such instances in hands that get no place."""
        self.irrevocable: list[Member] = []
        """Instances that are bound in part or completed now: the admission of their unbound pods
        cannot be revoked."""
        for group in self.groups.values():
            if group.released:
                self._complete(group, moves=weighs)
        self.hands = state.in_order(
            [m for group in self.groups.values() for m in group.released if m.in_hands]
        )
        self.candidates = {
            name: _candidates(group, now, policy) for name, group in self.groups.items() if weighs
        }
        smallest = self.rule.smallest.counts if self.rule and self.target else {}
        self.serves = all(self.groups[name].running >= number for name, number in smallest.items())
        self.minimum: dict[str, int] = {}
        """Group -> missing instances: the number of the minimum, less the instances that are bound
        and have a slot."""
        self.bound_in_part: list[Member] = []
        """Instances of the minimum that are bound in part."""
        for name, number in smallest.items() if weighs and not self.serves else ():
            self._lack(name, number)
        self.lacks_minimum = bool(self.bound_in_part) or any(self.minimum.values())
        """Whether pods of the minimum are still to be bound."""
        held = {
            name: [m for m in found if m.state is State.HELD]
            for name, found in self.candidates.items()
        }
        self.scale_up_candidates = {
            name: sorted(found, key=state.is_made, reverse=True)
            for name, found in held.items()
            if self.serves and self.groups[name].wants
        }
        """Group in which one more instance may get a place -> held candidates; those whose pods
        exist come first."""
        self._sum_up(now)

    def remembering(self, seen: ServiceMemory) -> Demand:
        """A copy with another memory of the service. The memories of its instances have to be
        equal."""
        other = copy(self)
        other.seen = other.memory = seen
        vars(other).pop("jobs", None)
        return other

    def _limit(self, now: float) -> None:
        service = self.service
        wanted = groups.followed(self.memory.wanted, service, now)
        if wanted is not self.memory.wanted:
            self.memory = msgspec.structs.replace(self.memory, wanted=wanted)
        replicas = wanted[0][0] if wanted else service.replicas
        if service.rule is not None and groups.in_all(service.rule, replicas) < ALL:
            self.rule = service.rule.limited(replicas)
            self.left_out = len(service.rule.ratios) - len(self.rule.ratios)
            self.replicas = self.rule.largest.total

    def _sum_up(self, now: float) -> None:
        service = self.service
        policy = self.policy
        # The priority of the PriorityClass. The annotation may lower the priority, and raise it up
        # to the setting.
        own = max([instance.priority for instance in service.instances], default=0)
        annotated = service.options.service_priority
        most = policy.max_service_priority
        self.priority = (
            own if annotated is None else min(annotated, own if most is None else max(own, most))
        )
        lasting = [
            i.created for i in service.instances if not (i.owner_deleting or i.owner_finished)
        ]
        self.oldest = min(lasting, default=0.0)
        self.bound = sum([instance.bound for instance in service.instances])
        self.requests = frozenset([instance.needs for instance in service.instances])
        known = self.memory.instances.values()
        self.has_attempts = any(
            one.began or one.had_attempt or one.backoff_until or one.gives_way for one in known
        )
        moments = [
            moment
            for member in self.members
            for moment in state.moments_of(member, policy)
            if moment > now
        ]
        if len(self.memory.wanted) > 1:  # until the highest number no longer counts
            moments.append(self.memory.wanted[0][1] + service.options.scale_down_delay)
        if len(known) > len(self.members):  # some instances are gone
            moments += [one.backoff_until for one in known if one.backoff_until > now]
        self.until = min(moments, default=0.0)
        """From this time on the demand may change by time alone; 0.0 = never."""

    def _complete(self, group: Group, *, moves: bool) -> None:
        """Instances with live pods are completed before a new one starts. One without a slot needs
        a free place; after its attempt other candidates go first."""
        for member in state.in_order(m for m in group.released if moves and state.is_incomplete(m)):
            others = (one for one in group.held if state.why_not_admissible(one, 0.0) is None)
            gives_way = member.memory.gives_way and any(others)
            if member.has_slot and group.keeps(member):
                self.completes.add(member.uid)
            elif not member.has_slot and group.has_place_for(member) and not gives_way:
                group.give_place(member)
                self.completes.add(member.uid)
                self.irrevocable.append(member)
            elif member.in_hands:
                self.half_made.add(member.uid)
        self.irrevocable += [member for member in group.released if member.lacks_binds]

    def _lack(self, name: str, number: int) -> None:
        """Fill `minimum` and `bound_in_part` for one group. `number`: its instances in the smallest
        ratio."""
        group = self.groups[name]
        bound = [m for m in group.members if m.in_flight and m not in self.candidates[name]]
        bound += [m for m in group.released if m.uid in self.completes and not m.has_slot]
        parts = state.in_order(m for m in bound if m.in_part or not m.has_slot) if bound else []
        self.minimum[name] = max(0, number - group.running - len(bound))
        self.bound_in_part += parts[: max(0, number - group.running - (len(bound) - len(parts)))]

    @property
    def nothing_to_weigh(self) -> bool:
        """Whether arbitration can skip the service. True for nearly all services in nearly all
        decisions."""
        memory = self.memory
        clocks = (
            memory.began
            or memory.failures
            or memory.trade_since
            or memory.fits_nowhere_since
            or memory.victims
        )
        unbound = (
            self.lacks_minimum
            or self.hands
            or self.irrevocable
            or self.has_attempts
            or not self.serves
        )
        return not (unbound or self.drained or clocks) and not any(
            self.candidates.get(name) for name, group in self.groups.items() if group.wants
        )

    @cached_property
    def room_key(self) -> object:
        """Services with equal keys need the same room: same priority, same pod requests, no bound
        pod. None where the answer depends on more than that."""
        if self.bound_in_part or self.has_attempts or self.bound or not self.minimum:
            return None
        requested = []
        for name, number in self.minimum.items():
            found = self.candidates[name]
            asks = [m.instance.unbound for m in found]
            if (
                not found
                or asks.count(asks[0]) < len(asks)
                or State.TERMINATING in [m.state for m in found]
            ):
                return None
            requested.append((number, asks[0], found[0].instance.needs))
        return self.priority, tuple(requested)

    def first(self) -> list[Member]:
        """The first candidates of each group, as many as the minimum lacks."""
        return [
            member
            for name, number in self.minimum.items()
            for member in self.candidates[name][:number]
        ]

    def too_few(self) -> list[str]:
        """Groups with fewer candidates than the minimum lacks, in words."""
        found = [
            (name, number, len(self.candidates[name])) for name, number in self.minimum.items()
        ]
        return [
            f"{name} lacks {number}, {there} can start"
            for name, number, there in found
            if there < number
        ]

    @cached_property
    def jobs(self) -> str:
        """Fingerprint of the jobs and the rule, as far as they are read; "" while no decision
        depends on it."""
        moves = self.minimum or self.hands or self.irrevocable or not self.serves
        if self.target is None or self.paused or not (moves or self.seen.jobs):
            return ""
        return blake2s(msgspec.json.encode(asked_of(self.service)), digest_size=8).hexdigest()

    def largest(self, group: str) -> int:
        """Instances of the group in the largest ratio that has enough live instances."""
        if self.rule is None or self.target is None:
            return 0
        return self.rule.ratios[min(self.target.unreachable, len(self.rule.ratios) - 1)].of(group)


def asked_of(service: Service) -> tuple[object, ...]:
    """What people ask for: the jobs and the rule, as far as they are read. Where others make the
    pods, the identity of the owner stands for the instance: a new pod is a new instance."""
    jobs = {
        f"({(i.uid if i.made_by_us or not i.owner else i.owner)!r}, {i.generation}, {i.revision!r},"
        f" {i.group!r}, {i.expected}, {_digest(i.needs)})"
        for i in service.instances
        if not i.owner_deleting
    }
    return sorted(jobs), service.rule, service.options


def _candidates(group: Group, now: float, policy: Policy) -> list[Member]:
    if not (group.held or group.released or len(group.members) > group.running):
        return []
    found = [m for m in group.members if state.is_candidate(m, now, policy)]
    return sorted(found, key=state.candidate_order) if len(found) > 1 else found


@lru_cache(maxsize=256)
def _digest(needs: PodRequests) -> str:
    """Cached: many services have equal requests, and their `repr` costs more than the rest of a
    fingerprint."""
    return repr(blake2s(repr(needs).encode(), digest_size=8).digest())
