"""`scaler uninstall`: the steps on a simulated cluster, broken off, repeated, refused, and beside
another install."""

from __future__ import annotations

import argparse
import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from scaler.cli import main
from scaler.clock import Clock
from scaler.installs import marks
from scaler.kube.api import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    ROLE_BINDINGS,
    VALIDATING_WEBHOOKS,
    Object,
    Page,
    PatchType,
    Resource,
)
from scaler.kube.errors import ForbiddenError, KubeError, UnknownOutcomeError
from scaler.names import BUDGET, DELETION_COST, GATE, HELD_COST, INSTALL_LABEL, NAMESPACE_LABEL
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.apiserver.crds import workload_definition
from scaler.sim.apiserver.server import Review
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from scaler.sim.webhooks import hold_pods
from scaler.tools.uninstall import leave as steps
from scaler.tools.uninstall import remains
from scaler.tools.uninstall.command import leave
from scaler.tools.uninstall.install import InstallNotFoundError
from scaler.tools.uninstall.leave import StuckError
from scaler.tools.uninstall.remains import TEMPLATES
from tests.jobs import NAMESPACE, held, job, manifest
from tests.rig import START

ROOT = Path(__file__).parents[2]
HOME = "mind-cluster-scaler-system"
NAME = "mind-cluster-scaler"


class Place:
    """A cluster with an install that does what one does: it ends when its Deployment is scaled to
    0."""

    def __init__(self, *, stubborn: bool = False) -> None:
        self.cluster = SimCluster(Clock(START), admission=(self._admission,))
        self.said: list[str] = []
        self.stubborn = stubborn

    def _admission(self, review: Review) -> Object:
        """The gate, as long as some webhook configuration of some install is there."""
        return (
            hold_pods(review)
            if review.resource == PODS and self.cluster.peek(MUTATING_WEBHOOKS)
            else review.object
        )

    def install(self, home: str = HOME, name: str = NAME, governs: tuple[str, ...] = ()) -> None:
        service = {"service": {"name": name, "namespace": home}}
        app = {"app.kubernetes.io/name": NAME}
        spec = {
            "replicas": 2,
            "selector": {"matchLabels": app},
            "template": {
                "metadata": {"labels": app},
                "spec": {
                    "serviceAccountName": name,
                    "containers": [{"name": "scaler", "image": "scaler"}],
                },
            },
        }
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": home, **marks(governs)},
            "spec": {
                "holderIdentity": "leader",
                "leaseDurationSeconds": 8,
                "renewTime": "2023-11-14T22:13:20.000000Z",
            },
        }
        hook = {
            "name": "pods.scaler.svc",
            "clientConfig": service,
            "rules": [{"resources": ["pods"]}],
            "objectSelector": {"matchExpressions": [{"key": "mind-cluster/scaling-rule"}]},
        }
        pod = manifest(
            PODS, "scaler-0", home, labels=app, spec={"containers": [{"name": "c", "image": "i"}]}
        )
        self.cluster.apply(
            [
                manifest(NAMESPACES, home, "", labels={INSTALL_LABEL: "true"}),
                manifest(DEPLOYMENTS, name, home, labels=app, spec=spec),
                lease,
                pod,
                manifest(MUTATING_WEBHOOKS, name, "") | {"webhooks": [hook]},
                manifest(VALIDATING_WEBHOOKS, name, "") | {"webhooks": [hook]},
            ]
        )

    def opted_in(self, *namespaces: str) -> None:
        self.cluster.apply(
            manifest(NAMESPACES, one, "", labels={NAMESPACE_LABEL: "enabled"}) for one in namespaces
        )

    async def ends_when_scaled(self, home: str = HOME, name: str = NAME) -> None:
        """The process: renews its Lease each second, and gives it back when its pod is gone."""
        while (
            self.stubborn or (await self.cluster.get(DEPLOYMENTS, home, name))["spec"]["replicas"]
        ):
            await self.cluster.patch(
                LEASES,
                home,
                name,
                {"spec": {"renewTime": self.stamp()}},
                patch_type=PatchType.MERGE,
            )
            await asyncio.sleep(1)
        await self.cluster.patch(
            LEASES, home, name, {"spec": {"holderIdentity": ""}}, patch_type=PatchType.MERGE
        )
        await self.cluster.delete(PODS, home, "scaler-0", grace_period_seconds=0)

    def stamp(self) -> str:
        return f"2023-11-14T22:13:20.{int(self.cluster.server.clock.now() - START):06d}Z"

    async def leave(self, *, api: Any = None, **options: Any) -> int:
        args = argparse.Namespace(
            **{"release": True, "dry_run": False, "namespace": HOME, **options}
        )
        return await leave(api or self.cluster.client("user"), args, self.said.append)

    def gated(self) -> set[str]:
        return {
            f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            for pod in self.cluster.peek(PODS)
            if {"name": GATE} in pod["spec"].get("schedulingGates", ())
        }

    def writes(self) -> list[str]:
        """What it changed: asking for rights is a create that stores nothing."""
        written = [one for one in self.cluster.writes("user") if not one.error]
        return [f"{one.verb} {one.resource.plural} {one.name}" for one in written]


