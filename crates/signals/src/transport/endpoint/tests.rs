use super::*;
use crate::transport::TlsSettings;

fn endpoint(address: &str, headers: &[(&str, &str)]) -> Result<Endpoint, EndpointError> {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Endpoint::new(Transport::new(&TlsSettings::default()).unwrap(), address, &headers)
}

fn refused(address: &str, headers: &[(&str, &str)]) -> String {
    endpoint(address, headers).map(|endpoint| endpoint.base.to_string()).unwrap_err().to_string()
}

#[test]
fn paths_join_with_one_slash() {
    for (address, path, expected) in [
        ("http://prometheus:9090", "api/v1/query", "http://prometheus:9090/api/v1/query"),
        ("http://prometheus:9090/", "api/v1/query", "http://prometheus:9090/api/v1/query"),
        ("http://prometheus:9090///", "api/v1/query", "http://prometheus:9090/api/v1/query"),
        (" HTTPS://prometheus/prefix/ ", "api/v1/query", "https://prometheus/prefix/api/v1/query"),
        ("http://user:word@decisions", "/decisions", "http://decisions/decisions"),
        ("http://decisions:80/", "decisions", "http://decisions/decisions"),
        ("http://decisions", "//v2/decisions/", "http://decisions/v2/decisions/"),
        ("http://[::1]:8080/a b", "c", "http://[::1]:8080/a%20b/c"),
    ] {
        assert_eq!(endpoint(address, &[]).unwrap().at(path).as_str(), expected);
    }
}

#[test]
fn unusable_addresses_say_what_to_write() {
    let mut reasons = Vec::new();
    for address in [
        "",
        "  ",
        "prometheus:9090",
        "prometheus",
        "ftp://prometheus",
        "http:prometheus",
        "http://",
        "http://prometheus:port",
        "http://a b",
        "http://prometheus:9090/?token=s3cret",
        "http://prometheus:9090/#s3cret",
        "http://169.254.169.254/latest",
        "http://[fe80::1]:9090",
        "user:s3cret@prometheus:9090",
        "http://user:s3cret@prometheus:port",
        "http://user:s3cret@prometheus/?q=s3cret",
        "http://user:s3?cret@host",
    ] {
        let reason = refused(address, &[]);
        assert!(!reason.contains("s3") && !reason.contains("cret"), "{reason}");
        reasons.push(format!("{address:?}\n    {reason}"));
    }
    insta::assert_snapshot!("addresses", reasons.join("\n"));
}

#[test]
fn unusable_headers_are_named_and_their_values_are_not_shown() {
    let mut reasons = Vec::new();
    for headers in [
        &[("Authorization", "Bearer s3cret\n")][..],
        &[("X-Scope-OrgID", "s3\u{0}cret")],
        &[("Authorization: Bearer s3cret", "x")],
        &[("", "s3cret")],
        &[("X Scope", "s3cret")],
        &[("Authorization", "Bearer s3cret"), ("authorization", "Bearer s3cret")],
    ] {
        let reason = refused("http://prometheus:9090", headers);
        assert!(!reason.contains("s3") && !reason.contains("cret"), "{reason}");
        reasons.push(format!("{}\n    {reason}", headers[0].0.split(':').next().unwrap_or_default()));
    }
    insta::assert_snapshot!("headers", reasons.join("\n"));
}

#[test]
fn headers_are_verbatim_and_user_info_is_basic_unless_overridden() {
    let authorization = |headers: &[(&str, &str)]| {
        let endpoint = endpoint("http://us%40er:pa%3Ass@prometheus", headers).unwrap();
        endpoint.headers[AUTHORIZATION].clone()
    };
    assert_eq!(authorization(&[]), "Basic dXNAZXI6cGE6c3M=");
    assert_eq!(authorization(&[("AUTHORIZATION", "Bearer a:b=")]), "Bearer a:b=");

    let endpoint = endpoint("http://prometheus", &[("X-Näme", "x")]).map(|_| ()).unwrap_err();
    assert_eq!(endpoint, EndpointError::HeaderName { name: "X-N".into() });
    let odd = self::endpoint("http://prometheus", &[("X-Team", "Zürich, \"a\""), ("Content-Length", "3"), ("Host", "other")]).unwrap();
    assert_eq!(odd.headers["x-team"].as_bytes(), "Zürich, \"a\"".as_bytes());
    assert_eq!(odd.headers.len(), 2, "Content-Length is left out");
}

#[test]
fn debug_output_has_no_secrets() {
    let endpoint = endpoint("http://user:s3cret@prometheus", &[("X-Api-Key", "s3cret")]).unwrap();
    let shown = format!("{endpoint:?} {endpoint:#?} {:?}", crate::PrometheusClient::new(endpoint.clone()));
    assert!(!shown.contains("s3cret") && !shown.contains("user") && shown.contains("x-api-key"), "{shown}");
}

#[test]
fn the_deadline_only_shrinks() {
    let endpoint = endpoint("http://prometheus", &[]).unwrap();
    assert_eq!(endpoint.clone().within(Duration::from_secs(2)).deadline, Duration::from_secs(2));
    assert_eq!(endpoint.within(Duration::from_secs(60)).deadline, Endpoint::DEADLINE);
}
