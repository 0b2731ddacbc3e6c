//! Prefills that are to come.

use super::Sequence;

/// What is still to be processed of the sequences that wait for their prefill or are in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backlog {
    /// Tokens to process.
    pub tokens: u64,
    /// Token-context pairs to attend to, doubled.
    pub pairs: u64,
    /// KV tokens that the waiting ones will take.
    pub kv: u64,
}

impl Backlog {
    /// A sequence waits, all of its prefill but what is cached still to come.
    pub fn wait(&mut self, sequence: &Sequence) {
        let (total, cached) = (sequence.prefill_tokens(), u64::from(sequence.job.cached));
        self.tokens += total - cached;
        self.pairs += total * total - cached * cached;
        self.kv += total;
    }

    /// One that will take so many KV tokens waits no longer.
    pub fn admit(&mut self, kv: u64) {
        self.kv -= kv;
    }

    /// So much of it is processed with the step that begins, or given up.
    pub fn work_off(&mut self, tokens: u64, pairs: u64) {
        self.tokens -= tokens;
        self.pairs -= pairs;
    }
}
