"""The objects of a short file: those of MindCluster's own deployer, but for the wanted differences,
each named here."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scaler.names import GATE, GROUP_LABEL, JOB_ID_LABEL, RULE_KEY, RULE_LABEL
from scaler.tools.common.short_file.elastic import MIN_AVAILABLE
from scaler.tools.common.short_file.motor import NEEDED
from scaler.tools.common.short_file.service import Service, read_service
from scaler.tools.lint.files import lint
from scaler.tools.lint.source import Source

EXAMPLES = Path(__file__).parent / "examples"
ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "reference" / "service-file.md"
WITH_OBJECTS = sorted(path.parent for path in EXAMPLES.glob("*/objects.yaml"))

ENGINE = {"pod_num": 1, "min_replicas": 1, "max_replicas": 1, "image": "sglang:1"}
WANTED: dict[str, tuple[str, dict[str, Any], str, Any]] = {
    "one replica by default": (
        "ome",
        {"min_replicas": None, "max_replicas": None},
        "engine.minReplicas",
        1,
    ),
    "as many at most as at least": (
        "ome",
        {"min_replicas": 3, "max_replicas": None},
        "engine.maxReplicas",
        3,
    ),
    "one pod by default": ("ome", {"pod_num": None}, "engine.schedulerName", "volcano"),
    "no empty image": ("ome", {"image": None}, "engine.runner.image", None),
    "a variable of the same name": (
        "ome",
        {"env_vars": {"TP_SIZE": "4"}},
        "engine.runner.env.1.value",
        "4",
    ),
    "texts as they stand": (
        "ome",
        {"env_vars": {"A": 'a"b\\n\nc'}},
        "engine.runner.env.4.value",
        'a"b\\n\nc',
    ),
    "variables of the router": (
        "router",
        {"env_vars": {"A": "1"}},
        "router.runner.env.0.value",
        "1",
    ),
    "a router has one pod by default": ("router", {}, "router.minReplicas", 1),
    "the store listens where the Service looks": (
        "store",
        {},
        "template.spec.containers.0.env.1.value",
        "9000",
    ),
    "probes ask the store's own port": (
        "store",
        {"readiness_probe": {}},
        "template.spec.containers.0.readinessProbe.httpGet.port",
        9000,
    ),
    "a liveness probe": (
        "store",
        {"liveness_probe": {}},
        "template.spec.containers.0.livenessProbe.initialDelaySeconds",
        30,
    ),
    "some resources only": (
        "store",
        {"resources": {"limits": {"cpu": 1}}},
        "template.spec.containers.0.resources.requests.cpu",
        "50m",
    ),
    "texts in the store's node selector": (
        "store",
        {"node_selector": {"npu": "8"}},
        "template.spec.nodeSelector.npu",
        "8",
    ),
}
"""What differs -> where it is configured, what with, where it shows, and what is there."""


def without_nulls(value: Any) -> Any:
    """As Kubernetes sees it."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def documents(path: Path) -> list[Any]:
    return [one for one in yaml.safe_load_all(path.read_text("utf-8")) if one is not None]


def service_of(config: Any) -> Service:
    return read_service(yaml.safe_dump(config, sort_keys=False))


def ome(**changes: Any) -> dict[str, Any]:
    """A file for OME with a decoder, changed where it is told."""
    return {
        "app_name": "chat",
        "inference_service": {
            "model_name": "qwen",
            "engine": {**ENGINE, **changes.get("ome", {})},
            "decoder": ENGINE,
            "router": changes.get("router", {}),
        },
        "mf_store": {"image": "sglang:1", **changes.get("store", {})},
    }


def at(value: Any, path: str) -> Any:
    for step in path.split("."):
        value = value[int(step)] if isinstance(value, list) else value.get(step)
    return value


@pytest.mark.parametrize("folder", WITH_OBJECTS, ids=lambda folder: folder.name)
def test_an_example_means_the_objects_beside_it(folder: Path) -> None:
    made = read_service((folder / "config.yaml").read_bytes())
    assert list(made.objects) == documents(folder / "objects.yaml")


@pytest.mark.parametrize("folder", WITH_OBJECTS, ids=lambda folder: folder.name)
def test_objects_say_where_they_belong(folder: Path) -> None:
    made = read_service((folder / "config.yaml").read_bytes())
    places = {(obj["metadata"]["namespace"], bool(obj["metadata"]["name"])) for obj in made.objects}
    assert places == {(made.namespace, True)}


def test_the_real_deployer_makes_the_same_objects(real_data: Path) -> None:
    cases = sorted((real_data / "deploy_tool").iterdir())
    for folder in cases:
        made = read_service(
            (folder / "config.yaml").read_bytes(),
            framework=(folder / "framework").read_text().strip(),
        )
        assert list(made.objects) == without_nulls(documents(folder / "objects.yaml")), folder.name
    assert len(cases) >= 5


