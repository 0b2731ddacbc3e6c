//! What the sources said at one tick.

use std::time::Duration;

use llmscaler_api::{Ask, Invalid, LatencyAsk, Provider, Scaler, SloAsk};
use llmscaler_engine::{Latency, Law, Reading, Target, Traffic, saturation};
use llmscaler_signals::{decision, prometheus};

use super::node::Node;
use super::suggest::suggestion;
use super::traffic;

/// What the sources said.
#[derive(Debug)]
pub struct Said {
    /// One for each source, in their order; what is not there is unknown.
    pub readings: Vec<Reading>,
    /// Whether the SLO's reading is the saturation itself, which has been averaged already.
    pub averaged: bool,
    /// What the headroom law measures, as far as it was said.
    pub traffic: Option<Box<Traffic>>,
    /// How long the pod that became ready last took, if it was said.
    pub warmup: Option<Duration>,
}

/// What the source `slo` said.
struct SloSaid {
    reading: Reading,
    averaged: bool,
    traffic: Option<Box<Traffic>>,
    warmup: Option<Duration>,
}

impl SloSaid {
    /// A saturation alone.
    fn saturation(reading: Reading, averaged: bool) -> Self {
        Self { reading, averaged, traffic: None, warmup: None }
    }
}

/// Reads the readings of one scaler.
#[derive(Debug)]
pub struct Readings<'a> {
    scaler: &'a Scaler,
    names: Vec<&'a str>,
}

impl<'a> Readings<'a> {
    /// A reader for the sources of `scaler`.
    pub fn of(scaler: &'a Scaler) -> Self {
        Self { scaler, names: scaler.spec.sources.iter().map(|source| source.name.as_str()).collect() }
    }

    /// Whether the provider can be asked how warm each pod is: a decision server cannot.
    pub fn ranks_pods(&self) -> bool {
        !matches!(self.scaler.provider, Provider::DecisionServer(_))
    }

    /// What the sources said at one tick.
    pub fn read(&self, node: Option<Node<'_>>) -> Result<Said, Invalid> {
        let mut readings = vec![None; self.names.len()];
        let (mut averaged, mut traffic, mut warmup) = (false, None, None);
        if let Some(node) = node {
            for (key, node) in node.entries()? {
                let index = self.index(key).ok_or_else(|| self.no_such_source(key, &node))?;
                let Some(slot) = readings.get_mut(index).filter(|slot| slot.is_none()) else {
                    return Err(node.invalid(format!(
                        "metric {} has two readings, one by its name and one by its index {index}; leave one out",
                        self.names[index]
                    )));
                };
                *slot = Some(match (self.scaler.asks.get(index), self.scaler.spec.sources.get(index)) {
                    (Some(Ask::Slo(ask)), Some(source)) => {
                        let said = self.slo(index, ask, source.law, &node)?;
                        (averaged, traffic, warmup) = (said.averaged, said.traffic, said.warmup);
                        said.reading
                    }
                    _ => self.reading(index, &node)?,
                });
            }
        }
        let absent = || Reading::unknown("the document has no reading for it at this tick");
        let readings = readings.into_iter().map(|reading| reading.unwrap_or_else(absent)).collect();
        Ok(Said { readings, averaged, traffic, warmup })
    }

    /// A source goes by its name, and a metric also by its index.
    fn index(&self, key: &str) -> Option<usize> {
        let by_name = self.names.iter().position(|name| *name == key);
        let is_metric = |index: &usize| matches!(self.scaler.asks.get(*index), Some(Ask::Query(_) | Ask::Signal { .. }));
        by_name.or_else(|| key.parse().ok().filter(|index| is_metric(index) && index.to_string() == key))
    }

    fn no_such_source(&self, key: &str, node: &Node<'_>) -> Invalid {
        let what = match self.scaler.provider {
            Provider::DecisionServer(_) => "metricProvider Custom has one source only",
            _ if key == "slo" => "the scaler has no spec.slo",
            _ => "no metric of the scaler has this name",
        };
        node.invalid(format!("{what}{}; readings go by {}", suggestion(key, &self.names), self.names.join(", ")))
    }

