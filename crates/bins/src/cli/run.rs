//! `orlop run`: a flow on this machine until it has ended. Owns names, directories and the choice between a new run and
//! an old one; the driving is in `drive`, the order of several in `several`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use orlop_cloud::store::sqlite::{Access, SqliteJournal};
use orlop_core::error::Problem;
use orlop_core::event::FlowEvent;
use orlop_core::id::dns1123_subdomain;
use orlop_core::ports::journal::FlowJournal as _;
use orlop_core::spec::flow::{FlowSpec, JobFlow};
use orlop_core::spec::status::Decision;
use orlop_dag::gate::key_of;
use orlop_dag::plan::Plan;
use serde_json::json;

use super::drive::{Drive, Driven};
use super::failure::{Exit, Failure};
use super::globals::GlobalArgs;
use super::local::HandOver;
use super::manifest::{self, Loaded};
use super::output::{self, Format};
use super::progress::Progress;
use super::setup::{SetupArgs, flow_name, pair};
use super::stored::Stored;
use super::{local, resume, several};
use crate::host::concurrency_key::KeyClaim;
use crate::host::control::caller;
use crate::host::flow::{Clock as _, FlowCommand, FlowHost, HostParts, Submission, SystemClock};
use crate::host::home::{Door, Home, RunDir, RunLock};
use crate::host::local::{LocalSetup, NO_ENGINE, NOT_BUILT, processes};
use crate::view::name::RunName;

/// Options of `orlop run`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  orlop run flow.yaml --target process -p env=dev
  orlop run flow.yaml --name nightly-7 --auto-approve release
  orlop run --resume --name nightly-7
  cat flow.yaml | orlop run - --run-dir ./run -o json

Interrupt once (Ctrl-C or SIGTERM) to stop: live attempts finish and `finally` runs. Interrupt twice to cancel live
attempts, three times to leave them running; `--resume` continues a run whose process is gone.")]
pub(super) struct RunArgs {
    /// File with the flow, YAML or JSON; `-` is standard input. Several flows of a file run one after the other
    #[arg(required_unless_present = "resume")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub globals: GlobalArgs,
    #[command(flatten)]
    pub setup: SetupArgs,
    /// Name of the run, in place of the one in the file; of several flows in a file, the one to run
    #[arg(long, value_parser = flow_name)]
    pub name: Option<String>,
    /// Value of a parameter (repeatable)
    #[arg(short, long = "param", value_name = "NAME=VALUE", value_parser = pair)]
    pub param: Vec<(String, String)>,
    /// Attempts that run at once [default: number of CPUs]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub jobs: Option<u32>,
    /// Resume a run whose process is gone; with FILE, start it where nothing was recorded
    #[arg(long)]
    pub resume: bool,
    /// Approve this Manual step when it is reached (repeatable)
    #[arg(long, value_name = "STEP")]
    pub auto_approve: Vec<String>,
    /// Of several flows in a file, run the rest also when one Failed
    #[arg(long)]
    pub keep_going: bool,
    /// Keep containers and private directories of steps that have ended, and the run itself: without a --name it is deleted 30 days
    /// after its end
    #[arg(long)]
    pub keep: bool,
    /// Exit with code 10 when the flow can only continue after a decision of a person
    #[arg(long)]
    pub no_wait_approval: bool,
    /// Treat warnings as errors
    #[arg(long)]
    pub strict: bool,
    /// How progress is shown
    #[arg(long, value_enum, ignore_case = true, default_value_t)]
    pub progress: Progress,
    /// Form of the result
    #[arg(short, long, value_enum, ignore_case = true, default_value_t)]
    pub output: Format,
    /// Options that stood on the command line.
    #[arg(skip)]
    pub given: BTreeSet<String>,
}

/// Options that only runs on this machine read.
const LOCAL_ONLY: [&str; 13] = [
    "home",
    "run_dir",
    "secrets_dir",
    "configs_dir",
    "volumes_dir",
    "allow_host_path",
    "workdir",
    "pull",
    "allow_privileged",
    "job_backoff_default",
    "artifact_max_bytes",
    "jobs",
    "keep",
];

