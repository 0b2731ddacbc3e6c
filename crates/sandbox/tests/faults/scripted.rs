//! Each fault in each phase of a scale-up and of a scale-down, and an edit that no watch shows.

use std::time::Duration;

use llmscaler_sandbox::{Fault, On, Verb};
use serde_json::json;

use crate::book::RETRY_AFTER;
use crate::world::World;

const FLEET: &str = "fleet";

/// What goes wrong while a size is changed.
struct Phase {
    name: &'static str,
    on: On,
    /// Whether it happens at the beginning of a watch only, so that the watches have to be broken off to see it.
    of_watches: bool,
    /// What stands in the way while it lasts: the reason in the status, or nothing at all.
    lasting: Lasting,
}

/// What comes of a fault that does not end.
#[derive(Clone, Copy, PartialEq)]
enum Lasting {
    /// The size is written all the same.
    Written,
    /// It is not, and the status says why, in these words.
    Held(&'static str),
    /// A larger one is; a smaller one is written, or the status says why not.
    Careful,
    /// It is not, and nobody can tell.
    Mute,
}

fn phases() -> Vec<Phase> {
    let on = |verb, resource, subresource| On::any().agent("operator*").verb(verb).resource(resource).subresource(subresource);
    let phase = |name, on, lasting| Phase { name, on, of_watches: false, lasting };
    let watching = |name, on, lasting| Phase { name, on, of_watches: true, lasting };
    vec![
        phase("the look at the target", on(Verb::Get, "deployments", ""), Lasting::Held("could not be read")),
        phase("the look at the scaler before a write", on(Verb::Get, "llmscalers", ""), Lasting::Held("cannot be read")),
        phase("the marks on the victims", on(Verb::Patch, "pods", ""), Lasting::Written),
        phase("the write of the size", on(Verb::Patch, "deployments", "scale"), Lasting::Held("")),
        phase("the write of the status", on(Verb::Patch, "llmscalers", "status"), Lasting::Written),
        phase("the events", on(Verb::Create, "events", ""), Lasting::Written),
        phase("the renewal of the lease", on(Verb::Update, "leases", ""), Lasting::Mute),
        phase("the look at the lease", on(Verb::Get, "leases", ""), Lasting::Written),
        watching("the watch of scalers", on(Verb::Watch, "llmscalers", ""), Lasting::Written),
        watching("the watch of targets", on(Verb::Watch, "deployments", ""), Lasting::Written),
        watching("the watch of pods", on(Verb::Watch, "pods", ""), Lasting::Careful),
        watching("the list of scalers", on(Verb::List, "llmscalers", ""), Lasting::Written),
        watching("the list of targets", on(Verb::List, "deployments", ""), Lasting::Written),
        watching("the list of pods", on(Verb::List, "pods", ""), Lasting::Careful),
        watching("the list of ReplicaSets", on(Verb::List, "replicasets", ""), Lasting::Careful),
    ]
}

fn faults(phase: &Phase) -> Vec<Fault> {
    let mut faults = vec![
        Fault::Conflict,
        Fault::TooManyRequests { retry_after: RETRY_AFTER },
        Fault::InternalError,
        Fault::Hang,
        Fault::LostAnswer,
        Fault::Slow(Duration::from_secs(3)),
        Fault::Gone,
    ];
    if phase.of_watches {
        faults.extend([Fault::CutWatch { after: Duration::from_secs(2) }, Fault::StaleList { behind: 20 }]);
    }
    faults
}

async fn world() -> World {
    let mut world = World::new();
    world.fleet(FLEET, 2, 1, json!({})).await;
    world.load(FLEET, vec![Some(15.0)]);
    world.operator();
    world.until(FLEET, 2, 90).await.unwrap();
    world.pass(30).await;
    world
}

/// After how long a fleet is where it should be. What is never answered is waited for as long as the client waits, which is two minutes;
/// until then a shrinking fleet may be kept from it by pods that a silent watch shows as they were. The same goes for a list that is
/// refused with 429: the client's own attempts come to be 82 s apart.
fn patience(phase: &Phase, fault: Fault) -> u64 {
    match fault {
        Fault::Hang if phase.of_watches => 400,
        Fault::TooManyRequests { .. } if phase.of_watches => 240,
        _ => 120,
    }
}

#[tokio::test(start_paused = true)]
async fn what_goes_wrong_twice_delays_a_change_and_no_more() {
    for phase in phases() {
        let mut world = world().await;
        for fault in faults(&phase) {
            for (load, replicas) in [(45.0, 5), (5.0, 1)] {
                world.sandbox.faults().arm(phase.on.clone(), fault, 2);
                if phase.of_watches {
                    world.break_watches();
                }
                world.load(FLEET, vec![Some(load)]);
                let took = world.until(FLEET, replicas, patience(&phase, fault)).await;
                let took = took.unwrap_or_else(|error| panic!("{fault:?} at {}: {error}", phase.name));
                println!("{fault:?} at {}: {replicas} after {took} s", phase.name);
                world.sandbox.faults().disarm();
                world.pass(5).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_goes_wrong_for_long_is_told_and_over_when_it_ends() {
    for phase in phases() {
        for fault in faults(&phase) {
            let mut world = world().await;
            for (load, replicas, before) in [(45.0, 5, 2), (5.0, 1, 5)] {
                world.sandbox.faults().arm(phase.on.clone(), fault, u32::MAX);
                if phase.of_watches {
                    world.break_watches();
                }
                if phase.lasting == Lasting::Mute {
                    // Until the claim is over, it writes.
                    world.pass(15).await;
                }
                world.load(FLEET, vec![Some(load)]);
                world.pass(100).await;
                let (ready, message) = world.book.condition(FLEET, "Ready");
                let told = format!("{fault:?} at {} for long: Ready is {ready}, {message:?}", phase.name);
                println!("{told}, size {}", world.book.size(FLEET));
                let harmless = matches!(fault, Fault::Slow(_)) || matches!(fault, Fault::CutWatch { .. } | Fault::StaleList { .. });
                match phase.lasting {
                    // A write whose answer is lost is made all the same.
                    Lasting::Held(words) if !harmless && fault != Fault::LostAnswer => {
                        assert_eq!(world.book.size(FLEET), before, "{told}");
                        assert!(ready.starts_with("False") && message.contains(words), "{told}");
                    }
                    Lasting::Mute if !harmless && fault != Fault::LostAnswer => assert_eq!(world.book.size(FLEET), before, "{told}"),
                    Lasting::Careful if replicas < before => {
                        let (able, why) = world.book.condition(FLEET, "AbleToScale");
                        let written = world.book.size(FLEET) == replicas;
                        assert!(written || (able != "True ReadyForNewScale" && !why.is_empty()), "{told}; {able}");
                    }
                    Lasting::Written | Lasting::Careful => assert_eq!(world.book.size(FLEET), replicas, "{told}"),
                    _ => {}
                }
                world.sandbox.faults().disarm();
                let took = world.until(FLEET, replicas, patience(&phase, fault)).await;
                took.unwrap_or_else(|error| panic!("{fault:?} at {} for long: {error}", phase.name));
                world.pass(30).await;
                let (ready, message) = world.book.condition(FLEET, "Ready");
                assert!(ready.starts_with("True"), "after {told}: {ready}, {message:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_edit_holds_from_the_moment_that_it_is_made_though_no_watch_shows_it() {
    for fault in [Fault::InternalError, Fault::Hang] {
        let mut world = world().await;
        let watch = On::any().agent("operator*").verb(Verb::Watch).resource("llmscalers");
        world.sandbox.faults().arm(watch, fault, u32::MAX);
        world.break_watches();
        world.pass(40).await;
        assert!(world.edit(FLEET, json!({"mode": "Recommend"})).await);
        world.load(FLEET, vec![Some(45.0)]);
        world.pass(100).await;
        let (ready, message) = world.book.condition(FLEET, "Ready");
        assert_eq!(world.book.size(FLEET), 2, "{fault:?}: {ready}, {message}");
        assert!(ready.starts_with("False") && message.contains("was edited or deleted"), "{fault:?}: {ready}, {message}");
        world.sandbox.faults().disarm();
        world.pass(150).await;
        let (ready, message) = world.book.condition(FLEET, "Ready");
        assert!(ready.starts_with("True") && world.book.size(FLEET) == 2, "{fault:?}: {ready}, {message}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_fleet_is_made_smaller_while_its_pods_have_not_been_seen_for_long() {
    for verb in [Verb::Watch, Verb::List] {
        for fault in [Fault::InternalError, Fault::Hang] {
            let mut world = world().await;
            world.load(FLEET, vec![Some(45.0)]);
            world.until(FLEET, 5, 120).await.unwrap();
            world.sandbox.faults().arm(On::any().agent("operator*").verb(verb).resource("pods"), fault, u32::MAX);
            world.break_watches();
            world.pass(400).await;
            world.load(FLEET, vec![Some(5.0)]);
            world.pass(400).await;
            let (able, why) = world.book.condition(FLEET, "AbleToScale");
            assert_eq!(world.book.size(FLEET), 5, "{fault:?} at {verb:?}: {able}, {why}");
            assert!(why.contains("pods cannot be watched"), "{fault:?} at {verb:?}: {able}, {why}");
            world.sandbox.faults().disarm();
            world.until(FLEET, 1, 400).await.unwrap();
        }
    }
}
