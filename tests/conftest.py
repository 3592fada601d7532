"""Options and fixtures that every test may use."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

# How long anything takes is for benchmarks: a busy machine must not make a property look broken.
# A failure prints what repeats it.
settings.register_profile(
    "untimed", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")

# Its cases are no test modules, but their assertions should explain themselves as if they were.
pytest.register_assert_rewrite("tests.conformance")

pytest_plugins = ["tests.parts", "tests.repeat", "tests.control_plane.plugin", "tests.page.browser"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--real-data",
        default=os.environ.get("REAL_DATA", "../shared/data"),
        help="folder of real inputs",
    )


@pytest.fixture(autouse=True)
def _as_in_a_new_process() -> Iterator[None]:
    """Commands and simulations are processes of their own: what they do to the log must not reach
    the next test, nor what a large decision has frozen (`scaler/garbage.py`), which Hypothesis
    takes for unreachable."""
    yield
    structlog.reset_defaults()
    gc.unfreeze()


@pytest.fixture(scope="session")
def real_data(pytestconfig: pytest.Config) -> Path:
    """The folder of real inputs; tests that need it are skipped, by name, where it is absent."""
    folder = Path(pytestconfig.getoption("--real-data"))
    if not folder.is_dir():
        pytest.skip(f"no real inputs at {folder} (--real-data)")
    return folder
