//! Whether an operator runs, and only one of them acts.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::finding::Finding;
use super::gather::Fact;
use crate::prose::ago;

const CHECK: &str = "operator";

/// How long a lease that is held may go without a renewal; it is renewed every few seconds and ends after 15.
const STALE: SignedDuration = SignedDuration::from_secs(60);

/// The operator's leases and pods, wherever they are.
pub fn check(leases: &Fact<Vec<Lease>>, pods: &Fact<Vec<Pod>>, now: Timestamp) -> Vec<Finding> {
    let mut findings = vec![];
    match leases {
        Ok(leases) => findings.extend(leases.iter().map(|lease| of_lease(lease, now))),
        Err(why) => findings.push(Finding::unseen(CHECK, "the operator's Lease", why)),
    }
    match pods {
        Ok(pods) => findings.extend(of_pods(pods)),
        Err(why) => findings.push(Finding::unseen(CHECK, "the operator's pods", why)),
    }
    if findings.is_empty() {
        findings.push(Finding::note(
            CHECK,
            "neither a pod nor a Lease of the operator was found",
            "if none runs, install it; one that runs outside of the cluster, or under labels of your own, is not seen here: below, each \
             scaler tells whether somebody looks after it",
        ));
    }
    findings
}

fn of_lease(lease: &Lease, now: Timestamp) -> Finding {
    let namespace = lease.namespace().unwrap_or_default();
    let spec = lease.spec.clone().unwrap_or_default();
    let holder = spec.holder_identity.filter(|holder| !holder.is_empty());
    let (Some(holder), Some(renewed)) = (holder, spec.renew_time) else {
        return Finding::warning(
            CHECK,
            format!("nobody holds the operator's Lease in namespace {namespace}"),
            "an operator takes it within seconds: see whether its pods run, and read their logs",
        );
    };
    let said = format!("{holder} holds the Lease in namespace {namespace}, renewed {}", ago(renewed.0, now));
    if now.duration_since(renewed.0) > STALE {
        let advice = "it has ended without handing over, and nobody has followed: see whether the operator's pods run, and read their logs; \
             or the operator runs without --leader-elect now, and this is left over";
        return Finding::warning(CHECK, said, advice);
    }
    Finding::ok(CHECK, said)
}

fn of_pods(pods: &[Pod]) -> Vec<Finding> {
    let running: Vec<&Pod> = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect();
    let name = |pod: &Pod| format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
    let mut findings = vec![];
    let (ready, unready): (Vec<&Pod>, Vec<&Pod>) = running.into_iter().partition(|pod| is_ready(pod));
    if !ready.is_empty() {
        findings.push(Finding::ok(CHECK, format!("ready: {}", ready.iter().map(|pod| name(pod)).collect::<Vec<_>>().join(", "))));
    }
    for pod in unready {
        let advice = format!("kubectl logs -n {} {}", pod.namespace().unwrap_or_default(), pod.name_any());
        let found = format!("pod {} of the operator is not ready", name(pod));
        findings.push(if ready.is_empty() { Finding::problem(CHECK, found, advice) } else { Finding::note(CHECK, found, advice) });
    }
    let unelected: Vec<String> = ready.iter().filter(|pod| !elects(pod)).map(|pod| name(pod)).collect();
    if ready.len() > 1 && !unelected.is_empty() {
        let found = format!("{} operators run, and {} acts without leader election", ready.len(), unelected.join(", "));
        let advice = "operators that act at the same time overwrite each other: start each with --leader-elect, or run one replica, unless \
             each has a --watch-namespace of its own";
        let apart = ready.iter().all(|pod| argument(pod, "--watch-namespace").is_some());
        findings.push(if apart { Finding::note(CHECK, found, advice) } else { Finding::problem(CHECK, found, advice) });
    }
    findings
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Whether this is an operator, by what it runs. Its label alone many others have as well.
pub fn is_operator(pod: &Pod) -> bool {
    let images = pod.spec.iter().flat_map(|spec| &spec.containers).filter_map(|container| container.image.as_deref());
    let of_ours = |image: &str| image.contains("llmscale") || image.contains("llm-operator");
    images.into_iter().any(of_ours) || words(pod).any(|word| word == "llmscaler" || word.ends_with("/llmscaler"))
}

fn words(pod: &Pod) -> impl Iterator<Item = &String> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.flat_map(|container| container.command.iter().chain(&container.args).flatten())
}

