{{- /* The flags that the chart gives the operator, beside manager.args and manager.extraArgs. */}}
{{- define "llmscaleoperator.flags" -}}
- --health-probe-bind-address=:8081
{{- if .Values.metrics.enabled }}
- --metrics-bind-address=:{{ .Values.metrics.port }}
- --metrics-secure={{ .Values.metrics.secure }}
{{- end }}
{{- if include "llmscaleoperator.metricsSecret" . }}
- --metrics-cert-path=/etc/llmscaler/metrics-certs
{{- end }}
{{- if .Values.rbac.namespaced }}
- --watch-namespace={{ .Release.Namespace }}
{{- end }}
{{- if .Values.dashboard.enabled }}
- --dashboard-bind-address=:{{ .Values.dashboard.port }}
{{- with .Values.dashboard.hosts }}
- --dashboard-hosts={{ join "," . }}
{{- end }}
{{- end }}
{{- if .Values.externalMetrics.enabled }}
- --external-metrics-bind-address=:{{ .Values.externalMetrics.port }}
- --external-metrics-service-name={{ include "llmscaleoperator.named" (list . "external-metrics") }}
{{- end }}
{{- end }}

{{- /* Nothing renders when a flag is given twice: the operator would refuse to start. */}}
{{- define "llmscaleoperator.flagsOnce" -}}
{{- $given := dict }}
{{- range include "llmscaleoperator.flags" . | fromYamlArray }}
{{- $_ := set $given (regexFind "^[^=]+" .) "which the chart gives it by other values; take it out" }}
{{- end }}
{{- range $where := list "args" "extraArgs" }}
{{- range $argument := index $.Values.manager $where }}
{{- $flag := regexFind "^--[^=]+" $argument }}
{{- with get $given $flag }}
{{- fail (printf "manager.%s gives the operator %s, %s" $where $flag .) }}
{{- end }}
{{- if $flag }}
{{- $_ := set $given $flag (printf "which manager.%s has already; take one of them out" $where) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Nothing renders when two servers of the operator have the same port. */}}
{{- define "llmscaleoperator.portsApart" -}}
{{- $taken := dict "8081" "the port of the health probes" }}
{{- range $server := list "metrics" "dashboard" "externalMetrics" }}
{{- $values := index $.Values $server }}
{{- if $values.enabled }}
{{- $port := $values.port | int | toString }}
{{- with get $taken $port }}
{{- fail (printf "%s.port is %s, which is %s; choose another" $server $port .) }}
{{- end }}
{{- $_ := set $taken $port (printf "%s.port" $server) }}
{{- end }}
{{- end }}
{{- end }}
