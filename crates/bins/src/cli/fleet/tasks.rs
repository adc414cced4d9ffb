//! How far an array is, in words, and as it goes on.

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use super::super::output;
use super::read::number;

/// Lines that are written in all where nobody sees a bar: one for each tenth.
const LINES: u64 = 10;

/// How far the elements of an array are: `4997/5000, 3 failed`; of other jobs how many parts they have.
pub(super) fn tasks(job: &Value) -> String {
    if job["elements"].is_null() { number(job, "count").to_string() } else { counts(job, "") }
}

fn counts(job: &Value, done: &str) -> String {
    let of = |field: &str| number(&job["elements"], field);
    let mut text = format!("{}/{}{done}", of("completed"), number(job, "count"));
    let others = [("failed", of("failed") + of("timed_out")), ("cancelled", of("cancelled"))];
    for (word, count) in others.into_iter().filter(|(_, count)| *count > 0) {
        text.push_str(&format!(", {count} {word}"));
    }
    text
}

fn ended(job: &Value) -> u64 {
    ["completed", "failed", "timed_out", "cancelled"].iter().map(|field| number(&job["elements"], field)).sum()
}

/// What is shown on standard error while an array runs: a bar on a terminal, else a line now and then.
#[derive(Debug)]
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    tenths: u64,
}

impl Progress {
    /// Nothing yet.
    pub(super) fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style =
                ProgressStyle::with_template("[{bar:30}] {msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style.progress_chars("##."))
        });
        Self { bar, tenths: 0 }
    }

    /// Shows how far a job is; nothing of one that is no array.
    pub(super) fn show(&mut self, job: &Value) {
        let (ended, all) = (ended(job), number(job, "count").max(1));
        if job["elements"].is_null() {
            return;
        }
        if let Some(bar) = &self.bar {
            bar.set_length(all);
            bar.set_position(ended);
            bar.set_message(counts(job, " done"));
            bar.force_draw();
            return;
        }
        let tenths = ended * LINES / all;
        if tenths > self.tenths {
            self.tenths = tenths;
            output::tell(&counts(job, " done"));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_are_short_and_name_what_went_wrong() {
        let job = |completed: u64, failed: u64, cancelled: u64| {
            json!({"count": 5000, "elements": {"waiting": 0, "running": 0, "completed": completed, "failed": failed,
                "timed_out": 1, "cancelled": cancelled}})
        };
        assert_eq!(tasks(&job(4997, 2, 0)), "4997/5000, 3 failed");
        assert_eq!(counts(&job(412, 2, 7), " done"), "412/5000 done, 3 failed, 7 cancelled");
        assert_eq!((tasks(&json!({"count": 4})), ended(&job(412, 2, 7))), ("4".to_owned(), 422));
    }
}
