"""Whether an event costs the same among 100,000 pods and among 1,000,000, and what a pod costs in
memory.

    python -m tests.bench.bench_scale [SERVICES ...]

Each service has ten AscendJobs of ten pods, all of them running. Watch events go through decoding,
cache, state, world and decision, as in the controller. `event`: milliseconds of CPU from a pod's
JSON to the decision about it, one at a time. Bytes are what the process grew by, per pod: by all
objects and what is made of them, and by the pods alone."""

from __future__ import annotations

import gc
import json
import random
import resource
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from scaler.decide.again import DecisionCache
from scaler.decide.decide import decide
from scaler.decide.memory import Memory
from scaler.decide.world import Policy
from scaler.informers.changes import Changes, JobChanged, NodeChanged, PodChanged, ServiceChanged
from scaler.informers.config_maps import ConfigMapObject, config_map_record
from scaler.informers.jobs import read_job_record
from scaler.informers.pods import PodObject, pod_record
from scaler.informers.records import NodeObject, node_record
from scaler.state.assemble import WorldBuilder
from scaler.state.cluster import ClusterState
from scaler.workloads.ascendjob import read_job
from scaler.workloads.ascendjob_objects import pods
from tests.jobs import job, node, rule_config_map, rule_document

JOBS = 10
PODS_PER_JOB = 10
EVENTS = 400
PODS_PER_NODE = 20
DECODER = msgspec.json.Decoder(PodObject)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


class Cluster:
    """The controller's cache, state and world, without a cluster."""

    def __init__(self) -> None:
        self.now = time.time()
        self.changes = Changes()
        self.state = ClusterState(self.changes, lambda: self.now)
        self.cache = self.state.cache
        self.changes.subscribe(PodChanged, self.state.on_pod)
        self.changes.subscribe(NodeChanged, self.state.on_node)
        self.changes.subscribe(JobChanged, self.state.on_job)
        self.changes.subscribe(ServiceChanged, self.state.on_instance)
        self.changes.subscribe(ServiceChanged, self.note)
        self.builder = WorldBuilder(self.state, Policy(), alone=lambda: "")
        self.dirty: set[Any] = set()
        self.memory = Memory()
        self.decided = DecisionCache()
        self.version = 0

    def note(self, change: ServiceChanged) -> None:
        self.dirty.add(change.service)

    def see(self, store: Any, record: Any) -> None:
        store.apply(record)

    def pod(self, text: bytes) -> None:
        self.see(self.cache.pods, pod_record(DECODER.decode(text)))

    def decide(self) -> Any:
        for key in self.dirty:
            self.builder.read(key)
        self.dirty.clear()
        self.now += 0.005
        made = decide(self.builder.world(self.now, self.memory), self.decided)
        self.memory = made.memory
        return made


def a_job(service: int, number: int) -> dict[str, Any]:
    group = "group0" if number % 2 else "group1"
    made = job(
        f"s{service}-{'pd'[number % 2]}{number}",
        group,
        pods=PODS_PER_JOB,
        uid=f"job-{service}-{number}",
    )
    made["metadata"] |= {"resourceVersion": "1", "creationTimestamp": "2026-11-21T07:36:00Z"}
    made["metadata"]["labels"]["jobID"] = f"s{service}"
    return made


def pod_texts(service: int, number: int) -> list[bytes]:
    """%d stands for the resourceVersion."""
    made = a_job(service, number)
    found: list[bytes] = []
    for name, pod in pods(read_job(made), made, "").items():
        pod["metadata"] |= {
            "uid": f"pod-{name}",
            "resourceVersion": "%d",
            "creationTimestamp": "2026-11-21T07:36:00Z",
        }
        at = ((service * JOBS + number) * PODS_PER_JOB + len(found)) // PODS_PER_NODE
        pod["spec"]["nodeName"] = f"node-{at:06}"
        pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        found.append(json.dumps(pod).encode())
    return found


def measure(services: int) -> None:
    of = Cluster()
    gc.disable()
    document = rule_document(
        {"group0": 5, "group1": 5}, {"group0": 1, "group1": 1}, pods=PODS_PER_JOB
    )
    rule = rule_config_map(document)
    rule["metadata"] |= {"uid": "rule", "resourceVersion": "1"}
    of.see(of.cache.config_maps, config_map_record(msgspec.convert(rule, ConfigMapObject)))
    start = resident()
    total = services * JOBS * PODS_PER_JOB
    for number in range(total // PODS_PER_NODE + 1):
        made = node(f"node-{number:06}", roomy=True)
        made["metadata"] |= {"uid": f"node-{number}", "resourceVersion": "1"}
        of.see(of.cache.nodes, node_record(msgspec.convert(made, NodeObject)))
    for service in range(services):
        for number in range(JOBS):
            of.see(of.cache.jobs, read_job_record(a_job(service, number)))
    before_pods = resident()
    for service in range(services):
        for number in range(JOBS):
            for text in pod_texts(service, number):
                of.pod(text.replace(b"%d", b"1"))
    with_pods = resident()
    made = of.decide()
    assert all(plan.complete for plan in made.plans), "every service runs its largest ratio"
    gc.enable()
    gc.collect()
    gc.freeze()
    after = resident()
    dice = random.Random(1)
    took = []
    for version in range(2, EVENTS + 2):
        text = dice.choice(pod_texts(dice.randrange(services), dice.randrange(JOBS))).replace(
            b"%d", b"%d" % version
        )
        if version % 2:
            text = text.replace(b'"status": "True"', b'"status": "False"')
        began = time.process_time()
        of.pod(text)
        of.decide()
        took.append((time.process_time() - began) * 1e3)
    took.sort()
    name = f"scale_{services}_services_{total}_pods"
    print(
        f"{name}_event_ms_p50 {took[EVENTS // 2]:.3f}\n{name}_event_ms_p99"
        f" {took[EVENTS * 99 // 100]:.3f}"
    )
    print(
        f"{name}_bytes_all {(after - start) / total:.0f}\n{name}_bytes_pods"
        f" {(with_pods - before_pods) / total:.0f}"
    )


if __name__ == "__main__":
    for size in [int(word) for word in sys.argv[1:]] or [1_000, 10_000]:
        measure(size)
