"""Getting the gate on, moving labels, checking at the door: judged by real API servers.

The manifests are applied as they are, except that webhooks are called at an address of this
machine. The keeper of the certificate works with the rights that the manifests give."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import stat
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from scaler.clock import Clock
from scaler.kube.api import Object
from scaler.names import (
    DELETION_COST,
    GATE,
    GROUP_LABEL,
    HELD_COST,
    JOB_ID_LABEL,
    MOVED_RULE,
    RULE_LABEL,
)
from scaler.report.metrics import Metrics
from scaler.serve.reviews import answer_to, review_ascend_job, review_pod
from scaler.serve.webhook import webhook_server
from scaler.serve.webhook_certs import CertificateKeeper
from scaler.settings import Settings
from tests.control_plane.plane import ControlPlane, kubectl_path
from tests.control_plane.programs import ControlPlaneError, free_ports
from tests.control_plane.scaler_process import ACCOUNT, LEASE, NAMESPACE, ScalerProcess, scaler
from tests.control_plane.stage import until
from tests.jobs import job, rule_config_map
from tests.serve.reviewing import patched, request

pytestmark = pytest.mark.every_kubernetes

MANIFESTS = Path(__file__).parents[2] / "manifests"
LABELS = {RULE_LABEL: "rule", GROUP_LABEL: "group0", JOB_ID_LABEL: "mindie"}
HELD = {"mind-cluster/scaling": "enabled"}
BESIDE = HELD | {"mind-cluster/beside-ascend-operator": "true"}
FOREIGN = {"name": "other.example/gate"}


class Cluster:
    """kubectl for the tests of one control plane."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane

    async def kubectl(
        self, *words: str | Path, text: str = "", kubeconfig: Path | None = None
    ) -> str:
        return await asyncio.to_thread(self.plane.kubectl, *words, text=text, kubeconfig=kubeconfig)

    async def namespace(self, name: str, labels: dict[str, str]) -> str:
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": labels},
        }
        await self.kubectl("apply", "-f", "-", text=json.dumps(body))
        return name

    async def apply(
        self, namespace: str, obj: Object, verb: str = "apply", **options: Any
    ) -> Object:
        """What the API server made of it."""
        text = json.dumps({**obj, "metadata": {**obj["metadata"], "namespace": namespace}})
        words = (verb, "-f", "-", "-n", namespace, "-o", "json")
        found: Object = json.loads(await self.kubectl(*words, text=text, **options))
        return found

    async def fails(
        self, *words: str | Path, text: str = "", kubeconfig: Path | None = None
    ) -> str:
        """What kubectl says when it is refused."""
        with pytest.raises(ControlPlaneError) as refused:
            await self.kubectl(*words, text=text, kubeconfig=kubeconfig)
        return str(refused.value)

    async def moved(self, namespace: str) -> bool:
        words = ("create", "-f", "-", "-n", namespace, "--dry-run=server", "-o", "json")
        try:
            found = json.loads(
                await self.kubectl(*words, text=json.dumps(job("probe", namespace=namespace)))
            )
        except ControlPlaneError:
            return False
        return RULE_LABEL not in found["metadata"]["labels"]

    async def refuses(self, obj: Object, namespace: str, why: str) -> bool:
        try:
            words = ("create", "-f", "-", "-n", namespace, "--dry-run=server")
            await self.kubectl(*words, text=json.dumps(obj))
        except ControlPlaneError as error:
            return why in str(error)
        return False

    async def gated(self, namespace: str) -> bool:
        words = ("create", "-f", "-", "-n", namespace, "--dry-run=server", "-o", "json")
        return GATE in gates(json.loads(await self.kubectl(*words, text=json.dumps(pod("probe")))))


@pytest.fixture
def cluster(plane: ControlPlane) -> Cluster:
    return Cluster(plane)


