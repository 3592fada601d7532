"""manifests/monitoring: what alerts, dashboard and runbooks name is there, and nothing that is
there is forgotten."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from scaler.reasons.reasons import Reason
from scaler.report.metrics import Followed, Metrics

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "manifests/monitoring"
RUNBOOKS = (ROOT / "docs/howto/runbooks/README.md").read_text("utf-8")
RULES = [
    rule
    for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["spec"]["groups"]
    for rule in group["rules"]
]
ALERTS = [rule["alert"] for rule in RULES]
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
QUERIES = [target["expr"] for panel in PANELS for target in panel.get("targets", ())]
ELSEWHERE = {
    "scaler_passes_total",
    "scaler_service_rule_valid",
    "scaler_services_left_out",
    "scaler_watches_total",
    "scaler_lists_total",
    "scaler_watch_events_total",
    "scaler_expectation_timeouts_total",
    "scaler_gate_way",
    "scaler_marked_restarts_counted_total",
    "scaler_leader_changes_total",
    "scaler_webhook_duration_seconds",
    "scaler_webhook_certificate_expires_timestamp_seconds",
    "process_virtual_memory_bytes",
    "process_start_time_seconds",
    "process_open_fds",
    "process_max_fds",
}
"""Metrics that no panel shows: they are for alerts, or for whoever looks for something in
particular."""


def known() -> dict[str, str]:
    """Every name that a query may use -> the metric that it belongs to."""
    names = {}
    for family in Metrics().registry.collect():
        metric = family.name + ("_total" if family.type == "counter" else "")
        suffixes = ("_bucket", "_sum", "_count") if family.type == "histogram" else ("",)
        names.update({metric + suffix: metric for suffix in suffixes})
    return names


def used(expressions: list[str]) -> set[str]:
    return {name for text in expressions for name in re.findall(r"\b(?:scaler|process)_\w+", text)}


def test_every_metric_of_the_alerts_and_of_the_dashboard_exists() -> None:
    variables = [variable.get("query", {}) for variable in DASHBOARD["templating"]["list"]]
    asked = [query["query"] for query in variables if isinstance(query, dict)]
    assert used([*(rule["expr"] for rule in RULES), *QUERIES, *asked]) - known().keys() == set()


def test_every_metric_is_on_the_dashboard_or_is_known_to_be_left_out() -> None:
    shown = {known()[name] for name in used(QUERIES)}
    assert set(known().values()) - shown == ELSEWHERE


def test_labels_in_queries_are_those_of_the_metrics() -> None:
    metrics = Metrics()
    labels = {"namespace", "pod", "instance", "le", "rule", "job_id", "state", "reason", "severity"}
    for found in vars(metrics).values():
        labels |= set(getattr(found, "_labelnames", ()))
        labels |= set(found.labels if isinstance(found, Followed) else ())
    expressions = [*(rule["expr"] for rule in RULES), *QUERIES]
    grouped = {
        name
        for text in expressions
        for part in re.findall(r"(?:by|on) \(([^)]*)\)", text)
        for name in re.split(r",\s*", part)
    }
    matched = {
        name for text in expressions for name in re.findall(r"[{,]\s*(\w+)(?:=|!=|=~|!~)\"", text)
    }
    assert (grouped | matched) - labels == set()


@pytest.mark.parametrize("rule", RULES, ids=ALERTS)
def test_every_alert_has_words_and_a_section_of_the_runbooks_that_begins_with_kubectl(
    rule: dict[str, Any],
) -> None:
    name = rule["alert"]
    assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"].endswith(
        f"/docs/howto/runbooks/README.md#{name.lower()}"
    )
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    section = RUNBOOKS.split(f"\n## {name}\n", 1)[1].split("\n## ", 1)[0]
    commands = [line for line in section.splitlines() if line.startswith("$ ")]
    assert commands, f"{name} says nothing to type"
    assert all(line.startswith("$ kubectl ") for line in commands)


def test_there_are_no_runbooks_but_those_of_the_alerts_in_their_order() -> None:
    assert re.findall(r"^## (Scaler\w+)$", RUNBOOKS, re.MULTILINE) == ALERTS
    assert re.findall(r"^\| \[(Scaler\w+)\]", RUNBOOKS, re.MULTILINE) == ALERTS


def test_every_reason_that_asks_for_a_person_has_an_alert() -> None:
    (rule,) = [rule for rule in RULES if rule["alert"] == "ScalerInstancesNeedAPerson"]
    (pattern,) = re.findall(r'reason=~"([^"]+)"', rule["expr"])
    asks = [reason.value for reason in Reason if reason.row.warns and not reason.row.other_alert]
    assert pattern.split("|") == sorted(asks)


def test_every_alert_is_tried_both_ways() -> None:
    tests = yaml.safe_load((ROOT / "tests/control_plane/alerts.yaml").read_text())["tests"]
    tried = [case for test in tests for case in test["alert_rule_test"]]
    assert {case["alertname"] for case in tried if case["exp_alerts"]} == set(ALERTS)
    assert {case["alertname"] for case in tried} == set(ALERTS)


def test_the_command_that_takes_the_rules_out_of_the_manifest_gives_the_rules() -> None:
    (command,) = re.findall(
        r"^\$ (sed .*) > scaler-rules\.yaml$",
        (ROOT / "docs/howto/monitor.md").read_text(),
        re.MULTILINE,
    )
    done = subprocess.run(
        shlex.split(command), cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert [
        rule for group in yaml.safe_load(done.stdout)["groups"] for rule in group["rules"]
    ] == RULES


def test_no_panel_lies_on_another_and_none_has_the_id_of_another() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24, panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    assert len({panel["title"] for panel in PANELS}) == len(PANELS)


@pytest.mark.parametrize(
    "panel", [panel for panel in PANELS if panel["type"] != "row"], ids=lambda panel: panel["title"]
)
def test_every_panel_asks_the_chosen_prometheus_and_says_what_it_shows_in_which_unit(
    panel: dict[str, Any],
) -> None:
    source = {"type": "prometheus", "uid": "${datasource}"}
    assert panel["type"] in {"stat", "table", "timeseries", "state-timeline"}
    assert panel["datasource"] == source
    assert all(target["datasource"] == source for target in panel["targets"])
    assert [target["refId"] for target in panel["targets"]] == list(
        "ABCDE"[: len(panel["targets"])]
    )
    assert panel["type"] == "state-timeline" or panel["fieldConfig"]["defaults"]["unit"]
    assert panel["description"]


def test_what_is_applied_is_what_is_in_the_folder_and_it_finds_the_scaler() -> None:
    kubectl = Path(sys.executable).parent / "kubectl"

    def rendered(folder: str) -> list[dict[str, Any]]:
        done = subprocess.run(
            [kubectl, "kustomize", ROOT / folder], capture_output=True, text=True, check=True
        )
        return list(yaml.safe_load_all(done.stdout))

    found = {thing["kind"]: thing for thing in rendered("manifests/monitoring")}
    assert found.keys() == {"ConfigMap", "PrometheusRule", "ServiceMonitor"}
    assert {thing["metadata"]["namespace"] for thing in found.values()} == {
        "mind-cluster-scaler-system"
    }
    (text,) = found["ConfigMap"]["data"].values()
    assert json.loads(text) == DASHBOARD
    assert found["ConfigMap"]["metadata"]["labels"]["grafana_dashboard"] == "1"
    (service,) = [thing for thing in rendered("manifests/base") if thing["kind"] == "Service"]
    (endpoint,) = found["ServiceMonitor"]["spec"]["endpoints"]
    assert endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]
    assert endpoint["honorLabels"]
    assert (
        found["ServiceMonitor"]["spec"]["selector"]["matchLabels"].items()
        <= service["metadata"]["labels"].items()
    )
