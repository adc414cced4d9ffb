//! References of images, and pulling one. Owns when one is pulled and what a failure means; never builds or deletes one.

use std::borrow::Cow;
use std::time::Duration;

use bollard::auth::DockerCredentials;
use bollard::errors::Error;
use bollard::models::CreateImageInfo;
use bollard::query_parameters::CreateImageOptions;
use futures::StreamExt as _;
use orlop_core::error::{Class, Problem};

use super::engine::Engine;
use super::error;
#[cfg(feature = "worker")]
use super::login::Logins;
use crate::runtime::pod::{ContainerPlan, Pull};

/// What the reference of an image says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) struct Reference<'a> {
    /// Registry and repository.
    pub(in crate::runtime) name: &'a str,
    /// Tag, where it has one.
    pub(in crate::runtime) tag: Option<&'a str>,
    /// Digest, where it has one.
    pub(in crate::runtime) digest: Option<&'a str>,
}

/// Reads the reference of an image; the engine checks it.
pub(in crate::runtime) fn reference(text: &str) -> Reference<'_> {
    let (rest, digest) = match text.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (text, None),
    };
    match rest.rsplit_once(':') {
        // A colon before the last slash begins a port.
        Some((name, tag)) if !tag.contains('/') => Reference { name, tag: Some(tag), digest },
        _ => Reference { name: rest, tag: None, digest },
    }
}

impl<'a> Reference<'a> {
    /// What to pull beside the name: without a tag the engine would pull all of them.
    fn version(&self) -> &'a str {
        self.digest.or(self.tag).unwrap_or("latest")
    }

    /// Whether the image behind it may change and is asked for anew each time unless the plan says otherwise.
    fn moves(&self) -> bool {
        self.digest.is_none() && self.tag.is_none_or(|tag| tag == "latest")
    }

    /// The registry's host, as logins name it.
    pub(in crate::runtime) fn registry(&self) -> &'a str {
        self.split().0
    }

    /// Registry and repository; Docker Hub's own images are in `library`.
    pub(in crate::runtime) fn split(&self) -> (&'a str, Cow<'a, str>) {
        match self.name.split_once('/') {
            Some((host, repository)) if host.contains(['.', ':']) || host == "localhost" => (host, repository.into()),
            Some(_) => ("docker.io", self.name.into()),
            None => ("docker.io", format!("library/{}", self.name).into()),
        }
    }
}

/// When an image is pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) enum Policy {
    /// Each time.
    Always,
    /// Once, for it may have changed; what the engine has is used where that fails.
    Newest,
    /// When the engine does not have it.
    IfNotPresent,
    /// Never.
    Never,
}

impl From<Pull> for Policy {
    fn from(pull: Pull) -> Self {
        match pull {
            Pull::Missing => Self::IfNotPresent,
            Pull::Always => Self::Always,
            Pull::Never => Self::Never,
        }
    }
}

/// How long a registry may be silent before a pull is given up: more than unpacking a large layer takes.
pub(super) const SILENCE: Duration = Duration::from_secs(300);

/// What an image says about containers of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::runtime) struct ImageDefaults {
    /// User it runs as; empty for root.
    pub(in crate::runtime) user: String,
    /// Directory it begins in; empty where it names none.
    pub(in crate::runtime) working_dir: String,
    /// Signal that asks it to end; empty for SIGTERM.
    pub(in crate::runtime) stop_signal: String,
}

pub(super) fn policy(container: &ContainerPlan, reference: Reference<'_>) -> Result<Policy, Problem> {
    match container.image_pull_policy.as_deref() {
        Some("Always") => Ok(Policy::Always),
        Some("IfNotPresent") => Ok(Policy::IfNotPresent),
        Some("Never") => Ok(Policy::Never),
        None | Some("") if reference.moves() => Ok(Policy::Newest),
        None | Some("") => Ok(Policy::IfNotPresent),
        Some(other) => {
            let message = format!(
                "container `{}`: imagePullPolicy `{other}` is not one of Always, IfNotPresent and Never",
                container.name
            );
            Err(Problem::new(Class::Invalid, message))
        }
    }
}

