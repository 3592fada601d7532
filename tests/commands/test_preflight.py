"""`scaler preflight`: what each check says of a picture of a cluster, the rights it asks for, and
what is printed."""

from __future__ import annotations

import argparse
import base64
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from scaler import __version__, settings
from scaler.cli import main
from scaler.defaults import Mode
from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    ELASTIC_SERVICES,
    ENDPOINT_SLICES,
    LEASES,
    MUTATING_POLICY_BINDINGS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    QUEUES,
    VALIDATING_WEBHOOKS,
    KubeApi,
    Object,
    Resource,
)
from scaler.kube.errors import ForbiddenError
from scaler.rules.finding import Finding
from scaler.serve import certificates
from scaler.settings import Settings
from scaler.sim.actors.faulty_api import FaultyApi
from scaler.sim.apiserver.crds import definitions
from scaler.sim.loop import run
from scaler.timestamps import rfc3339_micro
from scaler.tools.common.check_result import CheckResult, Level
from scaler.tools.common.leader import Leader, Leaders
from scaler.tools.preflight import admission, faults, install, platform, rights, services
from scaler.tools.preflight import command as preflight
from scaler.tools.preflight.checks import Check
from scaler.tools.preflight.judgement import CHECKS, judge
from scaler.tools.preflight.picture import Install, Linted, Picture, Right, tag_of
from scaler.tools.preflight.read_picture import install_of, read
from tests.commands.test_cluster import RULE, Forbidden
from tests.jobs import job
from tests.rig import START, rig
from tests.test_manifests import MANIFESTS, VARIANTS, deployment, environment, of_kind, rendered
from tests.test_rights import Rbac

HOME = "mind-cluster-scaler-system"
NAME = "mind-cluster-scaler"
SETTINGS = Settings.model_validate({"mode": Mode.AUTO, "lease_namespace": HOME})
INSTALL = Install(HOME, NAME, NAME, SETTINGS, "", f"registry/{NAME}:{__version__}", 2, 2)
LEADER = Leader(HOME, NAME, "one", START, 8.0)
EMPTY = Picture(version="v1.35.3", now=START)
INSTALLED = Picture(version="v1.35.3", now=START, installs=(INSTALL,), leaders=Leaders((LEADER,)))


def seen(
    picture: Picture = EMPTY,
    found: Mapping[Resource, Sequence[Object]] | None = None,
    **changes: Any,
) -> Picture:
    """The picture with these objects in it."""
    more = {resource: tuple(objects) for resource, objects in (found or {}).items()}
    return msgspec.structs.replace(picture, found={**picture.found, **more}, **changes)


def with_settings(**changes: Any) -> Install:
    return msgspec.structs.replace(INSTALL, settings=SETTINGS.model_copy(update=changes))


def said(check: Check, level: Level) -> str:
    """The words and the advice of what was found at this level."""
    return "\n".join(f"{one.text} -> {one.advice}" for one in check.results if one.level is level)


def named(name: str, namespace: str = "", **parts: Any) -> Object:
    meta = {"name": name, "namespace": namespace, "labels": parts.pop("labels", {})}
    return {"metadata": {**meta, **parts.pop("metadata", {})}, **parts}


def deployed(
    name: str, namespace: str, *, ready: int = 1, replicas: int = 1, **container: Any
) -> Object:
    template = {"spec": {"containers": [{"image": "registry/it:v1.9.0", **container}]}}
    return named(
        name,
        namespace,
        spec={"replicas": replicas, "template": template},
        status={"readyReplicas": ready},
    )


VOLCANO = deployed("volcano-scheduler", "volcano-system")
OPERATOR = deployed("ascend-operator-manager", "mindx-dl")
OPEN = named("default", status={"state": "Open"})


# Kubernetes


@pytest.mark.parametrize(
    ("version", "level", "words"),
    [
        ("v1.26.9", Level.ERROR, "no scheduling gates"),
        ("v1.27.1", Level.OK, "admission-webhook-1.27"),
        ("v1.29.0", Level.OK, "no gate-guard"),
        ("v1.35.3+k3s1", Level.OK, "gates are put on by the webhook"),
        ("v1.36.0", Level.OK, "v1.36.0 is supported"),
        ("v1.37.0-alpha.1", Level.WARNING, "newer than what was tried"),
        ("", Level.UNKNOWN, "not known"),
        ("403: forbidden", Level.UNKNOWN, "403"),
    ],
)
def test_a_version_of_kubernetes_is_supported_or_not_and_what_it_lacks_is_said(
    version: str, level: Level, words: str
) -> None:
    found = platform.kubernetes(seen(version=version))
    assert (found.level, words in said(found, level)) == (level, True)


# kinds


def crds(*kinds: Resource) -> list[Object]:
    return [
        named(kind.full_name, spec={"versions": [{"name": kind.version, "served": True}]})
        for kind in kinds
    ]


def test_definitions_that_are_those_of_this_version_are_well() -> None:
    there = [definitions()[0], *crds(ASCEND_JOBS, POD_GROUPS)]
    found = platform.kinds(seen(INSTALLED, {CUSTOM_RESOURCE_DEFINITIONS: there}))
    assert (found.level, "AscendJob v1" in said(found, Level.OK)) == (Level.OK, True)


