"""What the decision loop hands to the reporter after a pass: frozen values, nothing that can change underneath.

This module must not know how anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import msgspec

from scaler.decide.world import Plan, Service, Verdict
from scaler.kube.api import Object
from scaler.state.last_valid import LastValid
from scaler.workloads.ascendjob_status import ReplicaCounts


class RuleKey(NamedTuple):
    """A rule ConfigMap, existing or not."""

    namespace: str
    name: str


class Subject(NamedTuple):
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""


class ServiceReport(msgspec.Struct, frozen=True):
    """One service after one pass. Objects are read, never changed."""

    service: Service
    plan: Plan
    jobs: Mapping[str, Object] = {}
    """Owner uid -> AscendJob as the cache has it, where its status is ours to write."""
    subjects: Mapping[str, Subject] = {}
    """Instance uid -> whom events about it are about; where it is not in `jobs` either, there are none."""
    replicas: Mapping[str, Mapping[str, ReplicaCounts]] = {}
    """Owner uid -> replica type -> pods; a uid that is not in it keeps the counts that its job has."""
    rule_uid: str = ""
    """uid of the rule ConfigMap that exists now; "" when there is none."""
    last_valid: LastValid | None = None
    """The document that the rule in force was read from; None when no valid one was ever seen."""
    alone: str = ""
    """Why the service is not weighed against others; "" when it is."""

    @property
    def rule(self) -> RuleKey:
        return RuleKey(self.plan.key.namespace, self.plan.key.rule)


class Words(Protocol):
    """Puts a verdict into one sentence for people (decide.explain.words)."""

    def __call__(self, verdict: Verdict, plan: Plan, /) -> str: ...
