//! What became of the fleets.

use llmscaler_sandbox::fleet::Books;

use super::stage::Stage;

/// The table at the end.
pub(super) fn table(stage: &Stage) -> String {
    let (own, real) = stage.passed();
    let fleets = stage.books();
    let requests = fleets.iter().map(|(_, books)| books.arrived).max().unwrap_or(0);
    let caveat = caveat(stage.behind())
        .map_or_else(String::new, |caveat| format!("\n{caveat}, so the scalers do better than that; try a lower --speed\n"));
    format!("\n{} of its time in {} of yours; {requests} requests to each fleet:\n\n{}{caveat}", words(own), words(real), rows(&fleets))
}

/// A heading and a line for each fleet, the first column as wide as the longest name.
fn rows(fleets: &[(&str, Books)]) -> String {
    let longest = fleets.iter().map(|(name, _)| name.chars().count()).fold(16, usize::max);
    let mut text = format!("  {:<longest$} {:>9} {:>8} {:>7} {:>10}\n", "fleet", "in time", "late", "lost", "GPU-hours");
    for (name, books) in fleets {
        text += &format!("  {name:<longest$} {:>9} {:>8} {:>7} {:>10.1}\n", share(books), books.late, books.lost, books.gpu_hours);
    }
    text
}

/// The same so far, in a line.
pub(super) fn line(stage: &Stage) -> String {
    let one = |(name, books): (&str, Books)| format!("{name} {} in time, {:.1} GPU-hours", share(&books), books.gpu_hours);
    let parts: Vec<String> = stage.books().into_iter().map(one).chain(caveat(stage.behind())).collect();
    format!("so far: {}", parts.join(" · "))
}

/// What is told of one fleet among its events.
pub(super) fn account(books: &Books, behind: f64) -> String {
    let caveat = caveat(behind).map_or_else(String::new, |caveat| format!("; {caveat}"));
    let Books { late, lost, gpu_hours, ready, waiting, .. } = books;
    format!(
        "so far {} of the requests were in time, {late} late, {lost} lost; {gpu_hours:.1} GPU-hours; {ready} serve, {waiting} requests wait{caveat}",
        share(books)
    )
}

/// Seconds of the demo's time that the machine may lose before that is told: some are lost when the demo starts.
pub(super) const BEARABLE: f64 = 60.0;

/// What is to be said of every number when the machine had no time for the fleets for so many seconds.
fn caveat(behind: f64) -> Option<String> {
    (behind > BEARABLE).then(|| format!("this machine was too busy for {} of it", words(behind)))
}

fn share(books: &Books) -> String {
    // Rounded down, so that 100 % means all.
    books.attainment().map_or_else(|| "-".to_owned(), |share| format!("{:.2} %", (share * 10_000.0).floor() / 100.0))
}

/// A length of time in hours and minutes, or minutes and seconds.
fn words(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly_all_is_not_all() {
        let books = |in_time, late| Books { in_time, late, ..Books::default() };
        assert_eq!(share(&books(99_999, 1)), "99.99 %");
        assert_eq!((share(&books(7, 0)), share(&books(0, 0))), ("100.00 %".to_owned(), "-".to_owned()));
    }

    #[test]
    fn numbers_of_a_busy_machine_are_marked() {
        let books = Books { in_time: 7, late: 3, ready: 2, ..Books::default() };
        let plain = "so far 70.00 % of the requests were in time, 3 late, 0 lost; 0.0 GPU-hours; 2 serve, 0 requests wait";
        assert_eq!(account(&books, BEARABLE), plain);
        assert_eq!(account(&books, 130.0), format!("{plain}; this machine was too busy for 2 min 10 s of it"));
    }

    #[test]
    fn columns_stand_under_their_headings_however_long_a_name_is() {
        let books = Books { in_time: 7, late: 3, gpu_hours: 5.44, ..Books::default() };
        let expected = "  fleet                            in time     late    lost  GPU-hours\n  \
                          headroom                         70.00 %        3       0        5.4\n  \
                          qwen3-32b-h100-tp2-übersetzung         -        0       0        0.0\n";
        assert_eq!(rows(&[("headroom", books), ("qwen3-32b-h100-tp2-übersetzung", Books::default())]), expected);
        assert!(rows(&[("band", books)]).starts_with("  fleet              in time "), "as wide as ever");
    }

    #[test]
    fn times_have_two_units() {
        assert_eq!([5.4, 61.0, 86_400.0].map(words), ["5 s", "1 min 1 s", "24 h 0 min"]);
    }
}
