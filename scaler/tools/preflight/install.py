"""The scaler itself: is it installed, ready, led, of this version, and alone in its namespaces?
Pure."""

from __future__ import annotations

from collections.abc import Iterator

from scaler import __version__
from scaler.kube.api import DEPLOYMENTS
from scaler.tools.common.check_result import CheckResult, Level
from scaler.tools.common.console import age
from scaler.tools.common.leader import Leader
from scaler.tools.preflight.checks import Check, check, listed, ok
from scaler.tools.preflight.picture import Install, Picture, tag_of
from scaler.tools.preflight.platform import missing_right
from scaler.tools.preflight.rights import again

SETTLED = 60.0
"""Seconds from an install until a replica must be at work."""
INSTALL = "kubectl apply -k manifests/cluster-wide (docs/howto/deploy.md says which variant)"


def scaler(picture: Picture) -> Check:
    """Each install: replicas, leader, version, settings."""
    unread = missing_right(picture, DEPLOYMENTS)
    if unread:
        return check("scaler", unread)
    if not picture.installs:
        return check("scaler", list(_not_deployed(picture)))
    found: list[CheckResult] = []
    for install in picture.installs:
        found.extend(_install(picture, install))
    words = []
    for one in picture.installs:
        words.append(
            f"{one.namespace}/{one.name}: {one.ready} of {one.replicas} ready, {one.image}"
        )
    return check(
        "scaler", found, ok(listed(words), *(_led(picture, one) for one in picture.leaders.found))
    )


def _not_deployed(picture: Picture) -> Iterator[CheckResult]:
    at_work = [one for one in picture.leaders.found if one.is_at_work(picture.now)]
    if at_work:
        places = listed([f"{one.namespace}/{one.lease}" for one in at_work])
        yield CheckResult(
            Level.WARNING, f"no Deployment of the scaler, but one is at work: Lease {places}"
        )
    else:
        yield CheckResult(Level.WARNING, "not installed", INSTALL)


def _install(picture: Picture, install: Install) -> Iterator[CheckResult]:
    where = f"{install.namespace}/{install.name}"
    look = f"kubectl -n {install.namespace}"
    pods = f"{look} get pods; {look} logs deployment/{install.name}"
    lease = None
    for one in picture.leaders.found:
        if one.namespace == install.namespace:
            lease = one
            break
    if install.wrong:
        yield CheckResult(
            Level.ERROR,
            f"{where}: {install.wrong}",
            f"{look} set env deployment/{install.name} ...",
        )
    if lease is not None and lease.is_at_work(picture.now):
        yield from _at_work(install, lease, pods)
    elif picture.now < install.created + SETTLED:
        words = (
            f"{where} was installed {age(picture.now - install.created)} ago, and no replica is at"
            " work yet"
        )
        yield CheckResult(Level.WARNING, words, "ask again in a minute")
    else:
        yield CheckResult(Level.ERROR, f"{where}: {_nobody(picture, lease)}", pods)
    yield from _version(install)


def _at_work(install: Install, lease: Leader, pods: str) -> Iterator[CheckResult]:
    where = f"{install.namespace}/{install.name}"
    if lease.blind_since:
        words = f"{where} is out of touch with the cluster since {lease.blind_since}"
        yield CheckResult(
            Level.ERROR,
            words,
            "docs/explanation/reliability.md, section Alive, ready, out of touch",
        )
    if install.ready < install.replicas:
        yield CheckResult(
            Level.WARNING,
            f"{where}: {install.ready} of {install.replicas} replicas are ready",
            pods,
        )
    elif install.replicas < 2:
        words = (
            f"{where}: {install.replicas} replicas wanted, so nobody takes over when the leader"
            " goes"
        )
        advice = f"kubectl -n {install.namespace} scale deployment {install.name} --replicas=2"
        yield CheckResult(Level.WARNING, words, advice)


def _nobody(picture: Picture, lease: Leader | None) -> str:
    if lease is None:
        return (
            "no Lease, so none of its replicas was ever at work"
            f" ({picture.leaders.unread or 'none found'})"
        )
    if not lease.renewed:
        return "its Lease was never renewed: no replica is at work"
    return f"its Lease was renewed {age(picture.now - lease.renewed)} ago: no replica is at work"


def _led(picture: Picture, lease: Leader) -> str:
    renewed = (
        f"renewed {age(picture.now - lease.renewed)} ago" if lease.renewed else "never renewed"
    )
    return f"Lease {lease.namespace}/{lease.lease}: held by {lease.holder or 'nobody'}, {renewed}"


def _version(install: Install) -> Iterator[CheckResult]:
    tag = tag_of(install.image).removeprefix("v")
    if tag and tag != __version__:
        words = (
            f"{install.namespace}/{install.name} is of version {tag}, this command of {__version__}"
        )
        yield CheckResult(
            Level.WARNING,
            words,
            f"upgrade it ({again(install)}), or use the command of its version",
        )


def installs(picture: Picture) -> Check:
    """Whether two installs govern the same namespace."""
    if picture.leaders.unread:
        return check(
            "other installs",
            [CheckResult(Level.UNKNOWN, f"Leases of installs: {picture.leaders.unread}")],
        )
    alive = [one for one in picture.leaders.found if one.is_at_work(picture.now)]
    pairs = []
    for number, one in enumerate(alive):
        for other in alive[number + 1 :]:
            if _share(one, other):
                pairs.append((one, other))
    found = [_shared(one, other) for one, other in pairs]
    words = []
    for one in alive:
        words.append(f"{one.namespace}/{one.lease} looks after {', '.join(one.governs) or 'all'}")
    return check("other installs", found, ok(listed(words) or "no scaler is at work"))


def _shared(one: Leader, other: Leader) -> CheckResult:
    words = (
        f"{one.namespace}/{one.lease} and {other.namespace}/{other.lease} look after the same"
        " namespaces"
    )
    return CheckResult(
        Level.ERROR, words, "give each namespaces of its own (SCALER_NAMESPACES), or remove one"
    )


def _share(one: Leader, other: Leader) -> bool:
    return not one.governs or not other.governs or bool(set(one.governs) & set(other.governs))
