//! What becomes of other autoscalers, from outside: the scalers decide as those did, and no field goes missing.

use serde_json::{Value, json};

use crate::pages::{read, root};
use crate::running::{decide, merged, run, texts};

fn input(name: &str) -> String {
    read(&root().join("crates/cli/tests/cli/migrate").join(name))
}

/// The report on objects that are given on standard input, and the exit code.
fn migrated(input: &str, more: &[&str]) -> (Value, i32) {
    let (out, errors, code) = texts(&run(&[&["migrate", "-f", "-", "-o", "json"], more].concat(), input));
    (serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{errors}")), code)
}

/// The only scaler of a report.
fn scaler(input: &str) -> Value {
    let (report, _) = migrated(input, &[]);
    let scalers = report["scalers"].as_array().unwrap();
    assert_eq!(scalers.len(), 1, "{report:#}");
    scalers[0].clone()
}

/// The object of a report that has this name.
fn object<'a>(report: &'a Value, name: &str) -> &'a Value {
    let mut objects = report["objects"].as_array().unwrap().iter();
    objects.find(|object| object["name"] == name).unwrap_or_else(|| panic!("{report:#}"))
}

/// What the report says of a field: `carried`, `left` or `lost`, and the words.
fn fate(object: &Value, field: &str) -> (String, String) {
    let fields = object["fields"].as_array().unwrap();
    let entry = fields.iter().find(|entry| entry["field"] == field).unwrap_or_else(|| panic!("{field}: {object:#}"));
    let fate = ["carried", "left", "lost"].into_iter().find_map(|fate| Some((fate.to_owned(), entry[fate].as_str()?.to_owned())));
    fate.unwrap_or_else(|| panic!("{entry}"))
}

/// `changes` at the places that these pointers name.
fn changed(name: &str, changes: &[(&str, Value)]) -> String {
    let mut object: Value = serde_saphyr::from_str(&input(name)).unwrap();
    for (pointer, value) in changes {
        let (parent, member) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer}"))[member] = value.clone();
    }
    object.to_string()
}

/// The count asked for at one sync.
fn asked(scaler: &Value, replicas: u64, ready: u64, readings: Value) -> u64 {
    let tick = json!({"at": 0, "target": {"replicas": replicas, "readyReplicas": ready}, "readings": readings});
    let answers = decide(&json!({"scaler": scaler, "ticks": [tick]}));
    answers[0]["recommended"].as_u64().unwrap()
}

#[test]
fn the_dual_metric_object_decides_as_the_hpa_of_keda_does() {
    let scaler = scaler(&input("dual.yaml"));
    for queue in [0.0, 0.4, 1.0, 2.0, 3.5, 7.0, 40.0] {
        for running in [0.0, 8.0, 16.0, 17.0, 31.0, 33.0, 64.0, 100.0] {
            for replicas in [1_u64, 2, 4, 8] {
                // autoscaling/v2, External AverageValue: within a tenth of the target the size stays, otherwise total ÷ target.
                let wants = |total: f64, target: f64| {
                    let ratio = total / (target * replicas as f64);
                    if (0.9..=1.1).contains(&ratio) { replicas } else { (total / target).ceil() as u64 }
                };
                let readings = json!({"epp-queue-size": {"value": queue}, "epp-running-requests": {"value": running}});
                let expected = wants(queue, 1.0).max(wants(running, 16.0));
                assert_eq!(asked(&scaler, replicas, replicas, readings), expected, "{queue} {running} {replicas}");
            }
        }
    }
}

#[test]
fn the_formula_decides_as_the_formula_of_keda_does() {
    let scaler = scaler(&input("slo.yaml"));
    let law = |s: f64, n: f64, r: f64| {
        let credit = if r > 0.0 && r < n { r / n } else { 1.0 };
        let count = if s > 0.55 {
            // Where the credit would shrink the fleet on the way up, ours stays; the report says so.
            n + (n * (s * credit / 0.55 - 1.0)).ceil().max(0.0)
        } else if s < 0.40 {
            n - (n * (1.0 - s / 0.40)).floor()
        } else {
            n
        };
        count as u64
    };
    for s in [0.0, 0.1, 0.21, 0.33, 0.38, 0.45, 0.56, 0.7, 0.93, 1.3, 1.97] {
        for (n, r) in [(3_u64, 3_u64), (4, 4), (6, 3), (7, 5), (8, 8), (8, 4)] {
            let expected = law(s, n as f64, r as f64);
            assert_eq!(asked(&scaler, n, r, json!({"slo": {"saturation": s}})), expected, "{s} {n} {r}");
        }
    }
}

