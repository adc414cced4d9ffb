//! The rows, each with what it compares with and its target.

mod gaps;
mod latency;
mod logs;
mod storm;
mod submits;
mod tasks;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;

use crate::Options;

/// Something to measure.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) run: fn(&Options) -> LocalBoxFuture<'_, ()>,
}

/// Every row, in the order of the chapter.
pub(crate) fn all() -> Vec<Row> {
    let row = |name, title, run| Row { name, title, run };
    vec![
        row("processes", "20,000 × `true` on one worker of 2 CPUs", |o| tasks::processes(o).boxed_local()),
        row("noop", "200,000 tasks that start nothing", |o| tasks::noop_all(o).boxed_local()),
        row("shapes", "10,000 tasks of 1 to 100 classes over 16 × 64 slots", |o| tasks::shapes(o).boxed_local()),
        row("million", "submit of 1,000,000 tasks", |o| submits::million(o).boxed_local()),
        row("start", "from submit to start and to end, on an idle fleet", |o| latency::start(o).boxed_local()),
        row("submits", "durable submits a second", |o| submits::rates(o).boxed_local()),
        row("gaps", "short tasks on 2 slots: the busy share", |o| gaps::gaps(o).boxed_local()),
        row("results", "1000 workers, 20,000 ends a second", |o| gaps::results(o).boxed_local()),
        row("storm", "1000 workers × 4 attempts lose the server at once", |o| storm::storm(o).boxed_local()),
        row("logs", "logs at full speed", |o| logs::logs(o).boxed_local()),
        row("idle", "1000 workers without jobs", |o| storm::idle(o).boxed_local()),
    ]
}
