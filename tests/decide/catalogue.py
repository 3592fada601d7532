"""Small worlds by name, each the least in which something went wrong once or may; and random ones."""

from __future__ import annotations

import random
from collections.abc import Iterator

from scaler.decide.world import Preempt
from tests.decide.small_worlds import Shape, shape

EQUAL, NEVER = Preempt.EQUAL_OR_HIGHER, Preempt.NEVER


def chosen() -> list[Shape]:
    quiet = [*room_for_all(), *cursed(), *priorities(), *shared_nodes(), *alone(), *late(), *rollouts()]
    return [*quiet, *nodes_that_go(), *outages(), *pairs_of_faults()]


def room_for_all() -> list[Shape]:
    return [
        shape("two minimums on room for one", "a:1x2", "1P1D: p d", "1P1D: p d"),
        shape("two minimums on room for one and a half", "a:1x3", "1P1D: p d", "1P1D: p d"),
        shape("two ladders on room for their minimums", "a:1x4", "2P1D > 1P1D: p p d", "2P1D > 1P1D: p p d"),
        shape("two ladders, room for all", "a:1x6", "2P1D > 1P1D: p p d", "2P1D > 1P1D: p p d"),
        shape("three minimums that come at any time", "a:1x4", "1P1D: p d", "1P1D: p d late", "1P1D: p d late"),
        shape("four services of one", "a:1x3", "1P: p", "1P: p late", "1P: p late", "2P > 1P: p p"),
        shape("a big one and small ones", "a:1x3", "1P: p*2", "1P: p late", "2P > 1P: p p"),
        shape("gangs of two", "a:1x4", "2P > 1P: p*2 p*2", "2P > 1P: p p"),
        shape("gangs bound one by one", "a:1x3", "1P: p*2", "1P: p*2", one_by_one=True),
        shape("two kinds of nodes", "a:1 b:1x2", "1P1D: p@ab d@b", "1P: p"),
        shape("two kinds, chains of choices", "a:1 b:1 c:1", "1P: p@ab", "1P: p@bc", "1P: p@a"),
        shape("two kinds, a scale-up that could spoil", "a:1x2 b:1", "2P > 1P: p p", "1P: p@b late"),
        shape("a scale-up and two kinds", "a:1x2 b:1x2", "2P1D > 1P1D: p@a p@b d@b", "1P: p@a late"),
        shape("gates, room for one", "a:1x2", "1P1D: p d", "1P1D: p d", gates=True),
        shape("gates, a ladder and a minimum late", "a:1x4", "2P1D > 1P1D: p p d", "1P: p late", gates=True),
        shape("a failover in between", "a:1x3", "2P1D > 1P1D: p p d", "1P: p late", events="failover"),
        shape("a stale decision, two minimums", "a:1x2", "1P1D: p d", "1P1D: p d", events="stale"),
        shape("a stale decision, a ladder", "a:1x3", "2P1D > 1P1D: p p d", "1P: p late", events="stale"),
        shape("two stale decisions", "a:1x2", "2P > 1P: p p", "1P: p late", events="stale stale"),
    ]