@pytest.fixture
def policies(plane: ControlPlane) -> Iterator[None]:
    if plane.minor < 36:
        pytest.skip("MutatingAdmissionPolicy is served without flags from Kubernetes 1.36 on")
    files = [
        word
        for name in ("pods", "ascendjobs")
        for word in ("-f", str(MANIFESTS / f"admission-policy/{name}.yaml"))
    ]
    plane.kubectl("apply", *files)
    yield
    plane.kubectl("delete", *files)


def pod(name: str, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    labels = LABELS if labels is None else labels
    container = {"name": "server", "image": "none"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [container], **spec},
    }


def gates(found: Object) -> list[str]:
    return [gate["name"] for gate in found["spec"].get("schedulingGates", [])]


# without a server


async def test_a_policy_holds_pods_that_name_a_rule_and_no_others(
    cluster: Cluster, policies: None
) -> None:
    here = await cluster.namespace("policy-pods", HELD)
    await until(lambda: cluster.gated(here), "the policy is at work")
    found = await cluster.apply(here, pod("mine"))
    assert gates(found) == [GATE]
    assert found["metadata"]["annotations"][DELETION_COST] == HELD_COST
    assert found["status"]["conditions"][0]["reason"] == "SchedulingGated"

    both = pod("both", schedulingGates=[FOREIGN])
    both["metadata"]["annotations"] = {DELETION_COST: "5", "a": "b"}
    found = await cluster.apply(here, both, "create")
    assert gates(found) == [FOREIGN["name"], GATE]
    assert found["metadata"]["annotations"] == {DELETION_COST: "5", "a": "b"}

    own = await cluster.apply(here, pod("own", schedulingGates=[{"name": GATE}]))
    assert gates(own) == [GATE]
    assert gates(await cluster.apply(here, pod("other", {"app": "web"}))) == []
    assert gates(await cluster.apply(here, pod("bound", nodeName="node-1"))) == []
    elsewhere = await cluster.namespace("policy-elsewhere", {})
    assert gates(await cluster.apply(elsewhere, pod("mine"))) == []


def bare_job() -> Object:
    """A job some of whose templates have no labels, or no metadata."""
    made = job("p1", pods=2)
    made["spec"]["replicaSpecs"]["Master"]["template"].pop("metadata")
    made["spec"]["replicaSpecs"]["Worker"]["template"]["metadata"] = {"annotations": {"a": "b"}}
    return made


async def moves_jobs(cluster: Cluster, here: str) -> None:
    """The move, as policy and webhook have to do it alike."""
    for made in (job("p0", pods=2), bare_job()):
        found = await cluster.apply(here, made)
        is_moved(made, found)
        await cluster.apply(here, made)
        is_moved(made, again := await cluster.apply(here, made))
        assert again["spec"] == found["spec"]
    other = await cluster.apply(here, job("train", rule=None))
    assert other["metadata"]["labels"] == job("train", rule=None)["metadata"]["labels"]
    await cluster.kubectl(
        "patch",
        "ascendjob",
        "p0",
        "-n",
        here,
        "--type=merge",
        "-p",
        '{"metadata":{"finalizers":["a.b/c"]}}',
    )
    await cluster.kubectl("delete", "ascendjob", "p0", "-n", here, "--wait=false")
    label = ("label", "ascendjob", "p0", "-n", here, f"{RULE_LABEL}=rule", "-o", "json")
    assert json.loads(await cluster.kubectl(*label))["metadata"]["labels"][RULE_LABEL] == "rule"
    await cluster.kubectl(
        "patch",
        "ascendjob",
        "p0",
        "-n",
        here,
        "--type=merge",
        "-p",
        '{"metadata":{"finalizers":null}}',
    )


