//! What is kept of one page.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashSet};
use std::hash::{Hash, Hasher as _};
use std::sync::Arc;

use super::exposition::{Line, Malformed, Sample};
use super::wanted::{Role, Wanted, pod_of};
use crate::excerpt::excerpt;
use crate::prometheus::number;

/// The most series that are kept of a page. Some dozens are the rule; a router counts by model and tenant.
pub(super) const MOST_SERIES: usize = 8192;

/// The longest line, in bytes.
pub(super) const LONGEST_LINE: usize = 64 << 10;

/// Why a page cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unreadable {
    #[error(
        "its page is not metrics in the text format of Prometheus: line {line}, `{text}`: {why}; check that scrape.port and scrape.path \
         lead to the metrics"
    )]
    Malformed { line: usize, text: String, why: Malformed },
    #[error("line {line} of its page is longer than {LONGEST_LINE} bytes; check that scrape.port and scrape.path lead to the metrics")]
    LongLine { line: usize },
    #[error("its page has more than {MOST_SERIES} series of interest; narrow them down with preset.matchLabels")]
    ManySeries,
}

/// A series within the pages of one process. The label set is only compared, so its hash will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Series {
    pub(super) family: u8,
    alias: u8,
    /// Hash of the name of the pod that it is about, where the series of a router are about pods, else 0.
    pub(super) pod: u64,
    labels: u64,
    /// The bits of the bound of a bucket, else 0.
    upper: u64,
}

impl Series {
    /// The bound of a bucket.
    pub(super) fn upper(self) -> f64 {
        f64::from_bits(self.upper)
    }
}

/// The series of one page that are wanted, and their values. Pages of one process, and mostly of one workload, have the same
/// series, and share the list of them.
#[derive(Clone, Debug)]
pub(super) struct Page {
    series: Arc<[Series]>,
    values: Box<[f64]>,
}

impl Page {
    /// Takes the list of series of another page where it is the same.
    pub(super) fn share(&mut self, with: &Self) {
        if !Arc::ptr_eq(&self.series, &with.series) && self.series == with.series {
            self.series = Arc::clone(&with.series);
        }
    }

    /// The series of one family and their values.
    pub(super) fn family(&self, family: u8) -> impl Iterator<Item = (Series, f64)> {
        let start = self.series.partition_point(|series| series.family < family);
        let series = self.series.iter().copied().zip(self.values.iter().copied());
        series.skip(start).take_while(move |(series, _)| series.family == family)
    }

    /// What of it belongs to these families, which are in their order.
    pub(super) fn only(&self, families: &[u8]) -> Self {
        let (series, values): (Vec<_>, Vec<_>) = families.iter().flat_map(|&family| self.family(family)).unzip();
        Self { series: series.into(), values: values.into() }
    }

    /// Bytes that the page occupies, its list of series not counted.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.values)
    }

    /// Whether both have the very same list of series in memory.
    #[cfg(test)]
    pub(super) fn shares(&self, with: &Self) -> bool {
        Arc::ptr_eq(&self.series, &with.series)
    }
}