impl RunArgs {
    /// Refuses options that a run elsewhere would ignore.
    ///
    /// # Errors
    /// One of them stood on the command line.
    pub(super) fn not_local(&self) -> Result<(), Failure> {
        let Some(given) = LOCAL_ONLY.iter().find(|id| self.given.contains(**id)) else { return Ok(()) };
        let option = given.replace('_', "-");
        Err(Failure::usage(format!(
            "--{option} is for runs on this machine alone; leave it out, or run with --target local"
        )))
    }
}

/// Runs the flow of a file or several of them, or goes on with a run.
///
/// # Errors
/// When one cannot be begun or gone on with.
pub(super) async fn run(args: RunArgs) -> Result<Exit, Failure> {
    let Some(file) = &args.file else { return resume_named(&args).await };
    let setup = args.setup.setup(args.globals.target, args.file.as_deref())?;
    let mut flows = manifest::chosen(file, manifest::limits(&setup, args.strict), args.name.as_deref())?;
    if flows.len() > 1 {
        return several::run(&args, flows).await;
    }
    match flows.pop() {
        Some(loaded) => one(&args, loaded).await,
        None => Err(Failure::usage(format!("{} holds no flow", file.display()))),
    }
}

/// Runs one flow of a file, or goes on with it.
///
/// # Errors
/// When it cannot be begun or gone on with.
pub(super) async fn one(args: &RunArgs, loaded: Loaded) -> Result<Exit, Failure> {
    if !args.resume {
        return begin(args, loaded).await;
    }
    let metadata = &loaded.manifest.flow.metadata;
    let name = args.name.clone().unwrap_or_else(|| metadata.name.clone());
    let namespace = metadata.namespace.clone().unwrap_or_else(|| args.globals.namespace().to_owned());
    let globals = GlobalArgs { namespace: Some(namespace), ..args.globals.clone() };
    let run = match globals.existing(&name) {
        Err(_) => return begin(args, loaded).await,
        Ok(run) => run,
    };
    let (door, lock) = lock(&run, &globals.named(&name)).await?;
    if begun(&run).await? {
        return go_on(args, &globals, run, door, lock, Some(&loaded.manifest.flow.spec)).await;
    }
    drop((door, lock));
    begin(args, loaded).await
}

async fn begin(args: &RunArgs, Loaded { manifest, plan }: Loaded) -> Result<Exit, Failure> {
    let expires = args.name.is_none() && args.globals.run_dir.is_none() && !args.keep;
    let setup = LocalSetup { keep: args.keep, expires, ..args.setup.setup(args.globals.target, args.file.as_deref())? };
    let uid = uuid::Uuid::new_v4().to_string();
    let mut flow = manifest.flow.clone();
    flow.metadata.name = manifest::flow_name(&manifest, args.name.as_deref(), &uid);
    dns1123_subdomain(&flow.metadata.name).map_err(|error| Failure::usage(error.to_string()))?;
    let namespace = flow.metadata.namespace.get_or_insert_with(|| args.globals.namespace().to_owned()).clone();
    let globals = GlobalArgs { namespace: Some(namespace), ..args.globals.clone() };
    let first = approvals(&plan, &args.auto_approve)?;
    let new = New {
        submission: Submission {
            parameters: args.param.iter().cloned().collect(),
            max_live: Some(args.jobs.unwrap_or_else(cpus)),
            driver: json!(setup),
            ..Submission::new(flow, uid)
        },
        first,
        hand_over: None,
        setup,
        images: manifest::has_images(&plan),
    };
    start(&globals, new, &args.drive()).await
}

impl RunArgs {
    fn drive(&self) -> Drive {
        Drive { progress: self.progress, output: self.output, leave_when_paused: self.no_wait_approval }
    }
}

/// A flow that is about to be run.
pub(super) struct New {
    /// What is submitted.
    pub submission: Submission,
    /// Events reported before all else.
    pub first: Vec<FlowEvent>,
    /// Artifacts it takes over.
    pub hand_over: Option<HandOver>,
    /// What it may use.
    pub setup: LocalSetup,
    /// Whether a step names an image.
    pub images: bool,
}

