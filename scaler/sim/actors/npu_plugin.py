"""A stand-in for MindCluster's plugin of Volcano in the sessions of the scheduler: what it refuses,
where it puts the pods of a job, and what it writes.

It keeps the blocks that it chose for a job: pods made again go back to them while all of them are
free, and else the job is chosen for as if it were new, so a single pod made again may land in
another super-pod. Blocks that were chosen in an earlier session leave `super-pod-rank` empty, as
with the real plugin. Must not: write, or know of rules and instances."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from scaler.kube.api import Object
from scaler.sim.actors import objects
from scaler.sim.actors.devices import device_annotations
from scaler.sim.actors.npu_jobs import (
    NoBlocksError,
    NpuJob,
    Policy,
    chips_for,
    choose_blocks,
    npu_job,
    requested_in_all,
    score,
    why_invalid,
    why_refused,
)
from scaler.sim.actors.npu_nodes import NpuNode, Reports, npu_nodes, requested_chips
from scaler.sim.actors.placement import Nodes
from scaler.sim.actors.stand_in import Key, key_of

BATCH_ORDER_FAILED = "BatchOrderFailed"
NODE_PREDICATE_FAILED = "NodePredicateFailed"
JOB_VALIDATE_FAILED = "JobValidateFailed"
JOB_ENQUEUE_FAILED = "JobEnqueueFailed"
_SHOWN = 3  # nodes per reason in a message


class Placed(msgspec.Struct):
    """What became of the unbound pods of a gang in one session."""

    nodes: dict[str, str] = {}
    """Pod name -> node of what is to be bound."""
    annotations: dict[str, dict[str, str]] = {}
    """Pod name -> what is written on the pod with its binding."""
    conditions: dict[str, str] = {}
    """Reason -> message, for the PodGroup."""
    pods: dict[str, tuple[str, str]] = {}
    """Pod name -> reason and message of a pod that is not bound."""


class Wanted(msgspec.Struct):
    """A gang that wants nodes."""

    group: Object
    members: Sequence[Object]
    """All of its pods that stay, the held ones included."""
    unbound: Sequence[Object]
    """Those that want a node, in order."""
    needed: int
    """So many of them at least, or none."""


class _Trial(msgspec.Struct):
    """One pod on its node, not yet for good."""

    pod: Object
    node: str
    chips: frozenset[int]


class NpuPlugin:
    """What the plugin remembers from session to session."""

    def __init__(self) -> None:
        self.blocks: dict[Key, list[list[str]]] = {}
        """PodGroup -> the nodes of each block that was chosen for its job."""
        self.previous: dict[tuple[str, int], str] = {}
        """(uid of the job's owner, rank) -> the last node of that pod."""
        self.services: dict[Key, str] = {}
        """PodGroup -> its label `inferserviceid`, where a block was chosen."""

    def open(
        self, nodes: Sequence[Object], config_maps: Iterable[Object], pods: Sequence[Object]
    ) -> NpuSession:
        """A session on the cluster as it is now."""
        return NpuSession(self, npu_nodes(nodes, Reports(config_maps), pods))

    def forget_gone(self, groups: Iterable[Object]) -> None:
        """Drop what is known of PodGroups that are gone, and of owners without any."""
        there = set()
        owners = set()
        for group in groups:
            there.add(key_of(group))
            owners.add(objects.owner_uid(group))
        self.blocks = {key: blocks for key, blocks in self.blocks.items() if key in there}
        self.services = {key: name for key, name in self.services.items() if key in there}
        self.previous = {at: node for at, node in self.previous.items() if at[0] in owners}


class NpuSession:
    """One session: the chips that are left shrink with each placement."""

    def __init__(self, plugin: NpuPlugin, found: dict[str, NpuNode]) -> None:
        self._plugin = plugin
        self._found = found

    def why_not_enqueued(self, group: Object) -> str:
        """The plugin's words if all idle chips of the cluster are too few for the PodGroup,
        whatever their type and place; "" if they would do."""
        wanted = requested_in_all(group)
        idle = sum(len(node.available) for node in self._found.values() if node.stable)
        if not wanted or idle >= wanted:
            return ""
        return f"require npu num is {wanted}, but cluster npu num is {idle}"

    def place(self, gang: Wanted, nodes: Nodes) -> Placed:
        """Nodes for the unbound pods of a gang, whole or not at all."""
        job = npu_job(gang.group, gang.members, requested_in_all(gang.group))
        invalid = why_invalid(job) if job is not None else ""
        if invalid:
            return Placed(conditions={JOB_VALIDATE_FAILED: invalid})
        attempt = _Attempt(self._plugin, self._found, gang.group, job, nodes)
        return attempt.run(gang.unbound, gang.needed)


class _Attempt:
    """The trial placement of one gang in one session."""

    def __init__(
        self,
        plugin: NpuPlugin,
        found: Mapping[str, NpuNode],
        group: Object,
        job: NpuJob | None,
        nodes: Nodes,
    ) -> None:
        self._plugin = plugin
        self._found = found
        self._group = group
        self._job = job
        self._nodes = nodes
        self._trials: list[_Trial] = []
        self._refusals: dict[str, dict[str, list[str]]] = {}
        """Pod name -> reason -> nodes."""
        self._slots: list[str] | None = None
        """The nodes of the chosen blocks, by rank; None before the choice."""
        self._chosen_now = False
        self._no_blocks = ""

    def run(self, pods: Sequence[Object], needed: int) -> Placed:
        for pod in pods:
            candidates = self._candidates(pod)
            if not candidates:
                break
            self._put(pod, self._best(pod, candidates))
        if not self._no_blocks and len(self._trials) >= needed and self._trials:
            return self._for_good()
        return self._undone(pods)

    def _candidates(self, pod: Object) -> list[str]:
        refusals: dict[str, list[str]] = {}
        candidates = []
        for name in self._nodes.fitting(pod):
            why = self._why_refused(pod, name)
            if why:
                refusals.setdefault(why, []).append(name)
            else:
                candidates.append(name)
        self._refusals[objects.name(pod)] = refusals
        return candidates

    def _why_refused(self, pod: Object, name: str) -> str:
        node = self._found.get(name)
        wanted = requested_chips(pod)
        if node is None or self._job is None or not wanted:
            return node.faulty if node is not None else ""
        return why_refused(self._job, node, wanted)

    def _best(self, pod: Object, candidates: list[str]) -> str:
        job = self._job
        if job is None or not requested_chips(pod):
            return self._nodes.fullest(candidates)
        if job.policy is not Policy.BLOCKS:
            return self._best_of_flat(job, pod, candidates)
        if self._slots is None:
            self._slots = self._choose(job, candidates)
        rank = job.rank_of(pod)
        if rank < len(self._slots) and self._slots[rank] in candidates:
            return self._slots[rank]
        return self._nodes.fullest(candidates)

    def _best_of_flat(self, job: NpuJob, pod: Object, candidates: list[str]) -> str:
        """The node on which the pod was before, else the best of those that no other pod of the job
        had."""
        owner = objects.owner_uid(self._group)
        before = {}
        for (uid, rank), node in self._plugin.previous.items():
            if uid == owner and uid:
                before[rank] = node
        own = before.get(job.rank_of(pod), "")
        if own in candidates:
            return own
        others = [name for name in candidates if name not in before.values()] or candidates
        best = max(score(job, self._found[name]) for name in others)
        return self._nodes.fullest(
            [name for name in others if score(job, self._found[name]) == best]
        )

    def _choose(self, job: NpuJob, candidates: list[str]) -> list[str]:
        key = key_of(self._group)
        kept = self._plugin.blocks.get(key, [])
        if kept and self._are_free(job, kept, candidates):
            return _in_one(kept)
        found = [self._found[name] for name in candidates]
        if len(job.pods) == 1:
            least = min(node.idle for node in found)
            found = [node for node in found if node.idle == least]
        try:
            unbound = [pod for pod in job.pods if not objects.node_of(pod)]
            if len(unbound) == len(job.pods) > len(found):
                words = f"npuTaskNum: {len(job.pods)}, nodes: {len(found)}"
                raise NoBlocksError(f"not enough node, {words}")
            blocks = choose_blocks(job, found, self._of_same_service(job))
        except NoBlocksError as error:
            self._no_blocks = str(error)
            return []
        self._plugin.blocks[key] = blocks
        self._plugin.services[key] = job.labels.get("inferserviceid", "")
        self._chosen_now = True
        return _in_one(blocks)

    def _are_free(self, job: NpuJob, kept: list[list[str]], candidates: list[str]) -> bool:
        """Whether every node of the blocks is free, or has a pod of this job."""
        own = set(map(objects.node_of, job.pods))
        return set(_in_one(kept)) - own <= set(candidates)

    def _of_same_service(self, job: NpuJob) -> set[int]:
        """Super-pods with blocks of other jobs of the same inference service."""
        service = job.labels.get("inferserviceid")
        if not service:
            return set()
        hosts = set()
        for key, blocks in self._plugin.blocks.items():
            if key != key_of(self._group) and self._plugin.services.get(key) == service:
                for name in _in_one(blocks):
                    if name in self._found:
                        hosts.add(self._found[name].super_pod)
        return hosts

    def _put(self, pod: Object, name: str) -> None:
        wanted = requested_chips(pod)
        chips = frozenset[int]()
        node = self._found.get(name)
        if node is not None and self._job is not None and wanted:
            usable = node.usable(distributed=self._job.distributed)
            chips = chips_for(self._job, usable, wanted)
            node.take(chips, wanted)
        self._nodes.take(name, pod)
        self._trials.append(_Trial(pod, name, chips))

    def _for_good(self) -> Placed:
        placed = Placed()
        owner = objects.owner_uid(self._group)
        for trial in self._trials:
            name = objects.name(trial.pod)
            placed.nodes[name] = trial.node
            if trial.chips and self._job is not None:
                placed.annotations[name] = self._notes(self._job, trial)
                self._plugin.previous[owner, self._job.rank_of(trial.pod)] = trial.node
        return placed

    def _notes(self, job: NpuJob, trial: _Trial) -> dict[str, str]:
        node = self._found[trial.node]
        names = [f"{node.resource.partition('/')[2]}-{chip}" for chip in sorted(trial.chips)]
        notes = device_annotations(trial.pod, trial.node, names)
        notes[node.resource] = ",".join(names)
        notes["distributed-job"] = "true" if len(job.pods) > 1 else "false"
        if job.policy is Policy.BLOCKS:
            notes["super-pod-id"] = str(node.super_pod)
            notes["super-pod-rank"] = self._block_of(job, trial) if self._chosen_now else ""
        return notes

    def _block_of(self, job: NpuJob, trial: _Trial) -> str:
        """The number of the block of the pod's node; "" where the node is in none."""
        if self._slots is None or trial.node not in self._slots:
            return ""
        return str(self._slots.index(trial.node) // job.block)

    def _undone(self, pods: Sequence[Object]) -> Placed:
        placed = Placed()
        for trial in reversed(self._trials):
            self._nodes.give_back(trial.node, trial.pod)
            if trial.chips:
                self._found[trial.node].give_back(trial.chips, requested_chips(trial.pod))
            words = f"can possibly be assigned to {trial.node}, once minAvailable is satisfied"
            name = objects.name(trial.pod)
            who = f"Pod {objects.namespace(trial.pod)}/{name}"
            placed.pods[name] = ("Schedulable", f"{who} {words}")
        for pod in pods:
            refusals = self._refusals.get(objects.name(pod))
            if objects.name(pod) not in placed.pods:
                words = _in_words(refusals or {}) or "0 nodes are available"
                placed.pods[objects.name(pod)] = ("Unschedulable", words)
        if self._no_blocks:
            placed.conditions[BATCH_ORDER_FAILED] = self._no_blocks
        refused = " ".join(map(_in_words, self._refusals.values())).strip()
        if refused:
            placed.conditions[NODE_PREDICATE_FAILED] = refused
        return placed


def _in_one(blocks: Iterable[Sequence[str]]) -> list[str]:
    """The nodes of all blocks, in order."""
    return [name for block in blocks for name in block]


def _in_words(refusals: Mapping[str, list[str]]) -> str:
    parts = []
    for why, names in sorted(refusals.items()):
        parts.append(f"Reason: {why}, such as: [{' '.join(names[:_SHOWN])}]...")
    return " ".join(parts)
