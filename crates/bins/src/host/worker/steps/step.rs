//! Runs one step on a worker: starts or adopts its attempt, forwards its output, and reports its end. The end is reported only when no
//! process or container of the step is left.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_cloud::artifact::{CasStore, Limits};
use orlop_cloud::runtime::logs::now;
use orlop_cloud::runtime::plan::{JobTemplate, TemplatePolicy};
use orlop_cloud::runtime::worker::{AttemptEnd as JobEnd, AttemptPlan, LogTotals, Started};
use orlop_core::attempt::{ArtifactDelivery, ArtifactSource, AttemptEnd, AttemptSpec, EndResult};
use orlop_core::error::{Class, Problem};
use orlop_core::ports::substrate::{FlowOwner, Substrate};
use orlop_core::spec::flow::{ResourceTemplates, template_name};
use orlop_core::spec::job::StepSpec;
use tokio::sync::mpsc;

use super::files::{EndCause, Ending, StepDir};
use super::output::{Output, exceeds};
use super::{RETRY_BACKOFF, RETRY_DELAY, Shared, StepCommand, end, volumes};
use crate::host::flow::resource_name;
use crate::host::home::RunDir;

/// How long a start that fails for now is tried.
const START_BUDGET: Duration = Duration::from_secs(120);
/// How long output is collected before it is forwarded.
const OUTPUT_DELAY: Duration = Duration::from_millis(50);

/// A step that is followed to its end.
pub(super) struct Step {
    shared: Arc<Shared>,
    plan: AttemptPlan,
    step: Arc<StepSpec>,
    dir: StepDir,
    commands: mpsc::UnboundedReceiver<StepCommand>,
    /// Output up to this chunk was handed on by an agent before this one, which began the step; none: it is new.
    known: Option<u64>,
    /// Whether something of it may run.
    may_run: bool,
    /// Since when this worker has it.
    started: Option<Started>,
    /// Whether what runs its attempt has accepted it.
    is_accepted: bool,
    /// Whether it is to end, and why.
    ending: Option<Ending>,
    /// Why the step cannot run on this worker, once starting it was given up.
    refused: Option<Problem>,
    substrate: Option<Arc<dyn Substrate>>,
    output: Option<Output>,
}

impl Step {
    pub(super) fn new(
        shared: Arc<Shared>,
        plan: AttemptPlan,
        step: Arc<StepSpec>,
        commands: mpsc::UnboundedReceiver<StepCommand>,
        known: Option<u64>,
    ) -> Self {
        let dir = shared.dir(&plan.id);
        // Without a directory of attempts nothing was started.
        let may_run = known.is_some() && dir.has_attempts().unwrap_or(true);
        Self {
            shared,
            plan,
            step,
            dir,
            commands,
            known,
            may_run,
            started: None,
            is_accepted: false,
            ending: None,
            refused: None,
            substrate: None,
            output: None,
        }
    }

    /// Follows the step to its end, tells it, and clears away what is left.
    pub(super) async fn run(mut self) {
        let end = self.end().await;
        let job = self.job_end(end).await;
        let Self { shared, plan, step, mut substrate, .. } = self;
        let (id, outcome) = (plan.id, job.outcome);
        if plan.run.keep {
            // The agent removes it when it has stored the artifacts.
            drop(substrate.take());
            shared.live().remove(&id);
        }
        shared.events.ended(id, job);
        shared.events.flush();
        // Only now: an agent that is killed before finds the same end again.
        if !plan.run.keep {
            shared.clean_up(&plan, &step, substrate).await;
            shared.jobs.resources_of(id).retire(outcome);
            shared.live().remove(&id);
        }
    }

