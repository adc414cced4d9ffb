//! Packs the generated sets of instances and reports how close to the strongest lower bound each rule comes:
//!
//! `packing_report [--sets panigrahy,mixed] [--moves 1000000] [--every 1] [--simple] [--output json]`
//!
//! `--every K` takes every K-th instance; `--simple` leaves out the bound by columns. Times are of one thread.

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use orlop_scheduler::packing::instances::{Instance, InstanceId, Set, generate};
use orlop_scheduler::packing::{Bound, Effort, Options, Rule, lower_bounds, pack};

/// What is compared, the default last.
const RULES: [(&str, Rule); 3] =
    [("ffd", Rule::first_fit_decreasing()), ("dot-product", Rule::dot_product()), ("auto", Rule::Auto)];

/// What is aimed at: set, rule, whether against the optimum or the bound, and the greatest ratio.
const TARGETS: [(Set, &str, bool, f64); 5] = [
    (Set::Panigrahy, "auto", false, 1.08),
    (Set::Mixed, "dot-product", false, 1.195),
    (Set::Mixed, "auto", false, 1.18),
    (Set::Triplets, "dot-product", true, 1.18),
    (Set::Triplets, "auto", true, 1.157),
];

struct Settings {
    sets: Vec<Set>,
    moves: u64,
    every: usize,
    effort: Effort,
    json: bool,
}

fn settings() -> Result<Settings> {
    let mut settings =
        Settings { sets: Set::ALL.to_vec(), moves: 1_000_000, every: 1, effort: Effort::Exact, json: false };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} wants a value"));
        match argument.as_str() {
            "--sets" => settings.sets = value()?.split(',').map(set).collect::<Result<_>>()?,
            "--moves" => settings.moves = value()?.parse().context("--moves")?,
            "--every" => settings.every = value()?.parse::<usize>().context("--every")?.max(1),
            "--simple" => settings.effort = Effort::Simple,
            "--output" => settings.json = value()? == "json",
            _ => bail!("unknown argument {argument}; the head of the source says what there is"),
        }
    }
    Ok(settings)
}

fn set(name: &str) -> Result<Set> {
    let known = || Set::ALL.map(Set::as_str).join(", ");
    Set::ALL
        .into_iter()
        .find(|set| set.as_str() == name)
        .with_context(|| format!("no set {name}; there are {}", known()))
}

/// Sums over the instances of a row of the report.
#[derive(Default)]
struct Sums {
    instances: usize,
    bounds: usize,
    bounded_by: BTreeMap<Bound, usize>,
    bound_time: Duration,
    bins: [usize; RULES.len()],
    time: [Duration; RULES.len()],
    /// Over the instances of known optimum: how many, the optima, and the bins of each rule.
    known: usize,
    optima: usize,
    bins_of_known: [usize; RULES.len()],
    /// Where the rule met the bound.
    proven: [usize; RULES.len()],
}

impl Sums {
    fn add(&mut self, instance: &Instance, settings: &Settings) -> Result<()> {
        let mut strongest = self.bound(instance, Effort::Simple)?;
        let mut bins = [0; RULES.len()];
        for (at, (_, rule)) in RULES.into_iter().enumerate() {
            let began = Instant::now();
            let options = Options::new().rule(rule).moves(settings.moves).effort(Effort::Simple);
            bins[at] = pack(&instance.items, &instance.capacity, options)?.bins;
            self.time[at] += began.elapsed();
        }
        let least = bins.into_iter().min().unwrap_or_default();
        // Columns are worth their time only where a simpler bound leaves a gap.
        if settings.effort == Effort::Exact && least > strongest.1 {
            strongest = self.bound(instance, Effort::Exact)?;
        }
        let optimum = instance.optimum.or((least == strongest.1).then_some(least));
        self.instances += 1;
        self.bounds += strongest.1;
        self.bounded_by.insert(strongest.0, 1);
        self.known += usize::from(optimum.is_some());
        self.optima += optimum.unwrap_or_default();
        for (at, bins) in bins.into_iter().enumerate() {
            self.bins[at] += bins;
            self.proven[at] += usize::from(bins == strongest.1);
            self.bins_of_known[at] += if optimum.is_some() { bins } else { 0 };
        }
        Ok(())
    }

    fn bound(&mut self, instance: &Instance, effort: Effort) -> Result<(Bound, usize)> {
        let began = Instant::now();
        let bounds = lower_bounds(&instance.items, &instance.capacity, effort, 0)?;
        self.bound_time += began.elapsed();
        bounds.into_iter().rev().max_by_key(|(_, bins)| *bins).context("there are bounds")
    }

