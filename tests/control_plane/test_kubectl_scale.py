"""Who scales a service with kubectl on a real API server, who may, and what is seen of it."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from tests.control_plane.plane import ControlPlane
from tests.control_plane.programs import ControlPlaneError
from tests.control_plane.scaler_process import install, scaler
from tests.control_plane.stage import EXAMPLE, staged, until

pytestmark = pytest.mark.every_kubernetes
_HERE = ("--namespace", "mindie")


async def test_whoever_may_edit_the_namespace_scales_its_service_and_the_scaler_may_not(
    plane: ControlPlane, tmp_path: Path
) -> None:
    kubeconfig = install(plane)
    plane.kubectl("apply", "-f", str(EXAMPLE / "00-rule.yaml"))
    plane.kubectl("delete", "rolebinding", *_HERE, "edits", "--ignore-not-found")  # of a run before
    plane.kubectl(
        "create",
        "rolebinding",
        *_HERE,
        "edits",
        "--clusterrole=edit",
        "--serviceaccount=mindie:default",
    )
    tenant = plane.grant("mindie", "default")
    object_ = "esvc/scaling-rule-mindie"
    scale = ("scale", *_HERE, "esvc/scaling-rule-mindie")

    async def kubectl(*words: str, account: Path = tenant) -> str:
        return await asyncio.to_thread(plane.kubectl, *words, kubeconfig=account)

    async with staged(plane, npu_nodes=3) as stage, scaler(tmp_path, kubeconfig):
        plane.kubectl("apply", "-f", str(EXAMPLE))
        await stage.runs(group0=2, group1=1)
        for number, prefill, decode in ((2, 1, 1), (0, 0, 0), (3, 2, 1)):
            await kubectl(*scale, f"--replicas={number}")
            await stage.runs(group0=prefill, group1=decode)
            # as many may have run before, while the service scaled up
            for field in ("wanted", "replicas"):
                await kubectl(
                    "wait",
                    *_HERE,
                    f"--for=jsonpath={{.status.{field}}}={number}",
                    object_,
                    "--timeout=30s",
                )
            seen = json.loads(
                await kubectl("get", *_HERE, object_, "--subresource=scale", "--output=json")
            )
            # 0 is left out
            assert [seen[part].get("replicas", 0) for part in ("spec", "status")] == [
                number,
                number,
            ]
            pods = await kubectl(
                "get", "pods", *_HERE, "--selector", seen["status"]["selector"], "--output=name"
            )
            assert len(pods.split()) == number
        told = await until(
            lambda: kubectl("events", *_HERE, "--for", object_),
            "one event counts each change of the number",
            fits=lambda told: bool(re.search(r"\(x3 over \S+\) +Normal +Scaled ", told)),
        )
        assert not re.search(" (Degraded|Unavailable|InstanceLost) ", told)
        await kubectl(*scale, "--replicas=1")
        await kubectl("wait", *_HERE, "--for=condition=ScalingLimited", object_, "--timeout=30s")
        with pytest.raises(ControlPlaneError, match="forbidden"):
            await kubectl(*scale, "--replicas=0", account=kubeconfig)
        with pytest.raises(ControlPlaneError, match="should be greater than or equal to 0"):
            await kubectl(
                "patch", *_HERE, object_, "--type=merge", "--patch", '{"spec": {"replicas": -1}}'
            )
        await kubectl(
            "patch", *_HERE, object_, "--type=merge", "--patch", '{"spec": {"replicas": null}}'
        )
        await stage.runs(group0=2, group1=1)
