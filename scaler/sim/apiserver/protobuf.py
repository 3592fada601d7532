"""The few protobuf bodies that kubectl sends instead of JSON: `kubectl create configmap`, `secret`,
`namespace`.

Knows the fields of these kinds and of ObjectMeta, nothing more; other kinds need JSON. Pure."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

from scaler.kube.api import Object

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"

_Field = tuple[str, str]
"""Name in JSON, and shape: text, bytes, texts, number, flag, map, bytes map, or the name of a
message."""

_MESSAGES: dict[str, dict[int, _Field]] = {
    "Unknown": {1: ("type", "TypeMeta"), 2: ("raw", "raw")},
    "TypeMeta": {1: ("apiVersion", "text"), 2: ("kind", "text")},
    "ObjectMeta": {
        1: ("name", "text"),
        2: ("generateName", "text"),
        3: ("namespace", "text"),
        5: ("uid", "text"),
        6: ("resourceVersion", "text"),
        11: ("labels", "map"),
        12: ("annotations", "map"),
        14: ("finalizers", "texts"),
    },
    "ConfigMap": {
        1: ("metadata", "ObjectMeta"),
        2: ("data", "map"),
        3: ("binaryData", "bytes map"),
        4: ("immutable", "flag"),
    },
    "Secret": {
        1: ("metadata", "ObjectMeta"),
        2: ("data", "bytes map"),
        3: ("type", "text"),
        5: ("immutable", "flag"),
    },
    "Namespace": {1: ("metadata", "ObjectMeta")},
    "DeleteOptions": {
        1: ("gracePeriodSeconds", "number"),
        2: ("preconditions", "Preconditions"),
        4: ("propagationPolicy", "text"),
    },
    "Preconditions": {1: ("uid", "text"), 2: ("resourceVersion", "text")},
}


_PLAIN: dict[str, Callable[[Any], Any]] = {
    "text": bytes.decode,
    "flag": bool,
    "number": int,
    "raw": bytes,
}


def decode(data: bytes) -> Object:
    """The object in a body of kubectl. ValueError when the body is no object, or of an unknown
    kind."""
    if not data.startswith(_MAGIC):
        raise ValueError("the body does not begin like a Kubernetes protobuf")
    envelope = _message(data[len(_MAGIC) :], _MESSAGES["Unknown"])
    kind = envelope.get("type", {}).get("kind", "")
    if kind not in _MESSAGES:
        raise ValueError(f"{kind or 'nothing'} can only be sent as JSON")
    return {**envelope["type"], **_message(envelope.get("raw", b""), _MESSAGES[kind])}


def _message(data: bytes, fields: dict[int, _Field]) -> Object:
    result: Object = {}
    for number, value in _pairs(data):
        if number not in fields:
            continue
        name, shape = fields[number]
        if isinstance(value, int) is not (shape in ("number", "flag")):
            raise ValueError(f"{name} comes in a wire type that is not its own")
        match shape:
            case "map" | "bytes map":
                entry = _message(value, {1: ("key", "text"), 2: ("value", "raw")})
                raw = entry.get("value", b"")
                text = base64.b64encode(raw).decode() if shape == "bytes map" else raw.decode()
                result.setdefault(name, {})[entry.get("key", "")] = text
            case "texts":
                result.setdefault(name, []).append(value.decode())
            case "text" | "flag" | "number" | "raw":
                result[name] = _PLAIN[shape](value)
            case _:
                result[name] = _message(value, _MESSAGES[shape])
    return result


def _pairs(data: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers with their values; ValueError if bytes are missing or the wire type is
    unknown."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        value, position = _varint(data, position)
        if tag & 7 == 2:  # so many bytes
            if position + value > len(data):
                raise ValueError("the body is cut short")
            yield tag >> 3, data[position : position + value]
            position += value
        elif tag & 7 == 0:  # the number itself
            yield tag >> 3, value
        else:
            raise ValueError(f"wire type {tag & 7} is not used")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    raise ValueError("the body is cut short")
