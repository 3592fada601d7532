from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.kube.api import ASCEND_JOBS, NODES, PODS, Resource
from scaler.kube.errors import LONGEST_RETRY_AFTER, KubeError, UnknownOutcomeError
from scaler.kube.wire import (
    CUT,
    DEEPEST,
    EventDecoder,
    LineSplitter,
    cut_off,
    decode_object,
    decode_page,
    path_of,
    query_of,
    refusal,
)
from scaler.sim.loop import run


@pytest.mark.parametrize(
    ("resource", "namespace", "name", "subresource", "path"),
    [
        (PODS, None, "", "", "/api/v1/pods"),
        (PODS, "ns", "p", "status", "/api/v1/namespaces/ns/pods/p/status"),
        (NODES, None, "n", "", "/api/v1/nodes/n"),
        (
            ASCEND_JOBS,
            "ns",
            "a b?/../c",
            "",
            "/apis/mindxdl.gitee.com/v1/namespaces/ns/ascendjobs/a%20b%3F%2F..%2Fc",
        ),
    ],
)
def test_paths_are_those_of_the_api_server(
    resource: Resource, namespace: str | None, name: str, subresource: str, path: str
) -> None:
    assert path_of(resource, namespace, name, subresource) == path


def test_empty_parameters_are_left_out_of_a_query() -> None:
    assert (
        query_of({"limit": 0, "continue": "", "labelSelector": "a in (b,c)"})
        == "?labelSelector=a+in+%28b%2Cc%29"
    )
    assert query_of({"limit": 0}) == ""


@given(
    st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b""))),
    st.binary(),
    st.data(),
)
def test_lines_are_the_same_however_the_stream_is_cut(
    lines: list[bytes], rest: bytes, data: st.DataObject
) -> None:
    rest = rest.replace(b"\n", b"")
    whole = b"".join(line + b"\n" for line in lines) + rest
    splitter = LineSplitter()
    found: list[bytes] = []
    while whole:
        size = data.draw(st.integers(1, len(whole)))
        found += map(bytes, splitter.feed(whole[:size]))
        whole = whole[size:]
    assert found == [line for line in lines if line]
    assert splitter.rest == len(rest)


def test_a_line_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.kube.wire.LONGEST_LINE", 100)
    splitter = LineSplitter()
    splitter.feed(b"x" * 100)
    with pytest.raises(UnknownOutcomeError):
        splitter.feed(b"x")


DECODERS = [
    lambda data: run(decode_page(data, PODS, dict)),
    lambda data: run(EventDecoder(dict)(data)),
    decode_object,
]


@given(st.binary().filter(lambda data: data.strip() != b"{}"), st.sampled_from(DECODERS))
def test_no_bytes_bring_anything_but_an_error_of_the_seam(
    data: bytes, decode: Callable[[bytes], object]
) -> None:
    with pytest.raises(UnknownOutcomeError):
        decode(data)


Json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.sampled_from(["code", "reason", "message", "details"]), inner)
    ),
)


@given(st.integers(100, 599), Json, st.none() | st.text())
def test_any_answer_that_is_no_success_becomes_an_error(
    code: int, body: object, retry_after: str | None
) -> None:
    error = refusal(code, "Words", msgspec.json.encode(body), retry_after)
    assert isinstance(error, KubeError)
    assert isinstance(error, UnknownOutcomeError) == (code >= 500 or code < 400)
    assert error.retry_after is None or 0.0 <= error.retry_after <= LONGEST_RETRY_AFTER


@pytest.mark.parametrize("header", [None, "9" * 5_000])
@pytest.mark.parametrize("seconds", ["-1", "9" * 18, "9" * 30, "9" * 400, "1e308"])
def test_nobody_can_ask_for_a_pause_longer_than_some_minutes(
    header: str | None, seconds: str
) -> None:
    body = b'{"code": 429, "details": {"retryAfterSeconds": %s}}' % seconds.encode()
    error = refusal(429, "Too Many Requests", body, header)
    assert error.retry_after is None or 0.0 <= error.retry_after <= LONGEST_RETRY_AFTER


DEEP = b'{"a":' * 100_000 + b"1" + b"}" * 100_000


def item(name: str, spec: bytes = b"{}") -> bytes:
    metadata = (
        b'{"name":"%s","namespace":"ns","uid":"u","resourceVersion":"7","labels":{"l":"x"}}'
        % name.encode()
    )
    return b'{"metadata":' + metadata + b',"spec":' + spec + b"}"


def page(*items: bytes) -> bytes:
    return (
        b'{"metadata":{"resourceVersion":"9","continue":"t"},"items":[' + b",".join(items) + b"]}"
    )


@pytest.mark.parametrize(
    "spec", [DEEP, b"[" * 20_000 + b"]" * 20_000, b'{"a":"\\"{"' + b',"b":' + DEEP + b"}"]
)
def test_an_object_that_is_nested_too_deep_costs_its_page_nothing_else(spec: bytes) -> None:
    found = run(
        decode_page(page(item("a"), item("odd", spec), item("z", b'{"x":"{[\\""}')), PODS, dict)
    )
    assert [one["metadata"]["name"] for one in found.items] == ["a", "z"]
    assert (found.resource_version, found.continue_token) == ("9", "t")
    (refused,) = found.refused
    assert (refused.namespace, refused.name, refused.uid, refused.resource_version) == (
        "ns",
        "odd",
        "u",
        "7",
    )
    assert refused.labels == {"l": "x"}
    assert refused.why


def test_an_event_whose_object_is_nested_too_deep_says_which_object_it_is() -> None:
    line = b'{"type":"MODIFIED","object":' + item("odd", DEEP) + b"}"
    event = run(EventDecoder(dict)(line))
    assert (event.type.value, event.object, event.resource_version) == ("MODIFIED", None, "7")
    assert event.refused is not None
    assert event.refused.name == "odd"


def test_an_event_with_metadata_of_another_shape_has_no_version() -> None:
    event = run(EventDecoder(dict)(b'{"type":"ADDED","object":{"metadata":"text"}}'))
    assert (event.object, event.resource_version) == ({"metadata": "text"}, "")


def test_a_page_that_is_too_large_for_one_go_is_the_same_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = page(*(item(f"p{number}") for number in range(20)))
    at_once = run(decode_page(whole, PODS, dict))
    monkeypatch.setattr("scaler.kube.wire.AT_ONCE", 0)
    assert run(decode_page(whole, PODS, dict)) == at_once


@given(Json)
def test_nothing_is_cut_off_what_is_shallow(value: object) -> None:
    data = msgspec.json.encode(value)
    assert run(cut_off(data)) == data


@pytest.mark.parametrize("levels", [DEEPEST - 1, DEEPEST, DEEPEST + 1, 5000])
def test_what_is_cut_off_leaves_json_behind(levels: int) -> None:
    data = b'[{"k":' * (levels // 2) + b'"}]"' + b"}]" * (levels // 2)
    left = run(cut_off(b'{"x":1,"deep":' + data + b',"y":"[{"}'))
    assert {**msgspec.json.decode(left), "deep": 0} == {"x": 1, "deep": 0, "y": "[{"}
    assert (CUT in left) == (levels >= DEEPEST)
