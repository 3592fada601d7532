"""The manifests as a cluster would get them: rendered by a real kubectl, judged for rights,
hardening and settings."""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_asyncio.config.incluster_config import SERVICE_TOKEN_FILENAME

import scaler
from scaler import cli, settings
from scaler.app import SHUTDOWN_TIMEOUT
from scaler.defaults import Mode
from scaler.informers.faults import CLUSTER_NAMESPACE, DEVICE_NAMESPACE
from scaler.kube.api import DEPLOYMENTS
from scaler.workloads.kinds import KINDS, WATCHED

ROOT = Path(__file__).parent.parent
MANIFESTS = ROOT / "manifests"
KUBECTL = Path(sys.executable).parent / "kubectl"
RIGHTS = ROOT / "docs" / "howto" / "rights.md"
VARIANTS = ("cluster-wide", "single-namespace", "gates-only")
PREFIX = "mind-cluster-scaler-"
NAMESPACE = "mind-cluster-scaler-system"
FAULT_NAMESPACES = {DEVICE_NAMESPACE, CLUSTER_NAMESPACE}

ROLES: dict[str, dict[tuple[str, str], set[str]]] = {
    "election": {("coordination.k8s.io", "leases"): {"get", "list", "watch", "create", "update"}},
    "records": {("", "configmaps"): {"get", "list", "watch", "create", "patch", "delete"}},
    "cluster": {
        ("", "nodes"): {"list", "watch"},
        ("", "namespaces"): {"list"},
        ("apiextensions.k8s.io", "customresourcedefinitions"): {"list", "watch"},
        ("apps", "deployments"): {"list", "watch"},
        ("coordination.k8s.io", "leases"): {"list"},
        ("scheduling.k8s.io", "priorityclasses"): {"list", "watch"},
        ("topology.volcano.sh", "hypernodes"): {"list", "watch"},
    },
    "watch": {
        ("", "configmaps"): {"list", "watch"},
        ("", "pods"): {"list", "watch"},
        **{(one.group, one.plural): {"list", "watch"} for one in WATCHED if one != DEPLOYMENTS},
        ("scaler.mind-cluster.io", "elasticservices"): {"list", "watch"},
        ("policy", "poddisruptionbudgets"): {"list", "watch"},
        ("scheduling.volcano.sh", "podgroups"): {"list", "watch"},
    },
    "release": {
        ("", "events"): {"get", "create", "patch"},
        ("", "pods"): {"get", "patch", "delete"},
        ("mind-cluster", "gates"): {"release"},
        ("scaler.mind-cluster.io", "elasticservices"): {"get", "create", "delete"},
        ("scaler.mind-cluster.io", "elasticservices/status"): {"patch"},
        ("policy", "poddisruptionbudgets"): {"get", "create", "delete"},
        ("scheduling.volcano.sh", "podgroups"): {"get", "create", "patch"},
    },
    "metrics": {
        ("authentication.k8s.io", "tokenreviews"): {"create"},
        ("authorization.k8s.io", "subjectaccessreviews"): {"create"},
    },
    "create": {
        ("", "configmaps"): {"get", "patch", "delete"},
        ("", "pods"): {"create"},
        ("", "services"): {"get", "list", "watch", "create", "delete"},
        ("scheduling.volcano.sh", "podgroups"): {"delete"},
    },
}
for _kind in KINDS:
    for _role, _rights in _kind.rights.items():
        ROLES[_role].update({what: set(verbs.split()) for what, verbs in _rights.items()})
"""Every right the scaler may ever hold: what the kinds of workload need, and the rest. Whoever adds
one says why beside its rule and in docs/howto/rights.md."""

LEAST = {"election", "records", "cluster", "watch", "release", "metrics"}
HELD = {"cluster-wide": {*ROLES}, "single-namespace": {*ROLES}, "gates-only": LEAST}
"""Variant -> its roles; those in MindCluster's namespaces are judged apart."""


