"""`scaler plan --nodes`: what becomes of several services on some nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.cli import main
from scaler.decide.nodes import PODS, PodRequest, Where
from scaler.decide.world import ServiceKey
from scaler.informers.records import NodeFacts
from scaler.rules.rule import RuleOptions
from scaler.sim.actors.hyper_nodes import hyper_node
from scaler.sim.actors.nodes import NodeSpec, node_object
from scaler.tools.common.usage import UnreadableError
from scaler.tools.common.whatif import Asked, what_if
from scaler.tools.plan.nodes import BadInputError, need_of, parts, read_nodes
from tests import builders
from tests.jobs import TWO_P_ONE_D, job, node, rule_config_map

NPU = "huawei.com/Ascend910"
MANIFESTS = Path(__file__).parents[2] / "manifests"


@pytest.fixture
def rule(tmp_path: Path) -> str:
    return written(tmp_path, "rule.json", TWO_P_ONE_D)


def written(folder: Path, name: str, content: str) -> str:
    (folder / name).write_text(content)
    return str(folder / name)


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["plan", *arguments, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("nodes", "serving", "complete"), [(40, 20, 0), (20, 10, 0), (50, 20, 10), (60, 20, 20)]
)
def test_minimums_come_first_whatever_the_number_of_nodes(
    rule: str, nodes: int, serving: int, complete: int, capsys: pytest.CaptureFixture[str]
) -> None:
    found = asked(capsys, f"20x {rule}", "--nodes", f"{nodes}x {NPU}=8")
    assert (found["nodes"], found["serving"], found["complete"]) == (nodes, serving, complete)


def test_with_a_number_of_wanted_instances_what_is_left_serves_others(
    rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [f"20x {rule}", "--nodes", f"60x {NPU}=8", "--replicas", "2"]
    found = asked(capsys, *arguments)
    assert (found["serving"], found["complete"], found["replicas"]) == (20, 20, 2)
    assert found["services"][0]["groups"]["group0"]["reasons"] == {"ScaledDown": 1}
    assert main(["plan", *arguments]) == 0
    assert "20 of 20 serve, 20 of them at the ratio for 2 instances\n" in capsys.readouterr().out


def test_json_says_of_each_service_what_runs_and_why_the_rest_is_held(
    rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = asked(capsys, f"2x {rule}", "--nodes", f"3x {NPU}=8")["services"]
    assert (first["service"], first["serves"], first["ratio"]) == ("default/rule-1", True, 0)
    assert first["counts"] == {"group0": 2, "group1": 1}
    assert (second["serves"], second["ratio"]) == (False, -1)
    decode = second["groups"]["group1"]
    assert (decode["admitted"], decode["held"], decode["reasons"]) == (
        0,
        1,
        {"MinimumDoesNotFit": 1},
    )
    assert "needs 2 nodes, " in decode["words"][0]


def test_text_tells_of_neighbours_that_end_alike_together(
    rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", f"20x {rule}", "--nodes", f"20x {NPU}=8"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(
        "20 nodes, 20 services: 10 of 20 serve, 0 of them at the largest ratio\n"
    )
    assert "default/rule-1 to default/rule-10 (10 services): runs 1 group0 + 1 group1\n" in text
    assert "default/rule-11 to default/rule-20 (10 services): does not serve\n" in text


BLOCKS = TWO_P_ONE_D.replace('"server_num_per_group": "1"', '"server_num_per_group": "2"')
"""Every instance has two pods."""


@pytest.mark.parametrize(
    ("nodes", "serving"),
    [
        (f"2x2x {NPU}=16", 1),
        (f"4x {NPU}=16", 1),
        (f"4x1x {NPU}=16", 0),
        (f"2x3x {NPU}=16", 1),
        (f"2x4x {NPU}=16", 2),
    ],
)
def test_blocks_of_two_nodes_are_counted_by_super_pod(
    tmp_path: Path, nodes: str, serving: int, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = written(tmp_path, "rule.json", BLOCKS)
    needs = ["--needs", f"{NPU}=16,sp-block=32"]
    assert asked(capsys, f"2x {rule}", "--nodes", nodes, *needs)["serving"] == serving


def test_nodes_of_a_file_are_in_the_super_pods_that_they_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = written(tmp_path, "rule.json", BLOCKS)
    needs = ["--needs", f"{NPU}=16,sp-block=32"]
    for super_pods, serving in (((0, 0, 1, 1), 1), ((0, 1, 1, 2), 0)):
        items = []
        for index, super_pod in enumerate(super_pods):
            spec = NodeSpec(f"n{index}", npu=16, device_data=True, super_pod=super_pod)
            items.append(node_object(spec))
        file = written(tmp_path, "nodes.yaml", yaml.safe_dump({"kind": "List", "items": items}))
        assert asked(capsys, rule, "--nodes", file, *needs)["serving"] == serving


RACKS = {"rack-0": ["n0", "n1", "n2"], "rack-1": ["n3"]}


def racks() -> str:
    """Four nodes of eight NPUs in two racks of one row, as kubectl writes them."""
    items: list[object] = [node_object(NodeSpec(f"n{index}", npu=8)) for index in range(4)]
    for name, nodes in RACKS.items():
        items.append(hyper_node(name, 1, nodes=f"^({'|'.join(nodes)})$"))
    items.append(hyper_node("row", 2, members=list(RACKS)))
    return yaml.safe_dump({"kind": "List", "items": items})


@pytest.mark.parametrize(
    ("needs", "serving"),
    [
        (f"{NPU}=8", 1),
        (f"{NPU}=8,highestTierAllowed=1", 0),
        (f"{NPU}=8,highestTierAllowed=2", 1),
        (f"{NPU}=4,highestTierAllowed=1", 2),
        (f"{NPU}=8,highestTierAllowed=many", 1),
    ],
)
def test_pods_of_one_hyper_node_are_counted_by_hyper_node(
    tmp_path: Path, needs: str, serving: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each service needs two instances of two pods. A tier that nobody knows counts as met."""
    rule = written(tmp_path, "rule.json", BLOCKS)
    file = written(tmp_path, "nodes.yaml", racks())
    answer = asked(capsys, f"3x {rule}", "--nodes", file, "--needs", needs)
    assert answer["serving"] == serving


