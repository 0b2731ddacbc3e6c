//! The same model once more, a step at a time and a sequence at a time, as plainly as it can be said.

use llmscaler_engine::Costs;

use super::TRANSPORT;
use crate::Request;

/// What is known of a request in the end: its number, TTFT, TPOT and the time of its last token.
pub(super) type Answer = (usize, f64, Option<f64>, f64);

#[derive(Clone)]
struct Sequence {
    number: usize,
    cached: u64,
    generated: u64,
    /// Tokens of the prefill that are done, and that there are.
    done: u64,
    prefill: u64,
    first_token: f64,
}

/// Runs requests, in the order of time and each with its cached tokens, until all are answered. Also tells the preemptions.
pub(super) fn run(costs: &Costs, requests: &[(Request, u32)]) -> (Vec<Answer>, u64) {
    let (mut waiting, mut running): (Vec<Sequence>, Vec<Sequence>) = (Vec::new(), Vec::new());
    let (mut now, mut next, mut preemptions) = (0.0f64, 0, 0);
    let mut answers = Vec::new();
    let output = |sequence: &Sequence| u64::from(requests[sequence.number].0.output);
    loop {
        if waiting.is_empty() && running.is_empty() {
            let Some((request, _)) = requests.get(next) else { break };
            now = now.max(request.at);
        }
        while let Some((request, cached)) = requests.get(next)
            && request.at <= now
        {
            let (prefill, cached) = (u64::from(request.prompt), u64::from(*cached));
            waiting.push(Sequence { number: next, cached, generated: 0, done: cached, prefill, first_token: 0.0 });
            next += 1;
        }
        let decodes = |sequence: &Sequence| sequence.done == sequence.prefill;
        let kv = |running: &[Sequence]| running.iter().map(kept_of(requests)).sum::<u64>();
        let decoding = |running: &[Sequence]| running.iter().filter(|sequence| decodes(sequence)).count() as u64;
        while kv(&running) + decoding(&running) > u64::from(costs.kv_tokens) {
            let mut last = running.pop().unwrap();
            last.prefill = u64::from(requests[last.number].0.prompt) + last.generated;
            last.done = last.cached;
            waiting.insert(0, last);
            preemptions += 1;
        }
        let n = decoding(&running);
        let read: u64 = running.iter().filter(|sequence| decodes(sequence)).map(kept_of(requests)).sum::<u64>() + n;
        let mut decodes_now: Vec<bool> = running.iter().map(decodes).collect();
        let (mut budget, mut prefilled, mut attended) = (u64::from(costs.max_batched_tokens) - n, 0, 0.0);
        let mut chunk = |sequence: &mut Sequence, budget: &mut u64| {
            let chunk = (*budget).min(sequence.prefill - sequence.done);
            attended += chunk as f64 * (sequence.done as f64 + chunk as f64 / 2.0);
            sequence.done += chunk;
            prefilled += chunk;
            *budget -= chunk;
        };
        for sequence in &mut running {
            chunk(sequence, &mut budget);
        }
        while budget > 0 && running.len() < costs.max_sequences as usize && !waiting.is_empty() {
            let spare = (f64::from(costs.kv_tokens) / 100.0).ceil() as u64;
            let reserved: u64 =
                running.iter().zip(&decodes_now).filter(|(_, decodes)| !**decodes).map(|(sequence, _)| sequence.prefill).sum();
            if read + reserved + waiting[0].prefill + spare > u64::from(costs.kv_tokens) {
                break;
            }
            let mut sequence = waiting.remove(0);
            chunk(&mut sequence, &mut budget);
            running.push(sequence);
            decodes_now.push(false);
        }
        now += costs.overhead
            + costs.weights.max(costs.prompt_token * (prefilled + n) as f64)
            + costs.sequence * n as f64
            + costs.kv_token * read as f64
            + costs.attention * attended;
        for (sequence, _) in running.iter_mut().zip(decodes_now).filter(|(sequence, decodes)| *decodes || sequence.done == sequence.prefill)
        {
            sequence.generated += 1;
            if sequence.generated == 1 {
                sequence.first_token = now;
            }
            if sequence.generated == output(sequence) {
                let request = requests[sequence.number].0;
                let tpot = (request.output > 1).then(|| (now - sequence.first_token) / f64::from(request.output - 1));
                answers.push((sequence.number, sequence.first_token - request.at + TRANSPORT, tpot, now + TRANSPORT));
            }
        }
        running.retain(|sequence| sequence.generated < output(sequence));
    }
    (answers, preemptions)
}

/// KV tokens of a running sequence: the whole prompt from its admission on, and what was generated but for the newest token, which no
/// step has read yet.
fn kept_of(requests: &[(Request, u32)]) -> impl Fn(&Sequence) -> u64 + '_ {
    |sequence| {
        let prompt = u64::from(requests[sequence.number].0.prompt);
        if sequence.done == sequence.prefill { prompt + sequence.generated - 1 } else { sequence.prefill }
    }
}
