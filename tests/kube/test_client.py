"""The client against a server that does everything wrong. Real sockets on loopback, deadlines of
milliseconds."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from scaler.kube import client, configuration, wire
from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    LEASES,
    NODES,
    PODS,
    Object,
    PatchType,
    Resource,
)
from scaler.kube.client import HttpKubeApi, connect
from scaler.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ExpiredError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    NotSentError,
    StatusError,
    TooManyRequestsError,
    UnauthorizedError,
    UnknownOutcomeError,
)
from tests.kube.raw_server import Answer, RawServer, raw, reply, reset, serving, silence, stream

HTML = b"<html><body>502 Bad Gateway</body></html>"
POD: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "resourceVersion": "7"}}


class Meta(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str = ""


class Thing(msgspec.Struct):
    metadata: Meta


class Unversioned(msgspec.Struct):
    spec: dict[str, int] = {}


def status(code: int, reason: str, **details: Any) -> Object:
    return {
        "kind": "Status",
        "code": code,
        "reason": reason,
        "message": "words",
        "details": details,
    }


def kubeconfig(folder: Path, server: str, **user: Any) -> str:
    path = folder / "config"
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


@asynccontextmanager
async def talking(
    folder: Path,
    *answers: Answer,
    answer_within: float = 5.0,
    silence_after: float = 5.0,
    **user: Any,
) -> AsyncIterator[tuple[HttpKubeApi, RawServer]]:
    async with (
        serving(*answers) as server,
        connect(
            kubeconfig=kubeconfig(folder, server.url, **user), request_timeout=answer_within
        ) as api,
    ):
        api.watch_silence = silence_after
        yield api, server


def line(kind: str, name: str, version: int, **more: Any) -> bytes:
    body = {
        "type": kind,
        "object": {"metadata": {"name": name, "resourceVersion": str(version)}, **more},
    }
    return msgspec.json.encode(body) + b"\n"


async def events_of(
    api: HttpKubeApi, decode: Any = Object
) -> tuple[list[tuple[str, str]], KubeError | None]:
    """What a watch brought (type, version) and the error that ended it."""
    seen = []
    try:
        async with aclosing(api.watch(PODS, "ns", resource_version="5", decode=decode)) as events:
            async for event in events:
                # Kept when an error ends it.
                seen.append((str(event.type), event.resource_version))
    except KubeError as error:
        return seen, error
    return seen, None


# What is told about each request


async def test_each_request_tells_how_long_it_took_and_what_time_the_server_says_it_is(
    tmp_path: Path,
) -> None:
    now = "Sun, 22 Nov 2026 11:00:00 GMT"
    answers = [
        reply(200, {"items": [], "metadata": {}}, Date=now),
        reply(200, POD, Date="soon"),
        reply(409, {}, Date=now),
        stream(line("ADDED", "a", 9)),
        silence,
    ]
    told: list[tuple[str, str, float | None]] = []

    def answered(verb: str, resource: Resource, seconds: float, date: float | None) -> None:
        assert 0 <= seconds < 5
        told.append((verb, resource.full_name, date))

    async with (
        serving(*answers) as server,
        connect(
            kubeconfig=kubeconfig(tmp_path, server.url), request_timeout=0.5, answered=answered
        ) as api,
    ):
        await api.list(PODS, "ns")
        await api.get(LEASES, "ns", "l")
        with pytest.raises(ConflictError):
            await api.create(PODS, "ns", POD)
        await events_of(api)
        with pytest.raises(UnknownOutcomeError):
            await api.delete(PODS, "ns", "p")
    assert told == [
        ("list", "pods", datetime(2026, 11, 22, 11, tzinfo=UTC).timestamp()),
        ("get", "leases.coordination.k8s.io", None),
        ("create", "pods", None),
        ("watch", "pods", None),
        ("delete", "pods", None),
    ]


# What is sent


async def test_requests_are_what_the_api_server_expects(tmp_path: Path) -> None:
    async with talking(tmp_path, reply(200, POD), token="secret") as (api, server):  # noqa: S106
        await api.get(PODS, "ns", "a/b")
        await api.create(CONFIG_MAPS, "ns", POD)
        await api.replace(LEASES, "ns", "l", POD)
        await api.patch(
            ASCEND_JOBS, "ns", "j", {"status": {}}, patch_type=PatchType.MERGE, subresource="status"
        )
        await api.delete(PODS, "ns", "p", uid="u", resource_version="7", grace_period_seconds=0)
        await api.get(NODES, None, "n")
    sent = [f"{request.method} {request.path}" for request in server.requests]
    assert sent == [
        "GET /api/v1/namespaces/ns/pods/a%2Fb",
        "POST /api/v1/namespaces/ns/configmaps",
        "PUT /apis/coordination.k8s.io/v1/namespaces/ns/leases/l",
        "PATCH /apis/mindxdl.gitee.com/v1/namespaces/ns/ascendjobs/j/status",
        "DELETE /api/v1/namespaces/ns/pods/p",
        "GET /api/v1/nodes/n",
    ]
    headers = server.requests[3].headers
    assert headers["content-type"] == "application/merge-patch+json"
    assert headers["authorization"] == "Bearer secret"
    assert headers["accept-encoding"] == "identity"
    assert headers["user-agent"].startswith("scaler/")
    assert server.requests[4].json["preconditions"] == {"uid": "u", "resourceVersion": "7"}
    assert server.requests[4].json["gracePeriodSeconds"] == 0


async def test_a_page_that_is_too_large_is_asked_for_again_with_fewer_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MOST_PAGE", 2_000)
    large, small = (
        {"metadata": {"resourceVersion": "9"}, "items": [POD] * number} for number in (100, 1)
    )
    async with talking(tmp_path, reply(200, large), reply(200, small), reply(200, small)) as (
        api,
        server,
    ):
        for _ in range(2):
            assert len((await api.list(PODS, limit=500)).items) == 1
    assert [request.path.partition("limit=")[2] for request in server.requests] == [
        "500",
        "62",
        "124",
    ]


async def test_one_object_that_is_larger_than_a_page_may_be_is_no_endless_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MOST_PAGE", 2_000)
    monkeypatch.setattr(wire, "LONGEST_LINE", 2_000)
    large = {"metadata": {"resourceVersion": "9"}, "items": [POD] * 100}
    async with talking(tmp_path, *[reply(200, large)] * 5) as (api, server):
        with pytest.raises(UnknownOutcomeError, match="more than 2000 bytes"):
            await api.list(PODS, limit=500)
    assert len(server.requests) == 4


async def test_lists_and_watches_carry_their_parameters(tmp_path: Path) -> None:
    page = {"metadata": {"resourceVersion": "9", "continue": "next"}, "items": [POD]}
    async with talking(tmp_path, reply(200, page), stream()) as (api, server):
        got = await api.list(
            PODS,
            label_selector="a=b,c",
            limit=500,
            continue_token="tok=",  # noqa: S106
            decode=Thing,
        )
        await events_of(api)
    assert (got.resource_version, got.continue_token) == ("9", "next")
    assert got.items == [Thing(Meta("p", "7"))]
    assert (
        server.requests[0].path == "/api/v1/pods?labelSelector=a%3Db%2Cc&limit=500&continue=tok%3D"
    )
    assert (
        server.requests[1].path == "/api/v1/namespaces/ns/pods?"
        "watch=true&allowWatchBookmarks=true&resourceVersion=5&timeoutSeconds=300"
    )


async def test_no_proxy_of_the_surroundings_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with talking(tmp_path, reply(200, POD)) as (api, _):
        assert await api.get(PODS, "ns", "p") == POD


# What is answered

REFUSALS = [
    (reply(404, status(404, "NotFound")), NotFoundError),
    (reply(404, b"404 page not found\n", content_type="text/plain"), NotFoundError),
    (reply(403, status(403, "Forbidden")), ForbiddenError),
    (reply(401, b"Unauthorized", content_type="text/plain"), UnauthorizedError),
    (reply(409, status(409, "Conflict")), ConflictError),
    (reply(409, status(409, "AlreadyExists")), AlreadyExistsError),
    (reply(410, status(410, "Expired")), ExpiredError),
    (reply(429, b"busy", content_type="text/plain", Retry_After="3"), TooManyRequestsError),
    (reply(418, b"", content_type="text/plain"), StatusError),
]
UNTRUSTED = [
    reply(500, status(500, "InternalError")),
    reply(503, status(503, "ServiceUnavailable", retryAfterSeconds=4)),
    reply(502, HTML, content_type="text/html"),
    reply(200, HTML, content_type="text/html"),
    reply(200, b"{", content_type="application/json"),
    reply(200, b"[]", content_type="application/json"),
    reply(301, b"", content_type="text/html", Location="https://elsewhere.invalid/"),
    raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"),
    raw(b"nonsense\r\n\r\n"),
    raw(),
    reset,
]


@pytest.mark.parametrize(
    ("answer", "error"), REFUSALS, ids=[error.__name__ for _, error in REFUSALS]
)
async def test_a_refusal_is_raised_as_what_it_means(
    tmp_path: Path, answer: Answer, error: type[KubeError]
) -> None:
    async with talking(tmp_path, answer) as (api, _):
        with pytest.raises(error):
            await api.create(PODS, "ns", POD)


@pytest.mark.parametrize("answer", UNTRUSTED, ids=range(len(UNTRUSTED)))
async def test_whatever_else_comes_back_is_an_unknown_outcome(
    tmp_path: Path, answer: Answer
) -> None:
    async with talking(tmp_path, answer) as (api, server):
        with pytest.raises(UnknownOutcomeError):
            await api.create(PODS, "ns", POD)
        with pytest.raises(UnknownOutcomeError):
            await api.list(PODS, "ns")
    assert [request.method for request in server.requests].count("POST") == 1


async def test_retry_after_is_read_from_header_and_status(tmp_path: Path) -> None:
    answers = [
        REFUSALS[7][0],
        UNTRUSTED[1],
        reply(429, status(429, "TooManyRequests"), Retry_After="soon"),
    ]
    async with talking(tmp_path, *answers) as (api, _):
        waits = []
        for _answer in answers:
            with pytest.raises(KubeError) as caught:
                await api.get(PODS, "ns", "p")
            waits.append(caught.value.retry_after)
    assert waits == [3.0, 4.0, None]


async def test_a_hung_call_ends_with_its_deadline(tmp_path: Path) -> None:
    async with talking(tmp_path, silence, answer_within=0.05) as (api, _):
        with pytest.raises(UnknownOutcomeError):
            await api.create(PODS, "ns", POD)
        _, error = await events_of(api)
        assert isinstance(error, UnknownOutcomeError)


async def test_a_refused_connection_is_certain_to_have_had_no_effect(tmp_path: Path) -> None:
    async with connect(
        kubeconfig=kubeconfig(tmp_path, "http://127.0.0.1:1"), request_timeout=5.0
    ) as api:
        with pytest.raises(NotSentError):
            await api.create(PODS, "ns", POD)
        _, error = await events_of(api)
        assert isinstance(error, NotSentError)


async def test_one_odd_item_does_not_hide_the_others(tmp_path: Path) -> None:
    page = {
        "metadata": {"resourceVersion": "9"},
        "items": [{"metadata": {"name": 5}}, POD, {"metadata": None}],
    }
    async with talking(tmp_path, reply(200, page)) as (api, _):
        got = await api.list(PODS, decode=Thing)
    assert got.items == [Thing(Meta("p", "7"))]


# Watching


async def test_events_arrive_typed_with_their_versions_and_a_clean_end_just_ends(
    tmp_path: Path,
) -> None:
    lines = (
        line("ADDED", "a", 6)
        + line("MODIFIED", "a", 7)
        + line("DELETED", "a", 8)
        + line("BOOKMARK", "", 20)
    )
    expected = [("ADDED", "6"), ("MODIFIED", "7"), ("DELETED", "8"), ("BOOKMARK", "20")]
    for decode in (Object, Thing, Unversioned):
        async with talking(tmp_path, stream(lines)) as (api, _):
            assert await events_of(api, decode) == (expected, None)


async def test_events_may_be_cut_anywhere_into_chunks(tmp_path: Path) -> None:
    lines = line("ADDED", "a", 6) + line("MODIFIED", "a", 7)
    chunks = [lines[i : i + 7] for i in range(0, len(lines), 7)]
    async with talking(tmp_path, stream(*chunks)) as (api, _):
        assert await events_of(api) == ([("ADDED", "6"), ("MODIFIED", "7")], None)


async def test_an_event_may_be_larger_than_any_buffer(tmp_path: Path) -> None:
    huge = line("ADDED", "a", 6, data="x" * 6 * 2**20)
    async with talking(tmp_path, stream(huge, line("ADDED", "b", 7))) as (api, _):
        seen, error = await events_of(api)
    assert (seen, error) == ([("ADDED", "6"), ("ADDED", "7")], None)


async def test_an_event_that_is_not_understood_costs_its_object_only(tmp_path: Path) -> None:
    odd = b'{"type":"ADDED","object":{"metadata":{"name":5,"resourceVersion":"6"}}}\n'
    async with talking(tmp_path, stream(odd, line("ADDED", "b", 7))) as (api, _):
        assert await events_of(api, Thing) == ([("ADDED", "6"), ("ADDED", "7")], None)


def error_line(code: int, reason: str) -> bytes:
    return msgspec.json.encode({"type": "ERROR", "object": status(code, reason)}) + b"\n"


BROKEN_WATCHES: dict[str, tuple[Answer, type[KubeError]]] = {
    "expired in the stream": (
        stream(line("ADDED", "a", 6), error_line(410, "Expired")),
        ExpiredError,
    ),
    "busy in the stream": (
        stream(line("ADDED", "a", 6), error_line(429, "TooManyRequests")),
        TooManyRequestsError,
    ),
    "an error in the stream": (
        stream(line("ADDED", "a", 6), error_line(500, "InternalError")),
        UnknownOutcomeError,
    ),
    "an error without a code": (
        stream(line("ADDED", "a", 6), b'{"type":"ERROR","object":{"kind":"Status"}}\n'),
        UnknownOutcomeError,
    ),
    "cut within an event": (
        stream(line("ADDED", "a", 6), line("ADDED", "b", 7)[:30]),
        UnknownOutcomeError,
    ),
    "cut without an end": (stream(line("ADDED", "a", 6), end=False), UnknownOutcomeError),
    "silence": (stream(line("ADDED", "a", 6), hang=True), UnknownOutcomeError),
    "HTML": (stream(line("ADDED", "a", 6), HTML + b"\n"), UnknownOutcomeError),
    "JSON of another kind": (
        stream(line("ADDED", "a", 6), b'{"type":"NEWS"}\n'),
        UnknownOutcomeError,
    ),
}


@pytest.mark.parametrize(("answer", "error"), BROKEN_WATCHES.values(), ids=BROKEN_WATCHES)
async def test_a_broken_watch_gives_what_came_before_and_then_raises(
    tmp_path: Path, answer: Answer, error: type[KubeError]
) -> None:
    async with talking(tmp_path, answer, silence_after=0.1) as (api, _):
        seen, raised = await events_of(api)
    assert seen == [("ADDED", "6")]
    assert isinstance(raised, error)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (reply(410, status(410, "Gone")), ExpiredError),
        (reply(429, b"", content_type="text/plain", Retry_After="1"), TooManyRequestsError),
        (reply(200, HTML, content_type="text/html"), UnknownOutcomeError),
        (reply(502, HTML, content_type="text/html"), UnknownOutcomeError),
    ],
)
async def test_a_watch_that_is_not_opened_says_why(
    tmp_path: Path, answer: Answer, error: type[KubeError]
) -> None:
    async with talking(tmp_path, answer) as (api, _):
        assert isinstance((await events_of(api))[1], error)


# Credentials


async def test_a_refused_token_is_read_again_and_the_request_sent_once_more(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    refused = reply(401, status(401, "Unauthorized"))
    async with talking(tmp_path, refused, reply(200, POD), refused, tokenFile=str(token)) as (
        api,
        server,
    ):
        token.write_text("new\n")
        assert await api.get(PODS, "ns", "p") == POD
        with pytest.raises(UnauthorizedError):
            await api.create(PODS, "ns", POD)
    sent = [(request.method, request.headers["authorization"]) for request in server.requests]
    assert sent == [
        ("GET", "Bearer old"),
        ("GET", "Bearer new"),
        ("POST", "Bearer new"),
        ("POST", "Bearer new"),
    ]


async def test_an_exec_plugin_is_asked_for_the_token_and_again_when_it_is_refused(
    tmp_path: Path,
) -> None:
    plugin = tmp_path / "plugin"
    kind = '"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential"'
    answer = "{" + kind + ',"status":{"token":"t%s"}}'
    count = f"echo x >> {tmp_path}/calls; n=$(grep -c x {tmp_path}/calls)"
    plugin.write_text(f"#!/bin/sh\n{count}\nprintf '{answer}' $n\n")
    plugin.chmod(0o700)
    how = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}
    answers = [reply(200, POD), reply(401, status(401, "Unauthorized")), reply(200, POD)]
    async with talking(tmp_path, *answers, exec=how) as (api, server):
        await api.get(PODS, "ns", "p")
        await api.get(PODS, "ns", "p")
    assert [request.headers["authorization"] for request in server.requests] == [
        "Bearer t1",
        "Bearer t1",
        "Bearer t2",
    ]


async def test_basic_authentication_of_a_kubeconfig_works(tmp_path: Path) -> None:
    user: dict[str, Any] = {"username": "u", "password": "p"}
    async with talking(tmp_path, reply(200, POD), **user) as (api, server):
        await api.get(PODS, "ns", "p")
    assert (
        server.requests[0].headers["authorization"] == "Basic " + base64.b64encode(b"u:p").decode()
    )


@pytest.mark.parametrize(
    "content", [None, "", "][", "clusters: 5", "current-context: x\nclusters: []\ncontexts: []\n"]
)
async def test_an_unusable_kubeconfig_is_one_clear_error(
    tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(NotSentError, match="no usable configuration"):
        async with connect(kubeconfig=str(path)):
            pass


async def test_a_plugin_that_never_returns_a_token_is_an_error_and_no_wait_without_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configuration, "PLUGIN_TIMEOUT", 0.5)
    how = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/bin/sleep",
        "args": ["60"],
    }
    with pytest.raises(NotSentError, match=r"no token in 0\.5 s"):
        async with connect(kubeconfig=kubeconfig(tmp_path, "http://127.0.0.1:1", exec=how)):
            pass
