use std::fmt::Write as _;

use llmscaler_engine::Reading;
use proptest::prelude::*;

use super::*;
use crate::preset::{Aggregate, Latency};

const PERIOD: i64 = 15;
const ROUTER_ADDRESS: &str = "http://epp.serving.svc:9090";

/// A vLLM server, as far as its page shows.
#[derive(Clone, Debug, Default)]
struct Engine {
    running: f64,
    queued: f64,
    kv: f64,
    tokens: f64,
    /// Requests by TTFT: up to 0.1, up to 0.5, up to 1 s, above.
    ttft: [f64; 4],
}

impl Engine {
    fn page(&self) -> String {
        let mut page = format!(
            "vllm:num_requests_running{{engine=\"0\"}} {}\nvllm:num_requests_waiting{{engine=\"0\"}} {}\n\
             vllm:kv_cache_usage_perc{{engine=\"0\"}} {}\nvllm:generation_tokens_total{{engine=\"0\"}} {}\n",
            self.running, self.queued, self.kv, self.tokens
        );
        let mut sum = 0.0;
        for (count, le) in self.ttft.iter().zip(["0.1", "0.5", "1.0", "+Inf"]) {
            sum += count;
            let _ = writeln!(page, "vllm:time_to_first_token_seconds_bucket{{engine=\"0\",le=\"{le}\"}} {sum}");
        }
        page
    }
}

/// A fleet by name; the UID is the name unless it is written as `name/uid`. `None`: it hangs.
type Fleet<'a> = [(&'a str, Option<String>)];

fn at(sync: i64) -> Time {
    Time::from_millis(sync * PERIOD * 1000)
}

fn sync(scrape: &mut Scrape, number: i64, fleet: &Fleet<'_>, router: Option<&str>) {
    let pods: Vec<_> = fleet
        .iter()
        .map(|(name, page)| {
            let (name, uid) = name.split_once('/').unwrap_or((name, name));
            PodPage { name, uid, page: page.as_deref().map(str::as_bytes).ok_or("it hangs") }
        })
        .collect();
    let routers: Vec<_> = router.into_iter().map(|page| (ROUTER_ADDRESS.to_owned(), Ok(page.as_bytes()))).collect();
    scrape.read(&pods, &routers, at(number));
}

fn scrape(preset: &str, router: bool) -> Scrape {
    Scrape::new(
        Preset::named(preset).unwrap(),
        router,
        [Signal::KvCacheUsage, Signal::GenerationTokens, Signal::Ttft, Signal::PredictedTtft],
        &BTreeMap::new(),
        Scrape::SHORTEST_WINDOW,
    )
}

fn pod<'a>(name: &'a str, engine: &Engine) -> (&'a str, Option<String>) {
    (name, Some(engine.page()))
}

fn why(reading: Reading) -> String {
    let Reading::Unknown(why) = reading else { panic!("{reading:?}") };
    why
}

fn close(reading: Reading, expected: f64) {
    let Reading::Value(value) = reading else { panic!("{reading:?}, not {expected}") };
    assert!((value.get() - expected).abs() < 1e-9, "{value}, not {expected}");
}

#[test]
fn gauges_are_added_up_or_averaged_over_the_pods() {
    let mut scrape = scrape("vLLM", false);
    assert_eq!(why(scrape.signal(Signal::QueuedRequests, Aggregate::Total, at(0))), "signal queuedRequests: nothing has been read yet");
    let (a, b) = (Engine { queued: 3.0, kv: 0.9, ..Engine::default() }, Engine { queued: 5.0, kv: 0.5, ..Engine::default() });
    sync(&mut scrape, 0, &[pod("a", &a), pod("b", &b)], None);
    for (signal, aggregate, expected) in [
        (Signal::QueuedRequests, Aggregate::Total, 8.0),
        (Signal::QueuedRequests, Aggregate::PerReplica, 4.0),
        (Signal::KvCacheUsage, Aggregate::PerReplica, 0.7),
        (Signal::RunningRequests, Aggregate::Total, 0.0),
    ] {
        close(scrape.signal(signal, aggregate, at(0)), expected);
    }
    assert_eq!(scrape.pods_with(Signal::KvCacheUsage, at(0)), BTreeMap::from([("a".to_owned(), 0.9), ("b".to_owned(), 0.5)]));
    assert_eq!(scrape.problems(at(0)), []);
}

