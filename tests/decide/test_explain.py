"""Every verdict has a sentence, and the sentence says what matters."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings

from scaler.decide.explain import target_in_words, words
from scaler.decide.planner import plan
from scaler.decide.world import Reason, Snapshot, State, Verdict
from tests.builders import service
from tests.strategies import snapshots


def said(snapshot: Snapshot, name: str) -> str:
    made, _ = plan(snapshot)
    return next(words(verdict, made) for verdict in made.verdicts if verdict.name == name)


def test_a_held_instance_names_the_group_it_waits_for_and_how_far_that_is() -> None:
    sentence = said(service("2P1D > 1P1D", "p0 Running, p1 Held, d0 Held"), "p1")
    assert "waits for group1 (0 of 1 running)" in sentence
    assert "ratio 1 (1 group0 + 1 group1)" in sentence


def test_an_instance_held_for_want_of_other_jobs_says_so() -> None:
    assert "needs more jobs of another group" in said(service("2P2D > 1P1D", "p0 Running, p1 Held, d0 Running"), "p1")


def test_a_revoked_instance_names_the_group_that_comes_first() -> None:
    sentence = said(service("2P1D > 1P1D", "p0 Running, p1 Admitted, d0 Terminating"), "p1")
    assert "because group1 (0 of 1 running) comes first" in sentence


def test_a_misspelt_group_is_told_the_right_ones() -> None:
    assert "(it names group0, group1)" in said(service("1P1D", "prefil Held"), "prefil")


def test_the_api_servers_own_words_are_passed_on_with_braces_and_all() -> None:
    made, _ = plan(service("1P", "p0 Held"))
    refused = Verdict("uid-p0", "p0", "group0", State.HELD, Reason.CREATE_REFUSED, ("quota {exceeded} %s",))
    assert "quota {exceeded} %s" in words(refused, made)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_one_sentence_even_without_details(reason: Reason) -> None:
    made, _ = plan(service("2P1D > 1P1D", "p0 Held"))
    sentence = words(Verdict("uid-p0", "p0", "group0", State.HELD, reason), made)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert "{" not in sentence


@settings(max_examples=100, deadline=None)
@given(snapshots())
def test_every_plan_can_be_put_into_words(snapshot: Snapshot) -> None:
    made, _ = plan(snapshot)
    assert all(words(verdict, made) for verdict in made.verdicts)
    assert target_in_words(made)


def test_the_target_in_words_says_what_is_missing() -> None:
    made, _ = plan(service("2P1D > 1P1D", "p0 Running, d0 Held, p1 Held"))
    assert target_in_words(made) == "ratio 1 (1 group0 + 1 group1), waits for group1 (0 of 1 running)"
    assert "no valid rule" in target_in_words(plan(msgspec.structs.replace(service("1P", "p0 Held"), rule=None))[0])