/// Makes sure that an image is there, with the logins of this machine. What a pull tells of itself is passed on.
///
/// # Errors
/// Invalid and Denied when waiting does not help; Capacity, Transient and what else an engine has to say.
#[cfg(feature = "worker")]
pub(in crate::runtime) async fn obtain(
    engine: &Engine,
    logins: &Logins,
    image: &str,
    policy: Policy,
    reported: &mut (dyn FnMut(&CreateImageInfo) + Send),
) -> Result<ImageDefaults, Problem> {
    if policy != Policy::Always
        && let Some(found) = find(engine, image).await?
    {
        return Ok(found);
    }
    if policy == Policy::Never {
        let message = format!("image `{image}` is not on this machine, and the job forbids to pull it");
        return Err(Problem::new(Class::Invalid, message));
    }
    let reference = reference(image);
    let login = logins.of(reference.registry()).await?;
    pull(engine, vec![login], image, reference, SILENCE, reported).await?;
    find(engine, image).await?.ok_or_else(|| vanished(image))
}

pub(super) fn vanished(image: &str) -> Problem {
    let message = format!("image `{image}` was pulled and then deleted by another client");
    Problem::new(Class::Transient, message).with_reason("ErrImagePull")
}

/// What an image says; none when there is no such image.
pub(super) async fn find(engine: &Engine, image: &str) -> Result<Option<ImageDefaults>, Problem> {
    match engine.docker().inspect_image(image).await {
        Ok(found) => {
            let config = found.config.unwrap_or_default();
            let text = |value: Option<String>| value.unwrap_or_default();
            Ok(Some(ImageDefaults {
                user: text(config.user),
                working_dir: text(config.working_dir),
                stop_signal: text(config.stop_signal),
            }))
        }
        Err(error) if error::is_not_found(&error) => Ok(None),
        Err(error) if error::status(&error) == Some(400) => {
            let error = error::engine(error, &format!("looking for image `{image}`"));
            Err(error.with_reason("InvalidImageName"))
        }
        Err(error) => Err(error::engine(error, &format!("looking for image `{image}`"))),
    }
}

/// Pulls an image with the first login that is let in; gives up when nothing is heard for `patience`, after the first word for
/// [`SILENCE`].
pub(super) async fn pull(
    engine: &Engine,
    logins: Vec<Option<DockerCredentials>>,
    image: &str,
    reference: Reference<'_>,
    patience: Duration,
    reported: &mut (dyn FnMut(&CreateImageInfo) + Send),
) -> Result<(), Problem> {
    let mut denied = Ok(());
    for login in logins {
        match pull_as(engine, login, image, reference, patience, reported).await {
            Err(error) if error.class == Class::Denied => denied = Err(error),
            result => return result,
        }
    }
    denied
}

async fn pull_as(
    engine: &Engine,
    login: Option<DockerCredentials>,
    image: &str,
    reference: Reference<'_>,
    mut patience: Duration,
    reported: &mut (dyn FnMut(&CreateImageInfo) + Send),
) -> Result<(), Problem> {
    let options = CreateImageOptions {
        from_image: Some(reference.name.to_owned()),
        tag: Some(reference.version().to_owned()),
        ..Default::default()
    };
    // A registry may take its time before the first layer arrives; a pod that is stopped meanwhile drops this future.
    let patient = engine.docker().clone().with_timeout(Duration::from_secs(3600));
    tracing::info!(image, "pulling an image");
    let mut steps = patient.create_image(Some(options), None, login).boxed();
    loop {
        let step = tokio::time::timeout(patience, steps.next()).await.map_err(|_| {
            let message =
                format!("pulling image `{image}` failed: the registry was silent for {} s", patience.as_secs());
            Problem::new(Class::Transient, message).with_reason("ErrImagePull")
        })?;
        let Some(step) = step else { return Ok(()) };
        reported(&step.map_err(|error| pull_failed(error, image))?);
        patience = SILENCE;
    }
}

