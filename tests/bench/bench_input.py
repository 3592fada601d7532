"""What one tenant, or a burst, can cost the loop: rules at their limits, many services at once, large objects.

    python -m tests.bench.bench_input [services]

The whole controller in one process with the simulated API server, on a real clock; a ticker notes how long the loop
did not turn. Pods that the scaler makes are never bound, so every service has a decision, writes and a report.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time

import msgspec

from scaler.app import run_controller
from scaler.clock import Clock
from scaler.decide.decide import Cache, decide
from scaler.decide.world import Decision, Service, ServiceKey, State, World
from scaler.kube.api import ASCEND_JOBS
from scaler.kube.wire import decode_page
from scaler.rules.document import RuleReading, read_rule
from scaler.rules.limits import MAX_RATIOS
from scaler.settings import Settings
from scaler.sim.cluster import SimCluster
from tests.bench.bench_decide import CLASSES, request, resting, unlike
from tests.builders import NOW, instance, rule
from tests.jobs import NAMESPACE, TWO_P_ONE_D, job, node, rule_config_map, rule_document

SERVICES, AT_LIMIT = 10_000, 200
TICK = 0.002


def at_limit(number: int) -> str:
    """A valid rule that is as costly as one may be; no two are alike."""
    ladder = [{"group0": MAX_RATIOS + 1 - size, "group1": 1 + number} for size in range(MAX_RATIOS)]
    return rule_document(*ladder)


def read(document: str) -> RuleReading:
    return read_rule({"elastic_scaling.json": document}, (), {})


def rules() -> None:
    wrong = at_limit(0).replace('"group_num": "1"', '"group_num": "x"').replace('"1025"', '"0"')
    many = json.dumps({"elastic_scaling_list": [{"group_list": [{f"a{n}": 1 for n in range(16_000)}]}]})
    for what, document in (("a valid rule", at_limit(0)), ("a wrong one", wrong), ("only unknown members", many)):
        took = []
        for number in range(10):
            started = time.process_time()
            read(document + " " * number)
            took.append(time.process_time() - started)
        print(f"{what} at the limits, {len(document) // 1024} KiB: {1000 * sorted(took)[5]:.1f} ms of CPU")


def waiting(number: int) -> World:
    """Services that run nothing yet, all of which ask for their minimum."""

    def one(index: int) -> Service:
        what = ((request(index % CLASSES, 4), 1),)
        found = (instance(f"p{at}", State.HELD, uid=f"{index}-{at}", needs=what, unbound=what) for at in range(3))
        return Service(ServiceKey("default", "rule", f"s{index:05}"), tuple(found), rule("3P > 1P"))

    return World(NOW, tuple(one(index) for index in range(number)), unlike(random.Random(1), 0.5))


def first_decisions(number: int) -> None:
    for what, made in (("at rest", resting(number)), ("that wait for their minimum", waiting(number))):
        started, cpu = time.perf_counter(), time.process_time()
        first = decide(made, cache := Cache())
        took, used = time.perf_counter() - started, time.process_time() - cpu
        started = time.process_time()
        decide(msgspec.structs.replace(made, memory=first.memory, now=made.now + 1), cache)
        again = time.process_time() - started
        print(f"first decision, {number} services {what}: {took:.2f} s ({used:.2f} s of CPU), the next {again:.2f} s")


class Ticker:
    """The longest times for which the loop did not turn, in CPU time: other work on the machine does not count."""

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


async def burst(number: int) -> None:
    loop = asyncio.get_running_loop()
    clock = Clock(time.time() - loop.time())
    cluster = SimCluster(clock, latency=0.0)
    cluster.apply([node("roomy", roomy=True)])
    for at in range(number):
        costly = at < AT_LIMIT
        document = at_limit(at) if costly else TWO_P_ONE_D
        cluster.apply([rule_config_map(document, name=f"rule-{at}"), job(f"p{at}", rule=f"rule-{at}")], NAMESPACE)
    ticker, decided = Ticker(), asyncio.Event()

    def observe(_world: World, _decision: Decision) -> None:
        decided.set()

    ticking = asyncio.create_task(ticker.run())
    started = time.perf_counter()
    settings = Settings(leader_election=False, http_port=0)
    synced = asyncio.Event()
    running = asyncio.create_task(
        run_controller(cluster.client("scaler"), settings, clock, observer=observe, seed=0, on_synced=synced.set)
    )
    await synced.wait()
    print(f"listed after {time.perf_counter() - started:.1f} s; the loop stood still for at most {ticker.longest()}")
    await decided.wait()
    print(f"first decision after {time.perf_counter() - started:.1f} s")
    await asyncio.sleep(20)
    print(f"since the list, deciding and reporting: the loop stood still for at most {ticker.longest()}")
    for task in (ticking, running):
        task.cancel()
    await asyncio.gather(ticking, running, return_exceptions=True)


async def pages() -> None:
    """A page of large objects: the longest that one step of decoding it takes."""
    large = {**job("x"), "spec": {"notes": [{"name": f"n{at}", "value": "v" * 20} for at in range(25_000)]}}
    one = msgspec.json.encode(large)
    data = b'{"metadata":{},"items":[' + b",".join([one] * 100) + b"]}"
    ticker = Ticker()
    ticking = asyncio.create_task(ticker.run())
    await asyncio.sleep(0.1)
    page = await decode_page(data, ASCEND_JOBS, dict)
    await asyncio.sleep(0.1)
    ticking.cancel()
    what = f"{len(page.items)} objects of {len(one) / 1e6:.1f} MB on one page"
    print(f"{what}: the loop stood still for at most {ticker.longest()}")


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else SERVICES
    rules()
    first_decisions(number)
    asyncio.run(pages())
    asyncio.run(burst(number))


if __name__ == "__main__":
    main()
