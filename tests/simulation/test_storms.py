"""Safety while everything goes wrong, liveness once it stops: random faults and edits, then
healing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scaler.sim.stories.play import play, silence_logs
from tests.simulation.worlds import EXAMPLE, failures, scenario

RULE = {"namespace": "mindie", "name": "scaling-rule"}
JOBS = ["mindie-server-p0", "mindie-server-p1", "mindie-server-d0", "mindie-controller"]
CALM = 600.0  # seconds after which everything is healed
SMALLER = """{"version": "1.0", "elastic_scaling_list": [{"group_list": [
  {"group_name": "group0", "group_num": "1", "server_num_per_group": "1"},
  {"group_name": "group1", "group_num": "1", "server_num_per_group": "1"}]}]}"""

actions = st.one_of(
    st.builds(
        lambda node, fate: {"node": {"names": [f"npu-{node}"], "becomes": fate}},
        st.integers(0, 3),
        st.sampled_from(["not-ready", "gone", "cordoned", "ready"]),
    ),
    st.sampled_from(JOBS).map(
        lambda job: {"pod_exit": {"namespace": "mindie", "pod": f"{job}-master-0", "code": 1}}
    ),
    st.sampled_from(JOBS).map(
        lambda job: {"delete": {"kind": "AscendJob", "namespace": "mindie", "name": job}}
    ),
    st.sampled_from(JOBS).map(
        lambda job: {"delete": {"kind": "Pod", "namespace": "mindie", "name": f"{job}-master-0"}}
    ),
    st.sampled_from(["{", SMALLER, "[]", ""]).map(lambda text: {"rule": {**RULE, "text": text}}),
    st.just({"delete": {"kind": "ConfigMap", **RULE}}),
    st.just({"apply": str(EXAMPLE)}),
    st.sampled_from(["restart", "stop", "start"]).map(lambda what: {"controller": what}),
    st.floats(0.1, 1.0).map(
        lambda share: {"api_fault": {"kind": "errors", "share": share, "lasting": 30}}
    ),
    st.just({"api_fault": {"kind": "watches-cut"}}),
)
storms = st.lists(
    st.tuples(st.floats(0, CALM - 60).map(lambda at: round(at, 2)), actions),
    min_size=1,
    max_size=12,
).map(
    lambda storm: [{"at": at, **action} for at, action in sorted(storm, key=lambda pair: pair[0])]
)

HEALING: list[dict[str, Any]] = [
    {"at": CALM, "controller": "start"},
    {"at": CALM, "node": {"becomes": "ready"}},
    {"at": CALM + 1, "apply": str(EXAMPLE)},
]


@pytest.mark.long("twenty storms")
@settings(
    max_examples=20, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(storm=storms, seed=st.integers(0, 1000))
def test_after_any_storm_the_service_is_whole_again_and_no_promise_was_broken(
    storm: list[dict[str, Any]], seed: int
) -> None:
    silence_logs()
    timeline = play(scenario(4, [EXAMPLE], events=[*storm, *HEALING], until=CALM + 900), seed=seed)
    # An event may come too late for its object; that is no failure of the controller.
    assert [text for text in failures(timeline) if not text.startswith("the event at")] == []
    end = timeline.last("mindie/scaling-rule/mindie")
    assert (end.running, end.complete) == ({"group0": 2, "group1": 1}, True)
    assert max(moment.at for moment in timeline.moments) < timeline.end - 300
