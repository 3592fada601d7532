"""`scaler deploy` on the simulated API server: what is written, what is not, what is undone, and
what is said."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

import msgspec
import pytest

from scaler.cli import main
from scaler.clock import Clock
from scaler.kube.api import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    ELASTIC_SERVICES,
    LEASES,
    NAMESPACES,
    PODS,
    SERVICES,
    Apply,
    Object,
    PatchType,
    Resource,
)
from scaler.kube.errors import NotSentError, UnknownOutcomeError, status_error
from scaler.names import GATE, RULE_KEY, RULE_LABEL
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from scaler.timestamps import rfc3339
from scaler.tools.common.access import Access
from scaler.tools.common.short_file.service import Service, read_service
from scaler.tools.deploy import command as deploy
from scaler.tools.deploy import objects
from scaler.tools.deploy.inventory import Found, not_there
from scaler.tools.deploy.standing import Part, Standing, behind_of, standing
from scaler.workloads.inferenceservice import INFERENCE_SERVICES
from tests.commands.test_cluster import Forbidden, lease
from tests.jobs import manifest
from tests.rig import START
from tests.sim.manifests import deployment, template

SPACE = "llm"
RULE = manifest(CONFIG_MAPS, "chat-rule", SPACE, data={RULE_KEY: "{}"})


def inference(replicas: int = 1, **labels: str) -> Object:
    engine = {
        "minReplicas": replicas,
        "runner": {"image": "sglang:1"},
        **({"labels": labels} if labels else {}),
    }
    return manifest(INFERENCE_SERVICES, "chat", SPACE, spec={"engine": engine})


def store(image: str = "store:1") -> Object:
    made = deployment("chat-store", 1)
    made["metadata"]["namespace"] = SPACE
    made["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return made


def entrance(port: int = 9000) -> Object:
    return manifest(
        SERVICES,
        "chat-store",
        SPACE,
        spec={"selector": {"app": "chat-store"}, "ports": [{"port": port}]},
    )


def service(*made: Object, name: str = "chat") -> Service:
    return Service(name, SPACE, "ome", made or (RULE, inference(), store(), entrance()))


class Refuses(Interceptor):
    """The API server lets the dry run of this kind pass, and refuses to do it."""

    def __init__(
        self, resource: Resource, error: Exception | None = None, *, late: bool = False
    ) -> None:
        self.resource = resource
        self.error = error or status_error(
            403, "Forbidden", 'admission webhook "no" denied the request: not today'
        )
        self.late = late
        self.seen = 0

    async def before(self, request: Request) -> None:
        if (request.verb, request.resource) == ("patch", self.resource):
            self.seen += 1
            if self.seen == 2 and not self.late:
                raise self.error

    async def after(self, request: Request) -> None:
        if (
            (request.verb, request.resource) == ("patch", self.resource)
            and self.seen == 2
            and self.late
        ):
            raise self.error


class Town:
    """A cluster, and somebody who deploys to it."""

    def __init__(self) -> None:
        self.cluster = SimCluster(Clock(START), strict_namespaces=True)

    async def _run(self, act: Any, interceptor: Interceptor | None, **given: Any) -> int:
        usual = {
            "name": "chat",
            "namespace": SPACE,
            "no_wait": True,
            "timeout": 30.0,
            "format": "text",
        }
        usual |= {"dry_run": False, "force_conflicts": False}
        access = Access(self.cluster.client("person", interceptor), self.cluster.server.clock, ())
        return int(await deploy.exit_code_of(act(access, argparse.Namespace(**{**usual, **given}))))

    async def apply(
        self, what: Service | None = None, interceptor: Interceptor | None = None, **given: Any
    ) -> int:
        wanted = what or service()
        return await self._run(
            lambda access, args: deploy._apply(access, args, wanted), interceptor, **given
        )

    async def status(self, interceptor: Interceptor | None = None, **given: Any) -> int:
        return await self._run(deploy._status, interceptor, **given)

    async def delete(self, interceptor: Interceptor | None = None, **given: Any) -> int:
        return await self._run(deploy._delete, interceptor, **{"no_wait": False, **given})

    def there(self) -> list[str]:
        """Everything in the namespace that a service is made of."""
        kinds = (CONFIG_MAPS, INFERENCE_SERVICES, DEPLOYMENTS, SERVICES)
        return [
            f"{kind.kind} {obj['metadata']['name']}"
            for kind in kinds
            for obj in self.cluster.peek(kind, SPACE)
        ]

    def state(self) -> list[Object]:
        return [
            objects.shown(obj)
            for kind in (INFERENCE_SERVICES, DEPLOYMENTS, SERVICES)
            for obj in self._of(kind)
        ]

    def _of(self, kind: Resource) -> list[Object]:
        return self.cluster.peek(kind, SPACE)

    def namespaces(self) -> set[str]:
        return {obj["metadata"]["name"] for obj in self.cluster.peek(NAMESPACES)}

    def written(self) -> list[str]:
        """Verb and kind of what this person wrote with success."""
        found = [
            f"{line.verb} {line.resource.kind}"
            for line in self.cluster.writes("person")
            if not line.error
        ]
        self.cluster.audit.clear()
        return found

    async def pod(
        self, name: str, labels: dict[str, str], ready: bool = False, **status: Any
    ) -> None:
        gates = {"schedulingGates": [{"name": GATE}]} if status.pop("gated", False) else {}
        made = manifest(PODS, name, SPACE, labels=labels, spec={**template()["spec"], **gates})
        await self.cluster.create(PODS, SPACE, made)
        if ready:
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await self.cluster.patch(
            PODS, SPACE, name, {"status": status}, patch_type=PatchType.MERGE, subresource="status"
        )

    async def all_ready(self) -> None:
        await self.pod("engine-0", {"ome.io/inferenceservice": "chat"}, ready=True)
        await self.pod("store-0", {"app": "chat-store"}, ready=True)


def play(story: Any) -> None:
    async def whole() -> None:
        await story(Town())

    run(whole())


ALL = [
    "ConfigMap chat-rule",
    "InferenceService chat",
    "Deployment chat-store",
    "Service chat-store",
]


def test_a_first_apply_makes_the_namespace_and_everything_with_labels_that_say_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def story(town: Town) -> None:
        assert await town.apply() == 0
        assert town.there() == ALL
        for obj in town.state():
            assert obj["metadata"]["labels"].items() >= objects.labels_of("chat", SPACE).items()

    play(story)
    assert capsys.readouterr().out.splitlines() == [
        f"Namespace {SPACE}: created",
        *(f"{one}: created" for one in ALL),
    ]


def test_a_second_apply_of_the_same_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    async def story(town: Town) -> None:
        await town.apply()
        before = town.cluster.server.store.version
        _ = capsys.readouterr()
        assert await town.apply() == 0
        assert town.cluster.server.store.version == before

    play(story)
    assert capsys.readouterr().out.splitlines() == [f"{one}: unchanged" for one in ALL]


def test_a_change_is_shown_as_what_differs_and_only_that_is_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def story(town: Town) -> None:
        await town.apply()
        before = {obj["metadata"]["name"]: obj for obj in town._of(DEPLOYMENTS)}
        capsys.readouterr()
        assert await town.apply(service(RULE, inference(3), store(), entrance())) == 0
        assert town._of(INFERENCE_SERVICES)[0]["spec"]["engine"]["minReplicas"] == 3
        assert {obj["metadata"]["name"]: obj for obj in town._of(DEPLOYMENTS)} == before

    play(story)
    shown = capsys.readouterr().out
    assert "-    minReplicas: 1" in shown
    assert "+    minReplicas: 3" in shown
    assert "InferenceService chat: changed" in shown
    assert "Deployment chat-store: unchanged" in shown


def test_a_dry_run_shows_every_object_and_writes_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def story(town: Town) -> None:
        before = town.cluster.server.store.version
        assert await town.apply(dry_run=True) == 0
        assert town.cluster.server.store.version == before
        await town.apply()
        before = town.cluster.server.store.version
        assert await town.apply(service(RULE, inference(2), store()), dry_run=True) == 0
        assert town.cluster.server.store.version == before

    play(story)
    shown = capsys.readouterr().out
    assert f"Namespace {SPACE}: would be created" in shown
    assert "  kind: InferenceService" in shown
    assert "+    minReplicas: 2" in shown
    assert "Service chat-store: would be deleted, the file has it no more" in shown


def test_what_the_file_has_no_more_is_deleted_and_nothing_of_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def story(town: Town) -> None:
        await town.apply()
        other = store()
        other["metadata"]["name"] = "other-store"
        await town.apply(service(other, name="other"))
        owned = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": "of-ome",
                "namespace": SPACE,
                "labels": {**objects.labels_of("chat", SPACE)},
                "ownerReferences": [
                    {
                        "apiVersion": "ome.io/v1beta1",
                        "kind": "InferenceService",
                        "name": "chat",
                        "uid": "1",
                    }
                ],
            },
            "spec": {"ports": [{"port": 1}]},
        }
        await town.cluster.create(SERVICES, SPACE, owned)
        assert await town.apply(service(RULE, inference(), store())) == 0
        assert town.there() == [*ALL[:3], "Deployment other-store", "Service of-ome"]

    play(story)
    assert "Service chat-store: deleted, the file has it no more" in capsys.readouterr().out


def test_a_name_that_is_somebody_elses_is_refused_before_anything_is_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def story(town: Town) -> None:
        await town.cluster.create(NAMESPACES, None, {"metadata": {"name": SPACE}})
        theirs = store("theirs:1")
        theirs["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "Helm"}
        await town.cluster.create(DEPLOYMENTS, SPACE, theirs)
        before = town.cluster.server.store.version
        assert await town.apply() == 1
        assert town.cluster.server.store.version == before

    play(story)
    said = capsys.readouterr().err
    assert (
        "Deployment chat-store in namespace llm is there already and is not this service's: managed"
        " by Helm" in said
    )


def test_a_second_service_with_the_same_rule_is_refused_with_whose_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def story(town: Town) -> None:
        await town.apply()
        assert await town.apply(service(RULE, name="other")) == 1
        assert town.there() == ALL

    play(story)
    assert "made by `scaler deploy` for service llm/chat" in capsys.readouterr().err


def test_a_field_of_another_manager_is_refused_with_who_owns_it_until_it_is_taken(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def story(town: Town) -> None:
        await town.apply()
        hand = {**inference(5), "spec": {"engine": {"minReplicas": 5}}}
        await town.cluster.patch(
            INFERENCE_SERVICES,
            SPACE,
            "chat",
            hand,
            patch_type=PatchType.APPLY,
            apply=Apply("somebody", force=True),
        )
        before = town.cluster.server.store.version
        assert await town.apply(service(RULE, inference(2), store("store:2"), entrance())) == 1
        assert town.cluster.server.store.version == before
        assert (
            await town.apply(
                service(RULE, inference(2), store("store:2"), entrance()), force_conflicts=True
            )
            == 0
        )
        assert town._of(INFERENCE_SERVICES)[0]["spec"]["engine"]["minReplicas"] == 2

    play(story)
    said = capsys.readouterr().err
    assert "  .spec.engine.minReplicas: somebody" in said
    assert "--force-conflicts" in said


def test_a_kind_that_is_not_installed_is_named_with_what_to_install_and_nothing_is_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def story(town: Town) -> None:
        await town.cluster.delete(CUSTOM_RESOURCE_DEFINITIONS, None, INFERENCE_SERVICES.full_name)
        assert await town.apply() == 1
        assert town.written() == []
        assert SPACE not in town.namespaces()

    play(story)
    assert (
        "InferenceService (ome.io/v1beta1) is not installed in this cluster; install OME"
        in capsys.readouterr().err
    )


def test_what_a_first_apply_made_before_a_refusal_is_deleted_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def story(town: Town) -> None:
        assert await town.apply(interceptor=Refuses(SERVICES)) == 1
        assert town.there() == []
        assert SPACE not in town.namespaces()

    play(story)
    said = capsys.readouterr()
    assert "InferenceService chat: deleted again" in said.out
    assert "not today" in said.err
    assert "all is as it was before" in said.err


def test_what_a_change_changed_before_a_refusal_is_put_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def story(town: Town) -> None:
        await town.apply()
        before = town.state()
        more = manifest(CONFIG_MAPS, "chat-more", SPACE, data={"a": "1"})
        changed = service(RULE, more, inference(4, fresh="yes"), store(), entrance(9001))
        assert await town.apply(changed, interceptor=Refuses(SERVICES)) == 1
        assert town.state() == before
        assert town.there() == ALL

    play(story)
    said = capsys.readouterr()
    assert "InferenceService chat: put back as it was" in said.out
    assert "all is as it was before" in said.err


def test_a_write_whose_answer_is_lost_is_undone_too() -> None:
    async def story(town: Town) -> None:
        lost = Refuses(SERVICES, UnknownOutcomeError("no answer in time"), late=True)
        assert await town.apply(interceptor=lost) == 1
        assert town.there() == []

    play(story)


def test_whoever_interrupts_an_apply_finds_nothing_of_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Slow(Refuses):
        async def before(self, request: Request) -> None:
            with_us = (request.verb, request.resource) == ("patch", SERVICES)
            self.seen += with_us
            if with_us and self.seen == 2:
                await asyncio.sleep(3600)

    async def story(town: Town) -> None:
        doing = asyncio.create_task(town.apply(interceptor=Slow(SERVICES)))
        await asyncio.sleep(5)
        assert "Deployment chat-store" in town.there()
        doing.cancel()
        await asyncio.wait([doing])
        assert doing.cancelled()
        assert town.there() == []
        assert SPACE not in town.namespaces()

    play(story)
    assert "interrupted" in capsys.readouterr().out


def test_a_right_that_is_lacking_is_named_and_nothing_is_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = (
        'deployments.apps "chat-store" is forbidden: User "eve" cannot patch resource "deployments"'
    )

    class NoRight(Interceptor):
        async def before(self, request: Request) -> None:
            if (request.verb, request.resource) == ("patch", DEPLOYMENTS):
                raise status_error(403, "Forbidden", words)

    async def story(town: Town) -> None:
        assert await town.apply(interceptor=NoRight()) == 1
        assert town.there() == []
        assert SPACE not in town.namespaces()

    play(story)
    assert (
        f"Deployment chat-store: you have no right to do that: {words}" in capsys.readouterr().err
    )


def test_a_cluster_that_does_not_answer_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    class Away(Interceptor):
        async def before(self, request: Request) -> None:
            raise NotSentError("connection refused")

    async def story(town: Town) -> None:
        assert await town.apply(interceptor=Away()) == 1

    play(story)
    assert (
        capsys.readouterr().err
        == "scaler deploy: the API server cannot be reached: connection refused\n"
    )


def test_an_object_that_is_being_deleted_is_waited_for_by_the_user(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def story(town: Town) -> None:
        await town.apply()
        await _finalizer(town, ["example.com/hold"])
        await town.cluster.delete(INFERENCE_SERVICES, SPACE, "chat")
        assert await town.apply() == 1

    play(story)
    assert (
        "InferenceService chat is being deleted: wait until it is gone" in capsys.readouterr().err
    )


async def _finalizer(town: Town, finalizers: list[str] | None) -> None:
    patch = {"metadata": {"finalizers": finalizers}}
    await town.cluster.patch(INFERENCE_SERVICES, SPACE, "chat", patch, patch_type=PatchType.MERGE)


def test_delete_takes_all_that_was_made_and_leaves_the_rest_and_the_namespace(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def story(town: Town) -> None:
        await town.apply()
        await town.cluster.create(CONFIG_MAPS, SPACE, manifest(CONFIG_MAPS, "theirs", SPACE))
        assert await town.delete() == 0
        assert town.there() == ["ConfigMap theirs"]
        assert SPACE in town.namespaces()
        assert await town.delete() == 1

    play(story)
    said = capsys.readouterr()
    assert [line for line in said.out.splitlines() if line.endswith(": deleted")] == [
        f"{one}: deleted" for one in (ALL[1], ALL[2], ALL[3], ALL[0])
    ]
    assert f"Namespace {SPACE} stays" in said.out
    assert (
        f"there is nothing in namespace {SPACE} that `scaler deploy apply` made for chat"
        in said.err
    )


def test_what_is_left_after_a_delete_is_said_with_why(capsys: pytest.CaptureFixture[str]) -> None:
    async def story(town: Town) -> None:
        await town.apply()
        await _finalizer(town, ["example.com/hold"])
        await town.pod("engine-0", {"ome.io/inferenceservice": "chat"}, ready=True)
        assert await town.delete() == 1

    play(story)
    said = capsys.readouterr().err
    assert (
        f"InferenceService chat is left after 30 s: being deleted since {rfc3339(START)[:10]}"
        in said
    )
    assert "waits for example.com/hold" in said
    assert "Pod engine-0 is left after 30 s: its owner has not deleted it yet" in said


def test_a_service_that_is_somewhere_else_is_said_to_be_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def story(town: Town) -> None:
        await town.apply()
        assert await town.status(namespace="default") == 1

    play(story)
    assert "there is in llm (-n)" in capsys.readouterr().err


def test_kinds_that_may_not_be_listed_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    async def story(town: Town) -> None:
        await town.apply()
        assert await town.delete(Forbidden("services")) == 0
        assert town.there() == ["Service chat-store"]

    play(story)
    assert "you may not list services" in capsys.readouterr().out


def test_apply_waits_until_every_pod_is_ready_and_says_what_it_waits_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def story(town: Town) -> None:
        doing = asyncio.create_task(town.apply(service(inference(), store()), no_wait=False))
        await asyncio.sleep(5)
        unschedulable = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/3 nodes fit",
        }
        await town.pod("engine-0", {"ome.io/inferenceservice": "chat"}, conditions=[unschedulable])
        pulling = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
        await town.pod(
            "store-0",
            {"app": "chat-store"},
            containerStatuses=[{"name": "server", "state": pulling}],
        )
        await asyncio.sleep(5)
        for name in ("engine-0", "store-0"):
            await town.cluster.delete(PODS, SPACE, name, grace_period_seconds=0)
        await town.all_ready()
        assert await doing == 0

    play(story)
    shown = capsys.readouterr().out
    assert (
        "waits: InferenceService chat: 0 of 1 pods ready; there are no pods yet; OME makes them"
        in shown
    )
    assert "1 pod: Unschedulable: 0/3 nodes fit" in shown
    assert "1 pod: ImagePullBackOff: no such image" in shown
    assert shown.splitlines()[-1] == "chat in namespace llm: available"


def test_apply_ends_at_its_deadline_with_what_is_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def story(town: Town) -> None:
        assert await town.apply(no_wait=False) == 1
        assert town.there() == ALL

    play(story)
    said = capsys.readouterr().err
    assert "chat is not available after 30 s. It stays" in said
    assert "Deployment chat-store: 0 of 1 pods ready" in said


def elastic(available: str, **status: Any) -> Object:
    why = {"reason": "Smaller", "message": "", "lastTransitionTime": rfc3339(START)}
    conditions = [{"type": "Available", "status": available, **why}]
    made = manifest(
        ELASTIC_SERVICES, "chat-rule-chat", SPACE, spec={"rule": "chat-rule", "jobID": "chat"}
    )
    ratios = [{"group0": 2, "group1": 1}, {"group0": 1, "group1": 1}]
    return {
        **made,
        "status": {
            "conditions": conditions,
            "ratios": ratios,
            "running": "1+1",
            "target": "1+1",
            **status,
        },
    }


async def says(town: Town, made: Object) -> None:
    """The scaler writes an ElasticService."""
    await town.cluster.create(ELASTIC_SERVICES, SPACE, made)
    await town.cluster.patch(
        ELASTIC_SERVICES,
        SPACE,
        "chat-rule-chat",
        {"status": made["status"]},
        patch_type=PatchType.MERGE,
        subresource="status",
    )


@pytest.mark.parametrize(("available", "code"), [("True", 0), ("False", 1)])
def test_an_elastic_service_is_available_when_one_of_its_ratios_runs(
    available: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story(town: Town) -> None:
        await town.apply(service(RULE, inference(2, **{RULE_LABEL: "chat-rule"})))
        made = elastic(
            available, currentRatio={"index": 1, "counts": {}}, message="there is no room for more"
        )
        await says(town, made)
        await town.pod("engine-0", {"ome.io/inferenceservice": "chat"}, ready=True)
        await town.pod("engine-1", {"ome.io/inferenceservice": "chat"}, gated=True)
        await town.cluster.create(LEASES, "default", lease("mind-cluster-scaler", "default"))
        assert await town.status() == code

    play(story)
    shown = capsys.readouterr().out
    assert f"\nchat in namespace llm: {'available' if code == 0 else 'NOT available'}\n" in shown
    assert "2 group0 + 1 group1, then 1 group0 + 1 group1 (runs)" in shown
    assert "there is no room for more" in shown
    assert (
        f"InferenceService  chat       1/2    {'runs in part' if code == 0 else 'waits'}\n" in shown
    )
    assert f"1 pod: held by gate {GATE}" in shown


def test_what_an_elastic_service_said_before_it_was_made_anew_counts_for_nothing() -> None:
    async def story(town: Town) -> None:
        await town.apply(service(RULE, inference(2, **{RULE_LABEL: "chat-rule"})))
        await says(town, elastic("True"))
        assert await town.status() == 1

    play(story)


def test_status_works_where_no_scaler_is_installed_and_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def story(town: Town) -> None:
        await town.cluster.delete(CUSTOM_RESOURCE_DEFINITIONS, None, ELASTIC_SERVICES.full_name)
        await town.apply()
        assert await town.status() == 1
        await town.all_ready()
        assert await town.status() == 0

    play(story)
    shown = capsys.readouterr().out
    assert "the scaler is not installed here" in shown
    assert "chat in namespace llm: available" in shown


def test_status_in_json_has_every_object(capsys: pytest.CaptureFixture[str]) -> None:
    async def story(town: Town) -> None:
        await town.apply(service(inference(), store()))
        await town.all_ready()
        capsys.readouterr()
        assert await town.status(format="json") == 0

    play(story)
    found = msgspec.json.decode(capsys.readouterr().out)
    assert found["available"] is True
    assert [(part["kind"], part["ready"], part["wanted"]) for part in found["parts"]] == [
        ("InferenceService", 1, 1),
        ("Deployment", 1, 1),
    ]


def test_without_the_right_to_see_pods_objects_speak_for_themselves(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def story(town: Town) -> None:
        await town.apply(service(store()))
        assert await town.status(Forbidden("pods")) == 1
        await town.cluster.patch(
            DEPLOYMENTS,
            SPACE,
            "chat-store",
            {"status": {"readyReplicas": 1}},
            patch_type=PatchType.MERGE,
            subresource="status",
        )
        assert await town.status(Forbidden("pods")) == 0

    play(story)
    assert "you may not read pods" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("apply",), "-c/-f/--config"),
        (("status",), "scaler deploy status NAME -n NAMESPACE"),
        (("delete", "-n", "llm"), "scaler deploy delete NAME -n NAMESPACE"),
        (("delete", "-ns", "llm"), "scaler deploy delete NAME -n NAMESPACE"),
        (("-c", "f"), "write scaler deploy apply -c FILE instead of -c"),
        (("delete", "-n", "a b"), "is no name in Kubernetes"),
        (("apply", "-c", "x", "--timeout", "soon"), "is no length of time"),
        ((), "apply|status|delete"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(
    words: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["deploy", *words]) == 2
    assert complaint in capsys.readouterr().err


def test_a_service_is_named_as_in_all_commands_and_as_in_the_one_command_deployer() -> None:
    parser = argparse.ArgumentParser()
    deploy.add_arguments(parser)
    for words in (
        "chat -n llm -k c",
        "llm/chat -k c",
        "-n chat -ns llm -k c",
        "--app-name chat --namespace llm --kubeconfig c",
    ):
        for action in ("status", "delete"):
            args = parser.parse_args([action, *words.split()])
            assert deploy._chosen(args) == ""
            assert (args.name, args.namespace, args.kubeconfig) == ("chat", "llm", "c")
    for words in ("-c f -k c --dry-run", "--config f --kubeconfig c --dry-run"):
        args = parser.parse_args(["apply", *words.split()])
        assert (args.config, args.kubeconfig, args.dry_run) == ("f", "c", "server")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [(None, "No such file"), ("app_name: Not_A_Name\n", "1:")],
    ids=["no file", "wrong"],
)
def test_a_file_that_describes_nothing_is_said_with_its_name(
    text: str | None, complaint: str, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "chat.yaml"
    if text is not None:
        file.write_text(text)
    assert main(["deploy", "apply", "-c", str(file), "-k", str(tmp_path / "none")]) == (
        2 if text is None else 1
    )
    said = capsys.readouterr().err
    assert f"scaler deploy: {file}:" in said
    assert complaint in said


# what was applied before, out of managedFields as a real API server keeps them

BEFORE: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {
        "name": "d",
        "namespace": "n",
        "labels": {"a": "1", "theirs": "2"},
        "managedFields": [
            {
                "manager": "scaler-deploy",
                "operation": "Apply",
                "fieldsV1": {
                    "f:metadata": {"f:labels": {"f:a": {}}},
                    "f:spec": {
                        "f:template": {
                            "f:spec": {
                                "f:containers": {
                                    'k:{"name":"c"}': {
                                        ".": {},
                                        "f:name": {},
                                        "f:image": {},
                                        "f:args": {},
                                        "f:ports": {
                                            'k:{"containerPort":9000,"protocol":"TCP"}': {
                                                ".": {},
                                                "f:containerPort": {},
                                            }
                                        },
                                    }
                                }
                            }
                        }
                    },
                },
            },
            {"manager": "hand", "operation": "Update", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
        ],
    },
    "spec": {
        "replicas": 5,
        "template": {
            "spec": {
                "dnsPolicy": "ClusterFirst",
                "containers": [
                    {
                        "name": "c",
                        "image": "i:1",
                        "args": ["x", "y"],
                        "imagePullPolicy": "Always",
                        "ports": [
                            {"containerPort": 9000, "protocol": "TCP"},
                            {"containerPort": 1, "protocol": "TCP"},
                        ],
                    },
                    {"name": "sidecar", "image": "theirs"},
                ],
            }
        },
    },
}


def test_what_is_put_back_is_what_was_owned_then_and_what_was_taken_since() -> None:
    now = {
        "metadata": {
            "managedFields": [
                {
                    "manager": "scaler-deploy",
                    "operation": "Apply",
                    "fieldsV1": {"f:spec": {"f:replicas": {}, "f:paused": {}}},
                }
            ]
        }
    }
    container = {
        "name": "c",
        "image": "i:1",
        "args": ["x", "y"],
        "ports": [{"containerPort": 9000}],
    }
    assert objects.as_before(BEFORE, now) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "n", "labels": {"a": "1"}},
        "spec": {"replicas": 5, "template": {"spec": {"containers": [container]}}},
    }


def test_what_nobody_kept_cannot_be_put_back() -> None:
    assert objects.as_before({"metadata": {"name": "d"}}, BEFORE) is None


# what short files become is known here

OME_FILE = """
app_name: chat
app_namespace: llm
ratios: [2P1D, 1P1D]
inference_service:
  model_name: llama
  runtime_name: llama-rt
  engine: {min_replicas: 2, max_replicas: 2, pod_num: 1, image: "sglang:1", npu_num: 8}
  decoder: {min_replicas: 1, max_replicas: 1, pod_num: 2, image: "sglang:1", npu_num: 8}
