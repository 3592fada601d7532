"""Requests and autoscalers on the simulated cluster, and the page that quotes their figures."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from scaler.sim.stories.play import play, silence_logs
from scaler.sim.stories.scenario import Scenario
from scaler.sim.stories.timeline import MomentKind, Timeline
from scaler.tools.simulate.figures import Figures, figures, table
from scaler.tools.simulate.scenario_file import check_inputs, load_scenario
from tests.simulation.worlds import ROOT, played

PAGE = ROOT / "docs" / "explanation" / "following-the-load.md"
FOLDER = ROOT / "docs" / "scenarios" / "load"
CHAT = FOLDER / "manifests" / "chat.yaml"
LADDER = "ladder/rule/chat"
APART = "apart/-/chat"


@cache
def told(name: str) -> list[Figures]:
    scenario = load_scenario(FOLDER / name)
    check_inputs(scenario)
    return figures(scenario.load, played(scenario, seed=scenario.seed))


def shown() -> dict[str, list[str]]:
    """Scenario file -> the lines that the page shows of it."""
    blocks = re.findall(
        r"```console\n\$ [^\n]* (\S+\.yaml)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL
    )
    return {Path(file).name: body.splitlines() for file, body in blocks}


@pytest.mark.long("up to half a minute of CPU each")
@pytest.mark.parametrize("name", ["long-answers.yaml", "long-prompts.yaml", "day.yaml"])
def test_the_page_shows_what_the_command_prints(name: str) -> None:
    assert shown()[name] == table(told(name))


def test_the_page_shows_every_scenario_of_its_folder() -> None:
    assert set(shown()) == {path.name for path in FOLDER.glob("*.yaml")}


def test_the_page_adds_up_what_it_shows() -> None:
    rows = {
        cells[0]: cells for line in shown()["day.yaml"][1:] if (cells := re.split(r"  +", line))
    }
    text = PAGE.read_text("utf-8")

    def both(side: str, column: int) -> float:
        return sum(
            float(cells[column].replace(",", ""))
            for name, cells in rows.items()
            if name.startswith(side)
        )

    sides = ("ladder", "apart")
    assert "| lost | {:,.0f} | {:,.0f} |".format(*(both(side, 2) for side in sides)) in text
    assert "no ratio names | {:.2f} | {:.2f} |".format(*(both(side, 8) for side in sides)) in text
    assert "| NPU-hours | {:,.0f} | {:,.0f} |".format(*(both(side, 7) for side in sides)) in text
    assert f"costs {100 * (both('ladder', 7) / both('apart', 7) - 1):.0f} % more NPU-hours" in text


def world(*loads: dict[str, Any], until: str = "20m", **more: Any) -> Scenario:
    """A governed service and one that no rule governs, on nodes for both."""
    replace = {
        "mind-cluster/scaling-rule: rule": "governed-by: nobody",
        "replicas: 2": "replicas: 1",
    }
    common = {
        "requests": {"points": [[0, 2]]},
        "from": "2m",
        "prompt": 3000,
        "answer": 400,
        "prefill": {"group": "prefill", "tokens_per_second": 12000},
        "decode": {"group": "decode", "tokens_per_second": 4800, "sequences": 192},
    }
    return Scenario.model_validate(
        {
            "nodes": [{"name": "a-{}", "count": 12, "npu": 16, "labels": {"pool": "a"}}],
            "copies": [
                {"namespace": "ladder", "manifests": [CHAT]},
                {"namespace": "apart", "manifests": [CHAT], "replace": replace},
            ],
            "load": [common | load for load in loads],
            "until": until,
            **more,
        }
    )


def numbers(timeline: Timeline, service: str) -> list[str]:
    said = "autoscaler: "
    return [
        m.text.removeprefix(said)
        for m in timeline.moments
        if m.service == service and m.text.startswith(said)
    ]


def test_an_autoscaler_moves_the_service_along_the_ladder() -> None:
    scaler = {"metrics": [{"of": "rate", "average": 2.1}], "least": 3, "most": 8}
    timeline = played(
        world(
            {
                "service": LADDER,
                "requests": {"points": [["5m", 2], ["8m", 14]]},
                "autoscalers": [scaler],
            },
            expect=[
                {"at": "5m", "service": LADDER, "target": {"prefill": 2, "decode": 1}},
                {"service": LADDER, "running": {"prefill": 5, "decode": 2}},
            ],
        )
    )
    moves = numbers(timeline, LADDER)
    assert moves[0] == "ElasticService rule-chat from all to 8"
    assert moves[-1].endswith(" to 7")


def test_without_a_rule_each_deployment_has_an_autoscaler_of_its_own() -> None:
    scalers = [
        {"scales": "prefill", "metrics": [{"of": "rate", "average": 1.0}], "most": 5},
        {
            "scales": "decode",
            "metrics": [{"of": "busy", "stage": "decode", "average": 0.5}],
            "most": 5,
        },
    ]
    timeline = played(world({"service": APART, "autoscalers": scalers}))
    assert timeline.last(APART).running == {"prefill": 2, "decode": 1}
    assert numbers(timeline, APART)[0] == "Deployment prefill from 6 to 5"


def test_what_a_lost_node_was_decoding_is_lost_and_what_a_deleted_pod_was_decoding_is_not() -> None:
    fault = {"at": "10m", "node": {"of_job": "apart/decode", "becomes": "not-ready"}}
    scale = {
        "at": "10m",
        "patch": {
            "object": {"kind": "Deployment", "name": "decode", "namespace": "apart"},
            "merge": {"spec": {"replicas": 0}},
        },
    }
    lost = {}
    for name, event in (("fault", fault), ("scale", scale)):
        silence_logs()
        made = play(
            world({"service": APART, "patience": "1h"}, until="15m", events=[event]), seed=0
        )
        lost[name] = round(made.loads[APART][-1].lost)
    assert lost == {"fault": 32, "scale": 0}  # 2 a second, 16 s each


def test_nothing_is_lost_while_there_are_instances_enough() -> None:
    timeline = played(
        world(
            {"service": LADDER},
            {"service": APART},
            expect=[
                {"service": LADDER, "lost_at_most": 0, "queue_at_most": 0},
                {"service": APART, "at": "15m", "lost_at_most": 0},
            ],
        )
    )
    ladder, apart = (timeline.loads[name][-1] for name in (LADDER, APART))
    assert ladder.arrived == apart.arrived == pytest.approx(2 * 18 * 60, rel=0.01)
    assert (ladder.npus, apart.npus) == (6 * 8 + 2 * 16, 6 * 8 + 16)


def test_a_load_for_nobody_is_told() -> None:
    timeline = played(world({"service": "typo/rule/chat"}, until="5m"))
    words = [moment.text for moment in timeline.moments if moment.kind is MomentKind.WARNING]
    assert "there was no service typo/rule/chat: all its requests are lost" in words
