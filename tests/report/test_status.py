"""The status ConfigMap: what it says, that it rests, and that it always fits."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.decide.world import RuleProblem, ServiceKey, Warning
from scaler.kube.api import Object
from scaler.names import KEPT_FOR_LABEL, MANAGED_BY_LABEL
from scaler.report import status
from scaler.report.service_reports import ServiceReport
from scaler.report.status import status_config_map, status_document
from scaler.rules.rule import Ratio, Rule, RuleOptions
from scaler.state.last_valid import LastValid
from scaler.state.own_config_maps import Home, Name, is_ours, rule_of
from tests.builders import NOW, instance, plan, rolling, service
from tests.report.fakes import report, report_of

HOME = Home("scaler-home")


def document(*reports: ServiceReport) -> Any:
    return json.loads(config_map(*reports)["data"]["status.json"])


def config_map(*reports: ServiceReport) -> Object:
    return status_config_map(reports, HOME)


def text(*reports: ServiceReport) -> str:
    return str(config_map(*reports)["data"]["status.txt"])


DEGRADED = report("2P1D > 1P1D", "p0 Running, p1 Held, d0 Terminating, d1 Held")


def test_it_says_what_runs_and_what_is_worked_towards() -> None:
    (found,) = document(report("2P1D > 1P1D", "p0 Running, p1 Held, d0 Running"))["services"]
    assert found["current"] == {"index": 1, "counts": {"group0": 1, "group1": 1}}
    assert found["target"] == {"index": 0, "counts": {"group0": 2, "group1": 1}}
    assert found["complete"] is False


def test_below_the_smallest_ratio_no_ratio_is_current_and_the_service_does_not_serve() -> None:
    serving = report("2P1D > 1P1D", "p0 Running, d0 Running")
    found = document(DEGRADED)["services"][0]
    assert (found["current"], found["serves"], document(serving)["services"][0]["serves"]) == (None, False, True)


def test_it_says_who_decides_alone_and_why() -> None:
    alone = msgspec.structs.replace(DEGRADED, alone="the nodes may not be read")
    found = [document(one)["services"][0]["arbitration"] for one in (DEGRADED, alone)]
    assert found == [
        {"takes_part": True, "why_not": ""},
        {"takes_part": False, "why_not": "the nodes may not be read"},
    ]
    assert "not weighed" not in text(DEGRADED)
    assert "\n  not weighed against other services: the nodes may not be read\n" in text(alone)


def test_a_pair_of_revisions_counts_once_and_is_seen() -> None:
    pair = report_of(service("1P1D", rolling("p0 Running old, p1 Running new, d0 Running new")))
    assert document(pair)["services"][0]["groups"]["group0"]["paired"] == 1
    assert "  group0  1       1 (1 in a pair)  0          0\n" in text(pair)


def test_every_instance_has_its_kind() -> None:
    other = report_of(service("1P1D", (instance("p0"), instance("d0", kind="LeaderWorkerSet"))))
    assert [found["kind"] for found in document(other)["services"][0]["instances"]] == ["AscendJob", "LeaderWorkerSet"]


def test_every_instance_has_its_state_its_reason_and_words() -> None:
    (found,) = document(DEGRADED)["services"]
    assert [(i["name"], i["state"], i["reason"]) for i in found["instances"]] == [
        ("p0", "Running", "Running"),
        ("p1", "Held", "WaitingForRatio"),
        ("d0", "Terminating", "Terminating"),
        ("d1", "Admitted", "WaitingForScheduler"),
    ]
    assert "waits for group1" in found["instances"][1]["words"]


def test_a_person_reads_it_without_tools() -> None:
    assert text(DEGRADED).splitlines()[:6] == [
        "rule default/rule",
        "",
        "service mindie: does not serve, works towards ratio 1 (1 group0 + 1 group1)",
        "  GROUP   TARGET  RUNNING  IN FLIGHT  HELD",
        "  group0  1       1        0          1",
        "  group1  1       0        0          1",
    ]


def test_services_that_share_a_rule_share_its_status() -> None:
    other = msgspec.structs.replace(service("1P1D", "p5 Held"), key=ServiceKey("default", "rule", "a-service"))
    found = document(DEGRADED, report_of(other))
    assert [service["job_id"] for service in found["services"]] == ["a-service", "mindie"]


def test_a_problem_of_the_rule_is_said_with_what_stays_in_force() -> None:
    problem = RuleProblem(Warning.RULE_INVALID, "line 3: no comma")
    broken = service("1P1D", "p0 Running", problem=problem)
    last_valid = LastValid("{}")
    found = document(report_of(broken, last_valid=last_valid))
    assert found["rule"]["problem"] == {"kind": "RuleInvalid", "message": "line 3: no comma"}
    assert found["rule"]["in_force"] == last_valid.sha256
    assert text(report_of(broken)).splitlines()[:2] == [
        "rule default/rule: the last valid one is in force",
        "! RuleInvalid: line 3: no comma",
    ]
    assert text(report_of(broken)).count("RuleInvalid") == 1
    never = service(None, (instance("p0"),), problem=problem)
    assert text(report_of(never)).startswith("rule default/rule: no valid one was ever seen, nothing is admitted\n")


def test_a_paused_rule_says_so_at_the_top() -> None:
    assert text(report_of(service("1P", "p0", options=RuleOptions(paused=True)))).startswith(
        "rule default/rule: paused"
    )


def test_warnings_name_their_instance() -> None:
    odd = service("1P1D", (instance("p0", expected=3),))
    (found,) = document(report_of(odd))["services"]
    assert ("InstanceSizeMismatch", "p0") in [(w["warning"], w["instance"]) for w in found["warnings"]]


def test_it_rests_while_only_time_and_versions_move() -> None:
    seen = service("2P1D > 1P1D", "p0 Running, p1 Held, d0 Starting")
    later = plan(seen, now=NOW + 600, resource_versions={"pods": "9"})
    assert config_map(report_of(seen)) == config_map(report_of(seen, plan=later))


def test_it_belongs_to_us_and_names_its_rule() -> None:
    found = config_map(DEGRADED)
    assert is_ours(found)
    assert rule_of(found) == ("default", "rule")
    assert "ownerReferences" not in found["metadata"]


_label_values = st.from_regex(r"\A[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")
_object_names = st.from_regex(r"\A[a-z0-9]{1,9}([-.][a-z0-9]{1,9}){0,24}\Z")


@given(_label_values | _object_names)
def test_names_and_labels_are_valid_whatever_a_label_calls_the_rule(name: str) -> None:
    named = msgspec.structs.replace(service("1P", "p0"), key=ServiceKey("default", name, "mindie"))
    metadata = config_map(report_of(named))["metadata"]
    rule, elsewhere = Name("default", name), Home("scaler-home", status_beside_rule=False)
    assert metadata["name"] == HOME.status(rule).name
    for made in (metadata["name"], HOME.last_valid(rule).name, elsewhere.status(rule).name):
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", made)
        assert len(made) <= 253
    assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", metadata["labels"][KEPT_FOR_LABEL])


def test_rules_with_similar_names_have_different_objects() -> None:
    rules = [Name("default", name) for name in ("rule", "Rule", "rule_", "ru.le", "a" * 253, "a" * 252 + "b")]
    rules += [Name("default-rule", "rule"), Name("default", "rule.rule"), Name("rule", "default")]
    home = Home("scaler-home", status_beside_rule=False)
    assert len({home.status(rule) for rule in rules} | {home.last_valid(rule) for rule in rules}) == 18


def many(number: int) -> ServiceReport:
    taken = service("1P1D", tuple(instance(f"p{n}", "Running" if n % 2 else "Held") for n in range(number)))
    return report_of(taken)


def test_what_does_not_fit_is_left_out_and_counted_running_instances_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "MAX_BYTES", 20_000)
    found = config_map(many(100))
    assert sum(len(value.encode()) for value in found["data"].values()) <= 20_000
    read = json.loads(found["data"]["status.json"])
    kept = read["services"][0]["instances"]
    assert len(kept) + read["left_out"]["instances"] == 100
    assert {i["state"] for i in kept} == {"Held"}
    assert "instances left out" in found["data"]["status.txt"]


def test_thousands_of_services_fit_too() -> None:
    one = service("1P1D", "p0 Held, d0 Held")
    made = plan(one)
    keys = [ServiceKey("default", "rule", f"service-{n:05}") for n in range(4000)]
    services = [
        ServiceReport(msgspec.structs.replace(one, key=key), msgspec.structs.replace(made, key=key)) for key in keys
    ]
    found = config_map(*services)
    assert sum(len(value.encode()) for value in found["data"].values()) <= status.MAX_BYTES
    read = json.loads(found["data"]["status.json"])
    assert len(read["services"]) + read["left_out"]["services"] == 4000


@pytest.mark.parametrize("letter", ["g", "\u4e00", "\x01", '"'])
def test_thousands_of_groups_fit_too_those_with_jobs_first(letter: str) -> None:
    names = [f"{number}{letter * 90}" for number in range(10_000)]
    counts = dict.fromkeys(names, 1)
    running = tuple(instance(name, "Running", group=name) for name in names[-3:])
    made = report_of(service(Rule((Ratio(counts, counts),)), running))
    found = config_map(made)
    assert sum(len(value.encode()) for value in found["data"].values()) <= status.MAX_BYTES
    read = json.loads(found["data"]["status.json"])
    groups = read["services"][0]["groups"]
    assert {name[:64] for name in names[-3:]} <= groups.keys() == read["services"][0]["target"]["counts"].keys()
    assert len(groups) + read["left_out"]["groups"] == 10_000


@given(running=st.integers(0, 4), decode=st.integers(0, 3))
def test_the_current_ratio_is_the_largest_that_all_running_instances_meet(running: int, decode: int) -> None:
    text = ", ".join([f"p{n} Running" for n in range(running)] + [f"d{n} Running" for n in range(decode)])
    (found,) = status_document([report("4P3D > 2P2D > 1P1D", text)])["services"]
    meets = [i for i, (p, d) in enumerate([(4, 3), (2, 2), (1, 1)]) if running >= p and decode >= d]
    assert (found["current"] or {"index": None})["index"] == (meets[0] if meets else None)


def test_the_labels_are_those_that_kubectl_users_select_by() -> None:
    assert config_map(DEGRADED)["metadata"]["labels"] == {
        MANAGED_BY_LABEL: "mind-cluster-scaler",
        KEPT_FOR_LABEL: "rule",
    }
