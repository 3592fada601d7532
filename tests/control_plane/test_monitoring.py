"""manifests/monitoring with Prometheus' own programs: the rules alone, then scraping a scaler at
work."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from scaler.decide.world import ServiceKey
from scaler.sim.actors.nodes import NodeFate
from scaler.sim.apiserver.crds import definitions
from scaler.tools.ui import prometheus as history
from tests.control_plane.build import PROMETHEUS, ensure
from tests.control_plane.plane import ControlPlane, PlaneOptions
from tests.control_plane.plugin import FreshPlane
from tests.control_plane.programs import ControlPlaneError, Program, answers_ok, free_ports
from tests.control_plane.scaler_process import (
    LEASE,
    NAMESPACE,
    install,
    may_read_metrics,
    metrics_for,
    scaler,
)
from tests.control_plane.stage import staged, until
from tests.page.browser import command
from tests.report.test_monitoring import ALERTS, DASHBOARD, QUERIES, RUNBOOKS

pytestmark = [pytest.mark.long("Prometheus has to be built")]

ROOT = Path(__file__).parents[2]
SPEC: dict[str, Any] = yaml.safe_load((ROOT / "manifests/monitoring/alerts.yaml").read_text())[
    "spec"
]
MONITOR: dict[str, Any] = yaml.safe_load(
    (ROOT / "manifests/monitoring/service-monitor.yaml").read_text()
)
SERVICE = ServiceKey("mindie", "scaling-rule", "mindie")
WITHOUT_ANSWER = (
    "outcome!=",
    "scaler_reports_dropped",
    "scaler_objects_refused",
    "scaler_turned_away",
    "scaler_webhook_",
)
"""Parts of queries that find nothing as long as nothing of the kind has happened: there are no such
labels before."""


def promtool(*arguments: str | Path, given: str = "", folder: Path | None = None) -> None:
    program = ensure(PROMETHEUS) / "promtool"
    done = subprocess.run(
        [program, *arguments], input=given, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_finds_nothing_wrong_with_the_rules(tmp_path: Path, programs_needed: None) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(SPEC))
    promtool("check", "rules", "--lint=all", "--lint-fatal", tmp_path / "rules.yaml")


def test_every_alert_fires_when_it_should_and_not_before(
    tmp_path: Path, programs_needed: None
) -> None:
    bare = changed_rules(without_words)
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": bare}))
    (tmp_path / "alerts.yaml").write_bytes(Path(__file__).with_name("alerts.yaml").read_bytes())
    promtool("test", "rules", "alerts.yaml", folder=tmp_path)


TYPES = {
    "stat": "Stat",
    "table": "Table",
    "timeseries": "TimeSeries",
    "state-timeline": "StateTimeline",
}
"""Kind of panel -> how Grafana's types call it."""


def typed(dashboard: dict[str, Any]) -> str:
    """The dashboard as a program of TypeScript. Enumerations are taken for the words that they
    stand for in JSON."""
    folder = "./node_modules/@grafana/schema/dist/esm/raw/composable"
    lines = ["import type { Dashboard } from '@grafana/schema';"]
    lines += [
        f"import type * as {name} from"
        f" '{folder}/{name.lower()}/panelcfg/x/{name}PanelCfg_types.gen';"
        for name in TYPES.values()
    ]
    words = "{ [K in keyof T]: Words<T[K]> }"
    lines.append(
        "type Words<T> = T extends string ? `${T}` : T extends (infer U)[] ? Words<U>[] : "
        f"T extends object ? {words} : T;"
    )
    lines.append(f"export const dashboard: Words<Dashboard> = {json.dumps(dashboard)};")
    for panel in dashboard["panels"]:
        name = TYPES.get(panel["type"])
        custom = panel.get("fieldConfig", {}).get("defaults", {}).get("custom")
        if name:
            lines.append(
                f"export const options{panel['id']}: Words<Partial<{name}.Options>> ="
                f" {json.dumps(panel['options'])};"
            )
        if custom:
            lines.append(
                f"export const custom{panel['id']}: Words<Partial<{name}.FieldConfig>> ="
                f" {json.dumps(custom)};"
            )
    return "\n".join(lines)