@asynccontextmanager
async def installed(*objects: Object, stubborn: bool = False) -> AsyncIterator[Place]:
    place = Place(stubborn=stubborn)
    place.opted_in(NAMESPACE)
    place.install()
    place.cluster.apply(objects, NAMESPACE)
    process = asyncio.create_task(place.ends_when_scaled())
    yield place
    process.cancel()
    await asyncio.gather(process, return_exceptions=True)


def running(name: str) -> Object:
    pod = held(name, "group0", gates=())
    pod["spec"]["nodeName"] = "node-0"
    return pod


def a_pod(name: str) -> Object:
    return held(name, "group0", gates=())


def test_all_that_is_held_is_released_and_nothing_that_runs_is_touched() -> None:
    async def story() -> None:
        async with installed(running("p0"), held("p1", "group0"), held("d1", "group1")) as place:
            (before,) = [
                pod
                for pod in place.cluster.peek(PODS, NAMESPACE)
                if pod["metadata"]["name"] == "p0"
            ]
            assert await place.leave() == 0
            assert place.gated() == set()
            assert before in place.cluster.peek(PODS, NAMESPACE)
            assert not [write for write in place.writes() if write.startswith("delete pods")]

    run(story())


def test_admission_goes_before_the_scaler_is_stopped_and_that_before_anything_is_released() -> None:
    async def story() -> None:
        async with installed(held("p1", "group0")) as place:
            await place.leave()
            assert place.writes() == [
                f"delete mutatingwebhookconfigurations {NAME}",
                f"delete validatingwebhookconfigurations {NAME}",
                f"patch deployments {NAME}",
                "patch pods p1",
            ]

    run(story())


def test_a_pod_that_is_made_while_it_leaves_is_not_stranded() -> None:
    async def story() -> None:
        async with installed(held("p1", "group0")) as place:
            task = asyncio.create_task(place.leave())
            for number in range(20):
                place.cluster.apply([a_pod(f"new-{number}")], NAMESPACE)
                await asyncio.sleep(0.4)
            assert await task == 0
            assert place.gated() == set()

    run(story())


def test_listed_pods_stay_held_and_each_has_its_command() -> None:
    async def story() -> None:
        cost = {DELETION_COST: HELD_COST}
        async with installed(held("p1", "group0", annotations=cost), held("d1", "group1")) as place:
            assert await place.leave(release=False) == 0
            assert place.gated() == {f"{NAMESPACE}/p1", f"{NAMESPACE}/d1"}
            said = [line for line in place.said if " patch pod " in line]
            assert [line.split()[5] for line in said] == ["p1", "d1"]
            assert DELETION_COST in said[0]
            assert DELETION_COST not in said[1]
            assert f"  # {NAMESPACE}/rule/mindie group0" in place.said

    run(story())


