//! What to conclude, in plain sentences; losses as plainly as gains.

use super::figures::{count, short_percent, three};
use super::limits::{held_back, no_room, outside};
use super::{Bound, Contender, Kind, Setting};

/// Two policies whose costs differ by less than this share are as good as equal: another seed may turn them round.
const NOISE: f64 = 0.03;

/// Attainments that differ by no more than this are the same.
const SAME_ATTAINMENT: f64 = 0.0005;

/// So are costs that differ by no more than this share.
const SAME_COST: f64 = 0.005;

/// Sentences about the comparison, of policies that are sorted by their cost. The first is the answer.
pub fn draw(setting: &Setting, policies: &[Contender], bound: &Bound) -> Vec<String> {
    let real: Vec<&Contender> = policies.iter().filter(|policy| policy.kind != Kind::Clairvoyant).collect();
    let Some(best) = real.iter().max_by(|one, other| attainment(one).total_cmp(&attainment(other))) else {
        return vec!["Only foresight was simulated; add a policy to compare.".to_owned()];
    };
    if real.iter().flat_map(|policy| &policy.runs).any(|run| run.offered == 0) {
        return vec!["With a seed not one request came, so nothing can be said; give more traffic.".to_owned()];
    }
    if let Some(none) = no_room(setting) {
        return vec![none];
    }
    let goal = short_percent(setting.objective);
    let mut said = Vec::new();
    let mut limited = false;
    let answer = real.iter().find(|policy| policy.meets_objective);
    match answer {
        Some(winner) => {
            let (kept, cost) = (short_percent(attainment(winner)), three(cost(winner)));
            said.push(format!(
                "{} is the cheapest policy here that keeps both promises for {goal} % of the requests: {kept} % at {cost} GPU-hours.",
                winner.name
            ));
            said.extend(chance(setting, winner, &real));
            said.extend(against_fixed(winner, &real));
        }
        None => {
            let (kept, cost) = (short_percent(attainment(best)), three(cost(best)));
            said.push(format!(
                "No policy here keeps both promises for {goal} % of the requests; {} comes closest with {kept} % at {cost} GPU-hours.",
                best.name
            ));
            let held_back = held_back(setting, best);
            limited = held_back.is_some();
            said.extend(held_back);
            said.extend(too_short_to_follow(setting, best));
        }
    }
    let chosen = answer.unwrap_or(best);
    said.extend(outside(setting, &real));
    said.extend(foresight(setting, chosen, bound, &real, limited));
    said.extend(real.iter().filter(|policy| policy.kind == Kind::Ours).flat_map(|ours| ours_against(ours, chosen, &real)));
    said.extend(restlessness(setting, chosen));
    said
}

fn attainment(policy: &Contender) -> f64 {
    policy.summary.attainment.mean
}

fn cost(policy: &Contender) -> f64 {
    policy.summary.gpu_hours.mean
}

/// Whether two policies do the same, for as much.
fn tie(one: &Contender, other: &Contender) -> bool {
    (attainment(one) - attainment(other)).abs() <= SAME_ATTAINMENT && (cost(one) - cost(other)).abs() <= SAME_COST * cost(other)
}

/// How far the answer depends on the seeds.
fn chance(setting: &Setting, winner: &Contender, real: &[&Contender]) -> Vec<String> {
    let mut said = Vec::new();
    if setting.seeds.len() < 2 {
        said.push("That is one seed, which says nothing of chance; decide on five or more.".to_owned());
    } else if winner.summary.attainment.min < setting.objective {
        said.push(format!("It did not do so with every seed: the worst had {} %.", short_percent(winner.summary.attainment.min)));
    }
    let equals =
        real.iter().filter(|other| other.name != winner.name && other.meets_objective && cost(other) <= cost(winner) * (1.0 + NOISE));
    let names: Vec<&str> = equals.map(|other| other.name.as_str()).collect();
    if !names.is_empty() {
        said.push(format!(
            "{} cost{} within {} % of that and met it as well: a difference that another seed may turn round.",
            list(&names),
            if names.len() == 1 { "s" } else { "" },
            100.0 * NOISE
        ));
    }
    said
}

