"""Breaks the arbiter on purpose, one mistake at a time, and expects the tests of this folder to notice each.

    python -m tests.decide.arbitration.mutants [NUMBER ...]

Not part of the suite: it takes some seconds per mutant. Two are not among them, since a second guard hides them: that
the arbiter forgets what did not fit when it gives a promise back (it only ever gives back what it promised last, so
what did not fit before still does not), and that no trade counts on a node that takes no pods (the board does not
count such nodes either).
"""

from __future__ import annotations

import sys

from tests.decide.mutants import Mutant, survivors

ARBITER, PARTIES, BLOCKADES, PATIENCE, NEIGHBOURS, RULINGS, TRADE, LOOSE, LOOKS = (
    f"scaler/decide/{name}.py"
    for name in (
        "arbiter",
        *(
            f"minimums/{part}"
            for part in ("parties", "blockades", "patience", "neighbours", "rulings", "trade", "loose", "looks")
        ),
    )
)

MUTANTS = (
    # 1
    Mutant(
        "leaves an admitted minimum that no longer fits",
        ARBITER,
        "                self._take_back(party, part, why)\n            elif",
        "                pass\n            elif",
    ),
    Mutant(
        "reserves held minimums before admitted ones", ARBITER, "if minimum.admitted or party.memory.begun]", "if True]"
    ),
    Mutant("forgets what was begun", ARBITER, "if minimum.admitted or party.memory.begun]", "if minimum.admitted]"),
    Mutant(
        "reserves only what is admitted",
        PARTIES,
        "missing = [part for part in parts if part.needs]",
        "missing = [part for part in parts if part.needs and part.released] or [part for part in parts if part.needs]",
    ),
    # 2
    Mutant("the youngest first", PARTIES, "_oldest(snapshot), plan.key)", "-_oldest(snapshot), plan.key)"),
    Mutant("priority does not matter", PARTIES, "-_priority(snapshot)", "0"),
    Mutant("priority has no cap", PARTIES, "min(asked, snapshot.policy.max_service_priority)", "asked"),
    Mutant("ignores PriorityClasses", PARTIES, "[instance.priority for instance", "[0 for instance"),
    Mutant(
        "each instance of a minimum for itself",
        ARBITER,
        "found = self._place(party, minimum.needs)",
        "found = self._place(party, minimum.needs[:1])",
    ),
    Mutant("holds a minimum that is alone", ARBITER, "if shared else None", "if True else None"),
    Mutant("every minimum is alone", NEIGHBOURS, "number > 1 or theirs != own", "False"),
    Mutant(
        "admits what does not fit",
        ARBITER,
        "        if isinstance(found, Shortage):\n            return self._against_unfit",
        "        if False:\n            return self._against_unfit",
    ),
    Mutant("an incomplete minimum goes", ARBITER, "if minimum.lacking:", "if False:"),
    Mutant("an incomplete minimum blocks", BLOCKADES, "minimum.lacking or ", ""),
    Mutant("a minimum that is too large waits like others", ARBITER, "        if never:", "        if False:"),
    Mutant(
        "lets go what can spoil a promise",
        LOOSE,
        "        if not self._is_safe(needs):\n            return 0",
        "        if False:\n            return 0",
    ),
    Mutant(
        "lets go nothing that meets others",
        LOOSE,
        "        if not self._is_safe(needs):\n            return 0",
        "        return 0",
    ),
    Mutant(
        "only looks at one landing order", LOOSE, "for count in range(len(near) + 1))", "for count in (len(near),))"
    ),
    # 3
    Mutant(
        "climbs do not fit",
        ARBITER,
        "else (Reason.WAITING_FOR_CAPACITY, (_in_words(found),))",
        "else None",
    ),
    Mutant(
        "a climb that is alone must fit",
        ARBITER,
        "if party.paused or not self",
        "if party.paused or False and not self",
    ),
    Mutant("no minimum blocks a climb", ARBITER, "if blocking is not None:", "if False:"),
    Mutant(
        "a blocked climb stays where it is",
        ARBITER,
        "            self._take_back(party, part, why)\n        else:",
        "            pass\n        else:",
    ),
    Mutant(
        "a minimum that nothing helps blocks", BLOCKADES, "self._board().fits(minimum.needs) is None and", "True and"
    ),
    Mutant("nothing is due back", BLOCKADES, "due_back=True", "due_back=False"),
    Mutant("a minimum blocks everywhere", BLOCKADES, "if board.contended(needs, wanted)", "if True"),
    Mutant(
        "new climbs go before unbound ones",
        ARBITER,
        "if part.released is released:",
        "if part.released is not released:",
    ),
    # 4
    Mutant(
        "takes back what is bound",
        ARBITER,
        "if self.policy.revoke and not (instance.bound or instance.unheld):",
        "if self.policy.revoke:",
    ),
    Mutant("takes back though it is switched off", ARBITER, "if self.policy.revoke and not", "if not"),
    Mutant(
        "what is taken back is gone at once",
        ARBITER,
        "                self._vanishing = joined(self._vanishing, part.needs)\n",
        "",
    ),
    Mutant(
        "what has to stay keeps no room",
        ARBITER,
        "        self._place(party, part.needs)\n\n    def _place",
        "\n    def _place",
    ),
    Mutant(
        "completes what it should hold", RULINGS, "isinstance(action, Admit | Complete)", "isinstance(action, Admit)"
    ),
    Mutant("forgets that its own plan takes something back", PARTIES, "party.vanishing.append(one.part)", "pass"),
    # 5
    Mutant("never gives up a minimum", PATIENCE, "now - memory.admitted_since >= policy.minimum_timeout", "False"),
    Mutant(
        "gives up a minimum that is partly bound",
        ARBITER,
        " and not minimum.bound and minimum.admitted:",
        " and minimum.admitted:",
    ),
    Mutant("keeps its place after a failure", PATIENCE, "failed_at=now,", "failed_at=0.0,"),
    Mutant("makes no pause", PATIENCE, "retry_at=now + pause", "retry_at=0.0"),
    Mutant(
        "pauses do not grow",
        PATIENCE,
        "policy.minimum_timeout * 2.0 ** min(failures - 1, 16)",
        "policy.minimum_timeout",
    ),
    Mutant("pauses have no end", PATIENCE, "), LONGEST_PAUSE)", "), 9e9)"),
    Mutant("blocks for ever", BLOCKADES, " or is_muted(party.memory)", ""),
    Mutant("is muted for ever", PATIENCE, "memory, failures=0,", "memory,"),
    Mutant(
        "more room does not end the pause",
        PATIENCE,
        "retry_at=0.0 if grown else memory.retry_at",
        "retry_at=memory.retry_at",
    ),
    Mutant("any room ends the pause", PATIENCE, "0.0 if grown else memory.retry_at", "0.0"),
    Mutant(
        "remembers after it served",
        PATIENCE,
        "    return MinimumMemory(short_since",
        "    return memory if memory.failures else MinimumMemory(short_since",
    ),
    Mutant("never probes", ARBITER, "return self.board.sums_suffice(minimum.needs)", "return False"),
    Mutant("probes what cannot fit", ARBITER, "return self.board.sums_suffice(minimum.needs)", "return True"),
    Mutant("probes several at once", ARBITER, "if self._probing or", "if"),
    Mutant(
        "probes at once",
        PATIENCE,
        "return not memory.held_since or now - memory.held_since < _patience(memory, policy)",
        "return False",
    ),
    Mutant("probes for ever", PATIENCE, "now - memory.probe_since < policy.minimum_timeout", "True"),
    Mutant("probes as often as it likes", PATIENCE, "probes=memory.probes + 1", "probes=0"),
    Mutant(
        "says nothing of when to look again",
        PATIENCE,
        "        yield memory.admitted_since + policy.minimum_timeout",
        "        pass",
    ),
    # 6
    Mutant(
        "does not let a service opt out",
        PARTIES,
        "snapshot.rule is not None and snapshot.options.arbitration",
        "snapshot.rule is not None",
    ),
    Mutant("touches a paused service", ARBITER, "if party.paused or", "if"),
    Mutant("a paused service strives for its minimum", PARTIES, "if serves or party.paused else", "if serves else"),
    # the trade
    Mutant("trades at once", TRADE, "ground.now - since < ground.policy.trade_after or", ""),
    Mutant("trades though it serves", TRADE, " and not party.serves)", ")"),
    Mutant("trades against its will", TRADE, "return asked is Trade.ALWAYS or", "return True or"),
    Mutant("trades the oldest", TRADE, "reverse=True", "reverse=False"),
    Mutant("trades what does not help", TRADE, "return board.fits(short) is None", "return True"),
    Mutant("trades on what others were promised", TRADE, "if isinstance(board.place(needs), Shortage):", "if False:"),
    Mutant("trades below the target", TRADE, "max(0, group.running - least)", "group.running"),
    Mutant("only single trades", TRADE, "range(2, len(surplus) + 1)", "()"),
    Mutant("trades while one is under way", TRADE, " or _is_under_way(party)", ""),
    Mutant("does not let the one that gave go first", PARTIES, "-1.0 if memory.evicted else", ""),
    # the plan that is left
    Mutant("miscounts admissions", RULINGS, "admit = group.admit - lost", "admit = group.admit"),
    Mutant("leaves a PodGroup behind", RULINGS, "            *map(Revoke, leftovers),\n", ""),
    Mutant(
        "what no longer fits loses its place",
        ARBITER,
        "party.memory = patience.held(memory, now)",
        "party.memory = patience.failed(patience.held(memory, now), now, policy, _NO_OUTLOOK)",
    ),
    # moments between
    Mutant(
        "a minimum goes where others are still on their way out",
        ARBITER,
        "if placement is None or not self._vanishing or not self.board.fits(self._vanishing):",
        "if True:",
    ),
    Mutant(
        "a climb goes where others are still on their way out",
        ARBITER,
        "if not part.released and self._vanishing and self.board.fits(self._vanishing):",
        "if False:",
    ),
    Mutant(
        "takes back a minimum of which it is not sure", ARBITER, " or (shortage.undecided and minimum.admitted)", ""
    ),
    Mutant(
        "takes back a climb of which it is not sure",
        ARBITER,
        "return None if found.undecided and",
        "return None if False and",
    ),
    Mutant("tries again without a pause", ARBITER, "if self.now < party.memory.retry_at and", "if False and"),
    Mutant(
        "the most flexible first",
        LOOSE,
        "key=lambda needs: (self._breadth(needs), needs))",
        "key=lambda needs: (-self._breadth(needs), needs))",
    ),
    Mutant("nobody begins", LOOSE, "if waiting[needs] and not self._near(needs):", "if False:"),
    Mutant("everybody begins", LOOSE, "if waiting[needs] and not self._near(needs):", "if waiting[needs]:"),
    Mutant(
        "trades for what no node would help",
        ARBITER,
        "if minimum is not None and (minimum.lacking or",
        "if False and (minimum.lacking or",
    ),
    Mutant(
        "counts the time of what is partly bound",
        ARBITER,
        "if not minimum.bound and self._is_in_hands",
        "if self._is_in_hands",
    ),
    Mutant(
        "counts the time of what is held",
        ARBITER,
        "if not minimum.bound and self._is_in_hands(party, minimum):",
        "if not minimum.bound:",
    ),
    Mutant("a minimum that is too large blocks", BLOCKADES, " and not self.too_large(minimum)", ""),
    Mutant(
        "sees a service as it was",
        LOOKS,
        "look.plan is not plan or look.snapshot is not snapshot",
        "look.plan is not plan",
    ),
    Mutant(
        "sees a plan as it was",
        LOOKS,
        "look.plan is not plan or look.snapshot is not snapshot",
        "look.snapshot is not snapshot",
    ),
    Mutant(
        "a broken instance is of no minimum",
        PARTIES,
        "case State.BROKEN if _has_slot(snapshot, instance):",
        "case State.BROKEN if False:",
    ),
    Mutant(
        "what is partly bound is no nearer",
        PARTIES,
        "return _PARTLY_BOUND if instance.bound else _RELEASED",
        "return _RELEASED",
    ),
    Mutant(
        "trades the next one at once",
        TRADE,
        "short_since=ground.now, evicted=found.uid",
        "evicted=found.uid",
    ),
)


if __name__ == "__main__":
    sys.exit(survivors(MUTANTS, "tests/decide/arbitration", [int(number) for number in sys.argv[1:]]))
