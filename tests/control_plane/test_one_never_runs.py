"""Four services on the nodes of a real API server, one of which has a job that never runs: what
that costs the others.

2P1D down to 1P1D each, and every instance fills a node. The scaler runs as users run it, with its
usual limits, and the witness watches. The job has a typo that makes its operator refuse it, asks
for nodes that do not exist, or for what only the scheduler can judge. The real Volcano and Ascend
Operator are left out, with a line at the end, where VOLCANO_BIN_DIR and ASCEND_OPERATOR_BIN_DIR are
not set."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from scaler.kube.api import ASCEND_JOBS, PODS, Object
from scaler.sim.actors import objects
from tests.control_plane.plane import ControlPlane
from tests.control_plane.scaler_process import ScalerProcess
from tests.control_plane.services import (
    CREATED,
    CREATED_WITHOUT_GANGS,
    DECODE,
    GATED,
    GATED_WITHOUT_GANGS,
    PREFILL,
    Change,
    SharedStage,
    Way,
    governed,
    shared,
)
from tests.control_plane.stage import kinds_definitions, until

pytestmark = [
    pytest.mark.plane_options(crds=kinds_definitions(), scheduler=True),
    pytest.mark.long("attempts of 30 s in real time"),
]
WITH_VOLCANO = pytest.mark.plane_options(scheduler=False, volcano=True)
SERVICES = 4
ROOM = 3 * SERVICES
"""Nodes for 2P1D of each."""
TURN = 30.0
"""Seconds: the setting `minimum_timeout`."""
_MARGIN = 15.0
"""Seconds for a busy machine."""
_SPOILT = "mindie-server-d0"
_WHOLE = {PREFILL: 2, DECODE: 1}


@dataclass(frozen=True)
class Fault:
    """What is wrong with one job, and what the scaler is to say of it: reason, and some of its
    words."""

    name: str
    change: Change
    reason: str
    words: str = ""
    words_of_operator: str = ""
    """Where Ascend Operator makes the pods."""
    edited: bool = False
    """It is fixed by an edit where the scaler makes the pods; else, as always where the operator
    does, the job is deleted and created again."""


def _template(job: Object) -> Object:
    found: Object = job["spec"]["replicaSpecs"]["Master"]["template"]["spec"]
    return found


def _mistype_the_container(job: Object) -> None:
    _template(job)["containers"][0]["name"] = "asend"


def _ask_for_no_node(job: Object) -> None:
    _template(job)["nodeSelector"]["accelerator-type"] = "module-910b-9"


def _stand_beside_nobody(job: Object) -> None:
    """Schedulers honour it; what the scaler does not understand counts as fitting."""
    nobody = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "nobody"}},
    }
    _template(job)["affinity"] = {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [nobody]}
    }


def _of_decode(change: Any) -> Change:
    def changed(obj: Object) -> Object:
        if obj["kind"] == ASCEND_JOBS.kind and obj["metadata"]["name"] == _SPOILT:
            change(obj)
        return obj

    return changed


MISTYPED = Fault(
    "mistyped-container",
    _of_decode(_mistype_the_container),
    "JobInvalid",
    words="ascend",
    words_of_operator="Ascend Operator has refused it (InvalidContainer: ",
    edited=True,
)
NO_NODE = Fault("no-such-node", _of_decode(_ask_for_no_node), "MinimumTooLarge")
NEVER_BOUND = Fault("never-bound", _of_decode(_stand_beside_nobody), "WaitingForScheduler")
FAULTS = (MISTYPED, NO_NODE, NEVER_BOUND)
EACH = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)


@dataclass
class Found:
    """What became of the services. Seconds since all files were applied."""

    served: dict[str, float]
    """When a service first ran its minimum."""
    whole: dict[str, float]
    """When it first ran all that its rule has."""
    said: dict[str, tuple[str, str]]
    """Of the spoilt service's instances, at the end."""
    revoked: dict[str, list[str]]
    """By namespace: what the scaler revoked or evicted of it once all its jobs were there. While
    they come, the first service of all is alone, and then it is not."""


