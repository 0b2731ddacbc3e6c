//! Arguments, exit codes and output.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::running::{decide, run, scaler, texts, tick};

#[test]
fn the_help_documents_the_exit_codes() {
    for arguments in [&["--help"][..], &["decide", "--help"], &["crd", "--help"]] {
        let (out, _, code) = texts(&run(arguments, ""));
        assert_eq!(code, 0);
        assert!(out.contains("Exit codes:\n  0 ") && out.contains("\n  2 "), "{out}");
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    assert_eq!(texts(&run(&["--version"], "")), (format!("llmscaler {}\n", env!("CARGO_PKG_VERSION")), String::new(), 0));
}

#[test]
fn typos_get_a_suggestion() {
    for (arguments, meant) in [
        (&["deside", "-"][..], "'decide'"),
        (&["decide", "--outptu", "json", "-"], "'--output'"),
        (&["decide", "-o", "jsn", "-"], "'json'"),
        (&["crd", "-o", "yml"], "'yaml'"),
    ] {
        let (out, errors, code) = texts(&run(arguments, ""));
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}");
        assert!(errors.contains("similar") && errors.contains(meant), "{errors}");
    }
}

#[test]
fn without_a_command_the_help_appears_and_it_is_an_error() {
    let (_, errors, code) = texts(&run(&[], ""));
    assert!(code == 2 && errors.contains("Usage:"), "{errors}");
}

#[test]
fn a_file_that_cannot_be_read_is_a_failure_and_not_bad_input() {
    let (out, errors, code) = texts(&run(&["decide", "no/such/file.yaml"], ""));
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(errors.contains("no/such/file.yaml") && errors.contains("check the path"), "{errors}");
}

#[test]
fn a_file_that_is_not_text_is_bad_input() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"\xff\xfe{").unwrap();
    let path = file.path().to_str().unwrap();
    for arguments in [&["decide", path][..], &["migrate", "-f", path], &["simulate", "--scaler", path], &["demo", "--scaler", path]] {
        let (out, errors, code) = texts(&run(arguments, ""));
        assert_eq!(code, 2, "{arguments:?}: {errors}");
        assert!(errors.contains("save it as UTF-8") && !errors.contains("permissions"), "{arguments:?}: {errors}");
        assert!(out.is_empty() || serde_json::from_str::<Value>(&out).unwrap()["field"] == "", "{arguments:?}: {out}");
    }
}

#[test]
fn a_number_beyond_all_measure_is_short() {
    let readings = json!({"m": {"value": 1e308}});
    let document = json!({"scaler": scaler(json!({})), "ticks": [tick(0, 4, 4, readings)]});
    let (out, _, code) = texts(&run(&["decide", "-o", "text", "-"], &document.to_string()));
    assert_eq!(code, 0);
    assert!(out.contains("1e308 against 1") && out.lines().all(|line| line.len() < 140), "{out}");
}

#[test]
fn a_negative_length_of_time_is_told_the_range() {
    let (_, errors, code) = texts(&run(&["demo", "--duration", "-1s"], ""));
    assert!(code == 2 && errors.contains("write a length of time above 0"), "{errors}");
}

#[test]
fn flags_of_the_operator_that_cannot_be_meant_are_refused() {
    for (arguments, what) in [
        (&["operator", "--zap-log-level", "verbose"][..], "info, debug or trace"),
        (&["operator", "--metrics-bind-address", "8443"], ":PORT"),
        (
            &["operator", "--metrics-bind-address", ":8082", "--dashboard-bind-address", "127.0.0.1:8082"],
            "--metrics-bind-address and --dashboard-bind-address both ask for port 8082",
        ),
    ] {
        let (out, errors, code) = texts(&run(arguments, ""));
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {errors}");
        assert!(errors.contains(what), "{errors}");
    }
}

