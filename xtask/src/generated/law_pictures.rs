//! docs/pictures/law-*.svg: what a law asks for over what it reads, drawn from the engine itself.

use std::fmt::Write;

use anyhow::{Context, Result};
use llmscaler_engine::{Law, Measurement, Memory, Observation, Reading, Replicas, Time, Workload, decide};
use serde_json::{Value, json};

const STYLE: &str = "\
<style>
:root { --panel: #ffffff; --ink: #1c2024; --soft: #5b636b; --line: #e2e3df; --first: #0b62c4; --second: #b3570a; }
@media (prefers-color-scheme: dark) {
  :root { --panel: #1b1f23; --ink: #e8eaec; --soft: #9aa4ad; --line: #30363c; --first: #6cb2ff; --second: #f0a35e; }
}
.grid { stroke: var(--line); fill: none; }
.mark { stroke: var(--soft); stroke-dasharray: 4 4; fill: none; }
.tick { fill: var(--soft); }
.axis { fill: var(--ink); font-weight: 600; }
.first, .second { stroke-width: 2.5; fill: none; }
.first { stroke: var(--first); }
.second { stroke: var(--second); stroke-dasharray: 7 4; }
.first-name { fill: var(--first); font-weight: 600; }
.second-name { fill: var(--second); font-weight: 600; }
</style>
";

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 40.0;
const RIGHT: f64 = 620.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 272.0;

/// How finely a curve is looked at, in parts of the axis' unit.
const PARTS: u32 = 1000;

/// The count that a law asks for at a reading.
type Asks<'a> = &'a dyn Fn(f64) -> Result<u32>;

/// What is drawn.
struct Picture<'a> {
    /// What the picture shows, for those who do not see it.
    about: &'a str,
    /// What is read.
    reads: &'a str,
    /// Its range is 0 to this.
    up_to: u32,
    /// Values that deserve a line, with their names.
    marks: &'a [(f64, &'a str)],
    /// The most replicas.
    most: u32,
    /// The distance of their grid.
    rung: usize,
    /// What is asked for, with its name.
    curves: [(&'a str, Asks<'a>); 2],
}

impl Picture<'_> {
    fn x(&self, value: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * value / f64::from(self.up_to)
    }

    fn y(&self, replicas: u32) -> f64 {
        BOTTOM - (BOTTOM - TOP) * f64::from(replicas) / f64::from(self.most)
    }

    fn svg(&self) -> Result<String> {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" font-size=\"12\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             aria-label=\"{}\">\n{STYLE}<rect width=\"100%\" height=\"100%\" style=\"fill: var(--panel)\"/>\n",
            self.about
        );
        for replicas in (0..=self.most).step_by(self.rung) {
            let y = self.y(replicas);
            writeln!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{replicas}</text>",
                LEFT - 7.0,
                y + 4.0
            )?;
        }
        for tenths in (0..=self.up_to * 10).step_by(2) {
            let value = f64::from(tenths) / 10.0;
            writeln!(
                svg,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{value}</text>",
                self.x(value),
                BOTTOM + 17.0
            )?;
        }
        for (value, name) in self.marks {
            let x = self.x(*value);
            writeln!(
                svg,
                "<path class=\"mark\" d=\"M{x:.1} {TOP}V{BOTTOM}\"/><text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}</text>",
                TOP - 5.0
            )?;
        }
        writeln!(svg, "<text class=\"axis\" x=\"{LEFT}\" y=\"16\" text-anchor=\"middle\">replicas</text>")?;
        writeln!(svg, "<text class=\"axis\" x=\"{RIGHT}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>", BOTTOM + 36.0, self.reads)?;
        for ((name, asks), class, place) in [(&self.curves[0], "first", LEFT), (&self.curves[1], "second", LEFT + 250.0)] {
            writeln!(svg, "<path class=\"{class}\" d=\"{}\"/>", self.line(asks)?)?;
            writeln!(svg, "<text class=\"{class}-name\" x=\"{place:.1}\" y=\"{:.1}\">{name}</text>", BOTTOM + 36.0)?;
        }
        svg.push_str("</svg>\n");
        Ok(svg)
    }

    /// A curve of whole numbers: level, then a step.
    fn line(&self, asks: Asks<'_>) -> Result<String> {
        let mut level = asks(0.0)?;
        let mut path = format!("M{LEFT} {:.1}", self.y(level));
        for part in 1..=self.up_to * PARTS {
            let value = f64::from(part) / f64::from(PARTS);
            let asked = asks(value)?;
            if asked != level {
                level = asked;
                write!(path, "H{:.1}V{:.1}", self.x(value), self.y(level))?;
            }
        }
        write!(path, "H{RIGHT}")?;
        Ok(path)
    }
}