def test_the_real_deployer_makes_the_same_objects_of_its_other_samples(real_data: Path) -> None:
    samples = real_data / "workload_samples" / "deploy_tool"
    cases = sorted(samples.glob("*__config.yaml"))
    for config in cases:
        stem = config.name.removesuffix("config.yaml")
        files = [path for path in samples.glob(f"{stem}*") if path != config]
        theirs = {
            one["kind"] + "/" + one["metadata"]["name"]: one
            for path in files
            for one in documents(path)
        }
        made = read_service(config.read_bytes(), framework=stem.split("__")[0])
        ours = {obj["kind"] + "/" + obj["metadata"]["name"]: obj for obj in made.objects}
        assert ours == without_nulls(theirs), config.name
    assert len(cases) >= 10


@pytest.mark.parametrize("name", WANTED)
def test_a_wanted_difference_is_as_told(name: str) -> None:
    where, changes, path, value = WANTED[name]
    made = service_of(without_nulls(ome(**{where: changes})))
    spec = made.objects[1 if where == "store" else 0]["spec"]
    assert at(spec, path) == value


def test_every_wanted_difference_is_documented() -> None:
    section = PAGE.read_text("utf-8").split("## Wanted differences\n")[1].split("\n## ")[0]
    assert re.findall(r"^\* \*\*(.+?)\*\*", section, re.MULTILINE) == [
        *WANTED,
        "what cannot work is refused",
    ]


def test_the_framework_of_the_environment_decides_which_section_counts() -> None:
    both = {**ome(), **yaml.safe_load((EXAMPLES / "aibrix-one-port" / "config.yaml").read_text())}
    kinds = [
        read_service(yaml.safe_dump(both), framework=one).objects[0]["kind"]
        for one in ("ome", "aibrix")
    ]
    assert kinds == ["InferenceService", "StormService"]


# -- elastic
# --------------------------------------------------------------------------------------------------


