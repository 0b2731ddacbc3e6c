//! The latencies and the traffic of one sync against a server that answers none before it has been asked for all.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what helps a test may fail it")]

use std::collections::BTreeMap;

use llmscaler_engine::Reading;
use llmscaler_signals::slo::{LatencyQueries, LatencyReadings};
use llmscaler_signals::{Endpoint, PrometheusClient, TlsSettings, Transport};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Answers `count` requests, all at once, each with the result that `result` has for its first line.
async fn serve(count: usize, result: fn(&str) -> &'static str) -> PrometheusClient {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut asked = Vec::new();
        while asked.len() < count {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            asked.push((stream, String::from_utf8_lossy(&request[..length]).lines().next().unwrap().to_owned()));
        }
        for (mut stream, line) in asked {
            let body = format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{}]}}}}"#, result(&line));
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        }
    });
    let transport = Transport::new(&TlsSettings::default()).unwrap();
    PrometheusClient::new(Endpoint::new(transport, &format!("http://{address}"), &BTreeMap::new()).unwrap())
}

fn queries(traffic: Option<&str>) -> LatencyQueries {
    LatencyQueries { ttft: Some("ttft".to_owned()), tpot: Some("tpot".to_owned()), traffic: traffic.map(str::to_owned) }
}

#[tokio::test]
async fn all_three_are_asked_at_once() {
    let prometheus = serve(3, |line| match line.split('=').nth(1).unwrap() {
        query if query.starts_with("ttft") => r#"{"value":[1,"0.25"]}"#,
        query if query.starts_with("tpot") => r#"{"value":[1,"NaN"]}"#,
        _ => r#"{"value":[1,"0"]}"#,
    })
    .await;
    let readings = prometheus.latencies(&queries(Some("traffic"))).await;
    assert_eq!(readings, LatencyReadings { ttft: Some(Reading::from_number(0.25)), tpot: Some(Reading::Idle) });
}

#[tokio::test]
async fn without_a_traffic_query_nothing_is_idle() {
    let prometheus = serve(2, |_| r#"{"value":[1,"NaN"]}"#).await;
    let readings = prometheus.latencies(&queries(None)).await;
    let LatencyReadings { ttft: Some(Reading::Unknown(ttft)), tpot: Some(Reading::Unknown(_)) } = readings else {
        panic!("idle without proof: {readings:?}");
    };
    assert!(ttft.contains("set spec.preset"), "{ttft}");
}

#[tokio::test]
async fn what_was_not_promised_is_not_asked() {
    let prometheus = serve(2, |line| if line.contains("ttft") { r#"{"value":[1,"0.25"]}"# } else { r#"{"value":[1,"3"]}"# }).await;
    let readings = prometheus.latencies(&LatencyQueries { tpot: None, ..queries(Some("traffic")) }).await;
    assert_eq!(readings, LatencyReadings { ttft: Some(Reading::from_number(0.25)), tpot: None });
}

#[tokio::test]
async fn a_saturation_is_idle_only_with_proof() {
    let prometheus = serve(2, |line| if line.contains("traffic") { r#"{"value":[1,"0"]}"# } else { r#"{"value":[1,"NaN"]}"# }).await;
    assert_eq!(prometheus.saturation("s", Some("traffic")).await, Reading::Idle);
    let prometheus = serve(2, |line| if line.contains("traffic") { "" } else { r#"{"value":[1,"NaN"]}"# }).await;
    assert!(prometheus.saturation("s", Some("traffic")).await.is_unknown(), "an empty answer proves nothing");
    let prometheus = serve(1, |_| r#"{"value":[1,"0.7"]}"#).await;
    assert_eq!(prometheus.saturation("s", None).await, Reading::from_number(0.7));
}
