//! Step 1: what a typical request looks like.

use serde::{Deserialize, Serialize};

use super::inputs::{Arrivals, Inputs};
use super::lengths::Lengths;
use super::numbers::within;

/// How fast lengths of outputs are learned: they are known when a request ends, over 120 s, so a tick brings little that is new.
const OUTPUT_GAIN: f64 = 0.1;
/// How fast the mean prompt is learned: it is measured as it arrives, and 60 s of it at once.
const PROMPT_GAIN: f64 = 0.2;
/// How fast the spread of prompts is learned: one long prompt moves the measured one by much.
const VARIATION_GAIN: f64 = 0.01;
/// Output tokens of a request while none has ended yet.
const UNSEEN_OUTPUT: f64 = 200.0;
/// Median output as a share of the mean one while no median is known: outputs have a long tail.
const UNSEEN_MEDIAN: f64 = 0.6;
/// The most tokens of one request that are believed.
const LONGEST: f64 = 1e9;

/// Means of late, and the lengths of prompts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Shape {
    /// P: mean prompt in tokens; `None` until a request was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<f64>,
    /// O: mean output in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<f64>,
    /// O50: median output in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    median_output: Option<f64>,
    /// C2: squared coefficient of variation of the prompt length.
    pub variation: f64,
    /// T.
    pub lengths: Lengths,
}

impl Default for Shape {
    fn default() -> Self {
        Self { prompt: None, output: None, median_output: None, variation: 1.0, lengths: Lengths::default() }
    }
}

impl Shape {
    /// O and O50 from the requests that finished, if any did.
    pub(super) fn learn_outputs(&mut self, inputs: &Inputs<'_>) {
        let Some((done, tokens)) = inputs.finished.filter(|(done, _)| *done > 0.0) else { return };
        learn(&mut self.output, within(tokens / done, 0.0, LONGEST), OUTPUT_GAIN);
        if let Some(median) = inputs.median_output {
            learn(&mut self.median_output, median.max(1.0), OUTPUT_GAIN);
        }
    }

    /// P, T and C2 from the requests that arrived, if any did.
    pub(super) fn learn_prompts(&mut self, arrivals: Arrivals, inputs: &Inputs<'_>) {
        let rate = arrivals.over_60s;
        if rate.requests <= 0.0 {
            return;
        }
        learn(&mut self.prompt, within(rate.tokens / rate.requests, 0.0, LONGEST), PROMPT_GAIN);
        if let Some(histogram) = inputs.lengths {
            self.lengths.add(histogram);
        }
        if let Some(variation) = inputs.variation {
            self.variation += VARIATION_GAIN * (variation - self.variation);
        }
    }

    /// O in tokens.
    pub(super) fn output(&self) -> f64 {
        self.output.unwrap_or(UNSEEN_OUTPUT)
    }

    /// O50 in tokens, at least 1.
    pub(super) fn median_output(&self) -> f64 {
        self.median_output.unwrap_or(UNSEEN_MEDIAN * self.output()).max(1.0)
    }

    /// Makes what was written by hand fit for use.
    pub(super) fn tidy(&mut self) {
        for tokens in [&mut self.prompt, &mut self.output, &mut self.median_output].into_iter().flatten() {
            *tokens = within(*tokens, 0.0, LONGEST);
        }
        self.variation = within(self.variation, 0.0, 1e6);
        self.lengths.tidy();
    }
}

/// Moves a mean by a share of the way to `sample`. The first sample is the mean.
fn learn(mean: &mut Option<f64>, sample: f64, gain: f64) {
    *mean = Some(mean.map_or(sample, |mean| mean + gain * (sample - mean)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headroom::inputs::Rate;

    fn arrivals(requests: f64, tokens: f64) -> Arrivals {
        Arrivals { over_60s: Rate { requests, tokens }, over_30s: None, over_15s: None }
    }

    #[test]
    fn the_first_sample_is_taken_whole_and_the_next_in_part() {
        let mut shape = Shape::default();
        assert_eq!((shape.output(), shape.median_output()), (200.0, 120.0), "nothing has ended yet");
        shape.learn_outputs(&Inputs { finished: Some((0.0, 0.0)), median_output: Some(9.0), ..Inputs::default() });
        assert_eq!(shape, Shape::default(), "nothing has ended");
        shape.learn_outputs(&Inputs { finished: Some((10.0, 3000.0)), ..Inputs::default() });
        assert_eq!((shape.output(), shape.median_output()), (300.0, 180.0), "the median is still a guess");
        shape.learn_outputs(&Inputs { finished: Some((10.0, 4000.0)), median_output: Some(0.2), ..Inputs::default() });
        assert_eq!((shape.output(), shape.median_output()), (310.0, 1.0), "a median is at least 1");
        shape.learn_outputs(&Inputs { finished: Some((10.0, 3100.0)), median_output: Some(11.0), ..Inputs::default() });
        assert_eq!((shape.output(), shape.median_output()), (310.0, 2.0));
    }

    #[test]
    fn prompts_are_learned_while_requests_arrive() {
        let mut shape = Shape::default();
        let inputs = Inputs { variation: Some(3.0), ..Inputs::default() };
        shape.learn_prompts(arrivals(0.0, 0.0), &inputs);
        assert_eq!(shape, Shape::default());
        shape.learn_prompts(arrivals(2.0, 2000.0), &inputs);
        assert_eq!((shape.prompt, shape.variation), (Some(1000.0), 1.02));
        shape.learn_prompts(arrivals(2.0, 4000.0), &Inputs::default());
        assert_eq!((shape.prompt, shape.variation), (Some(1200.0), 1.02), "what is missing is not learned");
    }
}
