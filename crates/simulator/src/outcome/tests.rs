use super::*;
use crate::{Request, Served};

const PROMISED: Promised = Promised { ttft: 1.0, tpot: 0.1 };

/// One replica does one request per second.
fn recorder(span: f64) -> Recorder {
    Recorder::new(PROMISED, span, 2, |rate, _, _| rate)
}

fn request(at: f64) -> Request {
    Request { at, prompt: 100, output: 10, reusable_prefix: 0 }
}

fn served(arrived: f64, ttft: f64, tpot: Option<f64>) -> Served {
    Served { arrived, prompt: 100, output: if tpot.is_some() { 10 } else { 1 }, ttft, tpot, finished: arrived + ttft }
}

/// Seconds to the first token, and per token after it if there are any; `None` never finishes.
type Answer = Option<(f64, Option<f64>)>;

/// Requests at these times that are answered so.
fn play(recorder: &mut Recorder, requests: &[(f64, Answer)]) {
    for (at, answer) in requests {
        recorder.arrived(&request(*at));
        if let Some((ttft, tpot)) = answer {
            recorder.served(&served(*at, *ttft, *tpot));
        }
    }
}

fn close(one: f64, other: f64) {
    assert!((one - other).abs() < 1e-9, "{one} {other}");
}

#[test]
fn shares_are_of_all_that_were_offered() {
    let mut recorder = recorder(100.0);
    let requests = [
        (0.0, Some((0.5, Some(0.05)))), // both
        (1.0, Some((1.0, Some(0.1)))),  // both, just
        (2.0, Some((1.5, Some(0.05)))), // late to begin
        (3.0, Some((0.5, Some(0.2)))),  // slow
        (4.0, Some((0.5, None))),       // a single token is never slow
        (5.0, None),                    // never finishes
        (6.0, None),                    // cut off
        (7.0, Some((1.5, Some(0.2)))),  // neither
    ];
    play(&mut recorder, &requests);
    recorder.lost();
    let outcome = recorder.finish("p".to_owned(), 7, 700.0);
    assert_eq!((outcome.offered, outcome.finished, outcome.killed, outcome.seed), (8, 6, 1, 7));
    close(outcome.attainment, 3.0 / 8.0);
    close(outcome.ttft_attainment, 4.0 / 8.0);
    close(outcome.tpot_attainment, 4.0 / 8.0);
    close(outcome.goodput, 0.03);
    close(outcome.worst_five_minutes, 3.0 / 8.0);
    assert_eq!(outcome.minutes_over, 1);
    // Of the eight the fourth is at 0.5 and the last two took for ever.
    assert!((outcome.ttft.p50 - 1.0).abs() < 0.01, "{:?}", outcome.ttft);
    assert_eq!((outcome.ttft.p90, outcome.ttft.p99), (f64::INFINITY, f64::INFINITY));
}

#[test]
fn an_empty_run_knows_no_shares() {
    let outcome = recorder(60.0).finish("p".to_owned(), 1, 660.0);
    assert_eq!((outcome.offered, outcome.scale_events, outcome.minutes_over), (0, 0, 0));
    assert!(outcome.attainment.is_nan() && outcome.ttft.p99.is_nan() && outcome.worst_five_minutes.is_nan());
    assert_eq!((outcome.gpu_hours, outcome.average_replicas, outcome.under), (0.0, 0.0, 0.0));
}

#[test]
fn a_run_of_one_request() {
    let mut recorder = recorder(0.0);
    recorder.pod(0.0, Some(0.0), None, 600.0);
    play(&mut recorder, &[(0.0, Some((0.3, None)))]);
    recorder.sample(15.0, 1, 1, 0, 0.25);
    let outcome = recorder.finish("p".to_owned(), 1, 600.0);
    assert_eq!((outcome.attainment, outcome.worst_five_minutes), (1.0, 1.0));
    assert_eq!((outcome.ttft.p50, outcome.ttft.p99), (0.3, 0.3));
    assert!(outcome.tpot.p50.is_nan());
    close(outcome.gpu_hours, 600.0 * 2.0 / 3600.0);
    close(outcome.average_replicas, 1.0);
    close(outcome.average_replicas_under_load, 1.0);
    let sample = outcome.timeline[0];
    close(sample.arrivals, 1.0 / 15.0);
    assert_eq!((sample.late, sample.ttft_p90, sample.kv_usage), (0, 0.3, 0.25));
}

#[test]
fn the_worst_five_minutes_are_found_by_arrival() {
    let mut recorder = recorder(900.0);
    let fine = Some((0.5, Some(0.05)));
    let late = Some((400.0, Some(0.05)));
    // 0-5 min: 3 of 4; 5-10 min: 1 of 2; 10-15 min: all, though what was late until then finishes here.
    play(&mut recorder, &[(10.0, fine), (20.0, fine), (70.0, fine), (299.0, late), (300.0, late), (301.0, fine), (700.0, fine)]);
    let outcome = recorder.finish("p".to_owned(), 1, 1500.0);
    close(outcome.worst_five_minutes, 0.5);
    // The fifth minute (299 s) and the sixth (300 and 301 s).
    assert_eq!(outcome.minutes_over, 2);
}

