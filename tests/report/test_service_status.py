"""The status of an ElasticService: what it says, that its times are true, and that it always
fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import yaml

from scaler.decide.nodes import PodRequest
from scaler.decide.world import RuleProblem, ServiceKey
from scaler.kube.api import Object
from scaler.reasons.warnings import Warning
from scaler.report.service_reports import ServiceReport
from scaler.report.service_status import MAX_BYTES, status_of
from scaler.rules.rule import Ratio, Rule, RuleOptions
from tests.builders import NOW, instance, instances, plan, service
from tests.report.fakes import report, report_of

THEN = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:10:00Z"
COMPLETE = report("2P1D > 1P1D", "p0 Running, p1 Running, d0 Running")
SMALLER = report("2P1D > 1P1D", "p0 Running, p1 Held, d0 Running")
NOTHING = report("2P1D > 1P1D", "p0 Running, p1 Held, d0 Held")
ON_NODES = tuple(
    msgspec.structs.replace(one, bound_pods=((f"npu-{number}", PodRequest()),))
    for number, one in enumerate(instances("p0 Running, p1 Running, d0 Running"))
)
GOOD = {
    "Available": "True",
    "Complete": "True",
    "Degraded": "False",
    "ScalingLimited": "False",
    "RuleValid": "True",
}
SCHEMA = yaml.safe_load(Path("manifests/base/elasticservices.yaml").read_text())["spec"][
    "versions"
][0]["schema"]


def first(made: ServiceReport) -> Object:
    return status_of(made, {}, THEN)


def conditions(status: Object) -> dict[str, str]:
    return {found["type"]: found["status"] for found in status["conditions"]}


def condition(status: Object, kind: str) -> Any:
    return next(found for found in status["conditions"] if found["type"] == kind)


def strict(schema: Any) -> Any:
    """A structural schema drops what it does not name; here that is an error."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: strict(value) for name, value in schema.items()}
    return (
        {**made, "additionalProperties": False}
        if "properties" in made and made.get("type") == "object"
        else made
    )


def test_a_complete_service_says_so_in_every_column() -> None:
    status = first(COMPLETE)
    assert [status[name] for name in ("running", "target", "reason", "replicas")] == [
        "2+1",
        "2+1",
        "Complete",
        3,
    ]
    assert conditions(status) == GOOD


def test_the_minimum_is_available_and_not_complete() -> None:
    status = first(SMALLER)
    assert (status["currentRatio"]["index"], status["targetRatio"]["index"]) == (1, 0)
    assert conditions(status) == GOOD | {"Complete": "False"}


def test_a_service_that_rests_is_available_and_complete_and_says_that_it_rests() -> None:
    before = status_of(COMPLETE, {}, THEN)
    status = status_of(
        report_of(service("2P1D > 1P1D", "p0 Held, p1 Held, d0 Held", replicas=0)), before, LATER
    )
    assert conditions(status) == GOOD
    assert (status["reason"], condition(status, "Available")["reason"]) == ("Resting", "Resting")
    assert (status["target"], "targetRatio" in status) == ("-", False)


def test_a_service_that_runs_all_that_is_wanted_of_it_is_complete() -> None:
    status = first(report_of(service("2P1D > 1P1D", "p0 Running, p1 Held, d0 Running", replicas=2)))
    assert (status["reason"], conditions(status)["Complete"]) == ("Complete", "True")
    assert (
        status["message"] == "2 instances are wanted; works up to 1 group0 + 1 group1, which runs"
    )
    assert status["instances"][1]["reason"] == "ScaledDown"


def test_below_the_minimum_the_reason_is_that_of_the_group_that_lacks_an_instance() -> None:
    status = first(NOTHING)
    assert conditions(status)["Available"] == "False"
    assert "currentRatio" not in status
    assert (status["reason"], status["message"].split(":")[0]) == ("WaitingForScheduler", "d0")


def test_it_is_degraded_from_the_loss_until_it_is_complete_again() -> None:
    lost = status_of(SMALLER, first(COMPLETE), LATER)
    worse = status_of(NOTHING, lost, "2026-01-01T00:20:00Z")
    back = status_of(COMPLETE, worse, "2026-01-01T00:30:00Z")
    assert [conditions(status)["Degraded"] for status in (lost, worse, back)] == [
        "True",
        "True",
        "False",
    ]
    assert condition(worse, "Degraded")["lastTransitionTime"] == LATER


