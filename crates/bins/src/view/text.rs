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
    without_controls(text, colour_at)
}

/// What a program wrote, for a terminal: as of [`harmless`], but with all its colours, which end with their line. A line that it
/// drew anew stays one line.
#[must_use]
pub fn harmless_log(text: &str) -> String {
    let lines = text.replace("\r\n", "\n").replace('\r', "\u{240d}");
    let mut shown = String::with_capacity(lines.len());
    for line in lines.split_inclusive('\n') {
        let line = without_controls(line, style_at);
        match line.strip_suffix('\n').filter(|line| line.contains('\u{1b}')) {
            Some(line) => shown.extend([line, "\u{1b}[0m\n"]),
            None => shown.push_str(&line),
        }
    }
    shown
}

/// Bytes at the end of a piece of output that may be the beginning of a character or of a sequence for colours.
#[must_use]
pub fn unfinished(piece: &[u8]) -> usize {
    let from = piece.len().saturating_sub(STYLE_MAX);
    let escape = piece.iter().rposition(|byte| *byte == 0x1b).filter(|at| *at >= from);
    let open = |at: &usize| piece.iter().skip(at + 1).all(|byte| matches!(byte, b'[' | b';' | b'0'..=b'9'));
    if let Some(at) = escape.filter(open) {
        return piece.len() - at;
    }
    // The first byte of a character tells how many it has.
    let first = piece.iter().rev().take(3).position(|byte| !matches!(byte, 0x80..=0xbf));
    let Some((bytes, first)) = first.and_then(|back| Some((back + 1, *piece.get(piece.len() - back - 1)?))) else {
        return 0;
    };
    let needed = match first {
        0xf0..=0xf7 => 4,
        0xe0..=0xef => 3,
        0xc0..=0xdf => 2,
        _ => 1,
    };
    if needed > bytes { bytes } else { 0 }
}

fn without_controls(text: &str, style_at: fn(&str) -> Option<usize>) -> Cow<'_, str> {
    let steers = |c: char| {
        c.is_control() && !matches!(c, '\n' | '\t') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(style) = style_at(rest) {
            let (kept, after) = rest.split_at(style);
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

/// The longest sequence that sets a style.
const STYLE_MAX: usize = 40;

/// The length of a sequence at the beginning of a text that sets colours or weight, but does not conceal.
fn style_at(text: &str) -> Option<usize> {
    let code = text.strip_prefix("\u{1b}[")?;
    let (code, _) = code.split_once('m')?;
    if code.len() > STYLE_MAX - 3 || !code.bytes().all(|byte| byte.is_ascii_digit() || byte == b';') {
        return None;
    }
    let mut codes = code.split(';').map(|code| code.parse::<u8>().unwrap_or_default());
    while let Some(code) = codes.next() {
        // A colour of a palette or of three parts follows; 8 alone conceals.
        let parts = match code {
            38 | 48 => match codes.next() {
                Some(5) => 1,
                Some(2) => 3,
                _ => return None,
            },
            8 => return None,
            _ => 0,
        };
        for _ in 0..parts {
            codes.next();
        }
    }
    Some(3 + code.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_on_a_terminal_keeps_its_colours_and_nothing_that_steers() {
        assert_eq!(
            harmless_log("\u{1b}[1;38;5;208mhot\u{1b}[0m\u{1b}]0;title\u{7}"),
            "\u{1b}[1;38;5;208mhot\u{1b}[0m\u{fffd}]0;title\u{fffd}"
        );
        assert_eq!(harmless_log("10 %\r20 %\r\nend\r\n"), "10 %\u{240d}20 %\nend\n", "no line of another step");
        assert_eq!(harmless_log("\u{1b}[31mred\nplain\n"), "\u{1b}[31mred\u{1b}[0m\nplain\n");
        assert_eq!(harmless_log("\u{1b}[5;8mx\u{1b}[38;2;5;8;8my"), "\u{fffd}[5;8mx\u{1b}[38;2;5;8;8my");
        assert_eq!(harmless_log("\u{1b}[2J\u{1b}[1;8mhidden"), "\u{fffd}[2J\u{fffd}[1;8mhidden");
    }

    #[test]
    fn a_cut_sequence_or_character_waits_for_its_rest() {
        assert_eq!(unfinished("a\u{1b}[1;3".as_bytes()), 5);
        assert_eq!(unfinished("a\u{1b}[31mb".as_bytes()), 0);
        assert_eq!(unfinished(&"木".as_bytes()[..2]), 2);
        assert_eq!(unfinished("x木".as_bytes()), 0);
        assert_eq!(unfinished(&"木木".as_bytes()[..5]), 2);
        assert_eq!(unfinished(b"\xff\xff\xff\xff"), 0);
        assert_eq!(unfinished(b""), 0);
    }

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
