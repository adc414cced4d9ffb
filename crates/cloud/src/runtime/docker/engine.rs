//! The calls a pod needs of the engine. Owns their options and which answers are no errors; never decides what to call.

use std::collections::HashMap;
use std::time::Duration;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, ContainerStateStatusEnum as Status, ContainerSummary, SystemInfo,
};
use bollard::query_parameters as query;
use futures::{Stream, StreamExt as _};
use orlop_core::error::Problem;
use orlop_core::time::Time;

use super::error;
use super::label;
use super::state::{Observed, Phase};
use crate::runtime::pod::PodKey;

/// The fastest a removal may follow a container that is being removed by somebody else.
const REMOVAL: Duration = Duration::from_secs(600);

/// What an engine can do and how its containers are connected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::runtime) struct Facts {
    /// Network mode to ask for; none means the engine's own default.
    pub(in crate::runtime) network: Option<String>,
    /// CPUs of its machine.
    pub(in crate::runtime) cpus: u64,
    /// Whether it can limit CPU time.
    pub(in crate::runtime) cpu_quota: bool,
    /// Whether it can weigh containers against each other.
    pub(in crate::runtime) cpu_shares: bool,
    /// Whether it can limit swap.
    pub(in crate::runtime) swap_limit: bool,
    /// Whether it can keep output in its own form, byte for byte.
    pub(in crate::runtime) local_log: bool,
    /// Whether it labels files for SELinux.
    pub(in crate::runtime) selinux: bool,
}

impl Facts {
    /// From what the engine tells, the network mode that is configured, and the names of its networks.
    pub(in crate::runtime) fn new(info: &SystemInfo, network: Option<&str>, networks: &[String]) -> Self {
        // Without its default network an engine refuses every container that does not name another one.
        let has_default = networks.iter().any(|name| name == "bridge" || name == "podman");
        let fallback = if has_default { None } else { Some("none") };
        let options = info.security_options.iter().flatten();
        Self {
            network: network.or(fallback).map(str::to_owned),
            cpus: info.ncpu.and_then(|cpus| u64::try_from(cpus).ok()).unwrap_or_default(),
            cpu_quota: info.cpu_cfs_quota.unwrap_or(true),
            cpu_shares: info.cpu_shares.unwrap_or(true),
            swap_limit: info.swap_limit.unwrap_or(false),
            local_log: info.plugins.iter().flat_map(|plugins| plugins.log.iter().flatten()).any(|name| name == "local"),
            selinux: options.into_iter().any(|option| option.contains("selinux")),
        }
    }
}

/// What became of a request to create a container.
pub(in crate::runtime) enum Created {
    /// It is created, under this id.
    New(String),
    /// The name is taken, as the engine tells.
    Taken(String),
}

/// A container engine.
#[derive(Clone, Debug)]
pub(in crate::runtime) struct Engine {
    docker: Docker,
    facts: Facts,
}

impl Engine {
    pub(in crate::runtime) fn new(docker: Docker, facts: Facts) -> Self {
        Self { docker, facts }
    }

    /// What it can do.
    pub(in crate::runtime) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The client, for images and archives.
    pub(in crate::runtime) fn docker(&self) -> &Docker {
        &self.docker
    }

    /// Creates a container; `name` may be taken.
    pub(in crate::runtime) async fn create(&self, name: &str, body: ContainerCreateBody) -> Result<Created, Problem> {
        let options = query::CreateContainerOptions { name: Some(name.to_owned()), ..Default::default() };
        match self.docker.create_container(Some(options), body).await {
            Ok(created) => Ok(Created::New(created.id)),
            Err(error) if error::is_conflict(&error) => Ok(Created::Taken(error.to_string())),
            Err(error) => Err(error::engine(error, &format!("creating container `{name}`"))),
        }
    }

