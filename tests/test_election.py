"""Candidates on one simulated API server. Whatever happens, at no moment may two of them send."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from scaler.clock import Clock
from scaler.election import MOST_TRANSITIONS, Election, LeadershipLost
from scaler.kube.api import LEASES, Object, PatchType
from scaler.kube.errors import NotFoundError
from scaler.names import RELEASED_BY
from scaler.settings import Settings
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from tests.faults import Fault, Faults, Rule

NS = "kube-system"
NAME = "scaler"
VACANT = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": NAME, "namespace": NS, "annotations": {RELEASED_BY: "nobody"}},
    "spec": {},
}
WRITES = frozenset({"create", "replace"})
FOR_EVER = 1e6
TIMING = Settings(
    lease_duration=8.0, renew_deadline=5.0, retry_period=1.0, lease_namespace=NS, lease_name=NAME
)


def now() -> float:
    return asyncio.get_running_loop().time()


class Stage:
    """A cluster with a vacant Lease (unless told otherwise) and a watchman over all candidates."""

    def __init__(self, *, lease: bool = True, seed: int = 0) -> None:
        self.clock = Clock(1_800_000_000.0)
        self.cluster = SimCluster(self.clock, seed=seed, latency=0.004)
        if lease:
            self.cluster.apply([VACANT])
        self.candidates: dict[str, Candidate] = {}
        self.both: list[float] = []
        self._watchman = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        """Two may lead never, and the one who works may also send."""
        while True:
            if sum(c.election.leading for c in self.candidates.values()) > 1:
                self.both.append(now())
            await asyncio.sleep(0.01)

    def start(
        self, name: str, *faults: Rule, work: Callable[[], Awaitable[None]] | None = None
    ) -> Candidate:
        candidate = Candidate(self, name, faults, work)
        self.candidates[name] = candidate
        return candidate

    def break_client(self, name: str, *faults: Rule) -> None:
        """From now on this happens to the requests of the candidate `name`."""
        self.candidates[name].faults.rules[:] = faults

    async def edit(self, **spec: Any) -> None:
        await self.cluster.patch(LEASES, NS, NAME, {"spec": spec}, patch_type=PatchType.MERGE)

    async def delete(self) -> None:
        with contextlib.suppress(NotFoundError):
            await self.cluster.delete(LEASES, NS, NAME)

    async def again_and_again(self, attack: Attack, period: float) -> None:
        for number in itertools.count(1):
            await asyncio.sleep(period)
            with contextlib.suppress(NotFoundError):
                await attack(self, number)

    def lease(self) -> Object:
        return self.cluster.peek(LEASES, NS)[0]

    @property
    def holder(self) -> str:
        return str(self.lease()["spec"].get("holderIdentity", ""))

    async def end(self) -> None:
        self._watchman.cancel()
        for candidate in self.candidates.values():
            await candidate.stop()
        assert self.both == []


class Candidate:
    """One process: an election, and work that notes from when until when it ran."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        faults: tuple[Rule, ...],
        work: Callable[[], Awaitable[None]] | None,
    ) -> None:
        self.faults = Faults(stage.clock, *faults, seed=len(stage.candidates))
        api = stage.cluster.client(name, self.faults)
        rng = random.Random(name)
        self.election = Election(stage.clock, TIMING.model_copy(update={"identity": name}), rng=rng)
        self.began = -1.0
        self.ended = -1.0
        self._work = work
        self.task = asyncio.create_task(self.election.lead(api, self.work))
        self.task.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def work(self) -> None:
        self.began = now()
        try:
            await (self._work() if self._work else asyncio.Event().wait())
        finally:
            self.ended = now()

    async def stop(self) -> None:
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError, LeadershipLost, ZeroDivisionError):
            await self.task

    @property
    def lost(self) -> str:
        """Why it lost its leadership, "" when it did not."""
        error = self.task.exception() if self.task.done() and not self.task.cancelled() else None
        return str(error) if isinstance(error, LeadershipLost) else ""


