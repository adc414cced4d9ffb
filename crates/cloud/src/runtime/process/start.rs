//! Starting shims. Owns the server of shims, a separate process that forks one for every pod, and the connection to each shim
//! until it has answered; after that the shim is on its own, and only the kernel knows where it came from.

use std::ffi::{CString, OsString};
use std::fs::OpenOptions;
use std::io::{self, IoSlice, PipeReader, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream as Socket;
use std::path::PathBuf;
use std::time::Duration;

use nix::spawn::{PosixSpawnFileActions, posix_spawnp};
use nix::sys::signal::Signal;
use nix::sys::wait::waitpid;
use orlop_core::error::{Class, Problem};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::UnixStream;
use tokio::sync::{Mutex, watch};

use super::identity::{self, Identity};
use super::paths::Paths;
use super::probe;
use super::wire::{self, KeepOrder, KeepReply, ShimCommand};
use crate::runtime::child;

/// How long a shim may take to answer. One that answers later is found by the next start.
const PATIENCE: Duration = Duration::from_secs(15);
/// Bytes of a program's complaint that are shown.
const COMPLAINT: usize = 500;

/// How to start shims: a program that calls [`shim::main`](super::shim::main) when it is run with these arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShimProgram {
    /// The program.
    pub path: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// What starts shims.
#[derive(Debug)]
pub(super) struct Shims {
    program: ShimProgram,
    /// Started with the first shim, and again where it is gone.
    server: Mutex<Option<Server>>,
}

/// A running server of shims. It ends when this is dropped.
#[derive(Debug)]
struct Server {
    /// None where `/proc` does not show it.
    identity: Option<Identity>,
    control: UnixStream,
    complaint: Complaint,
}

/// What a program says in place of serving, once it has ended or serves.
type Complaint = watch::Receiver<Option<String>>;

impl Shims {
    pub(super) fn new(program: ShimProgram) -> Self {
        Self { program, server: Mutex::default() }
    }

    /// Starts a shim for a pod.
    pub(super) async fn keep(&self, order: KeepOrder) -> Result<KeepReply, Problem> {
        let answer = self.ask(&ShimCommand::Keep(Box::new(order))).await?;
        serde_json::from_slice(&answer).map_err(|_| self.complaint(""))
    }

    /// Finds out how absolute paths become real, and why not better.
    pub(super) async fn probe(&self) -> Result<(Paths, Option<String>), Problem> {
        let answer = self.ask(&ShimCommand::Probe).await?;
        let found = probe::parse(&answer).map_err(|_| self.complaint(""))?;
        Ok((found.paths, found.why))
    }

    /// The answer of a new shim: one line.
    async fn ask(&self, order: &ShimCommand) -> Result<Vec<u8>, Problem> {
        let bytes = wire::encode(order)?;
        let talk = async {
            let (mut connection, mut complaint) = self.connect().await?;
            // A program that does not listen is dealt with by what it says instead.
            drop(connection.write_all(&bytes).await);
            let mut answer = Vec::new();
            let heard = BufReader::new(connection).read_until(b'\n', &mut answer).await;
            if heard.is_ok() && !answer.is_empty() {
                return Ok(answer);
            }
            let said = complaint.wait_for(Option::is_some).await.ok().and_then(|said| said.clone());
            Err(self.complaint(&said.unwrap_or_default()))
        };
        if let Ok(answer) = tokio::time::timeout(PATIENCE, talk).await {
            return answer;
        }
        // The server may hang. The next start makes another one; shims of this one live on.
        if let Some(hanging) = self.server.lock().await.take().and_then(|server| server.identity)
            && let Err(error) = hanging.signal(Signal::SIGKILL)
        {
            tracing::warn!(server = %hanging, %error, "a server of shims hangs and cannot be killed");
        }
        let message = format!("the shim program `{}` did not answer in time", self.program.path.display());
        Err(Problem::new(Class::Transient, message))
    }

    /// The error for a program that does not answer as a shim does.
    fn complaint(&self, said: &str) -> Problem {
        let text: String = said.trim().chars().take(COMPLAINT).collect();
        // A shim that was killed says nothing; the next one may live.
        let (class, text) = if text.is_empty() {
            (Class::Transient, "it ended without an answer".to_owned())
        } else {
            (Class::Invalid, text)
        };
        Problem::new(class, format!("`{}` does not work as a shim: {text}", self.program.path.display()))
    }

    /// A connection to a new shim.
    async fn connect(&self) -> Result<(UnixStream, Complaint), Problem> {
        let mut server = self.server.lock().await;
        let (ours, theirs) = Socket::pair()?;
        ours.set_nonblocking(true)?;
        if let Some(known) = &*server
            && known.hand_over(&theirs).await.is_ok()
        {
            return Ok((UnixStream::from_std(ours)?, known.complaint.clone()));
        }
        // It is gone, or there was none.
        let new = server.insert(serve(&self.program)?);
        // A program that does not serve says why on standard error.
        drop(new.hand_over(&theirs).await);
        Ok((UnixStream::from_std(ours)?, new.complaint.clone()))
    }
}

impl Server {
    /// Hands the other end of a connection to the server, which has a shim answer there.
    async fn hand_over(&self, connection: &Socket) -> io::Result<()> {
        let send = || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let connection = [connection.as_fd()];
            if !control.push(SendAncillaryMessage::ScmRights(&connection)) {
                return Err(io::Error::other("a message has no room for a connection"));
            }
            let sent = sendmsg(&self.control, &[IoSlice::new(b"\n")], &mut control, SendFlags::NOSIGNAL);
            sent.map(drop).map_err(io::Error::from)
        };
        self.control.async_io(Interest::WRITABLE, send).await
    }
}