#[test]
fn behavior_paces_as_that_of_the_generated_hpa() {
    // At most a doubling within 15 s, and down only what 300 s did not need.
    let mut scaler = scaler(&input("dual.yaml"));
    scaler["spec"]["mode"] = json!("Auto");
    let tick =
        |at: u64, running: u64| json!({"at": at, "readings": {"epp-queue-size": {"value": 0}, "epp-running-requests": {"value": running}}});
    let ticks = [tick(0, 16), tick(15, 128), tick(30, 128), tick(45, 128), tick(60, 16), tick(345, 16), tick(360, 16)];
    let answers = decide(&json!({"scaler": scaler, "workload": {"replicas": 1}, "ticks": ticks}));
    let written: Vec<Option<u64>> = answers.iter().map(|answer| answer["write"].as_u64()).collect();
    assert_eq!(written, [None, Some(2), Some(4), Some(8), None, Some(1), None]);
}

#[test]
fn both_guides_are_carried_whole_and_only_recommend() {
    for name in ["dual.yaml", "slo.yaml"] {
        let (report, code) = migrated(&input(name), &[]);
        assert_eq!(code, 0, "{report:#}");
        let object = &report["objects"][0];
        assert!(object["fields"].as_array().unwrap().iter().all(|entry| entry.get("lost").is_none()), "{object:#}");
        assert_eq!(report["scalers"][0]["spec"]["mode"], "Recommend");
        assert!(object["differences"].as_array().unwrap().len() >= 3, "{object:#}");
    }
}

#[test]
fn defaults_of_keda_are_written_out() {
    let bare = changed("dual.yaml", &[("/spec/minReplicaCount", Value::Null), ("/spec/maxReplicaCount", Value::Null)]);
    let bare: Value = serde_json::from_str(&bare).unwrap();
    let mut bare = bare;
    for field in ["pollingInterval", "cooldownPeriod", "advanced"] {
        bare["spec"].as_object_mut().unwrap().remove(field);
    }
    let spec = &scaler(&bare.to_string())["spec"];
    assert_eq!((&spec["minReplicas"], &spec["maxReplicas"], &spec["idle"]), (&json!(0), &json!(100), &json!({"cooldownSeconds": 300})));
    assert_eq!(spec["syncPeriodSeconds"], 15);
    assert_eq!(spec["behavior"]["scaleDown"]["stabilizationWindowSeconds"], 300);
    assert_eq!(spec["behavior"]["scaleUp"]["tolerance"], "0.1");
    assert_eq!(spec["behavior"]["scaleUp"]["policies"].as_array().unwrap().len(), 2);
}

#[test]
fn credentials_zero_and_fallback() {
    let (report, code) = migrated(&input("zero.yaml"), &[]);
    assert_eq!(code, 0, "{report:#}");
    let spec = &report["scalers"][0]["spec"];
    assert_eq!(
        spec["serverHeadersFrom"],
        json!([{"name": "Authorization", "prefix": "Bearer ", "secretKeyRef": {"name": "prometheus-token", "key": "token"}}])
    );
    assert_eq!(spec["serverTLS"]["caFrom"], json!({"secretKeyRef": {"name": "prometheus-token", "key": "ca.crt"}}));
    assert_eq!(spec["serverHeaders"], json!({"X-Scope-OrgID": "team-a"}));
    assert_eq!((&spec["minReplicas"], &spec["idle"], &spec["syncPeriodSeconds"]), (&json!(0), &json!({"cooldownSeconds": 120}), &json!(5)));
    assert_eq!(spec["fallback"], json!({"failureThreshold": 4, "replicas": 2}));
    let metric = &spec["metrics"][0];
    assert_eq!((&metric["activation"], &metric["required"], &metric["name"]), (&json!("0.5"), &json!(true), &json!("s0-prometheus")));
    assert_eq!(spec["behavior"]["scaleDown"]["selectPolicy"], "Disabled");
    assert_eq!(fate(object(&report, "prometheus-auth"), "spec.secretTargetRef[1].key").0, "carried");
}

