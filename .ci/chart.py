"""`make chart`: the Helm chart manifests/helm, written out of the files that the kustomizations are
made of.

Those files stay the only source: each becomes a template with a condition and a few places that
values fill. By hand are written: templates/_helpers.tpl, templates/checks.yaml,
templates/NOTES.txt, values.yaml, and all of values.schema.json but the settings. An edit that no
longer finds its text ends in an error that names it."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import yaml  # noqa: E402
from chart_parts import (  # noqa: E402
    DASHBOARD,
    MAKES,
    MONITORING,
    NAMESPACE,
    PARTS,
    SUFFIX,
    Part,
    wrapped,
)

import scaler  # noqa: E402
from scaler.settings import Settings, default_text  # noqa: E402

CHART = "manifests/helm"
PAGE = "docs/reference/chart.md"
OF_THE_CHART = {
    "namespaces",
    "mode",
    "kubeconfig",
    "context",
    "leader_election",
    "lease_namespace",
    "install",
    "lease_name",
    "identity",
    "http_host",
    "http_port",
    "metrics_port",
    "metrics_cert_file",
    "metrics_key_file",
    "webhook_port",
    "webhook_service",
    "webhook_cert_file",
    "webhook_key_file",
}
"""Settings that follow from other values of the chart."""
_NAMES = re.compile(
    r"(?<![\w./-])((?:name|policyName|serviceAccountName):"
    r" mind-cluster-scaler(?:-[a-z-]+)?)(?=[\s,}]|$)",
    re.MULTILINE,
)


_ACCOUNT = re.compile(
    r"(kind: ServiceAccount\n(?:metadata:\n)? +name:|serviceAccountName:) mind-cluster-scaler"
    rf"(?:{re.escape(SUFFIX)})?$",
    re.MULTILINE,
)
"""The name of the account, where it is made and wherever it is bound."""


RUNBOOK = (
    "runbook{{ if $.Values.monitoring.repository }}_url{{ end }}:"
    " {{ $.Values.monitoring.repository }}"
)
"""A link where the repository is known; else the place of the page, and no link that leads
nowhere."""


class ChartError(Exception):
    """A source no longer has what is to be replaced; `str()` says which."""


def template(part: Part, text: str) -> str:
    """The template that a file of the kustomizations becomes."""
    text = text.replace("{{", '{{ "{{" }}')
    if part.source.startswith("monitoring/"):
        text = text.replace("runbook_url: https://REPOSITORY", RUNBOOK)
    for old, new in part.edits:
        if text.count(old) != 1:
            raise ChartError(
                f"manifests/{part.source} has {text.count(old)} times what stands there once:"
                f" {old!r}"
            )
        text = text.replace(old, new)
    for old, new in part.every:
        if old not in text:
            raise ChartError(f"manifests/{part.source} has nowhere what stands there: {old!r}")
        text = text.replace(old, new)
    text = text.replace(NAMESPACE, "{{ $.Values.namespace }}")
    if part.names is not None:
        text = _NAMES.sub(rf"\1{SUFFIX}", text, count=part.names)
    text = _ACCOUNT.sub(r'\1 {{ include "scaler.account" $ }}', text)
    texts = [labelled(document, part) for document in re.split(r"^---\n", text, flags=re.MULTILINE)]
    if part.source.endswith("bindings.yaml"):
        texts = [
            wrapped(MAKES, one.rstrip("\n")) + "\n" if "-create" in one else one for one in texts
        ]
    body = "---\n".join(texts)
    if part.per_namespace:
        body = "---\n" + body.replace("namespace: mindie\n", "namespace: {{ . | quote }}\n")
        body = f"{{{{- range $.Values.namespaces }}}}\n{body}{{{{- end }}}}\n"
    elif part.when:
        body = wrapped(part.when, body.rstrip("\n")) + "\n"
    return f"{{{{- /* Written by make chart out of manifests/{part.source}. */ -}}}}\n{body}"


def labelled(document: str, part: Part) -> str:
    """With the labels of the chart; a document is one object."""
    head, metadata, rest = re.split(
        r"(^metadata:\n(?: .*\n|\{\{-.*\n)+)", document, maxsplit=1, flags=re.MULTILINE
    )
    lines = '    {{- include "scaler.labels" $ | nindent 4 }}\n'
    if part.source in ("monitoring/service-monitor.yaml", "monitoring/alerts.yaml"):
        lines += (
            "    {{- with $.Values.monitoring.labels }}\n    {{- toYaml . | nindent 4 }}\n    {{-"
            " end }}\n"
        )
    if "\n  labels:\n" in metadata:
        metadata = metadata.replace("\n  labels:\n", f"\n  labels:\n{lines}", 1)
    else:
        metadata = metadata.rstrip("\n") + f"\n  labels:\n{lines}"
    return head + metadata + rest


def schema(text: str) -> str:
    """values.schema.json, with the settings as the code has them."""
    document = json.loads(text)
    document["properties"]["settings"]["properties"] = {
        name: setting(name) for name in Settings.model_fields if name not in OF_THE_CHART
    }
    return json.dumps(document, indent=2) + "\n"


def setting(name: str) -> dict[str, Any]:
    whole = Settings.model_json_schema()
    found: dict[str, Any] = dict(whole["properties"][name])
    if "$ref" in found:
        found |= whole["$defs"][found["$ref"].rpartition("/")[2]] | {
            "description": found["description"]
        }
    if "anyOf" in found:
        found |= found["anyOf"][0]
    kept = ("type", "enum", "minimum", "maximum", "maxLength", "pattern", "description")
    return {key: found[key] for key in kept if key in found}


def settings_table() -> str:
    return "".join(
        f"| `settings.{name}` | {default_text(field)} | {field.description} |\n"
        for name, field in Settings.model_fields.items()
        if name not in OF_THE_CHART
    )


def values_table(text: str) -> str:
    """Each value that has a comment above itself, with its default, in the order of values.yaml."""
    rows: list[str] = []
    path: list[str] = []
    said: list[str] = []
    for line in text.splitlines():
        found = re.match(r"^( *)(?:# (.*)|([A-Za-z]+):.*)$", line)
        indent, words, key = found.groups() if found else ("", None, None)
        if words:
            said.append(words)
            continue
        if key:
            path[len(indent) // 2 :] = [key]
            if said:
                rows.append(_row(path, yaml.safe_load(text), " ".join(said)))
        said = []
    return "".join(rows)


def _row(path: list[str], values: Any, said: str) -> str:
    for key in path:
        values = values[key]
    shown = (values or "empty") if isinstance(values, str) else f"`{json.dumps(values)}`"
    return f"| `{'.'.join(path)}` | {shown} | {said} |\n"


PAGE_TEXT = """\
# Values of the Helm chart

