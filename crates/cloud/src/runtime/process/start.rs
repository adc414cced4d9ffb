//! The way to the supervisor. Owns starting it, and a connection for each order until that is answered; after that its pods are on
//! their own, and only the kernel knows where it came from.

use std::ffi::{CString, OsString};
use std::fs::OpenOptions;
use std::io::{self, IoSlice, PipeReader, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream as Socket;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::spawn::{PosixSpawnFileActions, posix_spawnp};
use nix::sys::wait::{WaitStatus, waitpid};
use orlop_core::error::{Class, Problem};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::UnixStream;
use tokio::sync::{Mutex, watch};

use super::child;
use super::paths::Paths;
use super::probe;
use super::wire::{self, KeepOrder, KeepReply, SupervisorCommand};

/// How long a supervisor may take to answer. A pod that it claims later is found by the next start.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long one may take to end once it has closed its connection.
const ENDING: Duration = Duration::from_secs(1);
/// Bytes of a program's complaint that are shown.
const COMPLAINT: usize = 500;

/// How to start a program in one of its hidden roles: the supervisor is one that calls
/// [`supervisor::main`](super::supervisor::main) when it is run with these arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleProgram {
    /// The program.
    pub path: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// What hands orders to the supervisor.
#[derive(Debug)]
pub(super) struct SupervisorClient {
    program: RoleProgram,
    /// Its environment; none: that of this program.
    environment: Option<Vec<(String, String)>>,
    /// Started with the first order, and again where it is gone.
    running: Mutex<Option<Supervisor>>,
}

/// A running supervisor. It ends when this is dropped and it has no pod any more.
#[derive(Debug)]
struct Supervisor {
    /// Its process id.
    number: u64,
    control: UnixStream,
    complaint: Complaint,
}

/// What a program says in place of working, and how it ended, once it has; nothing of either as long as it works.
#[derive(Clone, Debug, Default)]
struct Trouble {
    said: Option<String>,
    exit_code: Option<i32>,
}

type Complaint = watch::Receiver<Trouble>;

impl SupervisorClient {
    pub(super) fn new(program: RoleProgram, environment: Option<Vec<(String, String)>>) -> Self {
        Self { program, environment, running: Mutex::default() }
    }

    /// Has a pod kept.
    pub(super) async fn keep(&self, order: KeepOrder) -> Result<KeepReply, Problem> {
        let answer = self.ask(&SupervisorCommand::Keep(Box::new(order))).await?;
        serde_json::from_slice(&answer).map_err(|_| self.complaint(&Trouble::default()))
    }

    /// Finds out how absolute paths become real, and why not better.
    pub(super) async fn probe(&self) -> Result<(Paths, Option<String>), Problem> {
        let answer = self.ask(&SupervisorCommand::Probe).await?;
        let found = probe::parse(&answer).map_err(|_| self.complaint(&Trouble::default()))?;
        Ok((found.paths, found.why))
    }

    /// The answer to an order: one line.
    async fn ask(&self, order: &SupervisorCommand) -> Result<Vec<u8>, Problem> {
        let bytes = wire::encode(order)?;
        let asked = AtomicU64::new(0);
        let talk = async {
            let (mut connection, mut complaint) = self.connect(&asked).await?;
            // A program that does not listen is dealt with by what it says instead.
            drop(connection.write_all(&bytes).await);
            let mut answer = Vec::new();
            let heard = BufReader::new(connection).read_until(b'\n', &mut answer).await;
            if heard.is_ok() && !answer.is_empty() {
                return Ok(answer);
            }
            let told = complaint.wait_for(|trouble| trouble.said.is_some()).await.is_ok();
            // One that closed the connection is about to end.
            drop(tokio::time::timeout(ENDING, complaint.wait_for(|trouble| trouble.exit_code.is_some())).await);
            let trouble = if told { complaint.borrow().clone() } else { Trouble::default() };
            Err(self.complaint(&trouble))
        };
        if let Ok(answer) = tokio::time::timeout(PATIENCE, talk).await {
            return answer;
        }
        // It may hang. The next order makes another one; this one keeps its pods.
        let mut running = self.running.lock().await;
        if running.as_ref().is_some_and(|running| running.number == asked.load(Ordering::Relaxed)) {
            *running = None;
        }
        let message = format!("the supervisor program `{}` did not answer in time", self.program.path.display());
        Err(Problem::new(Class::Transient, message))
    }

    /// The error for a program that does not answer as a supervisor does.
    fn complaint(&self, trouble: &Trouble) -> Problem {
        let text: String = trouble.said.as_deref().unwrap_or_default().trim().chars().take(COMPLAINT).collect();
        let (class, text) = match trouble.exit_code {
            _ if !text.is_empty() => (Class::Invalid, text),
            // It came to its own end, and would again.
            Some(code) => {
                let does = "a program that runs pods calls the supervisor first of all when it is started with these arguments";
                (Class::Invalid, format!("it ended without an answer, with exit code {code}; {does}"))
            }
            // One that was killed says nothing; the next one may live.
            None => (Class::Transient, "it ended without an answer".to_owned()),
        };
        Problem::new(class, format!("`{}` does not work as a supervisor: {text}", self.program.path.display()))
    }

    /// A connection to the supervisor.
    async fn connect(&self, asked: &AtomicU64) -> Result<(UnixStream, Complaint), Problem> {
        let mut running = self.running.lock().await;
        let (ours, theirs) = Socket::pair()?;
        ours.set_nonblocking(true)?;
        if let Some(known) = &*running
            && known.hand_over(&theirs).await.is_ok()
        {
            asked.store(known.number, Ordering::Relaxed);
            return Ok((UnixStream::from_std(ours)?, known.complaint.clone()));
        }
        // It is gone, or there was none.
        let new = running.insert(start(&self.program, self.environment.as_deref())?);
        asked.store(new.number, Ordering::Relaxed);
        // A program that is none says why on standard error.
        drop(new.hand_over(&theirs).await);
        Ok((UnixStream::from_std(ours)?, new.complaint.clone()))
    }
}

impl Supervisor {
    /// Hands the other end of a connection to the supervisor, which answers there.
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

/// Starts a supervisor, in its own session: an interrupt from a terminal is not for it.
fn start(program: &RoleProgram, environment: Option<&[(String, String)]>) -> Result<Supervisor, Problem> {
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
        let env: Vec<(OsString, OsString)> = match environment {
            Some(env) => env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            None => std::env::vars_os().collect(),
        };
        let env: Vec<CString> = env.into_iter().map(variable).collect::<io::Result<_>>()?;
        let mut actions = PosixSpawnFileActions::init()?;
        for (number, end) in (0..).zip([theirs.as_raw_fd(), null.as_raw_fd(), complaint.as_raw_fd()]) {
            actions.add_dup2(end, number)?;
        }
        Ok(posix_spawnp(&path, &actions, &child::attributes()?, &argv, &env)?)
    };
    let pid = spawn().map_err(|error| {
        let message = format!("the supervisor program `{}` cannot be run", program.path.display());
        // A program that is being replaced is not there for a moment.
        let class = Problem::from(io::Error::from(error.kind())).class;
        let class = if class == Class::NotFound { Class::Transient } else { class };
        Problem::new(class, message).because(error)
    })?;
    let (tell, complaint) = watch::channel(Trouble::default());
    // The thread reaps it whenever it ends.
    std::thread::Builder::new().name("orlop-supervisor".to_owned()).spawn(move || {
        let said = complaint_of(said);
        tell.send_modify(|trouble| trouble.said = Some(said));
        if let Ok(WaitStatus::Exited(_, code)) = waitpid(pid, None) {
            tell.send_modify(|trouble| trouble.exit_code = Some(code));
        }
    })?;
    let number = u64::try_from(pid.as_raw()).unwrap_or_default();
    Ok(Supervisor { number, control: UnixStream::from_std(ours)?, complaint })
}

/// What a program says until it ends or works.
fn complaint_of(said: PipeReader) -> String {
    let mut bytes = Vec::new();
    let limit = u64::try_from(4 * COMPLAINT).unwrap_or(u64::MAX);
    // What was read until then counts.
    drop(said.take(limit).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}
