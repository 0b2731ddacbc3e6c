//! Runs the command, and builds the documents that it is given.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::{Map, Value, json};

/// The command with these arguments and this input, to its end.
pub fn run(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_llmscaler"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that does not read its input closes it early.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// Standard output and error as text, and the exit code.
pub fn texts(output: &Output) -> (String, String, i32) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr), output.status.code().unwrap())
}

/// The answers to a document that is accepted.
pub fn decide(document: &Value) -> Vec<Value> {
    decide_text(&document.to_string())
}

/// The answers to a document that is accepted, as text.
pub fn decide_text(document: &str) -> Vec<Value> {
    let (out, errors, code) = texts(&run(&["decide", "-"], document));
    assert_eq!((code, errors.as_str()), (0, ""), "{document}\n{out}");
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The field and the error of a document that is refused.
pub fn refused(document: &Value) -> (String, String) {
    refused_text(&document.to_string())
}

/// The field and the error of a document that is refused, as text.
pub fn refused_text(document: &str) -> (String, String) {
    let (out, errors, code) = texts(&run(&["decide", "-"], document));
    assert_eq!(code, 2, "{document}\n{out}{errors}");
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [refusal] = lines.as_slice() else { panic!("{out}") };
    let text = |key: &str| refusal[key].as_str().unwrap().to_owned();
    assert!(errors.contains(&text("error")) && errors.contains(&text("field")), "{errors}");
    (text("field"), text("error"))
}

/// The scaler with one metric `m` of target 1, 1 to 10 replicas, changed by `spec`.
pub fn scaler(spec: Value) -> Value {
    let mut base = json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"},
        "serverAddress": "http://prometheus.monitoring.svc:9090",
        "minReplicas": 1,
        "maxReplicas": 10,
        "metrics": [metric("m", "1")],
    });
    let (Value::Object(base_fields), Value::Object(fields)) = (&mut base, spec) else { panic!("a spec is a mapping") };
    base_fields.extend(fields);
    json!({
        "apiVersion": "autoscaling.modelsphere.dev/v1alpha1",
        "kind": "LLMScaler",
        "metadata": {"name": "chat", "namespace": "serving"},
        "spec": base,
    })
}

/// A metric whose reading is compared with `target` per replica.
pub fn metric(name: &str, target: &str) -> Value {
    json!({"name": name, "query": format!("avg({name})"), "target": target})
}

/// The scaler that asks a decision server about the service `svc`, changed by `spec`.
pub fn custom(spec: Value) -> Value {
    let provider = json!({"metricProvider": "Custom", "customProvider": {"serviceId": "svc"}, "metrics": []});
    scaler(merged(provider, spec))
}

/// `over` on top of `under`.
pub fn merged(under: Value, over: Value) -> Value {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => Value::Object(under.into_iter().chain(over).collect::<Map<_, _>>()),
        _ => panic!("only mappings are merged"),
    }
}

/// The bounds, for a spec.
pub fn bounds(min: u32, max: u32) -> Value {
    json!({"minReplicas": min, "maxReplicas": max})
}

/// A tick with a target of `replicas`, of which `ready` are.
pub fn tick(at: u32, replicas: u32, ready: u32, readings: Value) -> Value {
    json!({"at": at, "target": {"replicas": replicas, "readyReplicas": ready}, "readings": readings})
}

/// The last answer to a document of one tick without memory.
pub fn once(scaler: Value, tick: Value) -> Value {
    decide(&json!({"scaler": scaler, "ticks": [tick]})).pop().unwrap()
}

/// The size that an answer leaves.
pub fn left(answer: &Value) -> u64 {
    answer["write"].as_u64().or(answer["replicas"].as_u64()).unwrap()
}

/// The body of a Prometheus answer with these samples, without labels.
pub fn samples(values: &[&str]) -> String {
    let result: Vec<Value> = values.iter().map(|value| json!({"metric": {}, "value": [1_700_000_000, value]})).collect();
    json!({"status": "success", "data": {"resultType": "vector", "result": result}}).to_string()
}
