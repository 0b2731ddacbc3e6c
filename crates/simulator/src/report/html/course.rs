//! The course of one run of each policy: pictures above each other on one axis of time.

use std::fmt::{Result, Write as _};

use super::super::figures::{clock, count, percent, three};
use super::super::{Comparison, Contender, Kind};
use super::svg::{Scale, area, line, number, steps, ticks, times};
use super::{class, escape};
use crate::Promised;
use crate::outcome::{Outcome, Sample};

/// Latencies are shown from a tenth to ten times what was promised.
const DECADES: f64 = 10.0;

/// A picture's width in pixels, and how many points and marks it has room for.
#[derive(Clone, Copy)]
struct Size {
    class: &'static str,
    width: f64,
    points: usize,
    marks: usize,
}

const SIZES: [Size; 2] =
    [Size { class: "wide", width: 900.0, points: 400, marks: 9 }, Size { class: "narrow", width: 360.0, points: 160, marks: 4 }];

const LEFT: f64 = 40.0;

pub fn figures(page: &mut String, comparison: &Comparison) -> Result {
    let policies = &comparison.policies;
    let real = || policies.iter().filter(|policy| policy.kind != Kind::Clairvoyant);
    let answer = real().find(|policy| policy.meets_objective).or_else(|| real().next_back()).map(|policy| policy.name.as_str());
    let ours = real().find(|policy| policy.kind == Kind::Ours).map(|policy| policy.name.as_str());
    let samples = || policies.iter().filter_map(|policy| policy.runs.first()).flat_map(|run| &run.timeline);
    // All runs have the same scales, so that they can be held against each other.
    let scales = Scales {
        end: samples().map(|sample| sample.at).fold(60.0, f64::max),
        replicas: samples().map(|sample| f64::from(sample.replicas.max(sample.ready))).fold(1.0, f64::max),
        arrivals: samples().map(|sample| sample.arrivals).fold(0.1, f64::max),
    };
    writeln!(
        page,
        "<p>One run each, with seed {}; all have the same scales. Point at a picture, or move along it with the arrow keys, to read its values.</p>",
        comparison.setting.seeds.first().copied().unwrap_or_default()
    )?;
    for (index, policy) in policies.iter().enumerate() {
        let Some(run) = policy.runs.first() else { continue };
        let name = policy.name.as_str();
        let open = if Some(name) == answer || Some(name) == ours { " open" } else { "" };
        writeln!(
            page,
            "<details class=\"run {}\" id=\"run-{}\"{open}>\n<summary><span class=\"run-name\">{} {}</span> <span class=\"run-sum\">{}</span></summary>",
            class(policy),
            index + 1,
            index + 1,
            escape(name),
            sum(policy)
        )?;
        figure(page, run, scales)?;
        changes(page, run)?;
        writeln!(page, "</details>")?;
    }
    Ok(())
}

fn sum(policy: &Contender) -> String {
    format!(
        "on average {} % in time, {} GPU-hours, {} changes",
        percent(policy.summary.attainment.mean),
        three(policy.summary.gpu_hours.mean),
        count(policy.summary.scale_events.mean)
    )
}

#[derive(Clone, Copy)]
struct Scales {
    end: f64,
    replicas: f64,
    arrivals: f64,
}

/// A panel: its title, and where it lies.
#[derive(Clone, Copy)]
struct Panel {
    top: f64,
    bottom: f64,
}

fn figure(page: &mut String, run: &Outcome, scales: Scales) -> Result {
    let late: u64 = run.timeline.iter().map(|sample| sample.late).sum();
    let label = format!(
        "Over time: replicas asked for and ready against the need, arrivals of which {late} were late, the 90th percentiles of TTFT and TPOT as shares of the promise, and the use of the KV cache."
    );
    writeln!(page, "<figure class=\"course\" tabindex=\"0\" role=\"group\" aria-label=\"{label}\">")?;
    for size in SIZES {
        let width = run.timeline.len().div_ceil(size.points).max(1);
        let samples: Vec<Sample> = run.timeline.chunks(width).filter_map(merge).collect();
        picture(page, run, &samples, scales, size)?;
        if size.class == "wide" {
            data(page, &samples)?;
        }
    }
    writeln!(page, "<p class=\"readout\" aria-live=\"polite\"></p>\n</figure>")
}

