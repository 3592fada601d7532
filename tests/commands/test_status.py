"""`scaler status`: what it shows of a cluster, in which order, how wide, and of services that
nobody decides about."""

from __future__ import annotations

import argparse
import asyncio
import io
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from scaler.decide.world import ServiceKey
from scaler.informers.pods import read_pod
from scaler.kube.api import ELASTIC_SERVICES, LEASES, NODES, Object, PatchType
from scaler.report.service_status import status_of, without_jobs
from scaler.rules.rule import ALL
from scaler.sim.loop import run
from scaler.tools.common.access import Access, place
from scaler.tools.common.console import age, clean, console, show
from scaler.tools.common.detail import (
    InstanceView,
    ServiceDetail,
    detail_of,
    largest_wanted,
    standing,
    urgency,
    wanted,
)
from scaler.tools.common.output import written
from scaler.tools.common.view import ServiceView
from scaler.tools.status import screen
from scaler.tools.status.tables import Style, overview, tone, tree
from tests.builders import service
from tests.commands.test_cluster import RULE, elastic_service, idle, lease, scale, uninstall, write
from tests.jobs import NAMESPACE, job
from tests.report.fakes import report, report_of
from tests.rig import START, Rig, rig

THEN = "2023-11-14T22:03:20Z"
"""Ten minutes before START."""
COMPLETE = status_of(report("2P1D > 1P1D", "p0 Running, p1 Running, d0 Running"), {}, THEN)
SMALLER = status_of(report("2P1D > 1P1D", "p0 Running, p1 Held, d0 Running"), COMPLETE, THEN)
NOTHING = status_of(report("2P1D > 1P1D", "p0 Running, p1 Held, d0 Held"), {}, THEN)


def view(name: str, status: Object) -> ServiceView:
    return ServiceView(ServiceKey("mindie", "rule", name), f"rule-{name}", status)


def drawn(made: Any, width: int = 120, **columns: int) -> str:
    out = io.StringIO()
    shown = console(out)
    shown.width = width
    show(shown, made, **columns)
    return out.getvalue()


def asked(service: str = "", **options: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"service": service, "format": "table", "watch": False, **options})


@asynccontextmanager
async def board(on: Rig, args: argparse.Namespace, *namespaces: str) -> AsyncIterator[screen.Board]:
    access = Access(on.cluster.client("caller"), on.clock, namespaces)
    async with screen.opened_board(access, args) as made:
        yield made


async def shown(on: Rig, service: str = "", width: int = 120, **options: Any) -> str:
    async with board(on, asked(service, **options), NAMESPACE) as made:
        return drawn(made.render(console(io.StringIO())), width)


@pytest.mark.parametrize(
    ("written", "place_of"),
    [
        ("d0", ("", "d0")),
        ("mindie/d0", ("mindie", "d0")),
        ("esvc/rule-mindie", ("", "rule-mindie")),
        ("elasticservice.scaler.mind-cluster.io/rule-mindie", ("", "rule-mindie")),
        ("mindie/pod/d0-master-0", ("mindie", "d0-master-0")),
        ("mindie/rule/chat", ("mindie", "rule/chat")),
    ],
)
def test_a_name_is_understood_as_kubectl_logs_and_lists_write_it(
    written: str, place_of: tuple[str, str]
) -> None:
    assert place(written) == place_of


@pytest.mark.parametrize("name", ["rule-mindie", "mindie", "rule/mindie", "rule"])
def test_a_service_is_found_by_each_of_its_names(name: str) -> None:
    key = ServiceKey("default", "rule", "mindie")
    for view in (ServiceView(key, "rule-mindie", {}), ServiceView(key, "", {})):
        assert screen.chosen([view], name) == [view]


def test_a_pod_says_that_its_kubelet_refused_it() -> None:
    refused = {"phase": "Failed", "reason": "OutOfcpu"}
    ran = {**refused, "containerStatuses": [{"state": {"terminated": {"exitCode": 1}}}]}
    found = []
    for status in (refused, ran):
        meta = {"name": "p0", "namespace": "mindie", "uid": "p0"}
        pod = {"metadata": meta, "spec": {"nodeName": "npu-0"}, "status": status}
        found.append(standing(read_pod(pod)))
    assert found == ["Refused by its kubelet", "Failed"]


def test_services_are_sorted_by_how_badly_they_are_off_and_then_by_how_long() -> None:
    old = {**NOTHING, "since": "2023-11-01T00:00:00Z"}
    views = [view("a", COMPLETE), view("b", SMALLER), view("c", NOTHING), view("d", old)]
    assert [one.key.job_id for one in sorted(views, key=urgency)] == ["d", "c", "b", "a"]