/// Makes the directory of a new run and runs it.
///
/// # Errors
/// When the name is taken, the directory cannot be used, or the flow cannot be begun.
pub(super) async fn start(globals: &GlobalArgs, new: New, drive: &Drive) -> Result<Exit, Failure> {
    let name = new.submission.flow.metadata.name.clone();
    // Refused before anything is made.
    crate::host::flow::parameters(&new.submission.flow, &new.submission.parameters, &new.setup.configs())
        .await
        .map_err(|error| Failure::parameter(&error))?;
    let gate = gate(globals, &new.submission.flow)?;
    let run = globals.run(&name)?;
    if globals.run_dir.is_none() {
        if let Err(error) = globals.home()?.sweep() {
            output::tell(&format!("warning: cannot remove what is left of deleted runs: {error}"));
        }
        // A new run does not depend on it.
        if let Err(failure) = local::expired(globals).await {
            output::tell(&format!("warning: old runs cannot be deleted: {failure}"));
        }
    }
    let is_new = !run.path().exists();
    run.create().map_err(|error| unusable(&run, &error))?;
    let named = globals.named(&name);
    let (door, lock) = lock(&run, &named).await?;
    if begun(&run).await? {
        let message = format!(
            "the name is taken: there is a run of `{name}` in {}; choose another with --name, give every run a new name with `metadata.generateName` in the file, resume it with --resume, or delete it with `orlop flow \
             delete {}`",
            run.path().display(),
            named.call()
        );
        return Err(Failure::new(Exit::Conflict, message));
    }
    let host = match submit(&run, new, drive).await {
        Err(failure) => {
            // Nothing is left of a run that never was. What cannot be removed is no worse than what went wrong.
            if is_new && begun(&run).await.is_ok_and(|begun| !begun) {
                drop(run.delete());
            }
            return Err(failure);
        }
        Ok(host) => host,
    };
    let claim = claim(gate.as_ref(), &host, &run)?;
    drive.run(Driven { host, run, name: named, lock, door, claim }).await
}

/// Submits a flow in its directory, whose lock the caller holds.
async fn submit(run: &RunDir, new: New, drive: &Drive) -> Result<FlowHost, Failure> {
    let New { submission, first, hand_over, setup, images } = new;
    if let Some(artifacts) = hand_over {
        artifacts.carry(run, setup.limits()).await?;
    }
    let substrate = setup.substrate(run.path(), processes()?, images).await.map_err(without_engine)?;
    let journal = Arc::new(SqliteJournal::open(run.journal(), Access::Host).await?);
    let parts = HostParts { configs: Arc::new(setup.configs()), ..HostParts::new(substrate, journal) };
    let parts = HostParts { leave_when_paused: drive.leave_when_paused, keep: setup.kept(), ..parts };
    Ok(FlowHost::submit(parts, submission, first).await?)
}

/// Goes on with a run that is given by its name or directory.
async fn resume_named(args: &RunArgs) -> Result<Exit, Failure> {
    let name = match &args.name {
        Some(name) => name.clone(),
        None if args.globals.run_dir.is_some() => String::new(),
        None => return Err(Failure::usage("select the run to resume with --name NAME, FILE or --run-dir DIR")),
    };
    let run = args.globals.existing(&name)?;
    let (door, lock) = lock(&run, &args.globals.named(&name)).await?;
    if begun(&run).await? {
        return go_on(args, &args.globals, run, door, lock, None).await;
    }
    let message = format!(
        "nothing of the run in {} was recorded before its process was gone; run its file again",
        run.path().display()
    );
    Err(Failure::new(Exit::NotFound, message))
}

/// Goes on with a run that was begun, and not with anything else: options or a file that differ are refused.
async fn go_on(
    args: &RunArgs,
    globals: &GlobalArgs,
    run: RunDir,
    door: Door,
    lock: RunLock,
    spec: Option<&FlowSpec>,
) -> Result<Exit, Failure> {
    let stored = Stored::read(&run).await?;
    let name = globals.named(&stored.record.flow.metadata.name);
    resume::check(args, &stored, &name, spec)?;
    let setup = stored.setup()?;
    let gate = gate(globals, &stored.record.flow)?;
    let uid = stored.record.uid.clone();
    let images = manifest::has_images(&stored.plan);
    for step in &args.auto_approve {
        let (by, reason) = (Some(caller()), Some("--auto-approve".to_owned()));
        let order =
            FlowCommand::Decide { step: step.clone(), decision: Decision::Approved, by, reason, verified: false };
        super::stored::write(&run, &order).await?;
    }
    let substrate = setup.substrate(run.path(), processes()?, images).await.map_err(without_engine)?;
    let journal = Arc::new(SqliteJournal::open(run.journal(), Access::Host).await?);
    let parts = HostParts { configs: Arc::new(setup.configs()), ..HostParts::new(substrate, journal) };
    let parts = HostParts { leave_when_paused: args.no_wait_approval, keep: setup.kept(), ..parts };
    let host = FlowHost::resume(parts, &uid).await?;
    let claim = claim(gate.as_ref(), &host, &run)?;
    args.drive().run(Driven { host, run, name, lock, door, claim }).await
}

