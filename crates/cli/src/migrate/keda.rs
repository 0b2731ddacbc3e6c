//! KEDA's `ScaledObject`.

pub mod authentication;
mod modifiers;
mod trigger;

use llmscaler_api::{Behavior, Fallback, Idle, Invalid, SelectPolicy};

use self::authentication::Authentication;
use self::modifiers::{Law, law};
use self::trigger::Trigger;
use super::behavior::behavior;
use super::draft::{SYNC_PERIOD, Spec};
use super::ledger::Node;
use super::outcome::{Made, annotations, target};
use crate::dns;

/// The polling interval of KEDA.
const POLLING: i32 = 30;
/// Its time from the last activity to zero.
const COOLDOWN: i32 = 300;
/// Its largest fleet.
const MAX: i32 = 100;

/// The scaler that does what a `ScaledObject` and its HPA do.
pub fn scaled_object(root: &Node<'_>, namespace: Option<&str>, known: &[Authentication]) -> Result<Made, Invalid> {
    let spec = root.need("spec")?;
    let target = target(&spec)?;
    if let Some(name) = spec.at(&["scaleTargetRef", "envSourceContainerName"]) {
        name.left("nothing is read from the environment of a container");
    }
    let triggers = triggers(&spec, namespace, known)?;
    let hpa = spec.at(&["advanced", "horizontalPodAutoscalerConfig"]);
    let generated = match hpa.as_ref().and_then(|hpa| hpa.get("name")) {
        Some(name) => {
            name.left("there is no generated HPA");
            dns::subdomain(&name.text()?).map_err(|why| name.invalid(&why))?
        }
        None => format!("keda-hpa-{}", root.need("metadata")?.need("name")?.text()?),
    };
    restore(&spec)?;
    let law = law(&spec, &target, &triggers)?;
    let behavior_node = hpa.and_then(|hpa| hpa.get("behavior"));
    let mut behavior = behavior(behavior_node.as_ref(), matches!(law, Law::Metrics))?;
    let bounds = bounds(&spec)?;
    let mut made = Spec::new(target, bounds, Behavior::default());
    let paused = pauses(root, &mut behavior)?;
    made.behavior = behavior;
    made.sync_period_seconds = sync_period(&spec, bounds.0)?;
    made.idle = idle(&spec, bounds.0)?;
    let mut differences = vec![];
    fallback(&spec, &triggers, &mut made, &mut differences)?;
    let Some(first) = triggers.first() else { return Ok(Made::none("it has no trigger that asks a Prometheus")) };
    let connection = first.connection.clone();
    made.server_address = Some(connection.address);
    made.server_headers = connection.headers;
    made.server_headers_from = connection.headers_from;
    made.server_tls = connection.tls;
    match law {
        Law::Unknown(why) => return Ok(Made::none(why)),
        Law::Band(band) => {
            differences.extend(modifiers::differences(&band, bounds.1));
            made.slo = Some(band);
        }
        Law::Metrics => {
            differences.extend(of_metrics(&triggers));
            made.metrics = triggers.into_iter().map(|trigger| trigger.metric).collect();
        }
    }
    if behavior_node.is_none() {
        differences.push(
            "Without a behavior an HPA at most doubles the fleet, or takes it to 4, at each sync. The written behavior doubles it or adds 4 \
             within 15 s; a small fleet may grow a little faster."
                .to_owned(),
        );
    }
    differences.extend(of_zero(&made));
    differences.extend(paused);
    differences.push("An answer counts with HTTP status 200 only, and a negative value is unknown.".to_owned());
    Ok(Made { generated_hpa: Some(generated), ..Made::scaler(made, differences) })
}

/// The triggers that can be carried: a scaler asks one server, in one way, so those that ask like the first.
fn triggers<'a>(spec: &Node<'a>, namespace: Option<&str>, known: &[Authentication]) -> Result<Vec<Trigger<'a>>, Invalid> {
    let mut triggers: Vec<Trigger<'_>> = vec![];
    for (index, node) in spec.need("triggers")?.items().into_iter().enumerate() {
        let Some(trigger) = trigger::trigger(node, index, triggers.len(), namespace, known)? else { continue };
        if triggers.first().is_some_and(|first| first.connection != trigger.connection) {
            trigger.node.lost("a scaler asks one server with one set of credentials, and this is another than that of the first trigger");
        } else {
            triggers.push(trigger);
        }
    }
    Ok(triggers)
}

