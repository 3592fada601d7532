"""A slip in YAML is told as what it is, with the line mended: by lint, and for a short file."""

from __future__ import annotations

import pytest

from scaler.tools.common.manifest import values
from scaler.tools.common.short_file.service import read_service
from scaler.tools.common.short_file.source import ConfigError
from tests.rules.test_guess import said

JOB = """apiVersion: mindxdl.gitee.com/v1
kind: AscendJob
metadata:
  name: p0
  labels:
    {}
    jobID: mindie
"""
LABEL = "mind-cluster/group-name: group0"
SLIPS = [
    ("mind-cluster/group-name:group0", "a space is missing behind the colon", LABEL),
    ('mind-cluster/group-name:"group0"', "a space is missing", LABEL.replace("group0", '"group0"')),
    ("mind-cluster/group-name:\u00a0group0", "a no-break space (U+00A0)", LABEL),
    (
        'mind-cluster/group-name: "group0',
        "the quotes on this line do not pair up",
        LABEL.replace("group0", '"group0"'),
    ),
]


@pytest.mark.parametrize(("wrong", "words", "mended"), SLIPS)
def test_lint_says_what_is_wrong_and_shows_the_line_mended(
    wrong: str, words: str, mended: str
) -> None:
    (fault,) = said(JOB.format(wrong)).findings
    assert (fault.code, fault.line) == ("NotYaml", 6)
    assert words in fault.message
    assert fault.hint == f"write {mended}"


@pytest.mark.parametrize(
    "text", ["app_name:chat\n", "app_name:chat\nx: y\n", "x: y\napp_name:\u00a0chat\n"]
)
def test_a_short_file_without_a_space_behind_a_colon_is_told_so(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_service(text, framework=None)
    assert str(refused.value).endswith("; write app_name: chat")
    assert "behind the colon" in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        'a: it"s\nb: [1\n',
        "# a:b\nimage: repo/x:1\nb: [1\n",
        "url: http://x\nb: [1\n",
    ],
)
def test_what_is_right_is_not_blamed_for_a_mistake_elsewhere(text: str) -> None:
    (fault,) = values(text, "f")[1]
    assert "colon" not in fault.message
    assert "http" not in fault.hint
