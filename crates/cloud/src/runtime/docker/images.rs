//! The images of an engine as one process makes sure of them. Owns how often each is pulled, with which login, how long that
//! may fail, and what stands for an image that cannot be pulled.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bollard::auth::DockerCredentials;
use orlop_core::error::{Class, Problem};

use super::engine::Engine;
use super::image::{self, Policy, Reference, SILENCE};
use super::login::{self, Logins};
use crate::runtime::pod::{ContainerPlan, Pull, PullSecret};

/// How long a registry may take for its first word where the engine has an image to use instead.
const ANSWER: Duration = Duration::from_secs(20);
/// How long pulls of one image may fail before the pod that needs it does.
const PATIENCE: Duration = Duration::from_secs(600);

/// The images of an engine, as one process makes sure of them.
#[derive(Debug)]
pub(super) struct Images {
    logins: Logins,
    pull: Option<Pull>,
    tried: Mutex<BTreeMap<String, Tried>>,
}

/// What became of an image so far: locked while it is pulled.
type Tried = Arc<tokio::sync::Mutex<Progress>>;

#[derive(Debug, Default)]
struct Progress {
    /// Whether the newest is here, or what stands for it.
    settled: bool,
    /// Since when pulls of it fail.
    failing_since: Option<Instant>,
}

impl Images {
    /// `pull` counts whatever pods say.
    pub(super) fn new(logins: Logins, pull: Option<Pull>) -> Self {
        Self { logins, pull, tried: Mutex::default() }
    }

    /// Makes sure that the image of a container is there, and says which user it names.
    ///
    /// # Errors
    /// Invalid and Denied when waiting does not help, or was of no use for ten minutes; Capacity, Transient and what else an
    /// engine has to say.
    pub(super) async fn ensure(
        &self,
        engine: &Engine,
        secrets: &[PullSecret],
        container: &ContainerPlan,
    ) -> Result<String, Problem> {
        let Some(image) = container.image.as_deref().filter(|image| !image.is_empty()) else {
            let message = format!("container `{}` names no image; a container engine needs one", container.name);
            return Err(Problem::new(Class::Invalid, message));
        };
        let reference = image::reference(image);
        let policy = match self.pull {
            Some(pull) => pull.into(),
            None => image::policy(container, reference)?,
        };
        let tried = Arc::clone(lock(&self.tried).entry(image.to_owned()).or_default());
        let mut progress = tried.lock().await;
        let here = if policy == Policy::Always { None } else { image::find(engine, image).await? };
        match (policy, here) {
            (Policy::IfNotPresent | Policy::Never, Some(found)) => Ok(found.user),
            (Policy::Newest, Some(found)) if progress.settled => Ok(found.user),
            (Policy::Never, None) => {
                let who = if self.pull.is_some() { "`--pull never`" } else { "imagePullPolicy Never" };
                let message = format!("image `{image}` is not on this machine, and {who} forbids to pull it");
                Err(Problem::new(Class::Invalid, message).with_reason("ErrImageNeverPull"))
            }
            (_, here) => {
                let logins = self.logins_for(secrets, reference).await?;
                let patience = if here.is_some() { ANSWER } else { SILENCE };
                let pulled = image::pull(engine, logins, image, reference, patience, &mut |_| {}).await;
                match (pulled, here) {
                    (Ok(()), _) => {
                        *progress = Progress { settled: true, failing_since: None };
                        image::find(engine, image).await?.map(|found| found.user).ok_or_else(|| image::vanished(image))
                    }
                    (Err(error), Some(found)) => {
                        progress.settled = true;
                        tracing::warn!(image, error = %error.chain(), "the image of this machine is used as it is");
                        Ok(found.user)
                    }
                    (Err(error), None) => Err(progress.failed(error)),
                }
            }
        }
    }

    async fn logins_for(
        &self,
        secrets: &[PullSecret],
        reference: Reference<'_>,
    ) -> Result<Vec<Option<DockerCredentials>>, Problem> {
        let own = login::of_secrets(secrets, reference)?;
        if own.is_empty() {
            return Ok(vec![self.logins.of(reference.registry()).await?]);
        }
        Ok(own.into_iter().map(Some).collect())
    }
}

impl Progress {
    /// A pull failed. One that fails for long is no outage any more, but something that somebody must see to.
    fn failed(&mut self, error: Problem) -> Problem {
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        if !error.class.is_retryable() || since.elapsed() < PATIENCE {
            return error;
        }
        self.failing_since = None;
        let message = format!("{}; it was tried for {} minutes", error.message, PATIENCE.as_secs() / 60);
        Problem { class: Class::Invalid, message, ..error }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing behind it is left half done by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
