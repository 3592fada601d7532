"""The reference pages and the code say the same."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from reason_pages import written

from scaler.reasons.reasons import Reason
from scaler.reasons.warnings import Warning

REFERENCE = Path(__file__).parents[2] / "docs/reference"
REASONS = (REFERENCE / "reasons.md").read_text()


def test_every_reason_is_explained_with_the_type_of_its_event() -> None:
    explained = re.findall(r"^\| `(\w+)` \|.*\| (Normal|Warning) \|", REASONS, re.MULTILINE)
    types = {reason.value: "Warning" if reason.row.warns else "Normal" for reason in Reason}
    assert dict(explained) == types
    assert len(explained) == len(types)


def test_the_pages_and_the_alert_say_what_the_rows_say() -> None:
    for path, text in written().items():
        assert (REFERENCE.parents[1] / path).read_text("utf-8") == text, "run: make generated"


def test_every_warning_is_explained() -> None:
    (table,) = re.findall(r"^\| warning \|.*", REASONS, re.MULTILINE | re.DOTALL)
    first_cells = re.findall(r"^\|([^|]*)\|", table, re.MULTILINE)
    explained = {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}
    assert explained == {warning.value for warning in Warning}


def test_every_field_of_the_status_document_is_explained() -> None:
    page = (REFERENCE / "status.md").read_text()
    definition = yaml.safe_load(
        (REFERENCE.parents[1] / "manifests/base/elasticservices.yaml").read_text()
    )
    (version,) = definition["spec"]["versions"]
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    parts = [
        status,
        *(status[name].get("items", status[name]).get("properties", {}) for name in status),
    ]
    fields = [field for part in parts for field in part]
    assert "currentRatio" in fields
    assert "inForce" in fields
    assert [field for field in fields if not re.search(rf"`[^`]*\b{field}\b[^`]*`", page)] == []
