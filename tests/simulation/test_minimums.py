"""Many services on scarce nodes, minimums first: who serves in the end, and what was promised on
the way.

Every world is watched from outside (tests.contention.passes), comes to rest, and leaves no instance
without a reason."""

from __future__ import annotations

from collections.abc import Iterable, Set
from pathlib import Path
from typing import Any

import pytest

from scaler.sim.stories.play import play
from scaler.sim.stories.scenario import Scenario
from scaler.sim.stories.timeline import Timeline
from scaler.tools.simulate.scenario_file import check_inputs, load_scenario
from tests.contention.passes import Passes
from tests.contention.services import (
    A,
    B,
    Service,
    chat_services,
    nodes,
    serving,
    training,
    written,
)
from tests.contention.stage import Judging, watched
from tests.parts import short_and_long
from tests.simulation.worlds import ROOT, failures
from tests.simulation.worlds import played as expected

LONG = pytest.mark.long("twenty services, or in other orders")
QUIET = 300.0
"""Seconds at the end in which nothing may happen any more."""


def played(
    folder: Path, services: list[Service], *groups: dict[str, Any], **more: Any
) -> tuple[Timeline, Passes]:
    """All services at once. Everything that must always hold, holds."""
    files = [written(folder, service.name, service.manifests()) for service in services]
    return unfolded(services, *groups, manifests=files, **more)


def unfolded(
    services: list[Service],
    *groups: dict[str, Any],
    seed: int = 0,
    rests: bool = True,
    given_up: Set[str] = frozenset(),
    **more: Any,
) -> tuple[Timeline, Passes]:
    """A scenario with these services in it, watched and found sound."""
    what = Scenario.model_validate({"nodes": list(groups), "until": "15m", **more})
    timeline, passes = watched(what, services, seed=seed, judging=Judging(given_up))
    assert_sound(timeline)
    assert passes.witness.failures == [] or not what.arbitration
    assert not rests or max(moment.at for moment in timeline.moments) < timeline.end - QUIET
    return timeline, passes


def arriving(
    folder: Path, services: Iterable[Service], first: float, every: float
) -> list[dict[str, Any]]:
    """Events that apply one service after the other."""
    files = [written(folder, service.name, service.manifests()) for service in services]
    return [{"at": first + every * n, "apply": str(file)} for n, file in enumerate(files)]


def assert_sound(timeline: Timeline) -> None:
    """Nothing broke, no invariant of a decision either, and every instance has its reason."""
    assert failures(timeline) == []
    for samples in timeline.samples.values():
        end = samples[-1]
        assert not end.instances or {view.name for view in end.instances} == set(end.reasons)


def away(names: range) -> dict[str, Any]:
    return {"names": [f"npu-{n}" for n in names], "becomes": "not-ready"}


@pytest.mark.parametrize(
    ("count", "most", "seed"),
    [
        (20, 10, 0),
        *(
            pytest.param(*one, marks=LONG)
            for one in ((40, 20, 0), (40, 20, 1), (20, 10, 1), (20, 10, 2))
        ),
    ],
)
def test_twenty_services_of_two_nodes_each_serve_as_far_as_the_nodes_go(
    tmp_path: Path, count: int, most: int, seed: int
) -> None:
    timeline, _ = played(tmp_path, chat_services(20), nodes(count), seed=seed)
    assert len(serving(timeline)) == most


@LONG
def test_without_arbitration_half_started_services_hold_nodes_that_others_need(
    tmp_path: Path,
) -> None:
    timeline, passes = played(tmp_path, chat_services(20), nodes(20), arbitration=False, until="7m")
    assert len(serving(timeline)) < 10
    assert any("S10" in words for words in passes.witness.failures)  # so the witness can see it


@LONG
def test_only_without_arbitration_services_scale_up_into_what_others_need_to_serve_at_all(
    tmp_path: Path,
) -> None:
    events = arriving(tmp_path, chat_services(12), 1, 1.5)
    _, passes = unfolded(chat_services(12), nodes(24), events=events, arbitration=False, until="7m")
    # so the witness can see that, too
    assert any("S9" in words for words in passes.witness.failures)
    unfolded(chat_services(12), nodes(24), events=events, until="7m")  # finds nothing wrong


