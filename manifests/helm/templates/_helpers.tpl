{{- /* What each object of the chart has beside what the kustomizations give it. */ -}}
{{- define "scaler.labels" -}}
app.kubernetes.io/managed-by: {{ $.Release.Service }}
app.kubernetes.io/part-of: mind-cluster-scaler
helm.sh/chart: {{ printf "%s-%s" $.Chart.Name $.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "scaler.image" -}}
{{- $image := $.Values.image -}}
{{- if $image.digest -}}
{{ printf "%s@%s" $image.repository $image.digest | quote }}
{{- else -}}
{{ printf "%s:%s" $image.repository (default $.Chart.AppVersion $image.tag) | quote }}
{{- end -}}
{{- end }}

{{- /* Each is a word or nothing: whether it is so. */ -}}
{{- define "scaler.hasPolicies" -}}
{{- if semverCompare ">=1.36.0-0" $.Capabilities.KubeVersion.Version }}yes{{ end -}}
{{- end }}

{{- define "scaler.policies" -}}
{{- $by := $.Values.admission.by -}}
{{- if or (eq $by "policies") (eq $by "both") (and (eq $by "auto") (include "scaler.hasPolicies" $)) }}yes{{ end -}}
{{- end }}

{{- define "scaler.webhook" -}}
{{- $by := $.Values.admission.by -}}
{{- if or (eq $by "webhook") (eq $by "both") (and (eq $by "auto") (not (include "scaler.hasPolicies" $))) }}yes{{ end -}}
{{- end }}

{{- define "scaler.ownCertificates" -}}
{{- if and (include "scaler.webhook" $) (eq $.Values.admission.certificates "own") }}yes{{ end -}}
{{- end }}

{{- define "scaler.certManager" -}}
{{- if and (include "scaler.webhook" $) (eq $.Values.admission.certificates "cert-manager") }}yes{{ end -}}
{{- end }}

{{- define "scaler.certificateSecret" -}}
{{- if and (include "scaler.webhook" $) (eq $.Values.admission.certificates "secret") }}yes{{ end -}}
{{- end }}

{{- define "scaler.mountedCertificate" -}}
{{- if or (include "scaler.certManager" $) (include "scaler.certificateSecret" $) }}yes{{ end -}}
{{- end }}

{{- define "scaler.webhookSecret" -}}
{{ if include "scaler.certManager" $ }}mind-cluster-scaler-webhook-cert-manager{{ else }}{{ $.Values.admission.secretName }}{{ end -}}
{{- end }}

{{- define "scaler.account" -}}
{{ default (printf "mind-cluster-scaler%s" $.Values.nameSuffix) $.Values.serviceAccount.name -}}
{{- end }}

{{- define "scaler.issuer" -}}
{{ default (dict "name" "mind-cluster-scaler-authority" "kind" "Issuer") $.Values.admission.issuerRef | toJson -}}
{{- end }}

{{- define "scaler.dnsPolicy" -}}
{{ default (ternary "ClusterFirstWithHostNet" "" $.Values.hostNetwork) $.Values.dnsPolicy -}}
{{- end }}
