"""HyperNodes of Volcano, and the nodes that each contains. Nothing is kept where they are not
installed. Must not raise on anything that a HyperNode says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from scaler.decide.nodes import HyperNode
from scaler.informers.records import NodeRecord, selects
from scaler.informers.store import Store
from scaler.kube.metadata import Metadata, Stored, shared
from scaler.rules.values import as_count, as_list, as_text, at

LONGEST_PATTERN = 256
"""Characters of a regular expression; a longer one matches no node."""
MOST_REPEATS = 3
"""Repetitions (`*`, `+`, `{`) in a regular expression, and none of a group. Python tries all ways
to repeat, which takes seconds or for ever beyond that; Volcano's Go does not. An expression with
more matches no node."""
_REPEAT = re.compile(r"(?<!\\)[*+{]")
_REPEATED_GROUP = re.compile(r"(?<!\\)\)[*+{]")
MOST_MEMBERS = 10_000
"""The largest number of members of one HyperNode that are read."""


class HyperNodeObject(msgspec.Struct, gc=False):
    metadata: Metadata
    spec: dict[str, Any] = {}


class HyperNodeRecord(Stored, frozen=True, gc=False):
    hyper_node: HyperNode
    names: frozenset[str] = frozenset()
    """Names of nodes that are members."""
    patterns: tuple[str, ...] = ()
    """Regular expressions that match names of nodes, anywhere in the name."""
    selectors: tuple[dict[str, Any], ...] = ()
    """Label selectors of nodes."""
    children: frozenset[str] = frozenset()
    """Names of HyperNodes that are members."""


def hyper_node_record(obj: HyperNodeObject) -> HyperNodeRecord:
    names = set()
    patterns = []
    selectors = []
    children = set()
    for member in as_list(obj.spec.get("members"))[:MOST_MEMBERS]:
        selector = at(member, "selector")
        name = as_text(at(selector, "exactMatch").get("name"))
        if at(member).get("type") == "HyperNode":
            children.add(shared(name))
            continue
        names.add(shared(name))
        patterns.append(as_text(at(selector, "regexMatch").get("pattern")))
        selectors.append(dict(at(selector, "labelMatch")))
    tier = as_count(obj.spec.get("tier"))
    return HyperNodeRecord(
        *obj.metadata.identity,
        HyperNode(tier, obj.metadata.name, as_text(obj.spec.get("tierName"))),
        names=frozenset(names - {""}),
        patterns=tuple(filter(_is_pattern, patterns)),
        selectors=tuple([one for one in selectors if any(one.values())]),
        children=frozenset(children - {""}),
    )


def _is_pattern(text: str) -> bool:
    if not 0 < len(text) <= LONGEST_PATTERN:
        return False
    if _REPEATED_GROUP.search(text) or len(_REPEAT.findall(text)) > MOST_REPEATS:
        return False
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


class HyperNodes:
    """`on_change` is called with the nodes whose HyperNodes may be others now; None: all of
    them."""

    def __init__(self, on_change: Callable[[frozenset[str] | None], None]) -> None:
        self._on_change = on_change
        self.store: Store[HyperNodeRecord] = Store(self._on_record)
        self._by_node: dict[str, set[str]] = {}
        """Name of a node -> the HyperNodes that name it."""
        self._searching: dict[str, HyperNodeRecord] = {}
        """Those that choose nodes by pattern or label."""
        self._parents: dict[str, set[str]] = {}
        """Name of a HyperNode -> those that name it."""

    def of(self, node: NodeRecord) -> tuple[HyperNode, ...]:
        """The HyperNodes that contain this node, the lowest tier first."""
        if not len(self.store):
            return ()
        found: dict[str, HyperNode] = {}
        rest = set(self._by_node.get(node.name, ()))
        for name, record in self._searching.items():
            if _finds(record, node.name, node.facts.labels):
                rest.add(name)
        while rest:  # a HyperNode that contains itself is looked at once
            name = rest.pop()
            known = self.store.get("", name)
            if known is not None and name not in found:
                found[name] = known.hyper_node
                rest |= self._parents.get(name, set())
        return tuple(sorted(found.values()))

    def _on_record(self, old: HyperNodeRecord | None, new: HyperNodeRecord | None) -> None:
        if old is not None:
            self._index(old, -1)
        if new is not None:
            self._index(new, 1)
        before = self._within(old)
        after = self._within(new)
        self._on_change(None if before is None or after is None else before | after)

    def _index(self, record: HyperNodeRecord, sign: int) -> None:
        for names, index in ((record.names, self._by_node), (record.children, self._parents)):
            for name in names:
                if sign > 0:
                    index.setdefault(name, set()).add(record.name)
                else:
                    index[name].discard(record.name)
                    if not index[name]:
                        del index[name]
        self._searching.pop(record.name, None)
        if sign > 0 and (record.patterns or record.selectors):
            self._searching[record.name] = record

    def _within(self, record: HyperNodeRecord | None) -> frozenset[str] | None:
        """The names of the nodes that it contains; None where they are not known by name."""
        found: set[str] = set()
        rest = [] if record is None else [record]
        seen = set()
        while rest:
            one = rest.pop()
            if one.patterns or one.selectors:
                return None
            found |= one.names
            seen.add(one.name)
            rest += self._not_seen(one.children, seen)
        return frozenset(found)

    def _not_seen(self, names: Iterable[str], seen: set[str]) -> list[HyperNodeRecord]:
        found = []
        for name in names:
            record = self.store.get("", name)
            if record is not None and name not in seen:
                found.append(record)
        return found


def _finds(record: HyperNodeRecord, node: str, labels: Mapping[str, str]) -> bool:
    """Whether it chooses the node by pattern or label."""
    if any(re.search(pattern, node) for pattern in record.patterns):
        return True
    return any(_selects(selector, labels) for selector in record.selectors)


def _selects(selector: dict[str, Any], labels: Mapping[str, str]) -> bool:
    try:
        return selects(selector, labels)
    except (AttributeError, KeyError, TypeError):
        return False
