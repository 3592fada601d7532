"""Which tests `make test` runs, and which only `make test-all` (docs/reference/tests.md).

`--part short` leaves out what is marked `long` and what runs against another Kubernetes than the first one of
`tests.control_plane.build.VERSIONS`; `--part rest` runs exactly what the other leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import pytest

from tests.control_plane.build import VERSIONS

SHORT, REST = "short", "rest"
KUBERNETES = "kubernetes"
"""User property of a test that runs against a control plane: the version."""
_Value = TypeVar("_Value")


def short_and_long(values: Iterable[_Value], *, short: int, why: str) -> list[object]:
    """Values of a parametrised test: the first `short` of them in every run, the others are marked `long`."""
    return [
        value if number < short else pytest.param(value, marks=pytest.mark.long(why))
        for number, value in enumerate(values)
    ]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", choices=(SHORT, REST), help="what `make test` runs, or what it leaves out")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long(why): not in `make test`, because it takes long or needs other programs")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """After the control plane's plugin, which notes the versions."""
    part = config.getoption("--part")
    left_out = [item for item in items if part and (part_of(item) != part)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]


def part_of(item: pytest.Item) -> str:
    """SHORT or REST."""
    version = dict(item.user_properties).get(KUBERNETES, VERSIONS[0])
    return REST if item.get_closest_marker("long") or version != VERSIONS[0] else SHORT


def pytest_report_header(config: pytest.Config) -> str:
    part = config.getoption("--part")
    said = {SHORT: "what `make test` runs", REST: "what `make test` leaves out", None: "all tests"}
    return f"part: {said[part]}"
