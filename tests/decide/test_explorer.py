"""Small worlds in which every order of events is played with the real decision; see
tests/decide/explorer.py.

Each is the least in which something went wrong once or may. Those that are visited whole in about a
second each are played here, the others and random ones by `make explore`."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from scaler.decide.world import Preempt
from tests.decide.alike import representative
from tests.decide.explorer import Explorer
from tests.decide.moves import moves
from tests.decide.small_worlds import Shape, initial, shape

MOST = 2000
"""States of the largest of them, with something to spare."""

WORLDS = """
# room for all, or nearly
* two minimums on room for one | a:1x2 | 1P1D: p d | 1P1D: p d
* two minimums on room for one and a half | a:1x3 | 1P1D: p d | 1P1D: p d
two ladders on room for their minimums | a:1x4 | 2P1D > 1P1D: p p d | 2P1D > 1P1D: p p d
two ladders, room for all | a:1x6 | 2P1D > 1P1D: p p d | 2P1D > 1P1D: p p d
three minimums that come at any time | a:1x4 | 1P1D: p d | 1P1D: p d late | 1P1D: p d late
four services of one | a:1x3 | 1P: p | 1P: p late | 1P: p late | 2P > 1P: p p
* a big one and small ones | a:1x3 | 1P: p*2 | 1P: p late | 2P > 1P: p p
* gangs of two | a:1x4 | 2P > 1P: p*2 p*2 | 2P > 1P: p p
* gangs bound one by one | a:1x3 | 1P: p*2 | 1P: p*2 | with one-by-one
* two kinds of nodes | a:1 b:1x2 | 1P1D: p@ab d@b | 1P: p
* two kinds, chains of choices | a:1 b:1 c:1 | 1P: p@ab | 1P: p@bc | 1P: p@a
* two kinds, a scale-up that could invalidate | a:1x2 b:1 | 2P > 1P: p p | 1P: p@b late
* a scale-up and two kinds | a:1x2 b:1x2 | 2P1D > 1P1D: p@a p@b d@b | 1P: p@a late
* gates, room for one | a:1x2 | 1P1D: p d | 1P1D: p d | with gates
gates, a ladder and a minimum late | a:1x4 | 2P1D > 1P1D: p p d | 1P: p late | with gates
a failover in between | a:1x3 | 2P1D > 1P1D: p p d | 1P: p late | with failover
* a stale decision, two minimums | a:1x2 | 1P1D: p d | 1P1D: p d | with stale
a stale decision, a ladder | a:1x3 | 2P1D > 1P1D: p p d | 1P: p late | with stale
* two stale decisions | a:1x2 | 2P > 1P: p p | 1P: p late | with stale stale
# racks of two nodes, and decodes that need one each
* two decodes that need a rack | a:1x4 | 1P1D: p d*2% | 1P1D: p d*2% | with racks
two decodes that need a rack, a node lost and back | a:1x4 | 1P1D: p d*2% | 1P: p*2% \
    | with racks lose back
* two that need a rack each, a node lost | a:1x4 | 1P: p*2% | 1P: p*2% | with racks lose
* one that needs a rack, a ladder, a node lost | a:1x4 | 1P: p*2% | 2P > 1P: p p | with racks lose
two that need a rack each, a node lost and back | a:1x4 | 1P: p*2% | 1P: p*2% \
    | with racks lose back
# cursed
* half a minimum never bound, beside a ladder | a:1x4 | 1P1D: p d!bind | 2P1D > 1P1D: p p d
half a minimum never bound, two others | a:1x4 | 1P1D: p d!bind | 1P1D: p d late | 1P: p late
* half a minimum never bound, two kinds | a:1x2 b:1x2 | 1P1D: p@a d@b!bind \
    | 2P1D > 1P1D: p@a p@a d@b
