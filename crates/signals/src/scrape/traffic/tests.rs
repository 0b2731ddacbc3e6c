use std::fmt::Write as _;

use llmscaler_engine::Late;
use proptest::prelude::*;

use super::super::PodPage;
use super::*;
use crate::TRAFFIC_SIGNALS;
use crate::preset::Preset;
use crate::prometheus::read_buckets;

const PROMISED: Promised = Promised { ttft: 1.0, tpot: 0.05 };

/// What a vLLM server does in 15 s, and what it has at the end of them.
#[derive(Clone, Copy, Debug)]
struct Engine {
    finished: f64,
    prompt: f64,
    cached: f64,
    output: f64,
    /// Seconds between tokens.
    gap: f64,
    running: f64,
    waiting: f64,
    kv: f64,
    blocks: f64,
    /// Requests by prompt length: up to 500, up to 1000, up to 2000, above; the parts of `finished` in percent.
    lengths: [f64; 4],
    /// By TTFT: up to 0.5, up to 1, up to 2 s, above; in percent.
    ttft: [f64; 4],
    /// By TPOT: up to 0.04, up to 0.06, up to 0.1 s, above; in percent.
    tpot: [f64; 4],
}

const STEADY: Engine = Engine {
    finished: 30.0,
    prompt: 1000.0,
    cached: 200.0,
    output: 100.0,
    gap: 0.03,
    running: 4.0,
    waiting: 1.0,
    kv: 0.5,
    blocks: 1000.0,
    lengths: [20.0, 50.0, 30.0, 0.0],
    ttft: [80.0, 10.0, 10.0, 0.0],
    tpot: [60.0, 20.0, 20.0, 0.0],
};

impl Engine {
    /// Its page when it has done so for so many times 15 s.
    fn page(&self, times: f64) -> String {
        let Self { running, waiting, kv, blocks, .. } = *self;
        let done = self.finished * times;
        let gaps = done * self.output;
        let mut page = format!(
            "vllm:num_requests_running{{engine=\"0\"}} {running}\nvllm:num_requests_waiting{{engine=\"0\"}} {waiting}\n\
             vllm:kv_cache_usage_perc{{engine=\"0\"}} {kv}\n\
             vllm:cache_config_info{{engine=\"0\",block_size=\"16\",num_gpu_blocks=\"{blocks}\"}} 1\n\
             vllm:request_success_total{{engine=\"0\",finished_reason=\"stop\"}} {done}\n\
             vllm:request_success_total{{engine=\"0\",finished_reason=\"abort\"}} 0\n\
             vllm:prompt_tokens_total{{engine=\"0\"}} {}\nvllm:prompt_tokens_cached_total{{engine=\"0\"}} {}\n\
             vllm:generation_tokens_total{{engine=\"0\"}} {gaps}\n\
             vllm:request_generation_tokens_sum{{engine=\"0\"}} {gaps}\nvllm:request_generation_tokens_count{{engine=\"0\"}} {done}\n\
             vllm:inter_token_latency_seconds_sum{{engine=\"0\"}} {}\nvllm:inter_token_latency_seconds_count{{engine=\"0\"}} {gaps}\n\
             vllm:time_to_first_token_seconds_count{{engine=\"0\"}} {done}\n",
            done * self.prompt,
            done * self.cached,
            gaps * self.gap,
        );
        histogram(&mut page, "vllm:request_prompt_tokens", done, ["500.0", "1000.0", "2000.0", "+Inf"], self.lengths);
        histogram(&mut page, "vllm:request_generation_tokens", done, ["50.0", "150.0", "250.0", "+Inf"], [0.0, 100.0, 0.0, 0.0]);
        histogram(&mut page, "vllm:time_to_first_token_seconds", done, ["0.5", "1.0", "2.0", "+Inf"], self.ttft);
        histogram(&mut page, "vllm:request_time_per_output_token_seconds", done, ["0.04", "0.06", "0.1", "+Inf"], self.tpot);
        page
    }
}

fn histogram(page: &mut String, name: &str, of: f64, bounds: [&str; 4], percent: [f64; 4]) {
    let mut sum = 0.0;
    for (bound, percent) in bounds.iter().zip(percent) {
        sum += of * percent / 100.0;
        let _ = writeln!(page, "{name}_bucket{{le=\"{bound}\"}} {sum}");
    }
}

