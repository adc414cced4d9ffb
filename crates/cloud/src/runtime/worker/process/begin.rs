//! The beginning of an attempt's life: its directory, secrets, environment and process. Owns that a start that fails
//! leaves nothing behind; never keeps what it started.

use std::ffi::{CString, OsStr};
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::Shared;
use super::launcher::Steps;
use super::life::{Body, Life};
use super::spawn::{Child, Command, NotSpawned, Spawner};
use orlop_core::time::Time;

use crate::runtime::logs::{Masker, now};
use crate::runtime::process::child::command::{self, CANNOT_RUN, Unstartable, find};
use crate::runtime::process::tree::Marks;
use crate::runtime::worker::directories::{clear, hand_over};
use crate::runtime::worker::environ::{self, Places};
use crate::runtime::worker::event::Started;
use crate::runtime::worker::inputs;
use crate::runtime::worker::logs::masker;
use crate::runtime::worker::outputs;
use crate::runtime::worker::plan::{AttemptPlan, beneath};

/// Why an attempt could not be started.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    /// Its directory.
    #[error("its directory cannot be created: {0}")]
    Directory(io::Error),
    /// Its inputs.
    #[error("its inputs cannot be put there: {0}")]
    Inputs(io::Error),
    /// A secret.
    #[error("its secrets cannot be written: {0}")]
    Secret(io::Error),
    /// Its control group.
    #[error("its control group cannot be created: {0}")]
    Group(io::Error),
    /// As whom it runs.
    #[error("{0}")]
    User(String),
    /// Its working directory.
    #[error("the working directory `{0}` {1}")]
    WorkingDir(String, String),
    /// An argument or variable.
    #[error("{0} holds a zero byte or `=` where none may be")]
    Bytes(String),
    /// No command.
    #[error("no command is given; without an image there is nothing to run")]
    Empty,
    /// The command.
    #[error("command `{0}` {1}")]
    Command(String, Unstartable),
    /// Making a process.
    #[error("its process cannot be created: {0}")]
    Process(io::Error),
}

impl Refused {
    /// The same in one word, for programs.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Secret(error) if error.kind() == io::ErrorKind::InvalidInput => "secret",
            // A disk that is full here says nothing of the secret: another worker can run the job.
            Self::Directory(_) | Self::Secret(_) => "directory",
            Self::Inputs(_) => "inputs",
            Self::Group(_) => "cgroup",
            Self::User(_) => "user",
            Self::Process(_) => "process",
            Self::WorkingDir(..) | Self::Bytes(_) | Self::Empty | Self::Command(..) => "command",
        }
    }

    /// The exit code that a shell would give, where the command itself is what cannot start.
    pub(super) const fn exit_code(&self) -> Option<i32> {
        match self {
            Self::Command(_, Unstartable { exit_code, .. }) => Some(*exit_code),
            Self::WorkingDir(..) | Self::Bytes(_) | Self::Empty => Some(CANNOT_RUN),
            _ => None,
        }
    }
}

/// Starts an attempt.
pub(super) fn begin(plan: AttemptPlan, shared: &Shared, spawner: &Spawner) -> Result<(Life, Started), Refused> {
    check_user(&plan, shared)?;
    let dir = shared.dir(&plan.id);
    shared.directories.make(&dir).map_err(Refused::Directory)?;
    if let Some(from) = &plan.artifacts
        && let Err(error) = inputs::place(from, &dir)
    {
        shared.directories.discard(&dir);
        return Err(Refused::Inputs(error));
    }
    let secrets = match shared.directories.write_secrets(&plan.id, &plan.secrets) {
        Ok(secrets) => secrets,
        Err(error) => {
            shared.directories.discard(&dir);
            return Err(Refused::Secret(error));
        }
    };
    match launch(&plan, shared, spawner, &dir, secrets.as_deref()) {
        Ok(Launched { child, started, started_at, marks }) => {
            let values = plan.secrets.iter().map(|secret| secret.value.as_str());
            let masker: Option<Arc<Masker>> = (!plan.secrets.is_empty()).then(|| Arc::new(masker(values)));
            let handle = child.pid.to_string();
            let life = Life::new(Body {
                plan,
                pid: child.pid,
                end: child.end,
                out: child.out,
                err: child.err,
                dir,
                secrets,
                marks,
                masker,
                started,
                started_at,
            });
            Ok((life, Started { handle, at: started_at }))
        }
        Err(refused) => {
            if let Some(secrets) = &secrets {
                clear(secrets);
            }
            shared.directories.discard(&dir);
            Err(refused)
        }
    }
}

/// Where attempts are other users', none runs as this program's user by mistake.
fn check_user(plan: &AttemptPlan, shared: &Shared) -> Result<(), Refused> {
    let why = match (shared.options.users, plan.user) {
        (true, None) => "this worker runs processes as users of their tenants, and this tenant has none here",
        (false, Some(_)) => "this worker runs processes as its own user only",
        _ => return Ok(()),
    };
    Err(Refused::User(why.to_owned()))
}

struct Launched {
    child: Child,
    started: Instant,
    started_at: Time,
    marks: Marks,
}

