"""What people edit again and again is forgotten: after 10,000 edits the process keeps no more than
after 500.

Watch events go through decoding, cache, state, world and decision, as in the controller, without a
cluster; what counts is what all of these hold, and the tables of modules."""

from __future__ import annotations

import ast
import gc
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.decide.again import DecisionCache
from scaler.decide.decide import decide
from scaler.decide.memory import Memory
from scaler.decide.service.states import natural
from scaler.decide.world import Policy
from scaler.informers.changes import Changes, JobChanged, NodeChanged, PodChanged, ServiceChanged
from scaler.informers.config_maps import ConfigMapObject, config_map_record
from scaler.informers.jobs import read_job_record
from scaler.informers.pods import PodObject, pod_record
from scaler.informers.records import NodeObject, node_record
from scaler.kube.metadata import shared
from scaler.remembered import Remembered
from scaler.state.assemble import WorldBuilder
from scaler.state.cluster import ClusterState
from scaler.workloads.ascendjob import read_job
from scaler.workloads.ascendjob_objects import pods
from scaler.workloads.pod_requests import whole_amount
from tests.jobs import job, node, rule_config_map, rule_document

TERMS = 20
"""Of the affinity of a job: 40 kB in memory."""
FIRST = 500
"""Edits after which tables are full."""
LONG_NAME = "-1a" * 84
"""The name with the most parts that Kubernetes allows."""


class Cluster:
    """The controller's cache, state, world and decision. A service of two jobs on three nodes."""

    def __init__(self) -> None:
        self.version = 1
        self.now = 1e9
        changes = Changes()
        self.state = ClusterState(changes, lambda: self.now)
        self.cache = self.state.cache
        self.dirty: set[Any] = set()
        changes.subscribe(PodChanged, self.state.on_pod)
        changes.subscribe(NodeChanged, self.state.on_node)
        changes.subscribe(JobChanged, self.state.on_job)
        changes.subscribe(ServiceChanged, self.state.on_instance)
        changes.subscribe(ServiceChanged, lambda change: self.dirty.add(change.service))
        self.builder = WorldBuilder(self.state, Policy(), alone=lambda: "")
        self.memory = Memory()
        self.decided = DecisionCache()
        for number in range(3):
            body = self.stamped(node(f"node-{number}", roomy=True), f"node-{number}")
            self.cache.nodes.apply(node_record(msgspec.convert(body, NodeObject)))
        rule = rule_config_map(
            rule_document({"group0": 1, "group1": 1}, {"group0": 1, "group1": 1})
        )
        body = self.stamped(rule, "rule")
        self.cache.config_maps.apply(config_map_record(msgspec.convert(body, ConfigMapObject)))
        self.apply(job("d", "group1"))

    def stamped(self, body: dict[str, Any], uid: str) -> dict[str, Any]:
        """The object in a new version."""
        self.version += 1
        body["metadata"] |= {
            "uid": uid,
            "resourceVersion": str(self.version),
            "creationTimestamp": "2026-11-21T07:36:00Z",
        }
        return body

    def apply(self, body: dict[str, Any]) -> None:
        self.stamped(body, f"job-{body['metadata']['name']}")
        record = read_job_record(body)
        assert record is not None
        self.cache.jobs.apply(record)

    def bind(self, body: dict[str, Any]) -> None:
        """The job's first pod is seen, bound."""
        self.stamped(body, f"job-{body['metadata']['name']}")
        for name, pod in list(pods(read_job(body), body, "").items())[:1]:
            self.stamped(pod, f"pod-{name}")
            pod["spec"]["nodeName"] = "node-0"
            pod["status"] = {"phase": "Running"}
            text = msgspec.json.encode(pod)
            self.cache.pods.apply(pod_record(msgspec.json.decode(text, type=PodObject)))

    def unbind(self) -> None:
        for pod in list(self.cache.pods.values()):
            self.cache.pods.remove(pod.namespace, pod.name, pod.uid)

    def decide(self) -> None:
        for key in self.dirty:
            if self.state.has_instances(key):
                self.builder.read(key)
            else:
                self.builder.leave(key)
        self.dirty.clear()
        self.now += 1.0
        made = decide(self.builder.world(self.now, self.memory), self.decided)
        self.memory = made.memory


def chosen_nodes(number: int) -> dict[str, Any]:
    """A required affinity like no other."""
    terms = []
    for term in range(TERMS):
        values = [f"v{number}-{term}-{value}" for value in range(10)]
        here = {"key": "kubernetes.io/os", "operator": "NotIn", "values": values}
        terms.append({"matchExpressions": [here]})
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"nodeAffinity": required}


def with_affinity(number: int) -> dict[str, Any]:
    body = job("p", "group0")
    for replicas in body["spec"]["replicaSpecs"].values():
        replicas["template"]["spec"]["affinity"] = chosen_nodes(number)
    return body


def edit_affinity(cluster: Cluster, number: int) -> None:
    cluster.apply(with_affinity(number))


def edit_affinity_of_what_runs(cluster: Cluster, number: int) -> None:
    cluster.unbind()
    cluster.bind(with_affinity(number))


def edit_requests(cluster: Cluster, number: int) -> None:
    body = job("p", "group0")
    for replicas in body["spec"]["replicaSpecs"].values():
        container = replicas["template"]["spec"]["containers"][0]
        container["resources"] = {"requests": {f"example.com/{number}": "1", "cpu": f"{number}m"}}
    cluster.apply(body)


