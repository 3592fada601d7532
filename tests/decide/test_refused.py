"""Whose creation was refused is tried again alone, and in its place of the order: 3.3 and 3.7 of
the contract."""

from __future__ import annotations

import msgspec

from scaler.decide.decision import Admit, Plan
from scaler.decide.memory import HadAttempt, InstanceMemory
from scaler.decide.world import Service
from scaler.reasons.reasons import Reason
from tests.builders import NOW, others, plan, remembering, service

REFUSED = InstanceMemory(
    refused="exceeded quota",
    refused_until=NOW - 1,
    refused_times=1,
    had_attempt=HadAttempt.FOR_GOOD,
)


def admitted(seen: Service, *refused: str) -> str:
    made = plan(seen, memory=remembering(seen, *((f"uid-{name}", REFUSED) for name in refused)))
    uids = (action.uid for action in made.actions if isinstance(action, Admit))
    return " ".join(sorted(uid.removeprefix("uid-") for uid in uids))


def reasons(made: Plan) -> dict[str, Reason]:
    return {one.name: one.reason for one in made.verdicts}


def test_it_does_not_go_before_one_that_has_its_place() -> None:
    assert admitted(service("1P1D", "p0 Held, p1 Held, d0 Held"), "p0") == "d0 p1"


def test_it_goes_alone_where_its_release_was_refused() -> None:
    assert admitted(service("1P1D", [others("p0"), others("d0")]), "p0") == "p0"


def test_of_a_service_that_serves_partners_wait_where_no_ratio_can_do_without_it() -> None:
    seen = service("2P2D > 1P1D", "p0 Running, d0 Running, p1 Held, d1 Held")
    assert admitted(seen, "p1") == "p1"


def test_of_a_service_that_serves_nobody_waits_where_a_ratio_can_do_without_it() -> None:
    seen = service("3P2D > 2P2D > 1P1D", "p0 Running, d0 Running, p1 Held, p2 Held, d1 Held")
    assert admitted(seen, "p1") == "d1 p2"
    first = msgspec.structs.replace(REFUSED, had_attempt=HadAttempt.NO)
    made = plan(seen, memory=remembering(seen, ("uid-p1", first)))
    assert [one.uid for one in made.actions if isinstance(one, Admit)] == ["uid-p1", "uid-d1"]


def test_its_partners_wait_for_their_ratio_and_are_no_spares() -> None:
    seen = service("1P1D", "p0 Held, p1 Held, d0 Held")
    memory = remembering(
        seen, ("uid-d0", REFUSED), ("uid-p0", InstanceMemory(had_attempt=HadAttempt.FOR_GOOD))
    )
    said = reasons(plan(seen, memory=memory))
    assert {name: said[name] for name in ("p0", "p1")} == {
        "p0": Reason.NOT_IN_RATIO,
        "p1": Reason.WAITING_FOR_RATIO,
    }


def test_what_cannot_start_itself_makes_no_spare_of_another() -> None:
    spoilt = others("p1", faults=("InvalidContainer: there is no container named ascend",))
    seen = service(
        "2P2D > 1P1D",
        [*service(None, "p0 Running, d0 Starting, p2 Held, d1 Held").instances, spoilt],
    )
    assert reasons(plan(seen))["p2"] is Reason.WAITING_FOR_RATIO


def test_the_spare_is_who_goes_last_and_that_is_one_that_had_its_attempt() -> None:
    seen = service("2P1D > 1P1D", "p0 Running, d0 Starting, p1 Held, p2 Held")
    said = reasons(
        plan(
            seen,
            memory=remembering(seen, ("uid-p1", InstanceMemory(had_attempt=HadAttempt.FOR_GOOD))),
        )
    )
    assert (said["p1"], said["p2"]) == (Reason.NOT_IN_RATIO, Reason.WAITING_FOR_RATIO)
