//! `orlop flow list`: the runs of a home. Owns filters and columns.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use orlop_cloud::store::sqlite::{Access, SqliteJournal};
use orlop_core::machine::flow::FlowPhase;
use orlop_core::ports::journal::{FlowJournal as _, FlowRecordSummary};
use orlop_core::time::HumanDuration;
use serde_json::json;

use super::failure::{Exit, Failure};
use super::globals::GlobalArgs;
use super::output::{self, Format};
use super::setup::pair;
use super::stored::is_left;
use crate::host::flow::{Clock as _, SystemClock};
use crate::host::home::RunDir;
use crate::view::table::fitted;
use crate::view::text::age;

/// Options of `orlop flow list`.
#[derive(Args, Debug)]
pub(super) struct ListArgs {
    #[command(flatten)]
    pub globals: GlobalArgs,
    /// Runs of all namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Only runs in this phase, as the list shows it
    #[arg(long)]
    pub phase: Option<String>,
    /// Only runs with this label (repeatable)
    #[arg(short = 'l', long = "label", value_name = "KEY=VALUE", value_parser = pair)]
    pub label: Vec<(String, String)>,
    /// Only runs accepted at least this long ago, such as `36h`
    #[arg(long, value_name = "DURATION")]
    pub older_than: Option<HumanDuration>,
    /// Form of the list
    #[arg(short, long, value_enum, ignore_case = true, default_value_t)]
    pub output: Format,
}

/// What a list shows of a run that has not ended and that no host drives.
const INTERRUPTED: &str = "Interrupted";

/// A run in a list.
pub(super) struct Listed {
    /// Its directory.
    pub run: RunDir,
    /// Its summary.
    pub flow: FlowRecordSummary,
    /// Its labels, where they were asked for.
    pub labels: BTreeMap<String, String>,
    /// Whether it has not ended and no host drives it, where that was asked for.
    pub interrupted: bool,
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

    /// Its message, or what to do about it.
    fn message(&self, globals: &GlobalArgs) -> String {
        if !self.interrupted {
            return self.flow.summary.message.clone();
        }
        let globals = GlobalArgs { namespace: Some(self.flow.namespace.clone()), ..globals.clone() };
        format!("go on: orlop run --resume --name {}", globals.named(&self.flow.name).call())
    }
}

/// Which runs of a home are meant.
#[derive(Debug, Default)]
pub(super) struct Filter {
    /// Only of this namespace.
    pub namespace: Option<String>,
    /// Only with these labels.
    pub labels: Vec<(String, String)>,
    /// Only accepted at least this long ago.
    pub older_than: Option<Duration>,
    /// Whether labels are asked for though none is filtered by: that reads whole journals.
    pub with_labels: bool,
}

impl Filter {
    fn takes(&self, listed: &Listed) -> bool {
        let age = SystemClock.now().since(listed.flow.created_at);
        self.labels.iter().all(|(key, value)| listed.labels.get(key) == Some(value))
            && self.older_than.is_none_or(|limit| age >= limit)
    }
}

/// The runs of a home; one that cannot be read is reported and passed over.
///
/// # Errors
/// When the home cannot be read.
pub(super) async fn runs(globals: &GlobalArgs, filter: &Filter) -> Result<Vec<Listed>, Failure> {
    let found = match &globals.run_dir {
        Some(dir) => vec![RunDir::new(dir)],
        None => {
            let home = globals.home()?;
            let failed = |error| Failure::io(&format!("{} cannot be read", home.path().display()), &error);
            home.runs(filter.namespace.as_deref()).map_err(failed)?
        }
    };
    let mut runs = Vec::new();
    for run in found {
        match listed(&run, filter.with_labels || !filter.labels.is_empty()).await {
            Ok(Some(listed)) if filter.takes(&listed) => runs.push(listed),
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

/// A phase as written, in any case.
///
/// # Errors
/// When there is no such phase.
pub(super) fn phase(text: &str) -> Result<FlowPhase, Failure> {
    use orlop_core::machine::Named as _;
    FlowPhase::from_typed(text).map_err(Failure::usage)
}

/// A phase as a list shows it, in any case.
fn shown_phase(text: &str) -> Result<String, Failure> {
    if text.eq_ignore_ascii_case(INTERRUPTED) {
        return Ok(INTERRUPTED.to_owned());
    }
    let known = phase(text).map_err(|failure| Failure::usage(format!("{failure}; or {INTERRUPTED}")))?;
    Ok(known.to_string())
}

/// Lists runs.
///
/// # Errors
/// When the home cannot be read.
pub(super) async fn list(args: ListArgs) -> Result<Exit, Failure> {
    let filter = Filter {
        namespace: (!args.all_namespaces).then(|| args.globals.namespace().to_owned()),
        labels: args.label.clone(),
        older_than: args.older_than.map(HumanDuration::get),
        with_labels: matches!(args.output, Format::Json | Format::Yaml),
    };
    let mut runs = runs(&args.globals, &filter).await?;
    for listed in &mut runs {
        listed.look().await?;
    }
    if let Some(wanted) = args.phase.as_deref().map(shown_phase).transpose()? {
        runs.retain(|listed| listed.phase() == wanted);
    }
    let text = match args.output {
        Format::Name => runs.iter().map(|run| format!("{}\n", run.flow.name)).collect(),
        Format::Table => table(&runs, &args),
        format => {
            let items: Vec<_> = runs.iter().map(item).collect();
            output::serialized(&json!({"items": items}), format)?
        }
    };
    output::print(&text)?;
    Ok(Exit::Done)
}

fn item(listed: &Listed) -> serde_json::Value {
    let flow = &listed.flow;
    json!({
        "namespace": flow.namespace, "name": flow.name, "uid": flow.uid, "created": flow.created_at.to_string(),
        "phase": flow.summary.phase, "progress": flow.summary.progress, "message": flow.summary.message,
        "started": flow.summary.started_at.map(|at| at.to_string()), "ended": flow.summary.ended_at.map(|at| at.to_string()),
        "interrupted": listed.interrupted, "labels": listed.labels, "directory": listed.run.path(),
    })
}

fn table(runs: &[Listed], args: &ListArgs) -> String {
    let now = SystemClock.now();
    let mut header = vec!["NAME", "PHASE", "PROGRESS", "AGE", "MESSAGE"];
    if args.all_namespaces {
        header.insert(0, "NAMESPACE");
    }
    let row = |listed: &Listed| {
        let summary = &listed.flow.summary;
        let mut row = vec![
            listed.flow.name.clone(),
            listed.phase(),
            summary.progress.clone(),
            age(now.since(listed.flow.created_at)),
            listed.message(&args.globals),
        ];
        if args.all_namespaces {
            row.insert(0, listed.flow.namespace.clone());
        }
        row
    };
    fitted(&header, &runs.iter().map(row).collect::<Vec<_>>(), output::width())
}
