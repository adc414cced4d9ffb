//! The job of docs/comparison.md with apalis, its workflows and its storage in SQLite: `cargo run -- DIR`.

use apalis::prelude::*;
use apalis_sqlite::{Config, SqlitePool, SqliteStorage};
use apalis_workflow::SteppedFlow;

#[path = "../harness.rs"]
mod harness;
#[path = "../lease.rs"]
mod lease;

// job
async fn load(text: String) -> Result<Vec<u64>, BoxDynError> {
    harness::work("load").await;
    Ok(text.split(' ').map(str::parse).collect::<Result<Vec<u64>, _>>()?)
}

async fn sum(numbers: Vec<u64>) -> Result<u64, BoxDynError> {
    harness::work("sum").await;
    Ok(numbers.iter().sum())
}

async fn report(sum: u64, worker: WorkerContext) -> Result<String, BoxDynError> {
    harness::work("report").await;
    let report = format!("the sum is {sum}");
    println!("{report}");
    worker.stop()?;
    Ok(report)
}
// end

#[tokio::main]
async fn main() -> Result<(), BoxDynError> {
    let file = harness::folder().join("apalis.db");
    let pool = SqlitePool::connect(&format!("sqlite:{}?mode=rwc", file.display())).await?;
    SqliteStorage::setup(&pool).await?;
    let mut config = Config::default().queue("report");
    // harness
    if let Some(lease) = lease::from_environment() {
        config = config.heartbeat_interval(lease / 2);
    }
    // end
    let mut storage = SqliteStorage::new(&pool).with_config(config);
    storage.push_task(TaskBuilder::new(harness::INPUT.to_owned()).idempotency_key("job-1").build()).await?;
    // job
    let workflow = SteppedFlow::new("report").and_then(load).and_then(sum).and_then(report);
    // end
    // A name may not be used again for a while after its worker is gone.
    let name = format!("worker-{}", std::process::id());
    WorkerBuilder::new(&*name).backend(storage).build(workflow).run().await?;
    Ok(())
}
