"""What a hostile tenant writes into a namespace of its own to stop, blind or starve whoever reads
it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from scaler import names
from scaler.kube.api import ELASTIC_SERVICES, PODS, Object
from tests import jobs

NAMESPACE = "hostile"
DIGITS = "9" * 5000
"""More than `int` takes."""
DEPTH = 900
"""Objects in objects: as deep as the server of the simulation takes. Deeper ones are sent over the
wire (tests/control_plane, the fuzzers)."""
MOST_RATIOS = 9_999
_TEXTS = ("", "0", "true", "a" * 63, "1e9", "group0", "group1", "rule-0", "x", "00")
_LABELS = (
    names.RULE_LABEL,
    names.GROUP_LABEL,
    names.JOB_ID_LABEL,
    "app",
    "framework",
    "fault-scheduling",
    "fault-retry-times",
    "group-id",
    "leaderworkerset.sigs.k8s.io/name",
    "pod-template-hash",
    "volcano.sh/job-name",
)
_OWN = ("scaler-rounds", "moved-scaling-rule", "released-by", "scaler-rule-name")
_OPTIONS = ("paused", "counts-from", "trade", "arbitration", "service-priority", "preemptable")
_ANNOTATIONS = (
    names.INSTANCE,
    names.INSTANCE_SIZE,
    names.POD_GROUP,
    *(names.PREFIX + name for name in _OWN),
    "leaderworkerset.sigs.k8s.io/size",
    "controller.kubernetes.io/pod-deletion-cost",
    "huawei.com/Ascend910",
    *(names.PREFIX + name for name in _OPTIONS),
)
_VALUES = (*_TEXTS, "\u0000", "{" * 3000, "[" * 3000, "\ud7ff" * 100, "NaN", '{"a": 1e400}')


def huge_rules(die: random.Random, number: int) -> list[Object]:
    """Rules as large as an object may be, and a job for each."""
    ratios = ",".join(
        f'{{"group_list":[{{"group_name":"p","group_num":"{number}","server_num_per_group":"1"}}]}}'
        for number in range(MOST_RATIOS - die.randrange(3), 0, -1)
    )
    text = f'{{"version":"1.0","elastic_scaling_list":[{ratios}]}}'
    return [
        one
        for index in range(number)
        for one in (_rule(f"huge-{index}", text), _job(f"p-{index}", f"huge-{index}"))
    ]


def bad_numbers(die: random.Random, number: int) -> list[Object]:
    """Numbers where the scaler reads numbers, of lengths that no number has."""
    made = [
        _rule(
            "bad",
            jobs.TWO_P_ONE_D,
            **{key: die.choice([DIGITS, "-" + DIGITS]) for key in _ANNOTATIONS},
        )
    ]
    for index in range(number):
        job = _job(f"p-bad-{index}", "bad")
        job["metadata"]["annotations"] = dict.fromkeys(die.sample(_ANNOTATIONS, 5), DIGITS)
        made += [
            job,
            _pod(f"bad-{index}", "bad", dict.fromkeys(die.sample(_ANNOTATIONS, 5), DIGITS)),
        ]
    return made


def deep(die: random.Random, number: int) -> list[Object]:
    """Objects in objects in objects, where the user alone says what may stand there."""
    made: list[Object] = []
    for index in range(number):
        job = _job(f"p-deep-{index}", "deep")
        nested: Any = {}
        for _ in range(die.randint(DEPTH // 2, DEPTH)):
            nested = die.choice([{"a": nested}, [nested]])
        job["spec"]["replicaSpecs"]["Master"]["template"]["spec"]["affinity"] = {
            "nodeAffinity": nested
        }
        made.append(job)
    return [_rule("deep", json.dumps(nested) if made else ""), *made]


def crowd(die: random.Random, number: int) -> list[Object]:
    """So many ConfigMaps and jobs, some pods and ElasticServices, each with random labels and
    annotations of ours."""
    made: list[Object] = []
    for index in range(number):
        bad = json.dumps({"elastic_scaling_list": [die.choice(_TEXTS)] * 50})
        text = die.choice([jobs.TWO_P_ONE_D, "{", bad, _VALUES[-1]])
        made += [
            _rule(f"rule-{index}", text),
            _job(f"{die.choice('pdx')}-{index}", f"rule-{die.randrange(number)}"),
        ]
        if index % 4 == 0:
            made += [
                _pod(f"pod-{index}", f"rule-{die.randrange(number)}", {}),
                *_statuses(die, index, number),
            ]
    for obj in made:
        obj["metadata"]["labels"] = (obj["metadata"].get("labels") or {}) | some_labels(die)
        obj["metadata"]["annotations"] = some_annotations(die)
    return made


def some_labels(die: random.Random) -> dict[str, str]:
    """Some of the labels that mean something to us, with values that mean something or nothing."""
    return {key: die.choice(_TEXTS) for key in die.sample(_LABELS, die.randint(0, 6))}


def some_annotations(die: random.Random) -> dict[str, str]:
    return {key: die.choice(_VALUES) for key in die.sample(_ANNOTATIONS, die.randint(0, 6))}


WRITES: dict[str, Callable[[random.Random, int], list[Object]]] = {
    "hostile rules": huge_rules,
    "hostile numbers": bad_numbers,
    "hostile depth": deep,
    "hostile crowd": crowd,
}
"""Events of that name -> what is written, from a die and a number of objects."""


def _rule(name: str, text: str, **annotations: str) -> Object:
    rule = jobs.rule_config_map(text, name, NAMESPACE)
    if annotations:
        rule["metadata"]["annotations"] = annotations
    return rule


def _job(name: str, rule: str) -> Object:
    """For nodes that there are not, so that it takes no room."""
    return jobs.job(
        name, rule=rule, namespace=NAMESPACE, pod=jobs.template(nodeSelector={"pool": "none"})
    )


def _statuses(die: random.Random, index: int, number: int) -> list[Object]:
    """Of services that there are and are not, under names that the scaler would take, as its own
    and as theirs."""
    made = []
    for name, job_id in ((f"rule-{index}-mindie", "mindie"), (f"mine-{index}", die.choice(_TEXTS))):
        labels = die.choice([{}, {names.MANAGED_BY_LABEL: names.MANAGED_BY}])
        spec = {"rule": f"rule-{die.randrange(number)}", "jobID": job_id}
        made.append(jobs.manifest(ELASTIC_SERVICES, name, NAMESPACE, labels=labels, spec=spec))
    return made


def _pod(name: str, rule: str, annotations: dict[str, str]) -> Object:
    labels = {names.RULE_LABEL: rule, names.GROUP_LABEL: "group0", names.JOB_ID_LABEL: "mindie"}
    spec = {**jobs.NOBODYS_POD, "schedulingGates": [{"name": names.GATE}]}
    return jobs.manifest(PODS, name, NAMESPACE, labels=labels, annotations=annotations, spec=spec)
