"""A witness of rank tables from outside: it shares no code with what makes them, and looks at every change.

A table may be wrong for as long as a write takes, and no longer: `GRACE` virtual seconds.
"""

from __future__ import annotations

import json

from scaler.clock import Clock
from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS, PODS, KubeApi, Object
from scaler.sim.actors import objects
from scaler.sim.actors.stand_in import StandIn
from scaler.sim.stories.play import START

GRACE = 0.5
CHIPS = "huawei.com/AscendReal"


class TableWitness(StandIn):
    """`wrong` lists every table that was wrong for longer than the grace, with what it said."""

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
        before, self._since = self._since, {}
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
        tables = [json.loads(cm["data"]["global_ranktable"]) for cm in self._all("global-ranktable-")]
        return {group["job"] for table in tables for group in table["server_group_list"] if "job" in group}

    def _follow(self, cm: Object) -> None:
        """Every change of the text raises the version."""
        text, version = cm["data"]["hccl.json"], int(cm["data"].get("version", -1))
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
        pods = self._whole_instance(objects.namespace(cm), objects.name(cm).removeprefix("rings-config-"))
        if pods is None:
            return f"says {table['status']}, with a list" if table != {"status": "initializing"} else ""
        if table["status"] != "completed":
            return "is not completed although every pod has its chips"
        said = [
            (server["container_ip"], server["host_ip"], int(device["rank_id"]), device["device_id"])
            for server in table["server_list"] for device in server["device"]
        ]  # fmt: skip
        chips = [(pod, chip) for pod in pods for chip in objects.annotations_of(pod)[CHIPS].split(",")]
        expected = [
            (objects.status(pod)["podIP"], objects.status(pod)["hostIP"], rank, chip.rpartition("-")[2])
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
        listed = [s for group in table["server_group_list"] if group["group_id"] == "2" for s in group["server_list"]]
        alive = {objects.status(pod).get("podIP") for pod in self.mirror.all(PODS) if not objects.terminating(pod)}
        gone = [server["container_ip"] for server in listed if server["container_ip"] not in alive]
        return f"lists {gone}, which are gone" if gone and "completed" in self.statuses().values() else ""
