//! Pages that bring the operator into a cluster, or start it there.

use crate::story::{Place, STORY, Story, run};

const DEPLOYED: &[&str] = &["STATUS: deployed"];

/// A release whose Deployment has another selector, with which no upgrade succeeds.
const GO_OPERATOR: &str = "helm uninstall llmscaleoperator --namespace llmscaleoperator-system
    helm install llm dist/chart --namespace llmscaleoperator-system --take-ownership
    kubectl -n llmscaleoperator-system get deployment llm-llmscaleoperator-controller-manager -o json |
      jq '.spec.selector.matchLabels = {\"control-plane\": \"controller-manager\"}' | kubectl replace --force -f -
    fails helm upgrade llm dist/chart --namespace llmscaleoperator-system 2>/dev/null";

pub const STORIES: [Story; 4] = [
    Story {
        page: "README.md",
        place: Place::Cluster,
        files: &[("chat.yaml", "metricProvider: Scrape")],
        // What the sample asks for.
        series: &[("vllm:kv_cache_usage_perc", &[("namespace", "default"), ("app", "mine"), ("pod", "mine-a")], 0.5)],
        steps: &[
            run("make demo").goes_on("What happens").says(&["fleet in time late lost GPU-hours"]),
            run("helm install llmscaleoperator dist/chart").given("without_resource").says(DEPLOYED),
            run("kubectl apply --server-side -f chat.yaml").given("fleet chat 1").says(&["chat serverside-applied"]),
            run("cat > what-if.yaml"),
            run("target/release/llmscaler decide what-if.yaml -o text").says(&[
                "recommend 4 → 5",
                "activate 5",
                "bound 5",
                "stabilise 5",
                "pace 5",
                "guard 5",
                "write 5",
                "writes 5; SuccessfulRescale",
            ]),
            run("target/release/llmscaler crd | kubectl apply")
                .given("helm uninstall llmscaleoperator --namespace llmscaleoperator-system\nwithout_resource")
                .says(&["llmscalers.autoscaling.modelsphere.dev serverside-applied"]),
            run("kubectl apply -f config/samples/").given("fleet mine 1\nown_sample mine").says(&["llmscaler-sample created"]),
            run("target/release/llmscaler operator").goes_on("Scaling"),
            run("target/release/llmscaler doctor").given("decided llmscaler-sample").says(&[
                "query kv-cache: 0.5 against a target of 0.8",
                "the operator looks after it, and reports nothing wrong",
                "0 problems, 0 warnings",
            ]),
            run("kubectl get llms -A").says(&["llmscaler-sample 1 5 1 1"]),
        ],
        ..STORY
    },
    Story {
        page: "docs/install.md",
        place: Place::Cluster,
        // On this page both are of Helm's.
        replaced: &[("RELEASE", "llm"), ("NAMESPACE", "llmscaleoperator-system")],
        series: &[("vllm:kv_cache_usage_perc", &[("namespace", "default"), ("app", "mine"), ("pod", "mine-a")], 0.5)],
        steps: &[
            run("helm install llmscaleoperator dist/chart").given("without_resource").says(DEPLOYED),
            run("kubectl -n llmscaleoperator-system rollout status").says(&["successfully rolled out"]),
            run("helm install llmscaleoperator dist/chart")
                .given("helm uninstall llmscaleoperator --namespace llmscaleoperator-system")
                .says(DEPLOYED)
                .then("kubectl get pods -A -o yaml | grep 'image: registry.example.com/llm-operator:v1'"),
            run("kubectl apply --server-side -f dist/install.yaml")
                .given("helm uninstall llmscaleoperator --namespace llmscaleoperator-system")
                .says(&["deployment.apps/llmscaleoperator-controller-manager serverside-applied"]),
            run("kubectl apply -f config/samples/").given("fleet mine 1\nown_sample mine").says(&["llmscaler-sample created"]),
            run("kubectl get llms -A").says(&["llmscaler-sample 1 5"]),
            run("llmscaler doctor")
                .given("ready $(sed -n 's/^  namespace: //p;T;q' dist/install.yaml)")
                .says(&["0 problems, 0 warnings", "may do all that this scaler takes"]),
            run("helm install llmscaleoperator dist/chart --namespace serving").given("make undeploy").says(DEPLOYED),
            run("kubectl create clusterrolebinding llmscaleoperator-metrics-auth").says(&["created"]),
            run("kubectl create clusterrolebinding llmscaleoperator-scrape").says(&["created"]),
            run("helm upgrade llmscaleoperator dist/chart --namespace llmscaleoperator-system")
                .given(
                    "helm uninstall llmscaleoperator --namespace serving
                     helm install llmscaleoperator dist/chart --namespace llmscaleoperator-system",
                )
                .says(DEPLOYED),
            run("kubectl -n NAMESPACE delete deployment RELEASE").given(GO_OPERATOR).says(&["deleted"]),
            run("helm upgrade RELEASE dist/chart --namespace NAMESPACE").says(DEPLOYED),
            run("helm uninstall llmscaleoperator")
                .given(
                    "helm uninstall llm --namespace llmscaleoperator-system
                     helm install llmscaleoperator dist/chart --namespace llmscaleoperator-system --take-ownership",
                )
                .says(&["release \"llmscaleoperator\" uninstalled"])
                .then("kubectl get llms llmscaler-sample"),
        ],
        ..STORY
    },
    Story {
        page: "docs/release.md",
        place: Place::Cluster,
        steps: &[run("make deploy IMG=REGISTRY/llm-operator:TAG")
            .says(&["deployment.apps/llmscaleoperator-controller-manager serverside-applied"])
            .then("kubectl get pods -A -o yaml | grep 'image: registry.example.com/llm-operator:v1'\nmake undeploy")],
        ..STORY
    },
    Story {
        page: "docs/alerts.md",
        place: Place::Cluster,
        operator: true,
        steps: &[
            run("helm upgrade llmscaleoperator dist/chart")
                .given(
                    "without_resource
                     foreign_kind monitoring.coreos.com v1 ServiceMonitor servicemonitors
                     foreign_kind monitoring.coreos.com v1 PrometheusRule prometheusrules
                     helm install llmscaleoperator dist/chart --namespace llmscaleoperator-system",
                )
                .says(DEPLOYED)
                .then("kubectl get prometheusrules -n llmscaleoperator-system -l release=prometheus -o name | grep ."),
            run("llmscaler explain NAME -n NAMESPACE")
                .given("fleet chat 1\nscaler chat 'vector(3)'\ndecided chat")
                .says(&["serving/chat scales Deployment chat", "asks for 3 replicas"]),
            run("llmscaler doctor NAME -n NAMESPACE")
                .given("kubectl rollout status deployment/chat")
                .says(&["0 problems, 0 warnings", "may do all that this scaler takes"]),
            run("kubectl patch llms NAME -n NAMESPACE").says(&["llmscaler.autoscaling.modelsphere.dev/chat patched"]),
            run("kubectl scale deployment TARGET -n NAMESPACE")
                .says(&["deployment.apps/chat scaled"])
                .then("helm uninstall llmscaleoperator --namespace llmscaleoperator-system"),
        ],
        ..STORY
    },
];
