"""Every verdict has a sentence, and the sentence says what matters."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from scaler.decide.decide import decide
from scaler.decide.decision import State, Verdict
from scaler.decide.explain import target_in_words, words
from scaler.decide.memory import InstanceMemory
from scaler.decide.world import Service, World
from scaler.reasons.reasons import Reason
from tests.builders import NOW, plan, remembering, service
from tests.strategies import worlds


def said(service: Service, name: str) -> str:
    made = plan(service)
    return next(words(verdict, made) for verdict in made.verdicts if verdict.name == name)


def test_a_held_instance_names_the_group_it_waits_for_and_how_far_that_is() -> None:
    sentence = said(service("2P1D > 1P1D", "p0 Running, p1 Held, d0 Held"), "p1")
    assert "waits for group1 (0 of 1 running)" in sentence
    assert "has all that 1 group0 + 1 group1 names of it" in sentence


def test_an_instance_held_for_want_of_other_jobs_says_so() -> None:
    lacks_one = service("2P2D > 1P1D", "p0 Running, p1 Held, d0 Running")
    words_of_one = "the ratio 2 group0 + 2 group1 needs 2 of group1, 1 exist. Apply them"
    assert words_of_one in said(lacks_one, "p1")
    lacks_both = service("3P2D > 1P1D", "p0 Running, p1 Held, d0 Running")
    words_of_both = "the ratio 3 group0 + 2 group1 needs 3 of group0, 2 exist; 2 of group1, 1 exist"
    assert words_of_both in said(lacks_both, "p1")


def test_an_instance_that_is_revoked_for_a_smaller_ratio_says_that_fewer_are_to_run() -> None:
    made = plan(service("1P1D", "p0 Running, d0 Running"))
    sentence = words(Verdict("p1", "p1", "group0", State.HELD, Reason.REVOKED, ("-",)), made)
    assert "before any pod was bound: fewer are to run now; it is admitted again" in sentence


def test_a_revoked_instance_says_so() -> None:
    sentence = said(
        service("2P1D > 1P1D", "p0 Running, p1 Running, p2 Admitted, d0 Terminating"), "p2"
    )
    assert "revoked" in sentence


def test_a_broken_instance_says_whose_its_slot_is_and_nothing_of_a_grace_period_that_is_over() -> (
    None
):
    found = service("1P1D", "p0 Broken, d0 Running")
    for since, slot in (
        (10, "its place is kept for a grace period."),
        (61, "its place is free for another instance."),
    ):
        remembered = remembering(
            found, ("uid-p0", InstanceMemory(ran=True, broken_since=NOW - since))
        )
        made = plan(found, memory=remembered)
        (sentence,) = [words(verdict, made) for verdict in made.verdicts if verdict.name == "p0"]
        assert sentence.endswith(slot)


def test_a_misspelt_group_is_told_the_right_ones() -> None:
    assert "(it names group0, group1)" in said(service("1P1D", "prefil Held"), "prefil")


def test_the_api_servers_own_words_are_passed_on_with_braces_and_all() -> None:
    made = plan(service("1P", "p0 Held"))
    refused = Verdict(
        "uid-p0", "p0", "group0", State.HELD, Reason.CREATE_REFUSED, ("quota {exceeded} %s",)
    )
    assert "quota {exceeded} %s" in words(refused, made)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_one_sentence_even_without_details(reason: Reason) -> None:
    made = plan(service("2P1D > 1P1D", "p0 Held"))
    sentence = words(Verdict("uid-p0", "p0", "group0", State.HELD, reason), made)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert "{" not in sentence


@settings(max_examples=100, deadline=None)
@given(worlds())
def test_every_plan_can_be_put_into_words(world: World) -> None:
    (made,) = decide(world).plans
    assert all(words(verdict, made) for verdict in made.verdicts)
    assert target_in_words(made)


def test_the_target_in_words_says_what_is_missing() -> None:
    made = plan(service("2P1D > 1P1D", "p0 Running, d0 Held, p1 Held"))
    assert target_in_words(made) == "1 group0 + 1 group1, waits for group1 (0 of 1 running)"
    assert "no valid rule" in target_in_words(plan(service(None, "p0 Held")))
