"""Who has set how many instances are wanted: as a real API server keeps it, and as `scaler why`
says it."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from tests.control_plane.plane import ControlPlane
from tests.jobs import job, rule_config_map
from tests.page.browser import ROOT

pytestmark = pytest.mark.shares_plane("clients")
_WHERE = ("-n", "mindie", "esvc/rule-mindie")


_AUTOSCALER = """
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: chat, namespace: mindie}
spec:
  scaleTargetRef:
    {apiVersion: scaler.mind-cluster.io/v1alpha1, kind: ElasticService, name: rule-mindie}
  maxReplicas: 5
  metrics:
  - type: Resource
    resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}
"""


def why(plane: ControlPlane) -> str:
    """The answer of the command on one line."""
    command = [
        sys.executable,
        "-m",
        "scaler",
        "why",
        "mindie/rule-mindie",
        "--kubeconfig",
        str(plane.admin),
    ]
    return " ".join(
        subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False
        ).stdout.split()
    )


def test_whoever_scales_a_service_is_named_with_the_autoscaler_that_will_do_so_again(
    plane: ControlPlane,
) -> None:
    if "elasticservices" not in plane.kubectl("get", "crds", "-o", "name"):
        plane.install(
            list(yaml.safe_load_all((ROOT / "manifests/base/elasticservices.yaml").read_text()))
        )
    plane.kubectl(
        "apply", "-f", "-", text="{apiVersion: v1, kind: Namespace, metadata: {name: mindie}}"
    )
    plane.kubectl("delete", "-n", "mindie", "esvc,hpa", "--all")  # of a run before this one
    meta = {"name": "rule-mindie", "namespace": "mindie"}
    spec = {"rule": "rule", "jobID": "mindie"}
    kind = {"apiVersion": "scaler.mind-cluster.io/v1alpha1", "kind": "ElasticService"}
    service = {**kind, "metadata": meta, "spec": spec}
    made = [rule_config_map(), job("p0"), job("p1"), job("d0"), service]
    plane.kubectl("apply", "-f", "-", text=yaml.safe_dump_all(made))
    assert "spec.replicas is" not in why(plane)

    plane.kubectl("scale", *_WHERE, "--replicas=2")
    answer = why(plane)
    assert "spec.replicas is 2; set by kubectl " in answer
    assert "kubectl -n mindie scale esvc/rule-mindie --replicas=1000000" in answer

    plane.kubectl("apply", "-f", "-", text=_AUTOSCALER)
    manager = ("--subresource=scale", "--field-manager=kube-controller-manager", "--type=merge")
    plane.kubectl("patch", *_WHERE, *manager, "--patch", '{"spec": {"replicas": 1}}')
    answer = why(plane)
    assert "spec.replicas is 1; set by an autoscaler (kube-controller-manager) " in answer
    assert "HorizontalPodAutoscaler chat: scales it: 1 to 5 instances" in answer

    plane.kubectl("scale", *_WHERE, "--replicas=0")
    assert "spec.replicas is 0; the API server has not kept who set it" in why(plane)