def test_a_missing_definition_of_our_own_is_an_error_only_where_the_scaler_is_installed() -> None:
    there = {CUSTOM_RESOURCE_DEFINITIONS: crds(ASCEND_JOBS, POD_GROUPS)}
    assert platform.kinds(seen(EMPTY, there)).level is Level.WARNING
    assert "elasticservices.yaml" in said(platform.kinds(seen(INSTALLED, there)), Level.ERROR)


def test_a_definition_of_another_version_is_named_with_the_command_that_replaces_it() -> None:
    other = definitions()[0]
    other["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"][
        "properties"
    ].pop("replicas")
    found = platform.kinds(
        seen(INSTALLED, {CUSTOM_RESOURCE_DEFINITIONS: [other, *crds(ASCEND_JOBS, POD_GROUPS)]})
    )
    assert "kubectl apply --server-side -f manifests/base/elasticservices.yaml" in said(
        found, Level.WARNING
    )


def test_a_kind_that_is_served_in_another_version_is_an_error() -> None:
    (other,) = crds(ASCEND_JOBS)
    other["spec"]["versions"][0]["name"] = "v2"
    found = platform.kinds(
        seen(INSTALLED, {CUSTOM_RESOURCE_DEFINITIONS: [other, *crds(POD_GROUPS)]})
    )
    assert "AscendJob is served as v2" in said(found, Level.ERROR)


def test_jobs_without_podgroups_are_an_error() -> None:
    found = platform.kinds(seen(INSTALLED, {CUSTOM_RESOURCE_DEFINITIONS: crds(ASCEND_JOBS)}))
    assert "PodGroup is not" in said(found, Level.ERROR)


# scheduler


def test_a_volcano_that_is_ready_with_an_open_queue_is_well() -> None:
    found = platform.scheduler(seen(EMPTY, {DEPLOYMENTS: [VOLCANO], QUEUES: [OPEN]}))
    assert (found.level, "Volcano v1.9.0 in volcano-system" in said(found, Level.OK)) == (
        Level.OK,
        True,
    )


def test_a_volcano_without_a_ready_replica_is_an_error_with_a_command() -> None:
    down = deployed("volcano-scheduler", "volcano-system", ready=0)
    found = platform.scheduler(seen(EMPTY, {DEPLOYMENTS: [down], QUEUES: [OPEN]}))
    assert "kubectl -n volcano-system describe deployment volcano-scheduler" in said(
        found, Level.ERROR
    )


def test_a_closed_queue_is_an_error_and_a_missing_one_a_warning() -> None:
    closed = named("default", status={"state": "Closed"})
    assert "is Closed" in said(
        platform.scheduler(seen(EMPTY, {DEPLOYMENTS: [VOLCANO], QUEUES: [closed]})), Level.ERROR
    )
    found = platform.scheduler(seen(EMPTY, {DEPLOYMENTS: [VOLCANO]}))
    assert "no queue default" in said(found, Level.WARNING)


def test_no_volcano_is_an_error_where_there_are_jobs_and_nothing_takes_their_groups_up() -> None:
    jobs: dict[Resource, Sequence[Object]] = {ASCEND_JOBS: [named("p0", "mindie")], QUEUES: [OPEN]}
    assert platform.scheduler(seen(EMPTY, jobs)).level is Level.ERROR
    taken = named("p0", "mindie", status={"phase": "Inqueue"})
    assert platform.scheduler(seen(EMPTY, {**jobs, POD_GROUPS: [taken]})).level is Level.WARNING
    assert platform.scheduler(seen(EMPTY, {QUEUES: [OPEN]})).level is Level.WARNING


@pytest.mark.parametrize(("silent", "level"), [(10, Level.OK), (600, Level.ERROR)])
def test_a_volcano_whose_lease_is_old_does_not_work(silent: float, level: Level) -> None:
    lease = named("volcano", "volcano-system", spec={"renewTime": rfc3339_micro(START - silent)})
    found = platform.scheduler(
        seen(EMPTY, {DEPLOYMENTS: [VOLCANO], QUEUES: [OPEN], LEASES: [lease]})
    )
    assert found.level is level


def test_a_scheduler_without_the_plugin_gang_is_an_error() -> None:
    text = "actions: enqueue\ntiers:\n- plugins:\n  - name: priority\n"
    config = named(
        "volcano-scheduler-configmap", "volcano-system", data={"volcano-scheduler.conf": text}
    )
    there = {DEPLOYMENTS: [VOLCANO], QUEUES: [OPEN], CONFIG_MAPS: [config]}
    assert "gang" in said(platform.scheduler(seen(EMPTY, there)), Level.ERROR)
    config["data"]["volcano-scheduler.conf"] += "  - name: gang\n"
    assert platform.scheduler(seen(EMPTY, there)).level is Level.OK