    /// How the job of the step ended, all of its output handed on.
    async fn job_end(&mut self, end: AttemptEnd) -> JobEnd {
        let log = match self.output.take() {
            Some(output) => output.finish(&*self.shared.events, now()).await,
            None => LogTotals { last_seq: self.known.unwrap_or(0), ..LogTotals::default() },
        };
        let mut cause = self.ending.map(|ending| ending.cause);
        if exceeds(self.plan.run.log, &log) {
            cause = cause.or(Some(EndCause::LogLimit));
        }
        let refused = self.refused.take();
        let end = match cause {
            Some(EndCause::Refused) if end.result == EndResult::Cancelled => {
                let lost = || {
                    Problem::new(
                        Class::Fatal,
                        "the step could not be started; see the log of its worker for the reason",
                    )
                };
                end::refused(&refused.unwrap_or_else(lost))
            }
            Some(EndCause::LogLimit) => end::too_long(end, self.plan.run.log.limit),
            _ => end,
        };
        let started = self.started.as_ref().map(|started| started.at);
        JobEnd { usage: self.shared.jobs.resources_of(self.plan.id).used(), ..end::job_end(&end, cause, started, log) }
    }

    /// The end of the attempt, which has come: nothing of it runs any more.
    async fn end(&mut self) -> AttemptEnd {
        let begun = Instant::now();
        let mut tries = 0;
        loop {
            let error = match self.attempt().await {
                Ok(end) => return end,
                Err(error) => error,
            };
            if !self.may_run {
                // The step failed, not its worker: retrying it is up to its flow.
                return match self.ending.map(|ending| ending.cause) {
                    Some(EndCause::Asked(_)) => AttemptEnd::without_job(EndResult::Cancelled, now()),
                    _ => end::refused(&error),
                };
            }
            tracing::warn!(attempt = %self.plan.id, error = error.chain(), "cannot follow a step; trying again");
            let is_tried = error.class.is_retryable() && begun.elapsed() < START_BUDGET;
            // What was accepted is not given up for what this agent cannot do now.
            if !self.is_accepted && self.ending.is_none() && !is_tried {
                self.refused = Some(error);
                self.end_by(Ending { cause: EndCause::Refused, grace: Some(Duration::ZERO) });
                continue;
            }
            self.pause(tries).await;
            tries = tries.saturating_add(1);
        }
    }

