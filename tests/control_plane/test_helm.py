"""manifests/helm with Helm's own programs, 3 and 4: the same objects as kustomize, and releases
that cost no pod."""

from __future__ import annotations

import asyncio
import base64
import copy
import difflib
import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

import scaler as program
from scaler.kube.api import ASCEND_JOBS, ELASTIC_SERVICES, PODS
from scaler.settings import PREFIX
from scaler.sim.actors.nodes import NodeFate, NodeSpec
from scaler.sim.apiserver.crds import definitions
from tests.control_plane.build import HELM, BuildError, ensure, go
from tests.control_plane.plane import ControlPlane
from tests.control_plane.programs import ControlPlaneError, free_ports
from tests.control_plane.scaler_process import NAMESPACE, ScalerProcess, install, leads, scaler
from tests.control_plane.stage import Stage, staged, until
from tests.test_manifests import MANIFESTS, Object, rendered, second_install, variables

MAJORS = (3, 4)
CHART = MANIFESTS / "helm"
DEFINITION = "elasticservices.scaler.mind-cluster.io"
OTHERS = [crd for crd in definitions() if crd["metadata"]["name"] != DEFINITION]
"""What is there before the scaler."""

pytestmark = [
    pytest.mark.long("Helm has to be built"),
    pytest.mark.plane_options(crds=OTHERS, scheduler=True),
]


@dataclass(frozen=True)
class Helm:
    """One of Helm's programs, with a home of its own."""

    major: int
    home: Path
    kubeconfig: Path | None = None

    def run(self, *arguments: str | Path) -> str:
        """What it prints. Raises ControlPlaneError with its words when it fails."""
        environment = {**os.environ, "HOME": str(self.home), "NO_PROXY": "127.0.0.1"}
        if self.kubeconfig:
            environment["KUBECONFIG"] = str(self.kubeconfig)
        command = [str(ensure(HELM) / f"helm-{self.major}"), *(str(word) for word in arguments)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=180, env=environment
        )
        if done.returncode:
            raise ControlPlaneError(f"helm {' '.join(command[1:])}: {done.stderr}{done.stdout}")
        return done.stdout

    async def aside(self, *arguments: str | Path) -> str:
        """The same, in a thread: the stand-ins go on."""
        return await asyncio.to_thread(self.run, *arguments)

    def template(self, values: Object, version: str = "1.35.3", *flags: str) -> list[Object]:
        """Every object that it makes of the chart."""
        path = self.home / "values.json"
        path.write_text(json.dumps(values))
        text = self.run(
            "template", "release", CHART, "--kube-version", version, "--values", path, *flags
        )
        return [obj for obj in yaml.safe_load_all(text) if obj]


@pytest.fixture(params=MAJORS, ids="helm-{}".format)
def helm(request: pytest.FixtureRequest, tmp_path: Path, programs_needed: None) -> Helm:
    try:
        go()
    except BuildError as error:
        pytest.skip(f"Helm is not built: {error}")
    ensure(HELM)  # what is not in the cache is said here, before a control plane is in use
    return Helm(request.param, tmp_path)


LABELS = {
    "app.kubernetes.io/managed-by": "Helm",
    "helm.sh/chart": f"mind-cluster-scaler-{program.__version__}",
}
"""Wanted difference: by what each object was made."""
PART_OF = "app.kubernetes.io/part-of"
"""Wanted difference: monitoring, a kustomization of its own, is not labelled as a part of the
variant beside it."""
KEPT = {"helm.sh/resource-policy": "keep"}
"""Wanted difference: uninstalling leaves the definition, and with it every ElasticService."""
Key = tuple[str, str, str]


def key(obj: Object) -> Key:
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def bare(obj: Object) -> Object:
    """An object of the chart without the wanted differences, each of which has to be there."""
    found = copy.deepcopy(obj)
    metadata = found["metadata"]
    for name, value in LABELS.items():
        assert metadata["labels"].pop(name) == value
    assert metadata["labels"].pop(PART_OF) == "mind-cluster-scaler"
    if obj["kind"] == "CustomResourceDefinition":
        assert metadata.pop("annotations") == KEPT
    return ordered(found)


