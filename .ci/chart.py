"""`make chart`: the Helm chart manifests/helm, written out of the files that the kustomizations are made of.

Those files stay the only source: each becomes a template with a condition and a few places that the values fill. By hand
are written: templates/_helpers.tpl, templates/checks.yaml, templates/NOTES.txt, values.yaml, and all of
values.schema.json but the settings. An edit that no longer finds its text ends in an error that names it.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import yaml  # noqa: E402

import scaler  # noqa: E402
from scaler.settings import Settings, default_text, unit  # noqa: E402

CHART = "manifests/helm"
PAGE = "docs/reference/chart.md"
NAMESPACE = "mind-cluster-scaler-system"
SUFFIX = "{{ $.Values.nameSuffix }}"
OF_THE_CHART = {
    "namespaces", "mode", "kubeconfig", "context", "leader_election", "lease_namespace", "install", "lease_name",
    "identity", "http_host", "http_port", "webhook_port", "webhook_service", "webhook_cert_file", "webhook_key_file",
}  # fmt: skip
"""Settings that follow from other values of the chart."""
_NAMES = re.compile(
    r"(?<![\w./-])((?:name|policyName|serviceAccountName): mind-cluster-scaler(?:-[a-z-]+)?)(?=[\s,}]|$)", re.MULTILINE
)
Edit = tuple[str, str]


@dataclass(frozen=True)
class Part:
    """One file below manifests/, and what becomes of it."""

    source: str
    when: str = ""
    """Condition of the whole file, as a template says it; empty: always."""
    edits: tuple[Edit, ...] = ()
    """Text of the source, which stands there once, and what takes its place."""
    per_namespace: bool = False
    """Once for each namespace that is governed."""
    names: int = 0
    """How many names get the suffix of the install, from the first on; 0: all."""


def wrapped(condition: str, text: str) -> str:
    return f"{{{{- if {condition} }}}}\n{text}\n{{{{- end }}}}"


OLD_KUBERNETES = 'semverCompare ">=1.28.0-0" $.Capabilities.KubeVersion.Version'
WEBHOOK, OWN = 'include "scaler.webhook" $', 'include "scaler.ownCertificates" $'
CERT_MANAGER = 'include "scaler.certManager" $'
POLICIES = 'include "scaler.policies" $'
MAKES = 'ne $.Values.mode "gates"'
ENVIRONMENT = """\
              value: "8080"
            {{- with $.Values.namespaces }}
            - name: SCALER_NAMESPACES
              value: {{ join "," . | quote }}
            {{- end }}
            {{- if include "scaler.webhook" $ }}
            - name: SCALER_WEBHOOK_PORT
              value: "9443"
            {{- end }}
            {{- if include "scaler.certManager" $ }}
            - name: SCALER_WEBHOOK_CERT_FILE
              value: /webhook/tls.crt
            - name: SCALER_WEBHOOK_KEY_FILE
              value: /webhook/tls.key
            {{- end }}
            {{- range $name, $value := $.Values.settings }}
            - name: SCALER_{{ upper $name }}
              value: {{ ternary $value (toJson $value) (kindIs "string" $value) | quote }}
            {{- end }}
