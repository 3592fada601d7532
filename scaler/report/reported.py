"""What was reported last of each service, and whether a new plan says something else."""

from __future__ import annotations

from scaler.decide.world import Plan, Reason, ServiceKey, State, Tally

ROOM_REASONS = frozenset(
    {
        Reason.MINIMUM_DOES_NOT_FIT,
        Reason.MINIMUM_TOO_LARGE,
        Reason.MINIMUM_NOT_SCHEDULED,
        Reason.WAITING_FOR_ROOM,
        Reason.WAITING_FOR_CAPACITY,
        Reason.WAITING_FOR_SCHEDULER,
        Reason.REVOKED,
    }
)
"""Reasons that may end, or be put off, because something else is free or because a pod of somebody was bound."""


class Reported:
    """The plans that were reported last."""

    def __init__(self) -> None:
        self._plans: dict[ServiceKey, Plan] = {}
        self._waiting: set[ServiceKey] = set()
        """Services of which something waits for room."""

    def note(self, plan: Plan) -> None:
        """This plan is reported now."""
        self._plans[plan.key] = plan

    def forget(self, key: ServiceKey) -> None:
        self._plans.pop(key, None)
        self.waits_no_more(key)

    def waits_no_more(self, key: ServiceKey) -> None:
        """It is decided about no longer, though it may come back."""
        self._waiting.discard(key)

    def decided(self, plan: Plan) -> None:
        """This plan is other than the one decided on before."""
        waits = any(verdict.reason in ROOM_REASONS for verdict in plan.verdicts)
        (self._waiting.add if waits else self._waiting.discard)(plan.key)

    def waits_for_room(self, tally: Tally | None) -> bool:
        """Whether more room would change what is done."""
        return bool(
            self._waiting
            or (tally and (tally.minimums_waiting or tally.scale_ups_waiting or tally.in_backoff or tally.probing))
        )

    def differs(self, plan: Plan) -> bool:
        """Whether people would see another state or reason, or other numbers."""
        before = self._plans.get(plan.key)
        if before is plan:
            return False
        return before is None or _numbers(before) != _numbers(plan) or _reasons(before) != _reasons(plan)

    def differs_in_words(self, plan: Plan) -> bool:
        """Whether anything at all is different that people can see."""
        before = self._plans.get(plan.key)
        if before is None or before is plan:
            return before is None
        return before.verdicts != plan.verdicts or before.notes != plan.notes


def _numbers(plan: Plan) -> tuple[object, ...]:
    return plan.target_index, plan.target, plan.complete, plan.serves, plan.groups, plan.replicas


def _reasons(plan: Plan) -> list[tuple[str, State, Reason]]:
    return [(verdict.uid, verdict.state, verdict.reason) for verdict in plan.verdicts]
