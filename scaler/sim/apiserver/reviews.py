"""What the simulated API server says about tokens and rights. It lets everybody do everything; this
is for those who ask it about somebody else: nothing is stored, and only paths that are no resources
are known."""

from __future__ import annotations

from typing import Any

from scaler.kube.api import ACCESS_REVIEWS, TOKEN_REVIEWS, Object, Resource
from scaler.sim.apiserver import refusals

REVIEWS = (TOKEN_REVIEWS, ACCESS_REVIEWS)
MASTERS = "system:masters"


class Reviews:
    """The tokens that were issued, and who may get which path."""

    def __init__(self) -> None:
        self.users: dict[str, Object] = {}
        """Token -> its user: `username`, `groups`."""
        self.may_get: dict[str, set[str]] = {}
        """Path -> users and groups that may get it; those of `MASTERS` may get every path."""

    def answer(self, resource: Resource, body: Any) -> Object:
        """The review with its status. Raises BadRequestError, InvalidError, NotFoundError."""
        spec = body.get("spec") if isinstance(body, dict) else None
        if not isinstance(spec, dict):
            raise refusals.bad_request("the body is no review")
        status = self._whose(spec) if resource == TOKEN_REVIEWS else self._may(spec)
        return {**body, "metadata": {}, "status": status}

    def _whose(self, spec: Object) -> Object:
        token = spec.get("token")
        if not token:
            raise refusals.bad_request("token is required for TokenReview in authentication")
        user = self.users.get(token)
        if user is None:
            return {"user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": user}

    def _may(self, spec: Object) -> Object:
        attributes = spec.get("nonResourceAttributes")
        if not attributes:
            raise refusals.unknown_resource()
        somebody = {spec.get("user"), *(spec.get("groups") or ())} - {None, ""}
        if not somebody:
            words = "spec.user: Invalid value: at least one of user or group must be specified"
            raise refusals.invalid(ACCESS_REVIEWS, "", [words])
        may = self.may_get.get(attributes.get("path", ""), set())
        return {"allowed": attributes.get("verb") == "get" and bool(somebody & {MASTERS, *may})}
