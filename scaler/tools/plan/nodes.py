"""Reads the input of a what-if: services, nodes, and what pods request. From files and short forms.

    40x huawei.com/Ascend910=8,accelerator-type=module-910b-8
        nodes: so many, what they have, and their labels
    9x4x huawei.com/Ascend910=16
        super-pods: so many, with so many nodes each (Atlas A3 SuperPoD)
    huawei.com/Ascend910=8,cpu=24,accelerator-type=module-910b-8
        a pod: what it asks for, and its node selector
    huawei.com/Ascend910=16,sp-block=64
        a pod of a job that takes blocks of 64 NPUs of one super-pod
    huawei.com/Ascend910=8,highestTierAllowed=1
        a pod of a job that takes one HyperNode of Volcano, of at most this tier

Must not decide whether anything fits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from scaler.decide.nodes import PODS, PodRequest, PodRequests, Where, joined
from scaler.decide.world import ServiceKey
from scaler.informers.faults import NodeDevices, NodeFaults
from scaler.informers.hyper_nodes import HyperNodeObject, HyperNodes, hyper_node_record
from scaler.informers.npu_nodes import as_placed as node_as_placed
from scaler.informers.records import NodeFacts, NodeObject, node_record
from scaler.kube.api import HYPER_NODES, Object
from scaler.kube.quantity import parse_quantity
from scaler.names import GROUP_LABEL, RULE_LABEL
from scaler.rules.rule import Rule
from scaler.rules.values import at
from scaler.tools.common.manifest import MAX_DEPTH, objects
from scaler.tools.common.render import render
from scaler.tools.common.usage import content_of
from scaler.tools.common.whatif import Asked
from scaler.tools.lint.source import BOM, decode
from scaler.tools.plan.rulefile import LoadedRule, load_rule
from scaler.tools.plan.understood import is_understood
from scaler.workloads.hyper_nodes import together
from scaler.workloads.npu_rules import (
    ACCELERATOR,
    LABEL,
    SP_BLOCK,
    NpuJob,
    npu_job_of,
    npu_of,
)
from scaler.workloads.npu_rules import as_placed as requests_as_placed
from scaler.workloads.pod_requests import (
    MOST,
    ascend_job_requests,
    volcano_job_requests,
    whole_amount,
)
from scaler.workloads.volcanojob import VOLCANO_JOBS, read_volcano_job

EXAMPLE = "huawei.com/Ascend910=8,pool=a"
MOST_NODES = 100_000
MOST_SERVICES = 10_000
USUAL = PodRequest((("huawei.com/Ascend910", 8), (PODS, 1)))
"""The default request of a pod: all eight NPUs of a server."""
_PLENTY = {"cpu": MOST, "memory": MOST, "ephemeral-storage": MOST, PODS: 110}
"""Amounts of a node for resources that its short form does not mention."""
_SUPER_PODS = re.compile(r"([1-9][0-9]{0,3})x([1-9][0-9]{0,3})x\s+(\S.*)")
_OF_SUPER_PODS = {LABEL: "huawei-Ascend910", ACCELERATOR: "module-a3-16-super-pod"}
"""Labels of nodes of super-pods whose short form does not mention them."""
_TIMES = re.compile(r"([1-9][0-9]{0,5})x\s+(\S.*)")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_NAME = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_SUPER_POD_ID = "superPodID"
"""Annotation of a Node of a super-pod."""
_OF_VOLCANO = (f"{VOLCANO_JOBS.group}/{VOLCANO_JOBS.version}", VOLCANO_JOBS.kind)
TIER = "highestTierAllowed"
"""In the short form of what a pod asks for: as in the field `networkTopology` of a job."""
_SUFFIXES = (".yaml", ".yml", ".json")


T = TypeVar("T")


class BadInputError(Exception):
    """An error in a file or in a short form, with its correction."""


class Parts(NamedTuple):
    """The parsed short form."""

    amounts: dict[str, int]
    labels: dict[str, str]


class JobNeeds(NamedTuple):
    """What the jobs of files request, by (rule, group)."""

    needs: dict[tuple[str, str], PodRequests]
    """The requests of all pods of an instance."""
    guessed: set[tuple[str, str]]
    """Where these pods say what is not understood."""
    npus: dict[tuple[str, str], NpuJob]
    """What MindCluster's scheduler reads of the job."""
    tiers: dict[tuple[str, str], str]
    """`PodRequest.tier` of the pods of the job."""


