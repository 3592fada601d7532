"""Every error of the seam. KubeApi makes them; callers make one for what they find out, or refuse
to send."""

from __future__ import annotations

LONGEST_RETRY_AFTER = 300.0
"""Seconds. A longer one is cut: it may come from a proxy, an aggregated API or an admission webhook
(`details.retryAfterSeconds`), and the service of the request waits meanwhile."""


class KubeError(Exception):
    """Base of all errors of the seam. `str()` is one line for people."""

    retry_after: float | None = None
    """Seconds until a retry, as the server said, at most LONGEST_RETRY_AFTER; None when it did not
    say."""


class StatusError(KubeError):
    """The API server refused; nothing was changed. `status` is the HTTP code, `reason` and
    `message` are its words."""

    codes: tuple[int, ...] = ()

    def __init__(
        self, status: int, reason: str, message: str, *, retry_after: float | None = None
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


class BadRequestError(StatusError):
    codes = (400,)


class UnauthorizedError(StatusError):
    codes = (401,)


class ForbiddenError(StatusError):
    codes = (403,)  # RBAC, quota, admission


class NotFoundError(StatusError):
    codes = (404,)  # no such object, or its resource type is not installed


class ConflictError(StatusError):
    codes = (409,)  # a precondition does not hold


class AlreadyExistsError(ConflictError):
    """Create with a name that is taken."""


class ExpiredError(StatusError):
    codes = (410,)  # the resourceVersion or continue token is too old: list again


class InvalidError(StatusError):
    codes = (413, 415, 422)


class TooManyRequestsError(StatusError):
    codes = (429,)


class NotSentError(KubeError):
    """Nothing was sent, or certainly without effect: no connection, or the caller itself
    refused."""


class UnknownOutcomeError(KubeError):
    """Sent, but no trustworthy answer (timeout, reset, 5xx, HTML): read again before acting."""


_BY_CODE = {code: error for error in StatusError.__subclasses__() for code in error.codes}


def status_error(
    code: int, reason: str, message: str, *, retry_after: float | None = None
) -> KubeError:
    """The error for an HTTP code and Status reason; 5xx is an unknown outcome, because a part may
    have happened."""
    if code == 422 and "metadata.uid: Invalid value" in message and "field is immutable" in message:
        # An API server answers so when metadata.uid of a patch, a precondition at our seam, names
        # another object.
        return ConflictError(code, reason, message, retry_after=retry_after)
    if code >= 500:
        error: KubeError = UnknownOutcomeError(f"{code} {reason}: {message}")
        error.retry_after = retry_after
        return error
    cls = (
        AlreadyExistsError
        if code == 409 and reason == "AlreadyExists"
        else _BY_CODE.get(code, StatusError)
    )
    return cls(code, reason, message, retry_after=retry_after)