def play(scene: Callable[[Stage], Awaitable[None]], *, lease: bool = True, seed: int = 0) -> None:
    async def main() -> None:
        stage = Stage(lease=lease, seed=seed)
        await scene(stage)
        await stage.end()

    run(main(), seed=seed)


def test_a_released_lease_is_taken_at_once_and_renewed_while_work_goes_on() -> None:
    async def scene(stage: Stage) -> None:
        a = stage.start("a")
        await asyncio.sleep(60)
        assert 0.0 < a.began < 0.1
        assert stage.holder == "a"
        assert stage.lease()["spec"]["leaseTransitions"] == 1
        assert RELEASED_BY not in stage.lease()["metadata"].get("annotations", {})
        assert 45 <= len(stage.cluster.writes("a")) <= 61

    play(scene)


def test_a_missing_lease_is_created_but_only_after_whoever_may_have_held_it_must_have_noticed() -> (
    None
):
    async def scene(stage: Stage) -> None:
        a = stage.start("a")
        await asyncio.sleep(20)
        assert TIMING.lease_duration <= a.began < TIMING.lease_duration + 0.1

    play(scene, lease=False)


def test_a_standby_takes_over_within_a_tenth_of_a_second_when_the_leader_shuts_down() -> None:
    async def scene(stage: Stage) -> None:
        a = stage.start("a")
        await asyncio.sleep(1)
        b = stage.start("b")
        await asyncio.sleep(30)
        assert b.began < 0
        await a.stop()
        await asyncio.sleep(1)
        assert a.ended <= b.began <= a.ended + 0.1
        assert stage.holder == "b"

    play(scene)


def test_the_lease_is_kept_while_work_winds_down_and_released_after_it() -> None:
    async def slow_to_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(12)

    async def scene(stage: Stage) -> None:
        a = stage.start("a", work=slow_to_end)
        await asyncio.sleep(1)
        b = stage.start("b")
        await asyncio.sleep(1)
        a.task.cancel()
        await asyncio.sleep(11)
        assert a.election.leading
        assert b.began < 0
        await asyncio.sleep(2)
        assert b.began >= a.ended > 13

    play(scene)


def test_when_work_fails_its_error_comes_through_and_the_lease_is_released() -> None:
    async def failing() -> None:
        await asyncio.sleep(1)
        raise ZeroDivisionError

    async def scene(stage: Stage) -> None:
        a = stage.start("a", work=failing)
        await asyncio.sleep(2)
        assert isinstance(a.task.exception(), ZeroDivisionError)
        assert stage.holder == ""
        assert not a.election.leading

    play(scene)


def test_when_work_ends_lead_returns_and_the_lease_is_released() -> None:
    async def scene(stage: Stage) -> None:
        a = stage.start("a", work=lambda: asyncio.sleep(1))
        await asyncio.sleep(2)
        assert a.task.done()
        assert a.task.exception() is None
        assert stage.holder == ""

    play(scene)


DEAF: dict[str, list[Rule]] = {
    "connection refused": [Rule(fault=Fault.NOT_SENT)],
    "hung calls": [Rule(fault=Fault.DELAY, seconds=FOR_EVER)],
    "hung answers": [Rule(fault=Fault.SLOW_ANSWER, seconds=FOR_EVER)],
    "answers after the deadline": [Rule(fault=Fault.SLOW_ANSWER, seconds=6.0)],
    "resets and HTML": [Rule(fault=Fault.LOST_REQUEST)],
    "renewals without answer": [Rule(fault=Fault.LOST_ANSWER, verbs=WRITES)],
    "too many requests": [Rule(fault=Fault.REFUSED, status=429)],
    "internal errors": [Rule(fault=Fault.REFUSED, status=500)],
    "token expired": [Rule(fault=Fault.REFUSED, status=401)],
}


