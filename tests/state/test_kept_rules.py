"""How much is kept for one namespace of what people write: a number and bytes. What is in use
stays, what comes later says that it is not kept."""

from __future__ import annotations

from scaler.state.kept_rules import MOST_BYTES, MOST_OF_ONE, KeptRules
from scaler.state.last_valid import ConfigMapName

A, B, C = (ConfigMapName("tenant", name) for name in "abc")
OTHER = ConfigMapName("neighbour", "a")


def places(most: int = 2, *stored: tuple[ConfigMapName, int]) -> KeptRules:
    kept = KeptRules(most)
    for rule, size in stored:
        kept.measured(rule, size)
    return kept


def test_as_many_as_may_be_are_kept_of_each_namespace() -> None:
    kept = places()
    assert [kept.keep(rule, 100) for rule in (A, B, OTHER)] == ["", "", ""]
    words = kept.keep(C, 100)
    assert words.startswith(
        "the rule is not kept: 2 of namespace tenant are kept (kept_per_namespace)"
    )
    assert "Delete jobs that name rules which nobody needs" in words
    kept.forget(A)
    assert kept.keep(C, 100) == ""


def test_an_edit_of_what_is_kept_takes_no_other_place() -> None:
    kept = places()
    assert [kept.keep(rule, 100) for rule in (A, B, A, B)] == [""] * 4


def test_the_bytes_of_one_namespace_have_a_limit() -> None:
    kept = places(1_000)
    most = MOST_BYTES // MOST_OF_ONE
    rules = [ConfigMapName("tenant", f"r{number}") for number in range(most + 1)]
    assert {kept.keep(rule, MOST_OF_ONE) for rule in rules[:-1]} == {""}
    assert "4 MiB" in kept.keep(rules[-1], MOST_OF_ONE)
    assert kept.keep(rules[0], MOST_OF_ONE) == "", "what is in use stays"
    assert kept.keep(rules[0], 10) == "", "and may be smaller"
    assert kept.keep(rules[-1], MOST_OF_ONE) == ""
    assert kept.keep(OTHER, MOST_OF_ONE) == ""


def test_what_could_not_be_read_back_is_not_kept() -> None:
    words = places().keep(A, MOST_OF_ONE + 1)
    assert "the limit is 92,160" in words
    assert "Take out of it what is not a rule" in words


def test_what_an_earlier_process_kept_stays_also_beyond_the_limit() -> None:
    kept = places(1, (A, 100), (B, 100))
    assert (kept.keep(A, 100), kept.keep(B, 90)) == ("", "")
    assert kept.keep(C, 1) != ""
    kept.measured(A, 120)
    assert kept.keep(A, 120) == ""


def test_nothing_is_left_of_what_is_gone() -> None:
    kept = places()
    kept.keep(A, 100)
    kept.forget(A)
    kept.forget(B)
    assert (kept._sizes._sizes, kept._sizes._sums) == ({}, {})
