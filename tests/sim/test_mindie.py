"""The stand-in for MindIE Controller: a surplus prefill instance exits when decode finds no node,
and only then."""

from __future__ import annotations

from tests.simulation.worlds import EXAMPLE, played, scenario

LOST = {
    "at": 120,
    "name": "fault",
    "node": {"of_job": "mindie/mindie-server-d0", "becomes": "not-ready"},
}
SERVICE = "mindie/scaling-rule/mindie"


def running_at_the_end(
    *events: dict[str, object], nodes: int = 3, patience: float = 60
) -> dict[str, int]:
    made = scenario(
        nodes,
        [EXAMPLE],
        events=[LOST, *events],
        timing={"mindie_patience": patience},
        until=600,
        arbitration=False,
    )  # or a trade would do it
    return played(made).last(SERVICE).running


def test_a_surplus_prefill_instance_makes_room_for_decode() -> None:
    assert running_at_the_end() == {"group0": 1, "group1": 1}


def test_the_story_says_who_let_a_pod_exit_before_it_says_that_it_is_broken() -> None:
    made = scenario(
        3, [EXAMPLE], events=[LOST], timing={"mindie_patience": 60}, until=600, arbitration=False
    )
    told = [moment.text for moment in played(made).moments if moment.subject == "mindie-server-p1"]
    (exits,) = [
        index for index, text in enumerate(told) if text.startswith("MindIE Controller ends it")
    ]
    assert told[exits + 1].startswith("Broken: ")


def test_nothing_exits_while_there_is_a_spare_node() -> None:
    assert running_at_the_end(nodes=4) == {"group0": 2, "group1": 1}


def test_nothing_exits_before_its_patience_is_over() -> None:
    assert running_at_the_end(patience=500) == {"group0": 2, "group1": 0}


def test_nothing_exits_in_a_service_whose_own_controller_does_not_run() -> None:
    gone = {
        "at": 60,
        "delete": {"kind": "AscendJob", "namespace": "mindie", "name": "mindie-controller"},
    }
    assert running_at_the_end(gone) == {"group0": 2, "group1": 0}


def test_nothing_exits_under_a_rule_that_cannot_be_read() -> None:
    typo = {"at": 119, "rule": {"namespace": "mindie", "name": "scaling-rule", "text": "{"}}
    assert running_at_the_end(typo) == {"group0": 2, "group1": 0}
