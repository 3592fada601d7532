"""Rule documents for tests: plain ones, and strategies for good, odd and broken ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from tests.jobs import document

NAMES = ("group0", "group1", "decode")


def text(*ratios: Mapping[str, int | tuple[int, int]], **more: Any) -> str:
    return json.dumps(document(*ratios, **more), indent=2)


TWO_TO_ONE = text({"group0": 2, "group1": 1}, {"group0": 1, "group1": 1})


def config_map(value: str, *, namespace: str = "mindie", style: str = "|-") -> str:
    """A ConfigMap whose document is a block scalar; its first line is line 8, indented by 4."""
    body = "".join(f"    {line}\n" for line in value.splitlines())
    head = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: scaling-rule\n  namespace:"
        f" {namespace}\ndata:\n"
    )
    return f"{head}  elastic_scaling.json: {style}\n{body}"


def job(**changes: str) -> str:
    """An AscendJob of 1 Master and 1 Worker in mindie/scaling-rule, group0; `changes` replace text
    by text."""
    manifest = JOB
    for old, new in changes.items():
        assert SLOTS[old] in manifest, old
        manifest = manifest.replace(SLOTS[old], new)
    return manifest


SLOTS = {
    "version": "mindxdl.gitee.com/v1",
    "namespace": "namespace: mindie",
    "job_id": "    jobID: mindie\n",
    "rule": "    mind-cluster/scaling-rule: scaling-rule\n",
    "group": "    mind-cluster/group-name: group0\n",
    "framework": "    framework: pytorch\n",
    "fault": "    fault-scheduling: force\n",
    "annotations": "  annotations: {}\n",
    "min": "minAvailable: 2",
    "master": "    Master:\n      replicas: 1\n",
    "workers": "      replicas: 1 # workers\n",
    "container": "- name: ascend # worker",
    "limits": "limits: {huawei.com/Ascend910: 8} # worker",
    "success": "  successPolicy: AllWorkers\n",
}

_POD = """      template:
        spec:
          containers:
          - name: ascend # {role}
            image: mindie:1
            resources:
              requests: {{cpu: 1, huawei.com/Ascend910: 8}}
              limits: {{huawei.com/Ascend910: 8}} # {role}
"""

JOB = (
    """apiVersion: mindxdl.gitee.com/v1
kind: AscendJob
metadata:
  name: server-p0
  namespace: mindie
  annotations: {}
  labels:
    framework: pytorch
    app: mindie-ms-server
    jobID: mindie
    fault-scheduling: force
    mind-cluster/scaling-rule: scaling-rule
    mind-cluster/group-name: group0
spec:
  runPolicy:
    schedulingPolicy:
      minAvailable: 2
  successPolicy: AllWorkers
  replicaSpecs:
    Master:
      replicas: 1
"""
    + _POD.format(role="master")
    + """    Worker:
      replicas: 1 # workers
"""
    + _POD.format(role="worker")
)

numbers = st.one_of(
    st.integers(0, 4).map(str),
    st.sampled_from(
        [
            "0",
            "1",
            "1000000",
            "1000001",
            "01",
            "+1",
            "-1",
            " 1",
            "1 ",
            "1\n",
            "１",
            "",
            "x",
            "9" * 30,
        ]
    ),
    st.integers(-2, 3),
    st.none(),
    st.floats(allow_nan=False),
)
names = st.one_of(
    st.sampled_from(NAMES),
    st.sampled_from(["", "组", "a b", "x" * 64, "-a", "a\n"]),
    st.integers(),
    st.none(),
)
_fields: dict[str, st.SearchStrategy[Any]] = {
    "group_name": names,
    "group_num": numbers,
    "server_num_per_group": numbers,
}
groups = st.one_of(
    st.fixed_dictionaries(_fields),
    st.fixed_dictionaries({}, optional={**_fields, "priority": st.text(max_size=2)}),
)
entries = st.one_of(
    st.fixed_dictionaries(
        {"group_list": st.lists(groups, max_size=3)}, optional={"server_count": numbers}
    ),
    st.none(),
    st.dictionaries(st.text(max_size=3), st.none(), max_size=1),
)
odd_documents = st.one_of(
    st.fixed_dictionaries(
        {"elastic_scaling_list": st.one_of(st.lists(entries, max_size=4), st.none(), st.just({}))},
        optional={
            "version": st.sampled_from(["1.0", "2.0", 1.0, None]),
            "status": st.text(max_size=3),
            "note": st.none(),
        },
    ),
    st.none(),
    st.lists(entries, max_size=2),
    st.text(max_size=5),
)
"""Documents right and wrong, near enough to right ones that every check is reached."""


@st.composite
def good_documents(draw: st.DrawFn) -> dict[str, Any]:
    """Valid documents, some with warnings."""
    sizes = {
        name: draw(st.integers(1, 4))
        for name in draw(st.permutations(NAMES))[: draw(st.integers(1, 3))]
    }
    counts = {name: draw(st.integers(1, 4)) for name in sizes}
    ratios = [dict(counts)]
    for _ in range(draw(st.integers(0, 3))):
        counts = {name: draw(st.integers(0, number)) for name, number in counts.items()}
        ratios.append(dict(counts))
    sized = []
    for ratio in ratios:
        sized.append({name: (number, sizes[name]) for name, number in ratio.items()})
    return document(*sized)
