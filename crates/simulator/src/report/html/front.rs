//! Attainment against GPU-hours: what a kept promise costs.

use std::fmt::{Result, Write as _};

use super::super::figures::{percent, short_percent, three};
use super::super::front::point;
use super::super::{Comparison, Contender, Kind, Point};
use super::svg::{Scale, number, ticks};
use super::{class, escape};

/// Shares that the axis may be marked at.
const SHARES: [f64; 11] = [0.0, 0.2, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0];

/// Pictures are drawn twice, as text does not shrink well.
#[derive(Clone, Copy)]
struct Size {
    attributes: &'static str,
    ground: &'static str,
    width: f64,
    height: f64,
    named: bool,
}

const WIDE: Size = Size { attributes: "class=\"wide\"", ground: "", width: 900.0, height: 440.0, named: true };

const SIZES: [Size; 2] = [WIDE, Size { attributes: "class=\"narrow\"", width: 360.0, height: 380.0, named: false, ..WIDE }];

/// In a file of its own a picture brings its colours and its ground along.
const ALONE: Size = Size {
    attributes: "xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" font-size=\"12\"",
    ground: concat!(
        "<style>\n",
        include_str!("front.css"),
        "</style>\n<rect width=\"100%\" height=\"100%\" style=\"fill: var(--panel)\"/>\n"
    ),
    ..WIDE
};

/// Lateness on a logarithmic scale, so that 99 and 99.9 % are as far apart as 90 and 99 %.
fn level(attainment: f64) -> f64 {
    -(1.0 - attainment.clamp(0.0, 1.0) + 0.0005).log10()
}

pub fn figure(page: &mut String, comparison: &Comparison) -> Result {
    writeln!(page, "<figure class=\"front\">")?;
    for size in SIZES {
        picture(page, comparison, size)?;
    }
    let fluid = if comparison.bound.fluid_gpu_hours.is_some() {
        " The dotted line is what the load takes on paper, minute by minute, if nothing ever queued."
    } else {
        ""
    };
    writeln!(
        page,
        "<figcaption>Up and left is better. Points are means over the seeds, crosses their range; the numbers are those of the table. \
         The green line is what a clairvoyant reaches, who knows every request in advance.{fluid} The scale of the share is logarithmic \
         in what is late.</figcaption>\n</figure>"
    )
}

/// Attainment against GPU-hours as a picture by itself, in SVG, light or dark as whoever shows it likes.
#[must_use]
pub fn drawing(comparison: &Comparison) -> String {
    let mut svg = String::new();
    // A String takes whatever is written.
    let _ = picture(&mut svg, comparison, ALONE);
    svg
}

