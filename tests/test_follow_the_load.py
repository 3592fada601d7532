"""manifests/follow-the-load: what its files name is there, numbers are those of the ladder, the
page shows them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from scaler.rules.document import judge

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "manifests/follow-the-load"
TEXTS = {path.name: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.yaml"))}
OBJECTS: list[tuple[str, dict[str, Any]]] = [
    (name, obj) for name, text in TEXTS.items() for obj in yaml.safe_load_all(text)
]
PAGE = (ROOT / "docs/howto/follow-the-load.md").read_text("utf-8")
SHOWN = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
CRD = yaml.safe_load((ROOT / "manifests/base/elasticservices.yaml").read_text())["spec"]
ADAPTER = "externalRules"
"""What prometheus-adapter is configured with is no object of Kubernetes, so it stands on the page
alone."""
SCALED_OBJECT = {
    "": {
        "scaleTargetRef",
        "pollingInterval",
        "cooldownPeriod",
        "minReplicaCount",
        "maxReplicaCount",
        "fallback",
        "advanced",
        "triggers",
    },
    "fallback": {"failureThreshold", "replicas"},
    "advanced": {"horizontalPodAutoscalerConfig"},
    "cron": {"timezone", "start", "end", "desiredReplicas"},
    "prometheus": {
        "serverAddress",
        "query",
        "threshold",
        "activationThreshold",
        "ignoreNullValues",
    },
}
"""Fields of KEDA 2.21, as far as they are used."""


def of_kind(kind: str) -> list[tuple[str, dict[str, Any]]]:
    return [(name, obj) for name, obj in OBJECTS if obj["kind"] == kind]


def ladder() -> list[int]:
    """Instances of each ratio, the fewest first."""
    ((_, config_map),) = of_kind("ConfigMap")
    rule, faults = judge(config_map["data"]["elastic_scaling.json"])
    assert rule is not None
    assert [fault for fault in faults if fault.code != "MixturePossible"] == []
    return sorted(sum(ratio.counts.values()) for ratio in rule.ratios)


def recorded() -> set[tuple[str, str]]:
    """Each recorded series and the service that it is about."""
    found = set()
    for _, obj in of_kind("PrometheusRule"):
        for rule in (rule for group in obj["spec"]["groups"] for rule in group["rules"]):
            selected = re.search(r'service="([\w-]+)"', rule["expr"])
            found.add(
                (rule["record"], rule.get("labels", {}).get("service") or (selected or [""])[1])
            )
    return found


def limits(spec: dict[str, Any]) -> tuple[int, int]:
    if "minReplicaCount" in spec:
        return spec["minReplicaCount"], spec["maxReplicaCount"]
    return spec["minReplicas"], spec["maxReplicas"]


SCALED_OBJECTS = of_kind("ScaledObject")
AUTOSCALERS = of_kind("HorizontalPodAutoscaler") + SCALED_OBJECTS
every_autoscaler = pytest.mark.parametrize(
    "autoscaler",
    [obj for _, obj in AUTOSCALERS],
    ids=[f"{name}-{obj['metadata']['name']}" for name, obj in AUTOSCALERS],
)


@every_autoscaler
def test_an_autoscaler_names_a_service_that_can_be_scaled(autoscaler: dict[str, Any]) -> None:
    (version,) = CRD["versions"]
    target = {"apiVersion": f"{CRD['group']}/{version['name']}", "kind": CRD["names"]["kind"]}
    assert autoscaler["spec"]["scaleTargetRef"] == {
        **target,
        "name": autoscaler["metadata"]["name"],
    }
    assert version["subresources"]["scale"]["specReplicasPath"] == ".spec.replicas"


@every_autoscaler
def test_an_autoscaler_stays_within_the_ladder(autoscaler: dict[str, Any]) -> None:
    least, most = limits(autoscaler["spec"])
    ratios = ladder()
    if autoscaler["metadata"]["name"] == "chat-1":
        assert least in (0, ratios[0])
        assert most == ratios[-1]
    assert least < most


@every_autoscaler
def test_an_autoscaler_orders_by_a_total_that_is_recorded(autoscaler: dict[str, Any]) -> None:
    if autoscaler["kind"] == "ScaledObject":
        (trigger,) = [one for one in autoscaler["spec"]["triggers"] if one["type"] == "prometheus"]
        query = re.fullmatch(
            r'([\w:]+)\{namespace="mindie", service="([\w-]+)"\}', trigger["metadata"]["query"]
        )
        assert query is not None
        assert (query[1], query[2]) in recorded()
        assert (trigger["metricType"], trigger["metadata"]["threshold"]) == ("AverageValue", "1")
        return
    (metric,) = autoscaler["spec"]["metrics"]
    external = metric["external"]
    service = external["metric"]["selector"]["matchLabels"]["service"]
    assert (f"service:{external['metric']['name']}", service) in recorded()
    assert external["target"] == {"type": "AverageValue", "averageValue": "1"}


@pytest.mark.parametrize(
    "scaled", [obj for _, obj in SCALED_OBJECTS], ids=[name for name, _ in SCALED_OBJECTS]
)
def test_a_scaled_object_has_only_fields_that_keda_knows(scaled: dict[str, Any]) -> None:
    spec = scaled["spec"]
    assert spec.keys() <= SCALED_OBJECT[""]
    for part in ("fallback", "advanced"):
        assert spec.get(part, {}).keys() <= SCALED_OBJECT[part]
    for trigger in spec["triggers"]:
        assert trigger["metadata"].keys() <= SCALED_OBJECT[trigger["type"]]
        assert all(isinstance(value, str) for value in trigger["metadata"].values())
    assert "fallback" not in spec or spec["fallback"]["replicas"] == ladder()[-1]
    assert spec["minReplicaCount"] or "fallback" not in spec, (
        "an error at night would wake the service"
    )


def test_load_alone_never_keeps_the_service_of_the_clock_awake() -> None:
    ((_, by_day),) = [
        (name, obj) for name, obj in SCALED_OBJECTS if obj["spec"]["minReplicaCount"] == 0
    ]
    clock, load = by_day["spec"]["triggers"]
    assert int(clock["metadata"]["desiredReplicas"]) == ladder()[0]
    assert int(load["metadata"]["activationThreshold"]) == ladder()[-1]


def test_the_account_of_the_cron_jobs_may_scale_what_they_scale() -> None:
    ((_, account),) = of_kind("ServiceAccount")
    ((_, role),) = of_kind("Role")
    ((_, binding),) = of_kind("RoleBinding")
    name = account["metadata"]["name"]
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "Role",
        "name": role["metadata"]["name"],
    }
    assert binding["subjects"] == [{"kind": "ServiceAccount", **account["metadata"]}]
    allowed = {
        (group, resource, service, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for service in rule["resourceNames"]
        for verb in rule["verbs"]
    }
    plural = CRD["names"]["plural"]
    (short,) = CRD["names"]["shortNames"]
    (service,) = {service for _, _, service, _ in allowed}
    assert allowed == {
        (CRD["group"], plural, service, "get"),
        (CRD["group"], f"{plural}/scale", service, "patch"),
    }
    ordered = []
    for _, job in of_kind("CronJob"):
        pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        command = re.fullmatch(
            rf"scale {short}/{service} --replicas=(\d+)", " ".join(pod["containers"][0]["args"])
        )
        assert command is not None
        assert pod["serviceAccountName"] == name
        ordered.append(int(command[1]))
    assert ordered == [0, ladder()[0]]


def test_everything_of_one_service_is_in_one_namespace() -> None:
    homes = {
        (obj["metadata"]["name"].partition("-")[0], obj["metadata"]["namespace"])
        for _, obj in OBJECTS
        if "namespace" in obj["metadata"]
    }
    assert homes == {("chat", "mindie"), ("batch", "batch")}


def test_the_page_shows_what_the_files_hold_and_names_each_of_them() -> None:
    everything = "\n\0\n".join(TEXTS.values())
    strangers = [block for block in SHOWN if block not in everything]
    assert [block.partition(":")[0] for block in strangers] == [ADAPTER]
    assert [name for name in TEXTS if f"`{name}`" not in PAGE] == []
    ends = tuple("\n" + block for block in SHOWN)
    whole = {name for name, text in TEXTS.items() if text.endswith(ends)}
    assert {"hpa.yaml", "scaled-object.yaml"} <= whole


def test_the_adapter_on_the_page_serves_what_the_autoscaler_asks_for() -> None:
    (block,) = [block for block in SHOWN if block.startswith(ADAPTER)]
    (rule,) = yaml.safe_load(block)[ADAPTER]
    ((_, first), *_) = [one for one in of_kind("HorizontalPodAutoscaler") if one[0] == "hpa.yaml"]
    assert rule["name"]["as"] == first["spec"]["metrics"][0]["external"]["metric"]["name"]
    assert rule["seriesQuery"].startswith(f"service:{rule['name']['as']}{{")


def test_the_table_of_numbers_is_what_the_contract_says() -> None:
    rows = re.findall(r"^\| (\d[^|]*) \|[^|]*\| (\d+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 5
    for numbers, instances in rows:
        for number in map(int, re.findall(r"\d+", numbers)):
            enough = [size for size in ladder() if size >= number] or ladder()[-1:]
            assert int(instances) == (enough[0] if number else 0)