def complaints(folder: Path, dashboard: dict[str, Any]) -> str:
    """What the compiler says."""
    (folder / "dashboard.ts").write_text(typed(dashboard))
    flags = [
        "--strict",
        "--noEmit",
        "--skipLibCheck",
        "--module",
        "esnext",
        "--moduleResolution",
        "bundler",
    ]
    done = subprocess.run(
        [folder / "node_modules/.bin/tsc", *flags, "dashboard.ts"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.mark.skipif(not shutil.which("npm"), reason="no npm to install Grafana's types with")
def test_grafanas_own_types_allow_the_dashboard_and_notice_a_wrong_word(tmp_path: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(ROOT / "tests/control_plane/modules/grafana" / name, tmp_path)
    install = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(install, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert complaints(tmp_path, DASHBOARD) == ""
    wrong = json.loads(json.dumps(DASHBOARD).replace('"bottom"', '"botom"'))
    assert "botom" in complaints(tmp_path, wrong)


def without_words(rule: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in rule.items() if key != "annotations"}


def runbook_commands(**names: str) -> Iterator[list[str]]:
    """What a runbook has one type, with these names in it; logs and figures of a kubelet are not to
    be had here."""
    for line in re.findall(r"^\$ kubectl (.*)$", RUNBOOKS, re.MULTILINE):
        words = shlex.split(line.split(" | ")[0])
        if words[0] not in ("logs", "top"):
            yield [
                re.sub(r"\b(" + "|".join(names) + r")\b", lambda found: names[found[1]], word)
                for word in words
            ]


def changed_rules(change: Callable[[dict[str, Any]], dict[str, Any]]) -> list[dict[str, Any]]:
    """The groups of the manifests' alerts, with each alert changed."""
    groups = []
    for group in SPEC["groups"]:
        groups.append({**group, "rules": list(map(change, group["rules"]))})
    return groups


def hurried(rule: dict[str, Any]) -> dict[str, Any]:
    """The same alert in seconds instead of minutes."""
    expression = re.sub(r"\[\d+[mh]", "[5s", rule["expr"])
    return {**rule, "expr": expression, "for": "1s"}


class Prometheus(Program):
    """Scrapes one replica every second, as the ServiceMonitor has it done, with the token of a
    ServiceAccount and the alerts of the manifests."""

    def __init__(self, folder: Path, port: int, token: str) -> None:
        (self._port,) = free_ports(1)
        (endpoint,) = MONITOR["spec"]["endpoints"]
        (folder / "token").write_text(token)
        groups = changed_rules(hurried)
        (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
        target = {
            "targets": [f"127.0.0.1:{port}"],
            "labels": {"namespace": NAMESPACE, "pod": "scaler-0"},
        }
        configuration = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [
                {
                    "job_name": "scaler",
                    "scheme": endpoint["scheme"],
                    "metrics_path": endpoint["path"],
                    "honor_labels": endpoint["honorLabels"],
                    "authorization": {"credentials_file": "token"},
                    "tls_config": {
                        "insecure_skip_verify": endpoint["tlsConfig"]["insecureSkipVerify"]
                    },
                    "static_configs": [target],
                }
            ],
        }
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(configuration))
        flags = [f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/tsdb"]
        flags.append(f"--web.listen-address=127.0.0.1:{self._port}")
        self.url = f"http://127.0.0.1:{self._port}"
        super().__init__("prometheus", [ensure(PROMETHEUS) / "prometheus", *flags], folder)

    def answers(self) -> bool:
        return answers_ok(f"http://127.0.0.1:{self._port}/-/ready")

    def ask(self, path: str, **query: str) -> dict[str, Any]:
        """An answer of its API; it must be without warnings."""
        url = f"http://127.0.0.1:{self._port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=10) as response:
            answer: dict[str, Any] = json.loads(response.read())
        assert not answer.get("warnings"), answer["warnings"]
        data: dict[str, Any] = answer["data"]
        return data

    async def found(self, query: str) -> list[dict[str, Any]]:
        """The samples that a query gives now."""
        query = query.replace("$__rate_interval", "10s").replace("$namespace", ".*")
        data = await asyncio.to_thread(self.ask, "query", query=query)
        samples: list[dict[str, Any]] = data["result"]
        return samples

    async def firing(self) -> dict[str, dict[str, Any]]:
        """The alerts that fire now, by name."""
        data = await asyncio.to_thread(self.ask, "alerts")
        return {
            alert["labels"]["alertname"]: alert
            for alert in data["alerts"]
            if alert["state"] == "firing"
        }


@asynccontextmanager
async def scraped(folder: Path, port: int, token: str) -> AsyncIterator[Prometheus]:
    program = Prometheus(folder, port, token)
    try:
        program.start()
        await asyncio.to_thread(program.wait_for, program.answers)
        yield program
    finally:
        await asyncio.to_thread(program.stop)


def tokens(plane: ControlPlane) -> dict[str, str]:
    """Name of a ServiceAccount in `monitoring` -> its token; prometheus has the right of the
    manifests, tenant has none."""
    may_read_metrics(plane, "prometheus")
    plane.kubectl("create", "serviceaccount", "tenant", "-n", "monitoring")
    found = {}
    for name in ("prometheus", "tenant"):
        found[name] = plane.kubectl("create", "token", name, "-n", "monitoring").strip()
    return found


def running_of(totals: dict[str, dict[str, int]]) -> list[int]:
    return [total.get("Running", 0) for total in totals.values()]


async def past_on_the_page(kubeconfig: Path, url: str, log: Path) -> dict[str, Any]:
    """What `scaler ui --prometheus` answers to its page about the past of the service."""
    running = command("ui", "--kubeconfig", str(kubeconfig), "--prometheus", url, log=log)
    where, _, token = (await asyncio.to_thread(running.__enter__)).partition("/#token=")
    try:
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session:

            async def past() -> dict[str, Any]:
                async with session.get(
                    f"{where}/api/past", params={"service": str(SERVICE)}
                ) as answer:
                    return dict(await answer.json())

            return await until(
                past,
                "the page knows the past",
                fits=lambda found: running_of(found["totals"])[-1:] == [2],
            )
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)


async def test_a_service_that_loses_nodes_is_seen_in_every_query_and_its_alerts_fire_and_end(
    fresh_plane: FreshPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = fresh_plane(PlaneOptions(crds=definitions()))
    kubeconfig = install(plane)
    token = tokens(plane)
    (port,) = free_ports(1)
    flags = (*LEASE, "--metrics-port", str(port))
    async with (
        staged(plane, npu_nodes=3) as stage,
        scaler(tmp_path, kubeconfig, flags=flags) as process,
        scraped(tmp_path, port, token["prometheus"]) as prometheus,
    ):
        sent = ("", "wrong", token["tenant"], token["prometheus"])
        *refused, served = [await metrics_for(port, one) for one in sent]
        assert [status for status, _ in refused] == [401, 401, 403]
        assert "system:serviceaccount:monitoring:tenant may not get /metrics" in refused[-1][1]
        assert served[0] == 200
        await asyncio.to_thread(promtool, "check", "metrics", given=served[1])
        await stage.apply()
        await stage.runs(group0=2, group1=1)
        await until(
            lambda: prometheus.found("scaler_service_complete == 1"),
            "Prometheus sees a complete service",
            show=lambda: prometheus.found('{__name__=~"scaler_service_.*"}'),
        )
        await until(prometheus.firing, "no alert fires", fits=lambda fired: not fired)
        monkeypatch.setattr(history, "STEP", 2)  # a minute is too long here
        known = history.Prometheus(prometheus.url)
        await until(
            lambda: known.past(SERVICE, time.time()),
            "the past knows all three long enough to ask at any moment",
            fits=lambda found: running_of(found.totals).count(3) > 2,
        )
        empty = {query for query in QUERIES if not await prometheus.found(query)}

        lost = await stage.node_of("mindie-server-d0")
        await stage.node(lost, NodeFate.NOT_READY)
        fired = await until(
            prometheus.firing,
            "alerts fire",
            fits={"ScalerServiceNotAvailable", "ScalerNPUsHeldIdle"}.issubset,
        )
        summary = fired["ScalerServiceNotAvailable"]["annotations"]["summary"]
        assert summary == "Service mindie/scaling-rule/mindie is not available"
        assert fired["ScalerServiceNotAvailable"]["labels"]["namespace"] == "mindie"
        assert fired["ScalerNPUsHeldIdle"]["labels"]["namespace"] == NAMESPACE
        empty &= {query for query in QUERIES if not await prometheus.found(query)}
        for part in WITHOUT_ANSWER:
            empty = {query for query in empty if part not in query}
        assert empty == set()

        shown = await past_on_the_page(kubeconfig, prometheus.url, tmp_path / "page.log")
        assert shown["problem"] == ""
        past = await known.past(SERVICE, time.time())
        assert past.problem == ""
        assert [one["reason"] for one in past.moments.values()][-1:] == ["False"]
        assert running_of(past.totals)[-1:] == [2]

        names = {"NAMESPACE": "mindie", "RULE": "scaling-rule", "SERVICE": "mindie"}
        names |= {"POD": "mindie-server-p0-master-0", "RESOURCE": "pods"}
        for words in runbook_commands(**names):
            with (
                nullcontext() if words[0] != "auth" else suppress(ControlPlaneError)
            ):  # it ends with 1 where it says no
                await asyncio.to_thread(plane.kubectl, *words)

        await stage.node(lost, NodeFate.READY)
        await stage.runs(group0=2, group1=1)
        await until(
            prometheus.firing,
            "they end",
            fits=lambda fired: "ScalerServiceNotAvailable" not in fired,
        )
        restored = "scaler_room_to_restored_seconds_count == 1"
        await until(lambda: prometheus.found(restored), "what was restored is measured")

        rules = await asyncio.to_thread(prometheus.ask, "rules")
        health = {
            rule["name"]: rule["health"] for group in rules["groups"] for rule in group["rules"]
        }
        assert health == dict.fromkeys(ALERTS, "ok")
        await asyncio.to_thread(process.stop)
        await until(prometheus.firing, "nobody leads", fits=lambda fired: "ScalerAbsent" in fired)
