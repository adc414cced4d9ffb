//! Progress on a real terminal: a tree that is redrawn in place. Elsewhere lines without any escape code.

use std::fs::File;
use std::io::Read as _;
use std::process::{Child, Stdio};

use nix::pty::{Winsize, openpty};
use nix::sys::signal::Signal;
use serde_json::json;

use super::bench::{Bench, ReleaseFile, signal, step};

/// Columns of the terminal.
const WIDTH: usize = 100;

/// A program whose standard error is a terminal, and the other side of that terminal.
struct Shown {
    child: Child,
    screen: File,
}

impl Shown {
    /// The same with its standard output there.
    fn printing(bench: &Bench, args: &[&str]) -> Self {
        let pty = openpty(None, None).expect("a terminal");
        let child = bench.command(args).stdout(Stdio::from(pty.slave)).stderr(Stdio::null()).spawn();
        Self { child: child.expect("the program starts"), screen: File::from(pty.master) }
    }

    fn start(bench: &Bench, args: &[&str], environment: &[(&str, &str)]) -> Self {
        let size = Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).expect("a terminal");
        let mut command = bench.command(args);
        command.env("TERM", "xterm-256color").env_remove("NO_COLOR").envs(environment.iter().copied());
        let child = command.stdout(Stdio::null()).stderr(Stdio::from(pty.slave)).spawn().expect("the program starts");
        Self { child, screen: File::from(pty.master) }
    }

    /// Everything that is written until the program has ended.
    fn until_end(mut self) -> (i32, String) {
        let (mut text, mut piece) = (Vec::new(), [0; 4096]);
        // A terminal that nobody has open any more gives an error, not an end.
        while let Ok(count @ 1..) = self.screen.read(&mut piece) {
            text.extend_from_slice(piece.get(..count).unwrap_or_default());
        }
        let code = self.child.wait().expect("the program ends").code().unwrap_or(-1);
        (code, String::from_utf8_lossy(&text).into_owned())
    }
}

fn flow(bench: &Bench) -> String {
    let job = |script: &str| json!({"command": ["sh", "-c", script]});
    let pipeline = json!({"name": "tree", "steps": [
        {"name": "first", "job_spec": job("sleep 1.2")},
        {"name": "second", "depends_on": ["first"], "job_spec": job("exit 3")},
        {"name": "third", "depends_on": ["second"], "job_spec": job("true")},
    ]});
    bench.file("tree.json", &pipeline.to_string()).display().to_string()
}

/// The text without escape codes, what a person reads, frame after frame; and the last letters of the codes.
fn read(text: &str) -> (String, String) {
    let (mut plain, mut codes) = (String::new(), String::new());
    let mut rest = text.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            '\u{1b}' if rest.next_if_eq(&'[').is_some() => codes.extend(rest.find(char::is_ascii_alphabetic)),
            '\r' => {}
            other => plain.push(other),
        }
    }
    (plain, codes)
}

#[test]
fn a_tree_on_a_terminal_shows_states_and_is_redrawn_in_place() {
    let bench = Bench::new();
    let file = flow(&bench);
    let args = ["run", &file, "--target", "process", "--name", "tree"];
    let (code, screen) = Shown::start(&bench, &args, &[]).until_end();
    assert_eq!(code, 1, "{screen}");
    let (seen, codes) = read(&screen);
    for state in ["tree Running 0/3", "first", "tree Running 1/3"] {
        assert!(seen.contains(state), "{state}: {seen}");
    }
    assert!(codes.matches('A').count() > 3, "the cursor goes back up: {screen:?}");
    assert!(codes.contains('K'), "lines are wiped: {screen:?}");
    assert!(codes.contains('m'), "states have colours: {screen:?}");
}

#[test]
fn what_a_step_wrote_steers_no_terminal_and_is_whole_in_a_pipe() {
    let bench = Bench::new();
    let script = r"printf '\033[31mred\033[0m \033]0;title\007 \033[2Jgone\n'";
    assert_eq!(bench.run_steps("ill", &json!([step("a", script)])).code, 0);
    let (code, screen) = Shown::printing(&bench, &["flow", "logs", "ill"]).until_end();
    assert_eq!(code, 0, "{screen}");
    assert_eq!(screen, "a/1 \u{1b}[31mred\u{1b}[0m \u{fffd}]0;title\u{fffd} \u{fffd}[2Jgone\u{1b}[0m\r\n");
    let piped = bench.orlop(&["flow", "logs", "ill"]).out;
    assert_eq!(piped, "a/1 \u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7} \u{1b}[2Jgone\n");
}