def test_a_service_that_asks_for_a_scheduler_that_nobody_is_is_named() -> None:
    ours = deployed("volcano-scheduler", "volcano-system", args=["--scheduler-name=volcano-npu"])
    pod = named("p", "mindie", spec={"schedulerName": "volcano"})
    found = platform.scheduler(seen(EMPTY, {DEPLOYMENTS: [ours], QUEUES: [OPEN], PODS: [pod]}))
    assert "ask for the scheduler 'volcano', and Volcano is volcano-npu" in said(
        found, Level.WARNING
    )


# Ascend Operator


@pytest.mark.parametrize(
    ("mode", "operator", "level", "words"),
    [
        (
            Mode.AUTO,
            OPERATOR,
            Level.OK,
            "mindx-dl/ascend-operator-manager v1.9.0 runs; in mode auto the scaler releases",
        ),
        (Mode.AUTO, None, Level.OK, "none runs; in mode auto the scaler makes pods"),
        (Mode.CREATE, OPERATOR, Level.ERROR, "SCALER_MODE=auto"),
        (Mode.GATES, None, Level.ERROR, "nobody makes their pods"),
    ],
)
def test_who_makes_the_pods_follows_from_mode_and_operator(
    mode: Mode, operator: Object | None, level: Level, words: str
) -> None:
    there = {DEPLOYMENTS: [operator] if operator else [], ASCEND_JOBS: [job("p0")]}
    found = platform.operator(seen(INSTALLED, there, installs=(with_settings(mode=mode),)))
    assert (found.level, words in said(found, level)) == (level, True)


def test_mode_auto_that_waits_for_the_operator_it_has_seen_is_said() -> None:
    waits = Leaders((msgspec.structs.replace(LEADER, last_mode="gates"),))
    there = {DEPLOYMENTS: [], ASCEND_JOBS: [job("p0")]}
    found = platform.operator(seen(INSTALLED, there, leaders=waits))
    assert "set SCALER_MODE=create to take over" in said(found, Level.ERROR)
    found = platform.operator(seen(INSTALLED, {DEPLOYMENTS: [OPERATOR]}, leaders=waits))
    assert found.level is Level.OK


def test_an_operator_in_another_namespace_is_named_with_the_setting() -> None:
    elsewhere = deployed("ascend-operator-manager", "npu")
    found = platform.operator(seen(INSTALLED, {DEPLOYMENTS: [elsewhere]}))
    assert "SCALER_ASCEND_OPERATOR_NAMESPACE=npu" in said(found, Level.WARNING)


# nodes and fault data

READY = [{"type": "Ready", "status": "True"}]
ALLOCATABLE = {"allocatable": {"huawei.com/Ascend910": "8"}, "conditions": READY}


def test_npu_nodes_are_counted_with_what_they_have_to_give() -> None:
    npu = named(
        "n",
        status={"allocatable": {"huawei.com/Ascend910": "8", "cpu": "4"}, "conditions": READY},
        labels={"accelerator-type": "module-910b-8"},
    )
    found = platform.npu_nodes(seen(EMPTY, {NODES: [npu, named("cpu")]}))
    assert said(found, Level.OK).startswith(
        "1 with 8 huawei.com/Ascend910 allocatable; accelerator-type module-910b-8: 1"
    )


def test_a_cluster_without_npus_is_a_warning() -> None:
    assert "device plugin" in said(
        platform.npu_nodes(seen(EMPTY, {NODES: [named("cpu")]})), Level.WARNING
    )


def test_nodes_that_all_take_no_pods_are_a_warning() -> None:
    cordoned = named("n", status=ALLOCATABLE, spec={"unschedulable": True})
    assert "none of 1 takes pods: n" in said(
        platform.npu_nodes(seen(EMPTY, {NODES: [cordoned]})), Level.WARNING
    )


def test_a_selector_that_no_npu_node_fits_is_an_error_with_the_command_that_shows_the_labels() -> (
    None
):
    pod = named("p", "mindie", spec={"nodeSelector": {"accelerator-type": "module-x"}})
    fits = named("p", "mindie", spec={"nodeSelector": {"accelerator-type": "module-910b-8"}})
    one = named("n", status=ALLOCATABLE, labels={"accelerator-type": "module-910b-8"})
    assert platform.npu_nodes(seen(EMPTY, {NODES: [one], PODS: [fits]})).level is Level.OK
    found = platform.npu_nodes(seen(EMPTY, {NODES: [one], PODS: [pod]}))
    assert "kubectl get nodes -L accelerator-type" in said(found, Level.ERROR)


def device_info(node_name: str, updated: float) -> Object:
    text = msgspec.json.encode(
        {"DeviceInfo": {"DeviceList": {}, "UpdateTime": int(updated)}}
    ).decode()
    return named(f"mindx-dl-deviceinfo-{node_name}", "kube-system", data={"DeviceInfoCfg": text})


def cluster_info(updated: float, *nodes: str) -> Object:
    entries = {
        f"mindx-dl-deviceinfo-{name}": {"DeviceList": {}, "UpdateTime": int(updated)}
        for name in nodes
    }
    name = "cluster-info-device-0"
    return named(name, "mindx-dl", data={name: msgspec.json.encode(entries).decode()})


