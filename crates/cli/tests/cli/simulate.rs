//! `simulate`: policies against each other in virtual time.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::running::{run, scaler, texts};

/// Ten minutes of light traffic with two seeds.
const SMALL: [&str; 9] = ["simulate", "--traffic", "steps:1x5m,3x5m", "--max", "6", "--start", "1", "--seeds", "2"];

fn simulate(arguments: &[&str]) -> (String, String, i32) {
    texts(&run(&[&SMALL, arguments].concat(), ""))
}

fn comparison(arguments: &[&str]) -> Value {
    let (out, errors, code) = simulate(&[&["-o", "json"], arguments].concat());
    assert_eq!((code, errors.as_str()), (0, ""), "{out}");
    serde_json::from_str(&out).unwrap()
}

fn file(text: &str, ending: &str) -> NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(ending).tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

#[test]
fn the_table_has_a_line_for_each_policy_and_an_answer() {
    let (out, errors, code) = simulate(&["--policy", "headroom", "in-flight:16", "static:peak", "clairvoyant"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    for part in ["headroom 0.99", "in-flight 16", "static ", "clairvoyant", "GPU-", "seeds: 1, 2;", "is the cheapest policy here"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
}

#[test]
fn the_same_seeds_give_the_same_bytes_on_any_number_of_threads() {
    let arguments = ["-o", "json", "--policy", "headroom", "keda", "clairvoyant", "--missing", "0.05", "--warmup-spread", "0.2"];
    let [one, two] = ["1", "2"].map(|threads| {
        let (out, _, code) = simulate(&[&arguments[..], &["--threads", threads]].concat());
        assert_eq!(code, 0);
        let mut value: Value = serde_json::from_str(&out).unwrap();
        // The command line is the one thing that differs.
        assert!(value["setting"]["command"].take().as_str().unwrap().ends_with(&format!("--threads {threads}")));
        value.to_string()
    });
    assert_eq!(one, two);
    assert_eq!(simulate(&arguments), simulate(&arguments));
}

#[test]
fn json_has_the_documented_names() {
    let comparison = comparison(&["--policy", "seed", "static:3"]);
    let names: Vec<&str> = comparison["policies"].as_array().unwrap().iter().map(|policy| policy["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"static 3") && names.contains(&"seed 0.55/0.4"), "{names:?}");
    let fixed = comparison["policies"].as_array().unwrap().iter().find(|policy| policy["kind"] == "fixed").unwrap();
    assert_eq!(fixed["summary"]["scaleEvents"], json!({"mean": 0.0, "min": 0.0, "max": 0.0}));
    let run = &fixed["runs"][1];
    assert_eq!((&run["seed"], &run["finished"]), (&json!(2), &run["offered"]));
    assert!(run["timeline"][1]["ttftP90"].is_number() && run["decisions"].as_array().unwrap().is_empty());
    // Three replicas of two GPUs for ten minutes of traffic and ten more.
    let hours = fixed["summary"]["gpuHours"]["mean"].as_f64().unwrap();
    assert!((hours - 2.0).abs() < 1e-6, "{hours}");
    assert!(comparison["bound"]["fluidGpuHours"].as_f64().unwrap() > 0.0);
    assert_eq!(comparison["setting"]["seeds"], json!([1, 2]));
}

#[test]
fn everything_that_the_result_depends_on_is_in_the_setting_and_in_the_header() {
    let arguments = ["--policy", "static:2", "--gpus", "8", "--drain", "5", "--prefix-hits", "0.5", "--start-failures", "0.25"];
    let setting = &comparison(&arguments)["setting"];
    let said = ["gpus", "drainSeconds", "prefixHits", "startFailures"].map(|name| setting[name].clone());
    assert_eq!(said, [json!(8), json!(5.0), json!(0.5), json!(0.25)]);
    let (out, _, _) = simulate(&arguments);
    let out = out.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["8 GPUs in all", "cut off after 5 s", "50 % of a reusable prefix", "25 % never"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert_eq!(comparison(&["--policy", "static:2"])["setting"]["drainSeconds"], Value::Null);
}

#[test]
fn nothing_is_cheaper_than_foresight() {
    let comparison = comparison(&["--policy", "headroom", "seed", "in-flight:16", "hpa-kv", "clairvoyant"]);
    let times = comparison["policies"].as_array().unwrap().iter().filter_map(|policy| policy["timesClairvoyant"].as_f64());
    let times: Vec<f64> = times.collect();
    assert!(!times.is_empty() && times.iter().all(|times| *times >= 0.98), "{times:?}");
}

/// Whoever believes in an engine that is slower than the real one asks for more replicas.
#[test]
fn what_policies_are_told_need_not_be_so() {
    let hours = |arguments: &[&str]| {
        let comparison = comparison(&[&["--policy", "headroom"], arguments].concat());
        let title = comparison["setting"]["profileTitle"].as_str().unwrap().to_owned();
        (title, comparison["policies"][0]["summary"]["gpuHours"]["mean"].as_f64().unwrap())
    };
    let (small, large) = ("llama-3.1-8b-h100", "llama-3-70b-h100-tp4");
    let (title, right) = hours(&["--profile", small]);
    assert!(!title.contains("told"), "{title}");
    let (title, wrong) = hours(&["--profile", large, "--engine", small]);
    assert!(title.contains("policies are told that it is llama-3-70b-h100-tp4"), "{title}");
    assert!(wrong > right, "{wrong} with the wrong profile, {right} with the right one");
    let (title, _) = hours(&["--engine", small]);
    assert!(title.contains("told nothing and have qwen3-32b-h100-tp2 stand in"), "{title}");
}

#[test]
fn without_a_gateway_arrivals_are_known_less_well() {
    let comparison = |arguments: &[&str]| comparison(&[&["--policy", "headroom"], arguments].concat());
    let (with, without) = (comparison(&[]), comparison(&["--no-gateway"]));
    assert!(without["setting"]["metrics"].as_str().unwrap().ends_with("no gateway counts arrivals"));
    assert_ne!(with["policies"][0]["runs"], without["policies"][0]["runs"]);
}

#[test]
fn a_scaler_of_a_file_takes_part_within_its_own_bounds() {
    let spec = json!({
        "minReplicas": 2, "maxReplicas": 3, "preset": {"name": "vLLM", "matchLabels": {"model_name": "m"}},
        "metrics": [{"name": "running", "signal": "runningRequests", "target": "8", "metricType": "AverageValue"}],
    });
    let file = file(&scaler(spec).to_string(), ".json");
    let arguments =
        ["simulate", "-o", "json", "--seeds", "1", "--policy", "static:3", "--traffic", "constant:rate=2,seconds=10m", "--scaler"];
    let (out, errors, code) = texts(&run(&[&arguments[..], &[file.path().to_str().unwrap()]].concat(), ""));
    assert_eq!((code, errors.as_str()), (0, ""));
    let comparison: Value = serde_json::from_str(&out).unwrap();
    let ours = comparison["policies"].as_array().unwrap().iter().find(|policy| policy["kind"] == "ours").unwrap();
    let timeline = ours["runs"][0]["timeline"].as_array().unwrap();
    assert!(timeline.iter().all(|sample| (2..=3).contains(&sample["replicas"].as_u64().unwrap())));
    assert!(ours["runs"][0]["offered"].as_u64().unwrap() > 1000);
}

#[test]
fn what_cannot_be_simulated_is_refused_with_what_to_write_instead() {
    let query = file(&scaler(json!({})).to_string(), ".json");
    let (out, errors, code) = simulate(&["--scaler", query.path().to_str().unwrap()]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(errors.contains("spec.metrics[0].query") && errors.contains("use signal"), "{errors}");
}

#[test]
fn mistakes_say_what_was_meant() {
    for (arguments, code, parts) in [
        (&["simulate", "--workload", "rmap"][..], 2, &["there is no workload rmap", "did you mean ramp?"][..]),
        (&["simulate", "--policy", "hedroom"], 2, &["there is no policy \"hedroom\"", "did you mean headroom?"]),
        (&["simulate", "--policy", "in-flight"], 2, &["it takes one number, and 0 are given", "in-flight:TARGET"]),
        (&["simulate", "--policy", "clairvoyance"], 2, &["did you mean clairvoyant?", "static:peak, clairvoyant"]),
        (&["simulate", "--workload", "ramp", "--prompts", "10"], 2, &["'--workload <NAME>' cannot be used with '--prompts"]),
        (&["simulate", "--workload", "short", "--answers", "7"], 2, &["'--workload <NAME>' cannot be used with '--answers"]),
        (&["simulate", "--trace", "t.csv", "--prompts", "50"], 2, &["'--trace <FILE>' cannot be used with '--prompts"]),
        (&["simulate", "--workload", "ramp", "--multiply", "2"], 2, &["required arguments were not provided", "--trace <FILE>"]),
        (&["simulate", "--traffic", "constant:rate=1,seconds=1m", "--shift", "2"], 2, &["required arguments were not provided"]),
        (&["simulate", "--ttft", "-1"], 2, &["'-1' for '--ttft <SECONDS>': write seconds above 0"]),
        (&["simulate", "--ttft", "1e308"], 2, &["write seconds above 0 and up to 1000000"]),
        (&["simulate", "--drain", "1e308"], 2, &["write a number of 0 to 1000000"]),
        (&["simulate", "--min", "-1"], 2, &["-1 is not in 0..=100000"]),
        (&["simulate", "--max", "0"], 2, &["0 is not in 1..=100000"]),
        (&["simulate", "--start", "4000000000", "--max", "9"], 2, &["is not in 0..=100000"]),
        (&["simulate", "--trace", "."], 1, &["cannot read .:"]),
        (&["simulate", "--profile", "qwen3-32b"], 2, &["there is no profile", "did you mean qwen3-32b-h100-tp2?"]),
        (&["simulate", "--trace", "no/such.csv"], 1, &["cannot read no/such.csv", "check the path"]),
        (&["simulate", "--start", "99"], 2, &["--start 99 is not within 3 to 8"]),
        (&["simulate", "--seeds", "x"], 2, &["such as 21-25"]),
        (&["simulate", "--warmup", "hott"], 2, &["did you mean hot?"]),
        (&["simulate", "--sedes", "1"], 2, &["--seeds"]),
        (&["simulate", "--tune", "headroom", "--tune-seeds", "3"], 2, &["give seeds apart"]),
        (
            &["simulate", "--seeds", "1", "--policy", "static:3", "--report", "/no/such/folder/r.html"],
            1,
            &["cannot write /no/such/folder/r.html"],
        ),
    ] {
        let (out, errors, exit) = texts(&run(arguments, ""));
        assert_eq!((exit, out.as_str()), (code, ""), "{arguments:?}: {errors}");
        assert!(parts.iter().all(|part| errors.contains(part)), "{arguments:?}: {errors}");
    }
}

#[test]
fn a_trace_that_is_none_is_refused_with_the_line() {
    let trace = file("t_seconds,prompt_tokens,output_tokens\n0,10,10\nx,10,10\n", ".csv");
    let (_, errors, code) = texts(&run(&["simulate", "--trace", trace.path().to_str().unwrap()], ""));
    assert!(code == 2 && errors.contains("line 3"), "{errors}");
}

#[test]
fn a_trace_is_replayed_so_many_times() {
    let rows: String = (0..300).map(|second| format!("{second},500,50\n")).collect();
    let trace = file(&format!("t_seconds,prompt_tokens,output_tokens\n{rows}"), ".csv");
    let arguments = ["simulate", "-o", "json", "--seeds", "1", "--policy", "static:2", "--multiply", "3", "--shift", "10", "--trace"];
    let (out, errors, code) = texts(&run(&[&arguments[..], &[trace.path().to_str().unwrap()]].concat(), ""));
    assert_eq!((code, errors.as_str()), (0, ""));
    let comparison: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(comparison["policies"][0]["runs"][0]["offered"], 900);
}

#[test]
fn a_name_that_is_empty_is_like_no_other() {
    let (_, errors, code) = texts(&run(&["simulate", "--policy", ""], ""));
    assert!(code == 2 && errors.contains("there is no policy \"\"; known are headroom"), "{errors}");
}

/// What is tuned on need not be what is scored, so the scaling of a trace to tune on goes with a workload.
#[test]
fn a_trace_to_tune_on_is_multiplied_too() {
    let rows: String = (0..60).map(|second| format!("{second},500,50\n")).collect();
    let trace = file(&format!("t_seconds,prompt_tokens,output_tokens\n{rows}"), ".csv");
    let arguments = ["--policy", "static:3", "--tune", "in-flight", "--multiply", "3", "--tune-on", trace.path().to_str().unwrap()];
    let tuned_on = comparison(&arguments)["tunings"][0]["tunedOn"].as_str().unwrap().to_owned();
    assert!(tuned_on.contains(" x3 "), "{tuned_on}");
}

#[test]
fn the_report_is_one_file_that_asks_for_nothing() {
    let file = tempfile::Builder::new().suffix(".html").tempfile().unwrap();
    let (_, _, code) = simulate(&["--policy", "headroom", "in-flight:16", "--report", file.path().to_str().unwrap()]);
    assert_eq!(code, 0);
    let page = std::fs::read_to_string(file.path()).unwrap();
    assert!(page.contains("<svg") && page.contains("in-flight 16") && page.contains("llmscaler simulate --traffic"));
    assert!(!page.contains("http://") && !page.contains("https://"));
}

#[test]
fn tuning_says_what_was_tuned_and_what_was_scored() {
    let comparison = comparison(&["--policy", "static:3", "--tune", "in-flight", "--tune-seeds", "11-11", "--objective", "0.98"]);
    let tuning = &comparison["tunings"][0];
    assert_eq!((&tuning["tuningSeeds"], &tuning["scoringSeeds"]), (&json!([11]), &json!([1, 2])));
    let chosen = tuning["chosen"].as_str().unwrap();
    let meeting = tuning["candidates"].as_array().unwrap().iter().filter(|candidate| candidate["attainment"].as_f64().unwrap() >= 0.98);
    let cheapest = meeting.min_by(|one, other| one["gpuHours"].as_f64().unwrap().total_cmp(&other["gpuHours"].as_f64().unwrap())).unwrap();
    assert_eq!(cheapest["name"], chosen);
    assert!(comparison["policies"].as_array().unwrap().iter().any(|policy| policy["name"] == chosen));
    let (out, _, _) = simulate(&["--policy", "static:3", "--tune", "headroom", "--tune-seeds", "11-11"]);
    assert!(out.contains("Tuned: headroom on steps:1x5m,3x5m, seeds 11") && out.contains("strategy: Headroom"), "{out}");
}

#[test]
fn whoever_has_seen_enough_may_leave() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_llmscaler"))
        .args(["simulate", "--traffic", "constant:rate=1,seconds=30m", "--policy", "static:3", "static:4", "-o", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The object is larger than what a pipe holds.
    let mut start = [0; 11];
    child.stdout.take().unwrap().read_exact(&mut start).unwrap();
    assert_eq!(&start, b"{\"setting\":");
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}
