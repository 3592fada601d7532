"""manifests/shadow: no right to change anything but its own notes, and nothing in common with an
install that acts."""

from __future__ import annotations

import argparse

import pytest

from scaler import settings
from scaler.defaults import Mode
from scaler.tools.shadow.command import USUAL
from tests.test_manifests import MANIFESTS, VARIANTS, environment, of_kind, rendered

READING = {"get", "list", "watch"}
ASKED = {"tokenreviews", "subjectaccessreviews"}
"""Made to be answered; nothing is stored, and nothing changes."""


def test_it_may_write_leases_and_config_maps_in_its_own_namespace_and_nothing_else() -> None:
    writing = [
        (role["kind"], role["metadata"].get("namespace"), resource)
        for kind in ("ClusterRole", "Role")
        for role in of_kind(kind, "shadow")
        for rule in role["rules"]
        for resource in rule.get("resources", ())
        if not set(rule["verbs"]) <= READING and resource not in ASKED
    ]
    assert set(writing) == {("Role", USUAL, "leases"), ("Role", USUAL, "configmaps")}


def test_its_roles_are_bound_to_its_own_account_and_name_no_role_of_others() -> None:
    bindings = of_kind("ClusterRoleBinding", "shadow") + of_kind("RoleBinding", "shadow")
    roles = {
        role["metadata"]["name"]
        for kind in ("ClusterRole", "Role")
        for role in of_kind(kind, "shadow")
    }
    assert {binding["roleRef"]["name"] for binding in bindings} == roles - {
        "mind-cluster-scaler-metrics-reader-shadow"
    }
    subjects = [subject for binding in bindings for subject in binding["subjects"]]
    assert {(subject["namespace"], subject["name"]) for subject in subjects} == {
        (USUAL, "mind-cluster-scaler-shadow")
    }


@pytest.mark.parametrize("variant", VARIANTS)
def test_applying_or_deleting_it_touches_no_object_of_an_install_that_acts(variant: str) -> None:
    def names(of: str) -> set[tuple[str, str, str]]:
        found = (obj["metadata"] | {"kind": obj["kind"]} for obj in rendered(MANIFESTS / of))
        return {(meta["kind"], meta.get("namespace", ""), meta["name"]) for meta in found}

    assert not names("shadow") & names(variant)
    assert not of_kind("CustomResourceDefinition", "shadow")


def test_its_settings_are_a_shadows_and_no_install_takes_its_namespace_for_that_of_another() -> (
    None
):
    given = settings.load(argparse.Namespace(), environment("shadow"))
    assert (given.mode, given.lease_namespace) == (Mode.SHADOW, USUAL)
    (namespace,) = of_kind("Namespace", "shadow")
    assert "mind-cluster/install" not in namespace["metadata"]["labels"]