class Nodes(NamedTuple):
    """How many there are, and within how many seconds the others run all on them."""

    number: int
    within: float


ENOUGH = Nodes(ROOM, within=TURN - 5.0)


async def keeps_room_for_a_turn_only(way: Way, plane: ControlPlane, folder: Path) -> Found:
    """Its prefill instance runs and room is kept for the other one, which the others could use."""
    fault = replace(NEVER_BOUND, reason="MinimumNotScheduled")
    scarce = Nodes(ROOM - 2, within=TURN + 10.0)
    return await one_never_runs(way, fault, plane, folder, scarce)


async def one_never_runs(
    way: Way, fault: Fault, plane: ControlPlane, folder: Path, nodes: Nodes = ENOUGH
) -> Found:
    """The first of the services has the fault. The others come to all that their rule has as if
    there were no fault, nothing of theirs is revoked or evicted, and what is said of the job says
    what is wrong with it. Where there is room it comes to all as well once it is fixed."""
    name = f"{fault.name}-{way.name}-{nodes.number}"
    room = shared(plane, way, nodes.number, services=SERVICES, name=name)
    async with room as stage, governed(stage, folder) as process:
        spoilt, *others = stage.namespaces
        found = Found({}, {}, {}, {})
        await stage.arrive({spoilt: fault.change})
        started = asyncio.get_running_loop().time()

        async def all_whole() -> bool:
            _note(stage, found, asyncio.get_running_loop().time() - started)
            return all(name in found.whole for name in others)

        try:
            await until(
                all_whole,
                f"{others} run all",
                lambda: _show(stage, found, process),
                nodes.within + _MARGIN,
            )
            await until(
                lambda: _says(stage, spoilt, fault, way),
                f"{_SPOILT} says why",
                lambda: _said(stage, spoilt),
            )
            before = stage.nodes_by_instance()
            await asyncio.sleep(3.0)
        finally:
            found.said = await _said(stage, spoilt)
            found.revoked = _revoked(process)
        assert max(found.whole[name] for name in others) < nodes.within, await _show(
            stage, found, process
        )
        assert found.revoked.keys() <= {spoilt}, await _show(stage, found, process)
        assert spoilt not in found.served
        assert _others(before, spoilt) == _others(stage.nodes_by_instance(), spoilt)
        if nodes.number >= ROOM:
            await _mend(stage, spoilt, deleted=way.beside_operator or not fault.edited)
            await until(
                lambda: _is_whole(stage, spoilt),
                f"{spoilt} runs all",
                lambda: _show(stage, found, process),
            )
            assert _others(before, spoilt) == _others(stage.nodes_by_instance(), spoilt)
        return found


async def _mend(stage: SharedStage, spoilt: str, *, deleted: bool) -> None:
    """Its user does what the words say."""
    if deleted:
        await stage.api.delete(ASCEND_JOBS, spoilt, _SPOILT, propagation_policy="Background")
        await until(lambda: _gone(stage, spoilt), f"{_SPOILT} and its pods are gone")
    await stage.join(spoilt)


async def _gone(stage: SharedStage, namespace: str) -> bool:
    found = [
        *(await stage.api.list(ASCEND_JOBS, namespace)).items,
        *(await stage.api.list(PODS, namespace)).items,
    ]
    return not any(objects.name(obj).startswith(_SPOILT) for obj in found)


async def _is_whole(stage: SharedStage, namespace: str) -> bool:
    return stage.runs_of(namespace) == _WHOLE


def _note(stage: SharedStage, found: Found, now: float) -> None:
    for name in stage.namespaces:
        running = stage.runs_of(name)
        if all(running.get(group, 0) for group in _WHOLE):
            found.served.setdefault(name, now)
        if running == _WHOLE:
            found.whole.setdefault(name, now)


async def _says(stage: SharedStage, spoilt: str, fault: Fault, way: Way) -> bool:
    reason, words = (await _said(stage, spoilt)).get(_SPOILT, ("", ""))
    if way.beside_operator and fault.words_of_operator:
        # what the operator has failed is failed for good
        contradicts = "nothing needs to be deleted" in words
        return reason == fault.reason and fault.words_of_operator in words and not contradicts
    return reason == fault.reason and fault.words in words