/// Several samples as one: means of rates, the worst of latencies, the last of what stands.
fn merge(samples: &[Sample]) -> Option<Sample> {
    let last = samples.last()?;
    let of = samples.len() as f64;
    Some(Sample {
        need: samples.iter().map(|sample| sample.need).sum::<f64>() / of,
        arrivals: samples.iter().map(|sample| sample.arrivals).sum::<f64>() / of,
        late: samples.iter().map(|sample| sample.late).sum(),
        ttft_p90: samples.iter().map(|sample| sample.ttft_p90).fold(f64::NAN, f64::max),
        tpot_p90: samples.iter().map(|sample| sample.tpot_p90).fold(f64::NAN, f64::max),
        waiting: samples.iter().map(|sample| sample.waiting).max().unwrap_or_default(),
        kv_usage: samples.iter().map(|sample| sample.kv_usage).fold(0.0, f64::max),
        ..*last
    })
}

fn picture(page: &mut String, run: &Outcome, samples: &[Sample], scales: Scales, size: Size) -> Result {
    let (width, right) = (size.width, size.width - 8.0);
    let x = Scale::new((0.0, scales.end), (LEFT, right));
    let [replicas, arrivals, latency, cache] =
        [(24.0, 134.0), (174.0, 244.0), (284.0, 364.0), (404.0, 454.0)].map(|(top, bottom)| Panel { top, bottom });
    let height = cache.bottom + 22.0;
    writeln!(
        page,
        "<svg class=\"{}\" viewBox=\"0 0 {width} {height}\" data-left=\"{LEFT}\" data-right=\"{right}\" data-end=\"{}\" aria-hidden=\"true\">",
        size.class, scales.end
    )?;
    for (at, label) in times(scales.end, size.marks) {
        let at = x.at(at);
        writeln!(
            page,
            "<path class=\"grid\" d=\"M{at:.1} {}V{}\"/><text class=\"tick\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
            replicas.top,
            cache.bottom,
            cache.bottom + 17.0
        )?;
    }
    draw_replicas(page, run, samples, (x, right), replicas, scales.replicas)?;
    draw_arrivals(page, samples, (x, right), arrivals, scales.arrivals)?;
    draw_latency(page, samples, run.promised, (x, right), latency)?;
    draw_cache(page, samples, (x, right), cache)?;
    writeln!(page, "<path class=\"cursor\" d=\"M0 {}V{}\" visibility=\"hidden\"/>\n</svg>", replicas.top, cache.bottom)
}

/// The title of a panel, each part in the colour of what it names.
fn title(page: &mut String, panel: Panel, name: &str, parts: &[(&str, &str)]) -> Result {
    let parts: String = parts.iter().map(|(class, part)| format!(" <tspan class=\"{class}\" dx=\"7\">{part}</tspan>")).collect();
    writeln!(page, "<text class=\"panel\" x=\"0\" y=\"{}\"><tspan class=\"panel-name\">{name}</tspan>{parts}</text>", panel.top - 12.0)
}

/// Horizontal lines with their labels.
fn rules(page: &mut String, right: f64, rules: impl Iterator<Item = (f64, String)>) -> Result {
    for (at, label) in rules {
        writeln!(
            page,
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/><text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            LEFT - 6.0,
            at + 4.0
        )?;
    }
    Ok(())
}

