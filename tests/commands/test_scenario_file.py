"""Scenario files: what is wrong is said with file, line and column, and the schema in the
repository is fresh."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from scaler.defaults import Mode
from scaler.sim.stories.play import settings_of
from scaler.sim.stories.scenario import Copies, Scenario, json_schema
from scaler.tools.simulate.scenario_file import ScenarioError, check_inputs, load_scenario

ROOT = Path(__file__).resolve().parents[2]
FILES = [
    *sorted((ROOT / "tests" / "scenarios").glob("*.yaml")),
    *sorted((ROOT / "docs" / "scenarios").glob("*.yaml")),
    *sorted((ROOT / "docs" / "scenarios" / "load").glob("*.yaml")),
    ROOT / "manifests" / "examples" / "demo.yaml",
]
VALIDATOR = jsonschema.Draft202012Validator(json_schema())
LOAD = """nodes: [{}]
load:
  - service: %s
    requests: %s
    autoscalers: %s
    prompt: 1
    answer: 1
    prefill: {tokens_per_second: 1}
    decode: {tokens_per_second: %s}
"""


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
        (
            "nodes:\n  - count: 0\n",
            "s.yaml:2:5: nodes.0.count: Input should be greater than or equal to 1",
        ),
        (
            "nodes: [{}]\nuntil: 5x\n",
            "s.yaml:2:1: until: '5x' is not a duration; write seconds (90) or 90s, 2m30s, 1h",
        ),
        (
            "nodes: [{}]\nevents:\n  - at: 1s\n",
            "s.yaml:3:5: events.0: an event needs exactly one of node, apply,",
        ),
        (
            "nodes: [{}]\nexpect: [{after: x, complete: true}]\n",
            "s.yaml:1:1: scenario: no event is named 'x'",
        ),
        (
            "nodes: [{}]\nexpect: [{at: 5}]\n",
            "s.yaml:2:10: expect.0: nothing is expected; give one of running,",
        ),
        (
            "nodes: [{count: 2, name: n}]\n",
            "s.yaml:1:9: nodes.0: several nodes need {} in their name",
        ),
        (
            "nodes: [{}]\ncopies: [{manifests: [m], namespace: a, count: 2}]\n",
            "s.yaml:2:10: copies.0: several copies need",
        ),
        (
            "nodes: [{}]\nexpect: [{serving: 1, complete: true}]\n",
            "s.yaml:2:10: expect.0: serving is about all services",
        ),
        (
            "nodes: [{}]\nsettings:\n  minimum_timeout: 0\n",
            "s.yaml:3:3: settings.minimum_timeout: Input should be greater than or equal to 1",
        ),
        ("nodes: [{}]\nsettings:\n  revok: true\n", "s.yaml:3:3: settings.revok: unknown key"),
        (
            "nodes: [{}]\nsettings: {retry_period: 9}\n",
            (
                "s.yaml:2:1: settings: 1.2 * retry_period (9 s) < renew_deadline (5 s) <"
                " lease_duration (8 s) must hold"
            ),
        ),
        (
            "nodes: [{}]\nsettings: {http_port: 80}\n",
            "s.yaml:2:1: settings: http_port: nothing is served",
        ),
        (
            "nodes: [{}]\ncurse:\n  - {of: a/b, never: found}\n",
            "s.yaml:3:15: curse.0.never: Input should be 'bound', 'half-bound',",
        ),
        (
            "nodes: [{}]\ncurse: [{of: a/b, never: bound, since: 1}]\n",
            "s.yaml:2:33: curse.0.since: unknown key",
        ),
        (
            "nodes: [{}]\ncurse: [{of: a/b, never: bound, from: 2m, until: 1m}]\n",
            "s.yaml:2:9: curse.0: it ends (until: 60 s) before it begins (from: 120 s)",
        ),
        (
            "nodes: [{}]\ncurse: [{of: a/b, never: bound, from: 1h}]\n",
            "s.yaml:1:1: scenario: 3600 s is after the end",
        ),
        (
            "nodes: [{}]\nevents: [{at: 1, scheduler: off}]\n",
            "s.yaml:2:18: events.0.scheduler: Input should be",
        ),
        (
            "nodes: [{}]\nexpect: [{serving_at_least: 1, running: {}}]\n",
            "s.yaml:2:10: expect.0: serving_at_least is about all services",
        ),
        ("nodes: [{name: n}, {name: n}]\n", "two nodes are named n"),
        (
            "nodes: [{}]\nmanifests: [absent.yaml]\n",
            "absent.yaml: [Errno 2] No such file or directory",
        ),
        ("nodes: [\n", "s.yaml:2:1: not YAML:"),
        ("", "s.yaml: scenario: Input should be a valid dictionary"),
    ],
)
def test_a_wrong_file_is_told_where_and_what(tmp_path: Path, text: str, says: str) -> None:
    found = problems(tmp_path, text)
    assert len(found) == 1
    assert found[0].startswith(says)


@pytest.mark.parametrize(
    ("service", "requests", "autoscalers", "says"),
    [
        ("a/b/c", "{}", "[]", "load.0.requests: give either points or day"),
        (
            "a/b/c",
            "{points: [[2m, 1], [1m, 2]]}",
            "[]",
            "requests: the times of the points have to rise",
        ),
        ("chat", "{points: [[0, 1]]}", "[]", "load.0.service: String should match pattern"),
        (
            "a/-/c",
            "{points: [[0, 1]]}",
            "[{metrics: [{of: rate, average: 1}], most: 2}]",
            "load.0: with a rule autoscalers scale the service, without one prefill or decode",
        ),
        (
            "a/b/c",
            "{points: [[0, 1]]}",
            "[{metrics: [{of: rate, stage: decode, average: 1}], most: 2}]",
            "metrics.0: rate is of both stages together",
        ),
        (
            "a/b/c",
            "{points: [[0, 1]]}",
            "[{metrics: [{of: rate, average: 1}], least: 3, most: 2}]",
            "autoscalers.0: least (3) is more than most (2)",
        ),
    ],
)
def test_a_wrong_load_is_told(
    tmp_path: Path, service: str, requests: str, autoscalers: str, says: str
) -> None:
    (found,) = problems(tmp_path, LOAD % (service, requests, autoscalers, 1))
    assert says in found


def test_what_a_load_cannot_be_is_told(tmp_path: Path) -> None:
    load = LOAD % ("a/b/c", "{points: [[0, 1]]}", "[]", 100)
    (found,) = problems(tmp_path, load)
    assert "load.0: an answer is decoded in 0.64 s; less than 1 s is not modelled" in found
    once = LOAD % ("a/b/c", "{points: [[0, 1]]}", "[]", 1)
    (found,) = problems(tmp_path, once + once.removeprefix("nodes: [{}]\nload:\n"))
    assert "two loads are for the same service" in found


def test_a_load_is_expected_in_an_entry_of_its_own(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, "nodes: [{}]\nexpect: [{lost_at_most: 0, within: 5}]\n")
    assert "expect.0: lost_at_most and queue_at_most need an entry of their own" in found


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    assert len(problems(tmp_path, "nodes: [{count: 0}, {npu: -1}]\nuntill: 1\n")) == 3


def test_paths_are_relative_to_the_file() -> None:
    scenario = load_scenario(ROOT / "manifests" / "examples" / "demo.yaml")
    assert scenario.manifests == [ROOT / "manifests" / "examples" / "2p1d"]


def test_the_schema_in_the_repository_is_fresh() -> None:
    fresh = json.dumps(json_schema(), indent=2) + "\n"
    assert (ROOT / "schemas" / "scenario.schema.json").read_text() == fresh, "run: make generated"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_schema_accepts_what_the_model_accepts(path: Path) -> None:
    load_scenario(path)
    VALIDATOR.validate(yaml.safe_load(path.read_text()))


def test_settings_are_the_controllers_own_and_what_is_not_said_is_as_delivered(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        "nodes: [{}]\nascend_operator: true\nsettings: {minimum_timeout: 77, revoke: false}\n"
    )
    settings = settings_of(load_scenario(path))
    assert (settings.minimum_timeout, settings.revoke) == (77.0, False)
    assert (settings.mode, settings.arbitration, settings.fit_patience) == (Mode.GATES, True, 60.0)
    assert not settings.leader_election


def test_arbitration_is_off_where_either_key_says_so() -> None:
    said: list[dict[str, object]] = [
        {},
        {"arbitration": False},
        {"settings": {"arbitration": False}},
    ]
    scenarios = [Scenario.model_validate({"nodes": [{}], **one}) for one in said]
    assert [settings_of(scenario).arbitration for scenario in scenarios] == [True, False, False]


def test_a_text_to_replace_that_is_nowhere_is_a_mistake(tmp_path: Path) -> None:
    manifest = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: one}\n"
    (tmp_path / "m.yaml").write_text(manifest)
    text = "nodes: [{}]\ncopies: [{manifests: [m.yaml], replace: {one: two, three: four}}]\n"
    assert problems(tmp_path, text) == ["copies copy-{}: no manifest contains 'three'"]


def test_copies_arrive_one_after_another_in_namespaces_that_sort_like_numbers() -> None:
    copies = Copies.model_validate(
        {"manifests": ["m"], "namespace": "chat-{}", "first": 9, "count": 2, "every": "10s"}
    )
    assert list(copies.arrivals()) == [(0.0, "chat-09"), (10.0, "chat-10")]
