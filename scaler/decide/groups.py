"""One group on its way through the planner: its members, its counts, and who gets a place in it."""

from __future__ import annotations

from scaler.decide.members import Member
from scaler.decide.rollouts import NONE, Rollout, rollouts_of
from scaler.decide.world import GroupPlan


class Group:
    """The members of one group and its counts, before the plan takes effect."""

    __slots__ = (
        "admit",
        "beside",
        "claimed",
        "held",
        "in_flight",
        "live",
        "members",
        "paired",
        "partly",
        "revoke",
        "rolling",
        "rollouts",
        "running",
        "taken",
        "target",
    )

    def __init__(self) -> None:
        self.members: list[Member] = []
        self.held: list[Member] = []
        self.partly: list[Member] = []
        """Admitted, broken or stripped: the only ones that may have to be completed or taken back."""
        self.running = self.in_flight = self.live = 0
        self.rolling = False
        """An instance of an outdated revision runs."""
        self.rollouts = NONE
        self.target = self.paired = 0
        self.taken = 0
        """Instances that have a place, pairs not taken together, with those to which this plan gives one."""
        self.claimed = 0
        """`places` once all that can be admitted is, and before anything is taken back."""
        self.admit = self.beside = self.revoke = 0

    @property
    def occupied(self) -> int:
        """Places in use before the plan takes effect, a pair of revisions once."""
        return self.running + self.in_flight

    @property
    def places(self) -> int:
        """The fewest places in which all that has one now could stand: every pair that can be is one."""
        return self.taken - sum(rollout.pairs for rollout in self.rollouts.values()) if self.rollouts else self.taken

    def roll(self) -> None:
        """Find the pairs, once all members are counted. What is about to go does not make a larger ratio reachable."""
        self.rollouts = rollouts_of(self.members)
        self.live -= sum(rollout.passing for rollout in self.rollouts.values())

    def aim(self, target: int) -> None:
        """Set the target, and count pairs once as far as that keeps the group within it."""
        self.target = target
        self.taken = self.running + self.in_flight
        if self.rollouts:
            self.paired = min(self.taken - self.places, max(0, self.taken - target))
            self.running = min(self.running, self.taken - self.paired)
            self.in_flight = self.taken - self.paired - self.running

    def seat(self, member: Member) -> bool:
        """Give a place to an instance that has none; False when there is none for it. Beside an outdated one it needs
        none, but has to be within the target when those are gone: running surplus is not made anew."""
        rollout = self._rollout_of(member)
        if rollout is None:
            fits = self.taken < self.target
        else:
            lasting = self.taken - sum(rollout.outdated for rollout in self.rollouts.values())
            fits = self.places < self.target or (rollout.newest < rollout.outdated and lasting < self.target)
        if fits:
            self.taken += 1
            if rollout is not None:
                rollout.newest += 1
        return fits

    def keeps(self, member: Member) -> bool:
        """Whether the place that an instance has is within the target, or needs none of its own."""
        rollout = self._rollout_of(member)
        return self.places <= self.target or (rollout is not None and rollout.newest <= rollout.outdated)

    def unseat(self, member: Member) -> bool:
        """Take the place of an instance back; False when no other would gain by it, because it stands in a pair."""
        rollout = self._rollout_of(member)
        if rollout is not None:
            if rollout.newest <= rollout.outdated:
                return False
            rollout.newest -= 1
        self.taken -= 1
        return True

    def _rollout_of(self, member: Member) -> Rollout | None:
        return None if member.instance.outdated else self.rollouts.get(member.instance.owner)

    def plan(self) -> GroupPlan:
        return GroupPlan(
            target=self.target,
            running=self.running,
            in_flight=self.in_flight,
            held=len(self.held),
            live=self.live,
            admit=self.admit,
            revoke=self.revoke,
            paired=self.paired,
            beside=self.beside,
        )