    /// Everything the engine tells of a container, by name or id; none when there is none.
    pub(in crate::runtime) async fn inspect(&self, id: &str) -> Result<Option<ContainerInspectResponse>, Problem> {
        match self.docker.inspect_container(id, None).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error::is_not_found(&error) => Ok(None),
            Err(error) => Err(error::engine(error, &format!("looking at container `{id}`"))),
        }
    }

    /// The state of a container.
    pub(in crate::runtime) async fn observe(&self, id: &str) -> Result<Observed, Problem> {
        Ok(self.inspect(id).await?.map_or_else(Observed::missing, |found| observed(&found)))
    }

    /// The environment of a container, as `NAME=value`.
    pub(in crate::runtime) async fn environment(&self, id: &str) -> Result<Vec<String>, Problem> {
        let found = self.inspect(id).await?;
        Ok(found.and_then(|found| found.config).and_then(|config| config.env).unwrap_or_default())
    }

    /// The labels of a container, by name or id, and its id; none when there is none.
    pub(in crate::runtime) async fn labels(
        &self,
        id: &str,
    ) -> Result<Option<(String, HashMap<String, String>)>, Problem> {
        let Some(found) = self.inspect(id).await? else { return Ok(None) };
        let labels = found.config.and_then(|config| config.labels).unwrap_or_default();
        Ok(Some((found.id.unwrap_or_else(|| id.to_owned()), labels)))
    }

    /// Starts a container; one that runs is fine.
    pub(in crate::runtime) async fn start(&self, id: &str) -> Result<(), Error> {
        self.docker.start_container(id, None).await
    }

    /// Asks a container to end and kills it after `grace`, in whole seconds. Returns when it has ended; one that has
    /// ended or is gone is fine.
    pub(in crate::runtime) async fn stop(&self, id: &str, grace: Duration) -> Result<(), Problem> {
        let seconds = i32::try_from(grace.as_millis().div_ceil(1000)).unwrap_or(i32::MAX);
        let patient = self.docker.clone().with_timeout(grace.saturating_add(self.docker.timeout()));
        let stopped = patient.stop_container(id, Some(query::StopContainerOptions { signal: None, t: Some(seconds) }));
        lenient(stopped.await, &format!("stopping container `{id}`"))
    }

    /// Kills a container; one that has ended or is gone is fine.
    pub(in crate::runtime) async fn kill(&self, id: &str) -> Result<(), Problem> {
        self.signal(id, "SIGKILL").await
    }

    /// Sends a signal to the first process of a container; one that has ended or is gone is fine.
    pub(in crate::runtime) async fn signal(&self, id: &str, signal: &str) -> Result<(), Problem> {
        let options = query::KillContainerOptions { signal: signal.to_owned() };
        lenient(self.docker.kill_container(id, Some(options)).await, &format!("sending {signal} to container `{id}`"))
    }

    /// Stops the clock of a container; one that is not running is fine.
    pub(in crate::runtime) async fn pause(&self, id: &str) -> Result<(), Problem> {
        self.switch(self.docker.pause_container(id).await, id, "pausing", Phase::Running).await
    }

    /// Lets a container go on; one that is not paused is fine.
    pub(in crate::runtime) async fn unpause(&self, id: &str) -> Result<(), Problem> {
        self.switch(self.docker.unpause_container(id).await, id, "resuming", Phase::Paused).await
    }

    /// Engines answer 409 or 500 when there is nothing to switch, so what counts is whether it is still in `from`.
    async fn switch(&self, result: Result<(), Error>, id: &str, doing: &str, from: Phase) -> Result<(), Problem> {
        let Err(error) = result else { return Ok(()) };
        if error::status(&error).is_some() && self.observe(id).await?.phase != from {
            return Ok(());
        }
        Err(error::engine(error, &format!("{doing} container `{id}`")))
    }

    /// Waits until a container does not run.
    pub(in crate::runtime) async fn ended(&self, id: &str) -> Result<(), Problem> {
        self.wait(id, "not-running").await
    }

    /// Waits until a container is gone.
    pub(in crate::runtime) async fn removed(&self, id: &str) -> Result<(), Problem> {
        match tokio::time::timeout(REMOVAL, self.wait(id, "removed")).await {
            Ok(result) => result,
            // Somebody's removal failed; what is left is looked at again.
            Err(_) => Ok(()),
        }
    }

    async fn wait(&self, id: &str, condition: &str) -> Result<(), Problem> {
        let options = query::WaitContainerOptions { condition: condition.to_owned() };
        let mut answers = std::pin::pin!(self.docker.wait_container(id, Some(options)));
        match answers.next().await {
            Some(Ok(_) | Err(Error::DockerContainerWaitError { .. })) => Ok(()),
            Some(Err(error)) if error::is_not_found(&error) => Ok(()),
            Some(Err(error)) => Err(error::engine(error, &format!("waiting for container `{id}`"))),
            None => Err(error::engine(
                Error::IOError { err: std::io::ErrorKind::UnexpectedEof.into() },
                &format!("waiting for container `{id}`"),
            )),
        }
    }

    /// The containers of a pod, ended ones too.
    pub(in crate::runtime) async fn list(&self, key: &PodKey) -> Result<Vec<ContainerSummary>, Problem> {
        self.labelled(label::filter(key), &format!("listing the containers of pod {key}")).await
    }

    /// The containers a filter finds, ended ones too.
    pub(in crate::runtime) async fn labelled(
        &self,
        filter: HashMap<String, Vec<String>>,
        doing: &str,
    ) -> Result<Vec<ContainerSummary>, Problem> {
        let options = query::ListContainersOptions { all: true, filters: Some(filter), ..Default::default() };
        self.docker.list_containers(Some(options)).await.map_err(|error| error::engine(error, doing))
    }

    /// Deletes a container with its anonymous volumes, running or not; one that is gone or going is fine.
    pub(in crate::runtime) async fn remove(&self, id: &str) -> Result<(), Problem> {
        let options = query::RemoveContainerOptions { v: true, force: true, ..Default::default() };
        lenient(self.docker.remove_container(id, Some(options)).await, &format!("deleting container `{id}`"))
    }

    /// What a container wrote since a time in whole seconds, each piece with a time stamp before it; with `follow` until
    /// it ends.
    pub(in crate::runtime) fn logs(
        &self,
        id: &str,
        since: i32,
        follow: bool,
    ) -> impl Stream<Item = Result<LogOutput, Error>> + use<> {
        let options =
            query::LogsOptions { follow, stdout: true, stderr: true, since, timestamps: true, ..Default::default() };
        self.docker.logs(id, Some(options)).boxed()
    }

    /// The last lines a container wrote.
    pub(in crate::runtime) async fn tail(&self, id: &str, lines: u32) -> Result<Vec<u8>, Problem> {
        let options = query::LogsOptions { stdout: true, stderr: true, tail: lines.to_string(), ..Default::default() };
        let mut pieces = self.docker.logs(id, Some(options)).boxed();
        let mut text = Vec::new();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|error| error::engine(error, &format!("reading the log of container `{id}`")))?;
            text.extend_from_slice(&piece.into_bytes());
        }
        Ok(text)
    }
}

