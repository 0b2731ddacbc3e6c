//! The gateway: what it holds back, and what it counts.

use std::collections::VecDeque;

use crate::replica::{Forecast, Job};
use crate::{GatewayMeters, Request, Served};

#[derive(Debug, Default)]
pub(crate) struct Gateway {
    /// Requests that came while no replica was ready, in their order.
    queue: VecDeque<Job>,
    meters: GatewayMeters,
}

impl Gateway {
    pub fn meters(&self) -> &GatewayMeters {
        &self.meters
    }

    pub fn arrived(&mut self, request: &Request) {
        let prompt = f64::from(request.prompt);
        self.meters.arrivals += 1;
        self.meters.prompt_tokens += u64::from(request.prompt);
        self.meters.prompt_length.observe(prompt, 1);
        self.meters.prompt_length_ideal.observe(prompt, 1);
    }

    pub fn hold(&mut self, job: Job) {
        self.queue.push_back(job);
        self.meters.queued += 1;
    }

    /// The request that has been held back longest.
    pub fn release(&mut self) -> Option<Job> {
        let job = self.queue.pop_front()?;
        self.meters.queued -= 1;
        Some(job)
    }

    pub fn routed(&mut self, now: f64, forecast: Forecast) {
        self.meters.in_flight += 1;
        self.meters.predicted_ttft.observe(forecast.ttft, 1);
        self.meters.predicted_tpot.observe(forecast.tpot, 1);
        self.meters.latest.predicted_ttft.add(now, forecast.ttft);
        self.meters.latest.predicted_tpot.add(now, forecast.tpot);
    }

    pub fn first_token(&mut self, now: f64, ttft: f64) {
        self.meters.ttft.observe(ttft, 1);
        self.meters.latest.ttft.add(now, ttft);
    }

    pub fn finished(&mut self, now: f64, served: &Served) {
        self.meters.in_flight -= 1;
        self.meters.finished += 1;
        self.meters.output_tokens += u64::from(served.output);
        self.meters.output_length.observe(f64::from(served.output), 1);
        if let Some(tpot) = served.tpot {
            self.meters.tpot.observe(tpot, 1);
            self.meters.latest.tpot.add(now, tpot);
        }
    }

    pub fn lost(&mut self) {
        self.meters.in_flight -= 1;
    }
}
