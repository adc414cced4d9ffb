//! What only jobs of a fleet ask of a container engine: their output as it comes, what they use, whether the engine answers.

use std::pin::Pin;
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::models::ContainerStatsResponse;
use bollard::query_parameters as query;
use futures::{Stream, StreamExt as _};
use orlop_core::error::Problem;

use super::engine::Engine;
use super::error;

/// How long an engine may take to say that it is there.
const PING: Duration = Duration::from_secs(5);

/// What a container writes.
pub(in crate::runtime) type Output = Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>;

/// Whether output is read until the container ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) enum Follow {
    /// It is.
    Yes,
    /// Only what there is.
    No,
}

impl Engine {
    /// The bytes a container writes from now on, byte for byte, until it ends.
    pub(in crate::runtime) async fn attach(&self, id: &str) -> Result<Output, Problem> {
        let options = query::AttachContainerOptions { stdout: true, stderr: true, stream: true, ..Default::default() };
        let attached = self.docker().attach_container(id, Some(options)).await;
        Ok(attached.map_err(|error| error::engine(error, &format!("attaching to container `{id}`")))?.output)
    }

    /// What a container wrote, as the engine keeps it.
    pub(in crate::runtime) fn kept(&self, id: &str, follow: Follow) -> Output {
        let follow = follow == Follow::Yes;
        let options = query::LogsOptions { follow, stdout: true, stderr: true, ..Default::default() };
        self.docker().logs(id, Some(options)).boxed()
    }

    /// What a container has used so far; none when it does not run.
    pub(in crate::runtime) async fn stats(&self, id: &str) -> Result<Option<ContainerStatsResponse>, Problem> {
        let options = query::StatsOptions { stream: false, one_shot: true };
        let mut answers = std::pin::pin!(self.docker().stats(id, Some(options)));
        match answers.next().await {
            Some(Ok(stats)) => Ok(Some(stats)),
            Some(Err(error)) if matches!(error::status(&error), Some(404 | 409)) => Ok(None),
            Some(Err(error)) => Err(error::engine(error, &format!("measuring container `{id}`"))),
            None => Ok(None),
        }
    }

    /// Whether it answers.
    pub(in crate::runtime) async fn ping(&self) -> Result<(), Problem> {
        let answer = self.docker().clone().with_timeout(PING).ping().await;
        answer.map(|_| ()).map_err(|error| error::engine(error, "asking the container engine"))
    }
}
