"""What MindCluster's scheduler asks of a node for a pod with NPUs."""

from __future__ import annotations

import pytest

from scaler.decide.nodes import PodRequest, PodRequests, Where
from scaler.workloads.npu_rules import (
    NO_JOB,
    Devices,
    NpuJob,
    as_placed,
    is_seen_together,
    npu_job_of,
    offered,
    why_never_placed,
)

NPU = "huawei.com/Ascend910"
ANYWHERE = Where()
A3 = Where((("accelerator-type", "module-a3-16"),))


def pod(npus: int, where: Where = ANYWHERE, **more: int) -> PodRequest:
    asked = {**more, "pods": 1} | ({NPU: npus} if npus else {})
    return PodRequest(tuple(sorted(asked.items())), where)


def seen(pods: PodRequests, job: NpuJob = NO_JOB) -> set[tuple[str, int]]:
    """What the scheduler asks beside Kubernetes, and the nodes of a block."""
    found = set()
    for before, after in as_placed(pods, job).items():
        more = dict(after.requests).keys() - dict(before.requests).keys()
        found |= {(name.removeprefix(f"{NPU}#"), after.block) for name in more}
    return found


@pytest.mark.parametrize(
    ("pods", "job", "expected"),
    [
        (((pod(8), 1),), NO_JOB, ("chips", 0)),
        (((pod(8), 2),), NO_JOB, ("chips+linked", 0)),
        (((pod(16, A3), 1),), NO_JOB, ("cards", 0)),
        (((pod(1, A3), 1),), NO_JOB, ("chips", 0)),
        (((pod(16, A3), 2),), NO_JOB, ("cards+linked", 0)),
        (((pod(16), 2),), NpuJob(policy="chip2-node16"), ("cards+linked", 0)),
        (((pod(8), 1),), NpuJob(sub_health="graceExit"), ("chips+well", 0)),
        (((pod(8), 1),), NpuJob(sub_health="ignore"), ("chips", 0)),
        (((pod(16), 4),), NpuJob(block="64"), ("super-pod", 4)),
        (((pod(16), 4),), NpuJob(block="32"), ("super-pod+linked", 2)),
        (((pod(16), 4),), NpuJob(block="16"), ("super-pod+linked", 0)),
        (((pod(8), 1),), NpuJob(block="8"), ("super-pod", 0)),
        (((pod(16), 4),), NpuJob(block="64", is_soft=True), ("super-pod", 0)),
        (((pod(16), 4),), NpuJob(block="64", policy="of tomorrow"), ("super-pod", 4)),
        (((pod(16), 4),), NpuJob(block="64", policy="chip8-node8"), ("chips+linked", 0)),
        (((pod(16), 4),), NpuJob(block="48"), ("super-pod+linked", 0)),
        (((pod(8), 2),), NpuJob(block="16", policy="chip2-node8-sp"), ("super-pod", 2)),
    ],
)
def test_what_a_pod_asks_of_its_node(
    pods: PodRequests, job: NpuJob, expected: tuple[str, int]
) -> None:
    assert seen(pods, job) == {expected}


def test_a_super_pod_by_its_selector_is_one_block() -> None:
    where = Where((("accelerator-type", "module-a3-16-super-pod"),))
    assert seen(((pod(16, where), 2),)) == {("super-pod", 2)}


def test_pods_without_npus_are_asked_nothing_of() -> None:
    assert as_placed(((pod(0, cpu=1), 2),), NpuJob(block="32")) == {}


@pytest.mark.parametrize(
    ("pods", "job", "words"),
    [
        (((pod(16), 4),), NpuJob(block="64"), ""),
        (((pod(16), 4),), NpuJob(block="48"), "its 64 NPUs are no multiple of sp-block 48"),
        (((pod(8), 2),), NpuJob(block="16", policy="chip2-node8-sp"), ""),
        (((pod(16), 2),), NpuJob(block="24", policy="chip8-node8"), ""),
        (((pod(8), 2),), NpuJob(block="of tomorrow"), ""),
        (((pod(3), 1),), NO_JOB, ""),
        (((pod(0, cpu=1), 3),), NpuJob(block="48"), ""),
    ],
)
def test_what_the_plugin_never_starts(pods: PodRequests, job: NpuJob, words: str) -> None:
    assert why_never_placed(pods, job) == words