fn draw_replicas(page: &mut String, run: &Outcome, samples: &[Sample], (x, right): (Scale, f64), panel: Panel, most: f64) -> Result {
    title(page, panel, "Replicas", &[("need-text", "■ needed"), ("asked-text", "╌ asked for"), ("ready-text", "━ ready")])?;
    let marks = ticks(0.0, most, 4);
    let y = Scale::new((0.0, marks.last().copied().unwrap_or(most)), (panel.bottom, panel.top));
    rules(page, right, marks.iter().map(|mark| (y.at(*mark), number(*mark))))?;
    let needed = area(LEFT, panel.bottom, samples.iter().map(|sample| (x.at(sample.at), y.at(sample.need))));
    let asked = steps(LEFT, samples.iter().map(|sample| (x.at(sample.at), y.at(f64::from(sample.replicas)))));
    let ready = steps(LEFT, samples.iter().map(|sample| (x.at(sample.at), y.at(f64::from(sample.ready)))));
    writeln!(page, "<path class=\"need\" d=\"{needed}\"/><path class=\"asked\" d=\"{asked}\"/><path class=\"ready\" d=\"{ready}\"/>")?;
    for change in &run.decisions {
        let (at, up) = (x.at(change.at), change.to > change.from);
        let (class, shape) = if up { ("up", "l4.5 7h-9Z") } else { ("down", "l-4.5 -7h9Z") };
        let tip = y.at(f64::from(change.to)) + if up { 3.0 } else { -3.0 };
        writeln!(page, "<path class=\"{class}\" d=\"M{at:.1} {tip:.1}{shape}\"><title>{}</title></path>", escape(&told(change)))?;
    }
    Ok(())
}

fn told(change: &crate::outcome::Change) -> String {
    let why = if change.why.is_empty() { String::new() } else { format!(": {}", change.why) };
    format!("{} {} → {}{why}", clock(change.at), change.from, change.to)
}

fn draw_arrivals(page: &mut String, samples: &[Sample], (x, right): (Scale, f64), panel: Panel, most: f64) -> Result {
    title(page, panel, "Requests per second", &[("arrivals-text", "■ arriving"), ("late-text", "■ of them late")])?;
    let marks = ticks(0.0, most, 3);
    let y = Scale::new((0.0, marks.last().copied().unwrap_or(most)), (panel.bottom, panel.top));
    rules(page, right, marks.iter().map(|mark| (y.at(*mark), number(*mark))))?;
    let arriving = area(LEFT, panel.bottom, samples.iter().map(|sample| (x.at(sample.at), y.at(sample.arrivals))));
    let late = area(LEFT, panel.bottom, late(samples).map(|(at, rate)| (x.at(at), y.at(rate))));
    writeln!(page, "<path class=\"arrivals\" d=\"{arriving}\"/><path class=\"late\" d=\"{late}\"/>")
}

/// Late requests per second, by the ends of the intervals in which they arrived.
fn late(samples: &[Sample]) -> impl Iterator<Item = (f64, f64)> + '_ {
    let ends = samples.iter().map(|sample| sample.at);
    let starts = std::iter::once(0.0).chain(ends);
    samples.iter().zip(starts).map(|(sample, start)| (sample.at, sample.late as f64 / (sample.at - start).max(1.0)))
}

fn draw_latency(page: &mut String, samples: &[Sample], promised: Promised, (x, right): (Scale, f64), panel: Panel) -> Result {
    title(page, panel, "p90 ÷ promise", &[("ttft-text", "━ first token"), ("tpot-text", "━ per token")])?;
    let y = Scale::new((-DECADES.log10(), DECADES.log10()), (panel.bottom, panel.top));
    let broken = y.at(0.0);
    writeln!(
        page,
        "<rect class=\"broken\" x=\"{LEFT}\" y=\"{}\" width=\"{:.1}\" height=\"{:.1}\"/>",
        panel.top,
        right - LEFT,
        broken - panel.top
    )?;
    rules(page, right, [("0.1×", -1.0), ("1×", 0.0), ("10×", 1.0)].into_iter().map(|(label, mark)| (y.at(mark), label.to_owned())))?;
    writeln!(page, "<path class=\"promise\" d=\"M{LEFT} {broken:.1}H{right}\"/>")?;
    let course = |figure: fn(&Sample) -> f64, promise: f64| {
        let height = move |seconds: f64| (!seconds.is_nan()).then(|| y.at((seconds / promise).max(1e-6).log10().min(9.0)));
        line(samples.iter().map(|sample| (x.at(sample.at), height(figure(sample)))))
    };
    writeln!(page, "<path class=\"tpot\" d=\"{}\"/>", course(|sample| sample.tpot_p90, promised.tpot))?;
    writeln!(page, "<path class=\"ttft\" d=\"{}\"/>", course(|sample| sample.ttft_p90, promised.ttft))
}

