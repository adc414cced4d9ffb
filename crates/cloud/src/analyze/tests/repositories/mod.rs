//! Whole repositories of many kinds, each with the hard facts and ranges expected of it. Owns the corpus; the same corpus is put
//! before hostile models.

mod compiled;
mod learning;
mod numeric;
mod services;
mod words;

use super::{analysed, broken};
use crate::analyze::requirements::LOW_CONFIDENCE;
use crate::catalog::embedded;
use crate::provision::plan::{PlanError, Request, World, plan};

/// A repository: its name, its files, and what is expected in the words of `expect`.
pub(in crate::analyze) type Repository = (&'static str, &'static [(&'static str, &'static str)], &'static str);

/// All of them.
pub(in crate::analyze) fn all() -> Vec<Repository> {
    [learning::ALL, numeric::ALL, compiled::ALL, services::ALL, words::ALL].concat()
}

#[test]
fn sixty_repositories_have_their_hard_facts_and_ranges() {
    let all = all();
    let mut wrong = Vec::new();
    for (name, files, wanted) in &all {
        let analysis = analysed(files);
        let broken = broken(&analysis, wanted);
        if !broken.is_empty() {
            let shown = serde_json::to_string(&analysis).unwrap();
            wrong.push(format!("{name}: {broken:?}\n  {shown}\n  {:?}", analysis.notes));
        }
        assert!(wanted.split(' ').count() >= 4, "{name} expects too little");
    }
    assert!(wrong.is_empty(), "{} are not as expected:\n{}", wrong.len(), wrong.join("\n"));
    let mut names: Vec<_> = all.iter().map(|(name, _, _)| *name).collect();
    names.sort_unstable();
    names.dedup();
    assert!(names.len() >= 60 && names.len() == all.len(), "{} repositories of {} names", all.len(), names.len());
}

#[test]
fn every_repository_gets_a_server_that_exists_or_the_reason_why_not() {
    let catalogue = embedded();
    let sites = ["uc", "tacc", "nu", "ncar", "nrp"].map(str::to_owned).to_vec();
    let request = Request { sites, attempts: 100, ..Request::new("2026-01-05T14:02:00Z".parse().unwrap()) };
    for (name, files, _) in all() {
        let analysis = analysed(files);
        let needs = &analysis.requirements;
        let world = World { catalogue: &catalogue, allocations: None, images: None };
        let planned = match plan(&analysis, &world, &request) {
            Ok(planned) => planned,
            Err(PlanError::Misfit(misfit)) => {
                // The largest card of the table has 94 GB of NVIDIA's, 32 of AMD's.
                assert!(
                    needs.gpu_memory_gb.target > Some(32) || needs.features.target != Some(Vec::new()),
                    "{name}: {misfit}"
                );
                continue;
            }
            Err(error) => panic!("{name}: {error}"),
        };
        assert_eq!(
            planned.warnings.iter().any(|warning| warning.starts_with("low")),
            needs.has_flag(LOW_CONFIDENCE),
            "{name}"
        );
        for offering in &planned.offerings {
            let exists = catalogue.at(&offering.site).any(|variant| variant.node_type == offering.node_type);
            assert!(exists, "{name}: {} at {}", offering.node_type, offering.site);
            let cards = offering.hardware.cards.as_ref();
            assert!(
                !needs.wants_gpu() || cards.is_some_and(|cards| Some(cards.vendor) == needs.gpu_vendor.target),
                "{name}"
            );
            assert!(
                cards.is_none_or(|cards| !needs.wants_gpu() || Some(cards.memory_gb) >= needs.gpu_memory_gb.target),
                "{name}"
            );
            assert!(Some(offering.hardware.threads) >= needs.cpu_cores.hard, "{name}");
            assert!(Some(offering.hardware.ram_gib) >= needs.ram_gb.hard, "{name}");
        }
    }
}
