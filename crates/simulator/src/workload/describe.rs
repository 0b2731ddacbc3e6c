//! Workloads in words.

use std::fmt;

use super::{Closed, Curve, Length, Lengths, Noise, Open, Replay, Shape, Workload};

impl Workload {
    /// The workload in one sentence, with everything that a result depends on.
    #[must_use]
    pub fn describe(&self) -> String {
        let Self { name, promised, bounds, start, shape } = self;
        let fleet = format!("{} to {} replicas from {start}", bounds.min, bounds.max);
        format!("{name}: {shape}; promised {} s to the first token and {} ms per token; {fleet}", promised.ttft, ms(promised.tpot))
    }
}

fn ms(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e3
}

/// A time as people say it: `24 h`, `40 min 30 s`.
struct Span(f64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.round() as u64;
        let parts = [(seconds / 3600, "h"), (seconds / 60 % 60, "min"), (seconds % 60, "s")];
        let mut parts = parts.into_iter().filter(|(count, _)| *count > 0).take(2);
        let Some((count, unit)) = parts.next() else { return write!(f, "{} s", self.0) };
        write!(f, "{count} {unit}")?;
        parts.try_for_each(|(count, unit)| write!(f, " {count} {unit}"))
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(open) => open.fmt(f),
            Self::Closed(closed) => closed.fmt(f),
            Self::Replay(replay) => replay.fmt(f),
        }
    }
}

impl fmt::Display for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { curve, noise, batch, lengths } = self;
        write!(f, "{} of {curve}", Span(curve.seconds()))?;
        if let Some(Noise { sd, correlation }) = noise {
            write!(f, ", times a noise of sd {sd} that lasts {}", Span(*correlation))?;
        }
        match batch {
            1 => write!(f, ", Poisson")?,
            _ => write!(f, ", Poisson in batches of {batch}")?,
        }
        write!(f, "; {lengths}")
    }
}

impl fmt::Display for Curve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steps(steps) => {
                let rates: Vec<_> = steps.iter().map(|step| step.rate.to_string()).collect();
                write!(f, "{} requests/s", rates.join(", "))
            }
            Self::Ramp { from, to, .. } => write!(f, "{from} to {to} requests/s in a straight line"),
            Self::Swell { low, high, period, power, .. } => {
                write!(f, "{low} to {high} requests/s and back in {}", Span(*period))?;
                if *power == 1.0 { write!(f, ", a sine") } else { write!(f, ", a sine to the power of {power}") }
            }
            Self::OnOff { low, high, on, off, .. } => {
                write!(f, "{low} requests/s with bursts of {high} requests/s for {} every {}, exponential", Span(*on), Span(on + off))
            }
        }
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let users: Vec<_> = self.users.iter().map(|(users, _)| users.to_string()).collect();
        write!(
            f,
            "{} of {} users who each wait for the answer and think for {}",
            Span(self.seconds()),
            users.join(", "),
            Span(self.think)
        )?;
        write!(f, " (exponential); {}", self.lengths)
    }
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trace = self.trace();
        write!(f, "trace {} ({} requests in {}", trace.name(), trace.requests().len(), Span(trace.seconds()))?;
        if trace.reordered() {
            write!(f, ", sorted by time")?;
        }
        write!(f, "), each request {} times", self.multiply())?;
        match self.shift() {
            0.0 => write!(f, ", not moved"),
            shift => write!(f, ", each copy moved by up to ±{shift} s"),
        }
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "prompts {}, answers {} tokens", self.prompt, self.output)
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(tokens) => write!(f, "{tokens}"),
            Self::Normal { mean, sd, min, max } => write!(f, "normal({mean}, {sd}) within {min} to {max}"),
            Self::LogNormal { median, sigma, max } => write!(f, "lognormal(median {median:.0}, sigma {sigma:.2}) up to {max}"),
            Self::Either(first, second, share) => write!(f, "{}% {first} and {}% {second}", 100.0 - share * 100.0, share * 100.0),
        }
    }
}
