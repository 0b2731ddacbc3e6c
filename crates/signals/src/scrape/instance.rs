//! What is remembered of one pod, or of one router: its pages of the last window, and whether it moves.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use llmscaler_engine::Time;

use super::page::{Page, Series};
use super::rate::{Point, rate};
use super::wanted::Wanted;

/// The most pages that are kept, so that no period, however short, makes the history long.
const MOST_PAGES: usize = 64;

/// How long the families are kept that are measured over longer than a window: two minutes, and a scrape that came late.
const LONGEST: Duration = Duration::from_secs(140);

/// The least distance of pages that are kept for so long.
const THIN: Duration = Duration::from_secs(5);

/// The fewest scrapes after which an unmoving load counts as stuck.
const FEWEST_STILL: u32 = 4;

/// One process that serves a page.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) name: String,
    /// Oldest first, within the window.
    pages: VecDeque<(Time, Page)>,
    /// Before those, with what is [`Retention::lasting`] only.
    older: VecDeque<(Time, Page)>,
    /// Why the last scrape gave no page.
    failure: Option<String>,
    /// It was among the targets from the very first sync on, or a scrape of it failed: it may have been at work before its first
    /// page, unlike a pod that has just become ready.
    had_a_past: bool,
    still: Option<Still>,
}

/// What is kept, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retention<'a> {
    /// Pages are whole within (now − window, now].
    pub(super) window: Duration,
    /// The families that are kept longer.
    pub(super) lasting: &'a [u8],
}

impl<'a> Retention<'a> {
    /// Of pages of which this is wanted.
    pub(super) fn of(wanted: Option<&'a Wanted>, window: Duration) -> Self {
        Self { window, lasting: wanted.map(Wanted::lasting).unwrap_or_default() }
    }
}

/// Two pages of one process, and those between them.
#[derive(Debug)]
pub(super) struct Stretch<'a> {
    /// Oldest first; at least two.
    pages: Vec<&'a (Time, Page)>,
    /// How long it counts for, above 0.
    pub(super) seconds: f64,
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
        Self { name: name.to_owned(), pages: VecDeque::new(), older: VecDeque::new(), failure: None, had_a_past, still: None }
    }

    /// Takes the result of a scrape. `load` reads what the instance does off a page, where it says so.
    pub(super) fn record(
        &mut self,
        scraped: Result<Page, String>,
        at: Time,
        kept: Retention<'_>,
        load: impl FnOnce(&Page) -> Option<Load>,
    ) {
        self.forget(at, kept);
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

    /// Drops pages that have left the window (now − window, now], but for what of them lasts.
    pub(super) fn forget(&mut self, now: Time, kept: Retention<'_>) {
        while self.pages.front().is_some_and(|(at, _)| now.since(*at) >= kept.window) || self.pages.len() >= MOST_PAGES {
            let Some((at, page)) = self.pages.pop_front() else { break };
            if kept.lasting.is_empty() || self.older.back().is_some_and(|(last, _)| at.since(*last) < THIN) {
                continue;
            }
            let mut page = page.only(kept.lasting);
            if let Some((_, last)) = self.older.back() {
                page.share(last);
            }
            self.older.push_back((at, page));
        }
        while self.older.front().is_some_and(|(at, _)| now.since(*at) >= LONGEST) {
            self.older.pop_front();
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

    /// The last of the pages that are kept for longer.
    pub(super) fn last_older(&self) -> Option<&Page> {
        self.older.back().map(|(_, page)| page)
    }

    /// Pages to share the lists of series with, the last whole one and the last older one.
    pub(super) fn share_with(&mut self, whole: &Page, older: Option<&Page>) {
        if let Some((_, page)) = self.pages.back_mut() {
            page.share(whole);
        }
        if let (Some((_, page)), Some(older)) = (self.older.back_mut(), older) {
            page.share(older);
        }
    }

    /// The pages from the one on that was read about `span` before the last: off by a third of it at most, since a scrape may be
    /// late, and never another time's. Of a process that came up within `span` all pages, which then count for the whole of it: before
    /// it there was nothing. `lasting` says whether all that is asked for lasts.
    pub(super) fn stretch(&self, span: Duration, lasting: bool) -> Option<Stretch<'_>> {
        let &(last, _) = self.pages.back()?;
        let older = self.older.iter().filter(|_| lasting);
        let pages: Vec<&(Time, Page)> = older.chain(&self.pages).collect();
        let (_, before) = pages.split_last()?;
        let off = |at: Time| last.since(at).abs_diff(span);
        let (from, &&(nearest, _)) = before.iter().enumerate().min_by_key(|(_, (at, _))| off(*at))?;
        if off(nearest) <= span / 3 {
            let seconds = last.since(nearest).as_secs_f64();
            return Some(Stretch { pages: pages[from..].to_vec(), seconds });
        }
        let came_up = !self.had_a_past && before.first().is_some_and(|(first, _)| last.since(*first) < span);
        came_up.then_some(Stretch { pages, seconds: span.as_secs_f64() })
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
        let pages: usize = self.pages.iter().chain(&self.older).map(|(_, page)| page.bytes() + size_of::<Time>()).sum();
        size_of::<Self>() + self.name.len() + pages
    }
}

impl Stretch<'_> {
    /// The first page and the last.
    pub(super) fn ends(&self) -> Option<[&Page; 2]> {
        Some([&self.pages.first()?.1, &self.pages.last()?.1])
    }

    /// What the counters of one family went up by. A value below the one before it is a restart, and so is the first value of a
    /// series that an earlier page of the process did not have: it began at 0.
    pub(super) fn increases(&self, family: u8) -> Vec<(Series, f64)> {
        // The series so far, in order as those of a page are, with their last value and their increase.
        let mut seen: Vec<(Series, f64, f64)> = Vec::new();
        for (number, (_, page)) in self.pages.iter().enumerate() {
            let mut next = 0;
            for (series, value) in page.family(family).filter(|(_, value)| value.is_finite()) {
                next += seen[next..].iter().take_while(|(other, ..)| *other < series).count();
                match seen.get_mut(next).filter(|(other, ..)| *other == series) {
                    Some((_, last, increase)) => {
                        *increase += if value >= *last { value - *last } else { value };
                        *last = value;
                    }
                    None => seen.insert(next, (series, value, if number == 0 { 0.0 } else { value })),
                }
            }
        }
        seen.into_iter().map(|(series, _, increase)| (series, increase)).collect()
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