def test_a_volcano_job_says_its_hyper_node_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = MANIFESTS.parent / "tests/scenarios/hyper-nodes"
    jobs = ["--jobs", str(folder / "d0.yaml"), "--jobs", str(folder / "p0.yaml")]
    rule = str(folder / "rule.yaml")
    for width, serving in ((4, 1), (3, 0)):
        items: list[object] = [node_object(NodeSpec(f"n{index}", npu=8)) for index in range(8)]
        for start in range(0, 8, width):
            names = "|".join(f"n{index}" for index in range(start, min(start + width, 8)))
            items.append(hyper_node(f"rack-{start}", 1, nodes=f"^({names})$"))
        file = written(tmp_path, "nodes.yaml", yaml.safe_dump({"kind": "List", "items": items}))
        assert asked(capsys, rule, "--nodes", file, *jobs)["serving"] == serving


def test_several_rules_and_several_kinds_of_nodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (written(tmp_path, f"{name}.json", TWO_P_ONE_D) for name in "ab")
    needs = ["--needs", f"{NPU}=8,pool=small", "--needs", f"group1: {NPU}=16"]
    kinds = ["--nodes", f"3x {NPU}=8,pool=small", "--nodes", f"1x {NPU}=16"]
    first, second = asked(capsys, a, b, *kinds, *needs)["services"]
    assert (first["service"], first["ratio"], second["ratio"]) == ("default/a", 0, -1)
    assert "16 free" in second["groups"]["group1"]["words"][0]


def test_the_annotations_of_a_rule_play_their_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lowered = written(
        tmp_path, "a.yaml", yaml.safe_dump(rule_config_map(name="a", service_priority="-5"))
    )
    plain = written(tmp_path, "b.yaml", yaml.safe_dump(rule_config_map(name="b")))
    found = asked(capsys, lowered, plain, "--nodes", f"2x {NPU}=8")["services"]
    assert [(one["service"], one["serves"]) for one in found] == [
        ("mindie/a", False),
        ("mindie/b", True),
    ]