def npu_pair() -> list[Object]:
    return [named("a", status=ALLOCATABLE), named("b", status=ALLOCATABLE)]


@pytest.mark.parametrize(
    ("maps", "level", "words"),
    [
        ([], Level.WARNING, "reports none"),
        (
            [device_info("a", START), device_info("b", START)],
            Level.OK,
            "from device plugins (device-info): 2 nodes",
        ),
        ([device_info("a", START)], Level.WARNING, "1 of 2 NPU nodes are not reported: b"),
        (
            [device_info("a", START), device_info("b", START - 3600)],
            Level.WARNING,
            "more than 10m ago: b",
        ),
        (
            [cluster_info(START, "a", "b"), device_info("a", 0)],
            Level.OK,
            "from ClusterD (cluster-info): 2 nodes",
        ),
        ([cluster_info(START * 1000, "a", "b")], Level.OK, "newest 0s ago"),
        (
            [cluster_info(START - 3600, "a", "b")],
            Level.WARNING,
            "2 of 2 NPU nodes were last reported more than",
        ),
        (
            [named("cluster-info-node-cm", "mindx-dl", data={"cluster-info-node-cm": "{"})],
            Level.WARNING,
            "left out",
        ),
    ],
)
def test_fault_data_that_is_missing_old_or_unreadable_is_named(
    maps: list[Object], level: Level, words: str
) -> None:
    found = faults.fault_data(seen(EMPTY, {NODES: npu_pair(), CONFIG_MAPS: maps}))
    assert (found.level, words in said(found, level)) == (level, True)


# the scaler


def test_a_scaler_that_is_ready_and_led_and_of_this_version_is_well() -> None:
    found = install.scaler(INSTALLED)
    assert (found.level, f"{HOME}/{NAME}: 2 of 2 ready" in said(found, Level.OK)) == (
        Level.OK,
        True,
    )


def test_a_scaler_that_is_not_installed_comes_with_the_command() -> None:
    assert "kubectl apply -k manifests/cluster-wide" in said(install.scaler(EMPTY), Level.WARNING)


def leader(**changes: Any) -> Leaders:
    return Leaders((msgspec.structs.replace(LEADER, **changes),))


@pytest.mark.parametrize(
    ("changes", "level", "words"),
    [
        ({"leaders": Leaders()}, Level.ERROR, "no Lease"),
        (
            {
                "leaders": Leaders(),
                "installs": (msgspec.structs.replace(INSTALL, created=START - 10),),
            },
            Level.WARNING,
            "was installed 10s ago, and no replica is at work yet",
        ),
        (
            {"leaders": leader(renewed=START - 600)},
            Level.ERROR,
            "renewed 10m ago: no replica is at work",
        ),
        ({"leaders": leader(renewed=0.0)}, Level.ERROR, "never renewed"),
        ({"leaders": leader(blind_since="2023-11-14T22:03:20Z")}, Level.ERROR, "out of touch"),
        (
            {"installs": (msgspec.structs.replace(INSTALL, ready=1),)},
            Level.WARNING,
            "1 of 2 replicas are ready",
        ),
        (
            {"installs": (msgspec.structs.replace(INSTALL, replicas=1),)},
            Level.WARNING,
            "--replicas=2",
        ),
        (
            {"installs": (msgspec.structs.replace(INSTALL, image="r/s:0.0.9"),)},
            Level.WARNING,
            "is of version 0.0.9",
        ),
        (
            {"installs": (msgspec.structs.replace(INSTALL, wrong="mode is odd"),)},
            Level.ERROR,
            "mode is odd",
        ),
    ],
)
def test_what_is_wrong_with_an_install_is_named(
    changes: dict[str, Any], level: Level, words: str
) -> None:
    found = install.scaler(seen(INSTALLED, **changes))
    assert (found.level, words in said(found, level)) == (level, True)


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("r:5000/a/s:0.1.0", "0.1.0"),
        ("r:5000/a/s", ""),
        ("s:1@sha256:ab", ""),
        ("s@sha256:ab", ""),
        ("", ""),
    ],
)
def test_the_version_of_an_image_is_its_tag(image: str, tag: str) -> None:
    assert tag_of(image) == tag


def test_two_that_look_after_the_same_namespaces_are_an_error_and_two_apart_are_not() -> None:
    one = Leader("a", "l", "x", START, 8.0, ("m",))
    other = Leader("b", "l", "y", START, 8.0, ("m", "n"))
    found = install.installs(seen(EMPTY, leaders=Leaders((one, other))))
    assert "a/l and b/l look after the same" in said(found, Level.ERROR)
    apart = msgspec.structs.replace(other, governs=("n",))
    assert install.installs(seen(EMPTY, leaders=Leaders((one, apart)))).level is Level.OK


# rights


def granted(variant: str) -> set[Right]:
    """Every single request that the rendered manifests allow the scaler's account."""
    return {right for folder in [MANIFESTS / variant] for right in _granted(rendered(folder))}


