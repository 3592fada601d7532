"""The only seam to the cluster: list, watch, get, create, replace, patch and delete on plain
objects.

One conformance suite (tests/conformance) tests both implementations: `kube.client.HttpKubeApi`,
against a real API server, and `sim.cluster.SimCluster`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from enum import StrEnum
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NamedTuple,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
)

import msgspec

Object = dict[str, Any]
"""A Kubernetes object as decoded JSON."""

T = TypeVar("T")
if TYPE_CHECKING:  # a default is new in Python 3.13
    import typing_extensions

    D = typing_extensions.TypeVar("D", default=Object)


class Resource(msgspec.Struct, frozen=True):
    """One resource type, named as in API paths: `/apis/{group}/{version}/.../{plural}`."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """The name with its group, as in the names of CustomResourceDefinitions: pods,
        ascendjobs.mindxdl.gitee.com."""
        return f"{self.plural}.{self.group}".rstrip(".")

    def object(self, metadata: Object, **fields: Any) -> Object:
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, **fields}


PODS = Resource("", "v1", "pods", "Pod")
SERVICES = Resource("", "v1", "services", "Service")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
EVENTS = Resource("", "v1", "events", "Event")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
POD_TEMPLATES = Resource("", "v1", "podtemplates", "PodTemplate")
PROVISIONING_REQUESTS = Resource(
    "autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest"
)
DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
AUTOSCALERS = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False
)
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
_RBAC = "rbac.authorization.k8s.io", "v1"
ROLES = Resource(*_RBAC, "roles", "Role")
ROLE_BINDINGS = Resource(*_RBAC, "rolebindings", "RoleBinding")
CLUSTER_ROLES = Resource(*_RBAC, "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(
    *_RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
TOKEN_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False
)
_AUTHORIZATION = "authorization.k8s.io", "v1"
OWN_ACCESS_REVIEWS = Resource(
    *_AUTHORIZATION, "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
ACCESS_REVIEWS = Resource(
    *_AUTHORIZATION, "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
_ADMISSION = "admissionregistration.k8s.io", "v1"
MUTATING_POLICIES = Resource(
    *_ADMISSION, "mutatingadmissionpolicies", "MutatingAdmissionPolicy", namespaced=False
)
VALIDATING_POLICIES = Resource(
    *_ADMISSION, "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False
)
VALIDATING_POLICY_BINDINGS = Resource(
    *_ADMISSION,
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
MUTATING_POLICY_BINDINGS = Resource(
    *_ADMISSION,
    "mutatingadmissionpolicybindings",
    "MutatingAdmissionPolicyBinding",
    namespaced=False,
)
MUTATING_WEBHOOKS = Resource(
    *_ADMISSION, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False
)
VALIDATING_WEBHOOKS = Resource(
    *_ADMISSION, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False
)
ASCEND_JOBS = Resource("mindxdl.gitee.com", "v1", "ascendjobs", "AscendJob")
POD_GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
ELASTIC_SERVICES = Resource(
    "scaler.mind-cluster.io", "v1alpha1", "elasticservices", "ElasticService"
)
HYPER_NODES = Resource(
    "topology.volcano.sh", "v1alpha1", "hypernodes", "HyperNode", namespaced=False
)
QUEUES = Resource("scheduling.volcano.sh", "v1beta1", "queues", "Queue", namespaced=False)


class PatchType(StrEnum):
    """The patch encodings that the scaler uses; the value is the HTTP content type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Apply(NamedTuple):
    """Of APPLY: the owner of the fields; whether it takes those of others (else ConflictError);
    whether a dry run."""

    manager: str = "mind-cluster-scaler"
    force: bool = True
    dry_run: bool = False


OWN = Apply()
CLIENT = "scaler"
"""The product in the User-Agent of every request: the API server notes it as the manager of the
fields that an update changes."""
OUR_MANAGERS = frozenset({CLIENT, OWN.manager})


class EventType(StrEnum):
    """The type of a watch event. ERROR never reaches the caller: it is raised as an error of
    kube.errors."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class Refused(msgspec.Struct, frozen=True):
    """An object that could not be decoded, with as much of its identity as is readable."""

    why: str
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One event of a watch. A BOOKMARK has only a `resource_version`. `refused` is set instead of
    `object` when that could not be decoded; `object` is None in both cases."""

    type: EventType
    object: T | None
    resource_version: str
    refused: Refused | None = None


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list. `continue_token` is empty on the last page; `refused` are the objects
    that could not be decoded."""

    items: list[T]
    resource_version: str
    continue_token: str = ""
    refused: list[Refused] = []


class ListOptions(TypedDict, total=False):
    """What a list may ask for. Selectors are written as in kubectl."""

    label_selector: str
    field_selector: str
    limit: int
    continue_token: str
    resource_version: str


class WatchOptions(TypedDict, total=False):
    """What a watch may ask for. `timeout_seconds`: after that the server ends it; 300 by
    default."""

    label_selector: str
    field_selector: str
    timeout_seconds: int


class PatchOptions(TypedDict, total=False):
    """`apply` is for patches of type APPLY."""

    subresource: str
    apply: Apply


class DeleteOptions(TypedDict, total=False):
    """Preconditions (`uid`, `resource_version`), and how to delete."""

    uid: str
    resource_version: str
    grace_period_seconds: int | None
    propagation_policy: str


class KubeApi(Protocol):
    """The cluster. Every method raises `kube.errors.KubeError` and nothing else (CancelledError
    aside), also when no answer comes within the deadline of its client. Whoever cannot wait for so
    long calls `deadline.within`.

    `namespace=None` on list and watch means all namespaces; cluster-scoped resources take None
    everywhere. `decode` names a msgspec Struct (or any type that msgspec knows) with just the
    fields that are decoded; by default objects are plain dicts."""

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        decode: type[D] = ...,
        **options: Unpack[ListOptions],
    ) -> Page[D]: ...

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        decode: type[D] = ...,
        **options: Unpack[WatchOptions],
    ) -> AsyncGenerator[WatchEvent[D], None]: ...

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object: ...

    async def create(self, resource: Resource, namespace: str | None, body: Object) -> Object: ...

    async def replace(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Object,
        *,
        subresource: str = "",
    ) -> Object:
        """PUT. A `metadata.resourceVersion` (and `uid`) in the body is a precondition:
        ConflictError if it differs."""

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        patch: Any,
        *,
        patch_type: PatchType,
        **options: Unpack[PatchOptions],
    ) -> Object:
        """PATCH. A `metadata.uid` or `metadata.resourceVersion` in a merge or strategic patch, or a
        JSON patch `test`, is a precondition. APPLY creates a missing object, and removes fields
        that an earlier apply set and this one does not; on a subresource it creates nothing."""

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        **options: Unpack[DeleteOptions],
    ) -> None:
        """DELETE with preconditions: ConflictError when `uid` or `resource_version` differ,
        NotFoundError when gone."""
