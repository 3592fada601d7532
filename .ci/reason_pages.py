"""Writes the tables of reasons and warnings in the pages, the list of reasons in an alert and in
the dashboard, from the rows in `scaler/reasons/`: `make generated` runs it.

A table stands in its page between `<!-- reasons: NAME -->` and `<!-- end -->`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from scaler.reasons.reasons import Reason
from scaler.reasons.row import Part, Tone
from scaler.reasons.said import Language
from scaler.reasons.warnings import Warning
from scaler.reasons.words import words_of

ROOT = Path(__file__).resolve().parent.parent
PAGES: dict[str, tuple[Language, tuple[str, ...]]] = {
    "docs/reference/reasons.md": ("en", ("held", "admitted", "others", "warnings")),
    "docs/zh/reference/reasons.md": ("zh", ("held", "admitted", "others", "warnings")),
    "docs/howto/runbooks/README.md": ("en", ("if-unavailable", "if-it-lasts")),
    "docs/zh/howto/runbooks/README.md": ("zh", ("if-unavailable", "if-it-lasts")),
}
"""Page -> its language, and its tables in their order."""
ALERTS = "manifests/monitoring/alerts.yaml"
DASHBOARD = "manifests/monitoring/dashboard.json"
ALERT = "ScalerInstancesNeedAPerson"
SEE_ALERT = {
    "en": f"see [{ALERT}](#{ALERT.lower()})",
    "zh": f"见 [{ALERT}](#{ALERT.lower()})",
}
COMMA = {"en": ", ", "zh": "、"}
HEADS = {
    ("reasons", "en"): "| reason | meaning | event | what to do |\n|---|---|---|---|\n",
    ("reasons", "zh"): "| 原因 | 含义 | 事件 | 处理 |\n|---|---|---|---|\n",
    ("warnings", "en"): "| warning | meaning |\n|---|---|\n",
    ("warnings", "zh"): "| 警告 | 含义 |\n|---|---|\n",
    ("runbook", "en"): "| reason | what to do |\n|---|---|\n",
    ("runbook", "zh"): "| 原因 | 处理 |\n|---|---|\n",
}


def written() -> dict[str, str]:
    """Path below the root -> what stands there once the rows are written in. Raises ValueError for
    a page without one of its tables."""
    files = {}
    for path, (language, names) in PAGES.items():
        page = (ROOT / path).read_text("utf-8")
        if tuple(re.findall(r"<!-- reasons: ([\w-]+) -->", page)) != names:
            raise ValueError(f"{path} has not the tables {', '.join(names)}")
        files[path] = _with_tables(page, language)
    files[ALERTS] = _with_reasons((ROOT / ALERTS).read_text("utf-8"))
    files[DASHBOARD] = _without_what_waits_well((ROOT / DASHBOARD).read_text("utf-8"))
    return files


def _with_tables(page: str, language: Language) -> str:
    def table(found: re.Match[str]) -> str:
        begin, name, end = found.groups()
        return f"{begin}\n{TABLES[name](language)}{end}"

    return re.sub(
        r"(<!-- reasons: ([\w-]+) -->\n)(?:.*?)(\n<!-- end -->)", table, page, flags=re.DOTALL
    )


def _with_reasons(alerts: str) -> str:
    names = "|".join(sorted(reason.value for reason in _of_the_alert()))
    before, begin, rest = alerts.partition(f"- alert: {ALERT}\n")
    return before + begin + re.sub(r'reason=~"[^"]*"', f'reason=~"{names}"', rest, count=1)


def _without_what_waits_well(dashboard: str) -> str:
    """The panel of waiting instances leaves out what is as it should be and waits for others."""
    well = [one.value for one in Reason if one.row.follows and one.row.tone is Tone.WELL]
    names = "|".join(sorted(well))
    return re.sub(r'reason!~\\"[^"]*\\"', lambda _: f'reason!~\\"{names}\\"', dashboard)


def _of_the_alert() -> Iterator[Reason]:
    for reason in Reason:
        if reason.row.warns and not reason.row.other_alert:
            yield reason


def _part(part: Part) -> Callable[[Language], str]:
    def table(language: Language) -> str:
        lines = [HEADS["reasons", language]]
        for reason in Reason:
            if reason.row.part is part:
                words = words_of(reason.row, language)
                event = "Warning" if reason.row.warns else "Normal"
                to_do = f" {words.to_do} " if words.to_do else " "
                lines.append(f"| `{reason.value}` | {words.meaning} | {event} |{to_do}|\n")
        return "".join(lines)

    return table


def _warnings(language: Language) -> str:
    return HEADS["warnings", language] + _merged(
        [(warning.value, words_of(warning.row, language).meaning) for warning in Warning], language
    )


def _if_unavailable(language: Language) -> str:
    """Those that an alert names without words of their own share the last line."""
    found = []
    others = []
    for reason in Reason:
        text = words_of(reason.row, language).if_unavailable
        if text:
            found.append((reason.value, text))
        elif reason in _of_the_alert():
            others.append((reason.value, SEE_ALERT[language]))
    return HEADS["runbook", language] + _merged([*found, *others], language)


def _if_it_lasts(language: Language) -> str:
    found = [(one.value, words_of(one.row, language).if_it_lasts) for one in _of_the_alert()]
    return HEADS["runbook", language] + _merged(found, language)


def _merged(rows: list[tuple[str, str]], language: Language) -> str:
    """Lines of a table; names with the same text share one."""
    names_of: dict[str, list[str]] = {}
    for name, text in rows:
        names_of.setdefault(text, []).append(f"`{name}`")
    lines = [f"| {COMMA[language].join(names)} | {text} |\n" for text, names in names_of.items()]
    return "".join(lines)


TABLES: dict[str, Callable[[Language], str]] = {
    **{part.value: _part(part) for part in Part},
    "warnings": _warnings,
    "if-unavailable": _if_unavailable,
    "if-it-lasts": _if_it_lasts,
}


if __name__ == "__main__":
    for path, text in written().items():
        (ROOT / path).write_text(text, "utf-8")