def ordered(obj: Object) -> Object:
    """Variables of a container by name: their order has no meaning, none refers to another."""
    if obj["kind"] == "Deployment":
        for container in obj["spec"]["template"]["spec"]["containers"]:
            container["env"].sort(key=lambda entry: entry["name"])
    return obj


def lines(obj: Object) -> list[str]:
    """Wanted difference: kustomize puts empty lines into folded expressions, which mean nothing
    there."""
    text = json.dumps(obj, indent=1, sort_keys=True)
    return (
        text.replace("\\n\\n", "\\n") if obj["kind"] == "MutatingAdmissionPolicy" else text
    ).splitlines()


def compared(of_chart: Iterable[Object], of_kustomize: Iterable[Object]) -> None:
    """Object by object, field by field."""
    theirs = [copy.deepcopy(obj) for obj in of_kustomize]
    for obj in theirs:
        labels = obj["metadata"].get("labels", {})
        labels.pop(PART_OF, None)
        obj["metadata"]["labels"] = labels
    chart = [bare(obj) for obj in of_chart]
    assert len({key(obj) for obj in chart}) == len(chart)
    ours = {key(obj): lines(obj) for obj in chart}
    others = {key(obj): lines(obj) for obj in map(ordered, theirs)}
    assert sorted(ours) == sorted(others)
    for name, ones in ours.items():
        assert (
            "\n".join(difflib.unified_diff(others[name], ones, "kustomize", str(name), lineterm=""))
            == ""
        )


def kustomized(folder: Path, variant: str, *components: str, more: str = "") -> tuple[Object, ...]:
    """A variant with these components, and monitoring, which is a resource, where it is among
    them."""
    folder.mkdir()
    manifests = os.path.relpath(MANIFESTS, folder.resolve())
    resources = [variant, *(name for name in components if name == "monitoring")]
    names = [f"{manifests}/{name}" for name in components if name != "monitoring"]
    document = {"resources": [f"{manifests}/{name}" for name in resources], "components": names}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(document) + more)
    return rendered(folder)


VARIANTS: dict[str, Object] = {
    "cluster-wide": {},
    "gates-only": {"mode": "gates"},
    "single-namespace": {"namespaces": ["mindie"]},
}
COMPONENTS: dict[tuple[str, ...], tuple[str, Object]] = {
    (): ("1.35.3", {}),
    ("admission-webhook",): ("1.35.3", {"admission": {"by": "auto"}}),
    ("admission-webhook", "admission-webhook-1.27"): ("1.27.0", {"admission": {"by": "auto"}}),
    ("admission-webhook", "admission-webhook-cert-manager"): (
        "1.28.15",
        {"admission": {"by": "webhook", "certificates": "cert-manager"}},
    ),
    ("admission-policy",): ("1.36.3", {"admission": {"by": "auto"}}),
    ("admission-policy", "admission-webhook"): ("1.36.0", {"admission": {"by": "both"}}),
    ("network-policy", "monitoring", "plain-metrics"): (
        "1.35.3",
        {
            "networkPolicy": {"enabled": True},
            "monitoring": {"enabled": True, "repository": "https://REPOSITORY"},
            "metrics": {"secure": False},
        },
    ),
    ("gate-guard", "account-guard", "network-policy", "monitoring"): (
        "1.30.0",
        {
            "gateGuard": True,
            "accountGuard": True,
            "networkPolicy": {"enabled": True},
            "monitoring": {"enabled": True, "repository": "https://REPOSITORY"},
        },
    ),
    ("admission-policy", "gate-guard", "account-guard", "network-policy", "monitoring"): (
        "1.36.3-gke.1200",
        {
            "admission": {"by": "policies"},
            "gateGuard": True,
            "accountGuard": True,
            "networkPolicy": {"enabled": True},
            "monitoring": {"enabled": True, "repository": "https://REPOSITORY"},
        },
    ),
}
"""Components of the kustomizations -> a version of Kubernetes and the values that stand for them
there."""


@pytest.mark.parametrize("variant", VARIANTS)
def test_chart_and_kustomize_make_the_same_of_every_variant_with_every_component(
    helm: Helm, variant: str, tmp_path: Path
) -> None:
    for number, (components, (version, values)) in enumerate(COMPONENTS.items()):
        of_kustomize = kustomized(tmp_path / str(number), variant, *components)
        compared(helm.template({**VARIANTS[variant], **values}, version), of_kustomize)


