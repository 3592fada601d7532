"""What MindIE Motor's own deployer applies, unchanged: eight services, and three sequences of
scaling by hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from scaler.defaults import Mode
from scaler.sim.stories.instances import Condition
from scaler.sim.stories.scenario import Scenario
from scaler.sim.stories.timeline import Timeline
from tests.parts import short_and_long
from tests.simulation.worlds import ROOT, played, scenario
from tests.stand_ins import deployment

BESIDE = ROOT / "tests" / "simulation" / "beside.yaml"
"""The namespace of MindIE Motor, with both labels."""

SERVICE = "mindie/scaling-rule/mindie"
SERVICES = {
    # name: (nodes that it needs at its largest ratio, prefill instances, decode instances)
    "A2_1P1D_p1pod_d1pod": (2, 1, 1),
    "A2_2P1D_p1pod_d1pod": (3, 2, 1),
    "A2_2P1D_p2pod_d4pod": (8, 2, 1),
    "A2_4P2D_p2pod_d2pod": (12, 4, 2),
    "A2_shipped_default_user_config": (10, 1, 1),
    "A3_1P1D_p1pod_d1pod": (2, 1, 1),
    "A3_2P1D_p2pod_d4pod": (8, 2, 1),
    "A3_4P2D_p1pod_d4pod": (12, 4, 2),
}


def story_of(name: str, folder: Path, *first: Path, **more: Any) -> Scenario:
    """It starts, loses nodes, degrades and recovers."""
    nodes, prefills, decodes = SERVICES[name]
    whole = {"group0": prefills, "group1": decodes}
    degraded = {"group0": prefills - 1, "group1": decodes}
    # Where the rule knows a smaller ratio, MindIE Controller gives a prefill instance up for a lost
    # decode instance.
    without_decode = degraded if prefills > 1 else {"group0": 1, "group1": 0}
    story = [
        {
            "at": "5m",
            "node": {"of_job": "mindie/mindie-server-p0", "at_most": 1, "becomes": "not-ready"},
        },
        {"at": "8m", "name": "first-return", "node": {"becomes": "ready"}},
        {
            "at": "12m",
            "name": "fault",
            "node": {"of_job": "mindie/mindie-server-d0", "at_most": 1, "becomes": "gone"},
        },
        {"at": "18m", "name": "return", "node": {"becomes": "ready"}},
    ]
    expect = [
        {"at": "5m", "running": whole, "complete": True, "pods_deleted": 0},
        {"at": "8m", "running": degraded},
        {"within": "2m", "after": "first-return", "running": whole, "complete": True},
        {"at": "18m", "running": without_decode},
        {"within": "3m", "after": "return", "running": whole, "complete": True},
    ]
    manifests = [*first, folder / "configmaps", folder / "deployment"]
    return scenario(
        nodes, manifests, a3=name.startswith("A3"), events=story, expect=expect, until="25m", **more
    )


@pytest.mark.parametrize("name", SERVICES)
def test_the_service_starts_loses_nodes_degrades_and_recovers(real_data: Path, name: str) -> None:
    played(story_of(name, real_data / "motor" / name))


@pytest.mark.parametrize("name", short_and_long(SERVICES, short=3, why="more services"))
def test_beside_ascend_operator_it_does_the_same_with_its_files_unchanged(
    real_data: Path, name: str
) -> None:
    story = story_of(name, real_data / "motor" / name, BESIDE, ascend_operator=True)
    played(story, before=[deployment()], mode=Mode.AUTO)


def kubectl_calls(step: Path, start: float) -> list[dict[str, Any]]:
    """The deployer's calls that concern jobs and the rule, in order, one a second; failed deletions
    included."""
    calls = (step / "kubectl_calls.txt").read_text().splitlines()
    events = (_event(re.sub(r"^\s*\d+ rc=\d+ kubectl ", "", call), step) for call in calls)
    return [{"at": start + number, **event} for number, event in enumerate(filter(None, events))]


def _event(call: str, step: Path) -> dict[str, Any]:
    if call.startswith("create configmap scaling-rule"):
        return {
            "rule": {
                "namespace": "mindie",
                "name": "scaling-rule",
                "file": step / "elastic_scaling.json",
            }
        }
    if found := re.match(r"delete configmap (\S+)", call):
        return {"delete": {"kind": "ConfigMap", "namespace": "mindie", "name": found[1]}}
    if found := re.match(r"(apply|delete) -f output/(\S+)", call):
        return {"apply" if found[1] == "apply" else "delete_file": step / found[2]}
    return {}


SEQUENCES = {
    # name: (end, jobs that the user deletes)
    "scale_A2_out_P_2P1D_to_4P1D": ({"group0": 4, "group1": 1}, set()),
    "scale_A2_in_P_4P2D_to_2P2D": (
        {"group0": 2, "group1": 2},
        {"mindie-server-p0", "mindie-server-p1"},
    ),
    "scale_A2_mixed_P_out_D_in_2P2D_to_4P1D": ({"group0": 4, "group1": 1}, {"mindie-server-d1"}),
}
SECOND_STEP = 300.0


@pytest.mark.parametrize("name", SEQUENCES)
def test_scaling_by_hand_ends_where_the_rule_says_and_touches_nothing_else(
    real_data: Path, name: str
) -> None:
    end, deleted = SEQUENCES[name]
    folder = real_data / "motor" / name
    story = [*kubectl_calls(folder / "step1", 0.0), *kubectl_calls(folder / "step2", SECOND_STEP)]
    timeline = played(
        scenario(
            10,
            [],
            events=story,
            expect=[{"running": end, "target": end, "complete": True}],
            until="15m",
        )
    )
    running = {view.name for view in timeline.at_time(SERVICE, SECOND_STEP).instances}
    assert all(always_runs(timeline, job) for job in running - deleted)


def always_runs(timeline: Timeline, job: str) -> bool:
    """From the second step on the instance never was anything but running."""
    return all(
        view.condition is Condition.RUNNING
        for _, _, sample in timeline.spans(SERVICE, SECOND_STEP)
        for view in sample.instances
        if view.name == job
    )
