"""What real controllers write on pods tells the same instances as the pods that the unit tests are
made with."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from scaler.kube.api import (
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    KubeApi,
    Object,
    PatchType,
    Resource,
)
from scaler.kube.errors import AlreadyExistsError
from scaler.workloads.kinds import OWNER_SOURCES, membership_of, owner_facts
from scaler.workloads.leaderworkerset import LEADER_WORKER_SETS
from scaler.workloads.membership import Membership, OwnerFacts
from tests.control_plane.plane import ControlPlane
from tests.control_plane.stage import until
from tests.workloads.pods import LABELS, NAMESPACE, SAMPLES, facts

pytestmark = [
    pytest.mark.plane_options(lws=True),
    pytest.mark.shares_plane("leader worker sets"),
    pytest.mark.long("LeaderWorkerSet's manager has to be built"),
]

MADE_BY: dict[str, Resource] = {
    "Deployment": DEPLOYMENTS,
    "StatefulSet": STATEFUL_SETS,
    "LeaderWorkerSet": LEADER_WORKER_SETS,
}
_TEMPLATES = {"LeaderWorkerSet": ("leaderWorkerTemplate", "workerTemplate")}


def body(kind: str) -> Object:
    """The sample's object, complete, with labels of its own."""
    sample = next(sample for sample in SAMPLES if sample.name == kind)
    made: Object = msgspec.json.decode(msgspec.json.encode(sample.object))
    made |= {"apiVersion": MADE_BY[kind].api_version, "kind": kind}
    _template(kind, made)["metadata"]["labels"]["app"] = kind.lower()
    if kind != "LeaderWorkerSet":
        made["spec"]["selector"] = {"matchLabels": {"app": kind.lower()}}
    if kind == "StatefulSet":
        made["spec"] |= {"serviceName": "p", "podManagementPolicy": "Parallel"}
    return made


def _template(kind: str, obj: Object) -> Any:
    found = obj["spec"]
    for key in _TEMPLATES.get(kind, ("template",)):
        found = found[key]
    return found


async def make(api: KubeApi, kind: str) -> None:
    """The sample's object, unless it is there, and all of its pods."""
    sample = next(sample for sample in SAMPLES if sample.name == kind)
    wanted = sum(map(len, sample.make(sample.object)))
    with suppress(AlreadyExistsError):
        await api.create(NAMESPACES, None, {"metadata": {"name": NAMESPACE}})
    with suppress(AlreadyExistsError):
        await api.create(MADE_BY[kind], NAMESPACE, body(kind))

    async def there() -> bool:
        return len(await told(api, kind)) >= wanted

    await until(there, f"{wanted} pods", lambda: told(api, kind))


async def told(api: KubeApi, kind: str) -> list[Membership]:
    found = (await api.list(PODS, NAMESPACE, label_selector=f"app={kind.lower()}")).items
    return [
        membership for pod in found if (membership := membership_of(_complete(pod))) is not None
    ]


def _complete(pod: Object) -> Any:
    pod["metadata"].setdefault("annotations", {})
    return facts(pod)


@pytest.mark.parametrize("kind", MADE_BY)
async def test_real_pods_tell_the_instances_that_the_samples_tell(
    kind: str, plane: ControlPlane
) -> None:
    sample = next(sample for sample in SAMPLES if sample.name == kind)
    expected = [membership_of(facts(pod)) for pod in itertools.chain(*sample.make(sample.object))]
    async with plane.client() as api:
        await make(api, kind)
        found = await told(api, kind)
    assert sorted(map(_essence, found)) == sorted(
        _essence(one) for one in expected if one is not None
    )
    assert len({one.instance for one in found}) == len(sample.make(sample.object))
    assert all(one.key.rule == LABELS["mind-cluster/scaling-rule"] for one in found)
    # The manager of LeaderWorkerSets runs with gang scheduling here, which the samples have not.
    assert {one.shares_pod_group for one in found} == {kind != "LeaderWorkerSet"}


def _essence(membership: Membership) -> tuple[Any, ...]:
    """All but what is drawn: names and uids of mortal pods, revisions."""
    asks = tuple(kind for kind, _, _ in membership.described_by)
    identity = "" if membership.mortal else membership.instance
    return (
        membership.kind,
        identity,
        membership.size,
        membership.mortal,
        membership.owner,
        bool(membership.revision),
        asks,
    )


@pytest.mark.parametrize(
    ("kind", "teller"), [("Deployment", REPLICA_SETS), ("LeaderWorkerSet", STATEFUL_SETS)]
)
async def test_the_owner_tells_of_a_new_revision_while_pods_of_the_old_one_wait(
    kind: str, teller: Resource, plane: ControlPlane
) -> None:
    async with plane.client() as api:
        await make(api, kind)
        (old,) = {one.revision for one in await told(api, kind)}
        owner = (await told(api, kind))[0].owner
        assert (await newest(api, teller, owner)).revision == old
        changed = body(kind)
        _template(kind, changed)["metadata"]["annotations"]["edited"] = "yes"
        name = changed["metadata"]["name"]
        await api.patch(MADE_BY[kind], NAMESPACE, name, changed, patch_type=PatchType.MERGE)

        async def edited() -> bool:
            return (await newest(api, teller, owner)).revision not in ("", old)

        await until(
            edited, "the newest revision is another one", lambda: newest(api, teller, owner)
        )
        assert old in {one.revision for one in await told(api, kind)}


async def newest(api: KubeApi, teller: Resource, owner: str) -> OwnerFacts:
    decode = OWNER_SOURCES[teller][0].decode
    found = (await api.list(teller, NAMESPACE, decode=decode)).items
    told = map(owner_facts(teller), found)
    return max((one for one in told if one.owner == owner), key=lambda one: one.rank)
