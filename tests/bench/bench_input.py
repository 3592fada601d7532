"""What one tenant, or a burst, can cost the loop: rules at their limits, many services at once,
large objects.

    python -m tests.bench.bench_input [services]

The whole controller over HTTP, with the simulated API server in a process of its own; a ticker
notes how long the loop did not turn. It has its turn after every second one of the loop, as what
waits for an answer has. Pods that the scaler makes are never bound, so every service has a
decision, writes and a report. The stalls of about a second are decisions."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from tempfile import NamedTemporaryFile

import msgspec

from scaler.app import App
from scaler.clock import Clock
from scaler.decide.again import DecisionCache
from scaler.decide.decide import decide
from scaler.decide.decision import Decision, State
from scaler.decide.world import Service, ServiceKey, World
from scaler.defaults import Mode
from scaler.garbage import no_collection, what_stays_spared
from scaler.kube.api import ASCEND_JOBS
from scaler.kube.client import MOST_PAGE, connect
from scaler.kube.wire import decode_page
from scaler.report.log import configure
from scaler.rules.document import RuleReading, read_rule
from scaler.rules.limits import MAX_RATIOS
from scaler.settings import Settings
from scaler.sim.apiserver import facade
from scaler.sim.cluster import SimCluster
from tests.bench.bench_decide import CLASSES, request, resting, unlike
from tests.builders import NOW, instance, rule
from tests.jobs import NAMESPACE, TWO_P_ONE_D, job, node, rule_config_map, rule_document

SERVICES = 10_000
AT_LIMIT = 50
SETTLED = 60.0
TICK = 0.002


def at_limit(number: int) -> str:
    """A valid rule that is as costly as one may be; no two are alike."""
    ladder = [{"group0": MAX_RATIOS + 1 - size, "group1": 1 + number} for size in range(MAX_RATIOS)]
    return rule_document(*ladder)


def read(document: str) -> RuleReading:
    return read_rule({"elastic_scaling.json": document}, (), {})


def rules() -> None:
    wrong = at_limit(0).replace('"group_num": "1"', '"group_num": "x"').replace('"1025"', '"0"')
    many = json.dumps(
        {"elastic_scaling_list": [{"group_list": [{f"a{n}": 1 for n in range(16_000)}]}]}
    )
    for what, document in (
        ("a valid rule", at_limit(0)),
        ("a wrong one", wrong),
        ("only unknown members", many),
    ):
        took = []
        for number in range(10):
            started = time.process_time()
            read(document + " " * number)
            took.append(time.process_time() - started)
        print(
            f"{what} at the limits, {len(document) // 1024} KiB: {1000 * sorted(took)[5]:.1f} ms"
            " of CPU"
        )


def waiting(number: int) -> World:
    """Services that run nothing yet, all of which ask for their minimum."""

    def one(index: int) -> Service:
        what = ((request(index % CLASSES, 4), 1),)
        found = (
            instance(f"p{at}", State.HELD, uid=f"{index}-{at}", requests=what, unbound=what)
            for at in range(3)
        )
        return Service(ServiceKey("default", "rule", f"s{index:05}"), tuple(found), rule("3P > 1P"))

    return World(NOW, tuple(one(index) for index in range(number)), unlike(random.Random(1), 0.5))


def first_decisions(number: int) -> None:
    for what, made in (
        ("at rest", resting(number)),
        ("that wait for their minimum", waiting(number)),
    ):
        started = time.perf_counter()
        cpu = time.process_time()
        with no_collection():  # as the controller does
            first = decide(made, cache := DecisionCache())
        took = time.perf_counter() - started
        used = time.process_time() - cpu
        later = msgspec.structs.replace(made, memory=first.memory, now=made.now + 1)
        started = time.process_time()
        with no_collection():
            decide(later, cache)
        again = time.process_time() - started
        print(
            f"first decision, {number} services {what}: {took:.2f} s ({used:.2f} s of CPU), the"
            f" next {again:.2f} s"
        )


class Ticker:
    """The longest times for which the loop did not turn, in CPU time: other work on the machine
    does not count."""

    def __init__(self) -> None:
        self.gaps: list[float] = []

    async def run(self) -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(TICK)
            now = time.thread_time()
            self.gaps.append(now - last)
            last = now

    def longest(self) -> str:
        worst = sorted(self.gaps)[-3:]
        self.gaps.clear()
        return ", ".join(f"{1000 * gap:.0f}" for gap in reversed(worst)) + " ms of CPU"


async def serve(number: int) -> None:
    """The API server, in a process of its own: what it takes is not the controller's."""
    cluster = SimCluster(Clock(), latency=0.0)
    cluster.apply([node("roomy", roomy=True)])
    for at in range(number):
        document = at_limit(at) if at < AT_LIMIT else TWO_P_ONE_D
        cluster.apply(
            [rule_config_map(document, name=f"rule-{at}"), job(f"p{at}", rule=f"rule-{at}")],
            NAMESPACE,
        )
    async with facade.serve(cluster) as url:
        print(json.dumps(facade.kubeconfig(url)), flush=True)
        await asyncio.Event().wait()


