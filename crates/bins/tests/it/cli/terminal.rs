//! Progress on a real terminal: a tree that is redrawn in place. Elsewhere lines without any escape code.

use std::fs::File;
use std::io::Read as _;
use std::process::{Child, Stdio};

use nix::pty::{Winsize, openpty};
use serde_json::json;

use super::bench::Bench;

/// A program whose standard error is a terminal, and the other side of that terminal.
struct Shown {
    child: Child,
    screen: File,
}

impl Shown {
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