"""
PLACEMENT = """\
      {{- with $.Values.image.pullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ . | quote }}
        {{- end }}
      {{- end }}
      {{- with $.Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $.Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $.Values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
"""
RESOURCES = """\
            requests:
              cpu: 100m
              memory: 256Mi
            limits:
              memory: 1Gi  # no CPU limit: a throttled leader loses its Lease
"""
DEPLOYMENT: tuple[Edit, ...] = (
    ("  replicas: 2 ", "  replicas: {{ $.Values.replicas }} "),
    (
        "      priorityClassName: system-cluster-critical  #",
        "      {{- with $.Values.priorityClassName }}\n      priorityClassName: {{ . | quote }}  #",
    ),
    ("preempted by one of them\n", "preempted by one of them\n      {{- end }}\n"),
    (
        "        runAsGroup: 65532\n",
        "        runAsGroup: 65532\n"
        + wrapped(CERT_MANAGER, "        fsGroup: 65532  # the key is for the scaler's own group to read")
        + "\n",
    ),
    ("      containers:\n", PLACEMENT),
    (
        "image: mind-cluster-scaler:0.1.0  # by digest: `images` of your kustomization, docs/howto/deploy.md",
        'image: {{ include "scaler.image" $ }}',
    ),
    ("imagePullPolicy: IfNotPresent", "imagePullPolicy: {{ $.Values.image.pullPolicy }}"),
    ("value: gates  # release what others make; ../create makes it auto", "value: {{ $.Values.mode }}"),
    ('              value: "8080"\n', ENVIRONMENT),
    (
        "              containerPort: 8080\n",
        "              containerPort: 8080\n"
        + wrapped(WEBHOOK, "            - name: webhook\n              containerPort: 9443")
        + "\n",
    ),
    (RESOURCES, "            {{- toYaml $.Values.resources | nindent 12 }}\n"),
    (
        "              readOnly: true\n",
        "              readOnly: true\n"
        + wrapped(
            CERT_MANAGER, "            - name: webhook\n              mountPath: /webhook\n              readOnly: true"
        )
        + "\n",
    ),
    (
        "      volumes:\n",
        "      volumes:\n"
        + wrapped(
            CERT_MANAGER,
            "        - name: webhook\n          secret:\n"
            "            secretName: mind-cluster-scaler-webhook-cert-manager\n            defaultMode: 0440",
        )
        + "\n",
    ),
)
FROM_CERT_MANAGER = (
    "metadata:\n  name: mind-cluster-scaler\n",
    "metadata:\n  name: mind-cluster-scaler\n"
    + wrapped(
        CERT_MANAGER,
        "  annotations:\n    cert-manager.io/inject-ca-from: " + NAMESPACE + "/mind-cluster-scaler-webhook",
    )
    + "\n",
)
CONDITIONS = """\
    matchConditions:  # Kubernetes >= 1.28; ../admission-webhook-1.27 takes them out
      - name: holds-a-rule
        expression: >-
          (has(object.data) && "elastic_scaling.json" in object.data) ||
          (has(object.binaryData) && "elastic_scaling.json" in object.binaryData)"""
API_SERVERS = """\
        - port: 9443
      {{- with $.Values.networkPolicy.apiServers }}
      from:
        {{- range . }}
        - ipBlock: {cidr: {{ . | quote }}}
        {{- end }}
      {{- end }}
"""
ITS_NAME = ("resourceNames: [mind-cluster-scaler]", f"resourceNames: [mind-cluster-scaler{SUFFIX}]")
PARTS = (
    Part("base/namespace.yaml", "ne $.Values.namespace $.Release.Namespace"),
    Part(
        "base/elasticservices.yaml",
        "$.Values.crd",
        (
            (
                "metadata:\n",
                "metadata:\n  annotations:\n"
                "    helm.sh/resource-policy: keep  # with it would go every ElasticService, of other installs too\n",
            ),
        ),
    ),
    Part("base/service-account.yaml"),
    Part("base/election-role.yaml"),
    Part("base/records-role.yaml"),
    Part("base/cluster-role.yaml"),
    Part("base/watch-role.yaml"),
    Part("base/release-role.yaml"),
    Part("base/view-role.yaml"),
    Part("base/edit-role.yaml"),
    Part("base/deployment.yaml", edits=DEPLOYMENT),
    Part("base/disruption-budget.yaml"),
    Part("base/service.yaml"),
    Part("create/create-role.yaml", MAKES),
    Part("cluster-wide/bindings.yaml", "not $.Values.namespaces"),
    Part("single-namespace/governed/bindings.yaml", per_namespace=True),
    Part("fault-data/fault-data-role.yaml", "and $.Values.namespaces $.Values.faultData"),
    Part(
        "admission-webhook/mutating.yaml",
        WEBHOOK,
        (
            FROM_CERT_MANAGER,
            ("failurePolicy: Ignore  # Fail: ", "failurePolicy: {{ $.Values.admission.failurePolicy }}  # Fail: "),
        ),
    ),
    Part(
        "admission-webhook/validating.yaml",
        WEBHOOK,
        (FROM_CERT_MANAGER, (CONDITIONS, wrapped(OLD_KUBERNETES, CONDITIONS.partition("; ../")[0] + CONDITIONS[80:]))),
    ),
    Part("admission-webhook/service.yaml", WEBHOOK),
    Part("admission-webhook/webhook-role.yaml", OWN, (ITS_NAME,)),
    Part(
        "admission-webhook-cert-manager/certificate.yaml",
        CERT_MANAGER,
        (
            (
                f"dnsNames: [mind-cluster-scaler.{NAMESPACE}.svc]",
                f"dnsNames: [mind-cluster-scaler{SUFFIX}.{NAMESPACE}.svc]",
            ),
        ),
        names=-1,
    ),
    Part("admission-policy/pods.yaml", POLICIES),
    Part("admission-policy/ascendjobs.yaml", POLICIES),
    Part("admission-policy/policy-role.yaml", POLICIES, (ITS_NAME,)),
    Part(
        "account-guard/account-guard.yaml",
        "$.Values.accountGuard",
        ((f":{NAMESPACE}:mind-cluster-scaler'", f":{NAMESPACE}:mind-cluster-scaler{SUFFIX}'"),),
    ),
    Part("gate-guard/gate-guard.yaml", "$.Values.gateGuard"),
    Part(
        "network-policy/network-policy.yaml",
        "$.Values.networkPolicy.enabled",
        (
            ("values: [monitoring, prometheus]", "values: {{ toJson $.Values.networkPolicy.monitoring }}"),
            ("        - port: 9443\n", API_SERVERS),
            (
                "        - port: 443\n        - port: 6443\n",
                "        {{- range $.Values.networkPolicy.apiServerPorts }}\n        - port: {{ . }}\n        {{- end }}\n",
            ),
        ),
    ),
    Part("monitoring/service-monitor.yaml", "$.Values.monitoring.enabled"),
    Part("monitoring/alerts.yaml", "$.Values.monitoring.enabled", names=1),
)
DASHBOARD = (
    """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: mind-cluster-scaler-dashboard
  namespace: """
    + NAMESPACE
    + """
  labels:
    app.kubernetes.io/name: mind-cluster-scaler
    grafana_dashboard: "1"
data:
  mind-cluster-scaler.json: {{ $.Files.Get "files/dashboard.json" | toJson }}
"""
)


class ChartError(Exception):
    """A source no longer has what is to be replaced; `str()` says which."""


def template(part: Part, text: str) -> str:
    """The template that a file of the kustomizations becomes."""
    text = text.replace("{{", '{{ "{{" }}')
    if part.source.startswith("monitoring/"):
        text = text.replace("runbook_url: https://REPOSITORY", "runbook_url: {{ $.Values.monitoring.repository }}")
    for old, new in part.edits:
        if text.count(old) != 1:
            raise ChartError(f"manifests/{part.source} has {text.count(old)} times what stands there once: {old!r}")
        text = text.replace(old, new)
    if part.names >= 0:
        text = _NAMES.sub(rf"\1{SUFFIX}", text, count=part.names)
    text = text.replace(NAMESPACE, "{{ $.Values.namespace }}")
    texts = [labelled(document, part) for document in re.split(r"^---\n", text, flags=re.MULTILINE)]
    if part.source.endswith("bindings.yaml"):
        texts = [wrapped(MAKES, one.rstrip("\n")) + "\n" if "-create" in one else one for one in texts]
    body = "---\n".join(texts)
    if part.per_namespace:
        body = body.replace("namespace: mindie\n", "namespace: {{ . | quote }}\n")
        return f"{{{{- range $.Values.namespaces }}}}\n---\n{body}{{{{- end }}}}\n"
    return wrapped(part.when, body.rstrip("\n")) + "\n" if part.when else body


def labelled(document: str, part: Part) -> str:
    """With the labels of the chart; a document is one object."""
    head, metadata, rest = re.split(r"(^metadata:\n(?: .*\n|\{\{-.*\n)+)", document, maxsplit=1, flags=re.MULTILINE)
    lines = '    {{- include "scaler.labels" $ | nindent 4 }}\n'
    if part.source == "monitoring/service-monitor.yaml" or part.source == "monitoring/alerts.yaml":
        lines += (
            "    {{- with $.Values.monitoring.labels }}\n    {{- toYaml . | nindent 4 }}\n    {{- end }}\n"
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
        found |= whole["$defs"][found["$ref"].rpartition("/")[2]] | {"description": found["description"]}
    if "anyOf" in found:
        found |= found["anyOf"][0]
    kept = ("type", "enum", "minimum", "maximum", "maxLength", "pattern", "description")
    return {key: found[key] for key in kept if key in found}


def settings_table() -> str:
    rows = [
        f"| `settings.{name}` | {default_text(field)}{' ' + unit(field) if False else ''} | {field.description} |\n"
        for name, field in Settings.model_fields.items()
        if name not in OF_THE_CHART
    ]
    return "".join(rows)


def values_table(text: str) -> str:
    """Each value with its default and its comment, in the order of values.yaml."""
    rows, path, said = [], [], []
    for line in text.splitlines():
        found = re.match(r"^( *)(?:# ?(.*)|([A-Za-z]+):(.*))$", line)
        if found is None or (found[2] is not None and not said and False):
            said = [] if not line.strip() else said
            continue
        if found[2] is not None:
            said.append(found[2])
            continue
        del path[len(found[1]) // 2 :]
        path.append(found[3])
        if said:
            rows.append(_row(path, text, " ".join(said)))
        said = []
    return "".join(rows)


def _row(path: list[str], text: str, said: str) -> str:
    value: Any = yaml.safe_load(text)
    for key in path:
        value = value[key]
    shown = json.dumps(value) if not isinstance(value, str) else value or "empty"
    words = said.replace("|", "\\|")
    return f"| `{'.'.join(path)}` | {shown if isinstance(value, dict) is False or not value else '-'} | {words} |\n"


def page(values: str) -> str:
    return (
        "# Values of the Helm chart\n\n"
        "Written by `make chart` out of `manifests/helm/values.yaml`; a test keeps it in step. How to install:\n"
        "[deploy](../howto/deploy.md). A value that does not exist, or is of the wrong kind, is an error that names it.\n\n"
        "| value | default | meaning |\n|---|---|---|\n" + values_table(values) + "\n## Settings\n\n"
        "The [settings of `scaler run`](settings.md) that do not follow from other values. Left out, the default holds.\n\n"
        "| value | default | meaning |\n|---|---|---|\n" + settings_table()
    )


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
    manifests, chart = root / "manifests", root / CHART
    files = {}
    for part in PARTS:
        said = f"{{{{- /* Written by make chart out of manifests/{part.source}. */ -}}}}\n"
        files[f"{CHART}/templates/{part.source}"] = said + template(part, (manifests / part.source).read_text("utf-8"))
    dashboard = Part("monitoring/kustomization.yaml", "$.Values.monitoring.enabled")
    body = _NAMES.sub(rf"\1{SUFFIX}", labelled(DASHBOARD, dashboard).replace(NAMESPACE, "{{ $.Values.namespace }}"))
    files[f"{CHART}/templates/monitoring/dashboard.yaml"] = (
        "{{- /* Written by make chart out of manifests/monitoring/kustomization.yaml. */ -}}\n"
        + wrapped(dashboard.when, body.rstrip("\n")) + "\n"
    )  # fmt: skip
    files[f"{CHART}/files/dashboard.json"] = (manifests / "monitoring/dashboard.json").read_text("utf-8")
    files[f"{CHART}/Chart.yaml"] = chart_yaml()
    files[f"{CHART}/values.schema.json"] = schema((chart / "values.schema.json").read_text("utf-8"))
    files[PAGE] = page((chart / "values.yaml").read_text("utf-8"))
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
