"""Guesses what a text is that is neither a valid rule nor a valid manifest. Text in, findings
out."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from scaler.names import RULE_KEY
from scaler.rules.finding import Finding
from scaler.tools.common.manifest import Object, Value, objects
from scaler.tools.common.position import Lines
from scaler.tools.lint.document import read_document
from scaler.tools.lint.workloads import KINDS

_RULE_WORD = "elastic_scaling_list"
_LOOKS = (
    ({"server_list"}, "a rank table (hccl.json)"),
    ({"server_group_list"}, "a global rank table"),
    ({"replicaSpecs"}, "the spec of an AscendJob"),
    ({"jobID"}, "labels of a job"),
    ({"replicas", "template"}, "the spec of a workload"),
    ({"containers"}, "the spec of a pod"),
    ({"expect", "events", "until", "copies"}, "a scenario: scaler simulate plays it"),
    (
        {"deploy_config", "p_instances_num", "single_p_instance_pod_num"},
        "a configuration of MindIE's deployer",
    ),
    (
        {"SERVING_FRAMEWORK", "engine", "inference_service"},
        "a configuration of MindCluster's deployer",
    ),
)
"""Names at the top of a text, each of which shows what the text probably is."""
_EMPTY_HEAD = re.compile(
    r"^(metadata|data)[ \t]*:[ \t]*(?:#.*)?\r?\n(?:[ \t]*\r?\n)*"
    r"[\"']?(name|namespace|labels|annotations|creationTimestamp|uid|elastic_scaling\.json)[\"']?["
    r" \t]*:",
    re.MULTILINE,
)
_BLOCK = re.compile(
    rf"^[\"']?{re.escape(RULE_KEY)}[\"']?[ \t]*:[ \t]*[|>][-+0-9]*[ \t]*\r?\n(?=\s*[{{\[])",
    re.MULTILINE,
)
_LIKE_YAML = re.compile(r"[\w./-]+[ \t]*:")
_KIND = re.compile(r"^kind[ \t]*:[ \t]*[\"']?(\w+)", re.MULTILINE)
_NAME = re.compile(r"^name[ \t]*:[ \t]*[\"']?([\w.-]+)", re.MULTILINE)


def lost_indentation(text: str, file: str) -> list[Finding]:
    """Findings about manifests whose lines have lost their indentation; empty if there are none.
    Findings about a rule in such a manifest are included if possible."""
    starts = [0, *(found.end() for found in re.finditer(r"^---.*$", text, re.MULTILINE))]
    parts = []
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        parts.append((start, text[start:end]))
    lines = Lines(text)
    found: list[Finding] = []
    for start, part in parts:
        found.extend(_lost(part, start, lines, file))
    return found


def _lost(text: str, start: int, lines: Lines, file: str) -> Iterator[Finding]:
    head = _EMPTY_HEAD.search(text)
    if head is None:
        return
    kind = _KIND.search(text)
    name = _NAME.search(text)
    what = f"a {kind[1]}" if kind else "a manifest"
    line, column = lines.place(start + head.start(2))
    message = (
        f"this seems to be {what} that has lost its indentation: {head[1]} is empty, and {head[2]}"
        " is beside it"
    )
    source = (
        f"kubectl get {kind[1].lower()} {name[1]} -o yaml"
        if kind and name
        else "kubectl get ... -o yaml"
    )
    hint = (
        "copy it again with the blanks at the beginnings of the lines, or from the cluster:"
        f" {source}"
    )
    yield Finding("IndentationLost", (), message, hint, line=line, column=column, file=file)
    block = _BLOCK.search(text)
    if block is not None:
        document = re.split(r"^\w+[ \t]*:", text[block.end() :], maxsplit=1, flags=re.MULTILINE)[0]
        before = lines.place(start + block.end())[0] - 1
        said = read_document(document.rstrip())[1]
        for one in said:
            if one.line:
                yield msgspec.structs.replace(one, line=one.line + before, file=file)


def seems(value: Value) -> str:
    """What a YAML or JSON object without `kind` probably is, "" without a guess."""
    return _seems({key.text for key, _ in value.members})


def _seems(names: Collection[str]) -> str:
    for marks, what in _LOOKS:
        if marks & set(names):
            return what
    return ""


def foreign_json(text: str, file: str) -> Finding | None:
    """What a JSON text without parts of a rule probably is; None without a guess."""
    value: Any = None
    with suppress(ValueError, RecursionError):
        value = json.loads(text)
    what = _seems(value) if isinstance(value, dict) and _RULE_WORD not in value else ""
    return _not_a_rule(f"this seems to be {what}, not a rule", 1, 1, file) if what else None


def yaml_document(text: str, file: str) -> Object | Finding | None:
    """A YAML text without `kind`: the data of a ConfigMap as an object, or a finding about what the
    text probably is; None for a text that is no YAML mapping, or that may be meant as JSON."""
    bare = re.sub(r"^[ \t]*(?:#|//).*$", "", text, flags=re.MULTILINE).lstrip("\ufeff \t\r\n")
    if not bare or bare[0] in "{[｛［【\"'“”‘’" or not _LIKE_YAML.match(bare):
        return None
    found, broken = objects(text, file, alone=True)
    if broken and broken[0].hint and _RULE_WORD not in text:
        return broken[0]
    if broken or len(found) != 1:
        return None
    root = found[0].root
    names = {key.text for key, _ in root.members}
    if root.get("data", RULE_KEY) is not None:
        return found[0]
    if RULE_KEY in names:
        data = Value("scalar", "", root.start, root.start, "data")
        whole = Value("mapping", "", root.start, root.end, members=[(data, root)])
        return msgspec.structs.replace(found[0], root=whole)
    if _RULE_WORD in names:
        place = found[0].finding(
            (_RULE_WORD,), "RuleIsYaml", "this is a rule in YAML; all its readers take JSON only"
        )
        return msgspec.structs.replace(
            place, hint="write it in JSON; scaler schema rule prints what it has to look like"
        )
    what = seems(root) or f"a text with {', '.join(sorted(names)[:4])}"
    return _not_a_rule(
        f"this seems to be {what}, neither a rule nor a Kubernetes object", 1, 1, file
    )


def _not_a_rule(message: str, line: int, column: int, file: str) -> Finding:
    hint = (
        "a rule is a JSON document with elastic_scaling_list, or a ConfigMap that holds one; an"
        " object has a `kind`"
    )
    return Finding("NotARule", (), message, hint, line=line, column=column, file=file)


def object_in_document(text: str) -> str:
    """What the manifest under the rule's key is, if there is a manifest instead of a rule; else
    ""."""
    kind = _KIND.search(text)
    if kind is not None and re.search(r"^apiVersion[ \t]*:", text, re.MULTILINE):
        return f"a manifest of kind {kind[1]}"
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if isinstance(value, dict) and isinstance(value.get("kind"), str) and _RULE_WORD not in value:
        return f"a manifest of kind {value['kind']}"
    return _seems(value) if isinstance(value, dict) and _RULE_WORD not in value else ""


def odd_kinds(found: Object) -> Iterator[Finding]:
    """A kind that does not fit the content of the object."""
    if (
        found.kind not in ("", "ConfigMap", "Secret")
        and found.root.get("data", RULE_KEY) is not None
    ):
        message = (
            f"kind {found.kind}, and data.{RULE_KEY}: this seems to be a ConfigMap with a rule"
        )
        yield found.finding(
            ("kind",), "KindDoesNotFit", message, "write kind: ConfigMap and apiVersion: v1"
        )
    if found.kind == "ConfigMap" and found.root.get("spec", "replicaSpecs") is not None:
        message = "kind ConfigMap, and spec.replicaSpecs: this seems to be an AscendJob"
        yield found.finding(("kind",), "KindDoesNotFit", message, "write kind: AscendJob")
    spoken = found.alone or found.root.get("apiVersion") is not None
    if (
        not found.kind
        and spoken
        and (found.root.get("metadata") or found.root.get("spec")) is not None
    ):
        spec = found.root.get("spec")
        what = seems(spec) if spec is not None else ""
        message = f"an object without kind{f': its spec seems to be {what}' if what else ''}"
        yield found.finding(("kind",), "KindMissing", message, "write apiVersion and kind")


def likely_kind(kind: str) -> str:
    """The kind that an unknown kind was probably meant as; "" when none is near."""
    near = difflib.get_close_matches(kind, KINDS, n=1, cutoff=0.8)
    return near[0] if near and kind not in KINDS else ""
