"""Questions of sharing that many services ask alike, in one place: so `again.py` can answer each of
them once. The answers are those of the clauses; nothing here decides."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from scaler.decide.draft import Draft
from scaler.decide.room.placement import Placement
from scaler.decide.room.shortage import Shortage
from scaler.decide.service.states import Member
from scaler.decide.sharing import choice, scale_up, sources, waiting
from scaler.decide.sharing.part import Admitted, Held, Part, ReservedMinimum


class Questions:
    """Each answer is found anew. `placement`: of the part."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement

    @cached_property
    def _empty(self) -> Placement:
        """The same nodes, empty and healthy."""
        return Placement(self._placement.nodes.emptied)

    @cached_property
    def _unreserved(self) -> Placement:
        """The same nodes, of which nothing is reserved."""
        return Placement(self._placement.nodes)

    def find(self, part: Part, draft: Draft) -> ReservedMinimum | Shortage:
        """3b.3: on which room the minimum is reserved."""
        return sources.find(part, draft)

    def why_too_large(self, draft: Draft) -> Shortage | None:
        """3b.1f: why the minimum would not fit on empty nodes."""
        return choice.why_too_large(draft, self._empty)

    def would_fit(self, part: Part, draft: Draft) -> bool:
        """3b.2a: whether what the service misses would fit if nobody reserved free room."""
        return waiting.would_fit(part, draft, self._unreserved)

    def scale_up(
        self, part: Part, draft: Draft, member: Member, others: Sequence[Member]
    ) -> Admitted | Held:
        """3b.7b: whether a held instance is admitted."""
        return scale_up.admission_of(part, draft, member, others)
