//! Warnings at submit: that no worker there is could ever run a job.

use std::collections::{BTreeSet, HashMap};

use orlop_core::id::JobId;
use orlop_scheduler::engine::WorkerFit;

use super::super::Explained;
use super::super::live::ByNumber;
use super::Core;

/// A finding is good for so long, in milliseconds.
const GOOD: u64 = 1000;
/// The most things named that workers lack.
const LACKS: usize = 3;
/// At most so many are worked out in that time; beyond it jobs are taken without a word.
const FINDINGS: u32 = 64;

/// What was found lately, by the number of a specification.
#[derive(Debug, Default)]
pub(in super::super) struct FeasibilityCache {
    since: u64,
    worked_out: u32,
    known: HashMap<u64, Option<String>, ByNumber>,
}

/// That no worker could ever run a job, and what the first of them lack.
fn never(explained: &Explained) -> String {
    let lacks: BTreeSet<String> =
        explained.explanation.workers.iter().flat_map(WorkerFit::lacks).map(|lack| lack.to_string()).collect();
    let some = lacks.iter().take(LACKS).cloned().collect::<Vec<_>>().join("; ");
    let (why, more) = match lacks.len() {
        0 => (explained.summary(), ""),
        1..=LACKS => (some, ""),
        _ => (some, " and more"),
    };
    format!("no worker could ever run it: {why}{more}; `orlop job get ID --explain` shows it worker by worker")
}

impl Core {
    /// What the client of new jobs should know: once for each specification.
    pub(super) fn warnings(&mut self, jobs: &[JobId]) -> Vec<String> {
        if self.now >= self.feasibility.since.saturating_add(GOOD) {
            self.feasibility = FeasibilityCache { since: self.now, ..FeasibilityCache::default() };
        }
        let mut warnings = Vec::new();
        let mut last = None;
        for job in jobs {
            let Some(number) = self.registry.jobs.get(*job).map(|live| live.spec.number) else { continue };
            // Of equal jobs, which come one after the other, the first says it all.
            if last.replace(number) == Some(number) {
                continue;
            }
            if !self.feasibility.known.contains_key(&number) {
                if self.feasibility.worked_out >= FINDINGS {
                    continue;
                }
                self.feasibility.worked_out += 1;
                let found = self.explained(*job).filter(|explained| explained.explanation.is_infeasible());
                let text = found.map(|explained| match explained.explanation.workers.is_empty() {
                    true => "no worker is registered yet".to_owned(),
                    false => never(&explained),
                });
                self.feasibility.known.insert(number, text);
            }
            if let Some(Some(text)) = self.feasibility.known.get(&number) {
                warnings.push(format!("job {job}: {text}"));
            }
        }
        warnings
    }
}
