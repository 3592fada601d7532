"""The rights that a scaler needs for its settings, and its installer. Pure; tests compare with the
manifests."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from scaler.defaults import Mode
from scaler.informers.faults import CLUSTER_NAMESPACE, DEVICE_NAMESPACE
from scaler.informers.resources import OPTIONAL
from scaler.kube.api import DEPLOYMENTS, ELASTIC_SERVICES, HYPER_NODES, POD_GROUPS
from scaler.names import WEBHOOK_SECRET
from scaler.settings import Settings
from scaler.tools.common.check_result import CheckResult, Level
from scaler.tools.preflight.checks import Check, check, listed, ok
from scaler.tools.preflight.picture import Install, Picture, Right
from scaler.workloads.kinds import KINDS, WATCHED

Role = Mapping[tuple[str, str], str]
ROLES: dict[str, Role] = {
    "election": {("coordination.k8s.io", "leases"): "create get list watch update"},
    "records": {("", "configmaps"): "get list watch create patch delete"},
    "cluster": {
        ("", "nodes"): "list watch",
        ("", "namespaces"): "list",
        ("apiextensions.k8s.io", "customresourcedefinitions"): "list watch",
        ("apps", "deployments"): "list watch",
        ("coordination.k8s.io", "leases"): "list",
        ("scheduling.k8s.io", "priorityclasses"): "list watch",
        ("topology.volcano.sh", "hypernodes"): "list watch",
    },
    "watch": {
        ("", "configmaps"): "list watch",
        ("", "pods"): "list watch",
        **{(one.group, one.plural): "list watch" for one in WATCHED if one != DEPLOYMENTS},
        ("scaler.mind-cluster.io", "elasticservices"): "list watch",
        ("policy", "poddisruptionbudgets"): "list watch",
        ("scheduling.volcano.sh", "podgroups"): "list watch",
    },
    "release": {
        ("", "events"): "get create patch",
        ("", "pods"): "get patch delete",
        ("mind-cluster", "gates"): "release",
        ("scaler.mind-cluster.io", "elasticservices"): "get create delete",
        ("scaler.mind-cluster.io", "elasticservices/status"): "patch",
        ("policy", "poddisruptionbudgets"): "get create delete",
        ("scheduling.volcano.sh", "podgroups"): "get create patch",
    },
    "metrics": {
        ("authentication.k8s.io", "tokenreviews"): "create",
        ("authorization.k8s.io", "subjectaccessreviews"): "create",
    },
    "create": {
        ("", "configmaps"): "get patch delete",
        ("", "pods"): "create",
        ("", "services"): "get list watch create delete",
        ("scheduling.volcano.sh", "podgroups"): "delete",
    },
}
"""By the suffix of the role's name, as in the manifests."""
for _kind in KINDS:
    for _role, _verbs in _kind.rights.items():
        ROLES[_role] = {**ROLES[_role], **_verbs}
_DEFINED = {one for kind in KINDS for one in kind.definitions}
_DEFINITIONS = (
    POD_GROUPS,
    HYPER_NODES,
    *(resource for resource in WATCHED if resource in _DEFINED),
    ELASTIC_SERVICES,
)
_NAMED = {
    ("apiextensions.k8s.io", "customresourcedefinitions"): tuple(
        one.full_name for one in _DEFINITIONS
    )
}
"""Resources whose rights the manifests grant for these names only."""
_FAULT_DATA: Role = {("", "configmaps"): "list watch"}
_PROVISIONING_REQUEST: Role = {
    ("autoscaling.x-k8s.io", "provisioningrequests"): "get list create delete",
    ("", "podtemplates"): "create",
}
_WEBHOOK: Role = {
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): "get patch",
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): "get patch",
}
_RBAC = "rbac.authorization.k8s.io"
_INSTALLED: Role = {
    ("apiextensions.k8s.io", "customresourcedefinitions"): "create patch",
    ("", "namespaces"): "create patch",
    (_RBAC, "clusterroles"): "create patch",
    (_RBAC, "clusterrolebindings"): "create patch",
}
_INSTALLED_HOME: Role = {
    (_RBAC, "roles"): "create patch",
    (_RBAC, "rolebindings"): "create patch",
    ("", "serviceaccounts"): "create patch",
    ("", "services"): "create patch",
    ("apps", "deployments"): "create patch",
    ("policy", "poddisruptionbudgets"): "create patch",
}
ESCALATE = Right(_RBAC, "clusterroles", "escalate")
"""A user without this right must have every right that the user grants to the scaler."""
_DONE_WITHOUT = {
    "namespaces",
    "customresourcedefinitions",
    *(resource.plural for resource in OPTIONAL),
}
"""Without the right to list these the scaler works, with limits."""
REVIEWS = "the right to create subjectaccessreviews.authorization.k8s.io is missing"


