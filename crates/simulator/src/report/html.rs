//! The comparison as one page that needs nothing else: no network, and no script but for the cursor.

mod course;
mod front;
mod policies;
mod setting;
mod svg;

use std::fmt::Write as _;

pub use front::drawing;

use super::{Comparison, Contender, Kind};

const STYLE: &str = concat!(include_str!("html/front.css"), include_str!("html/style.css"));
const SCRIPT: &str = include_str!("html/script.js");

/// The comparison as a page of HTML.
#[must_use]
pub fn page(comparison: &Comparison) -> String {
    let mut page = String::with_capacity(1 << 20);
    // A String takes whatever is written.
    let _ = write(&mut page, comparison);
    page
}

fn write(page: &mut String, comparison: &Comparison) -> std::fmt::Result {
    let setting = &comparison.setting;
    let title = escape(&setting.workload);
    writeln!(page, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
    writeln!(
        page,
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">"
    )?;
    writeln!(page, "<title>{title}: policies compared</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>")?;
    writeln!(page, "<header>\n<p class=\"kind\">llmscaler simulate</p>\n<h1>{title}</h1>")?;
    writeln!(page, "<p class=\"lead\">{}</p>", escape(&setting.description))?;
    setting::facts(page, setting)?;
    writeln!(page, "</header>\n<section aria-labelledby=\"conclude\">\n<h2 id=\"conclude\">What to conclude</h2>")?;
    if let Some((answer, more)) = comparison.conclusions.split_first() {
        writeln!(page, "<p class=\"answer\">{}</p>", escape(answer))?;
        let items = more.iter().map(|sentence| format!("<li>{}</li>\n", escape(sentence)));
        writeln!(page, "<ul class=\"conclusions\">\n{}</ul>", items.collect::<String>())?;
    }
    writeln!(page, "</section>\n<section aria-labelledby=\"price\">\n<h2 id=\"price\">What a kept promise costs</h2>")?;
    front::figure(page, comparison)?;
    writeln!(page, "</section>\n<section aria-labelledby=\"policies\">\n<h2 id=\"policies\">The policies</h2>")?;
    policies::table(page, comparison)?;
    writeln!(page, "</section>")?;
    setting::tunings(page, &comparison.tunings)?;
    writeln!(page, "<section aria-labelledby=\"course\">\n<h2 id=\"course\">How each run went</h2>")?;
    course::figures(page, comparison)?;
    writeln!(page, "</section>")?;
    setting::made(page, setting)?;
    writeln!(page, "</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>")
}

/// Text as it may stand in an element or an attribute.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            other => safe.push(other),
        }
    }
    safe
}

/// The class that tells whose policy it is.
fn class(policy: &Contender) -> &'static str {
    match policy.kind {
        Kind::Ours => "ours",
        Kind::Peer => "peer",
        Kind::Fixed => "fixed",
        Kind::Clairvoyant => "clairvoyant",
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::comparison;
    use super::*;

    #[test]
    fn a_page_is_complete_and_asks_for_nothing() {
        let page = page(&comparison());
        assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
        for address in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!page.contains(address), "{address}");
        }
        for element in ["svg", "table", "details", "section", "figure", "g", "p", "ul"] {
            let start = format!("<{element}");
            let longer = |at: usize| page[at + start.len()..].starts_with(|next: char| next.is_ascii_alphanumeric());
            let opened = page.match_indices(&start).filter(|(at, _)| !longer(*at)).count();
            assert_eq!(opened, page.matches(&format!("</{element}>")).count(), "{element}");
        }
    }

    #[test]
    fn no_number_is_broken() {
        let page = page(&comparison());
        for broken in ["NaN", "\"inf", " inf", "-inf"] {
            assert!(!page.contains(broken), "{broken} in {:?}", page.find(broken).map(|at| &page[at.saturating_sub(80)..at + 20]));
        }
    }

    #[test]
    fn reasons_are_text() {
        let page = page(&comparison());
        assert!(page.contains("8 % growth &amp; &lt;no&gt; room") && !page.contains("<no>"));
    }

    #[test]
    fn the_same_comparison_is_the_same_page() {
        assert_eq!(page(&comparison()), page(&comparison()));
    }
}
