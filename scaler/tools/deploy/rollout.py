"""Applies a service: all objects are read and checked before the first write, written in order, and
undone on failure.

Everything is server-side apply with a field manager of its own. The dry run returns each object as
it would become; an object that would not change is not written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from scaler.kube.api import NAMESPACES, Apply, KubeApi, Object, PatchType, Resource
from scaler.kube.errors import AlreadyExistsError, ForbiddenError, KubeError
from scaler.names import MANAGED_BY_LABEL, RANK_TABLE_PREFIX
from scaler.tools.deploy.inventory import Found, Inventory, inventory, look, not_there
from scaler.tools.deploy.kinds import UnknownKindError, place_of, resource_of
from scaler.tools.deploy.objects import MANAGER, as_before, differs, is_made_for, labelled, maker_of
from scaler.tools.deploy.refusals import DeployError, in_words, missing_kind
from scaler.tools.deploy.removal import PATIENCE, remove, until_gone, why_left

if TYPE_CHECKING:  # its models take 0.1 s to load
    from scaler.tools.common.short_file.service import Service

Print = Callable[[str], None]


class Change(NamedTuple):
    """One object: what is sent, the existing object (None if there is none), and the result of the
    dry run."""

    resource: Resource
    body: Object
    before: Object | None
    after: Object | None = None

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def is_needed(self) -> bool:
        return self.before is None or self.after is None or differs(self.before, self.after)

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.name}"


class Rollout(NamedTuple):
    """All changes in the order of their writes; `pruned`: made for the service, and no longer in
    the file."""

    changes: tuple[Change, ...]
    pruned: tuple[Found, ...]
    notes: tuple[str, ...]


class ApplyMode(NamedTuple):
    """`force`: fields of other owners are taken; `dry_run`: nothing is written."""

    force: bool = False
    dry_run: bool = False


class Prepared(NamedTuple):
    """The checked changes. `namespace`: the one made for them ({}: would be made), None if it
    existed."""

    rollout: Rollout
    namespace: Object | None


async def prepared(api: KubeApi, service: Service, mode: ApplyMode, print_line: Print) -> Prepared:
    """Read the objects, and let the API server check all changes. In a missing namespace it checks
    nothing, so the namespace is created first, and deleted again after an error. Raises DeployError
    with all problems, KubeError if the cluster does not answer."""
    rollout = await _surveyed(api, service)
    namespace = await _namespace_made(api, service.namespace, mode)
    if namespace is not None and mode.dry_run:
        return Prepared(rollout, namespace)
    try:
        checked = await _checked(api, rollout.changes, service.namespace, mode)
        return Prepared(rollout._replace(changes=tuple(checked)), namespace)
    except (DeployError, KubeError, asyncio.CancelledError):
        await _delete_namespace(api, namespace, print_line)
        raise


async def _surveyed(api: KubeApi, service: Service) -> Rollout:
    known = await inventory(api, service.name, service.namespace)
    changes = [await _looked_at(api, service, obj, known) for obj in service.objects]
    problems = list(dict.fromkeys(_lacking(changes, known)))
    for change in changes:
        problems.extend(_foreign(change, service))
    if problems:
        raise DeployError(*problems)
    kept = {(change.resource, change.name) for change in changes}
    pruned = tuple(found for found in known.found if (found.resource, found.name) not in kept)
    notes = await not_there(api, service.namespace, service.objects)
    return Rollout(tuple(changes), pruned, (*known.notes(), *notes))


async def _looked_at(api: KubeApi, service: Service, obj: Object, known: Inventory) -> Change:
    try:
        resource = resource_of(obj)
    except UnknownKindError as error:
        raise DeployError(str(error)) from None
    body = labelled(obj, service.name, service.namespace)
    name = body["metadata"]["name"]
    place = place_of(resource, service.namespace)
    if resource in known.missing:
        return Change(resource, body, None)
    try:
        before = await look(api, resource, place, name)
    except ForbiddenError as error:
        raise DeployError(*in_words(error, resource, name)) from None
    if before is not None and name.startswith(RANK_TABLE_PREFIX):
        body["data"] = before.get("data") or {}  # the writer of rank tables owns their content
    return Change(resource, body, before)


def _lacking(changes: Sequence[Change], known: Inventory) -> list[str]:
    found: list[str] = []
    for change in changes:
        if change.resource in known.missing:
            found.append(missing_kind(change.resource))
    return found


def _foreign(change: Change, service: Service) -> list[str]:
    if change.before is None:
        return []
    if not is_made_for(change.before, service.name, service.namespace):
        where = f" in namespace {service.namespace}" if change.resource.namespaced else ""
        words = f"{change}{where} is there already and is not this service's"
        cure = "Choose another app_name or app_namespace, or delete it first."
        return [f"{words}: {maker_of(change.before)}. {cure}"]
    if change.before["metadata"].get("deletionTimestamp"):
        see = f"see `scaler deploy status {service.name}`"
        return [f"{change} is being deleted: wait until it is gone, or {see}"]
    return []


async def _checked(
    api: KubeApi, changes: Sequence[Change], namespace: str, mode: ApplyMode
) -> list[Change]:
    """The changes with the result of the dry run."""
    checked: list[Change] = []
    problems: list[str] = []
    for change in changes:
        try:
            after = await _apply(api, change, namespace, Apply(MANAGER, mode.force, dry_run=True))
            checked.append(change._replace(after=after))
        except KubeError as error:
            problems += in_words(error, change.resource, change.name)
    if problems:
        raise DeployError(*problems)
    return checked


async def _apply(api: KubeApi, change: Change, namespace: str, how: Apply) -> Object:
    place = place_of(change.resource, namespace)
    return await api.patch(
        change.resource, place, change.name, change.body, patch_type=PatchType.APPLY, apply=how
    )


async def _namespace_made(api: KubeApi, name: str, mode: ApplyMode) -> Object | None:
    try:
        if await look(api, NAMESPACES, None, name) is not None:
            return None
    except ForbiddenError:
        # a caller without rights on namespaces uses an existing one; if it is missing, the check
        # says so
        return None
    if mode.dry_run:
        return {}
    metadata = {"name": name, "labels": {MANAGED_BY_LABEL: MANAGER}}
    try:
        return await api.create(
            NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        )
    except AlreadyExistsError:
        return None
    except ForbiddenError as error:
        raise DeployError(f"there is no namespace {name}, and {error.message}") from None


async def _delete_namespace(api: KubeApi, namespace: Object | None, print_line: Print) -> None:
    """Delete the namespace that this apply has created: its objects were deleted before."""
    if namespace:
        found = Found(NAMESPACES, namespace)
        left = await remove(api, [found], found.name)
        for one in await until_gone(api, [found], found.name, PATIENCE):
            left[str(one)] = why_left(one)
        print_line(f"{found}: {left.get(str(found)) or 'deleted again'}")


async def carry_out(
    api: KubeApi, made: Prepared, namespace: str, print_line: Print, mode: ApplyMode
) -> None:
    """Write the changes. A refusal or an interruption undoes all; DeployError says why and what is
    left."""
    tried: list[Change] = []
    if made.namespace:
        print_line(f"Namespace {namespace}: created")
    try:
        for change in made.rollout.changes:
            if change.is_needed:
                tried.append(change)
                await _apply(api, change, namespace, Apply(MANAGER, mode.force))
                print_line(f"{change}: {'created' if change.before is None else 'changed'}")
            else:
                print_line(f"{change}: unchanged")
    except KubeError as error:
        why = list(in_words(error, tried[-1].resource, tried[-1].name))
        raise DeployError(
            *why, *await _undo(api, tried, namespace, print_line, made.namespace)
        ) from None
    except asyncio.CancelledError:
        print_line("interrupted")
        for line in await _undo(api, tried, namespace, print_line, made.namespace):
            print_line(line)
        raise
    await _prune(api, made.rollout.pruned, namespace, print_line)


async def _prune(api: KubeApi, pruned: Sequence[Found], namespace: str, print_line: Print) -> None:
    left = await remove(api, pruned, namespace)
    for found in pruned:
        print_line(f"{found}: {left.get(str(found)) or 'deleted, the file has it no more'}")
    if left:
        raise DeployError(*(f"{name}: cannot be deleted: {why}" for name, why in left.items()))


async def _undo(
    api: KubeApi, tried: Sequence[Change], namespace: str, print_line: Print, made: Object | None
) -> list[str]:
    """Restore the state before, last change first. Returns what could not be restored."""
    problems = []
    created = []
    for change in reversed(tried):
        try:
            now = await look(
                api, change.resource, place_of(change.resource, namespace), change.name
            )
            if now is None:
                continue
            if change.before is None:
                created.append(Found(change.resource, now))
            elif differs(change.before, now):
                await _put_back(api, change, now, namespace)
                print_line(f"{change}: put back as it was")
        except (KubeError, DeployError) as error:
            problems.append(f"{change} could not be put back: {error}")
    left = await remove(api, created, namespace)
    gone = [found for found in created if str(found) not in left]
    left |= {str(one): why_left(one) for one in await until_gone(api, gone, namespace, PATIENCE)}
    for found in created:
        if str(found) not in left:
            print_line(f"{found}: deleted again")
    problems += [f"{name} could not be deleted again: {why}" for name, why in left.items()]
    if not problems:
        await _delete_namespace(api, made, print_line)
    return problems or ["Nothing of this apply is left: all is as it was before."]


async def _put_back(api: KubeApi, change: Change, now: Object, namespace: str) -> None:
    """Raises DeployError if the state applied before is unknown."""
    body = as_before(change.before or {}, now)
    if body is None:
        raise DeployError("its managedFields do not tell what was applied before")
    await _apply(api, change._replace(body=body), namespace, Apply(MANAGER))
