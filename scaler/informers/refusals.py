"""Objects that cannot be read: one finding about one object, and everything else goes on.

What was read of such an object before stays as it was read, until the object can be read again or is gone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping

import structlog

from scaler.informers.changes import ObjectRefused
from scaler.informers.store import Name
from scaler.kube.api import CONFIG_MAPS, Refused, Resource
from scaler.names import RULE_LABEL

MOST = 100
"""Objects of one namespace that are remembered; those beyond are counted only."""
LINES = 30
"""Log lines a minute."""
_Object = tuple[Resource, str, str]
_Rule = tuple[str, str]
_log = structlog.get_logger(__name__)


class Refusals:
    """What cannot be read now. `publish` is told of each object that concerns a rule."""

    def __init__(self, publish: Callable[[ObjectRefused], None], now: Callable[[], float]) -> None:
        self._publish = publish
        self._now = now
        self._minute, self._lines = 0, 0
        self._found: dict[_Object, tuple[str, _Rule | None]] = {}
        self._in_namespace: Counter[str] = Counter()
        self._by_rule: defaultdict[_Rule, dict[_Object, str]] = defaultdict(dict)

    def __len__(self) -> int:
        return len(self._found)

    def note(self, resource: Resource, refused: Refused, traceback: str = "") -> None:
        """This object cannot be read as it is now. `traceback`: of a fault of ours."""
        key = (resource, refused.namespace, refused.name)
        before = self._found.get(key)
        rule = _rule_of(resource, refused)
        if before == (refused.why, rule) or (before is None and self._in_namespace[refused.namespace] >= MOST):
            return
        self.clear(*key)
        self._found[key] = refused.why, rule
        self._in_namespace[refused.namespace] += 1
        if before is None:
            self._say(resource, refused, traceback)
        if rule is not None:
            self._by_rule[rule][key] = f"{resource.kind} {refused.name} cannot be read: {refused.why}"
            self._publish(ObjectRefused(resource, refused, *rule))

    def clear(self, resource: Resource, namespace: str, name: str) -> None:
        """It can be read again, or is gone."""
        found = self._found.pop((resource, namespace, name), None)
        if found is None:
            return
        self._in_namespace[namespace] -= 1
        if not self._in_namespace[namespace]:
            del self._in_namespace[namespace]
        rule = found[1]
        if rule is None:
            return
        self._by_rule[rule].pop((resource, namespace, name), None)
        if not self._by_rule[rule]:
            del self._by_rule[rule]
        self._publish(ObjectRefused(resource, None, *rule))

    def retain(self, resource: Resource, scope: str | None, names: Collection[Name]) -> None:
        """A complete list of `scope` showed just these that cannot be read."""
        for found, namespace, name in list(self._found):
            if found == resource and scope in (None, namespace) and (namespace, name) not in names:
                self.clear(resource, namespace, name)

    def _say(self, resource: Resource, refused: Refused, traceback: str) -> None:
        minute = int(self._now() // 60)
        self._minute, self._lines = minute, 1 if minute != self._minute else self._lines + 1
        if self._lines <= LINES:
            named = {"namespace": refused.namespace, "name": refused.name, "why": refused.why}
            where = {"traceback": traceback} if traceback else {}
            _log.warning("object refused", resource=resource.plural, **named, **where)

    def of_rule(self, namespace: str, rule: str) -> tuple[str, ...]:
        """What cannot be read of the rule and of what names it, in words."""
        found: Mapping[_Object, str] = self._by_rule.get((namespace, rule), {})
        return tuple(sorted(found.values()))


def _rule_of(resource: Resource, refused: Refused) -> _Rule | None:
    """Namespace and name of the rule that it names, or is."""
    rule = refused.name if resource == CONFIG_MAPS else refused.labels.get(RULE_LABEL)
    return (refused.namespace, rule) if rule else None