@pytest.mark.parametrize(
    ("pods", "job", "expected"),
    [
        (((pod(16), 4),), NpuJob(block="64"), True),
        (((pod(16), 4),), NpuJob(block="16"), True),
        (((pod(16), 4),), NpuJob(block="32", is_soft=True), True),
        (((pod(16), 1), (pod(0, cpu=1), 1)), NpuJob(block="16"), False),
        (((pod(16, A3), 4),), NO_JOB, False),
        (((pod(0, cpu=1), 4),), NpuJob(block="16"), False),
    ],
)
def test_the_plugin_has_to_see_all_pods_of_a_super_pod_job_at_once(
    pods: PodRequests, job: NpuJob, *, expected: bool
) -> None:
    assert is_seen_together(pods, job) is expected


def test_half_a_card_of_atlas_a3_is_never_started() -> None:
    assert why_never_placed(((pod(3, A3), 1),), NO_JOB).startswith("a pod of it asks for 3 NPUs")
    assert why_never_placed(((pod(1, A3), 1),), NO_JOB) == ""


def test_a_block_that_no_super_pod_has_is_never_started_and_asks_for_no_block() -> None:
    asked = ((pod(16), 4),)
    job = NpuJob(block="64")
    assert why_never_placed(asked, job, 2) == "sp-block 64 is more than a super-pod of 2 nodes has"
    assert {one.block for one in as_placed(asked, job, 2).values()} == {0}
    assert {one.block for one in as_placed(asked, job, 4).values()} == {4}


def test_the_pods_of_a_block_count_as_the_largest() -> None:
    leader = pod(16, cpu=8)
    worker = pod(16, cpu=4)
    placed = as_placed(((leader, 1), (worker, 3)), NpuJob(block="64"))
    assert placed[leader] == placed[worker]
    assert dict(placed[worker].requests)["cpu"] == 8
    assert placed[worker].rounded


CHIPS = frozenset(f"Ascend910-{index}" for index in range(16))


@pytest.mark.parametrize(
    ("devices", "resource", "expected"),
    [
        (Devices(CHIPS), "chips", 0),
        (Devices(CHIPS), "super-pod", None),
        (Devices(CHIPS, super_pod=0), "super-pod", 0),
        (Devices(CHIPS, frozenset({"Ascend910-2", "Ascend910-5"})), "chips", 2),
        (Devices(CHIPS, frozenset({"Ascend910-2", "Ascend910-5"})), "cards", 4),
        (Devices(CHIPS, frozenset({"Ascend910-2", "Ascend910-3"})), "cards", 2),
        (Devices(CHIPS, off_the_network=frozenset({"Ascend910-2"})), "chips", 0),
        (Devices(CHIPS, off_the_network=frozenset({"Ascend910-2"})), "chips+linked", 1),
        (Devices(CHIPS, off_the_network=frozenset({"Ascend910-2"})), "cards+linked", 2),
        (Devices(CHIPS, sub_healthy=True), "chips", 0),
        (Devices(CHIPS, sub_healthy=True), "chips+well", 16),
        (Devices(CHIPS, super_pod=3, barred="NodeD says PreSeparate"), "super-pod", 16),
    ],
)
def test_how_many_chips_a_node_does_not_offer(
    devices: Devices, resource: str, expected: int | None
) -> None:
    assert offered(NPU, 16, devices).get(f"{NPU}#{resource}") == expected


def test_what_a_job_says_is_read_from_its_metadata() -> None:
    labels = {"super-pod-affinity": "soft", "fault-scheduling": "force"}
    annotations = {"sp-block": "32", "huawei.com/schedule_policy": "chip2-node16-sp"}
    expected = NpuJob("32", "chip2-node16-sp", is_soft=True, rescheduling="force")
    assert npu_job_of(annotations, labels) == expected
    assert npu_job_of({"sp-block": 32}, {}) == NO_JOB


def test_the_blocks_of_a_server_of_mindie_stay_whole() -> None:
    labels = {"super-pod-affinity": "soft", "app": "mindie-ms-server", "jobID": "a"}
    assert not npu_job_of({"sp-block": "32"}, labels).is_soft
