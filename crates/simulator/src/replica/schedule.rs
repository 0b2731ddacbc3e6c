//! Who is in the next step: those past their prefill, then prompts as far as its budget and the KV cache go, and who gives way.

use std::cmp::Reverse;

use super::leap::Leap;
use super::{Effects, Partial, Replica, Step, Work};

/// What a step has for prompts, and what it took.
struct Prefill {
    budget: u64,
    tokens: u64,
    /// Token-context pairs, doubled.
    pairs: u64,
}

impl Replica {
    /// Begins a step, or a leap over many.
    pub(super) fn schedule(&mut self, now: f64) {
        let sequences = self.decoding.len() as u64;
        let mut prefill = Prefill { budget: u64::from(self.costs.max_batched_tokens).saturating_sub(sequences), tokens: 0, pairs: 0 };
        if let Some(partial) = self.partial.take() {
            self.chunk(partial, self.admitted, &mut prefill);
        }
        let limit = Self::longest(&self.costs);
        while prefill.budget > 0
            && self.running() < u64::from(self.costs.max_sequences)
            && let Some(&slot) = self.waiting.front()
        {
            let total = self.sequences[slot as usize].prefill_tokens();
            if self.kv() + sequences + total > limit {
                break;
            }
            self.waiting.pop_front();
            self.backlog.admit(total);
            self.reserved += total;
            self.admitted += 1;
            let done = u64::from(self.sequences[slot as usize].job.cached);
            self.chunk(Partial { slot, done, total }, self.admitted, &mut prefill);
        }
        self.work = if prefill.tokens > 0 {
            self.context += sequences;
            let seconds = self.step_seconds(sequences, self.context, prefill.tokens) + self.costs.attention * prefill.pairs as f64 / 2.0;
            self.share.add(now, seconds - self.step_seconds(sequences, self.context, 0));
            Work::Step(Step { starts: now, ends: now + seconds, tokens: prefill.tokens })
        } else if let Some(Reverse(first)) = self.decoding.peek() {
            let room = u64::from(self.costs.kv_tokens) - self.kv();
            let steps = (first.ends - self.steps).min(room / sequences);
            Work::Leap(Leap::new(&self.costs, now, sequences, self.context, steps, !self.waiting.is_empty()))
        } else {
            Work::Idle
        };
    }

    /// Processes as much of a prompt as the step has room for.
    fn chunk(&mut self, partial: Partial, order: u32, prefill: &mut Prefill) {
        let chunk = prefill.budget.min(partial.total - partial.done);
        let done = partial.done + chunk;
        let pairs = done * done - partial.done * partial.done;
        prefill.budget -= chunk;
        prefill.tokens += chunk;
        prefill.pairs += pairs;
        self.backlog.work_off(chunk, pairs);
        if done == partial.total {
            self.joining.push((partial.slot, order));
        } else {
            self.partial = Some(Partial { done, ..partial });
        }
    }

    /// Puts the sequence that was admitted last back to the front of those that wait.
    pub(super) fn preempt(&mut self, now: f64, effects: &mut Effects) {
        let slot = if let Some(Partial { slot, done, total }) = self.partial.take() {
            self.backlog.work_off(total - done, total * total - done * done);
            self.reserved -= total;
            effects.recomputed += done - u64::from(self.sequences[slot as usize].job.cached);
            slot
        } else {
            let Some(last) = self.decoding.iter().map(|Reverse(decoding)| *decoding).max_by_key(|decoding| decoding.order) else { return };
            self.decoding.retain(|Reverse(decoding)| decoding.order != last.order);
            let sequence = &mut self.sequences[last.slot as usize];
            sequence.generated = sequence.job.request.output - (last.ends - self.steps) as u32;
            sequence.last_token = now;
            let kept = sequence.prefill_tokens() - 1;
            self.context -= kept;
            effects.recomputed += kept - u64::from(sequence.job.cached);
            last.slot
        };
        self.meters.preemptions += 1;
        self.waiting.push_front(slot);
        self.backlog.wait(&self.sequences[slot as usize]);
    }
}
