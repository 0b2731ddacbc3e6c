//! The latencies that users are promised, and the proof that there is nothing to measure.
//!
//! A quantile over no requests is NaN, and so is one over requests of which none has finished. The first pool is idle and may
//! shrink; the second may be stuck and must not. Only the requests in flight tell the two apart, so they are asked for in the same
//! sync: see [`latency_reading`].

use llmscaler_engine::Reading;

use crate::excerpt::{LONGEST_NAME, excerpt};
use crate::prometheus::{self, PrometheusClient};

/// What came back for a quantile, or for a saturation.
#[derive(Clone, Debug, PartialEq)]
pub enum Quantile {
    /// A number; NaN where nothing was observed.
    Of(f64),
    /// An answer without a series.
    NoSeries,
    /// No answer, or one that cannot be used, with the reason.
    Failed(String),
}

impl From<Result<f64, prometheus::Error>> for Quantile {
    fn from(number: Result<f64, prometheus::Error>) -> Self {
        match number {
            Ok(number) => Self::Of(number),
            Err(error) if error.is_no_series() => Self::NoSeries,
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

/// Reads the quantile of a latency in seconds (or a saturation), given the requests in flight, running and queued, of the same
/// pool. `what` names it in reasons: `P90 TTFT`.
///
/// | quantile | traffic is 0 | traffic is above 0 | traffic is unknown |
/// |---|---|---|---|
/// | finite, at least 0 | value | value | value |
/// | NaN, or no series | idle | unknown: the pool may be stuck | unknown |
/// | infinite or negative, or no answer | unknown | unknown | unknown |
///
/// A traffic of 0 has to come from live series; an empty answer is an unknown one. So the loss of a scrape is never idleness.
///
/// ```
/// use llmscaler_engine::Reading;
/// use llmscaler_signals::slo::{Quantile, latency_reading};
///
/// let idle = Reading::from_number(0.0);
/// assert_eq!(latency_reading("P90 TTFT", Quantile::Of(f64::NAN), &idle), Reading::Idle);
/// assert!(latency_reading("P90 TTFT", Quantile::Of(f64::NAN), &Reading::from_number(3.0)).is_unknown());
/// assert!(latency_reading("P90 TTFT", Quantile::NoSeries, &Reading::unknown("no data")).is_unknown());
/// ```
#[must_use]
pub fn latency_reading(what: &str, quantile: Quantile, traffic: &Reading) -> Reading {
    let nothing = match quantile {
        Quantile::Of(number) if number.is_nan() => "is NaN: no request was observed in its window",
        Quantile::Of(number) if number.is_finite() && number >= 0.0 => return Reading::from_number(number),
        Quantile::Of(number) => {
            return Reading::unknown(format!("{what} is {number}, which is no latency; run its query in the Prometheus UI"));
        }
        Quantile::NoSeries => "has no series",
        Quantile::Failed(why) => return Reading::unknown(format!("{what}: {why}")),
    };
    match traffic {
        Reading::Idle => Reading::Idle,
        Reading::Value(requests) if requests.get() == 0.0 => Reading::Idle,
        Reading::Value(requests) => {
            let requests = if requests.get() == 1.0 { "1 request is".to_owned() } else { format!("{requests} requests are") };
            Reading::unknown(format!(
                "{what} {nothing}, although {requests} running or queued; nothing has been answered, so the pool may be stuck: look at \
                 the logs of its pods"
            ))
        }
        Reading::Unknown(why) => {
            Reading::unknown(format!("{what} {nothing}, and whether the pool is idle is not known: {}", excerpt(why, LONGEST_NAME)))
        }
    }
}

/// The queries of one sync; those of a preset, or what overrides them. What has no query is not asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyQueries {
    /// Gives the quantile of TTFT in seconds.
    pub ttft: Option<String>,
    /// Gives the quantile of TPOT in seconds.
    pub tpot: Option<String>,
    /// Gives the requests in flight; without it nothing proves idleness.
    pub traffic: Option<String>,
}

/// What one sync knows of the two latencies; `None` for one that was not asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyReadings {
    /// TTFT in seconds.
    pub ttft: Option<Reading>,
    /// TPOT in seconds.
    pub tpot: Option<Reading>,
}

impl PrometheusClient {
    /// Asks for both latencies and the traffic at the same time; see [`latency_reading`].
    pub async fn latencies(&self, queries: &LatencyQueries) -> LatencyReadings {
        let (ttft, tpot, traffic) = tokio::join!(
            self.quantile(queries.ttft.as_deref()),
            self.quantile(queries.tpot.as_deref()),
            self.in_flight(queries.traffic.as_deref())
        );
        LatencyReadings {
            ttft: ttft.map(|quantile| latency_reading("the TTFT quantile", quantile, &traffic)),
            tpot: tpot.map(|quantile| latency_reading("the TPOT quantile", quantile, &traffic)),
        }
    }

