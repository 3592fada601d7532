"""The refusals of an API server in its own words, as errors of kube.errors. Nothing here decides
anything."""

from __future__ import annotations

from collections.abc import Sequence

from scaler.kube.api import Resource
from scaler.kube.errors import KubeError, status_error


def unknown_resource() -> KubeError:
    return status_error(404, "NotFound", "the server could not find the requested resource")


def not_found(resource: Resource, name: str) -> KubeError:
    return status_error(404, "NotFound", f'{resource.full_name} "{name}" not found')


def already_exists(resource: Resource, name: str) -> KubeError:
    return status_error(409, "AlreadyExists", f'{resource.full_name} "{name}" already exists')


def forbidden(resource: Resource, name: str, why: str) -> KubeError:
    return status_error(403, "Forbidden", f'{resource.full_name} "{name}" is forbidden: {why}')


def conflict(resource: Resource, name: str, why: str) -> KubeError:
    return status_error(
        409, "Conflict", f'Operation cannot be fulfilled on {resource.full_name} "{name}": {why}'
    )


def stale(resource: Resource, name: str) -> KubeError:
    why = (
        "the object has been modified; please apply your changes to the latest version and try"
        " again"
    )
    return conflict(resource, name, why)


def invalid(resource: Resource, name: str, problems: Sequence[str]) -> KubeError:
    """422 with one problem as `path: what`, several as a bracketed list."""
    text = problems[0] if len(problems) == 1 else "[" + ", ".join(problems) + "]"
    kind = f"{resource.kind}.{resource.group}".rstrip(".")
    return status_error(422, "Invalid", f'{kind} "{name}" is invalid: {text}')


def unprocessable(why: str) -> KubeError:
    return status_error(422, "Invalid", why)


def bad_request(why: str) -> KubeError:
    return status_error(400, "BadRequest", why)


def method_not_allowed() -> KubeError:
    return status_error(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
    )


def unsupported_media_type(accepted: Sequence[str]) -> KubeError:
    why = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )
    return status_error(415, "UnsupportedMediaType", why)


def expired(wanted: int, oldest: int) -> KubeError:
    return status_error(410, "Expired", f"too old resource version: {wanted} ({oldest})")


def expired_continue() -> KubeError:
    why = (
        "The provided continue parameter is too old to display a consistent list result. Start a"
        " new list without it."
    )
    return status_error(410, "Expired", why)


def too_new(wanted: int, current: int) -> KubeError:
    return status_error(504, "Timeout", f"Too large resource version: {wanted}, current: {current}")


def internal(why: str) -> KubeError:
    return status_error(500, "InternalError", why)


def apply_conflict(found: Sequence[tuple[str, tuple[str, ...]]], resource: Resource) -> KubeError:
    """`found`: manager and path of each field that another manager owns."""
    one = [f'"{who}" using {resource.api_version}: .{".".join(path)}' for who, path in found]
    why = f"conflict with {one[0]}" if len(one) == 1 else "conflicts: " + ", ".join(one)
    return status_error(
        409, "Conflict", f"Apply failed with {len(one)} conflict{'s' * (len(one) > 1)}: {why}"
    )
