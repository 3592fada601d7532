"""Logging, set up once: structlog and the standard library to one stream, as JSON per line or text
for people."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from typing import Any, TextIO

import structlog

from scaler.settings import LogFormat, LogLevel

MAX_FIELD = 4096
"""Characters of one field; a longer one is cut and marked."""
MAX_FIELDS = 64
REDACTED = "[redacted]"
_SECRET = re.compile(r"(?i)token|passw|secret|authorization|credential|private.?key|client.?key")
_BEARER = re.compile(r"(?i)\bbearer\s+\S+")

Event = MutableMapping[str, Any]


def configure(
    log_format: LogFormat,
    level: LogLevel,
    *,
    timestamp: Callable[[], str],
    stream: TextIO | None = None,
) -> None:
    """Set up logging of the whole process. `timestamp` returns now as text."""
    out = stream or sys.stdout

    def stamp(_logger: Any, _method: str, event: Event) -> Event:
        with suppress(RuntimeError):  # no time before the loop runs
            event["timestamp"] = timestamp()
        return event

    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        stamp,
        structlog.processors.format_exc_info,
        _bound,
    ]
    renderer: Any = structlog.processors.JSONRenderer(ensure_ascii=False, default=str)
    if log_format == "text":
        renderer = structlog.dev.ConsoleRenderer(
            colors=False, exception_formatter=structlog.dev.plain_traceback
        )
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(_number(level)),
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    of_libraries = logging.StreamHandler(out)
    processors = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer]
    of_libraries.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=processors)
    )
    root = logging.getLogger()
    root.handlers[:] = [of_libraries]
    # Debug lines of these libraries are about sockets, not about services.
    root.setLevel(max(_number(level), logging.WARNING))


class Level:
    """The log level, which may change while the process runs: between the configured level and
    debug."""

    def __init__(self, level: LogLevel) -> None:
        self._set = level
        self._now = level

    def toggle(self) -> None:
        self._now = "debug" if self._now == self._set else self._set
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(_number(self._now)))
        structlog.get_logger("log").warning("log level", now=self._now)


def _number(level: LogLevel) -> int:
    return logging.getLevelNamesMapping()[level.upper()]


def _bound(_logger: Any, _method: str, event: Event) -> Event:
    """Remove secrets, and cut long fields: a log collector would cut the line in the middle."""
    for key in list(event)[MAX_FIELDS:]:
        del event[key]
    for key, value in event.items():
        if not key.startswith("_"):  # keys of structlog itself
            event[key] = REDACTED if _SECRET.search(key) else _short(value)
    return event


def _short(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else repr(value)
    safe = _BEARER.sub(REDACTED, text)
    if len(safe) > MAX_FIELD:
        safe = f"{safe[:MAX_FIELD]}... ({len(safe)} characters)"
    return value if safe == text else safe
