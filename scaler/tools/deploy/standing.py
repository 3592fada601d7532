"""The state of a service: each object made for it, its ratios, and whether it is available. Reads
only."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from scaler.decide.explain import counts_in_words
from scaler.kube.api import CONFIG_MAPS, DEPLOYMENTS, ELASTIC_SERVICES, PODS, Object
from scaler.kube.errors import ForbiddenError, NotFoundError
from scaler.names import RULE_KEY, RULE_LABEL
from scaler.rules.values import as_count, as_list, as_text, at
from scaler.tools.common.access import Access
from scaler.tools.common.console import clean
from scaler.tools.common.detail import counts_of
from scaler.tools.common.leader import leaders
from scaler.tools.common.notes import absent_scaler
from scaler.tools.common.records import condition
from scaler.tools.deploy.inventory import Found, Inventory, inventory, not_there
from scaler.tools.deploy.kinds import OWNERS
from scaler.tools.deploy.pods import is_ready, pods_of, why_waiting

_NO_SCALER = """\
the scaler is not installed here, or you have no right to list elasticservices: \
where it is not, nobody follows the ratios, and pods with its gate stay held"""


class Part(msgspec.Struct, frozen=True):
    """One object. `wanted` and `ready` pods are None if it makes none; `elastic`: it names a
    rule."""

    kind: str
    name: str
    ready: int | None = None
    wanted: int | None = None
    elastic: bool = False
    state: str = "there"
    why: str = ""
    behind: str = ""
    """The part of its last change that is not done yet, although pods may be ready: these are the
    former ones."""

    @property
    def is_complete(self) -> bool:
        return self.wanted is None or ((self.ready or 0) >= self.wanted and not self.behind)


class Ladder(msgspec.Struct, frozen=True):
    """The scaler's status of the service. `reached`: the step that runs, -1 below the smallest."""

    name: str
    available: bool
    ratios: tuple[str, ...] = ()
    reached: int = -1
    why: str = ""


class Standing(msgspec.Struct, frozen=True):
    """A whole service. `serves`: one of its ratios runs; `notes`: limits of the answer."""

    name: str
    namespace: str
    available: bool
    parts: tuple[Part, ...]
    ladders: tuple[Ladder, ...] = ()
    serves: bool = False
    notes: tuple[str, ...] = ()

    def waits(self) -> Iterator[str]:
        """What prevents the service from being available, with the reason."""
        for ladder in self.ladders:
            if not ladder.available:
                yield (
                    "not even the smallest ratio runs:"
                    f" {ladder.why or 'the scaler has not said why yet'}"
                )
        for part in self.parts:
            if not (part.is_complete or (part.elastic and self.serves and not part.behind)):
                words = f"{part.kind} {part.name}: {part.ready} of {part.wanted} pods ready"
                yield f"{words}; {part.behind or part.why}" if part.behind or part.why else words


async def standing(access: Access, name: str, namespace: str) -> tuple[Standing, Inventory]:
    """The present state. Raises KubeError."""
    api = access.api
    known, pods, services = await asyncio.gather(
        inventory(api, name, namespace), _listed(access, namespace), _services(access, namespace)
    )
    rules = set()
    for one in known.found:
        if one.resource == CONFIG_MAPS and RULE_KEY in at(one.object, "data"):
            rules.add(one.name)
    found = []
    for item in services or ():
        if at(item, "spec").get("rule") in rules:
            found.append(_ladder(item))
    ladders = tuple(found)
    serves = bool(ladders) and all(one.available for one in ladders) and _runs(known.found, pods)
    parts = tuple(_parts(known.found, pods, serves=serves))
    notes = known.notes() + await not_there(api, namespace, [one.object for one in known.found])
    if pods is None:
        notes.append("you may not read pods: whether they are ready, and why not, is not known")
    if rules:
        notes += await _of_the_scaler(access, namespace, services)
    made = Standing(name, namespace, False, parts, ladders, serves, tuple(notes))
    return msgspec.structs.replace(made, available=bool(parts) and not any(made.waits())), known


async def _listed(access: Access, namespace: str) -> list[Object] | None:
    with suppress(ForbiddenError):
        return (await access.api.list(PODS, namespace)).items
    return None


async def _services(access: Access, namespace: str) -> list[Object] | None:
    """None without such a kind, or without the right to read it."""
    with suppress(ForbiddenError, NotFoundError):
        return (await access.api.list(ELASTIC_SERVICES, namespace)).items
    return None


