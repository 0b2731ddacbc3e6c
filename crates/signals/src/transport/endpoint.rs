//! Where one scaler asks, and with which headers.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TRAILER, TRANSFER_ENCODING};
use url::Url;

use super::{Error, Reply, Request, Transport, link_local};
use crate::excerpt::{LONGEST_NAME, excerpt};

/// Why an address or a header cannot be used. No text holds a header value or the credentials of an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// The address is empty.
    #[error("serverAddress is empty; write the address of the server, for example http://prometheus-operated.monitoring.svc:9090")]
    NoAddress,
    /// The address has no scheme, or another than HTTP's.
    #[error("serverAddress {address:?} does not begin with http:// or https://; write for example http://{host}")]
    NoScheme {
        /// The address without credentials and query string.
        address: String,
        /// The part of it that looks like a host.
        host: String,
    },
    /// The address is no URL.
    #[error("serverAddress {address:?} is not a URL: {why}; write for example http://prometheus-operated.monitoring.svc:9090")]
    NotUrl {
        /// The address without credentials and query string.
        address: String,
        /// What the URL parser says.
        why: url::ParseError,
    },
    /// The address has a query string or a fragment.
    #[error(
        "serverAddress has a query string or fragment after {address:?}; write only that, and put tokens into serverHeaders or \
         serverHeadersFrom"
    )]
    HasQuery {
        /// The address up to its `?` or `#`, without credentials.
        address: String,
    },
    /// The address is written as a link-local one.
    #[error("serverAddress {host:?} is a link-local address, and these are refused; write the address of a Service")]
    LinkLocal {
        /// The host of the address.
        host: String,
    },
    /// A header name has characters that names cannot have, or none.
    #[error(
        "the header name that begins with {name:?} is not valid; write letters, digits and hyphens only, and put the value into the value"
    )]
    HeaderName {
        /// The name up to the first character that does not belong.
        name: String,
    },
    /// A header value has characters that values cannot have.
    #[error("the value of header {name:?} has a line break or another control character; check for a newline at its end")]
    HeaderValue {
        /// The name of the header.
        name: String,
    },
    /// Two names are the same but for upper and lower case.
    #[error("headers {first:?} and {second:?} are the same header, since case does not matter; keep one")]
    SameHeader {
        /// One name.
        first: String,
        /// The other.
        second: String,
    },
}

/// The address and headers of one scaler, over a shared [`Transport`].
#[derive(Clone)]
pub struct Endpoint {
    transport: Transport,
    /// Without user-info, query and fragment.
    base: Url,
    headers: HeaderMap,
    deadline: Duration,
}

impl Endpoint {
    /// The deadline of an exchange unless [`within`](Self::within) sets a shorter one.
    pub const DEADLINE: Duration = Duration::from_secs(5);

    /// An endpoint at `address`: `http` or `https`, a host, and optionally a port, a base path (trailing slashes do not matter) and
    /// user-info, which becomes Basic credentials unless `headers` has an `Authorization`.
    ///
    /// `headers` go with every request as they are and take the place of the client's own. As in Go's client, `Content-Length`,
    /// `Transfer-Encoding` and `Trailer`, which say where a request ends, are left out; a `Host` is sent, unlike there.
    ///
    /// # Errors
    /// The address or a header is not valid; the text says which, what is wrong, and what to write instead.
    pub fn new(transport: Transport, address: &str, headers: &BTreeMap<String, String>) -> Result<Self, EndpointError> {
        let mut base = parse_address(address)?;
        let mut headers = parse_headers(headers)?;
        if let Some(credentials) = basic_credentials(&transport, &base) {
            headers.entry(AUTHORIZATION).or_insert(credentials);
        }
        // Both calls succeed on a URL that has a host.
        let _ = base.set_username("");
        let _ = base.set_password(None);
        Ok(Self { transport, base, headers, deadline: Self::DEADLINE })
    }

    /// With a shorter deadline, for a scaler whose sync period is shorter than [`Self::DEADLINE`]: a sync should not outlast its
    /// period. A longer one changes nothing.
    #[must_use]
    pub fn within(mut self, deadline: Duration) -> Self {
        self.deadline = deadline.min(Self::DEADLINE);
        self
    }

