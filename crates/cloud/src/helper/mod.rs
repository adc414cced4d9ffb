//! The artifact helper, a program in a Kubernetes pod: it fetches inputs before the command starts, runs the command, stores its outputs,
//! and writes a report. The operator, which made the pod, decides where files go and what a report means.
//!
//! Its orders come from one environment variable: see [`orlop_core::helper`]. Secrets are neither reported nor passed to the command.

mod command;
mod fetch;
mod keep;
mod keys;
mod patience;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nix::sys::prctl::set_dumpable;
use orlop_core::error::{Class, Problem};
use orlop_core::helper::{FetchOrder, Modes, ORDER, Report, ReportedFailure, RunOrder, TOKEN, VERSION};
use serde::de::DeserializeOwned;
use tokio::signal::unix::{SignalKind, signal};

use self::command::{Command, Ended};
pub use self::keys::Keys;
use self::keys::Secrets;

const HELP: &str =
    "Moves the files of a step inside its pod: an operator puts it there and says by variables what to do.";

/// Exit code where the program cannot do its own part.
const BROKEN: u8 = 70;

/// Exit code after SIGTERM before it could do its part.
const TOLD_TO_END: u8 = 128 + 15;

/// Why the program could not do its part.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("usage: orlop-helper fetch | orlop-helper run -- COMMAND [ARGUMENT]...")]
    Usage,
    #[error("the variable {ORDER} is not set: this program is started in a pod that an operator created")]
    NoOrder,
    #[error("the variable {ORDER} cannot be read: {0}; give operator and helper the same version")]
    Order(String),
    #[error("{0}")]
    System(#[from] io::Error),
    #[error("{}", .0.chain())]
    Port(#[from] Problem),
}

/// What the environment of the process says.
#[derive(Clone, Default)]
pub struct Environment {
    /// The order.
    pub order: Option<String>,
    /// The token of the attempt.
    pub token: Option<String>,
    /// Keys to stores.
    pub keys: Keys,
    /// Whether this is not the first pod of an Indexed Job, if it is one of such a Job at all.
    pub later: bool,
}

impl Environment {
    /// That of this process.
    #[must_use]
    pub fn of_process() -> Self {
        let text = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
        let later = text("JOB_COMPLETION_INDEX").is_some_and(|index| index != "0");
        // One that is no text holds no key.
        let texts =
            std::env::vars_os().filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)));
        Self { order: text(ORDER), token: text(TOKEN), keys: texts.collect(), later }
    }

    fn order<O: DeserializeOwned>(&self, version: impl FnOnce(&O) -> u32) -> Result<O, Failure> {
        let text = self.order.as_deref().ok_or(Failure::NoOrder)?;
        // What is said of an order that cannot be read names the place in it, not what stands there.
        let wrong =
            |error: serde_json::Error| Failure::Order(format!("line {} column {}", error.line(), error.column()));
        let order: O = serde_json::from_str(text).map_err(wrong)?;
        match version(&order) {
            VERSION => Ok(order),
            other => Err(Failure::Order(format!("its version is {other} and not {VERSION}"))),
        }
    }
}

/// Runs the program: `fetch`, or `run -- COMMAND…`. Exit codes: that of the command; 0 when all inputs are there; 70 when it
/// could not do its part.
#[must_use]
pub fn main(arguments: impl Iterator<Item = OsString>, environment: &Environment) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = runtime.map_err(Failure::from).and_then(|runtime| {
        let done = runtime.block_on(dispatch(arguments.collect(), environment));
        // Work on blocking threads that nobody waits for must not hold the program.
        runtime.shutdown_background();
        done
    });
    done.unwrap_or_else(|failure| {
        say(&failure.to_string());
        ExitCode::from(BROKEN)
    })
}