def cursed() -> list[Shape]:
    return [
        shape("half a minimum never bound, beside a ladder", "a:1x4", "1P1D: p d!bind", "2P1D > 1P1D: p p d"),
        shape("half a minimum never bound, two others", "a:1x4", "1P1D: p d!bind", "1P1D: p d late", "1P: p late"),
        shape("half a minimum never bound, two kinds", "a:1x2 b:1x2", "1P1D: p@a d@b!bind", "2P1D > 1P1D: p@a p@a d@b"),
        shape("half a gang bound", "a:1x4", "1P1D: p*2!half d", "2P1D > 1P1D: p p d"),
        shape("half a gang bound, one by one", "a:1x4", "1P: p*2!half", "2P > 1P: p p", one_by_one=True),
        shape("a scale-up half bound", "a:1x4", "2P > 1P: p p*2!half", "1P1D: p d late"),
        shape("never made, beside a ladder", "a:1x4", "1P1D: p d!make", "2P1D > 1P1D: p p d"),
        shape("never made, scarce", "a:1x2", "1P1D: p!make d!make", "1P1D: p d"),
        shape("a scale-up never made", "a:1x3", "2P > 1P: p p!make", "2P > 1P: p p"),
        shape("made slowly", "a:1x3", "1P1D: p d!slow", "2P > 1P: p p"),
        shape("made slowly, scarce", "a:1x2", "1P1D: p!slow d!slow", "1P1D: p d"),
        shape("a gang made slowly", "a:1x3", "1P: p*2!slow", "2P > 1P: p p"),
        shape("a gang made slowly, one by one", "a:1x3", "1P: p*2!slow", "2P > 1P: p p", one_by_one=True),
        shape("never bound, beside scale-ups", "a:1x5", "1P1D: p!bind d!bind late", "2P > 1P: p p", "2P > 1P: p p"),
        shape("never bound, scale-ups late", "a:1x4", "1P1D: p!bind d!bind", "2P > 1P: p p late", "2P > 1P: p p late"),
        shape("refused", "a:1x3", "1P1D: p!refuse d", "2P > 1P: p p"),
        shape("refused, a spare", "a:1x2", "1P: p!refuse p", "1P: p"),
        shape("a scale-up refused, a spare", "a:1x3", "2P > 1P: p p!refuse p", "1P: p"),
        shape("a spare of another kind", "a:1 b:1x2", "1P1D: p@a p@b d@b late", "1P: p@a late"),
        shape("the first never bound, a spare", "a:1x3", "1P1D: p!bind p d", "1P: p"),
        shape("the first of the second group never bound, a spare", "a:1x3", "1P1D: p d!bind d", "2P > 1P: p p"),
        shape("a scale-up never bound, a spare", "a:1x3", "2P > 1P: p p!bind p", "1P: p"),
        shape("never runs, a spare", "a:1x3", "1P1D: p!run p d", "1P: p"),
        shape("never runs, no spare", "a:1x3", "1P: p!run", "2P > 1P: p p"),
        shape("a scale-up that never runs, a minimum late", "a:1x2", "2P > 1P: p p!run", "1P: p +1 late"),
        shape("two never bound and one that is", "a:1x2", "1P1D: p!bind d!bind", "1P1D: p d!bind", "1P1D: p d"),
        shape(
            "never made and never runs, equals preempt",
            "a:1x2",
            "1P1D: p d!make late",
            "2P: p!run p!bind",
            preempt=EQUAL,
        ),
        shape(
            "kinds, the flexible one never bound",
            "a:1 b:1 c:1",
            "1P: p@ab!bind",
            "1P1D: p@bc d@ab",
            "2P > 1P: p p late",
        ),
        shape("restarts are few, beside a minimum", "a:1x2", "2P > 1P: p p!bind", "1P: p late", gates=True, budget=3),
        shape("restarts are few, never bound", "a:1x2", "1P1D: p d!bind", "1P: p late", gates=True, budget=3),
    ]


