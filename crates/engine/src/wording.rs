//! Counts in words.

/// So many of a thing: "1 replica", "4 replicas".
pub(crate) fn counted(count: u32, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

/// The verb that follows so many.
pub(crate) const fn are(count: u32) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

/// Some of so many, with the verb: "0 of 1 replica is", "3 of 4 replicas are".
pub(crate) fn some_are(some: u32, all: u32, thing: &str) -> String {
    let verb = if all == 1 { "is" } else { are(some) };
    format!("{some} of {} {verb}", counted(all, thing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_told_as_one() {
        for (count, words) in [(0, "0 pods are"), (1, "1 pod is"), (2, "2 pods are")] {
            assert_eq!(format!("{} {}", counted(count, "pod"), are(count)), words);
        }
        for (some, all, words) in
            [(0, 1, "0 of 1 replica is"), (0, 4, "0 of 4 replicas are"), (1, 4, "1 of 4 replicas is"), (3, 4, "3 of 4 replicas are")]
        {
            assert_eq!(some_are(some, all, "replica"), words);
        }
    }
}
