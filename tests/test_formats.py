"""What one release keeps in the cluster, another reads: each format as a literal text
(tests/formats), and later ones.

An annotation is its own version: one that means something else gets another name. Documents say
their format."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from scaler.cli import main
from scaler.clock import Clock
from scaler.decide.world import World
from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    ELASTIC_SERVICES,
    LEASES,
    POD_GROUPS,
    PODS,
    SERVICES,
    Object,
)
from scaler.names import KEEP_LABEL
from scaler.report.elastic_services import valid_status
from scaler.serve import certificates
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from scaler.state.last_valid import ConfigMapName, config_map
from tests.chaos.replica import earlier
from tests.formats import ELECTED, FOLDER, HOME, KEPT, NEXT, ROOMY, RULE, record
from tests.jobs import NAMESPACE, node
from tests.rig import NODE, START, rig

RELEASES = sorted(path.stem for path in FOLDER.glob("*.json"))
LAST_VALID = "mindie.rule-scaler-last-valid"
LATER = START + 300.0
PLAYED = (("ConfigMap", LAST_VALID), ("ElasticService", "rule-mindie"))
DIGEST = hashlib.sha256(RULE.encode()).hexdigest()


def recorded(release: str) -> dict[str, Any]:
    """What `record` wrote of that release."""
    found: dict[str, Any] = json.loads((FOLDER / f"{release}.json").read_text("utf-8"))
    return found


def furnished(cluster: SimCluster, objects: list[Object]) -> None:
    """Put them into it as they were, with their uids."""
    cluster.apply([node(NODE), ROOMY])
    for obj in objects:
        resource = next(kind for kind in KEPT if kind.kind == obj["kind"])
        meta = obj["metadata"]
        cluster.server.store.put(resource, (meta["namespace"], meta["name"]), obj, 0.0)


def unpacked(obj: Object) -> Object:
    """A document as text: how well it is compressed is up to a library."""
    packed = obj.get("binaryData")
    if not packed:
        return obj
    return {
        **obj,
        "binaryData": {
            key: gzip.decompress(base64.b64decode(value)) for key, value in packed.items()
        },
    }


def the(objects: list[Object], kind: str, name: str) -> Object:
    (found,) = [obj for obj in objects if (obj["kind"], obj["metadata"]["name"]) == (kind, name)]
    return found


def after(
    objects: list[Object], seconds: float = 60.0, **settings: Any
) -> tuple[SimCluster, list[str]]:
    """The cluster when a replica of this tree has led for a while, and what it wrote: `verb plural
    name`."""

    async def story() -> tuple[SimCluster, list[str]]:
        cluster = SimCluster(Clock(LATER))
        furnished(cluster, objects)
        async with rig(cluster=cluster, **ELECTED | {"identity": "successor"} | settings) as on:
            await on.settle(seconds)
            lease = on.cluster.peek(LEASES, HOME)[0]
            assert lease["spec"]["holderIdentity"] == "successor"
            return cluster, [each for each in on.writes() if "leases" not in each]

    return run(story())


def test_what_is_kept_is_written_as_in_the_literal_text() -> None:
    found = [unpacked(obj) for obj in record()["objects"]]
    wanted = [unpacked(obj) for obj in recorded(NEXT)["objects"]]
    why = (
        "a format has changed: can the last release read it (docs/howto/upgrade.md)? Then: python"
        " -m tests.formats next"
    )
    assert found == wanted, why


def as_before(obj: Object, before: list[Object]) -> Object:
    """A pod without the label of a minimum, and of the version before, where the release did not
    know of it."""
    (was,) = [each for each in before if each["metadata"]["uid"] == obj["metadata"]["uid"]]
    if (
        KEEP_LABEL in obj["metadata"].get("labels", {})
        and KEEP_LABEL not in was["metadata"]["labels"]
    ):
        metadata = {**obj["metadata"], "resourceVersion": was["metadata"]["resourceVersion"]}
        labels = {key: value for key, value in metadata["labels"].items() if key != KEEP_LABEL}
        return {**obj, "metadata": {**metadata, "labels": labels}}
    return obj


@pytest.mark.parametrize("release", RELEASES)
def test_what_a_release_left_is_taken_over_and_nothing_is_made_deleted_or_told_twice(
    release: str,
) -> None:
    before = recorded(release)["objects"]
    cluster, writes = after(before)
    told = {
        f"patch {what}"
        for rule in ("rule", "gates")
        for what in (
            f"status elasticservices {rule}-mindie",
            f"configmaps mindie.{rule}-scaler-last-valid",
        )
    }
    # only jobs say what was told of them
    news = {each for each in writes if not each.startswith("create events q2.")}
    # of which v0.1.0 knew nothing
    kept = {"create poddisruptionbudgets mind-cluster-scaler-minimum"}
    labelled = [pod for pod in cluster.peek(PODS) if KEEP_LABEL in pod["metadata"]["labels"]]
    kept |= {f"patch pods {pod['metadata']['name']}" for pod in labelled}
    assert len([each for each in writes if each.startswith("patch pods")]) in (0, len(labelled))
    assert news <= (told | kept if release != NEXT else set())
    for resource in (PODS, POD_GROUPS, SERVICES, ASCEND_JOBS):
        assert [as_before(obj, before) for obj in cluster.peek(resource)] == [
            obj for obj in before if obj["kind"] == resource.kind
        ]
    was, says = (
        the(each, "ElasticService", "rule-mindie")["status"]
        for each in (before, cluster.peek(ELASTIC_SERVICES))
    )
    assert says["since"] == was["since"]
    assert [each["since"] for each in says["instances"]] == [
        each["since"] for each in was["instances"]
    ]
    known = {each["type"]: each for each in says["conditions"]}
    assert all(known[each["type"]] == each for each in was["conditions"])


@pytest.mark.parametrize("release", RELEASES)
def test_a_lease_that_a_release_gave_back_is_taken_at_once_and_one_that_it_holds_is_waited_for(
    release: str,
) -> None:
    objects = recorded(release)["objects"]
    after(objects, seconds=1.0)
    lease = the(objects, "Lease", "mind-cluster-scaler")
    del lease["metadata"]["annotations"]["mind-cluster/released-by"]
    lease["spec"] |= {"holderIdentity": "recorder", "leaseDurationSeconds": 8}
    with pytest.raises(AssertionError, match="recorder"):
        after(objects, seconds=7.0)
    after(objects, seconds=12.0)


@pytest.mark.parametrize("release", RELEASES)
def test_a_rule_that_only_a_release_has_seen_stays_in_force(release: str) -> None:
    objects = [
        obj
        for obj in recorded(release)["objects"]
        if (obj["kind"], obj["metadata"]["name"]) != ("ConfigMap", "rule")
    ]
    cluster, _ = after(objects)
    status = the(cluster.peek(ELASTIC_SERVICES), "ElasticService", "rule-mindie")["status"]
    assert (status["running"], status["target"], status["rule"]["inForce"]) == (
        "2+1",
        "2+1",
        DIGEST,
    )


@pytest.mark.parametrize("release", RELEASES)
def test_restarts_that_a_release_counted_are_counted_on(release: str) -> None:
    objects = recorded(release)["objects"]
    lost = [obj for obj in objects if not obj["metadata"]["name"].startswith("p1-master")]
    cluster, _ = after(lost)
    (pod,) = [pod for pod in cluster.peek(PODS) if pod["metadata"]["name"] == "p1-master-0"]
    assert pod["metadata"]["labels"]["version"] == "2"


@pytest.mark.parametrize("release", RELEASES)
def test_a_world_that_a_release_recorded_is_explained(
    release: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "world.json"
    file.write_text(json.dumps(recorded(release)["world"]))
    assert main(["explain", "--world", str(file)]) == 0
    assert "p1" in capsys.readouterr().out


def test_the_chaos_tests_write_what_the_release_before_wrote() -> None:
    for kind, name in PLAYED:
        now = the(recorded(NEXT)["objects"], kind, name)
        resource = CONFIG_MAPS if kind == "ConfigMap" else ELASTIC_SERVICES
        found = unpacked(earlier(resource, now))
        was = unpacked(the(recorded("v0.1.0")["objects"], kind, name))
        for key in {"data", "binaryData", "status"} & was.keys():
            assert found[key] == was[key]


# Of a later release


def later_rule() -> list[Object]:
    objects: list[Object] = recorded(NEXT)["objects"]
    kept = the(objects, "ConfigMap", LAST_VALID)
    kept["data"] |= {"format": "2", "ratios.json": "[]"}
    return objects


@pytest.mark.parametrize("document", ["the same", "another"])
def test_the_last_valid_rule_of_a_later_release_is_not_read_which_is_said_once_and_stays(
    document: str,
) -> None:
    objects = [
        obj
        for obj in later_rule()
        if (obj["kind"], obj["metadata"]["name"]) != ("ConfigMap", "rule")
    ]
    kept = the(objects, "ConfigMap", LAST_VALID)
    if document == "another":
        kept["binaryData"] = {"rule.cbor": "AAAA"}
    with capture_logs() as lines:
        cluster, writes = after(objects, seconds=1300.0)
    (line,) = [
        line for line in lines if line["event"] == "the last valid rule is of a later release"
    ]
    assert (line["namespace"], line["rule"], line["format"], line["log_level"]) == (
        NAMESPACE,
        "rule",
        "2",
        "warning",
    )
    assert the(cluster.peek(CONFIG_MAPS), "ConfigMap", LAST_VALID) == kept
    assert not [each for each in writes if "pods" in each or each.startswith("delete")]


def test_a_valid_rule_takes_its_place() -> None:
    cluster, _ = after(later_rule())
    data = the(cluster.peek(CONFIG_MAPS), "ConfigMap", LAST_VALID)["data"]
    assert (data["format"], data["sha256"]) == ("1", DIGEST)


def test_what_else_a_later_release_keeps_in_the_own_namespace_stays() -> None:
    place = ConfigMapName(HOME, "mindie.rule-scaler-history")
    later = config_map(place, ConfigMapName(NAMESPACE, "rule"), {"data": {"history.json": "[]"}})
    later["metadata"] |= {"uid": "later", "resourceVersion": "7"}
    cluster, _ = after([*recorded(NEXT)["objects"], later])
    assert the(cluster.peek(CONFIG_MAPS), "ConfigMap", place.name) == later


def test_what_a_later_release_notes_on_the_lease_and_on_a_job_stays() -> None:
    objects = recorded(NEXT)["objects"]
    for kind, name in (("Lease", "mind-cluster-scaler"), ("AscendJob", "p0")):
        the(objects, kind, name)["metadata"]["annotations"]["mind-cluster/later"] = "2"
    cluster, _ = after(objects)
    for resource in (LEASES, ASCEND_JOBS):
        noted = [
            obj
            for obj in cluster.peek(resource)
            if obj["metadata"]["annotations"].get("mind-cluster/later") == "2"
        ]
        assert len(noted) == 1


def test_times_are_read_out_of_a_status_that_says_more_not_out_of_one_in_other_words() -> None:
    status = the(recorded(NEXT)["objects"], "ElasticService", "rule-mindie")["status"]
    more = status | {
        "later": {"a": 1},
        "instances": [each | {"later": 1} for each in status["instances"]],
    }
    assert valid_status(more) == more
    assert valid_status(status | {"running": [2, 1]}) == {}


@pytest.mark.parametrize("change", [{}, {"now": "2026-11-22T00:00:00Z"}])
def test_a_world_of_a_later_format_is_refused_in_these_words(
    change: Object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "world.json"
    file.write_text(json.dumps(recorded(NEXT)["world"] | {"format": 9} | change))
    assert main(["explain", "--world", str(file)]) == 1
    assert (
        f"format 9; this version reads format {World.__struct_defaults__[-1]}"
        in capsys.readouterr().err
    )


def test_the_certificate_of_the_webhook_is_kept_as_tls_and_more_in_it_does_no_harm() -> None:
    made = certificates.advance(None, "a.svc", START)
    assert made is not None
    data = certificates.write(made)
    assert data.keys() == {"ca.crt", "tls.crt", "tls.key"}
    assert certificates.read({**data, "later": b"2"}) == made
