"""Judges decisions about services that compete, pass by pass, by what could be seen: S9, S10, L1
and L5 (tests.chaos.decisions judges S1, S3 and S11). And once a story has ended, what was not as
promised (`unkept`): how many serve, L1, L2, L4, L5 and S2.

A matching of pods to nodes of its own; it shares nothing with scaler.decide but the words in which
decisions come."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property

from scaler.decide.decision import Admit, Decision, Evict, Plan, Revoke, State
from scaler.decide.world import Preempt
from scaler.kube.api import CONFIG_MAPS, NODES, Object, Resource
from scaler.reasons.reasons import Reason
from scaler.sim.actors import objects
from scaler.sim.stories.timeline import MomentKind, Timeline
from tests.chaos.view import Instance, View
from tests.chaos.writes import Writes
from tests.contention.services import KIND, RULE, Service, serving
from tests.contention.stories import AT_WORK, PATIENCE, Story
from tests.rig import START

SETTLED = 1.0
"""Seconds for which what is seen may contradict S10: a loss is seen and answered within it."""
ABLE = frozenset(reason for reason in Reason if reason.row.starts_when_it_fits)
"""Why an instance is held that could start if there were room."""
QUIET = 300.0
"""Seconds at the end in which nothing may happen any more."""
SORTED_OUT = 60.0
"""Seconds after the last event within which what it changed is sorted out."""
TURN = 30.0
"""Seconds after which room may not be kept any more for what makes no progress."""


class ServicesView(View):
    """The cluster as far as services on scarce nodes are concerned, fed what the controller's own
    watches deliver: a decision is judged by what could be known. Every pod fills a node, so "fits"
    is a matching of pods to nodes."""

    def __init__(self, services: Iterable[Service]) -> None:
        super().__init__()
        self.services = {service.key: service for service in services}
        self.rules: set[str] = set()
        """Namespaces whose rule was seen; a rule that goes is remembered."""

    def take(self, resource: Resource, obj: Object, *, gone: bool = False) -> None:
        super().take(resource, obj, gone=gone)
        if resource == CONFIG_MAPS and objects.name(obj) == RULE:
            self.rules.add(objects.namespace(obj))

    # Services

    @cached_property
    def _by_group(self) -> dict[tuple[str, str], list[Instance]]:
        found = defaultdict(list)
        for one in self.instances:
            if not objects.terminating(one.job):
                found[one.service, one.group].append(one)
        return dict(found)

    def of(self, service: str, group: str) -> list[Instance]:
        return self._by_group.get((service, group), [])

    def all_of(self, service: str) -> list[Instance]:
        return [one for group in self.services[service].minimum for one in self.of(service, group)]

    def serves(self, key: str) -> bool:
        for group, number in self.services[key].minimum.items():
            if len([one for one in self.of(key, group) if one.all_run]) < number:
                return False
        return True

    @cached_property
    def waiting(self) -> list[str]:
        """Services whose smallest ratio is not all bound and could be: its rule and its jobs
        exist."""
        found = []
        for key, service in self.services.items():
            if service.name in self.rules and self._has_jobs(key) and self.missing(key):
                found.append(key)
        return found

    def _has_jobs(self, key: str) -> bool:
        """Whether the jobs of its smallest ratio exist."""
        for group, number in self.services[key].minimum.items():
            if len(self.of(key, group)) < number:
                return False
        return True

    def missing(self, key: str) -> list[str]:
        """Kind of node for each pod that the smallest ratio still needs; of each group the nearest
        instances."""
        service = self.services[key]
        count = 0
        for group, number in service.minimum.items():
            count += sum(sorted(one.unbound for one in self.of(key, group))[:number])
        return [service.kind] * count

    def beyond_minimum(self, key: str) -> int:
        """Nodes that its instances beyond its minimum hold."""
        nodes = 0
        for group, number in self.services[key].minimum.items():
            running = [one for one in self.of(key, group) if one.all_run]
            nodes += sum(one.size for one in running[number:])
        return nodes

    def released(self, key: str) -> set[str]:
        """Its instances that have pods which wait for the scheduler."""
        return {one.uid for one in self.all_of(key) if one.in_hands}

    def in_part(self, key: str) -> list[str]:
        """Kind of node for each pod that waits for the scheduler while another one of its instance
        is bound."""
        return [
            self.services[key].kind for one in self.all_of(key) if one.seated for _ in one.in_hands
        ]

    def ends(self, key: str) -> bool:
        """Some of its pods are terminating."""
        return any(
            objects.terminating(pod)
            for one in self.all_of(key)
            for pod in one.pods
            if not objects.ended(pod)
        )

    # Nodes

    @property
    def node_kinds(self) -> set[str]:
        return {objects.labels_of(node).get(KIND, "") for node in self.all(NODES)}

    def room(
        self, *, coming: bool = False, away: bool = False, without: Set[str] = frozenset()
    ) -> list[str]:
        """Kinds of the nodes that are free; see `View.free`."""
        return self.free(KIND, coming=coming, away=away, without=without)

    def fits(self, needed: Iterable[Sequence[str]]) -> bool:
        """Whether all these pods find nodes that are free."""
        return fit([kind for each in needed for kind in each], self.room())

    def has_neighbour(self, key: str) -> bool:
        """Another service could ever use some of its nodes; who is alone is admitted whether it
        fits or not."""
        present = {one.service for one in self.instances if not objects.terminating(one.job)}
        neighbours = [self.services[other] for other in present & self.services.keys() - {key}]
        others = {other.kind for other in neighbours if other.name in self.rules}
        own = self.services[key].kind
        return any(
            own in ("", kind) and other in ("", kind)
            for other in others
            for kind in self.node_kinds
        )


class Passes:
    """`judge` looks in every pass, before what was decided is acted on; `view` is what the
    controller has seen. `given_up`, `patience`: as in a story. `lag`: seconds by which watches may
    be late."""

    def __init__(
        self,
        writes: Writes,
        services: Iterable[Service],
        *,
        given_up: Set[str] = frozenset(),
        lag: float = 0.0,
        patience: float = PATIENCE,
    ) -> None:
        self.view = ServicesView(services)
        self.witness = writes.witness
        self._fail = self.witness.fail
        self._clock = self.witness.clock
        self._given_up = given_up
        self._settled = SETTLED + 2 * lag
        self._patience = patience
        self._writes = writes
        self._going: set[str] = set()
        """Instances that were revoked, and whose pods may still be seen."""
        self._part_since: dict[str, float] = {}
        """Since when instances are bound in part."""
        self._plans: dict[str, Plan] = {}
        self.admitted: list[tuple[float, str]] = []
        """When which instance was admitted."""
        self.evictions: defaultdict[str, list[float]] = defaultdict(list)
        """When something was evicted for a service."""

    def judge(self, decision: Decision) -> None:
        plans = {
            str(plan.key): plan for plan in decision.plans if str(plan.key) in self.view.services
        }
        self._plans = plans
        self._take_note(plans)
        reserved = self._reserved(plans)
        for key, plan in plans.items():
            if _uids(plan, Admit) and self.view.serves(key):
                self._check_scale_up(key, plans, reserved)
        self._check_minimums(plans, reserved)
        self.check_who_is_held_up()

    def _take_note(self, plans: Mapping[str, Plan]) -> None:
        now = self._clock.now()
        view = self.view
        halves = [one for key in plans for one in view.all_of(key) if one.in_hands and one.seated]
        self._part_since = {one.uid: self._part_since.get(one.uid, now) for one in halves}
        for plan in plans.values():
            admitted = _uids(plan, Admit)
            revoked = _uids(plan, Revoke)
            self.admitted += [(now, uid) for uid in sorted(admitted)]
            self._going = (self._going | revoked) - admitted
            for action in plan.actions:
                if isinstance(action, Evict):
                    self.evictions[action.beneficiary].append(now)

    # S9 and S10

    def _in_hands(self, key: str, plan: Plan) -> set[str]:
        """Its instances that the scheduler may bind once this plan has taken effect. What is bound
        in part and has had its attempt is none of them: it keeps what it has, and no more is kept
        for it."""
        own = {one.uid: one for one in self.view.all_of(key)}
        seen = self.view.released(key)
        self._going -= own.keys() - seen
        over = {verdict.uid for verdict in plan.verdicts if verdict.state is State.BROKEN}
        over |= {
            one for one in seen if self._clock.now() - self._part_since.get(one, math.inf) >= TURN
        }
        over = {one for one in seen & over if own[one].seated}
        return (seen - self._going - over) | _uids(plan, Admit)

    def _reserved(self, plans: Mapping[str, Plan]) -> list[str]:
        """Services for whose minimum room is kept: it is on its way to a node, or waits for what
        becomes free. While writes for a service are under way its new jobs are not decided
        about."""
        reserved = []
        for key in self.view.waiting:
            plan = plans.get(key)
            if plan is None or not self.view.has_neighbour(key):
                continue
            waits = {verdict.reason for verdict in plan.verdicts if verdict.state is State.HELD}
            waits &= {Reason.WAITING_FOR_ROOM, Reason.WAITING_FOR_SCHEDULER}
            known = {verdict.uid for verdict in plan.verdicts}
            if known >= {one.uid for one in self.view.all_of(key)} and (
                waits or self._in_hands(key, plan)
            ):
                reserved.append(key)
        return reserved

    def _check_scale_up(self, key: str, plans: Mapping[str, Plan], reserved: Sequence[str]) -> None:
        """Wherever the scheduler puts a scale-up that is admitted, and what it has, every
        reservation still fits."""
        own = self.view.services[key].kind
        minimums = self._missing(reserved)
        hands = {other: self._in_hands(other, plan) for other, plan in plans.items()}
        others = [other for other in hands if other not in reserved]
        scale_ups = [kind for other in others for kind in self._kinds(other, hands[other])]
        flexible = [
            kind for other in hands for kind in self._kinds(other, hands[other]) if not kind
        ]
        free = self.view.room()
        soon = self.view.room(coming=True, away=True, without=self._writes.evicted)
        kinds = {kind for kind in (set(soon) if not own else {own}) if kind in minimums}
        picky = [*minimums, *scale_ups]
        # At the worst, what may go anywhere goes to nodes of this kind.
        spoilt = [
            kind
            for kind in kinds
            if picky.count(kind) + min(len(flexible), free.count(kind)) > soon.count(kind)
        ]
        if minimums and (spoilt or not fit(picky, soon)):
            self._fail(
                f"S9: {key} scales up, {_list(minimums)} are reserved on {_list(soon)},"
                f" {len(flexible)} may go anywhere"
            )

    def _kinds(self, key: str, uids: Set[str]) -> list[str]:
        return [self.view.services[key].kind] * sum(
            one.unbound for one in self.view.all_of(key) if one.uid in uids
        )

    def _check_minimums(self, plans: Mapping[str, Plan], reserved: Sequence[str]) -> None:
        """Minimums in the scheduler's hands fit all together; who waits would not fit beside
        them."""
        parts = [self.view.in_part(key) for key in plans if key not in reserved]
        hands = [key for key in reserved if self._in_hands(key, plans[key])]
        needed = self._missing(hands)
        room = self.view.room(coming=True, away=True)
        if self.witness.since("S10", wrong=not fit(needed, room)) > self._settled:
            self._fail(
                f"S10: minimums of {hands} do not fit together: {_list(needed)} on {_list(room)}"
            )
        self._check_release(plans, hands, reserved)
        kept = [self.view.missing(key) for key in reserved]
        for key in self.view.services:
            waits = key in plans and key not in reserved and self._could_start(key, plans[key])
            wrong = waits and self.view.fits([*parts, *kept, self.view.missing(key)])
            if self.witness.since(f"L1 {key}", wrong=wrong) > self._settled:
                beside = _list(kind for each in kept for kind in each)
                self._fail(
                    f"L1: {key} is held though it fits beside {beside} on {_list(self.view.room())}"
                )

    def _missing(self, keys: Iterable[str]) -> list[str]:
        return [kind for key in keys for kind in self.view.missing(key)]

    def _check_release(
        self, plans: Mapping[str, Plan], hands: Sequence[str], reserved: Sequence[str]
    ) -> None:
        """A minimum goes to the scheduler on room that is free beside all that the scheduler has,
        beside all that is reserved, and, where all nodes are alike, whole."""
        fresh = [key for key in hands if _uids(plans[key], Admit)]
        held = [
            kind
            for key, plan in plans.items()
            for kind in self._kinds(key, self._in_hands(key, plan))
        ]
        if fresh and not self.view.fits([held]):
            free = _list(self.view.room())
            self._fail(
                f"S10: the minimums of {fresh} are released, but {_list(held)} does not fit on"
                f" {free}"
            )
        soon = self.view.room(coming=True, away=True, without=self._writes.evicted)
        kept = self._missing(reserved)
        if fresh and not fit(kept, soon):
            self._fail(
                f"S10: the minimums of {fresh} are released into {_list(soon)}, where {_list(kept)}"
                " are reserved"
            )
        for key in fresh if len(self.view.node_kinds) == 1 else ():
            if Reason.CREATE_REFUSED not in _reasons(plans[key]):
                self._check_whole(key, plans[key])

    def _check_whole(self, key: str, plan: Plan) -> None:
        out = self._in_hands(key, plan)
        for group, least in self.view.services[key].minimum.items():
            there = [one for one in self.view.of(key, group) if one.uid in out or one.seated]
            if len(there) < least:
                self._fail(
                    f"S10: of the minimum of {key} only {len(there)} of {least} in {group} are"
                    " released"
                )

    def _could_start(self, key: str, plan: Plan) -> bool:
        """Its minimum waits, and for nothing but room."""
        held = [
            verdict.reason
            for verdict in plan.verdicts
            if verdict.reason not in (Reason.RUNNING, Reason.STARTING)
        ]
        return (
            key in self.view.waiting
            and not self.view.ends(key)
            and set(held) <= ABLE
            and bool(held)
        )

    # L5

    def check_who_is_held_up(self) -> None:
        """What makes no progress keeps no other service for long from free nodes. Checked once more
        at the end."""
        for key in self.view.services.keys() - self._given_up:
            wrong = key in self.view.waiting and self.view.fits([self.view.missing(key)])
            since = self.witness.since(f"L5 {key}", wrong=wrong)
            if since > self._patience:
                why = sorted(_reasons(self._plans[key])) if key in self._plans else []
                needed = _list(self.view.missing(key))
                free = _list(self.view.room())
                self._fail(f"L5: {key} is held up though {needed} fits on {free}: {', '.join(why)}")
                self.witness.since(f"L5 {key}", wrong=False)


def fit(needed: Sequence[str], free: Sequence[str]) -> bool:
    """Whether pods find nodes: those that say which kind first, the others take what is left."""
    picky = all(needed.count(kind) <= free.count(kind) for kind in set(needed) if kind)
    return picky and len(needed) <= len(free)


def _list(kinds: Iterable[str]) -> str:
    """`3x module-910b-8, 2x any`."""
    return (
        ", ".join(f"{times}x {kind or 'any'}" for kind, times in sorted(Counter(kinds).items()))
        or "nothing"
    )


def _uids(plan: Plan, kind: type[Admit | Revoke | Evict]) -> set[str]:
    return {action.uid for action in plan.actions if isinstance(action, kind)}


def _reasons(plan: Plan) -> set[Reason]:
    return {verdict.reason for verdict in plan.verdicts}


# In the end


def unkept(story: Story, timeline: Timeline, passes: Passes) -> Iterator[str]:
    count = len(serving(timeline))
    halves = 0  # services that hold nodes to no use
    if any(one.priority for one in story.services):
        # Where a higher one comes while a lower one is being bound, the bind may race the decision
        # to take its room: that is not promised away.
        for key in passes.view.waiting:
            halves += any(one.seated for one in passes.view.all_of(key))
    if story.serving is not None and not story.serving - halves // 2 <= count <= story.serving:
        yield f"{count} serve, not {story.serving}, {halves} half"
    early = len(serving(timeline, AT_WORK - 1))
    if story.before is not None and early != story.before:
        yield f"{early} serve before the first fault, not {story.before}"
    yield from (
        f"{key} does not run its largest ratio"
        for key in story.whole
        if not timeline.last(key).complete
    )
    yield from (
        f"L5: {key} does not serve" for key in story.serves if not timeline.last(key).serves
    )
    if story.rests:
        # Without what is said of the story itself, at its end:
        own = (MomentKind.WARNING, "the curse of")
        last = max(
            moment.at for moment in timeline.moments if (moment.kind, moment.text[:12]) != own
        )
        if last > timeline.end - QUIET:
            yield f"L4: it does not come to rest, {last:.1f} s"
        yield from _left_over(passes.view, story)
        yield from _could_preempt(passes.view, story)
    yield from _endless(passes, story)
    for service, samples in timeline.samples.items():
        end = samples[-1]
        if passes.view.all_of(service) and {view.name for view in end.instances} != set(
            end.reasons
        ):
            yield f"L2: {service} has instances without a reason"


def _endless(passes: Passes, story: Story) -> Iterator[str]:
    """L4: evictions end, and what can be bound is admitted once, outside events aside."""
    over = START + story.last_event + SORTED_OUT
    for key, moments in passes.evictions.items():
        late = [at - START for at in moments if at > over + QUIET]
        if late:
            yield f"L4: evictions for {key} do not end: {late[:3]}"
    cursed = {one.uid for key in story.given_up for one in passes.view.all_of(key)}
    late_ones = Counter(one for at, one in passes.admitted if at > over and one not in cursed)
    for one, times in late_ones.most_common(1):
        if times > story.admissions:
            yield f"L4: {one} is admitted {times} times after the last event"


def _could_preempt(view: ServicesView, story: Story) -> Iterator[str]:
    """L1: no service waits that may evict enough."""
    policy = story.settings.get("preempt", Preempt.HIGHER_PRIORITY.value)
    for key in set(view.waiting) - story.given_up:
        own = view.services[key]
        room = view.room()
        for other in view.services.values() if policy != Preempt.NEVER.value else ():
            equal = policy == Preempt.EQUAL_OR_HIGHER.value and other.worth == own.worth
            if (
                other is not own
                and (other.worth < own.worth or equal)
                and other.annotations.get("preemptable") is None
            ):
                room += [other.kind] * view.beyond_minimum(other.key)
        if fit(view.missing(key), room):
            yield f"L1: {key} waits though it may evict: {view.missing(key)} on {room}"


def _left_over(view: ServicesView, story: Story) -> Iterator[str]:
    """L1: no service waits for what is free, and nothing is half in the scheduler's hands (S2)."""
    for key in set(view.waiting) - story.given_up:
        if view.fits([view.missing(key)]) and not view.ends(key):
            yield f"L1: {key} waits though {view.missing(key)} fits on {view.room()}"
    for key in view.services:
        for one in view.all_of(key):
            if len(one.in_hands) + len(one.seated) not in (0, one.size):
                yield f"S2: {one.name} of {key} is half released"