def test_an_install_beside_others_is_the_same(helm: Helm, tmp_path: Path) -> None:
    values = {
        "namespace": "team-b-scaler",
        "nameSuffix": "-team-b",
        "namespaces": ["team-b"],
        "faultData": False,
        "admission": {"by": "webhook"},
    }
    compared(helm.template(values), second_install(tmp_path, "team-b", "admission-webhook"))


def test_the_image_can_be_named_by_tag_and_by_digest(helm: Helm, tmp_path: Path) -> None:
    digest = "sha256:" + "0" * 64
    for name, image, entry in (
        ("tag", {"repository": "r.example:5000/scaler", "tag": "2.0.0"}, "newTag: 2.0.0"),
        (
            "digest",
            {"repository": "r.example:5000/scaler", "tag": "2.0.0", "digest": digest},
            f"digest: '{digest}'",
        ),
    ):
        more = (
            f"images: [{{name: mind-cluster-scaler, newName: 'r.example:5000/scaler', {entry}}}]\n"
        )
        compared(
            helm.template({"image": image}), kustomized(tmp_path / name, "cluster-wide", more=more)
        )


def test_what_a_cluster_asks_for_can_be_said_by_values(helm: Helm) -> None:
    rather: Object = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    spread = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
    of_team = {"matchLabels": {"team": "a"}}
    made = helm.template(
        {
            "serviceAccount": {"name": "of-ours", "annotations": {"iam": "role"}},
            "podAnnotations": {"scrape": "no"},
            "podLabels": {"cost": "ml"},
            "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy"}],
            "podSecurityContext": {"runAsUser": 1000, "fsGroup": 1000},
            "securityContext": {"readOnlyRootFilesystem": True},
            "hostNetwork": True,
            "revisionHistoryLimit": 3,
            "topologySpreadConstraints": spread,
            "affinity": rather,
            "podDisruptionBudget": {"enabled": False},
            "accountGuard": True,
            "monitoring": {"enabled": True},
            "metrics": {"secretName": "of-metrics"},
            "admission": {
                "by": "webhook",
                "certificates": "secret",
                "secretName": "our-certificate",
                "caBundle": "Q0E=",
                "timeoutSeconds": 7,
                "namespaceSelector": of_team,
            },
        }
    )
    objects = {key(obj): obj for obj in made}
    (deployment,) = (obj for obj in made if obj["kind"] == "Deployment")
    template = deployment["spec"]["template"]
    pod = template["spec"]
    (container,) = pod["containers"]
    env = {one["name"]: one.get("value") for one in container["env"]}
    assert deployment["spec"]["revisionHistoryLimit"] == 3
    assert template["metadata"]["annotations"]["scrape"] == "no"
    assert template["metadata"]["labels"]["cost"] == "ml"
    assert pod["serviceAccountName"] == "of-ours"
    assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert pod["securityContext"] == {"runAsUser": 1000, "fsGroup": 1000}
    assert container["securityContext"] == {"readOnlyRootFilesystem": True}
    assert (pod["affinity"], pod["topologySpreadConstraints"]) == (rather, spread)
    assert env["HTTPS_PROXY"] == "http://proxy"
    assert env["SCALER_INSTALL"] == "mind-cluster-scaler"
    assert env["SCALER_WEBHOOK_CERT_FILE"] == "/webhook/tls.crt"
    assert env["SCALER_METRICS_CERT_FILE"] == "/metrics/tls.crt"
    mounted = [volume.get("secret", {}).get("secretName") for volume in pod["volumes"]]
    assert mounted[1:] == ["our-certificate", "of-metrics"]
    (monitor,) = (obj for obj in made if obj["kind"] == "ServiceMonitor")
    assert monitor["spec"]["endpoints"][0]["tlsConfig"] == {
        "ca": {"secret": {"name": "of-metrics", "key": "ca.crt"}},
        "serverName": "mind-cluster-scaler-metrics.mind-cluster-scaler-system.svc",
    }
    hooks = [hook for obj in made for hook in obj.get("webhooks", ())]
    assert len(hooks) == 5
    assert {hook["clientConfig"]["caBundle"] for hook in hooks} == {"Q0E="}
    assert {hook["timeoutSeconds"] for hook in hooks} == {7, 5}
    assert {hook["namespaceSelector"]["matchLabels"]["team"] for hook in hooks} == {"a"}
    (account,) = (obj for obj in made if obj["kind"] == "ServiceAccount")
    assert account["metadata"]["name"] == "of-ours"
    assert account["metadata"]["annotations"] == {"iam": "role"}
    assert not [name for kind, _, name in objects if kind == "PodDisruptionBudget"]
    bound = {
        subject["name"]
        for obj in made
        if obj["kind"].endswith("RoleBinding") and obj["kind"] != "PolicyBinding"
        for subject in obj["subjects"]
    }
    assert bound == {"of-ours"}
    assert "mind-cluster-scaler-system:of-ours" in json.dumps(made)
    assert "mind-cluster-scaler-system:mind-cluster-scaler'" not in json.dumps(made)