/// Starts a server of shims, in its own session: an interrupt from a terminal is not for it.
fn serve(program: &ShimProgram) -> Result<Server, Problem> {
    let (ours, theirs) = Socket::pair()?;
    ours.set_nonblocking(true)?;
    let (said, complaint) = io::pipe()?;
    let null = OpenOptions::new().write(true).open("/dev/null")?;
    let spawn = || -> io::Result<_> {
        let text = |text: OsString| CString::new(text.into_encoded_bytes()).map_err(io::Error::from);
        let path = text(program.path.clone().into_os_string())?;
        let args = program.args.iter().cloned().map(text);
        let argv: Vec<CString> = [Ok(path.clone())].into_iter().chain(args).collect::<io::Result<_>>()?;
        let variable = |(mut name, value): (OsString, OsString)| {
            name.push("=");
            name.push(value);
            text(name)
        };
        let env: Vec<CString> = std::env::vars_os().map(variable).collect::<io::Result<_>>()?;
        let mut actions = PosixSpawnFileActions::init()?;
        for (number, end) in (0..).zip([theirs.as_raw_fd(), null.as_raw_fd(), complaint.as_raw_fd()]) {
            actions.add_dup2(end, number)?;
        }
        Ok(posix_spawnp(&path, &actions, &child::attributes()?, &argv, &env)?)
    };
    let pid = spawn().map_err(|error| {
        let message = format!("the shim program `{}` cannot be run", program.path.display());
        // A program that is being replaced is not there for a moment.
        let class = Problem::from(io::Error::from(error.kind())).class;
        let class = if class == Class::NotFound { Class::Transient } else { class };
        Problem::new(class, message).because(error)
    })?;
    let identity = identity::stat(pid.as_raw()).map(|stat| stat.identity);
    let (tell, complaint) = watch::channel(None);
    // The thread reaps it whenever it ends.
    std::thread::Builder::new().name("orlop-shims".to_owned()).spawn(move || {
        tell.send_replace(Some(complaint_of(said)));
        let _ = waitpid(pid, None);
    })?;
    Ok(Server { identity, control: UnixStream::from_std(ours)?, complaint })
}

/// What a program says until it ends or serves.
fn complaint_of(said: PipeReader) -> String {
    let mut bytes = Vec::new();
    let limit = u64::try_from(4 * COMPLAINT).unwrap_or(u64::MAX);
    // What was read until then counts.
    drop(said.take(limit).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}
