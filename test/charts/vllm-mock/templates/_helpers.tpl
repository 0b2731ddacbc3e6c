{{- /* The release, short enough that every suffix fits into the 63 characters of a name. */}}
{{- define "vllm-mock.release" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "vllm-mock.vllm" -}}
{{- printf "%s-vllm" (include "vllm-mock.release" .) }}
{{- end }}

{{- define "vllm-mock.metricsMock" -}}
{{- printf "%s-metrics-mock" (include "vllm-mock.release" .) }}
{{- end }}

{{- define "vllm-mock.image" -}}
{{- if contains "@" .Values.image.repository }}
{{- .Values.image.repository }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository .Values.image.tag }}
{{- end }}
{{- end }}

{{- define "vllm-mock.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* A query with __SCOPE__ as the labels of this release's pods: (list $ "query"). */}}
{{- define "vllm-mock.scoped" -}}
{{- $scope := printf "namespace=%q,app=%q" (index . 0).Release.Namespace (include "vllm-mock.vllm" (index . 0)) }}
{{- index . 1 | replace "__SCOPE__" $scope }}
{{- end }}

{{- /* Seconds that the end of a pod takes at most. */}}
{{- define "vllm-mock.budget" -}}
{{- $preStop := .Values.lifecycle.preStop }}
{{- $waits := ternary (add $preStop.endpointSyncSeconds $preStop.drainSeconds) 0 $preStop.enabled }}
{{- add $waits .Values.lifecycle.shutdownTimeout }}
{{- end }}

{{- /* Nothing renders when the end of a pod may take longer than it has. */}}
{{- define "vllm-mock.fits" -}}
{{- $preStop := .Values.lifecycle.preStop }}
{{- $grace := int .Values.terminationGracePeriodSeconds }}
{{- $sum := include "vllm-mock.budget" . | int }}
{{- if gt $sum $grace }}
{{- $sync := printf "endpointSyncSeconds %d" (int $preStop.endpointSyncSeconds) }}
{{- $drain := printf "drainSeconds %d" (int $preStop.drainSeconds) }}
{{- $waits := ternary (printf "%s + %s +" $sync $drain) (printf "preStop is off, and with it %s and %s;" $sync $drain) $preStop.enabled }}
{{- $sentence := "the end of a pod may take %d s (%s shutdownTimeout %d), and terminationGracePeriodSeconds is %d: the kubelet would kill vLLM with requests still running; raise terminationGracePeriodSeconds to %d, or lower the others" }}
{{- fail (printf $sentence $sum $waits (int .Values.lifecycle.shutdownTimeout) $grace $sum) }}
{{- end }}
{{- end }}
