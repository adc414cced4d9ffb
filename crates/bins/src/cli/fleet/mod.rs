//! The verbs of the fleet: a server on this machine, and what is asked of one over REST. Decides nothing about jobs.

mod address;
mod again;
mod artifacts;
mod bulk;
mod cancel;
mod client;
mod data;
mod elements;
pub(super) mod flow;
mod health;
mod hint;
mod inputs;
mod job;
mod jobs;
mod join;
mod logs;
mod page;
mod problem;
mod quota;
mod read;
mod secret;
mod sse;
mod submit;
mod target;
mod tasks;
mod token;
mod top;
mod ui;
mod up;
mod wait;
mod workers;

use clap::Subcommand;

use super::failure::{Exit, Failure};
use super::signals::interruptible;

/// The verbs.
#[derive(Subcommand, Debug)]
pub(super) enum Fleet {
    /// Start a fleet on this machine: scheduler, store, REST interface and a worker in one process
    Up(up::UpArgs),
    /// Open the web page of a server, signed in
    Ui(ui::UiArgs),
    /// Submit a job to a server
    Submit(Box<submit::SubmitArgs>),
    /// List jobs
    Jobs(jobs::JobsArgs),
    /// List the elements of an array
    Elements(elements::ElementsArgs),
    /// Wait until jobs or elements have ended
    Wait(wait::WaitArgs),
    /// One job: show it, explain why it waits, submit it again
    #[command(subcommand, arg_required_else_help = true)]
    Job(job::Verb),
    /// Show the log of a job, or follow it
    Logs(logs::LogsArgs),
    /// Cancel jobs
    Cancel(cancel::CancelArgs),
    /// Workers: list, show, cordon, uncordon
    Workers(workers::WorkersArgs),
    /// Let a worker finish its jobs and leave
    Drain(workers::DrainArgs),
    /// Limits of tenants: get, set, usage
    #[command(subcommand, arg_required_else_help = true)]
    Quota(quota::Verb),
    /// Artifacts: list those of jobs, get and put files
    #[command(subcommand, arg_required_else_help = true)]
    Artifacts(artifacts::Verb),
    /// Secrets of a tenant: set, list, delete
    #[command(subcommand, arg_required_else_help = true)]
    Secret(secret::Verb),
    /// Tokens of people and programs: create, list, revoke
    #[command(subcommand, arg_required_else_help = true)]
    Token(token::Verb),
    /// Watch the fleet: allocation, queues, rates, what is blocked, tenants, workers
    Top(top::TopArgs),
    /// Check whether a server is ready
    Health(health::HealthArgs),
}

/// Runs a verb and says how the program ends.
///
/// # Errors
/// When it could not do what was asked.
pub(super) async fn run(verb: Fleet) -> Result<Exit, Failure> {
    match verb {
        // It ends in good order when it is interrupted.
        Fleet::Up(args) => up::up(args).await,
        verb => interruptible(asked(verb)).await,
    }
}

/// A verb that asks a server.
async fn asked(verb: Fleet) -> Result<Exit, Failure> {
    match verb {
        Fleet::Up(args) => up::up(args).await,
        Fleet::Ui(args) => ui::ui(args).await,
        Fleet::Submit(args) => submit::submit(*args).await,
        Fleet::Jobs(args) => jobs::jobs(args).await,
        Fleet::Elements(args) => elements::elements(args).await,
        Fleet::Wait(args) => wait::wait(args).await,
        Fleet::Job(verb) => job::run(verb).await,
        Fleet::Logs(args) => logs::logs(args).await,
        Fleet::Cancel(args) => cancel::cancel(args).await,
        Fleet::Workers(args) => workers::run(args).await,
        Fleet::Drain(args) => workers::drain(args).await,
        Fleet::Quota(verb) => quota::run(verb).await,
        Fleet::Artifacts(verb) => artifacts::run(verb).await,
        Fleet::Secret(verb) => secret::run(verb).await,
        Fleet::Token(verb) => token::run(verb).await,
        Fleet::Top(args) => top::top(args).await,
        Fleet::Health(args) => health::health(args).await,
    }
}
