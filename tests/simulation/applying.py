"""`kubectl apply --prune` for tests: what is there is patched, what is not is created, what is left out is deleted."""

from __future__ import annotations

from collections.abc import Sequence

from scaler.kube.api import PODS, Object, PatchType
from scaler.kube.errors import NotFoundError
from scaler.sim.actors import objects
from scaler.sim.cluster import SimCluster


async def apply(cluster: SimCluster, made: Sequence[Object], *, prune: Sequence[Object] = ()) -> Sequence[Object]:
    """Gives `made`. A pod that is there stays as it is: of a pod nothing can be changed."""
    wanted = {(obj["kind"], objects.name(obj)) for obj in made}
    for obj in prune:
        if (obj["kind"], objects.name(obj)) not in wanted:
            await delete(cluster, obj)
    for obj in made:
        await _apply(cluster, obj)
    return made


async def delete(cluster: SimCluster, obj: Object) -> None:
    """That it is gone already is no error."""
    resource = cluster.server.catalog.of(obj).resource
    try:
        await cluster.delete(resource, objects.namespace(obj), objects.name(obj))
    except NotFoundError:
        return


async def _apply(cluster: SimCluster, obj: Object) -> None:
    resource = cluster.server.catalog.of(obj).resource
    place = objects.namespace(obj), objects.name(obj)
    try:
        await cluster.get(resource, *place)
    except NotFoundError:
        await cluster.create(resource, place[0], obj)
        return
    if resource != PODS:
        labels = {"metadata": {"labels": objects.labels_of(obj)}} if objects.labels_of(obj) else {}
        await cluster.patch(resource, *place, {"spec": obj["spec"], **labels}, patch_type=PatchType.MERGE)
