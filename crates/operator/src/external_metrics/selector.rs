//! Label selectors as they stand in a URL.

use kube::core::{Expression, Selector};

/// Reads a selector such as `scaler=fleet,tier in (a, b),!old`.
///
/// # Errors
/// The part that cannot be read.
pub(super) fn parse(text: &str) -> Result<Selector, String> {
    parts(text).filter(|part| !part.trim().is_empty()).map(|part| expression(part.trim()).ok_or_else(|| part.trim().to_owned())).collect()
}

/// The parts between commas, those in parentheses left whole.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    text.split(move |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    })
}

fn expression(part: &str) -> Option<Expression> {
    let key = |text: &str| {
        let text = text.trim();
        let fits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte));
        fits.then(|| text.to_owned())
    };
    if let Some(list) = part.strip_suffix(')') {
        let (head, list) = list.split_once('(')?;
        let values = list.split(',').map(|value| value.trim().to_owned()).collect();
        let (name, operator) = head.trim().rsplit_once(char::is_whitespace)?;
        return match operator {
            "in" => Some(Expression::In(key(name)?, values)),
            "notin" => Some(Expression::NotIn(key(name)?, values)),
            _ => None,
        };
    }
    if let Some((name, value)) = part.split_once("!=") {
        return Some(Expression::NotEqual(key(name)?, value.trim().to_owned()));
    }
    if let Some((name, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Some(Expression::Equal(key(name)?, value.trim().to_owned()));
    }
    match part.strip_prefix('!') {
        Some(name) => Some(Expression::DoesNotExist(key(name)?)),
        None => Some(Expression::Exists(key(part)?)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kube::core::SelectorExt;

    use super::*;

    #[test]
    fn selectors_of_every_form_are_read() {
        let labels = BTreeMap::from([("scaler".to_owned(), "fleet".to_owned())]);
        let matches = |text: &str| parse(text).unwrap().matches(&labels);
        for text in
            ["", "scaler=fleet", "scaler == fleet", "scaler in (a, fleet)", "scaler", "!tier", "tier!=a", "scaler=fleet,tier notin (a,b)"]
        {
            assert!(matches(text), "{text}");
        }
        for text in ["scaler=other", "scaler!=fleet", "scaler notin (fleet)", "tier", "!scaler", "scaler=fleet,tier=a"] {
            assert!(!matches(text), "{text}");
        }
        for text in ["a b", "scaler near (a)", "=a", "scaler in a"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
