"""What kubectl prints: ages as it writes them, paths as definitions write them."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.sim.apiserver.tables import age, json_path
from scaler.timestamps import rfc3339


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (190, "3m10s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_860, "3h1m"),
        (28_800, "8h"),
        (100_000, "27h"),
        (190_000, "2d4h"),
        (900_000, "10d"),
        (-5, "0s"),
    ],
)
def test_ages_are_written_as_kubectl_writes_them(seconds: int, written: str) -> None:
    assert age(rfc3339(1.7e9), 1.7e9 + seconds) == written


def test_age_of_nothing_is_unknown() -> None:
    assert age(None, 1.7e9) == "<unknown>"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".status.conditions[-1:].type", "Held"),
        (".status.conditions[0].type", "Created"),
        (".status.conditions[9].type", None),
        (".metadata.labels['example.org/a']", "b"),
        (".metadata.labels.example\\.org/a", "b"),
        (".spec.nothing.at.all", None),
    ],
)
def test_paths_lead_to_values(path: str, found: Any) -> None:
    obj = {
        "metadata": {"labels": {"example.org/a": "b"}},
        "status": {"conditions": [{"type": "Created"}, {"type": "Held"}]},
    }
    assert json_path(obj, path) == found
