"""Services on a terminal: all at a glance, and one as a tree. Must not read a cluster or decide
anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from scaler.decide.explain import counts_in_words
from scaler.rules.short import in_short
from scaler.rules.values import as_count, as_list, as_text, at
from scaler.timestamps import seconds_of
from scaler.tools.common.console import age, clean, text
from scaler.tools.common.detail import (
    InstanceView,
    PodView,
    ServiceDetail,
    is_drained,
    is_true,
    ratio_of,
    stages_of,
    urgency,
    wanted,
)
from scaler.tools.common.records import condition
from scaler.tools.common.view import ServiceView

CONDITIONS = ("Available", "Complete", "Degraded", "RuleValid", "ScalingLimited")
_STYLES = {
    "Running": "green",
    "Finished": "dim",
    "Held": "blue",
    "Broken": "bold red",
    "Terminating": "yellow",
    "Starting": "yellow",
    "Admitted": "yellow",
}
_GLYPHS = {"Running": "●", "Broken": "✗", "Held": "○", "Finished": "·", "Terminating": "◌"}
_ASCII = {"Running": "*", "Broken": "X", "Held": "o", "Finished": ".", "Terminating": "~"}
_PODS_SHOWN = 8
_EVENTS_SHOWN = 8


class Style:
    """How much is shown, and at what time. `ascii_only`: the terminal has no other characters;
    `narrow`: no room for text beside the columns."""

    def __init__(
        self,
        now: float,
        *,
        wide: bool = False,
        namespaces: bool = False,
        ascii_only: bool = False,
        narrow: bool = False,
    ) -> None:
        self.now = now
        self.narrow = narrow and not wide
        self.columns = 0
        """Of the screen; 0 for no limit."""
        self.wide = wide
        self.namespaces = namespaces
        self.ascii_only = ascii_only

    def since(self, moment: Any) -> str:
        """The age since this time, which has the format of Kubernetes."""
        began = seconds_of(as_text(moment))
        return age(self.now - began) if began else "-"

    def glyph(self, state: str) -> str:
        return (_ASCII if self.ascii_only else _GLYPHS).get(state, "+" if self.ascii_only else "◐")

    @property
    def arrow(self) -> str:
        return "<-" if self.ascii_only else "←"


# All services


def overview(views: Sequence[ServiceView], style: Style) -> RenderableType:
    """One line for each service, the worst first, with why it is not complete; if narrow, the
    reasons are below."""
    columns = _columns(style, limited=any(wanted(view) != "all" for view in views))
    ordered = sorted(views, key=urgency)
    if style.narrow and _is_too_wide(ordered, columns, style.columns):
        return Group(*_stacked(ordered, columns))
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name, _ in columns:
        table.add_column(
            name,
            overflow="fold",
            no_wrap=name in ("SINCE", "RATIO", "AVAILABLE", "RUNNING", "TARGET", "RULE"),
        )
    parts: list[RenderableType] = [table]
    for view in ordered:
        table.add_row(*(cell(view) for _, cell in columns))
    waiting = [view for view in ordered if _why(view)] if style.narrow else []
    if waiting:
        parts.append(Text())
    parts += [
        Text.assemble(text(f"{label(view)}: ", tone(view)), text(_why(view))) for view in waiting
    ]
    return Group(*parts)


Columns = list[tuple[str, Callable[[ServiceView], Text]]]
_NAMES = ("NAMESPACE", "SERVICE")
_BETWEEN = 2
"""Spaces between columns."""


def _widths(views: Sequence[ServiceView], columns: Columns) -> list[int]:
    found = []
    for name, cell in columns:
        found.append(max([len(name), *(cell(view).cell_len for view in views)]))
    return found


def _is_too_wide(views: Sequence[ServiceView], columns: Columns, most: int) -> bool:
    """Whether names would have to be broken to fit."""
    widths = _widths(views, columns)
    return 0 < most < sum(widths) + _BETWEEN * (len(widths) - 1)


def _stacked(views: Sequence[ServiceView], columns: Columns) -> Iterator[RenderableType]:
    """Each service with its whole name on a line of its own, its columns and its reason below."""
    shown = [(name, cell) for name, cell in columns if name not in _NAMES]
    named = any(name == "NAMESPACE" for name, _ in columns)
    widths = _widths(views, shown)
    heads = [Text(name, style="bold") for name, _ in shown]
    yield _line(heads, widths)
    for view in views:
        where = f"{view.key.namespace}/" if named else ""
        yield text(f"{where}{label(view)}", tone(view))
        yield _line([cell(view) for _, cell in shown], widths)
        if why := _why(view):
            yield Padding(text(why), (0, 0, 0, _BETWEEN))


def _line(cells: Sequence[Text], widths: Sequence[int]) -> Text:
    """Cells in columns of these widths, behind a margin."""
    made = Text(" " * _BETWEEN)
    for cell, width in zip(cells, widths, strict=True):
        made.append_text(cell)
        made.append(" " * (width - cell.cell_len + _BETWEEN))
    made.rstrip()
    return made


def _columns(style: Style, *, limited: bool) -> list[tuple[str, Callable[[ServiceView], Text]]]:
    found: list[tuple[str, Callable[[ServiceView], Text]]] = []
    if style.namespaces:
        found.append(("NAMESPACE", lambda view: text(view.key.namespace)))
    found += [
        ("SERVICE", lambda view: text(label(view), tone(view))),
        ("AVAILABLE", lambda view: _truth(view, "Available")),
        ("RATIO", lambda view: text(ratio_of(view))),
        ("RUNNING", lambda view: text(view.status.get("running", "-"))),
        ("TARGET", lambda view: text(view.status.get("target", "-"))),
    ]
    if limited or style.wide:
        found.append(("WANTED", lambda view: text(wanted(view))))
    found += [
        ("RULE", _state_of_rule),
        ("SINCE", lambda view: text(style.since(view.status.get("since")))),
    ]
    if style.wide:
        found += [
            ("COMPLETE", lambda view: _truth(view, "Complete")),
            ("DEGRADED", lambda view: _truth(view, "Degraded")),
            ("CONFIGMAP", lambda view: text(view.key.rule)),
            ("JOBID", lambda view: text(view.key.job_id or "-")),
            ("REASON", lambda view: text(view.status.get("reason", "-"))),
        ]
    return found if style.narrow else [*found, ("WHY", lambda view: text(_why(view)))]


def label(view: ServiceView) -> str:
    """The name for people: that of the ElasticService, or the one that it would have."""
    return view.name or view.key.shown.partition("/")[2]


def tone(view: ServiceView) -> str:
    rank = urgency(view)[0]
    if rank == 0:
        return "bold red"
    return "yellow" if rank < 4 else "green"


def _why(view: ServiceView) -> str:
    reason, message = (as_text(view.status.get(name)) for name in ("reason", "message"))
    return "" if reason == "Complete" else message or reason


def _state_of_rule(view: ServiceView) -> Text:
    """`ok`, `invalid`, `paused`; `-` where the service names no rule or an older version wrote."""
    state = as_text(at(view.status, "rule").get("state")) or "-"
    return text(state, "" if state in ("ok", "-") else "yellow")


def _truth(view: ServiceView, kind: str) -> Text:
    holds = is_true(view, kind)
    good = holds if kind in ("Available", "Complete", "RuleValid") else holds is False
    return text("?" if holds is None else holds, "" if good or holds is None else "yellow")


# One service


def tree(detail: ServiceDetail, style: Style) -> RenderableType:
    """One service: conditions, the ladder and its position on it, groups with instances and pods,
    events."""
    view = detail.view
    colour = tone(view)
    head = Text.assemble(
        text(
            f"{view.key.namespace}/{label(view)}",
            colour if colour.startswith("bold") else f"bold {colour}",
        ),
        text(f"   rule {view.key.rule}, jobID {view.key.job_id or '-'}", "dim"),
    )
    parts: list[RenderableType] = [head, _conditions(view, style)]
    if _why(view):
        parts += [Text(), _titled("why" if view.replicas else "rests", text(_why(view)))]
    title = Text.assemble(
        text("ratios, largest first", "bold"), text(f"   instances wanted: {wanted(view)}", "dim")
    )
    parts += [*_notes(view), Text(), title, _ladder(detail, style)]
    for name in _groups(detail):
        parts += [Text(), _group(name, detail, style)]
    left = as_count(at(view.status, "leftOut").get("instances"))
    if left:
        parts.append(text(f"... and {left} more instances that the status has no room for", "dim"))
    if detail.events:
        parts += [Text(), text("events, newest last", "bold"), _events(detail, style)]
    return Group(*parts)


def _titled(title: str, words: Text) -> RenderableType:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_row(text(title, "bold"), words)
    return grid


def _conditions(view: ServiceView, style: Style) -> RenderableType:
    grid = Table.grid(padding=(0, 2, 0, 0))
    for kind in CONDITIONS:
        found = condition(view.status, kind)
        if found:
            words = as_text(found.get("message"))
            about = "" if words == _why(view) else words
            since = style.since(found.get("lastTransitionTime"))
            grid.add_row(
                Text("  " + kind),
                _truth(view, kind),
                text(since),
                text(found.get("reason", "")),
                text(about),
            )
    return grid


def _notes(view: ServiceView) -> Iterable[RenderableType]:
    for name, title in (("outOfTouch", "out of touch"), ("alone", "decides alone")):
        if view.status.get(name):
            yield _titled(title, text(view.status[name]))
    for warning in map(at, as_list(view.status.get("warnings"))):
        about = f"{as_text(warning.get('instance'))}: " if warning.get("instance") else ""
        yield _titled(
            "warning",
            text(f"{as_text(warning.get('type'))}: {about}{as_text(warning.get('message'))}"),
        )


def _ladder(detail: ServiceDetail, style: Style) -> RenderableType:
    ratios = detail.ratios
    if not ratios:
        return text("  none: no valid rule has been seen", "dim")
    grid = Table.grid(padding=(0, 2, 0, 0))
    for ratio in ratios:
        found = (
            ("runs", ratio.runs),
            ("works towards", ratio.target),
            ("largest wanted", ratio.largest_wanted),
        )
        marks = [f"{style.arrow} {words}" for words, on in found if on]
        if ratio.beyond:
            marks.append("not wanted")
        colour = "dim"
        if ratio.runs:
            colour = "green"
        elif ratio.target:
            colour = "yellow"
        grid.add_row(
            text(f"  {in_short(ratio.counts, stages_of(detail.view.status))}", colour),
            text(counts_in_words(ratio.counts), colour),
            text("  ".join(marks)),
        )
    if detail.view.replicas and not any(ratio.runs for ratio in ratios):
        grid.add_row(
            text("  -", "bold red"), text("not even the smallest ratio runs", "bold red"), Text()
        )
    return grid


def _groups(detail: ServiceDetail) -> list[str]:
    named = [as_text(at(group).get("name")) for group in as_list(detail.view.status.get("groups"))]
    return list(dict.fromkeys([*named, *sorted({instance.group for instance in detail.instances})]))


def _group(name: str, detail: ServiceDetail, style: Style) -> RenderableType:
    found: Mapping[str, Any] = {}
    for one in as_list(detail.view.status.get("groups")):
        if at(one).get("name") == name:
            found = at(one)
            break
    numbers = f"{as_count(found.get('running'))} of {as_count(found.get('target'))} running"
    drained = sum(one.group == name and is_drained(one) for one in detail.instances)
    more = [(as_count(found.get("inFlight")), "on the way"), (as_count(found.get("held")), "held")]
    more += [(drained, "being drained")]
    said = ", ".join([numbers, *(f"{number} {words}" for number, words in more if number)])
    title = Text.assemble(
        text(name or "no group", "bold"), "  ", text(said if found else "not in the rule")
    )
    made = Tree(title, guide_style="dim")
    for instance in (one for one in detail.instances if one.group == name):
        branch = made.add(_instance(instance, style))
        for pod in _pods(instance, style):
            branch.add(pod)
    return made


def _instance(instance: InstanceView, style: Style) -> RenderableType:
    colour = _STYLES.get(instance.state, "")
    reason = "" if instance.reason == instance.state else f"  {instance.reason}"
    line = Text.assemble(
        text(f"{style.glyph(instance.state)} {instance.name}", colour),
        "  ",
        text(f"{instance.state}{reason}  {style.since(instance.since)}"),
    )
    if instance.state == "Running" and not style.wide:
        where = f"on {', '.join(instance.nodes)}" if instance.nodes else ""
        line.append_text(
            text("  " + "; ".join(filter(None, (_pods_in_words(instance), where))), "dim")
        )
        return line
    return (
        Group(line, Padding(text(instance.message, colour), (0, 0, 0, 2)))
        if _adds(instance)
        else line
    )


def _adds(instance: InstanceView) -> bool:
    """Whether its words say more than its state does."""
    return bool(instance.message) and instance.message != "Runs."


def _pods_in_words(instance: InstanceView) -> str:
    return f"{len(instance.pods)} pods" if len(instance.pods) > 1 else ""


def _pods(instance: InstanceView, style: Style) -> Iterable[RenderableType]:
    """Pods of an instance; of a running one only those with a problem."""
    pods: Sequence[PodView] = instance.pods
    if not style.wide:
        trouble = [pod for pod in pods if pod.standing != "Running" or pod.trouble]
        pods = (
            trouble
            if instance.state == "Running"
            else [*trouble, *(pod for pod in pods if pod not in trouble)]
        )
    most = len(pods) if style.wide else _PODS_SHOWN
    for pod in pods[:most]:
        yield _pod(pod, style)
    if len(pods) > most:
        yield text(f"... and {len(pods) - most} more pods (-o wide)", "dim")


def _pod(pod: PodView, style: Style) -> RenderableType:
    words = [f"pod {pod.name}", pod.standing, style.since(pod.created)]
    if pod.restarts:
        words.append(f"{pod.restarts} restarts")
    line = text("  ".join(words), "" if pod.standing == "Running" else "yellow")
    if pod.node:
        line.append_text(text(f"  on {pod.node}"))
    if pod.trouble:
        line.append_text(text(f" ({pod.trouble})", "bold red"))
    return Group(line, Padding(text(pod.said, "dim"), (0, 0, 0, 2))) if pod.said else line


def _events(detail: ServiceDetail, style: Style) -> RenderableType:
    grid = Table.grid(padding=(0, 2, 0, 0))
    shown = detail.events if style.wide else detail.events[-_EVENTS_SHOWN:]
    for event in shown:
        times = f" x{event.count}" if event.count > 1 else ""
        about = f"{event.kind} {event.about}".replace("AscendJob ", "")
        tone = "yellow" if event.type == "Warning" else ""
        words = clean(f"{event.reason}{times}: {event.message}")
        grid.add_row(text("  " + style.since(event.last)), text(about), text(words, tone))
    return grid
