"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386) on plain values, with an API server's answers to bad ones.

Pure in effect: inputs may be reused, the result may share parts with them.
"""

from __future__ import annotations

import copy
from typing import Any

from scaler.sim.apiserver.refusals import bad_request, unprocessable


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: null deletes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def json_patch(document: Any, operations: Any) -> Any:
    """RFC 6902. BadRequestError for what is no patch; InvalidError (422) when an operation cannot be carried out."""
    if not isinstance(operations, list):
        raise bad_request("json: cannot unmarshal the JSON patch: an array of operations is wanted")
    result = copy.deepcopy(document)
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise bad_request("json: a JSON patch operation is an object with op and path")
        result = _apply(result, operation)
    return result


def _apply(document: Any, operation: dict[str, Any]) -> Any:
    """The document, whose inner parts may be changed in place, after one operation."""
    op, path = operation.get("op"), _pointer(operation["path"])
    value = copy.deepcopy(operation.get("value"))
    if op in ("move", "copy"):
        source = _pointer(str(operation.get("from", "")))
        value = copy.deepcopy(_locate(document, source))
        if op == "move":
            if path[: len(source)] == source and path != source:
                raise unprocessable("move operation does not apply: a value cannot move into itself")
            document = _remove(document, source)
        return _add(document, path, value)
    if op in ("add", "replace"):
        return _add(document, path, value, replace=op == "replace")
    if op == "remove":
        return _remove(document, path)
    if op != "test":
        raise unprocessable(f"unexpected kind of JSON patch operation: {op!r}")
    found = _locate(document, path)
    if found != value or isinstance(found, bool) != isinstance(value, bool):
        raise unprocessable(f"testing value {operation['path']} failed: test failed")
    return document


def _pointer(text: str) -> list[str]:
    if text and not text.startswith("/"):
        raise unprocessable(f"the path {text!r} does not start with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _locate(document: Any, path: list[str]) -> Any:
    for part in path:
        if isinstance(document, dict) and part in document:
            document = document[part]
        elif isinstance(document, list):
            document = document[_index(part, len(document) - 1)]
        else:
            raise _missing(path)
    return document


def _index(part: str, last: int) -> int:
    if not (part.isascii() and part.isdigit()) or int(part) > last:
        raise unprocessable(f"invalid index referenced: {part!r}")
    return int(part)


def _missing(path: list[str]) -> Exception:
    return unprocessable(f"operation does not apply: doc is missing path: /{'/'.join(path)}: missing value")


def _add(document: Any, path: list[str], value: Any, *, replace: bool = False) -> Any:
    """Unlike the RFC, an API server replaces a key that is not there by adding it."""
    if not path:
        return value
    parent = _locate(document, path[:-1])
    if isinstance(parent, list) and replace:
        parent[_index(path[-1], len(parent) - 1)] = value
    elif isinstance(parent, list):
        parent.insert(len(parent) if path[-1] == "-" else _index(path[-1], len(parent)), value)
    elif isinstance(parent, dict):
        parent[path[-1]] = value
    else:
        raise _missing(path)
    return document


def _remove(document: Any, path: list[str]) -> Any:
    _locate(document, path)
    if not path:
        return None
    parent = _locate(document, path[:-1])
    del parent[int(path[-1]) if isinstance(parent, list) else path[-1]]
    return document
