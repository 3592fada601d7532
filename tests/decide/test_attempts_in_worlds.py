"""A reservation that makes no progress ends: 3b.5 of the contract, clause by clause, as whole
decisions in virtual seconds. `TRIED`: the same service as `HELD`, with the scheduler."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scaler.decide.attempts import kept_while_gone
from scaler.decide.decide import decide
from scaler.decide.memory import HadAttempt, InstanceMemory, Memory, ServiceMemory
from scaler.decide.nodes import PODS, NodeClass, PodRequest, PodRequests, Return, Taint
from scaler.decide.room.placement import Placement, Reservation
from scaler.decide.room.shortage import Shortage
from scaler.decide.service.demand import written_of
from scaler.decide.world import Policy, Service
from tests.builders import NOW, Story, doings, on_nodes, world
from tests.decide.played import Played

HELD = on_nodes("1P1D", "p0 held, d0 held", name="a", age=9)
TRIED = on_nodes("1P1D", "p0 unbound, d0 unbound", name="a", age=9)
OTHER = on_nodes("1P1D", "p0 held, d0 held", name="b")
BOTH_A = {"a-p0": "Admit", "a-d0": "Admit"}
NO_A = {"a-p0": "Revoke", "a-d0": "Revoke"}
ON_TWO = "a:8x2"


def begun(*services: Service, nodes: str = ON_TWO) -> Story:
    """The first decision, at 0 s."""
    story = Story(nodes)
    story.at(0, *services)
    return story


def test_a_minimum_that_nothing_is_bound_of_ends_its_attempt_for_another_minimum() -> None:
    """3b.5e: if another service waits, the attempt ends after 30 s."""
    story = begun(HELD, OTHER)
    assert story.at(1, TRIED, OTHER) == {}
    assert story.recheck_in == 30
    assert story.at(29.9, TRIED, OTHER) == {}
    assert story.at(30, TRIED, OTHER) == NO_A
    assert story.at(30.1, HELD, OTHER) == {"b-p0": "Admit", "b-d0": "Admit"}
    assert story.reasons["a-p0"] == "MinimumNotScheduled"


def test_if_nobody_waits_its_clock_starts_again_and_nothing_is_written() -> None:
    """3b.5e: if nobody waits, the clock starts again."""
    elsewhere = on_nodes("1P", "p0 on a2", name="b")
    story = begun(HELD, elsewhere, nodes="a:8x3")
    assert [story.at(time, TRIED, elsewhere) for time in (1, 30, 60, 300, 1000)] == [{}] * 5


def test_if_its_room_is_not_found_again_it_says_so_and_its_attempt_has_not_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """3b.3d: where nothing is reserved, what is with the scheduler is revoked. That is no end of an
    attempt (3b.5e)."""
    story = begun(HELD)
    lacks_room = Shortage(PodRequest(), 2, 1, PODS, undecided=True)
    reserve = Placement.reserve
    reserved = []

    def reserve_once(placement: Placement, pods: PodRequests) -> Reservation | Shortage:
        reserved.append(reserve(placement, pods))
        return reserved[0] if len(reserved) == 1 else lacks_room

    monkeypatch.setattr(Placement, "reserve", reserve_once)
    assert story.at(30, TRIED) == NO_A
    assert story.reasons["a-p0"] == "MinimumDoesNotFit"
    assert story.remembered(TRIED).failures == 0


def test_a_bound_pod_of_its_own_sets_its_clock_back() -> None:
    """3b.5b: progress sets the clock back. 3b.5e: what has no bound pod is revoked, what is bound
    in part becomes Broken."""
    cluster = (
        Played(nodes="a:8x2").service("a", "1P1D", "p0", "d0").service("b", "1P1D", "p0", "d0")
    )
    assert cluster.decided().admitted == ["a-d0", "a-p0"]

    cluster.after("29 s").bind("a-p0", to="a0").after("29.9 s")
    assert cluster.revoked == []

    cluster.after("0.1 s")
    assert cluster.revoked == ["a-d0"]


def test_a_partner_that_is_bound_again_sets_no_clock_back() -> None:
    """3b.5b: an instance with more bound pods than it ever had since its service last served."""
    alone = on_nodes("1P1D", "p0 on a0, d0 unbound", name="a", age=9)
    crashed = on_nodes("1P1D", "p0 unbound, d0 unbound", name="a", age=9)
    story = begun(HELD, OTHER)
    story.at(1, alone, OTHER, bound=True)
    assert story.remembered(alone).began == NOW + 1
    for time in (6, 11, 16, 21, 26):
        story.at(time, crashed, OTHER)
        story.at(time + 1, alone, OTHER, bound=True)
        assert story.remembered(alone).began == NOW + 1
    assert story.at(31, alone, OTHER) == {"a-d0": "Revoke"}


def test_when_the_service_has_served_the_same_instance_gives_progress_again() -> None:
    """3b.5b: since its service last served."""
    serves = on_nodes("1P1D", "p0 on a0, d0 on a1", name="a", age=9)
    lost = on_nodes("1P1D", "p0 on a0, d0 unbound", name="a", age=9)
    story = begun(HELD, OTHER)
    story.at(1, serves, OTHER, bound=True)
    story.at(100, lost, OTHER)
    began = story.remembered(lost).began
    assert began == NOW + 100
    story.at(110, on_nodes("1P1D", "p0 unbound, d0 starts on a1", name="a", age=9), OTHER)
    assert story.remembered(lost).began == NOW + 110


def of_deployments(prefill: str, decode: str, uid: str) -> Service:
    """A service of two Deployments; the pod of decode has this uid."""
    service = on_nodes("1P1D", f"p0 {prefill}, d0 {decode}", name="a", age=9, others=True)
    p0 = msgspec.structs.replace(service.instances[0], owner="Deployment/a/prefill", revision="r")
    d0 = msgspec.structs.replace(
        service.instances[1], owner="Deployment/a/decode", revision="r", uid=uid
    )
    return msgspec.structs.replace(service, instances=(p0, d0))


def without(service: Service, name: str) -> Service:
    left = tuple(one for one in service.instances if one.name != name)
    return msgspec.structs.replace(service, instances=left)


@pytest.mark.parametrize("replaced", ["d0 is made again", "p0 is made again"])
def test_a_pod_that_vanishes_and_comes_again_under_another_name_is_no_edit(replaced: str) -> None:
    """3b.5c: not from which pods or instances exist: our own revocation makes a pod vanish and come
    again. What its owner makes in its place had its attempt, too."""
    story = Story(ON_TWO)
    story.at(0, of_deployments("on a0", "gated", "d-1"), OTHER)
    tried = of_deployments("on a0", "unbound", "d-1")
    story.at(1, tried, OTHER, bound=True)
    assert story.at(31, tried, OTHER) == {"d-1": "Revoke"}
    before = story.remembered(tried)
    assert (before.failures, before.backoff_until) == (1, NOW + 61)
    gone = without(tried, "d0" if replaced.startswith("d0") else "p0")
    story.at(32, gone, OTHER)
    again = of_deployments("on a0", "gated", "d-2")
    story.at(33, again, OTHER)
    after = story.remembered(again)
    assert (after.failures, after.backoff_until) == (1, NOW + 61)
    assert after.instances["d-2"].had_its_attempt


@pytest.mark.parametrize(("seconds", "failures"), [(2, 1), (290, 1), (310, 0)])
def test_a_service_whose_pods_were_all_revoked_is_no_new_service_when_they_come_again(
    seconds: float, failures: int
) -> None:
    """3b.5c: our own revocation makes a pod vanish and come again, and is no edit."""
    story = Story(ON_TWO)
    story.at(0, of_deployments("gated", "gated", "d-1"), OTHER)
    tried = of_deployments("unbound", "unbound", "d-1")
    assert story.at(30, tried, OTHER) == {"a-p0": "Revoke", "d-1": "Revoke"}
    story.at(31, OTHER)
    story.at(31 + seconds - 1, OTHER)
    again = of_deployments("gated", "gated", "d-2")
    story.at(31 + seconds, again, OTHER)
    after = story.remembered(again)
    assert (after.failures, after.gone_since) == (failures, 0.0)
    assert after.instances["d-2"].had_its_attempt is bool(failures)


@pytest.mark.parametrize(
    ("uid", "owner", "kept"),
    [
        ("StatefulSet/a/decode/decode-0", "", True),
        ("pod-uid", "Deployment/a/decode", True),
        ("job-uid", "", False),
    ],
)
def test_a_service_is_remembered_while_an_owner_makes_its_pods_again(
    uid: str, owner: str, kept: bool
) -> None:
    """3b.5c: what an owner makes again is no new service; a job that was deleted is one."""
    before = ServiceMemory({uid: InstanceMemory(owner=owner)}, failures=2)
    after = kept_while_gone(before, NOW, Policy())
    assert (after is not None) is kept
    if after is not None:
        assert kept_while_gone(after, NOW + 299, Policy()) == after
        assert kept_while_gone(after, NOW + 300, Policy()) is None


EDITS = [
    ("5c: the template", {"revision": "r2"}, True),
    ("5c: a label that section 1 reads", {"group": "group9"}, True),
    ("5c: not how many are wanted", {"wanted": 7}, False),
    ("5c: not what we wrote", {"gated": 0, "admitted_at": NOW}, False),
    ("5c: not what a webhook made of a pod", {"requests": ()}, False),
]


@pytest.mark.parametrize(("clause", "changes", "is_edit"), EDITS)
def test_what_people_wrote(clause: str, changes: dict[str, object], is_edit: bool) -> None:
    before = of_deployments("on a0", "gated", "d-1")
    d0 = msgspec.structs.replace(before.instances[1], **changes)
    after = msgspec.structs.replace(before, instances=(before.instances[0], d0))
    assert (written_of(after) != written_of(before)) is is_edit, clause


def test_pods_that_are_not_there_say_nothing_of_what_people_wrote() -> None:
    """3b.5c: not from which pods exist. Without a revision the pods say what people wrote, and the
    template may lack what admission adds to pods (3b.1c)."""
    there = on_nodes("1P1D", "p0 on a0, d0 gated", others=True)
    gone = on_nodes("1P1D", "p0 on a0, d0:4 gone", others=True)
    edited = on_nodes("1P1D", "p0 on a0, d0:4 gated", others=True)
    assert {*written_of(there)} - {*written_of(gone)} == {"a-d0"}
    assert written_of(edited)["a-d0"] != written_of(there)["a-d0"]


def test_an_outdated_pod_says_nothing_of_what_people_wrote() -> None:
    """3b.5c: from templates. A rollout is one edit, not one with each pod that is replaced."""
    old = of_deployments("on a0", "gated", "d-1")
    outdated = msgspec.structs.replace(old.instances[1], outdated=True)
    new = msgspec.structs.replace(old.instances[1], uid="d-2", revision="r2")
    both = msgspec.structs.replace(old, instances=(*old.instances[:1], outdated, new))
    one = msgspec.structs.replace(old, instances=(*old.instances[:1], new))
    assert written_of(both) == written_of(one) != written_of(old)


def test_if_another_service_waits_the_attempt_ends_and_its_room_is_handed_on() -> None:
    """3b.5e: what has no bound pod is revoked, and the service is in backoff. 3b.2d: a service in
    backoff reserves nothing. 3b.5f: backoff is 30 s."""
    cluster = (
        Played(nodes="a:8x2").service("a", "1P1D", "p0", "d0").service("b", "1P1D", "p0", "d0")
    )
    assert cluster.decided().admitted == ["a-d0", "a-p0"]

    cluster.after("30 s")
    assert cluster.revoked == ["a-d0", "a-p0"]

    cluster.after("0.1 s")
    assert cluster.admitted == ["b-d0", "b-p0"]
    assert cluster.reasons["a-p0"] == "MinimumNotScheduled"

    cluster.bind("b-p0", to="a0").bind("b-d0", to="a1").after("60 s")
    assert cluster.admitted == []
    assert cluster.reasons["a-p0"] == "MinimumDoesNotFit"


def test_the_pauses_grow_from_half_a_minute_to_five_and_end_when_it_serves() -> None:
    """3b.5f: backoff doubles. 3b.5b: progress ends it."""
    story = begun(HELD, OTHER, nodes=ON_TWO)
    time = 0.0
    pauses = []
    taken = on_nodes("1P1D", "p0 on a2, d0 on a3", name="b")
    waits = on_nodes("2P > 1P", "p0 on a4, p1:16 held", name="c")  # too large to go next
    full = "a:8x5"
    for _ in range(6):
        time += 30
        made = story.at(time, TRIED, taken, waits, nodes=full, bound=True)
        if not made:  # the bind came after the clock began: now it counts
            time += 30
            made = story.at(time, TRIED, taken, waits, nodes=full, bound=True)
        assert set(NO_A.items()) <= set(made.items())
        start = time
        pauses.append(story.remembered(TRIED).backoff_until - (1_000_000 + time))
        time = start + pauses[-1]
        assert "a-p0" not in story.at(time - 0.1, HELD, taken, waits, nodes=full)
        assert set(BOTH_A.items()) <= set(story.at(time, HELD, taken, waits, nodes=full).items())
    assert pauses == [30, 60, 120, 240, 300, 300]
    story.at(
        time + 1,
        on_nodes("1P1D", "p0 on a0, d0 on a1", name="a", age=9),
        taken,
        waits,
        nodes=full,
        bound=True,
    )
    assert story.remembered(TRIED).failures == 0


CLIMBS = on_nodes("2P > 1P", "p0 on a2, p1 held", name="b")
CLIMBED = on_nodes("2P > 1P", "p0 on a2, p1 on a0", name="b")


def ended() -> Story:
    """Nothing of a minimum was bound, though something else was, and a scale-up waits: in backoff
    from 60 s to 90 s."""
    story = Story("a:8x3")
    assert story.at(0, HELD, CLIMBS) == BOTH_A
    assert story.at(30, TRIED, CLIMBS, bound=True) == {}
    assert story.at(60, TRIED, CLIMBS, bound=True) == NO_A
    return story


def test_what_others_do_never_ends_its_pause() -> None:
    """3b.5f: what others do never ends backoff."""
    story = ended()
    assert story.at(61, HELD, CLIMBS) == {"b-p1": "Admit"}
    assert story.at(70, HELD, CLIMBED, bound=True) == {}
    assert story.at(80, HELD, on_nodes("1P", "p0 on a2", name="b")) == {}, (
        "all of its room is free again"
    )
    assert story.at(90, HELD, on_nodes("1P", "p0 on a2", name="b")) == BOTH_A


def test_a_node_that_appears_or_returns_ends_its_pause() -> None:
    """3b.5f: a node that becomes usable ends backoff."""
    serves = on_nodes("1P", "p0 on a2", name="b")
    assert ended().at(70, HELD, serves, nodes="a:8x4, a3 since -70") == BOTH_A
    assert ended().at(70, HELD, serves, nodes="a:8x3 b:8, b0 since -70") == BOTH_A, (
        "it may use any node"
    )


def came(change: Return, **of_node: Any) -> dict[str, str]:
    """What is done at 70 s of the pause after a fourth node changed so, at 65 s; others serve."""
    story = ended()
    serves = on_nodes("1P", "p0 on a2", name="b")
    seen = world(HELD, serves, nodes="a:8x4", now=NOW + 70)
    assert seen.nodes is not None
    *others, last = seen.nodes.nodes
    after = msgspec.structs.replace(last, returns=(change,), **of_node)
    nodes = msgspec.structs.replace(seen.nodes, nodes=(*others, after))
    return doings(decide(msgspec.structs.replace(seen, nodes=nodes, memory=story.memory)))


TAINT = Taint("maintenance", "x")


def test_a_node_whose_taint_label_or_faulty_chips_are_gone_ends_its_pause() -> None:
    """3b.5f: new, Ready again, uncordoned, a taint or label that kept it off gone, chips healed."""
    at = NOW + 65
    here = NodeClass((("class", "a"),))
    assert came(Return(at)) == BOTH_A, "new"
    assert came(Return(at, 20.0)) == BOTH_A, "Ready again, uncordoned, or its chips healed"
    tainted = NodeClass(here.labels, (TAINT,))
    assert came(Return(at, node_class=tainted)) == BOTH_A
    assert came(Return(at, node_class=here, passing=(TAINT,))) == BOTH_A
    # a label that its pods do not name kept nothing of it off
    assert came(Return(at, node_class=NodeClass((("class", "z"),)))) == {}
    assert came(Return(at), passing=(TAINT,)) == {}, "it is not usable"


def test_a_node_that_takes_no_pod_of_it_ends_no_pause() -> None:
    """3b.5f: a node whose free room takes a pod of it that was not bound, once per backoff."""
    at = NOW + 65
    assert came(Return(at), free=(7, 100)) == {}
    assert came(Return(at), free=(8, 0)) == {}
    assert came(Return(NOW + 55)) == {}, "before the attempt ended"
    assert came(Return(at), cordoned=True) == {}


def test_its_own_jobs_changing_ends_its_pause() -> None:
    """3b.5f: a change of its own jobs ends backoff."""
    serves = on_nodes("1P", "p0 on a2", name="b")
    changed = msgspec.structs.replace(HELD.instances[0], generation=7)
    mended = msgspec.structs.replace(HELD, instances=(changed, HELD.instances[1]))
    assert ended().at(61, mended, serves) == BOTH_A


def test_if_other_candidates_fit_in_its_place_they_are_swapped_in() -> None:
    """3b.5d: other candidates are swapped in, with a new clock."""
    spare = on_nodes("1P", "p0 unbound, p1 held", name="a")
    elsewhere = on_nodes("1P", "p0 on a3", name="b")
    story = begun(on_nodes("1P", "p0 held, p1 held", name="a"), elsewhere, nodes="a:8x4")
    story.at(1, spare, elsewhere)
    assert story.at(30, spare, elsewhere) == {"a-p0": "Revoke"}
    assert story.at(31, on_nodes("1P", "p0 held, p1 held", name="a"), elsewhere) == {
        "a-p1": "Admit"
    }
    swapped = on_nodes("1P", "p0 held, p1 unbound", name="a")
    assert story.at(40, swapped, elsewhere) == {}, "with a new clock"
    assert story.at(59, swapped, elsewhere) == {}


def test_what_is_tried_again_beside_others_is_no_half_when_the_scheduler_begins_with_it() -> None:
    """3b.5d: a new clock. 3b.5e: what is bound in part becomes Broken at its end, not before; no
    scale-up takes the room of its other pod."""
    spare = on_nodes("2P > 1P", "p0 on a3, p1 held", name="b")
    held = on_nodes("1P1D", "p0 held, p1 held, d0 held 2", name="a")
    story = begun(held, spare, nodes="a:8x4")
    tried = on_nodes("1P1D", "p0 unbound, p1 held, d0 unbound + unbound", name="a")
    story.at(1, tried, spare)
    assert story.at(30, tried, spare) == {"a-p0": "Revoke"}
    swapped = on_nodes("1P1D", "p0 held, p1 unbound, d0 unbound + unbound", name="a")
    assert story.at(31, swapped, spare) == {}
    part = on_nodes("1P1D", "p0 held, p1 unbound, d0 on a0 + unbound", name="a")
    assert story.at(32, part, spare, bound=True) == {}
    assert story.reasons["a-d0"] == "WaitingForScheduler"
    assert story.at(59, part, spare) == {}


BESIDE = on_nodes("2P > 1P", "p0 on a3, p1 held", name="b")
"""A neighbour whose scale-up takes what nobody keeps."""


@pytest.mark.parametrize(
    ("spares", "reason"),
    [("", "WaitingForScheduler"), (", d1 held 2", "Broken")],
    ids=["nobody may take its place", "a spare may"],
)
def test_what_is_bound_in_part_is_tried_again_beside_what_is_swapped_in(
    spares: str, reason: str
) -> None:
    """3b.5d: it has its place until the new clock ends, so that no scale-up takes the room of its
    other pod (L10). Where a spare may take its place, it gives way as soon as it has no slot."""
    held = on_nodes("1P1D", f"p0 held, p1 held, d0 held 2{spares}", name="a")
    story = begun(held, BESIDE, nodes="a:8x4")
    tried = on_nodes("1P1D", f"p0 unbound, p1 held, d0 on a0 + unbound{spares}", name="a")
    assert story.at(1, tried, BESIDE, bound=True) == {}
    assert story.at(31, tried, BESIDE) == {"a-p0": "Revoke"}
    swapped = on_nodes("1P1D", f"p0 held, p1 unbound, d0 on a0 + unbound{spares}", name="a")
    assert [story.at(time, swapped, BESIDE, bound=time == 40) for time in (32, 40, 60)] == [{}] * 3
    assert story.reasons["a-d0"] == reason


def test_what_is_bound_in_part_becomes_broken_when_nobody_is_left_to_be_swapped_in() -> None:
    """3b.5e: its place lasts as long as the clocks of the swaps, not for ever."""
    held = on_nodes("1P1D", "p0 held, p1 held, d0 held 2", name="a")
    story = begun(held, BESIDE, nodes="a:8x4")
    one = on_nodes("1P1D", "p0 unbound, p1 held, d0 on a0 + unbound", name="a")
    other = on_nodes("1P1D", "p0 held, p1 unbound, d0 on a0 + unbound", name="a")
    story.at(1, one, BESIDE, bound=True)
    assert story.at(31, one, BESIDE) == {"a-p0": "Revoke"}
    story.at(40, other, BESIDE, bound=True)  # 5h: resets each service, once
    assert story.at(62, other, BESIDE) == {"a-p1": "Revoke"}
    story.at(70, one, BESIDE, bound=True)
    assert story.at(93, one, BESIDE) == {"a-p0": "Revoke", "b-p1": "Admit"}
    story.at(94, on_nodes("1P1D", "p0 held, p1 held, d0 on a0 + unbound", name="a"), BESIDE)
    assert story.reasons["a-d0"] == "Broken"


def test_bound_in_part_it_becomes_broken_when_its_attempt_ends_and_its_pod_keeps_its_node() -> None:
    """3b.5e: what is bound in part becomes Broken."""
    story = begun(on_nodes("1P", "p0 held 2", name="a", age=9), OTHER, nodes="a:8x3")
    part = on_nodes("1P", "p0 on a0 + unbound", name="a", age=9)
    assert story.at(5, part, OTHER, bound=True) == {}
    assert story.reasons["b-p0"] in ("MinimumDoesNotFit", "WaitingForRoom")
    made = [story.at(time, part, OTHER, bound=True) for time in (20, 35, 36)]
    assert story.reasons["a-p0"] == "Broken"
    assert {"b-p0": "Admit", "b-d0": "Admit"} in made


def test_while_nothing_is_bound_an_attempt_ends_only_for_a_minimum_of_no_lower_priority() -> None:
    """3b.5g: while the scheduler binds nothing anywhere, others wait for 5 minutes."""
    waits = on_nodes("2P > 1P", "p0 on a2, p1 held", name="b")
    story = begun(HELD, waits, nodes="a:8x3")
    assert [story.at(time, TRIED, waits, nodes="a:8x3") for time in (1, 30, 60, 299)] == [{}] * 4
    assert story.at(300, TRIED, waits, nodes="a:8x3") == NO_A
    lower = on_nodes("1P1D", "p0 held, d0 held", name="b", priority=-1)
    story = begun(HELD, lower)
    assert [story.at(time, TRIED, lower) for time in (1, 30, 299)] == [{}] * 3
    assert story.at(300, TRIED, lower) == NO_A


def test_the_next_bind_of_anybody_resets_a_clock_that_ran_out_without_one() -> None:
    """3b.5h: the next bind of anybody resets each service, once."""
    lower = on_nodes("1P1D", "p0 held, d0 held", name="b", priority=-1)
    story = begun(HELD, lower)
    assert story.at(100, TRIED, lower) == {}
    assert story.at(101, TRIED, lower, bound=True) == {}
    assert story.at(130.9, TRIED, lower, bound=True) == {}
    assert story.at(131, TRIED, lower) == NO_A, "once"


def test_a_scale_up_that_is_never_bound_ends_its_attempt_for_its_spare() -> None:
    """3b.7c: a scale-up has an attempt of its own. 3b.5e: it ends for a spare of its group."""
    spare = on_nodes("2P > 1P", "p0 on a0, p1 held, p2 held", name="a")
    tried = on_nodes("2P > 1P", "p0 on a0, p1 unbound, p2 held", name="a")
    elsewhere = on_nodes("1P", "p0 on a1", name="b")
    story = Story("a:8x4")
    assert story.at(0, spare, elsewhere) == {"a-p1": "Admit"}
    assert story.at(1, tried, elsewhere, bound=True) == {}
    assert story.at(30, tried, elsewhere) == {"a-p1": "Revoke"}
    assert story.at(31, spare, elsewhere) == {"a-p2": "Admit"}


NEXT_TO = on_nodes("1P", "p0 on a1", name="b")
WAITS = on_nodes("3P > 1P", "p0 on a0, p1 unbound, p2 held", name="a")


def climbing(waits: Service, other: Service, nodes: str) -> Story:
    """One scale-up is in the scheduler's tried since 0 s, and there is no room for the next; others
    were bound."""
    story = Story(nodes)
    assert story.at(0, waits, other) == {}
    assert story.at(1, waits, other, bound=True) == {}
    return story


def test_the_next_bind_of_anybody_resets_the_clock_of_a_scale_up_and_its_ended_attempt() -> None:
    """3b.5h, of a scale-up (3b.7c)."""
    twice = InstanceMemory(began=NOW - 30, failures=1, backoff_until=NOW - 60, restarts=0)
    memory = Memory({"default/rule/a": ServiceMemory({"a-p1": twice})}, last_bind=NOW - 200)
    made = decide(world(WAITS, NEXT_TO, nodes="a:8x3", memory=memory, last_bind=NOW))
    after = made.memory.services["default/rule/a"].instances["a-p1"]
    assert (after.began, after.failures, after.was_reset) == (NOW, 0, True)


@pytest.mark.parametrize("pardoned", [False, True])
def test_the_next_bind_of_anybody_takes_back_once_that_candidates_had_their_attempt(
    pardoned: bool,
) -> None:
    """3b.5h: once until the service serves or its jobs or rule change."""
    had = InstanceMemory(had_attempt=HadAttempt.SINCE_LAST_BIND, gives_way=True, restarts=0)
    memory = Memory(
        {"default/rule/a": ServiceMemory({"a-p0": had}, was_reset=pardoned)}, last_bind=NOW - 200
    )
    waits = on_nodes("1P", "p0 held, p1 held", name="a")
    made = decide(world(waits, NEXT_TO, nodes="b:8x1", memory=memory, last_bind=NOW))
    after = made.memory.services["default/rule/a"]
    one = after.instances["a-p0"]
    assert (one.had_attempt, one.gives_way, after.was_reset) == (
        HadAttempt.FOR_GOOD,
        pardoned,
        True,
    )


def test_a_change_of_its_jobs_brings_nothing_back_that_a_bind_has_reset() -> None:
    """3b.5h: the next bind of anybody resets each service. 3b.5c: that an instance had its attempt
    is forgotten when its jobs change. Both are seen in one decision, of an instance that is bound
    whole and crashes."""
    had = InstanceMemory(had_attempt=HadAttempt.SINCE_LAST_BIND, gives_way=True, restarts=0)
    before = ServiceMemory({"a-p0": had}, written={"": "of an older rule"})
    memory = Memory({"default/rule/a": before}, last_bind=NOW - 200)
    crashes = on_nodes("1P", "p0 crashes on a0, p1 held", name="a")
    made = decide(world(crashes, NEXT_TO, nodes="a:8x3", memory=memory, last_bind=NOW))
    after = made.memory.services["default/rule/a"].instances["a-p0"]
    assert (after.had_attempt, after.gives_way) == (HadAttempt.NO, False)


def test_no_scale_up_ends_its_attempt_for_another_one_of_its_group_that_can_start_beside_it() -> (
    None
):
    """3b.7c, 3b.5e: a spare that can start beside it does not wait for it."""
    story = climbing(WAITS, NEXT_TO, "a:8x3")
    assert story.at(30, WAITS, NEXT_TO, nodes="a:8x4") == {"a-p2": "Admit"}
    both = on_nodes("3P > 1P", "p0 on a0, p1 unbound, p2 unbound", name="a")
    assert [story.at(time, both, NEXT_TO, nodes="a:8x4") for time in (31, 60, 90)] == [{}] * 3, (
        "nobody waits"
    )


def test_a_scale_up_ends_its_attempt_for_another_one_of_its_group_that_lacks_room_beside_it() -> (
    None
):
    """3b.7c, 3b.5e: the spare waits, and the attempt ends."""
    story = climbing(WAITS, NEXT_TO, "a:8x3")
    assert story.at(30, WAITS, NEXT_TO) == {"a-p1": "Revoke"}
    assert story.at(31, on_nodes("3P > 1P", "p0 on a0, p1 held, p2 held", name="a"), NEXT_TO) == {
        "a-p2": "Admit"
    }


def test_a_scale_up_ends_its_attempt_where_not_all_others_of_its_group_can_start_beside_it() -> (
    None
):
    """3b.7c, 3b.5e: one of several spares waits."""
    waits = on_nodes("4P > 1P", "p0 on a0, p1 unbound, p2 held, p3 held", name="a")
    story = climbing(waits, NEXT_TO, "a:8x3")
    assert story.at(30, waits, NEXT_TO, nodes="a:8x4") == {"a-p1": "Revoke"}, (
        "none starts in the same decision (S6)"
    )
    held = on_nodes("4P > 1P", "p0 on a0, p1 held, p2 held, p3 held", name="a")
    assert story.at(31, held, NEXT_TO, nodes="a:8x4") == {"a-p2": "Admit", "a-p3": "Admit"}


def test_a_scale_up_ends_its_attempt_where_the_next_one_could_invalidate_a_reservation() -> None:
    """3b.7b: the minimum of another service needs one of two nodes, and the scheduler may put both
    scale-ups there."""
    minimum = on_nodes("1P", "p0@b unbound", name="b")
    story = climbing(WAITS, on_nodes("1P", "p0@b on b1", name="b"), "a:8 b:8x2")
    assert story.at(29, WAITS, minimum, nodes="a:8 b:8x2", bound=True) == {}
    assert story.at(30, WAITS, minimum, nodes="a:8x2 b:8x2") == {"a-p1": "Revoke"}


def test_a_minimum_that_only_waits_for_room_has_no_clock() -> None:
    """3b.5a: the clock of a reservation on free room runs, and no other."""
    story = begun(HELD, OTHER, nodes="a:8x2, a1 ending 8 290")
    assert [
        story.at(time, HELD, OTHER, nodes="a:8x2, a1 ending 8 290") for time in (30, 60, 200)
    ] == [{}] * 3
    assert story.reasons["a-p0"] == "WaitingForRoom"
    assert story.at(210, HELD, OTHER, nodes=ON_TWO) == BOTH_A


def test_where_others_make_the_pods_the_clock_starts_anew_when_the_last_one_is_made() -> None:
    """3b.5i: where others make the pods the clock starts anew, once."""
    none = on_nodes("1P1D", "p0 gone, d0 gone", name="a", age=9, others=True)
    half = on_nodes("1P1D", "p0 gated, d0 gone", name="a", age=9, others=True)
    both = on_nodes("1P1D", "p0 gated, d0 gated", name="a", age=9, others=True)
    story = begun(none, OTHER)
    assert story.at(20, half, OTHER) == {}
    assert story.at(28, both, OTHER) == BOTH_A
    tried = on_nodes("1P1D", "p0 unbound, d0 unbound", name="a", age=9, others=True)
    assert story.at(57.9, tried, OTHER) == {}
    assert story.at(58, tried, OTHER) == NO_A


def test_what_its_owner_never_makes_holds_up_others_for_one_attempt_only() -> None:
    """3b.5a: the clock runs while anything is not made yet by its owner."""
    unmade = on_nodes("1P1D", "p0 gated, d0 gone", name="a", age=9, others=True)
    story = begun(unmade, OTHER)
    assert story.at(29.9, unmade, OTHER) == {}
    assert story.at(30, unmade, OTHER) | story.at(30.1, unmade, OTHER) == {
        "b-p0": "Admit",
        "b-d0": "Admit",
    }


@pytest.mark.parametrize("nodes", [ON_TWO, "a:8x3, a0 cordoned 1", "a:8x3, a0 lost 1"])
def test_after_a_failover_every_clock_starts_anew_and_nothing_else_changes(nodes: str) -> None:
    """2: after a failover memory starts empty."""
    story = begun(TRIED, OTHER, nodes=nodes)
    fresh = Story(nodes)
    assert story.at(29, TRIED, OTHER) == fresh.at(29, TRIED, OTHER) == {}
    assert story.made.plans == fresh.made.plans
    assert fresh.at(58.9, TRIED, OTHER) == {}
    assert fresh.at(59, TRIED, OTHER) == NO_A


def test_whose_attempt_has_ended_goes_behind_the_others() -> None:
    """3b.2c: whose attempt has ended goes behind the others."""
    older = on_nodes("1P", "p0 held", name="a", age=9)
    younger = on_nodes("1P", "p0 held", name="b")
    had = Memory({str(older.key): ServiceMemory(ended_at=NOW - 100)})
    assert doings(decide(world(older, younger, nodes="a:8"))) == {"a-p0": "Admit"}
    assert doings(decide(world(older, younger, nodes="a:8", memory=had))) == {"b-p0": "Admit"}


def test_what_an_owner_makes_again_inherits_that_it_had_its_attempt() -> None:
    """3b.5c: what their owner makes in their place had its attempt."""
    gone = InstanceMemory(
        had_attempt=HadAttempt.FOR_GOOD, failures=2, backoff_until=NOW + 60, owner="deployment"
    )
    before = on_nodes("2P > 1P", "p0 on a0, p1 held", name="a", others=True)
    made = tuple(msgspec.structs.replace(one, owner="deployment") for one in before.instances)
    seen = msgspec.structs.replace(before, instances=made)
    memory = Memory(
        {str(seen.key): ServiceMemory(instances={"gone": gone, "a-p0": InstanceMemory(ran=True)})}
    )
    after = decide(world(seen, nodes="a:8x3", memory=memory))
    assert doings(after) == {}
    assert after.memory.services[str(seen.key)].instances["a-p1"].backoff_until == NOW + 60


def test_an_instance_inherits_of_its_own_owner_only() -> None:
    """3b.5c: what their owner makes in their place."""
    gone = InstanceMemory(had_attempt=HadAttempt.FOR_GOOD, owner="Deployment/a/decode")
    service = of_deployments("held", "held", "d-2")
    memory = Memory({str(service.key): ServiceMemory(instances={"d-1": gone})})
    after = decide(world(service, nodes="a:8x2", memory=memory)).memory.services[str(service.key)]
    assert not after.instances["a-p0"].had_its_attempt
    assert after.instances["d-2"].had_its_attempt


def with_scheduler(service: Service, name: str) -> Service:
    named = [msgspec.structs.replace(one, scheduler=name) for one in service.instances]
    return msgspec.structs.replace(service, instances=tuple(named))


BOUND_BY = [
    ("5g: its own scheduler", "volcano", {"volcano": NOW - 20}, NO_A),
    ("5g: another one", "volcano", {"default-scheduler": NOW - 20}, {}),
    ("5g: it names none", "", {"default-scheduler": NOW - 20}, NO_A),
    ("5g: its own, before", "volcano", {"volcano": NOW - 99, "default-scheduler": NOW - 20}, {}),
]


@pytest.mark.parametrize(("clause", "scheduler", "last_binds", "done"), BOUND_BY)
def test_only_binds_of_its_own_scheduler_show_that_it_is_there(
    clause: str, scheduler: str, last_binds: dict[str, float], done: dict[str, str]
) -> None:
    """3b.5g: no pod of anybody with the same `schedulerName` was bound since the clock began."""
    tried = with_scheduler(TRIED, scheduler)
    waits = on_nodes("2P > 1P", "p0 on a2, p1 held", name="b")
    memory = Memory({str(TRIED.key): ServiceMemory(began=NOW - 30)}, NOW - 20, last_binds)
    last = {"last_bind": NOW - 20, "last_binds": last_binds}
    made = decide(world(tried, waits, nodes="a:8x3", memory=memory, **last))
    assert doings(made) == done, clause


@pytest.mark.parametrize(("binder", "resets"), [("volcano", True), ("default-scheduler", False)])
def test_only_a_bind_of_its_own_scheduler_resets_an_attempt(binder: str, resets: bool) -> None:
    """3b.5h: of the scheduler that was away (5g)."""
    tried = with_scheduler(TRIED, "volcano")
    lower = on_nodes("1P1D", "p0 held, d0 held", name="b", priority=-1)
    before = {"volcano": NOW - 99, "default-scheduler": NOW - 50}
    memory = Memory({str(TRIED.key): ServiceMemory(began=NOW - 60)}, NOW - 50, before)
    last = {"last_bind": NOW, "last_binds": {**before, binder: NOW}}
    made = decide(world(tried, lower, nodes=ON_TWO, memory=memory, **last))
    assert (made.memory.services[str(TRIED.key)].began == NOW) is resets
    assert made.memory.last_binds == last["last_binds"]