#[test]
fn without_the_file_of_the_credentials_they_are_missed() {
    let (first, _) = input("zero.yaml").split_once("\n---\n").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let (report, code) = migrated(&first, &[]);
    assert_eq!(code, 3);
    let (fate, why) = fate(object(&report, "night"), "spec.triggers[0].authenticationRef");
    assert!(fate == "lost" && why.contains("TriggerAuthentication prometheus-auth is not in the input"), "{why}");
    assert_eq!(report["scalers"][0]["spec"]["serverHeadersFrom"], Value::Null);
}

#[test]
fn what_has_no_counterpart_is_named_with_what_to_do() {
    for (changes, field, words) in [
        (vec![("/spec/idleReplicaCount", json!(0))], "spec.idleReplicaCount", "minReplicas: 0"),
        (vec![("/spec/triggers/0/metadata/timeout", json!("10s"))], "spec.triggers[0].metadata.timeout", "5 s"),
        (vec![("/spec/triggers/0/metadata/namespace", json!("a"))], "spec.triggers[0].metadata.namespace", "into the query"),
        (vec![("/spec/triggers/0/type", json!("cpu"))], "spec.triggers[0]", "CPU"),
        (vec![("/spec/triggers/1/metadata/serverAddress", json!("http://other:9090"))], "spec.triggers[1]", "one server"),
        (vec![("/spec/triggers/1/metricType", json!("Utilization"))], "spec.triggers[1]", "neither AverageValue nor Value"),
        (
            vec![("/spec/advanced/restoreToOriginalReplicaCount", json!(true))],
            "spec.advanced.restoreToOriginalReplicaCount",
            "keeps its size",
        ),
        (
            vec![("/spec/fallback", json!({"failureThreshold": 3, "replicas": 1, "behavior": "currentReplicasIfLower"}))],
            "spec.fallback",
            "only ever raises",
        ),
        (
            vec![("/spec/fallback", json!({"failureThreshold": 3, "replicas": 1, "behavior": "currentReplicas"}))],
            "spec.fallback.behavior",
            "required: true",
        ),
        (
            vec![("/metadata/annotations", json!({"autoscaling.keda.sh/force-activation": "true"}))],
            "metadata.annotations[\"autoscaling.keda.sh/force-activation\"]",
            "minReplicas: 1",
        ),
    ] {
        let (report, code) = migrated(&changed("dual.yaml", &changes), &[]);
        let (fate, why) = fate(&report["objects"][0], field);
        assert!(code == 3 && fate == "lost" && why.contains(words), "{field}: {code} {fate} {why}");
        assert_eq!(report["scalers"].as_array().unwrap().len(), 1, "{field}");
    }
}

#[test]
fn the_index_of_a_metric_is_that_in_the_scaler() {
    let (report, _) = migrated(&changed("dual.yaml", &[("/spec/triggers/0/type", json!("cpu"))]), &[]);
    assert_eq!(fate(&report["objects"][0], "spec.triggers[1].metadata.query"), ("carried".to_owned(), "metrics[0].query".to_owned()));
}

#[test]
fn another_formula_becomes_nothing() {
    let text = "max(saturation * 2, replicas)";
    let (report, code) = migrated(&changed("slo.yaml", &[("/spec/advanced/scalingModifiers/formula", json!(text))]), &[]);
    assert_eq!((code, &report["scalers"], &report["plan"]), (3, &json!([]), &json!([])));
    let object = &report["objects"][0];
    assert_eq!(object["migrated"], false);
    assert!(fate(object, "spec").1.contains("write it as PromQL"), "{object:#}");
    assert!(object["fields"].as_array().unwrap().iter().all(|entry| entry.get("carried").is_none()), "{object:#}");
}

