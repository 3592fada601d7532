from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scaler.tools.common import manifest
from scaler.tools.common.manifest import Value, objects

plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1000, 1000)
    | st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=3)
    ),
    max_leaves=10,
)


def read(text: str) -> tuple[list[Any], list[str]]:
    found, findings = objects(text, "f", alone=True)
    return [plain(one.root) for one in found], [
        f"{finding.line}:{finding.column} {finding.message}" for finding in findings
    ]


def plain(value: Value) -> Any:
    if value.kind == "mapping":
        return {key.text: plain(member) for key, member in value.members}
    if value.kind == "list":
        return [plain(item) for item in value.items]
    return yaml.SafeLoader("").construct_object(yaml.ScalarNode(value.tag, value.text))


@given(
    st.dictionaries(st.text("xyz", min_size=1, max_size=3), plain_values, max_size=4), st.booleans()
)
def test_manifests_are_read_as_yaml_reads_them(said: dict[str, Any], flow: bool) -> None:
    text = yaml.safe_dump(said, default_flow_style=flow, allow_unicode=True)
    assert read(text) == ([said], [])


@given(st.text() | st.text(st.sampled_from("{}[]:,-?&*!|>'\"%@`# \n\tab"), max_size=40))
def test_any_text_is_read_or_has_a_finding(text: str) -> None:
    found, findings = objects(text, "f", alone=True)
    assert all(one.root.kind == "mapping" for one in found)
    assert all(finding.code == "NotYaml" for finding in findings)


def test_deep_nesting_is_a_finding_and_not_the_end_of_the_process() -> None:
    for text in ("[" * 100_000, "- " * 100_000, "{a: " * 100_000):
        found, findings = read("kind: List\nitems:\n  " + text)
        assert found == []
        assert "nested more than" in findings[0]


def test_several_documents_and_lists_give_their_objects_one_by_one() -> None:
    text = "kind: A\n---\nkind: List\nitems:\n- kind: B\n- kind: C\n---\n"
    assert read(text) == ([{"kind": "A"}, {"kind": "B"}, {"kind": "C"}], [])


def test_what_stands_before_a_broken_document_is_still_read() -> None:
    found, findings = read("kind: A\n---\nkind: B\nbad：1\nlabels: {}\n")
    assert found == [{"kind": "A"}]
    assert len(findings) == 1


def test_without_libyaml_the_same_is_read_at_the_same_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = ["a: &x [1, 'é']\nb: *x\n---\nc: |\n  二\n", "a:\n\t- b\n", "- " * 50, "a: [\n", "\x00"]
    fast = [objects(text, "f", alone=True) for text in texts]
    monkeypatch.setattr(manifest, "_LOADER", yaml.SafeLoader)
    for text, (found, findings) in zip(texts, fast, strict=True):
        slowly, slow_findings = objects(text, "f", alone=True)
        assert [one.root for one in slowly] == [one.root for one in found]
        assert [finding.code for finding in slow_findings] == [finding.code for finding in findings]


def test_tabs_and_full_width_colons_are_named_as_the_cause() -> None:
    _, tabs = objects("data:\n  a: |\n\tx\n", "f", alone=True)
    _, colon = objects("a:\n  b：1\n  c: 2\n", "f", alone=True)
    assert "tabs" in tabs[0].hint
    assert "U+FF1A" in colon[0].message


def test_anchors_stand_for_what_they_name_and_recursion_does_not_hang() -> None:
    assert read("a: &x {b: 1}\nc: *x\n") == ([{"a": {"b": 1}, "c": {"b": 1}}], [])
    found, _ = objects("a: &x [*x]\n", "f", alone=True)
    assert found[0].root.get("a") is not None
