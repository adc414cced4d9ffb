//! Described repositories, written anew in the manner of public ones, each with what its own documentation asks for, and a
//! verdict on what the analysis makes of it. Every third by name is held back while rules are written and
//! scored afterwards.
//!
//! Words of `asks`: `gpu`, `cpu`, `gpu?` (either will do), `tpu` (nothing at any site; must be reported), `unknown` (nobody says;
//! has to be told), `nvidia` and `amd`, `vram=`, `count=`, `cores=`, `ram=`, `disk=`, `hours=`, `arch=`, `infiniband`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::analysed;
use crate::analyze::{Analysis, Feature};
use crate::catalog::embedded;
use crate::provision::plan::{PlanError, Request, World, plan};

#[derive(Deserialize)]
struct Corpus {
    repository: Vec<Described>,
}

#[derive(Deserialize)]
struct Described {
    after: String,
    asks: String,
    files: BTreeMap<String, String>,
}

/// What a machine by the analysis would be to its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Adequacy {
    Sufficient,
    Wasteful,
    Insufficient,
}

struct Judged {
    after: String,
    verdict: Adequacy,
    why: String,
    got: String,
}

fn corpus(texts: &[&str]) -> Vec<Described> {
    let mut all: Vec<Described> =
        texts.iter().flat_map(|text| toml::from_str::<Corpus>(text).unwrap().repository).collect();
    all.sort_by(|a, b| a.after.cmp(&b.after));
    all
}

/// Every third by name is held back.
fn parts() -> (Vec<Described>, Vec<Described>) {
    let texts = [include_str!("learning.toml"), include_str!("others.toml"), include_str!("research.toml")];
    let (held, seen): (Vec<_>, Vec<_>) = corpus(&texts).into_iter().enumerate().partition(|(index, _)| index % 3 == 2);
    (seen.into_iter().map(|(_, one)| one).collect(), held.into_iter().map(|(_, one)| one).collect())
}

fn number(asks: &str, key: &str) -> u32 {
    asks.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('=')).map_or(0, |text| text.parse().unwrap())
}

/// What is missing, and what is far more than was asked for.
fn compared(asks: &str, analysis: &Analysis) -> (Vec<String>, Vec<String>) {
    let r = &analysis.requirements;
    let has = |word: &str| asks.split(' ').any(|asked| asked == word);
    let (mut missing, mut wasted) = (Vec::new(), Vec::new());
    // Beyond how many times what was asked for, or a usual machine, it is waste.
    for (name, got, usual, times) in [
        ("cores", r.cpu_cores.target, 4, 4),
        ("ram", r.ram_gb.target, 16, 4),
        ("disk", r.disk_gb.target, 50, 10),
        ("hours", r.duration_hours.target, 24, 4),
    ] {
        let (got, asked) = (got.unwrap_or(0), number(asks, name));
        if got < asked {
            missing.push(format!("{name} {got} of {asked}"));
        } else if got > times * asked.max(usual) {
            wasted.push(format!("{name} {got} for {asked}"));
        }
    }
    match (r.wants_gpu(), has("gpu"), has("cpu")) {
        (false, true, _) => missing.push("no GPU".to_owned()),
        (true, _, true) => wasted.push("a GPU".to_owned()),
        (true, true, _) => cards(asks, analysis, &mut missing, &mut wasted),
        _ => {}
    }
    if has("tpu") && !r.flags.iter().any(|flag| flag.contains("TPU")) {
        missing.push("no word of the TPU".to_owned());
    }
    if has("unknown") && !r.flags.iter().any(|flag| flag.contains("gpu-unknown")) {
        missing.push("no word that nothing is known".to_owned());
    }
    if has("infiniband") && !r.features.target.iter().flatten().any(|feature| *feature == Feature::Infiniband) {
        missing.push("no InfiniBand".to_owned());
    }
    if r.arch.target == Some("aarch64") {
        missing.push("another architecture".to_owned());
    }
    (missing, wasted)
}