def nodes_that_go() -> list[Shape]:
    both = "lose back"
    return [
        shape("a node lost and back", "a:1x4", "1P1D: p d", "2P > 1P: p p late", events=both),
        shape("a node lost, a spare instance", "a:1x3", "1P1D: p d d", "1P: p late", events=both),
        shape("a node vanishes and comes back", "a:1x3", "2P1D > 1P1D: p p d", "1P: p late", events="vanish back"),
        shape("surplus that never ends", "a:1x3", "3P1D > 1P1D: p p!stuck p!stuck d", events="lose"),
        shape("own surplus beside another", "a:1x4", "2P1D > 1P1D: p p d", "1P: p", events=both),
        shape("surplus that never runs goes first", "a:1x3", "2P1D > 1P1D: p p!run d", "1P: p late", events="lose"),
        shape("no trade", "a:1x3", "2P1D > 1P1D: p p d trade-off", "1P: p", events="lose"),
        shape("a node flaps", "a:1x3", "2P1D > 1P1D: p p d", "1P: p late", events="flap back"),
        shape("a node is cordoned", "a:1x3", "1P1D: p d late", "2P > 1P: p p", events="cordon back"),
        shape("two nodes are lost", "a:1x4", "2P1D > 1P1D: p p d", "1P: p", events="lose lose back"),
        shape("a node lost, then a failover", "a:1x3", "2P1D > 1P1D: p p d", events="lose failover"),
        shape("gates, a node lost and back", "a:1x3", "2P1D > 1P1D: p p d", "1P: p", events=both, gates=True),
        shape("gates, a gang loses a node", "a:1x4", "1P: p*2", "2P > 1P: p p", events=both, gates=True),
        shape("a gang loses a node", "a:1x4", "1P: p*2", "2P > 1P: p p", events=both),
        shape("a node of one kind is lost", "a:1x2 b:1x2", "1P1D: p@a d@b", "2P > 1P: p@ab p@ab", events=both),
    ]


def priorities() -> list[Shape]:
    return [
        shape("preempts one", "a:1x3", "2P1D > 1P1D: p p d", "1P: p +1 late"),
        shape("preempts two", "a:1x4", "3P1D > 1P1D: p p p d", "1P1D: p d +1 late"),
        shape("preempts, never bound", "a:1x3", "2P1D > 1P1D: p p d", "1P: p!bind +1 late"),
        shape("preempts, never bound, a spare", "a:1x3", "2P1D > 1P1D: p p d", "1P: p!bind p +1 late"),
        shape("preempts, half never bound", "a:1x4", "3P1D > 1P1D: p p p d", "1P1D: p d!bind +1 late"),
        shape("two that preempt", "a:1x4", "3P > 1P: p p p", "1P: p +1 late", "1P: p!bind +2 late"),
        shape("the victim never ends", "a:1x3", "3P > 1P: p p!stuck p", "1P: p +1 late"),
        shape("evicting would not do", "a:1x3", "2P1D > 1P1D: p p d", "1P1D: p d +1 late"),
        shape("preempts, refused", "a:1x2", "2P > 1P: p p", "1P: p!refuse +1 late"),
        shape("protected", "a:1x3", "2P1D > 1P1D: p p d protected", "1P: p +1 late"),
        shape("preempts never", "a:1x3", "2P1D > 1P1D: p p d", "1P: p +1 late", preempt=NEVER),
        shape("equals preempt", "a:1x3", "2P > 1P: p p late", "2P > 1P: p p late", "1P: p late", preempt=EQUAL),
        shape(
            "equals preempt, never bound",
            "a:1x3",
            "2P > 1P: p p late",
            "1P: p!bind late",
            "2P > 1P: p p late",
            preempt=EQUAL,
        ),
        shape("equals preempt a ladder", "a:1x4", "2P1D > 1P1D: p p d late", "1P1D: p d late", preempt=EQUAL),
        shape("the higher one never bound", "a:1x2", "1P1D: p!bind d!bind +1 late", "1P1D: p d late"),
        shape("preempts, a stale decision", "a:1x2", "2P > 1P: p p", "1P: p +1 late", events="stale"),
        shape("preempts, the victim's node dies", "a:1x2", "2P > 1P: p p!stuck", "1P: p +1 late", events="lose back"),
        shape("preempts a gang", "a:1x3", "2P > 1P: p p*2", "1P1D: p d +1 late"),
        shape("preempts, gates", "a:1x3", "2P1D > 1P1D: p p d", "1P: p +1 late", gates=True),
        shape("preempts, never made", "a:1x3", "2P1D > 1P1D: p p d", "1P1D: p d!make +1 late", gates=True),
        shape("preempts on one of two kinds", "a:1x2 b:1x2", "2P1D > 1P1D: p@a p@b d@b", "1P: p@b +1 late"),
    ]


