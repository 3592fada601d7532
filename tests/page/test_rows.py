"""What the page is told, as values: rows of services, their history, nodes, changes, and rules that
are tried."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from scaler.decide.world import ServiceKey
from scaler.kube.api import ASCEND_JOBS, ELASTIC_SERVICES, NODES, PODS, Object, PatchType
from scaler.report.service_status import status_of
from scaler.rules.rule import ALL
from scaler.sim.actors.devices import report_chips
from scaler.sim.actors.nodes import NodeSpec, add_node
from scaler.sim.loop import run
from scaler.tools.common.view import Cluster, ServiceView
from scaler.tools.ui import views
from scaler.tools.ui.board import Board, row_of
from scaler.tools.ui.feed import Feed
from scaler.tools.ui.history import MOST_MOMENTS, MOST_SAMPLES, History
from scaler.tools.ui.nodes import NodeKinds
from scaler.tools.ui.tryout import Aim, try_rule
from tests.builders import service
from tests.faults import Fault, Faults, Rule
from tests.jobs import NAMESPACE, job, manifest, node, rule_config_map, rule_document
from tests.report.fakes import report_of
from tests.rig import Rig, rig

TWO_ONE = rule_document({"group0": 2, "group1": 1}, {"group0": 1, "group1": 1})
RULE = rule_config_map(TWO_ONE)
KEY = f"{NAMESPACE}/rule/mindie"
NOON = "2026-11-22T12:00:00Z"


def conditions(**said: str) -> list[Object]:
    return [
        {
            "type": kind,
            "status": status,
            "reason": f"Of{kind}",
            "message": f"about {kind}",
            "lastTransitionTime": NOON,
        }
        for kind, status in said.items()
    ]


def status(**changes: Any) -> Object:
    fine = conditions(Available="True", Complete="True", Degraded="False", RuleValid="True")
    groups = [
        {"name": "group0", "running": 2, "target": 2, "inFlight": 0, "held": 0},
        {"name": "group1", "running": 1, "target": 1, "inFlight": 0, "held": 0},
    ]
    ratios = [{"group0": 2, "group1": 1}, {"group0": 1, "group1": 1}]
    now = {
        "currentRatio": {"index": 0},
        "targetRatio": {"index": 0},
        "since": NOON,
        "running": "2+1",
        "target": "2+1",
    }
    return {**now, "conditions": fine, "groups": groups, "ratios": ratios, **changes}


def row(**changes: Any) -> Object:
    return row_of(ServiceView(ServiceKey("a", "r", "j"), "r-j", status(**changes)))


def elastic_service(name: str = "rule-mindie", **spec: str) -> Object:
    return manifest(
        ELASTIC_SERVICES, name, NAMESPACE, spec={"rule": "rule", "jobID": "mindie", **spec}
    )


def seen(on: Rig) -> Cluster:
    return Cluster(on.cluster.client("page"), on.clock)


# Rows


@pytest.mark.parametrize(
    ("said", "rank", "about"),
    [
        ({"Available": "False", "Complete": "False"}, 0, "Available"),
        ({"RuleValid": "False"}, 1, "RuleValid"),
        ({"Degraded": "True", "Complete": "False"}, 2, "Degraded"),
        ({"Complete": "False"}, 3, "Complete"),
    ],
)
def test_a_service_is_ranked_and_told_by_its_worst_condition(
    said: dict[str, str], rank: int, about: str
) -> None:
    fine = {"Available": "True", "Complete": "True", "Degraded": "False", "RuleValid": "True"}
    found = row(conditions=conditions(**(fine | said)))
    assert (found["rank"], found["reason"], found["message"], found["since"]) == (
        rank,
        f"Of{about}",
        f"about {about}",
        NOON,
    )


def test_a_complete_service_is_told_by_its_status_which_says_what_is_wrong() -> None:
    found = row(reason="GroupUnknown", message="p7: no such group")
    assert (found["rank"], found["reason"]) == (4, "GroupUnknown")
    assert found["message"] == "p7: no such group"


def test_a_row_has_counts_and_steps_in_the_order_of_its_groups() -> None:
    found = row(currentRatio={"index": 1})
    assert found["groups"] == ["group0", "group1"]
    assert found["counts"] == [[2, 2, 0, 0], [1, 1, 0, 0]]
    assert found["steps"] == [[2, 1], [1, 1]]
    assert (found["current"], found["aim"]) == (1, 0)


@pytest.mark.parametrize(
    ("replicas", "words", "limit"), [(0, "0", 2), (2, "2", 1), (3, "3", 0), (ALL, "all", 0)]
)
def test_a_row_says_how_many_instances_are_wanted_and_which_steps_are_more(
    replicas: int, words: str, limit: int
) -> None:
    found = row_of(ServiceView(ServiceKey("a", "r", "j"), "r-j", status(), replicas=replicas))
    assert (found["wanted"], found["limit"]) == (words, limit)


def test_a_service_that_rests_is_among_those_that_nothing_is_wrong_with() -> None:
    rests = status_of(report_of(service("2P1D > 1P1D", "p0 Held, d0 Held", replicas=0)), {}, NOON)
    found = row_of(ServiceView(ServiceKey("a", "r", "j"), "r-j", rests, replicas=0))
    assert (found["rank"], found["reason"], found["current"], found["aim"]) == (
        4,
        "Resting",
        -1,
        -1,
    )


@pytest.mark.parametrize("junk", [None, "x", 7, [], {"index": "1"}, [[]], {"a": {"b": 1}}])
def test_a_status_of_any_shape_makes_a_row(junk: Any) -> None:
    names = (
        "conditions",
        "groups",
        "ratios",
        "currentRatio",
        "targetRatio",
        "since",
        "running",
        "rule",
        "leftOut",
    )
    found = row(**dict.fromkeys(names, junk))
    assert found["rank"] == 0
    assert json.loads(msgspec.json.encode(found)) == found


def test_a_row_is_short_however_long_a_message_is() -> None:
    long = [
        {**one, "message": "x" * 32768, "reason": "R" * 1024}
        for one in conditions(Available="False")
    ]
    assert len(msgspec.json.encode(row(conditions=long))) < 1500


# What changes


def test_only_what_changed_is_sent_again() -> None:
    feed = Feed()
    first = {"a": 1}
    second = {"b": 2}
    assert json.loads(feed.news({"t": {"x": first, "y": second}})) == {
        "t": {"set": {"x": first, "y": second}, "gone": []}
    }
    assert feed.news({"t": {"x": first, "y": dict(second)}}) == b""
    assert json.loads(feed.news({"t": {"y": {"b": 3}}})) == {
        "t": {"set": {"y": {"b": 3}}, "gone": ["x"]}
    }


def test_an_empty_table_is_told_once() -> None:
    feed = Feed()
    assert json.loads(feed.news({"t": {}})) == {"t": {"set": {}, "gone": []}}
    assert feed.news({"t": {}}) == b""


# History


def test_history_begins_with_the_times_in_the_first_status() -> None:
    history = History()
    history.note(status(instances=[instance("p0", "Held", "WaitingForRatio")]), 2e9)
    noon = 1795348800.0
    assert [sample.at for sample in history.samples] == [noon]
    assert ("p0", noon) in [(moment.subject, moment.at) for moment in history.moments]


def test_a_fault_is_a_change_of_counts_and_of_instances() -> None:
    history = History()
    history.note(status(instances=[instance("p0", "Running", "Running")]), 2e9)
    before = len(history.moments)
    history.note(
        status(running="1+1", instances=[instance("p0", "Broken", "Broken")], groups=[]), 2e9 + 5
    )
    found = {
        (moment.kind, moment.subject, moment.level) for moment in list(history.moments)[before:]
    }
    assert found == {("ratio", "running", "plain"), ("instance", "p0", "bad")}
    assert history.samples[-1].at == 2e9 + 5


def test_history_is_bounded() -> None:
    history = History()
    for number in range(1000):
        groups = [{"name": "g", "running": number}]
        history.note(status(running=str(number), groups=groups), 2e9 + number)
    assert (len(history.samples), len(history.moments)) == (MOST_SAMPLES, MOST_MOMENTS)


def instance(name: str, state: str, reason: str) -> Object:
    return {
        "name": name,
        "uid": name,
        "state": state,
        "reason": reason,
        "message": "",
        "since": NOON,
        "group": "group0",
    }


# A cluster


def test_the_board_follows_what_is_written_and_tells_what_nobody_wrote() -> None:
    async def story() -> None:
        async with rig(RULE, job("p0"), job("d0")) as on:
            board = Board(seen(on))
            async with board.cluster.watched():
                await on.settle(3)
                board.look(decide=True)
                first = board.rows[KEY]
                assert first["reason"] == "WaitingForScheduler"
                await on.start("p0", "d0")
                await on.settle(3)
                board.look(decide=True)
                assert (board.rows[KEY]["running"], board.rows[KEY]["current"]) == ("1+1", 1)
                assert board.history(KEY).samples[-1].groups["group0"][0] == 1
                await on.cluster.delete(ASCEND_JOBS, NAMESPACE, "p0")
                await on.cluster.delete(ASCEND_JOBS, NAMESPACE, "d0")
                await on.settle(10)
                board.look(decide=True)
                assert (board.rows, board.view(KEY)) == ({}, None)

    run(story())


def test_of_two_objects_about_one_service_either_may_go() -> None:
    async def story() -> None:
        async with rig() as on:
            board = Board(seen(on))
            for name in ("one", "two"):
                await on.cluster.create(
                    ELASTIC_SERVICES, NAMESPACE, elastic_service(name, jobID="strange")
                )
            async with board.cluster.watched([ELASTIC_SERVICES]):
                board.look(decide=False)
                key = f"{NAMESPACE}/rule/strange"
                for name, left in (("two", [key]), ("one", [])):
                    await on.cluster.delete(ELASTIC_SERVICES, NAMESPACE, name)
                    await on.settle(1)
                    board.look(decide=False)
                    board.look(decide=False)
                    assert list(board.rows) == left

    run(story())


def test_only_one_namespace_is_shown_when_it_is_asked_for() -> None:
    async def story() -> None:
        other = rule_config_map(TWO_ONE, namespace="other")
        async with rig(RULE, other, job("p0"), job("p0", namespace="other")) as on:
            board = Board(seen(on), "other")
            async with board.cluster.watched():
                board.look(decide=True)
                assert list(board.rows) == ["other/rule/mindie"]

    run(story())


def test_a_service_is_told_with_its_pods_and_what_happened() -> None:
    async def story() -> None:
        async with rig(RULE, job("p0"), job("d0")) as on:
            await on.start("p0", "d0")
            board = Board(seen(on))
            async with board.cluster.watched():
                await on.settle(3)
                board.look(decide=True)
                found = views.service(board, KEY)
                assert found["service"][""]["running"] == "1+1"
                assert found["instances"]["p0"]["pods"][0][:3] == [
                    "p0-master-0",
                    "Running",
                    "node-0",
                ]
                assert {moment["kind"] for moment in found["moments"].values()} >= {
                    "condition",
                    "instance",
                    "event",
                }
                assert views.rule_text(board, KEY)["text"] == TWO_ONE  # type: ignore[index]
                assert views.service(board, "no/such/one")["service"] == {}
                assert views.rule_text(board, "no/such/one") is None

    run(story())


def roomy(name: str) -> Object:
    made = node(name)
    room = {"cpu": "192", "memory": "1Ti", "pods": "110", "huawei.com/Ascend910": "8"}
    return {**made, "status": {**made["status"], "allocatable": room, "capacity": room}}


def test_nodes_are_told_with_what_is_free_used_held_to_no_use_and_who_waits() -> None:
    async def story() -> None:
        async with rig(RULE, roomy("node-1"), roomy("node-2"), job("p0"), job("d0")) as on:
            await on.start("p0", node_name="node-1")  # alone it serves nobody
            cluster = seen(on)
            async with cluster.watched():
                await on.settle(3)
                shown = NodeKinds(cluster)
                found = shown.look()
                assert found["nodes"]["node-1"]["amounts"] == {"huawei.com/Ascend910": [8, 0, 0, 8]}
                assert found["nodes"]["node-1"]["guests"] == [[KEY, False]]
                (kind,) = found["kinds"].values()
                assert kind["amounts"]["huawei.com/Ascend910"] == [16, 8, 0, 8, 0, 8]
                waits = found["waiting"][KEY]
                assert (waits["reason"], waits["reserved"], waits["serves"]) == (
                    "WaitingForScheduler",
                    True,
                    False,
                )
                assert waits["asks"] == ["1 × 8 huawei.com/Ascend910"]
                await on.start("d0", node_name="node-2")
                await on.settle(3)
                found = shown.look()
                assert found["nodes"]["node-1"]["amounts"] == {"huawei.com/Ascend910": [8, 0, 8, 0]}
                assert found["waiting"] == {}
                await on.cluster.patch(
                    NODES,
                    None,
                    "node-2",
                    {"spec": {"unschedulable": True}},
                    patch_type=PatchType.MERGE,
                )
                await on.settle(3)
                assert shown.look()["nodes"]["node-2"]["state"] == "cordoned"

    run(story())


def test_super_pods_are_told_with_the_blocks_that_are_free() -> None:
    async def story() -> None:
        async with rig(RULE, job("p0"), job("d0")) as on:
            for number in range(2):
                for index in range(3):
                    spec = NodeSpec(f"n{number}{index}", npu=16, device_data=True, super_pod=number)
                    await add_node(on.cluster, spec, on.clock)
            await on.start("p0", node_name="n00")
            await report_chips(on.cluster, on.clock, "n11", [3], healthy=False)
            cluster = seen(on)
            async with cluster.watched():
                await on.settle(3)
                found = NodeKinds(cluster).look()
            (kind,) = [one for one in found["kinds"].values() if one["superPods"]]
            assert kind["superPods"] == [[0, 3, 2], [1, 3, 2]]
            assert kind["blocks"] == [[1, 4], [2, 2]]
            assert found["nodes"]["n12"]["superPod"] == 1

    run(story())


def test_nodes_that_are_counted_as_they_change_are_counted_as_if_all_were_counted_anew() -> None:
    async def story() -> None:
        nodes = [roomy(f"node-{number}") for number in range(4)]
        async with rig(
            RULE, *nodes, job("p0"), job("p1"), job("d0"), job("x0", service="other")
        ) as on:
            cluster = seen(on)
            async with cluster.watched():
                shown = NodeKinds(cluster)
                patched = PatchType.MERGE
                for step in range(7):
                    if step == 1:
                        await on.start("p0", node_name="node-0")
                    elif step == 2:
                        await on.start("d0", node_name="node-1")
                    elif step == 3:
                        await on.cluster.patch(
                            NODES,
                            None,
                            "node-2",
                            {"spec": {"unschedulable": True}},
                            patch_type=patched,
                        )
                    elif step == 4:
                        away = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
                        await on.cluster.patch(
                            NODES, None, "node-0", away, patch_type=patched, subresource="status"
                        )
                    elif step == 5:
                        await on.cluster.delete(NODES, None, "node-3")
                    elif step == 6:
                        other = {"metadata": {"labels": {"accelerator-type": "b"}}}
                        await on.cluster.patch(NODES, None, "node-2", other, patch_type=patched)
                    await on.settle(3)
                    assert shown.look() == NodeKinds(cluster).look(), step
                assert len(shown.look()["nodes"]) == 3

    run(story())


def test_what_is_decided_before_anybody_asks_is_the_answer() -> None:
    async def story() -> None:
        async with rig(RULE, job("p0"), job("d0")) as on:
            cluster = seen(on)
            async with cluster.watched():
                await cluster.settle()
                world, decision = cluster.decision()
                assert [service.key.job_id for service in world.services] == ["mindie"]
                assert decision.memory == world.memory  # nothing is left to be taken in

    run(story())


# Rules that are tried


def test_a_rule_that_is_tried_says_what_would_be_done_at_once_and_does_nothing() -> None:
    async def story() -> None:
        async with rig(RULE, job("p0"), job("p1"), job("d0")) as on:
            await on.start("p0", "d0")
            cluster = seen(on)
            async with cluster.watched():
                await on.settle(3)
                world, _ = cluster.decision()
                before = [pod["metadata"]["name"] for pod in on.cluster.peek(PODS)]
                smaller = try_rule(world, rule_document({"group0": 1, "group1": 1}), KEY)
                assert smaller.valid
                assert smaller.then == Aim("complete", (("group0", 1), ("group1", 1)))
                larger = try_rule(world, rule_document({"group0": 3, "group1": 1}), KEY)
                assert larger.then.standing == "waits"
                assert larger.then.awaited == ("group0",)
                assert [(one.name, one.deed) for one in smaller.changes if one.deed] == [
                    ("p1", "revoke")
                ]
                assert "scaler plan rule.json --running group0=1,group1=1" in smaller.command
                same = try_rule(world, TWO_ONE, KEY)
                assert (same.changes, same.now) == ((), same.then)
                await on.settle(3)
                assert [pod["metadata"]["name"] for pod in on.cluster.peek(PODS)] == before

    run(story())


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"version": 1}', "\ud800", "x" * 2_000_000]
)
def test_no_rule_that_is_tried_is_an_exception(text: str) -> None:
    async def story() -> None:
        async with rig(RULE, job("p0")) as on:
            cluster = seen(on)
            async with cluster.watched():
                world, _ = cluster.decision()
                answer = try_rule(world, text, KEY)
                assert not answer.valid
                assert answer.findings[0].level == "error"
                with pytest.raises(LookupError):
                    try_rule(world, text, "no/such/one")

    run(story())


def test_a_group_with_a_hostile_name_stays_one_word_of_the_command() -> None:
    hostile = "$(reboot);x"
    rule = rule_config_map(rule_document({hostile: 1}))

    async def story() -> None:
        async with rig(rule, job("p0", "g")) as on:
            cluster = seen(on)
            async with cluster.watched():
                world, _ = cluster.decision()
                answer = try_rule(world, rule_document({hostile: 1}), KEY)
                assert "$(reboot)" not in answer.command.replace(f"'{hostile}", "")

    run(story())


# What may be old


def test_while_the_api_server_is_gone_what_is_shown_is_old() -> None:
    async def story() -> None:
        async with rig(RULE, job("p0")) as on:
            faults = Faults(on.clock)
            client = on.cluster.client("page", faults)
            cluster = Cluster(client, on.clock)
            async with cluster.watched():
                await on.settle(3)
                assert cluster.stale_for() == 0
                gone = Rule(fault=Fault.NOT_SENT, verbs=("list", "watch"))
                faults.rules.append(gone)
                client.cut_watches()
                await on.settle(20)
                assert 15 <= cluster.stale_for() <= 25
                faults.rules.remove(gone)
                await on.settle(60)
                assert cluster.stale_for() == 0

    run(story())