fn bounds(spec: &Node<'_>) -> Result<(i32, i32), Invalid> {
    let read = |name: &str, to: &str, default: i32, least: i32| match spec.get(name) {
        Some(field) => {
            field.carried(to);
            field.replicas(least)
        }
        None => Ok(default),
    };
    let bounds = (read("minReplicaCount", "minReplicas", 0, 0)?, read("maxReplicaCount", "maxReplicas", MAX, 1)?);
    if let Some(idle) = spec.get("idleReplicaCount") {
        idle.lost(format!(
            "the fleet stays at {} when idle: there is one minimum. For zero when idle set minReplicas: 0 and idle.cooldownSeconds; the \
             fleet then wakes to what the metrics ask for",
            bounds.0
        ));
    }
    Ok(bounds)
}

/// Polling matters to KEDA between zero and one only; the HPA syncs every 15 s.
fn sync_period(spec: &Node<'_>, min: i32) -> Result<i32, Invalid> {
    let Some(field) = spec.get("pollingInterval") else { return Ok(SYNC_PERIOD.min(POLLING)) };
    let polling = field.int()?;
    if min > 0 {
        field.left("of effect between zero and one only, and minReplicaCount is above zero");
        return Ok(SYNC_PERIOD);
    }
    field.carried("syncPeriodSeconds");
    Ok(polling.clamp(1, SYNC_PERIOD))
}

fn idle(spec: &Node<'_>, min: i32) -> Result<Option<Idle>, Invalid> {
    let cooldown = spec.get("cooldownPeriod");
    let seconds = cooldown.as_ref().map(Node::int).transpose()?.unwrap_or(COOLDOWN);
    match &cooldown {
        Some(field) if min == 0 => field.carried("idle.cooldownSeconds"),
        Some(field) => field.left("of effect on the way to zero only, and minReplicaCount is above zero"),
        None => {}
    }
    if let Some(initial) = spec.get("initialCooldownPeriod") {
        if min > 0 || initial.int()? <= seconds {
            initial.left("a scaler that is new waits a whole cooldown before zero");
        } else {
            initial.lost("a scaler that is new waits for idle.cooldownSeconds and no longer");
        }
    }
    Ok((min == 0).then_some(Idle { cooldown_seconds: seconds }))
}

fn fallback(spec: &Node<'_>, triggers: &[Trigger<'_>], made: &mut Spec, differences: &mut Vec<String>) -> Result<(), Invalid> {
    let Some(node) = spec.get("fallback") else { return Ok(()) };
    let (threshold, replicas) = (node.need("failureThreshold")?, node.need("replicas")?);
    let floor = Fallback { failure_threshold: threshold.int()?, replicas: replicas.int()? };
    let kind = node.get("behavior");
    let behavior = kind.as_ref().map(Node::text).transpose()?.unwrap_or_else(|| "static".to_owned());
    let holds = triggers.iter().all(|trigger| !trigger.empty_is_zero);
    let carry_floor = |made: &mut Spec| {
        threshold.carried("fallback.failureThreshold");
        replicas.carried("fallback.replicas");
        made.fallback = Some(floor.clone());
    };
    let hold = "set required: true on the metrics whose query always has a result; the fleet then does not shrink while they fail";
    match behavior.as_str() {
        "static" | "currentReplicasIfHigher" => {
            carry_floor(made);
            if behavior == "static" {
                kind.iter().for_each(|kind| kind.carried("fallback"));
            } else if holds {
                kind.iter().for_each(|kind| kind.carried("metrics[].required"));
            } else {
                kind.iter().for_each(|kind| kind.lost(hold));
            }
            differences.push(format!(
                "fallback is a floor: it lifts the fleet to {} replicas while a metric is unknown, and never shrinks it to that. It counts \
                 syncs in a row, one each {} s; KEDA counts polls and the HPA's requests.",
                floor.replicas, made.sync_period_seconds
            ));
        }
        "currentReplicas" => {
            threshold.left("a metric that fails never shrinks the fleet, from the first failure on");
            replicas.left("with currentReplicas it is not used");
            kind.iter().for_each(|kind| if holds { kind.carried("metrics[].required") } else { kind.lost(hold) });
        }
        _ => node.lost("a fallback only ever raises the fleet here: set fallback: {failureThreshold, replicas} to the floor that you want"),
    }
    Ok(())
}

