"""The optional manifests of admission: what they match, whom they spare, and what rights they
add."""

from __future__ import annotations

import argparse
import functools
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scaler import settings
from scaler.kube.api import ASCEND_JOBS
from scaler.names import (
    BESIDE_LABEL,
    DELETION_COST,
    GATE,
    GROUP_LABEL,
    HELD_COST,
    JOB_ID_LABEL,
    MOVED_RULE,
    NAMESPACE_LABEL,
    RULE_KEY,
    RULE_LABEL,
    WEBHOOK_SECRET,
)
from scaler.report.metrics import Metrics
from scaler.serve.webhook import webhook_server
from tests.test_manifests import MANIFESTS, NAMESPACE, VARIANTS, Object, rendered, rights, variables

COMPONENTS = ("admission-webhook", "admission-policy", "gate-guard")
ALLOWED = {
    ("", "secrets", None): {"create"},
    ("", "secrets", "mind-cluster-scaler-webhook"): {"get", "update"},
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings", "mind-cluster-scaler"): {
        "get"
    },
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "mind-cluster-scaler"): {
        "get",
        "patch",
    },
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", "mind-cluster-scaler"): {
        "get",
        "patch",
    },
}
"""Every right that admission may add. Whoever adds one says why beside its rule and in
docs/reference/admission.md."""
SPARED = {"kube-system", NAMESPACE}


@functools.cache
def added(*components: str, variant: str = "cluster-wide") -> tuple[Object, ...]:
    """Everything that a variant with these components consists of."""
    with tempfile.TemporaryDirectory() as folder:
        manifests = os.path.relpath(MANIFESTS, Path(folder).resolve())
        names = ", ".join(f"{manifests}/{name}" for name in components)
        text = f"resources: [{manifests}/{variant}]\ncomponents: [{names}]\n"
        (Path(folder) / "kustomization.yaml").write_text(text)
        return rendered(Path(folder))


def of_kind(kind: str, *components: str) -> list[Object]:
    return [obj for obj in added(*(components or COMPONENTS)) if obj["kind"] == kind]


def hooks() -> Iterator[Object]:
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        (found,) = of_kind(kind)
        yield from found["webhooks"]


def selectors() -> list[Object]:
    """Every namespace selector that decides whose pods and jobs admission changes or judges."""
    bindings = of_kind("MutatingAdmissionPolicyBinding")
    return [hook["namespaceSelector"] for hook in hooks()] + [
        binding["spec"]["matchResources"]["namespaceSelector"] for binding in bindings
    ]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("component", [*COMPONENTS, "network-policy"])
def test_every_component_can_be_included_in_every_variant(component: str, variant: str) -> None:
    assert len(added(component, variant=variant)) > len(rendered(MANIFESTS / variant))


def test_only_namespaces_that_opted_in_are_touched_and_never_the_systems_or_our_own() -> None:
    found = selectors()
    assert len(found) == 7
    for selector in found:
        assert selector["matchLabels"][NAMESPACE_LABEL] == "enabled"
        (spared,) = selector["matchExpressions"]
        assert (spared["key"], spared["operator"]) == ("kubernetes.io/metadata.name", "NotIn")
        assert set(spared["values"]) == SPARED


def test_jobs_are_moved_only_where_the_namespace_says_that_ascend_operator_is_there() -> None:
    (hook,) = (hook for hook in hooks() if hook["name"].startswith("ascendjobs."))
    (binding,) = (
        obj
        for obj in of_kind("MutatingAdmissionPolicyBinding")
        if "ascendjobs" in obj["metadata"]["name"]
    )
    for selector in (
        hook["namespaceSelector"],
        binding["spec"]["matchResources"]["namespaceSelector"],
    ):
        assert selector["matchLabels"][BESIDE_LABEL] == "true"
    assert sum(BESIDE_LABEL in selector["matchLabels"] for selector in selectors()) == 2


def test_whatever_can_block_or_change_a_pod_or_job_sees_only_those_that_name_a_rule() -> None:
    changing = [*of_kind("MutatingWebhookConfiguration")[0]["webhooks"]]
    constraints = [obj["spec"]["matchConstraints"] for obj in of_kind("MutatingAdmissionPolicy")]
    for matched in [*changing, *constraints]:
        assert matched["objectSelector"] == {
            "matchExpressions": [{"key": RULE_LABEL, "operator": "Exists"}]
        }


def test_every_webhook_fails_open_soon_and_has_no_side_effects() -> None:
    for hook in hooks():
        assert (hook["failurePolicy"], hook["sideEffects"]) == ("Ignore", "None")
        assert hook["timeoutSeconds"] <= 5
        assert hook["admissionReviewVersions"] == ["v1"]


