"""Several installs in one real cluster: side by side over other namespaces, and never two over the
same."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from scaler.kube.api import CONFIG_MAPS, LEASES, PODS
from scaler.sim.apiserver.crds import definitions
from tests.control_plane.plane import ControlPlane
from tests.control_plane.scaler_process import LEASE, NAMESPACE, ScalerProcess, install, scaler
from tests.control_plane.stage import until
from tests.jobs import job, rule_config_map

pytestmark = [
    pytest.mark.plane_options(crds=[*definitions()]),
    pytest.mark.long("several scalers in real time"),
]

_MANIFESTS = Path(__file__).parents[2] / "manifests"


def _second(plane: ControlPlane, folder: Path, team: str) -> tuple[Path, tuple[str, ...]]:
    """Apply manifests/second-install under this name; the kubeconfig of its account, and its
    flags."""
    shutil.copytree(_MANIFESTS, folder / team)
    for path in (folder / team / "second-install").rglob("kustomization.yaml"):
        more = "  - ../../gate-guard\n  - ../../admission-webhook\n  - ../../create"
        path.write_text(path.read_text().replace("team-a", team).replace("  - ../../create", more))
    plane.kubectl("create", "namespace", team)
    plane.kubectl("apply", "-k", str(folder / team / "second-install"))
    account = f"mind-cluster-scaler-{team}"
    home = f"{team}-scaler"
    plane.kubectl("scale", "deployment", account, "--replicas=0", "--namespace", home)
    flags = ("--lease-namespace", home, "--namespaces", team, "--install", account)
    return plane.grant(home, account), flags


async def test_the_second_install_without_the_label_is_refused_one_with_it_ends_the_first(
    plane: ControlPlane, tmp_path: Path
) -> None:
    for name in ("plain-b", "plain-a"):
        plane.kubectl("create", "namespace", name)
    async with scaler(
        tmp_path, plane.admin, name="one", flags=("--lease-namespace", "plain-b")
    ) as one:
        await until(lambda: asyncio.sleep(0, bool(one.lines("mode changed"))), "the first decides")
        two = ScalerProcess("two", tmp_path, plane.admin, ("--lease-namespace", "plain-a"))
        two.start()
        await until(lambda: asyncio.sleep(0, two.exit_code is not None), "the second ends")
        assert two.exit_code == 2
        assert (
            "another install governs all namespaces as well: Lease plain-b/"
            in two.lines("ended")[0]["error"]
        )
        assert one.exit_code is None
        labelled = install(plane)
        async with scaler(tmp_path, labelled, name="three") as three:
            await until(lambda: asyncio.sleep(0, one.exit_code is not None), "the first gives way")
            assert (
                f"Lease {NAMESPACE}/mind-cluster-scaler, held by three"
                in one.lines("ended")[0]["error"]
            )
            assert three.errors() == []


async def test_two_installs_serve_two_namespaces_and_a_third_over_all_is_refused(
    plane: ControlPlane, tmp_path: Path
) -> None:
    installs = {team: _second(plane, tmp_path, team) for team in ("team-a", "team-b")}
    (one, its), (two, others) = installs.values()
    everywhere = install(plane)
    async with (
        plane.client(plane.admin) as api,
        scaler(tmp_path, one, name="one", flags=its) as first,
        scaler(tmp_path, two, name="two", flags=others) as second,
    ):
        for team in installs:
            for obj in (rule_config_map(), job("p0"), job("d0")):
                obj["metadata"]["namespace"] = team
                plane.kubectl("apply", "-f", "-", text=json.dumps(obj))
        for team in installs:
            for kind, namespace, names in (
                (PODS, team, {"p0-master-0", "d0-master-0"}),
                (CONFIG_MAPS, f"{team}-scaler", {f"{team}.rule-scaler-last-valid"}),
            ):

                async def are_there(kind=kind, namespace=namespace, names=names) -> bool:  # type: ignore[no-untyped-def]
                    found = {
                        obj["metadata"]["name"] for obj in (await api.list(kind, namespace)).items
                    }
                    return bool(names <= found)

                await until(are_there, f"{names} are in {namespace}")
        third = ScalerProcess("third", tmp_path, everywhere, LEASE)
        third.start()
        await until(lambda: asyncio.sleep(0, third.exit_code is not None), "the third ends")
        assert third.exit_code == 2
        (line,) = third.lines("ended")
        assert line["error"].startswith(
            "OverlapError: another install governs team-a as well: Lease team-a-scaler/"
        )
        assert "exception" not in line
        (lease,) = (await api.list(LEASES, NAMESPACE)).items
        assert "holderIdentity" not in lease["spec"]
        for process in (first, second):
            assert process.errors() == []
            refused = [line for line in process.lines() if "403 Forbidden" in json.dumps(line)]
            # of MindCluster
            assert {line["event"] for line in refused} <= {"watch interrupted", "no fault data"}
