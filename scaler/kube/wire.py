"""Paths, query strings, lists, watch lines and refusals of the Kubernetes API, as pure
functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from scaler.clock import Slices
from scaler.kube.api import EventType, Object, Page, Refused, Resource, WatchEvent
from scaler.kube.errors import LONGEST_RETRY_AFTER, KubeError, UnknownOutcomeError, status_error

T = TypeVar("T")

LONGEST_LINE = 64 * 2**20
"""Bytes: a longer watch line means that the stream is broken (objects have a few MiB at most)."""

LONGEST_WHY = 300
"""Characters that are kept of the reason why an object cannot be decoded."""
AT_ONCE = 4 * 2**20
"""Bytes of a page that is decoded in one step, within 50 ms; in a larger page each object is
decoded by itself."""
DEEPEST = 128
"""Levels of a list of objects; Kubernetes has about 15. How deep decoders can recurse depends on
the Python version."""
TOO_DEEP = f"nested more than {DEEPEST} deep"
CUT = b'"cut off: nested too deep"'
"""Replaces a value that is nested too deep."""
_TOKENS = 4096
"""Tokens between two checks of the time."""
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]', re.DOTALL)
_UNREADABLE = (msgspec.MsgspecError, RecursionError, ValueError, OverflowError)


def path_of(
    resource: Resource, namespace: str | None, name: str = "", subresource: str = ""
) -> str:
    """The URL path of a collection, an object or a subresource, quoted."""
    parts = (
        ["apis", resource.group, resource.version] if resource.group else ["api", resource.version]
    )
    if resource.namespaced and namespace is not None:
        parts += ["namespaces", namespace]
    parts.append(resource.plural)
    parts += [part for part in (name, subresource) if part]
    return "/" + "/".join(quote(part, safe="") for part in parts)


def query_of(parameters: Mapping[str, str | int]) -> str:
    """A query string; parameters that are empty or 0 are left out."""
    set_ones = {key: value for key, value in parameters.items() if value}
    return "?" + urlencode(set_ones) if set_ones else ""


class LineSplitter:
    """Cuts a stream of chunks into lines. StreamReader.readline copies a long line once for each
    piece of it."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.rest = 0
        """Bytes of an incomplete line."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes. UnknownOutcomeError when a line is too long."""
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join([*self._parts, lines[0]])
            self._parts = []
            self.rest = 0
        self._parts.append(rest)
        self.rest += len(rest)
        if self.rest > LONGEST_LINE:
            raise UnknownOutcomeError(f"a watch line is longer than {LONGEST_LINE} bytes")
        return [line for line in lines if line]


class _ListMeta(
    msgspec.Struct, rename={"resource_version": "resourceVersion", "continue_token": "continue"}
):
    resource_version: str = ""
    continue_token: str = ""


class _List(msgspec.Struct, Generic[T]):
    metadata: _ListMeta
    items: list[T] | None = None


class _Event(msgspec.Struct, Generic[T]):
    type: str
    object: T


class _Identified(msgspec.Struct):
    metadata: dict[str, Any] = {}


class _Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: int | None = None


class _Status(msgspec.Struct):
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


@lru_cache(maxsize=64)
def _decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_)


async def decode_page(data: bytes, resource: Resource, decode: type[T]) -> Page[T]:
    """One page of a list. Undecodable objects are in `refused`: one such object must not hide the
    others."""
    if len(data) <= AT_ONCE:
        try:
            found: _List[T] = _decoder(_List[decode]).decode(data)  # type: ignore[valid-type]
            return Page(
                found.items or [], found.metadata.resource_version, found.metadata.continue_token
            )
        except _UNREADABLE:
            pass
    return await _decode_each(data, resource, decode)


async def _decode_each(data: bytes, resource: Resource, decode: type[T]) -> Page[T]:
    decoder = msgspec.json.Decoder(decode)
    slices = Slices()
    items: list[T] = []
    refused: list[Refused] = []
    try:
        try:
            raw: _List[msgspec.Raw] = _decoder(_List[msgspec.Raw]).decode(data)
        except RecursionError:
            raw = _decoder(_List[msgspec.Raw]).decode(await cut_off(data))
    except _UNREADABLE as error:
        raise UnknownOutcomeError(
            f"the answer is not a list of {resource.plural}: {error}"
        ) from None
    for one in raw.items or []:
        try:
            if CUT in bytes(one):
                raise ValueError(TOO_DEEP)
            items.append(decoder.decode(one))
        except _UNREADABLE as error:
            refused.append(identified(one, error))
        await slices.end()
    return Page(items, raw.metadata.resource_version, raw.metadata.continue_token, refused)


