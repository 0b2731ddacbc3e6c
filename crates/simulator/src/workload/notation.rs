//! Traffic and lengths as one writes them on a command line.

mod fields;

use std::str::FromStr;

use fields::{Fields, number, tokens, whole};
use thiserror::Error;

use super::amount::Amount;
use super::{Closed, Curve, Length, Lengths, MOST_REQUESTS, MOST_USERS, Noise, Open, Setting, Shape, Step, Workload};

/// Traffic by example, and what it is.
const TRAFFIC: [(&str, &str); 7] = [
    ("constant:rate=5,seconds=1h", "always so many requests per second"),
    ("steps:2x330,4x6m,6x6m", "one rate after the other, each for a time"),
    ("ramp:from=5,to=10,seconds=1h", "from one rate to another in a straight line"),
    ("day:low=1,high=8", "a sine from low to high and back; period 24h, seconds one period, noise 0.1, power 1 (above 1: longer nights)"),
    ("bursts:rate=5,seconds=2h", "a rate that wanders about its mean; noise 0.35"),
    ("on-off:low=1,high=20,on=1m,off=5m,seconds=1h", "silence and bursts in turn, of exponential lengths"),
    ("users:64x6m,128x6m", "what so many users ask who wait for each answer; think 2s"),
];

/// Lengths by example, and what they are.
const LENGTHS: [(&str, &str); 4] = [
    ("400", "always so many tokens"),
    ("normal:mean=4000,sd=300", "normal; min 1, max 200000"),
    ("lognormal:median=250,sigma=0.8", "lognormal by median and sigma of the logarithm; max 200000"),
    ("lognormal:mean=345,sd=325", "lognormal by mean and standard deviation; max 200000"),
];

/// Longest prompt or answer where none is given.
const USUAL_MOST_TOKENS: f64 = 200_000.0;

/// Why traffic or a length cannot be understood.
#[derive(Debug, Error, PartialEq)]
#[error("{text:?}: {problem}")]
pub struct NotationError {
    text: String,
    problem: String,
}

impl Workload {
    /// A workload of the given traffic, such as `steps:2x330,4x360`; the text is its name.
    ///
    /// What can be written is in [`Workload::notations`]. All but `users` take three things more: `noise`, the standard deviation of
    /// the logarithm of a factor that wanders; `correlation`, how long that lasts (5m); `batch`, how many requests come at once (1).
    /// Times are seconds or have a unit: `90`, `90s`, `5m`, `24h`.
    ///
    /// # Errors
    /// Where the text is nothing of this, or has numbers that cannot be.
    pub fn drawn(traffic: &str, lengths: Lengths, setting: Setting) -> Result<Self, NotationError> {
        let shape = shape(traffic, lengths).map_err(|problem| NotationError { text: traffic.to_owned(), problem })?;
        let Setting { promised, bounds, start } = setting;
        Ok(Self { name: traffic.to_owned(), promised, bounds, start, shape })
    }

    /// What [`Workload::drawn`] understands: an example of each, and what it is with what may be left out.
    pub fn notations() -> impl Iterator<Item = (&'static str, &'static str)> {
        TRAFFIC.into_iter()
    }
}

impl Length {
    /// What a length can be written as: an example of each, and what it is with what may be left out.
    pub fn notations() -> impl Iterator<Item = (&'static str, &'static str)> {
        LENGTHS.into_iter()
    }
}

impl FromStr for Length {
    type Err = NotationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        length(text).map_err(|problem| NotationError { text: text.to_owned(), problem })
    }
}

fn length(text: &str) -> Result<Length, String> {
    let (kind, rest) = text.split_once(':').unwrap_or(("fixed", text));
    let mut fields = Fields::new(rest);
    let length = match kind {
        "fixed" => Length::Fixed(tokens("a length", number(fields.take_bare().unwrap_or_default())?)?),
        "normal" => Length::Normal {
            mean: fields.positive("mean")?,
            sd: fields.within("sd", None, 0.0, f64::from(super::MOST_TOKENS))?,
            min: tokens("min", fields.within("min", Some(1.0), 1.0, f64::from(super::MOST_TOKENS))?)?,
            max: tokens("max", fields.within("max", Some(USUAL_MOST_TOKENS), 1.0, f64::from(super::MOST_TOKENS))?)?,
        },
        "lognormal" => {
            let max = tokens("max", fields.within("max", Some(USUAL_MOST_TOKENS), 1.0, f64::from(super::MOST_TOKENS))?)?;
            if fields.has("mean") {
                Length::log_normal(fields.positive("mean")?, fields.within("sd", None, 0.0, f64::from(super::MOST_TOKENS))?, max)
            } else {
                Length::LogNormal { median: fields.positive("median")?, sigma: fields.within("sigma", None, 0.0, 10.0)?, max }
            }
        }
        _ => return Err(format!("no length is called {kind}; give a number of tokens, normal:mean=…,sd=… or lognormal:median=…,sigma=…")),
    };
    fields.finish()?;
    match length {
        Length::Normal { min, max, .. } if min > max => Err(format!("min {min} is above max {max}; swap them")),
        length => Ok(length),
    }
}

