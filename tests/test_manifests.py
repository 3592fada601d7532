"""The manifests as a cluster would get them: rendered by a real kubectl, judged for rights, hardening and settings."""

from __future__ import annotations

import argparse
import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import scaler
from scaler import cli, settings
from scaler.app import SHUTDOWN_TIMEOUT
from scaler.informers.faults import CLUSTER_NAMESPACE, DEVICE_NAMESPACE

ROOT = Path(__file__).parent.parent
MANIFESTS = ROOT / "manifests"
KUBECTL = Path(sys.executable).parent / "kubectl"
DEPLOY = ROOT / "docs" / "howto" / "deploy.md"
VARIANTS = ("cluster-wide", "single-namespace")
NAMESPACE = "mind-cluster-scaler-system"
FAULT_NAMESPACES = {DEVICE_NAMESPACE, CLUSTER_NAMESPACE}

ALLOWED = {
    ("", "configmaps"): {"get", "list", "watch", "create", "patch", "delete"},
    ("", "events"): {"get", "create", "patch"},
    ("", "nodes"): {"list", "watch"},
    ("", "pods"): {"get", "list", "watch", "create", "patch", "delete"},
    ("", "services"): {"get", "list", "watch", "create", "delete"},
    ("apps", "deployments"): {"list", "watch"},
    ("apps", "replicasets"): {"list", "watch"},
    ("apps", "statefulsets"): {"list", "watch"},
    ("batch.volcano.sh", "jobs"): {"list", "watch"},
    ("coordination.k8s.io", "leases"): {"get", "list", "watch", "create", "update"},
    ("leaderworkerset.x-k8s.io", "leaderworkersets"): {"list", "watch"},
    ("mindxdl.gitee.com", "ascendjobs"): {"get", "list", "watch", "patch", "delete"},
    ("mindxdl.gitee.com", "ascendjobs/finalizers"): {"update"},
    ("mindxdl.gitee.com", "ascendjobs/status"): {"patch"},
    ("orchestration.aibrix.ai", "podsets"): {"list", "watch"},
    ("scheduling.k8s.io", "priorityclasses"): {"list", "watch"},
    ("scheduling.volcano.sh", "podgroups"): {"get", "list", "watch", "create", "patch", "delete"},
}
"""Every right the scaler may ever hold. Whoever adds one says why beside its rule and in docs/howto/deploy.md."""

Object = dict[str, Any]


@functools.cache
def rendered(folder: Path) -> tuple[Object, ...]:
    done = subprocess.run([KUBECTL, "kustomize", folder], capture_output=True, text=True, check=False)
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
    """What the container's process will see; a field reference stands for the scaler's own namespace."""
    return {entry["name"]: entry.get("value", NAMESPACE) for entry in container(variant)["env"]}


def rights(variant: str) -> Iterator[tuple[str, str, str]]:
    for role in of_kind("ClusterRole", variant) + of_kind("Role", variant):
        for rule in role["rules"]:
            yield from (
                (group, resource, verb)
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for verb in rule["verbs"]
            )


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_right_is_held_that_is_not_on_the_list(variant: str) -> None:
    assert [right for right in rights(variant) if right[2] not in ALLOWED.get(right[:2], set())] == []


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_right_on_the_list_is_held(variant: str) -> None:
    assert set(rights(variant)) == {(*what, verb) for what, verbs in ALLOWED.items() for verb in verbs}


def test_the_list_has_no_wildcard_no_secret_and_no_way_to_more_rights() -> None:
    forbidden = {"*", "secrets", "serviceaccounts/token", "pods/exec", "roles", "clusterroles", "nodes/proxy"}
    escalating = {"*", "bind", "escalate", "impersonate", "deletecollection"}
    assert not forbidden & {part for what in ALLOWED for part in what}
    assert not escalating & set().union(*ALLOWED.values())


