"""Checks names of workloads: Kubernetes refuses some of the names that are made of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from scaler.kube.api import ASCEND_JOBS, STATEFUL_SETS
from scaler.rules.finding import Finding, shown
from scaler.rules.jobspec import LEADER
from scaler.tools.common.manifest import Object, Value
from scaler.workloads.leaderworkerset import LEADER_WORKER_SETS
from scaler.workloads.volcanojob import VOLCANO_JOBS

_NAME: tuple[str, ...] = ("metadata", "name")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_SUBDOMAIN = 253
_LONGEST_LABEL = 63
"""Characters of a label's value, and of the name of a Service."""
_REVISION = len("-0123456789")
"""Characters that a StatefulSet adds to its name for the label of its revision."""
_TIME = len("-0123456789")
"""Characters that a CronJob adds to its name for each of its Jobs."""


def name_findings(found: Object) -> Iterator[Finding]:
    """Why the API server refuses the object, or what is made of it, for its name."""
    name = found.root.get(*_NAME)
    if name is None or name.kind != "scalar":  # a generateName, or a finding of others
        return
    text = name.text
    if not _SUBDOMAIN.fullmatch(text) or len(text) > _LONGEST_SUBDOMAIN:
        message = f"{shown(text)} cannot be a name: the API server refuses the object"
        hint = (
            f"write at most {_LONGEST_SUBDOMAIN} lower case letters, digits, '-' or '.', a letter"
            " or digit at both ends"
        )
        yield found.finding(_NAME, "NameInvalid", message, hint)
        return
    group = found.root.string_at("apiVersion").partition("/")[0]
    check = _BY_KIND.get((group, found.kind))
    if check is not None:
        yield from check(found, text)


def _of_ascend_job(found: Object, name: str) -> Iterator[Finding]:
    """The Service of its leader has the leader's name."""
    service = f"{name}-{LEADER.lower()}-0"
    if not name[0].isalpha() or "." in name:
        message = (
            f"the Service of the leader would be named {service}: the name of a Service begins with"
            " a letter and has no dots"
        )
        hint = "give the job a name of lower case letters, digits and '-' that begins with a letter"
        yield found.finding(_NAME, "NameInvalid", message, hint)
    if len(service) > _LONGEST_LABEL:
        yield _too_long(found, name, f"the Service {service}", len(service))


def _of_stateful_set(found: Object, name: str) -> Iterator[Finding]:
    """Its pods have a label with its name and the hash of its revision."""
    length = len(name) + _REVISION
    if length > _LONGEST_LABEL:
        yield _too_long(found, name, "the label controller-revision-hash of its pods", length)


def _of_leader_worker_set(found: Object, name: str) -> Iterator[Finding]:
    """A Service has its name; the workers of each group are a StatefulSet `NAME-0`."""
    if not name[0].isalpha() or "." in name:
        message = f"a Service would be named {name}: its name begins with a letter and has no dots"
        hint = "give it a name of lower case letters, digits and '-' that begins with a letter"
        yield found.finding(_NAME, "NameInvalid", message, hint)
    last = max(0, _count(found.root.get("spec", "replicas")) - 1)
    length = len(f"{name}-{last}") + _REVISION
    if length > _LONGEST_LABEL:
        yield _too_long(found, name, "the label controller-revision-hash of its workers", length)


def _of_volcano_job(found: Object, name: str) -> Iterator[Finding]:
    """Volcano refuses a job of which the name of a pod is too long."""
    tasks = found.root.get("spec", "tasks")
    for index, task in enumerate(tasks.items if tasks else ()):
        last = max(0, _count(task.get("replicas")) - 1)
        pod = f"{name}-{task.string_at('name') or f'default{index}'}-{last}"
        if len(pod) > _LONGEST_LABEL:
            yield _too_long(found, name, f"the pod {pod}", len(pod))
            return


def _of_job(found: Object, name: str) -> Iterator[Finding]:
    """Its pods have a label with its name."""
    if len(name) > _LONGEST_LABEL:
        yield _too_long(found, name, "the label batch.kubernetes.io/job-name", len(name))


def _of_cron_job(found: Object, name: str) -> Iterator[Finding]:
    """The time of each run is added to the names of its Jobs."""
    length = len(name) + _TIME
    if length > _LONGEST_LABEL:
        yield _too_long(found, name, "the names of its Jobs", length)


def _count(value: Value | None) -> int:
    return 1 if value is None else value.integer or 0


def _too_long(found: Object, name: str, what: str, length: int) -> Finding:
    message = f"{what} would have {length} characters; {_LONGEST_LABEL} are the most"
    hint = f"shorten the name to {len(name) - (length - _LONGEST_LABEL)} characters"
    return found.finding(_NAME, "NameTooLong", message, hint)


_BY_KIND: dict[tuple[str, str], Callable[[Object, str], Iterator[Finding]]] = {
    (ASCEND_JOBS.group, ASCEND_JOBS.kind): _of_ascend_job,
    (VOLCANO_JOBS.group, VOLCANO_JOBS.kind): _of_volcano_job,
    (LEADER_WORKER_SETS.group, LEADER_WORKER_SETS.kind): _of_leader_worker_set,
    (STATEFUL_SETS.group, STATEFUL_SETS.kind): _of_stateful_set,
    ("batch", "Job"): _of_job,
    ("batch", "CronJob"): _of_cron_job,
}
