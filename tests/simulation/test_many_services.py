"""Twenty services on nodes that do not suffice: nobody above its target, nothing livelocks,
everybody has a reason."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from scaler.sim.stories.instances import Condition
from scaler.sim.stories.timeline import Timeline
from tests.simulation.worlds import EXAMPLE, failures, played, scenario

SERVICES = 20
QUIET = 600.0  # seconds at the end in which nothing may happen any more


def copies(folder: Path) -> list[Path]:
    """The example service once per namespace."""
    text = "\n---\n".join(path.read_text() for path in sorted(EXAMPLE.glob("*.yaml")))
    files = []
    for number in range(SERVICES):
        path = folder / f"service-{number:02}.yaml"
        own = f"mindie-{number:02}"
        path.write_text(
            text.replace("namespace: mindie", f"namespace: {own}").replace(
                "name: mindie\n", f"name: {own}\n"
            )
        )
        files.append(path)
    return files


def assert_sound(timeline: Timeline) -> None:
    assert failures(timeline) == []
    assert len(timeline.samples) == SERVICES
    for samples in timeline.samples.values():
        assert {view.name for view in samples[-1].instances} == set(samples[-1].reasons)
    last = max(moment.at for moment in timeline.moments)
    assert last < timeline.end - QUIET


@pytest.mark.long("twenty services for an hour")
@pytest.mark.parametrize("nodes", [20, 40])
def test_twenty_services_come_to_rest_without_ever_admitting_too_much(
    nodes: int, tmp_path: Path
) -> None:
    timeline = played(scenario(nodes, copies(tmp_path), until="1h"))
    assert_sound(timeline)
    assert timeline.serving()[-1][2] == nodes // 2
    for samples in timeline.samples.values():
        for sample in samples:
            # nothing fails here, so pods never outnumber the target of the moment
            if sample.target:
                occupied = Counter(
                    view.group for view in sample.instances if view.condition is not Condition.EMPTY
                )
                assert all(
                    count <= sample.target.get(group, 0) for group, count in occupied.items()
                )


@pytest.mark.long("twenty services and many faults")
def test_faults_of_many_nodes_at_once_are_survived(tmp_path: Path) -> None:
    lost = [f"npu-{number}" for number in range(0, 45, 3)]
    story = [
        {"at": "10m", "node": {"names": lost, "becomes": "not-ready"}},
        {"at": "30m", "name": "return", "node": {"becomes": "ready"}},
    ]
    timeline = played(scenario(60, copies(tmp_path), events=story, until="90m"))
    assert_sound(timeline)
    ends = [samples[-1] for samples in timeline.samples.values()]
    assert all(end.complete and end.running == {"group0": 2, "group1": 1} for end in ends)
