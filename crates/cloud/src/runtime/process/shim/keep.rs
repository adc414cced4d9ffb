//! Taking a pod. Owns the order of things before the claim (all that can fail) and after it (only what leads to a record
//! of the end); never runs anything for a pod that another shim has or had.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use sha2::{Digest, Sha256};

use super::clock::{Alarm, PodClock};
use super::container::READ;
use super::pod::Pod;
use crate::runtime::clock::{self, now, uptime};
use crate::runtime::logs::capture::{self, Capture, Tail};
use crate::runtime::logs::{Masker, read_secrets};
use crate::runtime::process::cgroup::Cgroup;
use crate::runtime::process::failure::{During, Failure};
use crate::runtime::process::identity::{self, Identity};
use crate::runtime::process::record::{Claim, Directory, LockRegion};
use crate::runtime::process::request;
use crate::runtime::process::tree::Family;
use crate::runtime::process::wire::{KeepOrder, KeepReply, Variable};

/// Keeps a pod until its end.
pub(super) fn keep(order: KeepOrder) -> ExitCode {
    clock::begin(order.now);
    // Away from the terminal and process group of the caller; fails only where that is so already.
    let _ = nix::unistd::setsid();
    drop(std::env::set_current_dir("/"));
    match take(order) {
        Ok(Some((mut pod, shim))) => {
            answer(&KeepReply::Claimed(shim));
            pod.run()
        }
        Ok(None) => {
            answer(&KeepReply::Taken);
            ExitCode::SUCCESS
        }
        Err(failure) => {
            answer(&KeepReply::Refused(failure.source.raw_os_error(), failure.to_string()));
            ExitCode::FAILURE
        }
    }
}

/// Answers the caller and closes its pipes. It may be gone by now, which changes nothing.
fn answer(reply: &KeepReply) {
    let tell = || -> io::Result<()> {
        let mut out = io::stdout();
        serde_json::to_writer(&mut out, reply)?;
        out.write_all(b"\n")?;
        out.flush()?;
        let null = fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
        nix::unistd::dup2_stdin(&null)?;
        nix::unistd::dup2_stdout(&null)?;
        Ok(nix::unistd::dup2_stderr(&null)?)
    };
    drop(tell());
}

/// Claims the pod's directory; none when there is a claim already.
fn take(order: KeepOrder) -> Result<Option<(Pod, Identity)>, Failure> {
    let signals = signals().during(|| "setting up signals".to_owned())?;
    let directory = Directory::new(&order.directory);
    let locks = directory.locks()?;
    locks.take(LockRegion::Claiming)?;
    if directory.claim()?.is_some() || directory.exit()?.is_some() {
        return Ok(None);
    }
    locks.take(LockRegion::Life)?;
    let shim = Identity::own().during(|| "reading `/proc/self/stat`".to_owned())?;
    let boot = identity::boot().during(|| "reading the boot of this machine".to_owned())?;
    let started = uptime();
    let token = token(&order, shim, &boot);
    let reserved = directory.reserve_exit()?;
    let layout = directory.reserve_layout()?;
    request::prepare(&directory)?;
    let masker = Arc::new(Masker::with_encodings(secrets(&order)?));
    let open = |path: &PathBuf| capture::open(path).during(|| format!("opening the log `{}`", path.display()));
    let stdout = Capture::new(Arc::clone(&masker), open(&order.stdout)?);
    let stderr = Capture::new(Arc::clone(&masker), open(&order.stderr)?);
    let alarm = Alarm::new().during(|| "setting up a timer".to_owned())?;
    nix::sys::prctl::set_child_subreaper(true).during(|| "becoming the reaper of the pod".to_owned())?;
    let cgroup = order.cgroup_parent.as_deref().map(|parent| Cgroup::path(parent, &token));
    let inode = Some(directory.inode()?);
    let claim = Claim { key: Some(order.key.clone()), shim: Some(shim), boot, token, cgroup, at: now(), inode };
    let view = make_view(&directory, &claim.token)?;
    if let Err(failure) = directory.make_claim(&claim).and_then(|()| locks.release(LockRegion::Claiming)) {
        // What stays is garbage in the pod's directory; the failure that led here counts.
        drop(fs::remove_dir_all(&view));
        return Err(failure);
    }
    let pod = Pod {
        order,
        directory,
        locks,
        reserved: Some(reserved),
        layout: Some(layout),
        signals,
        alarm,
        clock: PodClock::new(started),
        view,
        token: claim.token,
        cgroup: claim.cgroup.map(Cgroup::at),
        family: Family::default(),
        masker,
        stdout,
        stderr,
        tail: Tail::default(),
        running: None,
        ending: None,
        done: Vec::new(),
        buffer: vec![0; READ],
        failed: false,
    };
    Ok(Some((pod, shim)))
}

/// Signals are read where the shim waits for everything else; blocked before the claim, none is missed after it.
fn signals() -> io::Result<SignalFd> {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGCHLD, request::LOOK, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        set.add(signal);
    }
    set.thread_block()?;
    Ok(SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?)
}

/// A name that no other pod of this machine has or had, and nobody takes for anything else.
fn token(order: &KeepOrder, shim: Identity, boot: &str) -> String {
    let text = format!("{}\n{}\n{shim}\n{boot}\n{}", order.key, order.directory.display(), now().millis());
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Makes the places that the pod's containers see as their own; all of it or nothing.
fn make_view(directory: &Directory, token: &str) -> Result<PathBuf, Failure> {
    let view = directory.join(&format!("view-{token}"));
    let make = || -> io::Result<()> {
        for name in ["top", "tmp"] {
            fs::create_dir_all(view.join(name))?;
        }
        fs::set_permissions(view.join("tmp"), fs::Permissions::from_mode(0o1777))
    };
    let made = make();
    if made.is_err() {
        drop(fs::remove_dir_all(&view));
    }
    made.during(|| format!("making `{}`", view.display())).map(|()| view)
}

/// What containers see of secrets, in their environment and in files.
fn secrets(order: &KeepOrder) -> Result<Vec<String>, Failure> {
    let variables = order.init.iter().chain([&order.main]).flat_map(|container| &container.env);
    let secret = |variable: &&Variable| variable.secret;
    let mut secrets =
        read_secrets(&order.secret_files).during(|| "reading the secrets of the pod's volumes".to_owned())?;
    secrets.extend(variables.filter(secret).map(|variable| variable.value.clone()));
    Ok(secrets)
}
