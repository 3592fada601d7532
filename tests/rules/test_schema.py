from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given

from scaler.rules.model import shape_errors
from scaler.rules.shape import UNKNOWN, has_the_shape
from scaler.tools.lint.document import json_schema
from tests.jobs import document, group
from tests.rules.documents import TWO_TO_ONE, good_documents, odd_documents

CHECKED_IN = Path(__file__).parents[2] / "schemas" / "elastic_scaling.schema.json"
VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def test_the_schema_in_the_repository_is_what_the_model_gives() -> None:
    assert CHECKED_IN.read_text() == json.dumps(json_schema(), indent=2) + "\n", (
        "run: make generated"
    )


def test_the_schema_is_a_valid_one_and_accepts_a_plain_rule() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    assert VALIDATOR.is_valid(json.loads(TWO_TO_ONE))


@given(odd_documents)
@example(document() | {"elastic_scaling_list": [{"group_list": [group("a", "1\n")]}]})
def test_jsonschema_and_pydantic_agree_on_any_document(said: Any) -> None:
    assert VALIDATOR.is_valid(said) == all(error["type"] == UNKNOWN for error in shape_errors(said))


@given(good_documents())
def test_jsonschema_and_pydantic_accept_good_documents(said: dict[str, Any]) -> None:
    assert VALIDATOR.is_valid(said)
    assert shape_errors(said) == []


@pytest.mark.parametrize("num", ["1\n", "01", "１", "1000001", "-1", 1, ""])
def test_both_refuse_what_is_no_plain_number(num: object) -> None:
    said = {"version": "1.0", "elastic_scaling_list": [{"group_list": [group("a", num)]}]}
    assert not VALIDATOR.is_valid(said)
    assert shape_errors(said)


@given(odd_documents)
def test_the_quick_look_passes_nothing_that_the_model_refuses(said: Any) -> None:
    assert not (has_the_shape(said) and shape_errors(said))


@given(good_documents())
def test_the_quick_look_passes_good_documents(said: dict[str, Any]) -> None:
    """The model takes 0.1 s to load: that is for those who have written something else."""
    assert has_the_shape(said) == (said.get("version", "1.0") == "1.0")
