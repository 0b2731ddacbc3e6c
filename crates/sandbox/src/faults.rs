//! Faults on demand: what goes wrong, with which requests, how often.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::request::{Ask, Subresource, Verb};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// 409: the object has been modified. Nothing is done.
    Conflict,
    /// 410: the version is too old. A watch says so in its first event, as the API server does; another request is answered so, and
    /// nothing is done.
    Gone,
    /// 429, to be asked again after so many seconds. Nothing is done.
    TooManyRequests {
        /// Seconds.
        retry_after: u32,
    },
    /// 500. Nothing is done.
    InternalError,
    /// There is no answer, ever. Nothing is done.
    Hang,
    /// The request is carried out, and answered with 500.
    LostAnswer,
    /// A watch breaks off after this long, in the middle of its body.
    CutWatch {
        /// From the beginning of the watch.
        after: Duration,
    },
    /// A list is one of so many changes ago, or of the oldest that are remembered.
    StaleList {
        /// In versions.
        behind: u64,
    },
    /// The request waits this long before it is carried out.
    Slow(Duration),
}

/// Which requests. What is not said matches any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct On {
    verb: Option<Verb>,
    resource: Option<String>,
    subresource: Option<String>,
    name: Option<String>,
    agent: Option<String>,
}

impl On {
    /// Any request about a resource.
    #[must_use]
    pub fn any() -> Self {
        Self::default()
    }

    /// Those with this verb.
    #[must_use]
    pub fn verb(self, verb: Verb) -> Self {
        Self { verb: Some(verb), ..self }
    }

    /// Those about this resource, by its plural.
    #[must_use]
    pub fn resource(self, plural: &str) -> Self {
        Self { resource: Some(plural.to_owned()), ..self }
    }

    /// Those about this subresource; empty is the object itself.
    #[must_use]
    pub fn subresource(self, name: &str) -> Self {
        Self { subresource: Some(name.to_owned()), ..self }
    }

    /// Those about the object of this name, or, with `*` at its end, of one that begins so.
    #[must_use]
    pub fn name(self, pattern: &str) -> Self {
        Self { name: Some(pattern.to_owned()), ..self }
    }

    /// Those of the client of this name, or, with `*` at its end, of one whose name begins so.
    #[must_use]
    pub fn agent(self, pattern: &str) -> Self {
        Self { agent: Some(pattern.to_owned()), ..self }
    }

    fn matches(&self, ask: &Ask, agent: &str) -> bool {
        let subresource = ask.subresource.map(Subresource::as_str).unwrap_or_default();
        let name = ask.name.as_deref().unwrap_or_default();
        self.verb.is_none_or(|verb| verb == ask.verb)
            && self.resource.as_deref().is_none_or(|resource| resource == ask.resource.plural)
            && self.subresource.as_deref().is_none_or(|wanted| wanted == subresource)
            && self.name.as_deref().is_none_or(|pattern| fits(pattern, name))
            && self.agent.as_deref().is_none_or(|pattern| fits(pattern, agent))
    }
}

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

struct Armed {
    on: On,
    fault: Fault,
    left: u32,
}

/// The faults that are to come. Clones share them.
#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<VecDeque<Armed>>>);

impl Faults {
    /// Lets the next `times` requests that match go wrong. Of several faults that match, the one that was armed first is taken.
    pub fn arm(&self, on: On, fault: Fault, times: u32) {
        self.lock().push_back(Armed { on, fault, left: times });
    }

    /// Takes every fault back.
    pub fn disarm(&self) {
        self.lock().clear();
    }

    /// How many requests are still to go wrong.
    #[must_use]
    pub fn left(&self) -> u32 {
        self.lock().iter().fold(0, |sum, armed| sum.saturating_add(armed.left))
    }

    /// What goes wrong with this request.
    pub(crate) fn take(&self, ask: &Ask, agent: &str) -> Option<Fault> {
        let mut armed = self.lock();
        let found = armed.iter().position(|armed| armed.left > 0 && armed.on.matches(ask, agent))?;
        let one = &mut armed[found];
        one.left -= 1;
        let fault = one.fault;
        if one.left == 0 {
            armed.remove(found);
        }
        Some(fault)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Armed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, Method};

    use super::*;
    use crate::request::Request;

    fn ask(method: Method, uri: &str) -> Ask {
        Request::new(method, &uri.parse().unwrap(), &HeaderMap::new(), vec![]).ask().unwrap().unwrap()
    }

    #[test]
    fn faults_meet_what_they_are_for_and_no_more_often() {
        let faults = Faults::default();
        let scale = ask(Method::PATCH, "/apis/apps/v1/namespaces/a/deployments/fleet-1/scale");
        let read = ask(Method::GET, "/apis/apps/v1/namespaces/a/deployments/fleet-1");
        faults.arm(On::any().verb(Verb::Patch).resource("deployments").subresource("scale").name("fleet-*"), Fault::Conflict, 2);
        faults.arm(On::any(), Fault::Hang, 1);
        assert_eq!((faults.take(&scale, "a-1"), faults.take(&read, "a-1")), (Some(Fault::Conflict), Some(Fault::Hang)));
        assert_eq!((faults.take(&read, "a-1"), faults.left()), (None, 1));
        assert_eq!((faults.take(&scale, "a-1"), faults.take(&scale, "a-1")), (Some(Fault::Conflict), None));
        faults.arm(On::any().name("fleet"), Fault::Hang, 1);
        assert_eq!(faults.take(&read, "a-1"), None);
        faults.arm(On::any().agent("b*"), Fault::Hang, 1);
        assert_eq!((faults.take(&read, "a-1"), faults.take(&read, "b-1")), (None, Some(Fault::Hang)));
        faults.disarm();
        assert_eq!(faults.left(), 0);
    }
}
