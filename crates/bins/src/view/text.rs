//! Small pieces of text: marks of phases, ages, cut lines. Colours only where the caller says that they can be seen.

use std::borrow::Cow;
use std::time::Duration;

use orlop_core::machine::flow::FlowPhase;
use orlop_core::machine::step::StepPhase;
use orlop_core::spec::status::Progress;

/// Whether the reader sees colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colour {
    /// Plain text.
    #[default]
    Never,
    /// ANSI colours.
    Always,
}

/// A mark, its ANSI colour and the phase it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// One character.
    pub glyph: char,
    colour: u8,
}

impl Mark {
    /// The mark of a step's phase.
    #[must_use]
    pub const fn of_step(phase: StepPhase) -> Self {
        match phase {
            StepPhase::Pending => Self { glyph: '\u{25cb}', colour: 2 },
            StepPhase::Running => Self { glyph: '\u{25cf}', colour: 36 },
            StepPhase::Succeeded => Self { glyph: '\u{2714}', colour: 32 },
            StepPhase::Failed => Self { glyph: '\u{2716}', colour: 31 },
            StepPhase::Skipped => Self { glyph: '\u{2013}', colour: 2 },
            StepPhase::PendingApproval => Self { glyph: '?', colour: 33 },
        }
    }

    /// The mark of a flow's phase.
    #[must_use]
    pub const fn of_flow(phase: FlowPhase) -> Self {
        match phase {
            FlowPhase::Pending => Self::of_step(StepPhase::Pending),
            FlowPhase::Running => Self::of_step(StepPhase::Running),
            FlowPhase::Succeeded => Self::of_step(StepPhase::Succeeded),
            FlowPhase::Failed => Self::of_step(StepPhase::Failed),
            FlowPhase::Paused => Self::of_step(StepPhase::PendingApproval),
            FlowPhase::Suspended => Self { glyph: '\u{2016}', colour: 33 },
        }
    }

    /// `text` in this mark's colour.
    #[must_use]
    pub fn paint(self, text: &str, colour: Colour) -> String {
        match colour {
            Colour::Never => text.to_owned(),
            Colour::Always => format!("\u{1b}[{}m{text}\u{1b}[0m", self.colour),
        }
    }
}

/// A duration for people: `0.4s`, `12s`, `3m05s`, `2h07m`, `5d03h`.
#[must_use]
pub fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{seconds}.{}s", duration.subsec_millis() / 100),
        10..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// How far a flow is: steps that ran to an end of all of them, and those that were skipped.
#[must_use]
pub fn done(progress: &Progress) -> String {
    let ran = progress.successful_steps + progress.failed_steps;
    counted(ran, progress.total_steps, progress.skipped_steps)
}

/// So many of all, and those that were skipped.
#[must_use]
pub fn counted(ran: u32, total: u32, skipped: u32) -> String {
    let skipped = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
    format!("{ran}/{total}{skipped}")
}

/// A text on one line of at most `width` characters, the end cut off with an ellipsis. Control characters become blanks,
/// so that a value cannot move the cursor.
#[must_use]
pub fn one_line(text: &str, width: usize) -> String {
    let mut line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(width + 1).collect();
    if line.chars().count() > width {
        line = line.chars().take(width.saturating_sub(1)).collect();
        line.push('\u{2026}');
    }
    line
}

/// A text that cannot steer a terminal or hide what it says: control characters but for line feeds and tabs, and marks of the
/// direction of writing, become a question mark in a box. Colours that this program sets stay.
#[must_use]
pub fn harmless(text: &str) -> Cow<'_, str> {
    let steers = |c: char| {
        c.is_control() && !matches!(c, '\n' | '\t') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(colour) = colour_at(rest) {
            let (kept, after) = rest.split_at(colour);
            shown.push_str(kept);
            rest = after;
            continue;
        }
        shown.push(if steers(c) { '\u{fffd}' } else { c });
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    Cow::Owned(shown)
}

/// The length of a colour of ours at the beginning of a text, as [`Mark::paint`] writes it.
fn colour_at(text: &str) -> Option<usize> {
    let code = text.strip_prefix("\u{1b}[")?;
    let (code, _) = code.split_once('m')?;
    matches!(code, "0" | "1" | "2" | "31" | "32" | "33" | "34" | "35" | "36").then_some(3 + code.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_steers_no_terminal() {
        assert_eq!(harmless("plain\ttext\n"), "plain\ttext\n");
        assert!(matches!(harmless("é 木"), Cow::Borrowed(_)));
        assert_eq!(harmless("a\u{1b}]0;title\u{7}b\rc\u{9b}2J"), "a\u{fffd}]0;title\u{fffd}b\u{fffd}c\u{fffd}2J");
        assert_eq!(harmless("\u{202e}gpj.exe"), "\u{fffd}gpj.exe");
        let painted = Mark::of_step(StepPhase::Failed).paint("x", Colour::Always);
        assert_eq!(harmless(&format!("{painted}\u{1b}[8m")), format!("{painted}\u{fffd}[8m"));
    }

    #[test]
    fn what_was_skipped_is_not_counted_as_done() {
        let progress = Progress { total_steps: 9, successful_steps: 2, failed_steps: 1, ..Progress::default() };
        assert_eq!(done(&progress), "3/9");
        assert_eq!(done(&Progress { skipped_steps: 4, ..progress }), "3/9, 4 skipped");
    }

    #[test]
    fn ages_grow_coarser() {
        let of = |millis| age(Duration::from_millis(millis));
        assert_eq!(
            [of(0), of(450), of(9_999), of(61_000), of(7_620_000), of(442_800_000)],
            ["0.0s", "0.4s", "9.9s", "1m01s", "2h07m", "5d03h"]
        );
    }

    #[test]
    fn lines_are_cut_and_cannot_move_the_cursor() {
        assert_eq!(one_line("a\nb\u{1b}[2J", 20), "a b [2J");
        assert_eq!(one_line("abcdef", 4), "abc\u{2026}");
        assert_eq!(one_line("abcd", 4), "abcd");
    }

    #[test]
    fn colours_are_asked_for() {
        let mark = Mark::of_step(StepPhase::Failed);
        assert_eq!(mark.paint("x", Colour::Never), "x");
        assert_eq!(mark.paint("x", Colour::Always), "\u{1b}[31mx\u{1b}[0m");
    }
}