def outages() -> list[Shape]:
    two = "outage resume"
    return [
        shape("outage, high and low", "a:1x2", "1P1D: p d +1", "1P1D: p d late", events=two),
        shape("outage, scale-ups", "a:1x3", "2P > 1P: p p", "2P > 1P: p p late", events=two),
        shape("outage, two on one room", "a:1x2", "1P1D: p d", "1P1D: p d", events=two),
        shape("outage, preempts late", "a:1x3", "2P > 1P: p p", "1P: p", "1P: p +1 late", events=two),
        shape("outage, preempts late, never bound", "a:1x3", "2P > 1P: p p", "1P: p", "1P: p!bind +1 late", events=two),
        shape("outage, a spare, gates, slow", "a:1x2", "1P: p!slow p late", "1P: p!slow +1 late", events=two),
        shape("outage, a lower one late", "a:1x3", "2P > 1P: p p +1", "1P1D: p d late", events=two),
    ]


def shared_nodes() -> list[Shape]:
    """Pods that share nodes; free amounts that only some of them can use."""
    return [
        shape("halves of nodes", "a:2x2", "1P1D: p d", "2P1D > 1P1D: p p d"),
        shape("halves and wholes", "a:2x2", "2P > 1P: p p", "1P: p:2"),
        shape("halves and wholes, late", "a:2x2", "2P > 1P: p p", "1P: p:2 late", "1P: p late"),
        shape("a whole one preempts two halves", "a:2x2", "3P > 1P: p p p", "1P: p:2 +1 late"),
        shape("odd amounts", "a:3 b:2", "2P1D > 1P1D: p p d:2", "1P: p:2 late"),
        shape("a half never bound", "a:2x2", "1P1D: p d!bind", "2P > 1P: p:2 p"),
        shape("a node of halves is lost", "a:2x2", "2P1D > 1P1D: p p d", "1P: p:2", events="lose back"),
        shape("gates on halves", "a:2x2", "1P1D: p d", "2P > 1P: p p:2", gates=True),
        shape("enough in all, but on no node", "a:2x2", "2P: p p", "1P: p:2 late"),
    ]


def alone() -> list[Shape]:
    lost = "cordon back"
    return [
        shape("alone, the oldest scale-up fits nowhere", "a:1 b:1", "2P > 1P: p@a p@a p@b"),
        shape("alone, room for one, a spare", "a:1 b:1", "2P > 1P: p@a p@a p@b", events=lost),
        shape("alone, a minimum, a spare", "a:1 b:1", "1P1D: p@a p@b d@ab", events=lost),
        shape("alone, no room", "a:1", "1P1D: p d"),
        shape("alone, own surplus", "a:1x2", "2P1D > 1P1D: p p d~"),
        shape("alone, never bound", "a:1x3", "2P1D > 1P1D: p p!bind d"),
        shape("alone, trade always", "a:1x3", "3P2D > 2P2D > 1P1D: p p p~ d d~ trade-always"),
        shape("two that are alone", "a:1 b:1", "2P > 1P: p@a p@a", "1P1D: p@b d@b"),
    ]


def late() -> list[Shape]:
    """Every job comes at any time, or never."""
    return [
        shape("all late, two ladders of two", "a:1x3", "2P > 1P: p p late", "2P > 1P: p p late"),
        shape("all late, a minimum of two and a spare", "a:1x3", "1P1D: p p d late", "1P: p late"),
        shape("all late, priorities", "a:1x2", "2P > 1P: p p late", "1P1D: p d +1 late"),
    ]


