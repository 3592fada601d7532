"""What one service asks for: sections 2 and 3 of the contract, in their order. One service in, one
frozen `Demand` out. Must not look at nodes.

    service, memory -> states (2) -> what is wanted in all (3c) -> counts and target (3.1, 3.2)
                    -> what is made whole (2) -> candidates (3.3)
                    -> missing of the minimum (3b.1a)"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from functools import cached_property
from hashlib import blake2s
from itertools import chain

import msgspec
from msgspec.structs import replace

from scaler.decide import attempts
from scaler.decide.decision import State
from scaler.decide.memory import NEVER_SEEN, ServiceMemory
from scaler.decide.nodes import PodRequests, joined
from scaler.decide.service import limit, states
from scaler.decide.service.groups import Group, Target, groups_of
from scaler.decide.service.limit import ScaleDown
from scaler.decide.service.readiness import give_their_place
from scaler.decide.service.remembered import remembered_of
from scaler.decide.service.states import Member
from scaler.decide.training.needs import as_needed, may_change_size, moments_of_sizes
from scaler.decide.world import Instance, Policy, Service
from scaler.remembered import Remembered
from scaler.rules.rule import ALL, CountsFrom, Rule


class Completion(msgspec.Struct, frozen=True):
    """Instances with live pods that lack others."""

    made_whole: frozenset[str] = frozenset()
    """Uids of those whose missing pods are made or released now."""
    without_place: frozenset[str] = frozenset()
    """Uids of those with the scheduler that get no place."""
    irrevocable: tuple[Member, ...] = ()
    """Instances that are bound in part or get their missing pods now: the admission of their
    unbound pods cannot be revoked."""


class Shortfall(msgspec.Struct, frozen=True):
    """What the minimum of a service lacks."""

    missing: dict[str, int] = {}
    """Group -> instances."""
    bound_in_part: tuple[Member, ...] = ()
    """As in `Demand`."""
    replaced: tuple[Member, ...] = ()
    """3.8: outdated instances that do not start, and whose places candidates of the newest revision
    take."""


class Demand(msgspec.Struct, frozen=True, eq=False, kw_only=True, dict=True):
    """One service at one moment. Lists of members are sorted: the first member is admitted
    first."""

    service: Service
    name: str
    policy: Policy
    seen: ServiceMemory
    """The memory of the service before this decision."""
    memory: ServiceMemory
    """The memory after this look."""
    members: tuple[Member, ...]
    rule: Rule | None
    """The rule with the ratios that are aimed at; None without a valid rule."""
    left_out: int
    """As in `Limit`."""
    replicas: int
    """As in `Limit`."""
    groups: dict[str, Group]
    target: Target | None
    """None without a rule."""
    scaled_down: tuple[Member, ...]
    """Bound instances beyond `replicas` that are deleted."""
    kept_for_restarts: tuple[Member, ...]
    """Those that stay: a deletion would cost restarts that are kept for faults."""
    made_whole: frozenset[str]
    """As in `Completion`."""
    without_place: frozenset[str]
    """As in `Completion`."""
    irrevocable: tuple[Member, ...]
    """As in `Completion`."""
    with_the_scheduler: tuple[Member, ...]
    """Admitted, and no pod is bound."""
    candidates: dict[str, list[Member]]
    scale_up_candidates: dict[str, list[Member]]
    """Group in which one more instance may get a place -> held candidates; those whose pods exist
    come first."""
    serves: bool
    """Every group runs its minimum."""
    minimum: dict[str, int]
    """Group -> missing instances: the number of the minimum, less the instances that are bound and
    have a slot. Empty for a service that serves."""
    bound_in_part: tuple[Member, ...]
    """Instances of the minimum that are asked for themselves, for the pods that they lack: bound in
    part, or Broken and without a pod that they had."""
    replaced: tuple[Member, ...]
    """As in `Shortfall`."""
    priority: int
    oldest: float
    """Creation of its oldest job that has not ended."""
    bound: int
    """Bound pods of all instances."""
    requests: frozenset[PodRequests]
    """The pod requests of its instances, each once."""
    has_attempts: bool
    """An instance has an attempt, had one, or is in backoff."""
    training: tuple[Member, ...]
    """3d: its instances with several sizes; of nearly all services none."""
    has_progress: bool
    """An instance had bound pods since the service last served."""
    until: float
    """From this time on the demand may change by time alone; 0.0 = never."""

    @property
    def paused(self) -> bool:
        return self.service.options.paused

    @cached_property
    def lacks_minimum(self) -> bool:
        """Whether pods of the minimum are still to be bound."""
        return bool(self.bound_in_part) or any(self.minimum.values())

    @property
    def nothing_to_weigh(self) -> bool:
        """Whether arbitration can skip the service. True for nearly all services in nearly all
        decisions."""
        memory = self.memory
        return not (
            self.lacks_minimum
            or self.with_the_scheduler
            or self.irrevocable
            or self.has_attempts
            or not self.serves
            or self.scaled_down
            or memory.began
            or memory.failures
            or memory.expects_since
            or memory.trade_since
            or memory.fits_nowhere_since
            or memory.victims
            or memory.waiting_since
            or memory.evictions.number
            or self.has_progress
            or self._has_candidates
            or self.may_change_size
        )

    @property
    def may_change_size(self) -> bool:
        """3d: whether a job that runs may be restarted by us at another size."""
        for member in self.training:
            if may_change_size(member.instance, self.service.replicas):
                return True
        return False

    @property
    def _has_candidates(self) -> bool:
        """Whether a candidate may get a place."""
        for name, candidates in self.candidates.items():
            if candidates and self.groups[name].wants:
                return True
        return False

    def first_candidates(self) -> list[Member]:
        """The first candidates of each group, as many as the minimum lacks."""
        first: list[Member] = []
        for name, number in self.minimum.items():
            first += self.candidates[name][:number]
        return first

    def lacking_groups_in_words(self) -> list[str]:
        """Groups with fewer candidates than the minimum lacks, in words."""
        lacking = []
        for name, number in self.minimum.items():
            can_start = len(self.candidates[name])
            if can_start < number:
                lacking.append(f"{name} lacks {number}, {can_start} can start")
        return lacking

    def requests_of_deleted(self) -> PodRequests:
        """3b.1b: what the jobs requested that the minimum lacks and that are not there. A job that
        is there and cannot start, such as one on a node that is not Ready, was not deleted."""
        if self.rule is None:
            return ()
        ran_with = dict(self.memory.ran_with)
        requested = []
        for name, number in self.rule.smallest.counts.items():
            live = [member for member in self.groups[name].members if member.is_live]
            for _ in range(number - len(live)):
                requested.append(ran_with.get(name, ()))
        return joined(*requested)

    def largest_number(self, group: str) -> int:
        """Instances of the group in the largest ratio that has enough live instances."""
        if self.rule is None or self.target is None:
            return 0
        return self.rule.ratios[min(self.target.unreachable, len(self.rule.ratios) - 1)].of(group)

    def remembering(self, seen: ServiceMemory) -> Demand:
        """The same with another memory of the service. The memories of its instances have to be
        equal."""
        return replace(self, seen=seen, memory=seen)

    # kept because it takes long, and few services are asked for it

    @cached_property
    def room_key(self) -> object:
        """Services with equal keys need the same room: same priority, same pod requests, no bound
        pod. None where the answer depends on more than that."""
        if self.bound_in_part or self.has_attempts or self.bound or not self.minimum:
            return None
        requested = []
        for name, number in self.minimum.items():
            candidates = self.candidates[name]
            if not _are_alike(candidates):
                return None
            first = candidates[0].instance
            requested.append((number, first.unbound, first.requests))
        return self.priority, tuple(requested)

    @cached_property
    def schedulers(self) -> frozenset[str]:
        """`schedulerName` of its pods, as far as it is known."""
        named = {instance.scheduler for instance in self.service.instances}
        return frozenset(named - {""})

    @cached_property
    def written(self) -> dict[str, str]:
        """What people wrote of the jobs and the rule, as fingerprints by job or owner, as far as
        they are read; empty while no decision depends on it."""
        if self.target is None or self.paused:
            return {}
        awaits_binds = self.minimum or self.with_the_scheduler or self.irrevocable
        if not (awaits_binds or not self.serves or self.seen.written):
            return {}
        return written_of(self.service)

    @property
    def is_read(self) -> bool:
        """Whether `written` was asked for before: the first answer takes long."""
        return "written" in vars(self)


def demand_of(service: Service, seen: ServiceMemory, now: float, policy: Policy) -> Demand:
    """The demand of a service. `seen`: the memory of the service before this decision."""
    members = states_of(service, seen, now, policy)
    memory = remembered_of(seen, {m.instance.uid: m.memory for m in members}, now)
    if memory.gone_since:
        memory = replace(memory, gone_since=0.0)
    memory, limited = wanted_in_all(service, memory, now)
    groups, target = groups_of(limited.rule, members, keeps_losses=seen.served)
    moves = target is not None and not service.options.paused
    gave_place = frozenset[str]()
    if moves and service.options.counts_from is CountsFrom.READY:
        gave_place = give_their_place(groups, now, policy)
    if gave_place:
        members = without_place(members, gave_place, states.Look(service, now, policy))
        memory = remembered_of(memory, {m.instance.uid: m.memory for m in members}, now)
        groups, target = groups_of(limited.rule, members, keeps_losses=seen.served)
    to_scale_down = ScaleDown()
    if moves and limited.replicas < ALL and not service.assumed:
        to_scale_down = scaled_down(limited.rule, groups, policy)
    groups, completion = made_whole(groups, moves=moves)
    if not service.key.rule and service.rule is None:
        completion = replace(completion, made_whole=_made_whole_without_rule(members))
    candidates = candidates_of(groups, now, policy) if moves else {}
    smallest = limited.rule.smallest.counts if limited.rule is not None else {}
    serves = all(groups[name].running >= number for name, number in smallest.items())
    if limited.rule is not None and serves:
        memory = attempts.after_look_at_service(memory, _requests_of_minimum(smallest, groups))
    shortfall = Shortfall()
    if moves and not serves:
        candidates = with_lost(candidates, groups, completion, smallest)
        if memory.served:
            candidates = with_refused(candidates, groups, now)
        shortfall = missing_of_minimum(smallest, groups, candidates, completion)
    return Demand(
        service=service,
        name=str(service.key),
        policy=policy,
        seen=seen,
        memory=memory,
        members=members,
        rule=limited.rule,
        left_out=limited.left_out,
        replicas=limited.replicas,
        groups=groups,
        target=target,
        scaled_down=to_scale_down.deleted,
        kept_for_restarts=to_scale_down.kept_for_restarts,
        made_whole=completion.made_whole,
        without_place=completion.without_place,
        irrevocable=completion.irrevocable,
        with_the_scheduler=_with_the_scheduler(groups),
        candidates=candidates,
        scale_up_candidates=_scale_up_candidates(groups, target, candidates) if serves else {},
        serves=serves,
        minimum=shortfall.missing,
        bound_in_part=shortfall.bound_in_part,
        replaced=shortfall.replaced,
        priority=priority_of(service, policy),
        oldest=oldest_job(service.instances),
        bound=sum([instance.bound for instance in service.instances]),
        requests=frozenset(chain(*[instance.may_request for instance in service.instances])),
        has_attempts=_has_attempts(memory),
        training=tuple([m for m in members if m.instance.training is not msgspec.UNSET]),
        has_progress=any(one.most_bound for one in memory.instances.values()),
        until=changes_at(service, members, memory, now, policy),
    )


def _requests_of_minimum(
    smallest: Mapping[str, int], groups: Mapping[str, Group]
) -> tuple[tuple[str, PodRequests], ...]:
    """Section 3b.1b: what an instance of each group of the minimum requests."""
    found = []
    for name, number in smallest.items():
        for member in groups[name].members:
            if number and member.running:
                found.append((name, member.instance.least_requests))
                break
    return tuple(found)


def states_of(
    service: Service, seen: ServiceMemory, now: float, policy: Policy
) -> tuple[Member, ...]:
    """Section 2: each instance with its state."""
    memories = attempts.inherited(service, seen.instances, now)
    look = states.Look(service, now, policy)
    members = []
    for instance in service.instances:
        remembered = memories.get(instance.uid, NEVER_SEEN)
        members.append(states.look_at(as_needed(instance), remembered, look))
    return tuple(members)


def without_place(
    members: Iterable[Member], uids: Container[str], look: states.Look
) -> tuple[Member, ...]:
    """The members, of which these gave their place to a spare."""
    after = []
    for member in members:
        if member.uid not in uids:
            after.append(member)
            continue
        memory = replace(member.memory, gave_place=True)
        after.append(states.look_at(member.instance, memory, look))
    return tuple(after)


def wanted_in_all(
    service: Service, memory: ServiceMemory, now: float
) -> tuple[ServiceMemory, limit.Limit]:
    """Section 3c: the ratios that are aimed at, and the memory with the wanted numbers."""
    if service.replicas == ALL and not (memory.wanted or service.options.scale_down_delay):
        return memory, limit.Limit(service.rule)
    wanted = limit.followed(memory.wanted, service, now)
    if wanted is not memory.wanted:
        memory = replace(memory, wanted=wanted)
    return memory, limit.limit_of(service, wanted)


def scaled_down(rule: Rule | None, groups: Mapping[str, Group], policy: Policy) -> ScaleDown:
    """Section 3c: bound instances beyond the largest ratio of the limited rule."""
    deleted: list[Member] = []
    kept: list[Member] = []
    if rule is not None:
        for name, number in rule.largest.counts.items():
            of_group = limit.scale_down(groups[name], number, policy)
            deleted += of_group.deleted
            kept += of_group.kept_for_restarts
    return ScaleDown(tuple(deleted), tuple(kept))


def made_whole(groups: dict[str, Group], *, moves: bool) -> tuple[dict[str, Group], Completion]:
    """Section 2: a missing or gated member of an instance that has live pods is made or released,
    before a new instance starts. Also returns the groups with the places that this takes."""
    after = dict(groups)
    whole: set[str] = set()
    without: set[str] = set()
    irrevocable: list[Member] = []
    for name, before in groups.items():
        if not before.released:
            continue
        incomplete = [m for m in before.released if moves and states.is_incomplete(m)]
        group = before.copy() if incomplete else before
        after[name] = group
        for member in states.in_order(incomplete):
            if member.has_slot and group.is_within_target(member):
                whole.add(member.uid)
            elif _gets_a_place(member, group):
                group.give_place(member)
                whole.add(member.uid)
                irrevocable.append(member)
            elif member.is_with_the_scheduler:
                without.add(member.uid)
        irrevocable += [member for member in group.released if member.lacks_binds]
    return after, Completion(frozenset(whole), frozenset(without), tuple(irrevocable))


def _gets_a_place(member: Member, group: Group) -> bool:
    """Whether an instance with live pods and without a slot is made whole. It needs a free place;
    after its attempt other candidates go first."""
    if member.has_slot or not group.has_place_for(member):
        return False
    if not member.memory.gives_way:
        return True
    return all(states.why_not_admissible(one, 0.0) is not None for one in group.held)


def _made_whole_without_rule(members: Iterable[Member]) -> frozenset[str]:
    """Jobs that name no rule need no place."""
    return frozenset([m.uid for m in members if m.is_ours and states.is_incomplete(m)])


def candidates_of(
    groups: Mapping[str, Group], now: float, policy: Policy
) -> dict[str, list[Member]]:
    """Section 3.3: the candidates of each group, in order."""
    return {name: _candidates(group, now, policy) for name, group in groups.items()}


def _candidates(group: Group, now: float, policy: Policy) -> list[Member]:
    if not (group.held or group.released or len(group.members) > group.running):
        return []
    candidates = [m for m in group.members if states.is_candidate(m, now, policy)]
    return sorted(candidates, key=states.candidate_order) if len(candidates) > 1 else candidates


def with_lost(
    candidates: Mapping[str, list[Member]],
    groups: Mapping[str, Group],
    completion: Completion,
    smallest: Mapping[str, int],
) -> dict[str, list[Member]]:
    """Section 3b.1b: the candidates of a minimum. Instances that are lost are asked for last, but
    those that get their pods again now are no candidates. Where that is too few, those that are
    half made are asked for themselves while surplus of the service that does not run may give way
    to them (3.6). `smallest`: group -> number in the smallest ratio."""
    all_candidates = dict(candidates)
    may_give_way = _number_that_does_not_run(groups) > 1
    for name, of_group in candidates.items():
        lost = []
        half_made = []
        for member in groups[name].members:
            if member.is_lost and member.uid not in completion.made_whole:
                lost.append(member)
            elif member.is_half_made and member.uid not in completion.made_whole:
                half_made.append(member)
        too_few = _are_too_few([*of_group, *lost], groups[name], smallest.get(name, 0))
        if may_give_way and too_few:
            lost += half_made
        if lost:
            all_candidates[name] = sorted([*of_group, *lost], key=states.candidate_order)
    return all_candidates


def with_refused(
    candidates: Mapping[str, list[Member]], groups: Mapping[str, Group], now: float
) -> dict[str, list[Member]]:
    """Section 3b.1b: of a service that served, an instance whose creation was refused keeps its
    room, pauses included. It goes after all that can start."""
    all_candidates = dict(candidates)
    for name, of_group in candidates.items():
        refused = [m for m in groups[name].held if states.is_kept_though_refused(m, now)]
        if refused:
            all_candidates[name] = [*of_group, *states.in_order(refused)]
    return all_candidates


def _number_that_does_not_run(groups: Mapping[str, Group]) -> int:
    """How many instances are bound and do not run, or gave way."""
    number = 0
    for group in groups.values():
        for member in group.members:
            does_not_run = member.state in (State.ADMITTED, State.STARTING, State.BROKEN)
            is_bound = does_not_run and member.instance.bound > 0
            number += is_bound or bool(member.memory.gave_way_for)
    return number


def _are_too_few(candidates: Iterable[Member], group: Group, least: int) -> bool:
    """Whether a group has fewer than `least` instances with these candidates, those left out that
    gave way for another instance."""
    number = group.running + group.in_flight
    for member in candidates:
        number += not (member.has_slot or member.memory.gave_way_for)
    return number < least


def _scale_up_candidates(
    groups: Mapping[str, Group], target: Target | None, candidates: Mapping[str, list[Member]]
) -> dict[str, list[Member]]:
    """Where the target can be reached only with an instance whose creation was refused, that one
    alone (3.7)."""
    held_candidates = {}
    for name, of_group in candidates.items():
        if groups[name].wants:
            held = [member for member in of_group if member.state is State.HELD]
            held_candidates[name] = sorted(held, key=states.is_made, reverse=True)
    if target is not None and target.needs_refused:
        return _first_refused(held_candidates)
    return held_candidates


def _first_refused(candidates: Mapping[str, list[Member]]) -> dict[str, list[Member]]:
    """The same groups with one candidate in all: the first whose creation was refused."""
    refused: list[Member] = []
    for of_group in candidates.values():
        refused += [member for member in of_group if member.memory.refused]
    if not refused:
        return dict(candidates)
    first = states.in_order(refused)[:1]
    alone = {}
    for name, of_group in candidates.items():
        alone[name] = [member for member in of_group if member in first]
    return alone


def _with_the_scheduler(groups: Mapping[str, Group]) -> tuple[Member, ...]:
    members: list[Member] = []
    for group in groups.values():
        members += [member for member in group.released if member.is_with_the_scheduler]
    return tuple(states.in_order(members))


def missing_of_minimum(
    smallest: Mapping[str, int],
    groups: Mapping[str, Group],
    candidates: Mapping[str, list[Member]],
    completion: Completion,
) -> Shortfall:
    """Section 3b.1a, 3b.1b: what the smallest ratio lacks. `smallest`: group -> number in that
    ratio."""
    missing: dict[str, int] = {}
    bound_in_part: list[Member] = []
    all_replaced: list[Member] = []
    for name, number in smallest.items():
        group = groups[name]
        whole = group.running
        parts: list[Member] = []
        replaced = _replaced_by_the_newest(group, candidates[name])
        all_replaced += replaced
        for member in _with_a_place(group, candidates[name], completion):
            if member in replaced:
                continue
            if member.is_whole:
                whole += 1
            else:
                parts.append(member)
        missing[name] = max(0, number - whole - len(parts))
        bound_in_part += states.in_order(parts)[: max(0, number - whole)]
    return Shortfall(missing, tuple(bound_in_part), tuple(all_replaced))


def _replaced_by_the_newest(group: Group, candidates: Collection[Member]) -> list[Member]:
    """3.8: outdated instances that do not start take no place from candidates of the newest
    revision of their owner: one for each candidate."""
    if not group.rollouts:
        return []
    newest = Counter[str]()
    for member in candidates:
        newest[member.instance.owner] += not member.instance.outdated
    replaced = []
    for member in states.in_order(group.members):
        owner = member.instance.owner
        if member.is_replaced and not member.running and newest[owner] > 0:
            newest[owner] -= 1
            replaced.append(member)
    return replaced


def _with_a_place(
    group: Group, candidates: Collection[Member], completion: Completion
) -> Iterator[Member]:
    """Instances in flight that are no candidates, and those without a slot that are made whole."""
    for member in group.members:
        if member.in_flight and member not in candidates:
            yield member
    for member in group.released:
        if member.uid in completion.made_whole and not member.has_slot:
            yield member


def priority_of(service: Service, policy: Policy) -> int:
    """Section 3b.2b: the priority of the PriorityClass. The annotation may lower it, and raise it
    up to the setting."""
    own = max([instance.priority for instance in service.instances], default=0)
    annotated = service.options.service_priority
    if annotated is None:
        return own
    if policy.max_service_priority is None:
        return min(annotated, own)
    return min(annotated, max(own, policy.max_service_priority))


def oldest_job(instances: Iterable[Instance]) -> float:
    """Section 3b.2c: when the oldest job that has not ended was created."""
    oldest = math.inf
    for one in instances:
        if not (one.owner_deleting or one.owner_finished):
            oldest = min(oldest, one.created)
    return 0.0 if oldest == math.inf else oldest


def _has_attempts(memory: ServiceMemory) -> bool:
    for one in memory.instances.values():
        if one.began or one.had_its_attempt or one.backoff_until or one.gives_way:
            return True
        if one.gave_way_for or one.sizes is not msgspec.UNSET:
            return True
    return False


def changes_at(
    service: Service,
    members: tuple[Member, ...],
    memory: ServiceMemory,
    now: float,
    policy: Policy,
) -> float:
    """From when on the demand may change by time alone; 0.0 = never."""
    moments: list[float] = []
    for member in members:
        moments += states.moments_of(member, policy)
        moments += moments_of_sizes(member.instance, member.memory, policy)
    if len(memory.wanted) > 1:  # until the highest number no longer counts
        moments.append(memory.wanted[0][1] + service.options.scale_down_delay)
    memories = memory.instances.values()
    if len(memories) > len(members):  # some instances are gone
        moments += [one.backoff_until for one in memories]
    return min([moment for moment in moments if moment > now], default=0.0)


def written_of(service: Service) -> dict[str, str]:
    """3b.5c: what people wrote, as fingerprints by job or owner, and of the rule under "": from
    templates, and from the labels and annotations that section 1 reads. Not from replicas, and not
    from which pods exist: where others make the pods, the newest revision of their owner says
    it."""
    written = {"": _fingerprint((service.rule, service.options))}
    for one in service.instances:
        if one.owner_deleting or _is_told_by_missing_pods(one):
            continue
        if one.made_by_us or not one.owner:
            written[one.uid] = _fingerprint((*_template_of(one), one.asks))
        elif not one.outdated:
            written[one.owner] = _fingerprint(_template_of(one))
    return written


def _is_told_by_missing_pods(one: Instance) -> bool:
    """Whether only its pods would say what people wrote, and none is there. What is needed is then
    read from the template (3b.1c), which may lack what admission adds to pods: no edit."""
    return not (one.made_by_us or one.generation or one.revision or one.pods)


def _template_of(one: Instance) -> tuple[object, ...]:
    """What people wrote of an instance. Its pods say it only where nothing else does: they are not
    there all the time."""
    if one.generation or one.revision:
        return one.group, one.generation, one.revision
    return one.group, one.largest.pods, _digest(one.largest.needs)


def _fingerprint(value: object) -> str:
    return blake2s(msgspec.json.encode(value), digest_size=8).hexdigest()


def _are_alike(candidates: list[Member]) -> bool:
    """Whether there are candidates, all ask for the same room, and none has old pods that end."""
    for member in candidates:
        differs = member.instance.unbound != candidates[0].instance.unbound
        if differs or member.state is State.TERMINATING:
            return False
    return bool(candidates)


_digests: Remembered[PodRequests, str] = Remembered(2**22)


def _digest(requests: PodRequests) -> str:
    """Remembered: many services have equal requests, and their `repr` costs more than the rest of a
    fingerprint."""
    known = _digests.get(requests)
    if known is not None:
        return known
    return _digests.keep(requests, repr(blake2s(repr(requests).encode(), digest_size=8).digest()))
