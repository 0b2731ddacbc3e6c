//! Names of scalers, of which each is another.

use std::collections::BTreeSet;

use super::outcome::Outcome;

/// Gives scalers that would have the name of an earlier one a name of their own, and says so: of two documents of one name `kubectl apply`
/// keeps the last.
pub fn tell_apart(outcomes: &mut [Outcome]) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let mut notes = vec![];
    for outcome in outcomes {
        let Some(Ok(draft)) = &mut outcome.scaler else { continue };
        let metadata = &mut draft.metadata;
        let is_free = |name: &String| !taken.contains(&(metadata.namespace.clone(), name.clone()));
        if !is_free(&metadata.name) {
            let kind = outcome.origin.short_kind();
            let numbered = (2_u32..).map(|number| format!("{}-{kind}-{number}", metadata.name));
            let free = std::iter::once(format!("{}-{kind}", metadata.name)).chain(numbered).find(is_free).unwrap_or_default();
            notes.push(format!("the scaler of {} is called {free}, since an earlier one is called {}", outcome.origin, metadata.name));
            metadata.name = free;
        }
        taken.insert((metadata.namespace.clone(), metadata.name.clone()));
    }
    notes
}
