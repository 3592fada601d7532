"""What `scaler why` says in Chinese: every sentence of its checks, with the same numbers and
names."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from scaler.decide.nodes import PODS, PodRequest, Where
from scaler.decide.room.shortage import Shortage
from scaler.kube.api import NODES, PatchType
from scaler.reasons import checks
from scaler.reasons.said import Said
from scaler.reasons.words import with_meaning
from scaler.sim.loop import run
from scaler.tools.common import diagnosis
from scaler.tools.common.language import spoken
from scaler.tools.why import answer as answers
from scaler.tools.why.answer import Answer, document
from scaler.tools.why.shortage_words import in_both
from tests.commands.test_why import asked, in_chinese, on_nodes
from tests.commands.test_why_advice import chat
from tests.jobs import rule_config_map, rule_document
from tests.rig import rig

ROWS = {name: row for name, row in vars(checks).items() if isinstance(row, Said)}
CODE = [*Path(answers.__file__).parent.glob("*.py"), Path(diagnosis.__file__)]
NPU = "huawei.com/Ascend910"


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_a_row_has_the_same_blanks_in_both_languages(row: Said) -> None:
    en, zh = (set(re.findall(r"\{\w+\}", text)) for text in row)
    assert en == zh or row == checks.OWN_WORDS
    assert not re.search(r"[\u4e00-\u9fff]", row.en)


def test_every_row_is_translated() -> None:
    same = {name for name, row in ROWS.items() if not re.search(r"[\u4e00-\u9fff]", row.zh)}
    assert same == {"COLON_WORDS", "OWN_WORDS", "REASON"}
    assert len(ROWS) > 90


@pytest.mark.parametrize("file", CODE, ids=lambda file: file.stem)
def test_every_check_is_made_of_rows(file: Path) -> None:
    """A `CheckResult` of bare text would be English on the Chinese page."""
    called = []
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called.append(node.func.id)
    assert "CheckResult" not in called


def test_the_scaler_s_own_words_stand_after_what_they_mean() -> None:
    said = with_meaning("CreateRefused", "exceeded quota: npu")
    assert said.en == "exceeded quota: npu"
    assert re.fullmatch(r".*[\u4e00-\u9fff].*（exceeded quota: npu）", said.zh)
    assert with_meaning("NoSuchName", "words") == Said("words", "words")


def request(**more: Any) -> PodRequest:
    return PodRequest(requests=((NPU, 8),), where=Where(selector=(("pool", "a"),)), **more)


@pytest.mark.parametrize(
    ("shortage", "zh"),
    [
        (Shortage(request(), 2, 1, NPU), f"需要 2 个节点，空闲 1；各需 8 空闲 {NPU} (pool=a)"),
        (
            Shortage(request(), 1, 0, NPU, away="npu-0 cordoned", undecided=True),
            f"空闲 0；npu-0 cordoned；需有 8 空闲 {NPU} (pool=a)；未尝试所有放置方案",
        ),
        (Shortage(request(), 3, 1, PODS), "可容纳 3 个 Pod 的资源，空闲 1"),
        (Shortage(request(), 3, 1, NPU, shared=True), "可容纳 3 个 Pod 的资源，空闲 1；"),
        (Shortage(request(), 3, 1, NPU, in_all=True), "需要 3 个节点，总共 1；"),
        (Shortage(request(), 2, 2, NPU, together=True), "没有能容纳全部的放置方案"),
        (Shortage(request(), 2, 0, NPU, unoffered=True), "没有节点提供该资源"),
        (Shortage(request(block=4), 1, 0, NPU), "每块为同一个超节点的 4 个节点"),
        (Shortage(request(block=4, tier=2), 1, 0, NPU), "每块 4 个 Pod，位于同一个 HyperNode"),
    ],
)
def test_a_shortage_has_the_same_numbers_in_both_languages(shortage: Shortage, zh: str) -> None:
    said = in_both(shortage)
    assert said.en == str(shortage)
    assert zh in said.zh
    assert set(re.findall(r"\d+", said.zh)) - set(re.findall(r"\d+", said.en)) == set()


def test_an_answer_in_chinese_has_the_same_numbers_and_commands() -> None:
    async def story() -> Answer:
        rule = rule_config_map(rule_document({"group0": 1, "group1": 1}))
        async with rig(rule, *on_nodes("a", 2)) as on:
            on.apply(chat("p0", "chat-7", "rule"), chat("d0", "chat-7", "rule"))
            await on.settle(2)
            cordon = {"spec": {"unschedulable": True}}
            await on.cluster.patch(NODES, None, "a-1", cordon, patch_type=PatchType.MERGE)
            await on.settle(5)
            return await asked(on, "chat-7")

    found = run(story())
    shown = in_chinese(found)
    assert "最小配比与资源" in shown
    assert "节点: 需要 2 个节点，空闲 1；a-1 cordoned；各需 8 空闲 huawei.com/Ascend910" in shown
    assert "下一步" in shown
    assert "kubectl uncordon a-1" in shown
    for section in document(found, "zh")["sections"]:
        for check in section["checks"]:
            assert re.search(r"[\u4e00-\u9fff]", check["words"]), check
    assert document(found)["sections"][0]["checks"][0]["words"] == found.sections[0].checks[0].text


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "de_DE.UTF-8", "LC_MESSAGES": "zh_TW"}, "zh"),
        ({"LC_ALL": "", "LANG": "zh_CN"}, "zh"),
    ],
)
def test_a_terminal_is_answered_in_its_language(environment: dict[str, str], language: str) -> None:
    assert spoken(environment) == language