def is_moved(made: Object, found: Object) -> None:
    wanted = {key: value for key, value in made["metadata"]["labels"].items() if key in LABELS}
    assert RULE_LABEL not in found["metadata"]["labels"]
    assert found["metadata"]["labels"].items() == made["metadata"]["labels"].items() - {
        (RULE_LABEL, wanted[RULE_LABEL])
    }
    assert found["metadata"]["annotations"][MOVED_RULE] == wanted[RULE_LABEL]
    for name, replica in found["spec"]["replicaSpecs"].items():
        before = made["spec"]["replicaSpecs"][name]["template"]
        assert replica["template"]["spec"] == before["spec"]
        labels = (before.get("metadata") or {}).get("labels") or {}
        assert replica["template"]["metadata"]["labels"] == {**labels, **wanted}


async def test_a_policy_moves_the_labels_of_jobs_and_the_move_outlives_a_second_apply(
    cluster: Cluster, policies: None
) -> None:
    here = await cluster.namespace("policy-jobs", BESIDE)
    await until(lambda: cluster.gated(here), "the policies are at work")
    await until(lambda: cluster.moved(here), "the policies know AscendJobs")
    await moves_jobs(cluster, here)
    beside_nobody = await cluster.namespace("policy-jobs-create", HELD)
    found = await cluster.apply(beside_nobody, job("p0"))
    assert found["metadata"]["labels"][RULE_LABEL] == "rule"


async def test_policies_and_webhook_make_the_same_of_every_pod_and_job(
    cluster: Cluster, policies: None
) -> None:
    here = await cluster.namespace("policy-same", BESIDE)
    await until(lambda: cluster.gated(here), "the policies are at work")
    await until(lambda: cluster.moved(here), "the policies know AscendJobs")
    for objects, review, facts in (
        (odd_pods(), review_pod, pod_facts),
        (odd_jobs(), review_ascend_job, job_facts),
    ):
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        words = ("create", "-f", "-", "-n", here, "--dry-run=server", "-o", "yaml")
        made = list(yaml.safe_load_all(await cluster.kubectl(*words, text=text)))
        wanted = [patched(obj, answer_to(request(obj), review)) for obj in objects]
        assert [facts(obj) for obj in made] == [facts(obj) for obj in wanted]
        changed = [
            found for found, obj in zip(made, objects, strict=True) if facts(found) != facts(obj)
        ]
        assert len(objects) > len(changed) >= len(objects) / 4


def odd_pods() -> list[Object]:
    """What may differ between pods, in every combination."""
    labels = ({"app": "web"}, LABELS, {RULE_LABEL: ""})
    annotations: tuple[Object | None, ...] = (None, {}, {"a/b": "c"}, {DELETION_COST: "7"})
    gated: tuple[list[Object], ...] = ([], [FOREIGN], [{"name": GATE}], [FOREIGN, {"name": GATE}])
    made = []
    for number, (named, noted, held) in enumerate(itertools.product(labels, annotations, gated)):
        obj = pod(
            f"p{number}",
            named,
            **({"schedulingGates": held} if held else {"nodeName": "n"} if noted else {}),
        )
        obj["metadata"] |= {"annotations": noted} if noted is not None else {}
        made.append(obj)
    return made


def odd_jobs() -> list[Object]:
    named: tuple[dict[str, str], ...] = (
        {},
        {RULE_LABEL: "rule"},
        LABELS,
        {**LABELS, "a/b": "c"},
        {GROUP_LABEL: "group0", JOB_ID_LABEL: "m"},
    )
    templates: tuple[Object | None, ...] = (
        None,
        {},
        {"labels": {}},
        {"labels": {"app": "x"}},
        {"labels": {RULE_LABEL: "old"}},
        {"annotations": {"a": "b"}},
    )
    annotations: tuple[Object | None, ...] = (None, {}, {MOVED_RULE: "old", "a/b": "c"})
    made = []
    for number, (labels, metadata, noted) in enumerate(
        itertools.product(named, templates, annotations)
    ):
        obj = job(f"j{number}", pods=2, labels=dict(labels), namespace="policy-same")
        obj["metadata"] |= {"annotations": dict(noted)} if noted is not None else {}
        template = obj["spec"]["replicaSpecs"]["Worker"]["template"]
        template.pop("metadata")
        template |= {"metadata": metadata} if metadata is not None else {}
        made.append(obj)
    return made