* half a gang bound | a:1x4 | 1P1D: p*2!half d | 2P1D > 1P1D: p p d
* half a gang bound, one by one | a:1x4 | 1P: p*2!half | 2P > 1P: p p | with one-by-one
a scale-up half bound | a:1x4 | 2P > 1P: p p*2!half | 1P1D: p d late
* never made, beside a ladder | a:1x4 | 1P1D: p d!make | 2P1D > 1P1D: p p d
* never made, scarce | a:1x2 | 1P1D: p!make d!make | 1P1D: p d
* a scale-up never made | a:1x3 | 2P > 1P: p p!make | 2P > 1P: p p
made slowly | a:1x3 | 1P1D: p d!slow | 2P > 1P: p p
* made slowly, scarce | a:1x2 | 1P1D: p!slow d!slow | 1P1D: p d
* a gang made slowly | a:1x3 | 1P: p*2!slow | 2P > 1P: p p
a gang made slowly, one by one | a:1x3 | 1P: p*2!slow | 2P > 1P: p p | with one-by-one
never bound, beside scale-ups | a:1x5 | 1P1D: p!bind d!bind late | 2P > 1P: p p | 2P > 1P: p p
never bound, scale-ups late | a:1x4 | 1P1D: p!bind d!bind | 2P > 1P: p p late | 2P > 1P: p p late
* refused | a:1x3 | 1P1D: p!refuse d | 2P > 1P: p p
* refused, a spare | a:1x2 | 1P: p!refuse p | 1P: p
* a scale-up refused, a spare | a:1x3 | 2P > 1P: p p!refuse p | 1P: p
a spare of another kind | a:1 b:1x2 | 1P1D: p@a p@b d@b late | 1P: p@a late
* the first never bound, a spare | a:1x3 | 1P1D: p!bind p d | 1P: p
* the first of the second group never bound, a spare | a:1x3 | 1P1D: p d!bind d | 2P > 1P: p p
* a scale-up never bound, a spare | a:1x3 | 2P > 1P: p p!bind p | 1P: p
* never runs, a spare | a:1x3 | 1P1D: p!run p d | 1P: p
* never runs, no spare | a:1x3 | 1P: p!run | 2P > 1P: p p
* a scale-up that never runs, a minimum late | a:1x2 | 2P > 1P: p p!run | 1P: p +1 late
* two never bound and one that is | a:1x2 | 1P1D: p!bind d!bind | 1P1D: p d!bind | 1P1D: p d
* two of a higher priority never bound and one that is | a:1 | 1P: p!bind +1 | 1P: p!bind +1 \
    | 1P: p late
three of a higher priority never bound and one that is | a:1 | 1P: p!bind +1 | 1P: p!bind +1 \
    | 1P: p!bind +1 | 1P: p late
* five of a higher priority never bound and one that is | a:1 | 1P: p!bind +1 | 1P: p!bind +1 \
    | 1P: p!bind +1 | 1P: p!bind +1 | 1P: p!bind +1 | 1P: p late
two of a higher priority never bound, half of one | a:1x2 | 1P1D: p!bind d!bind +1 \
    | 1P1D: p d!bind +1 | 1P1D: p d
* two scale-ups never bound and one that is | a:1x4 | 2P > 1P: p p!bind | 2P > 1P: p p!bind \
    | 2P > 1P: p p
two scale-ups of a higher priority never bound | a:1x4 | 2P > 1P: p p!bind +1 \
    | 2P > 1P: p p!bind +1 | 2P > 1P: p p
* two refused and one that is not | a:1 | 1P: p!refuse +1 | 1P: p!refuse +1 | 1P: p late
two never made and one that is | a:1 | 1P: p!make +1 | 1P: p!make +1 | 1P: p late
* never made and never runs, equals preempt | a:1x2 | 1P1D: p d!make late | 2P: p!run p!bind \
    | with equals-preempt
kinds, the flexible one never bound | a:1 b:1 c:1 | 1P: p@ab!bind | 1P1D: p@bc d@ab \
    | 2P > 1P: p p late
