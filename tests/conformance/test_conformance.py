"""Every implementation of KubeApi passes every case."""

from __future__ import annotations

import pytest

from tests.conformance import applying, custom, deleting, listing, objects, patching, pods, scaling, watching
from tests.conformance.harness import CASES, Case
from tests.conformance.implementations import IMPLEMENTATIONS

_MODULES = (applying, custom, deleting, listing, objects, patching, pods, scaling, watching)


def test_every_module_brings_cases() -> None:
    assert {case.__module__ for case in CASES} == {module.__name__ for module in _MODULES}


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_conformance(implementation: str, case: Case) -> None:
    passed = IMPLEMENTATIONS[implementation](case)
    assert passed
