"""Rank tables from the start of a service through faults to its recovery, judged at every moment by
a witness."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from scaler.clock import Clock
from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    ELASTIC_SERVICES,
    POD_GROUPS,
    PODS,
    KubeApi,
    Object,
    PatchType,
)
from scaler.sim.actors import objects
from scaler.sim.actors.stand_in import StandIn
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.scenario import Scenario
from scaler.sim.stories.timeline import Timeline
from tests.parts import short_and_long
from tests.rig import START
from tests.simulation.test_degrading import SERVICE
from tests.simulation.test_motor import SERVICES
from tests.simulation.worlds import EXAMPLE, failures, played, scenario

GRACE = 0.5
CHIPS = "huawei.com/AscendReal"


class TableWitness(StandIn):
    """A witness of rank tables from outside: it shares no code with what makes them, and looks at
    every change.

    A table may be wrong for as long as a write takes, and no longer: `GRACE` virtual seconds.
    `wrong` lists every table that was wrong for longer, with what it said."""

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        super().__init__(api, PODS, CONFIG_MAPS, ASCEND_JOBS)
        self.wrong: list[str] = []
        self.completions = 0
        self.withdrawals = 0
        self._clock = clock
        self._since: dict[str, tuple[str, float]] = {}
        self._last: dict[str, tuple[str, int]] = {}

    async def _round(self) -> float | None:
        """Judge everything as it is now."""
        now = self._clock.now()
        found: dict[str, str] = {}
        for cm in self._all("rings-config-"):
            self._follow(cm)
            found[objects.name(cm)] = self._judge(cm)
        for cm in self._all("global-ranktable-"):
            found[objects.name(cm)] = self._judge_global(cm)
        before = self._since
        self._since = {}
        for name, problem in found.items():
            if problem:
                _, since = before.get(name, ("", now))
                self._since[name] = (problem, since)
                if now - since > GRACE:
                    self.wrong.append(f"{name} at {now - START:.1f} s: {problem}")
                    self._since[name] = (problem, now)
        return GRACE / 4 if self._since else None

    def _all(self, prefix: str) -> list[Object]:
        return [cm for cm in self.mirror.all(CONFIG_MAPS) if objects.name(cm).startswith(prefix)]

    def statuses(self) -> dict[str, str]:
        tables = self._all("rings-config-")
        return {objects.name(cm): json.loads(cm["data"]["hccl.json"])["status"] for cm in tables}

    def listed(self) -> set[str]:
        """The jobs in the global rank tables."""
        tables = [
            json.loads(cm["data"]["global_ranktable"]) for cm in self._all("global-ranktable-")
        ]
        return {
            group["job"]
            for table in tables
            for group in table["server_group_list"]
            if "job" in group
        }

    def _follow(self, cm: Object) -> None:
        """Every change of the text raises the version."""
        text = cm["data"]["hccl.json"]
        version = int(cm["data"].get("version", -1))
        before = self._last.get(objects.name(cm))
        self._last[objects.name(cm)] = (text, version)
        if before is None or before[0] == text:
            return
        if version <= before[1]:
            self.wrong.append(f"{objects.name(cm)}: version {version} after {before[1]}")
        done = json.loads(text)["status"] == "completed"
        self.completions += done
        self.withdrawals += not done

    def _judge(self, cm: Object) -> str:
        """What is wrong with the table of one job, "" when nothing is."""
        table = json.loads(cm["data"]["hccl.json"])
        pods = self._whole_instance(
            objects.namespace(cm), objects.name(cm).removeprefix("rings-config-")
        )
        if pods is None:
            return (
                f"says {table['status']}, with a list"
                if table != {"status": "initializing"}
                else ""
            )
        if table["status"] != "completed":
            return "is not completed although every pod has its chips"
        said = [
            (server["container_ip"], server["host_ip"], int(device["rank_id"]), device["device_id"])
            for server in table["server_list"]
            for device in server["device"]
        ]
        chips = [
            (pod, chip) for pod in pods for chip in objects.annotations_of(pod)[CHIPS].split(",")
        ]
        expected = [
            (
                objects.status(pod)["podIP"],
                objects.status(pod)["hostIP"],
                rank,
                chip.rpartition("-")[2],
            )
            for rank, (pod, chip) in enumerate(chips)
        ]
        return "" if said == expected else f"does not say what its pods say: {table}"

    def _whole_instance(self, namespace: str, name: str) -> list[Object] | None:
        """The pods in the order of ranks when all are there with chips and address, else None."""
        job = self.mirror.get(ASCEND_JOBS, namespace, name)
        if job is None:
            return None
        number = sum(spec.get("replicas", 1) for spec in job["spec"]["replicaSpecs"].values())
        pods = [
            pod
            for pod in self.mirror.all(PODS)
            if objects.owner_uid(pod) == objects.uid(job)
            and not (objects.terminating(pod) or objects.ended(pod))
            and objects.status(pod).get("podIP")
            and CHIPS in objects.annotations_of(pod)
        ]
        by_rank = sorted(pods, key=lambda pod: int(objects.annotations_of(pod)["hccl/rankIndex"]))
        return by_rank if len(pods) == number else None

    def _judge_global(self, cm: Object) -> str:
        """Nobody who is gone is in the global table."""
        table = json.loads(cm["data"]["global_ranktable"])
        listed = [
            s
            for group in table["server_group_list"]
            if group["group_id"] == "2"
            for s in group["server_list"]
        ]
        alive = {
            objects.status(pod).get("podIP")
            for pod in self.mirror.all(PODS)
            if not objects.terminating(pod)
        }
        gone = [server["container_ip"] for server in listed if server["container_ip"] not in alive]
        return (
            f"lists {gone}, which are gone"
            if gone and "completed" in self.statuses().values()
            else ""
        )


Beside = Callable[[SimCluster, TableWitness], Sequence[Coroutine[Any, Any, None]]]


def witnessed(
    what: Scenario, *, seed: int = 0, beside: Beside = lambda *_: ()
) -> tuple[Timeline, TableWitness]:
    """Play it with a witness, which knows what there is at the end."""
    witnesses = []

    def both(cluster: SimCluster) -> Sequence[Coroutine[Any, Any, None]]:
        witnesses.append(TableWitness(cluster, cluster.server.clock))
        return [witnesses[0].run(), *beside(cluster, witnesses[0])]

    return played(what, seed=seed, beside=both), witnesses[0]


def _of(name: str) -> dict[str, Any]:
    return {"of_job": f"mindie/mindie-server-{name}", "at_most": 1}


def _story(nodes: int) -> list[dict[str, Any]]:
    """A node is lost and returns, two chips fail and are fixed, a node goes for good and is
    replaced."""
    mended = {
        "what": "chip",
        "chips": [0, 3],
        "becomes": "healthy",
        "names": [f"npu-{n}" for n in range(nodes)],
    }
    return [
        {"at": "4m", "node": {**_of("p0"), "becomes": "not-ready"}},
        {"at": "6m", "node": {"becomes": "ready"}},
        {"at": "10m", "fault": {"what": "chip", "chips": [0, 3], **_of("d0")}},
        {"at": "12m", "fault": mended},
        {"at": "16m", "node": {**_of("d0"), "becomes": "gone"}},
        {"at": "18m", "node": {"becomes": "ready"}},
    ]


@pytest.mark.parametrize("name", short_and_long(SERVICES, short=3, why="more services"))
def test_all_tables_of_a_service_are_right_at_every_moment_and_complete_in_the_end(
    real_data: Path, name: str
) -> None:
    nodes, prefills, decodes = SERVICES[name]
    folder = real_data / "motor" / name
    manifests = [folder / "configmaps", folder / "deployment"]
    what = scenario(nodes, manifests, a3=name.startswith("A3"), events=_story(nodes), until="24m")
    timeline, witness = witnessed(what)
    assert failures(timeline) == []
    assert witness.wrong == []
    assert witness.statuses() == {
        f"rings-config-mindie-server-{group}{number}": "completed"
        for group, instances in (("p", prefills), ("d", decodes))
        for number in range(instances)
    }
    assert {f"rings-config-{job}" for job in witness.listed()} == set(witness.statuses())
    assert witness.withdrawals >= 3
    assert witness.completions == witness.withdrawals + prefills + decodes


DEAD = [
    {"at": "5m", "controller": "stop"},
    {"at": "5m1s", "pod_exit": {"namespace": "mindie", "pod": "mindie-server-p0-master-0"}},
    {"at": "6m", "controller": "start"},
]


def test_what_was_missed_while_no_scaler_ran_is_seen_and_made_good_when_one_starts() -> None:
    what = scenario(10, [EXAMPLE], events=DEAD, until="10m")
    _, witness = witnessed(what)
    assert witness.wrong
    assert [text for text in witness.wrong if not 300 < float(text.split()[2]) < 361] == []
    assert set(witness.statuses().values()) == {"completed"}


JOBS = ("mindie-server-d0", "mindie-server-p0", "mindie-server-p1")


def _trouble(seed: int) -> list[dict[str, Any]]:
    """Twelve random faults a minute apart, each over after half a minute."""
    rng = random.Random(seed)
    story = []
    for number in range(12):
        at = 180.0 + 60 * number
        of = f"mindie/{rng.choice(JOBS)}"
        nodes = {"of_job": of, "at_most": rng.choice([1, 2])}
        kind = rng.choice(["not-ready", "gone", "chip", "switch", "node", "exit"])
        if kind in ("not-ready", "gone"):
            story += [
                {"at": at, "node": {**nodes, "becomes": kind}},
                {"at": at + 30, "node": {"becomes": "ready"}},
            ]
        elif kind == "exit":
            pod = f"{of.partition('/')[2]}-master-0"
            story.append({"at": at, "pod_exit": {"namespace": "mindie", "pod": pod}})
        else:
            fault = {"what": kind, "chips": [rng.randrange(8)]}
            every = {
                "names": [f"npu-{index}" for index in range(10)],
                "chips": list(range(8)),
                "becomes": "healthy",
            }
            story += [
                {"at": at, "fault": {**fault, **nodes}},
                {"at": at + 30, "fault": {"what": kind, **every}},
            ]
    return story


@pytest.mark.long("random faults, again and again")
@pytest.mark.parametrize("seed", range(4))
def test_through_random_faults_every_table_is_right_at_every_moment(seed: int) -> None:
    what = scenario(10, [EXAMPLE], events=_trouble(seed), until="20m")
    _, witness = witnessed(what, seed=seed)
    assert witness.wrong == []
    assert witness.statuses() == {f"rings-config-{job}": "completed" for job in JOBS}
    assert witness.listed() == set(JOBS)
    assert witness.withdrawals >= 3


def test_what_is_drained_leaves_no_pod_group_and_no_complete_table_and_comes_back_whole() -> None:
    """The scaler makes the pods itself: AscendJobs stay, and nothing of them."""
    seen: list[tuple[int, ...]] = []

    async def wants(cluster: SimCluster, witness: TableWitness) -> None:
        for number in (1_000_000, 2, 0, 3):
            for found in cluster.peek(ELASTIC_SERVICES):
                patch = {"spec": {"replicas": number}}
                name = objects.name(found)
                await cluster.patch(
                    ELASTIC_SERVICES, "mindie", name, patch, patch_type=PatchType.MERGE
                )
            await asyncio.sleep(170)
            complete = list(witness.statuses().values()).count("completed")
            kinds = (ASCEND_JOBS, PODS, POD_GROUPS)
            seen.append((*(len(cluster.peek(kind, "mindie")) for kind in kinds), complete))
        await asyncio.Event().wait()

    _, witness = witnessed(scenario(4, SERVICE, until="12m"), beside=lambda *there: [wants(*there)])
    assert witness.wrong == []
    assert seen == [(3, 3, 3, 3), (3, 2, 2, 2), (3, 0, 0, 0), (3, 3, 3, 3)]