fn scrape(preset: &str, router: bool) -> Scrape {
    Scrape::new(Preset::named(preset).unwrap(), router, TRAFFIC_SIGNALS, &BTreeMap::new(), Scrape::SHORTEST_WINDOW)
}

fn at(seconds: f64) -> Time {
    Time::from_seconds(seconds)
}

/// One sync; a pod without a page hangs, and so does a router with an empty one.
fn sync(scrape: &mut Scrape, seconds: f64, pods: &[(&str, Option<String>)], router: Option<&str>) {
    let pods: Vec<_> =
        pods.iter().map(|(name, page)| PodPage { name, uid: name, page: page.as_deref().map(str::as_bytes).ok_or("it hangs") }).collect();
    let page = |page: &'static str| page;
    let routers: Vec<_> = router
        .into_iter()
        .map(|text| ("http://epp:9090".to_owned(), if text.is_empty() { Err(page("it hangs")) } else { Ok(text.as_bytes()) }))
        .collect();
    scrape.read(&pods, &routers, at(seconds));
}

fn traffic(scrape: &Scrape, seconds: f64) -> Traffic {
    scrape.traffic(&PROMISED, at(seconds))
}

#[track_caller]
fn close(found: Option<Measurement>, expected: f64) {
    assert!(found.is_some_and(|found| (found.get() - expected).abs() < 1e-9 * expected.max(1.0)), "{found:?}, not {expected}");
}

#[track_caller]
fn rates(found: Rates, expected: [Option<f64>; 3]) {
    for (found, expected) in [found.over_15s, found.over_30s, found.over_60s].into_iter().zip(expected) {
        match expected {
            Some(expected) => close(found, expected),
            None => assert_eq!(found, None),
        }
    }
}

fn counts(buckets: Option<Vec<Bucket>>) -> Vec<(f64, f64)> {
    buckets.unwrap_or_default().into_iter().map(|bucket| (bucket.upper, bucket.count)).collect()
}

/// The second pod is half as busy and gets three requests more than it ends, each period.
fn second(number: f64) -> Engine {
    Engine {
        finished: 15.0,
        gap: 0.06,
        running: 2.0 + 3.0 * number,
        waiting: 0.0,
        kv: 0.25,
        blocks: 500.0,
        lengths: [0.0, 100.0, 0.0, 0.0],
        ttft: [100.0, 0.0, 0.0, 0.0],
        ..STEADY
    }
}

#[test]
fn a_fleet_as_its_engines_see_it() {
    let mut scrape = scrape("vLLM", false);
    assert_eq!(traffic(&scrape, 0.0), Traffic::default(), "nothing has been read");
    for number in 0..=8 {
        let times = f64::from(number);
        sync(&mut scrape, times * 15.0, &[("a", Some(STEADY.page(times))), ("b", Some(second(times).page(times)))], None);
    }
    let found = traffic(&scrape, 120.0);
    // 30 ÷ 15 at one, (15 + 3) ÷ 15 at the other.
    rates(found.arrivals, [Some(3.2); 3]);
    rates(found.prompt_tokens, [Some(3.2 * 800.0); 3]);
    // In 60 s 120 at a and 60 at b: 24 up to 500, 60 + 60 up to 1000, 36 up to 2000.
    assert_eq!(counts(found.prompt_lengths), [(500.0, 24.0), (1000.0, 120.0), (2000.0, 36.0), (f64::INFINITY, 0.0)]);
    // Middles 250, 750, 1500: mean 833⅓, mean square 833 333⅓, which is 1.2 times the square of the mean.
    close(found.prompt_variation, 0.2);
    let finished = found.finished.unwrap();
    close(Some(finished.requests), 360.0);
    close(Some(finished.output_tokens), 36_000.0);
    close(found.median_output, 100.0);
    // 3000 gaps of 0.03 s and 1500 of 0.06 s.
    let inter_token = found.inter_token.unwrap();
    close(Some(inter_token.mean), 0.04);
    close(Some(inter_token.count), 4500.0);
    close(found.waiting, 1.0);
    close(found.running, 4.0 + 26.0);
    close(found.kv_capacity, 12_000.0);
    close(found.kv_used, 0.5 * 16_000.0 + 0.25 * 8000.0);
    // Over 1 s: 3 of 30 at one, none of 15 at the other.
    let late = found.late_ttft.unwrap();
    close(Some(late.share), 3.0 / 45.0);
    close(Some(late.of), 45.0);
    // Over 0.05 s: half of the fifth in (0.04, 0.06], and the fifth above.
    close(found.late_tpot.map(|late| late.share), 0.3);
}

