//! The inputs of the headroom law against a server that answers each query by itself.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what helps a test may fail it")]

use std::collections::BTreeMap;

use llmscaler_engine::{Bucket, Finished, InterToken, Late, Measurement, Rates, Traffic};
use llmscaler_signals::{Endpoint, PrometheusClient, Promised, TlsSettings, TrafficQueries, Transport};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

const PROMISED: Promised = Promised { ttft: 1.0, tpot: 0.05 };

/// The fields, each asked by its own name.
const FIELDS: [&str; 16] = [
    "arrivals15",
    "arrivals30",
    "arrivals60",
    "meanprompt",
    "lengths",
    "finished",
    "outputtokens",
    "outputlengths",
    "gap",
    "gaps",
    "waiting",
    "running",
    "usage",
    "capacity",
    "ttft",
    "tpot",
];

/// A server that answers only when all sixteen queries are there, with the vector that `result` has for each.
async fn serve(result: impl Fn(&str) -> Option<String> + Send + 'static) -> PrometheusClient {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut asked = Vec::new();
        while asked.len() < FIELDS.len() {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            let line = String::from_utf8_lossy(&request[..length]).lines().next().unwrap().to_owned();
            asked.push((stream, line.split(['=', ' ']).nth(2).unwrap().to_owned()));
        }
        for (mut stream, query) in asked {
            let (status, body) = match result(&query) {
                Some(result) => ("200 OK", format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{result}]}}}}"#)),
                None => ("503 Service Unavailable", String::new()),
            };
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        }
    });
    let transport = Transport::new(&TlsSettings::default()).unwrap();
    PrometheusClient::new(Endpoint::new(transport, &format!("http://{address}"), &BTreeMap::new()).unwrap())
}

fn queries() -> TrafficQueries {
    let [arrivals_15s, arrivals_30s, arrivals_60s, mean_prompt, prompt_lengths, finished, output_tokens, output_lengths, rest @ ..] =
        FIELDS.map(|field| Some(field.to_owned()));
    let [inter_token, inter_tokens, waiting, running, kv_usage, kv_capacity, ttft, tpot] = rest;
    TrafficQueries {
        arrivals_15s,
        arrivals_30s,
        arrivals_60s,
        mean_prompt,
        prompt_lengths,
        finished,
        output_tokens,
        output_lengths,
        inter_token,
        inter_tokens,
        waiting,
        running,
        kv_usage,
        kv_capacity,
        ttft,
        tpot,
    }
}

