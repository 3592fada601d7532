"""Notes before an answer: no scaler is at work, or not everything may be read. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scaler.kube.api import ASCEND_JOBS
from scaler.timestamps import clock_of
from scaler.tools.common.console import age
from scaler.tools.common.leader import Leaders
from scaler.tools.common.view import Gap

_TOLD = ("elasticservices", "ascendjobs", "pods", "nodes", "configmaps", "podgroups", "events")
"""By name; other kinds matter to few users."""


def absent_scaler(found: Leaders, namespaces: Iterable[str], now: float) -> Iterable[str]:
    """A note that no scaler governs these namespaces, as far as Leases show."""
    said = set()
    for namespace in sorted(namespaces):
        leader = found.of(namespace, now)
        if leader is None and found.unread:
            said.add(f"whether a scaler is at work is not known: {found.unread}")
        elif leader is None:
            words = (
                "there is no Lease of one, so either none is at work or it runs without leader"
                " election"
            )
            said.add(f"no scaler is known to look after namespace {namespace}: {words}")
        elif not leader.is_at_work(now):
            where = f"{leader.namespace}/{leader.lease}"
            ago = (
                f"was renewed {age(now - leader.renewed)} ago"
                if leader.renewed
                else "was never renewed"
            )
            said.add(
                f"NO SCALER IS AT WORK: Lease {where} {ago}; nothing is decided, and what it wrote"
                " is old"
            )
        elif leader.blind_since:
            said.add(f"the scaler is out of touch with the cluster since {leader.blind_since}")
    return sorted(said)


def gap_words(gaps: Sequence[Gap], now: float = 0.0) -> Iterable[str]:
    """What is not seen, in as few lines as possible. `now`: to say how old it is, in seconds since
    the epoch."""
    old = [gap for gap in gaps if gap.since]
    if old:
        yield _old_in_words(old, now)
    forbidden = set()
    for one in gaps:
        if one.forbidden:
            forbidden.add(one.plural)
    told = [name for name in _TOLD if name in forbidden]
    if forbidden:
        others = len(forbidden) - len(told)
        if not told:
            more = f"{others} kinds"
        elif others:
            more = f" and {others} other kinds"
        else:
            more = ""
        yield f"you may not read {', '.join(told)}{more}: what follows is without them"
    for gap in gaps:
        if not gap.installed and gap.resource == ASCEND_JOBS.full_name:
            yield "the kind AscendJob is not installed in this cluster"
        elif gap.installed and not (gap.forbidden or old):
            yield f"not up to date: {gap.why}"


def _old_in_words(old: Sequence[Gap], now: float) -> str:
    first = min(old, key=lambda gap: gap.since)
    age_in_words = f", {age(now - first.since)} ago" if now else ""
    plurals = {gap.plural for gap in old}
    told = [name for name in _TOLD if name in plurals]
    others = len(old) - len(told)
    names = ", ".join(told) if told else "some kinds"
    more = f" and {others} other kinds" if told and others else ""
    since = f"{clock_of(first.since)}{age_in_words}"
    return f"NOT UP TO DATE: what follows of {names}{more} is from {since}: {first.why}"