async def _said(stage: SharedStage, namespace: str) -> dict[str, tuple[str, str]]:
    """Reason and words by instance."""
    return {one["name"]: (one["reason"], one["message"]) for one in await stage.said(namespace)}


def _others(nodes: dict[str, tuple[str, ...]], spoilt: str) -> dict[str, tuple[str, ...]]:
    return {name: each for name, each in nodes.items() if not name.startswith(f"{spoilt}/")}


def _revoked(process: ScalerProcess) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in process.lines("reconciled"):
        names = [*line.get("revoke", []), *line.get("evict", [])]
        jobs = sum(sum(line[counts].values()) for counts in ("running", "in_flight", "held"))
        if names and jobs == sum(_WHOLE.values()):
            found.setdefault(line["service"].partition("/")[0], []).extend(names)
    return found


async def _show(stage: SharedStage, found: Found, process: ScalerProcess) -> str:
    said = {name: await _said(stage, name) for name in stage.namespaces}
    return "\n".join([str(stage.tally()), str(found), str(said), *_story(process)])


def _story(process: ScalerProcess) -> Iterator[str]:
    """The scaler's passes, for the one who has to find out why."""
    for line in process.lines("reconciled"):
        doing = {
            key: line[key]
            for key in ("admit", "revoke", "evict", "refused", "failed")
            if key in line
        }
        counts = " ".join(f"{key} {line[key]}" for key in ("running", "in_flight", "held"))
        yield f"{line['timestamp']} {line['service']} {doing} {counts}"


@EACH
async def test_the_others_are_served_as_if_it_were_not_there(
    fault: Fault, plane: ControlPlane, tmp_path: Path
) -> None:
    await one_never_runs(CREATED_WITHOUT_GANGS, fault, plane, tmp_path)


async def test_it_keeps_the_room_that_others_wait_for_no_longer_than_a_turn(
    plane: ControlPlane, tmp_path: Path
) -> None:
    await keeps_room_for_a_turn_only(CREATED_WITHOUT_GANGS, plane, tmp_path)


@EACH
@pytest.mark.kubernetes_from(36)
async def test_the_others_are_served_beside_ascend_operator_too(
    fault: Fault, plane: ControlPlane, tmp_path: Path
) -> None:
    await one_never_runs(GATED_WITHOUT_GANGS, fault, plane, tmp_path)


@pytest.mark.kubernetes_from(36)
async def test_the_operator_s_words_are_said_where_gangs_are_bound_too(
    plane: ControlPlane, tmp_path: Path
) -> None:
    await one_never_runs(GATED, MISTYPED, plane, tmp_path)


@EACH
@WITH_VOLCANO
async def test_the_others_are_served_with_the_real_volcano_too(
    fault: Fault, plane: ControlPlane, tmp_path: Path
) -> None:
    await one_never_runs(CREATED, fault, plane, tmp_path)


@WITH_VOLCANO
async def test_it_keeps_room_no_longer_than_a_turn_with_the_real_volcano_too(
    plane: ControlPlane, tmp_path: Path
) -> None:
    await keeps_room_for_a_turn_only(CREATED, plane, tmp_path)


@EACH
@WITH_VOLCANO
@pytest.mark.kubernetes_from(36)
async def test_the_others_are_served_with_volcano_beside_ascend_operator_too(
    fault: Fault, plane: ControlPlane, tmp_path: Path
) -> None:
    await one_never_runs(GATED, fault, plane, tmp_path)


@EACH
@pytest.mark.kubernetes_from(36)
@pytest.mark.plane_options(scheduler=False, volcano=True, ascend_operator=True)
async def test_the_others_are_served_beside_the_real_ascend_operator_too(
    fault: Fault, plane: ControlPlane, tmp_path: Path
) -> None:
    await one_never_runs(GATED, fault, plane, tmp_path)
