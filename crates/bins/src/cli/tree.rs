//! The tree that moves: one line per step that matters now, redrawn as the status changes.

use std::sync::Arc;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use orlop_core::machine::step::StepPhase;
use orlop_core::spec::status::{FlowStatus, StepStatus};
use orlop_dag::engine::StatusView;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::{output, progress};
use crate::host::flow::{Clock as _, SystemClock};
use crate::view::items::Items;
use crate::view::name::RunName;
use crate::view::text::{Colour, Mark, age, counted, done, one_line};

/// The most steps shown at once; of larger flows those that are under way or went wrong.
const ROWS: usize = 20;
/// How often running times are redrawn.
const REDRAW: Duration = Duration::from_millis(500);

/// Draws the tree until the host has gone.
pub(super) async fn show(mut status: watch::Receiver<Arc<StatusView>>, name: &RunName, items: &Items) {
    let screen = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
    let drawing = output::Drawing::of(&screen);
    let style = ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
    let mut rows: Vec<ProgressBar> = Vec::new();
    let colour = output::error_colour();
    let mut redraw = tokio::time::interval(REDRAW);
    // After a while in which nothing ran there is nothing to catch up on.
    redraw.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let view = status.borrow_and_update().clone();
        let lines = lines(name, &view.status, items, colour);
        while rows.len() < lines.len() {
            rows.push(screen.add(ProgressBar::new_spinner().with_style(style.clone())));
        }
        for (row, line) in rows.iter().zip(lines.iter().map(String::as_str).chain(std::iter::repeat(""))) {
            row.set_message(line.to_owned());
            row.tick();
        }
        // Times move only while something runs.
        let runs = view.status.progress.running_steps > 0;
        tokio::select! {
            changed = status.changed() => if changed.is_err() { break },
            _ = redraw.tick(), if runs => {}
        }
    }
    drop(screen.clear());
    drop(drawing);
}

/// The lines of the tree.
#[must_use]
pub(super) fn lines(name: &RunName, status: &FlowStatus, items: &Items, colour: Colour) -> Vec<String> {
    let mark = Mark::of_flow(status.phase);
    let now = SystemClock.now();
    let since = status.start_time.map(|start| age(status.completion_time.unwrap_or(now).since(start)));
    let title = format!("{} {name} {} {}", mark.glyph, status.phase, done(&status.progress));
    let mut lines = vec![format!("{} {}", mark.paint(&title, colour), since.unwrap_or_default())];
    let all: Vec<&StepStatus> = status.steps.iter().collect();
    let shown: Vec<&StepStatus> = if all.len() <= ROWS {
        all
    } else {
        let matters = |step: &&StepStatus| {
            matches!(step.phase, StepPhase::Running | StepPhase::PendingApproval | StepPhase::Failed)
        };
        status.steps.iter().filter(matters).take(ROWS).collect()
    };
    let hidden = status.steps.len() - shown.len();
    lines.extend(shown.into_iter().map(|step| row(step, items, colour)));
    if hidden > 0 {
        lines.push(format!("  \u{2026} and {hidden} more steps"));
    }
    lines.extend(progress::approval_hint(name, status).map(|hint| format!("  {hint}")));
    lines
}

fn row(step: &StepStatus, items: &Items, colour: Colour) -> String {
    let mark = Mark::of_step(step.phase);
    let now = SystemClock.now();
    let time = step.start_time.map(|start| age(step.completion_time.unwrap_or(now).since(start)));
    let mut notes: Vec<String> = time.into_iter().collect();
    if step.attempt > 1 {
        notes.push(format!("attempt {}", step.attempt));
    }
    notes.extend(step.instances.map(|all| counted(all.succeeded + all.failed, all.total, all.skipped)));
    if !step.reason.is_empty() {
        notes.push(step.reason.clone());
    }
    // Why it failed, or does not go on.
    if matches!(step.phase, StepPhase::Failed | StepPhase::Pending | StepPhase::Running) && !step.message.is_empty() {
        notes.push(one_line(&step.message, 60));
    }
    format!("  {} {}  {}", mark.paint(&mark.glyph.to_string(), colour), items.name(&step.name), notes.join("  "))
}