def _granted(objects: Sequence[Object]) -> Iterator[Right]:
    roles = {
        (one["kind"], one["metadata"]["name"], one["metadata"].get("namespace", "")): one
        for one in objects
    }
    for binding in objects:
        if binding["kind"] in ("ClusterRoleBinding", "RoleBinding"):
            namespace = binding["metadata"].get("namespace", "")
            reference = binding["roleRef"]
            place = namespace if reference["kind"] == "Role" else ""
            for rule in roles[reference["kind"], reference["name"], place]["rules"]:
                for group in rule["apiGroups"]:
                    for what in rule["resources"]:
                        for verb in rule["verbs"]:
                            for name in rule.get("resourceNames", [""]):
                                yield Right(group, what, verb, namespace, name)


@pytest.mark.parametrize("variant", VARIANTS)
def test_exactly_the_rights_that_the_manifests_give_are_asked_for(variant: str) -> None:
    found = install_of(deployment(variant))
    assert found.settings is not None
    assert {right for _, right in rights.needed(found.settings)} == granted(variant)


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_right_is_asked_for_by_the_role_that_gives_it(variant: str) -> None:
    names = {
        role["metadata"]["name"]
        for kind in ("Role", "ClusterRole")
        for role in of_kind(kind, variant)
    }
    found = install_of(deployment(variant))
    assert found.settings is not None
    assert {f"{NAME}-{role}" for role, _ in rights.needed(found.settings)} <= names


def test_the_rights_of_the_webhook_are_those_of_its_roles() -> None:
    documents = yaml.safe_load_all(
        (MANIFESTS / "admission-webhook" / "webhook-role.yaml").read_text()
    )
    with_webhook = SETTINGS.model_copy(update={"webhook_port": 9443})
    asked = set(rights.needed(with_webhook)) - set(rights.needed(SETTINGS))
    assert {right for _, right in asked} == set(_granted(list(documents)))


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_settings_of_an_install_are_those_of_its_container(variant: str) -> None:
    given = settings.load(argparse.Namespace(), environment(variant))
    found = install_of(deployment(variant))
    assert found.settings is not None
    assert found.settings.model_copy(update={"identity": ""}) == given.model_copy(
        update={"identity": ""}
    )
    assert (found.user, rights.variant(found.settings)) == (
        f"system:serviceaccount:{HOME}:{NAME}",
        variant,
    )


def test_settings_of_an_install_that_are_wrong_are_said() -> None:
    broken = msgspec.json.decode(msgspec.json.encode(deployment("cluster-wide")))
    broken["spec"]["template"]["spec"]["containers"][0]["args"] = ["run", "--mode", "odd"]
    found = install_of(broken)
    assert (found.settings, "mode" in found.wrong) == (None, True)


def allowed(*refused: Right, user: str = INSTALL.user) -> dict[tuple[str, Right], bool | None]:
    return {(user, right): right not in refused for _, right in rights.needed(SETTINGS)}


def test_an_account_that_has_its_rights_is_well() -> None:
    assert rights.accounts(seen(INSTALLED, rights=allowed())).level is Level.OK


def test_a_right_that_the_account_lacks_is_named_with_its_role_and_the_command_that_gives_it() -> (
    None
):
    found = rights.accounts(seen(INSTALLED, rights=allowed(Right("", "pods", "patch"))))
    assert "may not patch pods (role mind-cluster-scaler-release)" in said(found, Level.ERROR)
    assert "manifests/cluster-wide" in said(found, Level.ERROR)


def test_a_right_without_which_the_scaler_works_with_less_is_a_warning() -> None:
    assert (
        rights.accounts(seen(INSTALLED, rights=allowed(Right("", "nodes", "list")))).level
        is Level.WARNING
    )


def test_rights_that_may_not_be_asked_about_are_not_known() -> None:
    found = rights.accounts(seen(INSTALLED, rights=dict.fromkeys(allowed())))
    assert (found.level, rights.REVIEWS in said(found, Level.UNKNOWN)) == (Level.UNKNOWN, True)


def installer(*refused: Right) -> dict[tuple[str, Right], bool | None]:
    return {
        ("", right): right not in refused for right in (*rights.to_install(HOME), rights.ESCALATE)
    }


def test_whoever_may_not_install_is_told_before_and_warned_afterwards() -> None:
    roles = Right("rbac.authorization.k8s.io", "clusterroles", "create")
    found = rights.installer(seen(EMPTY, rights=installer(roles)))
    assert "create clusterroles.rbac.authorization.k8s.io" in said(found, Level.ERROR)
    assert rights.installer(seen(INSTALLED, rights=installer(roles))).level is Level.WARNING
    assert rights.installer(seen(EMPTY, rights=installer(rights.ESCALATE))).level is Level.OK


# admission

PODS_WEBHOOK = {
    "name": "pods.x.svc",
    "rules": [{"apiGroups": [""], "resources": ["pods"], "operations": ["CREATE"]}],
    "failurePolicy": "Ignore",
}
GATED = named("p", "team", labels={"mind-cluster/scaling-rule": "r"})
SERVING = with_settings(webhook_port=9443)


