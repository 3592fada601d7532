"""The documentation of the rule says what the code does."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from scaler.names import PREFIX
from scaler.rules.document import read_options
from scaler.tools.common.render import render
from scaler.tools.lint.files import lint
from scaler.tools.lint.source import Source
from scaler.tools.lint.workloads import KINDS

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference" / "rule.md"
HOWTO = ROOT / "docs" / "howto" / "write-a-rule.md"
CODE = re.compile(r"[A-Z][a-zA-Z]*[a-z][A-Z0-9][a-zA-Z0-9]*")
NOT_CODES = {"ConfigMap", "CSafeLoader", "AllWorkers", "ControllerRevision", *KINDS}

HIDDEN_BRACE = """apiVersion: v1
kind: ConfigMap
metadata: {name: scaling-rule}
data:
  elastic_scaling.json: |
    {"version": "1.0",
      "elastic_scaling_list": [{
          "group_list": [   # Job ratio state   {
          "group_name": "group0", "group_num": "2", "server_num_per_group": "1"}]}]}
"""


def block(document: Path, language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", document.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def codes_in_the_source() -> set[str]:
    rooms = (ROOT / "scaler" / "rules", ROOT / "scaler" / "tools" / "lint")
    modules = [module for room in rooms for module in room.glob("*.py")]
    common = ROOT / "scaler" / "tools" / "common"
    modules += [common / "manifest.py", common / "slips.py"]
    trees = [ast.parse(module.read_text()) for module in modules]
    texts = [
        node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)
    ]
    return {text for text in texts if isinstance(text, str) and CODE.fullmatch(text)} - NOT_CODES


def test_every_code_is_documented_and_nothing_else() -> None:
    rows = [
        line.split("|")[1] for line in REFERENCE.read_text().splitlines() if line.startswith("| `")
    ]
    documented = {
        code for row in rows for code in re.findall(r"`(\w+)`", row) if CODE.fullmatch(code)
    }
    assert documented == codes_in_the_source()


def test_every_annotation_is_documented() -> None:
    _, (warning,) = read_options({PREFIX + "nothing": ""})
    known = set(re.findall(r"mind-cluster/[a-z-]+", warning.hint))
    rows = [line for line in REFERENCE.read_text().splitlines() if line.startswith(f"| `{PREFIX}")]
    assert {row.split("`")[1] for row in rows} == known


def test_the_printed_rules_are_clean() -> None:
    for document, language in ((REFERENCE, "json"), (HOWTO, "yaml")):
        report = lint([Source(document.name, block(document, language).encode())])
        assert (report.rules, report.findings) == (1, [])


def test_the_printed_answer_is_the_answer() -> None:
    report = lint([Source("rule.yaml", HIDDEN_BRACE.encode())])
    assert render(report.findings, {"rule.yaml": HIDDEN_BRACE}, color=False) == block(HOWTO, "text")
