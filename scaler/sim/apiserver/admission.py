"""Admission of the simulated API server: what webhooks and policies do to an object before it is stored.

A hook is a pure function; hooks are called in their order, each with what the one before made of the object. As on a
real API server they see requests for the object itself only, not for its status, and on a create neither the uid nor
a generated name. Must not: write, or keep anything between two calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from scaler.kube.api import Object, Resource


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """What a hook is asked about. `object` is the hook's own copy; `old` (None on a create) must not be changed."""

    operation: Literal["CREATE", "UPDATE"]
    resource: Resource
    namespace: str
    """"" for cluster-scoped objects."""
    namespace_labels: Mapping[str, str]
    object: Object
    old: Object | None = None


Hook = Callable[[Review], Object]
"""Gives the object as it shall be, the same one or a changed one; raises StatusError to refuse the request."""


def admit(hooks: Sequence[Hook], review: Review) -> Object:
    """The object after all hooks. Raises what a hook raises."""
    for hook in hooks:
        review = msgspec.structs.replace(review, object=hook(review))
    return review.object
