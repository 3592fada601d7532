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


class Change(msgspec.Struct, frozen=True):
    """Slots to make members for (None: one without a number), and names to delete."""

    create: tuple[int | None, ...] = ()
    delete: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.create or self.delete)


def scale_stateful(role: Role, members: Iterable[Member]) -> Change:
    """Fill empty slots, thin out crowded ones, drop what has ended or has no slot."""
    everything = list(members)
    slots = _slots(role, everything)
    delete = [m.name for m in everything if not m.active and not m.terminating]
    delete += [m.name for m in everything if m.active and not (m.slot is not None and 0 <= m.slot < role.replicas)]
    living = [m for m in everything if m.active or m.terminating]
    budget = role.replicas + role.surge - len(living)
    create = [slot for slot, held in slots.items() if not held][: max(0, budget)]
    for held in slots.values():
        delete += _superfluous(role, held) if len(held) > 1 else []
    return Change(tuple(create), tuple(delete))


def roll_stateful(role: Role, members: Iterable[Member]) -> Change:
    """The next members to replace."""
    everything = list(members)
    slots = _slots(role, everything)
    spare = sum(any(m.ready for m in held) for held in slots.values()) - role.replicas + role.unavailable
    room = role.replicas + role.surge - len(everything)
    create: list[int | None] = []
    delete: list[str] = []
    for slot, held in slots.items():
        if len(held) != 1 or held[0].hash == role.hash:
            continue
        if not held[0].ready:
            delete.append(held[0].name)
        elif spare > 0:
            delete.append(held[0].name)
            spare -= 1
        elif room > 0:
            create.append(slot)
            room -= 1
    return Change(tuple(create), tuple(delete))


def scale_stateless(role: Role, members: Iterable[Member]) -> Change:
    """Reach the number; what is outdated or not ready goes first."""
    everything = list(members)
    active = [m for m in everything if m.active]
    ended = [m.name for m in everything if not m.active and not m.terminating]
    terminating = sum(m.terminating for m in everything)
    missing = role.replicas - len(active)
    if missing > 0:
        number = min(missing, role.replicas + role.surge - len(active) - terminating)
        return Change((None,) * max(0, number), tuple(ended))
    spare = sum(m.ready for m in active) - (role.replicas - role.unavailable)
    delete: list[str] = []
    for member in sorted(active, key=lambda m: (m.ready, m.hash == role.hash, m.name)):
        if len(delete) == -missing or (member.ready and spare <= 0):
            break
        spare -= member.ready
        delete.append(member.name)
    return Change((), (*ended, *delete))


def roll_stateless(role: Role, members: Iterable[Member]) -> Change:
    """The next members to replace."""
    everything = list(members)
    active = [m for m in everything if m.active]
    outdated = sorted((m for m in active if m.hash != role.hash), key=lambda m: (m.ready, m.name))
    spare = sum(m.ready for m in active) - role.replicas + role.unavailable
    delete = [m.name for m in outdated if not m.ready]
    delete += [m.name for m in outdated if m.ready][: max(0, spare)]
    terminating = sum(m.terminating for m in everything)
    room = role.replicas + role.surge - len(active) - terminating
    number = min(room, role.replicas - (len(active) - len(outdated)))
    return Change((None,) * max(0, number), tuple(delete))


def _slots(role: Role, members: Iterable[Member]) -> dict[int, list[Member]]:
    slots: dict[int, list[Member]] = {slot: [] for slot in range(role.replicas)}
    for member in members:
        if member.active and member.slot in slots:
            slots[member.slot].append(member)
    return slots


def _superfluous(role: Role, held: list[Member]) -> list[str]:
    """Of several members in one slot: a ready new one stays alone; until then a ready old and a new one stay."""
    new, old = ([m for m in held if (m.hash == role.hash) is same] for same in (True, False))
    outdated_not_ready = [m.name for m in old if not m.ready]
    ready_new = [m.name for m in new if m.ready]
    waiting_new = [m.name for m in new if not m.ready]
    ready_old = [m.name for m in old if m.ready]
    if ready_new:
        return [*outdated_not_ready, *ready_old, *waiting_new, *ready_new[1:]]
    return [*outdated_not_ready, *ready_old[1:], *waiting_new[1:]]
