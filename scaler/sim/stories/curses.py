"""The curses of a scenario: whom they mean, and when.

Must not: carry them out; the stand-ins do (scaler.sim.actors.faulty_api).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase

from scaler.kube.api import Object
from scaler.sim.actors import objects
from scaler.sim.actors.faulty_api import Never
from scaler.sim.stories.instances import claim_of
from scaler.sim.stories.scenario import Curse


class Curses:
    """Called with what never happens and to whom. `elapsed` gives the seconds since the start of the scenario."""

    def __init__(self, curses: Sequence[Curse], elapsed: Callable[[], float]) -> None:
        self._waiting = list(curses)
        """Those that have met nobody yet."""
        self._curses = tuple(curses)
        self._elapsed = elapsed

    def __call__(self, never: Never, obj: Object) -> bool:
        """Whether a curse holds now for the instance that the object belongs to."""
        meant = [curse for curse in self._curses if _means(curse, obj)]
        self._waiting = [curse for curse in self._waiting if curse not in meant]
        return any(curse.never is never and _holds(curse, self._elapsed()) for curse in meant)

    def __bool__(self) -> bool:
        return bool(self._curses)

    @property
    def unmet(self) -> tuple[Curse, ...]:
        """Those that have met nobody: their names may be wrong."""
        return tuple(self._waiting)


def _holds(curse: Curse, now: float) -> bool:
    return curse.since <= now and (curse.until is None or now < curse.until)


def _means(curse: Curse, obj: Object) -> bool:
    namespace, _, name = curse.of.rpartition("/")
    if not fnmatchcase(objects.namespace(obj), namespace or "default"):
        return False
    return any(fnmatchcase(found, name) or fnmatchcase(found, f"{name}-*") for found in _names(obj))


def _names(obj: Object) -> Iterator[str]:
    """What people call the instance: the object, its owners, and what its maker wrote onto it."""
    yield objects.name(obj)
    for owner in obj["metadata"].get("ownerReferences") or []:
        yield str(owner.get("name", ""))
    yield claim_of(obj, {}).instance
