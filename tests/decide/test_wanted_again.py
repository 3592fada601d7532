"""Down and up again before the old pods have ended: 3c and L2 of the contract. `ScaledDown` says
that fewer are wanted; where more are wanted since, the one reason is what the instance waits for
now."""

from __future__ import annotations

import msgspec
import pytest

from scaler.decide.explain import words
from scaler.decide.world import Instance, Service
from scaler.rules.rule import ALL
from tests.builders import Story, on_nodes

LADDER = "5P > 4P > 3P > 2P > 1P"
NODES = "a:8x6"
WAITS = "pod a-p4-master-0 on node a4, which is missing or not Ready, is terminating"


def served(*ending: str, replicas: int = ALL, instances: int = 5, others: bool = False) -> Service:
    """Prefill instances that run, each on a node of its own, but those that end."""
    text = []
    for number in range(instances):
        name = f"p{number}"
        text.append(f"{name} ends" if name in ending else f"{name} on a{number}")
    found = on_nodes(LADDER, ", ".join(text), replicas=replicas, others=others)
    told = []
    for one in found.instances:
        told.append(msgspec.structs.replace(one, trouble=WAITS) if one.name in ending else one)
    return msgspec.structs.replace(found, instances=tuple(told))


def scaled_down(to: int, *evicted: str, others: bool = False) -> Story:
    """All run, and fewer are wanted from then on."""
    story = Story(NODES)
    done = story.at(0, served(replicas=to, others=others))
    assert done == dict.fromkeys(evicted, "Evict")
    return story


@pytest.mark.parametrize("others", [False, True])
def test_while_fewer_are_wanted_it_says_so(others: bool) -> None:
    story = scaled_down(4, "a-p4", others=others)
    story.at(1, served("p4", replicas=4, others=others))
    assert story.reasons["a-p4"] == "ScaledDown"


@pytest.mark.parametrize("replicas", [5, ALL])
@pytest.mark.parametrize("others", [False, True])
def test_when_it_is_wanted_again_it_says_what_it_waits_for(others: bool, replicas: int) -> None:
    """L2: one current reason, which names the pod and the node. It advises to raise nothing."""
    story = scaled_down(4, "a-p4", others=others)
    for time in (1.5, 3600.0):
        story.at(time, served("p4", replicas=replicas, others=others))
        assert story.reasons["a-p4"] == "Terminating"
        (plan,) = story.made.plans
        said = words(plan.verdicts[4], plan)
        assert WAITS in said
        assert "raise" not in said


def test_of_two_the_older_one_is_wanted_again() -> None:
    story = scaled_down(3, "a-p3", "a-p4")
    story.at(1, served("p3", "p4", replicas=4))
    assert (story.reasons["a-p3"], story.reasons["a-p4"]) == ("Terminating", "ScaledDown")


def test_down_up_and_down_again_says_that_fewer_are_wanted() -> None:
    story = scaled_down(4, "a-p4")
    found = []
    for time, replicas in ((1, 5), (2, 4), (3, 5)):
        story.at(time, served("p4", replicas=replicas))
        found.append(story.reasons["a-p4"])
    assert found == ["Terminating", "ScaledDown", "Terminating"]


def pod_of_a_deployment(name: str, where: str, **changes: object) -> Instance:
    """A pod that does not come back: its Deployment makes another one."""
    (found,) = on_nodes("1P", f"{name} {where}", others=True).instances
    return msgspec.structs.replace(found, owner="Deployment/default/p", **changes)


@pytest.mark.parametrize(
    ("replicas", "reason"), [(4, "ScaledDown"), (5, "Terminating"), (ALL, "Terminating")]
)
def test_a_pod_in_whose_stead_its_deployment_made_another_waits_for_nothing_but_its_end(
    replicas: int, reason: str
) -> None:
    story = Story(NODES)
    whole = on_nodes(LADDER, "", replicas=4, others=True)
    four = [pod_of_a_deployment(f"p{number}", f"on a{number}") for number in range(4)]
    fifth = pod_of_a_deployment("p4", "on a4")
    before = msgspec.structs.replace(whole, instances=(*four, fifth))
    assert story.at(0, before) == {"a-p4": "Evict"}
    ends = pod_of_a_deployment("p4", "ends", owner_deleting=True)
    another = pod_of_a_deployment("p5", "gated")
    after = msgspec.structs.replace(whole, instances=(*four, ends, another), replicas=replicas)
    story.at(1.5, after)
    assert story.reasons["a-p4"] == reason