@pytest.mark.parametrize("path", sorted(MANIFESTS.rglob("*role.yaml")), ids=lambda path: path.stem)
def test_each_rule_says_why_above_itself(path: Path) -> None:
    lines = path.read_text().splitlines()
    rules = [number for number, line in enumerate(lines) if line.startswith("  - apiGroups:")]
    assert rules
    assert [lines[number] for number in rules if not lines[number - 1].startswith("  # ")] == []


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_role_is_bound_to_the_account_of_the_deployment_and_to_nobody_else(variant: str) -> None:
    bindings = of_kind("ClusterRoleBinding", variant) + of_kind("RoleBinding", variant)
    roles = of_kind("ClusterRole", variant) + of_kind("Role", variant)
    account = deployment(variant)["spec"]["template"]["spec"]["serviceAccountName"]
    assert {subject["name"] for binding in bindings for subject in binding["subjects"]} == {account}
    assert {subject["namespace"] for binding in bindings for subject in binding["subjects"]} == {NAMESPACE}
    assert sorted(binding["roleRef"]["name"] for binding in bindings) == sorted(
        role["metadata"]["name"] for role in roles
    )


def test_the_single_namespace_variant_may_touch_only_the_namespace_it_looks_after() -> None:
    variant = "single-namespace"
    everywhere = {binding["roleRef"]["name"] for binding in of_kind("ClusterRoleBinding", variant)}
    places = {binding["metadata"]["namespace"] for binding in of_kind("RoleBinding", variant)}
    assert everywhere == {"mind-cluster-scaler-cluster"}
    assert places == {NAMESPACE, environment(variant)["SCALER_NAMESPACES"], *FAULT_NAMESPACES}


def test_the_single_namespace_variant_only_reads_in_the_namespaces_of_mindcluster() -> None:
    roles = [role for role in of_kind("Role", "single-namespace") if role["metadata"]["namespace"] in FAULT_NAMESPACES]
    assert sorted(role["metadata"]["namespace"] for role in roles) == sorted(FAULT_NAMESPACES)
    assert [role["rules"] for role in roles] == [
        [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}]
    ] * len(roles)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_arguments_and_variables_of_the_deployment_are_settings(variant: str) -> None:
    command, *flags = container(variant)["args"]
    assert command in cli.COMMANDS
    parser = argparse.ArgumentParser(exit_on_error=False)
    settings.add_arguments(parser)
    variables = environment(variant)
    known = {settings.PREFIX + name.upper() for name in settings.Settings.model_fields}
    assert set(variables) <= known
    assert settings.load(parser.parse_args(flags), variables).lease_namespace == NAMESPACE


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_deployment_fits_the_settings_that_it_does_not_set(variant: str) -> None:
    given = settings.load(argparse.Namespace(), environment(variant))
    pod = deployment(variant)["spec"]["template"]["spec"]
    (election,) = (role for role in of_kind("Role", variant) if role["metadata"]["name"].endswith("election"))
    assert container(variant)["ports"] == [{"name": "http", "containerPort": given.http_port}]
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
    assert not {"volumes", "hostNetwork", "hostPID", "hostIPC"} & set(pod)


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


def test_the_network_policy_can_be_included(tmp_path: Path) -> None:
    manifests = os.path.relpath(MANIFESTS, tmp_path.resolve())  # kustomize takes relative paths only
    (tmp_path / "kustomization.yaml").write_text(
        f"resources: [{manifests}/cluster-wide]\ncomponents: [{manifests}/network-policy]\n"
    )
    (policy,) = (obj for obj in rendered(tmp_path) if obj["kind"] == "NetworkPolicy")
    selector = deployment("cluster-wide")["spec"]["selector"]
    assert policy["spec"]["podSelector"] == selector
    assert policy["metadata"]["namespace"] == NAMESPACE
    (port,) = [
        entry["containerPort"]
        for entry in deployment("cluster-wide")["spec"]["template"]["spec"]["containers"][0]["ports"]
    ]
    (metrics,) = [rule for rule in policy["spec"]["ingress"] if {"port": port} in rule["ports"]]
    assert [list(peer) for peer in metrics["from"]] == [["namespaceSelector"]]


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


def test_the_documentation_lists_exactly_these_rights() -> None:
    rows = re.findall(r"^\| `(\S*)` \| `([a-z/]+)` \| ([a-z, ]+) \|", DEPLOY.read_text(), flags=re.MULTILINE)
    listed = {(group.replace("core", ""), resource): set(verbs.split(", ")) for group, resource, verbs in rows}
    assert listed == ALLOWED