def bundle(made: float) -> str:
    """A caBundle as the leader made it then."""
    keys = certificates.advance(None, "x.svc", made)
    assert keys is not None
    return base64.b64encode(keys.trusted).decode()


def configured(text: str) -> Object:
    return named(
        NAME,
        kind="MutatingWebhookConfiguration",
        webhooks=[{**PODS_WEBHOOK, "clientConfig": {"caBundle": text}}],
    )


@pytest.mark.parametrize(
    ("made", "level", "words"),
    [
        (START, Level.OK, "MutatingWebhookConfiguration (Ignore)"),
        (START - 200 * certificates.DAY, Level.ERROR, "expired 20d ago"),
        (START - 170 * certificates.DAY, Level.WARNING, "ends in 10d, and nobody has renewed it"),
        (START + 200 * certificates.DAY, Level.ERROR, "not valid yet"),
    ],
)
def test_a_certificate_that_is_stale_is_named_with_how_long(
    made: float, level: Level, words: str
) -> None:
    found = admission.admission(
        seen(INSTALLED, {MUTATING_WEBHOOKS: [configured(bundle(made))]}, installs=(SERVING,))
    )
    assert (found.level, words in said(found, level)) == (level, True)


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "has no caBundle"), ("bm9uZQ==", "holds no certificate"), ("!", "holds no")],
)
def test_a_webhook_that_nobody_trusts_is_an_error(text: str, words: str) -> None:
    found = admission.admission(
        seen(INSTALLED, {MUTATING_WEBHOOKS: [configured(text)]}, installs=(SERVING,))
    )
    assert words in said(found, Level.ERROR)


def test_a_webhook_configuration_without_a_scaler_that_serves_it_is_named() -> None:
    there = {MUTATING_WEBHOOKS: [configured(bundle(START))]}
    assert "serves no webhook (SCALER_WEBHOOK_PORT)" in said(
        admission.admission(seen(INSTALLED, there)), Level.WARNING
    )
    left = said(admission.admission(seen(EMPTY, there)), Level.WARNING)
    assert "kubectl delete mutatingwebhookconfiguration mind-cluster-scaler" in left


def test_a_namespace_whose_pods_others_make_needs_its_label_and_something_that_puts_gates_on() -> (
    None
):
    there: dict[Resource, Sequence[Object]] = {PODS: [GATED], NAMESPACES: [named("team")]}
    found = said(admission.admission(seen(INSTALLED, there)), Level.WARNING)
    assert "kubectl label --overwrite namespace team mind-cluster/scaling=enabled" in found
    assert "nothing puts the gate onto pods" in found
    labelled = named("team", labels={"mind-cluster/scaling": "enabled"})
    there |= {NAMESPACES: [labelled], MUTATING_POLICY_BINDINGS: [named(NAME)]}
    assert admission.admission(seen(INSTALLED, there)).level is Level.OK


def test_jobs_beside_an_operator_need_the_second_label() -> None:
    labelled = named("mindie", labels={"mind-cluster/scaling": "enabled"})
    there = {
        ASCEND_JOBS: [{"kind": "AscendJob", **job("p0")}],
        DEPLOYMENTS: [OPERATOR],
        NAMESPACES: [labelled],
    }
    there[ASCEND_JOBS][0]["metadata"]["namespace"] = "mindie"
    found = said(admission.admission(seen(INSTALLED, there)), Level.WARNING)
    assert "namespace mindie mind-cluster/beside-ascend-operator=true" in found
    assert admission.admission(seen(INSTALLED, {**there, DEPLOYMENTS: []})).level is Level.OK


def test_pods_that_the_scaler_makes_need_neither_label_nor_webhook() -> None:
    owner = {"ownerReferences": [{"kind": "AscendJob", "controller": True}]}
    own = named("p", "team", metadata=owner)
    assert (
        admission.admission(seen(INSTALLED, {PODS: [own], NAMESPACES: [named("team")]})).level
        is Level.OK
    )


def test_an_own_webhook_that_fails_open_and_that_nobody_serves_is_a_warning() -> None:
    config = configured(bundle(START))
    config["webhooks"][0]["clientConfig"]["service"] = {"namespace": "s", "name": "gone"}
    there: dict[Resource, Sequence[Object]] = {MUTATING_WEBHOOKS: [config]}
    found = admission.admission(seen(INSTALLED, there, installs=(SERVING,)))
    assert "no ready endpoint: pods are made without the gate" in said(found, Level.WARNING)
    there |= {ENDPOINT_SLICES: [endpoints(ready=True)]}
    assert "(Ignore)" in said(
        admission.admission(seen(INSTALLED, there, installs=(SERVING,))), Level.OK
    )


def strangers(policy: str) -> Object:
    hook = {
        **PODS_WEBHOOK,
        "failurePolicy": policy,
        "clientConfig": {"service": {"namespace": "s", "name": "gone"}},
    }
    return named("strangers", webhooks=[hook])


def endpoints(*, ready: bool) -> Object:
    labels = {"kubernetes.io/service-name": "gone"}
    return named("gone-1", "s", labels=labels, endpoints=[{"conditions": {"ready": ready}}])