def test_webhooks_call_paths_that_are_served_by_the_service_on_the_port_of_the_deployment() -> None:
    server = webhook_server(lambda _namespace, _rule: None, Metrics())
    served = {resource.canonical for resource in server.app.router.resources()}
    (service,) = (obj for obj in of_kind("Service") if obj["spec"]["ports"][0]["name"] == "webhook")
    called = [hook["clientConfig"]["service"] for hook in hooks()]
    assert {call["path"] for call in called} == served
    assert {(call["name"], call["namespace"]) for call in called} == {
        (service["metadata"]["name"], NAMESPACE)
    }
    assert service["spec"]["ports"] == [{"name": "webhook", "port": 443, "targetPort": "webhook"}]
    (deployment,) = of_kind("Deployment")
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    given = settings.load(argparse.Namespace(), variables(deployment))
    assert {"name": "webhook", "containerPort": given.webhook_port} in container["ports"]
    assert given.webhook_name == f"{service['metadata']['name']}.{NAMESPACE}.svc"


def test_an_included_network_policy_lets_api_servers_in() -> None:
    (policy,) = (
        obj
        for obj in added("admission-webhook", "network-policy")
        if obj["kind"] == "NetworkPolicy"
    )
    ports = [entry["port"] for rule in policy["spec"]["ingress"] for entry in rule["ports"]]
    (deployment,) = of_kind("Deployment", "admission-webhook")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    there = {entry["name"]: entry["containerPort"] for entry in container["ports"]}
    del there["http"]  # probes need no rule
    assert set(there.values()) == set(ports)


def reads_secrets(role: Object) -> bool:
    return any("secrets" in rule["resources"] for rule in role["rules"])


def test_rights_are_added_for_one_secret_two_configurations_and_one_binding_and_nothing_else() -> (
    None
):
    base = {
        obj["metadata"]["name"]
        for obj in rendered(MANIFESTS / "cluster-wide")
        if obj["kind"].endswith("Role")
    }
    roles = [
        obj
        for obj in added(*COMPONENTS)
        if obj["kind"].endswith("Role") and obj["metadata"]["name"] not in base
    ]
    held: dict[tuple[str, str, str | None], set[str]] = {}
    for rule in (rule for role in roles for rule in role["rules"]):
        for resource in rule["resources"]:
            for name in rule.get("resourceNames", [None]):
                held.setdefault((rule["apiGroups"][0], resource, name), set()).update(rule["verbs"])
    assert held == ALLOWED
    secrets = [role for role in roles if reads_secrets(role)]
    assert [(role["kind"], role["metadata"]["namespace"]) for role in secrets] == [
        ("Role", NAMESPACE)
    ]
    assert WEBHOOK_SECRET in {name for _, _, name in ALLOWED}


def test_older_kubernetes_gets_the_webhook_without_match_conditions() -> None:
    def conditions(*components: str) -> list[Any]:
        (found,) = (
            obj for obj in added(*components) if obj["kind"] == "ValidatingWebhookConfiguration"
        )
        return [hook["matchConditions"] for hook in found["webhooks"] if "matchConditions" in hook]

    ((condition,),) = conditions("admission-webhook")
    assert condition["expression"].count(f'"{RULE_KEY}"') == 2
    assert conditions("admission-webhook", "admission-webhook-1.27") == []


def test_policies_and_webhook_use_the_same_names() -> None:
    text = "\n".join(path.read_text() for path in (MANIFESTS / "admission-policy").glob("*.yaml"))
    for name in (GATE, RULE_LABEL, GROUP_LABEL, JOB_ID_LABEL, DELETION_COST, HELD_COST, MOVED_RULE):
        assert re.search(rf"""["']{re.escape(name)}["']""", text), name
    assert ASCEND_JOBS.group in text
    guard = (MANIFESTS / "gate-guard" / "gate-guard.yaml").read_text()
    assert f"'{GATE}'" in guard
    assert (
        "authorizer.group('mind-cluster').resource('gates').namespace(request.namespace).check('release')"
        in guard
    )
    assert ("mind-cluster", "gates", "release") in set(rights("gates-only"))


def test_with_cert_manager_no_right_is_added_and_the_certificate_comes_from_its_secret() -> None:
    objects = added("admission-webhook", "admission-webhook-cert-manager")
    roles = {obj["metadata"]["name"] for obj in objects if "Role" in obj["kind"]}
    assert roles == {
        obj["metadata"]["name"]
        for obj in rendered(MANIFESTS / "cluster-wide")
        if "Role" in obj["kind"]
    }
    (certificate,) = (
        obj for obj in objects if obj["kind"] == "Certificate" and "dnsNames" in obj["spec"]
    )
    (deployment,) = (obj for obj in objects if obj["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    _, volume = pod["volumes"]
    _, mount = pod["containers"][0]["volumeMounts"]
    given = settings.load(argparse.Namespace(), variables(deployment))
    assert certificate["spec"]["dnsNames"] == [given.webhook_name]
    assert volume["secret"]["secretName"] == certificate["spec"]["secretName"]
    assert volume["secret"]["defaultMode"] == 0o440
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"]
    files = (given.webhook_cert_file, given.webhook_key_file)
    assert files == (f"{mount['mountPath']}/tls.crt", f"{mount['mountPath']}/tls.key")
    source = f"{NAMESPACE}/{certificate['metadata']['name']}"
    for obj in objects:
        if obj["kind"].endswith("WebhookConfiguration"):
            assert obj["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": source}
