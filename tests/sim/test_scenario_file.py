"""Scenario files: what is wrong is said with file, line and column, and the schema in the repository is fresh."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from scaler.sim.stories.scenario import Copies, json_schema
from scaler.sim.stories.scenario_file import ScenarioError, check_inputs, load_scenario

ROOT = Path(__file__).resolve().parents[2]
FILES = [
    *sorted((ROOT / "tests" / "scenarios").glob("*.yaml")),
    *sorted((ROOT / "docs" / "scenarios").glob("*.yaml")),
    ROOT / "manifests" / "examples" / "demo.yaml",
]


def problems(folder: Path, text: str) -> list[str]:
    """What loading this text says, without the folder."""
    path = folder / "s.yaml"
    path.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        check_inputs(load_scenario(path))
    return [problem.replace(f"{folder}/", "") for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nodes: [{}]\nuntill: 5m\n", "s.yaml:2:1: untill: unknown key"),
        ("nodes:\n  - count: 0\n", "s.yaml:2:5: nodes.0.count: Input should be greater than or equal to 1"),
        ("nodes: [{}]\nuntil: 5x\n", "s.yaml:2:1: until: '5x' is not a duration; write seconds (90) or 90s, 2m30s, 1h"),
        ("nodes: [{}]\nevents:\n  - at: 1s\n", "s.yaml:3:5: events.0: an event needs exactly one of node, apply,"),
        ("nodes: [{}]\nexpect: [{after: x, complete: true}]\n", "s.yaml:1:1: scenario: no event is named 'x'"),
        ("nodes: [{}]\nexpect: [{at: 5}]\n", "s.yaml:2:10: expect.0: nothing is expected; give one of running,"),
        ("nodes: [{count: 2, name: n}]\n", "s.yaml:1:9: nodes.0: several nodes need {} in their name"),
        (
            "nodes: [{}]\ncopies: [{manifests: [m], namespace: a, count: 2}]\n",
            "s.yaml:2:10: copies.0: several copies need",
        ),
        (
            "nodes: [{}]\nexpect: [{serving: 1, complete: true}]\n",
            "s.yaml:2:10: expect.0: serving is about all services",
        ),
        ("nodes: [{name: n}, {name: n}]\n", "two nodes are named n"),
        ("nodes: [{}]\nmanifests: [absent.yaml]\n", "absent.yaml: [Errno 2] No such file or directory"),
        ("nodes: [\n", "s.yaml:2:1: not YAML:"),
        ("", "s.yaml: scenario: Input should be a valid dictionary"),
    ],
)
def test_a_wrong_file_is_told_where_and_what(tmp_path: Path, text: str, says: str) -> None:
    found = problems(tmp_path, text)
    assert len(found) == 1
    assert found[0].startswith(says)


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    assert len(problems(tmp_path, "nodes: [{count: 0}, {npu: -1}]\nuntill: 1\n")) == 3


def test_paths_are_relative_to_the_file() -> None:
    scenario = load_scenario(ROOT / "manifests" / "examples" / "demo.yaml")
    assert scenario.manifests == [ROOT / "manifests" / "examples" / "2p1d"]


def test_the_schema_in_the_repository_is_fresh() -> None:
    fresh = json.dumps(json_schema(), indent=2) + "\n"
    assert (ROOT / "schemas" / "scenario.schema.json").read_text() == fresh, "run: scaler schema scenario > schemas/..."


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_schema_accepts_what_the_model_accepts(path: Path) -> None:
    load_scenario(path)
    jsonschema.validate(yaml.safe_load(path.read_text()), json_schema())


def test_copies_arrive_one_after_another_in_namespaces_that_sort_like_numbers() -> None:
    copies = Copies.model_validate({"manifests": ["m"], "namespace": "chat-{}", "first": 9, "count": 2, "every": "10s"})
    assert list(copies.arrivals()) == [(0.0, "chat-09"), (10.0, "chat-10")]
