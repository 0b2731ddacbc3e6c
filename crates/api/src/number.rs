//! Numbers that the resource carries as text, because JSON tools round bare ones.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// A plain decimal such as `5`, `.5`, `+0.8` or `1e-3`, blanks around it ignored. `None` for anything else: a per cent sign,
/// hexadecimal, digit separators, `NaN`, `Inf`, and what a double cannot hold.
pub(crate) fn decimal(text: &str) -> Option<f64> {
    let text = text.trim();
    // Rust would also read "inf", "infinity" and "nan".
    let plain = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    if plain { text.parse().ok().filter(|number: &f64| number.is_finite()) } else { None }
}

/// A Kubernetes quantity: `0.1`, `100m`, `1e-1`, `2Ki` or a whole number.
pub(crate) fn quantity(value: &IntOrString) -> Option<f64> {
    match value {
        IntOrString::Int(number) => Some(f64::from(*number)),
        IntOrString::String(text) => quantity_text(text),
    }
}

fn quantity_text(text: &str) -> Option<f64> {
    let digits = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let factor = match suffix {
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1024_f64.powi(2),
        "Gi" => 1024_f64.powi(3),
        "Ti" => 1024_f64.powi(4),
        "Pi" => 1024_f64.powi(5),
        "Ei" => 1024_f64.powi(6),
        // An exponent belongs to the number itself. Blanks do not belong anywhere.
        _ if suffix.starts_with(['e', 'E']) && text.trim() == text => return decimal(text),
        _ => return None,
    };
    decimal(number).map(|number| number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_as_the_go_operator_read_targets() {
        for (text, number) in
            [("5", 5.0), ("0.8", 0.8), ("  2.5 ", 2.5), (".5", 0.5), ("5.", 5.0), ("+0.8", 0.8), ("1e-3", 0.001), ("-1", -1.0), ("0", 0.0)]
        {
            assert_eq!(decimal(text), Some(number), "{text:?}");
        }
        for text in ["80%", "80 %", "NaN", "+Inf", "infinity", "abc", "", " ", ".", "1_000", "1e400", "0x1p-2", "1 2", "1e", "+-1", "١"] {
            assert_eq!(decimal(text), None, "{text:?}");
        }
    }

    #[test]
    fn quantities_take_suffixes_and_exponents() {
        let text = |text: &str| quantity(&IntOrString::String(text.into()));
        for (quantity, number) in
            [("0.1", 0.1), ("100m", 0.1), ("1e-1", 0.1), ("1E3", 1e3), ("1E", 1e18), ("2Ki", 2048.0), ("-5", -5.0), ("0", 0.0)]
        {
            assert_eq!(text(quantity), Some(number), "{quantity:?}");
        }
        for quantity in ["", "m", "10%", "1 m", " 1", "1e", "1mm", "1e400", "0x10", "NaN"] {
            assert_eq!(text(quantity), None, "{quantity:?}");
        }
        assert_eq!(quantity(&IntOrString::Int(2)), Some(2.0));
    }
}
