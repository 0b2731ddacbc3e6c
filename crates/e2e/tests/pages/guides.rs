//! Guides whose commands are about one scaler.

use crate::story::{Place, STORY, Story, run};

/// An operator that the API server reaches by a Service, on a port that is free.
const EXTERNAL_METRICS: &str = "kubectl create service externalname external --external-name=localhost
    llmscaler operator --watch-namespace=serving --health-probe-bind-address=127.0.0.1:0 \\
      --external-metrics-bind-address=127.0.0.1:8082 --external-metrics-service-port=8082 \\
      --external-metrics-service-name=external --external-metrics-service-namespace=serving &
    fleet chat 1
    sed \"s|serverAddress: .*|serverAddress: $PROMETHEUS|\" chat.yaml | kubectl apply -f -
    eventually kubectl get --raw /apis/external.metrics.k8s.io/v1beta1/namespaces/serving/llmscaler-chat-queue?labelSelector=scaler=chat";

pub const STORIES: [Story; 5] = [
    Story {
        page: "docs/guides/credentials.md",
        place: Place::Namespace,
        steps: &[
            run("kubectl create secret generic prometheus-token").given("TOKEN=abc").says(&["secret/prometheus-token created"]),
            run("kubectl create configmap prometheus-ca")
                .given(
                    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \\
                       -subj /CN=client -keyout client.key -out client.crt
                     cp client.crt ca.crt",
                )
                .says(&["configmap/prometheus-ca created"]),
            run("kubectl create secret tls llmscaler-client").says(&["secret/llmscaler-client created"]),
        ],
        ..STORY
    },
    Story {
        page: "docs/guides/hpa.md",
        // A cluster has one External Metrics API.
        place: Place::Cluster,
        files: &[("chat.yaml", "actuation: HorizontalPodAutoscaler")],
        series: &[("llm_d_epp_flow_control_queue_size", &[("service", "chat-epp")], 6.0)],
        steps: &[run("kubectl get --raw '/apis/external.metrics.k8s.io/")
            .given(EXTERNAL_METRICS)
            .says(&[r#""metricName":"llmscaler-chat-queue""#, r#""value":"6""#])
            // Left behind, it makes the deletion of namespaces hang.
            .then("kubectl delete apiservice v1beta1.external.metrics.k8s.io")],
        ..STORY
    },
    Story {
        page: "docs/guides/queue-and-running.md",
        place: Place::Namespace,
        operator: true,
        files: &[("chat.yaml", "metadata: {name: chat}")],
        steps: &[run("kubectl get llms chat -o jsonpath")
            .given(
                "fleet chat 1
                 sed 's/service: chat-epp/inference_pool: chat/' chat.yaml | kubectl apply -f -
                 eventually kubectl wait llms/chat --for=condition=QueriesScoped=False",
            )
            .as_shown()],
        ..STORY
    },
    Story {
        page: "docs/guides/slo.md",
        place: Place::Namespace,
        operator: true,
        files: &[("qwen3.yaml", "metadata: {name: qwen3-32b}")],
        steps: &[
            run("kubectl get llms")
                .given("fleet qwen3-32b-decode 3\nkubectl apply -f qwen3.yaml\ndecided qwen3-32b")
                .says(&["NAME MINREPLICAS MAXREPLICAS CURRENTREPLICAS DESIREDREPLICAS READY AGE", "qwen3-32b 3 8 3 3"]),
            run("kubectl events --for llms/qwen3-32b").says(&["LAST SEEN TYPE REASON OBJECT MESSAGE", "LLMScaler/qwen3-32b"]),
            run("kubectl patch deployment qwen3-32b-decode --patch-file").says(&["deployment.apps/qwen3-32b-decode patched"]),
        ],
        ..STORY
    },
    Story {
        page: "docs/vllm-mock.md",
        place: Place::Namespace,
        operator: true,
        steps: &[
            run("helm install opt test/charts/vllm-mock").says(&["STATUS: deployed"]),
            run("kubectl -n serving rollout status deployment/opt-vllm").says(&["successfully rolled out"]),
            run("kubectl -n serving get llms opt-scaler --watch").goes_on("opt-scaler"),
        ],
        ..STORY
    },
];
