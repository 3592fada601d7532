"""What a curse keeps from happening, and to whom; with the real controller where it makes the
pods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scaler.clock import Clock
from scaler.kube.api import POD_GROUPS, PODS, Object
from scaler.sim import loop
from scaler.sim.actors import objects
from scaler.sim.actors.faulty_api import Curse, Curses, Never
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.play import ADMISSION, START, real_controller, settings_of, silence_logs
from scaler.sim.stories.scenario import Scenario
from scaler.sim.stories.scenario_run import ScenarioRun
from scaler.sim.stories.timeline import MomentKind, Timeline

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "manifests" / "examples" / "2p1d"
MIXED = ROOT / "tests" / "scenarios" / "deployment-and-leaderworkerset"
WIDE = ROOT / "docs" / "scenarios" / "manifests" / "large.yaml"
BESIDE = ROOT / "tests" / "scenarios" / "beside-ascend-operator"
LABELS = {"accelerator": "huawei-Ascend910", "accelerator-type": "module-910b-8"}
D0 = "mindie/mindie-server-d0"


def played(*curses: dict[str, Any], until: float = 60, **more: Any) -> tuple[SimCluster, Timeline]:
    """The world at the end, and how it came to that."""
    silence_logs()
    nodes = [{"name": "npu-{}", "count": 12, "labels": LABELS}]
    given = {"nodes": nodes, "manifests": [EXAMPLE], "curse": list(curses), "until": until, **more}
    scenario = Scenario.model_validate(given)
    timeline = Timeline()
    clusters = []

    async def story() -> None:
        clock = Clock(START)
        clusters.append(SimCluster(clock, seed=0, admission=ADMISSION))
        controller = real_controller(0, settings=settings_of(scenario))
        await ScenarioRun(
            clusters[0], clock, scenario, controller=controller, timeline=timeline, seed=0
        ).play()

    loop.run(story(), seed=0)
    assert [moment.text for moment in timeline.moments if moment.kind is MomentKind.FAILURE] == []
    return clusters[0], timeline


def pods_of(cluster: SimCluster, instance: str) -> list[Object]:
    return [pod for pod in cluster.peek(PODS) if objects.name(pod).startswith(instance)]


def is_bound(cluster: SimCluster, instance: str) -> list[bool]:
    """Of each pod of an instance: whether it has a node."""
    return [bool(objects.node_of(pod)) for pod in pods_of(cluster, instance)]


def phases(cluster: SimCluster, instance: str) -> list[str]:
    return [objects.phase(pod) for pod in pods_of(cluster, instance)]


def test_never_bound_takes_no_room_and_leaves_the_others_alone() -> None:
    cluster, _ = played({"of": D0, "never": "bound"}, until=20)
    assert not any(is_bound(cluster, "mindie-server-d0"))
    assert is_bound(cluster, "mindie-server-p0") == [True]


def test_a_curse_has_a_beginning_and_an_end() -> None:
    _, timeline = played({"of": D0, "never": "bound", "from": 0, "until": "20s"}, until=120)
    bound = [
        sample.at
        for sample in timeline.samples["mindie/scaling-rule/mindie"]
        if sample.running.get("group1")
    ]
    assert 28 < bound[0] < 100
    cluster, _ = played({"of": D0, "never": "bound", "from": "10s"})
    assert is_bound(cluster, "mindie-server-d0") == [True]


def test_half_bound_has_one_pod_with_a_node() -> None:
    cluster, _ = played({"of": "large/large-d0", "never": "half-bound"}, manifests=[WIDE], until=20)
    assert sorted(is_bound(cluster, "large-d0")) == [False, False, False, True]
    assert is_bound(cluster, "large-p0") == [True] * 4


def test_never_enqueued_leaves_the_pod_group_pending() -> None:
    cluster, _ = played(
        {"of": D0, "never": "enqueued"}, manifests=[BESIDE, EXAMPLE], ascend_operator=True, until=20
    )
    group = next(
        g for g in cluster.peek(POD_GROUPS) if objects.name(g).startswith("mindie-server-d0")
    )
    assert objects.status(group).get("phase") in (None, "Pending")
    assert pods_of(cluster, "mindie-server-d0") == []


@pytest.mark.parametrize("never", ["made", "created"])
def test_an_operator_that_makes_no_pods_of_one_job_makes_those_of_others(never: str) -> None:
    cluster, _ = played(
        {"of": D0, "never": never}, manifests=[BESIDE, EXAMPLE], ascend_operator=True, until=20
    )
    assert pods_of(cluster, "mindie-server-d0") == []
    assert len(pods_of(cluster, "mindie-server-p0")) == 1
    made = any(
        objects.name(group).startswith("mindie-server-d0") for group in cluster.peek(POD_GROUPS)
    )
    assert made == (never == "created")  # what is never made is not even looked at


@pytest.mark.parametrize(
    ("of", "gone", "there"),
    [("mixed/prefill", "prefill-", "decode-0"), ("mixed/decode-0", "decode-0", "prefill-")],
)
def test_owners_of_other_kinds_make_no_pods_either(of: str, gone: str, there: str) -> None:
    cluster, _ = played({"of": of, "never": "made"}, manifests=[MIXED], until=20)
    assert pods_of(cluster, gone) == []
    assert pods_of(cluster, there) != []


def test_never_created_is_refused_to_the_scaler_too_which_says_so() -> None:
    cluster, timeline = played({"of": D0, "never": "created"}, until=20)
    assert pods_of(cluster, "mindie-server-d0") == []
    assert (
        timeline.last("mindie/scaling-rule/mindie").reasons["mindie-server-d0"] == "CreateRefused"
    )


def test_never_running_stays_bound_and_pending() -> None:
    cluster, _ = played({"of": D0, "never": "running"})
    assert is_bound(cluster, "mindie-server-d0") == [True]
    assert phases(cluster, "mindie-server-d0") == ["Pending"]
    assert phases(cluster, "mindie-server-p0") == ["Running"]


def test_never_ending_stays_terminating() -> None:
    delete = {
        "at": "30s",
        "delete": {"kind": "AscendJob", "namespace": "mindie", "name": "mindie-server-d0"},
    }
    cluster, _ = played({"of": D0, "never": "ending"}, events=[delete], until=300)
    assert [objects.terminating(pod) for pod in pods_of(cluster, "mindie-server-d0")] == [True]
    cluster, _ = played(events=[delete], until=300)
    assert pods_of(cluster, "mindie-server-d0") == []


def test_a_curse_that_meets_nobody_is_told() -> None:
    _, timeline = played({"of": "mindie/mindie-server-d7", "never": "bound"}, until=10)
    words = [moment.text for moment in timeline.moments if moment.kind is MomentKind.WARNING]
    assert "the curse of mindie/mindie-server-d7 (never bound) met no object" in words


def test_what_is_taken_from_the_scheduler_is_counted_apart_from_what_had_a_node() -> None:
    """The decode job is deleted while its pod waits for the scheduler, the prefill job while its
    pod runs."""
    jobs = [("40s", "mindie-server-d0"), ("45s", "mindie-server-p0")]
    gone = [
        {"at": at, "delete": {"kind": "AscendJob", "namespace": "mindie", "name": name}}
        for at, name in jobs
    ]
    _, timeline = played({"of": D0, "never": "bound"}, events=gone, until=60)
    end = timeline.last("mindie/scaling-rule/mindie")
    assert (end.revocations, end.evictions, end.pods_deleted) == (1, 1, 2)


@pytest.mark.parametrize(
    ("of", "meant"),
    [
        ("mindie/p1", True),  # the job, and all its pods
        ("mindie/p*", True),
        ("*/p1", True),
        ("mindie/p", False),  # not another job whose name goes on
        ("other/p1", False),
        ("p1", False),  # that is default/p1
        ("mindie/p1-master-0", True),  # one pod
        ("mindie/p1-worker-0", False),
    ],
)
def test_whom_a_curse_means(of: str, meant: bool) -> None:
    curses = Curses([Curse.model_validate({"of": of, "never": "bound"})], lambda: 0.0)
    owner = {"kind": "AscendJob", "name": "p1", "uid": "u", "controller": True}
    pod: Object = {
        "metadata": {"name": "p1-master-0", "namespace": "mindie", "ownerReferences": [owner]},
        "spec": {},
    }
    assert curses(Never.BOUND, pod) is meant
    assert not curses(Never.RUNNING, pod)


def test_a_scheduler_that_stops_binds_nothing_until_it_goes_on() -> None:
    events = [
        {"at": 0, "scheduler": "stopped"},
        {"at": "30s", "name": "back", "scheduler": "running"},
    ]
    _, timeline = played(events=events, settings={"minimum_timeout": 300}, until=60)
    runs = [
        sample.at
        for sample in timeline.samples["mindie/scaling-rule/mindie"]
        if sample.running.get("group1")
    ]
    assert 38 <= runs[0] < 45
    words = [moment.text for moment in timeline.moments if moment.kind is MomentKind.EVENT]
    assert {"the scheduler: stops", "the scheduler: goes on"} <= set(words)
