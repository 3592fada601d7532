"""The controller may die at any moment, any number of times: the service ends where it would have
ended anyway."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.simulation.worlds import EXAMPLE, played, scenario

MOMENTS = st.lists(
    st.one_of(st.floats(0, 30), st.floats(178, 300), st.floats(418, 450)).map(
        lambda at: round(at, 3)
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.long("a dozen histories")
@settings(
    max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(crashes=MOMENTS, seed=st.integers(0, 50))
def test_crashes_at_random_moments_change_nothing_in_the_end(
    crashes: list[float], seed: int
) -> None:
    story = [
        {"at": 180, "node": {"of_job": "mindie/mindie-server-d0", "becomes": "not-ready"}},
        {"at": 420, "name": "return", "node": {"becomes": "ready"}},
        *({"at": at, "controller": "restart"} for at in crashes),
    ]
    end = {"running": {"group0": 2, "group1": 1}, "complete": True}
    timeline = played(scenario(3, [EXAMPLE], events=story, expect=[end], until=600), seed=seed)
    assert timeline.last("mindie/scaling-rule/mindie").complete
