"""Who is released first where instances may use different nodes: 3b.6 of the contract."""

from __future__ import annotations

from scaler.decide.decide import decide
from tests.builders import doings, on_nodes, world


def test_where_each_could_spoil_the_other_the_most_restricted_begins_though_it_is_younger() -> None:
    wide = on_nodes("1P", "p0@ab held 3", name="a", age=9)
    narrow = on_nodes("1P", "p0@bc held 2", name="b")
    assert doings(decide(world(wide, narrow, nodes="a:8x2 b:8x2 c:8"))) == {"b-p0": "Admit"}


def test_a_scale_up_that_could_take_the_last_room_of_one_like_it_waits() -> None:
    minimum = on_nodes("1P1D", "p0@ab unbound, d0@b unbound", name="a", age=9)
    scales = on_nodes("2P > 1P", "p0@a on a0, p1@b held", name="b")
    assert doings(decide(world(minimum, scales, nodes="a:8x2 b:8x2"))) == {}
    assert doings(decide(world(minimum, scales, nodes="a:8x2 b:8x3"))) == {"b-p1": "Admit"}
