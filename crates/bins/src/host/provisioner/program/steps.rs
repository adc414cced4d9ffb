//! Progress: the steps of a run as they begin and end. Owns the four forms; results are shown elsewhere. Everything but events
//! goes to standard error.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::args::{Form, OutputArgs};
use super::failure::Failure;
use super::say;

/// How often a step without a terminal says that it goes on.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// The steps of a run, as they are shown.
pub(super) struct Steps {
    form: Shown,
}

enum Shown {
    Nothing,
    Lines,
    Moving(Vec<ProgressBar>),
    Events,
}

impl Steps {
    /// Steps by their numbers and names.
    pub(super) fn new(output: &OutputArgs, names: &[&str]) -> Self {
        let moving = std::io::stderr().is_terminal() && !output.no_color && std::env::var_os("NO_COLOR").is_none();
        let form = match output.output {
            Form::Jsonl => Shown::Events,
            _ if output.quiet => Shown::Nothing,
            _ if moving => Shown::Moving(bars(names)),
            _ => Shown::Lines,
        };
        Self { form }
    }

    /// Shows a step while it is done.
    pub(super) async fn during<T>(
        &self,
        number: usize,
        name: &str,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let started = Instant::now();
        self.tell(number, name, "running", "", started);
        let mut work = std::pin::pin!(work);
        let done = loop {
            tokio::select! {
                done = &mut work => break done,
                () = tokio::time::sleep(HEARTBEAT) => self.tell(number, name, "waiting", "", started),
            }
        };
        match &done {
            Ok(_) => self.tell(number, name, "done", "", started),
            Err(failure) => self.tell(number, name, "failed", &failure.message, started),
        }
        done
    }

    fn tell(&self, number: usize, name: &str, state: &str, message: &str, started: Instant) {
        let elapsed = started.elapsed();
        let seconds = elapsed.as_secs_f64();
        match &self.form {
            Shown::Nothing => {}
            Shown::Lines => say(&match state {
                "running" => format!("[{number}] {name}"),
                "waiting" => {
                    format!("[{number}] {name}: {}:{:02} so far", elapsed.as_secs() / 60, elapsed.as_secs() % 60)
                }
                _ => format!("[{number}] {name}: {state} in {seconds:.1} s"),
            }),
            Shown::Moving(bars) => {
                let Some(bar) = bars.get(number) else { return };
                match state {
                    "running" => {
                        bar.set_style(style("  {spinner} {msg} {elapsed}"));
                        bar.set_message(name.to_owned());
                        bar.reset_elapsed();
                        bar.enable_steady_tick(Duration::from_millis(120));
                    }
                    "done" => bar.finish_with_message(format!("{name} {seconds:.1} s")),
                    "failed" => bar.abandon_with_message(format!("{name} {seconds:.1} s")),
                    _ => {}
                }
                if state == "done" || state == "failed" {
                    bar.set_style(style(if state == "done" { "  \u{2714} {msg}" } else { "  \u{2716} {msg}" }));
                }
            }
            Shown::Events => event(&json!({
                "ts": Timestamp::now().to_string(), "step": number, "state": state, "message": if message.is_empty() { name } else { message },
                "attempt": 1, "fields": {"name": name, "elapsed_ms": u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)},
            })),
        }
    }
}

fn bars(names: &[&str]) -> Vec<ProgressBar> {
    let all = MultiProgress::new();
    let bar = |name: &&str| {
        let bar = all.add(ProgressBar::new_spinner()).with_style(style("  \u{b7} {msg}"));
        bar.set_message((*name).to_owned());
        bar.tick();
        bar
    };
    names.iter().map(bar).collect()
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

/// Writes an event; whoever does not read it misses it.
fn event(event: &Value) {
    drop(writeln!(std::io::stdout().lock(), "{event}"));
}