def test_what_instances_ask_for_may_come_from_their_jobs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = written(tmp_path, "rule.yaml", yaml.safe_dump(rule_config_map()))
    (tmp_path / "jobs").mkdir()
    written(
        tmp_path / "jobs", "jobs.yaml", yaml.safe_dump_all([job("p0", pods=2), job("d0", pods=3)])
    )
    found = asked(capsys, rule, "--nodes", f"6x {NPU}=8", "--jobs", str(tmp_path / "jobs"))[
        "services"
    ]
    assert found[0]["counts"] == {"group0": 1, "group1": 1}
    missing = "needs 2 nodes, 1 free; each with 8 free huawei.com/Ascend910."
    assert found[0]["groups"]["group0"]["words"] == [
        f"WaitingForScheduler: Admitted, but nodes are missing: {missing}"
    ]


def test_what_is_not_understood_of_pods_counts_as_fitting_and_is_said(
    tmp_path: Path, rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = job("p0")
    odd["spec"]["replicaSpecs"]["Master"]["template"]["spec"]["topologySpreadConstraints"] = [
        {"topologyKey": "rack"}
    ]
    file = written(tmp_path, "jobs.yaml", yaml.safe_dump(odd))
    arguments = [f"2x {rule}", "--nodes", f"9x {NPU}=8", "--jobs", file]
    assert (found := asked(capsys, *arguments))["guessed"] == found["serving"] == 2
    assert main(["plan", *arguments]) == 0
    assert (
        "pods of 2 services say more than is understood here; it counts as fitting"
        in capsys.readouterr().out
    )


def test_the_example_manifests_can_be_asked_about(capsys: pytest.CaptureFixture[str]) -> None:
    example = MANIFESTS / "examples" / "2p1d"
    arguments = [f"3x {example / '00-rule.yaml'}", "--jobs", str(example)]
    labels = "accelerator=huawei-Ascend910,accelerator-type=module-910b-8"
    found = asked(capsys, *arguments, "--nodes", f"60x {NPU}=8,{labels}")
    assert (found["serving"], found["complete"]) == (3, 3)
    found = asked(capsys, *arguments, "--nodes", f"60x {NPU}=8")
    assert (found["serving"], "nodes, 0 in all; each with 8" in str(found)) == (0, True)


def test_nodes_may_come_from_a_cluster(
    tmp_path: Path, rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [node(f"n{index}") for index in range(4)]
    for one in made:
        one["status"]["allocatable"] = {NPU: "8", "pods": "110"}
    made[3]["spec"] = {"unschedulable": True}
    listed = {"apiVersion": "v1", "kind": "List", "items": made}
    file = written(tmp_path, "nodes.yaml", yaml.safe_dump(listed))
    found = asked(capsys, f"2x {rule}", "--nodes", file)
    assert (found["nodes"], found["closed"], found["serving"]) == (4, 1, 1)
    assert main(["plan", f"2x {rule}", "--nodes", file]) == 0
    assert capsys.readouterr().out.startswith(
        "4 nodes (1 cordoned or not Ready), 2 services: 1 of 2 serve"
    )


def test_a_node_that_no_api_server_would_give_is_named(
    tmp_path: Path, rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(
        tmp_path,
        "nodes.yaml",
        yaml.safe_dump_all([node("good"), {**node("odd"), "spec": {"taints": "x"}}]),
    )
    assert main(["plan", rule, "--nodes", file]) == 1
    assert "Node odd is not as an API server gives it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["RULE", "RULE"], 2, "say which with --nodes"),
        (["RULE", "--needs", "cpu=1"], 2, "say which with --nodes"),
        (["RULE", "--nodes", "2x cpu=1", "--held", "group0=1"], 2, "starts with nothing running"),
        (["RULE", "--nodes", "2x cpu=1", "--table"], 2, "starts with nothing running"),
        (["RULE", "--nodes", "2x cpu=many"], 1, "'many' in 'cpu=many' is no quantity"),
        (["RULE", "--nodes", "2x cpu"], 1, "'cpu' is not KEY=VALUE"),
        (["RULE", "--nodes", "2x cpu=1,cpu=2"], 1, "said twice"),
        (["RULE", "--nodes", f"2x {NPU}=-8"], 1, "less than nothing"),
        (
            ["RULE", "--nodes", f"2x {NPU}=eight"],
            1,
            f"'{NPU}=eight' is no quantity, and pods ask for {NPU}",
        ),
        (
            ["RULE", "--nodes", f"2x {NPU}=8 pool=a"],
            1,
            "neither a quantity nor the value of a label",
        ),
        (["RULE", "--nodes", f"2 x {NPU}=8"], 1, f"'2 x {NPU}' is no name of a resource or label"),
        (["RULE", "--nodes", f"0x {NPU}=8"], 1, "write for example 40x"),
        (["RULE", "--nodes", f"1x {NPU}=8", "--needs", "cpu=-1"], 1, "less than nothing"),
        (["RULE", "--nodes", "999999x cpu=1"], 1, "more than 100,000 nodes"),
        (["RULE", "--nodes", "/nowhere/nodes.yaml"], 2, "No such file"),
        (["RULE", "--nodes", "RULE"], 1, "no Node; write them with"),
        (
            ["RULE", "--nodes", "1x cpu=1", "--needs", "group7: cpu=1"],
            1,
            "no rule names group group7",
        ),
        (["RULE", "--nodes", "1x cpu=1", "--jobs", "/nowhere"], 2, "No such file"),
        (["99999x RULE", "--nodes", "1x cpu=1"], 1, "more than 10,000 services"),
        (["/nowhere/rule", "--nodes", "1x cpu=1"], 2, "No such file"),
    ],
)
def test_bad_input_says_what_to_write(
    rule: str, arguments: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *(argument.replace("RULE", rule) for argument in arguments)]) == code
    assert says in capsys.readouterr().err