def test_an_issuer_a_dns_policy_and_a_budget_of_ones_own_are_taken(helm: Helm) -> None:
    issuer = {"name": "ours", "kind": "ClusterIssuer"}
    made = helm.template(
        {
            "dnsPolicy": "Default",
            "podDisruptionBudget": {"maxUnavailable": "50%"},
            "admission": {"by": "webhook", "certificates": "cert-manager", "issuerRef": issuer},
        }
    )
    (deployment,) = (obj for obj in made if obj["kind"] == "Deployment")
    assert deployment["spec"]["template"]["spec"]["dnsPolicy"] == "Default"
    (budget,) = (obj for obj in made if obj["kind"] == "PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == "50%"
    issuers = [obj["spec"]["issuerRef"] for obj in made if obj["kind"] == "Certificate"]
    assert issuer in issuers


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"admission": {"by": "webhook", "certificates": "secret"}}, "name the Secret in"),
        ({"serviceAccount": {"create": False}}, "name the account that is there"),
        ({"extraEnv": [{"name": "SCALER_MODE", "value": "create"}]}, "extraEnv"),
        ({"podLabels": {"app.kubernetes.io/name": "other"}}, "app.kubernetes.io/name"),
    ],
)
def test_values_that_would_break_the_install_are_refused(
    helm: Helm, values: Object, words: str
) -> None:
    with pytest.raises(ControlPlaneError, match=words):
        helm.template(values)


VERSIONS = [f"1.{minor}.0" for minor in range(27, 37)]


@pytest.mark.parametrize("version", VERSIONS)
def test_on_every_version_pods_are_held_by_what_it_has(helm: Helm, version: str) -> None:
    minor = int(version.split(".")[1])
    made = helm.template({"admission": {"by": "auto"}}, version)
    policies = [obj for obj in made if obj["kind"] == "MutatingAdmissionPolicy"]
    hooks = [
        hook
        for obj in made
        if obj["kind"].endswith("WebhookConfiguration")
        for hook in obj["webhooks"]
    ]
    assert (len(policies), len(hooks)) == ((2, 0) if minor >= 36 else (0, 5))
    assert len([hook for hook in hooks if "matchConditions" in hook]) == (
        1 if 28 <= minor < 36 else 0
    )


@pytest.mark.parametrize("major", MAJORS)
def test_nothing_of_an_install_of_another_name_and_place_keeps_the_old_ones(
    major: int, tmp_path: Path, programs_needed: None
) -> None:
    values = {
        "namespace": "elsewhere",
        "nameSuffix": "-x",
        "namespaces": ["a", "b"],
        "admission": {"by": "both"},
        "accountGuard": True,
        "gateGuard": True,
        "networkPolicy": {"enabled": True},
        "monitoring": {"enabled": True},
    }
    made = Helm(major, tmp_path).template(values, "1.36.0")
    text = yaml.safe_dump_all([obj for obj in made if obj["kind"] != "CustomResourceDefinition"])
    assert NAMESPACE not in text
    names = {
        obj["metadata"]["name"]
        for obj in made
        if obj["kind"] not in ("CustomResourceDefinition", "Namespace")
    }
    assert {name for name in names if not name.endswith("-x")} == set()
    roles = {(kind, name) for kind, _, name in map(key, made) if kind.endswith("Role")}
    bound = {
        (obj["roleRef"]["kind"], obj["roleRef"]["name"])
        for obj in made
        if obj["kind"].endswith("Binding") and "roleRef" in obj
    }
    assert bound <= roles
    policies = {name for kind, _, name in map(key, made) if kind.endswith("AdmissionPolicy")}
    assert {
        obj["spec"]["policyName"] for obj in made if obj["kind"].endswith("AdmissionPolicyBinding")
    } == policies
    (guard,) = (
        obj
        for obj in made
        if key(obj)[2] == "mind-cluster-scaler-account-x" and "matchConditions" in obj["spec"]
    )
    assert (
        "system:serviceaccount:elsewhere:mind-cluster-scaler-x'"
        in guard["spec"]["matchConditions"][0]["expression"]
    )


