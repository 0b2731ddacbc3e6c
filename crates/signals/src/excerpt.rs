//! Foreign text on its way into a reason, an event or a log line.

/// The most of a name or a label set that a reason quotes, in bytes.
pub(crate) const LONGEST_NAME: usize = 256;

/// At most `limit` bytes of `text`, cut at a character and marked with `…`, in which nothing can move a terminal's cursor, forge a
/// log line or reorder the text around it.
pub(crate) fn excerpt(text: &str, limit: usize) -> String {
    const CUT: char = '…';
    let mut clean: String = text.chars().take(limit + 1).map(harmless).collect();
    if clean.len() > limit {
        clean.truncate(clean.floor_char_boundary(limit.saturating_sub(CUT.len_utf8())));
        clean.push(CUT);
    }
    clean
}

fn harmless(c: char) -> char {
    match c {
        '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' => ' ',
        // Invisible characters, and those that change the direction of writing.
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' => char::REPLACEMENT_CHARACTER,
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_passes_and_control_characters_do_not() {
        assert_eq!(excerpt("parse error: unexpected \"}\"", 40), "parse error: unexpected \"}\"");
        assert_eq!(excerpt("a\r\nERROR b\u{1b}[2J\u{202e}c\0", 40), "a  ERROR b\u{fffd}[2J\u{fffd}c\u{fffd}");
    }

    #[test]
    fn cuts_at_a_character_within_the_limit() {
        assert_eq!(excerpt("abcdef", 6), "abcdef");
        assert_eq!(excerpt("abcdefg", 6), "abc…");
        assert_eq!(excerpt("ééééé", 6), "é…");
        for limit in 3..64 {
            let cut = excerpt(&"\u{1}é".repeat(50), limit);
            assert!(cut.len() <= limit && cut.ends_with('…'), "{limit}: {cut}");
        }
    }
}
