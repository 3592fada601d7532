"""From the cache to one frozen value per service. Decides nothing."""

from __future__ import annotations

from scaler.decide.world import Memory, Policy, ServiceKey, Snapshot
from scaler.observe.cache import Cache
from scaler.observe.instances import instances_of
from scaler.observe.rulebook import RuleInForce


def take_snapshot(cache: Cache, key: ServiceKey, *, now: float, memory: Memory, policy: Policy) -> Snapshot:
    """All that the decision about one service depends on, as of the cache's present contents."""
    rule = cache.rules.in_force(key.namespace, key.rule) if key.rule else RuleInForce()
    return Snapshot(
        key=key,
        now=now,
        instances=instances_of(cache, key),
        rule=rule.rule,
        options=rule.options,
        problem=rule.problem,
        memory=memory,
        policy=policy,
        resource_versions={
            "ascendjobs": str(cache.jobs.version),
            "pods": str(cache.pods.version),
            "configmaps": str(cache.config_maps.version),
        },
    )