async def cut_off(data: bytes) -> bytes:
    """`data` without values that are nested deeper than `DEEPEST`: one such object must not make a
    whole page unreadable. Text that is no JSON stays so. Without recursion, but slow (25 MB/s):
    only for data that could not be decoded."""
    slices = Slices()
    parts: list[bytes] = []
    depth = kept = 0
    for number, token in enumerate(_TOKEN.finditer(data)):
        mark = data[token.start()]
        if mark in b"{[":
            depth += 1
            if depth == DEEPEST + 1:
                parts += data[kept : token.start()], CUT
        elif mark in b"}]":
            if depth == DEEPEST + 1:
                kept = token.end()
            depth -= 1
        if number % _TOKENS == 0:
            await slices.end()
    return b"".join([*parts, data[kept:]]) if depth <= DEEPEST else data


def decode_object(data: bytes) -> Object:
    """One object. UnknownOutcomeError when the answer is no object."""
    try:
        found: Object = _decoder(Object).decode(data)
    except _UNREADABLE as error:
        raise UnknownOutcomeError(f"the answer is not an object: {error}") from None
    return found


class EventDecoder(Generic[T]):
    """Decodes the lines of one watch; the decoder of its type is looked up once."""

    def __init__(self, decode: type[T]) -> None:
        self._decode: Callable[[bytes], _Event[T]] = _decoder(_Event[decode]).decode  # type: ignore[valid-type]

    async def __call__(self, line: bytes) -> WatchEvent[T]:
        """One line; `refused` names an object that cannot be decoded. An ERROR event is raised as
        its error."""
        try:
            event = self._decode(line)
            if (type_ := _OBJECT_EVENTS.get(event.type)) is not None:
                return WatchEvent(type_, event.object, _version_of(event.object, line))
        except RecursionError:
            return _decode_other(await cut_off(line), TOO_DEEP)
        except _UNREADABLE as error:
            return _decode_other(line, str(error))
        return _decode_other(line, "")


_OBJECT_EVENTS = {str(type_): type_ for type_ in EventType if type_ is not EventType.BOOKMARK}


def _decode_other(line: bytes, trouble: str) -> WatchEvent[Any]:
    """An event whose object is not of the resource: a bookmark, an error, or an object that cannot
    be decoded."""
    try:
        event = _decoder(_Event[msgspec.Raw]).decode(line)
        if event.type == "ERROR":
            status = _decoder(_Status).decode(event.object)
            raise _error(status.code or 500, status.reason or "", status)
        type_ = EventType(event.type)
        refused = identified(event.object, trouble)
    except _UNREADABLE as error:
        raise UnknownOutcomeError(f"the watch sent no event: {error}: {line[:80]!r}") from None
    return WatchEvent(
        type_, None, refused.resource_version, None if type_ is EventType.BOOKMARK else refused
    )


def _version_of(found: Any, line: bytes) -> str:
    """metadata.resourceVersion of a decoded object; read from the line if the type does not declare
    it."""
    version = getattr(getattr(found, "metadata", None), "resource_version", "")
    return str(
        version
        or identified(_decoder(_Event[msgspec.Raw]).decode(line).object, "").resource_version
    )


def identified(raw: Any, why: object) -> Refused:
    try:
        return refused_of(_decoder(_Identified).decode(raw).metadata, why)
    except _UNREADABLE:
        return Refused(in_words(why))


def in_words(why: object) -> str:
    """Why an object cannot be decoded, in words for people."""
    return TOO_DEEP if isinstance(why, RecursionError) else f"{why}"[:LONGEST_WHY]


def refused_of(metadata: Mapping[str, Any], why: object) -> Refused:
    """The object with this metadata, of any shape."""
    labels = metadata.get("labels")
    names = ("namespace", "name", "uid", "resourceVersion")
    namespace, name, uid, version = (
        text if isinstance(text := metadata.get(one), str) else "" for one in names
    )
    known = (
        {key: text for key, text in labels.items() if isinstance(text, str)}
        if isinstance(labels, dict)
        else {}
    )
    return Refused(in_words(why), namespace, name, uid, version, known)


def refusal(code: int, words: str, data: bytes, retry_after: str | None) -> KubeError:
    """The error for an answer that is not 2xx; `words` is the HTTP reason phrase, `retry_after` the
    header."""
    if not 400 <= code < 600:
        return UnknownOutcomeError(f"{code} {words}: not an answer of a Kubernetes API")
    try:
        status = _decoder(_Status).decode(data)
    except _UNREADABLE:
        status = _Status(message=data[:200].decode(errors="replace").strip())
    seconds = float(retry_after) if retry_after is not None and retry_after.isdecimal() else None
    return _error(code, status.reason or words, status, seconds)


def _error(code: int, reason: str, status: _Status, retry_after: float | None = None) -> KubeError:
    if retry_after is None and status.details is not None:
        retry_after = status.details.retry_after_seconds
    believed = None if retry_after is None else float(min(max(retry_after, 0), LONGEST_RETRY_AFTER))
    return status_error(code, reason, status.message or "", retry_after=believed)