#[test]
fn windows_are_known_one_after_the_other() {
    let mut scrape = scrape("vLLM", false);
    let page = |times: f64| [("a", Some(STEADY.page(times)))];
    sync(&mut scrape, 0.0, &page(0.0), None);
    let first = traffic(&scrape, 0.0);
    assert_eq!((first.arrivals, first.finished, first.inter_token), (Rates::default(), None, None));
    close(first.running, 4.0);
    for (times, expected) in [
        (1.0, [Some(2.0), None, None]),
        (2.0, [Some(2.0), Some(2.0), None]),
        // 45 s are near enough to 60.
        (3.0, [Some(2.0), Some(2.0), Some(2.0)]),
    ] {
        sync(&mut scrape, times * 15.0, &page(times), None);
        rates(traffic(&scrape, times * 15.0).arrivals, expected);
    }
    assert_eq!(traffic(&scrape, 45.0).finished, None);
    for number in 4..6 {
        sync(&mut scrape, f64::from(number) * 15.0, &page(f64::from(number)), None);
        assert_eq!(traffic(&scrape, f64::from(number) * 15.0).finished, None);
    }
    sync(&mut scrape, 90.0, &page(6.0), None);
    // 180 requests in 90 s are 240 in 120.
    close(traffic(&scrape, 90.0).finished.map(|finished| finished.requests), 240.0);
}

#[test]
fn a_missed_scrape_leaves_the_windows_that_others_cover() {
    let mut scrape = scrape("vLLM", false);
    for number in 0..=8 {
        let times = f64::from(number);
        let page = (number != 7).then(|| STEADY.page(times));
        sync(&mut scrape, times * 15.0, &[("a", page)], None);
        if number == 7 {
            assert_eq!(traffic(&scrape, 105.0), Traffic { kv_capacity: Measurement::new(16_000.0), ..Traffic::default() });
        }
    }
    let found = traffic(&scrape, 120.0);
    rates(found.arrivals, [None, Some(2.0), Some(2.0)]);
    // The recent inputs fall back to 30 s.
    close(found.inter_token.map(|inter_token| inter_token.count), 6000.0);
    close(found.late_ttft.map(|late| late.of), 60.0);
}

#[test]
fn a_sync_every_30_s_has_no_15_s_and_one_every_minute_no_recent_inputs() {
    for (period, expected, recent) in
        [(30.0, [None, Some(2.0), Some(2.0)], true), (60.0, [None, None, Some(2.0)], false), (5.0, [Some(2.0); 3], true)]
    {
        let mut scrape = Scrape::new(
            Preset::named("vLLM").unwrap(),
            false,
            TRAFFIC_SIGNALS,
            &BTreeMap::new(),
            Scrape::window(Duration::from_secs_f64(period)),
        );
        let mut now = 0.0;
        while now <= 150.0 {
            sync(&mut scrape, now, &[("a", Some(STEADY.page(now / 15.0)))], None);
            now += period;
        }
        let found = traffic(&scrape, now - period);
        rates(found.arrivals, expected);
        assert_eq!(found.inter_token.is_some() && found.late_tpot.is_some(), recent, "{period}");
        close(found.finished.map(|finished| finished.requests), 240.0);
    }
}

#[test]
fn a_restart_loses_nothing_and_a_new_pod_counts_from_its_first_page_on() {
    let mut scrape = scrape("vLLM", false);
    for number in 0..=5 {
        let times = f64::from(number);
        // It restarts after 60 s: of the fifth period 10 s are lost, 5 are counted from 0.
        let a = if number < 5 { STEADY.page(100.0 + times) } else { STEADY.page(1.0 / 3.0) };
        let mut pods = vec![("a", Some(a))];
        if number >= 4 {
            pods.push(("b", Some(STEADY.page(1000.0 + times))));
        }
        sync(&mut scrape, times * 15.0, &pods, None);
        if number == 4 {
            rates(traffic(&scrape, 60.0).arrivals, [Some(2.0); 3]);
        }
    }
    // a: 10 in 15 s, 40 in 30, 100 in 60; b: 30 since it came.
    rates(traffic(&scrape, 75.0).arrivals, [Some(40.0 / 15.0), Some(70.0 / 30.0), Some(130.0 / 60.0)]);
}

