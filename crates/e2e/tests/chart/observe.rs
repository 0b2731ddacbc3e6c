//! The alerts and the Grafana dashboard that the chart installs, against promtool and the metrics of a running operator.

use std::collections::{BTreeMap, BTreeSet};

use llmscaler_e2e::{ControlPlane, Operator, deployment, eventually};
use llmscaler_engine::Reason;
use promql_parser::label::{MatchOp, Matcher};
use promql_parser::parser::{self, Expr, LabelModifier, VectorSelector};
use promql_parser::util::{ExprVisitor, walk_expr};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{Client, HELMS, repository};
use crate::objects::{objects, the};
use crate::running::{SOON, fleet, has_size};

/// What Prometheus adds to each series that has none of its own.
const OF_PROMETHEUS: [&str; 3] = ["namespace", "job", "instance"];

/// The rules and the dashboard with everything on.
fn rendered() -> Option<(Value, Value)> {
    rendered_with("prometheus.rules.runbookBase=")
}

fn rendered_with(more: &str) -> Option<(Value, Value)> {
    let set = format!("--set=prometheus.rules.enabled=true,externalMetrics.enabled=true,grafana.dashboards.enabled=true,{more}");
    let objects = objects(&Client::new(HELMS[1])?.template(&[&set]).unwrap());
    let dashboard = the(&objects, "ConfigMap")["data"]["llmscaler.json"].as_str().unwrap().to_owned();
    Some((the(&objects, "PrometheusRule")["spec"].clone(), serde_json::from_str(&dashboard).unwrap()))
}

fn rules(spec: &Value) -> Vec<&Value> {
    spec["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap()).collect()
}

#[test]
fn each_alert_fires_where_it_should_and_nowhere_else() {
    let (Some(promtool), Some((spec, _))) = (Client::promtool(), rendered()) else { return };
    let folder = TempDir::new().unwrap();
    let cases = std::fs::read_to_string(repository().join("crates/e2e/fixtures/alerts-test.yaml")).unwrap();
    std::fs::write(folder.path().join("rules.yaml"), spec.to_string()).unwrap();
    std::fs::write(folder.path().join("cases.yaml"), &cases).unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    promtool.run(["check", "rules", "--lint=all", "--lint-fatal", &path("rules.yaml")]).unwrap();
    promtool.run(["test", "rules", &path("cases.yaml")]).unwrap();

    // Each has a case in which it fires, and one in which it does not.
    let cases: Value = serde_saphyr::from_str(&cases).unwrap();
    let mut seen: BTreeMap<&str, BTreeSet<bool>> = BTreeMap::new();
    for test in cases["tests"].as_array().unwrap().iter().flat_map(|case| case["alert_rule_test"].as_array().unwrap()) {
        let fires = !test["exp_alerts"].as_array().unwrap().is_empty();
        seen.entry(test["alertname"].as_str().unwrap()).or_default().insert(fires);
    }
    for rule in rules(&spec) {
        let alert = rule["alert"].as_str().unwrap();
        assert_eq!(seen.get(alert), Some(&BTreeSet::from([false, true])), "{alert}");
    }
}

#[test]
fn each_alert_says_what_to_do_and_where_that_is_told() {
    let Some((spec, _)) = rendered() else { return };
    let page = std::fs::read_to_string(repository().join("docs/alerts.md")).unwrap();
    let told: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let rules = rules(&spec);
    assert_eq!(told, rules.iter().map(|rule| rule["alert"].as_str().unwrap()).collect());
    for rule in rules {
        let alert = rule["alert"].as_str().unwrap();
        assert!(["critical", "warning"].map(Value::from).contains(&rule["labels"]["severity"]), "{alert}");
        assert!(rule["for"].is_string(), "{alert}");
        for annotation in ["summary", "description"] {
            assert!(rule["annotations"][annotation].as_str().is_some_and(|text| text.len() > 20), "{alert}: {annotation}");
        }
        assert_eq!(rule["annotations"]["runbook"], format!("docs/alerts.md#{}", alert.to_lowercase()));
        let section = page.split("\n## ").find(|section| section.starts_with(&format!("{alert}\n"))).unwrap();
        assert!(section.contains("\nLook at ") && section.contains("\n| you find | do |\n"), "{alert}");
    }
}

#[test]
fn each_alert_links_to_where_it_is_told_once_that_is_known() {
    let page = "https://git.example.com/llmscaleoperator/docs/alerts.md";
    let Some((spec, _)) = rendered_with(&format!("prometheus.rules.runbookBase={page}")) else { return };
    for rule in rules(&spec) {
        let alert = rule["alert"].as_str().unwrap();
        assert_eq!(rule["annotations"]["runbook_url"], format!("{page}#{}", alert.to_lowercase()));
        assert!(rule["annotations"]["runbook"].is_null(), "{alert}");
    }
    let helm = Client::new(HELMS[1]).unwrap();
    let refused = helm.template(&["--set=prometheus.rules.enabled=true,prometheus.rules.runbookBase=docs/alerts.md"]).unwrap_err();
    assert!(refused.contains("runbookBase"), "{refused}");
}

#[test]
fn the_dashboard_is_what_grafana_takes() {
    let Some((_, dashboard)) = rendered() else { return };
    assert!(dashboard["schemaVersion"].as_u64().is_some_and(|version| version >= 38), "of Grafana 10");
    let variables: Vec<&Value> = dashboard["templating"]["list"].as_array().unwrap().iter().map(|variable| &variable["name"]).collect();
    assert_eq!(variables, ["datasource", "namespace", "scaler"]);
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
        assert!(x + w <= 24, "{panel}");
        for place in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(taken.insert(place), "overlaps: {}", panel["title"]);
        }
        if panel["type"] != "row" {
            let source = json!({"type": "prometheus", "uid": "${datasource}"});
            let targets = panel["targets"].as_array().unwrap();
            assert!(targets.iter().chain([panel]).all(|place| place["datasource"] == source), "{}", panel["title"]);
            assert!(!panel["description"].as_str().unwrap().is_empty(), "{}", panel["title"]);
        }
    }
}

