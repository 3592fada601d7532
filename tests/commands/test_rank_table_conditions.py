"""Each of ClusterD's conditions, met and not met, one at a time."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scaler.decide.decision import Note
from scaler.informers.config_maps import RankTableMap, content_of
from scaler.ranktables.table import INITIALIZING, RankTablePod, rank_table
from scaler.reasons.checks import COMPLETED
from scaler.reasons.warnings import Warning
from scaler.tools.common.check_result import Level, checked
from scaler.tools.common.diagnosis import Evidence, RolePod, Server, diagnose
from scaler.workloads.ascendjob import read_job
from scaler.workloads.devices import PodDevices, pack
from tests.ranktables.test_table import TWO, job

OBJECT = job()
JOB = read_job(OBJECT)
DONE = rank_table(JOB, OBJECT, TWO)
LABELS = {"mx-consumer-cim": "true", "jobID": "mindie", "grt-group/deploy-server": "0"}
ROLES = tuple(
    RolePod(f"mindie-ms-{role}", role, "1.1.1.1", "2.2.2.2")
    for role in ("controller", "coordinator")
)


def rings(
    text: str | None = DONE.text, name: str = "rings-config-p0", **labels: Any
) -> RankTableMap:
    given = {key: value for key, value in (LABELS | labels).items() if value is not None}
    return RankTableMap("mindie", name, "u", "1", text, labels=given, **content_of(text))


def server(
    there: RankTableMap | None,
    members: tuple[RankTablePod, ...] = TWO,
    obstacle: Note | None = None,
) -> Server:
    return Server(JOB, members, there, rank_table(JOB, OBJECT, members), obstacle)


WELL = Evidence("mindie", "mindie", (server(rings()),), (), ROLES)


def found(evidence: Evidence, level: Level = Level.ERROR) -> list[str]:
    return [f"{check.about}: {check.text}" for check in diagnose(evidence) if check.level is level]


def with_server(*args: Any, **options: Any) -> Evidence:
    return msgspec.structs.replace(WELL, servers=(server(*args, **options),))


def test_a_service_that_is_well_meets_every_condition() -> None:
    assert {check.level for check in diagnose(WELL)} == {Level.OK}
    assert checked(Level.OK, COMPLETED, about="rings-config-p0") in diagnose(WELL)


def _without(label: str) -> dict[str, Any]:
    return {label: None}


SECOND_LABEL = {"grt-server/deploy-server": "1"}


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (
            Evidence("mindie", "mindie", (), (), ROLES),
            "no AscendJob of a server has label jobID=mindie",
        ),
        (with_server(None), "ConfigMap rings-config-p0 does not exist"),
        (with_server(rings(**_without("mx-consumer-cim"))), 'label mx-consumer-cim is not "true"'),
        (with_server(rings(jobID="other")), "label jobID is other"),
        (with_server(rings(jobID=None)), "label jobID is missing"),
        (
            with_server(rings(**_without("grt-group/deploy-server"))),
            "has neither label grt-server/deploy-server nor",
        ),
        (
            with_server(rings(**SECOND_LABEL)),
            "has both labels grt-server/deploy-server and grt-group/deploy-server",
        ),
        (with_server(rings("{")), "hccl.json is not a JSON object"),
        (
            with_server(rings(INITIALIZING.text)),
            "all its pods have their chips, but it is not completed",
        ),
        (
            with_server(rings(), members=TWO[:1]),
            "says completed, but should not: pod p0-worker-0 does not exist",
        ),
        (
            with_server(rings(), obstacle=Note(Warning.RANK_TABLE_IMMUTABLE, "is so")),
            "RankTableImmutable: is so",
        ),
        (
            msgspec.structs.replace(WELL, strays=(rings("[]", "rings-config-old"),)),
            "rings-config-old: hccl.json is not",
        ),
        (
            msgspec.structs.replace(WELL, roles=ROLES[:1]),
            "MindIE Coordinator: no pod with label app=",
        ),
        (
            msgspec.structs.replace(
                WELL, roles=(*ROLES[:1], RolePod("mindie-ms-coordinator", "c", "", ""))
            ),
            "pod c has no host or pod address yet",
        ),
    ],
)
def test_each_condition_that_is_not_met_is_said_with_what_to_do(
    evidence: Evidence, words: str
) -> None:
    assert any(words in failure for failure in found(evidence)), found(evidence)


@pytest.mark.parametrize(
    ("member", "words"),
    [
        (msgspec.structs.replace(TWO[1], lost=True), "p0-worker-0 is terminating or has ended"),
        (msgspec.structs.replace(TWO[1], node=""), "p0-worker-0 is not bound to a node"),
        (RankTablePod("p0-worker-0", "n"), "p0-worker-0 has no device annotation"),
        (
            msgspec.structs.replace(
                TWO[1], devices=PodDevices(packed=pack(TWO[1].devices.configuration))
            ),
            "p0-worker-0 has no address yet",
        ),
    ],
)
def test_an_instance_that_is_not_complete_is_noted_with_what_it_waits_for(
    member: RankTablePod, words: str
) -> None:
    if not member.node:  # an unbound pod has no chips in a cluster
        member = msgspec.structs.replace(member, devices=RankTablePod("", "").devices)
    evidence = with_server(rings(INITIALIZING.text), members=(TWO[0], member))
    assert any(words in note for note in found(evidence, Level.NOTE)), found(evidence, Level.NOTE)
    assert found(evidence) == ["service mindie: no rank table is completed; at least one must be"]