fn restore(spec: &Node<'_>) -> Result<(), Invalid> {
    let Some(field) = spec.at(&["advanced", "restoreToOriginalReplicaCount"]) else { return Ok(()) };
    if field.truth()? {
        field.lost("when the scaler is deleted the target keeps its size");
    } else {
        field.left("when the scaler is deleted the target keeps its size, too");
    }
    Ok(())
}

/// The annotations that pause KEDA. Answers what to know about them.
fn pauses(root: &Node<'_>, behavior: &mut Behavior) -> Result<Vec<String>, Invalid> {
    let mut differences = vec![];
    for (name, annotation) in annotations(root) {
        // What is no truth value counts as true.
        let on = annotation.truth().unwrap_or(true);
        match name {
            "autoscaling.keda.sh/paused" if on => {
                annotation.carried("mode");
                differences.push("The ScaledObject is paused; leave mode: Recommend as long as the pause is meant.".to_owned());
            }
            "autoscaling.keda.sh/paused-replicas" => {
                annotation.carried("mode");
                differences.push(format!(
                    "The ScaledObject is paused at {}; Recommend writes nothing, so the target stays there. In mode Auto, minReplicas = \
                     maxReplicas pins a size. A scaler in mode Auto waits until paused-replicas is replaced by paused, or the object is gone.",
                    annotation.text()?
                ));
            }
            "autoscaling.keda.sh/paused-scale-in" if on => {
                annotation.carried("behavior.scaleDown.selectPolicy");
                behavior.scale_down.iter_mut().for_each(|rules| rules.select_policy = Some(SelectPolicy::Disabled));
            }
            "autoscaling.keda.sh/paused-scale-out" if on => {
                annotation.carried("behavior.scaleUp.selectPolicy");
                behavior.scale_up.iter_mut().for_each(|rules| rules.select_policy = Some(SelectPolicy::Disabled));
            }
            "autoscaling.keda.sh/paused" | "autoscaling.keda.sh/paused-scale-in" | "autoscaling.keda.sh/paused-scale-out" => {
                annotation.left("it is off");
            }
            "autoscaling.keda.sh/force-activation" => annotation.lost("nothing keeps an idle fleet active but minReplicas: 1"),
            "scaledobject.keda.sh/transfer-hpa-ownership" | "scaledobject.keda.sh/hpa-excluded-labels" => {
                annotation.left("there is no generated HPA");
            }
            _ => {}
        }
    }
    Ok(differences)
}

fn of_metrics(triggers: &[Trigger<'_>]) -> Vec<String> {
    let mut differences = vec![];
    let names = |all: Vec<&Trigger<'_>>| all.iter().filter_map(|trigger| trigger.metric.name.clone()).collect::<Vec<_>>().join(" and ");
    let zeros: Vec<&Trigger<'_>> = triggers.iter().filter(|trigger| trigger.empty_is_zero).collect();
    if !zeros.is_empty() {
        differences.push(format!(
            "An empty result, NaN and Inf are 0 to KEDA (ignoreNullValues) and unknown here: {}. Where an empty result does mean no load, \
             add `or vector(0)` to the query, or take the signal of a preset instead, which proves its 0.",
            names(zeros.clone())
        ));
    }
    differences
}

fn of_zero(made: &Spec) -> Option<String> {
    let cooldown = made.idle.as_ref()?.cooldown_seconds;
    let down = made.behavior.scale_down.as_ref().filter(|rules| rules.select_policy != Some(SelectPolicy::Disabled))?;
    let window = down.stabilization_window_seconds?;
    Some(format!(
        "KEDA goes to zero {cooldown} s after the last activity, past every window and policy, and only while no trigger fails. Here the \
         scaleDown window of {window} s holds the last replica as well, so it takes up to {} s; make idle.cooldownSeconds or the window \
         shorter. While a metric is unknown the fleet does not go to zero. From zero it wakes to the count that the metrics ask for, within \
         {} s.",
        i64::from(cooldown) + i64::from(window),
        made.sync_period_seconds
    ))
}
