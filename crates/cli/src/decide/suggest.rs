//! The name that was probably meant.

/// How alike two names must be (Jaro–Winkler, 0 to 1) before one is suggested for the other; clap uses the same.
const ALIKE: f64 = 0.7;

/// ` (did you mean x?)`, or nothing when no name comes near.
pub fn suggestion(given: &str, known: &[&str]) -> String {
    let likeness = |name: &str| strsim::jaro_winkler(&given.to_lowercase(), &name.to_lowercase());
    let best = known.iter().map(|name| (likeness(name), *name)).max_by(|a, b| a.0.total_cmp(&b.0));
    match best {
        Some((likeness, name)) if likeness > ALIKE => format!(" (did you mean {name}?)"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_comes_near() {
        let known = ["readyReplicas", "replicas", "pods"];
        assert_eq!(suggestion("replica", &known), " (did you mean replicas?)");
        assert_eq!(suggestion("readyreplicas", &known), " (did you mean readyReplicas?)");
        assert_eq!(suggestion("zzz", &known), "");
        assert_eq!(suggestion("x", &[]), "");
    }
}
