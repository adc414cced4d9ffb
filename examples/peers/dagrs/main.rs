//! The job of docs/comparison.md with dagrs, as a `HarnessRun` with its store of files: `cargo run -- DIR`.

use std::collections::BTreeSet;
use std::num::ParseIntError;
use std::sync::Arc;

use dagrs::async_trait::async_trait;
use dagrs::{
    DagrsError, DagrsResult, ErrorCode, FileRunStore, HarnessRun, ParticipantId, ParticipantRegistry, ReducerKind,
    RunConfig, RunDependencies, RunStore, StateDelta, StateKey, StateSchema, StateSnapshot, StepOutcome,
    StepParticipant, StepTransition, WorkResults,
};

#[path = "../harness.rs"]
mod harness;

// job
struct Load {
    text: StateKey<String>,
    numbers: StateKey<Vec<u64>>,
}

#[async_trait]
impl StepParticipant for Load {
    fn id(&self) -> ParticipantId {
        id("load")
    }

    fn read_keys(&self) -> BTreeSet<String> {
        BTreeSet::from([self.text.name().to_owned()])
    }

    fn write_keys(&self) -> BTreeSet<String> {
        BTreeSet::from([self.numbers.name().to_owned()])
    }

    async fn run(&self, snapshot: StateSnapshot, _: WorkResults) -> DagrsResult<StepOutcome> {
        harness::work("load").await;
        let text = snapshot.get(&self.text)?.unwrap_or_default();
        let numbers = text.split(' ').map(str::parse).collect::<Result<Vec<u64>, _>>();
        let mut delta = StateDelta::new();
        delta.set(&self.numbers, numbers.map_err(failed)?)?;
        Ok(StepOutcome::new(delta, Vec::new(), StepTransition::continue_with([id("sum")])))
    }
}

struct Sum {
    numbers: StateKey<Vec<u64>>,
    sum: StateKey<u64>,
}

#[async_trait]
impl StepParticipant for Sum {
    fn id(&self) -> ParticipantId {
        id("sum")
    }

    fn read_keys(&self) -> BTreeSet<String> {
        BTreeSet::from([self.numbers.name().to_owned()])
    }

    fn write_keys(&self) -> BTreeSet<String> {
        BTreeSet::from([self.sum.name().to_owned()])
    }

    async fn run(&self, snapshot: StateSnapshot, _: WorkResults) -> DagrsResult<StepOutcome> {
        harness::work("sum").await;
        let mut delta = StateDelta::new();
        delta.set(&self.sum, snapshot.get(&self.numbers)?.unwrap_or_default().iter().sum::<u64>())?;
        Ok(StepOutcome::new(delta, Vec::new(), StepTransition::continue_with([id("report")])))
    }
}

struct Report {
    sum: StateKey<u64>,
    report: StateKey<String>,
}

#[async_trait]
impl StepParticipant for Report {
    fn id(&self) -> ParticipantId {
        id("report")
    }

    fn read_keys(&self) -> BTreeSet<String> {
        BTreeSet::from([self.sum.name().to_owned()])
    }

    fn write_keys(&self) -> BTreeSet<String> {
        BTreeSet::from([self.report.name().to_owned()])
    }

    async fn run(&self, snapshot: StateSnapshot, _: WorkResults) -> DagrsResult<StepOutcome> {
        harness::work("report").await;
        let mut delta = StateDelta::new();
        delta.set(&self.report, format!("the sum is {}", snapshot.get(&self.sum)?.unwrap_or_default()))?;
        Ok(StepOutcome::new(delta, Vec::new(), StepTransition::finish()))
    }
}

fn id(name: &str) -> ParticipantId {
    ParticipantId::new(name).expect("a name is an id")
}

fn failed(error: ParseIntError) -> DagrsError {
    DagrsError::new(ErrorCode::DgRun0006NodeExecutionFailed, error.to_string())
}
// end

#[tokio::main]
async fn main() -> DagrsResult<()> {
    let store = Arc::new(FileRunStore::new(harness::folder().join("dagrs"))?);
    // job
    let mut schema = StateSchema::new(1)?;
    let text = schema.register_key::<String>("text", 1, ReducerKind::Overwrite)?;
    let numbers = schema.register_key::<Vec<u64>>("numbers", 1, ReducerKind::Overwrite)?;
    let sum = schema.register_key::<u64>("sum", 1, ReducerKind::Overwrite)?;
    let report = schema.register_key::<String>("report", 1, ReducerKind::Overwrite)?;
    let mut state = schema.empty_state();
    state.set_initial(&schema, &text, harness::INPUT.to_owned())?;
    let registry = ParticipantRegistry::new();
    registry.register(Load { text, numbers: numbers.clone() })?;
    registry.register(Sum { numbers, sum: sum.clone() })?;
    registry.register(Report { sum, report: report.clone() })?;
    let dependencies = RunDependencies::new(registry, store.clone(), schema.clone(), state)?;
    // end
    let runs = store.list_runs("job-1", None, 1).await?;
    let ended = match runs.runs().first() {
        Some(run) => {
            let last = store.load_latest_checkpoint_for_run(run.run_id()).await?;
            HarnessRun::resume("job-1", last.checkpoint_id(), dependencies).await?
        }
        None => HarnessRun::start(RunConfig::new().with_thread_id("job-1"), [id("load")], dependencies).await?,
    };
    let last = store.load_checkpoint(&ended.thread_id, &ended.current_checkpoint_id).await?;
    println!("{}", last.state().get(&schema, &report)?.unwrap_or_default());
    Ok(())
}
