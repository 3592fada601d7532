"""The Helm chart as files: written out of the kustomizations, one version, and every value said and
checked.

What Helm makes of it is compared with kustomize in tests/control_plane/test_helm.py."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest
import yaml

import scaler
from scaler.settings import Settings

ROOT = Path(__file__).parent.parent
CHART = ROOT / "manifests" / "helm"
VALUES = (CHART / "values.yaml").read_text("utf-8")
SCHEMA = json.loads((CHART / "values.schema.json").read_text("utf-8"))
BY_HAND = {"_helpers.tpl", "checks.yaml", "NOTES.txt"}


def chart() -> ModuleType:
    """The program of `make chart`."""
    sys.path.insert(0, str(ROOT / ".ci"))
    try:
        spec = importlib.util.spec_from_file_location("chart", ROOT / ".ci" / "chart.py")
        assert spec is not None
        assert spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
    finally:
        sys.path.remove(str(ROOT / ".ci"))
    return made


def test_writing_the_chart_again_changes_nothing() -> None:
    files = chart().written(ROOT)
    changed = {name for name, text in files.items() if (ROOT / name).read_text("utf-8") != text}
    assert changed == set(), "run `make chart`"


def test_no_template_is_left_of_what_is_no_longer_a_manifest() -> None:
    there = {
        path
        for path in (CHART / "templates").rglob("*")
        if path.is_file() and path.name not in BY_HAND
    }
    assert {str(path.relative_to(ROOT)) for path in there} <= chart().written(ROOT).keys()


def test_a_manifest_that_no_longer_has_what_is_replaced_is_named() -> None:
    program = chart()
    (part,) = (part for part in program.PARTS if part.source == "base/deployment.yaml")
    text = (ROOT / "manifests" / part.source).read_text("utf-8")
    with pytest.raises(
        program.ChartError, match=r"manifests/base/deployment\.yaml has 0 times .* replicas: 2"
    ):
        program.template(part, text.replace("replicas: 2", "replicas: 3"))


def test_every_manifest_that_a_kustomization_has_is_in_the_chart() -> None:
    program = chart()
    apart = {"examples", "follow-the-load", "helm", "second-install", "shadow"}
    """Not parts of an install; and others of base under another name."""
    there = {
        str(path.relative_to(ROOT / "manifests"))
        for path in (ROOT / "manifests").rglob("*.yaml")
        if path.name != "kustomization.yaml"
        and path.relative_to(ROOT / "manifests").parts[0] not in apart
    }
    # two of cluster-wide's
    assert there - {part.source for part in program.PARTS} == {"gates-only/bindings.yaml"}


def test_chart_image_and_program_have_one_version() -> None:
    described = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (described["version"], described["appVersion"]) == (
        scaler.__version__,
        scaler.__version__,
    )
    assert yaml.safe_load(VALUES)["image"]["tag"] == ""
    for path in (ROOT / "manifests").rglob("kustomization.yaml"):
        found = re.findall(r"newTag: (\S+)", path.read_text())
        assert set(found) <= {scaler.__version__}, path
    assert (
        f'image.version="{scaler.__version__}"' in (ROOT / "manifests/image/Dockerfile").read_text()
    )


WHOLE = ("resources", "settings", "affinity", "issuerRef", "namespaceSelector")
"""Values that are given whole, as in an object of Kubernetes."""


def leaves(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """The values that a schema knows, as in `image.tag`."""
    for name, inner in schema["properties"].items():
        place = f"{path}{name}"
        if inner.get("properties") and name not in WHOLE:
            yield from leaves(inner, f"{place}.")
        elif name != "global":
            yield place


def test_the_defaults_fit_the_schema_and_every_value_has_a_comment() -> None:
    jsonschema.validate(yaml.safe_load(VALUES), SCHEMA)
    described = re.findall(r"^\| `([A-Za-z.]+)` \|", chart().values_table(VALUES), re.MULTILINE)
    assert sorted(described) == sorted(leaves(SCHEMA))


def test_a_value_that_nobody_knows_is_refused_wherever_it_stands() -> None:
    def objects(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if "properties" in schema:
            yield schema
            for inner in schema["properties"].values():
                yield from objects(inner)

    found = list(objects(SCHEMA))
    assert len(found) > 5
    assert [schema for schema in found if schema["additionalProperties"] is not False] == []


def test_every_setting_is_a_value_or_follows_from_others() -> None:
    assert {*SCHEMA["properties"]["settings"]["properties"], *chart().OF_THE_CHART} == {
        *Settings.model_fields
    }


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"settings": {"broken_grase": 120}}, "settings"),
        ({"settings": {"broken_grace": "soon"}}, "settings/broken_grace"),
        ({"settings": {"broken_grace": -1}}, "settings/broken_grace"),
        ({"settings": {"preempt": "always"}}, "settings/preempt"),
        ({"admission": {"by": "Webhook"}}, "admission"),
        ({"namespace": "a b"}, "namespace"),
        ({"namespace": "{{ evil }}"}, "namespace"),
        ({"namespace": "true"}, "namespace"),
        ({"nameSuffix": "team-a"}, "nameSuffix"),
        ({"namespaces": "mindie"}, "namespaces"),
        ({"replicas": 0}, "replicas"),
    ],
)
def test_a_wrong_value_is_refused_where_it_stands(values: dict[str, Any], place: str) -> None:
    whole = {**yaml.safe_load(VALUES), **values}
    (problem,) = list(jsonschema.Draft7Validator(SCHEMA).iter_errors(whole))[:1]
    assert "/".join(str(part) for part in problem.absolute_path).startswith(place)