fn against_fixed(winner: &Contender, real: &[&Contender]) -> Option<String> {
    if winner.kind == Kind::Fixed {
        let scaling = || real.iter().filter(|policy| policy.kind != Kind::Fixed);
        let nearest = scaling().max_by(|one, other| attainment(one).total_cmp(&attainment(other)))?;
        if scaling().any(|policy| policy.meets_objective) {
            return Some("So scaling gains nothing here: a fleet of fixed size does as well for less.".to_owned());
        }
        return Some(format!(
            "No policy that scales meets it; {} comes closest with {} % at {} GPU-hours.",
            nearest.name,
            short_percent(attainment(nearest)),
            three(cost(nearest))
        ));
    }
    let mut fixed = real.iter().filter(|policy| policy.kind == Kind::Fixed).peekable();
    fixed.peek()?;
    Some(match fixed.find(|policy| policy.meets_objective) {
        Some(fixed) => {
            let saved = 100.0 * (1.0 - cost(winner) / cost(fixed));
            format!(
                "It saves {saved:.0} % of the GPU-hours of {} ({}), the cheapest fixed fleet here that meets the objective.",
                fixed.name,
                three(cost(fixed))
            )
        }
        None => "No fixed fleet of this comparison meets the objective.".to_owned(),
    })
}

/// Where most requests are late while the fleet is smaller than the load takes, and these times are shorter than a start, whoever only
/// reacts comes too late.
fn too_short_to_follow(setting: &Setting, best: &Contender) -> Option<String> {
    let (mut late, mut late_short, mut seconds, mut stretches) = (0, 0, 0.0, 0);
    for run in &best.runs {
        let (mut was_short, mut start) = (false, 0.0);
        for sample in &run.timeline {
            let short = sample.need > f64::from(sample.ready);
            late += sample.late;
            if short {
                late_short += sample.late;
                seconds += sample.at - start;
                stretches += u32::from(!was_short);
            }
            (was_short, start) = (short, sample.at);
        }
    }
    let mean = seconds / f64::from(stretches.max(1));
    (late > 0 && late_short * 2 > late && mean < setting.warmup_seconds).then(|| {
        format!(
            "{:.0} % of its late requests came while the load took more replicas than were ready, {} s at a time on average, and a replica \
             takes {} s to start: such bursts are over before help arrives. Raise the minimum, or shorten the warm-up.",
            100.0 * late_short as f64 / late as f64,
            count(mean.round()),
            count(setting.warmup_seconds),
        )
    })
}

fn foresight(setting: &Setting, chosen: &Contender, bound: &Bound, real: &[&Contender], limited: bool) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(times) = chosen.times_clairvoyant {
        if times <= 1.005 {
            said.push(format!("The search with foresight found nothing cheaper than {} for as much.", chosen.name));
        } else {
            let price = three(cost(chosen) / times);
            said.push(format!("With foresight the same would cost {price} GPU-hours; {} pays {} times that.", chosen.name, three(times)));
        }
    }
    let Some(limit) = bound.best().filter(|limit| limit.attainment < setting.objective) else { return said };
    let furthest = format!("Even foresight gets no further than {} %", short_percent(limit.attainment));
    said.push(if limited {
        format!("{furthest} with such a fleet: no policy can help there.")
    } else {
        format!(
            "{furthest} while a replica takes {} s to start: load comes and goes within that time. No policy can help there; raise the minimum, or shorten the warm-up.",
            count(setting.warmup_seconds),
        )
    });
    let higher = real.iter().find(|policy| policy.kind == Kind::Fixed && attainment(policy) > limit.attainment);
    said.extend(
        higher.map(|fixed| {
            format!("{} gets further: {} % at {} GPU-hours.", fixed.name, short_percent(attainment(fixed)), three(cost(fixed)))
        }),
    );
    said
}

/// How one of our own policies does against every other.
fn ours_against(ours: &Contender, chosen: &Contender, real: &[&Contender]) -> Vec<String> {
    let others = || real.iter().filter(|other| other.name != ours.name && other.kind != Kind::Ours);
    let beats = |one: &Contender, other: &Contender| attainment(one) >= attainment(other) && cost(one) <= cost(other) && !tie(one, other);
    let mut said = Vec::new();
    let better: Vec<&str> = others().filter(|other| beats(other, ours)).map(|other| other.name.as_str()).collect();
    let worse: Vec<&str> = others().filter(|other| beats(ours, other)).map(|other| other.name.as_str()).collect();
    if !better.is_empty() {
        said.push(format!("{} loses to {}: as many requests in time or more, for no more GPU-hours.", ours.name, list(&better)));
    }
    if !worse.is_empty() {
        said.push(format!("{} beats {}: as many requests in time or more, for no more GPU-hours.", ours.name, list(&worse)));
    }
    if ours.name != chosen.name && tie(ours, chosen) {
        said.push(format!("{} does what {} does, for as much.", ours.name, chosen.name));
    } else if ours.name != chosen.name {
        let dearer = 100.0 * (cost(ours) / cost(chosen) - 1.0);
        let points = 100.0 * (attainment(ours) - attainment(chosen));
        let way = if dearer >= 0.0 { "more" } else { "less" };
        said.push(format!(
            "Against {}, {} costs {:.0} % {way} for {:.2} points {} attainment.",
            chosen.name,
            ours.name,
            dearer.abs(),
            points.abs(),
            if points >= 0.0 { "more" } else { "less" },
        ));
    }
    said
}

