//! The program `orlop-scheduler`: configuration, log, store, server, signals.

mod background;
mod config;
mod console;
mod engine;
mod first;
mod logging;
mod masked;
mod security;
mod store;
mod tls;
mod trace;
mod whole;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use orlop_cloud::exit::Exit;
use orlop_cloud::runtime::confidential;
use orlop_core::error::{Class, Problem};
use tokio::signal::unix::{SignalKind, signal};

use self::config::Config;
#[cfg(test)]
pub(crate) use self::config::command;
pub(crate) use self::console::ConsolePlan;
use self::logging::Log;
use self::store::OpenStore;
pub(crate) use self::store::StorePlace;
pub(crate) use self::tls::{AUTHORITY, TlsPlan};
pub(crate) use self::whole::{Plan, Whole};
use crate::host::private;
use crate::host::program::ProgramError;
use crate::host::settings;
use crate::telemetry::trace::export;

/// The first wait for a database that cannot be reached, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// The wait for a file that another server has.
const LOCKED: Duration = Duration::from_millis(500);

/// Runs the program.
#[must_use]
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    if let Err(error) = confidential::begin() {
        return complain(&format!("cannot disable core dumps: {error}"), Exit::Failed);
    }
    open_files();
    let settings = match config::read(arguments.clone(), settings::variables()) {
        Ok(settings) => settings,
        Err(ProgramError::Usage(error)) => error.exit(),
        Err(problem) => return complain(&problem.to_string(), problem.exit()),
    };
    if !settings.print {
        return serve(&settings.value, &arguments);
    }
    match settings.sources.show(&settings.value.clone().masked()) {
        Ok(text) => show(text.trim_end()),
        Err(error) => complain(&error.message, Exit::Failed),
    }
}

/// Lets the process have as many connections as it serves at most, where that is allowed. No job inherits it.
fn open_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    const WANTED: u64 = 65536;
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < WANTED.min(hard)
        && let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, WANTED.min(hard), hard)
    {
        // There are fewer connections then; the log has not begun yet.
        complain(&format!("{WANTED} open files are not available: {error}"), Exit::Done);
    }
}

/// Writes an answer; a reader that has gone misses it.
fn show(text: &str) -> ExitCode {
    drop(writeln!(std::io::stdout(), "{text}"));
    Exit::Done.into()
}

#[expect(clippy::print_stderr, reason = "before there is a log")]
fn complain(problem: &str, exit: Exit) -> ExitCode {
    eprintln!("orlop-scheduler: {problem}");
    exit.into()
}

fn serve(config: &Config, arguments: &[OsString]) -> ExitCode {
    let log = match Log::start(&config.log) {
        Ok(log) => log,
        Err(problem) => return complain(&problem, Exit::Usage),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error.to_string(), Exit::Failed),
    };
    match runtime.block_on(run(config, arguments, &log)) {
        Ok(()) => Exit::Done.into(),
        Err(problem) => {
            tracing::error!(target: "orlop::scheduler", "{problem}");
            Exit::Failed.into()
        }
    }
}

