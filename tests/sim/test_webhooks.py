"""The scaler's own admission in the simulated cluster: who is held, whose labels move, and the
operator beside it."""

from __future__ import annotations

import asyncio

import pytest

from scaler.kube.api import ASCEND_JOBS, NAMESPACES, PODS, Object, PatchType
from scaler.kube.errors import InvalidError
from scaler.names import BESIDE_LABEL, DELETION_COST, GATE, HELD_COST, MOVED_RULE, NAMESPACE_LABEL
from scaler.sim.actors import objects
from scaler.sim.actors.nodes import Kubelet
from scaler.sim.actors.operator import AscendOperator
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.loop import run
from scaler.sim.webhooks import webhooks
from tests.jobs import NAMESPACE, job, rule_config_map
from tests.rig import Rig

LABELS = {
    "mind-cluster/scaling-rule": "rule",
    "mind-cluster/group-name": "group0",
    "jobID": "mindie",
}


async def staged(**labels: str) -> Rig:
    """A cluster with our webhooks and two nodes; `labels` are those of the namespace, by the words
    in them."""
    on = Rig(*webhooks(rules=True))
    names = {"scaling": NAMESPACE_LABEL, "beside": BESIDE_LABEL}
    metadata = {"name": NAMESPACE, "labels": {names[word]: value for word, value in labels.items()}}
    await on.cluster.create(NAMESPACES, None, {"metadata": metadata})
    on.nodes("n0", "n1")
    return on


def pod(**labels: str) -> Object:
    return {
        "metadata": {"name": "p", "labels": labels},
        "spec": {
            "containers": [{"name": "a", "image": "x"}],
            "schedulingGates": [{"name": "foreign"}],
        },
    }


@pytest.mark.parametrize(
    ("namespace", "labels", "gates"),
    [
        ({"scaling": "enabled"}, LABELS, ["foreign", GATE]),
        ({"scaling": "enabled"}, {}, ["foreign"]),
        ({}, LABELS, ["foreign"]),
    ],
)
def test_pods_that_name_a_rule_are_held_where_the_namespace_opted_in(
    namespace: dict[str, str], labels: dict[str, str], gates: list[str]
) -> None:
    async def main() -> None:
        on = await staged(**namespace)
        made = await on.cluster.create(PODS, NAMESPACE, pod(**labels))
        assert [gate["name"] for gate in made["spec"]["schedulingGates"]] == gates
        assert (objects.annotations_of(made).get(DELETION_COST) == HELD_COST) == (GATE in gates)

    run(main())


def test_a_wrong_rule_is_refused_in_the_linters_words() -> None:
    async def main() -> None:
        on = await staged()
        with pytest.raises(InvalidError, match="elastic_scaling"):
            on.cluster.apply([rule_config_map("{}")], NAMESPACE)

    run(main())


def test_beside_ascend_operator_all_pods_come_at_once_held_and_restarts_are_counted() -> None:
    async def main() -> None:
        on = await staged(scaling="enabled", beside="true")
        on.cluster.apply([rule_config_map(), job("p0", pods=2), job("p1", pods=2)], NAMESPACE)

        async def take_one_back() -> None:
            await asyncio.sleep(20)
            assert set(on.nodes_by_pod()) == {
                "p0-master-0",
                "p0-worker-0",
                "p1-master-0",
                "p1-worker-0",
            }
            await on.cluster.delete(PODS, NAMESPACE, "p0-worker-0")

        operator = AscendOperator(on.cluster.client("operator"), on.clock)
        api = on.cluster
        await on.play(
            60, operator, GangScheduler(api), Kubelet(api, on.clock), script=take_one_back()
        )
        pods = {objects.name(pod): pod for pod in api.peek(PODS)}
        assert set(on.nodes_by_pod().values()) == {""}
        assert all(pod["spec"]["schedulingGates"] == [{"name": GATE}] for pod in pods.values())
        assert all(
            objects.labels_of(pod).items() >= {**LABELS, "jobID": "mindie"}.items()
            for pod in pods.values()
        )
        version = {name: objects.labels_of(pod)["version"] for name, pod in pods.items()}
        assert version == {
            "p0-master-0": "0",
            "p0-worker-0": "1",
            "p1-master-0": "0",
            "p1-worker-0": "0",
        }

    run(main())


def test_applying_the_users_file_again_does_not_wake_the_operators_own_gate() -> None:
    async def main() -> None:
        on = await staged(scaling="enabled", beside="true")
        api = on.cluster
        await api.create(ASCEND_JOBS, NAMESPACE, job("p0"))
        again = {"metadata": {"labels": {"mind-cluster/scaling-rule": "rule"}}}
        made = await api.patch(ASCEND_JOBS, NAMESPACE, "p0", again, patch_type=PatchType.MERGE)
        assert "mind-cluster/scaling-rule" not in objects.labels_of(made)
        assert objects.annotations_of(made)[MOVED_RULE] == "rule"
        template = made["spec"]["replicaSpecs"]["Master"]["template"]
        assert template["metadata"]["labels"].items() >= LABELS.items()

    run(main())