* restarts are few, beside a minimum | a:1x2 | 2P > 1P: p p!bind | 1P: p late \
    | with gates few-restarts
* restarts are few, never bound | a:1x2 | 1P1D: p d!bind | 1P: p late | with gates few-restarts
# priorities
* preempts one | a:1x3 | 2P1D > 1P1D: p p d | 1P: p +1 late
preempts two | a:1x4 | 3P1D > 1P1D: p p p d | 1P1D: p d +1 late
* preempts, never bound | a:1x3 | 2P1D > 1P1D: p p d | 1P: p!bind +1 late
preempts, never bound, a spare | a:1x3 | 2P1D > 1P1D: p p d | 1P: p!bind p +1 late
preempts, half never bound | a:1x4 | 3P1D > 1P1D: p p p d | 1P1D: p d!bind +1 late
two that preempt | a:1x4 | 3P > 1P: p p p | 1P: p +1 late | 1P: p!bind +2 late
* the victim never ends | a:1x3 | 3P > 1P: p p!stuck p | 1P: p +1 late
* evicting would not do | a:1x3 | 2P1D > 1P1D: p p d | 1P1D: p d +1 late
* preempts, refused | a:1x2 | 2P > 1P: p p | 1P: p!refuse +1 late
* protected | a:1x3 | 2P1D > 1P1D: p p d protected | 1P: p +1 late
* preempts never | a:1x3 | 2P1D > 1P1D: p p d | 1P: p +1 late | with never-preempts
equals preempt | a:1x3 | 2P > 1P: p p late | 2P > 1P: p p late | 1P: p late | with equals-preempt
equals preempt, never bound | a:1x3 | 2P > 1P: p p late | 1P: p!bind late | 2P > 1P: p p late \
    | with equals-preempt
