//! Flows on this machine: the runs of a home.

mod logs;
mod remove;
mod retry;
mod runs;
mod watch;

use std::sync::Arc;

use async_trait::async_trait;
use orlop_cloud::artifact::CasStore;
use orlop_core::spec::flow::JobFlow;

pub(super) use self::logs::tail_of_failure;
pub(super) use self::remove::expired;
pub(super) use self::retry::HandOver;
use super::artifacts::{Artifact, ArtifactsArgs, write};
use super::failure::Failure;
use super::globals::GlobalArgs;
use super::logs::LogsArgs;
use super::retry::RetryArgs;
use super::stored::{Host, Stored, interrupted, last_time, order, stopped};
use super::target::{Created, FlowSnapshot, FlowTarget, ListFilter, ListedFlow, NewFlow, Retried, Taken, Wait};
use crate::host::flow::{Clock as _, FlowCommand, SystemClock};
use crate::host::home::RunDir;
use crate::view::name::RunName;

/// This machine.
pub(super) struct Local {
    pub(super) globals: GlobalArgs,
}

#[async_trait(?Send)]
impl FlowTarget for Local {
    fn asked(&self) -> &'static str {
        "its host"
    }

    fn named(&self, name: &str) -> RunName {
        self.globals.named(name)
    }

    async fn list(&self, filter: &ListFilter) -> Result<Vec<ListedFlow>, Failure> {
        runs::list(&self.globals, filter).await
    }

    async fn get(&self, name: &str) -> Result<FlowSnapshot, Failure> {
        let run = self.globals.existing(name)?;
        // Asked before: a host that ends meanwhile has recorded the end.
        let host = Host::of(&run).await;
        let stored = Stored::read(&run).await?;
        let (object, items) = (stored.object(), stored.items());
        let status = object.status.clone().unwrap_or_default();
        let interrupts = host == Host::None && !status.phase.is_terminal();
        let mut notes = Vec::new();
        notes.extend(interrupts.then(|| interrupted(&self.named(&object.metadata.name))));
        notes.extend(stopped(host.stopped(), &status));
        let now = if interrupts { last_time(&status) } else { SystemClock.now() };
        let replayed = Some(Arc::new((stored.plan, stored.state)));
        Ok(FlowSnapshot { object, items, now, replayed, interrupted: interrupts, notes })
    }

    async fn order(&self, name: &str, given: FlowCommand) -> Result<Taken, Failure> {
        let taken = order(&self.globals.existing(name)?, given).await?;
        Ok(if taken { Taken::Now } else { Taken::OnceResumed })
    }

    async fn ended(&self, name: &str, wait: Wait) -> Result<JobFlow, Failure> {
        watch::ended(&self.globals.existing(name)?, &self.named(name), wait.reports).await
    }

    async fn logs(&self, flow: &FlowSnapshot, args: &LogsArgs) -> Result<bool, Failure> {
        let run = self.globals.existing(&args.name)?;
        logs::show(&run, &flow.replayed()?.0, &flow.status(), args).await
    }

    async fn export(&self, chosen: &mut [Artifact], args: &ArtifactsArgs) -> Result<(), Failure> {
        let run = self.globals.existing(&args.name)?;
        let store = CasStore::open(run.path(), Stored::read(&run).await?.setup()?.limits())?;
        write(chosen, args, async |artifact| artifact.deliver(&store, args.force).await).await
    }

    async fn create(&self, _new: &NewFlow<'_>) -> Result<Created, Failure> {
        Err(Failure::usage(
            "flows are submitted to a fleet or a cluster: use `--target fleet` or `--target kube`; `orlop run` runs one on \
             this machine",
        ))
    }

    async fn retry(&self, args: &RetryArgs) -> Result<Retried, Failure> {
        retry::retry(args).await.map(Retried::Ended)
    }

    async fn id(&self, name: &str) -> Result<String, Failure> {
        Ok(self.removable(name)?.path().display().to_string())
    }

    async fn delete(&self, name: &str, id: &str, force: bool) -> Result<(), Failure> {
        remove::remove(&self.globals, name, &RunDir::new(id), force).await
    }
}

impl Local {
    /// The directory of a run, also when its journal was never written.
    fn removable(&self, name: &str) -> Result<RunDir, Failure> {
        let run = self.globals.run(name)?;
        if run.is_made() { Ok(run) } else { self.globals.existing(name) }
    }
}
