"""`scaler run`: the controller itself, in a cluster or against a kubeconfig, until SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TextIO, cast

from scaler.clock import Clock, SteadyLoop
from scaler.garbage import what_stays_spared
from scaler.settings import Settings, SettingsError, add_arguments, load
from scaler.timestamps import rfc3339_micro

if TYPE_CHECKING:
    from scaler.app import Notes
    from scaler.kube.api import Resource
    from scaler.report.lines import LineWriter

__all__ = ["HELP", "add_arguments", "run", "run_against"]  # the first three are what a command has

HELP = """Run the controller.

In a pod with its service account, elsewhere with --kubeconfig. Every setting is a flag.

Exit code: 0 stopped, 1 a task died or leadership was lost, 2 usage."""

EXIT_FAILED = 1
SWITCH_INTERVAL = 0.001
"""Seconds for which one busy thread may keep the interpreter from another: a fifth of Python's
default, so that a flood of requests in the webhook's thread delays decisions less."""
EXIT_USAGE = 2
LAST_WORDS = 2.0
"""Seconds for the last lines of the log to be written when the process ends."""


def run(args: argparse.Namespace, notes: Notes | None = None) -> int:
    """0 after SIGTERM or SIGINT, 1 when a task died or leadership was lost, 2 for invalid settings,
    also if only in conflict with another install."""
    try:
        settings = load(args, os.environ)
    except SettingsError as error:
        sys.stderr.write(f"scaler run: {error}\n")
        return EXIT_USAGE
    sys.setswitchinterval(SWITCH_INTERVAL)
    with _written_by_threads() as logs, asyncio.Runner(loop_factory=SteadyLoop) as runner:
        return runner.run(_main(settings, logs, notes))


@contextlib.contextmanager
def _written_by_threads() -> Iterator[tuple[LineWriter, ...]]:
    """Streams for the log and for stderr that hold nobody up: a full disk, or a pipe that nobody
    reads, must not stop the controller."""
    from scaler.report.lines import LineWriter, descriptor_of  # noqa: PLC0415 - as `_main`

    stderr = sys.stderr
    out = LineWriter(descriptor_of(sys.stdout), "stdout", time.monotonic)
    err = LineWriter(descriptor_of(stderr), "stderr", time.monotonic)
    sys.stderr = cast("TextIO", err)
    try:
        yield out, err
    finally:
        sys.stderr = stderr
        out.close(LAST_WORDS)
        err.close(LAST_WORDS)


async def _main(settings: Settings, logs: Sequence[LineWriter], notes: Notes | None) -> int:
    import structlog  # noqa: PLC0415 - `scaler run --help` stays fast

    from scaler.installs import OverlapError  # noqa: PLC0415
    from scaler.kube.errors import KubeError  # noqa: PLC0415
    from scaler.report import stacks  # noqa: PLC0415
    from scaler.report.log import Level, configure  # noqa: PLC0415

    loop = asyncio.get_running_loop()
    clock = Clock()
    configure(
        settings.log_format,
        settings.log_level,
        timestamp=lambda: rfc3339_micro(time.time()),
        stream=cast("TextIO", logs[0]),
    )
    log = structlog.get_logger("run")
    controller = loop.create_task(run_against(settings, clock, notes, logs))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, controller.cancel, number.name)
    loop.add_signal_handler(signal.SIGUSR1, Level(settings.log_level).toggle)
    stacks.write_on(signal.SIGUSR2)
    try:
        await controller
    except asyncio.CancelledError as stop:
        log.info("stopped", signal=str(stop))
        return 0
    except Exception as error:
        causes = _leaves(error)
        for cause in causes:
            # Errors of a cluster or of its configuration are one message each; a traceback means a
            # bug of the scaler.
            trace = None if isinstance(cause, KubeError | OverlapError) else cause
            log.error("ended", error=f"{type(cause).__name__}: {cause}", exc_info=trace)
        if any(isinstance(cause, OverlapError) for cause in causes):
            return EXIT_USAGE
    return EXIT_FAILED


async def run_against(
    settings: Settings,
    clock: Clock,
    notes: Notes | None = None,
    logs: Sequence[LineWriter] = (),
) -> None:
    """Run the controller against the cluster of the settings, until cancelled. KubeError when there
    is none. A metric and `/readyz` say of which `logs` lines are lost."""
    import structlog  # noqa: PLC0415

    from scaler.app import App  # noqa: PLC0415
    from scaler.kube.client import connect  # noqa: PLC0415
    from scaler.report import stacks  # noqa: PLC0415
    from scaler.report.metrics import Metrics  # noqa: PLC0415

    metrics = Metrics()
    for stream in logs:
        metrics.log_lines_dropped.follow(partial(getattr, stream, "dropped"), stream.name)
    log = structlog.get_logger("client")

    def answered(verb: str, resource: Resource, seconds: float, date: float | None) -> None:
        metrics.requests.labels(verb, resource.full_name).observe(seconds)
        log.debug("request", verb=verb, resource=resource.full_name, seconds=round(seconds, 6))
        if date is not None:
            clock.saw(date, seconds)

    connected = partial(
        connect,
        kubeconfig=settings.kubeconfig or None,
        context=settings.context or None,
        request_timeout=settings.request_timeout,
        answered=answered,
    )
    with what_stays_spared():
        async with connected() as api, asyncio.TaskGroup() as beside:
            beside.create_task(stacks.watch())
            await App(
                api,
                settings,
                clock,
                metrics=metrics,
                connect=connected,
                notes=notes,
                remarks=lambda: [stream.problem for stream in logs if stream.problem],
            ).run()


def _leaves(error: Exception) -> list[Exception]:
    """The errors themselves, without the exception groups of TaskGroups."""
    if not isinstance(error, ExceptionGroup):
        return [error]
    return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