def test_one_line_says_whether_it_is_available_where_it_is_on_its_ladder_since_when_and_why() -> (
    None
):
    lines = drawn(overview([view("c", NOTHING), view("a", COMPLETE)], Style(START))).splitlines()
    assert lines[0].split() == [
        "SERVICE",
        "AVAILABLE",
        "RATIO",
        "RUNNING",
        "TARGET",
        "RULE",
        "SINCE",
        "WHY",
    ]
    assert lines[1].split()[:7] == ["rule-c", "False", "-", "1+0", "1+1", "ok", "10m"]
    assert "d0: " in lines[1]
    assert lines[-1].split() == ["rule-a", "True", "2+1", "2+1", "2+1", "ok", "10m"]


def limited(name: str, instances: str, replicas: int) -> ServiceView:
    asked = service("2P1D > 1P1D", instances, replicas=replicas)
    return msgspec.structs.replace(
        view(name, status_of(report_of(asked), {}, THEN)), replicas=replicas
    )


def test_how_many_instances_are_wanted_is_a_column_where_it_is_fewer_than_the_rule_allows() -> None:
    views = [
        limited("a", "p0 Running, p1 Held, d0 Running", 2),
        view("c", NOTHING),
        limited("b", "p0 Held", 0),
    ]
    lines = [line.split() for line in drawn(overview(views, Style(START))).splitlines()]
    assert lines[0][5] == "WANTED"
    shown = {line[0]: line[1:6] for line in lines if line[0].startswith("rule-")}
    assert shown["rule-a"] == ["True", "1+1", "1+1", "1+1", "2"]
    assert shown["rule-b"] == ["True", "-", "0+0", "-", "0"]
    assert shown["rule-c"] == ["False", "-", "1+0", "1+1", "all"]
    assert "nothing is to run: spec.replicas is 0" in drawn(overview(views, Style(START)))


def test_a_service_that_rests_is_as_well_off_as_one_that_is_complete() -> None:
    rests = limited("b", "p0 Held, d0 Held", 0)
    assert urgency(rests)[0] == urgency(view("a", COMPLETE))[0]
    assert tone(rests) == tone(view("a", COMPLETE))
    assert urgency(limited("c", "p0 Running, d0 Held", 2))[0] == 0


def test_what_is_left_of_a_service_without_jobs_is_no_trouble() -> None:
    gone = status_of(without_jobs(ServiceKey("mindie", "rule", "gone"), 3), {}, THEN)
    assert urgency(view("gone", gone))[0] == 4
    assert "no job names this rule and this jobID" in drawn(
        overview([view("gone", gone)], Style(START))
    )


@pytest.mark.parametrize(
    ("replicas", "words", "most"),
    [(0, "0", 2), (1, "1", 1), (2, "2", 1), (3, "3", 0), (4, "4", 0), (ALL, "all", 0)],
)
def test_the_largest_ratio_wanted_is_the_smallest_with_so_many_instances(
    replicas: int, words: str, most: int
) -> None:
    found = limited("a", "p0 Running, d0 Running", replicas)
    assert (wanted(found), largest_wanted(found)) == (words, most)


@pytest.mark.parametrize("width", [80, 120])
def test_nothing_is_wider_than_the_screen_and_no_line_ends_in_spaces(width: int) -> None:
    chinese = {**NOTHING, "message": "第零组的实例在等待调度器绑定其全部 Pod，" * 8}
    text = drawn(
        overview([view("a-service-of-a-long-name" * 3, chinese)], Style(START, namespaces=True)),
        width,
    )
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert [line for line in text.splitlines() if line != line.rstrip()] == []


def test_on_a_narrow_screen_the_words_stand_below_the_columns() -> None:
    lines = drawn(
        overview([view("c", NOTHING), view("a", COMPLETE)], Style(START, narrow=True)), 80
    ).splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["SERVICE", "rule-c", "rule-a"]
    assert lines[4].startswith("rule-c: d0: ")


@pytest.mark.parametrize("width", [60, 80])
def test_on_a_narrow_screen_no_name_is_broken(width: int) -> None:
    name = "a-service-of-a-name-that-is-long"
    style = Style(START, namespaces=True, narrow=True)
    style.columns = width
    found = [view(name, NOTHING), view("b", COMPLETE)]
    lines = drawn(overview(found, style), width).splitlines()
    assert f"mindie/rule-{name}" in lines
    assert max(cell_len(line) for line in lines) <= width
    assert lines[0].split() == ["AVAILABLE", "RATIO", "RUNNING", "TARGET", "RULE", "SINCE"]
    place = lines.index(f"mindie/rule-{name}")
    assert lines[place + 1].startswith("  False")
    assert lines[place + 2].startswith("  d0: ")


