"""The page in a real Chromium, of a real API server: with the rights of whoever starts it, and
live."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.control_plane.plane import ControlPlane
from tests.jobs import job, node, rule_config_map
from tests.page.browser import ROOT, command

STATUS = {
    "running": "0+0",
    "target": "1+1",
    "reason": "WaitingForCapacity",
    "message": "p0: needs 1 node",
    "replicas": 0,
    "since": "2026-11-22T12:00:00Z",
    "ratios": [{"group0": 2, "group1": 1}, {"group0": 1, "group1": 1}],
    "targetRatio": {"index": 1, "counts": {"group0": 1, "group1": 1}},
    "groups": [
        {"name": "group0", "running": 0, "target": 1},
        {"name": "group1", "running": 0, "target": 1},
    ],
}


def condition(kind: str, status: str, reason: str) -> dict[str, str]:
    at = "2026-11-22T12:00:00Z"
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": f"{kind}: {reason}",
        "lastTransitionTime": at,
    }


def say(plane: ControlPlane, **changes: Any) -> None:
    patch = yaml.safe_dump({"status": {**STATUS, **changes}})
    where = ("-n", "mindie", "elasticservices", "rule-mindie")
    plane.kubectl("patch", *where, "--subresource=status", "--type=merge", "--patch", patch)


def test_a_page_of_a_real_cluster_is_live_and_shows_no_more_than_its_user_may_read(
    plane: ControlPlane, chromium: Any, tmp_path: Path
) -> None:
    definitions = list(
        yaml.safe_load_all((ROOT / "manifests/base/elasticservices.yaml").read_text())
    )
    if "elasticservices" not in plane.kubectl("get", "crds", "-o", "name"):
        plane.install(definitions)
    plane.kubectl("create", "namespace", "mindie")
    spec = {"rule": "rule", "jobID": "mindie"}
    service = {
        "apiVersion": "scaler.mind-cluster.io/v1alpha1",
        "kind": "ElasticService",
        "spec": spec,
    }
    service["metadata"] = {"name": "rule-mindie", "namespace": "mindie"}
    made = [node("npu-0"), rule_config_map(), job("p0"), job("d0"), service]
    plane.kubectl("apply", "-f", "-", text=yaml.safe_dump_all(made))
    say(plane, conditions=[condition("Available", "False", "WaitingForCapacity")])
    with command("ui", "--kubeconfig", str(plane.admin), log=tmp_path / "admin.log") as address:
        page = chromium.new_context(locale="en-GB").new_page()
        page.goto(address)
        page.wait_for_selector(".row:has-text('Available: WaitingForCapacity')")
        say(
            plane,
            running="1+1",
            conditions=[
                condition("Available", "True", "Now"),
                condition("Complete", "True", "All"),
            ],
        )
        page.wait_for_selector(".row .mark.complete")
        page.evaluate("() => { location.hash = '#/cluster'; }")
        page.wait_for_selector("text=npu-0")
        page.context.close()
    plane.kubectl("create", "namespace", "reader")
    plane.kubectl("create", "serviceaccount", "reader", "-n", "reader")
    role = ("--verb=get,list,watch", "--resource=elasticservices.scaler.mind-cluster.io")
    plane.kubectl("create", "clusterrole", "reader", *role)
    plane.kubectl(
        "create",
        "clusterrolebinding",
        "reader",
        "--clusterrole=reader",
        "--serviceaccount=reader:reader",
    )
    with command(
        "ui",
        "--kubeconfig",
        str(plane.grant("reader", "reader")),
        "-n",
        "mindie",
        log=tmp_path / "log",
    ) as address:
        page = chromium.new_context(locale="en-GB").new_page()
        page.goto(address)
        page.wait_for_selector(".row .mark.complete")
        page.wait_for_selector(".notice:has-text('cannot be seen')")
        page.context.close()
