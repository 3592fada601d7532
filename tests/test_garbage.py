"""The garbage collector walks nothing twice that stays, and nothing that a large decision has
made."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from scaler import garbage


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


def is_walked(what: object) -> bool:
    return any(each is what for each in gc.get_objects())


def test_what_outlives_a_full_collection_is_not_walked_again() -> None:
    stays: list[object] = [[]]
    with garbage.what_stays_spared():
        assert is_walked(stays)
        gc.collect()
        assert not is_walked(stays)


def test_after_the_scaler_everything_is_walked_as_before() -> None:
    stays: list[object] = [[]]
    callbacks = gc.callbacks.copy()
    with garbage.what_stays_spared():
        gc.collect()
    assert is_walked(stays)
    assert gc.callbacks == callbacks


def test_every_so_often_everything_is_walked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "ALL_AFTER", 3)
    stays: list[object] = [[]]
    walked = []
    with garbage.what_stays_spared():
        for _ in range(4):
            gc.collect()
            walked.append(is_walked(stays))
    assert walked == [False, False, True, False]


def test_nothing_that_a_large_decision_made_is_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    with garbage.no_collection():
        few: list[object] = [[]]
    assert is_walked(few)
    monkeypatch.setattr(garbage, "MANY", 100)
    with garbage.no_collection():
        many: list[object] = [[[]] for _ in range(200)]
    assert not is_walked(many)
    assert gc.isenabled()


def test_what_collected_nothing_before_does_not_begin_to() -> None:
    gc.disable()
    try:
        with garbage.no_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
