"""Where many services come in one namespace, each has to last until its object is made."""

from __future__ import annotations

from scaler.report.newcomers import LASTING, MOST_AT_ONCE, WINDOW, Newcomers


def test_beyond_so_many_a_minute_a_service_has_to_last() -> None:
    newcomers = Newcomers()
    for number in range(MOST_AT_ONCE):
        newcomers.note("busy", float(number))
        assert newcomers.seconds_to_wait("busy") == 0.0
    newcomers.note("busy", WINDOW - 1)
    assert newcomers.seconds_to_wait("busy") == LASTING
    newcomers.note("other", WINDOW - 1)
    assert newcomers.seconds_to_wait("other") == 0.0
    newcomers.note("busy", WINDOW + 5)
    assert newcomers.seconds_to_wait("busy") == 0.0


def test_of_namespaces_that_are_quiet_again_nothing_is_kept() -> None:
    newcomers = Newcomers()
    for number in range(1000):
        newcomers.note(f"namespace-{number}", number * WINDOW)
    assert len(newcomers._came) == 1