def test_a_webhook_of_others_that_fails_closed_and_that_nobody_serves_is_an_error() -> None:
    there: dict[Resource, Sequence[Object]] = {VALIDATING_WEBHOOKS: [strangers("Fail")]}
    assert "strangers/pods.x.svc fails closed and its Service s/gone" in said(
        admission.webhooks(seen(EMPTY, there)), Level.ERROR
    )
    down = admission.webhooks(seen(EMPTY, {**there, ENDPOINT_SLICES: [endpoints(ready=False)]}))
    assert down.level is Level.ERROR
    up = admission.webhooks(seen(EMPTY, {**there, ENDPOINT_SLICES: [endpoints(ready=True)]}))
    assert up.level is Level.OK
    assert (
        admission.webhooks(seen(EMPTY, {VALIDATING_WEBHOOKS: [strangers("Ignore")]})).level
        is Level.OK
    )


# services


def test_services_that_are_not_available_are_named_with_the_command_that_says_why() -> None:
    off = named("s", "mindie", status={"conditions": [{"type": "Available", "status": "False"}]})
    on = named("t", "mindie", status={"conditions": [{"type": "Available", "status": "True"}]})
    found = services.services(seen(EMPTY, {ELASTIC_SERVICES: [off, on]}))
    assert "1 of 2 are not available: mindie/s -> scaler why mindie/s" in said(found, Level.WARNING)


def test_a_cluster_without_rules_and_services_says_that_there_is_nothing_to_check() -> None:
    assert "0; no rule to check" in said(services.services(seen(EMPTY)), Level.OK)


def fault(
    code: str = "GroupUnknown", level: Any = "error", message: str = "the rule has no group x"
) -> Finding:
    return Finding(code, (), message, "did you mean y?", level).at(1, 1, "AscendJob mindie/p0")


def test_what_lint_finds_is_said_with_the_object_and_at_most_five_times() -> None:
    found = services.services(seen(EMPTY, linted=Linted({"rule": 1}, (fault(),) * 7)))
    told = said(found, Level.ERROR)
    assert "AscendJob mindie/p0: the rule has no group x -> did you mean y?" in told
    assert (told.count("the rule has no group"), "2 more errors" in told) == (5, True)


def test_a_rule_that_does_not_exist_is_an_error_unless_rules_may_not_be_read() -> None:
    missing = fault(
        services.NO_RULE,
        "warning",
        "rule mindie/r is not among the linted files; nothing was checked",
    )
    found = services.services(seen(EMPTY, linted=Linted({}, (missing,))))
    assert "AscendJob mindie/p0: its rule mindie/r does not exist" in said(found, Level.ERROR)
    assert (
        services.services(seen(EMPTY, linted=Linted({}, (missing,), has_rules=False))).level
        is Level.OK
    )


def test_workloads_that_are_too_many_for_one_look_are_counted() -> None:
    found = services.services(seen(EMPTY, linted=Linted(left_out=7)))
    assert "7 more workloads" in said(found, Level.UNKNOWN)


# all of it


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: str(check.__name__))
def test_what_may_not_be_read_is_not_known_and_nothing_else_is_said_of_it(check: Any) -> None:
    every = (
        CUSTOM_RESOURCE_DEFINITIONS,
        DEPLOYMENTS,
        NODES,
        CONFIG_MAPS,
        NAMESPACES,
        ELASTIC_SERVICES,
        MUTATING_WEBHOOKS,
        VALIDATING_WEBHOOKS,
    )
    nothing = Picture(
        unread=dict.fromkeys(every, "the right to list it is missing"), leaders=Leaders(unread="no")
    )
    assert {one.level for one in check(nothing).results} == {Level.UNKNOWN}


@pytest.mark.parametrize(
    "odd", [None, [], "text", 7, {"metadata": None}, {"metadata": {"labels": []}, "spec": "x"}]
)
def test_no_object_whatever_its_shape_ends_a_check(odd: Any) -> None:
    obj = (
        odd
        if isinstance(odd, dict)
        else {
            "metadata": {"name": "default"},
            "spec": odd,
            "status": odd,
            "data": odd,
            "webhooks": odd,
        }
    )
    kinds = (
        ASCEND_JOBS,
        CONFIG_MAPS,
        CUSTOM_RESOURCE_DEFINITIONS,
        DEPLOYMENTS,
        ELASTIC_SERVICES,
        LEASES,
        NAMESPACES,
        NODES,
        MUTATING_WEBHOOKS,
        VALIDATING_WEBHOOKS,
        MUTATING_POLICY_BINDINGS,
        POD_GROUPS,
        PODS,
        QUEUES,
        ENDPOINT_SLICES,
    )
    assert len(judge(seen(INSTALLED, {kind: [obj] for kind in kinds}))) == len(CHECKS)


