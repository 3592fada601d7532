"""Label and field selectors as kubectl writes them, compiled to predicates. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from scaler.kube.api import Object
from scaler.sim.apiserver.kinds import at
from scaler.sim.apiserver.refusals import bad_request

Predicate = Callable[[Object], bool]
_LabelTest = Callable[[Mapping[str, str]], bool]

_SET = re.compile(r"^(\S+)\s+(in|notin)\s+\((.*)\)$", re.DOTALL)
_EQUALITY = re.compile(r"^([^=!\s]+)\s*(==|=|!=)\s*(\S*)$")
_EXISTS = re.compile(r"^(!?)\s*([^=!\s,()]+)$")
_SPLIT = re.compile(r",(?![^(]*\))")

_POD_FIELDS = (
    "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName status.phase status.podIP "
    "status.nominatedNodeName"
)
_EVENT_FIELDS = (
    "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid involvedObject.apiVersion "
    "involvedObject.resourceVersion reason source type reportingComponent"
)
_FIELDS_OF = {
    "Pod": _POD_FIELDS.split(),
    "Event": _EVENT_FIELDS.split(),
    "Node": ["spec.unschedulable"],
    "Namespace": ["status.phase"],
    "Secret": ["type"],
}


def everything(_: Object) -> bool:
    """The predicate of an empty selector."""
    return True


@lru_cache(maxsize=1024)
def label_predicate(selector: str) -> Predicate:
    """Whether an object's labels match; BadRequestError when the selector cannot be read."""
    if not selector.strip():
        return everything
    tests = [_label_test(part.strip(), selector) for part in _SPLIT.split(selector)]

    def matches(obj: Object) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(test(labels) for test in tests)

    return matches


def _label_test(part: str, selector: str) -> _LabelTest:
    if found := _SET.match(part):
        key, operator, values = found[1], found[2], frozenset(value.strip() for value in found[3].split(","))
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUALITY.match(part):
        key, operator, value = found[1], found[2], found[3]
        if operator == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _EXISTS.match(part):
        wanted, key = not found[1], found[2]
        return lambda labels: (key in labels) is wanted
    raise bad_request(f"unable to parse requirement: couldn't parse the selector string {selector!r}")


@lru_cache(maxsize=1024)
def field_predicate(selector: str, kind: str) -> Predicate:
    """Whether an object's fields match; BadRequestError for a field that the kind does not offer."""
    if not selector.strip():
        return everything
    tests = [_field_test(part.strip(), selector, kind) for part in selector.split(",")]
    return lambda obj: all(test(obj) for test in tests)


def _field_test(part: str, selector: str, kind: str) -> Predicate:
    found = _EQUALITY.match(part)
    if not found:
        raise bad_request(f"invalid selector: {selector!r}; can't understand {part!r}")
    field, wanted, equal = found[1], found[3], found[2] != "!="
    if field not in ("metadata.name", "metadata.namespace") and field not in _FIELDS_OF.get(kind, ()):
        raise bad_request(f"field label not supported: {field}")
    path = field.split(".") if field != "source" else ["source", "component"]
    return lambda obj: (_text_at(obj, path) == wanted) is equal


def _text_at(obj: Object, path: list[str]) -> str:
    value = at(obj, path)
    if value is None:
        return "false" if path[-1] == "unschedulable" else ""
    return str(value).lower() if isinstance(value, bool) else str(value)