fn shape(text: &str, lengths: Lengths) -> Result<Shape, String> {
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let mut fields = Fields::new(rest);
    if kind == "users" {
        let users = fields.stages()?.into_iter().map(|(users, seconds)| Ok((whole("users", users)?, seconds)));
        let users = users.collect::<Result<_, String>>()?;
        let closed = Closed { users, think: fields.time("think", Some(2.0))?, lengths };
        fields.finish()?;
        return users_fit(&closed).map(|()| Shape::Closed(closed));
    }
    let (curve, usual_noise) = match kind {
        "constant" => (Curve::Steps(vec![Step { rate: fields.rate("rate")?, seconds: fields.time("seconds", None)? }]), 0.0),
        "steps" => (Curve::Steps(fields.stages()?.into_iter().map(|(rate, seconds)| Step { rate, seconds }).collect()), 0.0),
        "ramp" => (Curve::Ramp { from: fields.rate("from")?, to: fields.rate("to")?, seconds: fields.time("seconds", None)? }, 0.0),
        "day" => {
            let period = fields.time("period", Some(86_400.0))?;
            let (low, high) = (fields.rate("low")?, fields.rate("high")?);
            let power = fields.within("power", Some(1.0), 0.1, 10.0)?;
            (Curve::Swell { low, high, period, power, seconds: fields.time("seconds", Some(period))? }, 0.1)
        }
        "bursts" => (Curve::Steps(vec![Step { rate: fields.rate("rate")?, seconds: fields.time("seconds", None)? }]), 0.35),
        "on-off" => {
            let (low, high) = (fields.rate("low")?, fields.rate("high")?);
            let (on, off) = (fields.time("on", None)?, fields.time("off", None)?);
            (Curve::OnOff { low, high, on, off, seconds: fields.time("seconds", None)? }, 0.0)
        }
        _ => return Err(format!("no traffic is called {kind}; give constant, steps, ramp, day, bursts, on-off or users")),
    };
    let sd = fields.within("noise", Some(usual_noise), 0.0, 3.0)?;
    let correlation = fields.time("correlation", Some(300.0))?;
    let batch = whole("batch", fields.within("batch", Some(1.0), 1.0, 1000.0)?)?;
    fields.finish()?;
    let requests = most_requests(&curve);
    if !(1.0..=MOST_REQUESTS).contains(&requests) {
        return Err(too_many(requests, "rates"));
    }
    let noise = (sd > 0.0).then_some(Noise { sd, correlation });
    Ok(Shape::Open(Open { curve, noise, batch, lengths }))
}

fn too_many(requests: f64, of: &str) -> String {
    format!("up to {} requests cannot be simulated; give {of} and times that make 1 to 100 million", Amount(requests))
}

/// Whether there are users at all, and not more than can be simulated.
fn users_fit(closed: &Closed) -> Result<(), String> {
    if let Some((most, _)) = closed.users.iter().find(|(users, _)| f64::from(*users) > MOST_USERS) {
        return Err(format!("{most} users cannot be simulated; give {MOST_USERS} at most, or a rate"));
    }
    // An answer takes a second or so, and a user asks again only after it and a thought.
    let requests = closed.users.iter().map(|(users, seconds)| f64::from(*users) * seconds / (1.0 + closed.think)).sum();
    // Whether one of them asks at all is chance where they think for long.
    let asks = closed.users.iter().any(|(users, _)| *users > 0);
    if asks && requests <= MOST_REQUESTS { Ok(()) } else { Err(too_many(requests, "users")) }
}