#[test]
fn engines_of_a_pod_are_combined_before_pods_are() {
    let mut scrape = scrape("vLLM", false);
    let two = "vllm:num_requests_waiting{engine=\"0\"} 2\nvllm:num_requests_waiting{engine=\"1\"} 4\n\
               vllm:kv_cache_usage_perc{engine=\"0\"} 0.2\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.4\n";
    let one = Engine { queued: 3.0, kv: 0.9, ..Engine::default() };
    sync(&mut scrape, 0, &[("a", Some(two.to_owned())), pod("b", &one)], None);
    close(scrape.signal(Signal::QueuedRequests, Aggregate::PerReplica, at(0)), 4.5);
    close(scrape.signal(Signal::KvCacheUsage, Aggregate::PerReplica, at(0)), 0.6);
}

#[test]
fn a_fleet_in_the_middle_of_an_upgrade_has_two_names_for_one_thing() {
    let mut scrape = scrape("vLLM", false);
    let (old, new) = ("vllm:gpu_cache_usage_perc 0.2\n".to_owned(), "vllm:kv_cache_usage_perc 0.6\n".to_owned());
    sync(&mut scrape, 0, &[("a", Some(old.clone())), ("b", Some(new.clone())), ("c", Some(old + &new))], None);
    close(scrape.signal(Signal::KvCacheUsage, Aggregate::PerReplica, at(0)), (0.2 + 0.6 + 0.6) / 3.0);
}

#[test]
fn one_silent_pod_of_twenty_is_named_and_counts_as_the_busiest() {
    let mut scrape = scrape("vLLM", false);
    let names: Vec<String> = (0..20).map(|i| format!("pod-{i}")).collect();
    let engine = Engine { queued: 2.0, ..Engine::default() };
    let fleet = |silent: usize| -> Vec<(&str, Option<String>)> {
        names.iter().enumerate().map(|(i, name)| (name.as_str(), (i >= silent).then(|| engine.page()))).collect()
    };
    sync(&mut scrape, 0, &fleet(1), None);
    close(scrape.signal(Signal::QueuedRequests, Aggregate::Total, at(0)), 40.0);
    assert_eq!(scrape.problems(at(0)), [Problem { name: "pod-0".to_owned(), why: "it hangs".to_owned() }]);
    assert_eq!(scrape.pods_with(Signal::QueuedRequests, at(0)).len(), 19);
    sync(&mut scrape, 1, &fleet(9), None);
    close(scrape.signal(Signal::QueuedRequests, Aggregate::Total, at(1)), 40.0);
    sync(&mut scrape, 2, &fleet(10), None);
    assert_eq!(
        why(scrape.signal(Signal::QueuedRequests, Aggregate::Total, at(2))),
        "signal queuedRequests: only 10 of 20 ready pods gave a usable answer, and more than half must: pod-0 (it hangs), pod-1 (it hangs), \
         pod-2 (it hangs) and 7 more"
    );
}

#[test]
fn a_pod_that_falls_silent_keeps_the_load_it_had_for_a_window() {
    let mut scrape = scrape("vLLM", false);
    let calm = |number: i64| Engine { queued: 1.0, tokens: number as f64, ..Engine::default() };
    let busy = Engine { queued: 50.0, ..Engine::default() };
    sync(&mut scrape, 0, &[pod("a", &busy), pod("b", &calm(0)), pod("c", &calm(0))], None);
    for number in 1..8 {
        let calm = calm(number);
        sync(&mut scrape, number, &[("a", None), pod("b", &calm), pod("c", &calm)], None);
        let expected = if number < 4 { 52.0 } else { 3.0 };
        close(scrape.signal(Signal::QueuedRequests, Aggregate::Total, at(number)), expected);
    }
}