def test_a_listed_command_is_one_that_a_shell_takes_apart_as_it_was_meant() -> None:
    async def story() -> str:
        async with installed(held("p1", "group0")) as place:
            await place.leave(release=False)
            return next(line for line in place.said if " patch pod " in line)

    words = run(story()).strip().replace("kubectl", "printf '%s\\n'", 1)
    found = subprocess.run(
        ["/bin/sh", "-c", words], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert (
        found[-1] == '{"spec":{"schedulingGates":[{"$patch":"delete","name":"mind-cluster/hold"}]}}'
    )


def test_a_dry_run_changes_nothing_and_says_what_would_be_done() -> None:
    async def story() -> None:
        async with installed(held("p1", "group0")) as place:
            assert await place.leave(dry_run=True) == 0
            assert place.writes() == []
            assert f"would delete MutatingWebhookConfiguration {NAME}" in place.said
            assert "would release 1 pods that are held" in place.said
            assert f"  {NAMESPACE}/p1" in place.said

    run(story())


def test_a_foreign_gate_stays_and_the_deletion_cost_of_held_pods_goes() -> None:
    async def story() -> None:
        both = held(
            "p1",
            "group0",
            gates=("other/gate", GATE),
            annotations={DELETION_COST: HELD_COST, "a": "b"},
        )
        async with installed(both) as place:
            await place.leave()
            (pod,) = place.cluster.peek(PODS, NAMESPACE)
            assert pod["spec"]["schedulingGates"] == [{"name": "other/gate"}]
            assert pod["metadata"]["annotations"] == {"a": "b"}

    run(story())


def test_a_second_time_it_finds_nothing_to_do() -> None:
    async def story() -> None:
        async with installed(held("p1", "group0")) as place:
            await place.leave()
            before = place.writes()
            assert await place.leave() == 0
            assert place.writes() == before

    run(story())


@pytest.mark.parametrize("writes", range(5))
def test_broken_off_after_any_write_and_run_again_it_comes_to_the_same_end(writes: int) -> None:
    class Break(Interceptor):
        left = writes

        async def before(self, request: Request) -> None:
            if request.verb in ("patch", "delete"):
                self.left -= 1
                if self.left < 0:
                    raise UnknownOutcomeError("the connection broke")

    async def story() -> None:
        async with installed(running("p0"), held("p1", "group0"), held("p2", "group0")) as place:
            with suppress(KubeError):
                await place.leave(api=place.cluster.client("user", Break()))
            place.cluster.apply([a_pod("later")], NAMESPACE)
            assert await place.leave() == 0
            assert place.gated() == set()

    run(story())


def test_what_is_left_of_an_install_whose_namespace_has_gone_is_released() -> None:
    async def story() -> None:
        place = Place()
        place.cluster.apply([held("p1", "group0")], NAMESPACE)
        assert await place.leave() == 0
        assert place.gated() == set()

    run(story())


def test_the_budgets_that_refuse_evictions_go_and_those_of_others_stay() -> None:
    async def story() -> None:
        async with installed() as place:
            place.cluster.apply(
                [manifest(DISRUPTION_BUDGETS, name, NAMESPACE) for name in (BUDGET, "theirs")]
            )
            assert await place.leave() == 0
            assert f"deleted PodDisruptionBudget {NAMESPACE}/{BUDGET}" in place.said
            assert [one["metadata"]["name"] for one in place.cluster.peek(DISRUPTION_BUDGETS)] == [
                "theirs"
            ]

    run(story())


def test_only_its_own_namespaces_and_objects_are_touched_beside_another_install() -> None:
    async def story() -> None:
        place = Place()
        place.install(governs=(NAMESPACE,))
        place.install("team-a-scaler", f"{NAME}-team-a", ("team-a",))
        place.cluster.apply([held("p1", "group0")], NAMESPACE)
        theirs = held("p1", "group0")
        theirs["metadata"]["namespace"] = "team-a"
        place.cluster.apply([theirs])
        process = asyncio.create_task(place.ends_when_scaled())
        assert await place.leave() == 0
        await process
        assert place.gated() == {"team-a/p1"}
        assert [one["metadata"]["name"] for one in place.cluster.peek(MUTATING_WEBHOOKS)] == [
            f"{NAME}-team-a"
        ]
        assert not [line for line in place.said if "delete crd" in line]

    run(story())


def test_while_another_install_gates_the_same_namespace_the_scaler_goes_on() -> None:
    async def story() -> None:
        async with installed(held("p1", "group0")) as place:
            place.install("team-a-scaler", f"{NAME}-team-a", ("team-a",))
            with pytest.raises(StuckError) as caught:
                await place.leave()
            assert f"kubectl label namespace {NAMESPACE} mind-cluster/scaling-" in str(caught.value)
            assert f"MutatingWebhookConfiguration {NAME}-team-a" in str(caught.value)
            assert (await place.cluster.get(DEPLOYMENTS, HOME, NAME))["spec"]["replicas"] == 2

    run(story())


def test_a_tenants_lease_keeps_no_namespace_from_being_released() -> None:
    async def story() -> None:
        async with installed(held("p1", "group0")) as place:
            metadata = {"name": "fake", "namespace": "tenant", **marks((NAMESPACE,))}
            place.cluster.apply(
                [{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}]
            )
            assert await place.leave() == 0
            assert place.gated() == set()

    run(story())


def test_a_wrong_namespace_of_the_install_changes_nothing() -> None:
    async def story() -> None:
        async with installed(held("p1", "group0")) as place:
            with pytest.raises(InstallNotFoundError, match=HOME):
                await place.leave(namespace="mindie")
            assert place.writes() == []

    run(story())


def test_who_may_not_read_leases_changes_nothing() -> None:
    class Poor(Interceptor):
        async def before(self, request: Request) -> None:
            if request.resource == LEASES:
                raise ForbiddenError(403, "Forbidden", "no")

    async def story() -> None:
        async with installed(held("p1", "group0")) as place:
            with pytest.raises(InstallNotFoundError, match="you may not read Leases"):
                await place.leave(api=place.cluster.client("user", Poor()))
            assert place.writes() == []

    run(story())


def test_the_guard_of_the_gate_asks_for_a_right_of_its_own() -> None:
    async def story() -> None:
        async with installed(held("p1", "group0")) as place:
            api = answering(place, ("release", "gates"))
            assert await place.leave(api=api, dry_run=True) == 0
            guard = {
                "spec": {
                    "validations": [
                        {"expression": "authorizer.group('mind-cluster').resource('gates')"}
                    ]
                }
            }

            async def listing(
                resource: Resource, namespace: str | None = None, **query: Any
            ) -> Any:
                if resource.plural == "validatingadmissionpolicies":
                    return Page([guard], "1")
                return await place.cluster.client("user").list(resource, namespace, **query)

            api.list = listing
            assert await place.leave(api=api) == 1
            assert "you may not release gates.mind-cluster in all namespaces" in place.said
            assert place.writes() == []

    run(story())


def test_while_a_process_still_holds_the_lease_nothing_is_released() -> None:
    async def story() -> None:
        async with installed(held("p1", "group0"), stubborn=True) as place:
            with pytest.raises(StuckError, match="held by leader"):
                await place.leave()
            assert place.gated() == {f"{NAMESPACE}/p1"}

    run(story())


def test_a_lease_that_nobody_renews_is_in_nobodys_way() -> None:
    async def story() -> None:
        place = Place()
        place.install()
        place.cluster.apply([held("p1", "group0")], NAMESPACE)
        await place.cluster.delete(PODS, HOME, "scaler-0", grace_period_seconds=0)
        assert await place.leave() == 0
        assert place.gated() == set()

    run(story())


def answering(place: Place, *lacking: tuple[str, str]) -> Any:
    """A client whose API server answers reviews of access: all but `lacking` (verb, resource) is
    allowed."""
    client = place.cluster.client("user")

    class Answering:
        def __getattr__(self, name: str) -> Any:
            return getattr(client, name)

        async def create(self, resource: Resource, namespace: str | None, body: Object) -> Object:
            asked = body["spec"]["resourceAttributes"]
            assert resource.plural == "selfsubjectaccessreviews"
            return {"status": {"allowed": (asked["verb"], asked["resource"]) not in lacking}}

    return Answering()


@pytest.mark.parametrize(
    ("lacking", "words"),
    [
        (("patch", "pods"), "you may not patch pods in all namespaces"),
        (("list", "pods"), "you may not list pods in all namespaces"),
        (("create", "pods"), "you may not create pods in all namespaces"),
        (
            ("delete", "mutatingwebhookconfigurations"),
            f"you may not delete mutatingwebhookconfigurations.admissionregistration.k8s.io {NAME}",
        ),
        (("patch", "deployments"), f"you may not patch deployments.apps {NAME} in {HOME}"),
    ],
)
def test_a_right_that_is_missing_is_named_before_anything_is_changed(
    lacking: tuple[str, str], words: str
) -> None:
    async def story() -> None:
        async with installed(held("p1", "group0")) as place:
            assert await place.leave(api=answering(place, lacking)) == 1
            assert words in place.said
            assert place.said[-1] == "Nothing has been changed."
            assert place.writes() == []

    run(story())


def test_who_only_lists_needs_no_right_to_patch_pods() -> None:
    async def story() -> None:
        async with installed(held("p1", "group0")) as place:
            assert await place.leave(api=answering(place, ("patch", "pods")), release=False) == 0

    run(story())


def test_a_pod_that_may_not_be_released_is_named_with_the_reason() -> None:
    class Guarded(Interceptor):
        async def before(self, request: Request) -> None:
            if request.verb == "patch" and request.name == "p1":
                raise ForbiddenError(403, "Forbidden", "only the scaler takes the gate off")

    async def story() -> None:
        async with installed(held("p1", "group0"), held("p2", "group0")) as place:
            assert await place.leave(api=place.cluster.client("user", Guarded())) == 1
            assert place.gated() == {f"{NAMESPACE}/p1"}
            assert any(line.startswith(f"{NAMESPACE}/p1 is held: 403") for line in place.said)

    run(story())


@pytest.mark.parametrize("resource", TEMPLATES, ids=lambda resource: resource.kind)
def test_a_template_with_the_gate_is_named_for_its_next_pods_would_be_held(
    resource: Resource,
) -> None:
    async def story() -> None:
        spec = {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {
                    "containers": [{"name": "c", "image": "i"}],
                    "schedulingGates": [{"name": GATE}],
                },
            },
        }
        async with installed() as place:
            if resource.kind == "RoleBasedGroup":  # which nothing simulates
                place.cluster.apply([workload_definition(resource)])
            place.cluster.apply([manifest(resource, "engine", NAMESPACE, spec=spec)])
            assert await place.leave() == 1
            assert (
                f"{resource.kind} {NAMESPACE}/engine sets the gate in its pod template"
                in "\n".join(place.said)
            )

    run(story())


