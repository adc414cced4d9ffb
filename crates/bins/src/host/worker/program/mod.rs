//! The program `orlop-worker`: an agent with its configuration, signals and log.

mod config;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use orlop_cloud::exit::Exit;
use orlop_cloud::runtime::confidential;
use orlop_core::error::{Class, Problem};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use self::config::Config;
pub(crate) use self::config::{Enforced, limits_of};
use super::remote::RemoteLink;
use super::roles;
use super::{Agent, AgentOptions};
use crate::host::program::{ProgramError, wrong_setting};
use crate::host::settings;
use crate::telemetry::trace::export;

/// The arguments of the program.
#[cfg(test)]
pub(crate) fn command() -> clap::Command {
    config::command()
}

/// Runs the program to its end.
#[must_use]
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    if let Some(code) = roles::play() {
        return code;
    }
    match run(arguments) {
        Ok(()) => Exit::Done.into(),
        Err(ProgramError::Usage(error)) => error.exit(),
        Err(failure) => {
            say(&format!("error: {failure}"));
            failure.exit().into()
        }
    }
}

fn run(arguments: Vec<OsString>) -> Result<(), ProgramError> {
    confidential::begin()?;
    let settings = config::read(arguments, settings::variables())?;
    if settings.print {
        show(&settings.sources.show(&settings.value)?);
        return Ok(());
    }
    let config = settings.value;
    let filter = EnvFilter::try_from_env("ORLOP_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let log = crate::telemetry::lines().with_env_filter(filter).with_writer(std::io::stderr);
    // A program that embeds this may have its own log already.
    drop(if config.json_log { log.json().try_init() } else { log.try_init() });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(work(config))
}

async fn work(config: Config) -> Result<(), ProgramError> {
    let mut link = RemoteLink::new(config.servers()?, config.token()?, &config.state)?;
    if let Some(file) = config.used_up() {
        link = link.using_up(file);
    }
    if let Some(file) = &config.token_file {
        link = link.with_client_token(file);
    }
    let mut options: AgentOptions = config.options()?;
    options.exclusive = true;
    options.play_with(&std::env::current_exe()?);
    let traces = config
        .traces()
        .map(|plan| export(&plan))
        .transpose()
        .map_err(|error| wrong_setting("trace_endpoint", error))?
        .map(|(tracer, exporting)| {
            options.tracer = tracer;
            exporting
        });
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let agent = Agent::start(options, Arc::new(link)).await?;
    let control = agent.control();
    let ended = agent.ended();
    tokio::pin!(ended);
    let mut asked = false;
    let over = loop {
        tokio::select! {
            over = &mut ended => break over,
            _ = terminate.recv() => {
                if std::mem::replace(&mut asked, true) {
                    control.cancel();
                } else {
                    tracing::info!("draining: live attempts finish; a second signal cancels them");
                    control.drain();
                }
            }
            _ = interrupt.recv() => control.cancel(),
        }
    };
    if let Some(traces) = traces {
        traces.end().await;
    }
    // Anyone who keeps the program running has to see that it did not end by itself.
    over.map_err(|error| {
        Problem::new(Class::Fatal, format!("the agent stopped, and what it ran may run on: {error}")).into()
    })
}

/// Writes for people; a reader that has gone misses it.
fn say(text: &str) {
    drop(std::io::Write::write_all(&mut std::io::stderr(), format!("{text}\n").as_bytes()));
}

fn show(text: &str) {
    drop(std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()));
}
