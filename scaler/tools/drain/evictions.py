"""The pods of some nodes that a drain would evict, and the disruption budgets that refuse. Pure but
for the listing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from scaler.informers.records import selects
from scaler.kube.api import DISRUPTION_BUDGETS, PODS, KubeApi, Object
from scaler.kube.errors import ForbiddenError
from scaler.names import BUDGET
from scaler.rules.values import as_text, at
from scaler.tools.drain.admission import asked_about_evictions

_MIRROR = "kubernetes.io/config.mirror"
_ENDED = ("Succeeded", "Failed")


class Evictions(msgspec.Struct, frozen=True):
    """The pods of some nodes. Names are NAMESPACE/NAME."""

    pods: tuple[str, ...]
    """Pods that would be evicted."""
    stay: int
    """Pods of DaemonSets: they return at once, so a drain ignores them."""
    local: int
    """Of `pods`, those with emptyDir volumes: the content is lost."""
    bare: tuple[str, ...]
    """Of `pods`, those without a controller that makes them again."""
    refused: tuple[str, ...]
    """Evictions that budgets do not allow now, in words."""
    asked: tuple[str, ...] = ()
    """Who is asked about evictions beside budgets and may refuse them, in words: what each of them
    answers is not known before."""


async def evictions(api: KubeApi, nodes: Iterable[str]) -> Evictions:
    """The evictions. Raises KubeError if pods may not be read."""
    found = []
    for name in nodes:
        found.extend((await api.list(PODS, field_selector=f"spec.nodeName={name}")).items)
    pods = [pod for pod in found if _counts(pod)]
    known = judged(pods, await _budgets(api, {_namespace(pod) for pod in found}))
    return msgspec.structs.replace(known, asked=await asked_about_evictions(api))


async def _budgets(api: KubeApi, namespaces: Iterable[str]) -> list[Object] | None:
    """None if budgets may not be read."""
    try:
        found: list[Object] = []
        for name in sorted(namespaces):
            found.extend((await api.list(DISRUPTION_BUDGETS, name)).items)
        return found
    except ForbiddenError:
        return None


def judged(pods: Sequence[Object], budgets: Sequence[Object] | None) -> Evictions:
    """The evictions, given the budgets of the namespaces of these pods; None = unknown."""
    evicted = [pod for pod in pods if _maker(pod) != "DaemonSet"]
    return Evictions(
        pods=tuple(map(_name, evicted)),
        stay=len(pods) - len(evicted),
        local=len([pod for pod in evicted if _has_local_data(pod)]),
        bare=tuple(_name(pod) for pod in evicted if not _maker(pod)),
        refused=(
            ("you may not read PodDisruptionBudgets: whether one refuses something is not known",)
            if budgets is None
            else tuple(_refusals(evicted, budgets))
        ),
    )


def _has_local_data(pod: Object) -> bool:
    return any("emptyDir" in volume for volume in at(pod, "spec").get("volumes") or ())


def _refusals(pods: Sequence[Object], budgets: Sequence[Object]) -> Iterator[str]:
    asked: Counter[str] = Counter()
    allowed = {}
    for budget in budgets:
        allowed[_name(budget)] = at(budget, "status").get("disruptionsAllowed", 0)
    for pod in pods:
        over = []
        for one in budgets:
            if _covers(one, pod):
                over.append(_name(one))
        if len(over) > 1:
            yield (
                f"pod {_name(pod)}: {len(over)} budgets are about it ({', '.join(over)}), and no"
                " eviction is possible"
            )
        elif over:
            asked[over[0]] += 1
    for name, count in sorted(asked.items()):
        if count > allowed[name] and name.partition("/")[2].startswith(BUDGET):
            yield (
                f"PodDisruptionBudget {name} keeps {count} for a minimum until others run"
                " elsewhere: until then kubectl drain says 'Cannot evict pod as it would violate"
                " the pod's disruption budget' and tries again every 5 s"
            )
        elif count > allowed[name]:
            yield (
                f"PodDisruptionBudget {name} allows {allowed[name]} of {count} evictions now;"
                " kubectl drain tries the others again every 5 s"
            )


def _covers(budget: Object, pod: Object) -> bool:
    same = _namespace(budget) == _namespace(pod)
    return same and selects(at(budget, "spec").get("selector"), at(pod, "metadata", "labels"))


def _counts(pod: Object) -> bool:
    """Whether a pod is evicted: not if it has ended, is being deleted, or comes from a file of the
    kubelet."""
    meta = at(pod, "metadata")
    ended = at(pod, "status").get("phase") in _ENDED
    return not (ended or "deletionTimestamp" in meta or _MIRROR in at(meta, "annotations"))


def _maker(pod: Object) -> str:
    """The kind of its controller, "" for none."""
    owners = pod["metadata"].get("ownerReferences") or ()
    for owner in owners:
        if owner.get("controller"):
            return as_text(owner.get("kind"))
    return ""


def _namespace(obj: Object) -> str:
    return str(obj["metadata"]["namespace"])


def _name(obj: Object) -> str:
    return f"{_namespace(obj)}/{obj['metadata']['name']}"
