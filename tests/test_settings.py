"""Settings: where they come from, which wins, and what a person is told when one is wrong."""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from settings_page import PAGES, reference

from scaler.decide.world import Policy, Preempt
from scaler.defaults import Mode
from scaler.reasons.said import Language
from scaler.settings import REMOVED, Settings, SettingsError, add_arguments, load

ROOT = Path(__file__).parent.parent


def settings(*argv: str, **environ: str) -> Settings:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return load(parser.parse_args(argv), environ)


def problems(*argv: str, **environ: str) -> list[str]:
    """One line each: where it was set, what is wrong, and how to fix it."""
    with pytest.raises(SettingsError) as caught:
        settings(*argv, **environ)
    return str(caught.value).splitlines()


def file(tmp_path: Path, text: str) -> str:
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    return str(path)


def test_without_anything_the_defaults_hold_and_the_identity_is_unique() -> None:
    first = settings()
    second = settings()
    assert first.identity != second.identity
    assert first.model_copy(update={"identity": ""}) == Settings()


def test_a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default(
    tmp_path: Path,
) -> None:
    path = file(tmp_path, "broken_grace: 1\nstable_after: 1\nlease_duration: 20\n")
    found = settings(
        "--broken-grace", "3", SCALER_CONFIG=path, SCALER_BROKEN_GRACE="2", SCALER_STABLE_AFTER="2"
    )
    assert (found.broken_grace, found.stable_after, found.lease_duration, found.retry_period) == (
        3,
        2,
        20,
        1,
    )


def test_the_config_flag_beats_the_config_variable(tmp_path: Path) -> None:
    assert (
        settings("--config", file(tmp_path, "mode: auto"), SCALER_CONFIG="/nowhere").mode
        is Mode.AUTO
    )


def test_namespaces_are_a_list_in_a_file_and_separated_by_commas_elsewhere(tmp_path: Path) -> None:
    listed = settings("--config", file(tmp_path, "namespaces: [a, b]"))
    assert listed.namespaces == settings("--namespaces", "a, b").namespaces == ("a", "b")


def test_an_empty_list_of_namespaces_means_all() -> None:
    assert settings(SCALER_NAMESPACES="").namespaces == ()


def test_switches_have_a_negative_flag() -> None:
    assert not settings("--no-revoke").revoke
    assert settings("--revoke", SCALER_REVOKE="false").revoke


def test_all_problems_are_told_at_once_with_their_places(tmp_path: Path) -> None:
    path = file(tmp_path, "lease-duration: 9\nhttp_port: 99999\n")
    found = problems("--config", path, "--log-level", "loud", SCALER_REVOKE="perhaps")
    assert [problem.partition(": ")[0] for problem in found] == [
        f"file {path}",
        "variable SCALER_REVOKE",
        f"file {path}, key http_port",
        "flag --log-level",
    ]
    assert found[0].endswith(". Did you mean lease_duration?")


def test_a_key_without_its_certificate_is_refused() -> None:
    (found,) = problems("--webhook-key-file", "tls.key")
    assert found.startswith("flag --webhook-key-file: ")
    assert "webhook_cert_file is not" in found


def test_lease_times_that_could_let_two_controllers_act_are_refused() -> None:
    found = problems("--lease-duration", "5", SCALER_RENEW_DEADLINE="5", SCALER_MODE="gates")[-1]
    assert found.startswith("variable SCALER_RENEW_DEADLINE, flag --lease-duration: ")
    assert "renew_deadline (5 s) < lease_duration (5 s) must hold" in found


def test_a_period_is_refused_after_which_a_renewal_could_come_too_late() -> None:
    (found,) = problems("--retry-period", "4.2", "--renew-deadline", "5", "--lease-duration", "8")
    assert "1.2 * retry_period (4.2 s) < renew_deadline (5 s)" in found
    assert (
        settings(
            "--retry-period", "4.1", "--renew-deadline", "5", "--lease-duration", "8"
        ).retry_period
        == 4.1
    )


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "", "8s", "1e99"])
def test_a_duration_is_a_finite_number_in_its_range(value: str) -> None:
    (found,) = problems(SCALER_LEASE_DURATION=value)
    assert found.startswith("variable SCALER_LEASE_DURATION: ")


