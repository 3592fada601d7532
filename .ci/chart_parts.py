"""Which files of the kustomizations the chart is made of, and what becomes of their text (`make
chart`)."""

from __future__ import annotations

from dataclasses import dataclass

import scaler

NAMESPACE = "mind-cluster-scaler-system"
SUFFIX = "{{ $.Values.nameSuffix }}"
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
    every: tuple[Edit, ...] = ()
    """The same of text that stands there more than once: each place is replaced."""
    names: int | None = 0
    """How many names get the suffix of the install, from the first on; 0: all, None: none."""


def wrapped(condition: str, text: str) -> str:
    return f"{{{{- if {condition} }}}}\n{text}\n{{{{- end }}}}"


HAS_CONDITIONS = 'semverCompare ">=1.28.0-0" $.Capabilities.KubeVersion.Version'
WEBHOOK = 'include "scaler.webhook" $'
OWN = 'include "scaler.ownCertificates" $'
CERT_MANAGER = 'include "scaler.certManager" $'
MOUNTED = 'include "scaler.mountedCertificate" $'
POLICIES = 'include "scaler.policies" $'
MONITORING = "$.Values.monitoring.enabled"
SECURE = "$.Values.metrics.secure"
METRICS_MOUNTED = f"and {SECURE} $.Values.metrics.secretName"
MAKES = 'ne $.Values.mode "gates"'
PORTS_OF_SERVERS = """\
              value: "8080"
            - name: SCALER_METRICS_PORT  # ../plain-metrics takes it out
              value: "8443"
"""
ENVIRONMENT = """\
              value: "8080"
            {{- if $.Values.metrics.secure }}
            - name: SCALER_METRICS_PORT
              value: "8443"
            {{- with $.Values.metrics.secretName }}
            - name: SCALER_METRICS_CERT_FILE
              value: /metrics/tls.crt
            - name: SCALER_METRICS_KEY_FILE
              value: /metrics/tls.key
            {{- end }}
            {{- end }}
            {{- with $.Values.namespaces }}
            - name: SCALER_NAMESPACES
              value: {{ join "," . | quote }}
            {{- end }}
            {{- if include "scaler.webhook" $ }}
            - name: SCALER_WEBHOOK_PORT
              value: "9443"
            {{- end }}
            {{- if include "scaler.mountedCertificate" $ }}
            - name: SCALER_WEBHOOK_CERT_FILE
              value: /webhook/tls.crt
            - name: SCALER_WEBHOOK_KEY_FILE
              value: /webhook/tls.key
            {{- end }}
            {{- range $name, $value := $.Values.settings }}
            - name: SCALER_{{ upper $name }}
              value: {{ ternary $value (toJson $value) (kindIs "string" $value) | quote }}
            {{- end }}
            {{- with $.Values.extraEnv }}
            {{- toYaml . | nindent 12 }}
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
      {{- if $.Values.hostNetwork }}
      hostNetwork: true
      {{- end }}
      {{- with include "scaler.dnsPolicy" $ }}
      dnsPolicy: {{ . }}
      {{- end }}
"""
AFFINITY = """\
      affinity:
        nodeAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
            # Nodes with NPUs are what breaks and is drained: better beside them than on them.
            - weight: 100
              preference:
                matchExpressions:
                  - {key: accelerator, operator: DoesNotExist}
                  - {key: accelerator-type, operator: DoesNotExist}
"""
SPREAD = """\
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway  # better both on one node than only one
          labelSelector:
            matchLabels:
              app.kubernetes.io/name: mind-cluster-scaler
"""
POD_SECURITY = """\
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
"""
CONTAINER_SECURITY = """\
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
"""
POD_LABELS = """\
  template:
    metadata:
      {{- with $.Values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      labels:
        {{- with $.Values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
"""
REVISIONS = """\
  {{- with $.Values.revisionHistoryLimit }}
  revisionHistoryLimit: {{ . }}
  {{- end }}
  selector:
"""
INSTALL = """\
            - name: SCALER_INSTALL  # whatever name somebody gives this install
              valueFrom:
                fieldRef:
                  fieldPath: spec.serviceAccountName
"""
ITS_INSTALL = f"""\
            - name: SCALER_INSTALL
              value: mind-cluster-scaler{SUFFIX}  # the account may have any name
"""