def times(text: str) -> tuple[int, str]:
    """`20x rule.yaml` as (20, `rule.yaml`); 1 when no number is given."""
    found = _TIMES.fullmatch(text.strip())
    return (int(found[1]), found[2]) if found else (1, text)


def parts(text: str) -> Parts:
    """Amounts of cpu, memory, pods, storage and devices (names with a slash); all other parts are
    labels."""
    made = Parts({}, {})
    for part in text.split(","):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not (key and equals):
            raise BadInputError(f"'{part.strip()}' is not KEY=VALUE; write for example {EXAMPLE}")
        if not _NAME.fullmatch(key):
            raise BadInputError(
                f"'{key}' is no name of a resource or label; write for example 40x {EXAMPLE}"
            )
        if key in made.amounts or key in made.labels:
            raise BadInputError(f"'{key}' is said twice; write it once")
        amount = (
            whole_amount(key, value)
            if _is_resource(key) and parse_quantity(value) is not None
            else None
        )
        if amount is None and (key in _PLENTY or key.startswith("hugepages-")):
            raise BadInputError(
                f"'{value}' in '{part.strip()}' is no quantity; write for example {key}=8"
            )
        if amount is not None and value.startswith("-"):
            raise BadInputError(f"'{part.strip()}' is less than nothing; write for example {key}=8")
        if amount is not None:
            made.amounts[key] = amount
        elif not value or _LABEL_VALUE.fullmatch(value):
            made.labels[key] = value
        else:
            raise BadInputError(
                f"'{value}' in '{part.strip()}' is neither a quantity nor the value of a label"
            )
    return made


def _is_resource(key: str) -> bool:
    return key in _PLENTY or "/" in key or key.startswith("hugepages-")


def need_of(text: str) -> PodRequest:
    """The request of one pod, from its short form."""
    found = parts(text)
    for of_job in (SP_BLOCK, TIER):
        found.labels.pop(of_job, None)
    asked = tuple(
        sorted((name, amount) for name, amount in ({PODS: 1} | found.amounts).items() if amount)
    )
    return PodRequest(asked, Where(selector=tuple(sorted(found.labels.items()))))


def read_nodes(sources: Iterable[str]) -> list[NodeFacts]:
    """All nodes of short forms, and of files in the format of `kubectl get nodes -o yaml`."""
    found: list[NodeFacts] = []
    for source in sources:
        found += _of_file(source) if _is_file(source) else _of_short_form(source, len(found))
        if len(found) > MOST_NODES:
            raise BadInputError(f"more than {MOST_NODES:,} nodes")
    return found


def _is_file(source: str) -> bool:
    return (
        source == "-"
        or ("=" not in source and not _TIMES.fullmatch(source.strip()))
        or Path(source).is_file()
    )


def _of_short_form(source: str, first: int) -> Iterator[NodeFacts]:
    if in_super_pods := _SUPER_PODS.fullmatch(source.strip()):
        yield from _of_super_pods(int(in_super_pods[1]), int(in_super_pods[2]), in_super_pods[3])
        return
    number, text = times(source)
    if number > MOST_NODES:
        raise BadInputError(f"more than {MOST_NODES:,} nodes")
    found = parts(text)
    amounts = _PLENTY | found.amounts
    for index in range(first + 1, first + number + 1):
        name = f"node-{index}"
        labels = {"kubernetes.io/hostname": name} | found.labels
        yield NodeFacts(name=name, labels=labels, allocatable=amounts, capacity=amounts)


def _of_super_pods(number: int, nodes: int, text: str) -> Iterator[NodeFacts]:
    """The nodes of so many super-pods, all chips well."""
    if number * nodes > MOST_NODES:
        raise BadInputError(f"more than {MOST_NODES:,} nodes")
    found = parts(text)
    amounts = _PLENTY | found.amounts
    npu = npu_of(found.amounts)
    if not npu:
        raise BadInputError(f"'{text}' has no NPUs; write for example 9x4x {npu_example(16)}")
    kind = npu.partition("/")[2]
    chips = frozenset(f"{kind}-{index}" for index in range(found.amounts[npu]))
    for super_pod in range(number):
        for index in range(nodes):
            name = f"super-pod-{super_pod}-{index}"
            labels = {"kubernetes.io/hostname": name, **_OF_SUPER_PODS, **found.labels}
            facts = NodeFacts(
                name=name, labels=labels, allocatable=amounts, capacity=amounts, chips=chips
            )
            yield _with_devices(facts, super_pod)


