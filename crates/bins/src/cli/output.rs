//! Standard output and standard error of commands.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};

use indicatif::MultiProgress;
use serde::Serialize;

use super::failure::{Exit, Failure};
use crate::view::text::{Colour, harmless, harmless_log, unfinished};

/// Form of a command's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// Tables and sentences for people.
    #[default]
    Table,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Names only, one a line.
    Name,
}

/// Writes a text to standard output, with a line feed where it has none. A reader that has gone is no error.
///
/// # Errors
/// When it cannot be written for any other reason, such as a full disk.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    written(put(&mut io::stdout().lock(), text))
}

/// The same as a whole screen, in the place of what a terminal shows.
///
/// # Errors
/// As of [`print`].
#[cfg(feature = "fleet")]
pub(super) fn screen(text: &str) -> Result<(), Failure> {
    if raw(b"\x1b[2J\x1b[H")? { print(text) } else { Ok(()) }
}

/// The same for standard error, above what is drawn there. An error of it has nowhere to be shown.
pub(super) fn tell(text: &str) {
    drop(above(|| put(&mut io::stderr().lock(), text)));
}

/// What is drawn on standard error and redrawn.
static DRAWN: Mutex<Option<MultiProgress>> = Mutex::new(None);

/// Makes room on standard error for as long as something is written there.
fn above<T>(write: impl FnOnce() -> T) -> T {
    let drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match drawn {
        Some(drawn) => drawn.suspend(write),
        None => write(),
    }
}

/// Something that is drawn on standard error, until this is dropped.
#[derive(Debug)]
pub(super) struct Drawing(());

impl Drawing {
    /// Has everything that is written to standard error by [`tell`] and [`Lines`] stand above it.
    pub(super) fn of(screen: &MultiProgress) -> Self {
        *DRAWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(screen.clone());
        Self(())
    }
}

impl Drop for Drawing {
    fn drop(&mut self) {
        *DRAWN.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Standard error for the lines of a log, above what is drawn there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines;

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        above(|| io::stderr().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

fn put(to: &mut dyn io::Write, text: &str) -> io::Result<()> {
    // Of others, such as jobs, workers and servers, is much of what a command tells.
    to.write_all(harmless(text).as_bytes())?;
    if !text.is_empty() && !text.ends_with('\n') {
        to.write_all(b"\n")?;
    }
    to.flush()
}

fn written(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::io("writing the output failed", &error))
        }
        _ => Ok(()),
    }
}

/// Writes raw bytes to standard output. False when the reader has gone.
///
/// # Errors
/// As of [`print`].
pub(super) fn raw(bytes: &[u8]) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        other => written(other).map(|()| true),
    }
}

/// What the last piece of a log left over: half a character or sequence.
static HELD: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Writes what a job or step wrote to standard output: byte for byte, but to a terminal nothing that steers it. False when the
/// reader has gone.
///
/// # Errors
/// As of [`print`].
pub(super) fn log(bytes: &[u8]) -> Result<bool, Failure> {
    if !io::stdout().is_terminal() {
        return raw(bytes);
    }
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.extend_from_slice(bytes);
    let rest = held.len() - unfinished(&held);
    let rest = held.split_off(rest);
    let whole = std::mem::replace(&mut *held, rest);
    raw(harmless_log(&String::from_utf8_lossy(&whole)).as_bytes())
}

/// A value as JSON or YAML.
///
/// # Errors
/// When it cannot be written down, which no value of ours does.
pub(super) fn serialized(value: &impl Serialize, format: Format) -> Result<String, Failure> {
    let failed = |error: String| Failure::new(Exit::Failed, format!("the output cannot be written: {error}"));
    if format == Format::Yaml {
        return serde_saphyr::to_string(value).map_err(|error| failed(error.to_string()));
    }
    serde_json::to_string_pretty(value).map_err(|error| failed(error.to_string()))
}

/// Whether a person reads what is printed, and nothing keeps it.
#[cfg(feature = "fleet")]
pub(super) fn is_terminal() -> bool {
    io::stdout().is_terminal() && io::stderr().is_terminal()
}

/// Whether standard error is a terminal on which something can be redrawn.
#[must_use]
pub(super) fn can_draw() -> bool {
    io::stderr().is_terminal() && !is_dumb()
}

/// Characters in a line of standard output; none where it is no terminal.
#[must_use]
pub(super) fn width() -> Option<usize> {
    terminal_size::terminal_size_of(io::stdout()).map(|(terminal_size::Width(columns), _)| usize::from(columns))
}

/// Does something that may take a while; says so where it does.
pub(super) async fn with_patience<T>(what: &str, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    match tokio::time::timeout(PATIENCE, &mut work).await {
        Ok(done) => done,
        Err(_) => {
            tell(&format!("{what} \u{2026}"));
            work.await
        }
    }
}

/// After what time it is said what is waited for.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(1);

/// Whether the terminal knows no more than lines of text.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|name| name == "dumb")
}

/// Whether standard output shows colours: a terminal that can, and nobody has said NO_COLOR.
#[must_use]
pub(super) fn colour() -> Colour {
    colour_of(io::stdout().is_terminal())
}

/// The same for standard error.
#[must_use]
pub(super) fn error_colour() -> Colour {
    colour_of(io::stderr().is_terminal())
}

fn colour_of(terminal: bool) -> Colour {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if terminal && !refused && !is_dumb() { Colour::Always } else { Colour::Never }
}