@LONG
@pytest.mark.parametrize(("count", "most"), [(40, 20), (20, 10)])
def test_the_same_holds_beside_ascend_operator(tmp_path: Path, count: int, most: int) -> None:
    timeline, _ = played(
        tmp_path, chat_services(20, beside=True), nodes(count), ascend_operator=True
    )
    assert len(serving(timeline)) == most


def test_services_that_arrive_over_time_never_lose_what_they_have(tmp_path: Path) -> None:
    """A scale-up that is bound before a later minimum arrives stays, among equals: no more than
    three of four serve."""
    timeline, _ = unfolded(
        chat_services(4), nodes(9), events=arriving(tmp_path, chat_services(4), 1, 30)
    )
    assert len(serving(timeline)) == 3
    assert all(
        not sample.pods_deleted for samples in timeline.samples.values() for sample in samples
    )


@LONG
def test_a_rack_is_lost_and_back_and_everybody_serves_again(tmp_path: Path) -> None:
    story = [{"at": "4m", "node": away(range(10))}, {"at": "9m", "node": {"becomes": "ready"}}]
    timeline, _ = played(tmp_path, chat_services(10), nodes(20), events=story, until="18m")
    assert len(serving(timeline, 240)) == 10
    assert len(serving(timeline)) == 10


def test_each_kind_of_node_serves_those_who_need_it_and_the_flexible_take_the_rest(
    tmp_path: Path,
) -> None:
    services = [
        *chat_services(2, kind=A),
        *(Service(f"big-{n}", kind=B) for n in range(2)),
        *(Service(f"any-{n}") for n in range(3)),
    ]
    timeline, _ = played(tmp_path, services, nodes(6, A), nodes(8, B, first=6))
    assert len(serving(timeline)) == 7


def test_a_large_minimum_does_not_keep_small_ones_from_the_nodes_that_it_cannot_use(
    tmp_path: Path,
) -> None:
    large = Service("large", ladder=((2, 1), (1, 1)), pods=4)
    timeline, _ = played(tmp_path, [large, *chat_services(3)], nodes(7))
    assert serving(timeline) == {"chat-00", "chat-01", "chat-02"}
    reasons = timeline.last(large.key).reasons
    assert {reasons["large-p0"], reasons["large-d0"]} <= {"MinimumDoesNotFit", "MinimumTooLarge"}


def test_a_minimum_that_never_fits_stands_in_nobodys_way_and_says_so(tmp_path: Path) -> None:
    huge = Service("a-huge", pods=8)
    timeline, _ = played(tmp_path, [huge, *chat_services(3)], nodes(9), until="20m")
    assert serving(timeline) == {"chat-00", "chat-01", "chat-02"}
    assert timeline.last(huge.key).reasons["a-huge-p0"] == "MinimumTooLarge"
    assert all(timeline.last(one.key).complete for one in chat_services(3))


def test_a_service_whose_jobs_do_not_all_exist_blocks_nobody(tmp_path: Path) -> None:
    half = Service("a-half", jobs=(1, 0))
    timeline, _ = played(tmp_path, [half, *chat_services(2)], nodes(6))
    assert timeline.last(half.key).reasons == {"a-half-p0": "MinimumIncomplete"}
    assert all(timeline.last(one.key).complete for one in chat_services(2))


def test_who_waited_gets_the_nodes_of_a_service_that_is_removed(tmp_path: Path) -> None:
    first, second = chat_services(2)
    story = [{"at": "5m", "delete_file": str(tmp_path / "chat-00.json")}]
    timeline, _ = played(tmp_path, [first, second], nodes(3), events=story)
    assert serving(timeline, 290) == {"chat-00"}
    assert serving(timeline) == {"chat-01"}
    assert timeline.last(second.key).complete


