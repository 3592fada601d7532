"""The demo's screen: one line per event, and below them a board with every instance as a glyph.

On a terminal the board is redrawn in place, with pauses for the reader; elsewhere plain lines are
printed at once. Must not: influence the simulation."""

from __future__ import annotations

import shutil
import textwrap
import time
from collections.abc import Callable
from typing import TextIO

from scaler.sim.stories.instances import Condition, InstanceView
from scaler.sim.stories.timeline import Moment, MomentKind, Sample, Timeline

GLYPHS = {
    Condition.RUNNING: ("●", "32"),
    Condition.STARTING: ("◐", "33"),
    Condition.WAITING: ("◌", "34"),
    Condition.BROKEN: ("✗", "31"),
    Condition.EMPTY: ("○", "2"),
}
_MARKS = {
    MomentKind.EVENT: ("▶", "1;35"),
    MomentKind.INSTANCE: ("·", "0"),
    MomentKind.TARGET: ("◆", "1;36"),
    MomentKind.WARNING: ("▲", "1;33"),
    MomentKind.FAILURE: ("✗", "1;31"),
}
_PLAIN = {
    "Running": "runs",
    "Starting": "starts, all its pods are bound",
    "WaitingForScheduler": "admitted, waits for the scheduler",
}
"""Reasons with a short explanation for the demo."""

_PAUSE_EVENT = 2.2  # seconds of real time before something happens to the cluster
_PAUSE_MOMENT = 0.25
_PAUSE_MOST = 0.9
_PER_SECOND = 0.03  # seconds of real time per second of the simulation


class Screen:
    """Gets events (`tell`) and shows them. `paced` waits between them; `live` has colours and a
    board (a terminal)."""

    def __init__(self, out: TextIO, timeline: Timeline, *, live: bool, paced: bool) -> None:
        self._out = out
        self._timeline = timeline
        self._live = live
        self._paced = paced
        self._board_height = 0
        self._last = 0.0
        self._sleep: Callable[[float], None] = time.sleep  # pauses for the reader, in real time

    def tell(self, moment: Moment) -> None:
        """Show one event, after a pause for the reader."""
        if self._paced:
            self._pause(moment)
        self._clear_board()
        for line in self._lines(moment):
            self._out.write(f"{line}\n")
        self._draw_board(moment.at)
        self._out.flush()

    def close(self) -> None:
        """Leave the last board below the events."""
        self._clear_board()
        self._draw_board(self._timeline.end or self._last)
        self._board_height = 0
        self._out.flush()

    def paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._live and code != "0" else text

    def _pause(self, moment: Moment) -> None:
        gap = moment.at - self._last
        self._last = moment.at
        pause = (
            _PAUSE_EVENT
            if moment.kind is MomentKind.EVENT
            else min(_PAUSE_MOST, _PAUSE_MOMENT + gap * _PER_SECOND)
        )
        self._sleep(pause)

    def _lines(self, moment: Moment) -> list[str]:
        mark, code = _MARKS[moment.kind]
        subject = f"{short(moment.subject)} " if moment.kind is MomentKind.INSTANCE else ""
        text = _PLAIN.get(moment.text.partition(":")[0], moment.text) if subject else moment.text
        if moment.service and len(self._timeline.samples) > 1:
            text = f"{text}  [{moment.service}]"
        indent = " " * 10
        width = max(40, self._width() - 1)
        body = textwrap.wrap(subject + text, width - len(indent), break_long_words=False) or [""]
        first, *rest = body
        lines = [f"{clock(moment.at)}  {self.paint(f'{mark} {first}', code)}"]
        lines += [f"{indent}{self.paint(line, code)}" for line in rest]
        return ["", *lines] if moment.kind is MomentKind.EVENT else lines

    def _width(self) -> int:
        """The width of lines: that of the terminal; without a limit in a file."""
        return min(120, shutil.get_terminal_size().columns) if self._live else 10_000

    def _clear_board(self) -> None:
        if self._live and self._board_height:
            self._out.write(f"\x1b[{self._board_height}F\x1b[J")
        self._board_height = 0

    def _draw_board(self, now: float) -> None:
        if not self._live:
            return
        lines = [""]
        for service in self._timeline.samples:
            lines.extend(self.board(service, now))
        for line in lines:
            self._out.write(f"{line}\n")
        self._board_height = len(lines)

    def board(self, service: str, now: float) -> list[str]:
        """One service: groups as rows, instances as glyphs, running against target."""
        sample = self._timeline.last(service)
        rows = [self.paint(f" {clock(now)}  {service}", "1") + "  " + self._standing(sample)]
        groups = sorted({view.group for view in sample.instances} | set(sample.target))
        rows += [self._row(sample, group) for group in groups]
        return rows

    def _standing(self, sample: Sample) -> str:
        return self.paint("complete", "32") if sample.complete else self.paint("on its way", "33")

    def _row(self, sample: Sample, group: str) -> str:
        views = [view for view in sample.instances if view.group == group]
        running = sample.running.get(group, 0)
        target = sample.target.get(group, 0)
        glyphs = "   ".join(self._glyph(view) for view in views)
        return f"        {group}  {running} of {target}   {glyphs}"

    def _glyph(self, view: InstanceView) -> str:
        glyph, code = GLYPHS[view.condition]
        where = f" on {', '.join(view.nodes)}" if view.nodes else ""
        return self.paint(f"{glyph} {short(view.name)}{where}", code)


def short(name: str) -> str:
    """`p0` for `mindie-server-p0`: the short name for people."""
    return name.removeprefix("mindie-server-")


def clock(seconds: float) -> str:
    """Minutes and seconds: `04:05`."""
    whole = int(seconds)
    return f"{whole // 60:02}:{whole % 60:02}"
