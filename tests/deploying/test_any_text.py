"""Whatever text is given: a service, or mistakes with places in the text; never anything else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from scaler.tools.common.short_file.config import File, json_schema
from scaler.tools.common.short_file.service import ConfigError, Service, read_service
from tests.deploying.test_findings import MOTOR, OME, STORM

ROOT = Path(__file__).parent.parent.parent
TEXTS = [
    path.read_text("utf-8")
    for path in sorted((Path(__file__).parent / "examples").glob("*/config.yaml"))
]
WORDS = st.sampled_from(
    [
        "on",
        "null",
        "~",
        "0x10",
        "1e3",
        "2P1D",
        "[]",
        "{}",
        "*x",
        "&x ",
        "<<: ",
        "!!python/object:os.system x",
        "- ",
        ": ",
        "\t",
        "\x00",
        "：",
        "9" * 400,
        "-1",
        "1_000",
        "12:30",
        "2024-01-01",
        '"',
        "'",
        "|",
        "%YAML 1.1\n",
        "---\n",
        "\n",
        "\u2028",
        "prefill",
        "decode: ",
        "ratios: [",
        "}",
        "engine:",
        "labels: {a: b}",
        "é",
        "{x: {y: {z: 1}}}",
    ]
)


@st.composite
def spoilt(draw: st.DrawFn) -> str:
    """A right file with a few pieces cut out and others put in."""
    text = draw(st.sampled_from([*TEXTS, OME, STORM, MOTOR]))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        text = (
            text[:start]
            + draw(WORDS | st.text(max_size=5))
            + text[start + draw(st.integers(0, 6)) :]
        )
    return text


def read(text: str | bytes) -> Service | ConfigError:
    try:
        return read_service(text)
    except ConfigError as error:
        return error


def judge(text: str | bytes) -> None:
    found = read(text)
    if isinstance(found, ConfigError):
        decoded = text if isinstance(text, str) else text.decode("utf-8", "replace")
        lines = len(decoded.splitlines()) + 1
        assert found.findings
        assert [
            one
            for one in found.findings
            if not (1 <= one.line <= lines and one.column >= 1 and one.message)
        ] == []
        assert len(str(found).splitlines()) == len(found.findings)
        return
    names = [obj["metadata"]["name"] for obj in found.objects] + [found.name, found.namespace]
    assert [name for name in names if not (isinstance(name, str) and name)] == []
    assert json.loads(json.dumps(found.objects)) == list(found.objects)
    kinds = [(obj["kind"], obj["metadata"]["name"]) for obj in found.objects]
    assert len(set(kinds)) == len(kinds)
    assert read(text) == found


@given(spoilt())
def test_a_spoilt_file_is_a_service_or_has_mistakes_with_places(text: str) -> None:
    judge(text)


@given(st.text(max_size=200) | st.binary(max_size=200))
def test_any_text_is_a_service_or_has_mistakes_with_places(text: str | bytes) -> None:
    judge(text)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 70)
    | st.sampled_from(["a", "2", "i:1", "/m", "true", "", "x y", 1.5])
)
KEYS = st.sampled_from(
    sorted(
        {
            *File.model_fields,
            "model_name",
            "model_path",
            "engine",
            "decoder",
            "prefill",
            "decode",
            "image",
            "replicas",
            "min_replicas",
            "max_replicas",
            "pod_num",
            "npu_num",
            "podGroupSize",
            "labels",
            "env_vars",
            "dp_size",
        }
    )
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)


@given(st.dictionaries(KEYS, VALUES, max_size=6))
def test_any_values_are_a_service_or_have_mistakes_with_places(config: dict[str, Any]) -> None:
    judge(yaml.safe_dump({"app_name": "a", **config}, sort_keys=False))


def test_the_schema_in_the_repository_is_fresh() -> None:
    fresh = json.dumps(json_schema(), indent=2) + "\n"
    assert (ROOT / "schemas" / "service.schema.json").read_text() == fresh, "run: make generated"


def test_every_key_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "service-file.md").read_text("utf-8")
    parts = [json_schema(), *json_schema()["$defs"].values()]
    keys = {key for part in parts for key in part["properties"]}
    assert sorted(key for key in keys if f"`{key}`" not in page) == []


def test_the_schema_accepts_right_files() -> None:
    validator = Draft202012Validator(json_schema())
    errors = [
        error.message
        for text in [*TEXTS, OME, STORM, MOTOR]
        for error in validator.iter_errors(yaml.safe_load(text))
    ]
    assert errors == []


def test_the_schema_refuses_what_it_can() -> None:
    validator = Draft202012Validator(json_schema())
    wrong = [
        OME.replace("engine", "engin"),
        OME.replace("app_name: a", "app_name: 7"),
        f"{OME}    npu_num: 17\n",
    ]
    assert [bool(list(validator.iter_errors(yaml.safe_load(text)))) for text in wrong] == [True] * 3