/// Every expression, and where it is.
fn expressions((spec, dashboard): &(Value, Value)) -> Vec<(String, String)> {
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let mut found: Vec<(String, String)> = rules(spec).iter().map(|rule| (word(&rule["alert"]), word(&rule["expr"]))).collect();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            found.push((word(&panel["title"]), word(&target["expr"])));
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        if let Some(values) = variable["definition"].as_str() {
            let (selector, label) = values.strip_prefix("label_values(").unwrap().trim_end_matches(')').rsplit_once(", ").unwrap();
            found.push((word(&variable["name"]), format!("count by ({label}) ({selector})")));
        }
    }
    // As Grafana writes them out.
    let filled = |text: String| text.replace("$__rate_interval", "4m").replace("$namespace", ".*").replace("$scaler", ".*");
    found.into_iter().map(|(place, text)| (place, filled(text))).collect()
}

/// What an expression asks of series.
#[derive(Default)]
struct Asked {
    selectors: Vec<VectorSelector>,
    labels: BTreeSet<String>,
}

impl ExprVisitor for Asked {
    type Error = ();

    fn pre_visit(&mut self, expr: &Expr) -> Result<bool, ()> {
        match expr {
            Expr::VectorSelector(selector) => self.selectors.push(selector.clone()),
            Expr::MatrixSelector(matrix) => self.selectors.push(matrix.vs.clone()),
            Expr::Aggregate(aggregate) => {
                if let Some(LabelModifier::Include(labels) | LabelModifier::Exclude(labels)) = &aggregate.modifier {
                    self.labels.extend(labels.labels.iter().cloned());
                }
            }
            Expr::Binary(binary) => {
                if let Some(LabelModifier::Include(labels) | LabelModifier::Exclude(labels)) =
                    binary.modifier.as_ref().and_then(|modifier| modifier.matching.as_ref())
                {
                    self.labels.extend(labels.labels.iter().cloned());
                }
            }
            _ => {}
        }
        Ok(true)
    }
}

/// The labels of each metric of a scrape.
fn series(scrape: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut series: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in scrape.lines().filter(|line| !line.starts_with('#')) {
        let sample = line.rsplit_once(' ').unwrap().0;
        let Ok(Expr::VectorSelector(selector)) = parser::parse(sample) else { panic!("{line}") };
        let labels = selector.matchers.matchers.into_iter().map(|matcher| matcher.name);
        series.entry(selector.name.unwrap()).or_default().extend(labels);
    }
    series
}

/// The words that a matcher looks for.
fn words(matcher: &Matcher) -> Vec<&str> {
    match matcher.op {
        MatchOp::Equal | MatchOp::NotEqual => vec![&matcher.value],
        MatchOp::Re(_) | MatchOp::NotRe(_) => matcher.value.split('|').collect(),
    }
}