Written by `make chart` out of `manifests/helm/values.yaml`; a test keeps it in step.
How to install: [deploy](../howto/deploy.md).
A value that does not exist, or is of the wrong kind, is an error that names it.

| value | default | meaning |
|---|---|---|
{values}
## Settings

The [settings of `scaler run`](settings.md) that do not follow from other values.
What is left out keeps its default.

| value | default | meaning |
|---|---|---|
{settings}"""


def chart_yaml() -> str:
    return (
        "# Written by make chart: chart, image and program have one version.\n"
        "apiVersion: v2\n"
        "name: mind-cluster-scaler\n"
        f"description: {scaler.__doc__}\n"
        "type: application\n"
        f"version: {scaler.__version__}\n"
        f'appVersion: "{scaler.__version__}"\n'
        'kubeVersion: ">=1.27.0-0"\n'
    )


def written(root: Path) -> dict[str, str]:
    """Path below the root -> text, of every file that is generated."""
    manifests = root / "manifests"
    chart = root / CHART
    files = {}
    for part in PARTS:
        files[f"{CHART}/templates/{part.source}"] = template(
            part, (manifests / part.source).read_text("utf-8")
        )
    dashboard = Part(
        "monitoring/kustomization.yaml",
        MONITORING,
        ((": DASHBOARD\n", ': {{ $.Files.Get "files/dashboard.json" | toJson }}\n'),),
    )
    files[f"{CHART}/templates/monitoring/dashboard.yaml"] = template(dashboard, DASHBOARD)
    files[f"{CHART}/files/dashboard.json"] = (manifests / "monitoring/dashboard.json").read_text(
        "utf-8"
    )
    files[f"{CHART}/Chart.yaml"] = chart_yaml()
    files[f"{CHART}/values.schema.json"] = schema((chart / "values.schema.json").read_text("utf-8"))
    files[PAGE] = PAGE_TEXT.format(
        values=values_table((chart / "values.yaml").read_text("utf-8")), settings=settings_table()
    )
    return files


def main() -> int:
    templates = ROOT / CHART / "templates"
    try:
        files = written(ROOT)
    except ChartError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for folder in templates.iterdir():
        if folder.is_dir():
            shutil.rmtree(folder)
    for name, text in files.items():
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_text(text, "utf-8")
    print(f"{CHART}: {len(files)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
