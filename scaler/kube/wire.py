"""What goes over the wire, as pure functions: paths, query strings, lists, watch lines and refusals.

No I/O and no HTTP client here; kube.client moves the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

import msgspec
import structlog

from scaler.kube.api import EventType, Object, Page, Resource, WatchEvent
from scaler.kube.errors import LONGEST_RETRY_AFTER, KubeError, UnknownOutcomeError, status_error

T = TypeVar("T")

LONGEST_LINE = 64 * 2**20
"""Bytes: a watch line beyond this (objects are limited to a few MiB) means that the stream is broken."""

_log = structlog.get_logger(__name__)


def path_of(resource: Resource, namespace: str | None, name: str = "", subresource: str = "") -> str:
    """The URL path of a collection, an object or a subresource, quoted."""
    parts = ["apis", resource.group, resource.version] if resource.group else ["api", resource.version]
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
    """Cuts a stream of chunks into lines. Unlike StreamReader.readline it has no small limit on their length."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._longest = longest

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes. UnknownOutcomeError when one grows beyond the bound."""
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join([*self._parts, lines[0]])
            self._parts, self._size = [], 0
        self._parts.append(rest)
        self._size += len(rest)
        if self._size > self._longest:
            raise UnknownOutcomeError(f"a watch line is longer than {self._longest} bytes")
        return [line for line in lines if line]

    @property
    def rest(self) -> int:
        """Bytes of a line that has begun and not ended."""
        return self._size


class _ListMeta(msgspec.Struct, rename={"resource_version": "resourceVersion", "continue_token": "continue"}):
    resource_version: str = ""
    continue_token: str = ""


class _List(msgspec.Struct, Generic[T]):
    metadata: _ListMeta
    items: list[T] | None = None


class _Event(msgspec.Struct, Generic[T]):
    type: str
    object: T


class _Meta(msgspec.Struct, rename="camel", frozen=True):
    resource_version: str = ""
    name: str = ""


class _Identified(msgspec.Struct):
    metadata: _Meta = _Meta()


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


def decode_page(data: bytes, resource: Resource, decode: type[T]) -> Page[T]:
    """One page of a list. Items that are not what `decode` says are left out with a warning: one odd object must not
    keep all others from being seen."""
    try:
        try:
            found: _List[T] = _decoder(_List[decode]).decode(data)  # type: ignore[valid-type]
            items = found.items or []
        except msgspec.ValidationError:
            found = _decoder(_List[msgspec.Raw]).decode(data)
            items = _decode_each(found.items or [], resource, decode)
    except msgspec.MsgspecError as error:
        raise UnknownOutcomeError(f"the answer is not a list of {resource.plural}: {error}") from None
    return Page(items, found.metadata.resource_version, found.metadata.continue_token)


def _decode_each(items: list[Any], resource: Resource, decode: type[T]) -> list[T]:
    decoder, decoded = msgspec.json.Decoder(decode), []
    for raw in items:
        try:
            decoded.append(decoder.decode(raw))
        except msgspec.ValidationError as error:
            _log.warning("object left out", resource=resource.plural, name=_peek(raw).name, error=str(error))
    return decoded


def decode_object(data: bytes) -> Object:
    """One object. UnknownOutcomeError when the answer is none."""
    try:
        found: Object = _decoder(Object).decode(data)
    except msgspec.MsgspecError as error:
        raise UnknownOutcomeError(f"the answer is not an object: {error}") from None
    return found


class EventDecoder(Generic[T]):
    """Decodes the lines of one watch; what does not change from line to line is looked up once."""

    def __init__(self, resource: Resource, decode: type[T]) -> None:
        self._resource = resource
        self._decode: Callable[[bytes], _Event[T]] = _decoder(_Event[decode]).decode  # type: ignore[valid-type]

    def __call__(self, line: bytes) -> WatchEvent[T] | None:
        """One line; None for an object that is not what was asked for. An ERROR is raised as what it means."""
        try:
            event = self._decode(line)
            type_ = _OBJECT_EVENTS.get(event.type)
            if type_ is not None:
                return WatchEvent(type_, event.object, _version_of(event.object) or _peek_event(line))
        except msgspec.ValidationError as error:
            return _decode_other(line, self._resource, str(error))
        except msgspec.DecodeError as error:
            raise _no_event(line, error) from None
        return _decode_other(line, self._resource, "")


_OBJECT_EVENTS = {str(type_): type_ for type_ in EventType if type_ is not EventType.BOOKMARK}


def _no_event(line: bytes, error: Exception) -> UnknownOutcomeError:
    return UnknownOutcomeError(f"the watch sent no event: {error}: {line[:80]!r}")


def _decode_other(line: bytes, resource: Resource, trouble: str) -> WatchEvent[Any] | None:
    """An event whose object is not an object of the resource: a bookmark, an error, or one not understood."""
    try:
        event = _decoder(_Event[msgspec.Raw]).decode(line)
        if event.type == "BOOKMARK":
            return WatchEvent(EventType.BOOKMARK, None, _peek(event.object).resource_version)
        if event.type == "ERROR":
            status = _decoder(_Status).decode(event.object)
            raise _error(status.code or 500, status.reason or "", status)
        name = _peek(event.object).name
    except msgspec.MsgspecError as error:
        raise _no_event(line, error) from None
    _log.warning("event left out", resource=resource.plural, name=name, type=event.type, error=trouble)
    return None


def _version_of(found: Any) -> str:
    """metadata.resourceVersion of a decoded object; "" where its type does not declare it under its own name."""
    if isinstance(found, dict):
        return str((found.get("metadata") or {}).get("resourceVersion", ""))
    return str(getattr(getattr(found, "metadata", None), "resource_version", ""))


def _peek(raw: Any) -> _Meta:
    try:
        identified: _Identified = _decoder(_Identified).decode(raw)
    except msgspec.ValidationError:
        return _Meta()
    return identified.metadata


def _peek_event(line: bytes) -> str:
    return _peek(_decoder(_Event[msgspec.Raw]).decode(line).object).resource_version


def refusal(code: int, words: str, data: bytes, retry_after: str | None) -> KubeError:
    """The error for an answer that is not 2xx; `words` is the HTTP reason phrase, `retry_after` the header."""
    if not 400 <= code < 600:
        return UnknownOutcomeError(f"{code} {words}: not an answer of a Kubernetes API")
    try:
        status = _decoder(_Status).decode(data)
    except msgspec.MsgspecError:
        status = _Status(message=data[:200].decode(errors="replace").strip())
    seconds = float(retry_after) if retry_after is not None and retry_after.isdecimal() else None
    return _error(code, status.reason or words, status, seconds)


def _error(code: int, reason: str, status: _Status, retry_after: float | None = None) -> KubeError:
    if retry_after is None and status.details is not None:
        retry_after = status.details.retry_after_seconds
    believed = None if retry_after is None else float(min(max(retry_after, 0), LONGEST_RETRY_AFTER))
    return status_error(code, reason, status.message or "", retry_after=believed)