/// What an average of the chosen policy hides.
fn restlessness(setting: &Setting, chosen: &Contender) -> Vec<String> {
    let (summary, mut said) = (&chosen.summary, Vec::new());
    if summary.worst_five_minutes.mean < setting.objective - 0.05 {
        said.push(format!(
            "The average hides a bad moment: in its worst five minutes {} kept the promises for {} % of the requests.",
            chosen.name,
            short_percent(summary.worst_five_minutes.mean)
        ));
    }
    if summary.killed.mean > 0.0 {
        let killed = match count(summary.killed.mean).as_str() {
            "1" => "1 request a run was".to_owned(),
            killed => format!("{killed} requests a run were"),
        };
        said.push(format!("{killed} cut off when their replica went; give pods a longer grace period."));
    }
    if summary.short_lived_pods.mean * 3.0 > summary.pods_started.mean && summary.pods_started.mean >= 3.0 {
        said.push(format!(
            "{} of the {} pods that it starts are gone within ten minutes: a longer window for scaling down would spare their warm-up.",
            count(summary.short_lived_pods.mean),
            count(summary.pods_started.mean)
        ));
    }
    said
}

pub fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::{comparison, outcome, setting};
    use super::super::{Bound, Comparison, Kind, Point};

    fn with(policies: &[(Kind, &str, f64, f64)], bound: Bound) -> Vec<String> {
        let runs = policies
            .iter()
            .map(|(kind, name, attainment, cost)| (*kind, [1, 2].map(|seed| outcome(name, seed, *attainment, *cost)).to_vec()));
        Comparison::new(setting(), runs.collect(), bound, Vec::new()).conclusions
    }

    #[test]
    fn the_cheapest_that_meets_the_objective_is_the_answer() {
        let said = comparison().conclusions;
        assert_eq!(
            said[0],
            "headroom 0.99 is the cheapest policy here that keeps both promises for 99 % of the requests: 99.6 % at 8.57 GPU-hours."
        );
        assert!(said.iter().any(|sentence| sentence.starts_with("It saves 29 % of the GPU-hours of static 6 (12.0)")), "{said:#?}");
        assert!(
            said.contains(
                &"headroom 0.99 beats in-flight 32 and static 6: as many requests in time or more, for no more GPU-hours.".to_owned()
            ),
            "{said:#?}"
        );
    }

    #[test]
    fn a_loss_is_called_a_loss() {
        let said = with(&[(Kind::Ours, "headroom 0.99", 0.992, 12.0), (Kind::Peer, "in-flight 32", 0.995, 10.0)], Bound::default());
        assert!(said[0].starts_with("in-flight 32 is the cheapest"));
        assert!(said.contains(&"headroom 0.99 loses to in-flight 32: as many requests in time or more, for no more GPU-hours.".to_owned()));
        assert!(
            said.contains(&"Against in-flight 32, headroom 0.99 costs 20 % more for 0.30 points less attainment.".to_owned()),
            "{said:#?}"
        );
    }

    #[test]
    fn where_scaling_gains_nothing_it_says_so() {
        let said = with(&[(Kind::Ours, "band", 1.0, 12.0), (Kind::Fixed, "static 4", 0.995, 10.0)], Bound::default());
        assert!(said[1].starts_with("So scaling gains nothing here"), "{said:#?}");
        let said = with(&[(Kind::Ours, "band", 0.98, 8.0), (Kind::Fixed, "static 4", 0.995, 10.0)], Bound::default());
        assert_eq!(said[1], "No policy that scales meets it; band comes closest with 98 % at 8.00 GPU-hours.");
    }

    #[test]
    fn where_foresight_does_not_help_it_says_what_does() {
        let bound = Bound::new(None, vec![Point { attainment: 0.878, gpu_hours: 31.7 }]);
        let said = with(&[(Kind::Ours, "band", 0.9, 85.0), (Kind::Fixed, "static 30", 0.955, 67.0)], bound);
        assert!(said[0].starts_with("No policy here keeps both promises for 99 % of the requests; static 30 comes closest with 95.5 %"));
        assert!(said.iter().any(|sentence| sentence.starts_with("Even foresight gets no further than 87.8 % while a replica takes 100 s")));
        assert!(said.contains(&"static 30 gets further: 95.5 % at 67.0 GPU-hours.".to_owned()), "{said:#?}");
    }

    #[test]
    fn bursts_shorter_than_a_start_are_called_by_their_name() {
        let said = |burst: usize| {
            let mut run = outcome("band", 1, 0.9, 85.0);
            for (index, sample) in run.timeline.iter_mut().enumerate() {
                (sample.need, sample.ready, sample.late) = if index % 6 < burst { (9.5, 3, 10) } else { (1.0, 3, 0) };
            }
            Comparison::new(setting(), vec![(Kind::Ours, vec![run])], Bound::default(), Vec::new()).conclusions
        };
        let expected = "100 % of its late requests came while the load took more replicas than were ready, 30 s at a time on average, \
                        and a replica takes 100 s to start";
        assert!(said(2).iter().any(|sentence| sentence.starts_with(expected)), "{:#?}", said(2));
        // Three minutes without end are long enough to be followed.
        assert!(!said(6).iter().any(|sentence| sentence.contains("bursts")));
    }

    #[test]
    fn near_equals_are_not_ranked() {
        let said = with(&[(Kind::Peer, "a", 0.995, 10.0), (Kind::Peer, "b", 0.996, 10.2)], Bound::default());
        assert!(said.iter().any(|sentence| sentence.starts_with("b costs within 3 % of that")), "{said:#?}");
    }

    #[test]
    fn a_tie_is_called_a_tie() {
        let said = with(&[(Kind::Ours, "headroom 0.99", 0.995, 10.0), (Kind::Ours, "mine", 0.995, 10.01)], Bound::default());
        assert!(said.contains(&"mine does what headroom 0.99 does, for as much.".to_owned()), "{said:#?}");
    }

    #[test]
    fn foresight_that_finds_nothing_better_says_so() {
        let bound = Bound::new(None, vec![Point { attainment: 0.995, gpu_hours: 10.0 }]);
        let said = with(&[(Kind::Ours, "band", 0.995, 10.0)], bound);
        assert!(said.contains(&"The search with foresight found nothing cheaper than band for as much.".to_owned()), "{said:#?}");
    }

    #[test]
    fn what_costs_nothing_is_no_multiple_of_nothing() {
        let said = with(&[(Kind::Ours, "band", 0.0, 0.0)], Bound::new(None, vec![Point { attainment: 0.0, gpu_hours: 0.0 }]));
        assert!(!said.iter().any(|sentence| sentence.contains("- ")), "{said:#?}");
    }

    #[test]
    fn without_requests_nothing_is_concluded() {
        let mut run = outcome("band", 2, f64::NAN, 8.0);
        run.offered = 0;
        let runs = vec![outcome("band", 1, 1.0, 8.0), run];
        let said = Comparison::new(setting(), vec![(Kind::Ours, runs)], Bound::default(), Vec::new()).conclusions;
        assert_eq!(said, ["With a seed not one request came, so nothing can be said; give more traffic."]);
    }

    #[test]
    fn one_request_that_was_cut_off_is_one() {
        let said = |killed: u64| {
            let mut run = outcome("band", 1, 1.0, 8.0);
            run.killed = killed;
            Comparison::new(setting(), vec![(Kind::Ours, vec![run])], Bound::default(), Vec::new()).conclusions
        };
        assert!(said(1).iter().any(|sentence| sentence.starts_with("1 request a run was cut off")), "{:#?}", said(1));
        assert!(said(2).iter().any(|sentence| sentence.starts_with("2 requests a run were cut off")), "{:#?}", said(2));
    }

    #[test]
    fn foresight_alone_is_no_answer() {
        let said = with(&[(Kind::Clairvoyant, "clairvoyant", 1.0, 7.0)], Bound::default());
        assert_eq!(said, ["Only foresight was simulated; add a policy to compare."]);
    }
}
