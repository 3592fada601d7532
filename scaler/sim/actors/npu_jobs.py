"""The rules by which MindCluster's plugin of Volcano places a job: which chips of a node a pod may
have, which requests are valid, and which blocks of a super-pod a job gets.

Four policies: `Chips` (A2: any 1 to 8 chips), `Ring` (the first Ascend 910: 1, 2, 4 or 8 of one
ring), `Cards` (A3: whole cards of two chips) and `Blocks` (A3 SuperPoD: wholly free nodes of one
super-pod). Not modelled: A5, virtual chips, tor-affinity, multilevel scheduling. Pure; must not
know of sessions (scaler.sim.actors.npu_plugin)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum

import msgspec

from scaler.decide.service.states import natural
from scaler.kube.api import Object
from scaler.sim.actors import objects
from scaler.sim.actors.npu_nodes import NO_SUPER_POD, NpuNode, npu_in, requested_chips

SP_BLOCK = "sp-block"
_POLICY = "huawei.com/schedule_policy"
_ACCELERATOR_TYPE = "accelerator-type"
_RANK = "hccl/rankIndex"
_RESERVED = 2
"""The setting reserve-nodes: nodes of a super-pod that are given out last."""
_SUPER_POD_SIZE = 48
"""The setting super-pod-size: nodes of the largest super-pod."""
_CARD = 2  # chips


class Policy(StrEnum):
    CHIPS = "chips"
    RING = "ring"
    CARDS = "cards"
    BLOCKS = "blocks"
    NONE = ""
    """No such policy is known: the job never starts."""


_BY_POLICY = {
    "chip8-node8": (Policy.CHIPS, 8),
    "chip2-node16": (Policy.CARDS, 16),
    "module-a3-16": (Policy.CARDS, 16),
    "chip2-node8": (Policy.CARDS, 16),
    "chip2-node16-sp": (Policy.BLOCKS, 16),
    "chip2-node8-sp": (Policy.BLOCKS, 8),
}
"""Value of the policy annotation -> policy, and chips of a node."""
_BY_TYPE = {
    "module": (Policy.RING, 8),
    "module-910b-8": (Policy.CHIPS, 8),
    "module-a3-16": (Policy.CARDS, 16),
    "module-a3-16-super-pod": (Policy.BLOCKS, 16),
    "module-a3-8-super-pod": (Policy.BLOCKS, 8),
}
"""Value of the node selector accelerator-type -> the same."""


class NpuJob(msgspec.Struct, frozen=True):
    """The pods of one PodGroup that request NPUs."""

    policy: Policy
    node_chips: int
    """Chips of a whole node, by the policy."""
    chips: int
    """Of the whole job."""
    block_chips: int
    """`sp-block`; without one those of the whole job."""
    labels: dict[str, str]
    annotations: dict[str, str]
    pods: tuple[Object, ...]
    """Those that request NPUs, by rank."""

    @property
    def distributed(self) -> bool:
        """Whether chips with an unhealthy network are of no use to it."""
        if self.policy is Policy.BLOCKS:
            return self.blocks > 1
        return len(self.pods) > 1

    @property
    def block(self) -> int:
        """Nodes of a block."""
        return max(1, self.block_chips // self.node_chips)

    @property
    def blocks(self) -> int:
        return len(self.pods) // self.block

    @property
    def of_mindie(self) -> bool:
        return "app" in self.labels and "jobID" in self.labels

    @property
    def takes_sub_healthy(self) -> bool:
        strategy = self.labels.get("subHealthyStrategy", "")
        return strategy not in {"graceExit", "forceExit", "hotSwitch"}

    def rank_of(self, pod: Object) -> int:
        """The rank in the pod's annotation, else its place among the pods of the job."""
        stated = objects.annotations_of(pod).get(_RANK, "")
        if stated.isascii() and stated.isdecimal():
            return int(stated)
        return [objects.name(other) for other in self.pods].index(objects.name(pod))