def test_degraded_says_what_was_lost_when_and_on_which_node_until_it_is_over() -> None:
    was = first(report_of(service("2P1D > 1P1D", ON_NODES)))
    broken = msgspec.structs.replace(
        ON_NODES[1], faulty=1, trouble="pod p1-0 is on npu-1, not Ready"
    )
    seen = service("2P1D > 1P1D", (ON_NODES[0], broken, ON_NODES[2]))
    lost = status_of(report_of(seen), was, LATER)
    words = "lost p1 on npu-1 at 2026-01-01 00:10 UTC: pod p1-0 is on npu-1, not Ready"
    assert condition(lost, "Degraded")["reason"] == "InstanceLost"
    assert condition(lost, "Degraded")["message"] == words
    held = status_of(SMALLER, lost, "2026-01-01T00:20:00Z")
    assert condition(held, "Degraded")["message"] == words
    worse = status_of(NOTHING, held, "2026-01-01T00:30:00Z")
    assert condition(worse, "Degraded")["message"].startswith("lost d0 at 2026-01-01 00:30 UTC")
    assert condition(worse, "Degraded")["message"].endswith(words.removeprefix("lost "))
    back = status_of(COMPLETE, worse, "2026-01-01T00:40:00Z")
    assert "lost" not in back
    assert conditions(back)["Degraded"] == "False"


def test_what_is_lost_on_the_way_up_is_lost_although_no_ratio_is() -> None:
    climbing = first(report("4P1D > 1P1D", "p0 Running, p1 Running, p2 Held, p3 Held, d0 Running"))
    seen = report("4P1D > 1P1D", "p0 Running, p1 Held, p2 Held, p3 Held, d0 Running")
    lost = status_of(seen, climbing, LATER)
    assert conditions(lost)["Degraded"] == "True"
    again = report("4P1D > 1P1D", "p0 Running, p1 Running, p2 Held, p3 Held, d0 Running")
    assert conditions(status_of(again, lost, LATER))["Degraded"] == "False"


def test_what_runs_is_said_also_where_no_ratio_names_it() -> None:
    status = first(report("1P1D", "p0 Running, p1 Running, d0 Running"))
    assert (status["running"], status["target"]) == ("2+1", "1+1")
    assert condition(status, "Available")["message"] == "runs 2 group0 + 1 group1"
    said = "the largest ratio that its jobs allow runs; beyond it 1 group0 runs"
    assert status["message"] == said


def test_a_mistyped_group_is_the_reason_where_others_only_wait_for_that_instance() -> None:
    jobs = (*instances("p0 Running, p1 Held"), instance("d0", group="gruop1"))
    status = first(report_of(service("2P1D > 1P1D", jobs)))
    assert (status["reason"], status["message"].split(":")[0]) == ("GroupUnknown", "d0")


def test_a_mistyped_group_is_named_beside_another_reason() -> None:
    jobs = (*instances("p0 Running, p1 Starting, d0 Running"), instance("p7", group="gruop0"))
    status = first(report_of(service("2P1D > 1P1D", jobs)))
    assert status["reason"] == "Starting"
    assert status["message"].endswith(" Also GroupUnknown: p7.")


def test_times_move_only_with_what_they_are_about() -> None:
    before = first(COMPLETE)
    again = status_of(COMPLETE, before, LATER)
    assert again == before
    lost = status_of(SMALLER, before, LATER)
    assert (lost["since"], condition(lost, "Available")["lastTransitionTime"]) == (LATER, THEN)
    since = {found["name"]: found["since"] for found in lost["instances"]}
    assert since == {"p0": THEN, "p1": LATER, "d0": THEN}


def test_it_rests_while_only_time_and_versions_move() -> None:
    seen = service("2P1D > 1P1D", "p0 Running, p1 Held, d0 Starting")
    before = first(report_of(seen))
    later = report_of(seen, plan=plan(seen, now=NOW + 600, resource_versions={"pods": "9"}))
    assert status_of(later, before, LATER) == before


def test_a_problem_of_the_rule_is_a_condition_and_what_was_valid_stays_in_force() -> None:
    problem = RuleProblem(Warning.RULE_INVALID, "line 3: no comma")
    found = condition(
        first(report_of(service("1P1D", "p0 Running, d0 Running", problem=problem))), "RuleValid"
    )
    assert (found["status"], found["reason"], found["message"]) == (
        "False",
        "RuleInvalid",
        "line 3: no comma",
    )
    never = first(report_of(service(None, (instance("p0"),), problem=problem)))
    assert (never["reason"], never["target"]) == ("RuleInvalid", "-")


def test_a_rejected_edit_shows_in_the_list_though_the_rule_in_force_is_complete() -> None:
    problem = RuleProblem(Warning.RULE_INVALID, "line 3: no comma")
    status = first(report_of(service("1P1D", "p0 Running, d0 Running", problem=problem)))
    assert (status["reason"], status["message"]) == ("RuleInvalid", "line 3: no comma")
    assert status["rule"]["state"] == "invalid"
    assert conditions(status)["Complete"] == "False"
    assert conditions(status)["Degraded"] == "False"


