"""The page in a real Chromium, against the simulated API server over HTTP: `scaler ui` as a user
starts it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from tests.page import axe
from tests.page.browser import ROOT, command

SERVICES = 60
HOSTILE = "<img src=x onerror=window.hit=1><script>window.hit=1</script>\"'${window.hit=1}"


class Cluster:
    """A cluster of many services, in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], kubeconfig: Path) -> None:
        self.process = process
        self.kubeconfig = kubeconfig

    def flip(self, number: int, words: str) -> None:
        """Service `number` is not available any more, and says so with these words."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"flip {number} {words}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline().strip()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    path = tmp_path_factory.mktemp("cluster") / "kubeconfig"
    with subprocess.Popen(
        [sys.executable, "-m", "tests.page.many_services", str(SERVICES), str(path)],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready"
        yield Cluster(process, path)
        process.kill()


@pytest.fixture(scope="module")
def address(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("ui") / "log"
    with command("ui", "--kubeconfig", str(cluster.kubeconfig), log=log) as found:
        yield found


@pytest.fixture
def page(chromium: Any, address: str) -> Iterator[Any]:
    """The page with its list; nothing may have gone wrong in it, or been asked of anybody else."""
    context = chromium.new_context(viewport={"width": 1280, "height": 800}, locale="en-GB")
    found = context.new_page()
    wrong: list[str] = []
    found.on(
        "console",
        lambda message: (
            wrong.append(message.text) if message.type in ("error", "warning") else None
        ),
    )
    found.on("pageerror", lambda error: wrong.append(str(error)))
    asked: set[str] = set()
    found.on("request", lambda request: asked.add("/".join(request.url.split("/")[:3])))
    found.goto(address)
    found.wait_for_function(
        "() => !window.scalerPage.head.reading && document.querySelector('.row')"
    )
    yield found
    assert wrong == []
    assert asked == {address.partition("/#")[0]}
    context.close()


def service(number: int) -> str:
    return "#/service/" + quote(f"team-{number:04d}/rule/mindie", safe="")


def go(page: Any, part: str) -> None:
    page.evaluate("to => { location.hash = to; }", part)


def test_what_is_wrong_comes_first_and_only_what_is_in_sight_is_made(page: Any) -> None:
    first = page.locator(".rows .row").first
    assert "Not available" in first.locator(".mark").first.get_attribute("aria-label")
    assert "team-0007" in first.inner_text()
    assert page.locator(".rows .row").count() < 30
    assert page.locator(".rows .row").first.get_attribute("aria-setsize") == str(SERVICES)
    page.locator(".rows").evaluate("box => { box.scrollTop = 1e6; }")
    page.wait_for_selector(f".row[aria-posinset='{SERVICES}']")


def test_the_token_is_not_left_in_the_address_and_the_page_can_be_loaded_again(page: Any) -> None:
    assert "token" not in page.url
    page.reload()
    page.wait_for_selector(".rows .row")


def test_a_change_comes_without_loading_anything(page: Any, cluster: Cluster) -> None:
    page.fill("input[type=search]", "team-0020")
    cluster.flip(20, "a-new-fault")
    page.wait_for_selector("text=a-new-fault")
    assert page.locator(".rows .row").count() == 1


def test_everything_can_be_done_with_keys(page: Any) -> None:
    page.keyboard.press("/")
    assert page.evaluate("() => document.activeElement.type") == "search"
    page.keyboard.type("team-0003")
    page.keyboard.press("Escape")
    page.locator("[role=listbox]").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('mindie')")
    assert "team-0003" in page.locator(".hero").inner_text()
    page.keyboard.press("c")
    page.wait_for_selector(".kind")
    page.keyboard.press("Escape")
    page.wait_for_selector("input[type=search]")
    assert page.locator(".tab.here").inner_text() == "Services"


def test_everything_has_a_name_for_those_who_do_not_see_it(page: Any) -> None:
    nameless = """() => [...document.querySelectorAll(
            'button, a, input, select, textarea, [role=img], [role=listbox]')]
        .filter(one => !(one.getAttribute('aria-label') || one.innerText || one.labels?.length))
        .map(one => one.outerHTML)"""
    for part, ready in (("#/", ".row"), (service(3), "textarea"), ("#/cluster", ".kind")):
        go(page, part)
        page.wait_for_selector(ready)
        assert page.evaluate(nameless) == []


def test_a_service_is_told_whole(page: Any) -> None:
    go(page, service(3))
    page.wait_for_selector(".line.instances")
    text = page.locator("main").inner_text()
    for words in (
        "Not complete",
        "WaitingForCapacity",
        "p3",
        "What happened",
        "Instances over time",
        "npu-00030",
    ):
        assert words in text
    page.locator(".line.instances").first.click()
    page.wait_for_selector(".pods h3")
    assert page.locator(".chart path.run").count() == 2


def test_the_cluster_tells_who_waits_and_what_is_held_to_no_use(page: Any) -> None:
    go(page, "#/cluster")
    page.wait_for_selector(".line.waiting")
    assert "team-0007/rule/mindie" in page.locator(".line.waiting").first.inner_text()
    assert "occupied, not serving" in page.locator(".sums").first.inner_text()
    assert "NotReady" in page.locator(".line.nodes").first.inner_text()


def test_a_rule_is_tried_and_nothing_is_written(page: Any, cluster: Cluster) -> None:
    go(page, service(5))
    page.wait_for_selector("textarea")
    page.wait_for_selector("text=This is the rule in the cluster")
    rule = page.input_value("textarea")
    page.fill("textarea", rule[:-5])
    page.wait_for_selector("text=Not a valid rule")
    page.fill("textarea", rule.replace('"6"', '"8"'))
    page.wait_for_selector("text=To apply it")
    assert "With this rule\n4 group0 + 4 group1" in page.locator(".compare").inner_text()
    assert "kubectl -n team-0005 patch configmap rule" in page.locator("pre.command").inner_text()
    page.click("text=As in the cluster")
    page.wait_for_selector("text=This is the rule in the cluster")
    assert page.input_value("textarea") == rule


def test_a_changed_rule_is_given_as_a_manifest(page: Any) -> None:
    go(page, service(5))
    page.wait_for_selector("text=This is the rule in the cluster")
    changed = page.input_value("textarea").replace('"6"', '"8"')
    for text in (changed, json.dumps(json.loads(changed), indent=2), changed + "\n"):
        page.fill("textarea", text)
        page.wait_for_selector("text=To apply it")
        with page.expect_download() as waited:
            page.click("text=Save as a file")
        made = yaml.safe_load(Path(waited.value.path()).read_text("utf-8"))
        assert waited.value.suggested_filename == "rule.yaml"
        assert made["kind"] == "ConfigMap"
        assert made["metadata"] == {"name": "rule", "namespace": "team-0005"}
        assert made["data"] == {"elastic_scaling.json": text}


def test_a_link_to_the_list_keeps_what_it_shows(page: Any) -> None:
    page.click(".count.incomplete")
    page.fill("input[type=search]", "team-0023 / mindie")
    page.select_option("#sort", "name")
    link = page.url
    page.locator(".rows .row").first.click()
    page.wait_for_selector(".hero")
    page.click(".crumbs a")
    page.wait_for_selector(".rows .row")
    assert page.url == link
    other = page.context.new_page()
    other.goto(link)
    token = page.evaluate("() => sessionStorage.getItem('scaler.token')")
    other.evaluate("token => sessionStorage.setItem('scaler.token', token)", token)
    other.reload()
    other.wait_for_selector(".rows .row")
    assert other.locator(".rows .row").count() == 1
    assert other.input_value("input[type=search]") == "team-0023 / mindie"


def test_the_search_finds_what_is_shown_in_the_language_of_the_page(page: Any) -> None:
    page.select_option("#language", "zh")
    page.wait_for_selector("text=不可用")
    page.fill("input[type=search]", "在各项预留之外没有资源")
    page.wait_for_function(
        "() => document.querySelector('.rows .row')?.innerText.includes('WaitingForCapacity')"
    )
    assert int(page.locator(".rows .row").first.get_attribute("aria-setsize")) < SERVICES
    page.fill("input[type=search]", "没有这样的服务")
    page.wait_for_selector("text=显示全部服务")


@pytest.mark.parametrize("width", [390, 620, 1240])
def test_nothing_stands_beyond_the_edge_of_the_window(page: Any, width: int) -> None:
    """620 is what remains of 1,240 at 200 %."""
    page.set_viewport_size({"width": width, "height": 900})
    for part, ready in (("#/", ".row"), (service(3), ".line.instances"), ("#/cluster", ".kind")):
        go(page, part)
        page.wait_for_selector(ready)
        sizes = "one => [one.scrollWidth, one.clientWidth]"
        for place in ("html", "main"):
            wanted, there = page.locator(place).evaluate(sizes)
            assert wanted <= there, (part, place)
        assert page.locator("h1").count() == 1


def test_it_speaks_chinese_and_remembers_it(page: Any) -> None:
    page.select_option("#language", "zh")
    page.wait_for_selector("text=不可用")
    page.reload()
    page.wait_for_selector("text=不可用")
    assert page.evaluate("() => document.documentElement.lang") == "zh-CN"
    for part, ready in ((service(3), ".line.instances"), ("#/cluster", ".kind")):
        go(page, part)
        page.wait_for_selector(ready)
        headings = page.locator("h2").all_inner_texts()
        assert [text for text in headings if re.fullmatch(r"[A-Za-z ]+", text)] == []


def test_in_chinese_a_sentence_says_what_a_reason_means_and_the_scaler_s_own_words_stand_below(
    page: Any,
) -> None:
    page.select_option("#language", "zh")
    go(page, service(3))
    page.wait_for_selector(".line.instances .meaning")
    for place in (".verdict", ".line.instances"):
        text = page.locator(place).first.inner_text()
        assert "在各项预留之外没有资源" in text
        assert "Waits for free nodes" in text
    go(page, "#/")
    page.fill("input[type=search]", "team-0003")
    page.wait_for_selector(".row .meaning:has-text('在各项预留之外没有资源')")


def test_light_and_dark_are_the_browser_s_choice_and_then_the_user_s(page: Any) -> None:
    ground = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(ground)
    assert light != dark
    page.click("button.plain")
    assert page.evaluate(ground) == light


def test_what_a_tenant_wrote_is_text(page: Any, cluster: Cluster) -> None:
    cluster.flip(30, HOSTILE)
    page.fill("input[type=search]", "team-0030")
    page.wait_for_function("() => document.querySelector('.why')?.innerText.includes('onerror')")
    go(page, service(30))
    page.wait_for_function(
        "() => document.querySelector('.verdict')?.innerText.includes('<script>')"
    )
    assert page.evaluate(
        "() => [window.hit, document.querySelectorAll('main img, main script').length]"
    ) == [None, 0]


def test_an_inline_script_would_not_run(page: Any) -> None:
    """The second wall, should the first ever break. The refusal is on the console, so it is done on
    another page."""
    other = page.context.new_page()
    other.goto(page.url)
    other.evaluate(
        """() => { const one = document.createElement('script'); one.textContent = 'window.hit = 1';
        document.body.append(one); }"""
    )
    assert other.evaluate("() => window.hit") is None


def test_without_the_token_nothing_is_shown(chromium: Any, address: str) -> None:
    stranger = chromium.new_context().new_page()
    stranger.goto(address.partition("#")[0])
    stranger.wait_for_selector("h1:has-text('token')")
    assert stranger.locator(".row").count() == 0
    stranger.context.close()


@pytest.fixture(scope="module")
def axe_core() -> str:
    return axe.script()


@pytest.mark.parametrize(
    ("language", "theme", "width"),
    [("en", "light", 1240), ("zh", "dark", 390)],
)
def test_axe_finds_nothing_on_any_view(
    page: Any, axe_core: str, language: str, theme: str, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    page.select_option("#language", language)
    page.evaluate(axe_core)
    for part, ready in (("#/", ".row"), (service(3), ".line.instances"), ("#/cluster", ".kind")):
        go(page, part)
        page.wait_for_selector(ready)
        if part == service(3):
            page.wait_for_selector(".checks li")
            page.wait_for_selector(".answer h3")
            page.locator(".line.instances").first.click()
            page.wait_for_selector(".pods")
        found = page.evaluate("() => axe.run({ resultTypes: ['violations'] })")
        said = {}
        for one in found["violations"]:
            said[one["id"]] = [node["html"][:200] for node in one["nodes"]][:3]
        assert said == {}, part
        assert len(found["passes"]) > 20, "axe has looked"


def test_axe_would_find_something(page: Any, axe_core: str) -> None:
    page.evaluate(axe_core)
    page.evaluate("() => { document.querySelector('input[type=search]').ariaLabel = null; }")
    page.evaluate("() => { document.querySelector('input[type=search]').placeholder = ''; }")
    found = page.evaluate("() => axe.run({ resultTypes: ['violations'] })")
    assert "label" in {one["id"] for one in found["violations"]}


def test_it_says_when_the_connection_is_lost(
    chromium: Any, cluster: Cluster, tmp_path: Path
) -> None:
    found = chromium.new_context(locale="en-GB").new_page()
    with command("ui", "--kubeconfig", str(cluster.kubeconfig), log=tmp_path / "log") as where:
        found.goto(where)
        found.wait_for_selector(".rows .row")
    found.wait_for_selector(".notice.bad:has-text('scaler ui does not answer')")
    found.context.close()