def needed(settings: Settings) -> Iterator[tuple[str, Right]]:
    """The rights of an install with these settings, each with the role that gives it."""
    home = settings.lease_namespace
    places = settings.namespaces or ("",)
    yield from _home(settings)
    yield from _of("cluster", ROLES["cluster"], [""])
    yield from _of("watch", ROLES["watch"], places)
    yield from _of("release", ROLES["release"], places)
    if settings.mode is not Mode.GATES:
        yield from _of("create", ROLES["create"], places)
    if settings.namespaces:
        yield from _of("fault-data", _FAULT_DATA, [DEVICE_NAMESPACE, CLUSTER_NAMESPACE])
    if settings.metrics_port:
        yield from _of("metrics", ROLES["metrics"], [""])
    if settings.provisioning_request:
        yield from _of("provisioning-request", _PROVISIONING_REQUEST, [""])
    if settings.webhook_port and not settings.webhook_cert_file:
        yield from _of("webhook", _WEBHOOK, [""], settings.install)
        secrets = (Right("", "secrets", verb, home, WEBHOOK_SECRET) for verb in ("get", "update"))
        for right in (Right("", "secrets", "create", home), *secrets):
            yield ("webhook", right)


def _home(settings: Settings) -> Iterator[tuple[str, Right]]:
    home = settings.lease_namespace
    for _, right in _of("election", ROLES["election"], [home]):
        yield (
            "election",
            right if right.verb == "create" else right._replace(name=settings.lease_name),
        )
    yield from _of("records", ROLES["records"], [home])


def _of(
    title: str, role: Role, places: Iterable[str], name: str = ""
) -> Iterator[tuple[str, Right]]:
    for (group, resource), verbs in role.items():
        names = (name,) if title != "cluster" else _NAMED.get((group, resource), ("",))
        for verb, place, one in itertools.product(verbs.split(), places, names):
            yield title, Right(group, resource, verb, place, one)


def to_install(home: str) -> Iterator[Right]:
    """The rights for applying the manifests, without those that the manifests grant."""
    for _, right in _of("", _INSTALLED, [""]):
        yield right
    for _, right in _of("", _INSTALLED_HOME, [home]):
        yield right


def installer(picture: Picture) -> Check:
    """May the caller install the scaler, or a new version of it?"""
    mine = {}
    for (user, right), may in picture.rights.items():
        if not user:
            mine[right] = may
    refused = []
    for right, may in mine.items():
        if may is False and right != ESCALATE:
            refused.append(right)
    if refused:
        who = "an administrator has to apply the manifests"
        words = f"you may not install the scaler: {listed(_words(refused), 2)}"
        level = Level.WARNING if picture.installs or DEPLOYMENTS in picture.unread else Level.ERROR
        return check("your rights", [CheckResult(level, words, who, tuple(_words(refused)))])
    if not mine or None in mine.values():
        return check(
            "your rights",
            [CheckResult(Level.UNKNOWN, "whether you may install the scaler is not known")],
        )
    return check("your rights", [], ok("you may install and upgrade the scaler"))


def accounts(picture: Picture) -> Check:
    """Does each scaler's account have the rights for its settings?"""
    found: list[CheckResult] = []
    for install in picture.installs:
        if install.settings:
            found.extend(_account(picture, install, install.settings))
    if not picture.installs:
        unread = [CheckResult(Level.UNKNOWN, "whether the scaler is installed is not known")]
        return check(
            "its rights",
            unread if DEPLOYMENTS in picture.unread else [],
            ok("to be seen when the scaler is installed"),
        )
    number = len(picture.rights) - sum(not user for user, _ in picture.rights)
    return check(
        "its rights",
        found,
        ok(f"the scaler's account has all {number} rights that its settings need"),
    )


def _account(picture: Picture, install: Install, settings: Settings) -> Iterator[CheckResult]:
    lacks: defaultdict[str, list[Right]] = defaultdict(list)
    unknown = False
    for role, right in needed(settings):
        may = picture.rights.get((install.user, right))
        unknown |= may is None
        if may is False:
            lacks[role].append(right)
    if unknown:
        yield CheckResult(Level.UNKNOWN, f"rights of {install.user}: {REVIEWS}")
    for role, rights in lacks.items():
        optional = all(
            one.resource in _DONE_WITHOUT and one.verb in ("list", "watch") for one in rights
        )
        level = Level.WARNING if optional else Level.ERROR
        words = (
            f"ServiceAccount {install.namespace}/{install.account} may not {listed(_words(rights))}"
        )
        yield CheckResult(
            level, f"{words} (role {install.name}-{role})", again(install), tuple(_words(rights))
        )


def _words(rights: list[Right]) -> list[str]:
    """`list, watch pods in mindie`, one for each resource."""
    verbs: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for right in rights:
        name = f" {right.name}" if right.name else ""
        verbs[f"{right.resource}.{right.group}".rstrip(".") + name, right.namespace].append(
            right.verb
        )
    found: list[str] = []
    for (what, where), some in verbs.items():
        found.append(f"{', '.join(some)} {what}" + (f" in {where}" if where else ""))
    return found


def variant(settings: Settings) -> str:
    """The manifests that fit an install with these settings."""
    if settings.namespaces:
        return "single-namespace"
    return "gates-only" if settings.mode is Mode.GATES else "cluster-wide"


def again(install: Install) -> str:
    """The command that applies the manifests again."""
    if install.helm:
        return f"helm -n {install.namespace} upgrade with the chart of this version"
    made = variant(install.settings) if install.settings else "cluster-wide"
    return f"kubectl apply -k manifests/{made}, or your own folder of it"