#[test]
fn silence_is_no_proof_of_idleness() {
    let mut scrape = scrape("vLLM", false);
    let idle = Engine::default();
    sync(&mut scrape, 0, &[pod("a", &idle), pod("b", &idle), ("c", None)], None);
    assert_eq!(
        why(scrape.signal(Signal::QueuedRequests, Aggregate::Total, at(0))),
        "signal queuedRequests: 1 of 3 ready pods gave no usable answer, and the others being at 0 does not prove that all are: c (it hangs)"
    );
    sync(&mut scrape, 1, &[pod("a", &idle), pod("b", &idle), ("c", None)], None);
    let reason = why(scrape.latency(Latency::Ttft, 0.9, at(1)));
    assert!(reason.ends_with("and whether the pool is idle is not known: pod c: it hangs"), "{reason}");
}

#[test]
fn no_ready_pod_is_unknown_and_not_zero() {
    let mut alone = scrape("vLLM", false);
    sync(&mut alone, 0, &[], None);
    let reason = why(alone.signal(Signal::QueuedRequests, Aggregate::Total, at(0)));
    assert_eq!(reason, "signal queuedRequests: no pod of the target is ready, so nobody can tell");
    assert!(alone.latency(Latency::Ttft, 0.9, at(0)).is_unknown());

    // … unless the router tells, whose queue is all that can wake a fleet.
    let mut scrape = scrape("vLLM", true);
    let page = |queued: u32| {
        format!("llm_d_epp_flow_control_queue_size{{inference_pool=\"p\"}} {queued}\nllm_d_epp_ready_endpoints{{name=\"p\"}} 0\n")
    };
    sync(&mut scrape, 0, &[], Some(&page(3)));
    close(scrape.signal(Signal::QueuedRequests, Aggregate::Total, at(0)), 3.0);
    assert!(scrape.latency(Latency::Ttft, 0.9, at(0)).is_unknown());
    sync(&mut scrape, 1, &[], Some(&page(0)));
    close(scrape.signal(Signal::QueuedRequests, Aggregate::Total, at(1)), 0.0);
    assert_eq!(scrape.latency(Latency::Ttft, 0.9, at(1)), Reading::Idle);
    // It waits for the first pod for longer than anything that is stuck: it is not.
    for number in 2..20 {
        sync(&mut scrape, number, &[], Some(&page(3)));
        close(scrape.signal(Signal::QueuedRequests, Aggregate::Total, at(number)), 3.0);
    }
}

#[test]
fn a_rate_needs_two_pages_and_survives_a_restart() {
    let mut scrape = scrape("vLLM", false);
    let tokens = |tokens: f64| Engine { tokens, running: 1.0, ..Engine::default() };
    let rate = |scrape: &Scrape, number| scrape.signal(Signal::GenerationTokens, Aggregate::Total, at(number));
    sync(&mut scrape, 0, &[pod("a", &tokens(1000.0))], None);
    assert_eq!(
        why(rate(&scrape, 0)),
        "signal generationTokens: only 0 of 1 ready pods gave a usable answer, and more than half must: a (it has been read once only, and a \
         rate needs two readings)"
    );
    for number in 1..4 {
        sync(&mut scrape, number, &[pod("a", &tokens(1000.0 + 150.0 * number as f64))], None);
        assert!(!rate(&scrape, number).is_unknown());
    }
    close(rate(&scrape, 3), 10.0);
    // The pod's process begins anew, and has made 30 tokens since: 150 + 150 + 30 in 45 s.
    sync(&mut scrape, 4, &[pod("a", &tokens(30.0))], None);
    close(rate(&scrape, 4), 330.0 / 45.0);
    // One that has just become ready adds nothing yet.
    sync(&mut scrape, 5, &[pod("a", &tokens(180.0)), pod("b", &tokens(1e9))], None);
    close(rate(&scrape, 5), (150.0 + 30.0 + 150.0) / 45.0);
    sync(&mut scrape, 6, &[pod("a", &tokens(330.0)), pod("b", &tokens(1e9 + 15.0))], None);
    // 30, 150, 150 in 45 s; 15 in 15 s, and half a distance more: no rate before that.
    close(rate(&scrape, 6), 330.0 / 45.0 + 15.0 * (22.5 / 15.0) / 60.0);
}

