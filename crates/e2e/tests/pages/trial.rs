//! Pages for whoever tries it without a cluster of theirs.

use crate::story::{Place, STORY, Story, run};

/// A document for `llmscaler decide`.
const SCENARIO: &str = r#"cat >scenario.yaml <<'EOF'
scaler:
  apiVersion: autoscaling.modelsphere.dev/v1alpha1
  kind: LLMScaler
  metadata: {name: chat}
  spec:
    targetRef: {apiVersion: apps/v1, kind: Deployment, name: chat}
    serverAddress: http://prometheus.example.com
    minReplicas: 1
    maxReplicas: 8
    metrics: [{name: kv, query: sum(kv), target: "0.8"}]
ticks: [{at: 0, target: {replicas: 2}, readings: {kv: {value: 0.9}}}]
EOF"#;

/// A trace: ten minutes of a request a second.
const TRACE: &str = "{ echo t_seconds,prompt_tokens,output_tokens; seq 0 600 | sed 's/$/,900,200/'; } >mine.csv";

const BEGUN: &str = "What happens, by the demo's own clock:";
const ENDED: &[&str] = &["dashboard http://127.0.0.1:", "requests to each fleet:", "fleet in time late lost GPU-hours"];

pub const STORIES: [Story; 4] = [
    Story {
        page: "CONTRIBUTING.md",
        steps: &[run("make demo").goes_on(BEGUN).says(ENDED), run("make help").says(&["demo Watch the operator", "test-unit"])],
        ..STORY
    },
    Story {
        page: "docs/demo.md",
        steps: &[
            run("make demo").goes_on(BEGUN).says(ENDED),
            run("llmscaler demo --scenario ramp --scaler config/samples/")
                .goes_on(BEGUN)
                .says(&["my-llmscaler-queue-and-running-sample is yours", "fleet in time late lost GPU-hours"]),
        ],
        ..STORY
    },
    Story {
        page: "docs/simulate.md",
        steps: &[
            run("llmscaler simulate ").says(&["headroom 0.99 is the cheapest policy here"]),
            run("llmscaler simulate --list").says(&["ramp-warm"]),
            run("llmscaler simulate --trace mine.csv --multiply 10")
                .given(TRACE)
                .says(&["mine x10 ±60 s: trace mine (601 requests in 10 min)", "first token within 1.00 s, then 50 ms per token"]),
            run("llmscaler simulate --traffic").says(&["bursts:rate=5,seconds=2h: 2 h of 5 requests/s", "* headroom 0.99"]),
            run("llmscaler simulate --scaler mine.yaml")
                .given("sed 's/^  name: .*/  name: mine/' config/samples/autoscaling_v1alpha1_llmscaler_queueandrunning.yaml >mine.yaml")
                .says(&["mine", "in-flight 32", "static 8"])
                .then("grep '<table' comparison.html"),
            run("llmscaler simulate --tune headroom").says(&["Tuned: headroom on ramp", "Tuned: in-flight on ramp"]),
            run("llmscaler simulate").as_shown(),
            run("llmscaler simulate --policy headroom").says(&["in-flight 40 was the best there", "in-flight 40 99.06 (95.3-100)"]),
        ],
        ..STORY
    },
    Story {
        page: "docs/quick-starts.md",
        place: Place::Namespace,
        // "I have Prometheus and vLLM".
        files: &[("chat.yaml", "preset: {name: vLLM, matchLabels: {model_name: qwen3-32b}}")],
        series: &[
            ("vllm:num_requests_running", &[("model_name", "qwen3-32b"), ("pod", "chat-a")], 40.0),
            ("vllm:num_requests_waiting", &[("model_name", "qwen3-32b"), ("pod", "chat-a")], 0.0),
        ],
        operator: true,
        steps: &[
            run("make demo").goes_on(BEGUN).says(ENDED),
            run("llmscaler demo --scenario outage").goes_on(BEGUN).says(ENDED),
            run("llmscaler simulate ").says(&["headroom 0.99 is the cheapest policy here"]),
            run("llmscaler decide scenario.yaml -o text").given(SCENARIO).says(&["writes 3; SuccessfulRescale"]),
            run("llmscaler simulate --trace mine.csv").given(TRACE).says(&["mine: trace mine (601 requests in 10 min)"]),
            run("kubectl apply --server-side -f chat.yaml").given("fleet chat 1").says(&["chat serverside-applied"]),
            run("llmscaler doctor chat")
                .given("decided chat\nkubectl rollout status deployment/chat")
                .says(&["0 problems, 0 warnings", "preset vLLM, seen in namespace serving: vllm:num_requests_running"]),
            run("llmscaler explain chat").says(&["running 40 in total, at 16 a replica: asks for 3 replicas", "Decision"]),
        ],
        ..STORY
    },
];
