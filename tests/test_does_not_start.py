"""A container that does not start is what people read of its instance, in the words of the
kubelet."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.kube.api import ELASTIC_SERVICES
from scaler.sim.loop import run
from tests.jobs import job, rule_config_map
from tests.rig import NODE, Rig, rig


async def waits(on: Rig, where: str, reason: str) -> None:
    """The pod of p0 is bound, and its container waits for this reason."""
    (pod,) = on.pods_of("p0")
    waiting: dict[str, Any] = {"name": "ascend", "state": {"waiting": {"reason": reason}}}
    await on.status(pod, phase="Pending", **{where: [waiting]})
    await on.settle(30)


def said(on: Rig) -> str:
    (service,) = on.cluster.peek(ELASTIC_SERVICES)
    for instance in service["status"]["instances"]:
        if instance["name"] == "p0":
            return str(instance["message"])
    raise AssertionError("the status does not name p0")


@pytest.mark.parametrize("where", ["containerStatuses", "initContainerStatuses"])
@pytest.mark.parametrize("reason", ["ImagePullBackOff", "CreateContainerConfigError"])
def test_a_container_that_does_not_start_is_the_headline_of_its_instance(
    where: str, reason: str
) -> None:
    async def story() -> None:
        async with rig(rule_config_map(), job("p0"), job("d0")) as on:
            (pod,) = on.pods_of("p0")
            await on.bind(pod)
            await waits(on, where, reason)
            name = pod["metadata"]["name"]
            assert on.reason("p0") == "Starting"
            word = f"Init:{reason}" if where == "initContainerStatuses" else reason
            expected = f"A container does not start: pod {name} on node {NODE} says {word}."
            assert said(on) == expected

    run(story())


def test_an_init_container_that_fails_is_the_headline_with_pod_node_and_word() -> None:
    async def story() -> list[str]:
        async with rig(rule_config_map(), job("p0"), job("d0")) as on:
            (pod,) = on.pods_of("p0")
            await on.bind(pod)
            found = []
            ended: dict[str, Any] = {"terminated": {"exitCode": 1, "reason": "Error"}}
            loops: dict[str, Any] = {"waiting": {"reason": "CrashLoopBackOff"}}
            for state in (ended, loops):
                init = [{"name": "fetch", "restartCount": 2, "state": state}]
                await on.status(pod, phase="Pending", initContainerStatuses=init)
                await on.settle(2)
                found.append(said(on))
            return found

    failed, loops = run(story())
    assert "pod p0-master-0 on node node-0 says Init:Error" in failed
    assert "pod p0-master-0 on node node-0 is in Init:CrashLoopBackOff" in loops


@pytest.mark.parametrize("reason", ["ContainerCreating", "ImagePullBackOff"])
def test_what_never_ran_in_time_names_pod_and_node_and_does_not_say_that_it_ran(
    reason: str,
) -> None:
    async def story() -> str:
        async with rig(rule_config_map(), job("p0"), job("d0"), start_timeout=60) as on:
            (pod,) = on.pods_of("p0")
            await on.bind(pod)
            await waits(on, "containerStatuses", reason)
            await on.settle(60)
            assert on.reason("p0") == "Broken"
            return said(on)

    words = run(story())
    assert "pod p0-master-0 on node node-0" in words
    assert "lost" not in words
    assert ("says ImagePullBackOff" in words) == (reason == "ImagePullBackOff")


def test_the_two_words_of_an_image_that_cannot_be_had_are_one_so_that_nothing_is_written() -> None:
    async def story() -> None:
        async with rig(rule_config_map(), job("p0"), job("d0")) as on:
            (pod,) = on.pods_of("p0")
            await on.bind(pod)
            await waits(on, "containerStatuses", "ErrImagePull")
            assert said(on).endswith("says ImagePullBackOff.")
            written = len(on.writes())
            await waits(on, "containerStatuses", "ImagePullBackOff")
            await waits(on, "containerStatuses", "ErrImagePull")
            assert len(on.writes()) == written

    run(story())


def test_a_container_that_waits_for_its_turn_is_starting() -> None:
    async def story() -> None:
        async with rig(rule_config_map(), job("p0"), job("d0")) as on:
            (pod,) = on.pods_of("p0")
            await on.bind(pod)
            await waits(on, "containerStatuses", "ContainerCreating")
            assert said(on) == "All its pods are bound and starting."

    run(story())