#[test]
fn what_is_said_while_a_tree_is_shown_stands_above_it() {
    let (bench, release) = (Bench::new(), ReleaseFile::new());
    let file = bench.flow("held", &json!({"steps": [step("slow", &release.then("true")), step("other", "sleep 100")]}));
    let file = file.display().to_string();
    let shown = Shown::start(&bench, &["run", &file, "--target", "process"], &[]);
    bench.until("held", |status| status["progress"]["runningSteps"] == 2);
    signal(&shown.child, Signal::SIGINT);
    bench.until("held", |status| status["conditions"].to_string().contains("Stop") || status["phase"] != "Pending");
    release.open();
    bench.until("held", |status| status["steps"][0]["phase"] == "Succeeded");
    signal(&shown.child, Signal::SIGINT);
    let (code, screen) = shown.until_end();
    assert_eq!(code, 9, "{screen}");
    // What a terminal has in the end: nothing was drawn over.
    let seen = last_screen(&screen);
    for line in ["stopping: live attempts finish", "terminating: live attempts are cancelled"] {
        assert!(seen.contains(line), "{line}: {seen}\n{screen:?}");
    }
}

/// The lines that a terminal shows in the end: with the few codes that move the cursor or wipe, as far as they are used here.
fn last_screen(text: &str) -> String {
    let (mut lines, mut row, mut column) = (vec![Vec::<char>::new()], 0_usize, 0_usize);
    let mut rest = text.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            '\u{1b}' if rest.next_if_eq(&'[').is_some() => {
                let mut number = String::new();
                let code = loop {
                    match rest.next() {
                        Some(digit) if digit.is_ascii_digit() => number.push(digit),
                        Some(other) if other.is_ascii_alphabetic() => break other,
                        Some(_) => {}
                        None => break ' ',
                    }
                };
                let count = number.parse().unwrap_or(1);
                match code {
                    'A' => row = row.saturating_sub(count),
                    'B' => row += count,
                    'K' if number == "2" => lines[row].clear(),
                    'K' => lines[row].truncate(column),
                    'J' => {
                        lines.truncate(row + 1);
                        lines[row].truncate(column);
                    }
                    _ => {}
                }
            }
            '\r' => column = 0,
            '\n' => (row, column) = (row + 1, 0),
            other => {
                if column == WIDTH {
                    (row, column) = (row + 1, 0);
                    lines.resize(lines.len().max(row + 1), Vec::new());
                }
                let line = &mut lines[row];
                line.resize(line.len().max(column + 1), ' ');
                line[column] = other;
                column += 1;
            }
        }
        lines.resize(lines.len().max(row + 1), Vec::new());
    }
    lines.iter().map(|line| line.iter().collect::<String>() + "\n").collect()
}

#[test]
fn a_terminal_that_cannot_draw_is_shown_lines_without_colours() {
    let bench = Bench::new();
    let file = flow(&bench);
    let args = ["run", &file, "--target", "process", "--name", "tree"];
    let (code, screen) = Shown::start(&bench, &args, &[("TERM", "dumb")]).until_end();
    assert_eq!(code, 1, "{screen}");
    assert!(screen.contains("first started") && screen.contains("second failed"), "{screen}");
    assert!(!screen.contains('\u{1b}'), "{screen:?}");
}

#[test]
fn no_colour_on_a_terminal_where_nobody_wants_it() {
    let bench = Bench::new();
    let file = flow(&bench);
    let args = ["run", &file, "--target", "process", "--name", "tree"];
    let (code, screen) = Shown::start(&bench, &args, &[("NO_COLOR", "1")]).until_end();
    assert_eq!(code, 1, "{screen}");
    assert!(!read(&screen).1.contains('m'), "{screen:?}");
}

#[test]
fn no_escape_code_where_there_is_no_terminal() {
    let bench = Bench::new();
    let gave = bench.orlop(&["run", &flow(&bench), "--target", "process", "--name", "tree"]);
    assert_eq!(gave.code, 1);
    assert!(!gave.out.contains('\u{1b}') && !gave.err.contains('\u{1b}'), "{gave:?}");
    assert!(gave.err.contains("second failed"), "{}", gave.err);
    let gave = bench.orlop(&["flow", "get", "tree"]);
    assert!(!gave.out.contains('\u{1b}'), "{}", gave.out);
}