    /// Waits before the next try. A command to end the step is followed at once.
    async fn pause(&mut self, tries: u32) {
        let pause = tokio::time::sleep(RETRY_BACKOFF.delay(tries, 0.0));
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => return,
                Some(command) = self.commands.recv() => if self.take_command(command) { return },
            }
        }
    }

    /// Takes a command; true where it is one to end the step.
    fn take_command(&mut self, command: StepCommand) -> bool {
        match command {
            StepCommand::End(cause, grace) => {
                let grace = self.grace(grace);
                self.end_by(Ending { cause: EndCause::Asked(cause), grace });
                true
            }
            StepCommand::Resume => {
                self.output.iter_mut().for_each(Output::resume);
                false
            }
        }
    }

    /// Notes that the step is to end.
    fn end_by(&mut self, ending: Ending) {
        let ending = self.ending.map_or(ending, |before| before.merge(ending));
        self.ending = Some(ending);
        if let Err(error) = self.dir.write_ending(&ending) {
            tracing::warn!(attempt = %self.plan.id, error = error.chain(), "cannot record why a step must end");
        }
    }

    /// The time the step gets from being asked to end to being killed: its own, unless it is to have less.
    fn grace(&self, asked: Duration) -> Option<Duration> {
        let template = JobTemplate::read(&self.step.attempt.template, &TemplatePolicy::default());
        template.is_ok_and(|template| asked < template.pod.grace).then_some(asked)
    }

    /// Runs the attempt to its end, or takes up the one that runs.
    async fn attempt(&mut self) -> Result<AttemptEnd, Problem> {
        let step = Arc::clone(&self.step);
        let volumes = self.shared.volumes(&step)?;
        let substrate = match &self.substrate {
            Some(substrate) => Arc::clone(substrate),
            None => self.open(&step, &volumes).await?,
        };
        let end = tokio::select! {
            end = self.drive(&step.attempt, substrate.as_ref()) => end?,
            never = volumes::use_them(&volumes) => match never {},
        };
        export_outputs(&end, &self.dir).await?;
        Ok(end)
    }

    /// Prepares everything that the attempt needs, or finds what an earlier agent prepared.
    async fn open(&mut self, step: &StepSpec, volumes: &Path) -> Result<Arc<dyn Substrate>, Problem> {
        let (shared, spec) = (Arc::clone(&self.shared), &step.attempt);
        let run = self.dir.run();
        let own = shared.jobs.resources_of(self.plan.id);
        let secrets = match self.known {
            Some(_) => {
                (self.is_accepted, self.ending) = (self.dir.is_accepted()?, self.ending.or(self.dir.ending()?));
                self.report_start(self.dir.started()?)?;
                own.secrets()
            }
            None => self.prepare(step, &run, volumes).await?,
        };
        let group = own.make_group(&self.plan.run)?;
        let substrate = shared.substrate(&self.plan, step, secrets, group.as_deref()).await?;
        if !self.is_accepted {
            resources(step, substrate.as_ref(), volumes).await?;
        }
        if self.output.is_none() {
            let directory = run.logs().join(spec.key.instance());
            fs::create_dir_all(&directory)?;
            let paths = ["out", "err"].map(|ending| directory.join(format!("{}.{ending}", spec.key.attempt)));
            let (id, log, known) = (self.plan.id, self.plan.run.log, self.known.unwrap_or(0));
            self.output = Some(Output::open(id, &self.dir.notes(), paths, log, known)?);
        }
        self.substrate = Some(Arc::clone(&substrate));
        Ok(substrate)
    }

    /// Makes the directory of a step with all that it needs; gives that of its secrets, where it has any.
    async fn prepare(&mut self, step: &StepSpec, run: &RunDir, volumes: &Path) -> Result<Option<PathBuf>, Problem> {
        self.shared.check(&self.plan)?;
        self.dir.make()?;
        self.dir.write_plan(&self.plan)?;
        if let Some(given) = &self.plan.artifacts {
            import_inputs(&step.attempt.inputs, run, &StepDir::input_dir(given)).await?;
        }
        fs::create_dir_all(volumes)?;
        let secrets = self.shared.jobs.resources_of(self.plan.id).write_secrets(&self.plan.secrets)?;
        // Last: an agent that starts later goes on from here.
        self.report_start(None)?;
        Ok(secrets)
    }

    /// Starts the attempt, unless it is to end, and follows it to its end.
    async fn drive(&mut self, spec: &AttemptSpec, substrate: &dyn Substrate) -> Result<AttemptEnd, Problem> {
        self.may_run = true;
        if self.is_accepted || self.ending.is_none() {
            self.start(spec, substrate).await?;
        }
        if self.ending.is_some() {
            self.cancel(spec, substrate).await;
        }
        // Watched before it is read for the first time: what is written in between is not missed.
        let changed = self.output.as_ref().map(Output::watch);
        let mut changed = changed.unwrap_or_default();
        // When output is handed on.
        let mut again = None;
        loop {
            if again.is_none() {
                again = self.pass_on(spec, substrate).await;
            }
            let deadline = self.deadline().filter(|_| self.ending.is_none());
            let is_paused = again.is_some() || self.output.as_ref().is_none_or(Output::is_paused);
            tokio::select! {
                report = substrate.next() => return Ok(report.end),
                Some(command) = self.commands.recv() => if self.take_command(command) {
                    self.cancel(spec, substrate).await;
                },
                () = until(deadline) => {
                    self.end_by(Ending { cause: EndCause::Timeout, grace: None });
                    self.cancel(spec, substrate).await;
                }
                () = until(again) => again = None,
                () = changed.next(), if !is_paused => again = Instant::now().checked_add(OUTPUT_DELAY),
            }
        }
    }

    /// Hands on the output that is there; tells when to try again where that is not possible now.
    async fn pass_on(&mut self, spec: &AttemptSpec, substrate: &dyn Substrate) -> Option<Instant> {
        match self.output.as_mut()?.pass_on(&*self.shared.events) {
            Ok(is_caught_up) => {
                if self.ending.is_none() && self.output.as_ref().is_some_and(Output::is_over_limit) {
                    self.end_by(Ending { cause: EndCause::LogLimit, grace: None });
                    self.cancel(spec, substrate).await;
                }
                (!is_caught_up).then(Instant::now)
            }
            // What runs is not given up for its output: a full disk may have room again.
            Err(error) => {
                tracing::warn!(attempt = %self.plan.id, %error, "cannot forward the output of a step; trying again");
                Instant::now().checked_add(RETRY_DELAY)
            }
        }
    }

    /// Has the attempt run, unless it is to end first.
    async fn start(&mut self, spec: &AttemptSpec, substrate: &dyn Substrate) -> Result<(), Problem> {
        if self.is_accepted {
            // Whatever this worker would say to it as a new one.
            return substrate.adopt(spec.clone()).await;
        }
        let (start, deadline) = (substrate.start(spec.clone()), self.deadline());
        tokio::pin!(start);
        loop {
            tokio::select! {
                reference = &mut start => break drop(reference?),
                Some(command) = self.commands.recv() => if self.take_command(command) { return Ok(()) },
                () = until(deadline) => {
                    self.end_by(Ending { cause: EndCause::Timeout, grace: None });
                    return Ok(());
                }
            }
        }
        self.is_accepted = true;
        if let Err(error) = self.dir.write_accepted() {
            tracing::warn!(attempt = %self.plan.id, error = error.chain(), "cannot record that a step was started");
        }
        Ok(())
    }

    /// Records when this worker got the step and reports it. From then on the server waits for the end instead of assigning the step
    /// again. A later agent reports it again, for the earlier one may have been killed first.
    fn report_start(&mut self, known: Option<Started>) -> Result<(), Problem> {
        if self.started.is_some() {
            return Ok(());
        }
        let started = match known {
            Some(started) => started,
            None => {
                let started = Started { handle: self.plan.id.to_string(), at: now() };
                self.dir.write_started(&started)?;
                started
            }
        };
        self.started = Some(started.clone());
        self.shared.events.started(self.plan.id, started);
        self.shared.events.flush();
        Ok(())
    }

    /// When its time is over, which began with its first start.
    fn deadline(&self) -> Option<Instant> {
        let limit = self.plan.timeout?;
        let ran = now().since(self.started.as_ref()?.at);
        Instant::now().checked_add(limit.saturating_sub(ran))
    }

    /// Has the attempt ended as it was noted.
    async fn cancel(&self, spec: &AttemptSpec, substrate: &dyn Substrate) {
        let grace = self.ending.and_then(|ending| ending.grace);
        while let Err(error) = substrate.cancel(&spec.key, grace).await {
            tracing::warn!(attempt = %self.plan.id, error = error.chain(), "cannot end a step; trying again");
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }
}

