//! Names in sentences: lists of them, and the one that was probably meant.

/// How alike two names must be for one to be suggested for the other; 1 is the same.
const ALIKE: f64 = 0.8;

/// The known name that is most like the given one, if any comes near; capitals do not matter.
pub(crate) fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_lowercase();
    let likeness = |name: &str| strsim::jaro_winkler(&name.to_lowercase(), &given);
    known.map(|name| (likeness(name), name)).filter(|(alike, _)| *alike >= ALIKE).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

/// "a, b or c".
pub(crate) fn listed(words: &[&str], last: &str) -> String {
    match words {
        [] => String::new(),
        [word] => (*word).to_owned(),
        [words @ .., word] => format!("{} {last} {word}", words.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_comes_near() {
        let known = ["qwen3-32b-h100-tp2", "llama-3.1-8b-h100", "llama-3-70b-h100-tp4"];
        assert_eq!(nearest("Qwen3-32b-H100", known.into_iter()), Some(known[0]));
        assert_eq!(nearest("llama-3.1-8b", known.into_iter()), Some(known[1]));
        assert_eq!(nearest("mixtral", known.into_iter()), None);
    }

    #[test]
    fn lists_read_as_people_write_them() {
        assert_eq!([listed(&[], "or"), listed(&["a"], "or"), listed(&["a", "b", "c"], "or")], ["", "a", "a, b or c"]);
    }
}