async fn run(config: &Config, arguments: &[OsString], log: &Log) -> Result<(), String> {
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;
    let mut hangup = signal(SignalKind::hangup()).map_err(|error| error.to_string())?;
    for said in private::close(config.private().iter().map(PathBuf::as_path)) {
        tracing::warn!(target: "orlop::scheduler", "{said}");
    }
    let store = tokio::select! {
        store = open(config) => store?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    let (logs, artifacts) = (config.store.logs(), config.store.artifacts());
    let mut plan = config.plan()?;
    let logs = store.logs(logs.as_deref(), config.store.accept).await;
    plan.options.logs = Some(logs.map_err(|error| format!("store.logs: {}", error.chain()))?);
    let artifacts = store.artifacts(artifacts.as_deref(), config.store.accept).await;
    plan.options.artifacts = Some(artifacts.map_err(|error| format!("store.artifacts: {}", error.chain()))?);
    let secrets = config.secrets.place(&config.store).open(store.fleet());
    plan.options.secrets = secrets.map_err(|error| format!("secrets: {}", error.chain()))?;
    let traces = config.trace.plan(&plan.options.holder.name)?.map(|traces| export(&traces)).transpose();
    let traces = traces.map_err(|error| format!("trace: {error}"))?;
    let traces = traces.map(|(tracer, exporting)| {
        plan.options.tracer = tracer;
        exporting
    });
    let mut whole = Whole::start(plan, store).await.map_err(|error| error.to_string())?;
    let (rest, grpc) = (whole.rest_url(), whole.grpc_url());
    tracing::info!(target: "orlop::scheduler", %rest, %grpc, "serves");
    publish(&config.server.address_file, &format!("{rest}\n{grpc}\n"))?;
    let mut current = config.clone();
    let early = loop {
        tokio::select! {
            early = whole.failed() => break Err(early),
            _ = terminate.recv() => break Ok(()),
            _ = interrupt.recv() => break Ok(()),
            _ = hangup.recv() => reload(&mut current, arguments, &whole, log).await,
        }
    };
    tracing::info!(target: "orlop::scheduler", "stops");
    whole.stop().await;
    if let Some(traces) = traces {
        traces.end().await;
    }
    early
}

/// Reads the configuration again and takes over what can change while the server runs. Tenants, quotas and tokens are in the
/// store and need no reading.
async fn reload(current: &mut Config, arguments: &[OsString], whole: &Whole, log: &Log) {
    let new = match config::read(arguments.to_vec(), settings::variables()) {
        Ok(settings) => settings.value,
        Err(problem) => {
            tracing::error!(target: "orlop::scheduler", problem = problem.to_string(), "the configuration was not loaded again");
            return;
        }
    };
    if let Err(problem) = log.change(&new.log) {
        tracing::error!(target: "orlop::scheduler", problem, "the log settings are unchanged");
    }
    let [token, address] = new.rate.rates();
    whole.api().guard().set_rates(token, address);
    // Agents keep the lease that they were given when they registered.
    let mut scheduler = new.scheduler.clone();
    scheduler.0.lease = current.scheduler.0.lease;
    if scheduler != current.scheduler
        && let Err(problem) = whole.handle().configure(scheduler.0.clone()).await
    {
        tracing::error!(target: "orlop::scheduler", problem = problem.message, "the scheduler settings are unchanged");
    }
    let kept = Config { log: new.log.clone(), rate: new.rate.clone(), scheduler, ..current.clone() };
    if kept != new {
        tracing::warn!(target: "orlop::scheduler", "some keys that changed take effect at the next start only");
    }
    *current = kept;
    tracing::info!(target: "orlop::scheduler", "loaded the configuration again");
}

/// Opens the store; where another server has it waits for that one to end, and for a database to be reached.
async fn open(config: &Config) -> Result<OpenStore, String> {
    let place = config.store.place()?;
    let (mut reported, mut wait) = (None, RETRY.0);
    loop {
        let error = match place.open().await {
            Ok(store) => return Ok(store),
            Err(error) => error,
        };
        let pause = match error.class {
            Class::Conflict => LOCKED,
            Class::Transient => {
                let pause = wait;
                wait = (wait * 2).min(RETRY.1);
                pause
            }
            _ => return Err(Problem::chain(&error)),
        };
        // Each kind of trouble once: a store can be away for long.
        if reported.replace(error.class) != Some(error.class) {
            tracing::warn!(target: "orlop::scheduler", error = error.chain(), "waits for the store");
        }
        tokio::time::sleep(pause).await;
    }
}

/// Writes the addresses to a file that appears whole, if one is asked for.
fn publish(path: &str, addresses: &str) -> Result<(), String> {
    if path.is_empty() {
        return Ok(());
    }
    let wrong = |error: std::io::Error| format!("server.address_file {path}: {error}");
    let before = format!("{path}.{}", std::process::id());
    std::fs::write(&before, addresses).map_err(wrong)?;
    std::fs::rename(&before, path).map_err(wrong)
}

/// Whether the scheduler takes a file of settings.
#[cfg(test)]
pub(crate) fn takes(file: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().join("scheduler.yaml");
    std::fs::write(&path, file).map_err(|error| error.to_string())?;
    let arguments = vec!["orlop-scheduler".into(), "--config".into(), path.into_os_string()];
    config::read(arguments, std::iter::empty()).map(|_| ()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str], variables: &[(&str, &str)]) -> Result<Config, ProgramError> {
        let arguments = std::iter::once("orlop-scheduler").chain(arguments.iter().copied()).map(OsString::from);
        let variables = variables.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        config::read(arguments.collect(), variables).map(|settings| settings.value)
    }

    #[test]
    fn flags_reach_the_configuration() {
        let arguments =
            ["--server-listen", "127.0.0.1:0", "--scheduler-policy=Spread", "--log-format=JSON", "--retain-jobs=2h"];
        let config = read(&arguments, &[("ORLOP_SCHEDULER_BAND_SHARE", "0.5,0.25,0.25")]).unwrap();
        assert_eq!((config.server.listen.as_str(), config.retain.jobs), ("127.0.0.1:0", 7_200_000));
        assert_eq!(config.scheduler.0.policy, orlop_scheduler::config::Policy::Spread);
        assert_eq!(config.scheduler.0.band_share, [0.5, 0.25, 0.25]);
        assert_eq!(read(&[], &[]).unwrap(), Config::default());
        insta::assert_snapshot!(read(&["--scheduler-lease=40s"], &[]).unwrap_err(), @"scheduler.reassign_after is 30000 ms; use at least 49500, which is 1.1 × (scheduler.lease + 5 s)");
        assert!(read(&["serve"], &[]).is_err());
    }

    #[test]
    fn no_secret_is_taken_from_the_arguments_of_the_process() {
        let refused = [
            ("--secrets-key=00ff", "ORLOP_SECRETS_KEY_FILE"),
            ("--bus-token=hush", "ORLOP_BUS_TOKEN_FILE"),
            ("--bus-url=nats://a:hush@b,nats://c", "ORLOP_BUS_URL_FILE"),
            ("--store-url=postgres://orlop:hush@db/orlop", "ORLOP_STORE_URL_FILE"),
            ("--store-url=host=db password=hush", "ORLOP_STORE_URL_FILE"),
        ];
        for (flag, variable) in refused {
            let message = read(&[flag], &[]).unwrap_err().to_string();
            assert!(message.contains(variable) && !message.contains("hush"), "{message}");
        }
        let unknown = read(&["--bus-token-file=t", "--store-path=a.db"], &[("ORLOP_BUS_URL", "nats://c")]);
        let unknown = unknown.unwrap_err().to_string();
        assert!(unknown.contains("--bus-token-file"), "{unknown}");
    }
}
