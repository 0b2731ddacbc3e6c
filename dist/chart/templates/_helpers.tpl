{{- define "llmscaleoperator.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "llmscaleoperator.fullname" -}}
{{- $name := include "llmscaleoperator.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- /* A name with a suffix, which survives when the two are too long together: (list $ "suffix"). */}}
{{- define "llmscaleoperator.named" -}}
{{- $suffix := index . 1 }}
{{- $room := sub 62 (len $suffix) | int }}
{{- printf "%s-%s" (include "llmscaleoperator.fullname" (index . 0) | trunc $room | trimSuffix "-") $suffix }}
{{- end }}

{{- define "llmscaleoperator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "llmscaleoperator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
control-plane: controller-manager
{{- end }}

{{- define "llmscaleoperator.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ include "llmscaleoperator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* Labels or annotations of a value, to stand below the chart's own: (dict "value" "manager.labels" "more" … "to" "…"). Never one twice. */}}
{{- define "llmscaleoperator.more" -}}
{{- $own := fromYaml .to }}
{{- range $key, $_ := .more }}
{{- if hasKey $own $key }}
{{- fail (printf "%s sets %s, which is the chart's own; take it out" $.value $key) }}
{{- end }}
{{- end }}
{{- toYaml .more }}
{{- end }}

{{- define "llmscaleoperator.image" -}}
{{- $image := .Values.manager.image }}
{{- if contains "@" $image.repository }}
{{- $image.repository }}
{{- else }}
{{- printf "%s:%s" $image.repository ($image.tag | default .Chart.AppVersion) }}
{{- end }}
{{- end }}

{{- define "llmscaleoperator.serviceAccount" -}}
{{- if .Values.serviceAccount.enabled }}
{{- .Values.serviceAccount.name | default (include "llmscaleoperator.named" (list . "controller-manager")) }}
{{- else if not .Values.serviceAccount.name }}
{{- fail "serviceAccount.enabled=false takes serviceAccount.name: without one every pod of the namespace that names no account would have the operator's rights" }}
{{- else }}
{{- .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- /* The Secret of the metrics' certificate; empty where the operator makes one. */}}
{{- define "llmscaleoperator.metricsSecret" -}}
{{- if and .Values.metrics.enabled .Values.metrics.secure }}
{{- if .Values.metrics.certSecret }}
{{- .Values.metrics.certSecret }}
{{- else if .Values.certManager.enabled }}
{{- include "llmscaleoperator.named" (list . "metrics-server-cert") }}
{{- end }}
{{- end }}
{{- end }}

{{- /* A binding of a role to the operator's account: (dict "of" $ "kind" "RoleBinding" "name" … "namespace" … "roleKind" … "role" …). */}}
{{- define "llmscaleoperator.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels:
    {{- include "llmscaleoperator.labels" .of | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .roleKind }}
  name: {{ .role }}
subjects:
  - kind: ServiceAccount
    name: {{ include "llmscaleoperator.serviceAccount" .of }}
    namespace: {{ .of.Release.Namespace | quote }}
{{- end }}
