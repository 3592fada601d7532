"""Any rule, any labels, any job: the controller lives, other services are served, nothing that runs
is touched."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scaler.kube.api import PODS
from scaler.kube.errors import KubeError
from scaler.sim.loop import run
from scaler.workloads.ascendjob import is_foreign
from tests.jobs import NAMESPACE, TWO_P_ONE_D, job, node, rule_config_map, rule_document
from tests.rig import Rig, rig

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner)
)
LABEL = st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?", fullmatch=True) | st.just(
    ""
)
LABEL_NAMES = ("mind-cluster/scaling-rule", "mind-cluster/group-name", "jobID", "app", "framework")


@st.composite
def mutated_document(draw: st.DrawFn) -> str:
    """A good document with a few places overwritten: nearer to what people do than arbitrary
    text."""
    text = list(TWO_P_ONE_D)
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(text) - 1))
        text[place] = draw(st.text(max_size=2) | st.sampled_from(["#", "“", ",", "}", "9", "-"]))
    return "".join(text)


async def try_to_apply(on: Rig, *objects: Any) -> None:
    """What the API server refuses never reaches the controller."""
    for obj in objects:
        try:
            on.apply(obj)
        except (KubeError, ValueError, TypeError, AttributeError, KeyError):
            continue
        await on.settle()


def uids(on: Rig) -> set[str]:
    return {pod["metadata"]["uid"] for pod in on.cluster.peek(PODS, NAMESPACE)}


async def neighbours_are_served(on: Rig) -> None:
    """Another service, applied after whatever happened."""
    labels = {
        "app": "mindie-ms-server",
        "jobID": "other",
        "mind-cluster/scaling-rule": "good",
        "framework": "pytorch",
    }
    document = rule_document({"group0": 1})
    new = job("q0", labels={**labels, "mind-cluster/group-name": "group0"})
    on.apply(rule_config_map(document, name="good"), new)
    await on.settle()
    assert "q0" in on.with_pods()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    document=mutated_document() | st.text(max_size=60) | JSON.map(str), paused=st.text(max_size=6)
)
def test_any_rule_text_leaves_what_runs_alone(document: str, paused: str) -> None:
    async def story() -> None:
        async with rig(node("roomy", roomy=True), rule_config_map(), job("p0"), job("d0")) as on:
            await on.start("p0", "d0")
            before = uids(on)
            await try_to_apply(on, rule_config_map(document, paused=paused))
            assert before <= uids(on)
            await neighbours_are_served(on)

    run(story())


@pytest.mark.long("sixty histories")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(labels=st.dictionaries(st.sampled_from(LABEL_NAMES), LABEL))
def test_any_labels_leave_other_services_alone(labels: dict[str, str]) -> None:
    async def story() -> None:
        async with rig(node("roomy", roomy=True), rule_config_map(), job("p0"), job("d0")) as on:
            await on.start("p0", "d0")
            before = uids(on)
            await try_to_apply(on, job("odd", labels=labels))
            assert before <= uids(on)
            assert on.reason("odd") or is_foreign(labels, {})
            await neighbours_are_served(on)

    run(story())


@pytest.mark.long("sixty histories")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    spec=JSON
    | st.fixed_dictionaries({"replicaSpecs": JSON, "runPolicy": JSON, "schedulerName": JSON}),
    status=JSON,
)
def test_any_job_shape_gets_a_reason_and_harms_nobody(spec: Any, status: Any) -> None:
    async def story() -> None:
        async with rig(node("roomy", roomy=True), rule_config_map(), job("p0"), job("d0")) as on:
            await on.start("p0", "d0")
            before = uids(on)
            await try_to_apply(on, {**job("p1"), "spec": spec, "status": status})
            assert before <= uids(on)
            await neighbours_are_served(on)

    run(story())
