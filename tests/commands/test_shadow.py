"""`scaler shadow` as a user types it, and what it prints."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import yaml

from scaler.cli import main
from scaler.clock import Clock
from scaler.kube.api import CONFIG_MAPS, Object
from scaler.sim import loop
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.play import START
from scaler.tools.common import access
from scaler.tools.common.access import Access
from scaler.tools.shadow import record as shadow_record
from scaler.tools.shadow.command import USUAL, report_of, text
from scaler.tools.shadow.notes import Difference, Tally, What
from scaler.tools.shadow.record import KEY, NAME, Noted, decode, encode
from tests.jobs import manifest

DAY = 86_400.0


def difference(what: What, since: float, until: float = 0.0, instance: str = "p1") -> Difference:
    return Difference(
        what,
        instance,
        "because",
        "1 group0",
        "1 group0 + 1 group1",
        START + since,
        until and START + until,
    )


def a_day() -> Noted:
    well = Tally(START, START + DAY, watched=DAY, as_decided=DAY, serving=DAY, serves=True)
    ended = {
        What.STARTED: [difference(What.STARTED, 100, 160)],
        What.START: [difference(What.START, 10, 12, "d0")],
    }
    badly = Tally(
        START,
        START + DAY,
        watched=DAY,
        as_decided=DAY / 2,
        serving=DAY / 4,
        could_serve=3600,
        held_up=7200,
        counts={What.STARTED: 1, What.START: 1},
        seconds={What.STARTED: 60, What.START: 2},
        open={"evict u": difference(What.EVICT, DAY / 2)},
        ended=ended,
    )
    return Noted(START + DAY, {"a/rule/well": well, "b/rule/badly": badly})


def printed(noted: Noted, after: float = 10.0, only: str = "") -> str:
    return "\n".join(text(report_of(noted, noted.at + after, only)))


def test_the_report_counts_and_tells_each_difference_with_its_time_and_reason() -> None:
    lines = printed(a_day()).splitlines()
    assert (
        lines[0]
        == "Mode shadow, as of 2026-09-22T14:13:20Z: services watched: 2; nothing was done to them."
    )
    rows = [line.split() for line in lines[2:6]]
    assert rows[0][-1] == "SERVICE"
    assert rows[2] == ["24h", "100.0%", "100.0%", "0s", "0s", "0", "0", "0", "0", "a/rule/well"]
    assert rows[3] == ["24h", "50.0%", "25.0%", "60m", "2h", "1", "0", "1", "1", "b/rule/badly"]
    started = (
        "  2026-09-21T14:15:00Z to 2026-09-21T14:16:00Z (60s) p1: started, when the decision would"
        " have held it: because (ran 1 group0, wanted 1 group0 + 1 group1)"
    )
    assert started in lines
    assert any(
        line.startswith("  2026-09-22T02:13:20Z until now (12h) p1: on nodes, and")
        for line in lines
    )
    assert "  and 1 that were started within 5 s (-o json)" in lines
    assert any(line.startswith("What would have followed") for line in lines)


def test_only_the_services_that_are_named_are_reported() -> None:
    assert "a/rule/well" not in printed(a_day(), only="badly")


def test_a_report_that_nobody_writes_any_more_says_so() -> None:
    assert "This is 2h old: the shadow seems to be away." in printed(a_day(), after=7200.0)
    assert "seems to be away" not in printed(a_day())


def test_what_a_tenant_may_name_moves_no_cursor() -> None:
    noted = a_day()
    noted.services["x/\x1b[2J/y"] = Tally(
        START, START, ended={What.HOLD: [difference(What.HOLD, 0, 9, "\x1b]0;p")]}
    )
    assert "\x1b" not in printed(noted)


def test_so_many_differences_that_an_object_cannot_hold_them_are_left_out_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shadow_record, "MAX_BYTES", 500)
    noted = a_day()
    found = [
        difference(What.HOLD, number, number + 100, f"p{number * 7919}") for number in range(20)
    ]
    noted.services["b/rule/badly"].ended[What.HOLD] = found
    kept = decode({"binaryData": {KEY: encode(noted)}})
    assert kept.left_out > 0
    assert kept.services["b/rule/badly"].held_up == 7200
    assert (
        f"{kept.left_out} more were noted than there was room for; they are in the sums."
        in printed(kept)
    )


@pytest.mark.parametrize(
    "value",
    [
        "",
        "!",
        base64.b64encode(b"x").decode(),
        base64.b64encode(zlib.compress(b"[]")).decode(),
        base64.b64encode(zlib.compress(msgspec.json.encode(Noted(0.0, format=2)))).decode(),
    ],
    ids=["nothing", "no base64", "no zlib", "another shape", "another format"],
)
def test_what_is_no_report_is_an_error_and_not_a_crash(value: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be read|has format 2"):
        decode({"binaryData": {KEY: value}})


def asked(monkeypatch: pytest.MonkeyPatch, *arguments: str, kept: Object | None) -> int:
    """The exit code of `scaler shadow` in a cluster that has this ConfigMap."""

    @asynccontextmanager
    async def opened(_args: object) -> AsyncIterator[Access]:
        clock = Clock(START)
        cluster = SimCluster(clock)
        cluster.apply([kept] if kept else [])
        yield Access(cluster, clock, ())

    monkeypatch.setattr(access, "opened", opened)
    monkeypatch.setattr("scaler.tools.shadow.command.asyncio.run", loop.run)
    return main(["shadow", "report", *arguments])


def config_map(namespace: str = USUAL) -> Object:
    return manifest(CONFIG_MAPS, NAME, namespace, binaryData={KEY: encode(a_day())})


def test_the_command_reads_the_report_in_each_format(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(monkeypatch, kept=config_map()) == 0
    assert "b/rule/badly" in capsys.readouterr().out
    reads: dict[str, Any] = {"json": json.loads, "yaml": yaml.safe_load}
    for output, read in reads.items():
        assert asked(monkeypatch, "-o", output, kept=config_map()) == 0
        found = read(capsys.readouterr().out)
        assert found["totals"]["held_up"] == 7200
        assert found["services"][1]["differences"]["evict"] == {"count": 1, "seconds": DAY / 2}
    assert asked(monkeypatch, "-n", "elsewhere", kept=config_map("elsewhere")) == 0


def test_without_a_report_it_says_where_it_looked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(monkeypatch, kept=None) == 1
    assert f"there is no ConfigMap {NAME} in namespace {USUAL}" in capsys.readouterr().err
    assert asked(monkeypatch, kept=manifest(CONFIG_MAPS, NAME, USUAL)) == 1
    assert f"it has no {KEY}" in capsys.readouterr().err