async def control(config: str) -> None:
    loop = asyncio.get_running_loop()
    clock = Clock()
    configure("json", "error", timestamp=clock.micro_timestamp, stream=sys.stderr)
    ticker = Ticker()
    decided = asyncio.Event()

    def observe(_world: World, _decision: Decision) -> None:
        decided.set()

    settings = Settings(leader_election=False, http_port=0, mode=Mode.CREATE)
    with what_stays_spared():  # as `scaler run` does
        async with connect(kubeconfig=config) as api:
            ticking = asyncio.create_task(ticker.run())
            started = loop.time()
            app = App(api, settings, clock, observer=observe, seed=0)
            running = asyncio.create_task(app.run())
            for what in ("listed", "first decision"):
                while app.missing() or (what != "listed" and not decided.is_set()):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                print(
                    f"{what} after {loop.time() - started:.1f} s; the loop stood still for at most"
                    f" {ticker.longest()}"
                )
            await asyncio.sleep(SETTLED)
            print(
                f"in the next {SETTLED:.0f} s: the loop stood still for at most {ticker.longest()}"
            )
            for task in (ticking, running):
                task.cancel()
            await asyncio.gather(ticking, running, return_exceptions=True)


def burst(number: int) -> None:
    command = [sys.executable, "-m", __spec__.name, "serve", str(number)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server,
        NamedTemporaryFile("w") as file,
    ):
        assert server.stdout is not None
        try:
            file.write(json.loads(server.stdout.readline()))
            file.flush()
            asyncio.run(control(file.name))
        finally:
            server.terminate()


async def pages() -> None:
    """The largest page that is taken, of large objects: the longest that one step of decoding it
    takes."""
    large = {
        **job("x"),
        "spec": {"notes": [{"name": f"n{at}", "value": "v" * 20} for at in range(25_000)]},
    }
    one = msgspec.json.encode(large)
    data = b'{"metadata":{},"items":[' + b",".join([one] * (MOST_PAGE // len(one))) + b"]}"
    ticker = Ticker()
    ticking = asyncio.create_task(ticker.run())
    await asyncio.sleep(0.1)
    page = await decode_page(data, ASCEND_JOBS, dict)
    await asyncio.sleep(0.1)
    ticking.cancel()
    what = f"{len(page.items)} objects of {len(one) / 1e6:.1f} MB on one page"
    print(f"{what}: the loop stood still for at most {ticker.longest()}")


def main() -> None:
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve(int(sys.argv[2])))
        return
    number = int(sys.argv[1]) if len(sys.argv) > 1 else SERVICES
    rules()
    first_decisions(number)
    asyncio.run(pages())
    burst(number)


if __name__ == "__main__":
    main()