mf_store: {image: "sglang:1", replicas: 1, container_port: 9000}
"""
AIBRIX_FILE = """
app_name: chat
app_namespace: llm
ratios: [2P1D, 1P1D]
storm_service:
  model_name: qwen
  model_path: /mnt/qwen
  distributed_dp: "true"
  prefill: {replicas: 2, podGroupSize: 1, dp_size: 2, tp_size: 8, npu_num: 8, image: "vllm:1"}
  decode: {replicas: 1, podGroupSize: 2, dp_size: 8, tp_size: 1, npu_num: 8, image: "vllm:1"}
  routing: {replicas: 1, image: "vllm:1"}
"""
MOTOR_FILE = """
platform: mindie-motor
app_name: chat
app_namespace: llm
ratios: [2P1D, 1P1D]
motor_service:
  image: mindie:1
  model_path: /data/qwen
  hardware: 800I_A2
  prefill: {replicas: 2, pod_num: 1}
  decode: {replicas: 1, pod_num: 2}
"""


@pytest.mark.parametrize(
    ("file", "pods"),
    [(OME_FILE, 5), (AIBRIX_FILE, 5), (MOTOR_FILE, 6)],
    ids=["ome", "aibrix", "mindie"],
)
def test_a_short_file_of_every_platform_is_applied_counted_pruned_and_deleted(
    file: str, pods: int, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story(town: Town) -> None:
        made = read_service(file)
        assert await town.apply(made) == 0
        before = town.cluster.server.store.version
        assert await town.apply(made) == 0
        assert town.cluster.server.store.version == before
        found, _ = await standing(
            Access(town.cluster, town.cluster.server.clock, ()), "chat", SPACE
        )
        assert sum(part.wanted or 0 for part in found.parts) == pods
        assert len(found.parts) == len(made.objects)
        assert any(part.elastic for part in found.parts)
        assert await town.delete() == 0
        assert town.there() == []

    play(story)
    assert "unchanged" in capsys.readouterr().out


SEEN = {"observedGeneration": 2}


@pytest.mark.parametrize(
    ("made", "status", "behind"),
    [
        (inference(), {"observedGeneration": 1}, "its controller has not seen the last change yet"),
        (inference(), SEEN, ""),
        (inference(), {}, ""),
        (store(), SEEN | {"updatedReplicas": 0}, "0 of 1 pods are of the new template"),
        (store(), SEEN | {"updatedReplicas": 1}, ""),
    ],
    ids=["not seen", "seen", "says nothing", "not rolled", "rolled"],
)
def test_pods_that_are_ready_since_before_a_change_do_not_make_it_available(
    made: Object, status: Object, behind: str
) -> None:
    made = {**made, "metadata": {**made["metadata"], "generation": 2}, "status": status}
    resource = DEPLOYMENTS if made["kind"] == "Deployment" else INFERENCE_SERVICES
    part = Part(
        made["kind"], "chat", 1, 1, elastic=True, behind=behind_of(Found(resource, made), 1)
    )
    assert part.behind == behind
    found = Standing("chat", SPACE, True, (part,), serves=True)
    assert list(found.waits()) == (
        [f"{part.kind} chat: 1 of 1 pods ready; {behind}"] if behind else []
    )


@pytest.mark.parametrize("lacking", [{}, {"name": None}, {"name": 7}])
def test_a_volume_that_names_no_config_map_needs_none(lacking: Object) -> None:
    async def story(town: Town) -> None:
        assert await not_there(town.cluster, SPACE, [{"volumes": [{"configMap": lacking}]}]) == []

    play(story)


def test_config_maps_that_pods_need_and_nobody_has_made_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def story(town: Town) -> None:
        assert await town.apply(read_service(MOTOR_FILE), dry_run=True) == 0
        said = capsys.readouterr().out
        assert "until somebody makes the ConfigMaps boot-bash-script, chat-server" in said
        assert "rings-config" not in said.split("the ConfigMaps", 1)[1].split("\n", 1)[0]
        await town.apply(read_service(MOTOR_FILE))
        found, _ = await standing(
            Access(town.cluster, town.cluster.server.clock, ()), "chat", SPACE
        )
        assert [note for note in found.notes if "mindie-ms-controller-config" in note]
        town.cluster.apply([manifest(CONFIG_MAPS, "mindie-ms-controller-config", SPACE)])
        found, _ = await standing(
            Access(town.cluster, town.cluster.server.clock, ()), "chat", SPACE
        )
        assert not [note for note in found.notes if "mindie-ms-controller-config" in note]

    play(story)


def test_a_changed_image_of_an_ascend_job_is_said_not_to_reach_pods_that_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def story(town: Town) -> None:
        assert await town.apply(read_service(MOTOR_FILE)) == 0
        assert await town.apply(read_service(MOTOR_FILE)) == 0
        assert "keep what they were made with" not in capsys.readouterr().out
        changed = read_service(MOTOR_FILE.replace("mindie:1", "mindie:2"))
        for dry_run in (True, False):
            assert await town.apply(changed, dry_run=dry_run) == 0
            said = capsys.readouterr().out
            assert (
                "keep what they were made with until they are made anew: chat-coordinator, " in said
            )
            assert (
                "kubectl delete pod -n llm -l training.kubeflow.org/job-name=chat-coordinator"
                in said
            )

    play(story)
