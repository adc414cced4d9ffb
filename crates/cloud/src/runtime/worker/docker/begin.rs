//! The beginning of a container's life: its directory, secrets, image, and the container itself. Owns why an attempt cannot
//! be started; whatever a start that fails leaves behind is cleared away by the caller.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use orlop_core::error::{Class, Problem};
use orlop_core::spec::job::Pull;
use orlop_core::time::Time;

use super::hub::{Hub, is_passing};
use super::output::{Tap, Voice};
use super::pull::Progress;
use super::remains;
use super::request::{self, AttemptDirectories};
use crate::runtime::docker::engine::{Created, Engine};
use crate::runtime::docker::error;
use crate::runtime::docker::image::{self, ImageDefaults, Policy};
use crate::runtime::logs::now;
use crate::runtime::worker::inputs;
use crate::runtime::worker::logs::masker;
use crate::runtime::worker::plan::AttemptPlan;

/// How long an engine that does not answer is waited for before an attempt is given back.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two tries.
const AGAIN: Duration = Duration::from_millis(500);

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
    /// What it asks for.
    #[error("{0}")]
    Request(String),
    /// Its image.
    #[error("{0}")]
    Image(Problem),
    /// The engine.
    #[error("{0}")]
    Engine(Problem),
    /// Its command.
    #[error("command `{0}` cannot be run: {1}")]
    Command(String, Problem, i32),
}

impl Refused {
    /// The exit code that a shell would give, where the command itself is what cannot start.
    pub(super) const fn exit_code(&self) -> Option<i32> {
        match self {
            Self::Command(.., code) => Some(*code),
            _ => None,
        }
    }

    /// The same in one word, for programs.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Secret(error) if error.kind() == io::ErrorKind::InvalidInput => "secret",
            // A disk that is full here says nothing of the secret: another worker can run the job.
            Self::Directory(_) | Self::Secret(_) => "directory",
            Self::Inputs(_) => "inputs",
            Self::Request(_) => "request",
            // Only what waiting does not mend fails the job for good.
            Self::Image(error) if matches!(error.class, Class::Invalid | Class::Denied) => "image",
            Self::Image(_) => "pull",
            Self::Engine(_) => "engine",
            Self::Command(..) => "command",
        }
    }
}

/// A container that runs.
pub(super) struct Begun {
    pub(super) engine: Engine,
    pub(super) container: String,
    pub(super) image: ImageDefaults,
    pub(super) tap: Tap,
    pub(super) started: Instant,
    pub(super) started_at: Time,
}

/// Starts an attempt.
pub(super) async fn begin(hub: &Hub, plan: &AttemptPlan, voice: &mut Voice) -> Result<Begun, Refused> {
    let dir = hub.directories.of(&plan.id);
    DirBuilder::new().mode(0o700).create(&dir).map_err(Refused::Directory)?;
    remains::write_plan(hub, plan).map_err(Refused::Directory)?;
    if let Some(from) = &plan.artifacts {
        inputs::place(from, &dir).map_err(Refused::Inputs)?;
    }
    let secrets = hub.directories.write_secrets(&plan.id, &plan.secrets).map_err(Refused::Secret)?;
    let engine = engine(hub).await?;
    let image = image(hub, &engine, plan, voice).await?;
    if !is_own_user(&image.user) {
        // Nobody else gets to them: the directories above are this user's alone.
        open_to_all(&dir, secrets.as_deref()).map_err(Refused::Directory)?;
    }
    let directories = AttemptDirectories { work: &dir, secrets: secrets.as_deref() };
    let body = request::body(plan, &hub.options, engine.facts(), &image, directories).map_err(Refused::Request)?;
    let name = request::name(&hub.options, &plan.id);
    let container = match engine.create(&name, body).await.map_err(|error| Refused::Engine(masked(plan, &error)))? {
        Created::New(container) => container,
        Created::Taken(reported) => {
            let message = format!("creating container `{name}` failed: {reported}; remove the container of that name");
            return Err(Refused::Engine(Problem::new(Class::Conflict, message)));
        }
    };
    let tap = Tap::new(engine.attach(&container).await.map_err(Refused::Engine)?);
    let (started, started_at) = (Instant::now(), now());
    if let Err(refused) = engine.start(&container).await {
        let command = plan.run.argv.first().or(plan.run.image.as_ref()).cloned().unwrap_or_default();
        let code = error::refused_start(&refused).map(|code| shell_code(code, &refused.to_string()));
        let error = error::engine(refused, &format!("starting container `{name}`"));
        return Err(match code {
            Some(code) => Refused::Command(command, error, code),
            None => Refused::Engine(error),
        });
    }
    Ok(Begun { engine, container, image, tap, started, started_at })
}

