//! What the chart renders, without a cluster.

use serde_json::{Value, json};

use crate::client::{Client, HELMS};
use crate::objects::{arguments, container, identity, objects, of_kind, the};

/// Every switch at its other side.
pub const EVERYTHING: &str = "crates/e2e/fixtures/chart-everything.yaml";

/// Values that have to render, as Helm's flags.
fn matrix() -> Vec<Vec<String>> {
    let mut matrix = vec![vec![], vec![format!("--values={EVERYTHING}")]];
    for set in [
        "manager.enabled=false",
        "manager.replicas=3,podDisruptionBudget.enabled=true,podDisruptionBudget.maxUnavailable=50%",
        "rbac.namespaced=true,rbac.helpers.enabled=true,crd.enabled=false",
        "metrics.enabled=false,prometheus.enabled=true,networkPolicy.enabled=true,certManager.enabled=true",
        "metrics.secure=false,prometheus.enabled=true",
        "metrics.certSecret=mine,certManager.enabled=true,prometheus.enabled=true",
        "certManager.enabled=true,certManager.issuerRef.kind=ClusterIssuer,certManager.issuerRef.name=mine",
        "serviceAccount.enabled=false,serviceAccount.name=mine,rbac.credentials.enabled=false,crd.keep=false",
        "prometheus.rules.enabled=true,prometheus.rules.labels.release=prometheus",
        "prometheus.rules.enabled=true,externalMetrics.enabled=true,grafana.dashboards.enabled=true",
        "rbac.namespaced=true,prometheus.enabled=true,prometheus.rules.enabled=true,grafana.dashboards.enabled=true",
        "manager.extraArgs={--watch-namespace=serving,--enable-http2},metrics.port=9000,dashboard.enabled=true,dashboard.port=8443",
        "dashboard.port=8081,externalMetrics.port=8443",
        "global.of=a-parent-chart",
    ] {
        matrix.push(vec![format!("--set={set}")]);
    }
    matrix
}

fn render(helm: &Client, set: &str) -> Vec<Value> {
    objects(&helm.template(&[&format!("--set={set}")]).unwrap())
}

#[test]
fn every_combination_lints_and_renders_the_same_with_each_helm() {
    let (Some(three), Some(four)) = (Client::new(HELMS[0]), Client::new(HELMS[1])) else { return };
    for values in matrix() {
        let lint = ["lint", "--strict", "dist/chart"].map(str::to_owned);
        let rendered = [&three, &four].map(|helm| {
            let said = helm.run(lint.iter().chain(&values)).unwrap_or_else(|error| panic!("{values:?}: {error}"));
            assert!(!said.contains("[WARNING]") && !said.contains("[ERROR]"), "{values:?}: {said}");
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            objects(&helm.template(&values).unwrap_or_else(|error| panic!("{values:?}: {error}")))
        });
        let names: Vec<String> = rendered[0].iter().map(identity).collect();
        let mut unique = names.clone();
        unique.dedup();
        assert_eq!(names, unique, "{values:?}: objects with the same name");
        assert_eq!(rendered[0], rendered[1], "{values:?}");
    }
}

