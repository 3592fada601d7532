"""A simulation as one SVG: per service when it serves, what runs in each group, the target, every
instance's life, and the faults.

Self-contained, readable on light and dark background. Must not: need a library, a font or a
script."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from enum import StrEnum
from html import escape
from typing import NamedTuple

from scaler.decide.service.states import natural
from scaler.sim.stories.instances import Condition
from scaler.sim.stories.timeline import Moment, MomentKind, Sample, Timeline

WIDTH = 1000
LEFT = 190
RIGHT = 28
_UNIT = 16  # height of one instance in a step chart
_LANE = 13  # height of one instance's lane
_BAND = 14  # height of the band that shows when a service serves
_PAUSE_WORDS = 30  # width that the length of a pause needs
_BADGE = 18  # least distance of two events' badges
_CURVE = 48.0  # height of a chart of requests
_LANES = 16  # instances of a group, from which on only those that ever had nodes are shown, or none
_TITLE = 96  # characters of a title that fit on one line

Mark = tuple[float, float, str]
"""Begin, end and text of what the scenario did."""


class Box(NamedTuple):
    """A rectangle: its upper left corner and its size."""

    x: float
    y: float
    width: float
    height: float


_LIGHT = {
    "ink": "#1f2328",
    "soft": "#59636e",
    "line": "#d1d9e0",
    "paper": "#ffffff",
    "panel": "#f6f8fa",
    "target": "#8250df",
    "running": "#2da44e",
    "starting": "#d4a72c",
    "waiting": "#54aeff",
    "broken": "#cf222e",
    "empty": "#d1d9e0",
}
_DARK = {
    "ink": "#e6edf3",
    "soft": "#9198a1",
    "line": "#3d444d",
    "paper": "#0d1117",
    "panel": "#151b23",
    "target": "#ab7df8",
    "running": "#3fb950",
    "starting": "#d29922",
    "waiting": "#388bfd",
    "broken": "#f85149",
    "empty": "#2a313c",
}
_SHAPES = """
  text { font: 12px system-ui, "Segoe UI", "Noto Sans", "Noto Sans CJK SC", sans-serif; }
  .soft { font-size: 11px; } .title { font-size: 17px; font-weight: 600; }
  .service { font-size: 13px; font-weight: 600; }
  .number { fill: #ffffff; font-size: 10px; font-weight: 600; text-anchor: middle; }
  .smallest { fill-opacity: .5; } .steps { fill-opacity: .22; } \
.edge { fill: none; stroke-width: 2; }
  .target { fill: none; stroke-width: 1.5; stroke-dasharray: 5 3; }
  .event { stroke-width: 1; stroke-dasharray: 2 3; opacity: .75; }
  .end { text-anchor: end; } .mid { text-anchor: middle; }
"""


def _colours(of: dict[str, str]) -> str:
    """Plain rules instead of CSS variables: some viewers of SVG do not support these."""
    fills = {
        "paper": "paper",
        "panel": "panel",
        "steps": "running",
        "smallest": "running",
        "badge": "broken",
        "soft": "soft",
    }
    fills |= {str(condition): str(condition) for condition in Condition}
    strokes = {"grid": "line", "edge": "running", "target": "target", "event": "broken"}
    rules = [
        f"text {{ fill: {of['ink']}; }}",
        *(f".{css} {{ fill: {of[name]}; }}" for css, name in fills.items()),
    ]
    rules += [f".{css} {{ stroke: {of[name]}; }}" for css, name in strokes.items()]
    return " ".join(rules)


_STYLE = (
    f"\n  {_colours(_LIGHT)}\n  @media (prefers-color-scheme: dark) {{ {_colours(_DARK)}"
    f" }}{_SHAPES}"
)


def draw(timeline: Timeline, title: str) -> str:
    """The picture as SVG text."""
    return Picture(timeline, title).text()


class Picture:
    """A drawing from the top down; `_y` is the present height."""

    def __init__(self, timeline: Timeline, title: str) -> None:
        self._timeline = timeline
        self._title = title
        self._end = max(timeline.end, 1.0)
        self._events = _marks(timeline, _BADGE / (WIDTH - LEFT - RIGHT) * self._end)
        self._parts: list[str] = []
        self._y = 0.0

    def text(self) -> str:
        self._heading()
        top = self._y
        self._panels()
        self._event_lines(top, self._y)
        self._axis()
        self._legend()
        self._event_list()
        height = self._y + 16
        body = "\n".join(self._parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}"'
            f' viewBox="0 0 {WIDTH} {height:.0f}" role="img"'
            f' aria-label="{escape(_printable(self._title))}">\n<style>{_STYLE}</style>\n<rect'
            f' class="paper" width="{WIDTH}" height="{height:.0f}"/>\n{body}\n</svg>\n'
        )

    def _heading(self) -> None:
        for number, line in enumerate(textwrap.wrap(self._title, _TITLE) or [""]):
            self._write(20, 34.0 + 22 * number, line, "title")
            self._y = 76.0 + 22 * number

    def _panels(self) -> None:
        for service in self._timeline.samples:
            self._service(service)

    def _service(self, service: str) -> None:
        samples = self._timeline.samples[service]
        self._write(20, self._y + 4, service, "service")
        self._y += 18
        self._serving(service)
        for group in _groups(samples):
            self._steps(service, group)
            self._lanes(service, group)
            self._y += 12
        self._load(service)
        self._y += 10

    def _serving(self, service: str) -> None:
        """A band: when the service serves. The seconds stand in each pause in which they fit."""
        spans = list(self._timeline.spans(service))
        if not any(sample.serves for _, _, sample in spans):
            return
        self._write(20, self._y + 9, "serving")
        served = False
        for start, end, serves in _merged_serving(spans):
            served = served or serves
            colour = Condition.RUNNING if serves else Condition.BROKEN
            box = Box(self._x(start), self._y - 2, self._x(end) - self._x(start), _BAND)
            about = f"{'serving' if serves else 'not serving'} {start:.0f} s to {end:.0f} s"
            self._rect(colour if served else Condition.EMPTY, box, about)
            if served and not serves and box.width > _PAUSE_WORDS:
                words = f"{end - start:.0f} s"
                self._write(box.x + box.width / 2, self._y + 9, words, "number")
        self._y += _BAND + 10

    def _steps(self, service: str, group: str) -> None:
        spans = list(self._timeline.spans(service))
        running = [(start, end, sample.running.get(group, 0)) for start, end, sample in spans]
        target = [(start, end, sample.target.get(group, 0)) for start, end, sample in spans]
        most = max(1, *(count for _, _, count in running), *(count for _, _, count in target))
        base = self._y + most * _UNIT
        self._rect("panel", Box(LEFT, self._y - 4, WIDTH - LEFT - RIGHT, base - self._y + 4))
        for count in range(most + 1):
            self._line("grid", LEFT, base - count * _UNIT, WIDTH - RIGHT, base - count * _UNIT)
            self._write(LEFT - 8, base - count * _UNIT + 4, str(count), "soft end")
        self._write(20, base - (base - self._y) / 2 + 4, _name_of(group, spans))
        self._stairs([(start, end, count * _UNIT) for start, end, count in running], base)
        if any(sample.target for _, _, sample in spans):
            points = self._points(
                [(start, end, count * _UNIT) for start, end, count in target], base
            )
            self._parts.append(f'<polyline class="target" points="{_joined(points)}"/>')
        self._y = base + 6

    def _stairs(self, spans: Iterable[tuple[float, float, float]], base: float) -> None:
        """A line of heights above the base, and the area below it."""
        points = self._points(spans, base)
        if points:
            area = [(points[0][0], base), *points, (points[-1][0], base)]
            self._parts.append(f'<polygon class="steps" points="{_joined(area)}"/>')
            self._parts.append(f'<polyline class="edge" points="{_joined(points)}"/>')

    def _points(
        self, spans: Iterable[tuple[float, float, float]], base: float
    ) -> list[tuple[float, float]]:
        points = []
        for start, end, height in spans:  # a step: the value at both ends of its span
            points.append((self._x(start), base - height))
            points.append((self._x(end), base - height))
        return points

    def _load(self, service: str) -> None:
        """Requests that arrive, can be served, wait and are lost; on one scale for all services."""
        samples = self._timeline.loads.get(service, [])
        if samples:
            every = []
            for loads in self._timeline.loads.values():
                every.extend(loads)
            spans = [(sample.at, sample.end) for sample in samples]
            lost = f"lost, of {samples[-1].arrived:,.0f}"
            self._curves(
                "requests per second",
                spans,
                ([s.rate for s in samples], [s.able for s in samples]),
                max(max(s.rate, s.able) for s in every),
            )
            self._area(
                "waiting",
                "requests waiting",
                spans,
                [s.queue for s in samples],
                max(s.queue for s in every),
            )
            self._area("broken", lost, spans, [s.lost for s in samples], max(s.lost for s in every))

    def _curves(
        self,
        about: str,
        spans: Sequence[tuple[float, float]],
        curves: tuple[list[float], list[float]],
        most: float,
    ) -> None:
        base, unit = self._chart_of(about, most)
        for css, values in zip(("target", "edge"), curves, strict=True):
            points = self._points(self._highest(spans, values, unit), base)
            self._parts.append(f'<polyline class="{css}" points="{_joined(points)}"/>')

    def _area(
        self,
        css: str,
        about: str,
        spans: Sequence[tuple[float, float]],
        values: list[float],
        most: float,
    ) -> None:
        base, unit = self._chart_of(about, most)
        points = self._points(self._highest(spans, values, unit), base)
        area = [(points[0][0], base), *points, (points[-1][0], base)]
        self._parts.append(f'<polygon class="{css}" points="{_joined(area)}"/>')

    def _chart_of(self, about: str, most: float) -> tuple[float, float]:
        """An empty chart up to `most`: its base, and the height of one unit."""
        most = max(1.0, most)
        base = self._y + _CURVE
        self._rect("panel", Box(LEFT, self._y - 4, WIDTH - LEFT - RIGHT, _CURVE + 4))
        for part in (0.0, 0.5, 1.0):
            self._line("grid", LEFT, base - part * _CURVE, WIDTH - RIGHT, base - part * _CURVE)
            self._write(
                LEFT - 8,
                base - part * _CURVE + 4,
                f"{part * most:,.{0 if most >= 4 else 1}f}",
                "soft end",
            )
        self._write(20, base - _CURVE / 2 + 4, about)
        self._y = base + 14
        return base, _CURVE / most

    def _highest(
        self, spans: Sequence[tuple[float, float]], values: list[float], unit: float
    ) -> list[tuple[float, float, float]]:
        """The highest of all spans that begin on the same pixel, equal neighbours as one."""
        columns: dict[int, tuple[float, float, float]] = {}
        for (start, end), value in zip(spans, values, strict=True):
            first, _, highest = columns.get(int(self._x(start)), (start, end, 0.0))
            columns[int(self._x(start))] = (first, end, max(value * unit, highest))
        merged: list[tuple[float, float, float]] = []
        for start, end, height in columns.values():
            same = merged and merged[-1][2] == height
            merged.append((merged.pop()[0] if same else start, end, height))
        return merged

    def _lanes(self, service: str, group: str) -> None:
        spans = list(self._timeline.spans(service))
        views = []
        for _, _, sample in spans:
            for view in sample.instances:
                if view.group == group:
                    views.append(view)
        names = dict.fromkeys(view.name for view in views)
        if len(names) > _LANES:
            found = []
            for one in views:
                if one.nodes:
                    found.append(one.name)
            names = dict.fromkeys(found)
        if len(names) > _LANES:
            return
        for name in sorted(names, key=natural):
            self._write(LEFT - 8, self._y + 9, _short(name), "soft end")
            self._lane(
                [(start, end, _condition(sample, name)) for start, end, sample in spans], name
            )
            self._y += _LANE

    def _lane(self, spans: Iterable[tuple[float, float, StrEnum | None]], name: str) -> None:
        for start, end, condition in _merged(spans):
            if condition is not None and end > start:
                about = f"{name}: {condition} {start:.0f} s to {end:.0f} s"
                box = Box(self._x(start), self._y, self._x(end) - self._x(start), _LANE - 4)
                self._rect(condition, box, about)

    def _event_lines(self, top: float, bottom: float) -> None:
        for number, (at, _, _) in enumerate(self._events, start=1):
            x = self._x(at)
            self._line("event", x, top - 16, x, bottom)
            self._parts.append(f'<circle class="badge" cx="{x:.1f}" cy="{top - 22:.1f}" r="8"/>')
            self._write(x, top - 18.5, str(number), "number")

    def _axis(self) -> None:
        self._line("grid", LEFT, self._y, WIDTH - RIGHT, self._y)
        step = _tick(self._end)
        for index in range(int(self._end // step) + 1):
            self._line("grid", self._x(index * step), self._y, self._x(index * step), self._y + 5)
            self._write(self._x(index * step), self._y + 18, _time(index * step), "soft mid")
        self._y += 40

    def _legend(self) -> None:
        x = float(LEFT)
        for condition in (
            Condition.RUNNING,
            Condition.STARTING,
            Condition.WAITING,
            Condition.BROKEN,
            Condition.EMPTY,
        ):
            x = self._key(
                condition, "held or none" if condition is Condition.EMPTY else str(condition), x
            )
        self._line("target", x, self._y - 4, x + 24, self._y - 4)
        words = (
            "target; of requests: those that come, below what can be served"
            if self._timeline.loads
            else "target"
        )
        self._write(x + 30, self._y, words, "soft")
        self._y += 22

    def _key(self, css: str, label: str, x: float) -> float:
        """One entry of the legend; returns where the next begins."""
        self._rect(css, Box(x, self._y - 9, 12, 9))
        self._write(x + 17, self._y, label, "soft")
        return x + 34 + 6.2 * len(label)

    def _event_list(self) -> None:
        for number, (at, end, words) in enumerate(self._events, start=1):
            until = f", until {_time(end)}" if int(end) > int(at) else ""
            self._parts.append(
                f'<circle class="badge" cx="{LEFT + 7}" cy="{self._y - 4:.1f}" r="8"/>'
            )
            self._write(LEFT + 7, self._y - 0.5, str(number), "number")
            self._write(LEFT + 24, self._y, _time(at), "soft")
            self._write(LEFT + 84, self._y, words + until, "soft")
            self._y += 19

    def _x(self, moment: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * min(1.0, moment / self._end)

    def _write(self, x: float, y: float, text: str, css: str = "") -> None:
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" class="{css}">{escape(_printable(text))}</text>'
        )

    def _line(self, css: str, x1: float, y1: float, x2: float, y2: float) -> None:
        self._parts.append(
            f'<line class="{css}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'
        )

    def _rect(self, css: str, box: Box, about: str = "") -> None:
        hint = f"<title>{escape(_printable(about))}</title>" if about else ""
        corner = f'x="{box.x:.1f}" y="{box.y:.1f}"'
        place = f'{corner} width="{box.width:.1f}" height="{box.height:.1f}" rx="2"'
        self._parts.append(f'<rect class="{css}" {place}>{hint}</rect>')


def _marks(timeline: Timeline, apart: float) -> list[Mark]:
    """The events of the scenario. Events less than `apart` seconds apart share one mark."""
    bursts: list[list[Moment]] = []
    for moment in timeline.moments:
        if moment.kind is MomentKind.EVENT:
            if not bursts or moment.at - bursts[-1][-1].at >= apart:
                bursts.append([])
            bursts[-1].append(moment)
    found: list[Mark] = []
    for burst in bursts:
        found.append((burst[0].at, burst[-1].at, _together([event.text for event in burst])))
    return found


def _together(texts: list[str]) -> str:
    shown = "; ".join(texts[:3])
    return f"{shown}; and {len(texts) - 3} more" if len(texts) > 3 else shown


def _groups(samples: Sequence[Sample]) -> list[str]:
    found = []
    for sample in samples:
        for view in sample.instances:
            found.append(view.group)
        found += sample.target
    return sorted(dict.fromkeys(found), key=natural)


def _condition(sample: Sample, name: str) -> Condition | None:
    for view in sample.instances:
        if view.name == name:
            return view.condition
    return None


def _name_of(group: str, spans: Iterable[tuple[float, float, Sample]]) -> str:
    """`prefill (group0)` where the instances say their role, otherwise the name alone."""
    for _, _, sample in spans:
        for view in sample.instances:
            if view.group == group and view.role:
                return f"{view.role} ({group})"
    return group


def _merged_serving(
    spans: Iterable[tuple[float, float, Sample]],
) -> list[tuple[float, float, bool]]:
    """From, to, and whether the service serves; equal neighbours as one."""
    merged: list[tuple[float, float, bool]] = []
    for start, end, sample in spans:
        if merged and merged[-1][2] == sample.serves:
            merged[-1] = (merged[-1][0], end, sample.serves)
        else:
            merged.append((start, end, sample.serves))
    return merged


def _merged(
    spans: Iterable[tuple[float, float, StrEnum | None]],
) -> list[tuple[float, float, StrEnum | None]]:
    """Neighbouring spans of one condition as one."""
    merged: list[tuple[float, float, StrEnum | None]] = []
    for start, end, condition in spans:
        if merged and merged[-1][2] == condition:
            merged[-1] = (merged[-1][0], end, condition)
        else:
            merged.append((start, end, condition))
    return merged


def _joined(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _short(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:10]}...{name[-11:]}"


def _printable(text: str) -> str:
    """Without the control characters that XML does not allow."""
    return "".join(char if char.isprintable() else " " for char in text)


def _tick(end: float) -> float:
    steps = (10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)
    return float(next((step for step in steps if end / step <= 12), steps[-1]))


def _time(seconds: float) -> str:
    """`0 s`, `90 s`, `5 min`, `2:30 min`, `1:05 h`."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min" if whole % 60 == 0 else f"{whole // 60}:{whole % 60:02} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02} h"
