"""Which members of a StormService role are made and deleted next, be they pods or PodSets. Pure.

A stateful role has numbered slots with one member each; a stateless one only a number. Scaling comes first; an update
replaces what is outdated, within maxSurge and maxUnavailable, and takes what is not ready first.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Member(msgspec.Struct, frozen=True):
    """A pod or a PodSet of one role."""

    name: str
    slot: int | None
    hash: str
    ready: bool
    active: bool = True
    terminating: bool = False


class Role(msgspec.Struct, frozen=True):
    """What the role wants. `hash` is that of its pod template now."""

    replicas: int
    hash: str
    surge: int
    unavailable: int

    def slots(self, members: Iterable[Member]) -> dict[int, list[Member]]:
        """The active members of every slot."""
        slots: dict[int, list[Member]] = {slot: [] for slot in range(self.replicas)}
        for member in members:
            if member.active and member.slot in slots:
                slots[member.slot].append(member)
        return slots

    def room(self, members: Iterable[Member]) -> int:
        """How many more there may be; those that terminate still count."""
        return max(0, self.replicas + self.surge - sum(m.active or m.terminating for m in members))

    def spare(self, ready: int) -> int:
        """How many of those that are ready may go."""
        return max(0, ready - (self.replicas - self.unavailable))


class Change(msgspec.Struct, frozen=True):
    """Slots to make members for (None: one without a number), and names to delete."""

    create: tuple[int | None, ...] = ()
    delete: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.create or self.delete)


def scale_stateful(role: Role, members: list[Member]) -> Change:
    """Fill empty slots, thin out crowded ones, drop what has ended or has no slot."""
    slots = role.slots(members)
    delete = [*_ended(members), *(m.name for m in members if m.active and m.slot not in slots)]
    delete += [name for held in slots.values() for name in _superfluous(role, held)]
    empty = [slot for slot, held in slots.items() if not held]
    return Change(tuple(empty[: role.room(members)]), tuple(delete))


def roll_stateful(role: Role, members: list[Member]) -> Change:
    """The next members to replace: in their slots when they can be spared, else beside them."""
    alone = [held for held in role.slots(members).values() if len(held) == 1]
    outdated = [held[0] for held in alone if held[0].hash != role.hash]
    slots_ready = sum(any(m.ready for m in held) for held in role.slots(members).values())
    serving = [m for m in outdated if m.ready]
    spare = role.spare(slots_ready)
    delete = [m.name for m in outdated if not m.ready or m in serving[:spare]]
    room = max(0, role.replicas + role.surge - len(members))
    return Change(tuple(m.slot for m in serving[spare : spare + room]), tuple(delete))


def scale_stateless(role: Role, members: list[Member]) -> Change:
    """Reach the number; what is outdated or not ready goes first."""
    active = [m for m in members if m.active]
    missing = role.replicas - len(active)
    if missing > 0:
        return Change((None,) * min(missing, role.room(members)), _ended(members))
    spare = role.spare(sum(m.ready for m in active))
    waiting = sorted((m for m in active if not m.ready), key=lambda m: (m.hash == role.hash, m.name))
    serving = sorted((m for m in active if m.ready), key=lambda m: (m.hash == role.hash, m.name))
    surplus = [*waiting, *serving[:spare]][:-missing] if missing else []
    return Change((), (*_ended(members), *(m.name for m in surplus)))


def roll_stateless(role: Role, members: list[Member]) -> Change:
    """The next members to replace."""
    active = [m for m in members if m.active]
    outdated = sorted((m for m in active if m.hash != role.hash), key=lambda m: m.name)
    spare = role.spare(sum(m.ready for m in active))
    delete = [m.name for m in outdated if not m.ready] + [m.name for m in outdated if m.ready][:spare]
    wanted = role.replicas - (len(active) - len(outdated))
    return Change((None,) * max(0, min(role.room(members), wanted)), tuple(delete))


def _ended(members: Iterable[Member]) -> tuple[str, ...]:
    return tuple(m.name for m in members if not m.active and not m.terminating)


def _superfluous(role: Role, held: list[Member]) -> list[str]:
    """Of several members in one slot: a ready new one stays alone; until then a ready old and a new one stay."""
    if len(held) < 2:
        return []
    new, old = ([m for m in held if (m.hash == role.hash) is same] for same in (True, False))
    stay = [m for m in new if m.ready][:1] or [*[m for m in old if m.ready][:1], *new[:1]]
    return [m.name for m in held if m not in stay]
