"""pytest and the real control plane: options, the `plane` fixture, the logs of a failure, and what ran against what.

These tests run in real time, on machines that others use too: one that fails is run once more, on a fresh plane,
and the last lines count how often that was needed. A test that fails twice has failed.
A test that takes `plane` runs against the default Kubernetes version; a test or module marked `every_kubernetes` runs
against all of them, one marked `kubernetes_from(36)` against the oldest from 1.36 on. `plane_options` of a test are put
over those of its module; tests of a module with the same options and version share a plane. Those whose plane has
Volcano or Ascend Operator are left out where its programs are not. Nothing is left out without a line about it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from scaler.sim.apiserver.crds import definitions
from tests.control_plane.build import ETCD, KWOK, VERSIONS, binaries, given_folder
from tests.control_plane.given import GIVEN
from tests.control_plane.plane import ControlPlane, PlaneOptions
from tests.parts import KUBERNETES


class Planned(NamedTuple):
    """The control plane of some tests of a module, before it is started."""

    version: str
    options: dict[str, Any]
    number: int
    """Among those of its module."""
    left: int = 0
    """How often a fresh one took its place, after a test that failed."""


_PLANNED: dict[str, list[Planned]] = {}
"""By module. A fixture is kept as long as its parameter is equal."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("control plane")
    group.addoption("--no-control-plane", action="store_true", help="leave out the tests that need its programs")
    group.addoption(
        "--kubernetes",
        action="append",
        choices=VERSIONS,
        help=f"only this version (may be given again; default: {', '.join(VERSIONS)})",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "every_kubernetes: run against every Kubernetes version, not only the default")
    config.addinivalue_line("markers", "kubernetes_from(minor): run against the oldest version that is as new as this")
    config.addinivalue_line("markers", "plane_options(**options): PlaneOptions of the control plane")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The planes of a test; its id says the version."""
    if "plane" not in metafunc.fixturenames:
        return
    chosen = _chosen(metafunc.config)
    marks = {mark.name: mark for mark in metafunc.definition.iter_markers()}
    if "kubernetes_from" in marks:
        minors = {int(version.split(".")[1]): version for version in chosen}
        chosen = tuple(minors[minor] for minor in sorted(minors) if minor >= marks["kubernetes_from"].args[0])[:1]
    elif "every_kubernetes" not in marks:
        chosen = chosen[:1]
    planned = [_planned(metafunc.definition, version) for version in chosen]
    metafunc.parametrize("plane", planned, indirect=True, scope="module", ids=chosen)


def _planned(item: pytest.Item | pytest.Collector, version: str) -> Planned:
    known = _PLANNED.setdefault(item.nodeid.partition("::")[0], [])
    options = _plane_options(item)
    for planned in known:
        if (planned.version, planned.options) == (version, options):
            return planned
    known.append(Planned(version, options, len(known)))
    return known[-1]


def _chosen(config: pytest.Config) -> tuple[str, ...]:
    """The versions to run against; what needs only one takes the first."""
    return tuple(config.getoption("--kubernetes") or VERSIONS)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks for groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect on demand, and for want of Volcano or Ascend Operator; keep the tests of one plane in one worker."""
    without = config.getoption("--no-control-plane")
    absent = [option for option, given in GIVEN.items() if given.folder() is None]
    left_out = {
        item
        for item in items
        if (_needs_plane(item) if without else any(_plane_options(item).get(option) for option in absent))
    }
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]
    for item in filter(_needs_plane, items):
        planned = _planned_of(item)
        item.user_properties.append((KUBERNETES, planned.version if planned else _chosen(config)[0]))
        item.add_marker(pytest.mark.flaky(reruns=1))
        if planned:
            item.add_marker(pytest.mark.xdist_group(f"{item.path.stem}-{planned.number}"))


def _needs_plane(item: pytest.Item) -> bool:
    return "programs_needed" in getattr(item, "fixturenames", ())


def _plane_options(node: pytest.Item | pytest.Collector) -> dict[str, Any]:
    marks = [mark.kwargs for mark in node.iter_markers("plane_options")]
    return {name: value for options in reversed(marks) for name, value in options.items()}


def _planned_of(item: pytest.Item) -> Planned | None:
    """None where it takes no shared plane, or none of the chosen versions fits (pytest skips it)."""
    call = getattr(item, "callspec", None)
    planned = call.params.get("plane") if call else None
    return planned if isinstance(planned, Planned) else None


@pytest.fixture(scope="session")
def programs_needed() -> None:
    """Taken by everything that runs the control plane's programs; `--no-control-plane` leaves it out."""


@pytest.fixture(scope="module")
def plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, programs_needed: None
) -> Iterator[ControlPlane]:
    """A fresh control plane for the module."""
    options = PlaneOptions(**{"crds": definitions(), **request.param.options})
    with ControlPlane(tmp_path_factory.mktemp("plane"), binaries(request.param.version), options) as started:
        yield started


class FreshPlane:
    """Starts a control plane for one test; it ends with the test."""

    def __init__(self, folder: Path, version: str) -> None:
        self._folder = folder
        self._version = version
        self.started: list[ControlPlane] = []

    def __call__(self, options: PlaneOptions | None = None) -> ControlPlane:
        plane = ControlPlane(self._folder / f"plane-{len(self.started)}", binaries(self._version), options)
        self.started.append(plane)
        return plane.__enter__()


@pytest.fixture
def fresh_plane(pytestconfig: pytest.Config, tmp_path: Path, programs_needed: None) -> Iterator[FreshPlane]:
    """For tests that need a control plane of their own."""
    factory = FreshPlane(tmp_path, _chosen(pytestconfig)[0])
    yield factory
    for started in factory.started:
        started.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for used in getattr(item, "funcargs", {}).values():
            for plane in used.started if isinstance(used, FreshPlane) else [used]:
                if isinstance(plane, ControlPlane):
                    tails = "\n".join(program.tail() for program in plane.programs.values())
                    report.sections.append(("the control plane's logs", tails))
        # It may have left anything behind: it is run again on a fresh plane, and so is the rest of its tests.
        if planned := _planned_of(item):
            fresh = planned._replace(left=planned.left + 1)
            for other in item.session.items:
                if _planned_of(other) is planned:
                    other.callspec.params["plane"] = fresh  # type: ignore[attr-defined]
    return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """What ran against which versions, and what did not."""
    if config.getoption("--no-control-plane"):
        terminalreporter.write_line("control plane: not run, --no-control-plane was given")
        return
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for outcome in ("error", "failed", "passed", "skipped"):
        for report in terminalreporter.stats.get(outcome, []):
            version = dict(getattr(report, "user_properties", ())).get(KUBERNETES)
            counts[str(version)][outcome] += 1
    for version in VERSIONS:
        found = ", ".join(f"{number} {outcome}" for outcome, number in counts[version].items())
        terminalreporter.write_line(f"control plane: Kubernetes {version}: {found or 'no test was selected'}")
    for report in terminalreporter.stats.get("rerun", []):
        crash = getattr(report.longrepr, "reprcrash", None)
        why = " ".join(crash.message.split())[:200] if crash else ""
        terminalreporter.write_line(f"control plane: failed once and was run again: {report.nodeid}: {why}")
    for given in GIVEN.values():
        terminalreporter.write_line(f"control plane: {given.name}: {given.source()}")
    folder = given_folder()
    source = f"from {folder}" if folder else f"with etcd {ETCD.version}, kwok {KWOK.version}"
    terminalreporter.write_line(f"control plane: {source}")