def npu_example(number: int) -> str:
    return f"huawei.com/Ascend910={number}"


def _with_devices(facts: NodeFacts, super_pod: int) -> NodeFacts:
    """The node as MindCluster's scheduler sees it when all of its chips are well."""
    return node_as_placed(facts, NodeFaults(), NodeDevices(listed=True, super_pod=super_pod))


def _super_pod_of(node: Mapping[str, Any]) -> int:
    """The super-pod in the annotation of a Node, -1 without one."""
    stated = str(at(node, "metadata", "annotations").get(_SUPER_POD_ID, ""))
    return int(stated) if stated.isascii() and stated.isdecimal() else -1


def _of_file(file: str) -> list[NodeFacts]:
    found = []
    hyper_nodes = HyperNodes(lambda _: None)
    made_of_file = list(_manifests(file))
    for made in made_of_file:
        if made.get("kind") == HYPER_NODES.kind:
            hyper_node = _converted(made, HyperNodeObject, file)
            hyper_nodes.store.apply(hyper_node_record(hyper_node))
    for made in made_of_file:
        if made.get("kind") == "Node":
            record = node_record(_converted(made, NodeObject, file))
            facts = replace(record.facts, hyper_nodes=hyper_nodes.of(record))
            found.append(_with_devices(facts, _super_pod_of(made)) if facts.chips else facts)
    if not found:
        raise BadInputError(
            f"{file}: no Node; write them with 'kubectl get nodes -o yaml', or as '40x"
            " KEY=VALUE,...'"
        )
    return found


def _converted(made: Mapping[str, Any], to: type[T], file: str) -> T:
    try:
        return msgspec.convert(made, to, strict=False)
    except msgspec.ValidationError as error:
        name = at(made, "metadata").get("name", "without a name")
        raise BadInputError(
            f"{file}: {made['kind']} {name} is not as an API server gives it: {error}"
        ) from None


def check_labels(nodes: Iterable[NodeFacts], services: Iterable[Asked]) -> None:
    """Raises BadInputError for a label of a node, like `eight`, that pods request as a number."""
    asked = set()
    for one in services:
        for needs in one.needs.values():
            for need, _ in needs:
                for name, _ in need.requests:
                    asked.add(name)
    for facts in nodes:
        for key in asked & facts.labels.keys() - facts.allocatable.keys():
            words = f"'{key}={facts.labels[key]}' is no quantity, and pods ask for {key}"
            raise BadInputError(f"{words}; write for example {key}=8")


def read_jobs(sources: Iterable[str]) -> JobNeeds:
    """The requests of the AscendJobs and Volcano Jobs in these files and folders; of several in one
    group the first counts."""
    found = JobNeeds({}, set(), {}, {})
    for file in chain.from_iterable(map(_files, sources)):
        for made in _manifests(file):
            job = dict(made)
            if made.get("kind") == "AscendJob":
                labels = at(job, "metadata", "labels")
                key = (str(labels.get(RULE_LABEL, "")), str(labels.get(GROUP_LABEL, "")))
                _note(found, key, job, ascend_job_requests(job))
            elif (made.get("apiVersion"), made.get("kind")) == _OF_VOLCANO:
                read = read_volcano_job(job)
                key = (read.key.rule, read.group or "")
                _note(found, key, job, volcano_job_requests(job))
                found.tiers.setdefault(key, read.tier)
    return found


def _note(
    found: JobNeeds, key: tuple[str, str], job: Object, requests: Iterable[PodRequest]
) -> None:
    """What the instances of this rule and group request, unless that is known."""
    if not all(key) or key in found.needs:
        return
    found.needs[key] = joined(tuple((need, 1) for need in requests))
    found.npus[key] = npu_job_of(at(job, "metadata", "annotations"), at(job, "metadata", "labels"))
    if found.needs[key] and not is_understood(job):
        found.guessed.add(key)