#[test]
fn missing_pods_count_as_the_busiest_and_half_of_them_are_too_many() {
    let mut scrape = scrape("vLLM", false);
    let sync_with = |scrape: &mut Scrape, number: i32, c: bool, b: bool| {
        let times = f64::from(number);
        let pods = [
            ("a", Some(STEADY.page(times))),
            ("b", b.then(|| second(0.0).page(times))),
            ("c", c.then(|| Engine { finished: 0.0, kv: 0.0, running: 0.0, waiting: 0.0, ..STEADY }.page(times))),
        ];
        sync(scrape, times * 15.0, &pods, None);
    };
    for number in 0..=8 {
        sync_with(&mut scrape, number, true, true);
    }
    rates(traffic(&scrape, 120.0).arrivals, [Some(3.0); 3]);
    sync_with(&mut scrape, 9, false, true);
    let found = traffic(&scrape, 135.0);
    rates(found.arrivals, [Some(5.0); 3]);
    rates(found.prompt_tokens, [Some(5.0 * 800.0); 3]);
    close(found.finished.map(|finished| finished.requests), 240.0 + 120.0 + 240.0);
    // As late as a.
    close(found.late_ttft.map(|late| late.share), 6.0 / 75.0);
    close(found.inter_token.map(|inter_token| inter_token.count), 4500.0);
    close(found.kv_used, 8000.0 + 2000.0 + 8000.0);
    sync_with(&mut scrape, 10, false, false);
    let found = traffic(&scrape, 150.0);
    let kv_capacity = found.kv_capacity;
    assert_eq!(found, Traffic { kv_capacity, ..Traffic::default() });
    close(kv_capacity, (16_000.0 + 8000.0 + 16_000.0) / 3.0);
}

#[test]
fn idle_pods_prove_a_zero_that_silent_ones_do_not() {
    let mut scrape = scrape("vLLM", false);
    let idle = Engine { running: 0.0, waiting: 0.0, kv: 0.0, ..STEADY };
    for number in 0..=8 {
        let page = || Some(idle.page(50.0));
        sync(&mut scrape, f64::from(number) * 15.0, &[("a", page()), ("b", page()), ("c", page().filter(|_| number < 8))], None);
        let found = traffic(&scrape, f64::from(number) * 15.0);
        if number == 7 {
            rates(found.arrivals, [Some(0.0); 3]);
            rates(found.prompt_tokens, [Some(0.0); 3]);
            close(found.finished.map(|finished| finished.requests), 0.0);
            assert_eq!((found.inter_token, found.median_output), (None, None));
            for late in [found.late_ttft, found.late_tpot] {
                assert_eq!(late.map(|late| (late.share.get(), late.of.get())), Some((0.0, 0.0)));
            }
        }
        if number == 8 {
            rates(found.arrivals, [None; 3]);
            assert_eq!((found.finished, found.running), (None, None));
            assert_eq!((found.late_ttft, found.late_tpot), (None, None));
        }
    }
}

/// What the EPP counts when so many times 15 s have passed: 40 requests, of which 30 have been answered.
fn router(times: f64, queue: Option<f64>) -> String {
    let (came, answered) = (40.0 * times, 30.0 * times);
    let mut page = format!(
        "llm_d_epp_ready_endpoints{{name=\"p\"}} 2\nllm_d_epp_average_queue_size{{name=\"p\"}} 1.5\n\
         llm_d_epp_request_total{{model_name=\"m\"}} {came}\nllm_d_epp_request_input_tokens_sum{{model_name=\"m\"}} {}\n\
         llm_d_epp_request_input_tokens_count{{model_name=\"m\"}} {answered}\nllm_d_epp_request_output_tokens_sum{{model_name=\"m\"}} {}\n\
         llm_d_epp_request_output_tokens_count{{model_name=\"m\"}} {answered}\nllm_d_epp_request_streaming_itl_seconds_sum {}\n\
         llm_d_epp_request_streaming_itl_seconds_count {answered}\n",
        answered * 600.0,
        answered * 50.0,
        answered * 0.02,
    );
    histogram(&mut page, "llm_d_epp_request_streaming_tpot_seconds", answered, ["0.02", "0.04", "0.06", "+Inf"], [0.0, 100.0, 0.0, 0.0]);
    if let Some(queue) = queue {
        let _ = writeln!(page, "llm_d_epp_flow_control_queue_size{{inference_pool=\"p\"}} {queue}");
    }
    page
}

