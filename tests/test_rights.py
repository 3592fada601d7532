"""The rights of the manifests are enough, and none is idle: the real controller works under them as
a cluster would enforce them, through a start, lost answers, a quota, faults, a revoke, a restart
and the end of the service."""

from __future__ import annotations

import argparse
import functools
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest

from scaler import settings
from scaler.app import App
from scaler.clock import Clock
from scaler.controller import Observer
from scaler.election import LeadershipLost
from scaler.kube.api import LEASES, PODS, KubeApi, Page, Resource, WatchEvent
from scaler.kube.errors import ForbiddenError, status_error
from scaler.sim import loop
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.play import START
from scaler.sim.stories.scenario import Event, Scenario
from scaler.sim.stories.scenario_run import ScenarioRun
from scaler.sim.stories.timeline import MomentKind, Timeline
from scaler.tools.simulate.scenario_file import load_scenario
from tests.jobs import NAMESPACE, held, rule_config_map
from tests.test_manifests import VARIANTS, Object, allowed, environment, of_kind

SCENARIO = Path(__file__).parent / "scenarios" / "start-degrade-climb.yaml"

MORE: list[Object] = [
    # A prefill instance waits for a node, then the decode instance needs the next one: the
    # admission is taken back.
    {"at": "12m", "node": {"of_job": "mindie/mindie-server-p1", "becomes": "not-ready"}},
    {"at": "13m30s", "node": {"of_job": "mindie/mindie-server-d0", "becomes": "not-ready"}},
    {"at": "18m", "node": {"becomes": "ready"}},
    {"at": "19m", "controller": "restart"},
    {"at": "20m", "delete": {"kind": "ConfigMap", "name": "scaling-rule", "namespace": "mindie"}},
    # The end of the service: nothing is left that a status could be about.
    *(
        {
            "at": "21m",
            "delete": {"kind": "AscendJob", "name": f"mindie-server-{name}", "namespace": "mindie"},
        }
        for name in ("p0", "p1", "d0")
    ),
]

RARE = {
    # the simulation does not know this kind
    ("workloads.x-k8s.io", "rolebasedgroups", "watch"),
    # installed in no world that is played here: tests/scenarios/hyper-nodes-*.yaml
    ("topology.volcano.sh", "hypernodes", "watch"),
    ("mind-cluster", "gates", "release"),  # asked by the gate guard, not by a request
    # asked by an admission plugin, not by a request
    ("mindxdl.gitee.com", "ascendjobs/finalizers", "update"),
    # for a request for metrics: tests/serve/test_access.py
    ("authentication.k8s.io", "tokenreviews", "create"),
    ("authorization.k8s.io", "subjectaccessreviews", "create"),
    ("mindxdl.gitee.com", "ascendjobs", "delete"),  # a finished job whose time is over
    ("scheduling.volcano.sh", "podgroups", "patch"),  # after somebody edited replicas
    ("", "pods", "patch"),  # pods that others create: tests/control_plane/test_rights.py
    # after a conflict with another writer of the status
    ("mindxdl.gitee.com", "ascendjobs", "get"),
    # with the last service of a namespace: tests/test_budgets.py
    ("policy", "poddisruptionbudgets", "delete"),
    # of kinds that are not installed
    ("apiextensions.k8s.io", "customresourcedefinitions", "list"),
    ("apiextensions.k8s.io", "customresourcedefinitions", "watch"),
}

DONE_WITHOUT = {"mutatingadmissionpolicybindings", "mutatingwebhookconfigurations"}
"""Looked at once, to say which ways of holding pods are set up; the rights come with the components
that need them."""


class Rbac:
    """Answers as the API server's authorizer does for the one account that the manifests bind."""

    def __init__(self, variant: str) -> None:
        self._roles = {
            role["metadata"]["name"]: role
            for kind in ("ClusterRole", "Role")
            for role in of_kind(kind, variant)
        }
        self._bindings = [
            (binding["metadata"].get("namespace"), self._roles[binding["roleRef"]["name"]])
            for kind in ("ClusterRoleBinding", "RoleBinding")
            for binding in of_kind(kind, variant)
        ]
        self.asked: set[tuple[str, str, str]] = set()
        self.refused: set[str] = set()
        self.created: Counter[str] = Counter()

    def check(
        self,
        verb: str,
        resource: Resource,
        namespace: str | None,
        name: str = "",
        subresource: str = "",
    ) -> None:
        """Raises ForbiddenError where no binding grants the request."""
        what = f"{resource.plural}/{subresource}" if subresource else resource.plural
        self.asked.add((resource.group, what, verb))
        if not any(
            _grants(rule, verb, resource.group, what, name) for rule in self._rules(namespace)
        ):
            words = f"cannot {verb} {what} {name!r} in namespace {namespace}"
            self.refused.add(words)
            raise status_error(403, "Forbidden", words)

    def _rules(self, namespace: str | None) -> Iterator[Object]:
        for place, role in self._bindings:
            if place is None or place == namespace:
                yield from role["rules"]


def _grants(rule: Object, verb: str, group: str, what: str, name: str) -> bool:
    return (
        group in rule["apiGroups"]
        and what in rule["resources"]
        and verb in rule["verbs"]
        and ("resourceNames" not in rule or name in rule["resourceNames"])
    )


