"""pytest and the real control plane: options, the `plane` fixture, the logs of a failure, and what
ran against what.

These tests run in real time, on machines that others use too: one that fails is run once more, on a
fresh plane, and the last lines count how often that was needed. A test that fails twice has failed.
A test that takes `plane` runs against the default Kubernetes version; a test or module marked
`every_kubernetes` runs against all of them, one marked `kubernetes_from(36)` against the oldest
from 1.36 on. `plane_options` of a test are put over those of its module; tests of a module with the
same options and version share a plane, and so do the modules that are marked with the same
`shares_plane`. Those whose plane has Volcano or Ascend Operator are left
out where its programs are not. What needs a program that is not in the cache is skipped where CI
does not wait for it (build.NEEDS_CACHE). Nothing is left out without a line about it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import count, filterfalse
from pathlib import Path
from typing import Any

import pytest

from scaler.sim.apiserver.crds import definitions
from tests.control_plane.build import (
    ETCD,
    NEEDS_CACHE,
    VERSIONS,
    NotInCacheError,
    binaries,
    given_folder,
)
from tests.control_plane.others import ASCEND_PLUGIN, GIVEN
from tests.control_plane.plane import ControlPlane, PlaneOptions
from tests.parts import KUBERNETES


@dataclass(frozen=True, eq=False)
class Planned:
    """The control plane of some tests, before it is started. A fixture is kept for the same one
    only."""

    version: str
    options: dict[str, Any]
    sharers: str
    """The module of its tests, or what is said by `shares_plane`."""
    number: int
    """Among those of the same sharers."""

    @property
    def name(self) -> str:
        return f"{Path(self.sharers).stem}-{self.number}"


NOT_IN_CACHE = "not in cache"
"""User property of a skipped test: the program that it needs."""

FreshPlane = Callable[[PlaneOptions], ControlPlane]
"""Starts a control plane for one test; it ends with the test."""
_PLANNED: dict[str, list[Planned]] = {}
"""By sharers."""
_STARTED: dict[Planned, ControlPlane] = {}
"""Shared planes that run."""
_NEXT = pytest.StashKey[Planned | None]()
"""Of the session: the plane of the test after the present one."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("control plane")
    group.addoption(
        "--no-control-plane", action="store_true", help="leave out the tests that need its programs"
    )
    words = f"only this version (may be given again; default: {', '.join(VERSIONS)})"
    group.addoption("--kubernetes", action="append", choices=VERSIONS, help=words)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "every_kubernetes: run against every Kubernetes version, not only the default"
    )
    config.addinivalue_line(
        "markers", "kubernetes_from(minor): run against the oldest version that is as new as this"
    )
    config.addinivalue_line(
        "markers", "plane_options(**options): PlaneOptions of the control plane"
    )
    words = "its tests use a plane together with the modules of the same name, one after the other"
    config.addinivalue_line("markers", f"shares_plane(name): {words}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The planes of a test; its id says the version."""
    if "plane" not in metafunc.fixturenames:
        return
    chosen = _chosen(metafunc.config)
    marks = {mark.name: mark for mark in metafunc.definition.iter_markers()}
    if "kubernetes_from" in marks:
        chosen = _oldest_from(marks["kubernetes_from"].args[0], chosen)
    elif "every_kubernetes" not in marks:
        chosen = chosen[:1]
    planned = [_planned(metafunc.definition, version) for version in chosen]
    metafunc.parametrize("plane", planned, indirect=True, scope="module", ids=chosen)


def _oldest_from(minor: int, versions: Iterable[str]) -> tuple[str, ...]:
    """The oldest of these versions that is 1.`minor` or newer, if there is one."""
    by_minor = {int(version.split(".")[1]): version for version in versions}
    for found in sorted(by_minor):
        if found >= minor:
            return (by_minor[found],)
    return ()


def _planned(item: pytest.Item | pytest.Collector, version: str) -> Planned:
    mark = item.get_closest_marker("shares_plane")
    sharers = mark.args[0] if mark else item.nodeid.partition("::")[0]
    known = _PLANNED.setdefault(sharers, [])
    options = _plane_options(item)
    for planned in known:
        if (planned.version, planned.options) == (version, options):
            return planned
    known.append(Planned(version, options, sharers, len(known)))
    return known[-1]


def _chosen(config: pytest.Config) -> tuple[str, ...]:
    """The versions to run against; what needs only one takes the first."""
    return tuple(config.getoption("--kubernetes") or VERSIONS)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks for groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect on demand, and for want of Volcano or Ascend Operator; keep the tests of one plane
    in one worker."""
    without = config.getoption("--no-control-plane")
    absent = [option for option, given in GIVEN.items() if not given.there]
    if not ASCEND_PLUGIN.there:
        absent.append("ascend_plugin")

    def left_out(item: pytest.Item) -> bool:
        if without:
            return _needs_plane(item)
        options = _plane_options(item)
        return any(options.get(option) for option in absent)

    config.hook.pytest_deselected(items=list(filter(left_out, items)))
    items[:] = filterfalse(left_out, items)
    for item in filter(_needs_plane, items):
        planned = _planned_of(item)
        item.user_properties.append(
            (KUBERNETES, planned.version if planned else _chosen(config)[0])
        )
        item.add_marker(pytest.mark.flaky(reruns=1))
        if planned:
            item.add_marker(pytest.mark.xdist_group(planned.name))


def _needs_plane(item: pytest.Item) -> bool:
    return "programs_needed" in getattr(item, "fixturenames", ())


def _plane_options(node: pytest.Item | pytest.Collector) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for mark in reversed(list(node.iter_markers("plane_options"))):
        options |= mark.kwargs
    return options


def _planned_of(item: pytest.Item) -> Planned | None:
    """None where it takes no shared plane, or none of the chosen versions fits (pytest skips
    it)."""
    call = getattr(item, "callspec", None)
    planned = call.params.get("plane") if call else None
    return planned if isinstance(planned, Planned) else None


@pytest.fixture(scope="session")
def programs_needed() -> None:
    """Taken by everything that runs the control plane's programs; `--no-control-plane` leaves it
    out."""


@pytest.fixture(scope="module")
def plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, programs_needed: None
) -> Iterator[ControlPlane]:
    """The control plane that is planned for the test. It runs on while the next test shares it."""
    planned: Planned = request.param
    if planned not in _STARTED:
        _stop_planes()  # of tests that were to come and did not
        options = PlaneOptions(**{"crds": definitions(), **planned.options})
        folder = tmp_path_factory.mktemp("plane")
        _STARTED[planned] = ControlPlane(folder, binaries(planned.version), options).__enter__()
    yield _STARTED[planned]
    if request.session.stash.get(_NEXT, None) is not planned:
        _stop_planes()


@pytest.hookimpl(tryfirst=True)  # before fixtures are finished
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    item.session.stash[_NEXT] = _planned_of(nextitem) if nextitem is not None else None


def pytest_sessionfinish() -> None:
    _stop_planes()


def _stop_planes() -> None:
    while _STARTED:
        _, started = _STARTED.popitem()
        started.stop()


@pytest.fixture
def fresh_plane(
    pytestconfig: pytest.Config, tmp_path: Path, programs_needed: None
) -> Iterator[FreshPlane]:
    """For tests that need a control plane of their own."""
    programs = binaries(_chosen(pytestconfig)[0])
    numbers = count()
    with ExitStack() as stack:
        yield lambda options: stack.enter_context(
            ControlPlane(tmp_path / f"plane-{next(numbers)}", programs, options)
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    absent = _not_in_cache(call.excinfo.value) if call.excinfo is not None else None
    if absent is not None:
        path, line, _ = item.location
        report.outcome = "skipped"
        report.longrepr = (path, line or 0, f"Skipped: {absent}")
        report.user_properties.append((NOT_IN_CACHE, absent.part))
    if report.failed:
        for plane in ControlPlane.running:
            tails = "\n".join(program.tail() for program in plane.programs.values())
            report.sections.append(("the control plane's logs", tails))
        # It may have left anything behind: it is run again on a fresh plane, and so is the rest of
        # its tests.
        if planned := _planned_of(item):
            fresh = replace(planned)
            for other in item.session.items:
                if _planned_of(other) is planned:
                    other.callspec.params["plane"] = fresh  # type: ignore[attr-defined]
    return report


def _not_in_cache(error: BaseException) -> NotInCacheError | None:
    """The program that a test lacks, also where tasks of a group ended with the test."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            if absent := _not_in_cache(one):
                return absent
    return error if isinstance(error, NotInCacheError) else None


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """What ran against which versions, and what did not."""
    if config.getoption("--no-control-plane"):
        terminalreporter.write_line("control plane: not run, --no-control-plane was given")
        return
    for version in VERSIONS:
        counts = {}
        for outcome in ("error", "failed", "passed", "skipped"):
            number = _count(terminalreporter.stats.get(outcome, []), (KUBERNETES, version))
            if number:
                counts[outcome] = number
        found = ", ".join(f"{number} {outcome}" for outcome, number in counts.items())
        terminalreporter.write_line(
            f"control plane: Kubernetes {version}: {found or 'no test was selected'}"
        )
    for part in NEEDS_CACHE:
        number = _count(terminalreporter.stats.get("skipped", []), (NOT_IN_CACHE, part))
        if number:
            terminalreporter.write_line(
                f"control plane: {part} is not in the cache: {number} tests that need it were"
                f" skipped; to run them: make control-plane VERSIONS={part}, make test-rest"
            )
    for report in terminalreporter.stats.get("rerun", []):
        crash = getattr(report.longrepr, "reprcrash", None)
        why = " ".join(crash.message.split())[:200] if crash else ""
        terminalreporter.write_line(
            f"control plane: failed once and was run again: {report.nodeid}: {why}"
        )
    for given in GIVEN.values():
        terminalreporter.write_line(f"control plane: {given.name}: {given.source()}")
    plugin = ASCEND_PLUGIN
    terminalreporter.write_line(f"control plane: {plugin.name}: {plugin.source()}")
    folder = given_folder()
    source = f"from {folder}" if folder else f"with etcd {ETCD.version}"
    terminalreporter.write_line(f"control plane: {source}")


def _count(reports: Iterable[Any], wanted: tuple[str, str]) -> int:
    """How many of these tests have the user property."""
    return len([one for one in reports if wanted in getattr(one, "user_properties", ())])
