//! The program `orlop-operator`: flags, log, credentials, listeners, signals. Owns their order at the start and at the end.

mod config;
mod listen;

use std::process::ExitCode;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use self::config::{Asked, Config, ConfigError, LogFormat};
use super::{MachineClock, Operator, OperatorError, Stop};
use crate::host::cluster::{self, ConnectError};

/// Runs the program. Exit codes: 0 stopped in good order, 1 failed, 2 usage or configuration.
#[must_use]
pub fn main() -> ExitCode {
    let config = match config::read(std::env::args_os()) {
        Ok(Asked::Run(config)) => config,
        Ok(Asked::Show(text)) => return show(&text),
        Err(ConfigError::Usage(error)) => error.exit(),
        Err(error) => return complain(&error.to_string(), 2),
    };
    if let Err(error) = start_log(&config) {
        return complain(&error, 2);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error.to_string(), 1),
    };
    match runtime.block_on(run(&config)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            tracing::error!("{failure}");
            ExitCode::from(if matches!(failure, Failure::Connect(_) | Failure::Config(_)) { 2 } else { 1 })
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{0}")]
    System(#[from] std::io::Error),
    #[error(transparent)]
    Operator(#[from] OperatorError),
}

async fn run(config: &Config) -> Result<(), Failure> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let client = cluster::client(&config.way).await?;
    let plan = config.plan(client.default_namespace())?;
    let leases = plan.election.as_ref().map(|election| election.leases.join(", "));
    let all = listen::bind(config.metrics_addr.as_ref(), "--metrics-addr").await?;
    let same = config.health_addr == config.metrics_addr;
    let probes = listen::bind(config.health_addr.as_ref().filter(|_| !same), "--health-addr").await?;
    let operator = Operator::new(plan.clone(), client, Arc::new(MachineClock));
    let addresses = operator.serve(all, probes)?;
    let place = if plan.namespaces.is_empty() { "all".to_owned() } else { plan.namespaces.join(",") };
    let identity = plan.election.as_ref().map(|election| election.identity.as_str());
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        namespaces = place,
        identity,
        leases,
        serves = ?addresses,
        "orlop-operator starts"
    );
    let (tell, stop) = Stop::new();
    let signals = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stops: what is under way is finished, then the leases are given back");
        // Nobody listens any more when the work has ended by itself.
        tell.send_replace(true);
        // Whoever asks again does not want to wait.
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    tokio::select! {
        ended = operator.run(&stop) => ended?,
        () = signals => return Err(std::io::Error::other("told twice to stop; ends at once").into()),
    }
    tracing::info!("stopped");
    Ok(())
}

fn start_log(config: &Config) -> Result<(), String> {
    let filter = EnvFilter::try_new(&config.log_level).map_err(|error| format!("--log-level: {error}"))?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A program that embeds this may have a log of its own already.
    drop(match config.log_format {
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
        LogFormat::Text => lines.with_ansi(false).try_init(),
    });
    Ok(())
}

/// Writes an answer; whoever does not read it misses it.
fn show(text: &str) -> ExitCode {
    drop(std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()));
    ExitCode::SUCCESS
}

#[expect(clippy::print_stderr, reason = "before there is a log")]
fn complain(problem: &str, code: u8) -> ExitCode {
    eprintln!("orlop-operator: {problem}");
    ExitCode::from(code)
}
