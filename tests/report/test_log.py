"""Log lines: one JSON object each, bounded, without secrets, also for what libraries log."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from scaler.clock import Clock
from scaler.report.log import MAX_FIELD, MAX_FIELDS, Level, configure
from scaler.sim.loop import run


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers = root.handlers[:]
    level = root.level
    stream = io.StringIO()
    configure("json", "info", timestamp=Clock(0.0).micro_timestamp, stream=stream)
    yield stream
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def line(out: io.StringIO) -> Any:
    (text,) = out.getvalue().splitlines()
    return json.loads(text)


def test_a_line_is_a_json_object(out: io.StringIO) -> None:
    structlog.get_logger().info("plan", service="a/b/c", target={"group0": 1})
    assert line(out) == {
        "event": "plan",
        "level": "info",
        "service": "a/b/c",
        "target": {"group0": 1},
    }


def test_a_logger_made_before_the_set_up_obeys_it_too() -> None:
    early = structlog.get_logger("early")
    stream = io.StringIO()
    configure("json", "info", timestamp=Clock(0.0).micro_timestamp, stream=stream)
    early.info("hello")
    structlog.reset_defaults()
    assert line(stream)["event"] == "hello"


def test_time_is_told_once_there_is_a_loop(out: io.StringIO) -> None:
    async def main() -> None:
        structlog.get_logger().info("plan")

    run(main())
    assert line(out)["timestamp"] == "1970-01-01T00:00:00.000000Z"


def test_less_severe_lines_are_left_out(out: io.StringIO) -> None:
    structlog.get_logger().debug("detail")
    assert out.getvalue() == ""


def test_long_fields_are_cut_and_say_so(out: io.StringIO) -> None:
    structlog.get_logger().info("plan", text="x" * 100_000, things=list(range(100_000)))
    found = line(out)
    assert found["text"].endswith("... (100000 characters)")
    assert max(len(found["text"]), len(found["things"])) < MAX_FIELD + 50


def test_too_many_fields_are_cut(out: io.StringIO) -> None:
    structlog.get_logger().info("plan", **{f"field{n}": n for n in range(1000)})
    assert len(line(out)) <= MAX_FIELDS


@pytest.mark.parametrize("key", ["token", "Authorization", "client_key_data", "password"])
def test_secrets_are_not_logged(out: io.StringIO, key: str) -> None:
    structlog.get_logger().info("login", **{key: "abc"})
    assert line(out)[key] == "[redacted]"


def test_a_bearer_token_inside_a_text_is_not_logged(out: io.StringIO) -> None:
    structlog.get_logger().info(
        "request", headers={"X": "Bearer abc.def"}, text="sent Bearer abc.def"
    )
    assert "abc.def" not in out.getvalue()


def test_an_exception_is_one_line_too(out: io.StringIO) -> None:
    try:
        raise ZeroDivisionError("oh")
    except ZeroDivisionError:
        structlog.get_logger().exception("failed")
    assert "ZeroDivisionError: oh" in line(out)["exception"]


def test_what_libraries_log_comes_out_the_same_way(out: io.StringIO) -> None:
    logging.getLogger("asyncio").error(
        "Task exception was never retrieved: %s", "x", exc_info=ValueError("v")
    )
    found = line(out)
    assert (found["event"], found["level"]) == ("Task exception was never retrieved: x", "error")
    assert "ValueError: v" in found["exception"]


def test_text_is_for_people(out: io.StringIO) -> None:
    configure("text", "info", timestamp=Clock(0.0).micro_timestamp, stream=out)
    structlog.get_logger().warning("plan", service="a/b/c")
    assert out.getvalue().split() == ["[warning", "]", "plan", "service=a/b/c"]


def test_the_level_is_toggled_while_the_process_runs_for_loggers_that_exist_already(
    out: io.StringIO,
) -> None:
    log = structlog.get_logger("early")
    level = Level("info")
    for _ in range(2):
        log.debug("detail")
        level.toggle()
    log.debug("no more")
    events = [json.loads(text)["event"] for text in out.getvalue().splitlines()]
    assert events == ["log level", "detail", "log level"]
