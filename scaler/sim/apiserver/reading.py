"""Lists: a consistent page of records at one version, and the tokens that continue it. No asyncio."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import msgspec

from scaler.sim.apiserver import refusals
from scaler.sim.apiserver.kinds import Kind
from scaler.sim.apiserver.selectors import Predicate, everything, field_predicate, label_predicate
from scaler.sim.apiserver.store import Key, Record, Store, Table


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What a list or watch asks for; the fields are those of KubeApi.list."""

    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""


class RecordPage(msgspec.Struct, frozen=True):
    """Like kube.api.Page, with records."""

    records: list[Record]
    version: int
    continue_token: str = ""


class _Token(msgspec.Struct, frozen=True):
    version: int
    after: Key


def selection(kind: Kind, query: Query) -> Predicate:
    """Both selectors as one predicate on objects; BadRequestError when one cannot be read."""
    labels = label_predicate(query.label_selector)
    fields = field_predicate(query.field_selector, "" if kind.custom else kind.resource.kind)
    if fields is everything:
        return labels
    if labels is everything:
        return fields
    return lambda obj: labels(obj) and fields(obj)


def version_number(text: str) -> int:
    """A resourceVersion as a number, 0 when not given; BadRequestError when it is none."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise refusals.bad_request(f'resourceVersion: Invalid value: "{text}": not a number')
    return int(text)


def list_page(store: Store, kind: Kind, namespace: str | None, query: Query) -> RecordPage:
    """One page; ExpiredError when its version is not kept any more."""
    table = store.table(kind.resource)
    token = _read_token(query.continue_token) if query.continue_token else _first_page(store, query)
    if token.version < table.oldest:
        raise refusals.expired_continue() if query.continue_token else refusals.expired(token.version, table.oldest)
    matches = selection(kind, query)
    found: list[Record] = []
    last: Key = ("", "")
    for key, record in _records_at(table, token.version, namespace, token.after):
        if query.limit and len(found) == query.limit:
            return RecordPage(found, token.version, _write_token(_Token(token.version, last)))
        if matches(record.object):
            found.append(record)
            last = key
    return RecordPage(found, token.version)


def _first_page(store: Store, query: Query) -> _Token:
    wanted = version_number(query.resource_version)
    if wanted > store.version:
        raise refusals.too_new(wanted, store.version)
    # With a limit a version means exactly that version, without one it means "not older than".
    exact = wanted if wanted and query.limit else store.version
    return _Token(exact, ("", ""))


def _records_at(table: Table, version: int, namespace: str | None, after: Key) -> Iterator[tuple[Key, Record]]:
    unchanged = table.index_after(version) == len(table.changes)
    records = table.records if unchanged else table.at(version)
    keys = table.keys if unchanged else sorted(records)
    start = bisect_right(keys, after)
    end = len(keys)
    if namespace:
        start = max(start, bisect_left(keys, (namespace, "")))
        end = bisect_left(keys, (namespace + "\0", ""))
    for index in range(start, end):
        yield keys[index], records[keys[index]]


def _write_token(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode()


def _read_token(text: str) -> _Token:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text.encode()), type=_Token)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise refusals.bad_request("continue key is not valid") from None