fn cards(asks: &str, analysis: &Analysis, missing: &mut Vec<String>, wasted: &mut Vec<String>) {
    let r = &analysis.requirements;
    for (name, got, usual) in [("vram", r.gpu_memory_gb.target, 8), ("count", r.gpu_count.target, 1)] {
        let (got, asked) = (got.unwrap_or(0), number(asks, name));
        if got < asked {
            missing.push(format!("{name} {got} of {asked}"));
        } else if got > 3 * asked.max(usual) {
            wasted.push(format!("{name} {got} for {asked}"));
        }
    }
    let vendor = r.gpu_vendor.target.map(|vendor| vendor.to_string()).unwrap_or_default();
    if asks.split(' ').any(|word| ["amd", "nvidia"].contains(&word) && word != vendor) {
        missing.push(format!("cards of {vendor}"));
    }
}

fn judged(one: &Described) -> Judged {
    let files: Vec<(&str, &str)> = one.files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let analysis = analysed(&files);
    let (mut missing, wasted) = compared(&one.asks, &analysis);
    let catalogue = embedded();
    let sites = ["uc", "tacc", "nu", "ncar", "nrp"].map(str::to_owned).to_vec();
    let request = Request { sites, ..Request::new("2026-01-05T14:02:00Z".parse().unwrap()) };
    match plan(&analysis, &World { catalogue: &catalogue, allocations: None, images: None }, &request) {
        Ok(_) => {}
        Err(PlanError::Misfit(_)) => missing.push("no plan".to_owned()),
        Err(error) => missing.push(error.to_string()),
    }
    let (verdict, why) = match (missing.is_empty(), wasted.is_empty()) {
        (false, _) => (Adequacy::Insufficient, missing.join(", ")),
        (true, false) => (Adequacy::Wasteful, wasted.join(", ")),
        (true, true) => (Adequacy::Sufficient, String::new()),
    };
    Judged { after: one.after.clone(), verdict, why, got: got(&analysis) }
}

/// What the analysis makes of it, in short.
fn got(analysis: &Analysis) -> String {
    let r = &analysis.requirements;
    let part = |value: Option<u32>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let cards = match r.gpu_vendor.target {
        Some(vendor) if r.wants_gpu() => {
            let hard = if r.gpu_required.hard == Some(true) { "!" } else { "" };
            format!(" {} x {} GB of {vendor}{hard}", part(r.gpu_count.target), part(r.gpu_memory_gb.target))
        }
        _ => String::new(),
    };
    format!(
        "{}/{}/{}/{}{cards}",
        part(r.cpu_cores.target),
        part(r.ram_gb.target),
        part(r.disk_gb.target),
        part(r.duration_hours.target)
    )
}

fn count(all: &[Judged], verdict: Adequacy) -> usize {
    all.iter().filter(|one| one.verdict == verdict).count()
}

/// At least nine of ten get a sufficient machine, and at most one of ten a wasteful one.
fn hold_to_the_promise(all: &[Judged]) {
    assert!(count(all, Adequacy::Sufficient) * 10 >= all.len() * 9, "{}", table(all));
    assert!(count(all, Adequacy::Wasteful) * 10 <= all.len(), "{}", table(all));
}

/// The verdicts, counted and one by one.
fn table(all: &[Judged]) -> String {
    let [good, waste, bad] =
        [Adequacy::Sufficient, Adequacy::Wasteful, Adequacy::Insufficient].map(|verdict| count(all, verdict));
    let line = |one: &Judged| {
        let why = if one.why.is_empty() { String::new() } else { format!(" ({})", one.why) };
        format!("{:44} {:?}{why}: {}", one.after, one.verdict, one.got)
    };
    let lines = all.iter().map(line).collect::<Vec<_>>().join("\n");
    format!("{good} sufficient, {waste} wasteful, {bad} insufficient of {}\n{lines}", all.len())
}

#[test]
fn verdicts_on_described_repositories() {
    let (seen, _) = parts();
    let all: Vec<Judged> = seen.iter().map(judged).collect();
    insta::assert_snapshot!(table(&all));
    hold_to_the_promise(&all);
}

#[test]
fn verdicts_on_repositories_that_are_held_back() {
    let (seen, held) = parts();
    assert!(seen.len() + held.len() >= 80, "{} repositories", seen.len() + held.len());
    let all: Vec<Judged> = held.iter().map(judged).collect();
    insta::assert_snapshot!(table(&all));
    hold_to_the_promise(&all);
}

#[test]
fn verdicts_on_repositories_described_after_the_rules() {
    let all: Vec<Judged> = corpus(&[include_str!("later.toml")]).iter().map(judged).collect();
    insta::assert_snapshot!(table(&all));
    hold_to_the_promise(&all);
}
