"""Rank tables from the start of a service through faults to its recovery, judged at every moment by a witness."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from scaler.clock import Clock
from scaler.sim import loop
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.play import START, real_controller, silence_logs
from scaler.sim.stories.scenario import Scenario
from scaler.sim.stories.timeline import Timeline
from scaler.sim.stories.world import World
from tests.simulation.table_witness import TableWitness
from tests.simulation.test_motor import SERVICES
from tests.simulation.worlds import EXAMPLE, failures, scenario


def witnessed(what: Scenario, *, seed: int = 0) -> tuple[Timeline, TableWitness, dict[str, str]]:
    """Play it with a witness; the status of every table at the end."""
    silence_logs()
    timeline = Timeline(None)
    statuses: dict[str, str] = {}

    async def main() -> TableWitness:
        clock = Clock(START)
        cluster = SimCluster(clock, seed=seed)
        witness = TableWitness(cluster, clock)
        world = World(cluster, clock, what, controller=real_controller(seed), timeline=timeline, seed=seed)
        watching = asyncio.create_task(witness.run())
        try:
            await world.play()
        finally:
            statuses.update(witness.statuses())
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        return witness

    return timeline, loop.run(main(), seed=seed), statuses


def _of(name: str) -> dict[str, Any]:
    return {"of_job": f"mindie/mindie-server-{name}", "at_most": 1}


def _story(nodes: int) -> list[dict[str, Any]]:
    """A node is lost and returns, two chips fail and are mended, a node goes for good and is replaced."""
    mended = {"what": "chip", "chips": [0, 3], "becomes": "healthy", "names": [f"npu-{n}" for n in range(nodes)]}
    return [
        {"at": "4m", "node": {**_of("p0"), "becomes": "not-ready"}},
        {"at": "6m", "node": {"becomes": "ready"}},
        {"at": "10m", "fault": {"what": "chip", "chips": [0, 3], **_of("d0")}},
        {"at": "12m", "fault": mended},
        {"at": "16m", "node": {**_of("d0"), "becomes": "gone"}},
        {"at": "18m", "node": {"becomes": "ready"}},
    ]


@pytest.mark.parametrize("name", SERVICES)
def test_all_tables_of_a_service_are_right_at_every_moment_and_complete_in_the_end(real_data: Path, name: str) -> None:
    nodes, prefills, decodes = SERVICES[name]
    folder = real_data / "motor" / name
    manifests = [folder / "configmaps", folder / "deployment"]
    what = scenario(nodes, manifests, a3=name.startswith("A3"), events=_story(nodes), until="24m")
    timeline, witness, statuses = witnessed(what)
    assert failures(timeline) == []
    assert witness.wrong == []
    assert statuses == {
        f"rings-config-mindie-server-{group}{number}": "completed"
        for group, instances in (("p", prefills), ("d", decodes))
        for number in range(instances)
    }
    assert {f"rings-config-{job}" for job in witness.listed()} == set(statuses)
    assert witness.withdrawals >= 3
    assert witness.completions == witness.withdrawals + prefills + decodes


DEAD = [
    {"at": "5m", "controller": "stop"},
    {"at": "5m1s", "pod_exit": {"namespace": "mindie", "pod": "mindie-server-p0-master-0"}},
    {"at": "6m", "controller": "start"},
]


def test_what_was_missed_while_no_scaler_ran_is_seen_by_the_witness_and_made_good_when_one_starts() -> None:
    what = scenario(10, [EXAMPLE], events=DEAD, until="10m")
    _, witness, statuses = witnessed(what)
    assert witness.wrong
    assert [text for text in witness.wrong if not 300 < float(text.split()[2]) < 361] == []
    assert set(statuses.values()) == {"completed"}


JOBS = ("mindie-server-d0", "mindie-server-p0", "mindie-server-p1")


def _trouble(seed: int) -> list[dict[str, Any]]:
    """Twelve random faults a minute apart, each over after half a minute."""
    rng, story = random.Random(seed), []
    for number in range(12):
        at, of = 180.0 + 60 * number, f"mindie/{rng.choice(JOBS)}"
        nodes = {"of_job": of, "at_most": rng.choice([1, 2])}
        kind = rng.choice(["not-ready", "gone", "chip", "switch", "node", "exit"])
        if kind in ("not-ready", "gone"):
            story += [{"at": at, "node": {**nodes, "becomes": kind}}, {"at": at + 30, "node": {"becomes": "ready"}}]
        elif kind == "exit":
            pod = f"{of.partition('/')[2]}-master-0"
            story.append({"at": at, "pod_exit": {"namespace": "mindie", "pod": pod}})
        else:
            fault = {"what": kind, "chips": [rng.randrange(8)]}
            every = {"names": [f"npu-{index}" for index in range(10)], "chips": list(range(8)), "becomes": "healthy"}
            story += [{"at": at, "fault": {**fault, **nodes}}, {"at": at + 30, "fault": {"what": kind, **every}}]
    return story


@pytest.mark.long("random faults, again and again")
@pytest.mark.parametrize("seed", range(4))
def test_through_random_faults_every_table_is_right_at_every_moment(seed: int) -> None:
    what = scenario(10, [EXAMPLE], events=_trouble(seed), until="20m")
    _, witness, statuses = witnessed(what, seed=seed)
    assert witness.wrong == []
    assert statuses == {f"rings-config-{job}": "completed" for job in JOBS}
    assert witness.listed() == set(JOBS)
    assert witness.withdrawals >= 3
