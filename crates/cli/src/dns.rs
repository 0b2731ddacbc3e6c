//! Names of objects, as Kubernetes takes them: by RFC 1123, and in small letters only.

/// Most characters of a label.
const LONGEST_LABEL: usize = 63;

/// Most characters of a name of labels.
const LONGEST_SUBDOMAIN: usize = 253;

/// The name of a namespace or a Service, which is one label.
///
/// # Errors
/// It is not, in words that say what to write.
pub fn label(text: &str) -> Result<String, String> {
    if is_label(text) {
        return Ok(text.to_owned());
    }
    Err("a name here has 1 to 63 characters of a-z, 0-9 and -, and no - at its ends".to_owned())
}

/// The same, or nothing, as where an empty variable of the environment is like none.
///
/// # Errors
/// As of [`label`].
pub fn label_or_empty(text: &str) -> Result<String, String> {
    if text.is_empty() { Ok(String::new()) } else { label(text) }
}

/// The name of any other object, which is labels with dots between them.
///
/// # Errors
/// It is not, in words that say what to write.
pub fn subdomain(text: &str) -> Result<String, String> {
    if text.len() <= LONGEST_SUBDOMAIN && text.split('.').all(is_label_of_any_length) {
        return Ok(text.to_owned());
    }
    Err("a name has 1 to 253 characters of a-z, 0-9, - and ., and begins and ends with a letter or a digit, also beside each .".to_owned())
}

fn is_label(text: &str) -> bool {
    text.len() <= LONGEST_LABEL && is_label_of_any_length(text)
}

/// The parts of a subdomain may be longer than DNS has it.
fn is_label_of_any_length(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_the_api_server_takes() {
        let (longest, longer) = ("a".repeat(63), "a".repeat(64));
        for text in ["a", "0", "serving", "team-a1", &longest] {
            assert_eq!((label(text), subdomain(text)), (Ok(text.to_owned()), Ok(text.to_owned())));
        }
        for text in ["a.b", "chat.v1.example-x", &longer, &format!("{longest}.{longest}.{longest}.{}", "a".repeat(61))] {
            assert!(label(text).is_err() && subdomain(text) == Ok(text.to_owned()), "{text}");
        }
        let beyond = "a".repeat(254);
        for text in
            ["", " ", "a b", "a,b", "a/b", "A", "ä", "-a", "a-", "a..b", ".a", "a.", "a.-b", "a\n", "x; rm -rf $HOME", "a_b", &beyond]
        {
            assert!(label(text).is_err() && subdomain(text).is_err(), "{text:?}");
        }
        assert_eq!(label_or_empty(""), Ok(String::new()));
        assert!(label_or_empty(" ").is_err());
    }
}