def instead(value: str, here: str, indent: int, *, head: str = "") -> str:
    """What a value of the chart says, where it says something, else what stands here."""
    given = f"{head}{' ' * indent}{{{{- toYaml $.Values.{value} | nindent {indent} }}}}"
    return f"{{{{- if $.Values.{value} }}}}\n{given}\n{{{{- else }}}}\n{here}{{{{- end }}}}\n"


RESOURCES = """\
            requests:
              cpu: 100m
              memory: 256Mi
            limits:
              memory: 1Gi  # no CPU limit: a throttled leader loses its Lease
"""
IMAGE = (
    f"image: mind-cluster-scaler:{scaler.__version__}"
    "  # by digest: `images` of your kustomization, docs/howto/deploy.md"
)
METRICS_PORT = """\
            - name: metrics
              containerPort: 8443"""
DEPLOYMENT: tuple[Edit, ...] = (
    ("  replicas: 2 ", "  replicas: {{ $.Values.replicas }} "),
    ("  selector:\n    matchLabels", f"{REVISIONS}    matchLabels"),
    ("  template:\n    metadata:\n      labels:\n", POD_LABELS),
    (
        "      priorityClassName: system-cluster-critical  #",
        "      {{- with $.Values.priorityClassName }}\n      priorityClassName: {{ . | quote }}  #",
    ),
    ("preempted by one of them\n", "preempted by one of them\n      {{- end }}\n"),
    (
        POD_SECURITY,
        wrapped(
            f"and (or ({MOUNTED}) ({METRICS_MOUNTED}))"
            ' (not (hasKey $.Values.podSecurityContext "fsGroup"))',
            "        fsGroup: 65532  # the key is for the scaler's own group to read",
        )
        + "\n"
        + instead("podSecurityContext", POD_SECURITY, 8),
    ),
    (CONTAINER_SECURITY, instead("securityContext", CONTAINER_SECURITY, 12)),
    (
        SPREAD,
        instead("topologySpreadConstraints", SPREAD, 8, head="      topologySpreadConstraints:\n"),
    ),
    (
        AFFINITY,
        PLACEMENT + instead("affinity", AFFINITY, 8, head="      affinity:\n"),
    ),
    (
        INSTALL,
        wrapped(
            "$.Values.serviceAccount.name", f"{ITS_INSTALL}{{{{- else }}}}\n{INSTALL}".rstrip("\n")
        )
        + "\n",
    ),
    (
        IMAGE,
        'image: {{ include "scaler.image" $ }}',
    ),
    ("imagePullPolicy: IfNotPresent", "imagePullPolicy: {{ $.Values.image.pullPolicy }}"),
    (
        "value: gates  # release what others make; ../create makes it auto",
        "value: {{ $.Values.mode }}",
    ),
    (PORTS_OF_SERVERS, ENVIRONMENT),
    (
        f"{METRICS_PORT}\n",
        wrapped(SECURE, METRICS_PORT)
        + "\n"
        + wrapped(WEBHOOK, "            - name: webhook\n              containerPort: 9443")
        + "\n",
    ),
    (RESOURCES, "            {{- toYaml $.Values.resources | nindent 12 }}\n"),
    (
        "              readOnly: true\n",
        "              readOnly: true\n"
        + wrapped(
            MOUNTED,
            "            - name: webhook\n              mountPath: /webhook\n             "
            " readOnly: true",
        )
        + "\n"
        + wrapped(
            METRICS_MOUNTED,
            "            - name: metrics\n              mountPath: /metrics\n             "
            " readOnly: true",
        )
        + "\n",
    ),
    (
        "                        fieldPath: metadata.namespace\n",
        "                        fieldPath: metadata.namespace\n"
        + wrapped(
            MOUNTED,
            "        - name: webhook\n          secret:\n            secretName:"
            ' {{ include "scaler.webhookSecret" $ }}\n            defaultMode: 0440',
        )
        + "\n"
        + wrapped(
            METRICS_MOUNTED,
            "        - name: metrics\n          secret:\n            secretName:"
            " {{ $.Values.metrics.secretName }}\n            defaultMode: 0440",
        )
        + "\n",
    ),
)
FROM_CERT_MANAGER = (
    "metadata:\n  name: mind-cluster-scaler\n",
    "metadata:\n  name: mind-cluster-scaler\n"
    + wrapped(
        CERT_MANAGER,
        "  annotations:\n    cert-manager.io/inject-ca-from: "
        + NAMESPACE
        + "/mind-cluster-scaler-webhook",
    )
    + "\n",
)


