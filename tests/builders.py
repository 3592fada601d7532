"""The vocabulary of the tests: a service in one line. `P` stands for group0 (prefill), `D` for group1 (decode).

plan(service("2P1D > 1P1D", "p0 Running, p1 Held, d0 Terminating"))
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from scaler.decide.world import Instance, ServiceKey, Snapshot, State
from scaler.rules.rule import Ratio, Rule

GROUPS = {"p": "group0", "d": "group1", "e": "group2"}
KEY = ServiceKey("default", "rule", "mindie")
NOW = 1_000_000.0
SIZE = 2

PODS: dict[State, dict[str, Any]] = {
    State.HELD: {},
    State.ADMITTED: {"pods": SIZE},
    State.STARTING: {"pods": SIZE, "bound": SIZE},
    State.RUNNING: {"pods": SIZE, "bound": SIZE, "running": SIZE, "ready": SIZE},
    State.BROKEN: {"pods": SIZE, "bound": SIZE, "running": SIZE, "ready": SIZE, "crashing": 1},
    State.TERMINATING: {"terminating": SIZE},
    State.FINISHED: {"owner_finished": True},
}


def rule(text: str) -> Rule:
    """`2P1D > 1P1D`, the largest ratio first."""
    return Rule(tuple(ratio(part) for part in text.split(">")))


def ratio(text: str) -> Ratio:
    counts = {GROUPS[letter.lower()]: int(number) for number, letter in re.findall(r"(\d+)([A-Z])", text)}
    return Ratio(counts=counts, sizes=dict.fromkeys(counts, SIZE))


def instance(name: str, state: str = State.HELD, **changes: Any) -> Instance:
    """`p0`, `d1`: the letter names the group, the number the age (d0 is the oldest decode)."""
    number = int(re.sub(r"\D", "", name) or 0)
    pods = PODS[State(state)]
    usual: dict[str, Any] = {
        "uid": f"uid-{name}",
        "name": name,
        "group": GROUPS[name[0]] if re.fullmatch(r"[pde]\d+", name) else name,
        "created": NOW - 1000 + number,
        "expected": SIZE,
        "leftovers": "pods" in pods,
        "admitted_at": NOW - 100 + number if "pods" in pods else 0.0,
    }
    return Instance(**{**usual, **pods, **changes})


def instances(text: str) -> tuple[Instance, ...]:
    """`p0 Running, p1 Held`."""
    return tuple(instance(*part.split()) for part in text.split(",") if part.strip())


def rolling(text: str, **changes: Any) -> tuple[Instance, ...]:
    """Instances of one owner: `p0 Running old, p1 Held new`."""
    parts = [part.split() for part in text.split(",") if part.strip()]
    return tuple(
        others(name, state, owner="owner", outdated=revision == "old", **changes) for name, state, revision in parts
    )


def others(name: str, state: str = State.HELD, **changes: Any) -> Instance:
    """An instance whose pods others make: a held one has them all, gated."""
    gates = {"pods": SIZE, "gated": SIZE} if state == State.HELD else {}
    return instance(name, state, made_by_us=False, **{**gates, **changes})


def snapshot(rule: Rule | None, instances: tuple[Instance, ...], **changes: Any) -> Snapshot:
    return Snapshot(**{"key": KEY, "now": NOW, "instances": instances, "rule": rule, **changes})


def service(ratios: str, text: str, **changes: Any) -> Snapshot:
    """A whole service in two strings: its rule and its instances."""
    return snapshot(rule(ratios), instances(text), **changes)


def with_instance(snapshot: Snapshot, changed: Instance) -> Snapshot:
    """The snapshot with the instance of the same uid exchanged."""
    swapped = tuple(changed if old.uid == changed.uid else old for old in snapshot.instances)
    return msgspec.structs.replace(snapshot, instances=swapped)