def test_a_paused_rule_shows_in_the_list_though_all_runs() -> None:
    seen = service("1P1D", "p0 Running, d0 Running", options=RuleOptions(paused=True))
    status = first(report_of(seen))
    assert (status["reason"], status["rule"]["state"]) == ("Paused", "paused")
    assert condition(status, "Complete")["reason"] == "Paused"
    assert conditions(status)["Complete"] == "False"


def test_a_mistyped_group_shows_in_the_list_though_the_rule_is_complete() -> None:
    jobs = (*instances("p0 Running, d0 Running"), instance("p1", group="group7"))
    status = first(report_of(service("1P1D", jobs)))
    assert status["reason"] == "GroupUnknown"
    assert status["message"].startswith("p1: ")
    assert conditions(status) == GOOD


def test_a_mistyped_group_is_named_beside_a_pause_and_a_rejected_edit() -> None:
    jobs = (*instances("p0 Running, d0 Running"), instance("p1", group="group7"))
    paused = service("1P1D", jobs, options=RuleOptions(paused=True))
    rejected = service("1P1D", jobs, problem=RuleProblem(Warning.RULE_INVALID, "line 3: no comma"))
    found = [first(report_of(each)) for each in (paused, rejected)]
    assert [status["reason"] for status in found] == ["Paused", "RuleInvalid"]
    assert all(status["message"].endswith(". Also GroupUnknown: p1.") for status in found)


def test_groups_stand_in_the_order_of_the_rule() -> None:
    rule = Rule((Ratio({"prefill": 1, "decode": 1}, {"prefill": 1, "decode": 1}),))
    jobs = (instance("a", group="decode"), instance("b", group="prefill"))
    status = first(report_of(service(rule, jobs)))
    assert [group["name"] for group in status["groups"]] == ["prefill", "decode"]


def test_a_ratio_is_told_by_roles_where_the_groups_are_called_so() -> None:
    for names, running in (
        (("decode", "prefill"), "1P2D"),
        (("group0", "group1"), "2+1"),
        (("engine", "decoder"), "2P1D"),
        (("engine", "router"), "2+1"),
        (("prefill", "decode", "encode"), "2+1+1"),
    ):
        counts = {name: 2 if at == 0 else 1 for at, name in enumerate(names)}
        jobs = []
        for name, number in counts.items():
            jobs += [instance(f"{name}-{at}", group=name) for at in range(number)]
        rule = Rule((Ratio(counts, dict.fromkeys(names, 1)),))
        status = first(report_of(service(rule, tuple(jobs))))
        assert status["target"] == running


def test_a_ratio_is_told_by_the_stages_that_the_labels_of_jobs_say() -> None:
    said = msgspec.structs.replace(SMALLER, stages={"group0": "decode", "group1": "prefill"})
    status = first(said)
    assert (status["running"], status["target"]) == ("1P1D", "1P2D")
    assert [group["stage"] for group in status["groups"]] == ["decode", "prefill"]
    one = msgspec.structs.replace(SMALLER, stages={"group0": "prefill"})
    assert first(one)["running"] == "1+1", "of the other nobody says it"
    schema = strict(SCHEMA["openAPIV3Schema"]["properties"]["status"])
    jsonschema.validate(status, schema)


def test_a_group_that_the_rule_does_not_name_is_no_column() -> None:
    jobs = (*instances("p0 Running, d0 Running"), instance("p1", group="group7"))
    status = first(report_of(service("1P1D", jobs)))
    assert (status["running"], status["target"]) == ("1+1", "1+1")


def test_a_leader_out_of_touch_says_so_first() -> None:
    status = first(msgspec.structs.replace(COMPLETE, out_of_touch="AscendJobs since 120 s"))
    assert (status["reason"], status["outOfTouch"]) == ("OutOfTouch", "AscendJobs since 120 s")


def test_what_is_written_is_what_the_definition_allows() -> None:
    schema = strict(SCHEMA["openAPIV3Schema"]["properties"]["status"])
    for made in (COMPLETE, SMALLER, NOTHING):
        jsonschema.validate(first(made), schema)


def test_ten_thousand_instances_fit_and_what_waits_stays() -> None:
    jobs = tuple(instance(f"p{number}-{'x' * 200}") for number in range(3000))
    status = first(
        report_of(msgspec.structs.replace(service("1P1D", jobs), key=ServiceKey("a", "b", "c")))
    )
    assert len(msgspec.json.encode(status)) <= MAX_BYTES
    assert status["leftOut"]["instances"] + len(status["instances"]) == 3000
    jsonschema.validate(status, strict(SCHEMA["openAPIV3Schema"]["properties"]["status"]))
