{{/*
Generated from xtask/src/generated/rules.rs by `cargo run -p xtask -- generate`; do not edit.
*/}}

{{- define "llmscaleoperator.rules.scaling" -}}
# The scalers.
- apiGroups: [autoscaling.modelsphere.dev]
  resources: [llmscalers]
  verbs: [get, list, watch]
# What it reports in them.
- apiGroups: [autoscaling.modelsphere.dev]
  resources: [llmscalers/status]
  verbs: [get, patch]
# Targets, and how far their rollouts are.
- apiGroups: [apps]
  resources: [deployments, statefulsets]
  verbs: [get, list, watch]
# The size of a target, and nothing else of it.
- apiGroups: [apps]
  resources: [deployments/scale, statefulsets/scale]
  verbs: [get, patch]
# Which pods are of a Deployment's newest revision.
- apiGroups: [apps]
  resources: [replicasets]
  verbs: [get, list, watch]
# Targets of several pods a replica.
- apiGroups: [leaderworkerset.x-k8s.io]
  resources: [leaderworkersets]
  verbs: [get, list, watch]
# Their size.
- apiGroups: [leaderworkerset.x-k8s.io]
  resources: [leaderworkersets/scale]
  verbs: [get, patch]
# Which pods start, serve, drain; patch is for the deletion-cost annotation of those that a scale-down removes.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, patch]
# The Service of an endpoint picker (scrape.eppService).
- apiGroups: [""]
  resources: [services]
  verbs: [get]
# Other autoscalers: nobody's target is scaled twice.
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [get, list, watch]
# KEDA's, for the same reason.
- apiGroups: [keda.sh]
  resources: [scaledobjects]
  verbs: [get, list, watch]
# An event for each change of size and of a condition.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end }}

{{- define "llmscaleoperator.rules.credentials" -}}
# Header values and certificates that scalers refer to (serverHeadersFrom, serverTLS), by name and never listed.
- apiGroups: [""]
  resources: [secrets, configmaps]
  verbs: [get]
{{- end }}

{{- define "llmscaleoperator.rules.leader-election" -}}
# A lease that does not exist yet has no name to be allowed by.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
# The lease by which the operator's replicas agree on which one acts.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [0abb3156.modelsphere.dev]
  verbs: [get, update]
{{- end }}

{{- define "llmscaleoperator.rules.metrics-auth" -}}
# Who scrapes.
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
# Whether they may.
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end }}

{{- define "llmscaleoperator.rules.external-metrics" -}}
# Whether who reads a metric may.
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
# The API's entry in the aggregation layer: made where nobody has it, and its authority renewed. Applying has a name, even to create.
- apiGroups: [apiregistration.k8s.io]
  resources: [apiservices]
  resourceNames: [v1beta1.external.metrics.k8s.io]
  verbs: [get, create, patch]
# The HPA of a scaler with actuation HorizontalPodAutoscaler.
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [create, patch, delete]
{{- end }}

{{- define "llmscaleoperator.rules.admin" -}}
- apiGroups: [autoscaling.modelsphere.dev]
  resources: [llmscalers]
  verbs: ["*"]
- apiGroups: [autoscaling.modelsphere.dev]
  resources: [llmscalers/status]
  verbs: [get]
{{- end }}

{{- define "llmscaleoperator.rules.editor" -}}
- apiGroups: [autoscaling.modelsphere.dev]
  resources: [llmscalers]
  verbs: [create, delete, get, list, patch, update, watch]
- apiGroups: [autoscaling.modelsphere.dev]
  resources: [llmscalers/status]
  verbs: [get]
{{- end }}

{{- define "llmscaleoperator.rules.viewer" -}}
- apiGroups: [autoscaling.modelsphere.dev]
  resources: [llmscalers]
  verbs: [get, list, watch]
- apiGroups: [autoscaling.modelsphere.dev]
  resources: [llmscalers/status]
  verbs: [get]
{{- end }}
