"""The reference pages and the code say the same."""

from __future__ import annotations

import re
from pathlib import Path

from scaler.decide.world import Reason, Warning
from scaler.report.events import NEEDS_ATTENTION
from scaler.report.status import status_document
from tests.report.fakes import report

REFERENCE = Path(__file__).parents[2] / "docs/reference"
REASONS = (REFERENCE / "reasons.md").read_text()


def test_every_reason_is_explained_with_the_type_of_its_event() -> None:
    explained = re.findall(r"^\| `(\w+)` \|.*\| (Normal|Warning) \|", REASONS, re.MULTILINE)
    types = {reason.value: "Warning" if reason in NEEDS_ATTENTION else "Normal" for reason in Reason}
    assert dict(explained) == types
    assert len(explained) == len(types)


def test_every_warning_is_explained() -> None:
    (table,) = re.findall(r"^\| warning \|.*", REASONS, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"`(\w+)`", table.replace("`server_num_per_group`", "").replace("`scaler lint`", ""))) == {
        warning.value for warning in Warning
    }


def test_every_field_of_the_status_document_is_explained() -> None:
    page = (REFERENCE / "status.md").read_text()
    document = status_document([report("1P", "p0 Held")])
    (service,) = document["services"]
    fields = [*document, *document["rule"], *service, *service["instances"][0], *service["groups"]["group0"]]
    fields += service["arbitration"]
    assert [field for field in fields if not re.search(rf"`[^`]*\b{field}\b[^`]*`", page)] == []
