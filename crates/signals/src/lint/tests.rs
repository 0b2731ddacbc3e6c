use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

fn problems(query: &str) -> Vec<Problem> {
    lint(query).into_iter().map(|finding| finding.problem).collect()
}

#[test]
fn the_table() {
    use Problem::*;
    for (query, expected) in [
        // Scoped, and one series.
        (r#"sum(vllm:num_requests_waiting{namespace="a"})"#, vec![]),
        (r#"sum(rate(vllm:prompt_tokens_total{namespace=~"a|b"}[1m]))"#, vec![]),
        (r#"histogram_quantile(0.9, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket{namespace="a"}[1m])))"#, vec![]),
        (r#"sum(llm_d_epp_request_running{namespace="a", service="pool-a-epp"})"#, vec![]),
        (r#"max(x{namespace="a"}) / on () group_left sum(y{k8s_namespace_name="a"})"#, vec![]),
        (r#"topk(1, x{namespace="a"})"#, vec![]),
        (r#"avg_over_time(sum(x{namespace="a"})[45s:15s])"#, vec![]),
        (r#"sum(x{namespace="a"}) > 3 and vector(time()) > 0 or vector(1)"#, vec![InventedValue]),
        ("1", vec![]),
        // The namespace.
        ("sum(vllm:num_requests_waiting)", vec![NoNamespace]),
        (r#"sum(x{namespace=""})"#, vec![NoNamespace]),
        (r#"sum(x{namespace=~".*"})"#, vec![NoNamespace]),
        (r#"sum(x{namespace=~".+"})"#, vec![NoNamespace]),
        (r#"sum(x{namespace!="kube-system"})"#, vec![NoNamespace]),
        (r#"sum(x{exported_namespace="a"})"#, vec![]),
        (r#"sum(x{job="namespace=\"a\""}) # {namespace="a"}"#, vec![NoNamespace]),
        (r#"sum(x{namespace="a"}) / sum(y)"#, vec![NoNamespace]),
        (r#"sum(x{namespace="a"} and on (pod) y{pod=~"a.*"}) + sum(z)"#, vec![NoNamespace, NoNamespace]),
        (r#"sum(rate(x[1m])) + max_over_time(sum(y)[5m:])"#, vec![NoNamespace, NoNamespace]),
        (r#"sum({namespace="a", __name__=~"x|y"})"#, vec![]),
        (r#"sum({x="a" or namespace="b"})"#, vec![NoNamespace]),
        // The EPP.
        (r#"sum(llm_d_epp_request_running{namespace="a"})"#, vec![NoService]),
        (r#"sum(inference_objective_running_requests{namespace="a", model_name="q"})"#, vec![NoService]),
        (r#"sum(llm_d_router_epp_request_running{namespace="a", service=~".*"})"#, vec![NoService]),
        (r#"sum({__name__=~"llm_d_epp_request_running|x", namespace="a"})"#, vec![NoService]),
        (r#"sum({"llm_d_epp_request_running", namespace="a"})"#, vec![NoService]),
        (r#"sum({__name__=~"llm_d_epp_request_.*", __name__!~".*running", namespace="a"})"#, vec![]),
        ("sum(llm_d_epp_request_running)", vec![NoNamespace, NoService]),
        (r#"sum(llm_d_epp_flow_control_queue_size{namespace="a"})"#, vec![]),
        // Recording rules.
        ("epp:saturation:smoothed", vec![RecordingRule, SeveralSeries]),
        ("max(job:latency)", vec![RecordingRule]),
        (r#"max(epp:saturation:smoothed{service="a"})"#, vec![RecordingRule]),
        (r#"max(epp:saturation:smoothed{namespace="a"})"#, vec![]),
        ("max(vllm:queue:mean)", vec![RecordingRule]),
        // Several series.
        (r#"x{namespace="a"}"#, vec![SeveralSeries]),
        (r#"sum by (pod) (x{namespace="a"})"#, vec![SeveralSeries]),
        (r#"sum without (pod) (x{namespace="a"})"#, vec![SeveralSeries]),
        (r#"topk(2, x{namespace="a"})"#, vec![SeveralSeries]),
        (r#"count_values("v", x{namespace="a"})"#, vec![SeveralSeries]),
        (r#"clamp_max(rate(x{namespace="a"}[1m]), 2)"#, vec![SeveralSeries]),
        (r#"histogram_quantile(0.9, sum by (le, pod) (rate(x{namespace="a"}[1m])))"#, vec![SeveralSeries]),
        (r#"2 * x{namespace="a"}"#, vec![SeveralSeries]),
        (r#"sum(x{namespace="a"}) or y{namespace="a"}"#, vec![SeveralSeries]),
        (r#"sum(x{namespace="a"}) * on () group_right y{namespace="a"}"#, vec![SeveralSeries]),
        // Invented values.
        (r#"sum(x{namespace="a"}) or vector(0)"#, vec![InventedValue]),
        (r#"sum(x{namespace="a"}) or on () (vector(0))"#, vec![InventedValue]),
        // The rules of the guide, all in one.
        (
            "((histogram_quantile(0.9, sum(rate(llm_d_epp_request_predicted_ttft_seconds_bucket[1m])) by (le)) >= 0) or \
             (histogram_quantile(0.9, sum(rate(llm_d_epp_request_ttft_seconds_bucket[1m])) by (le)) >= 0)) or vector(0)",
            vec![NoNamespace, NoNamespace, InventedValue],
        ),
        // No PromQL.
        ("", vec![NotPromQl]),
        ("sum(", vec![NotPromQl]),
        ("rate(x)", vec![NotPromQl]),
        (r#"sum(x{namespace=~"("})"#, vec![NotPromQl]),
        ("sum(x) keep_metric_names", vec![NotPromQl]),
        ("x[1e999]", vec![NotPromQl]),
        ("x offset 1e30", vec![NotPromQl]),
    ] {
        assert_eq!(problems(query), expected, "{query}");
    }
}

#[test]
fn each_finding_says_where_and_what_to_write() {
    let long = format!("sum(x{{namespace=\"a\", pod=~\"{}\"}})", "p".repeat(20_000));
    let queries = [
        "sum(rate(vllm:prompt_tokens_total{model_name=\"qwen\"}[1m]))",
        "sum(llm_d_epp_request_running{namespace=\"a\"})",
        "epp:saturation:smoothed",
        "sum(x{namespace=\"a\"}) or vector(0)",
        "rate(x)",
        "((",
        long.as_str(),
    ];
    let said: Vec<String> = queries.iter().flat_map(|query| lint(query)).map(|finding| format!("[{}] {finding}", finding.place)).collect();
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn the_condition_is_about_pools_and_not_about_hints() {
    assert!(scoped(r#"x{namespace="a"} or vector(0)"#).is_ok());
    assert_eq!(scoped("x or vector(0)").unwrap_err().len(), 1);
    assert!(scoped("sum(").unwrap_err()[0].unreadable());
}

/// The most expensive queries of the largest size, on the stack of a worker thread.
#[test]
fn the_largest_queries_take_little_time_and_stack() {
    let nested = |open: &str, count: usize| format!("{}a{}", open.repeat(count), ")".repeat(count));
    let tokens = size::MOST_TOKENS;
    for query in [
        vec!["1"; tokens / 2].join("+"),
        vec!["1"; tokens / 2].join("^"),
        vec!["a"; tokens / 2].join(" or "),
        format!("{}a", "-".repeat(tokens - 1)),
        nested("(", tokens / 2 - 1),
        nested("sum(", tokens / 3 - 1),
        nested("abs(", tokens / 3 - 1),
        format!("a{{{}}}", vec!["b=~\"(a{100}){100}\""; size::MOST_EXPRESSIONS].join(",")),
        "a".repeat(size::LONGEST),
    ] {
        let begun = Instant::now();
        let shown = excerpt(&query, 40);
        let findings = std::thread::Builder::new().stack_size(1 << 20).spawn(move || problems(&query)).unwrap().join().unwrap();
        assert!(!findings.contains(&Problem::TooLarge), "{shown}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{shown}: {:?}", begun.elapsed());
    }
    for query in ["(".repeat(tokens + 1), "a".repeat(size::LONGEST + 1), "-".repeat(1 << 24)] {
        assert_eq!(problems(&query), [Problem::TooLarge]);
    }
}

/// Pieces of PromQL, so that some of what comes together is read to the end.
fn pieces() -> impl Strategy<Value = String> {
    const PIECES: [&str; 48] = [
        "sum",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        "[5m]",
        "[5m:1m]",
        " by ",
        "le",
        "namespace",
        "=",
        "=~",
        "!~",
        "!=",
        "\"a\"",
        "'",
        "\"",
        "`",
        "\\",
        ",",
        " or ",
        " and ",
        " on ",
        " group_left ",
        " bool ",
        "vector(0)",
        "rate",
        "x",
        "epp:a:b",
        "1",
        "0x",
        "1e999",
        "Inf",
        "NaN",
        "-",
        "+",
        "/",
        "^",
        " offset ",
        "99999999999y",
        " @ ",
        "start()",
        "#",
        "\n",
        "é",
        "\u{0}",
    ];
    proptest::collection::vec(proptest::sample::select(PIECES.as_slice()), 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_text_is_judged_without_panic(query in prop_oneof![any::<String>(), pieces()]) {
        let _ = lint(&query);
    }

    #[test]
    fn a_damaged_query_is_judged_without_panic(at in 0_usize..400, piece in pieces()) {
        let preset = Preset::named("llm-d-EPP").unwrap();
        let scope = crate::preset::Scope::new("serving", [("service", "pool-a-epp")]);
        let mut query = preset.query(Signal::QueuedRequests, crate::preset::Aggregate::PerReplica, &scope).unwrap();
        query.insert_str(query.floor_char_boundary(at.min(query.len())), &piece);
        let _ = lint(&query);
    }
}
