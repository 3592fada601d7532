"""Revisions: how an owner's newest instances stand beside its outdated ones without counting twice.

A Deployment, LeaderWorkerSet or StormService whose template was changed replaces its instances a few at a time, and
the outdated ones go only when newest ones run. If those waited for a free place, they would wait for ever. So each
running outdated instance lets one of the newest of the same owner stand beside it, and the pair takes one place.

Which instances are a pair is never said or stored; what counts is how many pairs there can be. They excuse no more
than is above the target: where both have a place of their own, both count. Pure counts; must not choose instances.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scaler.decide.members import Member


class Rollout(msgspec.Struct, eq=False):
    """One owner of which outdated instances run, within one group."""

    outdated: int = 0
    """Outdated instances that count as running."""
    newest: int = 0
    """Newest ones that take a place, running or in flight."""
    live: int = 0
    live_newest: int = 0
    wanted: int = 0
    """Instances that the owner is told to have; 0 = not known."""

    @property
    def pairs(self) -> int:
        return min(self.outdated, self.newest)

    @property
    def passing(self) -> int:
        """Live instances that will be gone when the rollout is over: a ratio must not build on them."""
        return min(self.outdated, self.live_newest, max(0, self.live - self.wanted))


def rollouts_of(members: Iterable[Member]) -> dict[str, Rollout]:
    """By owner, those of which an outdated instance runs."""
    found: dict[str, Rollout] = {}
    for member in members:
        if member.running and member.instance.outdated and member.instance.owner:
            found.setdefault(member.instance.owner, Rollout()).outdated += 1
    for member in members:
        rollout = found.get(member.instance.owner)
        if rollout is not None:
            _count(member, rollout)
    return found


def _count(member: Member, rollout: Rollout) -> None:
    instance = member.instance
    alive = member.is_live
    rollout.live += alive
    rollout.wanted = max(rollout.wanted, instance.wanted)
    if not instance.outdated:
        rollout.live_newest += alive
        rollout.newest += member.running or member.in_flight