def test_jobs_whose_pods_nobody_makes_now_are_named() -> None:
    async def story() -> None:
        async with installed(job("p0")) as place:
            assert await place.leave() == 0
            assert f"1 AscendJobs have no pods: {NAMESPACE}/p0" in place.said

    run(story())


def test_a_namespace_that_refuses_the_trial_pod_is_named_and_holds_nothing_up() -> None:
    class Quota(Interceptor):
        async def before(self, request: Request) -> None:
            if request.verb == "create" and request.resource == PODS:
                raise ForbiddenError(403, "Forbidden", "exceeded quota")

    async def story() -> None:
        async with installed(held("p1", "group0")) as place:
            assert await place.leave(api=place.cluster.client("user", Quota())) == 0
            assert any(
                f"new pods in {NAMESPACE} get the gate could not be tried" in line
                for line in place.said
            )

    run(story())


def test_what_helm_installed_helm_takes_away() -> None:
    async def story() -> None:
        async with installed() as place:
            notes = {"meta.helm.sh/release-name": "scaler", "meta.helm.sh/release-namespace": HOME}
            patch = {"metadata": {"annotations": notes}}
            await place.cluster.patch(DEPLOYMENTS, HOME, NAME, patch, patch_type=PatchType.MERGE)
            account = {"kind": "ServiceAccount", "name": NAME, "namespace": HOME}
            role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
            for name, annotations in (("of-helm", notes), ("of-people", {})):
                await place.cluster.create(
                    ROLE_BINDINGS,
                    "chat",
                    manifest(
                        ROLE_BINDINGS,
                        name,
                        "chat",
                        annotations=annotations,
                        subjects=[account],
                        roleRef=role,
                    ),
                )
            await place.leave()
            assert f"  helm uninstall scaler -n {HOME}" in place.said
            assert not [line for line in place.said if "delete namespace" in line]
            commands = [line.strip() for line in place.said if "rolebinding" in line]
            assert "kubectl -n chat delete rolebinding of-people --ignore-not-found" in commands
            assert not [line for line in commands if "of-helm" in line]

    run(story())


