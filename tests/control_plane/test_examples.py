"""The examples of every platform are what the platforms' own definitions accept, field by field."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaler.sim.stories.manifests import read_manifests
from tests.control_plane.plane import ControlPlane
from tests.control_plane.stage import EXAMPLES

_DEFINITIONS = {
    "2p1d": "ascend-operator/ascendjobs.mindxdl.gitee.com.yaml",
    "ome-deployment": "ome-minimal/ome.io_inferenceservices.yaml",
    "ome-leaderworkerset": "ome-minimal/ome.io_inferenceservices.yaml",
    "aibrix": "aibrix/orchestration.aibrix.ai_stormservices.yaml",
    "volcano-jobs": "ascend-for-volcano-v1.12.0/jobs.batch.volcano.sh.yaml",
    "infer-operator": "infer-operator/inferservicesets.mindcluster.huawei.com.yaml",
}

pytestmark = pytest.mark.plane_options(crds=())


@pytest.mark.parametrize("name", _DEFINITIONS)
def test_an_example_holds_no_field_that_its_platform_does_not_know(
    real_data: Path, plane: ControlPlane, name: str
) -> None:
    file = real_data / "crds" / _DEFINITIONS[name]
    (definition,) = read_manifests(file)
    if definition["metadata"]["name"] not in plane.kubectl("get", "crds", "--output", "name"):
        plane.install([definition])
    objects = read_manifests(EXAMPLES / name)
    namespace = next(obj["metadata"]["name"] for obj in objects if obj["kind"] == "Namespace")
    plane.kubectl("create", "namespace", namespace)
    plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", EXAMPLES / name)
