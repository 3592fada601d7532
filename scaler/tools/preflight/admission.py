"""Do pods made by others get the gate, is the webhook trusted, and does another webhook block all
pods? Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from scaler.informers.cache import OPERATOR_DEPLOYMENT
from scaler.informers.mode import ModeInForce, in_force
from scaler.kube.api import (
    ASCEND_JOBS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    MUTATING_POLICY_BINDINGS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    VALIDATING_WEBHOOKS,
    Object,
)
from scaler.names import BESIDE_LABEL, MOVED_RULE, NAMESPACE_LABEL, RULE_LABEL
from scaler.rules.values import as_list, as_text, at
from scaler.tools.common.check_result import CheckResult, Level
from scaler.tools.common.console import age
from scaler.tools.preflight.checks import Check, check, listed, ok
from scaler.tools.preflight.picture import (
    Install,
    Picture,
    labels_of,
    name_of,
    namespace_of,
    place_of,
)
from scaler.tools.preflight.platform import MUTATING_POLICIES_SINCE, missing_right

SOON = 30 * 86_400.0
"""Seconds: the leader renews 60 days before the end, so with less left no leader renews."""
USUAL = "mind-cluster-scaler"
_HOWTO = "docs/howto/hold-with-admission.md"
_CONFIGURATIONS = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)


def _installs_by_name(picture: Picture) -> dict[str, Install | None]:
    """The installs by the name of their objects; the usual name when none is known."""
    named: dict[str, Install | None] = {}
    for one in picture.installs:
        if one.settings:
            named[one.settings.install] = one
    return named or {USUAL: None}


def admission(picture: Picture) -> Check:
    """The own policies and webhook, and whether they select the namespaces of services."""
    unread = missing_right(picture, *_CONFIGURATIONS, NAMESPACES)
    named = _installs_by_name(picture)
    policy = [one for one in picture.of(MUTATING_POLICY_BINDINGS) if name_of(one) in named]
    own = []
    for kind in _CONFIGURATIONS:
        for one in picture.of(kind):
            if name_of(one) in named:
                own.append((kind, one))
    gated = _gated(picture)
    found = [*unread, *_opted_in(picture, gated)]
    for _, one in own:
        found += _webhook(picture, named[name_of(one)], one)
    has_webhook = any(kind is MUTATING_WEBHOOKS for kind, _ in own)
    if gated and not policy and not has_webhook and not unread:
        found.append(_no_way(picture, gated))
    ways = ["policy"] if policy else []
    for kind, one in own:
        ways.append(f"{kind.kind} ({_policies(one)})")
    needed = "" if gated else "; needed only where others make the pods"
    return check(
        "admission", found, ok(f"{' and '.join(ways) or 'neither policy nor webhook'}{needed}")
    )


def _policies(configuration: Object) -> str:
    """What happens to pods while the webhook does not answer."""
    hooks = map(at, as_list(configuration.get("webhooks")))
    return "/".join(sorted({str(one.get("failurePolicy", "Fail")) for one in hooks}))


def _gated(picture: Picture) -> dict[str, bool]:
    """Namespaces where others make the pods of services; True where labels of AscendJobs have to be
    moved."""
    needs = {}
    for pod in picture.of(PODS):
        if _maker(pod) != ASCEND_JOBS.kind:
            needs[namespace_of(pod)] = False
    if _acting(picture) is ModeInForce.RELEASES:
        for one in picture.of(ASCEND_JOBS):
            if _is_service(one):
                needs[namespace_of(one)] = True
    return needs


def _acting(picture: Picture) -> ModeInForce:
    settings = None
    for item in picture.installs:
        if item.settings:
            settings = item.settings
            break
    if settings is None or DEPLOYMENTS in picture.unread:
        return ModeInForce.MAKES
    running = []
    for one in picture.deployments(OPERATOR_DEPLOYMENT):
        if at(one, "spec").get("replicas", 1):
            running.append(one)
    here = [one for one in running if namespace_of(one) == settings.ascend_operator_namespace]
    return in_force(settings.mode, place_of(here[0]) if here else "")


def _is_service(job: Object) -> bool:
    return RULE_LABEL in labels_of(job) or MOVED_RULE in at(job, "metadata", "annotations")


def _maker(pod: Object) -> str:
    owners = as_list(at(pod, "metadata").get("ownerReferences"))
    for one in owners:
        if at(one).get("controller"):
            return as_text(at(one).get("kind"))
    return ""


def _opted_in(picture: Picture, gated: Mapping[str, bool]) -> Iterator[CheckResult]:
    there = {name_of(one): labels_of(one) for one in picture.of(NAMESPACES)}
    for name, moved in sorted(gated.items()):
        labels = there.get(name)
        wanted = {NAMESPACE_LABEL: "enabled", **({BESIDE_LABEL: "true"} if moved else {})}
        lacks = []
        for key, value in wanted.items():
            if labels is not None and labels.get(key) != value:
                lacks.append(f"{key}={value}")
        if lacks:
            words = (
                f"namespace {name} has services whose pods others make, and no label"
                f" {' and '.join(lacks)}"
            )
            advice = f"kubectl label --overwrite namespace {name} {' '.join(lacks)}"
            yield CheckResult(Level.WARNING, f"{words}: they get no gate", advice)


def _no_way(picture: Picture, gated: Mapping[str, bool]) -> CheckResult:
    policies = (picture.minor or 0) >= MUTATING_POLICIES_SINCE
    way = (
        "kubectl apply -k your folder, with manifests/admission-policy"
        if policies
        else f"the webhook: {_HOWTO}"
    )
    words = (
        f"nothing puts the gate onto pods that others make in {listed(sorted(gated))}, unless their"
        " templates do"
    )
    return CheckResult(Level.WARNING, words, way)


def _webhook(
    picture: Picture, install: Install | None, configuration: Object
) -> Iterator[CheckResult]:
    """Whether API servers trust and reach our webhook; each reason once, not for each of its
    entries."""
    where = f"{configuration.get('kind') or 'webhook configuration'} {name_of(configuration)}"
    home = install.namespace if install else "mind-cluster-scaler-system"
    log = f"kubectl -n {home} logs deployment/{install.name if install else USUAL}"
    hooks = [at(one) for one in as_list(configuration.get("webhooks"))]
    bundles = {as_text(at(one, "clientConfig").get("caBundle")) for one in hooks}
    fails = any(one.get("failurePolicy") != "Ignore" for one in hooks)
    if install is None:
        words = f"{where} is there, and no scaler that serves it"
        advice = f"kubectl delete {configuration_name(configuration)}, or install the scaler"
        yield CheckResult(Level.ERROR if fails else Level.WARNING, words, advice)
    elif install.settings is not None and not install.settings.webhook_port:
        words = (
            f"{where} is there, and {home}/{install.name} serves no webhook (SCALER_WEBHOOK_PORT)"
        )
        yield CheckResult(
            Level.ERROR if fails else Level.WARNING,
            words,
            f"add the component admission-webhook: {_HOWTO}",
        )
    elif not fails and not all(_is_served(picture, one) for one in hooks):
        yield CheckResult(
            Level.WARNING,
            f"the Service of {where} has no ready endpoint: pods are made without the gate",
            log,
        )
    for bundle in sorted(bundles):
        yield from _trusted(where, bundle, picture.now, log)


def configuration_name(configuration: Object) -> str:
    """The name in the form of kubectl."""
    return (
        f"{str(configuration.get('kind') or 'mutatingwebhookconfiguration').lower()}"
        f" {name_of(configuration)}"
    )


def _trusted(where: str, bundle: str, now: float, log: str) -> Iterator[CheckResult]:
    """Whether the caBundle of a webhook is valid now."""
    if not bundle:
        words = f"{where} has no caBundle: no API server trusts the webhook"
        yield CheckResult(Level.ERROR, words, f"the leader writes it within 10 s; if not: {log}")
        return
    times = valid(bundle)
    if not times:
        yield CheckResult(Level.ERROR, f"{where} has a caBundle that holds no certificate", log)
        return
    end = max(last for _, last in times)
    if end < now:
        words = (
            f"the certificate in {where} expired {age(now - end)} ago: no API server trusts the"
            " webhook"
        )
        yield CheckResult(
            Level.ERROR, words, f"the leader renews it 60 days before; see why it did not: {log}"
        )
    elif min(first for first, _ in times) > now:
        yield CheckResult(
            Level.ERROR, f"the certificate in {where} is not valid yet: clocks differ", log
        )
    elif end < now + SOON:
        words = f"the certificate in {where} ends in {age(end - now)}, and nobody has renewed it"
        yield CheckResult(Level.WARNING, words, log)


def valid(bundle: str) -> list[tuple[float, float]]:
    """Begin and end of each certificate of a caBundle, in seconds since the epoch; empty for an
    unreadable one."""
    try:
        found = x509.load_pem_x509_certificates(base64.b64decode(bundle, validate=True))
        result: list[tuple[float, float]] = []
        for one in found:
            result.append(
                (one.not_valid_before_utc.timestamp(), one.not_valid_after_utc.timestamp())
            )
        return result
    except (ValueError, TypeError, binascii.Error, UnsupportedAlgorithm):
        return []


def webhooks(picture: Picture) -> Check:
    """Webhooks about the creation of pods: while one that fails closed has no endpoint, no pod can
    be created."""
    closed = {}
    for name, hook in _about_pods(picture):
        if hook.get("failurePolicy") != "Ignore":
            closed[name] = hook
    unread = missing_right(picture, *_CONFIGURATIONS)
    if unread:
        return check("pod webhooks", unread)
    found = []
    for name, hook in closed.items():
        if not _is_served(picture, hook):
            found.append(_refuses(name, hook))
    words = f"{len(closed)} fail closed, and all are served" if closed else "none fails closed"
    return check("pod webhooks", found, ok(words, *sorted(closed)))


def served_by(picture: Picture) -> set[str]:
    """`namespace/name` of the Services behind webhooks about pods."""
    found: set[str] = set()
    for _, hook in _about_pods(picture):
        if place := _service(hook):
            found.add(place)
    return found


def _about_pods(picture: Picture) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for kind in _CONFIGURATIONS:
        for configuration in picture.of(kind):
            for hook in map(at, as_list(configuration.get("webhooks"))):
                if _is_about_pods(hook):
                    yield f"{name_of(configuration)}/{as_text(hook.get('name'))}", hook


def _is_about_pods(hook: Mapping[str, Any]) -> bool:
    """Whether one of its rules has the creation of pods in it."""
    for rule in as_list(hook.get("rules")):
        groups = _names_any(rule, "apiGroups", "", "*")
        resources = _names_any(rule, "resources", "pods", "*", "*/*")
        operations = _names_any(rule, "operations", "CREATE", "*")
        if groups and resources and operations:
            return True
    return False


def _names_any(rule: object, part: str, *wanted: str) -> bool:
    """Whether this part of the rule has one of these values."""
    written = as_list(at(rule).get(part))
    return any(one in written for one in wanted)


def _service(hook: Mapping[str, Any]) -> str:
    """`namespace/name`; "" for a webhook with a URL."""
    service = at(hook, "clientConfig", "service")
    namespace = as_text(service.get("namespace"))
    name = as_text(service.get("name"))
    return f"{namespace}/{name}" if namespace and name else ""


def _is_served(picture: Picture, hook: Mapping[str, Any]) -> bool:
    """Whether its Service has a ready endpoint, as far as that is readable."""
    place = _service(hook)
    if not place or place not in served_by(picture) or ENDPOINT_SLICES in picture.unread:
        return True
    slices = [one for one in picture.of(ENDPOINT_SLICES) if _serves(one) == place]
    endpoints = []
    for one in slices:
        for end in as_list(one.get("endpoints")):
            endpoints.append(at(end))
    return any(at(end, "conditions").get("ready") is not False for end in endpoints)


def _refuses(name: str, hook: Mapping[str, Any]) -> CheckResult:
    place = _service(hook)
    words = (
        f"webhook {name} fails closed and its Service {place} has no ready endpoint: its pods are"
        " refused"
    )
    return CheckResult(
        Level.ERROR, words, f"kubectl -n {place.partition('/')[0]} get pods,endpointslices"
    )


def _serves(endpoints: Object) -> str:
    return f"{namespace_of(endpoints)}/{labels_of(endpoints).get('kubernetes.io/service-name')}"
