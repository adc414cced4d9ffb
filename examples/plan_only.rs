//! Plans a flow and runs nothing: `plan_only [FILE]` shows its waves and its longest path.

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::sync::Arc;

use anyhow::{Context, Result};
use orlop_core::attempt::StepIndex;
use orlop_dag::manifest::{Limits, Options, read};
use orlop_dag::plan::Plan;

fn main() -> Result<()> {
    let (file, text) = match std::env::args().nth(1) {
        Some(file) => (file.clone(), std::fs::read_to_string(&file).context(file)?),
        None => ("tour.yaml".to_owned(), include_str!("flows/tour.yaml").to_owned()),
    };
    let mut options = Options::new(Limits::elsewhere());
    options.limits.image_optional = true;
    let reading = read(&file, text, &options)?;
    if !reading.warnings.violations.is_empty() {
        println!("{}\n", reading.warnings);
    }
    for manifest in &reading.manifests {
        let spec = Arc::new(manifest.flow.spec.clone());
        let plan = Plan::build(spec).with_context(|| format!("{file} cannot be planned"))?;
        show(&plan);
    }
    Ok(())
}

fn show(plan: &Plan) {
    let ranks = plan.ranks();
    let names = |steps: &[u32]| steps.iter().map(|step| plan.name(StepIndex(*step))).collect::<Vec<_>>();
    println!("{} steps, {} edges", plan.len(), plan.edges());
    // The waves of `finally` come after all others.
    let is_last = |wave: &Vec<u32>| wave.iter().all(|step| *step as usize >= plan.main_len());
    let (last, waves): (Vec<_>, Vec<_>) = ranks.waves().into_iter().partition(is_last);
    for (number, wave) in waves.iter().enumerate() {
        println!("wave {}: {}", number + 1, names(wave).join(", "));
    }
    if !last.is_empty() {
        println!("at the end: {}", names(&last.concat()).join(", "));
    }
    println!("longest path: {}", names(&ranks.critical_path).join(" -> "));
}
