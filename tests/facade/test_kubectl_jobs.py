"""What a person with kubectl sees of a job while the real controller serves it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from scaler.clock import Clock
from tests.facade.test_kubectl import Person, pytestmark, with_person
from tests.jobs import NAMESPACE, job, node, rule_config_map, rule_document
from tests.rig import NODE, Rig, controller

__all__ = ["pytestmark"]

IN = ("--namespace", NAMESPACE)


async def state(person: Person) -> str:
    """The column STATE of `kubectl get acjob p0`."""
    return (await person.kubectl("get", "acjob", "p0", "--no-headers", *IN)).split()[1]


def test_get_and_wait_show_a_job_as_it_is(tmp_path: Path) -> None:
    async def act(person: Person) -> None:
        on = Rig(cluster=person.cluster)
        on.apply(
            node(NODE),
            rule_config_map(rule_document({"group0": 1, "group1": 1})),
            job("p0"),
            job("d0"),
        )
        async with controller(on, Clock(1_800_000_000 - asyncio.get_running_loop().time())):
            await person.kubectl(
                "wait", "--for=condition=Created", "acjob/p0", "--timeout=20s", *IN
            )
            assert await state(person) == "Created"
            runs = asyncio.create_task(
                person.kubectl("wait", "--for=condition=Running", "acjob/p0", "--timeout=20s", *IN)
            )
            await on.start("p0", "d0")
            assert "condition met" in await runs
            assert await state(person) == "Running"
            await on.kill("p0")
            await person.kubectl(
                "wait", "--for=condition=Running=false", "acjob/p0", "--timeout=20s", *IN
            )
            assert await state(person) == "Restarting"
            await on.start("p0")
            await person.kubectl(
                "wait", "--for=condition=Running", "acjob/p0", "--timeout=20s", *IN
            )
            await person.kubectl("patch", "acjob", "p0", "--type=merge", "-p", _DEADLINE, *IN)
            await person.kubectl("wait", "--for=condition=Failed", "acjob/p0", "--timeout=20s", *IN)
            assert await state(person) == "Failed"

    with_person(act, tmp_path)


_DEADLINE = '{"spec": {"runPolicy": {"activeDeadlineSeconds": 0}}}'
