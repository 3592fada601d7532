"""From the release before to this one and back, in the middle of a fault: what one of them alone
would have done.

A service loses its decode node, later a prefill node. Each time, while it is being fixed, the
other release is applied and its replicas take the place of those that run, one by one, as a
Deployment does it: for a while two releases stand beside each other. What was made and deleted, and
what is there in the end, is compared with each release alone."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import shutil
import subprocess
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from signal import SIGTERM
from tempfile import mkdtemp
from typing import Any, NamedTuple

import pytest

from scaler.kube.api import DEPLOYMENTS, ELASTIC_SERVICES, LEASES, PODS, EventType, Object
from scaler.kube.errors import NotFoundError
from scaler.names import KEEP_LABEL
from scaler.sim.actors import objects
from scaler.sim.actors.nodes import NodeFate, NodeSpec
from scaler.sim.apiserver.crds import definitions
from scaler.sim.stories.manifests import copied
from scaler.state.kept_evictions import SUFFIX
from tests.control_plane.plane import ControlPlane, PlaneOptions, kubectl_path
from tests.control_plane.plugin import FreshPlane
from tests.control_plane.releases import ONE_BACK, ROOT, tree
from tests.control_plane.scaler_process import (
    ACCOUNT,
    LEASE,
    NAMESPACE,
    USER,
    ScalerProcess,
    install,
    leads,
)
from tests.control_plane.stage import SERVICE, Stage, staged, until
from tests.control_plane.witness import Witness, watched

FLAGS = (*LEASE, "--broken-grace", "2", "--trade-after", "4", "--stable-after", "3")
WAYS = {"kubectl apply": (), "kubectl apply --server-side": ("--server-side", "--force-conflicts")}
BYSTANDER = "bystander"
"""Namespace of a service that loses nothing."""
OTHER = f"{BYSTANDER}/scaling-rule/mindie"
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_KINDS = (
    "ascendjobs,pods,podgroups.scheduling.volcano.sh,services,configmaps,elasticservices,"
    "leases.coordination.k8s.io"
)
_NOT_COMPARED = {"kubectl.kubernetes.io/last-applied-configuration"}
_LEFT = {"format"}
"""Keys of our ConfigMaps that stay after a rollback and mean nothing to what was rolled back to."""
_BY_KUBERNETES = {"kube-root-ca.crt", "extension-apiserver-authentication", "kubernetes"}


class Release(NamedTuple):
    """A tree, and how its manifests are applied."""

    name: str
    root: Path
    flags: tuple[str, ...] = ()


class Chapter(NamedTuple):
    """From one time at rest to the next."""

    made: dict[str, int]
    """Pods, by namespace and group."""
    deleted: dict[str, int]
    """Of these by the scaler."""
    there: dict[str, Any]
    """At the end of it: objects by kind and name, with what is written on them."""


class Pods:
    """Every pod that ever was."""

    def __init__(self, stage: Stage, plane: ControlPlane) -> None:
        self.made: Counter[str] = Counter()
        self._groups: dict[tuple[str, str], str] = {}
        self._api = stage.api
        self._plane = plane
        self._told: tuple[Counter[str], Counter[str]] = Counter(), Counter()

    async def run(self) -> None:
        """Watch until cancelled, from before anything is made."""
        version = (await self._api.list(PODS)).resource_version
        async for event in self._api.watch(PODS, resource_version=version):
            if event.type is EventType.ADDED and event.object is not None:
                pod = event.object
                group = f"{objects.namespace(pod)} {_group(pod)}"
                self._groups[objects.namespace(pod), objects.name(pod)] = group
                self.made[group] += objects.namespace(pod) != NAMESPACE

    def since(self) -> tuple[dict[str, int], dict[str, int]]:
        """Made, and deleted by the scaler, since it was asked last."""
        deleted: Counter[str] = Counter()
        for event in self._plane.audit_events(USER):
            about = event["objectRef"]
            if (event["verb"], about["resource"]) == ("delete", "pods") and event["responseStatus"][
                "code"
            ] < 300:
                deleted[self._groups[about["namespace"], about["name"]]] += 1
        before = self._told
        self._told = (Counter(self.made), deleted)
        return dict(self.made - before[0]), dict(deleted - before[1])


def _group(pod: Object) -> str:
    """`mindie-server-p` of mindie-server-p1-master-0."""
    return re.sub(r"\d*-(master|worker)-\d+$", "", objects.name(pod))


class Replicas:
    """The pods of the Deployment, as processes."""

    def __init__(self, plane: ControlPlane, stage: Stage, folder: Path) -> None:
        self.all: list[ScalerProcess] = []
        self._running: list[ScalerProcess] = []
        self._plane = plane
        self._stage = stage
        self._folder = folder

    async def roll(self, release: Release) -> None:
        """Apply the release, definition first. Each replica ends when one more of the new ones is
        ready, and the leader last: it decides beside them until then."""
        definition = release.root / "manifests" / "base" / "elasticservices.yaml"
        self._plane.kubectl("apply", *release.flags, "-f", definition)
        kubeconfig = install(self._plane, root=release.root, flags=release.flags)
        leader = [each for each in self._running if await leads(self._stage, each.name)]
        before = [each for each in self._running if each not in leader] + leader
        for number in range(2):
            name = f"{release.name}-{len(self.all)}"
            process = ScalerProcess(name, self._folder, kubeconfig, FLAGS, root=release.root)
            self.all.append(process)
            process.start()
            await process.ready()
            if before:
                await asyncio.to_thread(before[number].stop, SIGTERM)
        self._running = self.all[-2:]
        await until(self._one_leads, f"a replica of {release.name} leads")

    async def _one_leads(self) -> bool:
        return any([await leads(self._stage, each.name) for each in self._running])

    async def close(self) -> None:
        for process in self.all:
            await asyncio.to_thread(process.stop, SIGTERM)


OPTIONS = PlaneOptions(
    crds=[crd for crd in definitions() if "elasticservices" not in objects.name(crd)], audit=True
)
"""The definition of ElasticService comes with the releases."""


async def _told(plane: ControlPlane, folder: Path, *releases: Release) -> list[Chapter]:
    """The story: a start under the first of three releases, a fault in which it is replaced by the
    second, and another in which that is replaced by the third. A release that follows itself is
    left alone."""
    async with AsyncExitStack() as around:
        stage = await around.enter_async_context(staged(plane, npu_nodes=6))
        pods = Pods(stage, plane)
        watching = asyncio.create_task(pods.run())
        replicas = Replicas(plane, stage, folder)
        around.push_async_callback(replicas.close)
        await replicas.roll(releases[0])
        await around.enter_async_context(watched(Witness(stage.api)))
        await stage.apply()
        await _whole(stage, SERVICE)
        await stage.apply(change=lambda obj: copied([obj], BYSTANDER)[0])
        await _whole(stage, SERVICE, OTHER)
        chapters = [_chapter(plane, pods)]
        for lost, before, after in (
            ("d0", releases[0], releases[1]),
            ("p0", releases[1], releases[2]),
        ):
            await _loses_a_node(
                stage, lost, partial(replicas.roll, after) if before != after else None
            )
            chapters.append(_chapter(plane, pods))
        assert not watching.done()
        watching.cancel()
        assert [error for each in replicas.all for error in each.errors()] == []
    return chapters


async def _loses_a_node(
    stage: Stage, job: str, meanwhile: Callable[[], Awaitable[None]] | None
) -> None:
    """Until the instance is lost for good; then the node returns, and the service climbs back."""
    node = await stage.node_of(f"mindie-server-{job}")
    lost = await _pod_of(stage, job)
    await stage.node(node, NodeFate.NOT_READY)
    await until(
        lambda: _reasons(stage),
        "the scaler has seen the fault",
        fits=lambda said: len(set(said)) == 2,
    )
    if meanwhile is not None:
        await meanwhile()
    await stage.runs(group0=1, group1=1)
    await until(lambda: _pod_of(stage, job), "its pod has gone", fits=lambda uid: uid != lost)
    await stage.node(node, NodeFate.READY)
    await _whole(stage, SERVICE, OTHER)


async def _whole(stage: Stage, *services: str) -> None:
    """They run their largest ratio, and their objects say so."""
    for service in services:
        await stage.runs(service, group0=2, group1=1)
    await until(
        lambda: _reasons(stage),
        "both are complete",
        fits=lambda said: said == ["Complete"] * len(services),
    )


async def _pod_of(stage: Stage, job: str) -> str:
    """Its uid; "" while there is none."""
    try:
        return objects.uid(await stage.api.get(PODS, "mindie", f"mindie-server-{job}-master-0"))
    except NotFoundError:
        return ""


async def _reasons(stage: Stage) -> list[str]:
    found = (await stage.api.list(ELASTIC_SERVICES)).items
    return [
        str(objects.status(each).get("reason"))
        for each in found
        if each["spec"]["jobID"] == "mindie"
    ]


def _chapter(plane: ControlPlane, pods: Pods) -> Chapter:
    found = json.loads(plane.kubectl("get", _KINDS, "--all-namespaces", "--output=json"))["items"]
    # Counts of evictions go some moments after the service serves again.
    there = dict(
        _what_is_written(obj)
        for obj in found
        if objects.name(obj) not in _BY_KUBERNETES and not objects.name(obj).endswith(SUFFIX)
    )
    return Chapter(*pods.since(), there)


def _what_is_written(obj: Object) -> tuple[str, dict[str, Any]]:
    """Kind, namespace and name, and what somebody could find there later; uids are those of this
    cluster."""
    meta = obj["metadata"]
    kind = obj["kind"]
    notes = {
        key: value
        for key, value in (meta.get("annotations") or {}).items()
        if key not in _NOT_COMPARED
    }
    if kind == "Lease":
        notes["spec"] = sorted(obj["spec"])
    if kind == "ElasticService":
        notes |= {
            "spec": obj["spec"],
            "status": sorted(obj["status"]),
            "reason": obj["status"]["reason"],
        }
    if kind == "ConfigMap":
        notes["keys"] = sorted((obj.get("data") or {}).keys() - _LEFT)
    name = f"{kind} {meta['namespace']}/{meta['name']}"
    # Which instances of a minimum have the label is up to uids; a rollback leaves it
    # (docs/howto/upgrade.md).
    labels = {key: value for key, value in (meta.get("labels") or {}).items() if key != KEEP_LABEL}
    return _UID.sub("UID", name), json.loads(
        _UID.sub("UID", json.dumps(notes | {"labels": labels}))
    )


@pytest.mark.long("a fault in real time, under two releases", first=True)
@pytest.mark.parametrize("flags", WAYS)
async def test_a_fault_under_two_releases_comes_out_as_under_each_alone(
    fresh_plane: FreshPlane, tmp_path: Path, flags: str
) -> None:
    before, this = (
        Release(name, root, WAYS[flags])
        for name, root in ((ONE_BACK, tree(ONE_BACK)), ("this", ROOT))
    )
    old, new, mixed = [
        await _told(fresh_plane(OPTIONS), Path(mkdtemp(dir=tmp_path)), *releases)
        for releases in ((before, before, before), (this, this, this), (before, this, before))
    ]
    for each, alone in zip(mixed, (old[0], new[1], old[2]), strict=True):
        assert each == alone
    assert mixed[1].deleted == {"mindie mindie-server-p": 1}
    assert mixed[2].deleted == {}


def _folder(at: Path, root: Path, tag: str) -> None:
    """What a user has there: the manifests of a release, and a folder with the image."""
    shutil.copytree(root / "manifests", at / "manifests")
    (at / "deploy").mkdir()
    kustomization = {
        "resources": ["../manifests/cluster-wide"],
        "images": [{"name": ACCOUNT, "newTag": tag}],
    }
    (at / "deploy" / "kustomization.yaml").write_text(json.dumps(kustomization))


def _commands(page: Path) -> list[list[str]]:
    text = page.read_text("utf-8")
    found = [
        line
        for block in re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        for line in block.splitlines()
    ]
    found += [
        f"$ {words}"
        for words in re.findall(r"^\| \w+ `[^`]+` \| `(kubectl [^`]+)` \|", text, re.MULTILINE)
    ]
    return [shlex.split(line.removeprefix("$ "), comments=True) for line in found]


async def test_every_command_of_the_page_runs_and_ends_at_the_release_before(
    fresh_plane: FreshPlane, tmp_path: Path
) -> None:
    _folder(tmp_path, ROOT, "next")
    _folder(tmp_path / ONE_BACK, tree(ONE_BACK), ONE_BACK)
    plane = fresh_plane(replace(OPTIONS, scheduler=True))

    def run(*words: str) -> None:
        command = [kubectl_path(), "--kubeconfig", str(plane.admin), *words]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode <= (words[0] == "diff"), (words, done.stderr)

    async with staged(plane) as stage:
        await stage.add_node(NodeSpec("cpu-0", npu=0))
        run("apply", "-k", f"{ONE_BACK}/deploy")
        run("rollout", "status", "-n", NAMESPACE, "deployment/mind-cluster-scaler")
        await stage.api.create(
            LEASES, NAMESPACE, {"metadata": {"name": ACCOUNT}}
        )  # nobody runs: the kubelets are stand-ins
        commands = _commands(ROOT / "docs" / "howto" / "upgrade.md")
        assert len(commands) > 10
        for program, *words in commands:
            assert program == "kubectl"
            await asyncio.to_thread(run, *words)
        (deployed,) = (await stage.api.list(DEPLOYMENTS, NAMESPACE)).items
        (container,) = deployed["spec"]["template"]["spec"]["containers"]
        assert container["image"] == f"{ACCOUNT}:{ONE_BACK}"
