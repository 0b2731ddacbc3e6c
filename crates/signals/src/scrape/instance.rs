//! What is remembered of one pod, or of one router: its pages of the last window, and whether it moves.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use llmscaler_engine::Time;

use super::page::{Page, Series};
use super::rate::{Point, rate};

/// The most pages that are kept, so that no period, however short, makes the history long.
const MOST_PAGES: usize = 64;

/// The fewest scrapes after which an unmoving load counts as stuck.
const FEWEST_STILL: u32 = 4;

/// One process that serves a page.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) name: String,
    /// Oldest first, within the window.
    pages: VecDeque<(Time, Page)>,
    /// Why the last scrape gave no page.
    failure: Option<String>,
    /// It was among the targets from the very first sync on, or a scrape of it failed: it may have been at work before its first
    /// page, unlike a pod that has just become ready.
    had_a_past: bool,
    still: Option<Still>,
}

/// A load that does not move.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Still {
    seen: Load,
    since: Time,
    scrapes: u32,
}

/// What an engine has to do and what it has done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Load {
    pub(super) running: f64,
    pub(super) queued: f64,
    /// Sum of the counters that move when requests are served.
    pub(super) done: f64,
}

impl Instance {
    pub(super) fn new(name: &str, had_a_past: bool) -> Self {
        Self { name: name.to_owned(), pages: VecDeque::new(), failure: None, had_a_past, still: None }
    }

    /// Takes the result of a scrape. `load` reads what the instance does off a page, where it says so.
    pub(super) fn record(&mut self, scraped: Result<Page, String>, at: Time, window: Duration, load: impl FnOnce(&Page) -> Option<Load>) {
        self.forget(at, window);
        match scraped {
            Ok(mut page) => {
                if let Some((_, last)) = self.pages.back() {
                    page.share(last);
                }
                self.still = load(&page).and_then(|load| Still::after(self.still, load, at));
                self.pages.push_back((at, page));
                self.failure = None;
            }
            Err(why) => {
                self.failure = Some(why);
                self.had_a_past = true;
            }
        }
    }

    /// Drops pages that have left the window (now − window, now].
    pub(super) fn forget(&mut self, now: Time, window: Duration) {
        while self.pages.front().is_some_and(|(at, _)| now.since(*at) >= window) || self.pages.len() >= MOST_PAGES {
            self.pages.pop_front();
        }
    }

    /// The page of the last scrape, or why there is none.
    pub(super) fn page(&self) -> Result<&Page, &str> {
        match (&self.failure, self.pages.back()) {
            (None, Some((_, page))) => Ok(page),
            (Some(why), _) => Err(why),
            (None, None) => Err("it has not been scraped within the last window"),
        }
    }

    /// The last page that there is, be it of an earlier scrape.
    pub(super) fn last_page(&self) -> Option<&Page> {
        self.pages.back().map(|(_, page)| page)
    }

    /// A page to share the list of series with.
    pub(super) fn share_with(&mut self, other: &Page) {
        if let Some((_, page)) = self.pages.back_mut() {
            page.share(other);
        }
    }

    /// Whether too little is known for a rate, and nothing is missing: a pod that has just become ready.
    pub(super) fn is_new(&self) -> bool {
        !self.had_a_past && self.pages.len() < 2
    }

    /// Whether its load has not moved for `after`, which is long enough to call it stuck.
    pub(super) fn stuck(&self, now: Time, after: Duration) -> bool {
        self.still.is_some_and(|still| still.scrapes >= FEWEST_STILL && now.since(still.since) >= after)
    }

    /// The rates per second of the series of one family over the window; a series needs two pages for one. `None` when there are no
    /// two pages.
    pub(super) fn rates(&self, family: u8, window: Duration, now: Time) -> Option<Vec<(Series, f64)>> {
        let pages = self.pages.iter().filter(|(at, _)| now.since(*at) < window);
        let (mut count, mut points) = (0, BTreeMap::<Series, Vec<Point>>::new());
        for (at, page) in pages {
            count += 1;
            for (series, value) in page.family(family).filter(|(_, value)| value.is_finite()) {
                points.entry(series).or_default().push(Point { at: *at, value });
            }
        }
        (count >= 2).then(|| points.into_iter().filter_map(|(series, points)| Some((series, rate(&points, window, now)?))).collect())
    }

    /// Bytes that it occupies, lists of series not counted.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let pages: usize = self.pages.iter().map(|(_, page)| page.bytes() + size_of::<Time>()).sum();
        size_of::<Self>() + self.name.len() + pages
    }
}

impl Still {
    fn after(last: Option<Self>, seen: Load, at: Time) -> Option<Self> {
        if seen.running + seen.queued <= 0.0 {
            return None;
        }
        Some(match last {
            Some(still) if still.seen == seen => Self { scrapes: still.scrapes.saturating_add(1), ..still },
            _ => Self { seen, since: at, scrapes: 1 },
        })
    }
}
