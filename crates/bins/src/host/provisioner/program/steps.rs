//! Progress: the steps of a run as they begin and end. Everything but events goes to standard error.

use std::io::{IsTerminal as _, Write as _};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use jiff::Timestamp;
use orlop_cloud::provision::steps::STEPS;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::args::{Form, OutputArgs};
use super::failure::Failure;
use super::say;

/// How often a step without a terminal says that it goes on.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(30);

/// The steps of a run, as they are shown.
pub(super) struct Steps {
    form: Shown,
    /// The numbers of those that are shown.
    numbers: Range<usize>,
    /// What a step waits for at the moment, if it says so.
    waits_for: Mutex<String>,
}

/// How a step stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepProgress<'a> {
    pub(super) number: usize,
    /// `running`, `waiting`, `done`, `warning` or `failed`.
    pub(super) state: &'a str,
    /// What happens, or what went wrong.
    pub(super) message: &'a str,
    pub(super) attempt: u32,
    pub(super) started: Instant,
}

enum Shown {
    Nothing,
    Lines,
    Moving(Bars),
    Events,
}

impl Steps {
    /// Some of the ten steps, by their numbers. Only these have a line where lines move.
    pub(super) fn new(output: &OutputArgs, numbers: Range<usize>) -> Self {
        let names: Vec<&str> = STEPS.get(numbers.clone()).unwrap_or_default().iter().map(|step| step.name).collect();
        let moving = std::io::stderr().is_terminal() && !output.no_color && std::env::var_os("NO_COLOR").is_none();
        let form = match output.output {
            Form::Jsonl => Shown::Events,
            _ if output.quiet => Shown::Nothing,
            _ if moving => Shown::Moving(bars(&names)),
            _ => Shown::Lines,
        };
        Self { form, numbers, waits_for: Mutex::default() }
    }

    /// Says what the step that is shown waits for from now on.
    pub(super) fn wait_for(&self, what: &str) {
        self.note(what);
        what.clone_into(&mut self.waits_for.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// What a step that goes on says.
    fn progress(&self, started: Instant) -> String {
        match self.waits_for.lock().unwrap_or_else(PoisonError::into_inner).as_str() {
            "" => String::new(),
            what => format!("{what}, {} so far", clock(started.elapsed())),
        }
    }

    /// Shows a step while it is done.
    pub(super) async fn during<T>(
        &self,
        number: usize,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let started = Instant::now();
        self.tell(number, "running", "", started);
        let mut work = std::pin::pin!(work);
        let done = loop {
            tokio::select! {
                done = &mut work => break done,
                () = tokio::time::sleep(HEARTBEAT) => self.tell(number, "waiting", &self.progress(started), started),
            }
        };
        self.waits_for.lock().unwrap_or_else(PoisonError::into_inner).clear();
        match &done {
            Ok(_) => self.tell(number, "done", "", started),
            Err(failure) => self.tell(number, "failed", &failure.message, started),
        }
        done
    }

    fn tell(&self, number: usize, state: &str, message: &str, started: Instant) {
        self.show(&StepProgress { number, state, message, attempt: 1, started });
    }

    /// Whether what is shown moves, so that it is worth showing every second.
    pub(super) const fn is_moving(&self) -> bool {
        matches!(self.form, Shown::Moving(_))
    }

    /// Says something that belongs to no step.
    pub(super) fn note(&self, text: &str) {
        match &self.form {
            Shown::Nothing => {}
            Shown::Lines => say(text),
            Shown::Moving(bars) => drop(bars.all.println(format!("  {text}"))),
            Shown::Events => event(&json!({
                "ts": Timestamp::now().to_string(), "step": null, "state": "running", "message": text, "attempt": null, "fields": {},
            })),
        }
    }

    /// Shows how a step stands.
    pub(super) fn show(&self, progress: &StepProgress<'_>) {
        let StepProgress { number, state, message, attempt, started } = *progress;
        let name = STEPS.get(number).map_or("", |step| step.name);
        if !self.numbers.contains(&number) {
            return;
        }
        let elapsed = started.elapsed();
        let seconds = elapsed.as_secs_f64();
        match &self.form {
            Shown::Nothing => {}
            Shown::Lines => say(&match state {
                "running" => format!("[{number}] {name}"),
                "waiting" if message.is_empty() => format!("[{number}] {name}: {} so far", clock(elapsed)),
                "waiting" => format!("[{number}] {name}: {message}"),
                _ => format!("[{number}] {name}: {state} in {seconds:.1} s"),
            }),
            Shown::Moving(bars) => {
                let Some(bar) = number.checked_sub(self.numbers.start).and_then(|at| bars.each.get(at)) else { return };
                match state {
                    "running" => {
                        bar.set_style(style("  {spinner} {msg} {elapsed}"));
                        bar.set_message(name.to_owned());
                        bar.reset_elapsed();
                        bar.enable_steady_tick(Duration::from_millis(120));
                    }
                    "waiting" => bar.set_message(format!("{name}: {message}")),
                    "done" => bar.finish_with_message(format!("{name} {seconds:.1} s")),
                    "warning" => bar.finish_with_message(format!("{name} {seconds:.1} s: {message}")),
                    "failed" => bar.abandon_with_message(format!("{name} {seconds:.1} s")),
                    _ => {}
                }
                match state {
                    "done" => bar.set_style(style("  \u{2714} {msg}")),
                    "warning" => bar.set_style(style("  ! {msg}")),
                    "failed" => bar.set_style(style("  \u{2716} {msg}")),
                    _ => {}
                }
            }
            Shown::Events => event(&json!({
                "ts": Timestamp::now().to_string(), "step": number, "state": state, "message": if message.is_empty() { name } else { message },
                "attempt": attempt, "fields": {"name": name, "elapsed_ms": u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)},
            })),
        }
    }
}

/// One line for each step.
struct Bars {
    all: MultiProgress,
    each: Vec<ProgressBar>,
}

/// Minutes and seconds.
pub(super) fn clock(elapsed: Duration) -> String {
    format!("{}:{:02}", elapsed.as_secs() / 60, elapsed.as_secs() % 60)
}

fn bars(names: &[&str]) -> Bars {
    let all = MultiProgress::new();
    let bar = |name: &&str| {
        let bar = all.add(ProgressBar::new_spinner()).with_style(style("  \u{b7} {msg}"));
        bar.set_message((*name).to_owned());
        bar.tick();
        bar
    };
    let each = names.iter().map(bar).collect();
    Bars { all, each }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

/// Writes an event; a reader that has gone misses it.
fn event(event: &Value) {
    drop(writeln!(std::io::stdout().lock(), "{event}"));
}