#[test]
fn another_number_in_the_formula_is_another_law() {
    for changes in [("/spec/advanced/scalingModifiers/target", json!("2")), ("/spec/advanced/scalingModifiers/metricType", json!("Value"))]
    {
        assert_eq!(migrated(&changed("slo.yaml", std::slice::from_ref(&changes)), &[]).1, 3, "{changes:?}");
    }
    let query = json!("max(kube_deployment_status_replicas{deployment=\"another\"})");
    let (report, _) = migrated(&changed("slo.yaml", &[("/spec/triggers/1/metadata/query", query)]), &[]);
    assert_eq!(fate(&report["objects"][0], "spec.triggers[1].metadata.query").0, "lost");
}

#[test]
fn hpa_wva_and_aibrix() {
    let (report, code) = migrated(&input("others.yaml"), &["--server-address", "http://prometheus:9090"]);
    assert_eq!(code, 3);
    let spec = |name: &str| {
        let scalers = report["scalers"].as_array().unwrap();
        scalers.iter().find(|scaler| scaler["metadata"]["name"] == name).unwrap()["spec"].clone()
    };
    let web = spec("web");
    assert_eq!(web["metrics"][0]["query"], r#"sum(queue_size{pool="web",zone=~"a|b\\.c"})"#);
    assert_eq!((&web["metrics"][0]["target"], &web["metrics"][0]["required"]), (&json!("0.5"), &json!(true)));
    assert_eq!(web["metrics"][1]["query"], r#"sum(request_running{namespace="serving",service="web-epp"})"#);
    assert_eq!(web["metrics"][1]["metricType"], "Value");
    assert_eq!(web["behavior"]["scaleDown"]["selectPolicy"], "Disabled");
    for (field, words) in [("spec.metrics[2]", "a resource"), ("spec.metrics[3]", "mean over the pods")] {
        assert!(fate(object(&report, "web"), field).1.contains(words), "{field}");
    }
    let llama = spec("llama");
    assert_eq!(llama["preset"], json!({"name": "vLLM", "matchLabels": {"model_name": "meta/llama-3.1-8b"}}));
    assert_eq!(llama["maxReplicas"], 4);
    assert_eq!(fate(object(&report, "llama"), "spec.variantCost").0, "lost");
    let deepseek = spec("deepseek");
    assert_eq!(deepseek["metricProvider"], "Scrape");
    assert_eq!(
        (&deepseek["metrics"][0]["signal"], &deepseek["metrics"][0]["metricType"]),
        (&json!("kvCacheUsage"), &json!("AverageValue"))
    );
    assert_eq!(deepseek["behavior"]["scaleDown"]["stabilizationWindowSeconds"], 180);
    assert_eq!(deepseek["behavior"]["scaleUp"]["policies"], json!([{"type": "Percent", "value": 200, "periodSeconds": 15}]));
    // Without an address an HPA has nobody to ask, and the variant's own pods are read.
    let (report, _) = migrated(&input("others.yaml"), &[]);
    assert!(fate(object(&report, "web"), "spec").1.contains("--server-address"), "{report:#}");
    assert!(report["scalers"].as_array().unwrap().iter().all(|scaler| scaler["spec"]["metricProvider"] == "Scrape"));
}

#[test]
fn an_hpa_that_another_autoscaler_made_is_passed_over() {
    let owner = json!([{"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "chat", "uid": "u", "controller": true}]);
    let hpa = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "keda-hpa-chat", "ownerReferences": owner},
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "chat"}, "maxReplicas": 2}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "chat"}});
    let (report, code) = migrated(&format!("{}\n---\n{hpa}\n---\n{service}", input("dual.yaml")), &[]);
    assert_eq!((code, report["scalers"].as_array().unwrap().len()), (0, 1));
    let notes = report["notes"].to_string();
    assert!(notes.contains("made by ScaledObject chat") && notes.contains("Service chat"), "{notes}");
}

#[test]
fn two_scalers_of_one_target_are_pointed_out() {
    let second = changed("dual.yaml", &[("/metadata/name", json!("second"))]);
    let (report, _) = migrated(&format!("{}\n---\n{second}", input("dual.yaml")), &[]);
    assert!(report["notes"][0].as_str().unwrap().contains("both about Deployment serving/chat-decode"), "{report:#}");
}

