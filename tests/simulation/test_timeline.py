"""The lines of a simulation tell the truth in time: nothing that passes by itself, who did it, to
which service."""

from __future__ import annotations

import io
from typing import Any

from scaler.sim.stories.timeline import Moment, MomentKind, Sample, Timeline
from scaler.tools.demo.screen import Screen
from tests.simulation.worlds import EXAMPLE, played, scenario

SERVICE = "mindie/scaling-rule/mindie"
RULE = {"namespace": "mindie", "name": "scaling-rule"}


def texts(
    *events: dict[str, Any], kind: MomentKind, nodes: int = 4, until: int = 300, **more: Any
) -> list[str]:
    made = played(scenario(nodes, [EXAMPLE], events=list(events), until=until, **more))
    return [moment.text for moment in made.moments if moment.kind is kind]


def test_a_service_that_is_just_being_applied_lacks_nothing() -> None:
    assert texts(kind=MomentKind.WARNING) == []


def test_what_is_missing_for_longer_is_said_and_so_is_that_it_is_resolved() -> None:
    gone = {
        "at": 60,
        "delete": {"kind": "AscendJob", "namespace": "mindie", "name": "mindie-server-p1"},
    }
    back = {"at": 120, "apply": EXAMPLE}
    first, second = texts(gone, back, kind=MomentKind.WARNING)
    assert first.startswith(
        "TargetUnreachable: the ratio 2 group0 + 1 group1 needs 2 of group0, 1 exist"
    )
    assert second == "resolved: TargetUnreachable"


def test_another_rule_is_said_with_its_ratios_and_those_before() -> None:
    smaller = {"at": 60, "rule": {**RULE, "replace": {'"group_num": "2"': '"group_num": "1"'}}}
    found = [text for text in texts(smaller, kind=MomentKind.TARGET) if text.startswith("rule ")]
    assert found == [
        "rule group0=1 group1=1 > group0=1 group1=1; before: group0=2 group1=1 > group0=1 group1=1"
    ]


def line(*services: str) -> str:
    timeline = Timeline()
    out = io.StringIO()
    for service in services:
        timeline.add(service, Sample(0.0))
    screen = Screen(out, timeline, live=False, paced=False)
    screen.tell(Moment(1.0, MomentKind.INSTANCE, "Running: Runs.", SERVICE, "mindie-server-p0"))
    return out.getvalue().strip()


def test_of_several_services_each_line_says_which_it_is_about() -> None:
    assert line(SERVICE) == "00:01  · p0 runs"
    assert line(SERVICE, "a/b/c") == f"00:01  · p0 runs  [{SERVICE}]"
