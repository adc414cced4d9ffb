//! The program `orlop-provisioner`: arguments, settings, log, signals, and how results are shown.

mod apply;
mod args;
mod ask;
mod carry;
mod catalog;
mod destroy;
mod document;
mod examine;
mod failure;
mod fleet;
mod hidden;
mod identity;
mod idle;
mod join;
mod key;
mod log;
mod manage;
mod multi_site;
mod options;
mod record;
mod request;
mod settings;
mod show;
mod sign_in;
mod signals;
mod steps;
mod surroundings;
mod values;
mod verbs;
mod watch;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use orlop_cloud::exit::Exit;
use tokio::time::Instant;

use self::args::{Cli, Form, OutputArgs, Verb};
use self::document::{Outcome, Report};
use self::examine::Run;
use self::failure::Failure;
use self::signals::Signals;

/// The arguments of the program.
#[cfg(test)]
pub(crate) fn command() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}

/// Runs the program.
#[must_use]
pub fn main(given: Vec<OsString>) -> ExitCode {
    let cli = match parse(given) {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to standard output, the rest to standard error; a reader that has gone is no trouble.
            drop(error.print());
            return if error.use_stderr() { Exit::Usage } else { Exit::Done }.into();
        }
    };
    let output = cli.verb.output();
    if let Err(failure) = log::start(output) {
        say(&format!("error: {failure}"));
        return failure.exit.into();
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            say(&format!("error: the runtime cannot be started: {error}"));
            return Exit::Failed.into();
        }
    };
    let (outcome, elapsed) = runtime.block_on(async {
        let started = Instant::now();
        let outcome = run(&cli.verb).await;
        (outcome, started.elapsed())
    });
    // Work on blocking threads that nobody waits for must not hold the program.
    runtime.shutdown_background();
    show(output, &outcome, elapsed)
}

impl Verb {
    fn output(&self) -> &OutputArgs {
        match self {
            Self::Analyze(args) => &args.output,
            Self::Plan(args) => &args.output,
            Self::Apply(args) => &args.output,
            Self::Status(args) => &args.output,
            Self::Resume(args) => &args.output,
            Self::Extend(args) => &args.output,
            Self::Destroy(args) => &args.output,
            Self::List(args) => &args.output,
            Self::Catalog(args) => args.what.output(),
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Analyze(_) => "analyze",
            Self::Plan(_) => "plan",
            Self::Apply(_) => "apply",
            Self::Status(_) => "status",
            Self::Resume(_) => "resume",
            Self::Extend(_) => "extend",
            Self::Destroy(_) => "destroy",
            Self::List(_) => "list",
            Self::Catalog(args) => args.what.name(),
        }
    }
}

async fn run(verb: &Verb) -> Outcome {
    let mut run = Run::default();
    let result = match Signals::listen() {
        Ok(signals) => tokio::select! {
            result = carry_out(verb, &mut run, &signals) => result,
            interrupted = signals.unclaimed() => Err(interrupted),
        },
        Err(failure) => Err(failure),
    };
    Outcome { verb: verb.name(), asked: run.asked(), result, warnings: run.warnings, account: run.account }
}

async fn carry_out(verb: &Verb, run: &mut Run, signals: &Signals) -> Result<Report, Failure> {
    match verb {
        Verb::Analyze(args) => verbs::analyze(args, run).await,
        Verb::Plan(args) => verbs::plan(args, run).await,
        Verb::Apply(args) => apply::apply(args, run, signals).await,
        Verb::Status(args) => manage::status(args, run, signals).await,
        Verb::Resume(args) => manage::resume(args, run, signals).await,
        Verb::Extend(args) => manage::extend(args, run, signals).await,
        Verb::Destroy(args) => destroy::destroy(args, run, signals).await,
        Verb::List(args) => manage::list(args, run, signals).await,
        Verb::Catalog(args) => catalog::catalog(args, run).await,
    }
}

/// Reads the arguments, the first of which is the program.
fn parse(given: Vec<OsString>) -> Result<Cli, clap::Error> {
    let words = given.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let mut cli = Cli::try_parse_from(arguments(given))?;
    if let Verb::Apply(args) = &mut cli.verb {
        args.given = words;
    }
    Ok(cli)
}

/// The arguments; without a verb but with a repository they are those of `apply`.
fn arguments(mut given: Vec<OsString>) -> Vec<OsString> {
    let is = |text: &OsString, front: &str| text.to_str().is_some_and(|text| text.starts_with(front));
    let names_repository = |text: &OsString| text == "--repo" || is(text, "--repo=");
    if given.get(1).is_some_and(|first| is(first, "-")) && given.iter().any(names_repository) {
        given.insert(1, "apply".into());
    }
    given
}

fn show(output: &OutputArgs, outcome: &Outcome, elapsed: std::time::Duration) -> ExitCode {
    let text = match (output.output, &outcome.result) {
        (Form::Text, Ok(report)) => report.text.clone(),
        (Form::Text, Err(_)) => String::new(),
        (Form::Json, _) => outcome.document(elapsed, true) + "\n",
        (Form::Jsonl, _) => outcome.document(elapsed, false) + "\n",
    };
    if output.output == Form::Text {
        outcome
            .warnings
            .iter()
            .for_each(|warning| say(&format!("warning: {}", crate::view::text::one_line(warning, 400))));
        if let Some(failure) = outcome.failure() {
            let hint = failure.hint.as_ref().map_or(String::new(), |hint| format!("\n  {hint}"));
            say(&format!("error: {}{hint}", crate::view::text::one_line(&failure.message, 1000)));
        }
    }
    let written = std::io::stdout().lock().write_all(text.as_bytes());
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            say(&format!("error: the result cannot be written: {error}"));
            Exit::Failed.into()
        }
        _ => outcome.exit().into(),
    }
}

/// Says something on standard error; trouble there has nowhere to be reported.
fn say(text: &str) {
    drop(writeln!(std::io::stderr().lock(), "{text}"));
}