#[test]
fn a_missed_scrape_leaves_the_rate_that_the_others_give() {
    let mut scrape = scrape("vLLM", false);
    let tokens = |number: i64| Engine { tokens: 1e6 + 150.0 * number as f64, running: 1.0, ..Engine::default() };
    for number in 0..8 {
        let hangs = number == 5;
        sync(&mut scrape, number, &[if hangs { ("a", None) } else { pod("a", &tokens(number)) }], None);
        if number >= 4 && !hangs {
            close(scrape.signal(Signal::GenerationTokens, Aggregate::Total, at(number)), 10.0);
        }
        assert_eq!(hangs, !scrape.problems(at(number)).is_empty());
        assert_eq!(hangs, scrape.signal(Signal::RunningRequests, Aggregate::Total, at(number)).is_unknown());
    }
}

#[test]
fn a_pod_that_takes_the_name_of_another_is_another() {
    let mut scrape = scrape("vLLM", false);
    for number in 0..4 {
        sync(&mut scrape, number, &[pod("web-0/1", &Engine { tokens: 1e6, running: 1.0, ..Engine::default() })], None);
    }
    sync(&mut scrape, 4, &[pod("web-0/2", &Engine { tokens: 2e6, running: 2.0, ..Engine::default() })], None);
    let reason = why(scrape.signal(Signal::GenerationTokens, Aggregate::Total, at(4)));
    assert!(reason.contains("it is known at the next sync"), "{reason}");
    close(scrape.signal(Signal::RunningRequests, Aggregate::Total, at(4)), 2.0);
    // What is left of the first is forgotten with its window.
    for number in 5..9 {
        sync(&mut scrape, number, &[pod("web-0/2", &Engine { tokens: 2e6 + number as f64, ..Engine::default() })], None);
    }
    assert_eq!(scrape.pods.len(), 1);
}

#[test]
fn quantiles_are_over_the_buckets_of_all_pods() {
    let mut scrape = scrape("vLLM", false);
    let (mut a, mut b) = (Engine { running: 1.0, ..Engine::default() }, Engine { running: 1.0, ..Engine::default() });
    for number in 0..5 {
        // In each period, 9 requests up to 0.1 s at one pod, one between 0.1 and 0.5 s at the other.
        (a.ttft[0], b.ttft[1]) = (1e6 + 9.0 * number as f64, 1e6 + number as f64);
        (a.tokens, b.tokens) = (number as f64, number as f64);
        sync(&mut scrape, number, &[pod("a", &a), pod("b", &b)], None);
    }
    close(scrape.latency(Latency::Ttft, 0.9, at(4)), 0.1);
    close(scrape.latency(Latency::Ttft, 0.95, at(4)), 0.3);
    assert_eq!(why(scrape.latency(Latency::Tpot, 0.9, at(4))), "the TPOT quantile: it is not read; check that the preset has it");
}

#[test]
fn a_missing_pod_is_as_slow_as_the_slowest() {
    let mut scrape = scrape("vLLM", false);
    let mut engines = [const { Engine { running: 1.0, queued: 0.0, kv: 0.0, tokens: 0.0, ttft: [1e6, 1e6, 1e6, 1e6] } }; 3];
    for number in 0..5 {
        engines[0].ttft[0] += 8.0;
        engines[1].ttft[1] += 1.0;
        engines.iter_mut().for_each(|engine| engine.tokens += 1.0);
        let silent = ("c", None);
        sync(&mut scrape, number, &[pod("a", &engines[0]), pod("b", &engines[1]), silent], None);
    }
    // 8 fast ones, 1 slow, and 1 more from the silent pod: the 9th of 10 is the first of the slow.
    close(scrape.latency(Latency::Ttft, 0.9, at(4)), 0.1 + 0.4 * 0.5);
}

#[test]
fn without_requests_the_pool_is_idle_or_stuck() {
    let mut scrape = scrape("vLLM", false);
    let mut engine = Engine { ttft: [10.0, 0.0, 0.0, 0.0], ..Engine::default() };
    sync(&mut scrape, 0, &[pod("a", &engine)], None);
    assert!(scrape.latency(Latency::Ttft, 0.9, at(0)).is_unknown(), "the last minute is not known yet");
    sync(&mut scrape, 1, &[pod("a", &engine)], None);
    assert_eq!(scrape.latency(Latency::Ttft, 0.9, at(1)), Reading::Idle);
    engine.queued = 2.0;
    engine.running = 3.0;
    sync(&mut scrape, 2, &[pod("a", &engine)], None);
    assert_eq!(
        why(scrape.latency(Latency::Ttft, 0.9, at(2))),
        "the TTFT quantile is NaN: no request was observed in its window, although 5 requests are running or queued; nothing has \
         been answered, so the pool may be stuck: look at the logs of its pods"
    );
}

