//! How large a query may be, so that looking at it takes milliseconds and little stack.
//!
//! The parser builds a tree whose depth can be the number of tokens, and walks and drops it recursively; regular expressions are
//! compiled, each at a price. Queries that people write are far below these limits.

/// The longest query that is looked at, in bytes.
pub(super) const LONGEST: usize = 16 << 10;

/// The most tokens outside of braces and strings.
pub(super) const MOST_TOKENS: usize = 600;

/// The most regular expressions.
pub(super) const MOST_EXPRESSIONS: usize = 40;

/// What is too large, to follow "the query".
pub(super) fn check(query: &str) -> Result<(), String> {
    if query.len() > LONGEST {
        return Err(format!("is longer than {LONGEST} bytes"));
    }
    let (tokens, expressions) = count(query);
    match () {
        () if tokens > MOST_TOKENS => Err(format!("has more than {MOST_TOKENS} names, numbers and operators")),
        () if expressions > MOST_EXPRESSIONS => Err(format!("has more than {MOST_EXPRESSIONS} regular expressions")),
        () => Ok(()),
    }
}

/// Tokens outside of braces and strings, and `~` inside braces; neither is less than what the parser sees.
fn count(query: &str) -> (usize, usize) {
    let (mut tokens, mut expressions, mut braces, mut in_word) = (0, 0, false, false);
    let mut chars = query.chars();
    while let Some(c) = chars.next() {
        let word = c.is_alphanumeric() || matches!(c, '_' | ':' | '.');
        match c {
            '"' | '\'' | '`' => {
                tokens += usize::from(!braces);
                while let Some(quoted) = chars.next() {
                    match quoted {
                        '\\' if c != '`' => drop(chars.next()),
                        end if end == c => break,
                        _ => {}
                    }
                }
            }
            '#' => drop(chars.by_ref().find(|end| *end == '\n')),
            '{' => braces = true,
            '}' => braces = false,
            '~' if braces => expressions += 1,
            _ if braces || c.is_whitespace() => {}
            _ => tokens += usize::from(!(word && in_word)),
        }
        in_word = word;
    }
    (tokens, expressions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_makes_a_tree_deep_and_nothing_else() {
        assert_eq!(count(r#"sum by (le) (rate(a:b{x=~"((((", y!~'"+\'+'}[1m])) >= 0.5"#), (17, 2));
        assert_eq!(count("((--1"), (5, 0));
        assert_eq!(count("\"unclosed ((((("), (1, 0));
        assert_eq!(count("1 # it's one (\n + ((a{b=\"c\", # d=~'}'\n e=\"f\"}))"), (7, 0));
    }
}
