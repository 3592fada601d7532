"""Who makes the pods of a job: of `scaler/state/makers.py`, through the state of a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.clock import Skew
from scaler.decide.world import Instance
from scaler.informers.changes import ModeChanged
from scaler.reasons.warnings import Warning
from scaler.state.makers import OTHERS_FOR
from scaler.timestamps import rfc3339
from scaler.workloads.membership import OwnerFacts
from tests.state.test_instances import KEY, Seen

BEGAN = 1_800_000_000.0
"""When the scaler began to make pods."""
OTHER = "ascend-operator"


def entry(manager: str, at: float, fields: dict[str, Any], subresource: str = "") -> dict[str, Any]:
    found = {"manager": manager, "operation": "Update", "time": rfc3339(at), "fieldsV1": fields}
    return found | ({"subresource": subresource} if subresource else {})


def status(manager: str, at: float) -> dict[str, Any]:
    return entry(manager, at, {"f:status": {"f:conditions": {}}}, "status")


def made(manager: str, at: float) -> dict[str, Any]:
    return entry(manager, at, {"f:spec": {"f:containers": {}}})


class Watched(Seen):
    """Job `p0` of two pods; the scaler makes them since `BEGAN`."""

    def __init__(self) -> None:
        super().__init__()
        self.now = BEGAN
        self.changes.publish(ModeChanged(makes_pods=True, shadow=False))

    def job_of(self, *managed: dict[str, Any]) -> Instance:
        self.job("p0", pods=2, managedFields=list(managed))
        return self.instance()

    def pod_of(self, manager: str, at: float) -> Instance:
        more = {"managedFields": [made(manager, at)], "creationTimestamp": rfc3339(at)}
        self.pod("p0-master-0", more=more)
        return self.instance()


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_job_whose_status_another_writes_is_left_to_it_until_it_has_stopped(
    watched: Watched,
) -> None:
    watched.now += 10
    assert watched.job_of(status("scaler", BEGAN + 9)).made_by_us
    instance = watched.job_of(status("scaler", BEGAN + 9), status(OTHER, BEGAN + 5))
    assert not instance.made_by_us
    ((warning, words),) = instance.warnings
    assert warning is Warning.MADE_BY_OTHERS
    assert words.startswith(f"{OTHER} wrote its status at {rfc3339(BEGAN + 5)}: no pods are made")
    assert watched.state.until_ours_again(KEY) == OTHERS_FOR - 5
    watched.now += OTHERS_FOR - 6
    assert not watched.instance().made_by_us
    watched.now += 1
    assert watched.instance().made_by_us
    assert watched.instance().warnings == ()
    assert watched.state.until_ours_again(KEY) == 0.0


def test_a_job_of_which_another_makes_a_pod_is_left_to_it(watched: Watched) -> None:
    watched.now += 10
    assert watched.job_of().made_by_us
    assert watched.pod_of("scaler", BEGAN + 4).made_by_us
    instance = watched.pod_of(OTHER, BEGAN + 5)
    assert not instance.made_by_us
    assert f"{OTHER} made its pod p0-master-0" in instance.warnings[0][1]


def test_what_an_operator_wrote_before_is_how_it_was_taken_over(watched: Watched) -> None:
    watched.now += 10
    assert watched.job_of(status(OTHER, BEGAN - 2)).made_by_us
    assert watched.pod_of(OTHER, BEGAN - 2).made_by_us


def test_what_one_wrote_just_before_counts_where_an_operator_runs_elsewhere(
    watched: Watched,
) -> None:
    facts = OwnerFacts("stranger", "ascend-operator-manager", "u", "1", "Deployment", 1.0, size=1)
    watched.cache.owners.stores["Deployment"].apply(facts)
    watched.now += 10
    assert not watched.job_of(status(OTHER, BEGAN - 2)).made_by_us
    assert watched.job_of(status(OTHER, BEGAN - OTHERS_FOR)).made_by_us


@pytest.mark.parametrize(
    "managed",
    [
        entry(OTHER, BEGAN + 5, {"f:metadata": {}}),
        status("mind-cluster-scaler", BEGAN + 5),
        {"manager": OTHER, "subresource": "status", "time": "soon"},
        {"manager": OTHER, "subresource": "status"},
        {"manager": 7, "subresource": "status", "time": rfc3339(BEGAN + 5)},
    ],
)
def test_nothing_else_in_managed_fields_says_that_another_writes(
    watched: Watched, managed: dict[str, Any]
) -> None:
    watched.now += 10
    assert watched.job_of(managed).made_by_us


def test_a_label_on_a_pod_is_no_sign_of_who_made_it(watched: Watched) -> None:
    watched.now += 10
    labelled = entry(OTHER, BEGAN + 6, {"f:metadata": {"f:labels": {}}})
    watched.job_of()
    watched.pod("p0-master-0", more={"managedFields": [made("scaler", BEGAN + 5), labelled]})
    assert watched.instance().made_by_us


def test_clocks_that_differ_are_reckoned_with(watched: Watched) -> None:
    watched.now += 10
    watched.state.adjust(Skew(60.0, 60.0))
    assert watched.job_of(status(OTHER, BEGAN + 30)).made_by_us
    assert not watched.job_of(status(OTHER, BEGAN + 65)).made_by_us
    assert watched.state.until_ours_again(KEY) == OTHERS_FOR - 5


def test_in_shadow_the_operator_that_is_there_takes_no_job_away(watched: Watched) -> None:
    watched.changes.publish(ModeChanged(makes_pods=True, shadow=True))
    watched.now += 10
    assert watched.job_of(status(OTHER, BEGAN + 5)).made_by_us
