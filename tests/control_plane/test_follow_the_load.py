"""manifests/follow-the-load on a real API server, and its arithmetic with Prometheus' own
program."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from scaler.sim.stories.manifests import read_manifests
from tests.control_plane.plane import ControlPlane
from tests.control_plane.programs import ControlPlaneError
from tests.control_plane.test_monitoring import promtool

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "manifests/follow-the-load"
PAGE = (ROOT / "docs/howto/follow-the-load.md").read_text("utf-8")
OTHERS = ("monitoring.coreos.com/v1", "keda.sh/v1alpha1")
"""Groups whose definitions are not here."""
HERE = ("--namespace", "mindie")
CHAT = {
    "apiVersion": "scaler.mind-cluster.io/v1alpha1",
    "kind": "ElasticService",
    "metadata": {"name": "chat-1", "namespace": "mindie"},
    "spec": {"rule": "chat", "jobID": "1"},
}


def files() -> list[str]:
    return sorted(file.name for file in FOLDER.glob("*.yaml"))


def known(name: str) -> list[dict[str, Any]]:
    """What a bare API server knows of a file."""
    return [dict(obj) for obj in read_manifests(FOLDER / name) if obj["apiVersion"] not in OTHERS]


def document(objects: list[dict[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


@pytest.mark.plane_options(apiserver_flags=("--feature-gates=HPAScaleToZero=true",))
@pytest.mark.parametrize("name", [name for name in files() if known(name)])
def test_a_real_api_server_accepts_every_field(plane: ControlPlane, name: str) -> None:
    existing = plane.kubectl("get", "namespaces", "--output", "name")
    for namespace in {obj["metadata"].get("namespace", "default") for obj in known(name)}:
        if f"namespace/{namespace}" not in existing.split():
            plane.kubectl("create", "namespace", namespace)
    applied = plane.kubectl(
        "apply", "--dry-run=server", "--validate=strict", "-f", "-", text=document(known(name))
    )
    assert applied.count("(server dry run)") == len(known(name))


@pytest.mark.plane_options(audit=True)
def test_the_account_of_the_clock_may_do_what_its_jobs_ask_for_and_nothing_else(
    plane: ControlPlane,
) -> None:
    plane.kubectl("create", "namespace", "mindie")
    other = {**CHAT, "metadata": {"name": "other-1", "namespace": "mindie"}}
    plane.kubectl("create", "-f", "-", text=document([CHAT, other, *known("night.yaml")]))
    clock = plane.grant("mindie", "chat-1-clock")
    for job in (obj for obj in known("night.yaml") if obj["kind"] == "CronJob"):
        (container,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
        plane.kubectl(*HERE, *container["args"], kubeconfig=clock)
        wanted = plane.kubectl("get", *HERE, "esvc/chat-1", "--output=jsonpath={.spec.replicas}")
        assert container["args"][-1] == f"--replicas={wanted}"

    for refused in (
        ("scale", "esvc/other-1", "--replicas=0"),
        ("patch", "esvc/chat-1", "--type=merge", '--patch={"spec": {"jobID": "2"}}'),
        ("delete", "esvc/chat-1"),
        ("get", "esvc"),
    ):
        with pytest.raises(ControlPlaneError, match="forbidden"):
            plane.kubectl(*HERE, *refused, kubeconfig=clock)

    asked = {
        (event["verb"], "/".join(filter(None, (ref["resource"], ref.get("subresource")))))
        for event in plane.audit_events("system:serviceaccount:mindie:chat-1-clock")
        if (ref := event.get("objectRef")) and event["responseStatus"]["code"] < 300
    }
    assert asked == {("get", "elasticservices"), ("patch", "elasticservices/scale")}


def groups(name: str) -> list[dict[str, Any]]:
    """The groups of recording rules of a file."""
    rules = [obj for obj in read_manifests(FOLDER / name) if obj["kind"] == "PrometheusRule"]
    return [group for rule in rules for group in rule["spec"]["groups"]]


VLLM = 'namespace="mindie", model_name="chat"'


def series(
    running: int, waiting: int, cache: float, slow: int, gateway: int
) -> list[dict[str, str]]:
    """An hour of constant load; of 100 requests a minute `slow` wait more than 2 s for their first
    token."""
    bucket = f"vllm:time_to_first_token_seconds_bucket{{{VLLM}"
    return [
        {
            "series": f'vllm:num_requests_running{{{VLLM}, role="decode"}}',
            "values": f"{running}x60",
        },
        {
            "series": f'vllm:num_requests_waiting{{{VLLM}, role="prefill"}}',
            "values": f"{waiting}x60",
        },
        {
            "series": f'vllm:kv_cache_usage_perc{{{VLLM}, role="decode", instance_id="1"}}',
            "values": f"{cache / 2}x60",
        },
        {
            "series": f'vllm:kv_cache_usage_perc{{{VLLM}, role="decode", instance_id="2"}}',
            "values": f"{cache / 2}x60",
        },
        {
            "series": f'vllm:kv_cache_usage_perc{{{VLLM}, role="prefill", instance_id="0"}}',
            "values": "0.9x60",
        },
        {"series": f'{bucket}, le="1.0"}}', "values": f"0+{100 - slow}x60"},
        {"series": f'{bucket}, le="2.5"}}', "values": f"0+{100 - slow}x60"},
        {"series": f'{bucket}, le="5.0"}}', "values": "0+100x60"},
        {"series": f'{bucket}, le="+Inf"}}', "values": "0+100x60"},
        {
            "series": 'nginx_ingress_controller_requests{ingress="chat"}',
            "values": f"0+{gateway}x60",
        },
    ]


def after_50_minutes(series: str, value: float) -> dict[str, Any]:
    """What promtool then expects of a series."""
    sample = {"labels": series, "value": value}
    return {"expr": series, "eval_time": "50m", "exp_samples": [sample]}


@pytest.mark.long("Prometheus has to be built")
def test_the_recording_rules_want_as_many_instances_as_the_page_says(
    tmp_path: Path, programs_needed: None
) -> None:
    every = [group for name in files() for group in groups(name)]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": every}))
    promtool("check", "rules", "--lint=all", "--lint-fatal", "rules.yaml", folder=tmp_path)
    cases = [
        # running, waiting, cache of decode in all, slow of 100, requests at the gateway -> chat,
        # batch, or none
        (20, 12, 0.5, 0, 1, 2, 10, 2),
        (20, 13, 0.5, 0, 1, 4, 8, 4),
        (60, 5, 0.5, 0, 1, 6, 6, 6),
        (20, 0, 0.9, 0, 1, 4, 8, 4),
        (20, 0, 0.5, 6, 1, 6, 6, 6),
        (0, 0, 0.0, 0, 0, 2, 10, 0),
    ]
    chat = '{namespace="mindie", service="chat-1"}'
    batch = '{namespace="batch", service="batch-1"}'
    tests = []
    for case in cases:
        of_chat, of_batch, or_none = case[5:]
        wanted = [
            after_50_minutes(f"service:instances_wanted{chat}", of_chat),
            after_50_minutes(f"service:instances_wanted{batch}", of_batch),
            after_50_minutes(f"service:instances_or_none{chat}", or_none),
        ]
        test = {"interval": "1m", "input_series": series(*case[:5]), "promql_expr_test": wanted}
        tests.append(test)
    (tmp_path / "tests.yaml").write_text(
        yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": tests})
    )
    promtool("test", "rules", "tests.yaml", folder=tmp_path)


@pytest.mark.long("Prometheus has to be built")
def test_every_query_of_the_page_is_one(tmp_path: Path, programs_needed: None) -> None:
    queries = re.findall(r"`((?:sum|histogram_quantile)\([^`]+)`", PAGE)
    assert len(queries) >= 8
    filled = [
        query.replace("SELECTOR", 'namespace="mindie"').replace("\\|", "|") for query in queries
    ]
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(filled)]
    (tmp_path / "rules.yaml").write_text(
        yaml.safe_dump({"groups": [{"name": "page", "rules": rules}]})
    )
    promtool("check", "rules", "--lint=all", "--lint-fatal", "rules.yaml", folder=tmp_path)