fn elects(pod: &Pod) -> bool {
    argument(pod, "--leader-elect").is_some_and(|value| value != "false")
}

/// The value of a flag, empty where it stands alone.
fn argument<'a>(pod: &'a Pod, flag: &str) -> Option<&'a str> {
    words(pod).find_map(|word| match word.strip_prefix(flag)? {
        "" => Some(""),
        rest => rest.strip_prefix('='),
    })
}

/// The service account that the operator runs as: namespace and name.
pub fn account(pods: &[Pod]) -> Option<(String, String)> {
    let pod = pods.iter().find(|pod| is_ready(pod)).or_else(|| pods.first())?;
    let name = pod.spec.as_ref()?.service_account_name.clone().unwrap_or_else(|| "default".to_owned());
    Some((pod.namespace()?, name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::doctor::finding::Severity;

    fn pod(name: &str, ready: bool, arguments: &[&str]) -> Pod {
        let conditions = [json!({"type": "Ready", "status": if ready { "True" } else { "False" }})];
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "system"},
            "spec": {"serviceAccountName": "scaler", "containers": [{"name": "manager", "command": ["/llmscaler"], "args": arguments}]},
            "status": {"conditions": conditions},
        }))
        .unwrap()
    }

    fn lease(holder: &str, renewed: &str) -> Lease {
        let spec = json!({"holderIdentity": holder, "renewTime": renewed});
        serde_json::from_value(json!({"metadata": {"name": "x", "namespace": "system"}, "spec": spec})).unwrap()
    }

    fn severities(leases: Vec<Lease>, pods: Vec<Pod>) -> Vec<Severity> {
        let now = "2026-01-01T00:05:00Z".parse().unwrap();
        check(&Ok(leases), &Ok(pods), now).into_iter().map(|finding| finding.severity).collect()
    }

    #[test]
    fn a_lease_is_held_stale_or_free() {
        use Severity::{Note, Ok, Warning};
        assert_eq!(severities(vec![lease("a", "2026-01-01T00:04:55.000000Z")], vec![]), [Ok]);
        assert_eq!(severities(vec![lease("a", "2026-01-01T00:03:00.000000Z")], vec![]), [Warning]);
        assert_eq!(severities(vec![lease("", "2026-01-01T00:04:55.000000Z")], vec![]), [Warning]);
        assert_eq!(severities(vec![], vec![]), [Note]);
    }

    #[test]
    fn several_operators_have_to_elect_one_unless_they_are_apart() {
        use Severity::{Note, Ok, Problem};
        let of = |pods: &[(bool, &[&str])]| severities(vec![], pods.iter().map(|(ready, args)| pod("m", *ready, args)).collect());
        assert_eq!(of(&[(true, &["operator"])]), [Ok]);
        assert_eq!(of(&[(false, &["operator"])]), [Problem]);
        assert_eq!(of(&[(true, &["operator", "--leader-elect"]), (true, &["operator", "--leader-elect=true"])]), [Ok]);
        assert_eq!(of(&[(true, &["operator", "--leader-elect"]), (true, &["operator", "--leader-elect=false"])]), [Ok, Problem]);
        let apart = ["operator", "--watch-namespace=a"];
        assert_eq!(of(&[(true, &apart), (true, &apart)]), [Ok, Note]);
        assert_eq!(of(&[(true, &["operator"]), (false, &["operator"])]), [Ok, Note]);
    }

    #[test]
    fn an_operator_is_known_by_what_it_runs() {
        assert!(is_operator(&pod("a", true, &["operator"])));
        let other = json!({"spec": {"containers": [{"name": "x", "args": ["serve"]}]}});
        assert!(!is_operator(&serde_json::from_value(other).unwrap()));
        assert_eq!(account(&[pod("a", true, &[])]), Some(("system".to_owned(), "scaler".to_owned())));
        assert_eq!(account(&[]), None);
    }
}
