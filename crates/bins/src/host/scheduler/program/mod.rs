//! The program `orlop-scheduler`: configuration, log, store, server, signals.

mod background;
mod config;
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

use orlop_cloud::exit::{self, Exit};
use orlop_cloud::runtime::confidential;
use orlop_core::error::{Class, Problem};
use tokio::signal::unix::{SignalKind, signal};

use self::config::Config;
use self::logging::Log;
use self::store::OpenStore;
pub(crate) use self::store::StorePlace;
pub(crate) use self::tls::{AUTHORITY, TlsPlan};
pub(crate) use self::whole::{Plan, Whole};
use crate::host::layers::Layers;
use crate::host::private;
use crate::telemetry::trace::export;

/// The first wait for a database that cannot be reached, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// The wait for a file that another server has.
const LOCKED: Duration = Duration::from_millis(500);

const USAGE: &str = "orlop scheduler [--config FILE] [--print-config] [--<section>-<key> VALUE]…

Serves the scheduler of a fleet. Every key of the configuration is also a variable ORLOP_<SECTION>_<KEY> and a
flag, in rising precedence; --print-config shows them all with their values.";

/// What `--help` shows.
pub(crate) fn usage() -> String {
    exit::help(USAGE)
}

/// What the arguments ask for.
enum Invocation {
    Usage,
    Version,
    Print(Box<Config>),
    Serve(Box<Config>),
}

/// Runs the program.
#[must_use]
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    if let Err(error) = confidential::begin() {
        return complain(&format!("core dumps cannot be switched off: {error}"), Exit::Failed);
    }
    open_files();
    let words = arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>();
    let asked = match asked(words.iter().cloned(), std::env::vars()) {
        Ok(asked) => asked,
        Err(problem) => return complain(&problem, Exit::Usage),
    };
    match asked {
        Invocation::Usage => tell(&usage()),
        Invocation::Version => tell(concat!("orlop-scheduler ", env!("CARGO_PKG_VERSION"))),
        Invocation::Print(config) => match serde_saphyr::to_string(&config.masked()) {
            Ok(text) => tell(text.trim_end()),
            Err(error) => complain(&error.to_string(), Exit::Failed),
        },
        Invocation::Serve(config) => serve(&config, &words),
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
        complain(&format!("{WANTED} open files are not to be had: {error}"), Exit::Done);
    }
}

/// Reads arguments, file and environment.
fn asked(
    arguments: impl Iterator<Item = String>,
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Invocation, String> {
    let (mut print, mut file, mut flags) = (false, None, Vec::new());
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--help" | "-h" => return Ok(Invocation::Usage),
            "--version" | "-V" => return Ok(Invocation::Version),
            "--print-config" => print = true,
            "--config" => file = Some(arguments.next().ok_or("flag `--config` needs a value")?),
            other => match other.strip_prefix("--config=") {
                Some(path) => file = Some(path.to_owned()),
                None => flags.push(argument),
            },
        }
    }
    let defaults = serde_json::to_value(Config::default()).map_err(|error| error.to_string())?;
    let config = |layers: Layers| -> Result<Config, String> {
        serde_json::from_value(layers.value()).map_err(|error| format!("configuration: {error}"))
    };
    let mut layers = Layers::new(defaults);
    let mut given = layers.clone();
    given.flags(flags.iter().cloned()).map_err(|error| error.to_string())?;
    if let Some(key) = config(given)?.secret_key() {
        let (flag, variable) = (key.replace('.', "-"), key.replace('.', "_").to_uppercase());
        return Err(format!(
            "flag `--{flag}` holds a secret, and everybody on this machine can read the arguments of a process; write it into a \
             file of your own and name that in the variable ORLOP_{variable}_FILE, or set `{key}` in the configuration file"
        ));
    }
    if let Some(path) = file {
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        layers.file(&path, &text).map_err(|error| error.to_string())?;
    }
    layers.environment(variables).map_err(|error| error.to_string())?;
    // A flag's value may come as the next argument.
    layers.flags(flags.into_iter()).map_err(|error| error.to_string())?;
    let config = config(layers)?;
    config.check()?;
    Ok(if print { Invocation::Print(Box::new(config)) } else { Invocation::Serve(Box::new(config)) })
}