    fn reading(&self, index: usize, node: &Node<'_>) -> Result<Reading, Invalid> {
        let fields = node.fields(&["value", "unknown", "idle", "response"])?;
        let forms = ["value", "unknown", "idle", "response"].map(|form| fields.get(form));
        match forms {
            [Some(value), None, None, None] => value.number().map(Reading::from_number),
            [None, Some(why), None, None] => why.text().map(Reading::unknown),
            [None, None, Some(idle), None] if idle.flag()? => Ok(Reading::Idle),
            [None, None, Some(idle), None] => Err(idle.invalid("is false; write idle: true, or what was measured as value")),
            [None, None, None, Some(response)] => self.response(index, &response),
            _ => Err(node.invalid("write exactly one of value, unknown, idle and response")),
        }
    }

    /// What the SLO said: in one of the forms of a saturation, or for the headroom law also by what that measures.
    fn slo(&self, index: usize, ask: &SloAsk, law: Law, node: &Node<'_>) -> Result<SloSaid, Invalid> {
        const FORMS: [&str; 7] = ["ttft", "tpot", "saturation", "value", "unknown", "idle", "response"];
        let measures = matches!(law, Law::Headroom(_));
        let known: Vec<&str> = FORMS.into_iter().chain(traffic::keys().filter(|_| measures)).collect();
        let fields = node.fields(&known)?;
        let given: Vec<&str> = FORMS.into_iter().filter(|form| fields.get(form).is_some()).collect();
        if measures && (given.is_empty() || traffic::keys().any(|key| fields.get(key).is_some())) {
            if let Some(form) = given.first() {
                return Err(node.invalid(format!("{form} is the saturation alone; write it as s beside what is measured of the traffic")));
            }
            let traffic::Seen { saturation, traffic, warmup } = traffic::read(&fields)?;
            return Ok(SloSaid { reading: saturation, averaged: false, traffic, warmup });
        }
        match given.as_slice() {
            ["ttft" | "tpot"] | ["ttft", "tpot"] => {
                let latency = |name: &str, promised: Option<&LatencyAsk>| {
                    let reading = match fields.get(name) {
                        Some(node) => Reading::from_number(node.number()?),
                        None => Reading::unknown(format!("the document has no {name} at this tick")),
                    };
                    Ok(promised.map(|latency| (reading, latency.promised)))
                };
                let (ttft, tpot) = (latency("ttft", ask.ttft.as_ref())?, latency("tpot", ask.tpot.as_ref())?);
                if ttft.is_none() && tpot.is_none() {
                    return Err(node.invalid("spec.slo promises neither ttft nor tpot to compare these with; write saturation"));
                }
                Ok(SloSaid::saturation(saturation(as_latency(ttft.as_ref()), as_latency(tpot.as_ref()), ask.up_at), false))
            }
            ["saturation"] => {
                let number = fields.need("saturation", "write a number")?.number()?;
                Ok(SloSaid::saturation(Reading::from_number(number), true))
            }
            ["value" | "response"] => self.reading(index, node).map(|reading| SloSaid::saturation(reading, true)),
            ["unknown" | "idle"] => self.reading(index, node).map(|reading| SloSaid::saturation(reading, false)),
            _ => Err(node.invalid("write ttft and tpot, or exactly one of saturation, value, unknown, idle and response")),
        }
    }

    /// A raw answer goes through the decoder that the operator has for it.
    fn response(&self, index: usize, node: &Node<'_>) -> Result<Reading, Invalid> {
        let fields = node.fields(&["status", "body"])?;
        let status = fields.get("status").map_or(Ok(200), |node| node.integer(100, 999))?;
        let status = u16::try_from(status).unwrap_or(u16::MAX);
        let body = fields.need("body", "write the text of the answer, in quotes")?.text()?.as_bytes();
        Ok(match self.scaler.asks.get(index) {
            Some(Ask::Decision { service_id, namespace, .. }) => decision::read_count(service_id, namespace.as_deref(), status, body),
            Some(Ask::Query(query)) => prometheus::read_value(query, status, body),
            Some(Ask::Signal { signal, .. }) => prometheus::read_value(signal.as_str(), status, body),
            Some(Ask::Slo(ask)) => prometheus::read_value(ask.saturation.as_deref().unwrap_or("slo"), status, body),
            None => Reading::unknown("nothing asks for it"),
        })
    }
}

fn as_latency(read: Option<&(Reading, Target)>) -> Option<Latency<'_>> {
    read.map(|(reading, target)| Latency { reading, target: *target })
}
