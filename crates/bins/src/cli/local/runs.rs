//! The runs of a home.

use std::collections::BTreeMap;

use orlop_cloud::store::sqlite::{Access, SqliteJournal};
use orlop_core::machine::flow::FlowPhase;
use orlop_core::ports::journal::{FlowJournal as _, FlowRecordSummary};
use serde_json::json;

use super::super::failure::Failure;
use super::super::globals::GlobalArgs;
use super::super::list::phase;
use super::super::output;
use super::super::stored::is_left;
use super::super::target::{ListFilter, ListedFlow};
use crate::host::flow::{Clock as _, SystemClock};
use crate::host::home::RunDir;

/// What a list shows of a run that has not ended and that no host drives.
const INTERRUPTED: &str = "Interrupted";

/// A run in a list.
struct Listed {
    run: RunDir,
    flow: FlowRecordSummary,
    /// Its labels, where they were asked for.
    labels: BTreeMap<String, String>,
    /// Whether it has not ended and no host drives it.
    interrupted: bool,
}

impl Listed {
    /// Finds out whether a host drives it; one that ended meanwhile has recorded the end.
    async fn look(&mut self) -> Result<(), Failure> {
        if self.flow.summary.phase.is_terminal() || !is_left(&self.run).await {
            return Ok(());
        }
        if let Some(again) = listed(&self.run, false).await? {
            self.flow = again.flow;
        }
        self.interrupted = !self.flow.summary.phase.is_terminal();
        Ok(())
    }

    /// Its phase, as people see it: one that goes on by itself is interrupted where nobody drives it.
    fn phase(&self) -> String {
        match self.flow.summary.phase {
            FlowPhase::Pending | FlowPhase::Running if self.interrupted => INTERRUPTED.to_owned(),
            phase => phase.to_string(),
        }
    }

    fn is_taken(&self, filter: &ListFilter) -> bool {
        let age = SystemClock.now().since(self.flow.created_at);
        filter.labels.iter().all(|(key, value)| self.labels.get(key) == Some(value))
            && filter.older_than.is_none_or(|limit| age >= limit.get())
    }

    fn shown(self, globals: &GlobalArgs) -> ListedFlow {
        let (phase, message) = (self.phase(), self.message(globals));
        let Self { run, flow, labels, interrupted } = self;
        let summary = &flow.summary;
        let value = json!({
            "namespace": flow.namespace, "name": flow.name, "uid": flow.uid, "created": flow.created_at.to_string(),
            "phase": summary.phase, "progress": summary.progress, "message": summary.message,
            "started": summary.started_at.map(|at| at.to_string()), "ended": summary.ended_at.map(|at| at.to_string()),
            "interrupted": interrupted, "labels": labels, "directory": run.path(),
        });
        ListedFlow {
            namespace: flow.namespace,
            id: run.path().display().to_string(),
            name: flow.name,
            phase,
            ended: summary.phase.is_terminal(),
            progress: summary.progress.clone(),
            created: flow.created_at,
            message,
            value,
        }
    }

    /// Its message, or what to do about it.
    fn message(&self, globals: &GlobalArgs) -> String {
        if !self.interrupted {
            return self.flow.summary.message.clone();
        }
        let globals = GlobalArgs { namespace: Some(self.flow.namespace.clone()), ..globals.clone() };
        format!("go on: orlop run --resume --name {}", globals.named(&self.flow.name).call())
    }
}

/// The runs of a home; one that cannot be read is reported and passed over.
///
/// # Errors
/// When the home cannot be read.
pub(super) async fn list(globals: &GlobalArgs, filter: &ListFilter) -> Result<Vec<ListedFlow>, Failure> {
    let mut runs = runs(globals, filter).await?;
    for listed in runs.iter_mut().filter(|_| filter.hosts) {
        listed.look().await?;
    }
    if let Some(wanted) = filter.phase.as_deref().map(shown_phase).transpose()? {
        runs.retain(|listed| listed.phase() == wanted);
    }
    Ok(runs.into_iter().map(|listed| listed.shown(globals)).collect())
}

async fn runs(globals: &GlobalArgs, filter: &ListFilter) -> Result<Vec<Listed>, Failure> {
    let namespace = (!filter.all_namespaces).then(|| globals.namespace());
    let found = match &globals.run_dir {
        Some(dir) => vec![RunDir::new(dir)],
        None => {
            let home = globals.home()?;
            let failed = |error| Failure::io(&format!("{} cannot be read", home.path().display()), &error);
            home.runs(namespace).map_err(failed)?
        }
    };
    let mut runs = Vec::new();
    for run in found {
        match listed(&run, filter.whole || !filter.labels.is_empty()).await {
            Ok(Some(listed)) if listed.is_taken(filter) => runs.push(listed),
            Ok(_) => {}
            Err(failure) => output::tell(&format!("warning: {} cannot be read: {failure}", run.path().display())),
        }
    }
    runs.sort_by(|a, b| (a.flow.created_at, &a.flow.uid).cmp(&(b.flow.created_at, &b.flow.uid)));
    Ok(runs)
}

async fn listed(run: &RunDir, with_labels: bool) -> Result<Option<Listed>, Failure> {
    let journal = SqliteJournal::open(run.journal(), Access::Viewer).await?;
    let Some(flow) = journal.list().await?.into_iter().next() else { return Ok(None) };
    let labels = if with_labels { journal.load(&flow.uid).await?.record.flow.metadata.labels } else { BTreeMap::new() };
    journal.close().await;
    Ok(Some(Listed { run: run.clone(), flow, labels, interrupted: false }))
}

/// A phase as a list shows it, in any case.
fn shown_phase(text: &str) -> Result<String, Failure> {
    if text.eq_ignore_ascii_case(INTERRUPTED) {
        return Ok(INTERRUPTED.to_owned());
    }
    let known = phase(text).map_err(|failure| Failure::usage(format!("{failure}; or {INTERRUPTED}")))?;
    Ok(known.to_string())
}