def test_amounts_and_labels_are_told_apart() -> None:
    found = parts(
        f"{NPU}=8,cpu=500m,memory=1Gi,accelerator-type=module-910b-8,kubernetes.io/arch=arm64"
    )
    assert found.amounts == {NPU: 8, "cpu": 500, "memory": 1 << 30}
    assert found.labels == {"accelerator-type": "module-910b-8", "kubernetes.io/arch": "arm64"}
    assert need_of(f"{NPU}=8,pool=a") == PodRequest(
        ((NPU, 8), (PODS, 1)), Where(selector=(("pool", "a"),))
    )


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="x1 8=,/.:acpu-é", max_size=30))
def test_a_short_form_is_read_or_refused_in_words(text: str) -> None:
    try:
        found = len(read_nodes([f"2x {text}", "1x pool=a"]))
    except (BadInputError, UnreadableError) as refusal:
        found = -len(str(refusal))
    assert found == 3 or found < 0


LADDERS = ("2P1D > 1P1D", "3P2D > 2P1D > 1P1D", "1P", "2P2D > 1P1D")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(LADDERS), st.sampled_from([1, 2, 8])), min_size=1, max_size=4
    ),
    st.integers(0, 9),
)
def test_it_ends_and_never_runs_more_than_the_nodes_hold(
    services: list[tuple[str, int]], nodes: int
) -> None:
    made = []
    for index, (ladder, npus) in enumerate(services):
        found = builders.rule(ladder)
        needs = dict.fromkeys(found.groups, ((PodRequest(((NPU, npus), (PODS, 1))), 2),))
        made.append(Asked(ServiceKey("default", "rule", str(index)), found, RuleOptions(), needs))
    amounts = {NPU: 8, PODS: 110}
    answer = what_if(
        made,
        [NodeFacts(f"n{index}", allocatable=amounts, capacity=amounts) for index in range(nodes)],
    )
    taken = sum(
        share.counts.get(group, 0) * count * dict(need.requests)[NPU]
        for one, share in zip(made, answer.services, strict=True)
        for group, part in one.needs.items()
        for need, count in part
    )
    assert taken <= 8 * nodes
    assert answer.serving == sum(one.serves for one in answer.services)
    assert answer == what_if(
        made,
        [NodeFacts(f"n{index}", allocatable=amounts, capacity=amounts) for index in range(nodes)],
    )
