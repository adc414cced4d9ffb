//! The program `orlop-operator`: flags, log, credentials, listeners, signals.

mod artifacts;
mod config;
mod flows;
mod hourglass;
mod listen;
mod release;
mod switch;
mod way;
mod webhook;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use orlop_cloud::exit::Exit;
use orlop_cloud::runtime::confidential;
use orlop_core::error::Problem;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use self::config::{Config, Invocation};
use self::switch::LogFormat;
use super::{Operator, Stop};
use crate::host::cluster;
use crate::host::flow::SystemClock;
use crate::host::program::ProgramError;
use crate::host::settings;

/// How long the webhook is still served once the process is to end: so long may an API server take to hear of it.
const LINGER: Duration = Duration::from_secs(5);

/// The arguments of the program.
#[cfg(test)]
pub(crate) fn command() -> clap::Command {
    config::command()
}

/// Runs the program.
#[must_use]
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    if let Err(error) = confidential::begin() {
        return complain(&format!("cannot disable core dumps: {error}"), Exit::Failed);
    }
    let config = match config::read(arguments, settings::variables()) {
        Ok(Invocation::Run(config)) => config,
        Ok(Invocation::Show(text)) => return show(&text),
        Ok(Invocation::Release(flags)) => {
            return match runtime().map(|runtime| runtime.block_on(flags.run())) {
                Ok(Ok(reported)) => show(&reported),
                Ok(Err(failure)) => complain(&failure.to_string(), failure.exit()),
                Err(error) => complain(&error.to_string(), Exit::Failed),
            };
        }
        Err(ProgramError::Usage(error)) => error.exit(),
        Err(error) => return complain(&error.to_string(), Exit::Usage),
    };
    if let Err(error) = start_log(&config) {
        return complain(&error, Exit::Usage);
    }
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error.to_string(), Exit::Failed),
    };
    match runtime.block_on(run(&config)) {
        Ok(()) => Exit::Done.into(),
        Err(failure) => {
            tracing::error!("{failure}");
            failure.exit().into()
        }
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}

async fn run(config: &Config) -> Result<(), ProgramError> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let client = cluster::client(&config.way).await?;
    let plan = config.plan(client.default_namespace())?;
    let leases = plan.election.as_ref().map(|election| election.leases.join(", "));
    let all = listen::bind(config.metrics_addr.as_ref(), "--metrics-addr").await?;
    let same = config.health_addr == config.metrics_addr;
    let probes = listen::bind(config.health_addr.as_ref().filter(|_| !same), "--health-addr").await?;
    let admission = listen::bind(config.webhook.webhook_addr.as_ref(), "--webhook-addr").await?;
    let artifacts = listen::bind(config.artifacts.artifact_addr.as_ref(), "--artifact-addr").await?;
    let operator = Operator::new(plan.clone(), client, Arc::new(SystemClock));
    let addresses = operator.serve(all, probes)?;
    let webhook = admission.map(|socket| operator.admit(socket)).transpose()?.flatten();
    let artifacts =
        artifacts.map(|socket| operator.take_artifacts(socket, config.artifacts.configmap_size_limit)).transpose()?;
    let place = if plan.namespaces.is_empty() { "all".to_owned() } else { plan.namespaces.join(",") };
    let identity = plan.election.as_ref().map(|election| election.identity.as_str());
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        namespaces = place,
        identity,
        leases,
        serves = ?addresses,
        artifacts = artifacts.as_ref().map(tracing::field::display),
        webhook = webhook.as_ref().map(|webhook| tracing::field::display(webhook.address())),
        "orlop-operator starts"
    );
    let (tell, stop) = Stop::new();
    let signals = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping: work in progress is finished, then the leases are released");
        // Nobody listens any more when the work has ended by itself.
        tell.send_replace(true);
        // Anyone who asks again does not want to wait.
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let works = async {
        operator.run(&stop).await?;
        if let Some(webhook) = webhook {
            webhook.end(if config.in_pod { LINGER } else { Duration::ZERO }).await;
        }
        Ok::<_, Problem>(())
    };
    tokio::select! {
        ended = works => ended?,
        () = signals => return Err(std::io::Error::other("second signal; exiting at once").into()),
    }
    tracing::info!("stopped");
    Ok(())
}

/// Libraries that write requests and answers into the log where it is asked to tell more. Either may hold secrets.
const QUOTING: [&str; 7] = ["kube", "kube_client", "kube_runtime", "hyper", "hyper_util", "tower", "h2"];

/// What is logged. The client of the API server warns of answers that it cannot read, and of watches that are refused, by
/// writing out what was said: it may tell of failures only, but for what it says of certificates. That a request had no
/// answer it says without saying which; anyone who made it says it whole.
fn filter(level: &str) -> Result<EnvFilter, String> {
    let mut filter = EnvFilter::try_new(level).map_err(|error| format!("--log-level: {error}"))?;
    let hint = filter.max_level_hint();
    let beyond = |most| hint.is_none_or(|level| level > most);
    let quiet = QUOTING.iter().filter(|_| beyond(LevelFilter::INFO)).map(|library| format!("{library}=info"));
    let client = ["kube_client::client=error", "kube_client::client::tls=warn", "kube_runtime::watcher=error"];
    let client = client.into_iter().filter(|_| beyond(LevelFilter::ERROR)).chain(["kube_client::client::builder=off"]);
    let client = client.map(str::to_owned);
    for directive in quiet.chain(client) {
        let quiet = directive.parse().map_err(|error| format!("{directive}: {error}"))?;
        filter = filter.add_directive(quiet);
    }
    Ok(filter)
}

fn start_log(config: &Config) -> Result<(), String> {
    let filter = filter(&config.log_level)?;
    let lines = crate::telemetry::lines().with_env_filter(filter).with_writer(std::io::stderr);
    // A program that embeds this may have its own log already.
    drop(match config.log_format {
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
        LogFormat::Text => lines.with_ansi(false).try_init(),
    });
    Ok(())
}

/// Writes an answer; a reader that has gone misses it.
fn show(text: &str) -> ExitCode {
    drop(std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()));
    Exit::Done.into()
}

#[expect(clippy::print_stderr, reason = "before there is a log")]
fn complain(problem: &str, exit: Exit) -> ExitCode {
    eprintln!("orlop-operator: {problem}");
    exit.into()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A log in memory.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_client_writes_no_answers_into_the_log_and_nothing_that_names_no_request() {
        for level in ["info", "trace", "kube_client=trace", "warn,kube_client=debug"] {
            let log = Log::default();
            let writer = log.clone();
            let lines = tracing_subscriber::fmt().with_env_filter(filter(level).unwrap());
            let lines = lines.with_writer(move || writer.clone()).finish();
            tracing::subscriber::with_default(lines, || {
                // As the client does with a list that it cannot read, and with a refusal.
                tracing::warn!(target: "kube_client::client", "{}, {:?}", "Planted-Key", "an error");
                tracing::debug!(target: "kube_client::client", "Unsuccessful: {}", "Planted-Key");
                tracing::warn!(target: "kube_runtime::watcher", "watch list error with 403: {}", "Planted-Key");
                tracing::error!(target: "kube_client::client::builder", "failed with error client error (Connect)");
                tracing::error!(target: "kube_client::client::auth", "no credentials");
            });
            let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
            assert!(text.contains("no credentials") && !text.contains("Planted-Key"), "{level}: {text}");
            assert!(!text.contains("Connect"), "which request it was is not said: {text}");
        }
    }
}