def followed(line: str, value: str, indent: int) -> Edit:
    """A line with what a value of the chart, where it has something, adds below it."""
    more = f"{{{{- toYaml . | nindent {indent} }}}}"
    given = f"{{{{- with $.Values.{value} }}}}\n{' ' * indent}{more}\n{' ' * indent}{{{{- end }}}}"
    return line, f"{line}{' ' * indent}{given}\n"


_LABELS = "        mind-cluster/scaling: enabled\n"
_NOT_HERE = f"values: [kube-system, {NAMESPACE}]}}\n"
_CLIENT = "    clientConfig:\n"
_CA = "      caBundle: {{ . }}\n"
OF_WEBHOOKS: tuple[Edit, ...] = (
    followed(_LABELS, "admission.namespaceSelector.matchLabels", 8),
    followed(_NOT_HERE, "admission.namespaceSelector.matchExpressions", 8),
    ("    timeoutSeconds: 2\n", "    timeoutSeconds: {{ $.Values.admission.timeoutSeconds }}\n"),
    (
        _CLIENT,
        f"{_CLIENT}      {{{{- with $.Values.admission.caBundle }}}}\n{_CA}      {{{{- end }}}}\n",
    ),
)
"""Of each webhook."""
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
PORTS = """\
        {{- range $.Values.networkPolicy.apiServerPorts }}
        - port: {{ . }}
        {{- end }}
"""
_IN_PLACE = f"  namespace: {NAMESPACE}\n"
ANNOTATED_ACCOUNT = (
    _IN_PLACE,
    _IN_PLACE
    + wrapped(
        "$.Values.serviceAccount.annotations",
        "  annotations:\n    {{- toYaml $.Values.serviceAccount.annotations | nindent 4 }}",
    )
    + "\n",
)
KEPT = """\
metadata:
  annotations:
    helm.sh/resource-policy: keep  # with it would go every ElasticService, of other installs too
"""
SCHEME = (
    '    prometheus.io/scheme: https\n    prometheus.io/port: "8443"\n',
    wrapped(SECURE, "    prometheus.io/scheme: https")
    + f"\n    prometheus.io/port: {{{{ ternary 8443 8080 {SECURE} | quote }}}}\n",
)


def either(secure: str, plain: str) -> str:
    """Text for metrics over HTTPS, and for metrics in plain."""
    return f"{{{{- if {SECURE} }}}}\n{secure}{{{{- else }}}}\n{plain}{{{{- end }}}}\n"


OVER_HTTPS = """\
    - name: metrics
      port: 8443
      targetPort: metrics
"""
PORT_OF_SERVICE = (
    OVER_HTTPS,
    either(OVER_HTTPS, "    - name: http\n      port: 8080\n      targetPort: http\n"),
)
SCRAPED = """\
    - port: metrics
      scheme: https
      bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token  # that of Prometheus
      tlsConfig:
        insecureSkipVerify: true  # each replica makes its own; to check one: docs/howto/monitor.md
"""
CHECKED = f"""\
    - port: metrics
      scheme: https
      bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token  # that of Prometheus
      tlsConfig:
        ca: {{secret: {{name: {{{{ $.Values.metrics.secretName }}}}, key: ca.crt}}}}
        serverName: mind-cluster-scaler-metrics{SUFFIX}.{NAMESPACE}.svc
"""
AS_SERVED = (
    f"{{{{- if {METRICS_MOUNTED} }}}}\n{CHECKED}"
    f"{{{{- else if {SECURE} }}}}\n{SCRAPED}"
    "{{- else }}\n    - port: http\n{{- end }}\n"
)
ITS_NAME = ("resourceNames: [mind-cluster-scaler]", f"resourceNames: [mind-cluster-scaler{SUFFIX}]")


def of_account(condition: str) -> Edit:
    """The name of the account in a condition of the account guard."""
    text = (
        f"    - name: {condition}\n      expression: >-\n        request.userInfo.username =="
        f" 'system:serviceaccount:{NAMESPACE}:mind-cluster-scaler"
    )
    given = text.removesuffix("mind-cluster-scaler") + '{{ include "scaler.account" $ }}'
    return f"{text}'", f"{given}'"