def templates(value: Any) -> Iterator[dict[str, Any]]:
    """Everything that has gates."""
    if isinstance(value, dict):
        if "schedulingGates" in value:
            yield value
        for inner in value.values():
            yield from templates(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from templates(inner)


@pytest.mark.parametrize("name", ["elastic-ome", "elastic-aggregated", "elastic-aibrix", "motor"])
def test_the_rule_comes_first_and_everything_passes_the_linter(name: str) -> None:
    made = read_service((EXAMPLES / name / "config.yaml").read_bytes())
    text = yaml.safe_dump_all(copy.deepcopy(list(made.objects)))
    report = lint([Source("made.yaml", text.encode(), listed=True)])
    errors = [finding for finding in report.findings if finding.level != "info"]
    assert RULE_KEY in made.objects[0]["data"]
    assert errors == []


@pytest.mark.parametrize(
    ("name", "gated"), [("elastic-ome", 3), ("elastic-aggregated", 1), ("elastic-aibrix", 2)]
)
def test_every_pod_of_an_instance_is_made_with_the_gate(name: str, gated: int) -> None:
    made = read_service((EXAMPLES / name / "config.yaml").read_bytes())
    found = [one["schedulingGates"] for one in templates(list(made.objects))]
    assert found == [[{"name": GATE}]] * gated


def test_ratios_change_nothing_but_what_makes_it_elastic() -> None:
    config = yaml.safe_load((EXAMPLES / "elastic-aibrix" / "config.yaml").read_text())
    elastic = service_of(config).objects[1:]
    plain = service_of({key: value for key, value in config.items() if key != "ratios"}).objects
    assert elastic[1:] == plain[1:]
    for one, other in zip(
        elastic[0]["spec"]["template"]["spec"]["roles"],
        plain[0]["spec"]["template"]["spec"]["roles"],
        strict=True,
    ):
        if one["name"] == "routing":
            assert one == other
            continue
        pods = one["podGroupSize"]
        assert one["template"]["metadata"]["annotations"].pop(MIN_AVAILABLE) == str(pods)
        other["template"]["metadata"]["annotations"].pop(MIN_AVAILABLE)
        labels = one["template"]["metadata"]["labels"]
        ours = [labels.pop(RULE_LABEL), labels.pop(GROUP_LABEL), labels.pop(JOB_ID_LABEL)]
        assert ours == ["moe-rule", one["name"], "moe"]
        del one["template"]["spec"]["schedulingGates"]
        assert one == other


def test_the_rule_counts_pods_of_an_instance() -> None:
    made = read_service((EXAMPLES / "elastic-ome" / "config.yaml").read_bytes())
    document = json.loads(made.objects[0]["data"][RULE_KEY])
    largest = {
        one["group_name"]: (one["group_num"], one["server_num_per_group"])
        for one in document["elastic_scaling_list"][0]["group_list"]
    }
    assert largest == {"prefill": ("2", "1"), "decode": ("1", "2")}


# -- MindIE Motor
# ---------------------------------------------------------------------------------------------


def motor_config(folder: Path) -> dict[str, Any]:
    """The short file for what MindIE's own deployer was configured with."""
    told = json.loads((folder / "user_config.in.json").read_text())["deploy_config"]
    rule = json.loads((folder / "elastic_scaling.json").read_text())["elastic_scaling_list"]
    ratios = []
    for one in rule:
        prefill, decode = one["group_list"]
        ratios.append(f"{prefill['group_num']}P{decode['group_num']}D")
    groups = {
        role: {
            "replicas": told[f"{letter}_instances_num"],
            "pod_num": told[f"single_{letter}_instance_pod_num"],
        }
        for role, letter in (("prefill", "p"), ("decode", "d"))
    }
    section = {
        "image": told["image_name"],
        "hardware": told["hardware_type"],
        "model_path": told["weight_mount_path"],
        **groups,
    }
    return {
        "app_name": told["job_id"],
        "app_namespace": told["job_id"],
        "platform": "mindie-motor",
        "ratios": ratios,
        "motor_service": section,
    }


def unordered(value: Any) -> Any:
    """With volumes and mounts by name, without status."""
    if isinstance(value, list):
        return [unordered(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {
        key: unordered(item) for key, item in value.items() if key != "status" and item is not None
    }
    for key in ("volumes", "volumeMounts"):
        if key in found:
            found[key] = {one["name"]: one for one in found[key]}
    return found


def test_mindies_own_deployer_makes_the_same_objects(real_data: Path) -> None:
    cases = sorted((real_data / "motor").glob("A*"))
    for folder in cases:
        config = motor_config(folder)
        rule, *made = service_of(config).objects
        files = [
            folder / "deployment" / f"mindie_ms_{one}.yaml" for one in ("coordinator", "controller")
        ]
        for letter, role in (("p", "prefill"), ("d", "decode")):
            count = config["motor_service"][role]["replicas"]
            files += [
                folder / "deployment" / f"mindie_server_{letter}{number}.yaml"
                for number in range(count)
            ]
        assert unordered(made) == unordered([one for file in files for one in documents(file)]), (
            folder.name
        )
        theirs = json.loads((folder / "elastic_scaling.json").read_text())["elastic_scaling_list"]
        ours = json.loads(rule["data"][RULE_KEY])["elastic_scaling_list"]
        assert [one["group_list"] for one in ours] == [one["group_list"] for one in theirs], (
            folder.name
        )
    assert len(cases) >= 8


def test_a_motor_service_has_what_mindie_brings_along_for_each_instance() -> None:
    made = read_service((EXAMPLES / "motor" / "config.yaml").read_bytes())
    kinds = [obj["kind"] for obj in made.objects]
    assert kinds == [
        "ConfigMap",
        "AscendJob",
        "Service",
        "AscendJob",
        *["ConfigMap", "PriorityClass", "AscendJob"] * 3,
    ]
    decode = made.objects[-1]
    assert decode["metadata"]["annotations"] == {"sp-block": "32"}
    assert decode["spec"]["replicaSpecs"]["Worker"]["replicas"] == 1
    assert decode["metadata"]["labels"][GROUP_LABEL] == "group1"


def test_every_config_map_that_pods_mount_is_made_or_is_said_to_be_needed() -> None:
    made = read_service((EXAMPLES / "motor" / "config.yaml").read_bytes())
    ours = {obj["metadata"]["name"] for obj in made.objects if obj["kind"] == "ConfigMap"}
    mounted = set(re.findall(r'"configMap": {"name": "([^"]+)"', json.dumps(list(made.objects))))
    rest = mounted - ours - set(NEEDED)
    page = PAGE.read_text("utf-8")
    assert rest == {f"mindie-server-{one}-config" for one in ("p0", "p1", "d0")}
    assert [name for name in NEEDED if f"`{name}`" not in page] == []


def test_the_folders_that_pods_of_aibrix_mount_can_be_set() -> None:
    text = (EXAMPLES / "elastic-aibrix" / "config.yaml").read_text()
    usual = json.dumps(read_service(text).objects)
    moved = text.replace(
        "storm_service:\n",
        "storm_service:\n  models_mount: /data/weights\n  scripts_mount: /opt/serving\n",
    )
    made = json.dumps(read_service(moved).objects)
    expected = usual.replace('"/scripts"', '"/opt/serving"')
    for key in ("path", "mountPath"):
        expected = expected.replace(f'"{key}": "/mnt/models"', f'"{key}": "/data/weights"')
    assert usual != made == expected
