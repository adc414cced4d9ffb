//! Starting shims. Owns the pipes between parent and shim until the shim has answered; after that the shim is on its
//! own, and only the kernel knows that it had a parent.

use std::process::Stdio;
use std::time::Duration;

use orlop_core::error::{Class, PortError};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use super::paths::Paths;
use super::probe;
use super::runtime::ShimProgram;
use super::wire::{self, KeepOrder, KeepReply, Order};

/// How long a shim may take to answer. One that answers later is found by the next start.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a program's complaint that are shown.
const COMPLAINT: usize = 500;

/// Starts a shim for a pod.
pub(super) async fn shim(program: &ShimProgram, order: KeepOrder) -> Result<KeepReply, PortError> {
    let said = ask(program, &Order::Keep(Box::new(order))).await?;
    serde_json::from_slice(&said.out).map_err(|_| said.complaint(program))
}

/// Finds out how absolute paths become real, and why not better.
pub(super) async fn probe(program: &ShimProgram) -> Result<(Paths, Option<String>), PortError> {
    let said = ask(program, &Order::Probe).await?;
    let found = probe::parse(&said.out).map_err(|_| said.complaint(program))?;
    Ok((found.paths, found.why))
}

/// What a program said.
struct Said {
    out: Vec<u8>,
    err: Vec<u8>,
}

impl Said {
    /// The error for a program that does not answer as a shim does.
    fn complaint(&self, program: &ShimProgram) -> PortError {
        let text = String::from_utf8_lossy(&self.err);
        let text: String = text.trim().chars().take(COMPLAINT).collect();
        // A shim that was killed says nothing; the next one may live.
        let (class, text) = if text.is_empty() {
            (Class::Transient, "it ended without an answer".to_owned())
        } else {
            (Class::Invalid, text)
        };
        PortError::new(class, format!("`{}` does not work as a shim: {text}", program.path.display()))
    }
}

async fn ask(program: &ShimProgram, order: &Order) -> Result<Said, PortError> {
    let bytes = wire::encode(order)?;
    heed_children()?;
    let mut command = Command::new(&program.path);
    command.args(&program.args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| {
        let message = format!("the shim program `{}` cannot be run", program.path.display());
        // A program that is being replaced is not there for a moment.
        let class = PortError::from(std::io::Error::from(error.kind())).class;
        let class = if class == Class::NotFound { Class::Transient } else { class };
        PortError::new(class, message).because(error)
    })?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    // Dead shims are buried whenever they die; nothing waits for that.
    tokio::spawn(async move { child.wait().await });
    let send = async {
        if let Some(mut stdin) = stdin {
            // A program that does not listen is dealt with by what it says instead.
            drop(stdin.write_all(&bytes).await);
        }
    };
    // An answer is one line; without one, what the program complains of is all it said.
    let hear = async {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        if let Some(stdout) = stdout {
            BufReader::new(stdout).read_until(b'\n', &mut out).await?;
        }
        if let Some(mut stderr) = stderr.filter(|_| out.is_empty()) {
            stderr.read_to_end(&mut err).await?;
        }
        Ok::<Said, std::io::Error>(Said { out, err })
    };
    let talk = async { tokio::join!(send, hear) };
    let ((), said) = tokio::time::timeout(PATIENCE, talk).await.map_err(|_| {
        let message = format!("the shim program `{}` did not answer in time", program.path.display());
        PortError::new(Class::Transient, message)
    })?;
    Ok(said?)
}

/// A program that was told to ignore the ends of children would have shims that ignore them too: a handler of its own is
/// not inherited.
fn heed_children() -> std::io::Result<()> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    if ignored & (1 << (nix::libc::SIGCHLD - 1)) != 0 {
        // The handler stays when the stream of its signals goes.
        drop(tokio::signal::unix::signal(tokio::signal::unix::SignalKind::child())?);
    }
    Ok(())
}