def test_foreign_training_takes_nodes_and_gives_them_back(tmp_path: Path) -> None:
    train = written(tmp_path, "training", training(6))
    story = [{"at": "1s", "apply": str(train)}, {"at": "6m", "delete_file": str(train)}]
    timeline, _ = unfolded(
        chat_services(5), nodes(10), events=[*story, *arriving(tmp_path, chat_services(5), 20, 0)]
    )
    assert len(serving(timeline, 350)) == 2
    assert len(serving(timeline)) == 5


def test_a_minimum_that_fits_and_is_never_bound_gives_way_and_is_reported(tmp_path: Path) -> None:
    """Its pods name a scheduler that does not exist; the oldest service, it would be first in line
    for ever."""
    stuck = Service("a-stuck", scheduler="nobody")
    timeline, passes = played(
        tmp_path,
        [stuck, *chat_services(3)],
        nodes(9),
        until="40m",
        rests=False,
        given_up={stuck.key},
    )
    assert all(timeline.last(one.key).complete for one in chat_services(3))
    # after 5 minutes the scale-ups of the others go first, and leave it no room (3b.7a)
    assert timeline.samples[stuck.key][-1].reasons["a-stuck-d0"] == "MinimumDoesNotFit"
    assert len(passes.admitted) < 60


@pytest.mark.parametrize("favourite", ["chat-00", "chat-04"])
def test_priority_says_who_goes_first(tmp_path: Path, favourite: str) -> None:
    services = [
        Service(one.name, priority=100 if one.name == favourite else 0) for one in chat_services(5)
    ]
    train = written(tmp_path, "training", training(2))
    story = [{"at": "3m", "delete_file": str(train)}]
    events = [*arriving(tmp_path, services, 10, 0), *story]
    timeline, _ = unfolded(services, nodes(2), manifests=[train], events=events)
    assert serving(timeline) == {favourite}


@pytest.mark.parametrize(("trade", "traded"), [("when-not-serving", True), ("off", False)])
def test_a_surplus_prefill_goes_so_that_decode_can_start(
    tmp_path: Path, trade: str, traded: bool
) -> None:
    """2P1D on three nodes loses the node of decode: 2P0D serves nobody, and becomes 1P1D."""
    service = Service("chat", annotations={"trade": trade})
    story = [{"at": "3m", "node": {"of_job": "chat/chat-d0", "becomes": "gone"}}]
    timeline, _ = played(tmp_path, [service], nodes(3), events=story)
    end = timeline.last(service.key)
    assert end.running == ({"group0": 1, "group1": 1} if traded else {"group0": 2, "group1": 0})


SCENARIOS = {path.stem: path for path in (ROOT / "docs" / "scenarios").glob("*.yaml")}
ALONE = {
    "arrivals": 8,
    "mixed-hardware": 4,
    "never-fits": 6,
    "rack-lost": 8,
    "removed": 2,
    "shared-with-training": 10,
    "sizes": 8,
    "twenty-on-20-nodes": 0,
    "twenty-on-40-nodes": 20,
}
"""How many serve in the end without arbitration, as the documentation says."""


@pytest.mark.parametrize(
    "name", short_and_long(sorted(SCENARIOS), short=2, why="the other scenarios of the page")
)
def test_the_scenarios_of_the_documentation_come_out_as_they_say(name: str) -> None:
    scenario = load_scenario(SCENARIOS[name])
    check_inputs(scenario)
    assert expected(scenario).passes > 0


@LONG
@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_alone_they_come_out_as_the_documentation_says(name: str) -> None:
    timeline = play(
        load_scenario(SCENARIOS[name]).model_copy(update={"arbitration": False}), seed=0
    )
    assert len(serving(timeline)) == ALONE[name]


def test_the_documentation_has_both_pictures_of_every_scenario() -> None:
    text = (ROOT / "docs" / "explanation" / "minimums-first.md").read_text(encoding="utf-8")
    names = {f"{name}{how}.svg" for name in SCENARIOS for how in ("", "-off")}
    assert {name for name in names if f"../pictures/{name})" not in text} == set()
    assert {name for name in names if not (ROOT / "docs" / "pictures" / name).exists()} == set()
