//! The program `orlop-scheduler`: configuration, store, server, services, signals. Owns their order at the start and at the
//! end.

mod config;
mod layers;

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use orlop_cloud::logs::{LogOptions, LogStore};
use orlop_cloud::store::sqlite::fleet::SqliteFleet;
use orlop_core::error::{Class, PortError};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use self::config::{Config, LogFormat};
use self::layers::Layers;
use super::clock::MachineClock;
use super::grpc;
use super::{Options, Server, Stop};
use crate::wire::grpc::Listening;

const USAGE: &str = "orlop-scheduler [--config FILE] [--print-config] [--<section>-<key> VALUE]…

Serves the scheduler of a fleet. Every key of the configuration is also a variable ORLOP_<SECTION>_<KEY> and a
flag, in rising precedence; --print-config shows them all with their values.";

/// What the arguments ask for.
enum Asked {
    Usage,
    Version,
    Print(Box<Config>),
    Serve(Box<Config>),
}

/// Runs the program. Exit codes: 0 stopped in good order, 1 failed, 2 usage or configuration.
#[must_use]
pub fn main() -> ExitCode {
    let asked = match asked(std::env::args().skip(1), std::env::vars()) {
        Ok(asked) => asked,
        Err(problem) => return complain(&problem, 2),
    };
    match asked {
        Asked::Usage => tell(USAGE),
        Asked::Version => tell(concat!("orlop-scheduler ", env!("CARGO_PKG_VERSION"))),
        Asked::Print(config) => match serde_saphyr::to_string(&*config) {
            Ok(text) => tell(text.trim_end()),
            Err(error) => complain(&error.to_string(), 1),
        },
        Asked::Serve(config) => serve(&config),
    }
}

/// Reads arguments, file and environment.
fn asked(
    arguments: impl Iterator<Item = String>,
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Asked, String> {
    let (mut print, mut file, mut flags) = (false, None, Vec::new());
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--help" | "-h" => return Ok(Asked::Usage),
            "--version" | "-V" => return Ok(Asked::Version),
            "--print-config" => print = true,
            "--config" => file = Some(arguments.next().ok_or("flag `--config` needs a value")?),
            other => match other.strip_prefix("--config=") {
                Some(path) => file = Some(path.to_owned()),
                None => flags.push(argument),
            },
        }
    }
    let defaults = serde_json::to_value(Config::default()).map_err(|error| error.to_string())?;
    let mut layers = Layers::new(defaults);
    if let Some(path) = file {
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        layers.file(&path, &text).map_err(|error| error.to_string())?;
    }
    layers.environment(variables).map_err(|error| error.to_string())?;
    // A flag's value may come as the next argument.
    layers.flags(flags.into_iter()).map_err(|error| error.to_string())?;
    let config: Config = serde_json::from_value(layers.value()).map_err(|error| format!("configuration: {error}"))?;
    config.check()?;
    Ok(if print { Asked::Print(Box::new(config)) } else { Asked::Serve(Box::new(config)) })
}

#[expect(clippy::print_stdout, reason = "this is what the program answers")]
fn tell(text: &str) -> ExitCode {
    println!("{text}");
    ExitCode::SUCCESS
}

#[expect(clippy::print_stderr, reason = "before there is a log")]
fn complain(problem: &str, code: u8) -> ExitCode {
    eprintln!("orlop-scheduler: {problem}");
    ExitCode::from(code)
}

fn log(config: &Config) -> Result<(), String> {
    let filter = EnvFilter::try_new(&config.log.level).map_err(|error| format!("log.level: {error}"))?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let json = match config.log.format {
        LogFormat::Auto => !std::io::stderr().is_terminal(),
        LogFormat::Json => true,
        LogFormat::Text => false,
    };
    let set = if json { lines.json().flatten_event(true).try_init() } else { lines.try_init() };
    set.map_err(|error| error.to_string())
}

fn serve(config: &Config) -> ExitCode {
    if let Err(problem) = log(config) {
        return complain(&problem, 2);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error.to_string(), 1),
    };
    match runtime.block_on(run(config)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            tracing::error!(target: "orlop::scheduler", "{problem}");
            ExitCode::FAILURE
        }
    }
}

async fn run(config: &Config) -> Result<(), String> {
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;
    let store = tokio::select! {
        store = open(config) => Arc::new(store?),
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    let listen = &config.server.listen;
    let wanted: SocketAddr = listen.parse().map_err(|error| format!("server.listen `{listen}`: {error}"))?;
    let socket = Listening::bind(wanted, None).await.map_err(|refused| format!("server.listen: {refused}"))?;
    let address = socket.address().to_string();
    let logs = LogStore::open(&config.store.logs, LogOptions::default());
    let logs = logs.map_err(|error| format!("store.logs: {}", error.chain()))?;
    let options = Options { logs: Some(logs), ..config.options(&address) };
    let runtime = tokio::runtime::Handle::current();
    let server = Server::start(store, Arc::new(MachineClock::default()), options, runtime);
    let server = server.map_err(|error| error.to_string())?;
    let stop = Stop::default();
    let mut served = tokio::spawn(grpc::serve(server.handle().clone(), socket, stop.clone()));
    tracing::info!(target: "orlop::scheduler", %address, "serves gRPC");
    publish(&config.server.address_file, &address)?;
    let early = tokio::select! {
        early = &mut served => Some(early),
        _ = terminate.recv() => None,
        _ = interrupt.recv() => None,
    };
    tracing::info!(target: "orlop::scheduler", "stops");
    // What was taken is committed and answered before the connections close.
    server.stop().await;
    stop.stop();
    let ended = match early {
        Some(ended) => ended,
        None => served.await,
    };
    ended.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

/// Opens the store; where another server has it, waits for that one to end.
async fn open(config: &Config) -> Result<SqliteFleet, String> {
    let mut told = false;
    loop {
        match SqliteFleet::open(&config.store.path, config.store.synchronous.into()).await {
            Ok(store) => return Ok(store),
            Err(locked) if locked.class == Class::Conflict => {
                if !std::mem::replace(&mut told, true) {
                    tracing::info!(target: "orlop::scheduler", error = locked.chain(), "waits for the store");
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            Err(error) => return Err(PortError::chain(&error)),
        }
    }
}

/// Writes the address to a file that appears whole, if one is asked for.
fn publish(path: &str, address: &str) -> Result<(), String> {
    if path.is_empty() {
        return Ok(());
    }
    let wrong = |error: std::io::Error| format!("server.address_file {path}: {error}");
    let before = format!("{path}.{}", std::process::id());
    std::fs::write(&before, address).map_err(wrong)?;
    std::fs::rename(&before, path).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked_with(arguments: &[&str]) -> Result<Asked, String> {
        asked(arguments.iter().map(|text| (*text).to_owned()), std::iter::empty())
    }

    #[test]
    fn s10_flags_reach_the_configuration() {
        let Ok(Asked::Serve(config)) = asked_with(&["--server-listen", "127.0.0.1:0", "--scheduler-policy=spread"])
        else {
            panic!("it serves");
        };
        assert_eq!(config.server.listen, "127.0.0.1:0");
        assert_eq!(config.scheduler.policy, orlop_scheduler::config::Policy::Spread);
        assert!(matches!(asked_with(&["--print-config"]), Ok(Asked::Print(_))));
        insta::assert_snapshot!(asked_with(&["--server-lease=40s"]).err().unwrap(), @"scheduler.reassign_after is 30000 ms; use at least 49500, which is 1.1 × (server.lease + 5 s)");
        assert!(asked_with(&["serve"]).is_err());
    }
}
