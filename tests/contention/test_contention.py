"""A few seeds of every story; hundreds with `make contention`. And what the witness says of bad
behaviour."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scaler.clock import Clock
from scaler.kube.api import ASCEND_JOBS, PODS, Object
from scaler.sim.apiserver.client import Interceptor
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from tests.chaos.mutants import MUTANTS, failures_of
from tests.chaos.replica import Life
from tests.chaos.witness import Witness
from tests.chaos.writes import Writes
from tests.contention.services import chat_services, training
from tests.contention.stage import delays_of, play
from tests.contention.stories import STORIES, StoryMaker, dice
from tests.mutants import Mutant, broken
from tests.parts import short_and_long

MEASURED = ("on-twenty", "on-forty")
"""The loads that were measured on a real control plane."""
OTHERS = [story for story in STORIES if story not in MEASURED]
BESIDE = pytest.param(True, id="beside", marks=pytest.mark.long("the same beside Ascend Operator"))
BOTH = pytest.mark.parametrize("beside", [pytest.param(False, id="own pods"), BESIDE])
"""Who makes the pods."""
SHORT = {"half-bound", "preempting", "rack-lost", "unbound"}
"""Stories that `make test` plays, each about another kind of trouble."""
TOLD = [
    pytest.param(
        story, marks=[] if story in SHORT else [pytest.mark.long("more stories of many services")]
    )
    for story in OTHERS
]


@BOTH
@pytest.mark.parametrize("story", MEASURED)
@pytest.mark.long("several seeds of twenty services")
def test_the_measured_loads_end_as_promised_with_every_seed_each_in_its_own_history(
    story: str, beside: bool
) -> None:
    outcomes = [play(story, seed, beside=beside) for seed in range(101, 103 if beside else 105)]
    assert [(one.seed, one.failures) for one in outcomes if one.failures] == []
    assert len({one.digest for one in outcomes}) == len(outcomes)
    assert max(one.admissions for one in outcomes) <= 4


@BOTH
@pytest.mark.parametrize("story", TOLD)
def test_every_story_ends_as_promised(story: str, beside: bool) -> None:
    assert play(story, 102 if beside else 101, beside=beside).failures == []


@pytest.mark.parametrize(
    ("story", "seed", "beside"),
    [
        # an older minimum took what was left of one of which a part was bound already
        ("sizes", 8, True),
    ],
)
def test_what_was_found_once_stays_mended(story: str, seed: int, beside: bool) -> None:
    assert play(story, seed, beside=beside).failures == []


def test_without_arbitration_the_same_judge_finds_fault() -> None:
    wrong = play("on-twenty", 3, arbitration=False).failures
    assert any("serve, not 10" in words for words in wrong)
    assert any("S10" in words for words in wrong)


@pytest.mark.parametrize(
    "mutant",
    short_and_long(
        [one for one in MUTANTS if one.by.startswith("story ")], short=2, why="more mistakes"
    ),
    ids=lambda mutant: mutant.mistake,
)
def test_a_broken_controller_is_noticed(mutant: Mutant) -> None:
    with broken(mutant):
        assert failures_of(mutant.by)


def test_a_seed_decides_who_comes_when_how_long_things_take_and_how_late_all_hear_of_it(
    tmp_path: Path,
) -> None:
    delays = [delays_of(seed) for seed in range(1, 30)]
    for drawn in (
        {s.latency for s in delays},
        {s.own_lag for s in delays},
        {s.others_lag for s in delays},
    ):
        assert len(drawn) == 4
    assert len({str(one.timing) for one in delays}) == len(delays)

    def order(seed: int) -> str:
        events = STORIES["on-twenty"](StoryMaker(dice("on-twenty", seed), tmp_path)).events
        return "".join(Path(event["apply"]).read_text() for event in events)

    assert order(1) == order(1)
    assert len({order(seed) for seed in range(1, 10)}) == 9


def deletes_what_is_bound(pod: Object) -> tuple[str, Object]:
    return "S3", pod


def deletes_what_is_of_others(pod: Object) -> tuple[str, Object]:
    return "S8", training(1)[0]


@pytest.mark.parametrize("deed", [deletes_what_is_bound, deletes_what_is_of_others])
def test_the_witness_tells_a_controller_that(deed: Callable[[Object], tuple[str, Object]]) -> None:
    async def main() -> list[str]:
        clock = Clock(0.0)
        cluster = SimCluster(clock)
        (service,) = chat_services(1)
        writes = Writes(cluster, Witness(clock))
        job = next(one for one in service.manifests() if one["kind"] == ASCEND_JOBS.kind)
        cluster.apply(
            [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}, job, *training(1)]
        )
        (made,) = cluster.peek(ASCEND_JOBS)
        owner = {
            "apiVersion": made["apiVersion"],
            "kind": made["kind"],
            "name": made["metadata"]["name"],
            "uid": made["metadata"]["uid"],
            "controller": True,
        }
        pod = training(1)[0]
        pod["metadata"] = {"name": "p", "namespace": service.name, "ownerReferences": [owner]}
        pod["spec"]["nodeName"] = "n"
        cluster.apply([pod])
        _, victim = deed(pod)
        life = Life(cluster, "scaler", writes, faults=Interceptor(), seed=0)
        await life.delete(PODS, victim["metadata"]["namespace"], victim["metadata"]["name"])
        return writes.witness.failures

    words, *_ = run(main())
    assert deed({})[0] in words
