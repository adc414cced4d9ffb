//! The command that the program runs: signals are handed on to it, children that it leaves behind are reaped, since the program
//! is the first process of its container, and its exit code is kept. Owns these; starts nothing else.

use std::ffi::{OsStr, OsString};
use std::io;

use nix::errno::Errno;
use nix::sys::signal::{Signal as Number, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use orlop_core::helper::{KEYS, ORDER, TOKEN};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// Signals that are handed on.
const HANDED_ON: [Number; 10] = [
    Number::SIGALRM,
    Number::SIGCONT,
    Number::SIGHUP,
    Number::SIGINT,
    Number::SIGQUIT,
    Number::SIGTERM,
    Number::SIGTSTP,
    Number::SIGUSR1,
    Number::SIGUSR2,
    Number::SIGWINCH,
];

/// A command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command<'a> {
    pub(super) program: &'a OsStr,
    pub(super) arguments: &'a [OsString],
}

/// A command that runs.
pub(super) struct Child {
    pid: Pid,
    ended: Signal,
    signals: mpsc::UnboundedReceiver<Number>,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    /// Its exit code; 128 + n when ended by signal n.
    pub(super) code: u8,
    /// Whether the container got a signal to end.
    pub(super) told_to_end: bool,
}

impl Command<'_> {
    /// Starts it, without what only this program may know.
    pub(super) fn start(self) -> io::Result<Child> {
        // Signals must be caught from the first moment on.
        let ended = signal(SignalKind::child())?;
        let signals = listen()?;
        let mut child = std::process::Command::new(self.program);
        child.args(self.arguments).env_remove(ORDER).env_remove(TOKEN);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(KEYS.as_bytes())) {
            child.env_remove(name);
        }
        let child = child.spawn()?;
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        Ok(Child { pid: Pid::from_raw(pid), ended, signals })
    }
}

fn listen() -> io::Result<mpsc::UnboundedReceiver<Number>> {
    let (tell, reported) = mpsc::unbounded_channel();
    for number in HANDED_ON {
        let (mut arrived, tell) = (signal(SignalKind::from_raw(number as i32))?, tell.clone());
        tokio::spawn(async move { while arrived.recv().await.is_some() && tell.send(number).is_ok() {} });
    }
    Ok(reported)
}

/// Others may mean anything to a command, such as to read its settings again.
fn ends(number: Number) -> bool {
    number == Number::SIGTERM
}

impl Child {
    /// Hands signals on until the command has ended.
    pub(super) async fn end(&mut self) -> io::Result<Ended> {
        let mut told_to_end = false;
        loop {
            if let Some(code) = self.reap()? {
                return Ok(Ended { code, told_to_end });
            }
            tokio::select! {
                _ = self.ended.recv() => {}
                Some(number) = self.signals.recv() => {
                    told_to_end |= ends(number);
                    // It may have ended this moment; then there is nobody to tell.
                    kill(self.pid, number).ok();
                }
            }
        }
    }

    /// Waits until the container gets a signal to end.
    pub(super) async fn told_to_end(&mut self) {
        while let Some(number) = self.signals.recv().await {
            if ends(number) {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    /// Takes in all children that have ended. Gives the exit code of the command, if it is among them.
    fn reap(&self) -> io::Result<Option<u8>> {
        let mut found = None;
        loop {
            // Of a command, its children are this process's when it is the first one.
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == self.pid => found = Some(code.to_le_bytes()[0]),
                Ok(WaitStatus::Signaled(pid, number, _)) if pid == self.pid => {
                    found = Some(128_u8.saturating_add((number as i32).to_le_bytes()[0]));
                }
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(found),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
