//! One replica of an engine: iteration-level continuous batching with chunked prefill, as vLLM does it.
//!
//! At the start of each step every sequence past its prefill gets room for one more token, preempting the ones admitted last where the
//! KV cache would overflow. What is left of the step's token budget goes to prompts: first those begun, then waiting ones in their
//! order, while the whole prompt fits in the KV cache with a hundredth to spare. The end of a prefill yields a token. What a step costs
//! is told at [`llmscaler_engine::Profile`].
//!
//! Steps that only decode are taken many at a time: all sequences advance together, so nothing happens until one finishes, the KV cache
//! is full or a request comes, and the time until then has a closed form ([`leap::Leap`]).

mod backlog;
mod forecast;
mod leap;
#[cfg(test)]
mod reference;
mod schedule;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use llmscaler_engine::Costs;

use crate::{EngineMeters, Request, Served};
use backlog::Backlog;
use forecast::PrefillShare;
pub(crate) use forecast::{Forecast, Load};
use leap::Leap;

/// Seconds that the gateway, the tokeniser and HTTP add to the first token and to nothing else.
pub(crate) const TRANSPORT: f64 = 0.05;

/// A request on its way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Job {
    pub request: Request,
    /// Prompt tokens that the prefix cache of its replica holds; less than the prompt.
    pub cached: u32,
    /// Which user of a closed loop waits for it.
    pub user: Option<u32>,
}

/// What a replica did, for those who keep the books.
#[derive(Clone, Debug, Default)]
pub(crate) struct Effects {
    /// Times to first token as clients saw them, in seconds.
    pub first_tokens: Vec<f64>,
    /// Requests that were answered to their end, with the users who waited.
    pub finished: Vec<(Served, Option<u32>)>,
    /// Tokens that had been in the KV cache and are to be processed again.
    pub recomputed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Sequence {
    job: Job,
    /// When the replica got it.
    received: f64,
    /// Tokens of the answer that are there.
    generated: u32,
    first_token: f64,
    /// When the last token came before a preemption.
    last_token: f64,
}

impl Sequence {
    /// Tokens that its prefill fills the KV cache with.
    fn prefill_tokens(&self) -> u64 {
        u64::from(self.job.request.prompt) + u64::from(self.generated)
    }
}

/// A prompt that is processed in chunks.
#[derive(Clone, Copy, Debug)]
struct Partial {
    slot: u32,
    /// Tokens processed or cached.
    done: u64,
    total: u64,
}

/// A sequence past its prefill, ordered by when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Decoding {
    /// The replica's decode step that brings the last token.
    ends: u64,
    /// Order of admission.
    order: u32,
    slot: u32,
}

/// A single step with prompt tokens in it.
#[derive(Clone, Copy, Debug)]
struct Step {
    starts: f64,
    ends: f64,
    /// Prompt tokens that it processes.
    tokens: u64,
}

#[derive(Clone, Copy, Debug)]
enum Work {
    Idle,
    Step(Step),
    Leap(Leap),
}

#[derive(Clone, Debug)]
pub(crate) struct Replica {
    costs: Costs,
    sequences: Vec<Sequence>,
    free: Vec<u32>,
    waiting: VecDeque<u32>,
    partial: Option<Partial>,
    /// Those whose prefill ends with the step at work, with their orders of admission.
    joining: Vec<(u32, u32)>,
    decoding: BinaryHeap<Reverse<Decoding>>,
    work: Work,
    /// Decode steps so far.
    steps: u64,
    /// Sequences admitted so far.
    admitted: u32,
    /// KV tokens of the sequences past their prefill.
    context: u64,
    /// KV tokens of those in their prefill.
    reserved: u64,
    /// What waits for its prefill, the rest of the partial one included and the step at work excluded.
    backlog: Backlog,
    share: PrefillShare,
    meters: EngineMeters,
}

impl Replica {
    /// An idle one that is ready at `now`.
    pub fn new(costs: Costs, now: f64) -> Self {
        Self {
            costs,
            sequences: Vec::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
            partial: None,
            joining: Vec::new(),
            decoding: BinaryHeap::new(),
            work: Work::Idle,
            steps: 0,
            admitted: 0,
            context: 0,
            reserved: 0,
            backlog: Backlog::default(),
            share: PrefillShare::new(now),
            meters: EngineMeters::default(),
        }
    }

    /// Most tokens, prompt and answer, that one request may take; the engine refuses longer ones.
    pub fn longest(costs: &Costs) -> u64 {
        u64::from(costs.kv_tokens) - spare(costs)
    }

    /// When its state changes next without anything from outside; infinite while it is idle.
    pub fn due(&self) -> f64 {
        match &self.work {
            Work::Idle => f64::INFINITY,
            Work::Step(step) => step.ends,
            Work::Leap(leap) => leap.ends(),
        }
    }

    /// Requests that it has, running or waiting.
    pub fn in_flight(&self) -> usize {
        self.sequences.len() - self.free.len()
    }