def npu_job(group: Object, pods: Iterable[Object], chips: int) -> NpuJob | None:
    """The job of a PodGroup; None where it requests no NPUs. `chips` = those that it requests in
    all."""
    members = [pod for pod in pods if requested_chips(pod)]
    if not chips:
        return None
    in_order = sorted(members, key=_by_rank)
    labels = {}
    annotations = {}
    for pod in [*in_order[:1], group]:
        labels.update(objects.labels_of(pod))
        annotations.update(objects.annotations_of(pod))
    policy, node_chips = _policy_of(annotations, in_order)
    stated = annotations.get(SP_BLOCK, "")
    block_chips = int(stated) if stated.isascii() and stated.isdecimal() else 0
    return NpuJob(
        policy,
        node_chips,
        chips,
        block_chips if SP_BLOCK in annotations else chips,
        labels,
        annotations,
        tuple(in_order),
    )


def _by_rank(pod: Object) -> tuple[int, list[int | str]]:
    stated = objects.annotations_of(pod).get(_RANK, "")
    rank = int(stated) if stated.isascii() and stated.isdecimal() else 0
    return rank, list(natural(objects.name(pod)))


def _policy_of(annotations: Mapping[str, str], pods: Iterable[Object]) -> tuple[Policy, int]:
    if annotations.get(_POLICY) in _BY_POLICY:
        return _BY_POLICY[annotations[_POLICY]]
    kind = "module"
    for pod in pods:
        kind = (objects.spec(pod).get("nodeSelector") or {}).get(_ACCELERATOR_TYPE, kind)
    if SP_BLOCK in annotations:
        return Policy.BLOCKS, 8 if kind == "module-a3-8-super-pod" else 16
    if "card" in kind:
        return Policy.CHIPS, 8
    return _BY_TYPE.get(kind, (Policy.NONE, 0))


def why_invalid(job: NpuJob) -> str:
    """Why the job can never start, whatever is free: reason and message as the plugin writes
    them."""
    requests = sorted({requested_chips(pod) for pod in job.pods})
    if job.policy is Policy.NONE:
        return "NotSupportPolicy: policyHandler is nil"
    if job.policy is Policy.BLOCKS:
        return _why_blocks_invalid(job, requests)
    if job.policy is Policy.CARDS:
        return _why_cards_invalid(job, requests)
    allowed = {1, 2, 4, 8} if job.policy is Policy.RING else set(range(1, job.node_chips + 1))
    wrong = set(requests) - allowed
    return f"InvalidResourceRequest: req npu {min(wrong)}" if wrong else ""


def _why_cards_invalid(job: NpuJob, requests: list[int]) -> str:
    if job.chips == 1:
        single = len(job.pods) == 1
        return "" if single else "InvalidResourceRequest: only single task job can request one npu"
    wrong = [each for each in requests if each % _CARD or each > job.node_chips]
    if job.chips % _CARD or wrong:
        return "InvalidResourceRequest: npu num must be 2n, and not more than the node has"
    return ""


def _why_blocks_invalid(job: NpuJob, requests: list[int]) -> str:
    if not job.block_chips:
        return "InvalidArgument: sp-block(0) is invalid"
    whole_nodes = job.block_chips % job.node_chips == 0
    if not whole_nodes and (job.block_chips > job.node_chips or job.block_chips != job.chips):
        words = f"is not mutiple of node npu ({job.node_chips})"
        return f"InvalidArgument: sp-block({job.block_chips}) {words}"
    if job.block > _SUPER_POD_SIZE:
        return "InvalidResourceRequest: sp-block is bigger than size of super-pod"
    if len(job.pods) == 1:
        if job.chips > 1 and (job.chips % _CARD or job.chips > job.node_chips):
            return "InvalidResourceRequest: standalone super-pod job require npu [1, 2*n]"
        equal = job.block_chips == job.chips
        return "" if equal else "InvalidResourceRequest: the sp-block should equal to required npu"
    if job.chips % job.block_chips:
        words = f"require npu({job.chips}) should be multiple of sp-block"
        return f"InvalidResourceRequest: distributed super-pod job {words}"
    if requests != [job.node_chips]:
        return "InvalidResourceRequest: every pod should require all npu of a node"
    return ""