    fn named(&self) -> String {
        let named = self.bounded_by.iter().map(|(bound, count)| format!("{bound} {count}"));
        named.collect::<Vec<_>>().join(", ")
    }

    fn ratio(of: usize, to: usize) -> String {
        if to == 0 { "-".to_owned() } else { format!("{:.4}", of as f64 / to as f64) }
    }

    fn text(&self, name: &str) -> Result<String> {
        let mut text = String::new();
        writeln!(
            text,
            "\n{name}: {} instances, Σ bound {} in {:.1?} ({})",
            self.instances,
            self.bounds,
            self.bound_time,
            self.named()
        )?;
        for (at, (rule, _)) in RULES.into_iter().enumerate() {
            let (to_bound, to_optimum) =
                (Self::ratio(self.bins[at], self.bounds), Self::ratio(self.bins_of_known[at], self.optima));
            writeln!(
                text,
                "  {rule:12} {:7} bins   ÷ bound {to_bound}   ÷ optimum {to_optimum} ({} known)   proven {:4}   {:.1?}",
                self.bins[at], self.known, self.proven[at], self.time[at],
            )?;
        }
        for (set, rule, to_optimum, most) in TARGETS.into_iter().filter(|(set, ..)| set.as_str() == name) {
            let at = RULES.iter().position(|(other, _)| *other == rule).unwrap_or_default();
            let (bins, to) =
                if to_optimum { (self.bins_of_known[at], self.optima) } else { (self.bins[at], self.bounds) };
            let met = if bins as f64 <= most * to as f64 { "met" } else { "missed" };
            writeln!(
                text,
                "  target of {set}: {rule} ≤ {most} of the {}: {met}",
                if to_optimum { "optimum" } else { "bound" }
            )?;
        }
        Ok(text)
    }

    fn json(&self, name: &str) -> serde_json::Value {
        let rules = RULES.into_iter().enumerate().map(|(at, (rule, _))| {
            serde_json::json!({
                "rule": rule, "bins": self.bins[at], "bins_of_known_optimum": self.bins_of_known[at],
                "proven": self.proven[at], "seconds": self.time[at].as_secs_f64(),
            })
        });
        let bounded_by: BTreeMap<&str, usize> =
            self.bounded_by.iter().map(|(bound, count)| (bound.as_str(), *count)).collect();
        serde_json::json!({
            "set": name, "instances": self.instances, "bound": self.bounds, "bounded_by": bounded_by,
            "bound_seconds": self.bound_time.as_secs_f64(), "known_optima": self.known, "sum_of_optima": self.optima,
            "rules": rules.collect::<Vec<_>>(),
        })
    }
}

/// The rows an instance counts for: its set, its class, and where simple bounds are weak the part that columns reach.
fn rows(id: InstanceId) -> Vec<String> {
    let mut rows = vec![id.set.to_string(), format!("{}/{}", id.set, id.class)];
    if id.set == Set::Panigrahy && id.class >= 8 && id.items <= 200 {
        rows.push(format!("{}/{}, n up to 200", id.set, id.class));
    }
    rows
}

fn main() -> Result<()> {
    let settings = settings()?;
    let mut table: BTreeMap<String, Sums> = BTreeMap::new();
    for id in settings.sets.iter().flat_map(|set| set.ids()).step_by(settings.every) {
        let instance = generate(id)?;
        let mut one = Sums::default();
        one.add(&instance, &settings)?;
        for row in rows(id) {
            table.entry(row).or_default().merge(&one);
        }
    }
    if settings.json {
        let rows: Vec<_> = table.iter().map(|(name, sums)| sums.json(name)).collect();
        println!("{}", serde_json::json!({ "moves": settings.moves, "every": settings.every, "rows": rows }));
    } else {
        println!("moves {}, every {}. instance", settings.moves, settings.every);
        for (name, sums) in &table {
            print!("{}", sums.text(name)?);
        }
    }
    Ok(())
}

impl Sums {
    fn merge(&mut self, other: &Self) {
        self.instances += other.instances;
        self.bounds += other.bounds;
        self.bound_time += other.bound_time;
        self.known += other.known;
        self.optima += other.optima;
        for (bound, count) in &other.bounded_by {
            *self.bounded_by.entry(*bound).or_default() += count;
        }
        for at in 0..RULES.len() {
            self.bins[at] += other.bins[at];
            self.time[at] += other.time[at];
            self.bins_of_known[at] += other.bins_of_known[at];
            self.proven[at] += other.proven[at];
        }
    }
}
