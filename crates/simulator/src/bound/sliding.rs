//! Maxima over a window that slides along a row.

use std::collections::VecDeque;

/// For each value the largest of it and the `ahead` values after it, in time linear in the row. No value may be NaN.
pub(super) fn maxima(values: &[f64], ahead: usize) -> Vec<f64> {
    let mut maxima = vec![0.0; values.len()];
    // Places in the window whose values no earlier place in it beats, nearest first: values fall from back to front.
    let mut best: VecDeque<usize> = VecDeque::new();
    for place in (0..values.len()).rev() {
        while best.front().is_some_and(|later| values[*later] <= values[place]) {
            best.pop_front();
        }
        best.push_front(place);
        while best.back().is_some_and(|last| *last > place.saturating_add(ahead)) {
            best.pop_back();
        }
        maxima[place] = best.back().map_or(values[place], |largest| values[*largest]);
    }
    maxima
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn maxima_are_those_of_each_window(values in prop::collection::vec(-9..9_i32, 0..60), ahead in 0..70_usize) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let naive: Vec<f64> = (0..values.len())
                .map(|place| values[place..values.len().min(place + ahead + 1)].iter().copied().fold(f64::NEG_INFINITY, f64::max))
                .collect();
            prop_assert_eq!(maxima(&values, ahead), naive);
        }
    }
}
