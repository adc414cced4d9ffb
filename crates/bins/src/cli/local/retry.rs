//! A retry on this machine: the name of the new run, and artifacts that it takes over from the old one.

use orlop_cloud::artifact::{CasStore, Limits};
use orlop_core::event::FlowEvent;
use orlop_core::id::dns1123_subdomain;
use orlop_core::name::repeated;
use orlop_core::spec::flow::RetryOf;
use orlop_core::spec::status::ArtifactLocation;
use orlop_dag::repeat::{Parent, Wanted, imports, is_of, may_repeat, no_step};
use serde_json::json;

use super::super::drive::Drive;
use super::super::failure::{Exit, Failure};
use super::super::globals::{GlobalArgs, Target};
use super::super::manifest;
use super::super::retry::RetryArgs;
use super::super::run::{New, cpus, start};
use super::super::setup::host_paths;
use super::super::stored::Stored;
use crate::host::flow::Submission;
use crate::host::home::RunDir;

/// Runs again what failed.
///
/// # Errors
/// When the run is not there or has not ended, or the new one cannot be begun.
pub(super) async fn retry(args: &RetryArgs) -> Result<Exit, Failure> {
    let old = args.globals.existing(&args.name)?;
    let stored = Stored::read(&old).await?;
    let name = stored.record.flow.metadata.name.clone();
    may_repeat(&name, stored.state.phase(), &args.step, args.force)
        .map_err(|message| Failure::new(Exit::Conflict, message))?;
    let mut setup = stored.setup()?;
    // Without a wish it runs as the old one did.
    if matches!(args.globals.target, Target::Process | Target::Docker) {
        setup.runtime = args.globals.target.runtime();
    }
    setup.allow_host_path.extend(host_paths(&args.allow_host_path)?);
    let globals = GlobalArgs { run_dir: args.new_run_dir.clone(), ..args.globals.clone() };
    let changed = match &args.file {
        Some(file) => Some(manifest::one(file, manifest::limits(&setup, false), Some(&name))?),
        None => None,
    };
    let plan = changed.as_ref().map_or(&stored.plan, |changed| &changed.plan);
    if let (Some(file), Err(why)) = (&args.file, is_of(&name, plan, &stored.plan)) {
        return Err(Failure::usage(format!("{}: {why}", file.display())));
    }
    if let Some(step) = args.step.iter().find(|step| plan.index_of(step).is_none()) {
        return Err(Failure::new(Exit::NotFound, no_step(&name, step, |step| plan.is_fan_out(step))));
    }
    let parent = Parent { plan: &stored.plan, state: &stored.state };
    let (mut flow, mut parameters) = match &changed {
        Some(changed) => (changed.manifest.flow.clone(), parent.given_parameters(plan)),
        None => (stored.record.flow.clone(), stored.options()?.meta.parameters),
    };
    flow.metadata.namespace.clone_from(&stored.record.flow.metadata.namespace);
    flow.metadata.name = match &args.new_name {
        Some(name) => name.clone(),
        None => free_name(&globals, &name)?,
    };
    dns1123_subdomain(&flow.metadata.name).map_err(|error| Failure::usage(error.to_string()))?;
    flow.spec.retry_of = Some(RetryOf {
        name,
        uid: stored.record.uid.clone(),
        steps: args.step.clone(),
        force: args.force.then_some(true),
    });
    flow.spec.stop = None;
    flow.spec.suspend = None;
    parameters.extend(args.param.iter().cloned());
    let first = imports(plan, parent, Wanted { steps: &args.step, parameters: &parameters });
    let new = New {
        submission: Submission {
            parameters,
            max_live: Some(args.jobs.unwrap_or_else(cpus)),
            driver: json!(setup),
            ..Submission::new(flow, uuid::Uuid::new_v4())
        },
        hand_over: Some(HandOver::of(old, &first)),
        first,
        images: manifest::has_images(plan),
        setup,
    };
    let drive = Drive { progress: args.progress, output: args.output, leave_when_paused: false };
    start(&globals, new, &drive).await
}

/// The old name with the first free number behind it.
fn free_name(globals: &GlobalArgs, name: &str) -> Result<String, Failure> {
    let stem = repeated(name);
    for number in 2..10_000 {
        let name = format!("{stem}-r{number}");
        if globals.run_dir.is_some() || !globals.run(&name)?.exists() {
            return Ok(name);
        }
    }
    Err(Failure::new(Exit::Conflict, format!("`{stem}` was retried too often; give a name with --name")))
}

/// Artifacts that go from an old run to a new one.
pub(in crate::cli) struct HandOver {
    old: RunDir,
    locations: Vec<ArtifactLocation>,
}

impl HandOver {
    /// Those that imported steps hand over.
    fn of(old: RunDir, imports: &[FlowEvent]) -> Self {
        let locations = imports.iter().flat_map(|event| match event {
            FlowEvent::Import { outputs, .. } => {
                outputs.artifacts.iter().filter_map(|record| record.location.clone()).collect()
            }
            _ => Vec::new(),
        });
        Self { locations: locations.collect(), old }
    }

    /// Takes them into the store of the new run, whose lock the caller holds. One that is gone is missed by anyone who reads
    /// it.
    ///
    /// # Errors
    /// When they cannot be written.
    pub(in crate::cli) async fn carry(&self, new: &RunDir, limits: Limits) -> Result<(), Failure> {
        if self.locations.is_empty() {
            return Ok(());
        }
        let store = CasStore::open(new.path(), limits)?;
        for location in &self.locations {
            store.take_over(self.old.path(), location).await?;
        }
        Ok(())
    }
}
