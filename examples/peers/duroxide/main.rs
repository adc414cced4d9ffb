//! The job of docs/comparison.md with duroxide: `cargo run -- DIR`.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};

#[path = "../harness.rs"]
mod harness;
#[path = "../lease.rs"]
mod lease;

// job
async fn load(_: ActivityContext, text: String) -> Result<Vec<u64>, String> {
    harness::work("load").await;
    text.split(' ').map(str::parse).collect::<Result<Vec<u64>, _>>().map_err(|error| error.to_string())
}

async fn sum(_: ActivityContext, numbers: Vec<u64>) -> Result<u64, String> {
    harness::work("sum").await;
    Ok(numbers.iter().sum())
}

async fn report(_: ActivityContext, sum: u64) -> Result<String, String> {
    harness::work("report").await;
    Ok(format!("the sum is {sum}"))
}

async fn job(context: OrchestrationContext, text: String) -> Result<String, String> {
    let numbers: Vec<u64> = context.schedule_activity_typed("load", &text).await?;
    let sum: u64 = context.schedule_activity_typed("sum", &numbers).await?;
    context.schedule_activity_typed("report", &sum).await
}
// end

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = harness::folder().join("duroxide.db");
    let store = Arc::new(SqliteProvider::new(&format!("sqlite:{}?mode=rwc", file.display()), None).await?);
    // job
    let activities = ActivityRegistry::builder()
        .register_typed("load", load)
        .register_typed("sum", sum)
        .register_typed("report", report)
        .build();
    let orchestrations = OrchestrationRegistry::builder().register_typed("job", job).build();
    // end
    let mut options = RuntimeOptions::default();
    // harness
    if let Some(lease) = lease::from_environment() {
        options.worker_lock_timeout = lease;
    }
    // end
    let runtime = Runtime::start_with_options(store.clone(), activities, orchestrations, options).await;
    let client = Client::new(store);
    if let OrchestrationStatus::NotFound = client.get_orchestration_status("job-1").await? {
        client.start_orchestration_typed("job-1", "job", harness::INPUT.to_owned()).await?;
    }
    println!("{}", client.wait_for_orchestration_typed::<String>("job-1", Duration::from_secs(300)).await??);
    runtime.shutdown(None).await;
    Ok(())
}
