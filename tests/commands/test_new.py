"""`scaler new`: its files are right, are played to their expectations, and nothing is written
over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from scaler.cli import main
from scaler.sim.stories.manifests import read_manifests
from scaler.tools.common.short_file.service import read_service
from scaler.tools.demo.interactive import hints
from scaler.tools.deploy.objects import is_made_for, labelled
from scaler.tools.new.command import MOST, ladder
from scaler.tools.simulate.scenario_file import load_scenario
from tests.deploying.test_objects import EXAMPLES

PLATFORMS = ("ome", "aibrix", "mindie-motor")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_what_is_written_is_played_to_its_expectations(
    platform: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "3P1D", "--platform", platform, "-f", str(tmp_path / "a")]) == 0
    said = capsys.readouterr().out
    assert f"scaler demo --interactive -f {tmp_path / 'a'} --nodes 8" in said
    assert main(["simulate", str(tmp_path / "a" / "scenario.yaml")]) == 0
    assert " ok " in capsys.readouterr().out


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("ratio", ["1P1D", "4P2D", "64P64D", "1P9D"])
def test_every_ratio_makes_a_right_file_of_about_twenty_lines(
    platform: str, ratio: str, tmp_path: Path
) -> None:
    assert main(["new", ratio, "--platform", platform, "-f", str(tmp_path)]) == 0
    text = (tmp_path / "service.yaml").read_text()
    assert read_service(text).platform == platform
    assert len(text.splitlines()) <= 24
    assert load_scenario(tmp_path / "scenario.yaml").manifests == [tmp_path / "service.yaml"]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_with_replicas_a_new_service_starts_with_so_many_instances(
    platform: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["new", "3P1D", "--platform", platform, "-f", str(tmp_path), "--replicas", "2"]
    assert main(words) == 0
    assert f"kubectl apply -f {tmp_path / 'elastic-service.yaml'}" in capsys.readouterr().out
    first, second = ("group0", "group1") if platform == "mindie-motor" else ("prefill", "decode")
    (tmp_path / "small.yaml").write_text(
        "nodes: [{name: 'npu-{}', count: 4, labels: {accelerator: huawei-Ascend910,"
        " accelerator-type: module-910b-8}}, {name: 'cpu-{}', count: 2, npu: 0}]\n"
        "manifests: [elastic-service.yaml, service.yaml]\n"
        "events: [{at: 1s, name: start, mark: it starts}]\n"
        "expect:\n"
        f"- {{never_for: 1s, after: start, running: {{{first}: 2}}}}\n"
        f"- {{at: 4m, running: {{{first}: 1, {second}: 1}}, complete: true}}\n"
        "until: 5m\n"
    )
    assert main(["simulate", str(tmp_path / "small.yaml")]) == 0, capsys.readouterr()


def test_a_wrong_number_of_replicas_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "3P1D", "--platform", "ome", "--replicas", "-1"]) == 2
    assert "is no number from 0 to 128" in capsys.readouterr().err


def test_nothing_is_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "scenario.yaml").write_text("mine")
    assert main(["new", "1P1D", "--platform", "ome", "-f", str(tmp_path)]) == 1
    assert "is there already; nothing was written" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["scenario.yaml"]


def test_a_ladder_falls_to_one_and_one_in_few_steps() -> None:
    assert ladder(4, 2) == ["4P2D", "3P2D", "2P1D", "1P1D"]
    assert (
        max(
            len(ladder(prefill, decode))
            for prefill in range(1, MOST + 1)
            for decode in range(1, MOST + 1)
        )
        == 6
    )


def test_a_short_file_in_a_scenario_means_its_objects(tmp_path: Path) -> None:
    config = EXAMPLES / "elastic-aibrix" / "config.yaml"
    (tmp_path / "scenario.yaml").write_text(f"nodes: [{{}}]\nmanifests: [{config}]\n")
    load_scenario(tmp_path / "scenario.yaml")
    service = read_service(config.read_bytes())
    assert read_manifests(config) == [
        labelled(one, service.name, service.namespace) for one in service.objects
    ]


def test_a_mistake_in_a_short_file_of_a_scenario_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "1P1D", "--platform", "ome", "-f", str(tmp_path)]) == 0
    service = tmp_path / "service.yaml"
    service.write_text(service.read_text().replace("min_replicas", "min_replica"))
    assert main(["simulate", str(tmp_path / "scenario.yaml")]) == 2
    assert (
        f"{service}:9:5: inference_service.engine.min_replica: is not known here"
        in capsys.readouterr().err
    )


def test_the_demo_plays_a_folder_on_as_many_nodes_as_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    played: list[Any] = []
    monkeypatch.setattr(
        "scaler.tools.demo.interactive.keep_up", lambda scenario, **_: played.append(scenario)
    )
    assert main(["new", "4P2D", "--platform", "aibrix", "-f", str(tmp_path)]) == 0
    assert main(["demo", "--interactive", "-f", str(tmp_path), "--nodes", "12"]) == 0
    assert main(["demo", "--interactive", "-f", str(tmp_path)]) == 0
    told, usual = played
    assert [group.count for group in told.nodes] == [12, 2]
    assert [group.count for group in usual.nodes] == [6, 2]


def test_hints_name_what_is_there() -> None:
    objects = read_service((EXAMPLES / "motor" / "config.yaml").read_bytes()).objects
    said = hints(Path("k"), Path("service.yaml"), objects)
    assert "kubectl edit configmap scaling-rule" in said
    assert "kubectl delete acjob mindie-server-p1" in said
    assert "kubectl apply" not in said


def test_a_folder_with_a_space_is_quoted_in_the_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "1P1D", "--platform", "ome", "-f", str(tmp_path / "a b")]) == 0
    assert f"scaler deploy apply -c '{tmp_path}/a b/service.yaml'\n" in capsys.readouterr().out


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_short_file_is_judged_planned_and_written_out_without_a_cluster(
    platform: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("scaler.kube.client.connect", None)
    assert main(["new", "2P1D", "--platform", platform, "-f", str(tmp_path)]) == 0
    file = str(tmp_path / "service.yaml")
    assert main(["lint", file]) == 0
    capsys.readouterr()
    assert main(["plan", file, "--nodes", "3x huawei.com/Ascend910=8", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["complete"] == 1
    assert main(["deploy", "apply", "-c", file, "--dry-run=client"]) == 0
    written = capsys.readouterr().out
    assert next(yaml.safe_load_all(written))["kind"] == "ConfigMap"
    (tmp_path / "made.yaml").write_text(written)
    assert main(["lint", str(tmp_path / "made.yaml")]) == 0


def test_a_mistake_in_a_short_file_is_found_by_lint_and_plan_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "2P1D", "--platform", "ome", "-f", str(tmp_path)]) == 0
    file = tmp_path / "service.yaml"
    file.write_text(file.read_text().replace("min_replicas: 2", "min_replica: 2"))
    capsys.readouterr()
    assert main(["lint", str(file)]) == 1
    said = capsys.readouterr().out
    assert f"{file}:9:5: error: ServiceFileInvalid inference_service.engine.min_replica" in said
    assert "did you mean min_replicas?" in said
    assert main(["plan", str(file)]) == 1
    assert f"{file}:9:5: inference_service.engine.min_replica" in capsys.readouterr().err


@pytest.mark.parametrize("platform", PLATFORMS)
def test_what_the_sandbox_is_made_of_is_what_deploy_takes_for_its_own(
    platform: str, tmp_path: Path
) -> None:
    """`scaler new` names `demo --interactive` and then `deploy apply`: the second must not call the
    objects of the first somebody else's."""
    assert main(["new", "2P1D", "--platform", platform, "-f", str(tmp_path)]) == 0
    load_scenario(tmp_path / "scenario.yaml")
    made = read_manifests(tmp_path / "service.yaml")
    assert made
    assert [one for one in made if not is_made_for(one, "my-service", "default")] == []