fn launch(
    plan: &AttemptPlan,
    shared: &Shared,
    spawner: &Spawner,
    dir: &Path,
    secrets: Option<&Path>,
) -> Result<Launched, Refused> {
    let place = working_dir(plan, dir)?;
    let home = dir.display().to_string();
    let places = Places {
        defaults: &[("PATH", command::PATH.to_owned()), ("HOME", home), ("LANG", "C.UTF-8".to_owned())],
        devices: &environ::visible(&plan.gpus, &shared.options.gpu_vendors),
        output: &dir.join(outputs::FILE),
        secrets,
        // Where they are kept another user may not look; they are in the attempt's own directory too.
        artifacts: plan.artifacts.as_deref().map(|kept| if plan.user.is_some() { dir } else { kept }),
        worker: &shared.options.worker,
        mark: Some(&shared.mark(&plan.id)),
    };
    let env = environ::environment(plan, places);
    let path = env.iter().rev().find(|(name, _)| name == "PATH").map_or(command::PATH, |(_, value)| value);
    let encoded = environ::encode(&env).map_err(|name| Refused::Bytes(format!("variable `{name}`")))?;
    let mut argv = argv(plan)?;
    let place = place.as_deref().unwrap_or(dir);
    let refuse = |error: io::Error, program: Option<PathBuf>| {
        let name = plan.run.argv.first().cloned().unwrap_or_default();
        match command::why(&error, program.as_deref()) {
            Some(found) => Refused::Command(name, found),
            None => Refused::Process(error),
        }
    };
    let place_of_group = shared.groups.as_ref().map(|groups| groups.place(&plan.id));
    let steps = Steps { group: place_of_group.as_deref(), limits: &shared.options.limits, user: plan.user };
    // Without a program that takes them there are none: the runtime was made only then.
    if let Some(launcher) = shared.options.launcher.as_ref().filter(|_| !steps.are_none()) {
        // A command that is not there is known before anything is made for it.
        let name = argv.first().ok_or(Refused::Empty)?;
        let program = find(name, path, place).map_err(|error| refuse(error, None))?;
        let at = place.join(OsStr::from_bytes(program.to_bytes()));
        command::probe(&at).map_err(|error| refuse(error, Some(at)))?;
        argv = steps.wrap(launcher, &program, &argv).map_err(Refused::Process)?;
    }
    if let Some(user) = plan.user {
        for own in [Some(dir), secrets].into_iter().flatten() {
            hand_over(own, user).map_err(|error| Refused::User(format!("its files cannot be its user's: {error}")))?;
        }
    }
    let group = shared.groups.as_ref().map(|groups| groups.make(&plan.id, &plan.run));
    let group = group.transpose().map_err(Refused::Group)?;
    let (started, started_at) = (Instant::now(), now());
    match spawner.spawn(&Command { argv: &argv, env: &encoded, path, dir: place, owner: plan.user }) {
        Ok(child) => Ok(Launched { child, started, started_at, marks: shared.marks(&plan.id, group) }),
        Err(error) => {
            // Nothing is in it.
            drop(group.map(|group| group.remove()));
            Err(match error {
                // Without these steps it is the command that was to be run, else the program that takes them.
                NotSpawned::Command(error, program) if steps.are_none() => refuse(error, program),
                NotSpawned::Command(error, _) | NotSpawned::Machine(error) => Refused::Process(error),
            })
        }
    }
}

/// The directory the command runs in, where it is not the attempt's own.
fn working_dir(plan: &AttemptPlan, dir: &Path) -> Result<Option<PathBuf>, Refused> {
    let Some(wanted) = &plan.run.working_dir else { return Ok(None) };
    let wanted = plan.text(wanted).into_owned();
    let Some(below) = beneath(&wanted) else {
        return Err(Refused::WorkingDir(wanted, "is not below the attempt's own".to_owned()));
    };
    let mut place = dir.to_owned();
    for name in below.components() {
        place.push(name);
        match DirBuilder::new().mode(0o700).create(&place) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                // It came with the job's inputs; a link could lead anywhere.
                if !fs::symlink_metadata(&place).map_err(Refused::Directory)?.is_dir() {
                    return Err(Refused::WorkingDir(wanted, "is not a directory: an input is at this path".to_owned()));
                }
            }
            Err(error) => return Err(Refused::Directory(error)),
        }
    }
    Ok(Some(place))
}

fn argv(plan: &AttemptPlan) -> Result<Vec<CString>, Refused> {
    if plan.run.argv.is_empty() {
        return Err(Refused::Empty);
    }
    let encode = |text: &String| {
        CString::new(plan.text(text).into_owned()).map_err(|_| Refused::Bytes("an argument".to_owned()))
    };
    plan.run.argv.iter().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_cannot_be_written_here_is_not_a_secret_that_is_missing() {
        assert_eq!(Refused::Secret(io::Error::from(io::ErrorKind::StorageFull)).word(), "directory");
        assert_eq!(
            Refused::Secret(io::ErrorKind::InvalidInput.into()).word(),
            "secret",
            "its place is wrong everywhere"
        );
    }
}