def test_a_near_miss_of_a_variable_is_a_problem_but_service_links_are_not() -> None:
    (found,) = problems(
        SCALER_LEASE_DURATON="8", SCALER_SERVICE_HOST="10.0.0.1", SCALER_PORT="tcp://10.0.0.1:80"
    )
    assert found.endswith(". Did you mean SCALER_LEASE_DURATION?")


@pytest.mark.parametrize("name", REMOVED)
def test_a_setting_of_an_earlier_release_is_refused_with_what_to_do_instead(
    name: str, tmp_path: Path
) -> None:
    for found in (
        *problems(**{f"SCALER_{name.upper()}": "true"}),
        *problems("--config", file(tmp_path, f"{name}: true\n")),
    ):
        assert ": no such setting" in found
        assert found.endswith(f". {REMOVED[name]}")


def test_a_service_link_that_hits_a_setting_is_explained() -> None:
    (found,) = problems(SCALER_HTTP_PORT="tcp://10.0.0.1:80")
    assert "enableServiceLinks: false" in found


@pytest.mark.parametrize(
    "text", ["- a\n", "{", "a: !!python/object:os.system {}\n", "[" * 100_000, "\x00", "0"]
)
def test_a_file_that_is_no_mapping_is_a_problem_and_never_an_exception(
    tmp_path: Path, text: str
) -> None:
    (found,) = problems("--config", file(tmp_path, text))
    assert "mapping" in str(found)


def test_a_file_that_does_not_exist_is_a_problem() -> None:
    (found,) = problems("--config", "/does/not/exist")
    assert found.startswith("file /does/not/exist: ")


def test_an_empty_limit_of_the_priority_leaves_it_to_the_priority_class() -> None:
    assert settings(SCALER_MAX_SERVICE_PRIORITY="").max_service_priority is None
    assert settings("--max-service-priority", "100").max_service_priority == 100


def test_a_pause_that_cannot_grow_is_refused() -> None:
    (found,) = problems("--backoff", "20", SCALER_BACKOFF_MAX="10")
    assert "backoff (20 s) <= backoff_max (10 s) must hold" in found


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    assert settings("--config", file(tmp_path, "# all defaults\n"), "--identity", "a") == Settings(
        identity="a"
    )


@given(
    st.dictionaries(
        st.sampled_from(sorted(Settings.model_fields)), st.text(max_size=20), max_size=4
    )
)
def test_any_text_in_the_environment_gives_settings_or_named_problems(
    values: dict[str, str],
) -> None:
    environ = {f"SCALER_{name.upper()}": value for name, value in values.items()}
    with contextlib.suppress(SettingsError):
        found = settings(**environ)
        assert Settings.model_validate(found.model_dump()) == found


@pytest.mark.parametrize(("language", "page"), PAGES.items())
def test_the_reference_page_is_what_the_code_says(language: Language, page: str) -> None:
    assert (ROOT / page).read_text("utf-8") == reference(language), "run: make generated"


def test_importing_the_settings_loads_no_client_and_no_server() -> None:
    code = (
        "import sys, scaler.settings; print({'aiohttp', 'kubernetes_asyncio', 'yaml'} &"
        " set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout == "set()\n"


def test_every_part_of_the_policy_is_a_setting_with_the_same_default() -> None:
    assert set(Policy.__struct_fields__) <= set(Settings.model_fields)
    assert Settings().policy == Policy()


def test_what_is_set_reaches_the_policy() -> None:
    given = settings("--backoff", "7", "--preempt", "never", "--max-service-priority", "5").policy
    assert (given.backoff, given.preempt, given.max_service_priority) == (7.0, Preempt.NEVER, 5)


def test_a_shadow_serves_no_webhook_because_that_would_hold_pods() -> None:
    (problem,) = problems("--mode", "shadow", "--webhook-port", "9443")
    assert "mode shadow does nothing, and webhook_port is set" in str(problem)
    assert settings("--mode", "shadow").mode is Mode.SHADOW
