"""How many replicas a HorizontalPodAutoscaler (autoscaling/v2) sets, as documented. Values in, values out.

Modelled: metrics with an average value, tolerance, least and most, stabilization windows, and the default policies
(up: four or as many again at once, down: all). Not modelled: metrics that are missing or late, pods that are not ready.
Written from https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/ and its API reference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from scaler.sim.stories.loads import Autoscaler


class Advice(msgspec.Struct, frozen=True):
    """The replicas that the metrics alone advised at a time (seconds)."""

    at: float
    replicas: int


def by_metric(total: float, average: float, running: int, tolerance: float) -> int:
    """The replicas with which each has `average` of the total; the running number if that is within the tolerance."""
    if running and abs(total / (average * running) - 1.0) <= tolerance:
        return running
    return math.ceil(total / average - 1e-9)


def desired(
    policy: Autoscaler, specified: int, running: int, metrics: Sequence[tuple[float, float]],
    past: Sequence[Advice], now: float,
) -> tuple[int, tuple[Advice, ...]]:  # fmt: skip
    """(replicas to write, memory), from `spec.replicas` and `status.replicas` of the scaled object and pairs (total,
    average value), of which the largest demand counts. 0 switches off an autoscaler that may not go to 0 itself.
    """
    if specified == 0 and policy.least:
        return 0, tuple(past)
    if specified > policy.most:
        return policy.most, tuple(past)
    if specified < policy.least:
        return policy.least, tuple(past)
    advised = max(by_metric(total, average, running, policy.tolerance) for total, average in metrics)
    window = max(policy.up, policy.down)
    kept = (*(one for one in past if one.at > now - window), Advice(now, advised))
    # stable: at least the least advice of one window, at most the most of the other
    up = min([advised, *(one.replicas for one in kept if one.at > now - policy.up)])
    down = max([advised, *(one.replicas for one in kept if one.at > now - policy.down)])
    at_once = max(2 * specified, specified + 4)
    return max(policy.least, min(max(specified, up), down, at_once, policy.most)), kept