fn draw_cache(page: &mut String, samples: &[Sample], (x, right): (Scale, f64), panel: Panel) -> Result {
    title(page, panel, "KV cache in use", &[])?;
    let y = Scale::new((0.0, 1.0), (panel.bottom, panel.top));
    rules(page, right, [0.0, 0.5, 1.0].into_iter().map(|share| (y.at(share), format!("{} %", share * 100.0))))?;
    let used = area(LEFT, panel.bottom, samples.iter().map(|sample| (x.at(sample.at), y.at(sample.kv_usage))));
    writeln!(page, "<path class=\"cache\" d=\"{used}\"/>")
}

/// The values for the cursor: end, asked, ready, need, arrivals, late, TTFT, TPOT, waiting, KV; null where unknown, -1 for never.
fn data(page: &mut String, samples: &[Sample]) -> Result {
    write!(page, "<script type=\"application/json\">[")?;
    for (index, sample) in samples.iter().enumerate() {
        let seconds = |value: f64| {
            if value.is_nan() {
                "null".to_owned()
            } else if value.is_infinite() {
                "-1".to_owned()
            } else {
                number(value)
            }
        };
        write!(
            page,
            "{}[{},{},{},{},{},{},{},{},{},{}]",
            if index == 0 { "" } else { "," },
            number(sample.at),
            sample.replicas,
            sample.ready,
            number(sample.need),
            number(sample.arrivals),
            sample.late,
            seconds(sample.ttft_p90),
            seconds(sample.tpot_p90),
            sample.waiting,
            number(sample.kv_usage)
        )?;
    }
    writeln!(page, "]</script>")
}

fn changes(page: &mut String, run: &Outcome) -> Result {
    if run.decisions.is_empty() {
        return writeln!(page, "<p class=\"none\">Its size never changed.</p>");
    }
    writeln!(page, "<details class=\"changes\"><summary>Its {} changes, and why</summary>\n<ol>", run.decisions.len())?;
    for change in &run.decisions {
        let way = if change.to > change.from { "up" } else { "down" };
        writeln!(
            page,
            "<li><span class=\"when\">{}</span> <b class=\"{way}-text\">{} → {}</b> {}</li>",
            clock(change.at),
            change.from,
            change.to,
            escape(&change.why)
        )?;
    }
    writeln!(page, "</ol>\n</details>")
}

#[cfg(test)]
mod tests {
    use super::super::super::example::outcome;
    use super::*;

    #[test]
    fn merged_samples_hide_nothing_bad() {
        let run = outcome("p", 1, 0.99, 8.0);
        let merged = merge(&run.timeline[4..8]).unwrap();
        assert_eq!((merged.at, merged.replicas, merged.late), (120.0, 5, 1 + 2 + 3));
        assert_eq!(merged.ttft_p90, f64::INFINITY);
        assert!((merged.arrivals - 8.5).abs() < 1e-9);
        assert!(merge(&[]).is_none());
    }

    #[test]
    fn late_requests_are_a_rate() {
        let run = outcome("p", 1, 0.99, 8.0);
        let rates: Vec<(f64, f64)> = late(&run.timeline).take(3).collect();
        assert_eq!(rates, [(15.0, 1.0 / 15.0), (30.0, 2.0 / 15.0), (45.0, 3.0 / 15.0)]);
    }
}
