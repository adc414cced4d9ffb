//! Becoming a container's process: the last steps in it before its program takes over. Owns view of the file system,
//! user, groups and the promise to die with the supervisor; never returns once the program runs.

use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io::{self, PipeWriter, Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout, getppid, setsid};

use super::{verdict, view};
use crate::runtime::process::cgroup::Cgroup;
use crate::runtime::process::child::command::{self, become_command};
use crate::runtime::process::failure::{During, Failure};
use crate::runtime::process::rlimit;
use crate::runtime::process::wire::{self, LaunchOrder, LaunchReply};

/// How much sooner than others the process is killed when the machine has no memory left: the supervisor stays.
const OOM_SCORE: &str = "100";

/// Becomes the process of a container. Where it cannot, it reports why to the supervisor and returns the exit code.
pub(super) fn launch(order: LaunchOrder, supervisor: &UnixStream, out: &PipeWriter, err: &PipeWriter) -> i32 {
    let begun =
        begin(supervisor, out, err, order.files, order.supervisor).during(|| "beginning in a new process".to_owned());
    let (code, message) = match begun.and_then(|()| prepare(&order, supervisor)) {
        Ok(()) => run(order),
        Err(failure) => (verdict::CANNOT_START, failure.to_string()),
    };
    tell(supervisor, &LaunchReply::Failed(code, message));
    code
}

/// Leaves the supervisor's session, signals, limit of files and streams, and waits until the supervisor has noted this process.
fn begin(mut supervisor: &UnixStream, out: &PipeWriter, err: &PipeWriter, files: u64, parent: i32) -> io::Result<()> {
    setsid()?;
    die_with(parent)?;
    SigSet::empty().thread_set_mask()?;
    setrlimit(Resource::RLIMIT_NOFILE, files, getrlimit(Resource::RLIMIT_NOFILE)?.1)?;
    dup2_stdin(File::open("/dev/null")?)?;
    dup2_stdout(out)?;
    dup2_stderr(err)?;
    supervisor.read_exact(&mut [0])
}

/// Has this process die with its parent, which may have died already.
fn die_with(parent: i32) -> io::Result<()> {
    set_pdeathsig(Signal::SIGKILL)?;
    if getppid().as_raw() == parent { Ok(()) } else { Err(io::Error::other("it is gone")) }
}

fn tell(mut supervisor: &UnixStream, reply: &LaunchReply) {
    // A supervisor that is gone needs no answer: this process goes with it.
    drop(wire::encode(reply).and_then(|bytes| supervisor.write_all(&bytes)));
}

fn prepare(order: &LaunchOrder, supervisor: &UnixStream) -> Result<(), Failure> {
    // Not every system lets a process make itself more likely to be killed.
    drop(fs::write("/proc/self/oom_score_adj", OOM_SCORE));
    // Here and not in the supervisor, which would wait for the kernel with all of its pods.
    order.cgroup.as_ref().map_or(Ok(()), Cgroup::join)?;
    let layout = order.view.as_ref().map(|view| view::enter(view, &order.working_dir)).transpose()?;
    // Before the change of user, who may not raise them; after the view, which needs files and memory.
    rlimit::set(&order.limits)?;
    if let Some(mask) = order.umask {
        let _ = umask(Mode::from_bits_truncate(mask));
    }
    order.credentials.apply()?;
    // After the change of user, which would take it back.
    die_with(order.supervisor).during(|| "tying the process to its supervisor".to_owned())?;
    std::env::set_current_dir(&order.working_dir)
        .during(|| format!("entering the working directory `{}`", order.working_dir))?;
    if let Some(layout) = layout {
        tell(supervisor, &LaunchReply::Layout(layout));
    }
    Ok(())
}

/// Lets the program take over; says why it could not.
fn run(order: LaunchOrder) -> (i32, String) {
    let Some((program, arguments)) = order.argv.split_first() else {
        return (verdict::CANNOT_START, "no command is given".to_owned());
    };
    let env = order.env.iter().map(|variable| (&variable.name, &variable.value));
    let path = env.clone().rev().find_map(|(name, value)| (name == "PATH").then_some(value.as_str()));
    let name = CString::new(program.as_str()).map_err(io::Error::from);
    let found = name.and_then(|name| command::find(&name, path.unwrap_or(command::PATH), Path::new(".")));
    let unstartable = match &found {
        Ok(found) => {
            let found = Path::new(OsStr::from_bytes(found.to_bytes()));
            become_command(Command::new(found).arg0(program).args(arguments), env, Some(found))
        }
        Err(error) => command::unstartable(error, None),
    };
    (unstartable.exit_code, format!("command `{program}` {}", unstartable.why))
}
