"""Which nodes take which pods, and what pod requests can tell nodes apart by."""

from __future__ import annotations

import msgspec
import pytest

from scaler.decide.nodes import (
    NODE_NAME,
    OTHER,
    Node,
    NodeClass,
    Nodes,
    PodRequest,
    Requirement,
    Return,
    Taint,
    Toleration,
    Where,
    accepts,
    joined,
    terms_of,
)

NPU = "huawei.com/Ascend910"
NODE = NodeClass((("gen", "7"), ("type", "910b")))
TAINT = Taint("npu", "reserved", "NoExecute")
ONE = PodRequest(((NPU, 1), ("pods", 1)))
FOUR = PodRequest(((NPU, 4), ("pods", 1)))


def affine(*terms: tuple[Requirement, ...]) -> Where:
    return Where(affinity=terms)


@pytest.mark.parametrize(
    ("requirement", "met"),
    [
        (Requirement("type", "In", ("910a", "910b")), True),
        (Requirement("type", "In", ("910a",)), False),
        (Requirement("none", "In", ("910a",)), False),
        (Requirement("type", "NotIn", ("910b",)), False),
        (Requirement("type", "NotIn", ("910a",)), True),
        (Requirement("none", "NotIn", ("910a",)), True),
        (Requirement("type", "Exists"), True),
        (Requirement("none", "Exists"), False),
        (Requirement("type", "DoesNotExist"), False),
        (Requirement("none", "DoesNotExist"), True),
        (Requirement("gen", "Gt", ("6",)), True),
        (Requirement("gen", "Gt", ("7",)), False),
        (Requirement("gen", "Lt", ("8",)), True),
        (Requirement("none", "Lt", ("8",)), False),
        (Requirement("type", "Gt", ("1",)), False),
        (Requirement("gen", "Gt"), False),
        (Requirement("gen", "Near", ("7",)), True),
    ],
)
def test_every_operator_means_what_it_means_to_kubernetes_and_an_unknown_one_is_met(
    requirement: Requirement, met: bool
) -> None:
    assert accepts(affine((requirement,)), NODE) == met


def test_one_term_of_an_affinity_is_enough_and_all_of_it_must_hold() -> None:
    here = Requirement("type", "Exists")
    elsewhere = Requirement("none", "Exists")
    assert accepts(affine((elsewhere,), (here,)), NODE)
    assert not accepts(affine((elsewhere, here)), NODE)
    assert not accepts(affine(()), NODE)


def test_a_selector_and_an_affinity_must_both_hold() -> None:
    selected = Where((("type", "910b"),))
    assert accepts(selected, NODE)
    assert not accepts(Where((("type", "910b"), ("gen", "8"))), NODE)
    assert not accepts(
        msgspec.structs.replace(selected, affinity=((Requirement("none", "Exists"),),)), NODE
    )


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration("npu", "Equal", "reserved"), True),
        (Toleration("npu", "", "reserved"), True),
        (Toleration("npu", "Equal", "other"), False),
        (Toleration("npu", "Exists"), True),
        (Toleration("", "Exists"), True),
        (Toleration("", "Equal"), False),
        (Toleration("cpu", "Exists"), False),
        (Toleration("npu", "Exists", "", "NoSchedule"), False),
        (Toleration("npu", "Exists", "", "NoExecute"), True),
        (Toleration("npu", "Resembles", "res"), True),
        (Toleration("cpu", "Resembles", "res"), False),
    ],
)
def test_a_taint_repels_all_who_do_not_tolerate_it(toleration: Toleration, tolerated: bool) -> None:
    tainted = NodeClass(taints=(TAINT,))
    assert not accepts(Where(), tainted)
    assert accepts(Where(tolerations=(toleration,)), tainted) == tolerated


def test_every_taint_must_be_tolerated_and_unknown_effects_repel_nobody() -> None:
    both = NodeClass(taints=(TAINT, Taint("disk")))
    assert not accepts(Where(tolerations=(Toleration("npu", "Exists"),)), both)
    assert accepts(
        Where(),
        NodeClass(taints=(Taint("npu", "", "PreferNoSchedule"), Taint("npu", "", "NoIdea"))),
    )


def test_nodes_are_told_apart_only_by_labels_that_some_need_names() -> None:
    terms = terms_of([PodRequest(where=Where((("type", "910b"),)))])
    labels = {"type": "910b", "kubernetes.io/hostname": "node-1"}
    assert terms.node_class(labels, ()) == NodeClass((("type", "910b"),))
    assert (
        terms.node_class({"type": "910a"}, ())
        == terms.node_class({"type": "310p"}, ())
        == NodeClass((("type", OTHER),))
    )
    assert terms.node_class({}, ()) == NodeClass()


def test_a_node_that_is_named_is_the_only_one_of_its_class() -> None:
    terms = terms_of([PodRequest(where=Where(((NODE_NAME, "node-1"),)))])
    kinds = {terms.node_class({NODE_NAME: f"node-{number}"}, ()) for number in range(100)}
    assert len(kinds) == 2


def test_values_that_are_compared_as_numbers_all_matter() -> None:
    terms = terms_of(
        [
            PodRequest(
                where=affine(
                    (Requirement("gen", "Gt", ("6",)), Requirement("gen", "NotIn", ("9",)))
                )
            )
        ]
    )
    assert terms.node_class({"gen": "12"}, ()) == NodeClass((("gen", "12"),))


def test_room_is_counted_in_portions_that_every_request_is_a_multiple_of() -> None:
    terms = terms_of(
        [
            PodRequest((("cpu", 6000), ("pods", 1))),
            PodRequest((("cpu", 4000), (NPU, 8), ("pods", 1))),
        ]
    )
    assert terms.resources == (NPU, "cpu", "pods")
    assert terms.whole({NPU: 15, "cpu": 7999, "pods": 3, "memory": 5}) == (8, 6000, 3)
    assert terms.whole({"cpu": -1}) == (0, -2000, 0)


def test_pods_that_ask_for_the_same_are_counted_together_in_a_fixed_order() -> None:
    assert joined(((FOUR, 1),), ((ONE, 2), (FOUR, 3)), ((ONE, 0),)) == ((ONE, 2), (FOUR, 4))


def test_nodes_are_the_same_after_a_trip_through_a_file() -> None:
    one = Node(
        "n",
        NodeClass((("type", OTHER),), (TAINT,)),
        (8,),
        (4,),
        ((7.0, (2,)),),
        cordoned=True,
        passing=(TAINT,),
        away=((6.0, (1,)),),
        returns=(Return(5.0, 2.0), Return(5.5, node_class=NodeClass(), passing=(TAINT,))),
    )
    nodes = Nodes((NPU,), (one,))
    assert msgspec.json.decode(msgspec.json.encode(nodes), type=Nodes) == nodes
