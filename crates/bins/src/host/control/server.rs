//! The host's end of the socket.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use orlop_core::error::{Class, Code};
use orlop_dag::engine::StatusView;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, oneshot, watch};
use tokio::task::JoinSet;

use super::address::Address;
use super::person::name_of;
use super::{Answer, Request};
use crate::host::flow::{FlowCommand, HostHandle, Notice};

/// How long callers may take to hear the last words of a host.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Serves the socket of a run until it is closed or dropped.
#[derive(Debug)]
pub struct Server {
    task: JoinSet<()>,
    end: Option<oneshot::Sender<()>>,
}

impl Server {
    /// Opens the socket in a run directory whose lock the caller holds, for the owner only.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open(directory: &Path, handle: HostHandle) -> io::Result<Self> {
        let address = Address::of(directory)?;
        // The lock is ours, so a socket that is there belongs to nobody any more.
        match fs::remove_file(&address.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&address.path)?;
        fs::set_permissions(&address.path, Permissions::from_mode(0o600))?;
        let mut task = JoinSet::new();
        let (end, ended) = oneshot::channel();
        task.spawn(accept(listener, handle, ended));
        Ok(Self { task, end: Some(end) })
    }

    /// Takes no more callers and lets those there are hear the last words of the host, which has gone by now.
    pub async fn close(mut self) {
        self.end = None;
        // Anyone who has not listened by then never will.
        drop(tokio::time::timeout(LAST_WORDS, self.task.join_next()).await);
    }
}

async fn accept(listener: UnixListener, handle: HostHandle, mut ended: oneshot::Receiver<()>) {
    let mut callers = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut ended => break,
            caller = listener.accept() => match caller {
                Ok((stream, _)) => {
                    callers.spawn(serve(stream, handle.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    // Too many open files: room comes when a caller leaves.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = callers.join_next(), if !callers.is_empty() => {}
        }
    }
    drop(handle);
    while callers.join_next().await.is_some() {}
}

/// Serves one caller until it leaves. Trouble with it is its own.
async fn serve(stream: UnixStream, handle: HostHandle) {
    // The kernel knows who calls, whatever the caller says.
    let caller = stream.peer_cred().map(|peer| name_of(peer.uid()));
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let answer = match serde_json::from_str(&line) {
            Ok(Request::Order(_)) if has_left(&mut lines) => return,
            Ok(Request::Order(order)) => match handle.order(signed(order, &caller)).await {
                Ok(true) => Answer::Done,
                Ok(false) => Answer::Gone,
                Err(error) => Answer::Refused { code: error.code, class: error.class, message: error.chain() },
            },
            Ok(Request::Watch) => {
                let news = (handle.status(), handle.notices());
                // A watcher must not keep alive what it waits for the end of.
                drop(handle);
                return drop(tell(&mut write, news, lines.into_inner()).await);
            }
            Err(error) => {
                let message = format!("the request cannot be read: {error}");
                Answer::Refused { code: Code::InvalidSpec, class: Class::Invalid, message }
            }
        };
        if send(&mut write, &answer).await.is_err() {
            return;
        }
    }
}

/// Whether a caller has closed its end: it waits for no answer, and knows that its order was not carried out.
fn has_left(lines: &mut Lines<BufReader<OwnedReadHalf>>) -> bool {
    let stream: &UnixStream = lines.get_mut().get_ref().as_ref();
    let mut asked = [PollFd::new(stream.as_fd(), PollFlags::empty())];
    let reported = poll(&mut asked, PollTimeout::ZERO).unwrap_or(0);
    let hung_up = |asked: &PollFd<'_>| asked.revents().is_some_and(|events| events.contains(PollFlags::POLLHUP));
    reported > 0 && asked.iter().any(hung_up)
}

/// An order under the name of who gives it.
fn signed(order: FlowCommand, caller: &io::Result<String>) -> FlowCommand {
    match order {
        FlowCommand::Decide { step, decision, reason, .. } => {
            // Nobody but this machine vouches for the name.
            FlowCommand::Decide { step, decision, by: caller.as_ref().ok().cloned(), reason, verified: false }
        }
        other => other,
    }
}

async fn send(write: &mut OwnedWriteHalf, answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    write.write_all(&line).await
}

/// What a watcher hears.
type News = (watch::Receiver<Arc<StatusView>>, broadcast::Receiver<Notice>);

/// Tells a watcher the status now, then every change, until it leaves or the flow has ended.
async fn tell(
    write: &mut OwnedWriteHalf,
    (mut status, mut notices): News,
    mut caller: BufReader<OwnedReadHalf>,
) -> io::Result<()> {
    status.mark_changed();
    let mut leave = String::new();
    loop {
        let answer = tokio::select! {
            biased;
            notice = notices.recv() => match notice {
                Ok(notice) => Answer::Notice(notice),
                Err(RecvError::Lagged(_)) => continue,
                // The host has gone: its last status may not be reported yet.
                Err(RecvError::Closed) => {
                    let view = status.borrow_and_update().clone();
                    return send(write, &Answer::Status(Box::new(view.status.clone()))).await;
                }
            },
            changed = status.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
                let view = status.borrow_and_update().clone();
                Answer::Status(Box::new(view.status.clone()))
            }
            _ = caller.read_line(&mut leave) => return Ok(()),
        };
        send(write, &answer).await?;
        if let Answer::Status(status) = answer
            && status.phase.is_terminal()
        {
            return Ok(());
        }
    }
}
