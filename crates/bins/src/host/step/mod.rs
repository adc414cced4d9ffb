//! The runner of a step on a worker: what a job with the command `orlop-step` becomes. It runs one attempt as a flow on one
//! machine would, with the same substrate, hands the attempt's output on as its own, and tells how it ended. Knows no server.
//!
//! Its work is below the directory of the job, which the agent removes. The agent has put the artifacts that the step needs
//! there, and stores those that it leaves. Claims of a flow are in the worker's directory of flows, so that later steps on
//! this worker find them.

mod logs;
mod result;
mod volumes;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use orlop_cloud::artifact::{CasStore, Limits};
use orlop_cloud::runtime::plan::{JobTemplate, TemplatePolicy};
use orlop_core::attempt::{ArtifactDelivery, ArtifactSource, AttemptEnd, EndResult};
use orlop_core::error::{Class, Problem};
use orlop_core::ports::substrate::{FlowOwner, Substrate};
use orlop_core::spec::flow::{ResourceTemplates, template_name};
use orlop_dag::manifest::substrate::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use self::logs::Forward;
pub use self::volumes::keep as keep_volumes;
use super::flow::fleet::{GIVEN, LEFT, StepBackend, StepOrder, VARIABLE};
use super::flow::resource_name;
use super::home::RunDir;
use super::local::{LocalSetup, own_supervisor};

/// The hidden argument under which a program is the runner of a step; the worker's directory of flows, the mark of its
/// containers, and the address of its container engine follow.
pub const ARGUMENT: &str = "__step";

/// Exit code of an attempt that was asked to end: as a shell shows SIGTERM.
const CANCELLED: u8 = 143;

/// What the runner learns of its worker.
#[derive(Debug)]
struct Worker {
    /// Where claims of flows are.
    flows: PathBuf,
    /// By what the worker knows its containers.
    mark: String,
    /// Address of its container engine; none: where engines are looked for.
    engine: Option<String>,
}

/// Runs the step of this process's environment. `arguments` are those after [`ARGUMENT`].
#[must_use]
pub fn main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let flows = arguments.next().map_or_else(|| PathBuf::from("flows"), PathBuf::from);
    let mut text = || arguments.next().map(|text| text.to_string_lossy().into_owned()).unwrap_or_default();
    let worker = Worker { flows, mark: text(), engine: Some(text()).filter(|address| !address.is_empty()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = runtime.map_err(Problem::from).and_then(|runtime| {
        let done = runtime.block_on(run(&worker));
        // Work on blocking threads that nobody waits for must not hold the program.
        runtime.shutdown_background();
        done
    });
    match done {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            drop(io::Write::write_all(&mut io::stderr(), format!("the step cannot be run: {failure}\n").as_bytes()));
            ExitCode::FAILURE
        }
    }
}

fn variable(name: &'static str) -> Result<String, Problem> {
    let unset = || format!("the variable {name} is not set: this program is started by an agent");
    std::env::var(name).map_err(|_| Problem::new(Class::Invalid, unset()))
}

async fn run(worker: &Worker) -> Result<u8, Problem> {
    let order = StepOrder::decode(&variable(VARIABLE)?)?;
    let output = PathBuf::from(variable("ORLOP_OUTPUT")?);
    let run = RunDir::new(std::env::current_dir()?.join(".step"));
    std::fs::create_dir_all(run.path())?;
    let end = match attempt(&order, worker, &run).await {
        Ok(end) => end,
        // The step failed, not its runner: retrying it is up to its flow.
        Err(error) => result::refused(&error),
    };
    result::write(&output, &end)?;
    Ok(code(&end))
}

/// Runs the attempt to its end.
async fn attempt(order: &StepOrder, worker: &Worker, run: &RunDir) -> Result<AttemptEnd, Problem> {
    let spec = &order.attempt;
    let (given, left) = (run.path().with_file_name(GIVEN), run.path().with_file_name(LEFT));
    take_in(&spec.inputs, run, &given).await?;
    beneath(&worker.flows, &[&spec.key.flow])?;
    let volumes = volumes::of(&beneath(&worker.flows, &[&spec.namespace])?, &spec.key.flow);
    std::fs::create_dir_all(&volumes)?;
    let secrets = std::env::var_os("ORLOP_SECRETS_DIR").map(PathBuf::from);
    let setup = LocalSetup {
        runtime: match order.backend {
            StepBackend::Docker => Runtime::ByImage,
            StepBackend::Process => Runtime::Process,
        },
        volumes_dir: Some(volumes.clone()),
        secrets_dir: secrets,
        labels: labels(&worker.mark),
        // Flows of the same name may be of several tenants.
        prefix: format!("{}-", attempt_text()),
        engine: worker.engine.clone(),
        ..LocalSetup::default()
    };
    let template = JobTemplate::read(&spec.template, &TemplatePolicy::default())?;
    let images = template.pod.containers().any(|container| container.image.is_some());
    let substrate = setup.substrate(run.path(), own_supervisor()?, images).await?;
    resources(order, substrate.as_ref(), &volumes).await?;
    let forward = Forward::begin(&run.logs().join(spec.key.instance()), spec.key.attempt)?;
    let end = tokio::select! {
        end = drive(order, &substrate) => end?,
        () = volumes::use_them(&volumes) => return Err(Problem::new(Class::Fatal, "the step is not driven any more")),
    };
    forward.finish().await;
    hand_on(&end, run, &left).await?;
    if let Err(error) = substrate.forget(&spec.key).await {
        tracing::warn!(error = error.chain(), "what is left of the attempt cannot be deleted");
    }
    Ok(end)
}