    /// The URL of a path below the base path, with one slash between them.
    pub(crate) fn at(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        let base = self.base.path().trim_end_matches('/');
        url.set_path(&format!("{base}/{}", path.trim_start_matches('/')));
        url
    }

    pub(crate) async fn get(&self, url: Url) -> Result<Reply, Error> {
        self.transport.exchange(Request { url, headers: &self.headers, form: None, direct: false }, self.deadline).await
    }

    /// Hands the body of a page of at most `largest` bytes to `sink` as it comes in, until that has enough; the reply has none. The
    /// proxies of the environment are passed over: pages are those of pods and Services, which only the cluster's network knows.
    pub(crate) async fn get_page(&self, url: Url, largest: usize, sink: impl FnMut(&[u8]) -> ControlFlow<()>) -> Result<Reply, Error> {
        let request = Request { url, headers: &self.headers, form: None, direct: true };
        self.transport.exchange_in_chunks(request, self.deadline, largest, sink).await
    }

    pub(crate) async fn post_form(&self, url: Url, form: String) -> Result<Reply, Error> {
        self.transport.exchange(Request { url, headers: &self.headers, form: Some(form), direct: false }, self.deadline).await
    }
}

/// Address, header names and deadline; values are secrets.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("base", &self.base.as_str())
            .field("headers", &self.headers.keys().map(HeaderName::as_str).collect::<Vec<_>>())
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

fn parse_address(address: &str) -> Result<Url, EndpointError> {
    let address = address.trim();
    if address.is_empty() {
        return Err(EndpointError::NoAddress);
    }
    let shown = without_secrets(address);
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(EndpointError::NoScheme { host: without_secrets(rest), address: shown });
    }
    let url = Url::parse(address).map_err(|why| EndpointError::NotUrl { address: shown.clone(), why })?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err(EndpointError::HasQuery { address: shown });
    }
    if link_local::names_link_local(&url) {
        return Err(EndpointError::LinkLocal { host: url.host_str().unwrap_or_default().to_owned() });
    }
    Ok(url)
}

/// An address without its query string and without all that may be user-info, whether it can be parsed or not.
fn without_secrets(address: &str) -> String {
    let end = address.find(['?', '#']).unwrap_or(address.len());
    let (scheme, rest) = match address[..end].split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), &address[..end]),
    };
    // A password may hold an unescaped @, ? or #, so the whole address is searched for the last @.
    let host = match address.rfind('@') {
        Some(at) if at >= end => "",
        Some(_) => rest.rsplit('@').next().unwrap_or_default(),
        None => rest,
    };
    excerpt(&format!("{scheme}{host}"), LONGEST_NAME)
}

fn parse_headers(headers: &BTreeMap<String, String>) -> Result<HeaderMap, EndpointError> {
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    let mut parsed = HeaderMap::new();
    for (given, value) in headers {
        let name = HeaderName::from_bytes(given.as_bytes()).map_err(|_| EndpointError::HeaderName { name: token_of(given) })?;
        if let Some(first) = seen.insert(name.as_str().to_owned(), given) {
            return Err(EndpointError::SameHeader { first: first.to_owned(), second: given.clone() });
        }
        let mut value = HeaderValue::from_bytes(value.trim_matches([' ', '\t']).as_bytes())
            .map_err(|_| EndpointError::HeaderValue { name: given.clone() })?;
        value.set_sensitive(true);
        if ![CONTENT_LENGTH, TRANSFER_ENCODING, TRAILER].contains(&name) {
            parsed.insert(name, value);
        }
    }
    Ok(parsed)
}

/// The beginning of a header name that is fit to be shown: whoever writes `Authorization: Bearer …` as a name has put a secret there.
fn token_of(name: &str) -> String {
    let token = name.split(|c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c)).next().unwrap_or_default();
    excerpt(token, LONGEST_NAME)
}

/// The Authorization header that a request to a URL with user-info gets.
fn basic_credentials(transport: &Transport, url: &Url) -> Option<HeaderValue> {
    let request = transport.direct.get(url.clone()).build().ok()?;
    request.headers().get(AUTHORIZATION).cloned()
}

#[cfg(test)]
mod tests;