class Reviewed(FaultyApi):
    """Answers access reviews by the roles of a variant, as a real API server does; whoever asks may
    do all."""

    def __init__(self, api: KubeApi, variant: str) -> None:
        super().__init__(api)
        self._rbac = Rbac(variant)

    async def create(self, resource: Resource, namespace: str | None, body: Object) -> Object:
        if resource.group != "authorization.k8s.io":
            made: Object = await super().create(resource, namespace, body)
            return made
        asked = body["spec"]
        if "user" in asked:
            return {"status": {"allowed": not self._refusal(**asked["resourceAttributes"])}}
        return {"status": {"allowed": True}}

    def _refusal(self, *, verb: str, resource: str, group: str = "", **rest: str) -> str:
        """Try it by the roles: the words of their refusal, "" where they allow it. The rest is as
        an access review has it."""
        about = (rest.get("namespace") or None, rest.get("name", ""), rest.get("subresource", ""))
        try:
            self._rbac.check(verb, Resource(group, "v1", resource, ""), *about)
        except ForbiddenError as error:
            return str(error)
        return ""


def on_a_simulated_cluster(variant: str, *objects: Object, interceptor: Any = None) -> list[Check]:
    async def story() -> list[Check]:
        async with rig(RULE, job("p0"), job("d0")) as on:
            await on.start("p0", "d0")
            await on.settle(5)
            on.cluster.apply([{**one, "status": {"readyReplicas": 2}} for one in objects], HOME)
            api = Reviewed(on.cluster.client("caller", interceptor), variant)
            return judge(await read(api, on.clock))

    return run(story())


def by_name(checks: Sequence[Check]) -> dict[str, Check]:
    return {one.name: one for one in checks}


def test_a_cluster_with_a_scaler_is_read_and_judged_in_one_pass() -> None:
    found = by_name(on_a_simulated_cluster("cluster-wide", *of_kind("Deployment", "cluster-wide")))
    assert found["its rights"].level is Level.OK
    assert found["kinds"].level is Level.OK
    assert "1; nothing wrong in 2 AscendJob, 1 rule" in said(found["services"], Level.OK)
    # the rig runs without election
    assert "no replica is at work yet" in said(found["scaler"], Level.WARNING)


def test_an_account_with_the_roles_of_a_lesser_variant_lacks_what_its_settings_need() -> None:
    found = by_name(on_a_simulated_cluster("gates-only", *of_kind("Deployment", "cluster-wide")))
    assert "role mind-cluster-scaler-create" in said(found["its rights"], Level.ERROR)


def test_who_may_read_nothing_gets_an_answer_for_each_check_all_the_same() -> None:
    blind = Forbidden(
        "customresourcedefinitions", "nodes", "deployments", "configmaps", "namespaces", "leases"
    )
    found = by_name(on_a_simulated_cluster("cluster-wide", interceptor=blind))
    assert {name for name, one in found.items() if one.level is Level.UNKNOWN} >= {
        "kinds",
        "NPU nodes",
        "scheduler",
        "scaler",
        "fault data",
        "other installs",
    }
    assert "the right to list nodes is missing" in said(found["NPU nodes"], Level.UNKNOWN)


# the command


def answering(monkeypatch: pytest.MonkeyPatch, checks: list[Check] | None) -> None:
    async def answer(_: object) -> list[Check] | None:
        return checks

    monkeypatch.setattr(preflight, "_checked", answer)


def a_check(level: Level) -> Check:
    return Check("nodes", (CheckResult(level, "words\x1b[31m", "do this", ("more",)),))


@pytest.mark.parametrize(
    ("checks", "code"),
    [
        ([a_check(Level.OK)], 0),
        ([a_check(Level.WARNING), a_check(Level.NOTE)], 0),
        ([a_check(Level.OK), a_check(Level.UNKNOWN)], 1),
        ([a_check(Level.OK), a_check(Level.ERROR)], 1),
        (None, 1),
    ],
)
def test_the_exit_code_says_whether_all_is_known_and_nothing_is_an_error(
    monkeypatch: pytest.MonkeyPatch, checks: list[Check] | None, code: int
) -> None:
    answering(monkeypatch, checks)
    assert main(["preflight"]) == code


def test_one_line_and_what_to_do_stand_for_a_finding_and_details_come_with_v(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch, [a_check(Level.WARNING)])
    main(["preflight"])
    assert capsys.readouterr().out.splitlines() == [
        "warning   nodes            words\ufffd[31m",
        f"{'':<26} -> do this",
        "",
        "1 warning: what to do stands behind each ->",
    ]
    main(["preflight", "-v"])
    assert "more" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("output", "load"), [("json", msgspec.json.decode), ("yaml", yaml.safe_load)]
)
def test_programs_get_every_check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], output: str, load: Any
) -> None:
    answering(monkeypatch, [a_check(Level.ERROR)])
    assert main(["preflight", "-o", output]) == 1
    found = load(capsys.readouterr().out)
    assert (
        found["ok"],
        found["checks"][0]["name"],
        found["checks"][0]["findings"][0]["level"],
    ) == (
        False,
        "nodes",
        "error",
    )


def test_a_cluster_that_is_not_there_is_one_line_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["preflight", "--kubeconfig", str(tmp_path / "none")]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert shown.err.startswith("scaler preflight: ")