def test_lint_finds_nothing(helm: Helm) -> None:
    assert "0 chart(s) failed" in helm.run("lint", "--strict", CHART)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"admision": {"by": "auto"}}, "admision"),
        ({"settings": {"broken_grase": 1}}, "broken_grase"),
        ({"settings": {"broken_grace": "x"}}, "/settings/broken_grace"),
        ({"image": {"repository": "r.example/scaler:1"}}, "/image/repository"),
        ({"resources": {"limits": {"memory": "much"}}}, "/resources/limits/memory"),
        ({"admission": None}, "admission"),
        ({"mode": "shadow"}, "/mode"),
        (
            {"admission": {"by": "policies"}},
            "policies need Kubernetes 1.36 or newer, and this is v1.29.0",
        ),
        ({"gateGuard": True}, "gateGuard needs Kubernetes 1.30 or newer"),
        ({"namespace": "kube-system"}, "the scaler needs one of its own"),
        ({"namespaces": [NAMESPACE]}, "which is the scaler's own"),
        ({"nameSuffix": "-a"}, "namespaces is empty"),
    ],
)
def test_a_wrong_value_is_named(helm: Helm, values: Object, said: str) -> None:
    with pytest.raises(ControlPlaneError) as caught:
        helm.template(values, "1.29.0")
    assert said in str(caught.value)


def test_numbers_and_switches_reach_the_settings_as_they_were_written(helm: Helm) -> None:
    settings = {
        "max_service_priority": 1_000_000_000,
        "start_timeout": 86_400,
        "revoke": False,
        "log_level": "debug",
    }
    (deployed,) = (
        obj for obj in helm.template({"settings": settings}) if obj["kind"] == "Deployment"
    )
    given = variables(deployed)
    assert {name: given[f"{PREFIX}{name.upper()}"] for name in settings} == {
        "max_service_priority": "1000000000",
        "start_timeout": "86400",
        "revoke": "false",
        "log_level": "debug",
    }


# On a real API server. The kubelets are stand-ins, which run nothing: the replicas are processes
# beside it, with the arguments of the Deployment as it is at that moment and a token of its
# account.

RELEASE = ("mind-cluster-scaler", str(CHART), "--namespace", "kube-system")
NAMED = RELEASE[:1] + RELEASE[2:]
WAIT = ("--wait", "--timeout", "90s")


def on(helm: Helm, plane: ControlPlane) -> Helm:
    return Helm(helm.major, helm.home, plane.admin)


@pytest.fixture
def clean(helm: Helm, plane: ControlPlane) -> Iterator[Helm]:
    """Helm against the plane, on which nothing of the scaler is, before and after."""
    there = on(helm, plane)
    yield there
    if there.run("list", "--all-namespaces", "--output=json") != "[]\n":
        there.run("uninstall", *NAMED, "--wait")
    plane.kubectl("delete", "crd", DEFINITION, "--ignore-not-found")
    plane.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")


def flags(plane: ControlPlane) -> list[str]:
    """What the container of the Deployment is told, as flags; on ports that are free here."""
    words = ("get", "deployment", "mind-cluster-scaler", "--namespace", NAMESPACE, "--output=json")
    given = variables(json.loads(plane.kubectl(*words)))
    given.pop("SCALER_HTTP_PORT")
    if "SCALER_METRICS_PORT" in given:
        given["SCALER_METRICS_PORT"] = str(free_ports(1)[0])
    return [
        word
        for name, value in given.items()
        for word in (f"--{name.removeprefix(PREFIX).lower().replace('_', '-')}", value)
    ]


