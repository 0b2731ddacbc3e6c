use proptest::prelude::*;

use super::*;
use crate::preset::{Preset, Signal};

const ALL: [Signal; 27] = Signal::ALL;

fn wanted(preset: &str) -> Wanted {
    Wanted::new(Preset::named(preset).unwrap(), &ALL.into_iter().collect(), &BTreeMap::new())
}

fn read(wanted: &Wanted, pods: &[&str], text: &str) -> Result<Page, Unreadable> {
    let pods = pods.iter().map(hash_of).collect();
    let mut reader = Reader::new(wanted, &pods);
    reader.read(text.as_bytes())?;
    reader.finish()
}

fn values(wanted: &Wanted, signal: Signal, page: &Page) -> Vec<f64> {
    page.family(wanted.signal(signal).unwrap().0).map(|(_, value)| value).collect()
}

const VLLM: &str = "\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 3.0
vllm:num_requests_running{engine=\"1\",model_name=\"m\"} 4.0
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"0.1\",model_name=\"m\"} 5.0
vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"+Inf\",model_name=\"m\"} 6.0
vllm:time_to_first_token_seconds_count{engine=\"0\",model_name=\"m\"} 6.0
vllm:time_to_first_token_seconds_sum{engine=\"0\",model_name=\"m\"} 0.7
python_gc_objects_collected_total{generation=\"0\"} 9411.0
python_gc_objects_collected_total_and_more 1
python_gc_objects_collected_total{generation=\"1\"} broken, and nobody cares
";

#[test]
fn keeps_what_is_wanted() {
    let wanted = wanted("vLLM");
    let page = read(&wanted, &[], VLLM).unwrap();
    let mut running = values(&wanted, Signal::RunningRequests, &page);
    running.sort_by(f64::total_cmp);
    assert_eq!(running, [3.0, 4.0]);
    let (ttft, _) = wanted.signal(Signal::Ttft).unwrap();
    let mut buckets: Vec<_> = page.family(ttft).map(|(series, value)| (series.upper(), value)).collect();
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert_eq!(buckets, [(0.1, 5.0), (f64::INFINITY, 6.0)]);
    let (prompts, _) = wanted.signal(Signal::Prompts).unwrap();
    assert_eq!(page.family(prompts).map(|(_, value)| value).collect::<Vec<_>>(), [6.0], "a count is a number of its own");
    assert_eq!(page.values.len(), 5);
}

#[test]
fn of_two_names_for_the_same_the_newer_counts() {
    let wanted = wanted("vLLM");
    let both = "vllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc 0.5\n";
    assert_eq!(values(&wanted, Signal::KvCacheUsage, &read(&wanted, &[], both).unwrap()), [0.5]);
    let old = "vllm:gpu_cache_usage_perc 0.25\n";
    assert_eq!(values(&wanted, Signal::KvCacheUsage, &read(&wanted, &[], old).unwrap()), [0.25]);
}

#[test]
fn the_size_of_a_cache_is_in_labels() {
    let wanted = wanted("vLLM");
    let page = "vllm:cache_config_info{block_size=\"16\",engine=\"0\",num_gpu_blocks=\"1000\"} 1.0\n\
                vllm:cache_config_info{block_size=\"16\",engine=\"1\",num_gpu_blocks=\"None\"} 1.0\n";
    assert_eq!(values(&wanted, Signal::CacheConfig, &read(&wanted, &[], page).unwrap()), [16000.0]);
}

#[test]
fn ranks_that_repeat_a_number_count_once() {
    let wanted = wanted("SGLang");
    let page = read(
        &wanted,
        &[],
        "sglang:num_queue_reqs{model_name=\"m\",tp_rank=\"0\",dp_rank=\"0\"} 4\n\
         sglang:num_queue_reqs{model_name=\"m\",tp_rank=\"1\",dp_rank=\"0\"} 4\n\
         sglang:num_queue_reqs{model_name=\"m\",tp_rank=\"0\",dp_rank=\"1\"} 5\n\
         sglang:num_queue_reqs{model_name=\"m\",tp_rank=\"0\",dp_rank=\"1\",priority=\"3\"} 5\n",
    );
    let mut queued = values(&wanted, Signal::QueuedRequests, &page.unwrap());
    queued.sort_by(f64::total_cmp);
    assert_eq!(queued, [4.0, 5.0]);
}

#[test]
fn what_a_router_says_of_pods_that_are_gone_is_dropped() {
    let wanted = wanted("llm-d-EPP");
    let page = read(
        &wanted,
        &["web-a", "web-b"],
        "llm_d_epp_inflight_tokens{endpoint_name=\"web-a-rank-0\"} 1\n\
         llm_d_epp_inflight_tokens{endpoint_name=\"web-a-rank-1\"} 2\n\
         llm_d_epp_inflight_tokens{endpoint_name=\"web-gone\"} 400\n",
    )
    .unwrap();
    let (family, _) = wanted.signal(Signal::InflightTokens).unwrap();
    let pods: Vec<_> = page.family(family).map(|(series, _)| series.pod).collect();
    assert_eq!(pods, [hash_of("web-a"); 2]);
    let mut tokens = values(&wanted, Signal::InflightTokens, &page);
    tokens.sort_by(f64::total_cmp);
    assert_eq!(tokens, [1.0, 2.0]);
}

#[test]
fn says_where_a_page_is_wrong() {
    let wanted = wanted("vLLM");
    let why = |text: &str| read(&wanted, &[], text).unwrap_err().to_string();
    assert_eq!(
        why("<!DOCTYPE html>\n<html>"),
        "its page is not metrics in the text format of Prometheus: line 1, `<!DOCTYPE html>`: it does not begin with a metric name; \
         check that scrape.port and scrape.path lead to the metrics"
    );
    assert!(why("a 1\nvllm:num_requests_waiting\u{1b} 1\n").contains("line 2, `vllm:num_requests_waiting\u{fffd} 1`"));
    assert!(why("a 1\nvllm:num_requests_waiting{x=\"1} 1\n").contains("its labels are not of the form {name=\"value\"}"));
    assert!(why("a 1\n\nvllm:num_requests_waiting lots").contains("line 3, `vllm:num_requests_waiting lots`: its value is not a number"));
    assert_eq!(read(&wanted, &[], "").unwrap().values.len(), 0);
}

#[test]
fn lines_and_series_are_limited() {
    let wanted = wanted("vLLM");
    let long = format!("# {}", "x".repeat(LONGEST_LINE));
    assert_eq!(read(&wanted, &[], &long).unwrap_err(), Unreadable::LongLine { line: 1 });
    assert!(read(&wanted, &[], &long[..LONGEST_LINE]).is_ok());
    let series = |count: usize| (0..count).map(|i| format!("vllm:num_requests_waiting{{engine=\"{i}\"}} 1\n")).collect::<String>();
    assert!(read(&wanted, &[], &series(MOST_SERIES)).is_ok());
    assert_eq!(read(&wanted, &[], &series(MOST_SERIES + 1)).unwrap_err(), Unreadable::ManySeries);
}

#[test]
fn equal_lists_of_series_are_shared() {
    let wanted = wanted("vLLM");
    let first = read(&wanted, &[], VLLM).unwrap();
    let mut second = read(&wanted, &[], &VLLM.replace(" 3.0", " 2.0")).unwrap();
    second.share(&first);
    assert!(second.shares(&first));
    let mut other = read(&wanted, &[], "vllm:num_requests_running 1\n").unwrap();
    other.share(&first);
    assert!(!other.shares(&first));
}

proptest! {
    #[test]
    fn chunks_do_not_matter(cuts in prop::collection::vec(0_usize..VLLM.len(), 0..8)) {
        let wanted = wanted("vLLM");
        let whole = read(&wanted, &[], VLLM).unwrap();
        let pods = HashSet::new();
        let mut reader = Reader::new(&wanted, &pods);
        let mut cuts = cuts;
        cuts.extend([0, VLLM.len()]);
        cuts.sort_unstable();
        for pair in cuts.windows(2) {
            reader.read(&VLLM.as_bytes()[pair[0]..pair[1]]).unwrap();
        }
        let cut = reader.finish().unwrap();
        prop_assert_eq!(&cut.series, &whole.series);
        prop_assert_eq!(&cut.values, &whole.values);
    }

    #[test]
    fn never_panics(text in prop::collection::vec(any::<u8>(), 0..400)) {
        let wanted = wanted("llm-d-EPP");
        let pods = HashSet::new();
        let mut reader = Reader::new(&wanted, &pods);
        let _ = reader.read(&text).and_then(|()| reader.finish());
    }
}