#[test]
fn what_is_no_name_of_a_namespace_or_an_object_is_refused() {
    for (arguments, what) in [
        (&["operator", "--watch-namespace", "a,b"][..], "one namespace only: run one operator for each"),
        (&["operator", "--watch-namespace", "a/b"], "1 to 63 characters"),
        (&["operator", "--leader-election-namespace", " "], "1 to 63 characters"),
        (&["operator", "--external-metrics-service-name", "a.b"], "1 to 63 characters"),
        (&["explain", "-n", ""], "1 to 63 characters"),
        (&["explain", "chat/x"], "1 to 253 characters"),
        (&["doctor", "-n", "a,b"], "1 to 63 characters"),
        (&["doctor", ""], "1 to 253 characters"),
        (&["doctor", "--operator-account", "a/B"], "1 to 253 characters"),
        (&["migrate", "-f", "-", "-n", "$HOME"], "1 to 63 characters"),
    ] {
        let (out, errors, code) = texts(&run(arguments, ""));
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {errors}");
        assert!(errors.split_whitespace().collect::<Vec<_>>().join(" ").contains(what), "{errors}");
    }
    let from_environment = Command::new(env!("CARGO_BIN_EXE_llmscaler")).arg("operator").env("WATCH_NAMESPACE", "a,b").output().unwrap();
    let (_, errors, code) = texts(&from_environment);
    assert!(code == 2 && errors.contains("run one operator for each"), "{code}: {errors}");
}

#[test]
fn a_file_is_read_like_standard_input() {
    let document = json!({"scaler": scaler(json!({})), "ticks": [tick(0, 4, 4, json!({"m": {"value": 1.2}}))]});
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), document.to_string()).unwrap();
    let (out, _, code) = texts(&run(&["decide", file.path().to_str().unwrap()], ""));
    assert_eq!(code, 0);
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), decide(&document)[0]);
}

#[test]
fn the_definition_is_the_same_in_both_formats() {
    let (yaml, _, code) = texts(&run(&["crd"], ""));
    assert_eq!(code, 0);
    let (json, _, code) = texts(&run(&["crd", "-o", "json"], ""));
    assert_eq!(code, 0);
    let yaml: Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(yaml, serde_json::from_str::<Value>(&json).unwrap());
    assert_eq!(yaml["metadata"]["name"], "llmscalers.autoscaling.modelsphere.dev");
}

#[test]
fn a_closed_pipe_is_no_error() {
    let ticks: Vec<Value> = (0..2000).map(|at| tick(at, 4, 4, json!({"m": {"value": 1}}))).collect();
    let document = json!({"scaler": scaler(json!({})), "ticks": ticks}).to_string();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), document).unwrap();
    for arguments in [&["decide", file.path().to_str().unwrap()][..], &["crd"], &["crd", "-o", "json"], &["--help"]] {
        let mut child =
            Command::new(env!("CARGO_BIN_EXE_llmscaler")).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        // The reader goes with its line, and the pipe with the reader.
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let rest = child.wait_with_output().unwrap();
        assert!(!first.is_empty() && rest.status.success() && rest.stderr.is_empty(), "{arguments:?}: {rest:?}");
    }
}

#[test]
fn text_tells_the_same_stage_by_stage() {
    let document = json!({"scaler": scaler(json!({})), "ticks": [tick(0, 4, 4, json!({"m": {"value": 1.2}})), tick(15, 5, 4, json!({}))]});
    let (out, _, code) = texts(&run(&["decide", "-o", "text", "-"], &document.to_string()));
    assert_eq!(code, 0);
    for word in ["recommend", "activate", "bound", "stabilise", "pace", "guard", "write", "writes 5", "writes nothing", "unknown"] {
        assert!(out.contains(word), "{word} is missing in\n{out}");
    }
    let (out, errors, code) = texts(&run(&["decide", "-o", "text", "-"], "ticks: []"));
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(errors.contains("scaler"), "{errors}");
}