#[test]
fn a_router_has_a_say_in_idleness() {
    let mut scrape = scrape("vLLM", true);
    let busy = "llm_d_epp_request_running{model_name=\"m\"} 2\n";
    for number in 0..2 {
        sync(&mut scrape, number, &[pod("a", &Engine::default())], Some(busy));
    }
    assert!(why(scrape.latency(Latency::Ttft, 0.9, at(1))).contains("although 2 requests are running or queued"));
    sync(&mut scrape, 2, &[pod("a", &Engine::default())], Some("llm_d_epp_ready_endpoints 1\n"));
    assert_eq!(scrape.latency(Latency::Ttft, 0.9, at(2)), Reading::Idle);
    sync(&mut scrape, 3, &[pod("a", &Engine::default())], Some("up 1\n"));
    assert!(scrape.latency(Latency::Ttft, 0.9, at(3)).is_unknown());
    // What it holds back is added to what the engines have queued.
    let queue = "llm_d_epp_flow_control_queue_size 4\n";
    sync(&mut scrape, 4, &[pod("a", &Engine { queued: 1.0, ..Engine::default() })], Some(queue));
    close(scrape.signal(Signal::QueuedRequests, Aggregate::Total, at(4)), 5.0);
}

#[test]
fn a_load_that_does_not_move_is_stuck() {
    let mut scrape = scrape("vLLM", false);
    let frozen = Engine { queued: 42.0, running: 1.0, tokens: 7.0, ..Engine::default() };
    for number in 0..8 {
        let moving = Engine { queued: 2.0, running: 1.0, tokens: number as f64, ..Engine::default() };
        sync(&mut scrape, number, &[pod("a", &frozen), pod("b", &moving), pod("c", &moving)], None);
        // Stuck from 60 s on; then it counts as the busiest of the others, and its own word counts for nothing.
        close(scrape.signal(Signal::QueuedRequests, Aggregate::Total, at(number)), if number < 4 { 46.0 } else { 6.0 });
    }
    let [problem] = &scrape.problems(at(7))[..] else { panic!() };
    assert_eq!(problem.name, "a");
    assert!(problem.why.starts_with("it has had requests for more than 60 s and serves none"), "{}", problem.why);
    // It wakes up.
    let mut awake = frozen.clone();
    awake.tokens += 1.0;
    sync(&mut scrape, 8, &[pod("a", &awake), pod("b", &Engine::default()), pod("c", &Engine::default())], None);
    close(scrape.signal(Signal::QueuedRequests, Aggregate::Total, at(8)), 42.0);
}

#[test]
fn a_fleet_that_is_stuck_is_unknown() {
    let mut scrape = scrape("vLLM", false);
    let frozen = Engine { queued: 42.0, tokens: 7.0, ..Engine::default() };
    for number in 0..5 {
        sync(&mut scrape, number, &[pod("a", &frozen), pod("b", &Engine::default())], None);
    }
    let reason = why(scrape.signal(Signal::QueuedRequests, Aggregate::Total, at(4)));
    assert!(
        reason.contains("only 1 of 2 ready pods gave a usable answer") && reason.contains("a (it has had requests for more than 60 s"),
        "{reason}"
    );
}

#[test]
fn who_has_nothing_to_do_or_does_it_slowly_is_not_stuck() {
    let mut scrape = scrape("vLLM", false);
    let idle = Engine { tokens: 7.0, ..Engine::default() };
    for number in 0..20 {
        let slow = Engine { running: 1.0, tokens: number as f64, ..Engine::default() };
        sync(&mut scrape, number, &[pod("a", &idle), pod("b", &slow)], None);
        close(scrape.signal(Signal::RunningRequests, Aggregate::Total, at(number)), 1.0);
    }
}

