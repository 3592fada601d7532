"""A job that no pods can be made of is not live, in a rollout either: section 5 of the contract,
`JobInvalid`."""

from __future__ import annotations

import msgspec

from tests.builders import instance, instances, plan, rolling, service


def test_of_a_newest_one_that_is_spoilt_the_outdated_one_is_not_taken_as_passing() -> None:
    old, new = rolling("p0 Running old, p1 Held new", wanted=1)
    spoilt = msgspec.structs.replace(
        new, faults=("InvalidContainer: there is no container named ascend",)
    )
    made = plan(service("2P > 1P", [old, spoilt, *service(None, "p2 Held").instances]))
    assert (made.groups["group0"].live, made.target_index, made.complete) == (2, 0, False)


def test_a_ratio_that_only_an_instance_could_fill_whose_name_is_taken_is_not_aimed_at() -> None:
    """1, live: not while it is NameTaken."""
    taken = instance("p1", name_taken="Pod p1-master-0")
    one = service("2P2D > 1P1D", [*instances("p0 Running, d0 Running, d1 Held"), taken])
    made = plan(one)
    assert (made.groups["group0"].live, made.target_index, made.actions) == (1, 1, ())
