from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from scaler.decide.world import ServiceKey
from scaler.execute.assumed import TIMEOUT, AssumedWrites
from scaler.informers.store import Store
from scaler.sim.loop import run
from tests.informers.records import Record, a_record

ONE = ServiceKey("ns", "one", "")
OTHER = ServiceKey("ns", "other", "")


class Bench:
    """Assumed writes to one store, and the services that were named."""

    def __init__(self, *scopes: str | None) -> None:
        self.store: Store[Record] = Store(lambda *_: None)
        for scope in scopes or (None,):
            self.store.add_scope(scope)
        self.said: list[ServiceKey] = []
        self.assumed = AssumedWrites(self.said.append)

    def assume(self, name: str = "a", version: int = 5, key: ServiceKey = ONE) -> None:
        self.assumed.assume(key, self.store, a_record(name, version))

    def assume_gone(self, name: str = "a", key: ServiceKey = ONE) -> None:
        self.assumed.assume_gone(key, self.store, a_record(name, 0))

    @property
    def settled(self) -> bool:
        return self.assumed.all_seen(ONE)


Step = Callable[[Bench], None]


def play(
    prepare: list[Step], settle: Step, *scopes: str | None
) -> tuple[bool, bool, list[ServiceKey]]:
    """Settled before and after the last step, and what was said."""

    async def main() -> tuple[bool, bool, list[ServiceKey]]:
        bench = Bench(*scopes)
        for step in prepare:
            step(bench)
        before = bench.settled
        settle(bench)
        return before, bench.settled, bench.said

    return run(main())


SEEN: dict[str, Step] = {
    "its own event": lambda b: b.store.apply(a_record("a", 5)),
    "a newer event of it": lambda b: b.store.apply(a_record("a", 6)),
    "a bookmark past it": lambda b: b.store.advance(None, 5),
}


@pytest.mark.parametrize("step", SEEN.values(), ids=SEEN)
def test_a_write_is_seen_by(step: Step) -> None:
    assert play([lambda b: b.assume()], step) == (False, True, [ONE])


NOT_SEEN: dict[str, Step] = {
    "an older event of it": lambda b: b.store.apply(a_record("a", 4)),
    "an event of another object": lambda b: b.store.apply(a_record("b", 9)),
    "progress short of it": lambda b: b.store.advance(None, 4),
}


@pytest.mark.parametrize("step", NOT_SEEN.values(), ids=NOT_SEEN)
def test_a_write_is_not_seen_by(step: Step) -> None:
    assert play([lambda b: b.assume()], step) == (False, False, [])


def test_a_record_may_be_newer_than_the_progress_of_all_namespaces() -> None:
    assert play([lambda b: b.assume()], lambda b: b.store.apply(a_record("a", 5)), "ns", "other")[1]


def test_a_write_for_another_service_to_the_same_object_ends_the_wait_of_the_first() -> None:
    """A job changed its labels: what it belongs to now goes on with it, and what it left must be
    looked at again."""
    moved = play([lambda b: b.assume(version=5)], lambda b: b.assume(version=6, key=OTHER))
    assert moved == (False, True, [ONE])
    assert play([lambda b: b.assume(version=5)], lambda b: b.assume(version=6)) == (
        False,
        False,
        [],
    )


GONE: dict[str, Step] = {
    "its deletion": lambda b: b.store.remove("ns", "a", "uid-a"),
    "its successor": lambda b: b.store.apply(a_record("a", 9, uid="next")),
    "its termination": lambda b: b.store.apply(a_record("a", 9, terminating=True)),
}


@pytest.mark.parametrize("step", GONE.values(), ids=GONE)
def test_a_deletion_is_seen_by(step: Step) -> None:
    assert play([lambda b: b.store.apply(a_record("a", 5)), lambda b: b.assume_gone()], step) == (
        False,
        True,
        [ONE],
    )


def test_a_deletion_is_not_seen_by_another_change_of_the_object_nor_by_progress() -> None:
    def more(bench: Bench) -> None:
        bench.store.apply(a_record("a", 9))
        bench.store.advance(None, 9)

    assert play([lambda b: b.store.apply(a_record("a", 5)), lambda b: b.assume_gone()], more) == (
        False,
        False,
        [],
    )


def test_what_was_created_and_deleted_at_once_must_come_before_it_can_be_gone() -> None:
    prepare: list[Step] = [
        lambda b: b.assume(),
        lambda b: b.assume_gone(),
        lambda b: b.store.apply(a_record("a", 5)),
    ]
    assert play(prepare, lambda b: b.store.remove("ns", "a", "uid-a")) == (False, False, [])
    prepare.append(lambda b: b.store.remove("ns", "a", "uid-a"))
    assert play(prepare, lambda b: b.store.advance(None, 6)) == (False, True, [ONE])


def test_what_the_cache_shows_already_is_settled_without_a_word() -> None:
    assert play([lambda b: b.store.apply(a_record("a", 7))], lambda b: b.assume()) == (
        True,
        True,
        [],
    )


def test_a_service_is_settled_when_its_last_write_is_seen_and_others_do_not_matter() -> None:
    prepare: list[Step] = [
        lambda b: b.assume("a", 5),
        lambda b: b.assume("b", 6),
        lambda b: b.assume("c", 9, key=OTHER),
    ]
    assert play(prepare, lambda b: b.store.advance(None, 5)) == (False, False, [])
    assert play(prepare, lambda b: b.store.advance(None, 6)) == (False, True, [ONE])


def test_a_later_write_to_the_same_object_takes_the_place_of_the_earlier() -> None:
    prepare: list[Step] = [lambda b: b.assume("a", 5), lambda b: b.assume("a", 8)]
    assert play(prepare, lambda b: b.store.apply(a_record("a", 6))) == (False, False, [])
    assert play(prepare, lambda b: b.store.apply(a_record("a", 8))) == (False, True, [ONE])


def test_a_write_that_never_comes_back_is_given_up_and_counted() -> None:
    async def main() -> tuple[bool, bool, list[ServiceKey], int]:
        bench = Bench()
        bench.assume("a", 5)
        await asyncio.sleep(TIMEOUT / 2)
        bench.assume("b", 6)
        await asyncio.sleep(TIMEOUT * 0.75)
        between = bench.settled
        await asyncio.sleep(TIMEOUT)
        return between, bench.settled, bench.said, bench.assumed.timed_out

    assert run(main()) == (False, True, [ONE], 2)