#[test]
fn a_router_alone_gives_every_signal() {
    let mut scrape = Scrape::new(
        Preset::named("llm-d-EPP").unwrap(),
        false,
        [Signal::PoolSaturation, Signal::InflightTokens, Signal::Ttft, Signal::PredictedTtft],
        &BTreeMap::from([("inference_pool".to_owned(), "mine".to_owned())]),
        Scrape::SHORTEST_WINDOW,
    );
    let page = |number: i64, predicted: bool| {
        let count = 1000 + 10 * number;
        let name = if predicted { "request_predicted_ttft_seconds" } else { "request_ttft_seconds" };
        format!(
            "llm_d_epp_flow_control_queue_size{{inference_pool=\"mine\"}} 6\nllm_d_epp_flow_control_queue_size{{inference_pool=\"theirs\"}} 60\n\
             llm_d_epp_flow_control_pool_saturation{{inference_pool=\"mine\",stage=\"effective\"}} 0.5\n\
             llm_d_epp_request_running{{model_name=\"m\"}} 4\nllm_d_epp_ready_endpoints{{name=\"mine\"}} 2\n\
             llm_d_epp_inflight_tokens{{endpoint_name=\"a-rank-0\"}} 100\nllm_d_epp_inflight_tokens{{endpoint_name=\"b-rank-0\"}} 50\n\
             llm_d_epp_inflight_tokens{{endpoint_name=\"gone-rank-0\"}} 9000\n\
             llm_d_epp_{name}_bucket{{streaming=\"true\",le=\"1\"}} {count}\nllm_d_epp_{name}_bucket{{streaming=\"true\",le=\"+Inf\"}} {count}\n\
             llm_d_epp_{name}_bucket{{streaming=\"false\",le=\"1\"}} 0\nllm_d_epp_{name}_bucket{{streaming=\"false\",le=\"+Inf\"}} {count}\n"
        )
    };
    for number in 0..4 {
        sync(&mut scrape, number, &[("a", None), ("b", None)], Some(&page(number, false)));
    }
    for (signal, aggregate, expected) in [
        (Signal::QueuedRequests, Aggregate::Total, 6.0),
        (Signal::QueuedRequests, Aggregate::PerReplica, 3.0),
        (Signal::PoolSaturation, Aggregate::PerReplica, 0.5),
        (Signal::PoolSaturation, Aggregate::Total, 1.0),
        (Signal::InflightTokens, Aggregate::Total, 150.0),
    ] {
        close(scrape.signal(signal, aggregate, at(3)), expected);
    }
    assert_eq!(scrape.pods_with(Signal::InflightTokens, at(3)), BTreeMap::from([("a".to_owned(), 100.0), ("b".to_owned(), 50.0)]));
    close(scrape.latency(Latency::Ttft, 0.5, at(3)), 0.5);
    assert!(why(scrape.signal(Signal::KvCacheUsage, Aggregate::Total, at(3))).contains("it is not read"));

    // A prediction that is alive comes first. It has no label `streaming`, so that here all of its series count.
    for number in 4..8 {
        sync(&mut scrape, number, &[("a", None)], Some(&(page(number, false) + &page(number, true))));
    }
    close(scrape.latency(Latency::Ttft, 0.5, at(7)), 1.0);
    // Its replica is gone.
    scrape.read(&[], &[(ROUTER_ADDRESS.to_owned(), Err("it hangs"))], at(8));
    assert_eq!(
        why(scrape.signal(Signal::QueuedRequests, Aggregate::Total, at(8))),
        "signal queuedRequests: router http://epp.serving.svc:9090: it hangs"
    );
    scrape.read(&[], &[], at(9));
    assert!(why(scrape.signal(Signal::QueuedRequests, Aggregate::Total, at(9))).contains("no address of the router is known"));
}

#[test]
fn replicas_of_a_router_are_added_and_all_must_answer() {
    let mut scrape = scrape("llm-d-EPP", false);
    let page =
        |queue: u32| format!("llm_d_epp_flow_control_queue_size {queue}\nllm_d_epp_average_kv_cache_utilization{{name=\"p\"}} 0.{queue}\n");
    let (one, two) = (page(2), page(5));
    let routers = |second| [("http://10.0.0.1:9090".to_owned(), Ok(one.as_bytes())), ("http://10.0.0.2:9090".to_owned(), second)];
    scrape.read(&[], &routers(Ok(two.as_bytes())), at(0));
    close(scrape.signal(Signal::QueuedRequests, Aggregate::Total, at(0)), 7.0);
    close(scrape.signal(Signal::KvCacheUsage, Aggregate::PerReplica, at(0)), 0.5);
    scrape.read(&[], &routers(Err("it hangs")), at(1));
    assert!(scrape.signal(Signal::QueuedRequests, Aggregate::Total, at(1)).is_unknown());
}