PARTS = (
    Part(
        "base/namespace.yaml",
        "ne $.Values.namespace $.Release.Namespace",
        (
            (
                "enforce: restricted",
                'enforce: {{ ternary "privileged" "restricted" $.Values.hostNetwork }}',
            ),
        ),
    ),
    Part(
        "base/elasticservices.yaml",
        "$.Values.crd",
        (("metadata:\n", KEPT),),
    ),
    Part("base/service-account.yaml", "$.Values.serviceAccount.create", (ANNOTATED_ACCOUNT,)),
    Part("base/election-role.yaml"),
    Part("base/records-role.yaml"),
    Part("base/cluster-role.yaml"),
    Part("base/watch-role.yaml"),
    Part("base/release-role.yaml"),
    Part("base/view-role.yaml"),
    Part("base/edit-role.yaml"),
    Part("base/deployment.yaml", edits=DEPLOYMENT),
    Part(
        "base/disruption-budget.yaml",
        "$.Values.podDisruptionBudget.enabled",
        (
            (
                "maxUnavailable: 1 ",
                "maxUnavailable: {{ $.Values.podDisruptionBudget.maxUnavailable }} ",
            ),
        ),
    ),
    Part(
        "provisioning-request/provisioning-request-role.yaml",
        "$.Values.settings.provisioning_request",
    ),
    Part("base/metrics-role.yaml", SECURE),
    Part("base/service.yaml", edits=(SCHEME, PORT_OF_SERVICE)),
    Part("create/create-role.yaml", MAKES),
    Part("cluster-wide/bindings.yaml", "not $.Values.namespaces"),
    Part("single-namespace/governed/bindings.yaml", per_namespace=True),
    Part("fault-data/fault-data-role.yaml", "and $.Values.namespaces $.Values.faultData"),
    Part(
        "admission-webhook/mutating.yaml",
        WEBHOOK,
        (
            FROM_CERT_MANAGER,
            (
                "failurePolicy: Ignore  # Fail: ",
                "failurePolicy: {{ $.Values.admission.failurePolicy }}  # Fail: ",
            ),
        ),
        every=OF_WEBHOOKS,
    ),
    Part(
        "admission-webhook/validating.yaml",
        WEBHOOK,
        (FROM_CERT_MANAGER, (CONDITIONS, wrapped(HAS_CONDITIONS, CONDITIONS))),
        every=OF_WEBHOOKS,
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
            (
                "issuerRef: {name: mind-cluster-scaler-authority, kind: Issuer}",
                'issuerRef: {{ include "scaler.issuer" $ }}',
            ),
        ),
        names=None,  # all in the install's own namespace, and nothing outside asks for them
    ),
    Part("admission-policy/pods.yaml", POLICIES),
    Part("admission-policy/ascendjobs.yaml", POLICIES),
    Part("admission-policy/policy-role.yaml", POLICIES, (ITS_NAME,)),
    Part(
        "account-guard/account-guard.yaml",
        "$.Values.accountGuard",
        (of_account("the-account"), of_account("the-account-of-the-webhook")),
    ),
    Part("gate-guard/gate-guard.yaml", "$.Values.gateGuard"),
    Part(
        "network-policy/network-policy.yaml",
        "$.Values.networkPolicy.enabled",
        (
            (
                "values: [monitoring, prometheus]",
                "values: {{ toJson $.Values.networkPolicy.monitoring }}",
            ),
            ("        - port: 9443\n", API_SERVERS),
            (
                "        - port: 443\n        - port: 6443\n",
                PORTS,
            ),
            ("        - port: 8443\n", f"        - port: {{{{ ternary 8443 8080 {SECURE} }}}}\n"),
        ),
    ),
    Part("monitoring/service-monitor.yaml", MONITORING, ((SCRAPED, AS_SERVED),)),
    Part("monitoring/alerts.yaml", MONITORING, names=1),
)
DASHBOARD = f"""\
apiVersion: v1
kind: ConfigMap
metadata:
  name: mind-cluster-scaler-dashboard
  namespace: {NAMESPACE}
  labels:
    app.kubernetes.io/name: mind-cluster-scaler
    grafana_dashboard: "1"
data:
  mind-cluster-scaler.json: DASHBOARD
"""
"""What kustomize makes of the generator in manifests/monitoring/kustomization.yaml."""