def pod_facts(obj: Object) -> Object:
    meta = obj["metadata"]
    return {
        "labels": meta["labels"],
        "annotations": meta.get("annotations") or {},
        "gates": gates(obj),
    }


def job_facts(obj: Object) -> Object:
    meta = obj["metadata"]
    specs = obj["spec"]["replicaSpecs"]
    templates = {name: spec["template"].get("metadata") or {} for name, spec in specs.items()}
    labels = {name: metadata.get("labels") or {} for name, metadata in templates.items()}
    return {
        "labels": meta.get("labels") or {},
        "annotations": meta.get("annotations") or {},
        "templates": labels,
    }


async def test_a_policy_moves_the_files_of_mindie_motors_deployer_under_the_real_definition(
    cluster: Cluster, policies: None, real_data: Path
) -> None:
    here = await cluster.namespace("policy-real", BESIDE)
    definition = real_data / "crds" / "ascend-operator" / "ascendjobs.mindxdl.gitee.com.yaml"
    await cluster.kubectl("delete", "crd", "ascendjobs.mindxdl.gitee.com")
    await cluster.kubectl("create", "-f", definition)
    # Policies refuse objects of a kind that is new to them, for some seconds.
    await until(lambda: cluster.moved(here), "the policy is at work on the new kind")
    for file in sorted((real_data / "motor").glob("*/deployment/mindie_server_*0.yaml"))[:6]:
        (made,) = (
            obj
            for obj in yaml.safe_load_all(file.read_text())
            if obj and obj["kind"] == "AscendJob"
        )
        found = await cluster.apply(here, made)
        again = await cluster.apply(here, made)
        for moved in (found, again):
            assert RULE_LABEL not in moved["metadata"]["labels"]
            assert (
                moved["metadata"]["annotations"][MOVED_RULE]
                == made["metadata"]["labels"][RULE_LABEL]
            )
            for replica in moved["spec"]["replicaSpecs"].values():
                assert LABELS.keys() <= replica["template"]["metadata"]["labels"].keys()
        await cluster.kubectl("delete", "ascendjob", made["metadata"]["name"], "-n", here)


# by the webhook


def configurations(rendered: str, port: int) -> str:
    """The manifests, with the address of this machine in place of the Service."""
    objects = [obj for obj in yaml.safe_load_all(rendered) if obj]
    for obj in objects:
        for hook in obj.get("webhooks", []):
            hook["clientConfig"] = {
                "url": f"https://127.0.0.1:{port}{hook['clientConfig']['service']['path']}"
            }
        if obj["kind"] == "Deployment":
            obj["spec"]["replicas"] = 0
    return yaml.safe_dump_all(objects)


def kustomization(folder: Path, component: str) -> Path:
    """manifests/cluster-wide with a component."""
    manifests = os.path.relpath(MANIFESTS, folder.resolve())  # kustomize takes relative paths only
    (folder / "kustomization.yaml").write_text(
        f"resources: [{manifests}/cluster-wide]\ncomponents: [{manifests}/{component}]\n"
    )
    return folder


@asynccontextmanager
async def webhook(cluster: Cluster, folder: Path) -> AsyncIterator[None]:
    """Manifests with the component admission-webhook, and a server as `scaler run` has it."""
    plane = cluster.plane
    rendered = await cluster.kubectl("kustomize", kustomization(folder, "admission-webhook"))
    await cluster.kubectl("apply", "-f", "-", text=configurations(rendered, 1))
    account = await asyncio.to_thread(plane.grant, NAMESPACE, ACCOUNT)
    async with plane.client(account) as api:
        settings = Settings(lease_namespace=NAMESPACE, webhook_service="127.0.0.1")
        keeper = CertificateKeeper(api, Clock(), settings)
        groups = {"rule": ("group0", "group1")}
        server = webhook_server(lambda _namespace, rule: groups.get(rule), Metrics())
        async with server.served("127.0.0.1", 0, lambda: keeper.context) as port:
            await cluster.kubectl("apply", "-f", "-", text=configurations(rendered, port))
            tasks = [
                asyncio.create_task(work) for work in (keeper.run_as_leader(), keeper.follow())
            ]
            try:
                yield
                assert keeper.problem == ""
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)


