"""The patches by their own standards: the examples of the RFCs, and strategic merges as kubectl
sends them."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.kube.errors import BadRequestError, InvalidError
from scaler.sim.apiserver.patches import json_patch, merge_patch, strategic_merge


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_follows_the_examples_of_rfc_7386(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result


@pytest.mark.parametrize(
    ("document", "operation", "result"),
    [
        (
            {"foo": "bar"},
            {"op": "add", "path": "/baz", "value": "qux"},
            {"foo": "bar", "baz": "qux"},
        ),
        ({"foo": [1, 3]}, {"op": "add", "path": "/foo/1", "value": 2}, {"foo": [1, 2, 3]}),
        ({"foo": [1]}, {"op": "add", "path": "/foo/-", "value": [2]}, {"foo": [1, [2]]}),
        ({"a": 1, "b": 2}, {"op": "remove", "path": "/a"}, {"b": 2}),
        ({"foo": [1, 2, 3]}, {"op": "remove", "path": "/foo/1"}, {"foo": [1, 3]}),
        ({"foo": [1, 2]}, {"op": "replace", "path": "/foo/0", "value": 7}, {"foo": [7, 2]}),
        (
            {"a": {"b": 1}, "c": {}},
            {"op": "move", "from": "/a/b", "path": "/c/d"},
            {"a": {}, "c": {"d": 1}},
        ),
        (
            {"a": {"b": 1}},
            {"op": "copy", "from": "/a", "path": "/c"},
            {"a": {"b": 1}, "c": {"b": 1}},
        ),
        ({"/": 9, "~1": 10}, {"op": "test", "path": "/~01", "value": 10}, {"/": 9, "~1": 10}),
        ({"a": 1}, {"op": "replace", "path": "", "value": {"b": 2}}, {"b": 2}),
    ],
)
def test_json_patch_follows_the_examples_of_rfc_6902(
    document: Any, operation: Any, result: Any
) -> None:
    assert json_patch(document, [operation]) == result


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/foo/9", "value": 1},
        {"op": "add", "path": "/foo/01x", "value": 1},
        {"op": "remove", "path": "/none"},
        {"op": "remove", "path": "/foo/-"},
        {"op": "test", "path": "/foo/0", "value": True},
        {"op": "move", "from": "/foo", "path": "/foo/0"},
        {"op": "add", "path": "foo", "value": 1},
    ],
)
def test_json_patch_that_cannot_be_carried_out_is_invalid(operation: Any) -> None:
    document = {"foo": [1, 2]}
    with pytest.raises(InvalidError):
        json_patch(document, [{"op": "add", "path": "/foo/0", "value": 0}, operation])
    assert document == {"foo": [1, 2]}


def test_strategic_patch_obeys_its_directives() -> None:
    spec = {
        "containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}, {"name": "b"}],
        "tolerations": [{"k": 1}],
    }
    patch = {
        "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
        "containers": [
            {"name": "b", "$patch": "delete"},
            {"name": "a", "env": [{"name": "X", "$patch": "delete"}, {"name": "Y", "value": "2"}]},
            {"name": "c", "ports": [{"containerPort": 80}]},
        ],
        "tolerations": [{"k": 2}],
    }
    assert strategic_merge(spec, patch) == {
        "containers": [
            {"name": "c", "ports": [{"containerPort": 80}]},
            {"name": "a", "env": [{"name": "Y", "value": "2"}]},
        ],
        "tolerations": [{"k": 2}],
    }
    assert strategic_merge({"a": {"b": 1, "c": 2}}, {"a": {"$patch": "replace", "d": 3}}) == {
        "a": {"d": 3}
    }
    assert strategic_merge({"a": {"b": 1, "c": 2}}, {"a": {"$retainKeys": ["c"], "c": 3}}) == {
        "a": {"c": 3}
    }
    assert strategic_merge(
        {"finalizers": ["a", "b"]}, {"$deleteFromPrimitiveList/finalizers": ["a"]}
    ) == {"finalizers": ["b"]}


@pytest.mark.parametrize("patch", [{"containers": [{"image": "x"}]}, {"$patch": "invent"}])
def test_strategic_patch_without_key_or_with_an_unknown_directive_is_refused(patch: Any) -> None:
    with pytest.raises(BadRequestError):
        strategic_merge({"containers": []}, patch)
