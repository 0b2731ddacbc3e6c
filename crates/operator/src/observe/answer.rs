//! What comes of a question, whoever is asked.

use llmscaler_engine::{self as engine, Reading, Traffic};

use crate::questions::{LatencyQuestion, SloQuestion};

/// What came of one question.
pub(super) struct Answer {
    pub reading: Reading,
    pub traffic: Option<Box<Traffic>>,
}

impl From<Reading> for Answer {
    fn from(reading: Reading) -> Self {
        Self { reading, traffic: None }
    }
}

/// How near the latencies are to what was promised.
pub(super) fn saturation(slo: &SloQuestion, ttft: Option<&Reading>, tpot: Option<&Reading>) -> Reading {
    fn of<'a>(asked: Option<&LatencyQuestion>, reading: Option<&'a Reading>) -> Option<engine::Latency<'a>> {
        Some(engine::Latency { reading: reading?, target: asked?.promised })
    }
    engine::saturation(of(slo.ttft.as_ref(), ttft), of(slo.tpot.as_ref(), tpot), slo.up_at)
}
