//! Tables: aligned columns of text, the step table of a flow, the summary at its end.

use std::fmt::Write as _;

use orlop_core::machine::flow::FlowPhase;
use orlop_core::machine::step::StepPhase;
use orlop_core::spec::status::{FlowStatus, StepStatus};
use orlop_core::time::Time;

use super::items::Items;
use super::name::RunName;
use super::text::{Colour, Mark, age, one_line};

/// The longest output value in a summary, in characters.
const VALUE_WIDTH: usize = 60;
/// Characters of the last column of a table that are shown in any case.
const LEAST_WIDTH: usize = 20;
/// The longest text in the last column of a table.
const LONGEST: usize = 4096;

/// Rows with left-aligned columns two blanks apart; the last column is not padded.
#[must_use]
pub fn columns(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = header.iter().map(|title| title.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(visible(cell));
        }
    }
    let mut text = String::new();
    let titles: Vec<String> = header.iter().map(|title| (*title).to_owned()).collect();
    for row in std::iter::once(&titles).chain(rows) {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            line.push_str(cell);
            line.push_str(&" ".repeat(width + 2 - visible(cell)));
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// The same, the last column cut where a line would be wider than this; none shows all of it.
#[must_use]
pub fn fitted(header: &[&str], rows: &[Vec<String>], width: Option<usize>) -> String {
    let last = header.len().saturating_sub(1);
    let before = |row: &Vec<String>, column: usize| row.get(column).map_or(0, |cell| visible(cell));
    let taken = |column: usize| {
        let title = header.get(column).map_or(0, |title| title.chars().count());
        rows.iter().map(|row| before(row, column)).max().unwrap_or(0).max(title) + 2
    };
    let taken: usize = (0..last).map(taken).sum();
    let room = width.map_or(LONGEST, |width| width.saturating_sub(taken).max(LEAST_WIDTH));
    let cut = |row: &Vec<String>| {
        let mut row = row.clone();
        if let Some(cell) = row.get_mut(last) {
            *cell = one_line(cell, room);
        }
        row
    };
    columns(header, &rows.iter().map(cut).collect::<Vec<_>>())
}

/// Characters a reader sees: escape sequences of colours take no room.
fn visible(text: &str) -> usize {
    let mut count = 0;
    let mut escaped = false;
    for c in text.chars() {
        match c {
            '\u{1b}' => escaped = true,
            'm' if escaped => escaped = false,
            _ if !escaped => count += 1,
            _ => {}
        }
    }
    count
}

/// How steps are shown in a table.
#[derive(Clone, Copy, Debug)]
pub struct Showing<'a> {
    /// The time now; that of the last event, where nothing goes on.
    pub now: Time,
    /// Whether the reader sees colours.
    pub colour: Colour,
    /// Items of instances.
    pub items: &'a Items,
    /// Characters in a line; none where lines may be of any length.
    pub width: Option<usize>,
}

/// One row per step and instance.
#[must_use]
pub fn steps(status: &FlowStatus, showing: Showing<'_>) -> String {
    table(status.steps.iter(), showing)
}

/// At most so many rows: those of steps that failed, run or wait first, each in its place, with the number of the others.
#[must_use]
pub fn some_steps(name: &RunName, status: &FlowStatus, most: usize, showing: Showing<'_>) -> String {
    let hidden = status.steps.len().saturating_sub(most);
    if hidden == 0 {
        return steps(status, showing);
    }
    let rank = |step: &StepStatus| match step.phase {
        StepPhase::Failed => 0,
        StepPhase::Running | StepPhase::PendingApproval => 1,
        _ => 2,
    };
    let mut chosen: Vec<(usize, &StepStatus)> = status.steps.iter().enumerate().collect();
    chosen.sort_by_key(|(_, step)| rank(step));
    chosen.truncate(most);
    chosen.sort_by_key(|(number, _)| *number);
    let text = table(chosen.into_iter().map(|(_, step)| step), showing);
    format!("{text}   \u{2026} and {hidden} more steps: orlop flow get {}\n", name.call())
}

fn table<'s>(steps: impl Iterator<Item = &'s StepStatus>, showing: Showing<'_>) -> String {
    let rows: Vec<Vec<String>> = steps.map(|step| row(step, showing)).collect();
    fitted(&["", "STEP", "PHASE", "REASON", "ATTEMPT", "TIME", "MESSAGE"], &rows, showing.width)
}

