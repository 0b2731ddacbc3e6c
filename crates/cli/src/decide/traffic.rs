//! What was measured of a pool's traffic at one tick, for the headroom law.

use std::time::Duration;

use llmscaler_api::Invalid;
use llmscaler_engine::{Bucket, Finished, InterToken, Late, Measurement, Rates, Reading, Traffic};

use super::node::{Fields, Node};

/// The keys of what was measured of the traffic.
const MEASURED: [&str; 21] = [
    "lambda15",
    "lambda30",
    "lambda60",
    "pi15",
    "pi30",
    "pi60",
    "c2",
    "hist",
    "done",
    "otok",
    "o50",
    "itl",
    "itl_n",
    "wait",
    "kv_cap",
    "kv",
    "run",
    "late_ttft",
    "late_ttft_n",
    "late_tpot",
    "late_tpot_n",
];
/// The key of the saturation, which the law falls back to.
const SATURATION: &str = "s";
/// The key of the warm-up.
const WARMUP: &str = "t_w";

/// What one tick shows to the headroom law.
#[derive(Debug)]
pub struct Seen {
    /// The saturation of the pool.
    pub saturation: Reading,
    /// `None` when nothing of it was measured.
    pub traffic: Option<Box<Traffic>>,
    /// How long the pod that became ready last took.
    pub warmup: Option<Duration>,
}

/// Every key that a headroom reading may have.
pub fn keys() -> impl Iterator<Item = &'static str> {
    MEASURED.into_iter().chain([SATURATION, WARMUP])
}

/// Reads what the law measures, each part of which may be missing.
pub fn read(fields: &Fields<'_>) -> Result<Seen, Invalid> {
    let saturation = match fields.get(SATURATION) {
        Some(node) => Reading::from_number(node.number()?),
        None => Reading::unknown("the document has no s at this tick"),
    };
    let warmup = fields.get(WARMUP).map(|node| node.duration()).transpose()?;
    let measured = MEASURED.iter().any(|key| fields.get(key).is_some());
    let traffic = if measured { Some(Box::new(traffic(fields)?)) } else { None };
    Ok(Seen { saturation, traffic, warmup })
}

fn traffic(fields: &Fields<'_>) -> Result<Traffic, Invalid> {
    let measured = |key: &str| fields.get(key).map(|node| measurement(&node)).transpose();
    let share = |key: &str| fields.get(key).map(|node| share(&node)).transpose();
    Ok(Traffic {
        arrivals: Rates { over_15s: measured("lambda15")?, over_30s: measured("lambda30")?, over_60s: measured("lambda60")? },
        prompt_tokens: Rates { over_15s: measured("pi15")?, over_30s: measured("pi30")?, over_60s: measured("pi60")? },
        prompt_variation: measured("c2")?,
        prompt_lengths: fields.get("hist").map(|node| buckets(&node)).transpose()?,
        finished: both(measured("done")?, measured("otok")?, |requests, output_tokens| Finished { requests, output_tokens }),
        median_output: measured("o50")?,
        inter_token: both(measured("itl")?, measured("itl_n")?, |mean, count| InterToken { mean, count }),
        waiting: measured("wait")?,
        kv_capacity: measured("kv_cap")?,
        kv_used: measured("kv")?,
        running: measured("run")?,
        late_ttft: both(share("late_ttft")?, measured("late_ttft_n")?, |share, of| Late { share, of }),
        late_tpot: both(share("late_tpot")?, measured("late_tpot_n")?, |share, of| Late { share, of }),
    })
}

/// Two figures that say something only together.
fn both<T>(one: Option<Measurement>, other: Option<Measurement>, of: impl Fn(Measurement, Measurement) -> T) -> Option<T> {
    Some(of(one?, other?))
}

/// What can be measured.
const MEASURABLE: &str = "a finite number of at least 0, without quotes, or leave it out";

fn measurement(node: &Node<'_>) -> Result<Measurement, Invalid> {
    let number = node.number_of(MEASURABLE)?;
    Measurement::new(number).ok_or_else(|| node.invalid(format!("is {number}; write {MEASURABLE}")))
}

fn share(node: &Node<'_>) -> Result<Measurement, Invalid> {
    let share = measurement(node)?;
    if share.get() > 1.0 { Err(node.invalid(format!("is {share}; write a share from 0 to 1"))) } else { Ok(share) }
}

/// Where a bucket may end.
const UPPER: &str = "the largest length in tokens, above 0, or Inf";