/// The attempt of the job that this is, as its worker names it.
fn attempt_text() -> String {
    let part = |name: &str| std::env::var(format!("ORLOP_{name}")).unwrap_or_default();
    ["JOB_ID", "INDEX", "MEMBER", "ATTEMPT", "EPOCH"].map(part).join(".")
}

/// What containers of this attempt are known by to its worker, which removes them should this program be killed.
#[cfg(feature = "docker")]
fn labels(mark: &str) -> BTreeMap<String, String> {
    use orlop_cloud::runtime::worker::docker::made_by;
    use orlop_core::task::TaskRef;
    attempt_text().parse::<TaskRef>().map(|id| made_by(mark, &id)).unwrap_or_default()
}

/// Without containers there are none to be known.
#[cfg(not(feature = "docker"))]
fn labels(_mark: &str) -> BTreeMap<String, String> {
    BTreeMap::new()
}

/// Takes the artifacts that the agent has put there into the store of the attempt. One that is missing fails its delivery.
async fn take_in(inputs: &[ArtifactDelivery], run: &RunDir, given: &Path) -> Result<(), Problem> {
    let store = CasStore::open(run.path(), Limits::default())?;
    for input in inputs {
        if let ArtifactSource::Stored { location, .. } = &input.source {
            store.take_over(given, location).await?;
        }
    }
    Ok(())
}

/// Puts the artifacts that the attempt has left where the agent looks for them.
async fn hand_on(end: &AttemptEnd, run: &RunDir, left: &Path) -> Result<(), Problem> {
    if end.artifacts.is_empty() {
        return Ok(());
    }
    std::fs::create_dir_all(left)?;
    let store = CasStore::open(left, Limits::default())?;
    for location in end.artifacts.iter().filter_map(|artifact| artifact.location.as_ref()) {
        store.take_over(run.path(), location).await?;
    }
    Ok(())
}

/// A directory below another one, by plain names.
fn beneath(directory: &Path, names: &[&str]) -> Result<PathBuf, Problem> {
    let mut path = directory.to_owned();
    for name in names {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
            let message = format!("`{name}` cannot be the name of a directory");
            return Err(Problem::new(Class::Invalid, message).with_reason("TemplateInvalid"));
        }
        path.push(name);
    }
    Ok(path)
}

/// Makes the ConfigMaps of the flow for this attempt, and its claims on this worker if they are not there.
async fn resources(order: &StepOrder, substrate: &dyn Substrate, volumes: &Path) -> Result<(), Problem> {
    let Some(templates) = &order.templates else { return Ok(()) };
    let spec = &order.attempt;
    let owner =
        FlowOwner { uid: spec.key.flow.to_string(), name: spec.flow_name.clone(), namespace: spec.namespace.clone() };
    let configs = ResourceTemplates { volume_claim_templates: Vec::new(), ..templates.clone() };
    substrate.ensure_resources(&owner, &configs).await?;
    for template in &templates.volume_claim_templates {
        let name = resource_name(&spec.flow_name, template_name(template).unwrap_or_default());
        let path = volumes.join(name);
        std::fs::create_dir_all(&path)?;
        // Steps may run as any user, as on a cluster whose volumes let all in.
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
    }
    Ok(())
}

/// Starts the attempt and waits for its end; asked to end, it passes that on.
async fn drive(order: &StepOrder, substrate: &Arc<dyn Substrate>) -> Result<AttemptEnd, Problem> {
    let spec = &order.attempt;
    let mut terminate = signal(SignalKind::terminate())?;
    substrate.start(spec.clone()).await?;
    loop {
        tokio::select! {
            report = substrate.next() => return Ok(report.end),
            _ = terminate.recv() => substrate.cancel(&spec.key, None).await?,
        }
    }
}

/// The exit code of the job: that of the step's last container where it failed by one.
fn code(end: &AttemptEnd) -> u8 {
    match &end.result {
        EndResult::Succeeded => 0,
        EndResult::Cancelled => CANCELLED,
        EndResult::Failed { .. } | EndResult::Gone | EndResult::Lost => {
            let last = end.failed_pods.last().and_then(|pod| pod.containers.last());
            let code = last.and_then(|container| u8::try_from(container.exit_code).ok());
            code.filter(|code| *code != 0).unwrap_or(1)
        }
    }
}