async fn dispatch(arguments: Vec<OsString>, environment: &Environment) -> Result<ExitCode, Failure> {
    match arguments.as_slice() {
        [flag] if flag == "--help" || flag == "-h" => Ok(tell(&format!("{HELP}\n\n{}", Failure::Usage))),
        [flag] if flag == "--version" || flag == "-V" => Ok(tell(concat!("orlop-helper ", env!("CARGO_PKG_VERSION")))),
        [verb] if verb == "fetch" => {
            let order = environment.order(|order: &FetchOrder| order.v)?;
            // The first process of a container has to say itself that a signal ends it.
            let mut told_to_end = signal(SignalKind::terminate())?;
            let done = tokio::select! {
                done = fetch::all(&order, &environment.keys) => done,
                _ = told_to_end.recv() => return Ok(ExitCode::from(TOLD_TO_END)),
            };
            if let Err(error) = &done {
                let report = Report::of_trouble("ArtifactUnavailable", &error.chain());
                leave(Path::new(&order.message), &report);
            }
            done?;
            Ok(ExitCode::SUCCESS)
        }
        [verb, dashes, program, rest @ ..] if verb == "run" && dashes == "--" => {
            let order = environment.order(|order: &RunOrder| order.v)?;
            run(&order, Command { program, arguments: rest }, environment).await
        }
        _ => Err(Failure::Usage),
    }
}

/// Answers a question about the program.
fn tell(text: &str) -> ExitCode {
    drop(writeln!(io::stdout(), "{text}"));
    ExitCode::SUCCESS
}

/// Runs the command, then keeps what it gave.
async fn run(order: &RunOrder, command: Command<'_>, environment: &Environment) -> Result<ExitCode, Failure> {
    let token = environment.token.as_deref().unwrap_or_default();
    // Of an Indexed Job, the first pod speaks.
    let silent = order.indexed && environment.later;
    let secrets = Secrets { token, keys: &environment.keys };
    // What is in this process's variables is not for the command, which may be the same user.
    set_dumpable(false).map_err(io::Error::from)?;
    let mut child = match command.start() {
        Ok(child) => child,
        Err(error) => {
            // As a shell does.
            say(&format!("{} cannot be started: {error}", command.program.display()));
            return Ok(ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }));
        }
    };
    let Ended { code, told_to_end } = child.end().await?;
    let message = PathBuf::from(&order.message);
    let keeping = async {
        let mut report = keep::all(order, secrets, !told_to_end && !silent).await;
        report.message = keep::message(&message);
        if told_to_end && !silent && !order.artifacts.is_empty() {
            let message = "the pod was asked to stop before its artifacts were stored".to_owned();
            report.trouble.get_or_insert_with(|| ReportedFailure { reason: "OutputMissing".to_owned(), message });
        }
        if silent { report } else { keep::fitting(order, token, report).await }
    };
    // A pod that has to go has no time to store what nobody will take.
    let report = tokio::select! {
        report = keeping => report,
        () = child.told_to_end() => Report::of_trouble("OutputMissing", "the pod was asked to stop while outputs were being stored"),
    };
    if let Some(trouble) = &report.trouble {
        say(&format!("{}: {}", trouble.reason, trouble.message));
    }
    leave(&message, &report);
    Ok(ExitCode::from(code))
}

/// Leaves a report. In place: a kubelet watches that very file.
fn leave(path: &Path, report: &Report) {
    if let Err(error) = std::fs::write(path, report.text()) {
        say(&format!("{} cannot be written, so the result cannot be reported: {error}", path.display()));
    }
}

fn say(text: &str) {
    // There is nobody to tell that nobody listens.
    drop(writeln!(io::stderr(), "orlop-helper: {text}"));
}

/// A file or folder that is not there, with what is said of it.
fn clear(path: &Path) -> Result<(), Problem> {
    let removed = match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let class = Problem::from(io::Error::from(error.kind())).class;
            Err(Problem::new(class, format!("{} cannot be removed", path.display())).because(error))
        }
        _ => Ok(()),
    }
}

fn making(path: &Path, modes: Modes) -> Result<(), Problem> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(modes.dir).create(path);
    made.map_err(|error| {
        let class = Problem::from(io::Error::from(error.kind())).class;
        let class = if class == Class::Transient { Class::Invalid } else { class };
        Problem::new(class, format!("the folder {} cannot be created", path.display())).because(error)
    })
}
