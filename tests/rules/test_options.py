from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.names import PREFIX
from scaler.rules.document import read_options
from scaler.rules.rule import CountsFrom, RuleOptions, Trade


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("paused", "true", RuleOptions(paused=True)),
        ("paused", "false", RuleOptions()),
        ("counts-from", "ready", RuleOptions(counts_from=CountsFrom.READY)),
        ("trade", "off", RuleOptions(trade=Trade.OFF)),
        ("arbitration", "off", RuleOptions(arbitration=False)),
        ("service-priority", "-5", RuleOptions(service_priority=-5)),
        ("scale-down-delay", "300s", RuleOptions(scale_down_delay=300)),
        ("scale-down-delay", "1h5m", RuleOptions(scale_down_delay=3900)),
        ("scale-down-delay", "24h", RuleOptions(scale_down_delay=86400)),
        ("scale-down-delay", "0s", RuleOptions()),
    ],
)
def test_each_annotation_is_read(name: str, value: str, expected: RuleOptions) -> None:
    assert read_options({PREFIX + name: value}) == (expected, [])


@pytest.mark.parametrize(
    "name",
    ["paused", "counts-from", "trade", "arbitration", "service-priority", "scale-down-delay"],
)
@pytest.mark.parametrize(
    "value", ["", "TRUE!", "1e3", "９", "1 000", "99999999999", "24h1s", "5 m", "９s"]
)
def test_an_unusable_value_is_a_warning_and_the_default_stands(name: str, value: str) -> None:
    options, (warning,) = read_options({PREFIX + name: value})
    assert options == RuleOptions()
    assert (warning.level, warning.code) == ("warning", "AnnotationInvalid")
    assert warning.path == ("metadata", "annotations", f"mind-cluster/{name}")


def test_an_unknown_annotation_of_ours_is_a_warning_and_foreign_ones_are_not_looked_at() -> None:
    _, warnings = read_options({PREFIX + "pause": "true", "kubectl.kubernetes.io/x": "y"})
    assert [warning.code for warning in warnings] == ["AnnotationUnknown"]


@given(st.dictionaries(st.text() | st.just(PREFIX + "paused"), st.text()))
def test_annotations_never_raise(annotations: dict[str, str]) -> None:
    options, _ = read_options(annotations)
    assert options.paused in (True, False)