/// Reads a page as it comes in, so that never more of it than a line is held.
pub(super) struct Reader<'a> {
    wanted: &'a Wanted,
    /// Hashes of the names of the pods there are. What a router says of others is what is left of them.
    pods: &'a HashSet<u64>,
    /// The beginning of a line that has not ended yet.
    begun: Vec<u8>,
    line: usize,
    /// The name of the last line that was not wanted: the next ones mostly have the same.
    unwanted: Vec<u8>,
    found: BTreeMap<Series, f64>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(wanted: &'a Wanted, pods: &'a HashSet<u64>) -> Self {
        Self { wanted, pods, begun: Vec::new(), line: 0, unwanted: Vec::new(), found: BTreeMap::new() }
    }

    /// Reads the lines that end in `chunk`.
    pub(super) fn read(&mut self, mut chunk: &[u8]) -> Result<(), Unreadable> {
        while let Some(end) = memchr::memchr(b'\n', chunk) {
            let (line, rest) = (&chunk[..end], &chunk[end + 1..]);
            if self.begun.is_empty() {
                self.line(line)?;
            } else {
                self.begin(line)?;
                let whole = std::mem::take(&mut self.begun);
                self.line(&whole)?;
            }
            chunk = rest;
        }
        self.begin(chunk)
    }

    /// The page, when there is no more of it. The last line need not have an end.
    pub(super) fn finish(mut self) -> Result<Page, Unreadable> {
        let last = std::mem::take(&mut self.begun);
        self.line(&last)?;
        self.prefer();
        let (series, values): (Vec<_>, Vec<_>) = self.found.into_iter().unzip();
        Ok(Page { series: series.into(), values: values.into() })
    }

    fn begin(&mut self, part: &[u8]) -> Result<(), Unreadable> {
        if self.begun.len() + part.len() > LONGEST_LINE {
            return Err(Unreadable::LongLine { line: self.line + 1 });
        }
        self.begun.extend_from_slice(part);
        Ok(())
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Unreadable> {
        self.line += 1;
        let unwanted = self.unwanted.len();
        if unwanted > 0 && line.starts_with(&self.unwanted) && matches!(line.get(unwanted), Some(b'{' | b' ')) {
            return Ok(());
        }
        let malformed = |why| Unreadable::Malformed { line: self.line, text: excerpt(&String::from_utf8_lossy(line), 80), why };
        let Some(named) = Line::of(line).map_err(malformed)? else { return Ok(()) };
        let roles = self.wanted.roles(named.name);
        if roles.is_empty() {
            self.unwanted.clear();
            self.unwanted.extend_from_slice(named.name.as_bytes());
            return Ok(());
        }
        let sample = named.sample().map_err(malformed)?;
        roles.iter().try_for_each(|&role| self.keep(role, &sample))
    }

    fn keep(&mut self, role: Role, sample: &Sample<'_>) -> Result<(), Unreadable> {
        let Some(family) = self.wanted.family(role).filter(|family| family.counts(role.alias, &sample.labels)) else { return Ok(()) };
        let pod = match family.endpoint(&sample.labels).map(|endpoint| hash_of(pod_of(endpoint))) {
            Some(pod) if self.pods.contains(&pod) => pod,
            Some(_) => return Ok(()),
            None => 0,
        };
        let (Some(upper), Some(counts)) = (upper(role, sample), family.value(sample)) else { return Ok(()) };
        let left_out = |label: &str| (role.bucket && label == "le") || family.row.repeats.iter().any(|repeats| repeats == label);
        let mut labels: Vec<_> = sample.labels.iter().filter(|(name, value)| !value.is_empty() && !left_out(name)).collect();
        labels.sort_unstable();
        let series = Series { family: role.family, alias: role.alias, pod, labels: hash_of(labels), upper };
        // Series that repeat the same number, or a page that has one twice: the highest counts.
        self.found.entry(series).and_modify(|value| *value = value.max(counts)).or_insert(counts);
        if self.found.len() > MOST_SERIES { Err(Unreadable::ManySeries) } else { Ok(()) }
    }

    /// Of several names of one metric on one page, which say the same, the preferred one counts.
    fn prefer(&mut self) {
        let mut preferred = None;
        self.found.retain(|series, _| match preferred {
            // They come in the order of families and then of names.
            Some((family, alias)) if family == series.family => alias == series.alias,
            _ => {
                preferred = Some((series.family, series.alias));
                true
            }
        });
    }
}

/// The bits of a bucket's bound, 0 where there are no buckets; `None` for a bucket without a bound.
fn upper(role: Role, sample: &Sample<'_>) -> Option<u64> {
    if !role.bucket {
        return Some(0);
    }
    let (_, bound) = sample.labels.iter().find(|(name, _)| *name == "le")?;
    number::parse(bound).filter(|bound| !bound.is_nan()).map(f64::to_bits)
}

pub(super) fn hash_of(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
