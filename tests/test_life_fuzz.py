"""Whatever happens to the pods of jobs with whatever run policy: only what may be removed is, and
rounds only grow."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scaler.kube.api import ASCEND_JOBS, PODS
from scaler.sim.loop import run
from scaler.workloads.ascendjob import read_run_policy
from tests.jobs import NAMESPACE, rule_config_map, rule_document
from tests.rig import Rig, controller, rig
from tests.test_life import fail, last, with_policy

RULE = rule_config_map(rule_document({"group0": 2}, {"group0": 1}))
POLICIES = st.fixed_dictionaries(
    {},
    optional={
        "backoffLimit": st.integers(0, 2),
        "cleanPodPolicy": st.sampled_from(["All", "Running", "None", "Odd"]),
        "ttlSecondsAfterFinished": st.integers(0, 30),
        "activeDeadlineSeconds": st.integers(0, 60),
    },
)
HAPPENINGS = st.sampled_from(
    ["start", "kill", "fail 1", "fail 137", "evict", "succeed", "fewer", "more", "restart", "wait"]
)


async def happen(on: Rig, what: str) -> None:
    pods = on.pods_of("p0")
    match what.split():
        case ["start"]:
            await on.start("p0", "p1")
        case ["kill"]:
            await on.kill("p0")
        case ["fail", code] if pods:
            await fail(on, pods[0], int(code))
        case ["evict"] if pods:
            await fail(on, pods[-1], 143, reason="Evicted")
        case ["succeed"]:
            for pod in pods:
                await on.status(pod, phase="Succeeded")
        case [("fewer" | "more") as way] if last(on, "p0") is not None:
            await on.edit("p0", "/spec/replicaSpecs/Worker/replicas", 1 if way == "fewer" else 3)
        case ["restart"]:
            async with controller(on):
                await on.settle(3)
        case _:
            pass
    await on.settle(3)


class Watchman:
    """Sees every deletion of a pod that the controller asks for, with the pod as it was and its
    job."""

    def __init__(self) -> None:
        self.wrong: list[str] = []

    def judge(self, on: Rig, before: dict[str, Any], jobs: dict[str, Any]) -> None:
        for name, pod in before.items():
            now = {p["metadata"]["name"]: p for p in on.cluster.peek(PODS, NAMESPACE)}.get(name)
            gone = now is None or "deletionTimestamp" in now["metadata"]
            alive = pod["spec"].get("nodeName") and pod.get("status", {}).get("phase") == "Running"
            alive = alive and "deletionTimestamp" not in pod["metadata"]
            asked = f"delete pods {name}" in on.writes()
            if gone and alive and asked and not self._may_go(on, pod, jobs):
                self.wrong.append(name)

    @staticmethod
    def _may_go(on: Rig, pod: Any, jobs: dict[str, Any]) -> bool:
        owner = pod["metadata"]["ownerReferences"][0]["name"]
        ended = last(on, owner)
        if ended is None or ended[0] in ("Succeeded", "Failed"):
            return True
        index = int(pod["metadata"]["labels"]["replica-index"])
        workers = jobs[owner]["spec"]["replicaSpecs"].get("Worker", {}).get("replicas", 0)
        return bool(pod["metadata"]["labels"]["replica-type"] == "worker" and index >= workers)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    policy=POLICIES,
    retries=st.booleans(),
    restart_policy=st.sampled_from(["Never", "ExitCode"]),
    story=st.lists(HAPPENINGS, max_size=7),
)
def test_no_running_pod_goes_unless_its_user_or_its_end_wants_it(
    policy: dict[str, Any], retries: bool, restart_policy: str, story: list[str]
) -> None:
    async def play() -> None:
        watchman = Watchman()
        made = with_policy("p0", pods=3, retries=retries, **policy)
        made["spec"]["replicaSpecs"]["Worker"]["restartPolicy"] = restart_policy
        async with rig(RULE, made, with_policy("p1")) as on:
            newest = 0
            for what in story:
                before = {pod["metadata"]["name"]: pod for pod in on.cluster.peek(PODS, NAMESPACE)}
                await happen(on, what)
                jobs = {
                    one["metadata"]["name"]: one for one in on.cluster.peek(ASCEND_JOBS, NAMESPACE)
                }
                watchman.judge(on, before, jobs)
                rounds = read_run_policy(jobs["p0"]).rounds if "p0" in jobs else newest
                assert newest <= rounds <= newest + 2
                assert {int(pod["metadata"]["labels"]["version"]) for pod in on.pods_of("p0")} <= {
                    *range(rounds + 1)
                }
                newest = rounds
            assert watchman.wrong == []

    run(play())