#[test]
fn scalers_of_one_name_are_told_apart() {
    let hpa = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "chat", "namespace": "serving"},
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "other"}, "maxReplicas": 2, "metrics": [
            {"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "1"}}}]}});
    let elsewhere = changed("dual.yaml", &[("/metadata/namespace", json!("elsewhere"))]);
    let stream = format!("{}\n---\n{hpa}\n---\n{}\n---\n{elsewhere}", input("dual.yaml"), input("dual.yaml"));
    let (report, _) = migrated(&stream, &["--server-address", "http://prometheus:9090"]);
    let names: Vec<&str> =
        report["scalers"].as_array().unwrap().iter().map(|scaler| scaler["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["chat", "chat-hpa", "chat-scaledobject", "chat"]);
    let notes = report["notes"].to_string();
    assert!(notes.contains("the scaler of HorizontalPodAutoscaler serving/chat is called chat-hpa"), "{notes}");
    let plan = report["plan"].to_string();
    for command in ["llmscaler explain chat-hpa -n serving", "patch llmscaler/chat-hpa -n serving", "delete hpa/chat -n serving"] {
        assert!(plan.contains(command), "{command}: {plan}");
    }
    // Nor does one object overwrite what is kept of another.
    assert!(plan.contains("> serving.chat.scaledobject.yaml") && plan.contains("> elsewhere.chat.scaledobject.yaml"), "{plan}");
}

#[test]
fn the_hand_over_waits_for_the_generated_hpa_to_go() {
    let (report, _) = migrated(&input("dual.yaml"), &[]);
    let plan = report["plan"].to_string();
    let places: Vec<usize> = [
        "kubectl apply -f scalers.yaml",
        "autoscaling.keda.sh/paused=true",
        "wait --for=delete hpa/keda-hpa-chat -n serving",
        r#"\"mode\":\"Auto\""#,
        "kubectl delete scaledobject/chat",
        r#"\"mode\":\"Recommend\""#,
    ]
    .iter()
    .map(|step| plan.find(step).unwrap_or_else(|| panic!("{step}: {plan}")))
    .collect();
    assert!(places.is_sorted(), "{plan}");
    assert!(!plan.contains("restoreToOriginalReplicaCount"));
    let (report, _) = migrated(&changed("dual.yaml", &[("/spec/advanced/restoreToOriginalReplicaCount", json!(true))]), &[]);
    assert!(report["plan"].to_string().contains("restoreToOriginalReplicaCount"));
    assert_eq!(migrated(&input("dual.yaml"), &["--no-plan"]).0["plan"], json!([]));
}

#[test]
fn another_writer_is_written_down() {
    let (report, _) = migrated(&input("dual.yaml"), &["--actuation", "HorizontalPodAutoscaler"]);
    assert_eq!(report["scalers"][0]["spec"]["actuation"], "HorizontalPodAutoscaler");
    assert!(report["objects"][0]["differences"].to_string().contains("external metrics API"));
    // KEDA has that API until it is gone: with its HPA gone and ours without metrics nobody would scale.
    let plan = report["plan"].to_string();
    let steps = [
        r#"\"mode\":\"Auto\",\"actuation\":\"Direct\""#,
        "kubectl delete scaledobject/chat",
        r#"\"actuation\":\"HorizontalPodAutoscaler\""#,
    ];
    let places: Vec<usize> = steps.iter().map(|step| plan.find(step).unwrap_or_else(|| panic!("{step}: {plan}"))).collect();
    assert!(places.is_sorted(), "{plan}");
    assert!(!migrated(&input("dual.yaml"), &[]).0["plan"].to_string().contains("actuation"));
}

/// Every mapping of a value, with its path in the report and its pointer.
fn mappings(value: &Value, path: &str, pointer: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            found.push((path.to_owned(), pointer.to_owned()));
            for (name, member) in members {
                let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                mappings(member, &below, &format!("{pointer}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                mappings(item, &format!("{path}[{index}]"), &format!("{pointer}/{index}"), found);
            }
        }
        _ => {}
    }
}

#[test]
fn no_field_of_the_input_goes_missing() {
    let mut tried = 0;
    for name in ["dual.yaml", "slo.yaml", "zero.yaml", "others.yaml"] {
        let documents: Vec<Value> = serde_saphyr::from_multiple(&input(name)).unwrap();
        let objects: Vec<Value> =
            documents.into_iter().flat_map(|document| document["items"].as_array().cloned().unwrap_or_else(|| vec![document])).collect();
        for (place, object) in objects.iter().enumerate() {
            let mut found = vec![];
            mappings(object, "", "", &mut found);
            for (path, pointer) in found {
                let mut changed = objects.clone();
                changed[place].pointer_mut(&pointer).unwrap()["zzUnknown"] = json!("x");
                let stream = changed.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n");
                let (report, _) = migrated(&stream, &["--server-address", "http://prometheus:9090"]);
                let field = if path.is_empty() { "zzUnknown".to_owned() } else { format!("{path}.zzUnknown") };
                let entries = report["objects"].as_array().unwrap().iter().filter(|entry| entry["name"] == object["metadata"]["name"]);
                let named = entries.flat_map(|entry| entry["fields"].as_array().unwrap()).any(|entry| {
                    // A label of a selector is a part of the query, so it may be carried; what is above it cannot carry it along.
                    let rest = field.strip_prefix(entry["field"].as_str().unwrap());
                    rest.is_some_and(|rest| rest.is_empty() || (rest.starts_with('.') && entry.get("carried").is_none()))
                });
                assert!(named, "{name}: {field} is not in the report\n{report:#}");
                tried += 1;
            }
        }
    }
    assert!(tried > 60, "{tried} fields tried");
}

#[test]
fn text_is_for_kubectl_and_the_report_beside_it() {
    let (out, errors, code) = texts(&run(&["migrate", "-f", "-"], &input("dual.yaml")));
    assert_eq!(code, 0);
    let documents: Vec<Value> = serde_saphyr::from_multiple(&out).unwrap();
    assert_eq!(documents, [scaler(&input("dual.yaml"))]);
    assert!(errors.contains("behaves differently") && errors.contains("Hand-over"), "{errors}");
}

/// An HPA of a Deployment, of at most 9 replicas unless its spec has something else.
fn hpa(spec: Value) -> String {
    let base = json!({"scaleTargetRef": {"kind": "Deployment", "name": "a"}, "maxReplicas": 9});
    json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"}, "spec": merged(base, spec)})
        .to_string()
}

#[test]
fn faults_are_told_with_their_place() {
    for (text, code, words) in [
        ("", 2, "there is no autoscaler in it"),
        ("kind: [", 2, "cannot be read as YAML or JSON"),
        ("apiVersion: v1\nkind: Service\nmetadata: {name: a}", 2, "there is no autoscaler in it"),
        (
            &changed("dual.yaml", &[("/spec/minReplicaCount", json!("two"))]),
            2,
            "ScaledObject chat: spec.minReplicaCount: must be a whole number",
        ),
        (
            &changed("dual.yaml", &[("/spec/maxReplicaCount", json!(3_000_000_000_u32))]),
            2,
            "spec.maxReplicaCount: must be a whole number of at most 2147483647",
        ),
        (
            &changed("dual.yaml", &[("/metadata/name", json!("x; rm -rf $HOME"))]),
            2,
            "ScaledObject \"x; rm -rf $HOME\": metadata.name: a name has 1 to 253 characters",
        ),
        (
            &changed("dual.yaml", &[("/metadata/name", json!("a\nkind: Secret"))]),
            2,
            "ScaledObject \"a\\nkind: Secret\": metadata.name: a name has 1 to 253 characters",
        ),
        (
            &changed("dual.yaml", &[("/metadata/namespace", json!("a.b"))]),
            2,
            "ScaledObject chat: metadata.namespace: a name here has 1 to 63 characters",
        ),
        (
            &changed("dual.yaml", &[("/spec/advanced/horizontalPodAutoscalerConfig/name", json!("`id`"))]),
            2,
            "ScaledObject chat: spec.advanced.horizontalPodAutoscalerConfig.name: a name has 1 to 253 characters",
        ),
        (
            "apiVersion: autoscaling/v1\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}",
            2,
            "Note: HorizontalPodAutoscaler a of autoscaling/v1 is passed over",
        ),
        (
            "apiVersion: keda.sh/v1alpha1\nkind: ScaledObjct\nmetadata: {name: a}",
            2,
            "Note: ScaledObjct a of keda.sh/v1alpha1 is no autoscaler",
        ),
        ("apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nspec: {}", 2, "ScaledObject: metadata: is required"),
        (&changed("dual.yaml", &[("/spec/minReplicaCount", json!(-1))]), 2, "spec.minReplicaCount: must be at least 0, and is -1"),
        (&hpa(json!({"maxReplicas": -4, "minReplicas": 0})), 2, "spec.maxReplicas: must be at least 1, and is -4"),
        (&hpa(json!({"maxReplicas": 2, "minReplicas": 3})), 2, "spec.maxReplicas: must not be below minReplicas, and is 2 where that is 3"),
        (&hpa(json!({"metrics": [{"type": "Foo"}]})), 2, "spec.metrics[0].type: must be External, Object, Pods, Resource or"),
        (&changed("dual.yaml", &[("/spec/scaleTargetRef", Value::Null)]), 2, "spec.scaleTargetRef: is required"),
        (&changed("dual.yaml", &[("/spec/minReplicaCount", json!(9))]), 3, "minReplicas must not be above maxReplicas"),
    ] {
        let (_, errors, got) = texts(&run(&["migrate", "-f", "-"], text));
        let said = errors.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(got == code && said.contains(words), "{got}: {errors}");
    }
    let (_, errors, code) = texts(&run(&["migrate", "-f", "/no/such/file"], ""));
    assert!(code == 1 && errors.contains("/no/such/file"), "{errors}");
    for arguments in [&["migrate"][..], &["migrate", "-f", "-", "--from-cluster"]] {
        assert_eq!(texts(&run(arguments, "")).2, 2, "{arguments:?}");
    }
}

#[test]
fn objects_of_a_file_without_a_namespace_get_the_one_that_is_given() {
    let authentication = "apiVersion: keda.sh/v1alpha1\nkind: ClusterTriggerAuthentication\nmetadata: {name: all}\nspec: {}";
    let bare = |name: &str| {
        let mut object: Value = serde_saphyr::from_str(&input(name)).unwrap();
        object["metadata"].as_object_mut().unwrap().remove("namespace");
        object.to_string()
    };
    let text = format!("{}\n---\n{authentication}", bare("dual.yaml"));
    let (report, _) = migrated(&text, &["-n", "night"]);
    assert_eq!(report["scalers"][0]["metadata"], json!({"name": "chat", "namespace": "night"}));
    assert_eq!(object(&report, "all").get("namespace"), None, "it has none: {report:#}");
    assert!(report["plan"].to_string().contains("kubectl get scaledobject/chat -n night"), "{report:#}");

    let (same, _) = migrated(&input("dual.yaml"), &["-n", "serving"]);
    assert_eq!(same, migrated(&input("dual.yaml"), &[]).0);
    let (out, errors, code) = texts(&run(&["migrate", "-f", "-", "-n", "night"], &input("dual.yaml")));
    let said = "ScaledObject chat: metadata.namespace: is serving, and -n is night; leave -n out, or correct one of them";
    assert!(code == 2 && out.is_empty() && errors.contains(said), "{code}: {out}{errors}");
    // What is about a cluster says nothing about files.
    for about in [&["-A"][..], &["--kubeconfig", "k"], &["--context", "c"]] {
        let (_, errors, code) = texts(&run(&[&["migrate", "-f", "-"], about].concat(), ""));
        assert!(code == 2 && errors.contains("cannot be used with"), "{about:?}: {errors}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};
    let mut child = Command::new(env!("CARGO_BIN_EXE_llmscaler"))
        .args(["migrate", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The reader is gone before anything is written.
    let mut out = child.stdout.take().unwrap();
    let _ = out.read(&mut []);
    drop(out);
    child.stdin.take().unwrap().write_all(input("dual.yaml").as_bytes()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