fn pull_failed(error: Error, image: &str) -> Problem {
    let reported = match &error {
        Error::DockerResponseServerError { message, .. } => message.trim().to_owned(),
        Error::DockerStreamError { error } => error.trim().to_owned(),
        other => other.to_string(),
    };
    let class = match error::status(&error) {
        Some(400) => Class::Invalid,
        _ if error::is_full(&reported) => Class::Capacity,
        _ if says(&reported, &["denied", "unauthorized", "authentication required", "no basic auth"]) => Class::Denied,
        Some(401 | 403) => Class::Denied,
        Some(404) => Class::Invalid,
        _ if says(&reported, &["not found", "manifest unknown", "no matching manifest", "invalid reference"]) => {
            Class::Invalid
        }
        _ => Class::Transient,
    };
    let reason = if error::status(&error) == Some(400) { "InvalidImageName" } else { "ErrImagePull" };
    Problem::new(class, format!("pulling image `{image}` failed: {reported}")).with_reason(reason).because(error)
}

fn says(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_divide_at_the_right_colon() {
        let parts = |text| {
            let r = reference(text);
            (r.name, r.version(), r.registry())
        };
        assert_eq!(parts("busybox"), ("busybox", "latest", "docker.io"));
        assert_eq!(parts("busybox:1.36"), ("busybox", "1.36", "docker.io"));
        assert_eq!(parts("library/busybox"), ("library/busybox", "latest", "docker.io"));
        assert_eq!(parts("localhost/a/b:1"), ("localhost/a/b", "1", "localhost"));
        assert_eq!(parts("reg.example:5000/a/b"), ("reg.example:5000/a/b", "latest", "reg.example:5000"));
        assert_eq!(parts("reg:5000/a@sha256:ab"), ("reg:5000/a", "sha256:ab", "reg:5000"));
        assert_eq!(parts("a:1@sha256:ab"), ("a", "sha256:ab", "docker.io"));
    }

    #[test]
    fn an_absent_policy_pulls_what_may_have_moved() {
        let policy = |image: &str, policy: Option<&str>| {
            let container = ContainerPlan { image_pull_policy: policy.map(str::to_owned), ..Default::default() };
            super::policy(&container, reference(image)).unwrap()
        };
        assert_eq!(policy("a", None), Policy::Newest);
        assert_eq!(policy("a:latest", None), Policy::Newest);
        assert_eq!(policy("a:1", None), Policy::IfNotPresent);
        assert_eq!(policy("a@sha256:ab", None), Policy::IfNotPresent);
        assert_eq!(policy("a", Some("IfNotPresent")), Policy::IfNotPresent);
        assert_eq!(policy("a:1", Some("Always")), Policy::Always);
        assert_eq!(policy("a", Some("Never")), Policy::Never);
        let odd = ContainerPlan { name: "main".into(), image_pull_policy: Some("Later".into()), ..Default::default() };
        insta::assert_snapshot!(super::policy(&odd, reference("a")).unwrap_err(), @"container `main`: imagePullPolicy `Later` is not one of Always, IfNotPresent and Never");
    }

    #[test]
    fn pull_errors_tell_what_waiting_cannot_mend() {
        let stream = |text: &str| pull_failed(Error::DockerStreamError { error: text.to_owned() }, "r/a:1");
        let denied = stream("pull access denied for r/a, repository does not exist or may require 'docker login'");
        assert_eq!((denied.class, denied.reason), (Class::Denied, Some("ErrImagePull")));
        assert_eq!(stream("manifest for r/a:1 not found: manifest unknown").class, Class::Invalid);
        assert_eq!(stream("Get \"https://r/v2/\": dial tcp: connection refused").class, Class::Transient);
        assert_eq!(stream("write /x: no space left on device").class, Class::Capacity);
        insta::assert_snapshot!(stream("toomanyrequests: slow down"), @"pulling image `r/a:1` failed: toomanyrequests: slow down");
        let bad = Error::DockerResponseServerError { status_code: 400, message: "invalid reference format".into() };
        assert_eq!(pull_failed(bad, "A B").reason, Some("InvalidImageName"));
    }
}
