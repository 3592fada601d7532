"""Random histories on the simulated cluster against a model small enough to believe."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.clock import Clock
from scaler.kube.api import CONFIG_MAPS, Object, PatchType
from scaler.kube.errors import AlreadyExistsError, ConflictError, KubeError, NotFoundError
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run

_VERBS = ("create", "replace", "patch", "delete")
_steps = st.lists(
    st.tuples(
        st.sampled_from(_VERBS),
        st.sampled_from("abc"),
        st.sampled_from("xyz"),
        st.sampled_from(("none", "now", "old")),
    ),
    max_size=25,
)


class _Model:
    """Data and version of each ConfigMap, and the version that it had before."""

    def __init__(self) -> None:
        self.data: dict[str, str] = {}
        self.version: dict[str, str] = {}
        self.old: dict[str, str] = {}

    def expect(self, verb: str, name: str, version: str) -> type[KubeError] | None:
        """How the step must end."""
        if verb == "create":
            return AlreadyExistsError if name in self.data else None
        if name not in self.data:
            return NotFoundError
        return None if version in ("", self.version[name]) else ConflictError

    def precondition(self, name: str, which: str) -> str:
        return {"none": "", "now": self.version.get(name, ""), "old": self.old.get(name, "1")}[
            which
        ]

    def note(self, name: str, made: Object | None, value: str) -> None:
        self.old[name] = self.version.get(name, "1")
        if made is None:
            del self.data[name], self.version[name]
        else:
            self.data[name] = value
            self.version[name] = made["metadata"]["resourceVersion"]


def _body(name: str, value: str, version: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "data": {"key": value},
        "metadata": {"name": name, **({"resourceVersion": version} if version else {})},
    }


async def _do(sim: SimCluster, verb: str, name: str, value: str, version: str) -> Object | None:
    if verb == "create":
        return await sim.create(CONFIG_MAPS, "ns", _body(name, value, ""))
    if verb == "replace":
        return await sim.replace(CONFIG_MAPS, "ns", name, _body(name, value, version))
    if verb == "patch":
        body = _body(name, value, version)
        return await sim.patch(CONFIG_MAPS, "ns", name, body, patch_type=PatchType.MERGE)
    await sim.delete(CONFIG_MAPS, "ns", name, resource_version=version)
    return None


async def _replay(sim: SimCluster, start: dict[str, str], version: str) -> dict[str, str]:
    """The state that a watch from that version leads to."""
    found = dict(start)
    watch = sim.watch(CONFIG_MAPS, "ns", resource_version=version, timeout_seconds=1)
    last = int(version)
    async with aclosing(watch) as stream:
        async for event in stream:
            assert int(event.resource_version) > last
            last = int(event.resource_version)
            assert event.object is not None
            name = event.object["metadata"]["name"]
            if event.type == "DELETED":
                del found[name]
            else:
                assert (event.type == "ADDED") is (name not in found)
                found[name] = event.object["data"]["key"]
    return found


async def _history(steps: list[tuple[str, str, str, str]], seed: int) -> None:
    sim = SimCluster(Clock(1.7e9), seed=seed)
    model = _Model()
    moments: list[tuple[str, dict[str, Any]]] = []
    for verb, name, value, which in steps:
        moments.append(((await sim.list(CONFIG_MAPS, "ns")).resource_version, dict(model.data)))
        version = model.precondition(name, which)
        expected = model.expect(verb, name, version)
        try:
            made = await _do(sim, verb, name, value, version)
        except KubeError as error:
            assert type(error) is expected  # noqa: PT017 - the model says whether there is one
            assert sim.server.store.version == int(moments[-1][0])
            continue
        assert expected is None
        changed = made is None or model.data.get(name) != value
        assert (sim.server.store.version > int(moments[-1][0])) is changed
        model.note(name, made, value)
    page = await sim.list(CONFIG_MAPS, "ns")
    assert {item["metadata"]["name"]: item["data"]["key"] for item in page.items} == model.data
    for version, data in moments[::5]:
        assert await _replay(sim, data, version) == model.data
        exact = await sim.list(CONFIG_MAPS, "ns", resource_version=version, limit=100)
        assert {item["metadata"]["name"]: item["data"]["key"] for item in exact.items} == data


@settings(max_examples=60, deadline=None)
@given(_steps, st.integers(0, 3))
def test_every_history_agrees_with_the_model(
    steps: list[tuple[str, str, str, str]], seed: int
) -> None:
    assert run(_history(steps, seed), seed=seed) is None