/// The exit code that a shell would give for a command that an engine refuses to start. Docker has one for all causes.
fn shell_code(code: i32, message: &str) -> i32 {
    let missing = message.contains("not found") || message.contains("no such file or directory");
    match code {
        126 | 127 => code,
        _ if missing => 127,
        _ => 126,
    }
}

/// The engine, once it answers.
async fn engine(hub: &Hub) -> Result<Engine, Refused> {
    let until = Instant::now() + PATIENCE;
    loop {
        // One that answered before may be away now.
        let asked = match hub.engine().await {
            Ok(engine) => engine.ping().await.map(|()| engine),
            Err(error) => Err(error),
        };
        match asked {
            Ok(engine) => return Ok(engine),
            Err(error) if is_passing(&error) && Instant::now() < until => {
                hub.missed();
                tokio::time::sleep(AGAIN).await;
            }
            Err(error) => return Err(Refused::Engine(error)),
        }
    }
}

async fn image(hub: &Hub, engine: &Engine, plan: &AttemptPlan, voice: &mut Voice) -> Result<ImageDefaults, Refused> {
    let Some(image) = plan.run.image.as_deref().filter(|image| !image.is_empty()) else {
        return Err(Refused::Request("no image is given; a container needs one".to_owned()));
    };
    let policy = match plan.run.pull {
        Pull::IfMissing => Policy::IfNotPresent,
        Pull::Always => Policy::Always,
        Pull::Never => Policy::Never,
    };
    let (mut progress, mut said) = (Progress::default(), false);
    let mut reported = |info: &bollard::models::CreateImageInfo| {
        if !std::mem::replace(&mut said, true) {
            voice.say(&format!("pulling image `{image}`"));
        }
        if let Some(line) = progress.note(info, Instant::now()) {
            voice.say(&line);
        }
        voice.tell(&*hub.events);
    };
    image::obtain(engine, &hub.logins, image, policy, &mut reported).await.map_err(Refused::Image)
}

/// Whether a container of this user is this program, as far as files are concerned.
fn is_own_user(user: &str) -> bool {
    let name = user.split(':').next().unwrap_or_default();
    let number = if name.is_empty() || name == "root" { Some(0) } else { name.parse().ok() };
    number == Some(nix::unistd::geteuid().as_raw())
}

fn open_to_all(dir: &Path, secrets: Option<&Path>) -> io::Result<()> {
    let mut below = vec![dir.to_owned()];
    while let Some(dir) = below.pop() {
        fs::set_permissions(&dir, Permissions::from_mode(0o777))?;
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            let found = entry.metadata()?;
            if found.is_dir() {
                below.push(entry.path());
            } else if found.is_file() && inputs::is_writable(&found) {
                let mode = if found.mode() & 0o100 == 0 { 0o666 } else { 0o777 };
                fs::set_permissions(entry.path(), Permissions::from_mode(mode))?;
            }
        }
    }
    let mut open: Vec<PathBuf> = secrets.map(Path::to_owned).into_iter().collect();
    while let Some(dir) = open.pop() {
        fs::set_permissions(&dir, Permissions::from_mode(0o755))?;
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                open.push(entry.path());
            } else {
                fs::set_permissions(entry.path(), Permissions::from_mode(0o444))?;
            }
        }
    }
    Ok(())
}

/// An engine may quote what it does not like.
fn masked(plan: &AttemptPlan, error: &Problem) -> Problem {
    let masker = masker(plan.secrets.iter().map(|secret| secret.value.as_str()));
    // The cause holds the same text, so it goes.
    Problem::new(error.class, masker.mask_text(&error.message))
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
