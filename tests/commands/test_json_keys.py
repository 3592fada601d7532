"""Names of members in JSON: camelCase in every command, and for one release the old name beside."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scaler.cli import main
from scaler.clock import Clock
from scaler.kube.api import CONFIG_MAPS
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from scaler.sim.stories.play import START
from scaler.tools import common
from scaler.tools.common import access
from scaler.tools.common.access import Access
from scaler.tools.common.output import Members, for_programs, in_camel_case, written
from scaler.tools.shadow.command import USUAL
from scaler.tools.shadow.record import KEY, NAME, encode
from tests.builders import service, world
from tests.commands.test_cluster import RULE
from tests.commands.test_deploy import Town, inference, play, store
from tests.commands.test_deploy import service as short_file
from tests.commands.test_shadow import a_day
from tests.commands.test_why import on_nodes
from tests.jobs import NAMESPACE, job, manifest

TOOLS = Path(common.__file__).parent.parent
BARE = Path("manifests/examples/2p1d/00-rule.yaml")
SNAKE = re.compile(r"[a-z]+(_[a-z0-9]+)+")


class Inner(msgspec.Struct, frozen=True):
    in_flight: int
    job_id: str = "chat"


class Outer(msgspec.Struct, frozen=True, omit_defaults=True):
    left_out: int
    groups: dict[str, Inner]
    since: float = 0.0
    ends_at: float | msgspec.UnsetType = msgspec.UNSET


def misnamed(value: Any) -> Iterator[str]:
    """The names in snake_case that do not stand beside the same name in camelCase."""
    if isinstance(value, dict):
        for name, one in value.items():
            if SNAKE.fullmatch(name) and value.get(in_camel_case(name)) != one:
                yield name
            yield from misnamed(one)
    elif isinstance(value, list):
        for one in value:
            yield from misnamed(one)


def test_members_are_camel_case_with_the_old_name_beside_and_data_stays() -> None:
    value = Outer(2, {"group_0": Inner(1)})
    assert json.loads(written(value, "json")) == {
        "leftOut": 2,
        "left_out": 2,
        "groups": {"group_0": {"inFlight": 1, "in_flight": 1, "jobID": "chat", "job_id": "chat"}},
    }
    assert for_programs(Members(as_of=[Members(ok=True)])) == {
        "asOf": [{"ok": True}],
        "as_of": [{"ok": True}],
    }


def test_other_forms_of_a_name_are_found() -> None:
    assert list(misnamed({"leftOut": 1, "left_out": 1, "ok": [{"jobID": 1}]})) == []
    assert list(misnamed({"left_out": 1, "ok": [{"job_id": 1}]})) == ["left_out", "job_id"]
    assert list(misnamed({"leftOut": 1, "left_out": 2})) == ["left_out"], "not the same"


# Every command that has `-o json`


WORLD = msgspec.json.encode(world(service("2P1D > 1P1D", "p0 Running, p1 Held, d0 Held")))
WITHOUT_A_CLUSTER = {
    "plan": ["plan", "RULE", "--running", "group0=1", "-o", "json"],
    "plan --nodes": ["plan", "RULE", "--nodes", "2x huawei.com/Ascend910=8", "-o", "json"],
    "plan --cases": ["plan", "RULE", "--cases", "CASES"],
    "lint": ["lint", "RULE", "-o", "json"],
    "simulate": ["simulate", "tests/scenarios/start-degrade-climb.yaml", "-o", "json"],
    "explain": ["explain", "--world", "WORLD", "-o", "json"],
}
IN_A_CLUSTER = {
    "status": ["status", "-A", "-o", "json"],
    "status NAME": ["status", f"{NAMESPACE}/mindie", "-o", "json"],
    "why": ["why", f"{NAMESPACE}/mindie", "-o", "json"],
    "drain": ["drain", "a-0", "-o", "json"],
    "takeover": ["takeover", "-o", "json"],
    "preflight": ["preflight", "-o", "json"],
    "shadow": ["shadow", "report", "-o", "json"],
}


def holds(printed: str) -> None:
    """Every document in what a command printed; lines of a log before it are left out."""
    lines = [line for line in printed.splitlines() if not re.match(r"20\d\d-", line)]
    found = []
    rest = "\n".join(lines).lstrip()
    while rest:
        document, end = json.JSONDecoder().raw_decode(rest)
        found.append(document)
        rest = rest[end:].lstrip()
    assert found
    assert list(misnamed(found)) == []


@pytest.mark.parametrize("name", WITHOUT_A_CLUSTER)
def test_a_command_without_a_cluster_writes_camel_case(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"RULE": BARE.read_bytes(), "WORLD": WORLD, "CASES": b'{"running": {"group0": 1}}\n'}
    words = []
    for word in WITHOUT_A_CLUSTER[name]:
        path = tmp_path / f"{word}.yaml"
        if word in files:
            path.write_bytes(files[word])
        words.append(str(path) if word in files else word)
    main(words)
    holds(capsys.readouterr().out)


@pytest.mark.parametrize("name", IN_A_CLUSTER)
def test_a_command_that_reads_a_cluster_writes_camel_case(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @asynccontextmanager
    async def opened(args: Any) -> AsyncIterator[Access]:
        clock = Clock(START)
        cluster = SimCluster(clock)
        report = manifest(CONFIG_MAPS, NAME, USUAL, binaryData={KEY: encode(a_day())})
        cluster.apply([RULE, report, *on_nodes("a", 2), job("p0"), job("d0")])
        yield Access(cluster.client("caller"), clock, (NAMESPACE,))

    monkeypatch.setattr(access, "opened", opened)
    monkeypatch.setattr(asyncio, "run", run)
    main(IN_A_CLUSTER[name])
    holds(capsys.readouterr().out)


def test_the_status_of_what_was_deployed_is_camel_case(capsys: pytest.CaptureFixture[str]) -> None:
    async def story(town: Town) -> None:
        await town.apply(short_file(inference(), store()))
        capsys.readouterr()
        await town.status(format="json")

    play(story)
    holds(capsys.readouterr().out)


def test_every_command_with_json_is_tried_here() -> None:
    tried = {words[0] for words in (*WITHOUT_A_CLUSTER.values(), *IN_A_CLUSTER.values())}
    offers = set()
    for file in TOOLS.glob("*/command.py"):
        if "add_output(" in file.read_text("utf-8"):
            offers.add(file.parent.name)
    assert offers == {*tried, "deploy"}