class Rollout:
    """The replicas, one after the other: a new one is ready before the old one is asked to end."""

    def __init__(self, plane: ControlPlane, stage: Stage, folder: Path) -> None:
        self._plane = plane
        self._stage = stage
        self._folder = folder
        self._running: list[tuple[ScalerProcess, AsyncExitStack]] = []
        self._count = 0

    async def roll(self) -> None:
        """As the Deployment says now."""
        self._count += 1
        kubeconfig = self._plane.grant(NAMESPACE, "mind-cluster-scaler")
        stack = AsyncExitStack()
        name = f"replica-{self._count}"
        process = await stack.enter_async_context(
            scaler(self._folder, kubeconfig, name=name, flags=flags(self._plane))
        )
        await self.end()
        self._running.append((process, stack))
        await until(lambda: leads(self._stage, name), f"{name} leads")

    async def end(self) -> None:
        while self._running:
            process, stack = self._running.pop()
            await stack.aclose()
            assert process.errors() == []


@asynccontextmanager
async def rollout(plane: ControlPlane, folder: Path) -> AsyncIterator[tuple[Stage, Rollout]]:
    async with staged(plane, npu_nodes=3) as stage:
        await stage.add_node(NodeSpec("cpu-0", npu=0))  # for the pods of the Deployment
        replicas = Rollout(plane, stage, folder)
        try:
            yield stage, replicas
        finally:
            await replicas.end()


async def uids(stage: Stage) -> dict[str, str]:
    found = (await stage.api.list(PODS, "mindie")).items
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found}


async def services(stage: Stage) -> list[str]:
    """The jobs, and what is said of the services."""
    jobs, told = [
        (await stage.api.list(kind, "mindie")).items for kind in (ASCEND_JOBS, ELASTIC_SERVICES)
    ]
    assert jobs
    assert told
    return sorted(obj["metadata"]["uid"] for obj in (*jobs, *told))


async def empty(stage: Stage, plane: ControlPlane) -> None:
    """Leave no service and no node to the next test."""
    plane.kubectl("delete", "ascendjobs", "--all", "--namespace", "mindie", "--wait=false")
    # also of the node that is lost
    plane.kubectl("delete", "pods", "--all", "--namespace", "mindie", "--force")
    await asyncio.to_thread(plane.kubectl, "delete", "namespace", "mindie", "--timeout=60s")
    await stage.clear()


async def test_install_upgrade_rollback_and_uninstall_touch_no_pod_of_a_service(
    clean: Helm, plane: ControlPlane, tmp_path: Path
) -> None:
    async with rollout(plane, tmp_path) as (stage, replicas):
        assert "NOTES" in await clean.aside("install", *RELEASE, *WAIT)
        await replicas.roll()
        await stage.apply()
        await stage.runs(group0=2, group1=1)
        before = await uids(stage)

        changed = ("--set", "settings.broken_grace=90,admission.by=auto")
        await clean.aside("upgrade", *RELEASE, *WAIT, *changed)
        assert "--broken-grace" in flags(plane)
        await replicas.roll()
        assert await uids(stage) == before

        await clean.aside("rollback", RELEASE[0], "1", *RELEASE[2:], *WAIT)
        assert "--broken-grace" not in flags(plane)
        await replicas.roll()
        assert await uids(stage) == before

        await stage.node(await stage.node_of("mindie-server-p1"), NodeFate.NOT_READY)
        await stage.runs(group0=1, group1=1)
        await replicas.end()
        told = await services(stage)
        # that one's node is lost
        kept = {name: uid for name, uid in before.items() if "-p1-" not in name}
        await clean.aside("uninstall", *NAMED, "--wait")
        assert kept.items() <= (await uids(stage)).items()
        assert await services(stage) == told
        assert left(plane) == []
        await empty(stage, plane)


def left(plane: ControlPlane) -> list[str]:
    """What has no namespace, or whose namespace stays, and has our name."""
    kinds = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"]
    kinds += ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
    if plane.minor >= 30:
        kinds += ["validatingadmissionpolicies", "validatingadmissionpolicybindings"]
    if plane.minor >= 36:
        kinds += ["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"]
    found = plane.kubectl("get", ",".join(kinds), "--all-namespaces", "--output=name").split()
    return [name for name in found if "mind-cluster-scaler" in name]