@pytest.fixture
async def served(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Cluster]:
    """A cluster whose webhook answers and is believed."""
    async with webhook(cluster, tmp_path):
        probe = await cluster.namespace("webhook-probe", HELD)
        await until(lambda: cluster.gated(probe), "the webhook is believed")
        yield cluster
    await unregister(cluster)


async def unregister(cluster: Cluster) -> None:
    for kind in ("mutating", "validating"):
        await cluster.kubectl(
            "delete", f"{kind}webhookconfiguration", "mind-cluster-scaler", "--ignore-not-found"
        )


async def test_the_webhook_holds_pods_that_name_a_rule_and_no_others(served: Cluster) -> None:
    here = await served.namespace("webhook-pods", HELD)
    found = await served.apply(here, pod("mine", schedulingGates=[FOREIGN]))
    assert gates(found) == [FOREIGN["name"], GATE]
    assert found["metadata"]["annotations"][DELETION_COST] == HELD_COST
    assert gates(await served.apply(here, pod("other", {"app": "web"}))) == []
    elsewhere = await served.namespace("webhook-elsewhere", {})
    assert gates(await served.apply(elsewhere, pod("mine"))) == []


async def test_pods_that_a_deployment_makes_are_held_and_the_rest_of_it_is_left_alone(
    served: Cluster,
) -> None:
    here = await served.namespace("webhook-deployment", HELD)
    template = {"metadata": {"labels": {"app": "prefill", **LABELS}}, "spec": pod("x")["spec"]}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "prefill"}}, "template": template}
    await served.apply(
        here,
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "p"}, "spec": spec},
    )

    async def both_held() -> bool:
        pods = json.loads(await served.kubectl("get", "pods", "-n", here, "-o", "json"))["items"]
        return [gates(one) for one in pods] == [[GATE], [GATE]]

    await until(both_held, "both pods are held")


async def test_the_webhook_moves_the_labels_of_jobs(served: Cluster) -> None:
    await moves_jobs(served, await served.namespace("webhook-jobs", BESIDE))


WRONG = (
    '{\n  "version": "1.0",\n  "elastic_scaling_list": [{"group_list": [{"group_name": "group0",'
    ' "group_num": 2}]}]\n}'
)


async def test_a_wrong_rule_is_refused_in_the_linters_words(served: Cluster) -> None:
    here = await served.namespace("webhook-rules", HELD)
    said = await served.fails(
        "apply",
        "-n",
        here,
        "-f",
        "-",
        text=json.dumps(rule_config_map(WRONG) | {"metadata": {"name": "rule"}}),
    )
    assert 'The ConfigMap "rule" is invalid' in said
    assert re.search(
        r'FieldMissing: line 3, column \d+: "server_num_per_group" is missing; add'
        r' "server_num_per_gr',
        said,
    )
    assert re.search(
        r"NotADecimalString: line 3, column \d+: 2 is not a decimal number in quotes; write \"2\"",
        said,
    )
    elsewhere = await served.namespace("webhook-rules-elsewhere", {})
    await served.apply(elsewhere, rule_config_map(WRONG))
    plain = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "plain"},
        "data": {"a": "{"},
    }
    await served.apply(here, plain)