#[test]
fn beside_the_engines_a_router_says_what_comes_in() {
    let mut scrape = scrape("vLLM", true);
    for number in 0..=8 {
        let times = f64::from(number);
        sync(&mut scrape, times * 15.0, &[("a", Some(STEADY.page(times)))], Some(&router(times, Some(7.0))));
    }
    let found = traffic(&scrape, 120.0);
    rates(found.arrivals, [Some(40.0 / 15.0); 3]);
    rates(found.prompt_tokens, [Some(40.0 / 15.0 * 600.0); 3]);
    close(found.finished.map(|finished| finished.output_tokens), 240.0 * 50.0);
    assert_eq!(found.late_tpot.map(|late| late.share), Measurement::new(0.0));
    close(found.waiting, 1.0 + 7.0);
    // What it does not state is the engines'; the time between tokens and the cache always are.
    close(found.late_ttft.map(|late| late.share), 0.1);
    assert_eq!(counts(found.prompt_lengths).len(), 4);
    close(found.inter_token.map(|inter_token| inter_token.mean), 0.03);
    close(found.kv_used, 8000.0);
    close(found.running, 4.0);

    // Without flow control nothing is held back, as long as it says what runs.
    sync(&mut scrape, 135.0, &[("a", Some(STEADY.page(9.0)))], Some(&router(9.0, None)));
    close(traffic(&scrape, 135.0).waiting, 1.0);
    // When it does not answer, nobody knows what comes in, and the engines still say what they do.
    sync(&mut scrape, 150.0, &[("a", Some(STEADY.page(10.0)))], Some(""));
    let found = traffic(&scrape, 150.0);
    assert_eq!((found.arrivals, found.prompt_tokens, found.finished, found.waiting), (Rates::default(), Rates::default(), None, None));
    close(found.running, 4.0);
    sync(&mut scrape, 165.0, &[("a", Some(STEADY.page(11.0)))], None);
    assert_eq!(traffic(&scrape, 165.0).arrivals, Rates::default(), "no replica of it is there");
}

#[test]
fn a_router_alone_says_all_but_the_cache() {
    let mut scrape = scrape("llm-d-EPP", false);
    for number in 0..=8 {
        let times = f64::from(number);
        sync(&mut scrape, times * 15.0, &[("a", None), ("b", None)], Some(&router(times, Some(7.0))));
    }
    let found = traffic(&scrape, 120.0);
    rates(found.arrivals, [Some(40.0 / 15.0); 3]);
    // Two endpoints with a queue of 1.5 each.
    close(found.waiting, 7.0 + 3.0);
    close(found.inter_token.map(|inter_token| inter_token.mean), 0.02);
    assert_eq!((found.kv_used, found.kv_capacity, found.running), (None, None, None));
    // It restarts: 10 requests since, and nothing answered yet.
    let restarted = "llm_d_epp_ready_endpoints{name=\"p\"} 2\nllm_d_epp_request_total{model_name=\"m\"} 10\n";
    sync(&mut scrape, 135.0, &[], Some(restarted));
    let found = traffic(&scrape, 135.0);
    rates(found.arrivals, [Some(10.0 / 15.0), Some(50.0 / 30.0), Some(130.0 / 60.0)]);
    assert_eq!(found.prompt_tokens, Rates::default(), "it has not stated a prompt since");
}

#[test]
fn the_mean_prompt_is_that_of_all_times_when_nobody_asked_lately() {
    let mut scrape = scrape("vLLM", false);
    for number in 0..=8 {
        let running = if number == 8 { 6.0 } else { 4.0 };
        sync(&mut scrape, f64::from(number) * 15.0, &[("a", Some(Engine { running, ..STEADY }.page(50.0)))], None);
    }
    // Two came, and are still running; until then prompts were of 800 tokens that nobody had cached.
    let found = traffic(&scrape, 120.0);
    rates(found.arrivals, [Some(2.0 / 15.0), Some(2.0 / 30.0), Some(2.0 / 60.0)]);
    rates(found.prompt_tokens, [Some(1600.0 / 15.0), Some(1600.0 / 30.0), Some(1600.0 / 60.0)]);
}