fn row(step: &StepStatus, Showing { now, colour, items, .. }: Showing<'_>) -> Vec<String> {
    let mark = Mark::of_step(step.phase);
    let time = step.start_time.map(|start| age(step.completion_time.unwrap_or(now).since(start))).unwrap_or_default();
    let attempt = if step.attempt == 0 { String::new() } else { step.attempt.to_string() };
    let instances = step.instances.map(|all| format!("{}/{} instances", all.succeeded, all.total));
    let message = if step.message.is_empty() { instances.unwrap_or_default() } else { step.message.clone() };
    vec![
        mark.paint(&mark.glyph.to_string(), colour),
        items.name(&step.name),
        step.phase.to_string(),
        step.reason.clone(),
        attempt,
        time,
        message,
    ]
}

/// What a run ends with: the outcome, counts, outputs, and where to look for what failed.
#[must_use]
pub fn summary(name: &RunName, status: &FlowStatus, now: Time, colour: Colour) -> String {
    let mark = Mark::of_flow(status.phase);
    let took =
        status.start_time.map(|start| age(status.completion_time.unwrap_or(now).since(start))).unwrap_or_default();
    let progress = &status.progress;
    let title = format!("{} {name}: {} in {took}", mark.glyph, status.phase);
    let tolerated =
        if status.phase == FlowPhase::Succeeded && progress.failed_steps > 0 { " and tolerated" } else { "" };
    let mut text = format!(
        "{} \u{2014} {} steps: {} succeeded, {} failed{tolerated}, {} skipped",
        mark.paint(&title, colour),
        progress.total_steps,
        progress.successful_steps,
        progress.failed_steps,
        progress.skipped_steps,
    );
    if status.retries > 0 {
        let _ = write!(text, ", {} retries", status.retries);
    }
    text.push('\n');
    // Why it failed, or what it waits for; who is to decide is asked elsewhere.
    let says = matches!(status.phase, FlowPhase::Failed | FlowPhase::Suspended | FlowPhase::Pending);
    if says && !status.message.is_empty() {
        let _ = writeln!(text, "  {}", one_line(&status.message, 200));
    }
    for (step, output) in status.steps.iter().flat_map(|step| step.outputs.iter().map(move |outputs| (step, outputs))) {
        for value in &output.parameters {
            let _ = writeln!(text, "  {}.{} = {}", step.name, value.name, one_line(&value.value, VALUE_WIDTH));
        }
        for artifact in
            output.artifacts.iter().filter_map(|artifact| Some((&artifact.name, artifact.location.as_ref()?)))
        {
            let _ = writeln!(
                text,
                "  {}/{}: {} bytes, sha256 {}",
                step.name, artifact.0, artifact.1.size_bytes, artifact.1.sha256
            );
        }
    }
    if status.steps.iter().filter_map(|step| step.outputs.as_ref()).any(|outputs| !outputs.artifacts.is_empty()) {
        let _ = writeln!(text, "  get the artifacts: orlop flow artifacts {} --to DIR", name.call());
    }
    let failed = status
        .steps
        .iter()
        .filter(|step| step.phase == StepPhase::Failed && step.attempt > 0 && step.instances.is_none());
    for step in failed.take(5) {
        let _ = writeln!(text, "  logs of the failure: orlop flow logs {} {}", name.call(), step.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use orlop_core::spec::status::{OutputValue, Progress, StepOutputs};

    use super::*;

    fn status() -> FlowStatus {
        let t = |seconds: i64| Some(Time::from_millis(seconds * 1000));
        let outputs = StepOutputs {
            parameters: vec![OutputValue { name: "n".into(), value: "4\n2".into() }],
            ..StepOutputs::default()
        };
        FlowStatus {
            phase: FlowPhase::Failed,
            message: "step b failed: NonZeroExit: exit code 3".into(),
            start_time: t(0),
            completion_time: t(75),
            retries: 1,
            steps: vec![
                StepStatus {
                    name: "a".into(),
                    phase: StepPhase::Succeeded,
                    attempt: 1,
                    start_time: t(0),
                    completion_time: t(2),
                    outputs: Some(outputs),
                    ..StepStatus::default()
                },
                StepStatus {
                    name: "b".into(),
                    phase: StepPhase::Failed,
                    reason: "NonZeroExit".into(),
                    message: "exit code 3".into(),
                    attempt: 2,
                    start_time: t(2),
                    completion_time: t(75),
                    ..StepStatus::default()
                },
            ],
            progress: Progress {
                completed_steps: 2,
                total_steps: 2,
                successful_steps: 1,
                failed_steps: 1,
                summary: "2/2".into(),
                ..Progress::default()
            },
            ..FlowStatus::default()
        }
    }

    fn shown(status: &FlowStatus, colour: Colour) -> String {
        steps(status, Showing { now: Time::EPOCH, colour, items: &Items::default(), width: None })
    }

    #[test]
    fn of_many_steps_those_that_failed_or_run_are_shown_and_the_others_counted() {
        let step = |number: usize| StepStatus {
            name: format!("s{number}"),
            phase: if number == 7 { StepPhase::Failed } else { StepPhase::Succeeded },
            ..StepStatus::default()
        };
        let status = FlowStatus { steps: (0..9).map(step).collect(), ..FlowStatus::default() };
        let showing = Showing { now: Time::EPOCH, colour: Colour::Never, items: &Items::default(), width: None };
        let some = |most| some_steps(&RunName::plain("demo"), &status, most, showing);
        insta::assert_snapshot!(some(2), @"
           STEP  PHASE      REASON  ATTEMPT  TIME  MESSAGE
        ✔  s0    Succeeded
        ✖  s7    Failed
           … and 7 more steps: orlop flow get demo
        ");
        assert_eq!(some(9), steps(&status, showing));
    }

    #[test]
    fn step_tables_align() {
        insta::assert_snapshot!(shown(&status(), Colour::Never), @"
           STEP  PHASE      REASON       ATTEMPT  TIME   MESSAGE
        ✔  a     Succeeded               1        2.0s
        ✖  b     Failed     NonZeroExit  2        1m13s  exit code 3
        ");
    }

    #[test]
    fn the_last_column_is_whole_or_fits_the_line() {
        let rows = vec![vec!["etl".to_owned(), "x".repeat(100)], vec!["a".to_owned(), "two\nlines".to_owned()]];
        let table = |width| fitted(&["NAME", "MESSAGE"], &rows, width);
        assert_eq!(table(None).lines().nth(1).unwrap().chars().count(), 106);
        let cut = table(Some(50));
        assert!(cut.lines().all(|line| line.chars().count() <= 50) && cut.contains('\u{2026}'), "{cut}");
        assert!(cut.contains("two lines"), "{cut}");
        assert_eq!(table(Some(5)).lines().nth(1).unwrap().chars().count(), 26);
    }

    #[test]
    fn colours_do_not_move_columns() {
        let plain = shown(&status(), Colour::Never);
        let painted = shown(&status(), Colour::Always);
        let widths = |text: &str| text.lines().map(visible).collect::<Vec<_>>();
        assert_eq!(widths(&plain), widths(&painted));
    }

    #[test]
    fn summaries_say_what_came_out_and_where_to_look() {
        insta::assert_snapshot!(summary(&RunName::plain("demo"), &status(), Time::EPOCH, Colour::Never), @"
        ✖ demo: Failed in 1m15s — 2 steps: 1 succeeded, 1 failed, 0 skipped, 1 retries
          step b failed: NonZeroExit: exit code 3
          a.n = 4 2
          logs of the failure: orlop flow logs demo b
        ");
        let message =
            "Stopped: the flow was asked to stop; suspended since 1970-01-01T00:00:00Z; resume it to go on".to_owned();
        let suspended = FlowStatus { phase: FlowPhase::Suspended, message, ..FlowStatus::default() };
        insta::assert_snapshot!(summary(&RunName::plain("demo"), &suspended, Time::EPOCH, Colour::Never), @"
        ‖ demo: Suspended in  — 0 steps: 0 succeeded, 0 failed, 0 skipped
          Stopped: the flow was asked to stop; suspended since 1970-01-01T00:00:00Z; resume it to go on
        ");
    }
}