def services(
    rules: Iterable[str], *, needs: Iterable[str], jobs: JobNeeds, by_chips: bool = False
) -> list[Asked]:
    """One service for each rule, or as many as `20x RULE` says. `by_chips`: MindCluster's scheduler
    places them, by the chips of the nodes. Raises RuleFileError as well."""
    loaded = [(number, load_rule(file)) for number, file in map(_counted, rules)]
    if sum(number for number, _ in loaded) > MOST_SERVICES:
        raise BadInputError(f"more than {MOST_SERVICES:,} services")
    needs = list(needs)
    by_group = dict(map(_by_group, needs))
    blocks = {group: _said(need, SP_BLOCK) for group, need in map(_of_group, needs)}
    tiers = {group: _said(need, TIER) for group, need in map(_of_group, needs)}
    known = {""}
    for _, one in loaded:
        known.update(one.rule.groups)
    unknown = by_group.keys() - known
    if unknown:
        raise BadInputError(f"--needs: no rule names group {', '.join(sorted(unknown))}")
    totals = Counter[tuple[str, str]]()
    seen = Counter[tuple[str, str]]()
    found = []
    for number, one in loaded:
        totals[one.namespace, one.name] += number
    for one in _each_service(loaded):
        name = one.namespace, one.name
        seen[name] += 1
        job_id = f"{one.name}-{seen[name]}" if totals[name] > 1 else one.name
        groups = one.rule.groups
        asked = {}
        for group in groups:
            pods = jobs.needs.get((one.name, group)) or _usual(one.rule, group, by_group)
            job = one.name, group
            block = NpuJob(block=blocks.get(group, blocks.get("", "")))
            tier = jobs.tiers.get(job, tiers.get(group, tiers.get("", "")))
            placed = _placed(pods, jobs.npus.get(job, block)) if by_chips else pods
            asked[group] = _in_one_hyper_node(placed, tier)
        guessed = not jobs.guessed.isdisjoint((one.name, group) for group in groups)
        key = ServiceKey(one.namespace, one.name, job_id)
        found.append(Asked(key, one.rule, one.options, asked, guessed=guessed))
    return found


def _each_service(loaded: Iterable[tuple[int, LoadedRule]]) -> Iterator[LoadedRule]:
    """Each rule as often as it has services."""
    for number, one in loaded:
        for _ in range(number):
            yield one


def _counted(rule: str) -> tuple[int, str]:
    return (1, rule) if Path(rule).is_file() else times(rule)


def _of_group(text: str) -> tuple[str, str]:
    """`group0: cpu=8` as the group and what stands behind it; "" for every group."""
    group, colon, rest = text.partition(":")
    return (group.strip(), rest) if colon and "=" not in group else ("", text)


def _by_group(text: str) -> tuple[str, PodRequest]:
    group, need = _of_group(text)
    return group, need_of(need)


def _said(need: str, key: str) -> str:
    """What a `--needs` says of the job; "" for nothing."""
    return parts(need).labels.get(key, "")


def _in_one_hyper_node(pods: PodRequests, tier: str) -> PodRequests:
    """These pods as Volcano sees them where all of them have to be in one HyperNode."""
    if not tier or sum(number for _, number in pods) < 2:
        return pods
    seen = together(pods, tier)
    return joined(tuple((seen.get(request, request), number) for request, number in pods))


def _placed(pods: PodRequests, job: NpuJob) -> PodRequests:
    """These pods as MindCluster's scheduler sees them."""
    seen = requests_as_placed(pods, job)
    return joined(tuple((seen.get(request, request), number) for request, number in pods))


def _usual(rule: Rule, group: str, by_group: Mapping[str, PodRequest]) -> PodRequests:
    return ((by_group.get(group, by_group.get("", USUAL)), rule.largest.sizes[group]),)


def _files(source: str) -> list[str]:
    path = Path(source)
    if source == "-" or not path.is_dir():
        return [source]
    found: list[str] = []
    for file in sorted(path.rglob("*")):
        if file.suffix in _SUFFIXES and file.is_file():
            found.append(str(file))
    return found


def _manifests(file: str) -> Iterator[Mapping[str, Any]]:
    """Every object of a file, as JSON would hold it."""
    text, fault = decode(content_of(file), file)
    found, broken = (
        objects(text.removeprefix(BOM), file, alone=True) if fault is None else ([], [fault])
    )
    if broken:
        raise BadInputError(render(broken, {file: text}, color=False).rstrip())
    for one in found:
        yield at(one.root.plain(MAX_DEPTH))