#[test]
fn a_value_that_does_not_exist_is_of_another_type_or_cannot_work_is_refused() {
    for helm in HELMS.iter().filter_map(|name| Client::new(name)) {
        for (set, words) in [
            ("manger.replicas=2", "manger"),
            ("manager.replica=2", "replica"),
            ("manager.replicas=two", "/manager/replicas"),
            ("manager.image.pullPolicy=Sometimes", "pullPolicy"),
            ("metrics.port=0", "/metrics/port"),
            ("prometheus.interval=often", "/prometheus/interval"),
            ("prometheus.rules.enabled=yes", "/prometheus/rules/enabled"),
            ("grafana.dashboards.folder=llm", "folder"),
            ("dashboard.hosts={https://scalers.example.com}", "/dashboard/hosts/0"),
            ("rbac.namespaced=true,externalMetrics.enabled=true", "an API of the whole cluster"),
            ("manager.replicas=2,externalMetrics.enabled=true", "takes manager.replicas=1"),
            ("manager.replicas=0,externalMetrics.enabled=true", "takes manager.replicas=1"),
            ("manager.enabled=false,externalMetrics.enabled=true", "takes manager.enabled"),
            ("serviceAccount.enabled=false", "takes serviceAccount.name"),
            ("rbac.credentials.namespaces={a,b,a}", "/rbac/credentials/namespaces"),
            ("rbac.namespaced=true,manager.extraArgs={--watch-namespace=other}", "--watch-namespace, which the chart gives it"),
            ("rbac.namespaced=true,manager.args={--watch-namespace,other}", "manager.args gives the operator --watch-namespace,"),
            ("manager.extraArgs={--metrics-secure=false}", "manager.extraArgs gives the operator --metrics-secure,"),
            ("manager.extraArgs={--leader-elect}", "manager.extraArgs gives the operator --leader-elect,"),
            ("metrics.port=8081", "metrics.port is 8081, which is the port of the health probes"),
            ("dashboard.enabled=true,dashboard.port=8443", "dashboard.port is 8443, which is metrics.port"),
            ("externalMetrics.enabled=true,externalMetrics.port=8443", "externalMetrics.port is 8443, which is metrics.port"),
            ("manager.labels.control-plane=mine", "manager.labels sets control-plane"),
            ("manager.pod.labels.control-plane=mine", "manager.pod.labels sets control-plane"),
            ("manager.pod.annotations.kubectl\\.kubernetes\\.io/default-container=mine", "manager.pod.annotations sets kubectl"),
            ("serviceAccount.labels.app\\.kubernetes\\.io/name=mine", "serviceAccount.labels sets app"),
            ("prometheus.enabled=true,prometheus.labels.app\\.kubernetes\\.io/name=mine", "prometheus.labels sets app"),
            ("prometheus.rules.enabled=true,prometheus.rules.labels.app\\.kubernetes\\.io/name=mine", "prometheus.rules.labels sets app"),
            (
                "grafana.dashboards.enabled=true,grafana.dashboards.labels.app\\.kubernetes\\.io/name=mine",
                "grafana.dashboards.labels sets app",
            ),
        ] {
            let refusal = helm.template(&[&format!("--set={set}")]).unwrap_err();
            assert!(refusal.contains(words), "{set}: {refusal}");
        }
    }
}

#[test]
fn the_image_follows_the_version_of_the_chart_unless_it_is_told_otherwise() {
    let Some(helm) = Client::new(HELMS[0]) else { return };
    let version = env!("CARGO_PKG_VERSION");
    for (set, image) in [
        ("manager.image.tag=", format!("4pdosc/llm-operator:{version}")),
        ("manager.image.tag=9.9.1", "4pdosc/llm-operator:9.9.1".to_owned()),
        ("manager.image.repository=registry:5000/a", format!("registry:5000/a:{version}")),
        ("manager.image.repository=a@sha256:b,manager.image.tag=v9", "a@sha256:b".to_owned()),
    ] {
        assert_eq!(container(&render(&helm, set))["image"], image, "{set}");
    }
}

#[test]
fn the_dashboard_is_told_the_names_that_it_is_asked_by() {
    let Some(helm) = Client::new(HELMS[0]) else { return };
    for (set, told) in [
        ("dashboard.hosts={a.example}", None),
        ("dashboard.enabled=true", None),
        ("dashboard.enabled=true,dashboard.hosts={a.example,b.example}", Some("--dashboard-hosts=a.example,b.example")),
    ] {
        let arguments = arguments(&render(&helm, set));
        assert_eq!(arguments.iter().map(String::as_str).find(|argument| argument.starts_with("--dashboard-hosts")), told, "{set}");
    }
}