#[test]
fn a_histogram_without_an_end_is_none() {
    let mut scrape = scrape("vLLM", false);
    for number in 0..=8 {
        let page = STEADY.page(f64::from(number));
        let page: String = page.lines().filter(|line| !line.contains("+Inf")).flat_map(|line| [line, "\n"]).collect();
        sync(&mut scrape, f64::from(number) * 15.0, &[("a", Some(page))], None);
    }
    let found = traffic(&scrape, 120.0);
    assert_eq!((found.prompt_lengths, found.prompt_variation, found.median_output), (None, None, None));
    assert_eq!((found.late_ttft, found.late_tpot), (None, None));
    rates(found.arrivals, [Some(2.0); 3]);
}

const TPOT_BUCKET: &str = "vllm:request_time_per_output_token_seconds_bucket";

/// What Prometheus would answer of the buckets of TPOT from these two pages, read as its answers are.
fn as_prometheus(before: &str, after: &str) -> Option<Late> {
    let buckets = |page: &str| -> Vec<(String, f64)> {
        let lines = page.lines().filter_map(|line| line.strip_prefix(TPOT_BUCKET)?.split_once("} "));
        lines.map(|(labels, count)| (labels.trim_start_matches("{le=").to_owned(), count.parse().unwrap())).collect()
    };
    let risen = buckets(before).into_iter().zip(buckets(after)).map(|((le, before), (_, after))| (le, after - before));
    let series: Vec<_> = risen.map(|(le, more)| format!(r#"{{"metric":{{"le":{le}}},"value":[1,"{more}"]}}"#)).collect();
    let body = format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{}]}}}}"#, series.join(","));
    later_than(PROMISED.tpot, &read_buckets("tpot", 200, body.as_bytes()).ok()?)
}

#[test]
fn both_forms_know_that_none_of_none_was_late_and_nothing_of_a_histogram_that_is_not_there() {
    let lines = |number: f64, of_tpot: bool| -> String {
        let page = STEADY.page(number);
        page.lines().filter(|line| line.starts_with(TPOT_BUCKET) == of_tpot).flat_map(|line| [line, "\n"]).collect()
    };
    let check = |tpot: &dyn Fn(f64) -> String, expected: Option<[f64; 2]>| {
        let page = |number: f64| lines(number, false) + &tpot(number);
        let mut scrape = scrape("vLLM", false);
        for number in 0..=8 {
            sync(&mut scrape, f64::from(number) * 15.0, &[("a", Some(page(f64::from(number))))], None);
        }
        let found = traffic(&scrape, 120.0);
        let rounded = |late: Option<Late>| late.map(|late| [late.share, late.of].map(|number| (number.get() * 1e9).round() / 1e9));
        assert_eq!(rounded(found.late_tpot), expected, "scraped");
        assert_eq!(rounded(as_prometheus(&page(7.0), &page(8.0))), expected, "by Prometheus");
        assert_eq!(rounded(found.late_ttft), Some([0.1, 30.0]), "requests end all the same");
    };
    check(&|number| lines(number, true), Some([0.3, 30.0]));
    // Answers of one token each have no time per token.
    check(&|_| lines(4.0, true), Some([0.0, 0.0]));
    // An engine that does not tell.
    check(&|_| String::new(), None);
}