@pytest.mark.parametrize("faults", DEAF.values(), ids=DEAF)
def test_a_leader_who_cannot_renew_stops_before_the_standby_starts(faults: list[Rule]) -> None:
    async def scene(stage: Stage) -> None:
        a = stage.start("a")
        b = None
        await asyncio.sleep(1)
        b = stage.start("b")
        await asyncio.sleep(20)
        stage.break_client("a", *faults)
        broken = now()
        await asyncio.sleep(25)
        assert a.lost.startswith("no renewal came through")
        assert broken + TIMING.renew_deadline - 1.2 <= a.ended <= broken + TIMING.renew_deadline
        assert a.ended + 1.0 < b.began <= a.ended + TIMING.lease_duration + 1.3

    play(scene)


def test_a_few_lost_renewals_do_not_end_leadership() -> None:
    async def scene(stage: Stage) -> None:
        a = stage.start("a")
        await asyncio.sleep(5)
        stage.break_client(
            "a", Rule(fault=Fault.LOST_ANSWER, times=1), Rule(fault=Fault.NOT_SENT, times=1, skip=1)
        )
        await asyncio.sleep(30)
        assert a.election.leading

    play(scene)


def test_a_claim_whose_answer_was_lost_is_recognised_as_ones_own() -> None:
    async def scene(stage: Stage) -> None:
        a = stage.start("a", Rule(fault=Fault.LOST_ANSWER, verbs=WRITES, times=1))
        await asyncio.sleep(10)
        assert 0.0 < a.began < 0.1

    play(scene)


def test_a_deleted_lease_is_made_again_by_its_holder_and_nobody_else_leads() -> None:
    async def scene(stage: Stage) -> None:
        a = stage.start("a")
        await asyncio.sleep(1)
        b = stage.start("b")
        for _ in range(5):
            await asyncio.sleep(3)
            await stage.cluster.delete(LEASES, NS, NAME)
        c = stage.start("c")
        await asyncio.sleep(30)
        assert a.election.leading
        assert (b.began, c.began) == (-1.0, -1.0)

    play(scene)