async def test_a_release_takes_over_what_kustomize_installed_when_it_is_told_to_and_not_before(
    clean: Helm, plane: ControlPlane, tmp_path: Path
) -> None:
    install(plane)
    async with rollout(plane, tmp_path) as (stage, replicas):
        await replicas.roll()
        await stage.apply()
        await stage.runs(group0=2, group1=1)
        before = await uids(stage)
        with pytest.raises(
            ControlPlaneError, match="exists and cannot be imported into the current release"
        ):
            await clean.aside("install", *RELEASE)
        force = ("--force-conflicts",) if clean.major >= 4 else ()
        await clean.aside(
            "install", *RELEASE, *WAIT, "--take-ownership", *force, "--set", "replicas=3"
        )
        await replicas.roll()
        assert await uids(stage) == before
        await clean.aside("upgrade", *RELEASE, *WAIT, "--set", "replicas=2")
        await replicas.roll()
        assert await uids(stage) == before
        await empty(stage, plane)


def test_an_upgrade_leaves_what_api_servers_trust(clean: Helm, plane: ControlPlane) -> None:
    clean.run("install", *RELEASE, "--set", "admission.by=webhook")
    authority = base64.b64encode(plane.authority.read_bytes()).decode()
    patch = [
        {"op": "add", "path": f"/webhooks/{number}/clientConfig/caBundle", "value": authority}
        for number in (0, 1)
    ]
    kind = "mutatingwebhookconfiguration"
    plane.kubectl("patch", kind, "mind-cluster-scaler", "--type=json", "--patch", json.dumps(patch))
    for change in (
        ("upgrade", *RELEASE, "--set", "admission.by=webhook,admission.failurePolicy=Fail"),
        ("rollback", RELEASE[0], "1", *RELEASE[2:]),
    ):
        clean.run(*change)
        hooks: list[Any] = json.loads(
            plane.kubectl("get", kind, "mind-cluster-scaler", "--output=json")
        )["webhooks"]
        assert [hook["clientConfig"].get("caBundle") for hook in hooks] == [authority, authority]


@pytest.mark.every_kubernetes
def test_all_that_a_version_knows_is_accepted_and_goes_again(
    clean: Helm, plane: ControlPlane
) -> None:
    guards = ("--set", "gateGuard=true,accountGuard=true") if plane.minor >= 30 else ()
    notes = clean.run(
        "install", *RELEASE, "--set", "admission.by=auto,networkPolicy.enabled=true", *guards
    )
    way = "policies" if plane.minor >= 36 else "webhook"
    assert f"(admission: {way})" in notes
    first = (
        "scaler preflight",
        "scaler deploy apply -c",
        "scaler uninstall --release -n",
        "helm uninstall",
    )
    assert [notes.find(words) for words in first] == sorted(notes.index(words) for words in first)
    assert left(plane)
    clean.run("uninstall", *NAMED, "--wait")
    assert left(plane) == []
    assert DEFINITION in plane.kubectl("get", "crd", DEFINITION, "--output=name")


def test_what_this_cluster_lacks_is_named_before_anything_is_made(
    clean: Helm, plane: ControlPlane
) -> None:
    for values, said in (
        ("namespaces={nowhere}", "kubectl create namespace nowhere"),
        ("namespaces={default}", "there is no namespace mindx-dl"),
        ("monitoring.enabled=true", "the Prometheus Operator is not installed here"),
        ("admission.by=webhook,admission.certificates=cert-manager", "which is not installed here"),
    ):
        with pytest.raises(ControlPlaneError, match=said):
            clean.run("install", *RELEASE, "--set", values)
    assert left(plane) == []


def test_in_the_namespace_of_the_release_the_notes_say_which_label_is_missing(
    clean: Helm, plane: ControlPlane
) -> None:
    own = (RELEASE[0], str(CHART), "--namespace", NAMESPACE, "--create-namespace")
    label = f"kubectl label namespace {NAMESPACE} mind-cluster/install=true"
    try:
        assert label in clean.run("install", *own)
        plane.kubectl("label", "namespace", NAMESPACE, "mind-cluster/install=true")
        assert label not in clean.run("upgrade", *own[:-1])
    finally:
        clean.run("uninstall", RELEASE[0], "--namespace", NAMESPACE, "--wait")
