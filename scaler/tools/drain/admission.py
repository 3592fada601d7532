"""Who is asked about an eviction beside PodDisruptionBudgets: webhooks and policies that are called
when somebody creates a `pods/eviction`. What they answer is not known before. Pure but for the
listing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scaler.kube.api import (
    MUTATING_WEBHOOKS,
    VALIDATING_POLICIES,
    VALIDATING_POLICY_BINDINGS,
    VALIDATING_WEBHOOKS,
    KubeApi,
    Object,
    Resource,
)
from scaler.kube.errors import ForbiddenError, NotFoundError
from scaler.rules.values import as_list, as_text, at

_RESOURCES = frozenset({"pods/eviction", "pods/*", "*/eviction", "*/*"})
_OPERATIONS = frozenset({"CREATE", "*"})
_ANY_GROUP = frozenset({"", "*"})
_MAY = "and may refuse it; what it answers is not known before"


async def asked_about_evictions(api: KubeApi) -> tuple[str, ...]:
    """In words, one line for each. Raises KubeError, but not for missing rights, which it says."""
    found: list[str] = []
    for resource in (VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS):
        configurations = await _all(api, resource)
        if configurations is None:
            found.append(_unread(resource))
        else:
            found += _webhooks(resource.kind, configurations)
    policies = await _all(api, VALIDATING_POLICIES)
    bindings = await _all(api, VALIDATING_POLICY_BINDINGS)
    if policies is None or bindings is None:
        found.append(_unread(VALIDATING_POLICIES))
    else:
        found += _policies(policies, bindings)
    return tuple(found)


async def _all(api: KubeApi, resource: Resource) -> Sequence[Object] | None:
    """None if they may not be read; none where the API server does not know the kind."""
    try:
        return (await api.list(resource)).items
    except ForbiddenError:
        return None
    except NotFoundError:
        return ()


def _unread(resource: Resource) -> str:
    name = resource.full_name
    return f"you may not read {name}: whether one of them refuses evictions is not known"


def _webhooks(kind: str, configurations: Sequence[Object]) -> Iterator[str]:
    for one in configurations:
        name = at(one, "metadata").get("name")
        for webhook in map(at, as_list(one.get("webhooks"))):
            if any(_is_about_evictions(rule) for rule in as_list(webhook.get("rules"))):
                ignored = webhook.get("failurePolicy") == "Ignore"
                down = "" if ignored else "; while it does not answer, every eviction is refused"
                yield (
                    f"webhook {as_text(webhook.get('name'))} of {kind} {name} is asked about each"
                    f" eviction {_MAY}{down}"
                )


def _policies(policies: Sequence[Object], bindings: Sequence[Object]) -> Iterator[str]:
    """Those that a binding puts in force so that they refuse."""
    denying = set()
    for binding in bindings:
        if "Deny" in as_list(at(binding, "spec").get("validationActions")):
            denying.add(at(binding, "spec").get("policyName"))
    for policy in policies:
        name = at(policy, "metadata").get("name")
        rules = as_list(at(policy, "spec", "matchConstraints").get("resourceRules"))
        if name in denying and any(map(_is_about_evictions, rules)):
            yield f"ValidatingAdmissionPolicy {name} is asked about each eviction {_MAY}"


def _is_about_evictions(rule: object) -> bool:
    found = at(rule)
    return (
        not _RESOURCES.isdisjoint(map(as_text, as_list(found.get("resources"))))
        and not _OPERATIONS.isdisjoint(map(as_text, as_list(found.get("operations"))))
        and not _ANY_GROUP.isdisjoint(map(as_text, as_list(found.get("apiGroups"))))
        and found.get("scope") != "Cluster"
    )