/// `[[upper, count], …]`, in any order.
fn buckets(node: &Node<'_>) -> Result<Vec<Bucket>, Invalid> {
    let mut buckets: Vec<Bucket> = Vec::new();
    for node in node.list()? {
        let pair: Vec<Node<'_>> = node.list()?.collect();
        let [upper_node, count] = pair.as_slice() else {
            return Err(node.invalid("is no bucket; write [upper, count]: the largest length in tokens and how many arrived"));
        };
        let upper = upper_node.number_of(UPPER)?;
        if upper.is_nan() || upper <= 0.0 {
            return Err(upper_node.invalid(format!("is {upper}; write {UPPER}")));
        }
        if buckets.iter().any(|bucket| bucket.upper == upper) {
            return Err(upper_node.invalid(format!("there is a bucket up to {upper} already; add the two counts")));
        }
        buckets.push(Bucket { upper, count: measurement(count)?.get() });
    }
    buckets.sort_by(|a, b| a.upper.total_cmp(&b.upper));
    Ok(buckets)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn seen(given: Value) -> Result<Seen, Invalid> {
        let known: Vec<&str> = keys().collect();
        read(&Node::root(&given).fields(&known).unwrap())
    }

    /// Every key once, with a number of its own.
    fn everything() -> Value {
        let mut all = serde_json::Map::new();
        for (index, key) in MEASURED.iter().enumerate() {
            all.insert((*key).to_owned(), json!(index + 1));
        }
        all["hist"] = json!([["Inf", 0], [64, 7], [32, 3]]);
        all["late_ttft"] = json!(0.25);
        all["late_tpot"] = json!(1);
        all.insert("s".to_owned(), json!(0.5));
        all.insert("t_w".to_owned(), json!(135.5));
        all.into()
    }

    #[test]
    fn each_key_has_its_place() {
        let at = |value: f64| Measurement::new(value).unwrap();
        let some = |value: f64| Some(at(value));
        let seen = seen(everything()).unwrap();
        let bucket = |upper, count| Bucket { upper, count };
        let expected = Traffic {
            arrivals: Rates { over_15s: some(1.0), over_30s: some(2.0), over_60s: some(3.0) },
            prompt_tokens: Rates { over_15s: some(4.0), over_30s: some(5.0), over_60s: some(6.0) },
            prompt_variation: some(7.0),
            prompt_lengths: Some(vec![bucket(32.0, 3.0), bucket(64.0, 7.0), bucket(f64::INFINITY, 0.0)]),
            finished: Some(Finished { requests: at(9.0), output_tokens: at(10.0) }),
            median_output: some(11.0),
            inter_token: Some(InterToken { mean: at(12.0), count: at(13.0) }),
            waiting: some(14.0),
            kv_capacity: some(15.0),
            kv_used: some(16.0),
            running: some(17.0),
            late_ttft: Some(Late { share: at(0.25), of: at(19.0) }),
            late_tpot: Some(Late { share: at(1.0), of: at(21.0) }),
        };
        assert_eq!((seen.traffic.as_deref(), seen.saturation), (Some(&expected), Reading::from_number(0.5)));
        assert_eq!(seen.warmup, Some(Duration::from_millis(135_500)));
    }

    #[test]
    fn what_is_left_out_is_unknown() {
        let nothing = seen(json!({})).unwrap();
        assert!(nothing.saturation.is_unknown() && nothing.traffic.is_none() && nothing.warmup.is_none());
        assert!(seen(json!({"s": 0.4, "t_w": 100})).unwrap().traffic.is_none(), "neither is traffic");
        for half in ["done", "otok", "itl", "itl_n", "late_ttft", "late_ttft_n", "late_tpot", "late_tpot_n"] {
            assert_eq!(seen(json!({half: 1})).unwrap().traffic.as_deref(), Some(&Traffic::default()), "{half} says nothing alone");
        }
        let zero = seen(json!({"lambda60": 0})).unwrap().traffic.unwrap();
        assert_eq!(zero.arrivals.over_60s, Some(Measurement::ZERO), "a rate that was read as 0 is known");
    }

    #[test]
    fn nobody_is_told_to_write_what_is_refused_next() {
        for given in [json!({"lambda15": "45"}), json!({"lambda15": "NaN"}), json!({"hist": [["64", 1]]})] {
            let message = seen(given.clone()).unwrap_err().message;
            let (_, advice) = message.split_once("; write ").unwrap();
            assert!(!advice.contains("NaN") && !advice.contains("-Inf"), "{given}: {message}");
        }
    }

    #[test]
    fn refusals_name_the_field() {
        for (given, field) in [
            (json!({"lambda60": "NaN"}), "lambda60"),
            (json!({"pi15": -1}), "pi15"),
            (json!({"c2": "Inf"}), "c2"),
            (json!({"late_ttft": 1.5, "late_ttft_n": 9}), "late_ttft"),
            (json!({"late_tpot": -0.5}), "late_tpot"),
            (json!({"hist": {}}), "hist"),
            (json!({"hist": [64]}), "hist[0]"),
            (json!({"hist": [[64, 1], [64, 1, 1]]}), "hist[1]"),
            (json!({"hist": [[0, 1]]}), "hist[0][0]"),
            (json!({"hist": [["NaN", 1]]}), "hist[0][0]"),
            (json!({"hist": [[64, -1]]}), "hist[0][1]"),
            (json!({"hist": [[64, 1], [64, 2]]}), "hist[1][0]"),
            (json!({"s": "fast"}), "s"),
            (json!({"t_w": -1}), "t_w"),
        ] {
            assert_eq!(seen(given.clone()).unwrap_err().field, field, "{given}");
        }
    }
}