def rollouts() -> list[Shape]:
    """One revision replaces another, one by one, beside a service that lacks room."""
    return [
        shape("a rollout, room for a pair", "a:1x3", "1P1D: p^ p d", "1P: p late"),
        shape("a rollout, no room for a pair", "a:1x2", "1P1D: p^ p d", "1P: p late"),
        shape("a rollout of two", "a:1x3", "2P > 1P: p^ p^ p p", "1P: p late"),
        shape("a rollout beside a ladder", "a:1x4", "1P: p^ p", "2P1D > 1P1D: p p d"),
        shape("a rollout, the newest never bound", "a:1x3", "1P: p^ p!bind", "2P > 1P: p p"),
        shape("a rollout, the newest never runs", "a:1x3", "1P: p^ p!run", "2P > 1P: p p"),
        shape("a rollout, the outdated one never runs", "a:1x3", "1P: p^!run p", "2P > 1P: p p"),
        shape("a rollout, preempted", "a:1x2", "2P > 1P: p^ p^ p", "1P: p +1 late"),
        shape("a rollout of what preempts", "a:1x3", "2P1D > 1P1D: p p d", "1P: p^ p +1"),
        shape("a rollout, a node is lost", "a:1x3", "1P1D: p^ p d", "1P: p late", events="lose back"),
        shape("a rollout, a stale decision", "a:1x3", "1P1D: p^ p d", "1P: p late", events="stale"),
        shape("a rollout, a failover", "a:1x3", "1P1D: p^ p d", "1P: p", events="failover"),
        shape("alone, a rollout", "a:1x3", "2P1D > 1P1D: p^ p^ p p d"),
        shape("alone, a rollout without room", "a:1x2", "1P1D: p^ p d"),
    ]


def pairs_of_faults() -> list[Shape]:
    """Two faults of different kinds, in any order and at any moment."""
    ladder, late_one = "2P1D > 1P1D: p p d", "1P: p late"
    return [
        shape("a node lost, a stale decision", "a:1x3", ladder, late_one, events="lose stale"),
        shape("a node flaps, a stale decision", "a:1x3", ladder, late_one, events="flap back stale"),
        shape("a node cordoned, a stale decision", "a:1x3", ladder, late_one, events="cordon stale"),
        shape("a failover, a stale decision", "a:1x3", ladder, late_one, events="failover stale"),
        shape("a node lost, an outage", "a:1x3", "2P > 1P: p p", late_one, events="lose outage resume"),
        shape("an outage, a stale decision", "a:1x2", "2P > 1P: p p", late_one, events="outage resume stale"),
        shape("an outage, a failover", "a:1x2", "1P1D: p d", "1P: p", events="outage resume failover"),
        shape("a node lost, one refused", "a:1x3", "1P1D: p d!refuse", "2P > 1P: p p", events="lose back"),
        shape("a stale decision, one refused", "a:1x3", "1P1D: p d!refuse", "2P > 1P: p p", events="stale"),
        shape("a failover, one refused", "a:1x3", "1P1D: p d!refuse", "2P > 1P: p p", events="failover"),
        shape("a node lost, one never bound", "a:1x3", "1P1D: p d!bind", "2P > 1P: p p", events="lose back"),
        shape("a stale decision, one never bound", "a:1x3", "1P1D: p d!bind", "2P > 1P: p p", events="stale"),
        shape("a failover, one never bound", "a:1x3", "1P1D: p d!bind", "2P > 1P: p p", events="failover"),
        shape("a node lost, one half bound", "a:1x4", "1P: p*2!half", "2P > 1P: p p", events="lose back"),
        shape("a stale decision, one half bound", "a:1x4", "1P: p*2!half", "2P > 1P: p p", events="stale"),
        shape("a node lost, one never made", "a:1x3", "1P1D: p d!make", "2P > 1P: p p", events="lose back"),
        shape("a stale decision, one made slowly", "a:1x3", "1P1D: p d!slow", "1P: p", events="stale"),
        shape("a node lost, one never runs", "a:1x3", "1P: p!run p", "2P > 1P: p p", events="lose back"),
        shape("a stale decision, one never runs", "a:1x3", "1P: p!run p", "2P > 1P: p p", events="stale"),
        shape("one never ends, a stale decision", "a:1x2", "2P > 1P: p p!stuck", "1P: p +1 late", events="stale"),
        shape("one never ends, an outage", "a:1x2", "2P > 1P: p p!stuck", "1P: p +1 late", events="outage resume"),
        shape("preempts, a node lost, a stale decision", "a:1x2", "2P > 1P: p p", "1P: p +1 late", events="lose stale"),
        shape("preempts, a failover", "a:1x3", ladder, "1P: p +1 late", events="failover"),
        shape("never bound, never runs", "a:1x3", "1P1D: p!bind d", "2P > 1P: p!run p", "1P: p"),
        shape("refused, never bound", "a:1x3", "1P1D: p!refuse d", "1P1D: p d!bind", "1P: p"),
        shape("restarts are few, a node lost", "a:1x2", "2P > 1P: p p", late_one, events="lose", gates=True, budget=3),
    ]


