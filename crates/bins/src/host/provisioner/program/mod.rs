//! The program `orlop-provisioner`: arguments, settings, log, signals, and how results are shown. Owns their order; what is
//! analysed and planned is the library's.

mod args;
mod document;
mod failure;
mod log;
mod settings;
mod show;
mod steps;
mod values;
mod verbs;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use self::args::{Cli, Form, OutputArgs, Verb};
use self::document::{Outcome, Report};
use self::failure::Failure;
use self::verbs::Run;

/// Runs the program. Exit codes are those of the provisioner contract, chapter 1.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to standard output, the rest to standard error; a reader that has gone is no trouble.
            drop(error.print());
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let output = cli.verb.output();
    if let Err(failure) = log::start(output) {
        say(&format!("error: {failure}"));
        return ExitCode::from(failure.exit);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            say(&format!("error: the runtime cannot be started: {error}"));
            return ExitCode::from(1);
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
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Analyze(_) => "analyze",
            Self::Plan(_) => "plan",
        }
    }
}

async fn run(verb: &Verb) -> Outcome {
    let mut run = Run::default();
    let result = tokio::select! {
        result = carry_out(verb, &mut run) => result,
        exit = interrupted() => Err(exit),
    };
    Outcome { verb: verb.name(), result, warnings: run.warnings, account: run.account }
}

async fn carry_out(verb: &Verb, run: &mut Run) -> Result<Report, Failure> {
    match verb {
        Verb::Analyze(args) => verbs::analyze(args, run).await,
        Verb::Plan(args) => verbs::plan(args, run).await,
    }
}

/// Waits for a signal that ends the program.
async fn interrupted() -> Failure {
    let take = |kind| signal(kind).map_err(|error| Failure::internal(format!("signals cannot be taken: {error}")));
    let (mut interrupt, mut terminate) = match (take(SignalKind::interrupt()), take(SignalKind::terminate())) {
        (Ok(interrupt), Ok(terminate)) => (interrupt, terminate),
        (Err(failure), _) | (_, Err(failure)) => return failure,
    };
    tokio::select! {
        _ = interrupt.recv() => Failure::interrupted(130),
        _ = terminate.recv() => Failure::interrupted(143),
    }
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
        if let Err(failure) = &outcome.result {
            let hint = failure.hint.map_or(String::new(), |hint| format!("\n  {hint}"));
            say(&format!("error: {}{hint}", crate::view::text::one_line(&failure.message, 1000)));
        }
    }
    let written = std::io::stdout().lock().write_all(text.as_bytes());
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            say(&format!("error: the result cannot be written: {error}"));
            ExitCode::from(1)
        }
        _ => ExitCode::from(outcome.exit()),
    }
}

/// Says something on standard error; trouble there has nowhere to be told.
fn say(text: &str) {
    drop(writeln!(std::io::stderr().lock(), "{text}"));
}
