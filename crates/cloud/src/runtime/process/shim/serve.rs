//! The server of shims: one process that forks a shim for every connection it is handed. Owns the connections and what a fork leaves
//! behind; what a shim does with its order is decided in [`super`]. A fork costs a fraction of what it takes to load a program.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use fork::{Fork, fork};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::runtime::child;
use crate::runtime::process::wire::KeepReply;

/// Serves until nobody is left who could ask. Returns in every shim as well, with what its order came to.
pub(super) fn serve(shim: fn() -> ExitCode) -> ExitCode {
    let (control, signals) = match begin() {
        Ok(begun) => begun,
        Err(error) => {
            return super::complain(&format!("a shim takes its orders from the runtime over a socket: {error}"));
        }
    };
    loop {
        let connection = match next(&control, &signals) {
            Ok(Some(connection)) => connection,
            // The runtime is gone. Shims live on.
            Ok(None) => return ExitCode::SUCCESS,
            Err(_) => return ExitCode::FAILURE,
        };
        match fork() {
            Ok(Fork::Child) => {
                // A shim must not keep the server's socket open: the runtime would not see that the server is gone.
                drop((control, signals));
                return match answer_on(connection) {
                    Ok(()) => shim(),
                    Err(_) => ExitCode::FAILURE,
                };
            }
            Ok(Fork::Parent(_)) => {}
            Err(error) => refuse(connection, &error),
        }
    }
}

/// Takes standard input as the socket to the runtime; all else that was inherited goes.
fn begin() -> io::Result<(OwnedFd, SignalFd)> {
    rustix::net::sockopt::socket_type(io::stdin().as_fd())?;
    let control = io::stdin().as_fd().try_clone_to_owned()?;
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    for fd in child::foreign()? {
        let _ = nix::unistd::close(fd);
    }
    let set = SigSet::from(Signal::SIGCHLD);
    set.thread_block()?;
    let signals = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    // From here on there is nothing to complain of.
    nix::unistd::dup2_stdin(&null)?;
    nix::unistd::dup2_stderr(&null)?;
    Ok((control, signals))
}

/// The next connection; none when the runtime is gone. Shims that end meanwhile are waited for.
fn next(control: &OwnedFd, signals: &SignalFd) -> io::Result<Option<OwnedFd>> {
    loop {
        let mut fds =
            [PollFd::new(control.as_fd(), PollFlags::POLLIN), PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_asked = fds.first().and_then(PollFd::any).unwrap_or(false);
        while signals.read_signal()?.is_some() {}
        while !matches!(waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG)), Ok(WaitStatus::StillAlive) | Err(_)) {}
        if !is_asked {
            continue;
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let read = recvmsg(control, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC);
        match read {
            Ok(message) if message.bytes == 0 => return Ok(None),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(mut connections) = message
                && let Some(connection) = connections.next()
            {
                return Ok(Some(connection));
            }
        }
    }
}

/// Answers in place of a shim that cannot be forked. A runtime that is gone needs no answer.
fn refuse(connection: OwnedFd, error: &io::Error) {
    let reply = KeepReply::Refused(error.raw_os_error(), format!("a shim cannot be forked: {error}"));
    let answer = serde_json::to_vec(&reply).map_err(io::Error::from);
    drop(answer.and_then(|line| File::from(connection).write_all(&[&line[..], b"\n"].concat())));
}

/// A shim has its order from standard input and answers to standard output.
fn answer_on(connection: OwnedFd) -> io::Result<()> {
    nix::unistd::dup2_stdin(&connection)?;
    Ok(nix::unistd::dup2_stdout(connection)?)
}