/// Asks a Prometheus that scrapes the operator: it refuses none, and has an answer to all that do not look for trouble or an SLO.
async fn answered_by_prometheus(plane: &ControlPlane, operator: &Operator, expressions: &[(String, String)]) {
    let url = operator.metrics_url();
    let address = url.trim_start_matches("http://").trim_end_matches("/metrics");
    plane.prometheus().scrape("observed", address.parse().unwrap(), &BTreeMap::new());
    let twice = format!(r#"count_over_time(llmscaler_scalers{{instance="{address}"}}[1m])"#);
    eventually("scraped three times", SOON, || async {
        plane.prometheus().value(&twice).await.filter(|samples| *samples >= 3.0).ok_or("not yet")
    })
    .await;
    for (place, text) in expressions {
        let answer = plane.prometheus().query(text).await;
        assert_eq!(answer["status"], "success", "{place}: {text}: {answer}");
        let of_trouble = [" == ", " > ", "absent(", r#""slo""#, "reason=~"].iter().any(|part| text.contains(part));
        assert!(of_trouble || !answer["data"]["result"].as_array().unwrap().is_empty(), "{place}: nothing comes of {text}");
    }
}

#[tokio::test]
async fn every_metric_and_label_that_is_asked_for_is_in_a_scrape_of_the_running_operator() {
    let (Some(plane), Some(rendered)) = (ControlPlane::shared().await, rendered()) else { return };
    let ns = plane.namespace("observed").await;
    let operator = Operator::launch(&plane).argument("--watch-namespace").argument(ns.name()).start().await;
    // One that writes; one with a known and an unknown signal; one whose target is missing.
    let _server = fleet(&ns).await;
    has_size(&ns, 2).await;
    ns.create(&deployment("other", 1)).await;
    for name in ["other", "lost"] {
        let spec = json!({
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "serverAddress": plane.prometheus().url(),
            "minReplicas": 1,
            "maxReplicas": 3,
            "syncPeriodSeconds": 1,
            "retryPeriodSeconds": 1,
            "metrics": [
                {"name": "load", "query": "scalar(vector(2))", "target": "2"},
                {"name": "none", "query": "nobody_has_this", "target": "1"},
            ],
        });
        let metadata = json!({"name": name});
        let kind = ("autoscaling.modelsphere.dev/v1alpha1", "LLMScaler");
        ns.apply(&json!({"apiVersion": kind.0, "kind": kind.1, "metadata": metadata, "spec": spec}).to_string()).await;
    }
    let told = ["llmscaler_sync_errors_total{", "llmscaler_reading_target{", "llmscaler_writes_total{", "llmscaler_watch_failing{"];
    let scrape = eventually("a sample of each", SOON, || async {
        let scrape = operator.metrics().await;
        match told.iter().find(|series| !scrape.lines().any(|line| line.starts_with(**series))) {
            Some(missing) => Err(format!("no {missing}…}} in\n{scrape}")),
            None => Ok(scrape),
        }
    })
    .await;
    assert!(scrape.lines().any(|line| line == "llmscaler_leader 1"), "without an election it leads:\n{scrape}");
    let expressions = expressions(&rendered);
    assert!(expressions.len() > 40, "{}", expressions.len());
    answered_by_prometheus(&plane, &operator, &expressions).await;
    assert!(operator.stop().await.success());

    let series = series(&scrape);
    let page = std::fs::read_to_string(repository().join("docs/metrics.md")).unwrap();
    let known: BTreeSet<&str> = series.values().flatten().map(String::as_str).chain(OF_PROMETHEUS).collect();
    for (place, text) in &expressions {
        let expr = parser::parse(text).unwrap_or_else(|error| panic!("{place}: {error}: {text}"));
        let mut asked = Asked::default();
        walk_expr(&mut asked, &expr).unwrap();
        assert!(!asked.selectors.is_empty(), "{place}: {text}");
        for label in &asked.labels {
            assert!(known.contains(label.as_str()), "{place}: no series has label {label}: {text}");
        }
        for selector in &asked.selectors {
            let name = selector.name.as_deref().unwrap();
            let labels = series.get(name).unwrap_or_else(|| panic!("{place}: no series {name}"));
            for matcher in &selector.matchers.matchers {
                if !labels.contains(&matcher.name) {
                    assert!(OF_PROMETHEUS.contains(&matcher.name.as_str()), "{place}: {name} has no label {}: {text}", matcher.name);
                    continue;
                }
                for word in words(matcher).into_iter().filter(|word| *word != ".*") {
                    let exists = match matcher.name.as_str() {
                        "reason" => Reason::ALL.iter().any(|reason| reason.as_str() == word),
                        _ => page.contains(&format!("`{word}`")),
                    };
                    assert!(exists, "{place}: {} is never {word}: {text}", matcher.name);
                }
            }
        }
    }
}