async def test_kubectl_edit_opens_again_with_the_linters_words(
    served: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = await served.namespace("webhook-edit", HELD)
    await served.apply(here, rule_config_map())
    editor = tmp_path / "editor"
    seen = tmp_path / "seen"
    # The first time it breaks the rule; when it is opened again it keeps what it was shown and
    # changes nothing.
    editor.write_text(
        f'#!/bin/sh\ngrep -q "was not valid" "$1" && cp "$1" {seen} || sed -i'
        ' "s/group_num/grope_num/" "$1"\n'
    )
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("KUBE_EDITOR", str(editor))
    said = await served.fails("edit", "-n", here, "configmap", "rule")
    comments = [line for line in seen.read_text().splitlines() if line.startswith("#")]
    assert any('"group_num" is missing' in line for line in comments), comments
    assert "Edit cancelled" in said


async def test_labels_that_do_not_fit_the_rule_are_warned_of(
    served: Cluster, tmp_path: Path
) -> None:
    here = await served.namespace("webhook-labels", HELD)
    words = await asyncio.to_thread(warnings_of, served.plane, here, job("p0", "prefill"))
    assert 'Warning: this job: the rule has no group "prefill"; it has group0, group1' in words
    words = await asyncio.to_thread(warnings_of, served.plane, here, pod("p", {RULE_LABEL: "rule"}))
    assert f"Warning: this pod: label {GROUP_LABEL} is missing" in words


def warnings_of(plane: ControlPlane, namespace: str, obj: Object) -> str:
    """What kubectl prints beside its result."""
    text = json.dumps({**obj, "metadata": {**obj["metadata"], "namespace": namespace}})
    command = [
        kubectl_path(),
        "--kubeconfig",
        str(plane.admin),
        "apply",
        "-f",
        "-",
        "--dry-run=server",
    ]
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stderr


async def test_while_no_replica_answers_nobody_is_blocked(cluster: Cluster, tmp_path: Path) -> None:
    here = await cluster.namespace("webhook-down", HELD)
    async with webhook(cluster, tmp_path):
        await until(lambda: cluster.gated(here), "the webhook is believed")
    try:
        elsewhere = await cluster.namespace("webhook-down-elsewhere", {})
        assert gates(await cluster.apply(elsewhere, pod("mine"))) == []
        assert gates(await cluster.apply(here, pod("other", {"app": "web"}))) == []
        assert gates(await cluster.apply(here, pod("mine"))) == []
        await cluster.apply(here, rule_config_map(WRONG))
        await set_failure_policy(cluster, "Fail")

        await until(
            lambda: cluster.refuses(pod("probe"), here, "failed calling webhook"),
            "held pods are refused",
        )
        assert gates(await cluster.apply(here, pod("another", {"app": "web"}))) == []
        assert gates(await cluster.apply(elsewhere, pod("another"))) == []
    finally:
        await unregister(cluster)


async def set_failure_policy(cluster: Cluster, policy: str) -> None:
    patch = [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": policy}]
    words = (
        "patch",
        "mutatingwebhookconfiguration",
        "mind-cluster-scaler",
        "--type=json",
        "-p",
        json.dumps(patch),
    )
    await cluster.kubectl(*words)


async def test_applying_the_manifests_again_leaves_the_authorities_in_place(
    served: Cluster,
) -> None:
    get = ("get", "validatingwebhookconfiguration", "mind-cluster-scaler", "-o", "json")
    before = json.loads(await served.kubectl(*get))
    for hook in before["webhooks"]:
        assert hook["clientConfig"]["caBundle"]
    last = json.loads(
        before["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]
    )
    await served.kubectl("apply", "-f", "-", text=json.dumps(last))
    after = json.loads(await served.kubectl(*get))
    assert after["webhooks"] == before["webhooks"]


@pytest.mark.long("two replicas in real time")
async def test_two_replicas_serve_the_webhook_and_one_is_enough(
    cluster: Cluster, tmp_path: Path
) -> None:
    ports = free_ports(2)
    rendered = await cluster.kubectl("kustomize", kustomization(tmp_path, "admission-webhook"))
    await cluster.kubectl("apply", "-f", "-", text=configurations(rendered, ports[1]))
    account = await asyncio.to_thread(cluster.plane.grant, NAMESPACE, ACCOUNT)
    here = await cluster.namespace("webhook-process", HELD)
    try:
        async with replica(tmp_path, account, "two", ports[1]) as two:
            async with replica(tmp_path, account, "one", ports[0]) as one:
                await until(lambda: cluster.gated(here), "a replica holds pods")
            await until(lambda: cluster.gated(here), "the other one still does")
            await cluster.apply(here, rule_config_map())
            await until(lambda: warned(cluster, here), "the rule's groups are known")
        for process in (one, two):
            assert "PRIVATE KEY" not in process.log.read_text()
            assert process.errors() == []
            assert process.lines("webhook certificate shown")
    finally:
        await unregister(cluster)


def replica(
    folder: Path, account: Path, name: str, port: int
) -> AbstractAsyncContextManager[ScalerProcess]:
    """`scaler run`, whose webhook answers at an address of this machine."""
    flags = (*LEASE, "--webhook-service", "127.0.0.1", "--webhook-port", str(port))
    return scaler(folder, account, name=name, flags=flags)


async def warned(cluster: Cluster, namespace: str) -> bool:
    words = await asyncio.to_thread(warnings_of, cluster.plane, namespace, job("p0", "prefill"))
    return 'the rule has no group "prefill"' in words


# the guard


async def test_only_the_scaler_and_administrators_take_the_gate_off(cluster: Cluster) -> None:
    if cluster.plane.minor < 30:
        pytest.skip("ValidatingAdmissionPolicy is served without flags from Kubernetes 1.30 on")
    await cluster.kubectl("apply", "-k", MANIFESTS / "cluster-wide")
    await cluster.kubectl("scale", "deployment", ACCOUNT, "--replicas=0", "-n", NAMESPACE)
    await cluster.kubectl("apply", "-f", MANIFESTS / "gate-guard" / "gate-guard.yaml")
    here = await cluster.namespace("guard", {})
    await cluster.kubectl("create", "serviceaccount", "somebody", "-n", here)
    for number, account in enumerate((f"{here}:somebody", f"{NAMESPACE}:{ACCOUNT}")):
        words = (
            "create",
            "rolebinding",
            f"edit-{number}",
            "-n",
            here,
            "--clusterrole=edit",
            f"--serviceaccount={account}",
        )
        await cluster.kubectl(*words)
    somebody = await asyncio.to_thread(cluster.plane.grant, here, "somebody")
    ours = await asyncio.to_thread(cluster.plane.grant, NAMESPACE, ACCOUNT)
    for name in ("one", "two"):
        await cluster.apply(here, pod(name, schedulingGates=[FOREIGN, {"name": GATE}]))

    def release(name: str, gate: str) -> tuple[str, ...]:
        patch = {"spec": {"schedulingGates": [{"$patch": "delete", "name": gate}]}}
        return ("patch", "pod", name, "-n", here, "--type=strategic", "-p", json.dumps(patch))

    async def refused() -> bool:
        try:
            await cluster.kubectl(*release("one", GATE), "--dry-run=server", kubeconfig=somebody)
        except ControlPlaneError as error:
            return "only the scaler takes the scheduling gate mind-cluster/hold off a pod" in str(
                error
            )
        return False

    await until(refused, "the guard is at work")
    await cluster.kubectl("label", "pod", "one", "-n", here, "a=b", kubeconfig=somebody)
    await cluster.kubectl(*release("one", FOREIGN["name"]), kubeconfig=somebody)
    await cluster.kubectl(*release("one", GATE), kubeconfig=ours)
    await cluster.kubectl(*release("two", GATE))
    for name in ("one", "two"):
        found = json.loads(await cluster.kubectl("get", "pod", name, "-n", here, "-o", "json"))
        assert GATE not in gates(found)
    await cluster.kubectl("delete", "-f", MANIFESTS / "gate-guard" / "gate-guard.yaml")