#[test]
fn sglang_counts_each_request_at_its_end_and_has_no_mean_tpot() {
    let mut scrape = scrape("SGLang", false);
    for number in 0..=8 {
        let done = f64::from(number) * 15.0;
        let page = format!(
            "sglang:num_running_reqs{{model_name=\"m\",tp_rank=\"0\"}} {}\nsglang:num_queue_reqs{{model_name=\"m\",tp_rank=\"0\"}} 0\n\
             sglang:max_total_num_tokens{{model_name=\"m\",tp_rank=\"0\"}} 20000\nsglang:token_usage{{model_name=\"m\",tp_rank=\"0\"}} 0.5\n\
             sglang:num_requests_total{{model_name=\"m\"}} {done}\nsglang:prompt_tokens_total{{model_name=\"m\"}} {}\n\
             sglang:cached_tokens_total{{cache_source=\"device\"}} {}\nsglang:cached_tokens_total{{cache_source=\"host\"}} {}\n\
             sglang:generation_tokens_total{{model_name=\"m\"}} {}\nsglang:inter_token_latency_seconds_sum {}\n\
             sglang:inter_token_latency_seconds_count {done}\n",
            2 * number,
            done * 1000.0,
            done * 100.0,
            done * 150.0,
            done * 10.0,
            done * 0.025,
        );
        sync(&mut scrape, f64::from(number) * 15.0, &[("a", Some(page))], None);
    }
    let found = traffic(&scrape, 120.0);
    rates(found.arrivals, [Some(17.0 / 15.0); 3]);
    rates(found.prompt_tokens, [Some(17.0 / 15.0 * 750.0); 3]);
    close(found.finished.map(|finished| finished.output_tokens), 1200.0);
    close(found.inter_token.map(|inter_token| inter_token.mean), 0.025);
    close(found.kv_capacity, 20_000.0);
    close(found.kv_used, 10_000.0);
    assert_eq!((found.late_tpot, found.late_ttft, found.prompt_lengths), (None, None, None));
}

#[test]
fn the_history_of_the_law_is_small() {
    let mut scrape = scrape("vLLM", false);
    // The buckets of vLLM 0.11 for a context of 32 Ki tokens.
    let mut page = STEADY.page(1.0);
    for (name, buckets) in [
        ("request_prompt_tokens", 15),
        ("request_generation_tokens", 15),
        ("time_to_first_token_seconds", 22),
        ("request_time_per_output_token_seconds", 19),
    ] {
        for bucket in 0..buckets {
            let _ = writeln!(page, "vllm:{name}_bucket{{engine=\"0\",le=\"{bucket}\"}} 1");
        }
    }
    let fleet: Vec<_> = ["a", "b", "c", "d"].map(|name| (name, Some(page.clone()))).into();
    for number in 0..100 {
        sync(&mut scrape, f64::from(number) * 15.0, &fleet, None);
    }
    let per_pod = scrape.bytes() / 4;
    assert!((5000..7000).contains(&per_pod), "{per_pod}");
    // However short the period: 64 whole pages, and of those before them one for every 5 s.
    for number in 0..400 {
        let pods = [PodPage { name: "a", uid: "a", page: Ok(page.as_bytes()) }];
        scrape.read(&pods, &[], Time::from_millis(1_485_000 + 400 * number));
    }
    assert!(scrape.bytes() < 75_000, "{}", scrape.bytes());
}

proptest! {
    /// A pod that falls silent makes a fleet look no less busy than it is.
    #[test]
    fn silence_lowers_no_arrivals(loads in prop::collection::vec(1_u32..100, 3..8), silenced in prop::collection::vec(any::<bool>(), 8)) {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let mut scrape = scrape("vLLM", false);
        let fleet = |scrape: &mut Scrape, number: i32, silence: bool| {
            let pods: Vec<_> = loads.iter().zip(names).zip(&silenced).map(|((&load, name), &quiet)| {
                let engine = Engine { finished: f64::from(load), ..STEADY };
                (name, (!(silence && quiet)).then(|| engine.page(f64::from(number))))
            }).collect();
            sync(scrape, f64::from(number) * 15.0, &pods, None);
        };
        for number in 0..=4 {
            fleet(&mut scrape, number, false);
        }
        let truth = traffic(&scrape, 60.0).arrivals.over_60s.unwrap().get();
        fleet(&mut scrape, 5, true);
        if let Some(seen) = traffic(&scrape, 75.0).arrivals.over_60s {
            prop_assert!(seen.get() >= truth - 1e-9, "{} < {}", seen, truth);
        }
    }

    /// Whatever the pages are: no panic.
    #[test]
    fn never_panics(pages in prop::collection::vec(prop::option::of("(vllm:(num_requests_(running|waiting)|request_success_total|prompt_tokens_total|request_prompt_tokens_bucket|cache_config_info)( |\\{le=\"(1|5|[+]Inf)\"\\} )-?[0-9NaIf.e+]{1,6}\n){0,6}"), 1..6)) {
        let mut scrape = scrape("vLLM", true);
        for (number, page) in pages.iter().enumerate() {
            sync(&mut scrape, number as f64 * 15.0, &[("a", page.clone())], page.as_deref());
            let _ = traffic(&scrape, number as f64 * 15.0);
        }
    }
}