async def _of_the_scaler(
    access: Access, namespace: str, services: list[Object] | None
) -> list[str]:
    """Notes about a scaler that follows the rule of this service, or its absence."""
    now = access.clock.server()
    if services is None:
        return [_NO_SCALER]
    return list(absent_scaler(await leaders(access.api), [namespace], now))


def _runs(found: Sequence[Found], pods: list[Object] | None) -> bool:
    """Whether any instance may run: just after a service was deleted and created again, its
    ElasticService is still that of the former service."""
    if pods is None:
        return True
    elastic = [(one.resource, one.object) for one in found if _is_elastic(one.object)]
    for own in pods_of(elastic, pods).values():
        if any(map(is_ready, own)):
            return True
    return False


def _is_elastic(obj: Object) -> bool:
    return RULE_LABEL in json.dumps(obj)


def _parts(found: Sequence[Found], pods: list[Object] | None, *, serves: bool) -> Iterator[Part]:
    """`serves`: a ratio runs, so an object that names a rule need not be complete."""
    made = pods_of(((one.resource, one.object) for one in found), pods or [])
    for one in found:
        deleted = bool(one.object["metadata"].get("deletionTimestamp"))
        if one.resource not in OWNERS:
            yield Part(
                one.resource.kind, clean(one.name), state="being deleted" if deleted else "there"
            )
            continue
        own = made[one.resource, one.name]
        wanted = wanted_of(one)
        ready = sum(map(is_ready, own)) if pods is not None else _ready_of(one)
        why = why_waiting(own) or (_no_pods(one) if not own and wanted and pods is not None else "")
        elastic = _is_elastic(one.object)
        behind = behind_of(one, wanted)
        if deleted:
            state = "being deleted"
        elif behind:
            state = "changes"
        else:
            state = _state_of_pods(ready, wanted, may_be_held=elastic and serves)
        yield Part(
            one.resource.kind, clean(one.name), ready, wanted, elastic, state, behind or why, behind
        )


def _state_of_pods(ready: int, wanted: int, *, may_be_held: bool) -> str:
    """`may_be_held`: a ratio runs without this object, so the scaler may hold its pods."""
    if ready >= wanted:
        return "available"
    if not may_be_held:
        return "waits"
    if ready:
        return "runs in part"
    return "held"


def behind_of(one: Found, wanted: int) -> str:
    """The part of the last change that is not done yet, as far as the object shows it."""
    meta = one.object["metadata"]
    status = at(one.object, "status")
    if "observedGeneration" in status and as_count(status["observedGeneration"]) < as_count(
        meta.get("generation")
    ):
        return "its controller has not seen the last change yet"
    if (
        one.resource == DEPLOYMENTS
        and "updatedReplicas" in status
        and as_count(status["updatedReplicas"]) < wanted
    ):
        return f"{as_count(status['updatedReplicas'])} of {wanted} pods are of the new template"
    return ""


def _ready_of(one: Found) -> int:
    """Ready pods according to the object, without the right to read pods."""
    status = at(one.object, "status")
    return as_count(status.get("readyReplicas"))


def _no_pods(one: Found) -> str:
    said = []
    for entry in map(at, as_list(at(one.object, "status").get("conditions"))):
        if entry.get("status") == "False" and entry.get("message"):
            said.append(f"{entry.get('reason') or entry.get('type')}: {entry.get('message')}")
    return (
        clean(said[0])[:300]
        if said
        else f"there are no pods yet; {OWNERS[one.resource].pods_made_by} makes them"
    )


def wanted_of(one: Found) -> int:
    """Pods according to the object's spec."""
    pods_wanted = OWNERS[one.resource].pods_wanted
    return pods_wanted(one.object) if pods_wanted is not None else 0


def _ladder(service: Object) -> Ladder:
    status = at(service, "status")
    available = condition(status, "Available")
    return Ladder(
        name=clean(at(service, "metadata").get("name")),
        available=as_text(at(available).get("status")) == "True",
        ratios=tuple(_words(status, ratio) for ratio in as_list(status.get("ratios"))),
        reached=int(at(status, "currentRatio").get("index", -1)),
        why=clean(status.get("message") or ""),
    )


def _words(status: Any, ratio: Any) -> str:
    return clean(counts_in_words(counts_of(status, ratio)))
