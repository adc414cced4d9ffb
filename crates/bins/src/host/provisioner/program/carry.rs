//! Carrying a deployment out, whatever begins it, and telling what came of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orlop_cloud::exit::Exit;
use orlop_cloud::openstack::client::SystemClock;
use orlop_cloud::provision::deployments::{DeploymentStore, StoredDeployment};
use orlop_cloud::provision::drive::{Hands, apply, take_up};
use orlop_cloud::provision::info::Info;
use orlop_cloud::provision::journal::{FileJournal, JournalError, Kind};
use orlop_cloud::provision::order::DeploymentOrder;
use orlop_cloud::provision::saga::{Event, FailedOffering, Saga};
use orlop_cloud::provision::sites::SiteOutcome;
use orlop_core::error::Class;
use orlop_core::machine::saga::SagaState;

use super::args::OutputArgs;
use super::document::Report;
use super::examine::Run;
use super::failure::Failure;
use super::settings::Settings;
use super::show;
use super::sign_in::{Site, Sources};
use super::signals::Signals;
use super::surroundings::DeploymentSurroundings;
use super::watch::Watch;

/// The word for a deployment that was made at another address than credentials are for.
pub(super) const OTHER_ADDRESS: &str = "other_address";

/// What is to be done with a deployment.
pub(super) enum Work {
    /// Begin it.
    Begin { order: Box<DeploymentOrder>, nonce: String, failed: Vec<FailedOffering> },
    /// Take it up from its journal.
    TakeUp(Event),
}

/// What came of one site.
pub(super) struct Tried {
    pub(super) report: Report,
    pub(super) outcome: SiteOutcome,
}

/// Where a deployment is kept, and how a run of it is shown.
pub(super) struct CliContext<'a> {
    pub(super) state_dir: PathBuf,
    pub(super) output: &'a OutputArgs,
    pub(super) signals: &'a Signals,
    pub(super) keep_on_interrupt: bool,
}

impl CliContext<'_> {
    /// The deployments of this machine.
    pub(super) fn deployments(&self) -> DeploymentStore {
        DeploymentStore::new(&self.state_dir)
    }

    /// A deployment by name or id.
    ///
    /// # Errors
    /// Nobody knows it, or the folder cannot be read.
    pub(super) fn known(&self, name: &str) -> Result<StoredDeployment, Failure> {
        let deployments = self.deployments();
        if let Some(known) = deployments.find(name)? {
            return Ok(known);
        }
        // It may be one of those that cannot be read.
        let damaged: String = deployments.all()?.1.iter().map(|damage| format!("; {damage}")).collect();
        let message = format!("there is no deployment {name}{damaged}");
        let class = orlop_core::error::Class::NotFound;
        let hint = "see `orlop provisioner list`, or `orlop provisioner list --remote` for those whose state was lost";
        Err(Failure::new(Exit::NotFound, class, "unknown_deployment", message).hint(hint))
    }

    /// Takes a deployment's journal for this process.
    ///
    /// # Errors
    /// Another has it, or it is damaged.
    pub(super) fn open(&self, known: &StoredDeployment) -> Result<Arc<FileJournal>, JournalError> {
        Ok(Arc::new(FileJournal::open(&known.folder, known.id.as_str())?))
    }

    /// Signs in to the cloud of a deployment.
    ///
    /// # Errors
    /// As signing in; or it is another cloud or project.
    pub(super) async fn sign_in(
        &self,
        sources: &Sources<'_>,
        known: &StoredDeployment,
        run: &mut Run,
    ) -> Result<Site, Failure> {
        let notes = &known.notes;
        run.warnings.extend(known.trouble.clone());
        let site = sources.sign_in(&notes.site, notes.entry(), run).await?;
        run.count(&site.name, site.asked());
        let order = known.saga.order();
        if !notes.auth_url.is_empty() && site.auth_url != notes.auth_url {
            let message =
                format!("{} is at {}, these credentials are for {}", order.server_name, notes.auth_url, site.auth_url);
            let hint = format!(
                "choose the cloud with --cloud or --openrc; if this is the same one by another address, remove it with: orlop provisioner destroy --id {}",
                known.id
            );
            return Err(Failure::new(Exit::Usage, Class::Invalid, OTHER_ADDRESS, message).hint(hint));
        }
        if site.account.project_id != order.project_id {
            let message = format!(
                "{} belongs to project {}, these credentials are for {}",
                order.server_name, order.project_id, site.account.project_id
            );
            return Err(Failure::usage(message).hint("use credentials of that project"));
        }
        Ok(site)
    }

    /// Carries a deployment out.
    ///
    /// # Errors
    /// The journal cannot be read or written, or holds no plan; nothing was asked for that is not written down.
    pub(super) async fn carry(
        &self,
        site: &Site,
        surroundings: &Arc<DeploymentSurroundings>,
        work: Work,
        run: &mut Run,
    ) -> Result<Saga, Failure> {
        let hands = Hands {
            cloud: site.cloud.clone(),
            journal: Arc::clone(&surroundings.journal) as _,
            clock: Arc::new(SystemClock),
            around: Arc::clone(surroundings) as _,
        };
        // Anyone who only looks has nothing to stop: a signal ends the program.
        if !matches!(work, Work::TakeUp(Event::Look)) {
            self.signals.claim(self.keep_on_interrupt);
        }
        let carried = async {
            match work {
                Work::Begin { order, nonce, failed } => apply(&hands, *order, &nonce, failed).await.map(Some),
                Work::TakeUp(event) => take_up(&hands, event).await,
            }
        };
        let done = tokio::select! {
            done = carried => done,
            () = surroundings.beat() => Err(JournalError::Storage { what: "the run ended by itself".to_owned() }),
        };
        self.signals.release();
        run.count(&site.name, site.asked());
        for (site, asked) in surroundings.watch.get().into_iter().flat_map(Watch::asked) {
            run.count(site, asked);
        }
        // A look may have had nothing to write down; the state file is written all the same.
        if let Ok(Some(saga)) = &done {
            surroundings.write_info(saga);
        }
        run.warnings.extend(surroundings.trouble());
        let saga = done?.ok_or_else(|| Failure::internal("the journal contains no plan"))?;
        remove_key_file(&saga, surroundings, run);
        Ok(saga)
    }

    /// What came of a deployment, and whether another site can take its place.
    pub(super) fn tried(&self, saga: &Saga, surroundings: &DeploymentSurroundings, run: &mut Run) -> Tried {
        let mut report = self.report(saga, surroundings, run);
        if saga.state() == SagaState::Destroyed && report.failure.is_none() {
            let exit = self.signals.exit().unwrap_or(Exit::Failed);
            let message = format!("{} is removed; there is no server", saga.order().server_name);
            report.failure = Some(Failure::new(exit, orlop_core::error::Class::NotFound, "removed", message));
        }
        Tried { report, outcome: SiteOutcome::of(saga) }
    }

    /// What came of a deployment, for programs and people.
    pub(super) fn report(&self, saga: &Saga, surroundings: &DeploymentSurroundings, run: &mut Run) -> Report {
        let info = surroundings.info(saga);
        run.take_warnings(&info.warnings);
        let failure = saga.failure().cloned().map(Failure::from).map(|mut failure| {
            if failure.exit == Exit::Interrupted {
                failure.exit = self.signals.exit().unwrap_or(Exit::Interrupted);
            }
            failure
        });
        let failure = failure.or_else(|| unfinished(saga));
        let text = show::deployment(&info, saga.state(), failure.as_ref());
        Report { data: data(&info), text, failure }
    }
}