def allowed(variant: str) -> set[tuple[str, str, str]]:
    """Group, resource and verb of every right."""
    return {
        (*what, verb)
        for role in HELD[variant]
        for what, verbs in ROLES[role].items()
        for verb in verbs
    }


FOR_OTHERS = {"view", "edit", "metrics-reader"}
"""Roles for whoever may view or edit a namespace, and for Prometheus; not bound to the scaler."""
Object = dict[str, Any]


@functools.cache
def rendered(folder: Path) -> tuple[Object, ...]:
    done = subprocess.run(
        [KUBECTL, "kustomize", folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return tuple(yaml.safe_load_all(done.stdout))


def of_kind(kind: str, variant: str) -> list[Object]:
    return [obj for obj in rendered(MANIFESTS / variant) if obj["kind"] == kind]


def deployment(variant: str) -> Object:
    (found,) = of_kind("Deployment", variant)
    return found


def container(variant: str) -> Object:
    found: Object
    (found,) = deployment(variant)["spec"]["template"]["spec"]["containers"]
    return found


def environment(variant: str) -> dict[str, str]:
    """What the container's process will see."""
    return variables(deployment(variant))


def variables(deployed: Object) -> dict[str, str]:
    """The variables of its container, field references resolved."""
    fields = {
        "metadata.namespace": deployed["metadata"]["namespace"],
        "spec.serviceAccountName": deployed["spec"]["template"]["spec"]["serviceAccountName"],
    }
    (found,) = deployed["spec"]["template"]["spec"]["containers"]
    return {
        entry["name"]: (
            entry["value"]
            if "value" in entry
            else fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
        )
        for entry in found["env"]
    }


def roles(variant: str) -> dict[str, Object]:
    """The scaler's, by what their names end with; those for others are none of them."""
    found = of_kind("ClusterRole", variant) + of_kind("Role", variant)
    ours = [
        role for role in found if role["metadata"]["name"].removeprefix(PREFIX) not in FOR_OTHERS
    ]
    return {role["metadata"]["name"].removeprefix(PREFIX): role for role in ours}


def rights_of(role: Object) -> dict[tuple[str, str], set[str]]:
    held: dict[tuple[str, str], set[str]] = {}
    for rule in role["rules"]:
        for what in itertools.product(rule["apiGroups"], rule["resources"]):
            held.setdefault(what, set()).update(rule["verbs"])
    return held


def rights(variant: str) -> Iterator[tuple[str, str, str]]:
    for role in roles(variant).values():
        yield from ((*what, verb) for what, verbs in rights_of(role).items() for verb in verbs)


def places(variant: str) -> dict[str, set[str]]:
    """Role -> where it is bound."""
    found: dict[str, set[str]] = {}
    for binding in of_kind("ClusterRoleBinding", variant) + of_kind("RoleBinding", variant):
        name = binding["roleRef"]["name"].removeprefix(PREFIX)
        found.setdefault(name, set()).add(binding["metadata"].get("namespace", "everywhere"))
    return found


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_role_holds_exactly_what_is_on_the_list(variant: str) -> None:
    found = {name: rights_of(role) for name, role in roles(variant).items() if name != "fault-data"}
    assert found == {name: ROLES[name] for name in HELD[variant]}


def test_an_install_that_only_releases_makes_no_pods_and_writes_config_maps_only_at_home() -> None:
    held = set(rights("gates-only"))
    assert ("", "pods", "create") not in held
    assert not {
        what for what in held if what[0] == "mindxdl.gitee.com" and what[2] not in ("list", "watch")
    }
    assert not {what for what in held if what[2] == "create"} - {
        ("", "configmaps", "create"),
        ("", "events", "create"),
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
        ("coordination.k8s.io", "leases", "create"),
        ("policy", "poddisruptionbudgets", "create"),
        ("scaler.mind-cluster.io", "elasticservices", "create"),
        ("scheduling.volcano.sh", "podgroups", "create"),
    }
    writing = [
        role
        for role in of_kind("ClusterRole", "gates-only") + of_kind("Role", "gates-only")
        for rule in role["rules"]
        if "configmaps" in rule.get("resources", ()) and not {"list", "watch"} >= set(rule["verbs"])
    ]
    assert [(role["kind"], role["metadata"]["namespace"]) for role in writing] == [
        ("Role", NAMESPACE)
    ]
    given = settings.load(argparse.Namespace(), environment("gates-only"))
    assert given.mode is Mode.GATES


@pytest.mark.parametrize("variant", ["cluster-wide", "single-namespace"])
def test_the_others_make_pods_where_no_operator_does(variant: str) -> None:
    given = settings.load(argparse.Namespace(), environment(variant))
    assert given.mode is Mode.AUTO


@pytest.mark.parametrize("variant", VARIANTS)
def test_whoever_may_view_a_namespace_sees_its_services_and_no_more_and_who_may_edit_it_scales_them(
    variant: str,
) -> None:
    found = {
        role["metadata"]["name"].removeprefix(PREFIX): role
        for role in of_kind("ClusterRole", variant)
    }
    group = "scaler.mind-cluster.io"
    scale = "elasticservices/scale"
    for name in ("view", "edit"):
        assert (
            found[name]["metadata"]["labels"][f"rbac.authorization.k8s.io/aggregate-to-{name}"]
            == "true"
        )
    read = {"get", "list", "watch"}
    write = {"create", "update", "patch", "delete"}
    assert rights_of(found["view"]) == {(group, "elasticservices"): read, (group, scale): {"get"}}
    assert rights_of(found["edit"]) == {
        (group, "elasticservices"): write,
        (group, scale): {"get", "update", "patch"},
    }
    bound = [
        binding["roleRef"]["name"]
        for kind in ("ClusterRoleBinding", "RoleBinding")
        for binding in of_kind(kind, variant)
    ]
    assert not {PREFIX + name for name in FOR_OTHERS} & set(bound)
    assert found["metrics-reader"]["rules"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_scaler_may_not_say_how_many_instances_are_wanted(variant: str) -> None:
    held = {
        (what, verb) for group, what, verb in rights(variant) if group == "scaler.mind-cluster.io"
    }
    verbs = ("list", "watch", "get", "create", "delete")
    assert held == {("elasticservices", verb) for verb in verbs} | {
        ("elasticservices/status", "patch")
    }


def test_the_code_has_the_definition_that_is_installed() -> None:
    installed = MANIFESTS / "base/elasticservices.yaml"
    known = ROOT / "scaler/report/elasticservices.yaml"
    assert installed.read_bytes() == known.read_bytes()


def test_the_webhook_is_asked_about_the_kinds_that_admission_reviews() -> None:
    hooks = yaml.safe_load((MANIFESTS / "admission-webhook" / "validating.yaml").read_text())
    (hook,) = [one for one in hooks["webhooks"] if one["name"].startswith("workload-labels.")]
    asked = {
        (rule["apiGroups"][0], rule["apiVersions"][0], rule["resources"][0])
        for rule in hook["rules"]
    }
    main = [kind.main.resource for kind in KINDS if kind.reviewed]
    assert asked == {(one.group, one.version, one.plural) for one in main}


@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_of_an_install_stands_in_kube_system_but_the_right_to_read_fault_reports(
    variant: str,
) -> None:
    there = [
        obj
        for obj in rendered(MANIFESTS / variant)
        if obj["metadata"].get("namespace") == DEVICE_NAMESPACE
    ]
    assert {obj["metadata"]["name"] for obj in there} <= {f"{PREFIX}fault-data"}


def test_the_list_has_no_wildcard_no_secret_and_no_way_to_more_rights() -> None:
    forbidden = {
        "*",
        "secrets",
        "serviceaccounts/token",
        "pods/exec",
        "roles",
        "clusterroles",
        "nodes/proxy",
    }
    escalating = {"*", "bind", "escalate", "impersonate", "deletecollection"}
    everything = {part for rights in ROLES.values() for what in rights for part in what}
    assert not forbidden & everything
    assert not escalating & {
        verb for rights in ROLES.values() for verbs in rights.values() for verb in verbs
    }


@pytest.mark.parametrize("path", sorted(MANIFESTS.rglob("*role.yaml")), ids=lambda path: path.stem)
def test_each_rule_says_why_above_itself(path: Path) -> None:
    lines = path.read_text().splitlines()
    rules = [number for number, line in enumerate(lines) if line.startswith("  - apiGroups:")]
    assert rules
    assert [lines[number] for number in rules if not lines[number - 1].startswith("  # ")] == []


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_roles_are_bound_where_the_variant_says(variant: str) -> None:
    services = "mindie" if variant == "single-namespace" else "everywhere"
    at_home = {"election": {NAMESPACE}, "records": {NAMESPACE}, "cluster": {"everywhere"}}
    at_home["metrics"] = {"everywhere"}
    expected = at_home | {name: {services} for name in HELD[variant] - at_home.keys()}
    if variant == "single-namespace":
        expected["fault-data"] = FAULT_NAMESPACES
    assert places(variant) == expected


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_role_is_bound_to_the_account_of_the_deployment_and_to_nobody_else(
    variant: str,
) -> None:
    bindings = of_kind("ClusterRoleBinding", variant) + of_kind("RoleBinding", variant)
    account = deployment(variant)["spec"]["template"]["spec"]["serviceAccountName"]
    assert {subject["name"] for binding in bindings for subject in binding["subjects"]} == {account}
    assert {subject["namespace"] for binding in bindings for subject in binding["subjects"]} == {
        NAMESPACE
    }
    assert {binding["roleRef"]["name"].removeprefix(PREFIX) for binding in bindings} == roles(
        variant
    ).keys()


def test_the_single_namespace_variant_only_reads_in_the_namespaces_of_mindcluster() -> None:
    found = [
        role
        for role in of_kind("Role", "single-namespace")
        if role["metadata"]["namespace"] in FAULT_NAMESPACES
    ]
    assert sorted(role["metadata"]["namespace"] for role in found) == sorted(FAULT_NAMESPACES)
    assert [rights_of(role) for role in found] == [{("", "configmaps"): {"list", "watch"}}] * len(
        found
    )


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_arguments_and_variables_of_the_deployment_are_settings(variant: str) -> None:
    command, *flags = container(variant)["args"]
    assert command in cli.COMMANDS
    parser = argparse.ArgumentParser(exit_on_error=False)
    settings.add_arguments(parser)
    given = environment(variant)
    known = {settings.PREFIX + name.upper() for name in settings.Settings.model_fields}
    assert set(given) <= known
    assert settings.load(parser.parse_args(flags), given).lease_namespace == NAMESPACE


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_deployment_fits_the_settings_that_it_does_not_set(variant: str) -> None:
    given = settings.load(argparse.Namespace(), environment(variant))
    pod = deployment(variant)["spec"]["template"]["spec"]
    (election,) = (
        role for role in of_kind("Role", variant) if role["metadata"]["name"].endswith("election")
    )
    assert container(variant)["ports"] == [
        {"name": "http", "containerPort": given.http_port},
        {"name": "metrics", "containerPort": given.metrics_port},
    ]
    assert pod["terminationGracePeriodSeconds"] > SHUTDOWN_TIMEOUT
    assert [rule.get("resourceNames") for rule in election["rules"]] == [None, [given.lease_name]]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_pod_meets_the_restricted_pod_security_standard(variant: str) -> None:
    pod = deployment(variant)["spec"]["template"]["spec"]
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container(variant)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert [list(volume) for volume in pod["volumes"]] == [["name", "projected"]]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_token_is_mounted_for_an_hour_where_it_is_needed_and_nowhere_else(variant: str) -> None:
    pod = deployment(variant)["spec"]["template"]["spec"]
    (account,) = of_kind("ServiceAccount", variant)
    assert (account["automountServiceAccountToken"], pod["automountServiceAccountToken"]) == (
        False,
        False,
    )
    token, authority, namespace = pod["volumes"][0]["projected"]["sources"]
    # 3607 is what a mount of itself asks for, and API servers make a year of it.
    assert token["serviceAccountToken"] == {"path": "token", "expirationSeconds": 3600}
    files = [
        item["path"]
        for source in (authority["configMap"], namespace["downwardAPI"])
        for item in source["items"]
    ]
    assert files == ["ca.crt", "namespace"]
    (mount,) = container(variant)["volumeMounts"]
    assert mount["mountPath"] == str(Path(SERVICE_TOKEN_FILENAME).parent)
    assert mount["readOnly"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_two_replicas_outlive_a_drain_and_the_service_and_budget_select_them(variant: str) -> None:
    spec = deployment(variant)["spec"]
    labels = spec["template"]["metadata"]["labels"]
    (budget,) = of_kind("PodDisruptionBudget", variant)
    (service,) = of_kind("Service", variant)
    assert spec["replicas"] == 2
    assert spec["selector"]["matchLabels"] == labels
    assert budget["spec"]["selector"]["matchLabels"] == labels
    assert budget["spec"]["maxUnavailable"] < spec["replicas"]
    assert service["spec"]["selector"] == labels


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_has_two_minutes_to_answer_before_it_must_be_alive(variant: str) -> None:
    spec = container(variant)
    startup = spec["startupProbe"]
    liveness = spec["livenessProbe"]
    assert startup["httpGet"] == liveness["httpGet"]
    assert startup["periodSeconds"] * startup["failureThreshold"] == 120
    assert "initialDelaySeconds" not in liveness


def test_the_image_can_be_named_by_digest(tmp_path: Path) -> None:
    manifests = os.path.relpath(MANIFESTS, tmp_path.resolve())
    digest = "sha256:" + "0" * 64
    (tmp_path / "kustomization.yaml").write_text(
        f"resources: [{manifests}/cluster-wide]\n"
        f"images: [{{name: mind-cluster-scaler, newName: r.example/scaler, digest: '{digest}'}}]\n"
    )
    (deployed,) = (obj for obj in rendered(tmp_path) if obj["kind"] == "Deployment")
    (only,) = deployed["spec"]["template"]["spec"]["containers"]
    assert only["image"] == f"r.example/scaler@{digest}"


def test_the_network_policy_can_be_included(tmp_path: Path) -> None:
    # kustomize takes relative paths only
    manifests = os.path.relpath(MANIFESTS, tmp_path.resolve())
    (tmp_path / "kustomization.yaml").write_text(
        f"resources: [{manifests}/cluster-wide]\ncomponents: [{manifests}/network-policy]\n"
    )
    (policy,) = (obj for obj in rendered(tmp_path) if obj["kind"] == "NetworkPolicy")
    selector = deployment("cluster-wide")["spec"]["selector"]
    assert policy["spec"]["podSelector"] == selector
    assert policy["metadata"]["namespace"] == NAMESPACE
    port = int(environment("cluster-wide")["SCALER_METRICS_PORT"])
    (metrics,) = [rule for rule in policy["spec"]["ingress"] if {"port": port} in rule["ports"]]
    assert [list(peer) for peer in metrics["from"]] == [["namespaceSelector"]]


def test_metrics_are_served_to_whose_token_may_get_them_and_one_component_turns_that_off(
    tmp_path: Path,
) -> None:
    more: dict[str, list[str]] = {"secure": [], "plain": ["plain-metrics"]}
    seen = {}
    for name, last in more.items():
        folder = tmp_path / name
        folder.mkdir()
        manifests = os.path.relpath(MANIFESTS, folder.resolve())
        components = [f"{manifests}/{one}" for one in ("network-policy", *last)]
        resources = [f"{manifests}/{one}" for one in ("cluster-wide", "monitoring")]
        document = {"resources": resources, "components": components}
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(document))
        objects = rendered(folder)
        (deployed,) = (obj for obj in objects if obj["kind"] == "Deployment")
        (service,) = (obj for obj in objects if obj["kind"] == "Service")
        (monitor,) = (obj for obj in objects if obj["kind"] == "ServiceMonitor")
        (endpoint,) = monitor["spec"]["endpoints"]
        (port,) = service["spec"]["ports"]
        given = settings.load(argparse.Namespace(), variables(deployed))
        assert endpoint["port"] == port["name"] == port["targetPort"]
        assert service["metadata"]["annotations"]["prometheus.io/port"] == str(port["port"])
        roles_of_metrics = [
            obj["metadata"]["name"]
            for obj in objects
            if obj["kind"].startswith("ClusterRole") and "metrics" in obj["metadata"]["name"]
        ]
        (policy,) = (obj for obj in objects if obj["kind"] == "NetworkPolicy")
        assert policy["spec"]["ingress"][0]["ports"] == [{"port": port["port"]}]
        seen[name] = given.metrics_port, port["port"], len(roles_of_metrics), endpoint
    assert seen["secure"][:3] == (8443, 8443, 3)
    assert seen["plain"][:3] == (0, 8080, 0)
    assert seen["secure"][3]["scheme"] == "https"
    assert "bearerTokenFile" in seen["secure"][3]
    assert not {"scheme", "bearerTokenFile", "tlsConfig"} & seen["plain"][3].keys()


def test_the_runbook_of_every_alert_is_there_and_a_link_to_it_leads_there() -> None:
    """In both languages; with a repository the link is made of that and of a page of this tree."""
    rules = yaml.safe_load((MANIFESTS / "monitoring/alerts.yaml").read_text())
    alerts = [one for group in rules["spec"]["groups"] for one in group["rules"]]
    assert alerts
    for alert in alerts:
        path, _, anchor = alert["annotations"]["runbook_url"].partition("#")
        page = path.removeprefix("https://REPOSITORY/")
        for text in (page, page.replace("docs/", "docs/zh/", 1)):
            heads = re.findall(r"^## (.+)$", (ROOT / text).read_text("utf-8"), re.MULTILINE)
            assert anchor in [head.lower() for head in heads], (alert["alert"], text)


@pytest.mark.parametrize("language", ["docs", "docs/zh"])
def test_the_kustomization_of_the_page_on_monitoring_makes_links_of_every_runbook(
    language: str, tmp_path: Path
) -> None:
    page = (ROOT / language / "howto/monitor.md").read_text("utf-8")
    block = r"```yaml\n# deploy/kustomization.yaml\n(.*?)```"
    (written,) = re.findall(block, page, re.DOTALL)
    manifests = os.path.relpath(MANIFESTS, tmp_path.resolve())
    (tmp_path / "kustomization.yaml").write_text(written.replace("../manifests", manifests))
    (rules,) = (obj for obj in rendered(tmp_path) if obj["kind"] == "PrometheusRule")
    links = [
        rule["annotations"]["runbook_url"]
        for one in rules["spec"]["groups"]
        for rule in one["rules"]
    ]
    place = (
        "https://git.example.com/ops/mind-cluster-scaler/blob/main/docs/howto/runbooks/README.md#"
    )
    assert links
    assert [link for link in links if not link.startswith(place)] == []


def dockerfile() -> str:
    return (MANIFESTS / "image" / "Dockerfile").read_text()


def ignored_except() -> set[str]:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    return {line.removeprefix("!") for line in lines if line.startswith("!")}


def test_everything_the_image_copies_exists_and_reaches_the_builder() -> None:
    copies = re.findall(r"^COPY (?!--from)(.+) \S+$", dockerfile(), flags=re.MULTILINE)
    sources = {source for copy in copies for source in copy.split()}
    assert sources == ignored_except()
    assert [source for source in sources if not (ROOT / source).exists()] == []


def test_the_image_runs_what_the_deployment_runs() -> None:
    pod = deployment("cluster-wide")["spec"]["template"]["spec"]
    user = pod["securityContext"]
    assert f"\nUSER {user['runAsUser']}:{user['runAsGroup']}\n" in dockerfile()
    assert 'CMD ["run"]' in dockerfile()
    assert container("cluster-wide")["args"] == ["run"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_version_is_the_same_in_package_image_and_manifests(variant: str) -> None:
    assert container(variant)["image"] == f"mind-cluster-scaler:{scaler.__version__}"
    assert f'image.version="{scaler.__version__}"' in dockerfile()
    assert f'version = "{scaler.__version__}"' in (ROOT / "pyproject.toml").read_text()


def test_the_image_installs_only_what_the_lock_names() -> None:
    installs = re.findall(r"pip install((?:.*\\\n)*.*)", dockerfile())
    (options,) = (set(install.split()) for install in installs)
    assert {"--require-hashes", "--only-binary", "--no-deps", "requirements.lock"} <= options


def with_admission(tmp_path: Path) -> tuple[Object, ...]:
    manifests = os.path.relpath(MANIFESTS, tmp_path.resolve())
    (tmp_path / "kustomization.yaml").write_text(
        f"resources: [{manifests}/single-namespace]\n"
        f"components: [{manifests}/admission-webhook, {manifests}/admission-policy,"
        f" {manifests}/provisioning-request]\n"
    )
    return rendered(tmp_path)


def test_the_documentation_lists_exactly_these_rights_line_by_line(tmp_path: Path) -> None:
    row = r"^\| `([a-z-]+)` \| `(\S+)` \| `([a-z/]+)` \| (.*?)\| ([a-z, ]+) \| [^|]+ \| [^|]+ \|$"
    rows = re.findall(row, RIGHTS.read_text(), flags=re.MULTILINE)
    listed = [
        (role, group.replace("core", ""), resource, name, verbs)
        for role, group, resource, names, verbs in rows
        for name in re.findall(r"`(\S+)`", names) or [""]
    ]
    held = {
        (role["metadata"]["name"].removeprefix(PREFIX), *what, name, ", ".join(rule["verbs"]))
        for role in with_admission(tmp_path)
        if role["kind"] in ("Role", "ClusterRole")
        for rule in role["rules"]
        if "resources" in rule
        for what in itertools.product(rule["apiGroups"], rule["resources"])
        for name in rule.get("resourceNames", [""])
    }
    assert sorted(listed) == sorted(held)


def test_the_documentation_says_where_each_role_is_bound() -> None:
    section = RIGHTS.read_text().split("## What each right is for")[1]
    header, *rows = re.findall(
        r"^\| `?([a-z-]+)`? \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", section, flags=re.MULTILINE
    )
    variants = [cell.strip("`") for cell in header[1:]]
    assert sorted(variants) == sorted(VARIANTS)
    for number, variant in enumerate(variants, start=1):
        documented = {
            row[0]: set(row[number].replace("`", "").split(", "))
            for row in rows
            if row[number] != "-"
        }
        assert documented == {role: in_words(found) for role, found in places(variant).items()}


def in_words(found: Iterable[str]) -> set[str]:
    return {"own namespace" if place == NAMESPACE else place for place in found}


def names(objects: Iterable[Object]) -> set[tuple[str, str, str]]:
    return {
        (obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        for obj in objects
    }


def second_install(folder: Path, suffix: str, *components: str) -> tuple[Object, ...]:
    """manifests/second-install as somebody else would fill it in."""
    shutil.copytree(MANIFESTS, folder / "manifests")
    for path in (folder / "manifests" / "second-install").rglob("kustomization.yaml"):
        text = path.read_text().replace("team-a", suffix)
        more = "".join(f"  - ../../{name}\n" for name in components)
        text = text.replace("  - ../../create", f"{more}  - ../../create")
        path.write_text(text)
    return rendered(folder / "manifests" / "second-install")


DEFINITION = ("CustomResourceDefinition", "", "elasticservices.scaler.mind-cluster.io")


def test_an_install_of_another_name_shares_no_object_with_others_but_the_definition(
    tmp_path: Path,
) -> None:
    one = rendered(MANIFESTS / "second-install")
    two = second_install(tmp_path, "team-b")
    for other in (two, *(rendered(MANIFESTS / variant) for variant in VARIANTS)):
        assert names(one) & names(other) == {DEFINITION}
    for objects, team in ((one, "team-a"), (two, "team-b")):
        account = (f"mind-cluster-scaler-{team}", f"{team}-scaler")
        bindings = [obj for obj in objects if obj["kind"].endswith("RoleBinding")]
        assert {
            (s["name"], s["namespace"]) for binding in bindings for s in binding["subjects"]
        } == {account}
        bound = {(obj["metadata"].get("namespace"), obj["roleRef"]["name"]) for obj in bindings}
        at_home = {"election": account[1], "records": account[1]}
        assert bound == {
            (place, f"{PREFIX}{role}-{team}")
            for role in ROLES
            for place in [{**at_home, "cluster": None, "metrics": None}.get(role, team)]
        }
        (deployed,) = (obj for obj in objects if obj["kind"] == "Deployment")
        given = settings.load(argparse.Namespace(), variables(deployed))
        assert (given.install, given.lease_namespace, given.namespaces) == (*account, (team,))


def test_its_webhooks_are_its_own(tmp_path: Path) -> None:
    objects = second_install(tmp_path, "team-b", "admission-webhook")
    (deployed,) = (obj for obj in objects if obj["kind"] == "Deployment")
    given = settings.load(argparse.Namespace(), variables(deployed))
    configurations = [obj for obj in objects if obj["kind"].endswith("WebhookConfiguration")]
    assert {obj["metadata"]["name"] for obj in configurations} == {given.install}
    called = [hook["clientConfig"]["service"] for obj in configurations for hook in obj["webhooks"]]
    assert {f"{call['name']}.{call['namespace']}.svc" for call in called} == {given.webhook_name}
    assert ("Service", given.lease_namespace, given.install) in names(objects)
    (role,) = (
        obj
        for obj in objects
        if obj["kind"] == "ClusterRole" and "webhook" in obj["metadata"]["name"]
    )
    assert [rule["resourceNames"] for rule in role["rules"]] == [[given.install]]


def test_its_policies_are_its_own(tmp_path: Path) -> None:
    objects = second_install(tmp_path, "team-b", "admission-policy")
    policies = {
        obj["metadata"]["name"] for obj in objects if obj["kind"] == "MutatingAdmissionPolicy"
    }
    bindings = [obj for obj in objects if obj["kind"] == "MutatingAdmissionPolicyBinding"]
    assert policies == {"mind-cluster-scaler-team-b", "mind-cluster-scaler-ascendjobs-team-b"}
    assert {obj["spec"]["policyName"] for obj in bindings} == policies
    (role,) = (
        obj
        for obj in objects
        if obj["kind"] == "ClusterRole" and "policy" in obj["metadata"]["name"]
    )
    assert [rule["resourceNames"] for rule in role["rules"]] == [["mind-cluster-scaler-team-b"]]


def test_neither_its_webhooks_nor_its_policies_act_in_its_own_namespace(tmp_path: Path) -> None:
    objects = second_install(tmp_path, "team-b", "admission-webhook", "admission-policy")
    selectors = [hook["namespaceSelector"] for obj in objects for hook in obj.get("webhooks", ())]
    bindings = (obj for obj in objects if obj["kind"] == "MutatingAdmissionPolicyBinding")
    selectors += [obj["spec"]["matchResources"]["namespaceSelector"] for obj in bindings]
    spared = [entry["values"] for selector in selectors for entry in selector["matchExpressions"]]
    assert spared == [["kube-system", "team-b-scaler"]] * 7