/// docs/pictures/law-ratio.svg
pub fn ratio() -> Result<String> {
    let asks = |behavior: Option<Value>| {
        move |value: f64| -> Result<u32> {
            let mut spec = json!({
                "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "vllm"},
                "serverAddress": "http://prometheus.monitoring.svc:9090",
                "minReplicas": 0, "maxReplicas": 10,
                "metrics": [{"name": "load", "query": "avg(load)", "target": "1"}],
            });
            if let Some(behavior) = &behavior {
                spec["behavior"] = behavior.clone();
            }
            let object = json!({"apiVersion": "autoscaling.modelsphere.dev/v1alpha1", "kind": "LLMScaler", "metadata": {"name": "vllm"}, "spec": spec});
            let scaler = llmscaler_api::parse_json(object)?.parse()?;
            let four = Replicas::new(4);
            let workload = Workload { replicas: four, ready: four, ..Workload::default() };
            let seen = Observation { workload, readings: vec![Reading::from_number(value)], traffic: None };
            Ok(decide(&scaler.spec, &seen, &Memory::default(), Time::default()).recommended.get())
        }
    };
    Picture {
        about: "What four ready replicas ask for, over value divided by target: in steps of a replica; with behavior four up to 1.1.",
        reads: "value ÷ target",
        up_to: 2,
        marks: &[(0.9, "0.9"), (1.1, "1.1")],
        most: 8,
        rung: 1,
        curves: [("without behavior", &asks(None)), ("with behavior: tolerance 0.1", &asks(Some(json!({}))))],
    }
    .svg()
}

/// docs/pictures/law-band.svg
pub fn band() -> Result<String> {
    let object = json!({
        "apiVersion": "autoscaling.modelsphere.dev/v1alpha1", "kind": "LLMScaler", "metadata": {"name": "vllm"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "vllm"},
            "serverAddress": "http://prometheus.monitoring.svc:9090",
            "minReplicas": 0, "maxReplicas": 40, "preset": {"name": "vLLM"}, "slo": {"ttft": "3s"},
        },
    });
    let scaler = llmscaler_api::parse_json(object)?.parse()?;
    let source = scaler.spec.sources.first().context("the scaler has no source")?;
    let Law::Band(band) = source.law else { anyhow::bail!("the default strategy is not the band") };
    let asks = |ready: u32| {
        move |value: f64| -> Result<u32> {
            let saturation = Measurement::new(value.min(band.clamp().get())).context("a saturation is not negative")?;
            Ok(band.replicas(saturation, Replicas::new(8), Replicas::new(ready)).get())
        }
    };
    Picture {
        about: "What a fleet of eight asks for, over its saturation: less below 0.40, eight up to 0.55, more above; less more while half of it is starting.",
        reads: "saturation",
        up_to: 2,
        marks: &[(band.down_at().get(), "0.40"), (band.up_at().get(), "0.55")],
        most: 30,
        rung: 5,
        curves: [("8 replicas, all ready", &asks(8)), ("8 replicas, 4 of them starting", &asks(4))],
    }
    .svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The levels of a path `M40 y HxVy HxVy … H620`, from left to right.
    fn levels(svg: &str, class: &str) -> Vec<(f64, f64)> {
        let path = svg.split_once(&format!("<path class=\"{class}\" d=\"M40 ")).unwrap().1.split('"').next().unwrap();
        let steps = path.split('H').skip(1).filter_map(|step| step.split_once('V'));
        steps.map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap())).collect()
    }

    #[test]
    fn more_load_never_asks_for_less_and_the_tolerance_has_a_level() {
        for svg in [ratio().unwrap(), band().unwrap()] {
            for class in ["first", "second"] {
                let levels = levels(&svg, class);
                assert!(levels.len() >= 5 && levels.is_sorted_by(|one, next| one.0 < next.0 && one.1 > next.1), "{levels:?}");
            }
        }
        let svg = ratio().unwrap();
        let at_four =
            |class: &str| levels(&svg, class).windows(2).find(|pair| pair[0].1 == 153.0).map(|pair| pair[1].0 - pair[0].0).unwrap();
        // A quarter of the target without a tolerance; from 0.9 to 1.1 with it, and below that the ratio again down to 0.75.
        assert!(
            (at_four("first") - 72.5).abs() < 0.5 && (at_four("second") - 101.5).abs() < 0.5,
            "{} {}",
            at_four("first"),
            at_four("second")
        );
    }
}
