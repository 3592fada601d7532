"""Nothing waits for its backoff when a node became usable to it: L3 and 3b.5f of the contract, for
every way in which nodes become usable, and every kind of backoff."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from scaler.decide.attempts import in_backoff
from scaler.decide.decide import decide
from scaler.decide.memory import InstanceMemory, Memory, ServiceMemory
from scaler.decide.nodes import Node, NodeClass, Return, Taint
from scaler.decide.world import Service, World
from tests.builders import NOW, on_nodes, world

TAINT = Taint("maintenance", "x")
PRESSURE = Taint("node.kubernetes.io/memory-pressure")
A = (("class", "a"),)
Z = (("class", "z"),)
BACKOFF = 60.0
BEGAN = NOW - 20.0
"""The second backoff of a service lasts for a minute."""


class Came(NamedTuple):
    """How a node of class `a` came, and whether it became usable to pods that name the class, and
    to others."""

    change: Return
    to_a: bool = True
    to_all: bool = True


def ways(at: float) -> list[Came]:
    return [
        Came(Return(at)),
        Came(Return(at, 30.0)),
        Came(Return(at, node_class=NodeClass(A, (TAINT,)))),
        Came(Return(at, node_class=NodeClass(A), passing=(PRESSURE,))),
        Came(Return(at, node_class=NodeClass(Z)), to_all=False),
        Came(Return(at, node_class=NodeClass(())), to_all=False),
        Came(Return(at, node_class=NodeClass(A)), to_a=False, to_all=False),
    ]


ways_strategy = st.sampled_from([NOW - 30.0, NOW - 10.0]).flatmap(
    lambda at: st.sampled_from(ways(at))
)


def waiting(kind: str, classes: str) -> tuple[Service, ServiceMemory]:
    """A service in backoff: its minimum, or a scale-up of it."""
    where = f"@{classes}" if classes else ""
    ended: dict[str, Any] = {
        "failures": 2,
        "failures_before_bind": 2,
        "backoff_until": BEGAN + BACKOFF,
    }
    if kind == "minimum":
        return on_nodes("1P", f"p0{where}:4 held", name="s"), ServiceMemory(**ended)
    scale_up = on_nodes("2P > 1P", f"p0{where} on a0, p1{where}:4 held", name="s")
    return scale_up, ServiceMemory({"s-p1": InstanceMemory(**ended)})


def with_node(seen: World, node: Node, of_s: ServiceMemory) -> World:
    assert seen.nodes is not None
    first, *_ = seen.nodes.nodes
    nodes = msgspec.structs.replace(seen.nodes, nodes=(first, node))
    memory = Memory({str(seen.services[-1].key): of_s})
    return msgspec.structs.replace(seen, nodes=nodes, memory=memory)


@given(
    st.sampled_from(["minimum", "scale-up"]),
    st.sampled_from(["", "a"]),
    ways_strategy,
    st.sampled_from([3, 4, 8]),
    st.sampled_from(["well", "well", "cordoned", "pressed"]),
)
def test_a_backoff_ends_when_a_node_that_takes_a_pod_became_usable_after_it_began(
    kind: str, classes: str, came: Came, free: int, now: str
) -> None:
    """3b.5f: new, Ready again, uncordoned, a taint or label that kept it off gone, chips healed;
    whose free room takes a pod of it that was not bound. Never by anything else."""
    service, remembered = waiting(kind, classes)
    other = on_nodes("1P", "p0 held", name="other")
    seen = world(other, service, nodes="a:8x2")
    assert seen.nodes is not None
    node = msgspec.structs.replace(
        seen.nodes.nodes[1],
        free=(free, 110),
        returns=(came.change,),
        passing=(PRESSURE,) if now == "pressed" else (),
        cordoned=now == "cordoned",
    )
    made = decide(with_node(seen, node, remembered))
    after = made.memory.services.get(str(service.key), ServiceMemory())
    one = after if kind == "minimum" else after.instances.get("s-p1", InstanceMemory())
    is_usable = (came.to_a if classes else came.to_all) and now == "well"
    ends = is_usable and free >= 4 and came.change.at > BEGAN
    assert in_backoff(one, NOW) is not ends