#[test]
fn a_minute_is_over_when_fewer_than_nine_in_ten_kept_the_promise() {
    let mut recorder = recorder(120.0);
    for tenth in 0..20_u32 {
        // One of ten is late in the first minute, two of ten in the second.
        let late = tenth == 3 || tenth == 13 || tenth == 14;
        play(&mut recorder, &[(f64::from(tenth) * 6.0, Some((if late { 2.0 } else { 0.2 }, Some(0.01))))]);
    }
    assert_eq!(recorder.finish("p".to_owned(), 1, 720.0).minutes_over, 1);
}

#[test]
fn pods_are_billed_from_their_creation_to_ten_minutes_after_the_last_arrival() {
    let mut recorder = recorder(3600.0);
    recorder.pod(0.0, Some(0.0), None, 4200.0); // there from the start: 4200 s
    recorder.pod(100.0, Some(200.0), Some(1000.0), 1030.0); // 930 s, 100 of them warming, 30 draining
    recorder.pod(2000.0, Some(2100.0), Some(2300.0), 2310.0); // 310 s, short-lived
    recorder.pod(3000.0, None, Some(3050.0), 3050.0); // 50 s, never ready, short-lived
    recorder.pod(4150.0, None, None, 9000.0); // 50 s until nothing is billed any more, and not short-lived
    recorder.pod(5000.0, Some(5100.0), None, 9000.0); // not billed at all
    let outcome = recorder.finish("p".to_owned(), 1, 9000.0);
    close(outcome.gpu_hours, (4200.0 + 930.0 + 310.0 + 50.0 + 50.0) * 2.0 / 3600.0);
    close(outcome.warmup_gpu_hours, (100.0 + 100.0 + 50.0 + 50.0) * 2.0 / 3600.0);
    close(outcome.drain_gpu_hours, (30.0 + 10.0) * 2.0 / 3600.0);
    assert_eq!((outcome.pods_started, outcome.short_lived_pods), (5, 2));
}

#[test]
fn events_and_their_changes_of_direction_are_counted() {
    let mut recorder = recorder(1000.0);
    play(&mut recorder, &[(100.0, None), (900.0, None)]);
    for (at, from, to) in [(200.0, 2, 4), (300.0, 4, 5), (400.0, 5, 3), (500.0, 3, 3), (600.0, 3, 2), (800.0, 2, 6)] {
        recorder.resized(at, from, to, "because");
    }
    let outcome = recorder.finish("p".to_owned(), 1, 1600.0);
    assert_eq!((outcome.scale_events, outcome.reversals), (5, 2));
    assert_eq!(outcome.decisions[0], Change { at: 200.0, from: 2, to: 4, why: "because".to_owned() });
    close(outcome.average_replicas, (2.0 * 200.0 + 4.0 * 100.0 + 5.0 * 100.0 + 3.0 * 200.0 + 2.0 * 200.0 + 6.0 * 800.0) / 1600.0);
    close(outcome.average_replicas_under_load, (2.0 * 100.0 + 4.0 * 100.0 + 5.0 * 100.0 + 3.0 * 200.0 + 2.0 * 200.0 + 6.0 * 100.0) / 800.0);
}

#[test]
fn supply_is_held_against_the_need() {
    let mut recorder = recorder(60.0);
    // 2 per second, then 4 per second, then none, then 1.5 per second.
    (0..30).for_each(|n| recorder.arrived(&request(0.25 + 0.5 * f64::from(n))));
    (0..60).for_each(|n| recorder.arrived(&request(15.1 + 0.25 * f64::from(n) * 0.99)));
    (0..22).for_each(|n| recorder.arrived(&request(45.1 + 0.6 * f64::from(n))));
    for (at, ready) in [(15.0, 3), (30.0, 3), (45.0, 3), (60.0, 3)] {
        recorder.sample(at, 3, ready, 0, 0.0);
    }
    let outcome = recorder.finish("p".to_owned(), 1, 660.0);
    let needs: Vec<f64> = outcome.timeline.iter().map(|sample| sample.need).collect();
    assert_eq!(needs, [2.0, 4.0, 0.0, 22.0 / 15.0]);
    close(outcome.under, 0.25 / 3.0);
    close(outcome.over, (0.5 + 0.5) / 3.0);
}

#[test]
fn samples_show_what_became_of_those_that_arrived_in_them() {
    let mut recorder = recorder(5.0 * 3600.0);
    assert_eq!(recorder.interval(), 60.0);
    assert_eq!(super::tests::recorder(3600.0).interval(), 15.0);
    play(&mut recorder, &[(10.0, Some((0.5, Some(0.05)))), (60.0, Some((200.0, Some(0.05)))), (61.0, None)]);
    (1..=3).for_each(|minute| recorder.sample(f64::from(minute) * 60.0, 2, 1, minute, 0.5));
    recorder.recomputed(40);
    recorder.recomputed(2);
    recorder.decided_on_missing();
    let outcome = recorder.finish("p".to_owned(), 1, 5.0 * 3600.0 + 600.0);
    let [first, second, third] = outcome.timeline.try_into().unwrap();
    assert_eq!((first.late, second.late, third.late), (1, 1, 0));
    assert_eq!((first.ttft_p90, second.ttft_p90), (200.0, f64::INFINITY));
    assert!(third.ttft_p90.is_nan() && third.need == 0.0);
    assert_eq!((outcome.recomputed_tokens, outcome.decisions_on_missing), (42, 1));
}