def edit_rule(cluster: Cluster, number: int) -> None:
    document = rule_document({"group0": 1 + number % 5, "group1": 1}, {"group0": 1, "group1": 1})
    body = rule_config_map(document + " " * (number % 500) + "\n" * (number // 500))
    cluster.stamped(body, "rule")
    cluster.cache.config_maps.apply(config_map_record(msgspec.convert(body, ConfigMapObject)))


def make_again_under_another_name(cluster: Cluster, number: int) -> None:
    for known in list(cluster.cache.jobs.values()):
        if known.name != "d":
            cluster.cache.jobs.remove(known.namespace, known.name, known.uid)
    body = job(f"{number}{LONG_NAME}"[:63], "group0")
    body["metadata"]["labels"]["jobID"] = f"job-{number}"
    cluster.apply(body)


EDITORS = (
    pytest.param(edit_affinity, 10_000, marks=pytest.mark.long),
    (edit_affinity, 2_000),
    (edit_affinity_of_what_runs, 2_000),
    (edit_requests, 2_000),
    (edit_rule, 2_000),
    (make_again_under_another_name, 2_000),
)


@pytest.fixture
def full_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of modules are small, and those that count entries are full."""
    for found in gc.get_objects():
        if isinstance(found, Remembered):
            monkeypatch.setattr(found, "most", 2**17)
    for number in range(1 << 15):
        natural(f"full-{number}")
        shared(f"full-{number}")
        whole_amount("cpu", f"1{number}m")


@pytest.mark.usefixtures("full_tables")
@pytest.mark.parametrize(("edit", "edits"), EDITORS)
def test_what_was_edited_is_forgotten(edit: Callable[[Cluster, int], None], edits: int) -> None:
    """Many edits of one object, in virtual time: of all that is made of each, the process keeps no
    text and no record for ever. Tables of modules count, too."""
    cluster = Cluster()
    for number in range(FIRST):
        edit(cluster, number)
        cluster.decide()
    before = blocks()
    for number in range(FIRST, edits):
        edit(cluster, number)
        cluster.decide()
    grown = blocks() - before
    assert grown < 3 * (edits - FIRST)


def blocks() -> int:
    """Blocks of memory that Python objects take, of whatever size."""
    gc.collect()
    return sys.getallocatedblocks()


def test_a_table_keeps_its_bytes() -> None:
    """What is asked for stays, what is not goes, and no value is larger than half of the table."""
    known: Remembered[int, str] = Remembered(20_000)
    known.keep(-1, "x")
    for number in range(1_000):
        known.keep(number, f"{number:0500}")
        assert known.get(-1) == "x"
    assert known.get(999) is not None
    assert known.get(0) is None
    assert 10 < len(known) < 40
    assert known.keep(5_000, "x" * 20_000) == "x" * 20_000
    assert known.get(5_000) is None


@given(st.text("019aB-.", max_size=9), st.text("019aB-.", max_size=9))
def test_numbers_in_names_have_their_order(one: str, other: str) -> None:
    """p2 is before p10, whatever stands before and behind."""
    assert (natural(one) < natural(other)) == (in_parts(one) < in_parts(other))
    assert (natural(one) == natural(other)) == (in_parts(one) == in_parts(other))


def in_parts(name: str) -> list[tuple[int, int, str]]:
    """Texts and numbers of the name in turn; a number is before a text."""
    parts = []
    for part in re.split("([0-9]+)", name):
        digits = part.lstrip("0")
        parts.append((0, len(digits), digits) if part.isdecimal() else (1, 0, part))
    return parts


def test_the_key_of_a_name_is_short() -> None:
    assert sys.getsizeof(natural(LONG_NAME)) < 1_000


KNOWN = {
    "scaler/kube/metadata.py _remembered": "2**15 texts of 128 characters",
    "scaler/kube/wire.py _decoder": "types of this program",
    "scaler/decide/service/states.py natural": "2**14 names",
    "scaler/report/service_reports.py _as_mapping": "1,024 times a few numbers",
    "scaler/workloads/pod_requests.py _whole": "4,096 quantities of 64 characters",
}
"""Functions of the process in the cluster that remember what they gave -> what bounds the bytes of
that. Of what has no such bound, `scaler.remembered` counts the bytes."""


def test_every_cache_has_a_bound_in_bytes() -> None:
    """A new `lru_cache` needs a reason here why its entries are small, whoever chose them."""
    found = set()
    for path in sorted(Path("scaler").rglob("*.py")):
        if path.parts[1] in ("sim", "tools"):
            continue
        for one in ast.walk(ast.parse(path.read_text())):
            if isinstance(one, ast.FunctionDef):
                name = one.name
                made = " ".join(map(ast.unparse, one.decorator_list))
            elif isinstance(one, ast.Assign | ast.AnnAssign) and one.value is not None:
                name = ast.unparse(one.target if isinstance(one, ast.AnnAssign) else one.targets[0])
                made = ast.unparse(one.value).removeprefix("cache")
            else:
                continue
            if re.search(r"lru_cache\(|^cache$", made):
                found.add(f"{path.as_posix()} {name}")
    assert found == KNOWN.keys()
