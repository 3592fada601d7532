"""The price of a decision: 3b.10c of the contract.

Each question of 3b costs steps for each unlike request. So each namespace may have `MOST_UNLIKE`
different requests of pods that hold no node, whatever others have. Where it has more, its requests
are rounded up until so few are left, and nobody else's are:

    requests with the same constraints and nearly the same amounts -> the largest amount of each
    constraints beyond the first so many -> the pod fits nowhere for now

Where the cluster has more than `MOST_IN_ALL`, fewer count of the namespaces that have the most:
with the largest number from `FEW` to `MOST_UNLIKE` all namespaces together have no more. Whoever
has `FEW` unlike requests is never rounded.

The number depends on what is asked alone, not on what was computed before, and a request that is
rounded up takes no less room: what fits in thought fits. Constraints go first which pods with the
scheduler have, then those of the oldest instances; a pod that fits nowhere for now is probed (9),
as one that asks for what no node offers.

Reads the services of a world only. Must not look at nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import is_not
from typing import NamedTuple

from msgspec.structs import replace

from scaler.decide.nodes import PodRequest, PodRequests, Where, joined
from scaler.decide.since_last import Followed
from scaler.decide.work import Steps, Work, all_of
from scaler.decide.world import Instance, Service, World
from scaler.reasons.warnings import Warning

MOST_UNLIKE = 32
"""The largest number of unlike requests, and of unlike constraints, of one namespace."""
FEW = 8
"""So many of each namespace count, however many namespaces there are."""
MOST_IN_ALL = 256
"""The number of unlike requests in the whole cluster up to which each namespace has
`MOST_UNLIKE`."""
UNITS_OF_INSTANCE = 2
"""The work of reading the requests of an instance."""
UNITS_OF_ROUNDING = 10
"""The work of finding what a request is rounded up to."""
NOT_NOW = "too-many-constraints"
"""A resource that no node offers: a pod with it fits nowhere for now. No name that the API server
takes for a resource, which has a slash or is a name of Kubernetes."""
WORDS = (
    "too many unlike requests wait for room in its namespace: they are rounded up to few, and what"
    " has a selector, an affinity or tolerations of its own may have to wait"
)

Place = tuple[bool, float, str]
"""Sort key of an instance: held ones last, the oldest first."""
Needs = dict[PodRequest, Place]
"""Request of a pod that holds no node -> the first instance with such pods."""
Rounded = Mapping[PodRequest, PodRequest]
Cell = tuple[object, ...]
"""Requests of one cell are rounded up to the same."""
Grid = Callable[[PodRequest], Cell]
"""Which cell a request is in."""


def within_budget(world: World) -> World:
    """The world as it is decided about: the requests of namespaces that have too many are rounded
    up."""
    return Budget().within(world)


def number_of_rounded(before: World, after: World) -> int:
    """How many services have requests that are rounded up."""
    if after.services is before.services:
        return 0
    return sum(map(is_not, before.services, after.services))


class Budget:
    """It keeps what it found for the next world; without that it finds the same."""

    def __init__(self) -> None:
        self._services = Followed[Service]()
        self._given: tuple[Service, ...] = ()
        self._namespaces: dict[str, _Namespace] = {}
        self._in_all = Counter[PodRequest]()
        """Request -> the namespaces with such pods."""

    def within(self, world: World) -> World:
        """As `within_budget`."""
        return all_of(self.steps(world, Work()))

    def steps(self, world: World, work: Work) -> Steps[World]:
        """As `within`. A service that did not change, and whose requests are rounded as
        before, is the same object as before."""
        if world.nodes is None or world.alone:
            return world  # each service decides alone, without a question about room
        before = self._services.last
        now = world.services
        if now is not before:
            yield from self._follow(before, now, work)
            self._given = yield from self._with_rounded(now, work)
        return world if self._given is now else replace(world, services=self._given)

    def _follow(
        self, before: tuple[Service, ...], now: tuple[Service, ...], work: Work
    ) -> Steps[None]:
        changed = self._services.follow(now)
        if len(now) != len(before):
            self._namespaces = {}
            self._in_all.clear()
            before = now
        for at in changed:
            last = before[at].key.namespace
            if last != now[at].key.namespace:
                self._namespaces[last].remove(at)
            self._put(at, now[at])
            work.units += UNITS_OF_INSTANCE * len(now[at].instances)
            yield

    def _put(self, at: int, now: Service) -> None:
        name = now.key.namespace
        if name not in self._namespaces:
            self._namespaces[name] = _Namespace(self._in_all)
        self._namespaces[name].put(at, now)

    def _with_rounded(
        self, services: tuple[Service, ...], work: Work
    ) -> Steps[tuple[Service, ...]]:
        most = self._most_of_a_namespace()
        changed: dict[int, Service] = {}
        for namespace in self._namespaces.values():
            if namespace.unlike > most:
                changed |= yield from namespace.rounded(most, work)
        if not changed:
            return services
        return tuple([changed.get(at, service) for at, service in enumerate(services)])

    def _most_of_a_namespace(self) -> int:
        """How many unlike requests of one namespace count."""
        if len(self._in_all) <= MOST_IN_ALL:
            return MOST_UNLIKE
        namespaces = Counter(namespace.unlike for namespace in self._namespaces.values())
        for most in range(MOST_UNLIKE, FEW, -1):
            together = sum([min(unlike, most) * n for unlike, n in namespaces.items()])
            if together <= MOST_IN_ALL:
                return most
        return FEW


class _Given(NamedTuple):
    """A service with rounded requests, kept to save time."""

    service: Service
    """As the world has it."""
    rounded: PodRequests
    """What its requests were rounded to."""
    given: Service
    """The service with these."""


class _Namespace:
    """The services of one namespace, by their position in the world."""

    def __init__(self, in_all: Counter[PodRequest]) -> None:
        """`in_all`: request -> the namespaces with such pods; kept here."""
        self._in_all = in_all
        self._services: dict[int, Service] = {}
        self._needs: dict[int, Needs] = {}
        self._number = Counter[PodRequest]()
        """Request -> the services with such pods."""
        self._rounded: Rounded = {}
        self._found_for: tuple[Needs, int] = ({}, 0)
        """The requests, and how many of them count, that `_rounded` was found for."""
        self._given: dict[int, _Given] = {}
        self._last: tuple[int, dict[int, Service]] | None = None
        """How many requests counted at the last look, and what it found; None = a service is
        another object since."""

    @property
    def unlike(self) -> int:
        """The number of its unlike requests."""
        return len(self._number)

    def put(self, at: int, service: Service) -> None:
        self.remove(at)
        needs = needs_of(service)
        self._services[at] = service
        if needs:
            self._needs[at] = needs
            for request in needs:
                self._in_all[request] += request not in self._number
                self._number[request] += 1

    def remove(self, at: int) -> None:
        self._last = None
        self._services.pop(at, None)
        for request in self._needs.pop(at, ()):
            self._number[request] -= 1
            if not self._number[request]:
                del self._number[request]
                self._in_all[request] -= 1
                if not self._in_all[request]:
                    del self._in_all[request]

    def rounded(self, most: int, work: Work) -> Steps[dict[int, Service]]:
        """Its services, with requests that are rounded up to at most so many."""
        if self._last is not None and self._last[0] == most:
            return self._last[1]
        needs: Needs = {}
        for of_service in self._needs.values():
            for request, place in of_service.items():
                needs[request] = min(place, needs.get(request, place))
        if (needs, most) != self._found_for:
            work.units += UNITS_OF_ROUNDING * len(needs)
            self._found_for = needs, most
            self._rounded = rounded_up(needs, most)
        yield
        services = {}
        for at in self._needs:
            services[at] = self._with_rounded(at)
            work.units += UNITS_OF_INSTANCE * len(services[at].instances)
            yield
        self._last = most, services
        return services

    def _with_rounded(self, at: int) -> Service:
        service = self._services[at]
        rounded = tuple([(self._rounded[request], 1) for request in self._needs[at]])
        known = self._given.get(at)
        if known is None or known.service is not service or known.rounded != rounded:
            known = _Given(service, rounded, with_rounded(service, self._rounded))
            self._given[at] = known
        return known.given


def needs_of(service: Service) -> Needs:
    """The requests of its pods that hold no node."""
    needs: Needs = {}
    for instance in service.instances:
        place = (instance.pods <= instance.gated, instance.created, instance.uid)
        for request, _ in instance.unbound:
            needs[request] = min(place, needs.get(request, place))
    return needs


def with_rounded(service: Service, rounded: Rounded) -> Service:
    """The service with rounded requests; the first instance with such pods has a warning."""
    instances = list[Instance]()
    is_said = False
    for instance in service.instances:
        unbound = joined(*[((rounded[request], n),) for request, n in instance.unbound])
        if unbound == joined(instance.unbound):
            instances.append(instance)
            continue
        warnings = instance.warnings
        if not is_said:
            warnings = (*warnings, (Warning.REQUESTS_ROUNDED, WORDS))
            is_said = True
        instances.append(replace(instance, unbound=unbound, warnings=warnings))
    return replace(service, instances=tuple(instances)) if is_said else service


# which requests become one


def rounded_up(needs: Mapping[PodRequest, Place], most: int) -> dict[PodRequest, PodRequest]:
    """Request -> the request that it counts as, which are at most so many."""
    now, not_now = _by_turn(needs, most)
    cell_of = _finest_grid(now, most)
    cells: dict[Cell, list[PodRequest]] = {}
    for request in now:
        cells.setdefault(cell_of(request), []).append(request)
    rounded = {}
    for members in cells.values():
        largest = members[0]
        if len(members) > 1:
            largest = replace(largest, requests=_largest(members), rounded=True)
        rounded.update(dict.fromkeys(members, largest))
    if not_now:
        nowhere = PodRequest((*_largest(not_now), (NOT_NOW, 1)), rounded=True)
        rounded.update(dict.fromkeys(not_now, nowhere))
    return rounded


def _by_turn(
    needs: Mapping[PodRequest, Place], most: int
) -> tuple[list[PodRequest], list[PodRequest]]:
    """The requests with the first so many constraints, and the others."""
    first: dict[Where, Place] = {}
    for request, place in needs.items():
        first[request.where] = min(place, first.get(request.where, place))
    have_their_turn = set(sorted(first, key=lambda where: (first[where], where))[:most])
    now: list[PodRequest] = []
    not_now: list[PodRequest] = []
    for request in needs:
        if request.where in have_their_turn:
            now.append(request)
        else:
            not_now.append(request)
    return now, not_now


def _finest_grid(requests: Sequence[PodRequest], most: int) -> Grid:
    """The first grid by which few enough cells are left; the coarsest where none does."""
    for grid in GRIDS:
        if _are_few(requests, grid, most):
            return grid
    return GRIDS[-1]


def _are_few(requests: Iterable[PodRequest], cell_of: Grid, most: int) -> bool:
    cells = set()
    for request in requests:
        cells.add(cell_of(request))
        if len(cells) > most:
            return False
    return True


def _largest(requests: Sequence[PodRequest]) -> tuple[tuple[str, int], ...]:
    """The largest amount of each resource."""
    amounts: dict[str, int] = {}
    for request in requests:
        for name, amount in request.requests:
            amounts[name] = max(amount, amounts.get(name, 0))
    return tuple(amounts.items())


def _grid(bits: int) -> Grid:
    """Amounts of which the first `bits` binary digits are equal, and the number of digits."""

    def cell_of(request: PodRequest) -> Cell:
        cell: list[object] = [*_by_constraints(request)]
        for name, amount in request.requests:
            digits = amount.bit_length()
            cell += (name, digits, amount >> max(0, digits - bits))
        return tuple(cell)

    return cell_of


def _by_constraints(request: PodRequest) -> Cell:
    return (request.where, request.block, request.tier, request.beside)


def _by_names(request: PodRequest) -> Cell:
    return (*_by_constraints(request), *[name for name, _ in request.requests])


GRIDS = (*[_grid(bits) for bits in (8, 6, 4, 3, 2, 1)], _by_names, _by_constraints)
"""From fine to coarse: the first by which few cells are left is taken."""