/// The document of a deployment.
pub(super) fn data(info: &Info) -> serde_json::Value {
    serde_json::to_value(info).unwrap_or_default()
}

/// What is wrong with a deployment that has not failed and is not as it was asked for.
fn unfinished(saga: &Saga) -> Option<Failure> {
    let class = orlop_core::error::Class::Transient;
    match saga.state() {
        SagaState::Kept => Some(Failure::new(Exit::Interrupted, class, "kept", "interrupted; kept as it is")),
        SagaState::Leftover => Some(Failure::new(Exit::Leftovers, class, "leftover", "something could not be removed")),
        SagaState::Unreachable => {
            Some(Failure::new(Exit::Unusable, class, "unreachable", "the server is up, but does not answer"))
        }
        SagaState::Failed => {
            Some(Failure::new(Exit::Failed, class, "failed", "it failed before, and nothing of it is left"))
        }
        SagaState::Expired => {
            let name = &saga.order().server_name;
            let message = format!("the lease of {name} ended, or its server is gone");
            let hint =
                format!("remove what is left: orlop provisioner destroy {name}; apply does so and creates another one");
            Some(Failure::new(Exit::Failed, class, "expired", message).hint(hint))
        }
        SagaState::Mismatch => {
            Some(Failure::new(Exit::Unusable, class, "hardware_differs", "the hardware is not as planned"))
        }
        _ => None,
    }
}

/// Removes the private half of a key that was made for a deployment and is gone with it.
fn remove_key_file(saga: &Saga, surroundings: &DeploymentSurroundings, run: &mut Run) {
    let is_over = matches!(saga.state(), SagaState::Failed | SagaState::Destroyed);
    let Some(file) = saga.order().key.made_file.as_deref() else { return };
    if !is_over || surroundings.notes.key_kept || saga.id_of(Kind::Key).is_some() {
        return;
    }
    match std::fs::remove_file(Path::new(file)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            run.warnings.push(format!("the private key {file} cannot be removed: {error}"));
        }
        _ => {}
    }
}

/// Settings and where state is kept.
///
/// # Errors
/// A file that was named cannot be read, or there is no place for state.
pub(super) fn settings(output: &OutputArgs, run: &mut Run) -> Result<(Settings, PathBuf), Failure> {
    let settings = Settings::read(output.env_file.as_deref())?;
    run.warnings.extend(settings.warnings.iter().cloned());
    let state = settings.state_dir(output.state_dir.as_deref())?;
    Ok((settings, state))
}