LADDERS = (
    ("1P", "p"), ("1P", "p p"), ("2P > 1P", "p p"), ("2P > 1P", "p p p"), ("1P1D", "p d"), ("1P1D", "p p d"),
    ("2P1D > 1P1D", "p p d"), ("3P > 1P", "p p p"), ("2P", "p p"),
)  # fmt: skip
EVENTS = (
    "",
    "",
    "",
    "lose",
    "lose back",
    "flap back",
    "cordon back",
    "vanish back",
    "outage resume",
    "failover",
    "stale",
)


def endless(seed: int) -> Iterator[Shape]:
    number = 0
    while True:
        number += 1
        yield drawn(random.Random(seed * 1_000_003 + number), f"{seed}-{number}")


def drawn(dice: random.Random, name: str) -> Shape:
    shared = dice.random() < 0.35
    kinds = dice.choice((1, 1, 2))
    size = dice.choice((2, 3)) if shared else 1
    count = dice.choice((1, 2, 2, 3) if shared else (2, 3, 3, 4))
    nodes = [f"{'ab'[dice.randrange(kinds)]}:{dice.choice((size, size, 1)) if shared else 1}" for _ in range(count)]
    classes = sorted({node[0] for node in nodes})
    gates = dice.random() < 0.3
    teams, jobs = [], 0
    for _ in range(dice.choice((1, 2, 2, 2, 3, 3, 4))):
        ladder, letters = dice.choice(LADDERS)
        if jobs + len(letters.split()) > 6:
            continue
        jobs += len(letters.split())
        teams.append(_team(dice, ladder, letters.split(), classes, size, gates))
    events = dice.choice(EVENTS)
    preempt = dice.choice((Preempt.HIGHER_PRIORITY, Preempt.HIGHER_PRIORITY, EQUAL, NEVER))
    words = " ".join([*sorted(nodes), preempt, events]).strip()
    return shape(
        f"random {name}: {words} | {' | '.join(teams)}",
        " ".join(sorted(nodes)),
        *teams,
        events=events,
        preempt=preempt,
        gates=gates,
        one_by_one=dice.random() < 0.2,
        budget=dice.choice((0, 0, 3)) if gates else 0,
    )


def _team(dice: random.Random, ladder: str, letters: list[str], classes: list[str], size: int, gates: bool) -> str:
    curses = ("bind", "bind", "half", "run", "stuck", *(("make", "slow") if gates else ("refuse",)))
    restricted = len(classes) > 1 and dice.random() < 0.5
    words = []
    for letter in letters:
        word = letter + ("*2" if dice.random() < 0.12 else "")
        if restricted:
            word += "@" + dice.choice((*classes, "".join(classes)))
        if size > 1:
            word += f":{dice.randint(1, size)}"
        if dice.random() < 0.16:
            word += "!" + dice.choice(curses)
        words.append(word)
    extra = [dice.choice(("", "", "+1")), dice.choice(("", "", "late")), dice.choice(("",) * 8 + ("protected",))]
    extra.append(dice.choice(("",) * 8 + ("trade-off", "trade-always")))
    return f"{ladder}: {' '.join([*words, *(word for word in extra if word)])}"