    async fn quantile(&self, query: Option<&str>) -> Option<Quantile> {
        Some(self.query_number(query?).await.into())
    }

    /// Asks for a saturation (latency ÷ promise), and, where a query tells it, the traffic. NaN is idle only where that proves it.
    pub async fn saturation(&self, query: &str, traffic: Option<&str>) -> Reading {
        let (saturation, traffic) = tokio::join!(self.query_number(query), self.in_flight(traffic));
        latency_reading("the saturation", saturation.into(), &traffic)
    }

    async fn in_flight(&self, query: Option<&str>) -> Reading {
        match query {
            Some(query) => self.query_value(query).await,
            None => Reading::unknown("no preset tells the requests in flight; set spec.preset, so that idleness can be proved"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &[u8] = br#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;

    fn quantile(status: u16, body: &[u8]) -> Quantile {
        prometheus::read_number("q", status, body).into()
    }

    #[test]
    fn an_empty_answer_is_no_series_and_any_other_trouble_is_a_failure() {
        assert_eq!(quantile(200, EMPTY), Quantile::NoSeries);
        let nan = br#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"NaN"]}]}}"#;
        assert!(matches!(quantile(200, nan), Quantile::Of(number) if number.is_nan()));
        for (status, body) in [(500, EMPTY), (200, b"<html>".as_slice()), (200, br#"{"status":"error","error":"x"}"#)] {
            assert!(matches!(quantile(status, body), Quantile::Failed(_)), "{status}");
        }
    }

    #[test]
    fn idle_is_proved_and_never_assumed() {
        let none = || [Quantile::Of(f64::NAN), Quantile::NoSeries];
        let (zero, some, unknown) = (Reading::from_number(0.0), Reading::from_number(2.0), Reading::unknown("empty vector"));
        for quantile in none() {
            assert_eq!(latency_reading("P90 TTFT", quantile.clone(), &zero), Reading::Idle);
            assert_eq!(latency_reading("P90 TTFT", quantile, &Reading::Idle), Reading::Idle);
        }
        let one = Reading::from_number(1.0);
        // The lack of both, as when a scrape fails.
        for (traffic, says) in [
            (&some, "although 2 requests are running"),
            (&one, "although 1 request is running"),
            (&unknown, "whether the pool is idle is not known: empty vector"),
        ] {
            for quantile in none() {
                let Reading::Unknown(why) = latency_reading("P90 TTFT", quantile, traffic) else { panic!("{says}") };
                assert!(why.starts_with("P90 TTFT ") && why.contains(says), "{why}");
            }
        }
        for traffic in [&zero, &some, &unknown] {
            assert_eq!(latency_reading("P90 TTFT", Quantile::Of(0.25), traffic), Reading::from_number(0.25));
            for quantile in [Quantile::Of(f64::INFINITY), Quantile::Of(-1.0), Quantile::Failed("connection refused".to_owned())] {
                assert!(latency_reading("P90 TTFT", quantile, traffic).is_unknown(), "a failed query is not idle");
            }
        }
    }
}