def why_refused(job: NpuJob, node: NpuNode, wanted: int) -> str:
    """Why the node takes no pod of the job that requests so many chips; "" if it takes one."""
    if node.faulty:
        return node.faulty
    if node.sub_healthy and not job.takes_sub_healthy:
        return f"node is sub-healthy, but sub-healthy strategy is {_strategy(job)}"
    if not node.listed:
        return "not has(or not same) NPU"
    if not node.stable:
        said = f"device-info is <{len(node.available)}> but k8s is <{node.idle}>"
        return f"{node.resource} not stable:{said}"
    if node.idle < wanted:
        return f"task requires {wanted} NPU cards but node idle is {node.idle}"
    if job.policy is Policy.BLOCKS and node.super_pod < 0:
        return "node is not super-pod node or superPodID is not set"
    usable = node.usable(distributed=job.distributed)
    if len(usable) > job.node_chips:
        return "node npu top is invalid"
    if len(chips_for(job, usable, wanted)) < wanted:
        return f"npu top{sorted(usable)} is not meet task req({wanted})"
    return ""


def _strategy(job: NpuJob) -> str:
    return job.labels.get("subHealthyStrategy", "")


def chips_for(job: NpuJob, usable: Collection[int], wanted: int) -> frozenset[int]:
    """The chips of a node that a pod gets; fewer than it wants if the node cannot give them."""
    in_order = sorted(usable)
    if job.policy is Policy.RING and wanted < job.node_chips:
        return _of_one_ring(in_order, wanted, job.node_chips // 2)
    if job.policy in {Policy.CHIPS, Policy.RING} or wanted == len(in_order) == job.node_chips:
        return frozenset(in_order[:wanted])
    whole = [chip for chip in in_order if chip ^ 1 in usable]
    if wanted > 1:
        return frozenset(whole[:wanted])
    halves = [chip for chip in in_order if chip ^ 1 not in usable]
    return frozenset((halves or whole)[:1])


def _of_one_ring(in_order: list[int], wanted: int, ring: int) -> frozenset[int]:
    """Chips of the ring that has least to spare."""
    left = [chip for chip in in_order if chip < ring]
    right = [chip for chip in in_order if chip >= ring]
    enough = [chips for chips in (left, right) if len(chips) >= wanted]
    return frozenset(min(enough, key=len)[:wanted] if enough else [])


def score(job: NpuJob, node: NpuNode) -> float:
    """How much the plugin likes a node for a pod of a job without blocks: the highest first."""
    free = len(node.usable(distributed=job.distributed))
    if job.policy is Policy.CARDS:
        return -free
    return (job.node_chips - node.unhealthy) * 100 - free


class NoBlocksError(Exception):
    """No super-pods have enough wholly free nodes for the job; `str()` is what the plugin says."""


def choose_blocks(
    job: NpuJob, candidates: Iterable[NpuNode], packed: Collection[int] = ()
) -> list[list[str]]:
    """The nodes of each block, from nodes that take a pod of the job. Raises NoBlocksError.

    `packed`: super-pods that hold pods of the same inference service (label `inferserviceid`)."""
    free: dict[int, list[str]] = {}
    sub_healthy = set()
    for node in candidates:
        if node.super_pod > NO_SUPER_POD:
            free.setdefault(node.super_pod, []).append(node.name)
            if node.sub_healthy:
                sub_healthy.add(node.name)
    for names in free.values():
        names.sort(key=lambda name: (name in sub_healthy, natural(name)))
    room = sum(len(names) // job.block for names in free.values())
    soft = job.labels.get("super-pod-affinity") == "soft" and not job.of_mindie
    if room < job.blocks and not soft:
        words = f"required {job.blocks}, total {room}"
        raise NoBlocksError(f"not enough virtual super-pod to schedule, {words}")
    if job.of_mindie or "inferserviceid" in job.labels:
        return _best_first(job, free, set(packed))
    return _Table(job, free, soft=soft).blocks()


def _best_first(job: NpuJob, free: dict[int, list[str]], hosts: set[int]) -> list[list[str]]:
    """One block after the other, each from the best super-pod that is left."""
    blocks = []
    for _ in range(job.blocks):
        fitting = [one for one, names in free.items() if len(names) >= job.block]
        ranks = {one: block_rank(job, len(free[one]), packed=one in hosts) for one in fitting}
        chosen = min(fitting, key=ranks.__getitem__)
        blocks.append(_cut(free, chosen, job.block))
        hosts.add(chosen)
    return blocks


def block_rank(job: NpuJob, free: int, *, packed: bool = False) -> tuple[bool, int]:
    """Where a super-pod with so many free nodes stands in the choice: the lowest first. With
    `inferserviceid` those of the service, then the most free; else those that keep the reserved
    nodes, then the fewest free (`sp-fit=idlest`: the most). Of a job that is not MindIE's the most
    free one comes first where none keeps the reserved nodes."""
    if "inferserviceid" in job.labels:
        return not packed, -free
    spends = free - _RESERVED < job.block
    if job.of_mindie:
        return spends, -free if job.annotations.get("sp-fit") == "idlest" else free
    return spends, -free if spends else free


class _Table:
    """The choice for a job that is not MindIE's: super-pods stand in a table, by the blocks that
    fit beside the reserved nodes (column) and the nodes then left over (row)."""

    def __init__(self, job: NpuJob, free: dict[int, list[str]], *, soft: bool) -> None:
        self._job = job
        self._free = free
        self._cells: dict[tuple[int, int], list[int]] = {}
        self._rows = range(job.block)
        self._columns = range(_SUPER_POD_SIZE // job.block + 1)
        self._blocks: list[list[str]] = []
        for one, names in free.items():
            beside = len(names) - _RESERVED
            column, row = divmod(beside, job.block) if beside >= 0 else (0, len(names) % job.block)
            if soft or len(names) >= job.block:
                self._cells.setdefault((row, column), []).append(one)

    def blocks(self) -> list[list[str]]:
        """The nodes of each block; broken ones at the end, where there are not enough whole
        ones."""
        self._from_smaller()
        self._from_bigger()
        self._from_reserve()
        self._from_any()
        return self._blocks

    @property
    def _missing(self) -> int:
        return self._job.blocks - len(self._blocks)

    def _from_smaller(self) -> None:
        for row in self._rows:
            for column in self._columns[1:]:
                if column <= self._missing:
                    self._take_beside_reserve(row, column)

    def _from_bigger(self) -> None:
        for column in self._columns[self._missing + 1 :]:
            for row in self._rows:
                self._take_beside_reserve(row, column)

    def _from_reserve(self) -> None:
        for row in reversed(self._rows):
            for one in self._most_free_first(row):
                if self._missing and len(self._free[one]) >= self._job.block:
                    self._cut(one)

    def _from_any(self) -> None:
        above = [row for row in reversed(self._rows) if row >= _RESERVED]
        for row in [*above, *self._rows[:_RESERVED]]:
            for one in self._most_free_first(row):
                if sum(map(len, self._blocks)) < len(self._job.pods) and self._free[one]:
                    self._cut(one)

    def _take_beside_reserve(self, row: int, column: int) -> None:
        for one in self._cells.get((row, column), []):
            while self._missing > 0 and len(self._free[one]) - _RESERVED >= self._job.block:
                self._cut(one)

    def _most_free_first(self, row: int) -> Iterator[int]:
        """The super-pods of a row, by column."""
        for column in self._columns:
            cell = self._cells.get((row, column), [])
            yield from sorted(cell, key=lambda one: -len(self._free[one]))

    def _cut(self, one: int) -> None:
        self._blocks.append(_cut(self._free, one, self._job.block))


def _cut(free: dict[int, list[str]], one: int, nodes: int) -> list[str]:
    """The first free nodes of a super-pod, which are free no longer."""
    cut = free[one][:nodes]
    free[one] = free[one][nodes:]
    return cut


def requested_in_all(group: Object) -> int:
    """The chips in the PodGroup's minResources."""
    return npu_in(objects.spec(group).get("minResources") or {})[1]
