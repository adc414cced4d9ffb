//! The runs of a home.

use std::collections::BTreeMap;

use orlop_cloud::store::sqlite::{Access, SqliteJournal};
use orlop_core::ports::journal::{FlowJournal as _, FlowRecordSummary};
use serde_json::{Map, json};

use super::super::failure::Failure;
use super::super::globals::GlobalArgs;
use super::super::output;
use super::super::stored::is_left;
use super::super::target::{ListFilter, ListedFlow};
use crate::host::flow::{Clock as _, SystemClock};
use crate::host::home::RunDir;

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

    fn has_labels(&self, filter: &ListFilter) -> bool {
        filter.labels.iter().all(|(key, value)| self.labels.get(key) == Some(value))
    }

    fn shown(self, globals: &GlobalArgs) -> ListedFlow {
        let hint = self.hint(globals);
        let Self { run, flow, labels, interrupted } = self;
        let FlowRecordSummary { uid, namespace, name, created_at: created, summary, .. } = flow;
        ListedFlow {
            namespace,
            name,
            id: run.path().display().to_string(),
            uid,
            phase: summary.phase,
            interrupted,
            progress: summary.progress,
            created,
            started: summary.started_at,
            ended: summary.ended_at,
            message: summary.message,
            hint,
            labels,
            more: Map::from_iter([("directory".to_owned(), json!(run.path()))]),
        }
    }

    /// What to do about it.
    fn hint(&self, globals: &GlobalArgs) -> Option<String> {
        let globals = GlobalArgs { namespace: Some(self.flow.namespace.clone()), ..globals.clone() };
        let call = globals.named(&self.flow.name).call();
        self.interrupted.then(|| format!("continue: orlop run --resume --name {call}"))
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
    let now = SystemClock.now();
    let shown = runs.into_iter().map(|listed| listed.shown(globals));
    Ok(shown.filter(|flow| filter.takes(flow, now)).collect())
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
            Ok(Some(listed)) if listed.has_labels(filter) => runs.push(listed),
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
