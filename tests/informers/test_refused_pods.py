"""Pods that their kubelets refuse: what counts as that, and how often in a row it was."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.informers.pods import PodRecord, read_pod
from scaler.informers.refused_pods import FORGOTTEN_AFTER, RefusedPods
from scaler.names import GROUP_LABEL, JOB_ID_LABEL, RULE_LABEL

LABELS = {RULE_LABEL: "rule", GROUP_LABEL: "prefill", JOB_ID_LABEL: "s"}
WAITS = {"waiting": {"reason": "ContainerCreating"}}
EVICTED = [{"type": "DisruptionTarget", "status": "True"}]


def pod(uid: str, node: str = "npu-0", *, kind: str = "ReplicaSet", **status: Any) -> PodRecord:
    """A pod of a Deployment, or of a StatefulSet under its name."""
    owner = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": "prefill-5cbv",
        "uid": f"uid-{kind}",
        "controller": True,
    }
    meta = {
        "name": "prefill-0" if kind == "StatefulSet" else uid,
        "namespace": "infer",
        "uid": uid,
        "labels": {**LABELS, "pod-template-hash": "5cbv"},
        "ownerReferences": [owner],
        "resourceVersion": "1",
    }
    return read_pod({"metadata": meta, "spec": {"nodeName": node}, "status": status})


def refused(uid: str, node: str = "npu-0", **how: Any) -> PodRecord:
    return pod(uid, node, phase="Failed", reason="OutOfcpu", **how)


class Seen:
    """What is known of refusals, and the time in which it is."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.known = RefusedPods(lambda: self.now)

    def refuse(self, uid: str, **how: Any) -> None:
        """The pod comes, is bound, and its kubelet refuses it."""
        self.known.change(None, pod(uid, "", **how))
        self.known.change(pod(uid, "", **how), refused(uid, **how))

    def times(self, uid: str) -> list[tuple[str, int, float]]:
        found = self.known.of("infer", uid)
        return [(refusal.node, refusal.times, refusal.pause) for refusal in found]


@pytest.mark.parametrize(
    "word",
    [
        "OutOfcpu",
        "NodeAffinity",
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
        "SMTAlignmentError",
        "SomethingOfNextYear",
        "",
    ],
)
@pytest.mark.parametrize(
    "containers",
    [
        [],
        [{"name": "a", "state": WAITS}],
        [{"name": "a", "state": {"terminated": {"reason": "ContainerStatusUnknown"}}}],
    ],
    ids=["none", "waiting", "never found"],
)
def test_a_pod_that_fails_before_any_container_started_is_refused_whatever_the_word(
    word: str, containers: list[Any]
) -> None:
    """Contract section 2: refused by its kubelet, whatever the reason is called."""
    statuses: dict[str, Any] = {
        "containerStatuses": containers,
        "initContainerStatuses": containers,
    }
    found = pod("a", phase="Failed", reason=word, **statuses)
    assert (found.refused, found.said) == (True, word)


@pytest.mark.parametrize("kind", ["init", "ephemeral", ""])
@pytest.mark.parametrize(
    "container",
    [
        {"state": {"running": {}}},
        {"state": {"terminated": {"exitCode": 1}}},
        {"restartCount": 1, "state": WAITS},
        {"containerID": "containerd://1", "state": WAITS},
    ],
)
def test_a_pod_of_which_a_container_started_is_not_refused(
    kind: str, container: dict[str, Any]
) -> None:
    name = f"{kind}ContainerStatuses" if kind else "containerStatuses"
    status: dict[str, Any] = {name: [container]}
    assert not pod("a", phase="Failed", reason="OutOfcpu", **status).refused


@pytest.mark.parametrize(
    ("reason", "conditions", "disrupted"),
    [
        ("DeadlineExceeded", [], False),
        ("Evicted", [], True),
        ("Preempting", [], True),
        ("NodeShutdown", [], True),
        ("Terminated", [], True),
        ("", EVICTED, True),
    ],
)
def test_an_eviction_or_a_deadline_is_no_refusal(
    reason: str, conditions: list[Any], disrupted: bool
) -> None:
    found = pod("a", phase="Failed", reason=reason, conditions=conditions)
    assert (found.refused, found.disrupted) == (False, disrupted)


def test_a_pod_that_runs_or_waits_is_not_refused() -> None:
    assert not pod("a", phase="Pending", reason="OutOfcpu").refused
    assert not pod("a", phase="Succeeded").refused


def test_the_pause_of_an_instance_grows_from_refusal_to_refusal() -> None:
    on = Seen()
    for pause in (10, 20, 40, 80, 160, 300, 300):
        on.refuse("a", kind="StatefulSet")
        (found,) = on.times("StatefulSet/infer/prefill-5cbv/prefill-0")
        assert found[2] == pause
        on.now += pause


def test_refusals_count_for_each_node() -> None:
    on = Seen()
    on.refuse("a", kind="StatefulSet")
    on.known.change(pod("b", "", kind="StatefulSet"), refused("b", "npu-1", kind="StatefulSet"))
    uid = "StatefulSet/infer/prefill-5cbv/prefill-0"
    assert on.times(uid) == [("npu-0", 1, 10), ("npu-1", 1, 10)]
    assert on.known.of("other", uid) == ()


def test_pods_that_are_refused_together_are_one_refusal() -> None:
    on = Seen()
    on.refuse("a", kind="StatefulSet")
    on.refuse("b", kind="StatefulSet")
    assert on.times("StatefulSet/infer/prefill-5cbv/prefill-0") == [("npu-0", 1, 10)]


def test_a_pod_that_runs_on_the_node_ends_the_row() -> None:
    on = Seen()
    on.refuse("a", kind="StatefulSet")
    waits = pod("b", phase="Pending", kind="StatefulSet")
    on.known.change(waits, pod("b", phase="Running", kind="StatefulSet"))
    assert on.times("StatefulSet/infer/prefill-5cbv/prefill-0") == []


def test_the_next_pod_of_a_deployment_takes_over_what_was_known_of_the_last_one() -> None:
    on = Seen()
    for number, pause in enumerate((10, 20, 40)):
        on.refuse(f"pod-{number}")
        assert on.times(f"pod-{number}") == [("npu-0", number + 1, pause)]
        on.now += pause
    on.known.change(None, pod("after", ""))
    on.known.change(None, pod("beside", ""))
    assert (on.times("after"), on.times("beside")) == ([("npu-0", 3, 40)], [])


def test_a_row_is_forgotten_after_ten_minutes() -> None:
    on = Seen()
    on.refuse("pod-0")
    on.now += FORGOTTEN_AFTER
    on.known.change(None, pod("pod-1", ""))
    assert on.times("pod-1") == []
    on.refuse("pod-2")
    assert on.times("pod-2") == [("npu-0", 1, 10)]
    assert on.times("pod-0") == []


def test_what_was_refused_before_it_was_first_seen_tells_nothing() -> None:
    """After a failover every clock starts anew."""
    on = Seen()
    on.known.change(None, refused("old"))
    on.known.change(None, pod("new", ""))
    assert (on.times("old"), on.times("new")) == ([], [])