    /// Takes a request of at most [`Self::longest`] tokens.
    pub fn accept(&mut self, now: f64, job: Job) {
        let sequence = Sequence { job, received: now, generated: 0, first_token: now, last_token: now };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.sequences[slot as usize] = sequence;
                slot
            }
            None => {
                self.sequences.push(sequence);
                self.sequences.len() as u32 - 1
            }
        };
        self.waiting.push_back(slot);
        self.backlog.wait(&sequence);
        match &mut self.work {
            Work::Idle => self.schedule(now),
            Work::Step(_) => {}
            Work::Leap(leap) => leap.interrupt(now),
        }
    }

    /// Ends the work that is due at `now` and begins the next.
    pub fn advance(&mut self, now: f64, effects: &mut Effects) {
        match std::mem::replace(&mut self.work, Work::Idle) {
            Work::Idle => return,
            Work::Step(step) => {
                let sequences = self.decoding.len() as u64;
                self.meters.inter_token.observe(step.ends - step.starts, sequences);
                self.meters.output_tokens += sequences;
                self.steps += 1;
            }
            Work::Leap(mut leap) => {
                let steps = leap.steps();
                self.meter_leap(&mut leap, steps);
                self.steps += steps;
                self.context += leap.sequences() * steps;
            }
        }
        while let Some(Reverse(first)) = self.decoding.peek()
            && first.ends <= self.steps
        {
            let slot = first.slot;
            self.decoding.pop();
            self.finish(slot, now, effects);
        }
        let mut joining = std::mem::take(&mut self.joining);
        for (slot, order) in joining.drain(..) {
            self.join(slot, order, now, effects);
        }
        self.joining = joining;
        let capacity = u64::from(self.costs.kv_tokens);
        while self.kv() + self.decoding.len() as u64 > capacity {
            self.preempt(now, effects);
        }
        self.schedule(now);
    }

    /// The end of a prefill, which yields a token.
    fn join(&mut self, slot: u32, order: u32, now: f64, effects: &mut Effects) {
        let sequence = &mut self.sequences[slot as usize];
        let job = sequence.job;
        let prefilled = sequence.prefill_tokens();
        self.reserved -= prefilled;
        self.context += prefilled;
        if sequence.generated == 0 {
            sequence.first_token = now;
            self.meters.ttft.observe(now - sequence.received, 1);
            self.meters.prompt_tokens += u64::from(job.request.prompt - job.cached);
            self.meters.cached_tokens += u64::from(job.cached);
            effects.first_tokens.push(now - job.request.at + TRANSPORT);
        } else {
            self.meters.inter_token.observe(now - sequence.last_token, 1);
        }
        sequence.generated += 1;
        self.meters.output_tokens += 1;
        let rest = u64::from(job.request.output - sequence.generated);
        if rest == 0 {
            self.finish(slot, now, effects);
        } else {
            self.decoding.push(Reverse(Decoding { ends: self.steps + rest, order, slot }));
        }
    }

    fn finish(&mut self, slot: u32, now: f64, effects: &mut Effects) {
        let Sequence { job, first_token, .. } = self.sequences[slot as usize];
        let Job { request, user, .. } = job;
        self.free.push(slot);
        // The last token is never read, so it is not in the KV cache.
        self.context -= u64::from(request.prompt) + u64::from(request.output) - 1;
        let tpot = (request.output > 1).then(|| (now - first_token) / f64::from(request.output - 1));
        self.meters.finished += 1;
        self.meters.prompt_length.observe(f64::from(request.prompt), 1);
        self.meters.output_length.observe(f64::from(request.output), 1);
        if let Some(tpot) = tpot {
            self.meters.request_tpot.observe(tpot, 1);
        }
        let served = Served {
            arrived: request.at,
            prompt: request.prompt,
            output: request.output,
            ttft: first_token - request.at + TRANSPORT,
            tpot,
            finished: now + TRANSPORT,
        };
        effects.finished.push((served, user));
    }

    /// Everything that it has, which is lost with it.
    pub fn abandon(&mut self) -> Vec<Job> {
        let partial = self.partial.take().map(|partial| partial.slot);
        let joining = std::mem::take(&mut self.joining).into_iter().map(|(slot, _)| slot);
        let decoding = std::mem::take(&mut self.decoding).into_sorted_vec().into_iter().map(|Reverse(decoding)| decoding.slot);
        let slots = std::mem::take(&mut self.waiting).into_iter().chain(partial).chain(joining).chain(decoding);
        let jobs = slots.map(|slot| self.sequences[slot as usize].job).collect();
        self.work = Work::Idle;
        self.free.clear();
        self.sequences.clear();
        jobs
    }

    /// What it had counted when [`Self::read_meters`] was called last.
    pub fn meters(&self) -> &EngineMeters {
        &self.meters
    }

    /// Brings the meters up to `now`, which is not after [`Self::due`].
    pub fn read_meters(&mut self, now: f64) {
        let mut leapt = 0;
        if let Work::Leap(mut leap) = self.work {
            let steps = leap.steps_by(now);
            self.meter_leap(&mut leap, steps);
            leapt = leap.sequences() * steps;
            self.work = Work::Leap(leap);
        }
        self.meters.running = self.running() as u32;
        self.meters.waiting = self.waiting.len() as u32;
        self.meters.kv_tokens = self.kv() + leapt;
    }

    fn meter_leap(&mut self, leap: &mut Leap, until: u64) {
        let (gaps, seconds) = leap.observe(until);
        self.meters.inter_token.observe_sum(seconds, gaps);
        self.meters.output_tokens += gaps;
    }

    fn running(&self) -> u64 {
        (self.decoding.len() + self.joining.len() + usize::from(self.partial.is_some())) as u64
    }

    /// KV tokens in use at the start of the work.
    fn kv(&self) -> u64 {
        self.context + self.reserved
    }

    /// Seconds of a step of so many sequences that read so many KV tokens, with so many prompt tokens, attention excluded.
    fn step_seconds(&self, sequences: u64, context: u64, tokens: u64) -> f64 {
        step_seconds(&self.costs, sequences as f64, context as f64, tokens as f64)
    }
}

fn step_seconds(costs: &Costs, sequences: f64, context: f64, tokens: f64) -> f64 {
    costs.overhead + costs.weights.max(costs.prompt_token * (tokens + sequences)) + costs.sequence * sequences + costs.kv_token * context
}

/// KV tokens that admission leaves free: a hundredth.
fn spare(costs: &Costs) -> u64 {
    u64::from(costs.kv_tokens).div_ceil(100)
}