def test_whoever_may_read_its_metrics_may_not_when_it_has_gone() -> None:
    async def story() -> None:
        async with installed() as place:
            for name in ("metrics", "metrics-reader"):
                whole = f"mind-cluster-scaler-{name}"
                await place.cluster.create(CLUSTER_ROLES, None, manifest(CLUSTER_ROLES, whole))
            role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
            role["name"] = "mind-cluster-scaler-metrics-reader"
            prometheus = {"kind": "ServiceAccount", "name": "prometheus", "namespace": "monitoring"}
            await place.cluster.create(
                CLUSTER_ROLE_BINDINGS,
                None,
                manifest(
                    CLUSTER_ROLE_BINDINGS, "of-prometheus", subjects=[prometheus], roleRef=role
                ),
            )
            await place.leave()
            for command in (
                "clusterrolebinding of-prometheus",
                "clusterrole mind-cluster-scaler-metrics mind-cluster-scaler-metrics-reader",
            ):
                assert f"  kubectl delete {command} --ignore-not-found" in place.said

    run(story())


def test_every_role_and_guard_of_the_manifests_is_looked_for() -> None:
    there: dict[str, set[str]] = {"ClusterRole": set(), "ValidatingAdmissionPolicy": set()}
    for path in (ROOT / "manifests").glob("*/*.yaml"):
        for obj in yaml.safe_load_all(path.read_text()):
            if obj and obj.get("kind") in there:
                there[obj["kind"]].add(obj["metadata"]["name"].removeprefix(f"{NAME}-"))
    assert there["ClusterRole"] <= {*remains._ROLES}
    assert there["ValidatingAdmissionPolicy"] == {*remains._GUARDS}


def test_what_is_printed_may_be_run_twice() -> None:
    async def story() -> None:
        async with installed() as place:
            await place.leave()
            commands = []
            for line in place.said:
                if line.startswith("  kubectl") and " delete " in line:
                    commands.append(line)
            assert commands
            assert [line for line in commands if not line.endswith(" --ignore-not-found")] == []

    run(story())


def test_without_a_choice_between_releasing_and_listing_it_is_a_usage_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["uninstall"]) == 2
    assert "--release" in capsys.readouterr().err


def test_every_wait_has_an_end() -> None:
    assert max(steps.UNGATED, steps.STOPPED, steps.ROUNDS * steps.POLL) <= 120
