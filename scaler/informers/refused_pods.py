"""Pods that their kubelets refused, and how often in a row: section 2 of the contract.

A pod that its kubelet refuses is made anew, by us or by its owner, and the scheduler may put it
onto the same node at once. So it has to be known how often that happened, after the refused pod is
gone too. Where each new pod is another instance (a Deployment's), the pod that the owner makes next
takes over what is known of the refused one. Decides nothing: `KubeletRefusal` says how long the
pause is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from scaler.decide.world import KubeletRefusal
from scaler.informers.indexes import instance_of, membership_in
from scaler.informers.pods import PodRecord

FORGOTTEN_AFTER = 600.0
"""Seconds after the last refusal: twice the longest pause."""
_ByNode = dict[str, KubeletRefusal]
_Name = tuple[str, str]
"""A namespace, and the uid of an instance or of an owner: a pod elsewhere may name any uid."""


class RefusedPods:
    """What kubelets have refused of each instance. `now` gives seconds since the epoch."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._of: dict[_Name, _ByNode] = {}
        """By instance."""
        self._handed_on: defaultdict[_Name, list[_ByNode]] = defaultdict(list)
        """By the owner of instances that do not return: what its next pods take over."""
        self._pruned_at = 0.0

    def of(self, namespace: str, uid: str) -> tuple[KubeletRefusal, ...]:
        """The refusals of pods of this instance, one for each node."""
        known = self._of.get((namespace, uid))
        return tuple(known[node] for node in sorted(known)) if known else ()

    def change(self, old: PodRecord | None, new: PodRecord | None) -> None:
        """A pod came, changed or went. A pod that was never seen before it failed tells nothing:
        the first list may show what is long over."""
        if new is None or not (self._of or self._handed_on or new.refused):
            return
        before = old if old is not None and old.uid == new.uid else None
        if before is None:
            self._take_over(new)
        elif new.refused and not before.refused:
            self._note(new)
        elif new.phase == "Running" != before.phase:
            self._of.get(_instance(new), {}).pop(new.node, None)

    def _note(self, pod: PodRecord) -> None:
        instance = _instance(pod)
        if not instance[1]:
            return
        now = self._now()
        self._prune(now)
        known = self._of.get(instance, {})
        last = known.get(pod.node)
        times = last.times if last is not None and now < last.at + FORGOTTEN_AFTER else 0
        # several pods of one instance may be refused together
        if last is None or now >= last.over_at:
            known = {**known, pod.node: KubeletRefusal(pod.node, times + 1, now)}
        self._of[instance] = known
        if _does_not_return(pod):
            self._handed_on[_owner(pod)].append(known)

    def _take_over(self, pod: PodRecord) -> None:
        if _does_not_return(pod) and self._handed_on.get(_owner(pod)):
            known = self._handed_on[_owner(pod)].pop(0)
            if _is_fresh(known, self._now()):
                self._of[_instance(pod)] = known

    def _prune(self, now: float) -> None:
        if now < self._pruned_at + FORGOTTEN_AFTER / 10:
            return
        self._pruned_at = now
        self._of = {
            instance: known for instance, known in self._of.items() if _is_fresh(known, now)
        }
        for owner, waiting in list(self._handed_on.items()):
            fresh = [known for known in waiting if _is_fresh(known, now)]
            if fresh:
                self._handed_on[owner] = fresh
            else:
                del self._handed_on[owner]


def _instance(pod: PodRecord) -> _Name:
    return pod.namespace, pod.owner_uid or instance_of(pod)


def _does_not_return(pod: PodRecord) -> bool:
    """Whether the pod is an instance that ends with it, and another pod is another instance."""
    membership = membership_in(pod)
    return membership is not None and membership.mortal


def _owner(pod: PodRecord) -> _Name:
    """What makes the pod and others like it."""
    membership = membership_in(pod)
    named = membership.owner if membership is not None else ""
    uid = pod.governed.controller_uid if pod.governed is not None else ""
    return pod.namespace, named or uid


def _is_fresh(known: _ByNode, now: float) -> bool:
    return any(now < refusal.at + FORGOTTEN_AFTER for refusal in known.values())
