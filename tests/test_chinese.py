"""Each page for users exists in Chinese: the same headings, code, tables, names, numbers and links,
cleanly set."""

from __future__ import annotations

import os.path
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.test_docs import anchors

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
ALONE = [
    "README.md",
    "tutorial.md",
    "tutorial-dev-cluster.md",
    "quick-start.md",
    "reference/reasons.md",
    "reference/rule.md",
    "reference/status.md",
    "reference/commands.md",
    "reference/settings.md",
    "reference/metrics.md",
    "reference/preflight.md",
    "reference/faults.md",
    "reference/lifecycle.md",
    "reference/ranktable.md",
    "reference/service-file.md",
    "reference/glossary.md",
]
ENGLISH = [DOCS / name for name in ALONE] + sorted((DOCS / "howto").rglob("*.md"))
CHINESE = {page: DOCS / "zh" / page.relative_to(DOCS) for page in ENGLISH} | {
    ROOT / "README.md": ROOT / "README.zh-CN.md"
}
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```\n?", re.DOTALL | re.MULTILINE)
HAN = re.compile(r"[\u4e00-\u9fff]")

every_page = pytest.mark.parametrize("page", CHINESE, ids=lambda page: str(page.relative_to(ROOT)))


def text(page: Path) -> str:
    return page.read_text("utf-8")


def prose(page: Path) -> str:
    return FENCE.sub("", text(page))


def parts(page: Path) -> list[str]:
    """Each section, and each row of a table by itself."""
    rows = [line for line in prose(page).splitlines() if line.startswith("|")]
    return re.split(r"^(?=#+ )", prose(page), flags=re.MULTILINE) + rows


def headings(page: Path) -> list[int]:
    return [len(marks) for marks in re.findall(r"^(#+) ", prose(page), re.MULTILINE)]


def tables(page: Path) -> list[int]:
    """Columns of each row, 0 for a line outside tables: repeated zeros count as one."""
    lines = re.sub(r"`[^`\n]*`", "code", prose(page)).splitlines()
    widths = [len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0 for line in lines]
    return [width for place, width in enumerate(widths) if width or (place and widths[place - 1])]


def code(page: Path) -> list[str]:
    """All code, without comments; a line of output that is Chinese becomes the word output."""
    found = []
    for _, language, body in FENCE.findall(text(page)):
        found.append(f"```{language}")
        for line in body.splitlines():
            bare = re.sub(r"(^|\s+)#\s.*$", "", line).strip()
            found.append(
                "output"
                if HAN.search(bare) and not bare.startswith("$ ") and language in ("", "console")
                else bare
            )
    return found


def same_code(english: list[str], chinese: list[str]) -> list[tuple[str, str]]:
    """The pairs of lines that differ."""
    longest = max(len(english), len(chinese))
    both = zip(
        english + [""] * (longest - len(english)),
        chinese + [""] * (longest - len(chinese)),
        strict=True,
    )
    return [(one, other) for one, other in both if other not in (one, "output")]


def names(section: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", section))


def numbers(section: str) -> set[str]:
    bare = re.sub(r"`[^`\n]*`|\]\([^)]*\)", " ", section)
    return set(re.findall(r"(?<![\w.])\d+(?:\.\d+)*", re.sub(r"(?<=\d),(?=\d{3})", "", bare)))


def ordered_anchors(page: Path) -> list[str]:
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    known = anchors(page)
    made = [
        re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", title).lower()).replace(" ", "-")
        for title in titles
    ]
    assert set(made) == known
    return made


def links(page: Path) -> Counter[str]:
    """Targets from the root of the repository; a link between the two languages of one page does
    not count."""
    found: Counter[str] = Counter()
    for file, section in re.findall(r"\]\(([^)#\s]*)(#[^)\s]+)?\)", prose(page)):
        if file.startswith("http"):
            found[file + section] += 1
            continue
        goal = Path(os.path.normpath(page.parent / file)) if file else page
        if {page, goal} not in [{*pair} for pair in CHINESE.items()] or goal == page:
            found[f"{goal.relative_to(ROOT)}{section}"] += 1
    return found


def in_chinese(link: str) -> str:
    """Where the Chinese page has to lead when the English one leads there."""
    file, _, section = link.partition("#")
    page = ROOT / file
    picture = page.with_name(f"{page.stem}-zh{page.suffix}")
    if page not in CHINESE or not CHINESE[page].exists():
        return str(picture.relative_to(ROOT)) if picture.exists() else link
    there = str(CHINESE[page].relative_to(ROOT))
    if not section:
        return there
    return f"{there}#{ordered_anchors(CHINESE[page])[ordered_anchors(page).index(section)]}"


def untidy(words: str) -> list[str]:
    """Latin beside Chinese without a space, half-width punctuation after Chinese, lines that end
    inside of words. A term of MindCluster is written as MindCluster writes it."""
    words = words.replace("缩P保D", "术语")
    bare = re.sub(r"!?\[|\]\([^)]*\)|\*+", "", re.sub(r"`[^`\n]*`", "x", words))
    wrong = (
        r"[\u4e00-\u9fff][A-Za-z0-9,;:?!(]|[A-Za-z0-9,;?!)][\u4e00-\u9fff]|[\u4e00-\u9fff]\n"
        r" *[\u4e00-\u9fff]"
    )
    return re.findall(f".{{0,8}}(?:{wrong}).{{0,8}}", bare)


@every_page
def test_the_page_exists_in_chinese_and_each_language_leads_to_the_other(page: Path) -> None:
    there, back = (
        os.path.relpath(*pair)
        for pair in ((CHINESE[page], page.parent), (page, CHINESE[page].parent))
    )
    assert CHINESE[page].exists()
    assert f"[中文]({there})" in text(page)
    assert f"[English]({back})" in text(CHINESE[page])


@every_page
def test_both_languages_have_the_same_headings_and_tables(page: Path) -> None:
    assert headings(CHINESE[page]) == headings(page)
    assert tables(CHINESE[page]) == tables(page)


@every_page
def test_both_languages_show_the_same_code(page: Path) -> None:
    assert same_code(code(page), code(CHINESE[page])) == []


@every_page
def test_both_languages_use_the_same_names_and_numbers_in_each_section_and_row(page: Path) -> None:
    pairs = list(zip(parts(page), parts(CHINESE[page]), strict=True))
    assert [
        (one.split("\n")[0], names(one) ^ names(other))
        for one, other in pairs
        if names(one) != names(other)
    ] == []
    lost = [(one.split("\n")[0], numbers(one) - numbers(other)) for one, other in pairs]
    assert [where for where in lost if where[1]] == []


@every_page
def test_both_languages_lead_to_the_same_places(page: Path) -> None:
    wanted: Counter[str] = Counter()
    for link, times in links(page).items():
        wanted[in_chinese(link)] += times
    found = links(CHINESE[page])
    assert (sorted((wanted - found).elements()), sorted((found - wanted).elements())) == ([], [])


def english_without_a_word(page: Path) -> list[str]:
    """Links of a Chinese page to pages that exist in English only, where neither the link, nor the
    beginning of the line or the heading above, says so."""
    unsaid = []
    announced = False
    for line in prose(page).splitlines():
        if line.startswith("#"):
            announced = "英文" in line
        if announced or line.startswith("* 英文："):
            continue
        for words, file in re.findall(r"\[([^\]]*)\]\(([^)#\s:]+\.md)(?:#[^)\s]+)?\)", line):
            goal = Path(os.path.normpath(page.parent / file))
            in_chinese = goal in CHINESE.values() or (DOCS / "zh") in goal.parents
            if not in_chinese and words != "English" and "英文" not in words:
                unsaid.append(f"[{words}]({file})")
    return unsaid


@pytest.mark.parametrize(
    "page",
    [*CHINESE.values(), DOCS / "zh" / "README.md"],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_a_link_to_a_page_in_english_says_so(page: Path) -> None:
    assert english_without_a_word(page) == []


def test_a_link_to_a_page_in_english_that_does_not_say_so_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "见[指标](../metrics.md#labels)和[规则（英文）](rule.md)。\n* 英文：[设置](settings.md)\n",
        "utf-8",
    )
    assert english_without_a_word(page) == ["[指标](../metrics.md)"]


@every_page
def test_chinese_is_set_with_spaces_and_full_width_punctuation(page: Path) -> None:
    assert untidy(prose(CHINESE[page])) == []


def test_a_command_that_differs_is_noticed_and_a_translated_comment_is_not() -> None:
    assert same_code(["```sh", "make demo"], ["```sh", "make test"]) == [("make demo", "make test")]
    assert same_code(["```", "done"], ["```", "output"]) == []


@pytest.mark.parametrize(
    "words", ["实例held", "放行,暂挂", "`p0`被暂挂", "等待(60 秒)", "**暂挂**Pod", "60秒", "暂\n挂"]
)
def test_untidy_chinese_is_noticed(words: str) -> None:
    assert untidy(words)
