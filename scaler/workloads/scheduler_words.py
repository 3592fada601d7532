"""What the scheduler says of a PodGroup that waits, in words with a cure. Pure.

Volcano and MindCluster's plugin write a condition `Unschedulable` for each of their reasons, and
remove none: one that was true an hour ago stands beside the one of now. A session of the scheduler
writes its number into each condition that holds (`transitionID`), so those of the last session
hold. Of these the first in `_BY_WEIGHT` says most: a job that is not valid never starts, whatever
is free.

For example, of three conditions of one PodGroup:

    JobEnqueueFailed     session 7   require npu num is 32, but cluster npu num is 31
    NodePredicateFailed  session 9   (no words)
    BatchOrderFailed     session 9   not enough virtual super-pod to schedule

the last one is what holds: since session 7 the job has been enqueued. The pods then say
`PodScheduled=False, reason Schedulable`, as if nothing were wrong."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

JOB_NOT_VALID = "JobValidateFailed"
NOT_ENQUEUED = "JobEnqueueFailed"
_CURES = {
    JOB_NOT_VALID: (
        "the job never starts as it is written: `scaler lint` names what is wrong with its NPUs,"
        " sp-block or labels; mend it and create the job again"
    ),
    NOT_ENQUEUED: (
        "the scheduler counts idle NPUs of nodes with device data only, and of those that are"
        " stable: free some, or repair nodes"
    ),
    "BatchOrderFailed": (
        "enough NPUs may be free, but not where they are wanted: a block of a super-pod job needs"
        " wholly free nodes of one super-pod"
    ),
    "NodePredicateFailed": "",
}
"""The reasons of MindCluster's plugin, the one that says most first, and what helps."""
REASONS = tuple(_CURES)
"""Those of MindCluster's plugin. The page has a Chinese sentence for each."""
_BY_WEIGHT = (*REASONS, "NotEnoughResources")
"""With Volcano's own, the one that says least; of all others no weight is known."""
_FOR_STATUS = {
    NOT_ENQUEUED: (
        "its PodGroup is not in the queue, because fewer idle NPUs count than it asks for"
    ),
    "BatchOrderFailed": "its PodGroup is in the queue, and no set of nodes fits it",
    "NodePredicateFailed": ("no node takes its pods; `scaler why` says what the nodes lack"),
}
"""What a reason means, without numbers of NPUs and nodes: those change with each pod of the
cluster, and a status is not written for that."""
_TOO_FEW_PODS = "NotEnoughPod"
"""How the words of `JobValidateFailed` begin while pods of the job do not exist yet."""
_SCHEDULABLE = "Schedulable"
"""A pod whose PodGroup waits for room in another place says so: that it could be assigned."""
_OF_A_NODE = re.compile(r"Reason: (.{1,200}?), such as: \[")
"""In a message that lists nodes: one reason, before the nodes that it is about."""
LONGEST_WORDS = 400
"""Characters of one condition that are kept."""
LONGEST_REASON = 63
WAITS = frozenset({"Pending", "Inqueue", "Unknown", ""})
"""The phases of a PodGroup that waits for the scheduler."""


class Condition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A condition of a PodGroup."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    transition_id: str = msgspec.field(default="", name="transitionID")
    last_transition_time: str = ""


class Said(msgspec.Struct, frozen=True, gc=False):
    """A reason why a PodGroup waits, and the scheduler's words for it; "" without any."""

    reason: str
    words: str

    @property
    def is_final(self) -> bool:
        """Whether the job never starts as it is written, whatever is free."""
        return self.reason == JOB_NOT_VALID and not self.words.startswith(_TOO_FEW_PODS)

    @property
    def cure(self) -> str:
        """What helps; "" if that depends."""
        if self.reason == JOB_NOT_VALID and not self.is_final:
            return ""
        return _CURES.get(self.reason, "")

    @property
    def for_status(self) -> str:
        """The same for the status of a service, in words that stay as long as the reason does."""
        reason = self.reason[:LONGEST_REASON]
        if self.is_final:
            return str(self)
        if self.reason == JOB_NOT_VALID:
            return f"{reason}: not all pods of its PodGroup exist"
        meaning = _FOR_STATUS.get(self.reason, "")
        said = f"{reason}: {meaning}" if meaning else reason
        return f"{said}. {sentence_of(self.cure)}" if self.cure else said

    def __str__(self) -> str:
        return f"{self.reason}: {self.words}" if self.words else self.reason


def said_of(conditions: Sequence[Condition]) -> tuple[Said, ...]:
    """What the last session of the scheduler said, the reason that says most first; of several,
    those without words are left out. Empty where it said nothing."""
    holding = _of_last_session(conditions)
    found = [Said(one.reason, _words(one)) for one in holding]
    with_words = [one for one in found if one.words]
    return tuple(sorted(with_words or found, key=_weight))


def sentence_of(words: str) -> str:
    """The words with a capital letter in front."""
    return f"{words[:1].upper()}{words[1:]}"


def is_about_its_group(reason: str) -> bool:
    """Whether a pod that is not scheduled says nothing by itself: its PodGroup says why it
    waits."""
    return reason == _SCHEDULABLE


def _of_last_session(conditions: Sequence[Condition]) -> Sequence[Condition]:
    """Those that the last session of the scheduler wrote."""
    found = []
    for one in conditions:
        if one.type == "Unschedulable" and one.status == "True":
            found.append(one)
    if not found:
        return ()
    # Times of Kubernetes have one length and one zone, so their texts have the order of the times.
    last = max(found, key=lambda one: one.last_transition_time)
    return [one for one in found if one.transition_id == last.transition_id]


def _words(condition: Condition) -> str:
    """The message. Where it lists reasons of nodes, only these: the nodes stand in any order."""
    of_nodes = sorted(set(_OF_A_NODE.findall(condition.message)))
    words = "; ".join(of_nodes) if of_nodes else condition.message.strip()
    return words[:LONGEST_WORDS]


def _weight(said: Said) -> tuple[int, str]:
    """Sort key: what says most is first."""
    known = said.reason in _BY_WEIGHT and not said.words.startswith(_TOO_FEW_PODS)
    return (_BY_WEIGHT.index(said.reason) if known else len(_BY_WEIGHT), said.reason)