class GuardedApi(KubeApi):
    """Passes on what `rbac` allows. As in a cluster, a list or watch has a name when its field
    selector gives one.

    Of each resource, the answer to the first create is lost; the second pod exceeds a quota."""

    def __init__(self, api: KubeApi, rbac: Rbac) -> None:
        self._api = api
        self._rbac = rbac

    async def list(
        self, resource: Resource, namespace: str | None = None, **options: Any
    ) -> Page[Any]:
        self._rbac.check("list", resource, namespace, _selected(options))
        page: Page[Any] = await self._api.list(resource, namespace, **options)
        return page

    async def watch(
        self, resource: Resource, namespace: str | None = None, **options: Any
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        self._rbac.check("watch", resource, namespace, _selected(options))
        async for event in self._api.watch(resource, namespace, **options):
            yield event

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Any:
        self._rbac.check("get", resource, namespace, name)
        return await self._api.get(resource, namespace, name)

    async def create(self, resource: Resource, namespace: str | None, body: Any) -> Any:
        self._rbac.check("create", resource, namespace)
        before = self._rbac.created[resource.plural]
        self._rbac.created[resource.plural] += 1
        if resource == PODS and before == 1:
            # so that what stands already is undone
            raise status_error(403, "Forbidden", "exceeded quota")
        created = await self._api.create(resource, namespace, body)
        if before == 0:
            # so that it has to be read
            raise status_error(500, "InternalError", "the answer is lost")
        return created

    async def replace(
        self, resource: Resource, namespace: str | None, name: str, body: Any, **options: Any
    ) -> Any:
        self._rbac.check("update", resource, namespace, name, options.get("subresource", ""))
        return await self._api.replace(resource, namespace, name, body, **options)

    async def patch(
        self, resource: Resource, namespace: str | None, name: str, patch: Any, **options: Any
    ) -> Any:
        self._rbac.check("patch", resource, namespace, name, options.get("subresource", ""))
        return await self._api.patch(resource, namespace, name, patch, **options)

    async def delete(
        self, resource: Resource, namespace: str | None, name: str, **options: Any
    ) -> None:
        self._rbac.check("delete", resource, namespace, name)
        await self._api.delete(resource, namespace, name, **options)


def _selected(options: Object) -> str:
    return str(options.get("field_selector", "")).removeprefix("metadata.name=")


@functools.cache
def played(variant: str) -> tuple[Rbac, Timeline]:
    """The scenario and more trouble, with the settings of the variant's Deployment."""
    rbac = Rbac(variant)
    timeline = Timeline(None)
    flags = argparse.Namespace(http_port="0", identity="replica", disruption_budgets=True)
    given = settings.load(flags, environment(variant))

    async def controller(api: KubeApi, clock: Clock, observe: Observer) -> None:
        # as a kubelet does when the process ends because its Lease could not be renewed
        while True:
            try:
                await App(GuardedApi(api, rbac), given, clock, observer=observe, seed=0).run()
            except* LeadershipLost:
                pass

    async def main() -> None:
        clock = Clock(START)
        cluster = SimCluster(clock)
        cluster.apply(
            [rule_config_map(), held("p0", "group0", owner=""), held("d0", "group1", owner="")],
            NAMESPACE,
        )
        world = ScenarioRun(
            cluster, clock, scenario(), controller=controller, timeline=timeline, seed=0
        )
        await world.play()

    loop.run(main())
    return rbac, timeline


def scenario() -> Scenario:
    usual = load_scenario(SCENARIO)
    more = [Event.model_validate(event) for event in MORE]
    return usual.model_copy(update={"events": [*usual.events, *more], "until": 23 * 60.0})


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_controller_is_refused_nothing(variant: str) -> None:
    rbac, timeline = played(variant)
    assert {
        words for words in rbac.refused if not DONE_WITHOUT.intersection(words.split())
    } == set()
    failed = [moment.text for moment in timeline.moments if moment.kind is MomentKind.FAILURE]
    # there nobody makes the pods of the jobs that the scenario is about
    assert variant == "gates-only" or failed == []
    assert timeline.passes > 10


def test_an_install_that_only_releases_does_so_and_reports_in_its_own_namespace() -> None:
    rbac, _ = played("gates-only")
    assert {
        ("", "pods", "patch"),
        ("", "configmaps", "create"),
        ("", "events", "create"),
    } <= rbac.asked
    written = {what for what in rbac.asked if what[2] in ("create", "patch", "update", "delete")}
    assert written <= allowed("gates-only")


def test_an_install_that_only_releases_may_read_nothing_that_it_does_not_read() -> None:
    rbac, _ = played("gates-only")
    assert {
        what for what in allowed("gates-only") - rbac.asked - RARE if what[2] in ("list", "watch")
    } == set()


def test_no_right_is_idle() -> None:
    rbac, _ = played("cluster-wide")
    assert allowed("cluster-wide") - rbac.asked - RARE == set()


def test_the_guard_refuses_what_is_not_granted() -> None:
    everywhere = Rbac("cluster-wide")
    one = Rbac("single-namespace")
    everywhere.check("delete", PODS, "other", "p")
    for rbac, request in (
        (one, ("delete", PODS, "other", "p")),
        (one, ("list", PODS, None)),
        (everywhere, ("update", PODS, "mindie", "p")),
        (everywhere, ("update", LEASES, "mindie", "mind-cluster-scaler")),
        (everywhere, ("update", LEASES, "mind-cluster-scaler-system", "another")),
    ):
        with pytest.raises(ForbiddenError, match="cannot"):
            rbac.check(*request)
