"""Objects that cannot be read: one finding about one object, and everything else goes on.

What was read of such an object before stays as it was read, until the object can be read again or
is gone."""

from __future__ import annotations

from collections.abc import Callable, Collection

import structlog

from scaler.informers.changes import ObjectRefused
from scaler.informers.indexes import Index
from scaler.informers.store import Name
from scaler.kube.api import CONFIG_MAPS, Refused, Resource
from scaler.names import RULE_LABEL

MOST = 100
"""Objects of one namespace that are remembered; those beyond are counted only."""
LINES = 30
"""Log lines a minute."""
_log = structlog.get_logger(__name__)


class Refusals:
    """The objects that cannot be read now. `publish` gets each object that concerns a rule."""

    def __init__(self, publish: Callable[[ObjectRefused], None], now: Callable[[], float]) -> None:
        self._publish = publish
        self._now = now
        self._minute = 0
        self._lines = 0
        self._found: Index[str, tuple[Resource, str], tuple[str, str]] = Index()
        """By namespace, then resource and name: why, and the rule that it names or is, "" for
        none."""

    def __len__(self) -> int:
        return sum(len(self._found.of(namespace)) for namespace in self._found)

    def note(self, resource: Resource, refused: Refused, traceback: str = "") -> None:
        """This object cannot be read as it is now. `traceback`: of a fault of ours."""
        namespace = refused.namespace
        name = refused.name
        rule = name if resource == CONFIG_MAPS else refused.labels.get(RULE_LABEL, "")
        known = self._found.of(namespace)
        before = known.get((resource, name))
        if before == (refused.why, rule) or (before is None and len(known) >= MOST):
            return
        self.clear(resource, namespace, name)
        self._found.put(namespace, (resource, name), (refused.why, rule))
        if before is None:
            minute = int(self._now() // 60)
            self._lines = 1 if minute != self._minute else self._lines + 1
            self._minute = minute
            if self._lines <= LINES:
                named = {"namespace": namespace, "name": name, "why": refused.why}
                where = {"traceback": traceback} if traceback else {}
                _log.warning("object refused", resource=resource.plural, **named, **where)
        if rule:
            self._publish(ObjectRefused(resource, refused, namespace, rule))

    def clear(self, resource: Resource, namespace: str, name: str) -> None:
        """Forget an object that can be read again, or is gone."""
        _, rule = self._found.of(namespace).get((resource, name), ("", ""))
        self._found.drop(namespace, (resource, name))
        if rule:
            self._publish(ObjectRefused(resource, None, namespace, rule))

    def retain(self, resource: Resource, scope: str | None, names: Collection[Name]) -> None:
        """A complete list of `scope` showed just `names`: what else could not be read there is
        gone."""
        for namespace in list(self._found) if scope is None else [scope]:
            for found, name in list(self._found.of(namespace)):
                if found == resource and (namespace, name) not in names:
                    self.clear(resource, namespace, name)

    def of_rule(self, namespace: str, rule: str) -> tuple[str, ...]:
        """The unreadable objects of the rule and of its jobs, in words."""
        known = self._found.of(namespace).items() if rule else ()
        return tuple(
            sorted(
                f"{of.kind} {name} cannot be read: {why}"
                for (of, name), (why, named) in known
                if named == rule
            )
        )