EDITS: dict[str, Callable[[Stage], Awaitable[None]]] = {
    "emptied": lambda stage: stage.edit(holderIdentity=None),
    "cleared": lambda stage: stage.edit(
        holderIdentity=None,
        renewTime=None,
        acquireTime=None,
        leaseDurationSeconds=None,
        leaseTransitions=None,
    ),
    "made to last for ever": lambda stage: stage.edit(leaseDurationSeconds=100_000),
    "made short": lambda stage: stage.edit(
        leaseDurationSeconds=1, renewTime="2001-01-01T00:00:00.000000Z"
    ),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_a_lease_that_somebody_edits_stays_with_its_holder(
    edit: Callable[[Stage], Awaitable[None]],
) -> None:
    async def scene(stage: Stage) -> None:
        a = stage.start("a")
        await asyncio.sleep(1)
        b = stage.start("b")
        await asyncio.sleep(5.3)
        await edit(stage)
        await asyncio.sleep(30)
        assert a.election.leading
        assert b.began < 0

    play(scene)


Attack = Callable[[Stage, int], Awaitable[None]]
ATTACKS: dict[str, Attack] = {
    "deleted": lambda stage, _: stage.delete(),
    "the count of transitions": lambda stage, number: stage.edit(leaseTransitions=number),
    "the holder": lambda stage, number: stage.edit(
        holderIdentity=("a", "b", "c", None)[number % 4]
    ),
    "both": lambda stage, number: stage.edit(holderIdentity="x", leaseTransitions=number),
    "all but the times": lambda stage, number: stage.edit(
        holderIdentity="x", leaseTransitions=number, leaseDurationSeconds=number
    ),
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
@pytest.mark.parametrize("period", [1.0, 0.3])
def test_a_lease_that_somebody_edits_or_deletes_for_ever_has_a_leader(
    attack: Attack, period: float
) -> None:
    """Who leads goes on; when it dies, the standby leads a lease later."""

    async def scene(stage: Stage) -> None:
        a = stage.start("a")
        await asyncio.sleep(1)
        b = stage.start("b")
        attacking = asyncio.create_task(stage.again_and_again(attack, period))
        await asyncio.sleep(60)
        assert a.election.leading
        assert b.began < 0
        stage.break_client("a", Rule(fault=Fault.NOT_SENT))
        died = now()
        await asyncio.sleep(2 * TIMING.lease_duration)
        assert died < a.ended < b.began < died + 1.5 * TIMING.lease_duration
        await asyncio.sleep(60)
        assert b.election.leading
        attacking.cancel()

    play(scene)


def test_a_lease_given_away_by_hand_stays_with_its_holder() -> None:
    async def scene(stage: Stage) -> None:
        a = stage.start("a")
        await asyncio.sleep(1)
        b = stage.start("b")
        await asyncio.sleep(5)
        await stage.edit(holderIdentity="b")
        await asyncio.sleep(20)
        assert a.election.leading
        assert stage.holder == "a"
        assert b.began < 0

    play(scene)


@pytest.mark.parametrize("seed", range(12))
def test_two_never_lead_whatever_is_done_to_the_lease_again_and_again(seed: int) -> None:
    """With watches that lag and break, candidates that die and come back, and every attack at
    random. When only the attacks go on, one leads soon."""

    async def scene(stage: Stage) -> None:
        rng = random.Random(seed)
        attack = rng.choice(list(ATTACKS.values()))
        attacking = asyncio.create_task(
            stage.again_and_again(attack, rng.choice([0.2, 0.5, 1.0, 3.0]))
        )
        for name in ("a", "b", "c"):
            stage.start(name)
        for number in range(40):
            await asyncio.sleep(rng.uniform(0.5, 8.0))
            name = rng.choice(list(stage.candidates))
            fault = rng.choice([Fault.LAG, Fault.DELAY, Fault.NOT_SENT, Fault.LOST_ANSWER])
            stage.break_client(name, Rule(fault=fault, seconds=rng.uniform(0.1, 12.0)))
            if rng.random() < 0.5:
                stage.break_client(rng.choice(list(stage.candidates)))
            for known, candidate in list(stage.candidates.items()):
                if candidate.task.done():
                    del stage.candidates[known]
                    stage.start(f"{known[0]}{number}")
        for name in list(stage.candidates):
            stage.break_client(name)
            if stage.candidates[name].task.done():
                del stage.candidates[name]
        stage.start("last")
        await asyncio.sleep(40)
        assert [one for one in stage.candidates.values() if one.election.leading]
        attacking.cancel()

    play(scene, seed=seed)


@pytest.mark.parametrize("seed", range(8))
def test_whatever_holder_somebody_writes_into_the_lease_two_never_lead(seed: int) -> None:
    """A name in the Lease is no proof: whoever may edit it writes the names of all candidates,
    again and again. Candidates that end are started again under other names."""

    async def scene(stage: Stage) -> None:
        rng = random.Random(seed)
        for name in ("a", "b"):
            stage.start(name)
        for number in range(60):
            await asyncio.sleep(rng.uniform(0.05, 6.0))
            for name, candidate in list(stage.candidates.items()):
                if candidate.task.done():
                    del stage.candidates[name]
                    stage.start(f"{name[0]}{number}")
            written: dict[str, Any] = {"holderIdentity": rng.choice([*stage.candidates, ""])}
            if rng.random() < 0.3:
                transitions = int(stage.lease()["spec"].get("leaseTransitions") or 0)
                written["leaseTransitions"] = transitions + rng.choice([1, 2])
            if rng.random() < 0.3:
                written["leaseDurationSeconds"] = rng.choice([1, 3, 1000])
            await stage.edit(**written)

    play(scene, seed=seed)


def test_a_claim_that_made_a_deleted_lease_anew_is_no_leadership() -> None:
    """A PUT of a Lease that is missing makes it, whatever preconditions its body has."""

    async def scene(stage: Stage) -> None:
        a = stage.start("a")
        await asyncio.sleep(1)
        blind = Rule(fault=Fault.LAG, seconds=FOR_EVER)
        b = stage.start(
            "b", blind, Rule(fault=Fault.DELAY, seconds=0.5, verbs=frozenset({"replace"}), times=1)
        )
        await asyncio.sleep(8.2)
        stage.break_client("a", Rule(fault=Fault.DELAY, seconds=1.5))
        await stage.cluster.delete(LEASES, NS, NAME)
        await asyncio.sleep(0.6)
        assert stage.holder == "b"
        assert a.election.leading
        assert not b.election.leading
        await asyncio.sleep(30)
        assert a.lost == "the lease is held by b"
        assert b.election.leading

    play(scene)


def test_a_lease_that_is_declared_free_by_hand_is_not_kept() -> None:
    async def scene(stage: Stage) -> None:
        a = stage.start("a")
        await asyncio.sleep(1)
        free = {
            "metadata": {"annotations": {RELEASED_BY: "somebody"}},
            "spec": {"holderIdentity": None},
        }
        await stage.cluster.patch(LEASES, NS, NAME, free, patch_type=PatchType.MERGE)
        await asyncio.sleep(5)
        assert a.lost == "the lease is held by nobody"

    play(scene)


@pytest.mark.parametrize("cut_off", [False, True])
def test_a_lease_that_comes_back_from_a_backup_is_taken_after_its_whole_time(cut_off: bool) -> None:
    """In the backup nobody led; in truth somebody does."""

    async def scene(stage: Stage) -> None:
        backup = stage.cluster.server.store.back_up()
        a = stage.start("a")
        await asyncio.sleep(1)
        b = stage.start("b")
        await asyncio.sleep(30)
        if cut_off:
            stage.break_client("a", Rule(fault=Fault.NOT_SENT))
        stage.cluster.restore(backup)
        restored = now()
        await asyncio.sleep(60)
        assert a.election.leading != cut_off
        if cut_off:
            assert (
                restored + TIMING.lease_duration
                <= b.began
                <= restored + TIMING.lease_duration + 3.0
            )
        else:
            assert b.began < 0

    play(scene)


def test_a_leader_whose_lease_came_back_as_somebody_elses_ends() -> None:
    async def scene(stage: Stage) -> None:
        a = stage.start("a")
        await asyncio.sleep(5)
        backup = stage.cluster.server.store.back_up()
        await a.stop()
        b = stage.start("b")
        await asyncio.sleep(30)
        assert b.election.leading
        stage.cluster.restore(backup)
        await asyncio.sleep(30)
        assert b.lost == "the lease is held by a"
        c = stage.start("c")
        await asyncio.sleep(30)
        assert c.election.leading

    play(scene)


def test_the_deadline_is_counted_from_before_the_renewal_not_from_its_answer() -> None:
    async def scene(stage: Stage) -> None:
        a = stage.start("a")
        await asyncio.sleep(1)
        stage.break_client("a", Rule(fault=Fault.SLOW_ANSWER, seconds=2.0, verbs=WRITES))
        await asyncio.sleep(10)
        for _ in range(300):
            await asyncio.sleep(0.1)
            written = stage.cluster.writes("a")[-1].moment - stage.clock.now() + now()
            assert now() < a.election.deadline() < written + TIMING.renew_deadline

    play(scene)


def test_a_leaseduration_beyond_belief_is_not_waited_for() -> None:
    async def scene(stage: Stage) -> None:
        await stage.edit(
            holderIdentity="gone",
            leaseDurationSeconds=1_000_000,
            renewTime="2001-01-01T00:00:00.000000Z",
        )
        a = stage.start("a")
        await asyncio.sleep(100)
        assert 60.0 < a.began < 61.0

    play(scene)


def test_a_lease_with_the_largest_count_of_transitions_can_still_be_taken() -> None:
    """An API server refuses a number above it, so a count that went on would end every leader."""

    async def scene(stage: Stage) -> None:
        await stage.edit(leaseTransitions=MOST_TRANSITIONS)
        a = stage.start("a")
        await asyncio.sleep(30)
        assert a.election.leading
        assert 0 <= a.election.transitions <= MOST_TRANSITIONS

    play(scene)


def test_a_standby_that_cannot_watch_still_takes_over() -> None:
    async def scene(stage: Stage) -> None:
        a = stage.start("a")
        await asyncio.sleep(1)
        b = stage.start(
            "b", Rule(fault=Fault.REFUSED, status=403, verbs=frozenset({"watch", "list"}))
        )
        await asyncio.sleep(20)
        assert b.began < 0
        await a.stop()
        await asyncio.sleep(5)
        assert a.ended < b.began < a.ended + 2.0

    play(scene)


def test_a_standby_whose_watch_hangs_never_takes_a_lease_that_is_renewed() -> None:
    async def scene(stage: Stage) -> None:
        a = stage.start("a")
        await asyncio.sleep(1)
        b = stage.start("b", Rule(fault=Fault.LAG, seconds=FOR_EVER))
        await asyncio.sleep(100)
        assert a.election.leading
        assert b.began < 0

    play(scene)


def test_the_wall_clock_may_say_anything() -> None:
    async def scene(stage: Stage) -> None:
        a = stage.start("a")
        await asyncio.sleep(1)
        stage.clock = Clock(0.0)
        b = stage.start("b")
        await asyncio.sleep(30)
        assert a.election.leading
        await a.stop()
        await asyncio.sleep(1)
        assert b.election.leading

    play(scene)


@pytest.mark.parametrize("stall", [1.0, 6.0, 9.0, 20.0])
@pytest.mark.parametrize("after", [0.0, 0.3, 0.9, 1.001])
def test_a_machine_that_stands_still_finds_its_leadership_ended_if_it_was_too_long(
    stall: float, after: float
) -> None:
    async def scene(stage: Stage) -> None:
        a = stage.start("a")
        await asyncio.sleep(1)
        b = stage.start("b")
        await asyncio.sleep(10 + after)
        loop: Any = asyncio.get_running_loop()
        loop._now += stall
        assert a.election.leading == (stall < 3.0)
        await asyncio.sleep(30)
        assert bool(a.lost) == (stall > 3.0)
        assert (b.began > 0) == (stall > 3.0)

    play(scene)


FAULTS = [
    Rule(fault=Fault.NOT_SENT, probability=0.1),
    Rule(fault=Fault.LOST_REQUEST, probability=0.1),
    Rule(fault=Fault.LOST_ANSWER, probability=0.2),
    Rule(fault=Fault.DELAY, probability=0.1, seconds=3.0),
    Rule(fault=Fault.SLOW_ANSWER, probability=0.1, seconds=7.0),
    Rule(fault=Fault.REFUSED, probability=0.1, status=409, verbs=WRITES),
    Rule(fault=Fault.REFUSED, probability=0.1, status=500),
    Rule(fault=Fault.CUT, probability=0.1),
    Rule(fault=Fault.LAG, probability=0.2, seconds=10.0),
]


@pytest.mark.parametrize("seed", range(1, 13))
def test_three_candidates_under_any_faults_never_lead_together_and_one_leads_when_they_end(
    seed: int,
) -> None:
    async def scene(stage: Stage) -> None:
        dice = random.Random(seed)
        for turn in range(60):
            name = dice.choice("abc")
            faults = dice.sample(FAULTS, 3) if dice.random() < 0.7 else []
            old = stage.candidates.get(name)
            if old is None or old.task.done():
                stage.start(name, *faults)
            elif dice.random() < 0.2:
                await old.stop()
            else:
                stage.break_client(name, *faults)
            if dice.random() < 0.1 and turn > 5:
                with contextlib.suppress(Exception):
                    await stage.cluster.delete(LEASES, NS, NAME)
            await asyncio.sleep(dice.uniform(0.1, 6.0))
        for name in "abc":
            stage.break_client(name)
            if stage.candidates[name].task.done():
                stage.start(name)
        await asyncio.sleep(40)
        assert sum(c.election.leading for c in stage.candidates.values()) == 1

    play(scene, seed=seed)