equals preempt a ladder | a:1x4 | 2P1D > 1P1D: p p d late | 1P1D: p d late | with equals-preempt
the higher one never bound | a:1x2 | 1P1D: p!bind d!bind +1 late | 1P1D: p d late
* preempts, a stale decision | a:1x2 | 2P > 1P: p p | 1P: p +1 late | with stale
preempts, the victim's node dies | a:1x2 | 2P > 1P: p p!stuck | 1P: p +1 late | with lose back
* preempts a gang | a:1x3 | 2P > 1P: p p*2 | 1P1D: p d +1 late
preempts, gates | a:1x3 | 2P1D > 1P1D: p p d | 1P: p +1 late | with gates
preempts, never made | a:1x3 | 2P1D > 1P1D: p p d | 1P1D: p d!make +1 late | with gates
* preempts on one of two kinds | a:1x2 b:1x2 | 2P1D > 1P1D: p@a p@b d@b | 1P: p@b +1 late
# pods that share nodes; free amounts that only some of them can use
halves of nodes | a:2x2 | 1P1D: p d | 2P1D > 1P1D: p p d
* halves and wholes | a:2x2 | 2P > 1P: p p | 1P: p:2
halves and wholes, late | a:2x2 | 2P > 1P: p p | 1P: p:2 late | 1P: p late
* a whole one preempts two halves | a:2x2 | 3P > 1P: p p p | 1P: p:2 +1 late
odd amounts | a:3 b:2 | 2P1D > 1P1D: p p d:2 | 1P: p:2 late
* a half never bound | a:2x2 | 1P1D: p d!bind | 2P > 1P: p:2 p
a node of halves is lost | a:2x2 | 2P1D > 1P1D: p p d | 1P: p:2 | with lose back
gates on halves | a:2x2 | 1P1D: p d | 2P > 1P: p p:2 | with gates
enough in all, but on no node | a:2x2 | 2P: p p | 1P: p:2 late
# alone on its nodes
* alone, the oldest scale-up fits nowhere | a:1 b:1 | 2P > 1P: p@a p@a p@b
* alone, room for one, a spare | a:1 b:1 | 2P > 1P: p@a p@a p@b | with cordon back
* alone, a minimum, a spare | a:1 b:1 | 1P1D: p@a p@b d@ab | with cordon back
* alone, no room | a:1 | 1P1D: p d
* alone, own surplus | a:1x2 | 2P1D > 1P1D: p p d~
* alone, never bound | a:1x3 | 2P1D > 1P1D: p p!bind d
* alone, trade always | a:1x3 | 3P2D > 2P2D > 1P1D: p p p~ d d~ trade-always
* two that are alone | a:1 b:1 | 2P > 1P: p@a p@a | 1P1D: p@b d@b
# every job comes at any time, or never
all late, two ladders of two | a:1x3 | 2P > 1P: p p late | 2P > 1P: p p late
all late, a minimum of two and a spare | a:1x3 | 1P1D: p p d late | 1P: p late
all late, priorities | a:1x2 | 2P > 1P: p p late | 1P1D: p d +1 late
# one revision replaces another, one by one, beside a service that lacks room
a rollout, room for a pair | a:1x3 | 1P1D: p^ p d | 1P: p late
a rollout, no room for a pair | a:1x2 | 1P1D: p^ p d | 1P: p late
a rollout of two | a:1x3 | 2P > 1P: p^ p^ p p | 1P: p late
a rollout beside a ladder | a:1x4 | 1P: p^ p | 2P1D > 1P1D: p p d
a rollout, the newest never bound | a:1x3 | 1P: p^ p!bind | 2P > 1P: p p
a rollout, the newest never runs | a:1x3 | 1P: p^ p!run | 2P > 1P: p p
a rollout, the outdated one never runs | a:1x3 | 1P: p^!run p | 2P > 1P: p p
a rollout, the outdated one never runs, no room for a pair | a:1x2 | 1P: p^!run p | 2P > 1P: p p
a rollout, of two outdated ones one never runs | a:1x3 | 2P: p^ p^!run p p | 1P: p late
a rollout, the outdated one never runs, beside a minimum | a:1x2 | 1P1D: p^!run p d | 1P: p late
a rollout, preempted | a:1x2 | 2P > 1P: p^ p^ p | 1P: p +1 late
a rollout of what preempts | a:1x3 | 2P1D > 1P1D: p p d | 1P: p^ p +1
a rollout, a node is lost | a:1x3 | 1P1D: p^ p d | 1P: p late | with lose back
a rollout, a stale decision | a:1x3 | 1P1D: p^ p d | 1P: p late | with stale
a rollout, a failover | a:1x3 | 1P1D: p^ p d | 1P: p | with failover
alone, a rollout | a:1x3 | 2P1D > 1P1D: p^ p^ p p d
alone, a rollout without room | a:1x2 | 1P1D: p^ p d
# nodes that go
a node lost and back | a:1x4 | 1P1D: p d | 2P > 1P: p p late | with lose back
a node lost, a spare instance | a:1x3 | 1P1D: p d d | 1P: p late | with lose back
all nodes vanish and come back | a:1x2 | 1P1D: p d | 1P: p late | with vanish vanish back back
* the nodes of one kind vanish | a:1 b:1 | 1P: p@a | 1P1D: p@a d@b | with vanish back
all nodes vanish, gates | a:1x2 | 1P1D: p d | 1P: p late | with vanish vanish back back gates
a node vanishes and comes back | a:1x3 | 2P1D > 1P1D: p p d | 1P: p late | with vanish back
* surplus that never ends | a:1x3 | 3P1D > 1P1D: p p!stuck p!stuck d | with lose
own surplus beside another | a:1x4 | 2P1D > 1P1D: p p d | 1P: p | with lose back
surplus that never runs goes first | a:1x3 | 2P1D > 1P1D: p p!run d | 1P: p late | with lose
* own surplus and room that only seems to fit | a:1x2 b:1x2 | 2P1D > 1P1D: p@a p@a!run d!narrow \
    | 1P: p@b | with lose