#[test]
fn a_page_of_another_program_is_missing() {
    let mut scrape = scrape("vLLM", false);
    sync(&mut scrape, 0, &[("a", Some("up 1\n".to_owned())), ("b", Some("<html>".to_owned()))], None);
    let reason = why(scrape.signal(Signal::KvCacheUsage, Aggregate::PerReplica, at(0)));
    assert!(reason.contains("a (its page has no vllm:kv_cache_usage_perc or vllm:gpu_cache_usage_perc)"), "{reason}");
    assert!(reason.contains("b (its page is not metrics in the text format of Prometheus: line 1, `<html>`"), "{reason}");
    assert_eq!(scrape.problems(at(0)).len(), 2);
    for nonsense in ["NaN", "+Inf", "-1"] {
        sync(&mut scrape, 1, &[("a", Some(format!("vllm:kv_cache_usage_perc {nonsense}\n")))], None);
        assert!(why(scrape.signal(Signal::KvCacheUsage, Aggregate::PerReplica, at(1))).contains("its value is"));
    }
}

#[test]
fn the_history_is_small_and_bounded() {
    let mut scrape = Scrape::new(
        Preset::named("vLLM").unwrap(),
        false,
        [Signal::KvCacheUsage, Signal::Ttft, Signal::Tpot],
        &BTreeMap::new(),
        Scrape::SHORTEST_WINDOW,
    );
    // The buckets of vLLM 0.11: 22 of TTFT, 19 of TPOT, one series for each of five finish reasons.
    let mut page = String::new();
    for name in ["num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "prompt_tokens_total", "generation_tokens_total"] {
        let _ = writeln!(page, "vllm:{name} 1");
    }
    for reason in 0..5 {
        let _ = writeln!(page, "vllm:request_success_total{{finished_reason=\"{reason}\"}} 1");
    }
    for (name, buckets) in [("time_to_first_token_seconds", 22), ("inter_token_latency_seconds", 19)] {
        for bucket in 0..buckets {
            let _ = writeln!(page, "vllm:{name}_bucket{{le=\"{bucket}\"}} 1");
        }
    }
    let fleet: Vec<_> = ["a", "b", "c", "d"].map(|name| (name, Some(page.clone()))).into();
    for number in 0..100 {
        sync(&mut scrape, number, &fleet, None);
    }
    let per_pod = scrape.bytes() / 4;
    assert!((1500..2500).contains(&per_pod), "{per_pod}");
    let lists: Vec<&Page> = scrape.pods.values().filter_map(Instance::last_page).collect();
    assert!(lists.windows(2).all(|pair| pair[0].shares(pair[1])));
    // However short the period.
    for millis in 0..1000 {
        let pods = [PodPage { name: "a", uid: "a", page: Ok(page.as_bytes()) }];
        scrape.read(&pods, &[], Time::from_millis(1_485_000 + millis));
    }
    assert!(scrape.bytes() < 64 * 800);
}

proptest! {
    /// Whatever the pages are: no panic, and no number where nothing was read.
    #[test]
    fn never_panics(pages in prop::collection::vec(prop::option::of("(vllm:(num_requests_running|kv_cache_usage_perc|generation_tokens_total)( |\\{a=\"b\"\\} )-?[0-9NaIf.e+]{1,6}\n){0,4}"), 1..6)) {
        let mut scrape = scrape("vLLM", false);
        for (number, page) in pages.iter().enumerate() {
            let number = number as i64;
            sync(&mut scrape, number, &[("a", page.clone())], None);
            for signal in Signal::ALL {
                let reading = scrape.signal(signal, Aggregate::Total, at(number));
                prop_assert!(page.is_some() || reading.is_unknown() || signal == Signal::GenerationTokens);
            }
            let _ = (scrape.latency(Latency::Ttft, 0.9, at(number)), scrape.problems(at(number)));
        }
    }
}
