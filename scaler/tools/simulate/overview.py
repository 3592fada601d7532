"""A simulation of many services as one SVG: how many serve, and the state of each, over time.

scaler.tools.simulate.picture draws few services. Must not: need a library, a font or a script."""

from __future__ import annotations

from enum import StrEnum

from scaler.decide.service.states import natural
from scaler.sim.stories.instances import Condition
from scaler.sim.stories.timeline import Sample, Timeline
from scaler.tools.simulate.picture import LEFT, RIGHT, WIDTH, Box, Picture

MANY = 6
"""From this number of services on, single instances are too small to be shown."""
_HEIGHT = 160.0  # of the chart


class Standing(StrEnum):
    """The state of a service; the value decides the colour."""

    WHOLE = "running"
    SERVES = "smallest"
    HALF = "starting"
    """The service has nodes and does not serve."""
    WAITS = "waiting"
    """Its pods have no nodes."""
    HELD = "empty"


_LABELS = {
    Standing.WHOLE: "serves at its largest ratio",
    Standing.SERVES: "serves",
    Standing.HALF: "has nodes, does not serve (yet)",
    Standing.WAITS: "only pods without nodes",
    Standing.HELD: "held",
}


def draw(timeline: Timeline, title: str) -> str:
    """The picture as SVG text, in the form for the number of services."""
    if len(timeline.samples) >= MANY:
        return Overview(timeline, title).text()
    return Picture(timeline, title).text()


def standing(sample: Sample) -> Standing:
    """The state of one service."""
    if sample.serves:
        return Standing.WHOLE if sample.complete else Standing.SERVES
    if any(view.nodes for view in sample.instances):
        return Standing.HALF
    waits = any(view.condition is not Condition.EMPTY for view in sample.instances)
    return Standing.WAITS if waits else Standing.HELD


class Overview(Picture):
    """One chart for all services, and one lane for each."""

    def _panels(self) -> None:
        self._chart()
        for service in sorted(self._timeline.samples, key=natural):
            spans = list(self._timeline.spans(service))
            name = service.partition("/")[0]
            self._write(LEFT - 8, self._y + 9, name[:24], "soft end")
            self._lane(
                [
                    (start, end, standing(sample))
                    for start, end, sample in spans
                    if sample.instances
                ],
                service,
            )
            self._y += 13
        self._y += 10
        for service in self._timeline.loads:
            self._write(20, self._y + 4, service, "service")
            self._y += 22
            self._load(service)

    def _chart(self) -> None:
        most = len(self._timeline.samples)
        base = self._y + _HEIGHT
        self._rect("panel", Box(LEFT, self._y - 4, WIDTH - LEFT - RIGHT, _HEIGHT + 4))
        for count in range(0, most + 1, max(1, most // 4)):
            y = base - count * _HEIGHT / most
            self._line("grid", LEFT, y, WIDTH - RIGHT, y)
            self._write(LEFT - 8, y + 4, str(count), "soft end")
        self._write(20, base - _HEIGHT / 2 + 4, "services that serve")
        spans = self._timeline.serving()
        self._stairs([(start, end, count * _HEIGHT / most) for start, end, count in spans], base)
        self._write(
            WIDTH - RIGHT - 6,
            base - spans[-1][2] * _HEIGHT / most - 6,
            f"{spans[-1][2]} of {most}",
            "end",
        )
        self._y = base + 14

    def _legend(self) -> None:
        x = float(LEFT)
        for each, label in _LABELS.items():
            x = self._key(each, label, x)
        self._y += 22
