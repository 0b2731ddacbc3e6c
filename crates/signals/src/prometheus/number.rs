//! Numbers as Prometheus writes them.

/// A float in the grammar of Go's `strconv.ParseFloat`, which is the grammar of sample values: decimal, hexadecimal with a binary
/// exponent (`0x1.8p-1`), `NaN`, and `Inf` or `Infinity` with or without a sign, in any case. `None` for everything else, also for
/// a decimal too large to be finite (`1e400`): such text is malformed, not infinite.
pub(crate) fn parse(text: &str) -> Option<f64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hexadecimal) => {
            let magnitude = parse_hexadecimal(hexadecimal)?;
            if text.starts_with('-') { -magnitude } else { magnitude }
        }
        None => text.parse::<f64>().ok()?,
    };
    let named = digits.starts_with(['i', 'I', 'n', 'N']);
    let signed_nan = value.is_nan() && digits.len() != text.len();
    (!signed_nan && (named || value.is_finite())).then_some(value)
}

/// `1.8p-1`: hexadecimal digits with at most one point, `p`, a decimal exponent of two.
fn parse_hexadecimal(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once(['p', 'P'])?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut bits = 0_u64;
    let mut exponent = i64::from(exponent.parse::<i32>().ok()?);
    let whole = whole.chars().map(|c| (c, 0));
    let fraction = fraction.chars().map(|c| (c, -4));
    for (c, weight) in whole.chain(fraction) {
        let digit = u64::from(c.to_digit(16)?);
        if bits >> 60 == 0 {
            bits = (bits << 4) | digit;
            exponent += weight;
        } else {
            // No room: what is left only decides how the last bit rounds.
            bits |= u64::from(digit != 0);
            exponent += weight + 4;
        }
    }
    if bits == 0 {
        return Some(0.0);
    }
    // In two steps, since 2^exponent alone may be out of range while the product is not.
    let exponent = exponent.clamp(-2200, 2200) as i32;
    let half = exponent / 2;
    Some(bits as f64 * 2_f64.powi(half) * 2_f64.powi(exponent - half))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_go_reads() {
        for (text, expected) in [
            ("1.5", 1.5),
            ("0", 0.0),
            ("-3", -3.0),
            ("+0.8", 0.8),
            (".5", 0.5),
            ("5.", 5.0),
            ("1e-3", 0.001),
            ("9.3E15", 9.3e15),
            ("+Inf", f64::INFINITY),
            ("inf", f64::INFINITY),
            ("Infinity", f64::INFINITY),
            ("-Inf", f64::NEG_INFINITY),
            ("0x1p-2", 0.25),
            ("0x1.8p+1", 3.0),
            ("-0X.8P0", -0.5),
            ("0x0p99", 0.0),
            ("0x1.fffffffffffffp1023", f64::MAX),
            ("0x10000000000000001p0", 18_446_744_073_709_551_616.0),
            ("0x1p-1074", 5e-324),
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
        for text in ["NaN", "nan"] {
            assert!(parse(text).is_some_and(f64::is_nan), "{text}");
        }
    }

    #[test]
    fn refuses_what_go_refuses() {
        for text in [
            "",
            " 1",
            "1 ",
            "abc",
            "80%",
            "1_000",
            "1,5",
            "1e400",
            "-1e400",
            "+NaN",
            "-nan",
            "0x",
            "0x1",
            "0xp1",
            "0x1p",
            "0x1pz",
            "0x1.2.3p0",
            "0x1p1024",
            "0xgp0",
            "1e",
            "--1",
            "+",
            "true",
            "١",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
