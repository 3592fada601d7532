"""The log line of a plan that was carried out: what was seen, what was to be done, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence

from scaler.decide.world import NOBODY, Evict, Plan, World
from scaler.execute.executor import ActionResult
from scaler.rules.rule import ALL


def plan_line(world: World, plan: Plan) -> dict[str, object]:
    """What was seen, and what is done about it."""
    names = {verdict.uid: verdict.name for verdict in plan.verdicts}
    doing: dict[str, list[str]] = {}
    for action in plan.actions:
        doing.setdefault(type(action).__name__.lower(), []).append(names.get(action.uid, action.uid))
    beneficiaries = sorted({action.beneficiary for action in plan.actions if isinstance(action, Evict)} - {NOBODY})
    return {
        "service": str(plan.key),
        "target": plan.target,
        "target_index": plan.target_index,
        "running": {name: group.running for name, group in plan.groups.items()},
        "in_flight": {name: group.in_flight for name, group in plan.groups.items()},
        "held": {name: group.held for name, group in plan.groups.items()},
        **({"replicas": plan.replicas} if plan.replicas < ALL else {}),
        "seen": world.resource_versions,
        **doing,
        **({"evicted_for": beneficiaries} if beneficiaries else {}),
    }


def outcome_line(plan: Plan, outcomes: Sequence[ActionResult]) -> dict[str, object]:
    """What became of a plan's actions: how many were done, and the words about each that was not."""
    names = {verdict.uid: verdict.name for verdict in plan.verdicts}
    refused = {names.get(outcome.uid, outcome.uid): outcome.refused for outcome in outcomes if outcome.refused}
    failed = {names.get(outcome.uid, outcome.uid): outcome.failed for outcome in outcomes if outcome.failed}
    line: dict[str, object] = {"done": len(outcomes) - len(refused) - len(failed)}
    return line | ({"refused": refused} if refused else {}) | ({"failed": failed} if failed else {})