#[test]
fn the_pod_names_an_account_that_exists() {
    let Some(helm) = Client::new(HELMS[0]) else { return };
    for (set, account, made) in [
        ("serviceAccount.enabled=true", "llm-llmscaleoperator-controller-manager", 1),
        ("serviceAccount.name=mine", "mine", 1),
        ("serviceAccount.enabled=false,serviceAccount.name=default", "default", 0),
        ("serviceAccount.enabled=false,serviceAccount.name=theirs", "theirs", 0),
    ] {
        let objects = render(&helm, set);
        assert_eq!(the(&objects, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"], account, "{set}");
        assert_eq!(of_kind(&objects, "ServiceAccount").len(), made, "{set}");
        for binding in of_kind(&objects, "ClusterRoleBinding").into_iter().chain(of_kind(&objects, "RoleBinding")) {
            assert_eq!(binding["subjects"][0]["name"], account, "{set}");
        }
    }
}

#[test]
fn releases_in_one_namespace_keep_apart_and_long_names_keep_their_ends() {
    let Some(helm) = Client::new(HELMS[0]) else { return };
    let [mine, other] = ["llm", "other"].map(|release| objects(&helm.template_as(release, &[]).unwrap()));
    let selector = |objects: &[Value]| the(objects, "Deployment")["spec"]["selector"].clone();
    assert_ne!(selector(&mine), selector(&other));
    let long = render(&helm, &format!("fullnameOverride={}", "x".repeat(63)));
    for object in &long {
        let name = object["metadata"]["name"].as_str().unwrap();
        assert!(name.len() <= 63 || object["kind"] == "CustomResourceDefinition", "{name}");
    }
    assert!(the(&long, "Deployment")["metadata"]["name"].as_str().unwrap().ends_with("-controller-manager"));
}

#[test]
fn a_certificate_is_mounted_whoever_issues_it_and_prometheus_verifies_it() {
    let Some(helm) = Client::new(HELMS[0]) else { return };
    for (set, secret) in [
        ("certManager.enabled=true", "llm-llmscaleoperator-metrics-server-cert"),
        ("metrics.certSecret=mine,certManager.enabled=true", "mine"),
    ] {
        let objects = render(&helm, &format!("{set},prometheus.enabled=true"));
        assert!(arguments(&objects).contains(&"--metrics-cert-path=/etc/llmscaler/metrics-certs".to_owned()), "{set}");
        let pod = &the(&objects, "Deployment")["spec"]["template"]["spec"];
        assert_eq!(pod["volumes"][0]["secret"]["secretName"], secret, "{set}");
        let tls = &the(&objects, "ServiceMonitor")["spec"]["endpoints"][0]["tlsConfig"];
        assert_eq!(tls["ca"]["secret"]["name"], secret, "{set}");
        assert_eq!(tls["insecureSkipVerify"], json!(null), "{set}");
        for certificate in of_kind(&objects, "Certificate") {
            assert_eq!(certificate["spec"]["secretName"], secret);
            assert!(certificate["spec"]["dnsNames"].as_array().unwrap().contains(&tls["serverName"]));
        }
    }
}

#[test]
fn alerts_and_the_dashboard_are_off_unless_asked_for_and_carry_the_labels_that_they_are_found_by() {
    let Some(helm) = Client::new(HELMS[0]) else { return };
    let kinds = ["ServiceMonitor", "PrometheusRule", "ConfigMap"];
    for (set, found) in [
        ("crd.keep=true", [0, 0, 0]),
        ("prometheus.enabled=true", [1, 0, 0]),
        ("prometheus.rules.enabled=true", [0, 1, 0]),
        ("grafana.dashboards.enabled=true", [0, 0, 1]),
    ] {
        let objects = render(&helm, set);
        assert_eq!(kinds.map(|kind| of_kind(&objects, kind).len()), found, "{set}");
    }
    let objects = render(&helm, "prometheus.rules.enabled=true,prometheus.rules.labels.release=mine,grafana.dashboards.enabled=true");
    assert_eq!(the(&objects, "PrometheusRule")["metadata"]["labels"]["release"], "mine");
    assert_eq!(the(&objects, "ConfigMap")["metadata"]["labels"]["grafana_dashboard"], "1");
    let groups = |set: &str| {
        let objects = render(&helm, set);
        let groups = the(&objects, "PrometheusRule")["spec"]["groups"].as_array().unwrap().clone();
        groups.iter().map(|group| group["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(groups("prometheus.rules.enabled=true"), ["llmscaler"]);
    assert_eq!(groups("prometheus.rules.enabled=true,externalMetrics.enabled=true"), ["llmscaler", "llmscaler-external-metrics"]);
}

#[test]
fn namespaced_rights_end_at_the_namespace() {
    let Some(helm) = Client::new(HELMS[0]) else { return };
    let objects = render(&helm, "rbac.namespaced=true,rbac.helpers.enabled=true");
    assert!(arguments(&objects).contains(&"--watch-namespace=scaling".to_owned()));
    for object in objects.iter().filter(|object| object["apiVersion"] == "rbac.authorization.k8s.io/v1") {
        assert!(["Role", "RoleBinding"].map(Into::into).contains(&object["kind"]), "{object}");
        assert_eq!(object["metadata"]["namespace"], "scaling", "{object}");
        assert!(object["kind"] != "RoleBinding" || object["roleRef"]["kind"] == "Role", "{object}");
    }
}

/// YAML takes some names for a number or a truth, and its versions differ in which: quoted, every one is text.
#[test]
fn a_namespace_of_any_name_is_text() {
    for helm in HELMS.iter().filter_map(|name| Client::new(name)) {
        for set in [&format!("--values={EVERYTHING}"), "--set=rbac.namespaced=true,rbac.helpers.enabled=true"] {
            let rendered = helm.template(&["--namespace=y", set]).unwrap();
            let named: Vec<&str> = rendered.lines().filter_map(|line| line.trim_start().strip_prefix("namespace: ")).collect();
            assert!(named.iter().filter(|name| **name == "\"y\"").count() > 5, "{set}: {named:?}");
            assert!(named.iter().all(|name| name.starts_with('"')), "{set}: {named:?}");
        }
    }
}

#[test]
fn credentials_are_read_where_they_are_allowed_to_be() {
    let Some(helm) = Client::new(HELMS[0]) else { return };
    let bindings = |set: &str| {
        let objects = render(&helm, set);
        let of_credentials = |object: &&Value| {
            object["kind"].as_str().is_some_and(|kind| kind.ends_with("Binding"))
                && object["roleRef"]["name"].as_str().is_some_and(|name| name.ends_with("-credentials-role"))
        };
        let found: Vec<String> = objects.iter().filter(of_credentials).map(identity).collect();
        let elsewhere = objects.iter().filter(|object| object["rules"].as_array().is_some());
        let elsewhere = elsewhere.filter(|role| !role["metadata"]["name"].as_str().unwrap().ends_with("-credentials-role"));
        for role in elsewhere {
            assert!(!role["rules"].to_string().contains("secrets"), "{role}");
        }
        found
    };
    let name = "llm-llmscaleoperator-credentials-role";
    assert_eq!(bindings("rbac.credentials.enabled=true"), [format!("ClusterRoleBinding - {name}")]);
    assert_eq!(bindings("rbac.credentials.enabled=false"), [""; 0]);
    let some = bindings("rbac.credentials.namespaces={a,b}");
    assert_eq!(some, [format!("RoleBinding a {name}"), format!("RoleBinding b {name}")]);
    // Also where nobody looks at the schema.
    let twice = helm.template(&["--skip-schema-validation", "--set=rbac.credentials.namespaces={a,a}"]).unwrap();
    assert_eq!(objects(&twice).iter().filter(|object| identity(object) == format!("RoleBinding a {name}")).count(), 1);
}

#[test]
fn notes_tell_of_the_operator_only_where_there_is_one() {
    // Helm 3 shows notes to those alone who have a cluster.
    let Some(helm) = Client::new(HELMS[1]) else { return };
    let notes = |set: &str| {
        let said = helm.run(["install", "llm", "dist/chart", "--dry-run=client", &format!("--set=dashboard.enabled=true,{set}")]).unwrap();
        said.split_once("NOTES:\n").unwrap().1.to_owned()
    };
    let (with, without) = (notes("manager.enabled=true"), notes("manager.enabled=false"));
    for of_the_operator in ["rollout status", "Metrics are served", "port-forward"] {
        assert!(with.contains(of_the_operator), "no {of_the_operator} in {with}");
        assert!(!without.contains(of_the_operator), "{of_the_operator} in {without}");
    }
    assert!(
        without.starts_with("Everything but the operator itself is installed (manager.enabled is false).\n\n  kubectl get llms -A\n"),
        "{without}"
    );
}
