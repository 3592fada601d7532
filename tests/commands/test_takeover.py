"""`scaler takeover --check` as a user types it, and what it prints."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec
import pytest

from scaler.cli import main
from scaler.clock import Clock
from scaler.kube.api import CUSTOM_RESOURCE_DEFINITIONS, PODS
from scaler.settings import Settings
from scaler.sim.loop import run
from scaler.tools.takeover import check as takeover_check
from scaler.tools.takeover import command as takeover
from scaler.tools.takeover.check import JobReport, NotReadableError, Report, check
from scaler.tools.takeover.command import text
from scaler.tools.takeover.comparison import Consequence, Weight
from scaler.workloads.stormservice import POD_SETS
from tests.faults import Fault, Faults, Rule
from tests.jobs import job, rule_config_map
from tests.rig import START, rig
from tests.sim.manifests import template, volcano_job
from tests.test_minimums import nodes, service

OPERATOR = "mindx-dl/ascend-operator-manager"
BLOCKS = Consequence(Weight.BLOCKS, "pods that have a node are deleted: p0-worker-1")
DIFFERS = Consequence(
    Weight.DIFFERS,
    "Pod p0-master-0: spec.containers[ascend].image is mindie:0, the scaler writes mindie:1",
)
CLOCK = Clock(START)
EXPECTED = Consequence(Weight.EXPECTED, "the AscendJob is annotated: its next pods are of round 1")


def a_job(name: str, *consequences: Consequence, pods: int = 1) -> JobReport:
    return JobReport(
        "mindie", name, "mindie/rule/mindie", "Running", "Running", pods, 1, consequences
    )


def report(
    *jobs: JobReport, operator: str = "", consequences: tuple[Consequence, ...] = ()
) -> Report:
    return Report(all(job.safe for job in jobs), operator, consequences, jobs)


def printed(found: Report) -> str:
    return "\n".join(text(found))


def answering(monkeypatch: pytest.MonkeyPatch, found: Report | None) -> None:
    async def answer(*_: object) -> Report | None:
        return found

    monkeypatch.setattr(takeover, "_check", answer)


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (report(a_job("p0")), 0),
        (report(a_job("p0", DIFFERS)), 0),
        (report(a_job("p0", BLOCKS)), 1),
        (None, 1),
    ],
    ids=["safe", "differs", "blocked", "not readable"],
)
def test_the_exit_code_says_whether_it_is_safe(
    monkeypatch: pytest.MonkeyPatch, found: Report | None, code: int
) -> None:
    answering(monkeypatch, found)
    assert main(["takeover", "--check"]) == code


@pytest.mark.parametrize(
    ("words", "namespaces"),
    [
        ([], ()),
        (["-n", "a"], ("a",)),
        (["--check", "--namespaces", "a,b", "-n", "c"], ("a", "b", "c")),
    ],
)
def test_it_checks_without_being_told_to_and_namespaces_are_given_as_in_all_commands(
    words: list[str], namespaces: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def answer(_: argparse.Namespace, settings: Settings) -> None:
        asked.append(settings.namespaces)

    monkeypatch.setattr(takeover, "_check", answer)
    assert main(["takeover", *words]) == 1
    assert asked == [namespaces]


def test_wrong_namespaces_are_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["takeover", "--check", "--namespaces", "Not_A_Name"]) == 2
    assert "not a Kubernetes name" in capsys.readouterr().err


def test_a_cluster_that_is_not_there_is_one_line_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["takeover", "--check", "--kubeconfig", str(tmp_path / "none")]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert shown.err.startswith("scaler takeover: ")


def test_json_holds_the_whole_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = report(a_job("p0", DIFFERS, EXPECTED), operator=OPERATOR)
    answering(monkeypatch, found)
    main(["takeover", "--check", "-o", "json"])
    assert msgspec.json.decode(capsys.readouterr().out, type=Report) == found


def test_a_job_without_differences_is_adopted_as_it_is() -> None:
    assert "  p0: Running, 1 of 1 pods, adopted as it is" in printed(report(a_job("p0", EXPECTED)))


def test_what_blocks_is_in_capitals_and_counted() -> None:
    shown = printed(report(a_job("p0", BLOCKS), a_job("p1")))
    assert f"    NOT SAFE: {BLOCKS.text}" in shown
    assert "NOT SAFE, for 1 reason above: fix it first." in shown


def test_what_differs_is_told_with_what_becomes_of_it() -> None:
    shown = printed(report(a_job("p0", DIFFERS)))
    assert f"    differs: {DIFFERS.text}" in shown
    assert "stays as it is while its pods run" in shown


def test_a_running_operator_is_named_with_the_command_that_stops_it() -> None:
    shown = printed(report(a_job("p0"), operator=OPERATOR))
    assert "kubectl -n mindx-dl scale deployment ascend-operator-manager --replicas=0" in shown
    assert "kubectl" not in printed(report(a_job("p0")))


def test_a_cluster_without_jobs_has_nothing_to_take_over() -> None:
    assert "There is no AscendJob" in printed(report())


# the check itself, beyond what tests/simulation/test_takeover_check.py plays


def test_what_the_scaler_runs_already_is_safe_and_needs_nothing() -> None:
    async def story() -> None:
        async with rig(rule_config_map(), job("p0"), job("d0")) as on:
            await on.start("p0", "d0")
            found = await check(on.cluster.client("check"), Settings.model_validate({}), CLOCK)
            assert (found.safe, found.operator) == (True, "")
            assert {
                consequence.weight for job in found.jobs for consequence in job.consequences
            } <= {Weight.EXPECTED}

    run(story())


def test_services_are_weighed_against_each_other_as_in_the_first_pass() -> None:
    async def story() -> None:
        async with rig(*nodes(3), *service("a"), *service("b")) as on:
            found = await check(on.cluster.client("check"), Settings.model_validate({}), CLOCK)
            told = {(one.name, one.reason) for one in found.jobs if one.name.startswith("b-")}
            assert told == {
                ("b-p0", "MinimumDoesNotFit"),
                ("b-d0", "MinimumDoesNotFit"),
                ("b-p1", "WaitingForRatio"),
            }
            assert {
                consequence.weight for job in found.jobs for consequence in job.consequences
            } <= {Weight.EXPECTED}

    run(story())


def test_jobs_of_other_namespaces_are_left_out_and_that_is_said() -> None:
    async def story() -> None:
        async with rig(rule_config_map(), job("p0"), job("d0")) as on:
            only = Settings.model_validate({"namespaces": ("elsewhere",)})
            found = await check(on.cluster.client("check"), only, CLOCK)
            assert found.jobs == ()
            assert "only looked at: elsewhere" in found.consequences[0].text

    run(story())


def test_a_cluster_that_does_not_let_everything_be_read_is_not_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(takeover_check, "PATIENCE", 3.0)

    async def story() -> None:
        async with rig(rule_config_map(), job("p0"), job("d0")) as on:
            refused = Faults(
                CLOCK, Rule(fault=Fault.REFUSED, status=403, kinds=frozenset({PODS.kind}))
            )
            with pytest.raises(NotReadableError, match="pods"):
                await check(on.cluster.client("check", refused), Settings.model_validate({}), CLOCK)

    run(story())


def test_nodes_that_may_not_be_read_are_no_faulty_nodes() -> None:
    async def story() -> Report:
        async with rig(rule_config_map(), job("p0"), job("d0")) as on:
            await on.start("p0", "d0")
            no_nodes = Faults(
                CLOCK, Rule(fault=Fault.REFUSED, kinds=frozenset({"Node"}), status=403)
            )
            return await check(
                on.cluster.client("check", no_nodes), Settings.model_validate({}), CLOCK
            )

    found = run(story())
    assert (found.safe, {one.state for one in found.jobs}) == (True, {"Running"})


def test_kinds_that_are_not_installed_are_not_waited_for() -> None:
    async def story() -> None:
        async with rig(rule_config_map(), job("p0"), job("d0")) as on:
            await on.cluster.delete(
                CUSTOM_RESOURCE_DEFINITIONS, None, f"{POD_SETS.plural}.{POD_SETS.group}"
            )
            found = await check(on.cluster.client("check"), Settings.model_validate({}), CLOCK)
            assert found.safe

    run(story())


def test_a_job_of_volcano_is_told_of_and_not_compared_with_pods_that_the_scaler_would_make() -> (
    None
):
    labels = {
        "mind-cluster/scaling-rule": "rule",
        "mind-cluster/group-name": "group0",
        "jobID": "mindie",
    }

    async def story() -> Report:
        async with rig(rule_config_map(), job("d0")) as on:
            on.apply(volcano_job("infer", pod=template(npu=8, labels=labels)))
            await on.settle()
            return await check(on.cluster.client("check"), Settings.model_validate({}), CLOCK)

    found = run(story())
    assert {one.name: one.consequences for one in found.jobs if one.name == "infer"} == {
        "infer": ()
    }
