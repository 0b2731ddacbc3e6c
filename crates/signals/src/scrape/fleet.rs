//! What pods say together when some of them say nothing.
//!
//! A pod that could not be read may be the busiest of all; it hangs, perhaps, because it is. Its share is never taken to be zero.
//! As long as more than half of the ready pods are known, each that is not is taken to be like the busiest that is, and no less than
//! it was itself when it was last read within the window. So one hung pod of twenty stops nobody, growth goes on, and a fleet
//! shrinks only as far as it could if the silent pods were its busiest. Beyond that, and where all that is known is zero, nothing is
//! known: silence is no proof of idleness.

use crate::excerpt::{LONGEST_NAME, excerpt};

/// The most pods that a reason names.
const MOST_NAMED: usize = 3;

/// What one pod has of something.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Share<T> {
    /// This much.
    Known(T),
    /// Nothing yet: it has just become ready.
    New,
    /// It is not known, for this reason; it was last seen to have so much.
    Missing(String, Option<T>),
}

/// A pod and its share.
pub(super) type Part<'a, T> = (&'a str, Share<T>);

/// The pods of which nothing is known, with reasons, if they are so few that the rest may stand in for them.
pub(super) fn missing<'a, T>(parts: &'a [Part<'_, T>]) -> Result<Vec<(&'a str, &'a str)>, String> {
    let missing: Vec<(&str, &str)> = parts
        .iter()
        .filter_map(|(name, share)| match share {
            Share::Missing(why, _) => Some((*name, why.as_str())),
            Share::Known(_) | Share::New => None,
        })
        .collect();
    match (parts.len(), missing.len()) {
        (0, _) => Err("no pod of the target is ready, so nobody can tell".to_owned()),
        (all, silent) if silent * 2 >= all => {
            Err(format!("only {} of {all} ready pods gave a usable answer, and more than half must: {}", all - silent, named(&missing)))
        }
        _ => Ok(missing),
    }
}

/// The sum over all pods, each at least 0.
pub(super) fn total(parts: &[Part<'_, f64>]) -> Result<f64, String> {
    let missing = missing(parts)?;
    let known = parts.iter().filter_map(|(_, share)| if let Share::Known(share) = share { Some(*share) } else { None });
    let highest = known.clone().fold(0.0, f64::max);
    let assumed = parts.iter().filter_map(|(_, share)| match share {
        Share::Missing(_, last) => Some(last.filter(|last| last.is_finite()).unwrap_or_default().max(highest)),
        Share::Known(_) | Share::New => None,
    });
    let total: f64 = known.chain(assumed).sum();
    if total == 0.0 && !missing.is_empty() {
        return Err(format!(
            "{} of {} ready pods gave no usable answer, and the others being at 0 does not prove that all are: {}",
            missing.len(),
            parts.len(),
            named(&missing)
        ));
    }
    if parts.iter().all(|(_, share)| *share == Share::New) {
        return Err("every ready pod has been read once only, and a rate needs two readings; it is known at the next sync".to_owned());
    }
    Ok(total)
}

/// `a (hangs), b (refuses) and 3 more`.
pub(super) fn named(missing: &[(&str, &str)]) -> String {
    let shown = missing.iter().take(MOST_NAMED).map(|(name, why)| format!("{} ({})", excerpt(name, LONGEST_NAME), excerpt(why, 300)));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match missing.len().saturating_sub(MOST_NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn silent(last: Option<f64>) -> Share<f64> {
        Share::Missing("it hangs".to_owned(), last)
    }

    #[test]
    fn the_silent_are_taken_to_be_like_the_busiest() {
        let known = Share::Known;
        for (parts, expected) in [
            (vec![("a", known(3.0)), ("b", known(5.0))], Ok(8.0)),
            (vec![("a", known(3.0)), ("b", known(5.0)), ("c", silent(None))], Ok(13.0)),
            // … and no less than they were themselves.
            (vec![("a", known(3.0)), ("b", known(5.0)), ("c", silent(Some(40.0)))], Ok(48.0)),
            (vec![("a", known(3.0)), ("b", known(5.0)), ("c", silent(Some(1.0)))], Ok(13.0)),
            (vec![("a", known(0.0)), ("b", known(0.0)), ("c", silent(Some(2.0)))], Ok(2.0)),
            (vec![("a", known(0.0)), ("b", known(0.0))], Ok(0.0)),
            // Those that have just come have nothing.
            (vec![("a", known(3.0)), ("b", Share::New)], Ok(3.0)),
            (
                vec![("a", Share::New), ("b", Share::New)],
                Err("every ready pod has been read once only, and a rate needs two readings; it is known at the next sync"),
            ),
            (vec![], Err("no pod of the target is ready, so nobody can tell")),
            (
                vec![("a", known(3.0)), ("b", silent(Some(1.0)))],
                Err("only 1 of 2 ready pods gave a usable answer, and more than half must: b (it hangs)"),
            ),
            (
                vec![("a", known(0.0)), ("b", known(0.0)), ("c", silent(None))],
                Err("1 of 3 ready pods gave no usable answer, and the others being at 0 does not prove that all are: c (it hangs)"),
            ),
        ] {
            assert_eq!(total(&parts), expected.map_err(str::to_owned), "{parts:?}");
        }
        let many: Vec<_> = ["a", "b", "c", "d", "e"].map(|name| (name, silent(None))).into();
        assert_eq!(
            total(&many).unwrap_err(),
            "only 0 of 5 ready pods gave a usable answer, and more than half must: a (it hangs), b (it hangs), c (it hangs) and 2 more"
        );
    }

    proptest! {
        /// Silence may only raise what is seen of a fleet, whatever the truth is: it never makes one shrink further.
        #[test]
        fn a_pod_that_falls_silent_lowers_nothing(loads in prop::collection::vec(0.0_f64..100.0, 1..12), silenced in prop::collection::vec(any::<bool>(), 12)) {
            let parts = |silence: bool| -> Vec<Part<'static, f64>> {
                loads.iter().zip(&silenced).map(|(&load, &quiet)| {
                    ("pod", if silence && quiet { silent(Some(load)) } else { Share::Known(load) })
                }).collect()
            };
            let truth = total(&parts(false)).unwrap();
            if let Ok(seen) = total(&parts(true)) {
                prop_assert!(seen >= truth - 1e-9, "{} < {}", seen, truth);
            }
        }
    }
}
