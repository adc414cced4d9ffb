//! The job of docs/comparison.md with Temporal: `cargo run -- DIR`, with a server at `TEMPORAL_ADDRESS`. Worker and client are one
//! program.

use std::time::Duration;

use temporalio_client::envconfig::LoadClientConfigProfileOptions;
use temporalio_client::{
    Client, ClientOptions, Connection, WorkflowGetResultOptions, WorkflowIdConflictPolicy, WorkflowStartOptions,
};
use temporalio_macros::{activities, workflow, workflow_methods};
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use temporalio_sdk::{ActivityOptions, Runtime, Worker, WorkerOptions, WorkflowContext, WorkflowResult};

#[path = "../harness.rs"]
mod harness;
#[path = "../lease.rs"]
mod lease;

// job
struct Steps;

#[activities]
impl Steps {
    #[activity]
    async fn load(_: ActivityContext, text: String) -> Result<Vec<u64>, ActivityError> {
        harness::work("load").await;
        Ok(text.split(' ').map(str::parse).collect::<Result<Vec<u64>, _>>()?)
    }

    #[activity]
    async fn sum(_: ActivityContext, numbers: Vec<u64>) -> Result<u64, ActivityError> {
        harness::work("sum").await;
        Ok(numbers.iter().sum())
    }

    #[activity]
    async fn report(_: ActivityContext, sum: u64) -> Result<String, ActivityError> {
        harness::work("report").await;
        Ok(format!("the sum is {sum}"))
    }
}

#[workflow]
#[derive(Default)]
struct Job;

#[workflow_methods]
impl Job {
    #[run]
    async fn run(context: &mut WorkflowContext<Self>, text: String) -> WorkflowResult<String> {
        let numbers = context.execute_activity(Steps::load, text, options()).await?;
        let sum = context.execute_activity(Steps::sum, numbers, options()).await?;
        Ok(context.execute_activity(Steps::report, sum, options()).await?)
    }
}

fn options() -> ActivityOptions {
    ActivityOptions::start_to_close_timeout(lease::from_environment().unwrap_or(Duration::from_secs(10)))
}
// end

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::from_current_tokio(Default::default())?;
    let (connection, options) = ClientOptions::load_from_config(LoadClientConfigProfileOptions::default())?;
    let client = Client::new(Connection::connect(connection).await?, options)?;
    // job
    let mut options = WorkerOptions::new("report").register_workflow::<Job>()?.register_activities(Steps).build();
    // end
    // harness
    if let Some(lease) = lease::from_environment() {
        options.sticky_queue_schedule_to_start_timeout = lease;
    }
    // end
    let mut worker = Worker::new(&runtime, client.clone(), options)?;
    let stop = worker.shutdown_handle();
    let id = harness::folder().display().to_string();
    let options =
        WorkflowStartOptions::new("report", id).id_conflict_policy(WorkflowIdConflictPolicy::UseExisting).build();
    let job = client.start_workflow(Job::run, harness::INPUT.to_owned(), options).await?;
    let report = async {
        let report = job.get_result(WorkflowGetResultOptions::default()).await;
        stop();
        report
    };
    let (ran, report) = tokio::join!(worker.run(), report);
    ran?;
    println!("{}", report?);
    Ok(())
}
