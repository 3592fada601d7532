"""Whatever stands in a job, its faults are found without an exception, and no fault means that pods
can be made."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scaler.rules.jobspec import job_findings, read_replicas
from scaler.tools.common.manifest import objects

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.sampled_from(["", "ascend", "pytorch", "AllWorkers"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["name", "image", "spec"]), inner)
    ),
    max_leaves=6,
)
NAMES = st.sampled_from(
    ["Master", "Worker", "master", "replicas", "template", "containers", "spec", "labels"]
)


@given(spec=st.dictionaries(NAMES, st.dictionaries(NAMES, JSON) | JSON), labels=JSON)
def test_no_shape_raises_and_every_fault_has_a_name_a_place_and_a_cure(
    spec: Any, labels: Any
) -> None:
    for job in (
        {"spec": {"replicaSpecs": spec}, "metadata": {"labels": labels}},
        {"spec": spec},
        {"metadata": labels},
    ):
        for fault in job_findings(job):
            assert fault.code.startswith("Invalid")
            assert fault.path
            assert fault.message
            assert fault.hint
        assert all(count >= 0 for count in read_replicas(job).values())


def test_aliases_upon_aliases_stay_small() -> None:
    doublings = "".join(f"b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 9)}]\n" for n in range(1, 30))
    (found,), _ = objects(f"b0: &b0 [x]\n{doublings}", "bomb.yaml", alone=True)
    assert found.root.plain(12) is not None
