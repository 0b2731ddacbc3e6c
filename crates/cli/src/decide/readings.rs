//! What the sources said at one tick.

use llmscaler_api::{Invalid, Provider, Scaler};
use llmscaler_engine::Reading;
use llmscaler_signals::{decision, prometheus};

use super::node::Node;
use super::suggest::suggestion;

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
        matches!(self.scaler.provider, Provider::Prometheus { .. })
    }

    /// One reading for each source, in their order; what is not there is unknown.
    pub fn read(&self, node: Option<Node<'_>>) -> Result<Vec<Reading>, Invalid> {
        let mut readings = vec![None; self.names.len()];
        if let Some(node) = node {
            for (key, node) in node.entries()? {
                let index = self.index(key).ok_or_else(|| self.no_such_source(key, &node))?;
                let Some(slot) = readings.get_mut(index).filter(|slot| slot.is_none()) else {
                    return Err(node.invalid(format!(
                        "metric {} has two readings, one by its name and one by its index {index}; leave one out",
                        self.names[index]
                    )));
                };
                *slot = Some(self.reading(index, &node)?);
            }
        }
        let absent = || Reading::unknown("the document has no reading for it at this tick");
        Ok(readings.into_iter().map(|reading| reading.unwrap_or_else(absent)).collect())
    }

    /// A source goes by its name, and a metric also by its index.
    fn index(&self, key: &str) -> Option<usize> {
        let by_name = self.names.iter().position(|name| *name == key);
        let metrics = matches!(self.scaler.provider, Provider::Prometheus { .. });
        by_name.or_else(|| key.parse().ok().filter(|index: &usize| metrics && *index < self.names.len() && index.to_string() == key))
    }

    fn no_such_source(&self, key: &str, node: &Node<'_>) -> Invalid {
        let what = match self.scaler.provider {
            Provider::Prometheus { .. } => "no metric of the scaler has this name",
            Provider::DecisionServer { .. } => "metricProvider Custom has one source only",
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

    /// A raw answer goes through the decoder that the operator has for it.
    fn response(&self, index: usize, node: &Node<'_>) -> Result<Reading, Invalid> {
        let fields = node.fields(&["status", "body"])?;
        let status = fields.get("status").map_or(Ok(200), |node| node.integer(100, 999))?;
        let status = u16::try_from(status).unwrap_or(u16::MAX);
        let body = fields.need("body", "write the text of the answer, in quotes")?.text()?.as_bytes();
        Ok(match &self.scaler.provider {
            Provider::Prometheus { queries, .. } => prometheus::read_value(queries.get(index).map_or("", String::as_str), status, body),
            Provider::DecisionServer { service_id, namespace, .. } => decision::read_count(service_id, namespace.as_deref(), status, body),
        })
    }
}
