"""How a LeaderWorkerSet is updated: the partition and the replicas of its leader StatefulSet. Pure.

From the highest group down, `maxUnavailable` at a time, with `maxSurge` groups more while it lasts.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from scaler.kube.api import Object
from scaler.sim.actors import making, objects


class GroupCondition(msgspec.Struct, frozen=True):
    """One group, by index: leader and workers are all ready; all are of the newest revision."""

    ready: bool = False
    updated: bool = False


class Leaders(msgspec.Struct, frozen=True):
    """What its leader StatefulSet shall say."""

    partition: int
    replicas: int


def next_leaders(
    lws: Object, leaders: Leaders | None, groups: Sequence[GroupCondition], *, new_revision: bool, resized: bool
) -> Leaders:
    """The next step. `leaders` is what the StatefulSet says now (None before it exists), `groups` has its replicas."""
    replicas = making.number(lws)
    rolling = (objects.spec(lws).get("rolloutStrategy") or {}).get("rollingUpdateConfiguration") or {}
    surge = min(making.scaled(rolling.get("maxSurge", 0), replicas, up=True), replicas)
    unavailable = making.scaled(rolling.get("maxUnavailable", 1), replicas, up=False)
    least = int(rolling.get("partition") or 0)
    if leaders is None:
        return Leaders(max(0, least), replicas)
    if new_revision:
        size = replicas if leaders.replicas < replicas else _size(replicas, surge, unavailable, replicas)
        return Leaders(max(min(replicas, leaders.replicas), least), size)
    if leaders.partition == 0 and leaders.replicas == replicas:
        return Leaders(max(0, least), replicas)
    if leaders.replicas < replicas:
        return Leaders(max(leaders.partition, least), replicas)
    behind = sum(not (group.ready and group.updated) for group in groups[:replicas])
    size = _size(replicas, surge, unavailable, behind)
    if resized:
        return Leaders(max(min(leaders.partition, replicas + surge), least), size)
    step = unavailable + surge - (replicas + surge - leaders.replicas)
    return Leaders(max(_partition(groups, step, leaders.partition), least), size)


def _size(replicas: int, surge: int, unavailable: int, behind: int) -> int:
    """Groups beyond the wanted ones stay while more than `unavailable` of these are behind."""
    return replicas + (max(0, behind - unavailable) if behind <= surge else surge)


def _partition(groups: Sequence[GroupCondition], step: int, partition: int) -> int:
    """Groups from here on are updated; moves down only."""
    number = len(groups)
    done = 0
    while done < number and groups[number - 1 - done].ready and groups[number - 1 - done].updated:
        done += 1
    lowest = max(0, number - done - step)
    wanted = lowest + sum(not group.ready for group in groups[:lowest])
    for index in range(min(wanted, number - 1), lowest - 1, -1):
        if groups[index].ready and not groups[index].updated:
            break
        wanted = index
    return min(wanted, partition)
