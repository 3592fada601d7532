"""How many writes in a minute the witness takes for a storm."""

from __future__ import annotations

import pytest

from scaler.clock import Clock
from scaler.kube import writer
from scaler.kube.api import DISRUPTION_BUDGETS, ELASTIC_SERVICES, PODS, EventType, Object, Resource
from scaler.kube.errors import (
    ConflictError,
    NotSentError,
    TooManyRequestsError,
    UnknownOutcomeError,
)
from scaler.sim.apiserver.client import Request
from scaler.sim.apiserver.store import Change, Record
from scaler.sim.cluster import SimCluster
from tests.chaos.witness import Witness
from tests.chaos.writes import FOLLOWED, KEEP, ORDERED, TRIES, WINDOW, Writes

BOUND = 100
SIZE = 3
WRITE = Request("scaler-0.1", "create", PODS, "mindie")


class _Time(Clock):
    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return self.at


def _order(clock: Clock, before: int, after: int, rule: str = "a") -> Change:
    old, new = (
        Record(
            {
                "metadata": {"name": rule, "namespace": "mindie"},
                "spec": {"rule": rule, "replicas": number},
            },
            version,
        )
        for version, number in enumerate((before, after), start=1)
    )
    return Change(EventType.MODIFIED, ELASTIC_SERVICES, ("mindie", rule), old, new, clock.now())


def _sent(
    orders: list[tuple[int, int]], rule: str = "a", *, by_itself: bool = False, later: float = 0.0
) -> int:
    """Writes that a life may send after these orders, `later` seconds afterwards, until it is a
    storm."""
    clock = _Time()
    writes = Writes(SimCluster(clock), Witness(clock), storm_bound=BOUND, sizes={"a": SIZE})
    for before, after in orders:
        if by_itself:
            with writes.acting("scaler-0.1", WRITE):
                writes.see(_order(clock, before, after, rule))
        else:
            writes.see(_order(clock, before, after, rule))
    writes.witness.failures.clear()
    clock.at += later
    sent = 0
    while not writes.witness.failures and sent < 10 * BOUND:
        writes.attempted("scaler-0.1", WRITE)
        sent += 1
    return sent


@pytest.mark.parametrize(
    ("orders", "moved"),
    [
        ([], 0),
        ([(0, 3)], 3),
        ([(3, 0), (0, 2)], 5),
        ([(1_000_000, 0)], 3),
        ([(1_000_000, 4)], 0),
        ([(2, 2)], 0),
    ],
)
def test_who_is_ordered_to_start_and_stop_instances_may_write_for_each_that_moves(
    orders: list[tuple[int, int]], moved: int
) -> None:
    assert _sent(orders) == BOUND + ORDERED * moved


def test_an_order_counts_no_longer_than_its_writes() -> None:
    assert _sent([(0, 3)], later=WINDOW) == BOUND + ORDERED * SIZE
    assert _sent([(0, 3)], later=WINDOW + FOLLOWED + 0.1) == BOUND


def test_what_the_scaler_changes_is_no_order_nor_is_what_is_written_about_others() -> None:
    assert _sent([(0, 3)], by_itself=True) == BOUND
    assert _sent([(0, 3)], rule="bad") == BOUND


def test_a_storm_is_told_once_of_each_life() -> None:
    clock = _Time()
    writes = Writes(SimCluster(clock), Witness(clock), storm_bound=BOUND)
    for _ in range(3 * BOUND):
        writes.attempted("scaler-0.1", WRITE)
    said = [failure.split(": ", 1)[1] for failure in writes.witness.failures]
    assert said == ["storm: scaler-0.1 sent 100 writes in 60 s"]


def _counted(errors: list[Exception | None]) -> int:
    """How many of these writes count, each answered like that."""
    clock = _Time()
    writes = Writes(SimCluster(clock), Witness(clock), storm_bound=10 * BOUND)
    for error in errors:
        writes.attempted("scaler-0.1", WRITE)
        writes.answered("scaler-0.1", WRITE, error)
    return writes.busiest


@pytest.mark.parametrize(
    ("error", "counted"),
    [
        (TooManyRequestsError(429, "TooManyRequests", "later"), 4),
        (NotSentError("no connection"), 4),
        (UnknownOutcomeError("lost"), 20),
        (ConflictError(409, "Conflict", "changed"), 20),
        (None, 20),
    ],
)
def test_what_the_writer_repeats_counts_once_in_five_and_only_where_it_had_no_effect(
    error: Exception | None, counted: int
) -> None:
    assert _counted([error] * 20) == counted


def test_a_write_that_had_an_effect_is_a_new_one_when_it_is_sent_again() -> None:
    refused = TooManyRequestsError(429, "TooManyRequests", "later")
    assert _counted([refused, None] * 10) == 10


def test_the_witness_knows_how_often_the_writer_tries() -> None:
    assert TRIES == writer.TRIES


def _judged(
    resource: Resource, verb: str, before: Object | None, after: Object, body: Object
) -> list[str]:
    """What the witness finds wrong with one write of a life."""
    clock = _Time()
    writes = Writes(SimCluster(clock), Witness(clock), storm_bound=BOUND)
    old = None if before is None else Record(before, 1)
    kind = EventType.ADDED if old is None else EventType.MODIFIED
    with writes.acting(
        "scaler-0.1", Request("scaler-0.1", verb, resource, "mindie", "x", body=body)
    ):
        writes.see(Change(kind, resource, ("mindie", "x"), old, Record(after, 2), clock.now()))
    return [failure.rsplit(": ", 1)[1] for failure in writes.witness.failures]


@pytest.mark.parametrize(
    ("labels", "named", "wrong"),
    [
        ({KEEP: "true"}, "u", []),
        ({KEEP: "no"}, "u", ["None became no"]),
        ({KEEP: "true", "app": "x"}, "u", ["None became x", "None became true"]),
        ({KEEP: "true"}, "v", ["names no uid, or another pod's", "None became true"]),
    ],
)
def test_the_label_against_evictions_is_the_only_one_that_a_patch_may_bring(
    labels: dict[str, str], named: str, wrong: list[str]
) -> None:
    rule = {"mind-cluster/scaling-rule": "a"}
    before, after = (
        {"metadata": {"uid": "u", "name": "x", "labels": {**rule, **more}}, "spec": {}}
        for more in ({}, labels)
    )
    assert _judged(PODS, "patch", before, after, {"metadata": {"uid": named}}) == wrong


@pytest.mark.parametrize(
    ("by", "over", "wrong"),
    [
        ("mind-cluster-scaler", KEEP, []),
        ("somebody", KEEP, ["a budget that is not its own"]),
        ("mind-cluster-scaler", "app", ["a budget over pods that it did not label"]),
    ],
)
def test_a_budget_is_its_own_and_over_what_it_labelled(
    by: str, over: str, wrong: list[str]
) -> None:
    meta = {"name": "x", "labels": {"app.kubernetes.io/managed-by": by}}
    made = {"metadata": meta, "spec": {"selector": {"matchLabels": {over: "true"}}}}
    assert _judged(DISRUPTION_BUDGETS, "create", None, made, made) == wrong
    assert _judged(DISRUPTION_BUDGETS, "patch", made, made, {}) == ["a budget never changes"]