no trade | a:1x3 | 2P1D > 1P1D: p p d trade-off | 1P: p | with lose
a node flaps | a:1x3 | 2P1D > 1P1D: p p d | 1P: p late | with flap back
a minimum gathers | a:1x3 | 2P > 1P: p p | 1P1D: p d late | with lose back
a minimum gathers two | a:1x4 | 2P > 1P: p p | 1P1D: p d | with lose lose back back
a minimum gathers, never bound | a:1x3 | 1P1D: p d!bind | 2P > 1P: p p | with lose back
a minimum gathers of one kind | a:1 b:1x2 | 1P1D: p@b d@b | 2P > 1P: p@ab p@ab | with cordon back
a node is cordoned | a:1x3 | 1P1D: p d late | 2P > 1P: p p | with cordon back
two nodes are lost | a:1x4 | 2P1D > 1P1D: p p d | 1P: p | with lose lose back
a node lost, then a failover | a:1x3 | 2P1D > 1P1D: p p d | with lose failover
gates, a node lost and back | a:1x3 | 2P1D > 1P1D: p p d | 1P: p | with lose back gates
gates, a gang loses a node | a:1x4 | 1P: p*2 | 2P > 1P: p p | with lose back gates
a gang loses a node | a:1x4 | 1P: p*2 | 2P > 1P: p p | with lose back
a node of one kind is lost | a:1x2 b:1x2 | 1P1D: p@a d@b | 2P > 1P: p@ab p@ab | with lose back
a node is tainted | a:1x3 | 1P1D: p d late | 2P > 1P: p p | with taint back
a node is tainted while one is lost | a:1x3 | 2P1D > 1P1D: p p d | 1P: p | with taint lose back
gates, a node is tainted | a:1x3 | 2P1D > 1P1D: p p d | 1P: p late | with taint back gates
# jobs that somebody deletes and applies again, and creations that are refused for once
a job is deleted | a:1x3 | 2P1D > 1P1D: p p d | 1P: p late | with delete
a job is deleted, a gang | a:1x4 | 1P: p*2 | 2P > 1P: p p | with delete
* a job is deleted, a spare | a:1x2 | 1P: p p | 1P: p | with delete
a job is deleted, preempts | a:1x3 | 2P > 1P: p p | 1P1D: p d +1 | with delete
a job is deleted, a node lost | a:1x3 | 1P1D: p d | 2P > 1P: p p | with delete lose back
two jobs are deleted | a:1x3 | 1P1D: p d | 2P > 1P: p p | with delete delete
gates, a job is deleted | a:1x3 | 1P1D: p d | 2P > 1P: p p | with delete gates
* a creation is refused | a:1x3 | 1P1D: p d | 2P > 1P: p p | with deny
* a creation is refused, a spare | a:1x3 | 1P1D: p p d | 2P > 1P: p p | with deny
* a creation is refused twice | a:1x3 | 1P1D: p d | 2P > 1P: p p | with deny deny
a creation is refused, a node lost | a:1x3 | 1P1D: p d | 2P > 1P: p p | with deny lose back
a creation is refused, preempts | a:1x3 | 2P1D > 1P1D: p p d | 1P: p +1 late | with deny
# outages of the scheduler
outage, high and low | a:1x2 | 1P1D: p d +1 | 1P1D: p d late | with outage resume
outage, scale-ups | a:1x3 | 2P > 1P: p p | 2P > 1P: p p late | with outage resume
outage, two on one room | a:1x2 | 1P1D: p d | 1P1D: p d | with outage resume
outage, preempts late | a:1x3 | 2P > 1P: p p | 1P: p | 1P: p +1 late | with outage resume
outage, preempts late, never bound | a:1x3 | 2P > 1P: p p | 1P: p | 1P: p!bind +1 late \
    | with outage resume