/// Waits until then; for ever where nothing is due.
async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

/// Takes the artifacts that were put beside a step into the store of its attempt. One that is missing fails its delivery.
async fn import_inputs(inputs: &[ArtifactDelivery], run: &RunDir, given: &Path) -> Result<(), Problem> {
    let store = CasStore::open(run.path(), Limits::default())?;
    for input in inputs {
        if let ArtifactSource::Stored { location, .. } = &input.source {
            store.take_over(given, location).await?;
        }
    }
    Ok(())
}

/// Puts the artifacts that the attempt has left where they are stored from.
async fn export_outputs(end: &AttemptEnd, dir: &StepDir) -> Result<(), Problem> {
    if end.artifacts.is_empty() {
        return Ok(());
    }
    let left = dir.output_dir();
    fs::create_dir_all(&left)?;
    let store = CasStore::open(&left, Limits::default())?;
    for location in end.artifacts.iter().filter_map(|artifact| artifact.location.as_ref()) {
        store.take_over(dir.path(), location).await?;
    }
    Ok(())
}

/// Makes the ConfigMaps of the flow for this attempt, and its claims on this worker if they are not there.
async fn resources(step: &StepSpec, substrate: &dyn Substrate, volumes: &Path) -> Result<(), Problem> {
    let Some(templates) = &step.templates else { return Ok(()) };
    let spec = &step.attempt;
    let owner =
        FlowOwner { uid: spec.key.flow.to_string(), name: spec.flow_name.clone(), namespace: spec.namespace.clone() };
    let config_map_templates = templates.config_map_templates.clone();
    let configs = ResourceTemplates { config_map_templates, ..ResourceTemplates::default() };
    substrate.ensure_resources(&owner, &configs).await?;
    for template in &templates.volume_claim_templates {
        let name = resource_name(&spec.flow_name, template_name(template).unwrap_or_default());
        let path = volumes.join(name);
        fs::create_dir_all(&path)?;
        // Steps may run as any user, as on a cluster whose volumes let all in.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777))?;
    }
    Ok(())
}