/// Whether a flow was recorded in a run's directory. The caller holds its lock, so a journal that a killed host had only
/// begun to make is finished here.
///
/// # Errors
/// When the journal cannot be read.
pub(super) async fn begun(run: &RunDir) -> Result<bool, Failure> {
    if !run.exists() {
        return Ok(false);
    }
    let journal = SqliteJournal::open(run.journal(), Access::Host).await?;
    let recorded = !journal.list().await?.is_empty();
    journal.close().await;
    Ok(recorded)
}

/// Where the concurrency key of a flow is claimed; none where it has no key, which needs no home.
fn gate(globals: &GlobalArgs, flow: &JobFlow) -> Result<Option<Home>, Failure> {
    key_of(flow, &[]).map(|_| globals.home()).transpose()
}

/// The claim of a run to its concurrency key, among the runs of its home.
fn claim(gate: Option<&Home>, host: &FlowHost, run: &RunDir) -> Result<Option<KeyClaim>, Failure> {
    let Some(home) = gate else { return Ok(None) };
    let created_at = host.flow().metadata.creation_timestamp.unwrap_or_default();
    let claim = KeyClaim::of(home, host.flow(), run.path(), created_at);
    claim.map_err(|error| Failure::io("the claim to the concurrency key cannot be written", &error))
}

/// The directory of a run cannot be made or written.
fn unusable(run: &RunDir, error: &std::io::Error) -> Failure {
    let failure = Failure::io(&format!("{} cannot be used for a run", run.path().display()), error);
    let hint = match error.kind() {
        std::io::ErrorKind::StorageFull => "free some space",
        _ => "keep runs elsewhere with --home DIR or --run-dir DIR",
    };
    Failure::new(failure.exit, format!("{}; {hint}", failure.message))
}

/// The door and the lock of a run, for a host to come.
async fn lock(run: &RunDir, name: &RunName) -> Result<(Door, RunLock), Failure> {
    let door = run.door().await.map_err(|error| unusable(run, &error))?;
    let lock = run.lock().map_err(|error| unusable(run, &error))?;
    let lock = lock.ok_or_else(|| {
        let message = format!("`{name}` is already running; watch it with `orlop flow watch {}`", name.call());
        Failure::new(Exit::Conflict, message)
    });
    Ok((door, lock?))
}

/// What to do where steps cannot run in containers.
pub(super) fn without_engine(error: Problem) -> Failure {
    let way = match error.reason {
        Some(NO_ENGINE) => "start a container engine".to_owned(),
        Some(NOT_BUILT) => format!("build it with `{}`", crate::features::install("docker")),
        _ => return error.into(),
    };
    let error = error.chain();
    Failure::usage(format!(
        "steps that name an image run in containers, but {error}; {way}, or use `--target process` to run all steps as \
         processes of this machine"
    ))
}

/// Live attempts allowed where nobody says: the CPUs of this machine.
#[must_use]
pub(super) fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX))
}

/// Approvals given before the flow begins.
///
/// # Errors
/// When a step is not there or no Manual one.
pub(super) fn approvals(plan: &Plan, steps: &[String]) -> Result<Vec<FlowEvent>, Failure> {
    let decided_at = SystemClock.now();
    let approval = |name: &String| {
        let at =
            plan.address_of(name).filter(|at| plan.step(at.step).is_some_and(orlop_core::spec::step::Step::is_manual));
        let at =
            at.ok_or_else(|| Failure::usage(format!("--auto-approve {name}: the flow has no Manual step `{name}`")))?;
        let (by, reason) = (Some(caller()), Some("--auto-approve".to_owned()));
        Ok(FlowEvent::Approval { at, decision: Decision::Approved, by, verified: false, decided_at, reason })
    };
    steps.iter().map(approval).collect()
}
