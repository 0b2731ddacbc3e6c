//! Pages about looking at scalers, and at what is around them.

use crate::story::{Place, STORY, Story, run};

/// Two ScaledObjects and an HPA, in a cluster and as files.
const AUTOSCALERS: &str = r#"foreign_kind keda.sh v1alpha1 ScaledObject scaledobjects
    scaled_object() {
      kubectl create -o yaml -f - <<<"{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: $1}, spec: {
        scaleTargetRef: {name: $1}, minReplicaCount: 1, maxReplicaCount: 8, triggers: [{type: prometheus, metadata: {
        serverAddress: http://prometheus.example.com, query: sum(load), threshold: '5'}}]}}"
    }
    scaled_object chat >chat.yaml
    scaled_object code >scaledobjects.yaml
    kubectl create -o yaml -f - >hpa.yaml <<<'{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web}, spec: {
      scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, maxReplicas: 8, metrics: [{type: External,
      external: {metric: {name: waiting}, target: {type: AverageValue, averageValue: 5}}}]}}'"#;

pub const STORIES: [Story; 7] = [
    Story {
        page: "docs/decide.md",
        place: Place::Namespace,
        files: &[("scenario.yaml", "readings:\n      kv: {value: 0.9}")],
        steps: &[
            run("llmscaler decide scenario.yaml").says(&[r#""desired":5,"write":5,"reason":"SuccessfulRescale""#]),
            run("llmscaler decide -o text scenario.yaml").says(&["writes 5; SuccessfulRescale"]),
            run("kubectl get llms chat -o json | jq")
                .given("scaler chat 'vector(6)'")
                .says(&["the fleet keeps its 4 replicas: the document has no reading for it"]),
        ],
        ..STORY
    },
    Story {
        page: "docs/troubleshooting.md",
        place: Place::Namespace,
        operator: true,
        steps: &[
            run("llmscaler explain NAME -n NAMESPACE")
                .given("fleet chat 1\nscaler chat 'vector(3)'\ndecided chat")
                .says(&["serving/chat scales Deployment chat", "load 3 in total, at 1 a replica: asks for 3 replicas"]),
            run("llmscaler doctor NAME -n NAMESPACE").given("kubectl rollout status deployment/chat").says(&["0 problems, 0 warnings"]),
        ],
        ..STORY
    },
    Story {
        page: "docs/ownership.md",
        place: Place::Namespace,
        operator: true,
        steps: &[
            run("kubectl get deployment vllm --show-managed-fields").given("fleet vllm 3").says(&[r#""manager": "kubectl-create""#]),
            run("kubectl get llms vllm -o jsonpath")
                .given(
                    "kubectl autoscale deployment vllm --min=1 --max=8
                     scaler vllm 'vector(5)' Recommend
                     seen() { kubectl get llms vllm -o jsonpath='{.status.decision.message}' | grep 'and not written, and'; }
                     eventually seen",
                )
                .as_shown(),
        ],
        ..STORY
    },
    Story {
        page: "docs/dashboard.md",
        place: Place::Cluster,
        steps: &[
            run("llmscaler operator --dashboard-bind-address=127.0.0.1:8082")
                .given("fleet chat 1\nscaler chat 'vector(3)'")
                .goes_on("Scaling")
                .then(
                    r#"grown() {
                         curl -sf http://127.0.0.1:8082/api/scalers | jq -e '.scalers[] | select(.namespace == "serving" and .spec == 3)'
                       }
                       eventually grown"#,
                ),
            run("llmscaler operator --dashboard-bind-address=:8082 --dashboard-hosts").goes_on("Scaling").then(
                "curl -sf -H 'Host: scalers.example.com' http://127.0.0.1:8082/api/scalers
                 fails curl -sf -H 'Host: other.example.com' http://127.0.0.1:8082/api/scalers",
            ),
        ],
        ..STORY
    },
    Story {
        page: "docs/explain-and-doctor.md",
        place: Place::Cluster,
        operator: true,
        steps: &[
            run("ln -s").then("test -x /usr/local/bin/kubectl-llmscaler"),
            run("kubectl llmscaler explain vllm -n serving")
                .given("kubectl delete llms --all -A\nfleet vllm 3\nscaler vllm 'vector(3)'\ndecided vllm")
                .says(&["serving/vllm scales Deployment vllm", "asks for 3 replicas"]),
            run("kubectl llmscaler doctor -A").says(&["serving/vllm", "0 problems, 0 warnings"]),
            run("llmscaler doctor vllm -n serving --prometheus")
                // The operator of the test is not in the cluster either.
                .given(
                    "PROMETHEUS=http://prometheus.monitoring.svc:9090 scaler vllm 'vector(3)'
                     eventually kubectl wait llms/vllm --for=condition=ScalingActive=False",
                )
                .exits(1)
                .says(&[
                    "source http://127.0.0.1:9090 answers",
                    "query load: 1 against a target of 1 a replica",
                    "problem status ScalingActive is False",
                ]),
            run("llmscaler doctor -A -o json | jq")
                .given("scaler lost 'vector(1)'")
                .exits(1)
                .says(&["serving/lost: there is no Deployment lost in namespace serving"]),
        ],
        ..STORY
    },
    Story {
        page: "docs/migrate.md",
        place: Place::Cluster,
        steps: &[
            run("llmscaler migrate -f chat.yaml -f scaledobjects.yaml")
                .given(AUTOSCALERS)
                .says(&["ScaledObject serving/chat becomes an LLMScaler", "ScaledObject serving/code becomes an LLMScaler"])
                .then("grep -c 'kind: LLMScaler' scalers.yaml | grep -x 2\nkubectl apply --dry-run=server -f scalers.yaml"),
            run("llmscaler migrate -f hpa.yaml --server-address")
                .says(&["HorizontalPodAutoscaler serving/web becomes an LLMScaler", "Hand-over"])
                .then("kubectl apply --dry-run=server -f scalers.yaml"),
            run("llmscaler migrate --from-cluster -n serving")
                .exits(3)
                .says(&["ScaledObject serving/code becomes an LLMScaler", "say which one has it with --server-address URL"])
                .then("grep 'name: code' scalers.yaml"),
        ],
        ..STORY
    },
    Story {
        page: "docs/guides/from-keda.md",
        place: Place::Cluster,
        files: &[("object.yaml", "kind: ScaledObject")],
        steps: &[run("kubectl get scaledobject chat -n serving -o yaml > chat.yaml")
            .given("foreign_kind keda.sh v1alpha1 ScaledObject scaledobjects\nkubectl apply -f object.yaml")
            .then("llmscaler migrate -f chat.yaml | grep 'kind: LLMScaler'")],
        ..STORY
    },
];