fn picture(page: &mut String, comparison: &Comparison, size: Size) -> Result {
    let Size { attributes, ground, width, height, .. } = size;
    let (left, right, top, bottom) = (46.0, width - 14.0, 16.0, height - 44.0);
    let policies = &comparison.policies;
    let worst = policies
        .iter()
        .map(|policy| policy.summary.attainment.min)
        .filter(|share| share.is_finite())
        .fold(comparison.setting.objective, f64::min);
    let floor = SHARES.iter().rev().find(|share| **share <= worst - 0.000_01).copied().unwrap_or(0.0);
    let costs = policies.iter().flat_map(|policy| [policy.summary.gpu_hours.min, policy.summary.gpu_hours.max]);
    let bound = reached(comparison, floor).map(|point| point.gpu_hours).chain(comparison.bound.fluid_gpu_hours);
    let (low, high) = costs
        .chain(bound)
        .filter(|cost| cost.is_finite())
        .fold((f64::MAX, 0.0), |(low, high): (f64, f64), cost| (low.min(cost), high.max(cost)));
    let marks = ticks(low * 0.97, high * 1.02, if size.named { 9 } else { 5 });
    let x = Scale::new((marks.first().copied().unwrap_or(0.0), marks.last().copied().unwrap_or(1.0)), (left, right));
    let y = Scale::new((level(floor), level(1.0)), (bottom, top));
    let label = format!("Attainment against GPU-hours of {} policies; the table below has the figures.", policies.len());
    writeln!(page, "<svg {attributes} viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">")?;
    write!(page, "{ground}")?;
    axes(page, (x, y), (left, right, top, bottom), &marks, floor)?;
    let goal = y.at(level(comparison.setting.objective));
    writeln!(
        page,
        "<path class=\"goal\" d=\"M{left} {goal:.1}H{right}\"/><text class=\"goal-label\" x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">objective {} %</text>",
        goal - 5.0,
        short_percent(comparison.setting.objective)
    )?;
    possible(page, comparison, floor, (x, y), (top, bottom))?;
    let mut taken: Vec<[f64; 4]> =
        policies.iter().map(|policy| place(policy, x, y)).map(|(x, y)| [x - 7.0, y - 7.0, x + 7.0, y + 7.0]).collect();
    let curve = reached(comparison, floor).map(|point| (x.at(point.gpu_hours), y.at(level(point.attainment))));
    taken.extend(curve.map(|(x, y)| [x - 3.0, y - 12.0, x + 3.0, y + 12.0]));
    for (index, policy) in policies.iter().enumerate() {
        mark(page, policy, index + 1, (x, y))?;
        let text = if size.named { format!("{} {}", index + 1, policy.name) } else { (index + 1).to_string() };
        let (at, anchor) = free(&text, place(policy, x, y), [left, top, right, bottom], &mut taken);
        writeln!(
            page,
            "<text class=\"name {}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            class(policy),
            at.0,
            at.1,
            escape(&text)
        )?;
    }
    writeln!(page, "</svg>")
}

fn place(policy: &Contender, x: Scale, y: Scale) -> (f64, f64) {
    let point = point(policy);
    (x.at(point.gpu_hours), y.at(level(point.attainment)))
}

fn axes(page: &mut String, (x, y): (Scale, Scale), (left, right, top, bottom): (f64, f64, f64, f64), marks: &[f64], floor: f64) -> Result {
    for mark in marks {
        let at = x.at(*mark);
        writeln!(
            page,
            "<path class=\"grid\" d=\"M{at:.1} {top}V{bottom}\"/><text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            number(*mark)
        )?;
    }
    let mut last = f64::MAX;
    for share in SHARES.into_iter().filter(|share| *share >= floor) {
        let at = y.at(level(share));
        // Marks that would touch are left out.
        if last - at >= 15.0 {
            writeln!(
                page,
                "<path class=\"grid\" d=\"M{left} {at:.1}H{right}\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 7.0,
                at + 4.0,
                short_percent(share)
            )?;
            last = at;
        }
    }
    writeln!(page, "<text class=\"axis\" x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">GPU-hours →</text>", bottom + 36.0)?;
    writeln!(page, "<text class=\"axis\" x=\"4\" y=\"{:.1}\">↑ in time, %</text>", bottom + 36.0)
}

/// What of the clairvoyant's curve is in the picture.
fn reached(comparison: &Comparison, floor: f64) -> impl Iterator<Item = Point> + '_ {
    comparison.bound.clairvoyant.iter().copied().filter(move |point| point.attainment >= floor)
}

/// The clairvoyant's curve, and what the load takes on paper.
fn possible(page: &mut String, comparison: &Comparison, floor: f64, (x, y): (Scale, Scale), (top, bottom): (f64, f64)) -> Result {
    if let Some(fluid) = comparison.bound.fluid_gpu_hours {
        let at = x.at(fluid);
        writeln!(
            page,
            "<path class=\"fluid\" d=\"M{at:.1} {top}V{bottom}\"><title>the load alone: {} GPU-hours</title></path>",
            three(fluid)
        )?;
    }
    let points = reached(comparison, floor).map(|point| (x.at(point.gpu_hours), Some(y.at(level(point.attainment)))));
    writeln!(page, "<path class=\"possible\" d=\"{}\"/>", super::svg::line(points))?;
    for point in reached(comparison, floor) {
        let (at, height) = (x.at(point.gpu_hours), y.at(level(point.attainment)));
        writeln!(
            page,
            "<circle class=\"possible-point\" cx=\"{at:.1}\" cy=\"{height:.1}\" r=\"2.5\"><title>clairvoyant: {} % at {} GPU-hours</title></circle>",
            percent(point.attainment),
            three(point.gpu_hours)
        )?;
    }
    Ok(())
}

fn mark(page: &mut String, policy: &Contender, number: usize, (x, y): (Scale, Scale)) -> Result {
    let (at, height) = place(policy, x, y);
    let (kept, cost) = (policy.summary.attainment, policy.summary.gpu_hours);
    writeln!(
        page,
        "<g class=\"mark {}{}\"><title>{number} {}: {} % at {} GPU-hours</title>",
        class(policy),
        if policy.on_front { " best" } else { "" },
        escape(&policy.name),
        percent(kept.mean),
        three(cost.mean)
    )?;
    writeln!(
        page,
        "<path class=\"range\" d=\"M{:.1} {height:.1}H{:.1}M{at:.1} {:.1}V{:.1}\"/>",
        x.at(cost.min),
        x.at(cost.max),
        y.at(level(kept.min)),
        y.at(level(kept.max))
    )?;
    match policy.kind {
        Kind::Fixed => writeln!(page, "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"9\" height=\"9\"/></g>", at - 4.5, height - 4.5),
        Kind::Clairvoyant => writeln!(page, "<path class=\"diamond\" d=\"M{at:.1} {:.1}l6 6l-6 6l-6 -6Z\"/></g>", height - 6.0),
        Kind::Ours | Kind::Peer => writeln!(page, "<circle cx=\"{at:.1}\" cy=\"{height:.1}\" r=\"5.5\"/></g>"),
    }
}

/// Where a label touches the least of what is there already.
fn free(text: &str, (x, y): (f64, f64), [left, top, right, bottom]: [f64; 4], taken: &mut Vec<[f64; 4]>) -> ((f64, f64), &'static str) {
    let width = text.chars().count() as f64 * 6.9;
    let places = [
        (10.0, 4.0, "start"),
        (-10.0, 4.0, "end"),
        (0.0, -11.0, "middle"),
        (0.0, 20.0, "middle"),
        (9.0, -9.0, "start"),
        (9.0, 18.0, "start"),
        (-9.0, -9.0, "end"),
        (-9.0, 18.0, "end"),
        (12.0, 32.0, "start"),
        (12.0, -23.0, "start"),
        (-12.0, 32.0, "end"),
    ];
    let boxes = places.map(|(dx, dy, anchor)| {
        let start = match anchor {
            "start" => x + dx,
            "end" => x + dx - width,
            _ => x + dx - width / 2.0,
        };
        let outside = start < left || start + width > right || y + dy - 11.0 < top - 8.0 || y + dy + 3.0 > bottom;
        ((x + dx, y + dy), anchor, [start, y + dy - 11.0, start + width, y + dy + 3.0], outside)
    });
    let overlap = |one: &[f64; 4], other: &[f64; 4]| {
        (one[2].min(other[2]) - one[0].max(other[0])).max(0.0) * (one[3].min(other[3]) - one[1].max(other[1])).max(0.0)
    };
    let cost =
        |area: &[f64; 4], outside: bool| taken.iter().map(|other| overlap(area, other)).sum::<f64>() + if outside { 1e6 } else { 0.0 };
    let best = boxes.into_iter().min_by(|one, other| cost(&one.2, one.3).total_cmp(&cost(&other.2, other.3)));
    let Some((at, anchor, area, _)) = best else { return ((x, y), "start") };
    taken.push(area);
    (at, anchor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_rise_with_attainment() {
        let levels: Vec<f64> = SHARES.iter().map(|share| level(*share)).collect();
        assert!(levels.is_sorted() && levels.iter().all(|level| level.is_finite()));
    }

    #[test]
    fn a_picture_by_itself_needs_no_page() {
        let svg = drawing(&super::super::super::example::comparison());
        assert!(svg.starts_with("<svg xmlns=") && svg.trim_end().ends_with("</svg>") && svg.contains("--panel:"));
        assert_eq!(svg.matches("<g").count(), svg.matches("</g>").count());
    }

    #[test]
    fn labels_make_room_for_each_other() {
        let mut taken = vec![[93.0, 93.0, 107.0, 107.0]];
        let frame = [0.0, 0.0, 400.0, 400.0];
        let first = free("headroom", (100.0, 100.0), frame, &mut taken);
        let second = free("headroom", (100.0, 100.0), frame, &mut taken);
        assert_eq!(first, ((110.0, 104.0), "start"));
        assert_eq!(second, ((90.0, 104.0), "end"));
    }
}
