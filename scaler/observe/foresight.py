"""A service as it will be once the admissions under way are done: until they have come back, its snapshot is older.

Without it the next arbitration would give the room of pods that are being created to somebody else. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from scaler.decide.world import Admit, Complete, Instance, Plan, Snapshot
from scaler.observe.cache import Cache
from scaler.observe.instances import instance_of


def admitted_by(plan: Plan) -> frozenset[str]:
    """Uids of the instances that get pods, or lose gates, when this plan is acted on."""
    return frozenset(action.uid for action in plan.actions if isinstance(action, Admit | Complete))


def as_known_now(cache: Cache, snapshot: Snapshot) -> tuple[Instance, ...]:
    """The snapshot's instances with what has come of their pods since: some may be bound already."""
    return tuple(_now(cache, instance) for instance in snapshot.instances)


def foreseen(snapshot: Snapshot, instances: Collection[Instance], admitted: Collection[str]) -> Snapshot:
    """The snapshot with these instances, of which those that are being admitted have all of their pods, ungated."""
    after = tuple(_admitted(one, snapshot.now) if one.uid in admitted else one for one in instances)
    return msgspec.structs.replace(snapshot, instances=after)


def _now(cache: Cache, instance: Instance) -> Instance:
    known = cache.job(instance.uid) is not None or cache.told.membership_of(instance.uid) is not None
    return instance_of(cache, instance.uid) if known else instance


def _admitted(instance: Instance, now: float) -> Instance:
    return msgspec.structs.replace(
        instance, pods=instance.expected, gated=0, admitted_at=instance.admitted_at or now, leftovers=True
    )
