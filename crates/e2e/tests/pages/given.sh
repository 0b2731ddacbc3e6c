# What the stories of the pages arrange by, as functions of bash.

# Tries until a command succeeds. The test has a time limit.
eventually() { until "$@" 2>/dev/null; do sleep 0.2; done; }

# That a command is refused, which set -e does not look at by itself.
fails() { if "$@"; then return 1; fi; }

# A kind of another project, of which any object is taken: GROUP VERSION KIND PLURAL.
foreign_kind() {
  kubectl apply -f - <<OBJECT
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: $4.$1}
spec:
  group: $1
  scope: Namespaced
  names: {kind: $3, plural: $4, singular: ${3,,}}
  versions:
    - name: $2
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
OBJECT
  kubectl wait --for=condition=Established "crd/$4.$1"
}

# Pods that serve, as far as anybody can tell, and end as they should: NAME REPLICAS.
fleet() {
  kubectl create -f - <<OBJECT
apiVersion: apps/v1
kind: Deployment
metadata: {name: $1}
spec:
  replicas: $2
  selector: {matchLabels: {app: $1}}
  template:
    metadata: {labels: {app: $1}}
    spec:
      terminationGracePeriodSeconds: 150
      containers: [{name: modelserver, image: vllm, lifecycle: {preStop: {sleep: {seconds: 10}}}}]
OBJECT
  kubectl rollout status "deployment/$1"
}

# A scaler of a fleet of the same name that asks the Prometheus of the pages a query of its own: NAME QUERY [MODE].
scaler() {
  kubectl apply -f - <<OBJECT
apiVersion: autoscaling.modelsphere.dev/v1alpha1
kind: LLMScaler
metadata: {name: $1}
spec:
  mode: ${3:-Auto}
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: $1}
  serverAddress: $PROMETHEUS
  minReplicas: 1
  maxReplicas: 8
  syncPeriodSeconds: 1
  metrics: [{name: load, query: '$2', metricType: AverageValue, target: "1"}]
OBJECT
}

# Until an operator has decided: NAME.
decided() { eventually kubectl wait "llms/$1" --for=jsonpath='{.status.decision.message}' --timeout=0; }

# Reports pods as ready in a namespace that the test has no kubelet for: NAMESPACE.
ready() {
  until kubectl get pods -n "$1" -o name | grep -q .; do sleep 0.2; done
  for pod in $(kubectl get pods -n "$1" -o name); do
    kubectl patch "$pod" -n "$1" --subresource=status \
      --patch='{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}'
  done
}

# Leads the sample of the pages to a fleet and a Prometheus, and hastens it: NAME.
own_sample() {
  sed -i "s|vllm-opt-125m|$1|; s|serverAddress: .*|serverAddress: $PROMETHEUS|; s|syncPeriodSeconds: 15|syncPeriodSeconds: 1|" \
    config/samples/autoscaling_v1alpha1_llmscaler.yaml
}

# Removes LLMScaler, which the tests' cluster has from the beginning.
without_resource() { kubectl delete crd llmscalers.autoscaling.modelsphere.dev; }