/// What a curve makes at most, noise aside.
fn most_requests(curve: &Curve) -> f64 {
    match curve {
        Curve::Steps(steps) => steps.iter().map(|step| step.rate * step.seconds).sum(),
        Curve::Ramp { from: low, to: high, seconds }
        | Curve::Swell { low, high, seconds, .. }
        | Curve::OnOff { low, high, seconds, .. } => low.max(*high) * seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(text: &str) -> Result<Workload, String> {
        let setting = Setting::of_trace("azure2023_conv").unwrap();
        let lengths = Lengths { prompt: Length::Fixed(100), output: Length::Fixed(10) };
        Workload::drawn(text, lengths, setting).map_err(|error| error.to_string())
    }

    fn open(text: &str) -> Open {
        match traffic(text).unwrap().shape {
            Shape::Open(open) => open,
            shape => panic!("{shape:?}"),
        }
    }

    #[test]
    fn every_example_is_understood() {
        for (example, _) in TRAFFIC {
            assert_eq!(traffic(example).map(|workload| workload.name), Ok(example.to_owned()));
        }
        for (example, _) in LENGTHS {
            assert!(example.parse::<Length>().is_ok(), "{example}");
        }
    }

    #[test]
    fn traffic_is_what_it_says() {
        assert_eq!(
            open("steps:2x330,4x6m").curve,
            Curve::Steps(vec![Step { rate: 2.0, seconds: 330.0 }, Step { rate: 4.0, seconds: 360.0 }])
        );
        assert_eq!(open("constant:rate=5,seconds=1h").curve, Curve::Steps(vec![Step { rate: 5.0, seconds: 3600.0 }]));
        assert_eq!(open("ramp:from=5,to=10,seconds=90s").curve, Curve::Ramp { from: 5.0, to: 10.0, seconds: 90.0 });
        let day = open("day:low=1,high=8");
        assert_eq!(day.curve, Curve::Swell { low: 1.0, high: 8.0, period: 86_400.0, power: 1.0, seconds: 86_400.0 });
        assert_eq!(day.noise, Some(Noise { sd: 0.1, correlation: 300.0 }));
        let bursts = open("bursts:rate=5,seconds=2h,noise=0.5,correlation=60,batch=2");
        assert_eq!((bursts.noise, bursts.batch), (Some(Noise { sd: 0.5, correlation: 60.0 }), 2));
        assert_eq!(
            open("on-off:low=1,high=20,on=1m,off=5m,seconds=1h").curve,
            Curve::OnOff { low: 1.0, high: 20.0, on: 60.0, off: 300.0, seconds: 3600.0 }
        );
        let Shape::Closed(closed) = traffic("users:64x6m,128x6m,think=5").unwrap().shape else { panic!() };
        assert_eq!((closed.users, closed.think), (vec![(64, 360.0), (128, 360.0)], 5.0));
    }

    #[test]
    fn lengths_are_what_they_say() {
        assert_eq!("400".parse(), Ok(Length::Fixed(400)));
        assert_eq!("normal:mean=4000,sd=300,max=4500".parse(), Ok(Length::Normal { mean: 4000.0, sd: 300.0, min: 1, max: 4500 }));
        assert_eq!("lognormal:median=160,sigma=1".parse(), Ok(Length::LogNormal { median: 160.0, sigma: 1.0, max: 200_000 }));
        assert_eq!("lognormal:mean=345,sd=325".parse(), Ok(Length::log_normal(345.0, 325.0, 200_000)));
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_way_out() {
        for (text, wanted) in [
            ("", "no traffic is called"),
            ("constant", "rate is missing"),
            ("constant:rate=5", "seconds is missing; add seconds=…, such as seconds=1h"),
            ("constant:rate=NaN,seconds=1h", "rate must be 0 to"),
            ("constant:rate=-1,seconds=1h", "rate must be 0 to"),
            ("constant:rate=0,seconds=1h", "give rates and times"),
            ("constant:rate=1e6,seconds=1h", "give rates and times"),
            ("constant:rate=1,seconds=0", "seconds must be a time above 0"),
            ("constant:rate=1,seconds=inf", "is no unit of time"),
            ("constant:rate=1,seconds=5d", "d is no unit of time"),
            ("constant:rate=1,rate=2,seconds=1h", "rate has no meaning here, or stands twice"),
            ("constant:rate=1,seconds=1h,5", "5 has no meaning here"),
            ("constant:rate=1,seconds=1h,batch=1.5", "batch must be a whole number"),
            ("steps", "there is no step"),
            ("steps:2", "2 is no step"),
            ("users:1.5x60", "users must be a whole number"),
            ("users:0x6m", "up to 0 requests cannot be simulated; give users and times"),
            ("users:99999999x6m", "99999999 users cannot be simulated; give 100000 at most"),
            ("users:100000x24h", "give users and times that make 1 to 100 million"),
            ("constant:rate=1e308,seconds=1h", "rate must be 0 to 100000000 and is 1e308"),
        ] {
            let error = traffic(text).unwrap_err();
            assert!(error.contains(wanted), "{text:?} gives {error:?}");
        }
        for (text, wanted) in [
            ("", "is no number"),
            ("0", "a length must be 1 to"),
            ("1.5", "a whole number"),
            ("uniform:1", "no length is called uniform"),
            ("normal:mean=5", "sd is missing"),
            ("normal:mean=5,sd=1,min=9,max=3", "min 9 is above max 3"),
            ("lognormal:sigma=1", "median is missing"),
        ] {
            let error = text.parse::<Length>().unwrap_err().to_string();
            assert!(error.contains(wanted), "{text:?} gives {error:?}");
        }
    }
}