/// A result where 304, 404 and 409 mean that there was nothing to do.
fn lenient(result: Result<(), Error>, doing: &str) -> Result<(), Problem> {
    match result {
        Ok(()) => Ok(()),
        Err(error) if matches!(error::status(&error), Some(304 | 404 | 409)) => Ok(()),
        Err(error) => Err(error::engine(error, doing)),
    }
}

/// The state of a container out of all the engine tells of it.
fn observed(found: &ContainerInspectResponse) -> Observed {
    let state = found.state.clone().unwrap_or_default();
    let time = |text: Option<&String>| text.and_then(|text| text.parse::<Time>().ok()).filter(|t| *t > Time::EPOCH);
    let started = state.started_at.clone().filter(|_| time(state.started_at.as_ref()).is_some());
    let phase = match state.status {
        Some(Status::CREATED) => Phase::Created,
        Some(Status::RUNNING | Status::RESTARTING | Status::STOPPING) => Phase::Running,
        Some(Status::PAUSED) => Phase::Paused,
        Some(Status::REMOVING | Status::DEAD) => Phase::Removing,
        _ if started.is_none() => Phase::Created,
        _ => Phase::Ended,
    };
    Observed {
        phase,
        started_at: time(state.started_at.as_ref()),
        execution: started,
        ended_at: time(state.finished_at.as_ref()),
        exit_code: state.exit_code.and_then(|code| i32::try_from(code).ok()).unwrap_or_default(),
        oom_killed: state.oom_killed.unwrap_or_default(),
        error: state.error.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use bollard::models::ContainerState;

    use super::*;

    #[test]
    fn without_a_default_network_there_is_none() {
        let network = |configured, names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            Facts::new(&SystemInfo::default(), configured, &names).network
        };
        assert_eq!(network(None, &["bridge", "host", "none"]), None);
        assert_eq!(network(None, &["podman"]), None);
        assert_eq!(network(None, &["host", "none"]).as_deref(), Some("none"));
        assert_eq!(network(Some("host"), &["bridge"]).as_deref(), Some("host"));
    }

    fn of(status: Status, started_at: &str) -> Observed {
        let state = ContainerState {
            status: Some(status),
            started_at: Some(started_at.to_owned()),
            finished_at: Some("2026-11-21T09:00:02.5Z".to_owned()),
            exit_code: Some(137),
            ..Default::default()
        };
        observed(&ContainerInspectResponse { state: Some(state), ..Default::default() })
    }

    #[test]
    fn a_container_that_never_started_has_no_execution() {
        let never = of(Status::EXITED, "0001-01-01T00:00:00Z");
        assert_eq!((never.phase, never.execution), (Phase::Created, None));
        let ended = of(Status::EXITED, "2026-11-21T09:00:01.123456789Z");
        assert_eq!(ended.phase, Phase::Ended);
        assert_eq!(ended.execution.as_deref(), Some("2026-11-21T09:00:01.123456789Z"));
        assert_eq!(ended.ended_at, Some("2026-11-21T09:00:02.5Z".parse().unwrap()));
        assert_eq!(of(Status::DEAD, "2026-11-21T09:00:01Z").phase, Phase::Removing);
        assert_eq!(of(Status::PAUSED, "2026-11-21T09:00:01Z").phase, Phase::Paused);
    }
}