fn value(number: &str) -> String {
    format!(r#"{{"metric":{{}},"value":[1,"{number}"]}}"#)
}

fn by_le(buckets: &[(&str, &str)]) -> String {
    let each: Vec<_> = buckets.iter().map(|(le, count)| format!(r#"{{"metric":{{"le":"{le}"}},"value":[1,"{count}"]}}"#)).collect();
    each.join(",")
}

fn answer(query: &str) -> String {
    match query {
        "arrivals15" => value("4"),
        "arrivals30" => value("3"),
        "arrivals60" => value("2"),
        "meanprompt" => value("500"),
        "lengths" => by_le(&[("1000", "60"), ("2000", "60"), ("500", "20"), ("+Inf", "80")]),
        "finished" => value("240"),
        "outputtokens" => value("24000"),
        "outputlengths" => by_le(&[("50", "0"), ("150", "240"), ("+Inf", "240")]),
        "gap" => value("0.03"),
        "gaps" => value("1500"),
        "waiting" => value("7"),
        "running" => value("12"),
        "usage" => r#"{"metric":{"pod":"a","instance":"1:80"},"value":[1,"0.5"]}"#.to_owned(),
        "capacity" => r#"{"metric":{"pod":"a","instance":"1:80","num_gpu_blocks":"1000","block_size":"16"},"value":[1,"1"]}"#.to_owned(),
        "ttft" => by_le(&[("0.5", "20"), ("2", "50"), ("+Inf", "50")]),
        "tpot" => by_le(&[("0.04", "30"), ("0.06", "40"), ("+Inf", "40")]),
        other => panic!("{other}"),
    }
}

fn measured(value: f64) -> Measurement {
    Measurement::new(value).unwrap()
}

fn rates(over_15s: f64, over_30s: f64, over_60s: f64) -> Rates {
    Rates { over_15s: Some(measured(over_15s)), over_30s: Some(measured(over_30s)), over_60s: Some(measured(over_60s)) }
}

#[tokio::test]
async fn all_are_asked_at_once() {
    let prometheus = serve(|query| Some(answer(query))).await;
    let bucket = |upper, count| Bucket { upper, count };
    // Middles 250, 750 and the lower bound 2000 of what is above it: 20, 40 and 20 of them.
    let (mean, square) =
        ((20.0 * 250.0 + 40.0 * 750.0 + 20.0 * 2000.0) / 80.0_f64, (20.0 * 62_500.0 + 40.0 * 562_500.0 + 20.0 * 4_000_000.0) / 80.0);
    let found = prometheus.traffic(&queries(), &PROMISED).await;
    let variation = found.prompt_variation.unwrap().get();
    assert!((variation - (square / (mean * mean) - 1.0)).abs() < 1e-12, "{variation}");
    let share = |late: Option<Late>| late.unwrap().share.get();
    assert!((share(found.late_tpot) - 5.0 / 40.0).abs() < 1e-12, "half of those in (0.04, 0.06]");
    let expected = Traffic {
        arrivals: rates(4.0, 3.0, 2.0),
        prompt_tokens: rates(2000.0, 1500.0, 1000.0),
        prompt_variation: found.prompt_variation,
        prompt_lengths: Some(vec![bucket(500.0, 20.0), bucket(1000.0, 40.0), bucket(2000.0, 0.0), bucket(f64::INFINITY, 20.0)]),
        finished: Some(Finished { requests: measured(240.0), output_tokens: measured(24_000.0) }),
        median_output: Some(measured(100.0)),
        inter_token: Some(InterToken { mean: measured(0.03), count: measured(1500.0) }),
        waiting: Some(measured(7.0)),
        kv_capacity: Some(measured(16_000.0)),
        kv_used: Some(measured(8000.0)),
        running: Some(measured(12.0)),
        // Two thirds of the 30 in (0.5, 2].
        late_ttft: Some(Late { share: measured(0.4), of: measured(50.0) }),
        late_tpot: found.late_tpot,
    };
    assert_eq!(found, expected);
}

#[tokio::test]
async fn each_fails_alone() {
    let whole = serve(|query| Some(answer(query))).await.traffic(&queries(), &PROMISED).await;
    for fails in FIELDS {
        // No answer, none with a series, and one that is no number.
        for how in [None, Some(String::new()), Some(value("NaN"))] {
            let prometheus = serve(move |query| if query == fails { how.clone() } else { Some(answer(query)) }).await;
            let found = prometheus.traffic(&queries(), &PROMISED).await;
            let mut expected = whole.clone();
            match fails {
                "arrivals15" => (expected.arrivals.over_15s, expected.prompt_tokens.over_15s) = (None, None),
                "arrivals30" => (expected.arrivals.over_30s, expected.prompt_tokens.over_30s) = (None, None),
                "arrivals60" => (expected.arrivals.over_60s, expected.prompt_tokens.over_60s) = (None, None),
                "meanprompt" => expected.prompt_tokens = Rates::default(),
                "lengths" => (expected.prompt_variation, expected.prompt_lengths) = (None, None),
                "finished" | "outputtokens" => expected.finished = None,
                "outputlengths" => expected.median_output = None,
                "gap" | "gaps" => expected.inter_token = None,
                "waiting" => expected.waiting = None,
                "running" => expected.running = None,
                "usage" => expected.kv_used = None,
                "capacity" => (expected.kv_capacity, expected.kv_used) = (None, None),
                "ttft" => expected.late_ttft = None,
                _ => expected.late_tpot = None,
            }
            assert_eq!(found, expected, "{fails}");
        }
    }
}

#[tokio::test]
async fn without_arrivals_there_are_no_tokens_and_without_a_query_nothing() {
    let zero = |query: &str| match query {
        "arrivals15" | "arrivals30" | "arrivals60" => Some(value("0")),
        "meanprompt" => Some(value("NaN")),
        _ => None,
    };
    let found = serve(zero).await.traffic(&queries(), &PROMISED).await;
    let expected = Traffic { arrivals: rates(0.0, 0.0, 0.0), prompt_tokens: rates(0.0, 0.0, 0.0), ..Traffic::default() };
    assert_eq!(found, expected, "a rate that was read as 0 is a real 0");

    let transport = Transport::new(&TlsSettings::default()).unwrap();
    let nobody = PrometheusClient::new(Endpoint::new(transport, "http://127.0.0.1:9", &BTreeMap::new()).unwrap());
    assert_eq!(nobody.traffic(&TrafficQueries::default(), &PROMISED).await, Traffic::default());
}