/// Writes an answer; a reader that has gone misses it.
fn tell(text: &str) -> ExitCode {
    drop(writeln!(std::io::stdout(), "{text}"));
    Exit::Done.into()
}

#[expect(clippy::print_stderr, reason = "before there is a log")]
fn complain(problem: &str, exit: Exit) -> ExitCode {
    eprintln!("orlop-scheduler: {problem}");
    exit.into()
}

fn serve(config: &Config, words: &[String]) -> ExitCode {
    let log = match Log::start(&config.log) {
        Ok(log) => log,
        Err(problem) => return complain(&problem, Exit::Usage),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error.to_string(), Exit::Failed),
    };
    match runtime.block_on(run(config, words, &log)) {
        Ok(()) => Exit::Done.into(),
        Err(problem) => {
            tracing::error!(target: "orlop::scheduler", "{problem}");
            Exit::Failed.into()
        }
    }
}

async fn run(config: &Config, words: &[String], log: &Log) -> Result<(), String> {
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
            _ = hangup.recv() => reload(&mut current, words, &whole, log).await,
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
async fn reload(current: &mut Config, words: &[String], whole: &Whole, log: &Log) {
    let read = asked(words.iter().cloned(), std::env::vars());
    let new = match read {
        Ok(Invocation::Serve(new)) => *new,
        Ok(_) => return,
        Err(problem) => {
            tracing::error!(target: "orlop::scheduler", problem, "the configuration was not loaded again");
            return;
        }
    };
    if let Err(problem) = log.change(&new.log) {
        tracing::error!(target: "orlop::scheduler", problem, "the log goes on as before");
    }
    let [token, address] = new.rate.rates();
    whole.api().guard().set_rates(token, address);
    // Agents keep the lease that they were given when they registered.
    let mut scheduler = new.scheduler.clone();
    scheduler.lease = current.scheduler.lease;
    if scheduler != current.scheduler
        && let Err(problem) = whole.handle().configure(scheduler.clone()).await
    {
        tracing::error!(target: "orlop::scheduler", problem = problem.message, "the scheduler goes on as before");
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
    let (mut told, mut wait) = (None, RETRY.0);
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
        if told.replace(error.class) != Some(error.class) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn asked_with(arguments: &[&str]) -> Result<Invocation, String> {
        asked(arguments.iter().map(|text| (*text).to_owned()), std::iter::empty())
    }

    #[test]
    fn flags_reach_the_configuration() {
        let Ok(Invocation::Serve(config)) =
            asked_with(&["--server-listen", "127.0.0.1:0", "--scheduler-policy=Spread", "--log-format=JSON"])
        else {
            panic!("it serves");
        };
        assert_eq!(config.server.listen, "127.0.0.1:0");
        assert_eq!(config.scheduler.policy, orlop_scheduler::config::Policy::Spread);
        assert!(matches!(asked_with(&["--print-config"]), Ok(Invocation::Print(_))));
        insta::assert_snapshot!(asked_with(&["--scheduler-lease=40s"]).err().unwrap(), @"scheduler.reassign_after is 30000 ms; use at least 49500, which is 1.1 × (scheduler.lease + 5 s)");
        assert!(asked_with(&["serve"]).is_err());
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
            let message = asked_with(&[flag]).err().unwrap();
            assert!(message.contains(variable) && !message.contains("hush"), "{message}");
        }
        let variables = [("ORLOP_BUS_URL".to_owned(), "nats://c".to_owned())];
        let flags = ["--bus-token-file=t", "--store-path=a.db"].map(str::to_owned);
        let unknown = asked(flags.into_iter(), variables.into_iter()).err().unwrap();
        assert!(unknown.contains("bus.token_file"), "{unknown}");
    }
}
