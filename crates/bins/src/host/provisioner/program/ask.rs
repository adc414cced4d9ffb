//! Questions to the person at the terminal.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};

use super::failure::Failure;

/// Characters of an answer that are read.
const MAX_ANSWER: u64 = 4096;

/// Whether somebody can be asked.
pub(super) fn has_reader() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

fn line() -> io::Result<String> {
    let mut text = String::new();
    io::Read::take(io::stdin().lock(), MAX_ANSWER).read_line(&mut text)?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::usage(format!("the terminal cannot be asked: {error}"))
}

/// Asks, and reads the answer. Nothing is held meanwhile: anyone who is interrupted here still has something to say.
fn answer(question: &str) -> io::Result<String> {
    let mut to = io::stderr().lock();
    to.write_all(question.as_bytes())?;
    to.flush()?;
    drop(to);
    line()
}

/// Asks; only `y` and `yes` agree.
pub(super) async fn agrees(question: &str) -> Result<bool, Failure> {
    let question = format!("{question} [y/N] ");
    let asked = tokio::task::spawn_blocking(move || answer(&question));
    let answer = asked.await.map_err(failed)?.map_err(failed)?;
    Ok(["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()))
}

/// A terminal that does not show what is typed, until this is dropped: also when the question is interrupted.
struct Silent(Termios);

impl Silent {
    fn new() -> nix::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut silent = before.clone();
        silent.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(io::stdin(), SetArg::TCSAFLUSH, &silent)?;
        Ok(Self(before))
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        tcsetattr(io::stdin(), SetArg::TCSAFLUSH, &self.0).unwrap_or_default();
        drop(writeln!(io::stderr().lock()));
    }
}

/// Asks for something that nobody else may read on the screen.
pub(super) async fn secret(question: &str) -> Result<String, Failure> {
    let question = format!("{question}: ");
    let silent = Silent::new().map_err(failed)?;
    let asked = tokio::task::spawn_blocking(move || answer(&question)).await;
    drop(silent);
    asked.map_err(failed)?.map_err(failed)
}
