//! Numbers of the user in messages.

use std::fmt;

/// From this size on the digits of a number say less than how many there are.
const HUGE: f64 = 1e15;

/// A number as a person would write it, also where it is beyond all measure: `60`, `0.5`, `1e300`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Amount(pub f64);

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.abs() < HUGE { write!(f, "{}", self.0) } else { write!(f, "{:e}", self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_huge_number_is_short() {
        let shown = [60.0, 0.5, -1e308, 1e300, f64::NAN, f64::INFINITY].map(|number| Amount(number).to_string());
        assert_eq!(shown, ["60", "0.5", "-1e308", "1e300", "NaN", "inf"]);
    }
}
