"""Which tests `make test` leaves to `make test-rest`: those marked `long`
(docs/reference/tests.md).

What runs against another Kubernetes than the first one of `tests.control_plane.build.VERSIONS` is
marked so here, and tests that wait are spread over the workers."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling
from xdist.workermanage import WorkerController

from tests.control_plane.build import VERSIONS

KUBERNETES = "kubernetes"
"""User property of a test that runs against a control plane: the version."""


def short_and_long(values: Iterable[object], *, short: int, why: str) -> list[object]:
    """Values of a parametrised test: the first `short` of them in every run, the others are marked
    `long`."""
    return [
        value if number < short else pytest.param(value, marks=pytest.mark.long(why))
        for number, value in enumerate(values)
    ]


def pytest_configure(config: pytest.Config) -> None:
    words = (
        "not in `make test`, because it takes long or needs other programs; `first`: begins before"
        " all others"
    )
    config.addinivalue_line("markers", f"long(why, first=False): {words}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """After the control plane's plugin, which notes the versions, and before pytest chooses by
    marks."""
    for item in items:
        if dict(item.user_properties).get(KUBERNETES, VERSIONS[0]) != VERSIONS[0]:
            item.add_marker(pytest.mark.long("another version of Kubernetes"))
    items.sort(
        key=lambda item: not any(mark.kwargs.get("first") for mark in item.iter_markers("long"))
    )


class Mixed(LoadGroupScheduling):
    """Every other worker prefers tests of the control plane, which wait most of their time; the
    others compute."""

    _used_up: frozenset[bool] = frozenset()

    def _assign_work_unit(self, node: WorkerController) -> None:
        waits = self.nodes.index(node) % 2 == 0
        # thousands: look through them once in vain
        units = () if waits in self._used_up else self.workqueue.items()
        preferred = (
            scope
            for scope, tests in units
            if next(iter(tests)).startswith("tests/control_plane/") == waits
        )
        if scope := next(preferred, ""):
            self.workqueue.move_to_end(scope, last=False)
        else:
            self._used_up |= {waits}
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)  # unknown with `-p no:xdist`
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadGroupScheduling | None:
    return Mixed(config, log) if config.getoption("dist") == "loadgroup" else None