def test_what_is_piped_is_not_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that reads lines gets each whole; COLUMNS still decides."""
    monkeypatch.delenv("COLUMNS", raising=False)
    long = {**NOTHING, "message": "words " * 60}
    out = io.StringIO()
    show(console(out), overview([view("a" * 60, long)], Style(START, namespaces=True)))
    assert len(out.getvalue().splitlines()) == 2
    monkeypatch.setenv("COLUMNS", "100")
    assert console(io.StringIO()).width == 100


def test_a_wide_table_has_each_service_on_one_line() -> None:
    long = {**NOTHING, "message": "words " * 60}
    text = drawn(
        overview([view("a" * 60, long)], Style(START, wide=True, namespaces=True)), width=2000
    )
    assert len(text.splitlines()) == 2


def test_what_strangers_write_cannot_move_the_cursor_or_turn_text_around() -> None:
    assert clean("a\x1b[2Jb\u202ec\nd\x07") == "a\ufffd[2Jb\ufffdc d\ufffd"
    evil = {**NOTHING, "message": "\x1b]0;owned\x07[bold red]markup[/]"}
    text = drawn(overview([view("a", evil)], Style(START)))
    assert "\x1b" not in text
    assert "[bold red]markup[/]" in text


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0s"),
        (-5, "0s"),
        (119, "119s"),
        (600, "10m"),
        (725, "12m"),
        (330, "5m30s"),
        (3 * 3600 + 60, "3h1m"),
        (30 * 3600, "30h"),
        (49 * 3600, "2d1h"),
        (7200, "2h"),
        (5400, "90m"),
        (40 * 86400, "40d"),
        (10**11, "-"),
    ],
)
def test_ages_are_written_as_kubectl_writes_them(seconds: float, words: str) -> None:
    assert age(seconds) == words


def test_labels_of_the_deployer_say_which_group_is_prefill_and_which_decode() -> None:
    """On all jobs of a group the same; else the numbers stand in the order of the rule."""

    def labelled(name: str, value: str) -> Object:
        made = job(name)
        made["metadata"]["labels"]["grt-group/deploy-server"] = value
        return made

    async def story(*values: str) -> tuple[str, str]:
        jobs = map(labelled, ("p0", "p1", "d0"), values)
        async with rig(RULE, *jobs) as on:
            await on.start("p0", "d0")
            await on.settle(2)
            await on.start("p1")
            await on.settle(2)
            (written,) = on.cluster.peek(ELASTIC_SERVICES, NAMESPACE)
            assert written["status"]["running"] in await shown(on)
            return written["status"]["running"], await shown(on, "rule-mindie")

    running, tree = run(story("0", "0", "1"))
    assert running == "2P1D"
    assert "2P1D" in tree
    assert "1P1D" in tree
    assert run(story("0", "1", "1"))[0] == "2+1"


def test_one_service_is_a_tree_with_what_it_waits_for() -> None:
    async def story() -> str:
        async with rig(RULE, job("p0"), job("p1"), job("d0")) as on:
            await on.start("p0")
            await on.settle(5)
            return await shown(on, "mindie")

    text = run(story())
    assert "not even the smallest ratio runs" in text
    assert "← works towards" in text
    assert re.search(r"● p0  Running  \ds  on node-0", text)
    assert "◐ d0  Admitted  WaitingForScheduler" in text
    assert "pod d0-master-0  Not bound to a node" in text
    assert "why d0: Needs room for 2 pods, 0 in all; its pods wait with the scheduler." in text


def test_the_tree_says_what_is_wanted_and_which_ratios_are_not() -> None:
    async def story() -> tuple[str, str]:
        async with rig(RULE, job("p0"), job("p1"), job("d0")) as on:
            await on.start("p0", "d0")
            await scale(on, 2)
            smaller = await shown(on, "mindie")
            await scale(on, 0)
            return smaller, await shown(on, "mindie")

    smaller, rests = run(story())
    assert "instances wanted: 2" in smaller
    assert re.search(r"2\+1 +2 group0 \+ 1 group1 +not wanted", smaller)
    assert re.search(r"1 +1 group0 \+ 1 group1 +← runs +← works towards +← largest wanted", smaller)
    assert "○ p1  Held  ScaledDown" in smaller
    assert "instances wanted: 0" in rests
    assert rests.count("not wanted\n") >= 1
    assert "not even the smallest ratio runs" not in rests
    assert re.search(r"rests +nothing is to run: spec.replicas is 0", rests)


def test_what_is_drained_is_counted_in_its_group() -> None:
    found = limited("a", "p0 Running, p1 Terminating, d0 Running", 2)
    goes = InstanceView("p1", "group0", "AscendJob", "Terminating", "ScaledDown", "", "", ())
    text = drawn(tree(ServiceDetail(found, (), (goes,), ()), Style(START)))
    assert "group0  1 of 1 running, 1 being drained" in text


def test_a_node_that_is_not_ready_stands_beside_the_pod() -> None:
    async def story() -> str:
        async with rig(RULE, job("p0"), job("d0")) as on:
            await on.start("p0", "d0")
            gone = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
            await on.cluster.patch(
                NODES, None, "node-0", gone, patch_type=PatchType.MERGE, subresource="status"
            )
            await on.settle(2)
            return await shown(on, "mindie")

    assert "on node-0 (NotReady)" in run(story())


def test_without_elastic_services_and_without_a_scaler_both_are_said_and_the_rest_is_shown() -> (
    None
):
    async def story() -> str:
        async with rig(RULE, job("p0"), job("d0")) as on:
            await uninstall(on)
            return await shown(on)

    text = " ".join(run(story()).split())
    assert "no scaler is known to look after namespace mindie" in text
    assert "ElasticService is not installed in this cluster: what follows is decided here" in text
    assert "rule-mindie False -" in text


def test_a_scaler_that_does_not_renew_its_lease_is_said_in_capitals() -> None:
    async def story() -> str:
        on = idle(RULE, job("p0"), job("d0"))
        await write(on, elastic_service())
        await on.cluster.create(LEASES, "default", lease("mind-cluster-scaler", "default"))
        await asyncio.sleep(600)
        return await shown(on)

    text = run(story())
    assert "NO SCALER IS AT WORK: Lease default/mind-cluster-scaler was renewed 10m" in text
    assert "rule-mindie" in text


def test_all_services_are_shown_from_their_elastic_services_alone() -> None:
    async def story() -> set[str]:
        async with rig(RULE, job("p0"), job("d0")) as on:
            await on.settle(5)
            async with board(on, asked()) as made:
                assert "rule-mindie" in drawn(made.render(console(io.StringIO())))
                return {
                    resource.plural
                    for resource, one in made.cluster.informers.items()
                    if one.counts["lists"]
                }

    assert run(story()) == {"elasticservices"}


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_programs_get_the_whole_status_and_for_one_service_its_instances(output: str) -> None:
    async def story() -> str:
        async with rig(RULE, job("p0"), job("d0")) as on:
            await on.start("p0", "d0")
            await on.settle(5)
            async with board(on, asked("mindie", format=output), NAMESPACE) as made:
                return written(screen.data_of(made, made.views()), output)

    (found,) = yaml.safe_load(run(story()))["services"]
    assert (found["jobID"], found["status"]["running"]) == ("mindie", "1+1")
    assert [pod["name"] for one in found["instances"] for pod in one["pods"]] == [
        "d0-master-0",
        "p0-master-0",
    ]


def test_a_service_that_does_not_exist_is_an_error_with_a_near_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def story() -> None:
        async with (
            rig(RULE, job("p0"), job("d0")) as on,
            board(on, asked("mindei"), NAMESPACE) as made,
        ):
            assert await screen.once(made) == 1

    run(story())
    assert (
        "there is no service 'mindei' in namespace mindie; there are rule-mindie"
        in capsys.readouterr().err
    )


def test_without_a_terminal_a_watch_prints_each_change_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = io.StringIO()
    monkeypatch.setattr(screen, "console", lambda: console(out))

    async def story() -> None:
        async with (
            rig(RULE, job("p0"), job("d0")) as on,
            board(on, asked(watch=True), NAMESPACE) as made,
        ):
            watching = asyncio.create_task(screen.live(made))
            await asyncio.sleep(5)
            before = out.getvalue()
            await on.start("p0", "d0")
            await asyncio.sleep(5)
            after = out.getvalue()[len(before) :]
            await asyncio.sleep(30)
            assert out.getvalue() == before + after
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            assert ("False" in before, "True       1+1" in after) == (True, True)

    run(story())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = (
    *COMPLETE,
    "currentRatio",
    "targetRatio",
    "leftOut",
    "warnings",
    "alone",
    "instances",
    "conditions",
    "groups",
)


PARTS = (
    "name",
    "index",
    "type",
    "status",
    "message",
    "uid",
    "since",
    "nodes",
    "counts",
    "running",
    "target",
)
LISTS = st.lists(st.dictionaries(st.sampled_from(PARTS), JSON, max_size=4), max_size=3)


@given(st.dictionaries(st.sampled_from(FIELDS), JSON | LISTS, max_size=6))
@settings(max_examples=150, deadline=None)
def test_whatever_stands_in_a_status_is_shown_and_nothing_of_it_ends_the_command(
    status: dict[str, Any],
) -> None:
    found = view("a", status)
    nobody: Any = SimpleNamespace(
        cache=SimpleNamespace(pods_of=lambda _: {}), events={}, last_warnings=lambda _: {}
    )
    drawn(overview([found], Style(START)))
    assert "mindie/rule-a" in drawn(tree(detail_of(nobody, found), Style(START, wide=True)))
