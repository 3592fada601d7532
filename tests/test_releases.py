"""What an upgrade from the release before changes besides the program: manifests, rights, settings,
the definition.

Where the history of this repository does not have that release, these tests are skipped
(tests/control_plane/releases)."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scaler.settings import REMOVED, Settings
from tests.control_plane.releases import ONE_BACK, RELEASES, ROOT, environment, tree

KUBECTL = Path(sys.executable).parent / "kubectl"
PAGE = ROOT / "docs" / "howto" / "upgrade.md"
VARIANTS = sorted(path.parent.name for path in (ROOT / "manifests").glob("*/kustomization.yaml"))
INSTALLED = ("cluster-wide", "gates-only", "second-install", "single-namespace")
Object = dict[str, Any]


@functools.cache
def rendered(root: Path, variant: str) -> dict[tuple[str, str], Object]:
    """By kind and name; nothing for a variant that a release has not."""
    folder = root / "manifests" / variant
    if not folder.is_dir():
        return {}
    done = subprocess.run(
        [KUBECTL, "kustomize", folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return {
        (obj["kind"], obj["metadata"]["name"]): obj
        for obj in yaml.safe_load_all(done.stdout)
        if obj
    }


def both(variant: str) -> tuple[dict[tuple[str, str], Object], dict[tuple[str, str], Object]]:
    """The release before, and this tree."""
    return rendered(tree(ONE_BACK), variant), rendered(ROOT, variant)


def listed(title: str) -> set[tuple[str, str]]:
    """Kind and name of every object in the table below this title of the page."""
    section = PAGE.read_text("utf-8").split(f"\n### {title}\n")[1].split("\n#")[0]
    return set(re.findall(r"^\| (\w+) `([^`]+)` \|", section, re.MULTILINE))


def named(found: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """As the page calls them: a second install has its name at the end of each."""
    return {(kind, re.sub(r"-team-a$", "", name)) for kind, name in found}


def test_the_page_lists_every_object_that_an_upgrade_or_a_rollback_leaves_behind() -> None:
    gone = set()
    new = set()
    for variant in VARIANTS:
        before, now = both(variant)
        if before:
            gone |= before.keys() - now.keys()
            new |= now.keys() - before.keys()
    assert named(gone) == listed("Left behind by an upgrade")
    assert named(new) == listed("Left behind by a rollback")


def rights(variant: str, root: Path) -> set[tuple[str, ...]]:
    """Role, group, resource, name and verb."""
    return {
        (name, group, resource, only, verb)
        for (kind, name), obj in rendered(root, variant).items()
        if kind in ("Role", "ClusterRole") and not name.endswith(("-edit", "-view"))
        for rule in obj.get("rules") or ()
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
        for only in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("variant", INSTALLED)
def test_no_right_of_the_release_before_is_missing_while_its_replicas_still_run(
    variant: str,
) -> None:
    assert rights(variant, tree(ONE_BACK)) - rights(variant, ROOT) == set()


def test_whatever_cannot_be_changed_in_an_object_is_as_it_was() -> None:
    for variant in VARIANTS:
        before, now = both(variant)
        for which in before.keys() & now.keys():
            assert list(unchangeable(before[which])) == list(unchangeable(now[which])), (
                variant,
                which,
            )


def unchangeable(obj: Object) -> Iterator[object]:
    yield obj.get("roleRef")
    if obj["kind"] == "Deployment":
        yield obj["spec"]["selector"]


def fields(schema: Object, at: str = "") -> Iterator[tuple[str, object]]:
    """Every field of a schema, and its type."""
    yield at, schema.get("type")
    for name, inner in (schema.get("properties") or {}).items():
        yield from fields(inner, f"{at}.{name}")
    for inner in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, dict):
            yield from fields(inner, f"{at}[]")


def test_the_definition_has_every_version_and_field_that_the_release_before_writes() -> None:
    before, now = (
        yaml.safe_load((root / "manifests/base/elasticservices.yaml").read_text())
        for root in (tree(ONE_BACK), ROOT)
    )
    versions = {each["name"]: each for each in now["spec"]["versions"]}
    for old in before["spec"]["versions"]:
        new = versions[old["name"]]
        assert (new["served"], new["storage"]) >= (old["served"], old["storage"])
        assert set(fields(old["schema"]["openAPIV3Schema"])) <= set(
            fields(new["schema"]["openAPIV3Schema"])
        )


@pytest.mark.parametrize("release", RELEASES)
def test_every_setting_of_a_release_is_there_or_said_to_be_removed(release: str) -> None:
    code = (
        "import json; from scaler.settings import Settings;"
        " print(json.dumps([*Settings.model_fields]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(tree(release)),
        capture_output=True,
        check=True,
    )
    assert {*json.loads(done.stdout)} <= {*Settings.model_fields} | REMOVED.keys()


def test_no_default_of_a_setting_is_another_than_in_the_release_before() -> None:
    code = "from scaler.settings import Settings; print(Settings(identity='x').model_dump_json())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(tree(ONE_BACK)),
        capture_output=True,
        check=True,
    )
    before = json.loads(done.stdout)
    now = json.loads(Settings(identity="x").model_dump_json())
    changed = {name for name in before.keys() & now.keys() if before[name] != now[name]}
    section = PAGE.read_text("utf-8").split("\n### Settings\n")[1].split("\n#")[0]
    assert changed == set(re.findall(r"^\| `(\w+)` \| other default", section, re.MULTILINE))
