"""Which client has reduced the number of wanted instances of a service, and how to undo that. Reads
only, two kinds."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from scaler.kube.api import AUTOSCALERS, ELASTIC_SERVICES, KubeApi, Object
from scaler.kube.errors import ForbiddenError, NotFoundError
from scaler.reasons import checks
from scaler.reasons.said import AND, NOTHING_SAID, SEMICOLON, Said, as_is, in_one
from scaler.rules.rule import ALL
from scaler.rules.values import as_list, as_text, at
from scaler.tools.common.check_result import CheckResult, Level, checked
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
        when = as_is(f" ({moment})") if moment else NOTHING_SAID
        named.append(in_one((_who(manager), when), as_is("")))
    by = checks.SET_BY.of(setters=in_one(named, AND)) if named else checks.SET_BY_UNKNOWN
    words = checks.COLON_WORDS.of(words=said) if said else ""
    yield checked(
        Level.NOTE,
        checks.SCALED.of(replicas=view.replicas, words=words, by=by),
        about=f"esvc/{view.name}",
    )
    for one in found.autoscalers[:_MOST]:
        name = at(one, "metadata").get("name")
        yield checked(Level.NOTE, _autoscaler(one), about=f"HorizontalPodAutoscaler {name}")


def _who(manager: str) -> Said:
    if manager == "kube-controller-manager":
        return checks.AN_AUTOSCALER
    return as_is(manager) if manager else checks.SOMEBODY


def _autoscaler(one: Object) -> Said:
    spec = at(one, "spec")
    status = at(one, "status")
    owners = []
    for owner in as_list(at(one, "metadata").get("ownerReferences")):
        owners.append(checks.MADE_FOR.of(kind=at(owner).get("kind"), name=at(owner).get("name")))
    scales = checks.AUTOSCALER.of(
        made_for=in_one(owners[:1], as_is("")),
        least=spec.get("minReplicas", 1),
        most=spec.get("maxReplicas"),
        now=status.get("desiredReplicas"),
    )
    said = [scales]
    for c in as_list(status.get("conditions")):
        if at(c).get("type") in ("AbleToScale", "ScalingActive") and at(c).get("status") == "False":
            said.append(
                checks.AUTOSCALER_CONDITION.of(
                    type=as_text(at(c).get("type")),
                    status=as_text(at(c).get("status")),
                    message=as_text(at(c).get("message")),
                )
            )
    return in_one(said, SEMICOLON)
