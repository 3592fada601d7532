"""How many writes in a minute the witness takes for a storm."""

from __future__ import annotations

import pytest

from scaler.clock import Clock
from scaler.kube.api import ELASTIC_SERVICES, PODS, EventType
from scaler.sim.apiserver.interceptor import Request
from scaler.sim.apiserver.store import Change, Record
from tests.campaign.witness import FOLLOWED, ORDERED, WINDOW, Witness

BOUND, SIZE = 100, 3
WRITE = Request("scaler-0.1", "create", PODS, "mindie")


class _Time(Clock):
    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return self.at


def _order(clock: Clock, before: int, after: int, rule: str = "a") -> Change:
    old, new = (
        Record({"metadata": {"name": rule, "namespace": "mindie"}, "spec": {"rule": rule, "replicas": number}}, version)
        for version, number in enumerate((before, after), start=1)
    )
    return Change(EventType.MODIFIED, ELASTIC_SERVICES, ("mindie", rule), old, new, clock.now())


def _sent(orders: list[tuple[int, int]], rule: str = "a", *, by_itself: bool = False, later: float = 0.0) -> int:
    """Writes that a life may send after these orders, `later` seconds afterwards, until it is a storm."""
    clock = _Time()
    witness = Witness(clock, storm_bound=BOUND, sizes={"a": SIZE})
    for before, after in orders:
        if by_itself:
            with witness.acting("scaler-0.1", WRITE):
                witness.see(_order(clock, before, after, rule))
        else:
            witness.see(_order(clock, before, after, rule))
    witness.failures.clear()
    clock.at += later
    sent = 0
    while not witness.failures and sent < 10 * BOUND:
        witness.attempted("scaler-0.1", WRITE)
        sent += 1
    return sent


@pytest.mark.parametrize(
    ("orders", "moved"),
    [([], 0), ([(0, 3)], 3), ([(3, 0), (0, 2)], 5), ([(1_000_000, 0)], 3), ([(1_000_000, 4)], 0), ([(2, 2)], 0)],
)
def test_who_is_ordered_to_start_and_stop_instances_may_write_for_each_that_moves(
    orders: list[tuple[int, int]], moved: int
) -> None:
    assert _sent(orders) == BOUND + ORDERED * moved


def test_an_order_counts_no_longer_than_its_writes() -> None:
    assert _sent([(0, 3)], later=WINDOW) == BOUND + ORDERED * SIZE
    assert _sent([(0, 3)], later=WINDOW + FOLLOWED + 0.1) == BOUND


def test_what_the_scaler_changes_itself_is_no_order_nor_is_what_anybody_writes_about_another_service() -> None:
    assert _sent([(0, 3)], by_itself=True) == BOUND
    assert _sent([(0, 3)], rule="bad") == BOUND


def test_a_storm_is_told_once_of_each_life() -> None:
    clock = _Time()
    witness = Witness(clock, storm_bound=BOUND)
    for _ in range(3 * BOUND):
        witness.attempted("scaler-0.1", WRITE)
    assert [failure.split(": ", 1)[1] for failure in witness.failures] == ["storm: scaler-0.1 sent 100 writes in 60 s"]
