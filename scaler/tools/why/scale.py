"""Which client has reduced the number of wanted instances of a service, and how to undo that. Reads
only, two kinds."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from scaler.kube.api import AUTOSCALERS, ELASTIC_SERVICES, KubeApi, Object
from scaler.kube.errors import ForbiddenError, NotFoundError
from scaler.rules.rule import ALL
from scaler.rules.values import as_list, as_text, at
from scaler.tools.common.check_result import CheckResult, Level
from scaler.tools.common.detail import wanted
from scaler.tools.common.records import condition
from scaler.tools.why.subject import Subject

_MOST = 4
"""Autoscalers that are named."""


class Scaled(msgspec.Struct, frozen=True):
    """About a service with a number. `setters`: manager and time of each client that has set the
    number. The API server does not always store the time, and forgets the client when the number is
    0."""

    setters: tuple[tuple[str, str], ...] = ()
    autoscalers: tuple[Object, ...] = ()
    unread: tuple[str, ...] = ()


def is_limited(subject: Subject) -> bool:
    """Whether `spec.replicas` limits the number of wanted instances."""
    return subject.view is not None and bool(subject.view.name) and wanted(subject.view) != "all"


def undo(subject: Subject) -> str:
    """The command that removes the limit."""
    name = subject.view.name if subject.view is not None else ""
    return f"kubectl -n {subject.namespace} scale esvc/{name} --replicas={ALL}"


async def look(api: KubeApi, subject: Subject) -> Scaled:
    """Read which clients have set the number. Raises KubeError, except for missing rights or
    objects."""
    if subject.view is None or not is_limited(subject):
        return Scaled()
    name = subject.view.name
    unread = list[str]()
    found: list[Object] = []
    setters: list[tuple[str, str]] = []
    try:
        setters = list(_setters(await api.get(ELASTIC_SERVICES, subject.namespace, name)))
    except NotFoundError:
        pass
    except ForbiddenError:
        unread.append(ELASTIC_SERVICES.full_name)
    try:
        found = list((await api.list(AUTOSCALERS, subject.namespace)).items)
    except NotFoundError:
        pass
    except ForbiddenError:
        unread.append(AUTOSCALERS.full_name)
    return Scaled(tuple(setters), tuple(one for one in found if _scales(one, name)), tuple(unread))


def _setters(obj: Object) -> Iterator[tuple[str, str]]:
    for one in map(at, as_list(at(obj, "metadata").get("managedFields"))):
        if "f:replicas" in at(one, "fieldsV1", "f:spec"):
            yield as_text(one.get("manager")), as_text(one.get("time"))


def _scales(autoscaler: Object, name: str) -> bool:
    target = at(autoscaler, "spec", "scaleTargetRef")
    group = as_text(target.get("apiVersion")).partition("/")[0]
    return (group, target.get("kind"), target.get("name")) == (
        ELASTIC_SERVICES.group,
        ELASTIC_SERVICES.kind,
        name,
    )


def scale_checks(subject: Subject, found: Scaled) -> Iterator[CheckResult]:
    """The wanted number, the client that has set it, and an autoscaler that would set it again."""
    view = subject.view
    if view is None or not is_limited(subject):
        return
    said = as_text(condition(view.status, "ScalingLimited").get("message"))
    named = []
    for manager, moment in found.setters:
        named.append(f"{_who(manager)} ({moment})" if moment else _who(manager))
    setters = " and ".join(named)
    by = f"; set by {setters}" if setters else "; the API server has not kept who set it"
    yield CheckResult(
        Level.NOTE,
        f"spec.replicas is {view.replicas}{f': {said}' if said else ''}{by}",
        about=f"esvc/{view.name}",
    )
    for one in found.autoscalers[:_MOST]:
        about, words = _autoscaler(one)
        yield CheckResult(Level.NOTE, words, about=about)


def _who(manager: str) -> str:
    if manager == "kube-controller-manager":
        return "an autoscaler (kube-controller-manager)"
    return manager or "somebody"


def _autoscaler(one: Object) -> tuple[str, str]:
    meta, spec, status = (at(one, part) for part in ("metadata", "spec", "status"))
    owners = []
    for owner in as_list(meta.get("ownerReferences")):
        owners.append(f", made for {at(owner).get('kind')} {at(owner).get('name')}")
    bounds = (
        f"{spec.get('minReplicas', 1)} to {spec.get('maxReplicas')} instances,"
        f" {status.get('desiredReplicas')} now"
    )
    said = []
    for c in as_list(status.get("conditions")):
        if at(c).get("type") in ("AbleToScale", "ScalingActive") and at(c).get("status") == "False":
            said.append(
                f"{as_text(at(c).get('type'))} is {as_text(at(c).get('status'))}:"
                f" {as_text(at(c).get('message'))}"
            )
    words = (
        f"scales it{''.join(owners[:1])}: {bounds}; it sets the number again: change its bounds, or"
        " delete it first"
    )
    return f"HorizontalPodAutoscaler {meta.get('name')}", "; ".join([words, *said])