outage, a spare, gates, slow | a:1x2 | 1P: p!slow p late | 1P: p!slow +1 late | with outage resume
outage, a lower one late | a:1x3 | 2P > 1P: p p +1 | 1P1D: p d late | with outage resume
# spec.replicas changes at any moment
* scaled down, up and to nothing | a:1x3 | 3P > 2P > 1P: p p p | with scale0=1 scale0=0 scale0=9
* scaled in two groups | a:1x4 | 2P2D > 1P1D: p p d d | with scale0=2 scale0=3
* scaled down and up, beside a minimum that waits | a:1x2 | 2P > 1P: p p | 1P: p late \
    | with scale0=1 scale0=2
* two that are scaled | a:1x2 | 2P > 1P: p p | 2P > 1P: p p | with scale0=1 scale1=0 scale0=0
* scaled, a stale decision | a:1x3 | 2P1D > 1P1D: p p d | with scale0=2 scale0=0 stale
scaled, a node lost and back | a:1x3 | 2P1D > 1P1D: p p d | with scale0=2 scale0=9 lose back
* scaled, a failover | a:1x3 | 2P1D > 1P1D: p p d | with scale0=0 scale0=2 failover
scaled, gates | a:1x3 | 2P1D > 1P1D: p p d | 1P: p late | with scale0=2 scale0=9 gates
* scaled, few restarts | a:1x3 | 3P > 2P > 1P: p p p | with scale0=1 scale0=9 gates few-restarts
* scaled, a gang | a:1x4 | 2P > 1P: p*2 p*2 | 1P: p late | with scale0=1 scale0=2
scaled, one by one | a:1x3 | 2P > 1P: p p*2 | 1P: p late | with scale0=1 one-by-one
* scaled, one never runs | a:1x3 | 2P > 1P: p!run p p | with scale0=1 scale0=0
scaled, one never bound | a:1x3 | 2P1D > 1P1D: p!bind p d | 1P: p late | with scale0=2 scale0=0
* scaled, one never ends | a:1x2 | 2P > 1P: p p!stuck | 1P: p late | with scale0=1 scale0=2
scaled, one never made | a:1x2 | 2P > 1P: p p!make | 1P: p late | with scale0=1 scale0=0
* scaled, preempted | a:1x3 | 3P > 2P > 1P: p p p | 1P: p +1 late | with scale0=2 scale0=1
scaled, what preempts | a:1x2 | 2P > 1P: p p | 2P > 1P: p p +1 late | with scale1=1 scale1=0
scaled, a rollout | a:1x3 | 2P > 1P: p^ p^ p p | with scale0=1 scale0=2
scaled, a rollout to nothing | a:1x3 | 2P > 1P: p^ p^ p p | 1P: p late | with scale0=0
scaled, an outage | a:1x2 | 2P > 1P: p p | 1P: p late | with scale0=1 outage resume
# two faults of different kinds, in any order and at any moment
a node lost, a stale decision | a:1x3 | 2P1D > 1P1D: p p d | 1P: p late | with lose stale
a node flaps, a stale decision | a:1x3 | 2P1D > 1P1D: p p d | 1P: p late | with flap back stale
a node cordoned, a stale decision | a:1x3 | 2P1D > 1P1D: p p d | 1P: p late | with cordon stale
a failover, a stale decision | a:1x3 | 2P1D > 1P1D: p p d | 1P: p late | with failover stale
a node lost, an outage | a:1x3 | 2P > 1P: p p | 1P: p late | with lose outage resume
an outage, a stale decision | a:1x2 | 2P > 1P: p p | 1P: p late | with outage resume stale
an outage, a failover | a:1x2 | 1P1D: p d | 1P: p | with outage resume failover
a node lost, one refused | a:1x3 | 1P1D: p d!refuse | 2P > 1P: p p | with lose back
a stale decision, one refused | a:1x3 | 1P1D: p d!refuse | 2P > 1P: p p | with stale
a failover, one refused | a:1x3 | 1P1D: p d!refuse | 2P > 1P: p p | with failover
a node lost, one never bound | a:1x3 | 1P1D: p d!bind | 2P > 1P: p p | with lose back
a stale decision, one never bound | a:1x3 | 1P1D: p d!bind | 2P > 1P: p p | with stale
a failover, one never bound | a:1x3 | 1P1D: p d!bind | 2P > 1P: p p | with failover
a node lost, one half bound | a:1x4 | 1P: p*2!half | 2P > 1P: p p | with lose back
a stale decision, one half bound | a:1x4 | 1P: p*2!half | 2P > 1P: p p | with stale
a node lost, one never made | a:1x3 | 1P1D: p d!make | 2P > 1P: p p | with lose back
a stale decision, one made slowly | a:1x3 | 1P1D: p d!slow | 1P: p | with stale
a node lost, one never runs | a:1x3 | 1P: p!run p | 2P > 1P: p p | with lose back
a stale decision, one never runs | a:1x3 | 1P: p!run p | 2P > 1P: p p | with stale
one never ends, a stale decision | a:1x2 | 2P > 1P: p p!stuck | 1P: p +1 late | with stale
one never ends, an outage | a:1x2 | 2P > 1P: p p!stuck | 1P: p +1 late | with outage resume
preempts, a node lost, a stale decision | a:1x2 | 2P > 1P: p p | 1P: p +1 late | with lose stale
preempts, a failover | a:1x3 | 2P1D > 1P1D: p p d | 1P: p +1 late | with failover
never bound, never runs | a:1x3 | 1P1D: p!bind d | 2P > 1P: p!run p | 1P: p
refused, never bound | a:1x3 | 1P1D: p!refuse d | 1P1D: p d!bind | 1P: p
restarts are few, a node lost | a:1x2 | 2P > 1P: p p | 1P: p late | with lose gates few-restarts
"""
"""Name | nodes | service | ... | with events and what else is special, in the words of `shape`; `*`
where it is visited whole in about a second, and is played here. A line that ends in a backslash
goes on in the next."""
SPECIAL: dict[str, dict[str, Any]] = {
    "gates": {"gates": True},
    "one-by-one": {"one_by_one": True},
    "few-restarts": {"budget": 3},
    "equals-preempt": {"preempt": Preempt.EQUAL_OR_HIGHER},
    "racks": {"racks": 2},
    "never-preempts": {"preempt": Preempt.NEVER},
}


def chosen(mark: str = "") -> Iterator[Shape]:
    """The worlds by name; those with this mark only."""
    for line in WORLDS.splitlines():
        if line and not line.startswith("#") and line.startswith(mark):
            row, _, special = line.removeprefix("* ").partition(" | with ")
            words = special.split()
            events = [word for word in words if word not in SPECIAL]
            assert {event for event in events if not event.startswith("scale")} <= set(
                " ".join(EVENTS + MORE_EVENTS).split()
            ), events
            changes = {key: value for word in words for key, value in SPECIAL.get(word, {}).items()}
            yield shape(*re.split(r" +\| +", row.strip()), events=" ".join(events), **changes)


LADDERS = (
    ("1P", "p"),
    ("1P", "p p"),
    ("2P > 1P", "p p"),
    ("2P > 1P", "p p p"),
    ("1P1D", "p d"),
    ("1P1D", "p p d"),
    ("2P1D > 1P1D", "p p d"),
    ("3P > 1P", "p p p"),
    ("2P", "p p"),
)
EVENTS = ("",) * 3 + (
    "lose",
    "lose back",
    "flap back",
    "cordon back",
    "vanish back",
    "outage resume",
    "failover",
    "stale",
)
MORE_EVENTS = ("taint back", "delete", "delete delete", "deny", "deny lose back")
WIDER = 1_000
"""From this seed on random worlds have these as well."""


def endless(seed: int) -> Iterator[Shape]:
    return (
        drawn(
            random.Random(seed * 1_000_003 + number),
            f"{seed}-{number}",
            EVENTS if seed < WIDER else EVENTS + MORE_EVENTS,
        )
        for number in itertools.count(1)
    )


def drawn(dice: random.Random, name: str, every: tuple[str, ...] = EVENTS) -> Shape:
    shared = dice.random() < 0.35
    kinds = dice.choice((1, 1, 2))
    size = dice.choice((2, 3)) if shared else 1
    count = dice.choice((1, 2, 2, 3) if shared else (2, 3, 3, 4))
    nodes = [
        f"{'ab'[dice.randrange(kinds)]}:{dice.choice((size, size, 1)) if shared else 1}"
        for _ in range(count)
    ]
    classes = sorted({node[0] for node in nodes})
    gates = dice.random() < 0.3
    teams = ["1P: p!bind +1"] * dice.choice((0, 0, 0, 0, 0, 0, 0, 2, 3))
    jobs = len(teams)
    for _ in range(dice.choice((1, 2, 2, 2, 3, 3, 4))):
        ladder, letters = dice.choice(LADDERS)
        if jobs + len(letters.split()) > 6:
            continue
        jobs += len(letters.split())
        teams.append(_team(dice, ladder, letters.split(), Ground(classes, size, gates)))
    events = dice.choice(every)
    preempt = dice.choice(
        (Preempt.HIGHER_PRIORITY, Preempt.HIGHER_PRIORITY, Preempt.EQUAL_OR_HIGHER, Preempt.NEVER)
    )
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


class Ground(NamedTuple):
    """Classes of the nodes, units of the largest node, and whether pods are held by gates."""

    classes: list[str]
    size: int
    gates: bool


def _team(dice: random.Random, ladder: str, letters: list[str], ground: Ground) -> str:
    of_making = ("make", "slow") if ground.gates else ("refuse",)
    curses = ("bind", "bind", "half", "run", "stuck", *of_making)
    restricted = len(ground.classes) > 1 and dice.random() < 0.5
    words = []
    for letter in letters:
        word = letter + ("*2" if dice.random() < 0.12 else "")
        if restricted:
            word += "@" + dice.choice((*ground.classes, "".join(ground.classes)))
        if ground.size > 1:
            word += f":{dice.randint(1, ground.size)}"
        if dice.random() < 0.16:
            word += "!" + dice.choice(curses)
        words.append(word)
    extra = [
        dice.choice(("", "", "+1")),
        dice.choice(("", "", "late")),
        dice.choice(("",) * 8 + ("protected",)),
    ]
    extra.append(dice.choice(("",) * 8 + ("trade-off", "trade-always")))
    return f"{ladder}: {' '.join([*words, *(word for word in extra if word)])}"


@pytest.mark.parametrize("of", [*chosen("*")], ids=lambda of: of.name)
def test_every_state_keeps_the_promises_and_every_end_is_a_good_one(of: Shape) -> None:
    result = Explorer(of, most=MOST, seconds=60).run()
    assert not result.found, "\n".join(map(result.trace, result.found))
    assert result.whole


def test_a_cache_changes_no_answer() -> None:
    for of in (
        of
        for of in chosen()
        if of.name in ("preempts one", "halves and wholes", "two kinds of nodes")
    ):
        assert not Explorer(of, most=1500, cached=True).run().found


def test_random_worlds_are_drawn_the_same_for_a_seed() -> None:
    first = endless(7)
    second = endless(7)
    assert [next(first) for _ in range(20)] == [next(second) for _ in range(20)]


def test_a_world_in_which_nothing_can_move_has_one_state_for_all_orders() -> None:
    of = shape("idle", "a:1x3", "1P: p*2", "1P: p")
    assert not list(moves(of, initial(of)))
    assert representative(of, initial(of)) == initial(of)
