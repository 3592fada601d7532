"""The locks: they answer pyproject.toml, agree with each other, and name no place to download
from."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
LOCKS = ("requirements.lock", "requirements-dev.lock")


def text_of(lock: str) -> str:
    return (ROOT / lock).read_text()


def pins(lock: str) -> dict[str, str]:
    """Name to version and marker, as locked."""
    found = re.findall(
        r"^([A-Za-z0-9._-]+)==(\S+(?: ;[^\\\n]+)?)", text_of(lock), flags=re.MULTILINE
    )
    return {canonicalize_name(name): rest.strip() for name, rest in found}


def wanted(lock: str) -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    development = project["dependency-groups"]["dev"] if "dev" in lock else []
    return [Requirement(line) for line in [*project["project"]["dependencies"], *development]]


@pytest.mark.parametrize("lock", LOCKS)
def test_every_dependency_is_locked_at_a_version_that_it_allows(lock: str) -> None:
    locked = pins(lock)
    versions = {
        need.name: locked.get(canonicalize_name(need.name), "missing").split()[0]
        for need in wanted(lock)
    }
    assert [need for need in wanted(lock) if not need.specifier.contains(versions[need.name])] == []


def test_the_development_lock_holds_all_of_the_other_at_the_same_versions() -> None:
    assert pins("requirements.lock").items() <= pins("requirements-dev.lock").items()


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_carries_hashes(lock: str) -> None:
    blocks = re.split(r"\n(?=[A-Za-z0-9])", text_of(lock))
    pinned = [block for block in blocks if not block.startswith("#")]
    assert len(pinned) == len(pins(lock)) > 0
    assert [block for block in pinned if "--hash=sha256:" not in block] == []


@pytest.mark.parametrize("lock", LOCKS)
def test_no_lock_names_a_place_to_download_from(lock: str) -> None:
    assert re.findall(r"https?://|--(?:extra-)?index-url|--find-links|@ file:", text_of(lock)) == []
