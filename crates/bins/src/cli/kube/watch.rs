//! Waiting for flows of a cluster.

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use orlop_core::spec::flow::JobFlow;
use orlop_core::spec::status::FlowStatus;
use orlop_core::time::HumanDuration;
use orlop_k8s::client::watch::{Change, changes};
use orlop_k8s::client::{ClientError, shown};
use serde_json::Value;
use tokio::time::Instant;

use super::super::changes::ReportedChanges;
use super::super::drive::exit_of;
use super::super::failure::{Exit, Failure};
use super::super::output::{self, Format};
use super::super::watch::WatchArgs;
use super::show::end;
use super::{Cluster, status};
use crate::host::flow::{Clock as _, SystemClock};

/// How long a server may be away before waiting ends.
const AWAY: Duration = Duration::from_secs(60);

/// How old a flow is.
pub(super) fn age_of(flow: &JobFlow) -> Duration {
    let now = SystemClock.now();
    now.since(flow.metadata.creation_timestamp.unwrap_or(now))
}

/// Whether a flow is at least that old, where that is asked.
pub(super) fn is_older(flow: &JobFlow, limit: Option<HumanDuration>) -> bool {
    limit.is_none_or(|limit| age_of(flow) >= limit.get())
}

/// How long an operator may take to take a flow up before that is reported.
const UNTAKEN: Duration = Duration::from_secs(10);

/// What is reported while a flow is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tells {
    /// Steps as they change, and what the flow waits for.
    Steps,
    /// Only what it waits for.
    Reasons,
    /// Nothing of it: it is to go.
    Nothing,
}

impl Tells {
    /// Steps where they are asked for.
    pub(super) const fn steps_if(asked: bool) -> Self {
        if asked { Self::Steps } else { Self::Reasons }
    }
}

/// Waits for the end of a flow.
pub(super) struct Watcher<'a> {
    cluster: &'a Cluster,
    name: &'a str,
    tells: Tells,
}

impl<'a> Watcher<'a> {
    pub(super) const fn new(cluster: &'a Cluster, name: &'a str, tells: Tells) -> Self {
        Self { cluster, name, tells }
    }

    /// The flow once it has ended. A server that is away for a while is waited for.
    pub(super) async fn ended(&self) -> Result<JobFlow, Failure> {
        self.until(|_| false).await
    }

    /// The flow once it has ended, or once something else holds.
    pub(super) async fn until(&self, enough: impl Fn(&FlowStatus) -> bool) -> Result<JobFlow, Failure> {
        let mut changes = pin!(changes(self.cluster.client.clone(), &self.cluster.namespace, self.name));
        let (mut reported, mut away, mut uid) = (ReportedChanges::default(), None::<Instant>, None);
        let mut patience = pin!(tokio::time::sleep(UNTAKEN));
        // Whether nobody works on the flow, and whether that was reported.
        let (mut untaken, mut said) = (false, false);
        loop {
            let change = tokio::select! {
                change = changes.next() => change,
                () = &mut patience, if untaken && !said => {
                    said = true;
                    output::tell(&super::untaken(self.name, &self.cluster.namespace));
                    continue;
                }
            };
            let object = match change {
                Some(Change::Seen(object)) => object,
                Some(Change::Gone) | None => break,
                Some(Change::Away { code, message }) => {
                    refused(code, &message)?;
                    if away.get_or_insert_with(Instant::now).elapsed() > AWAY {
                        return Err(Failure::new(Exit::Unreachable, message));
                    }
                    continue;
                }
            };
            away = None;
            // Of thousands of steps only those that need attention come with every change.
            let flow = shown(&object);
            untaken = flow.status.is_none();
            if *uid.get_or_insert_with(|| flow.metadata.uid.clone()) != flow.metadata.uid {
                // Another flow has its name by now.
                break;
            }
            let status = status(&flow);
            match self.tells {
                Tells::Steps => reported.tell(self.name, &status),
                Tells::Reasons => reported.tell_reason(self.name, &status),
                Tells::Nothing => {}
            }
            if status.phase.is_terminal() {
                return self.last(*object).await;
            }
            if enough(&status) {
                return Ok(flow);
            }
        }
        let message = format!("there is no flow `{}` in namespace `{}` (any more)", self.name, self.cluster.namespace);
        Err(Failure::new(Exit::NotFound, message))
    }
}

impl Watcher<'_> {
    /// A flow that has ended, with all its steps. It may be gone by now: then what was reported of it is all there is.
    async fn last(&self, object: Value) -> Result<JobFlow, Failure> {
        let flows = &self.cluster.flows;
        match flows.read(&object).await {
            Err(ClientError::Moving(_)) => match flows.get(self.name).await {
                Err(ClientError::NotFound { .. }) => Ok(shown(&object)),
                flow => Ok(flow?),
            },
            flow => Ok(flow?),
        }
    }
}

/// What no waiting mends.
fn refused(code: Option<u16>, message: &str) -> Result<(), Failure> {
    let exit = match code {
        Some(401 | 403) => Exit::Denied,
        Some(404) => Exit::NotFound,
        _ => return Ok(()),
    };
    Err(Failure::new(exit, message))
}

/// `orlop flow watch`
pub(super) async fn watch(args: WatchArgs) -> Result<Exit, Failure> {
    let cluster = Cluster::of(&args.globals).await?;
    let watcher = Watcher::new(&cluster, &args.name, Tells::steps_if(args.output == Format::Table));
    let Some(flow) = within(args.timeout, watcher.ended()).await? else { return Ok(late(&args.name)) };
    end(&flow, &args.globals, args.output)?;
    Ok(exit_of(&status(&flow)))
}

/// Waits so long at most; none when that was not enough.
pub(super) async fn within<T>(
    limit: Option<HumanDuration>,
    what: impl Future<Output = Result<T, Failure>>,
) -> Result<Option<T>, Failure> {
    match limit {
        None => what.await.map(Some),
        Some(limit) => match tokio::time::timeout(limit.get(), what).await {
            Ok(done) => done.map(Some),
            Err(_) => Ok(None),
        },
    }
}

/// Tells that waiting has ended and the flow has not.
pub(super) fn late(name: &str) -> Exit {
    output::tell(&format!("`{name}` has not ended; it goes on"));
    Exit::TimedOut
}
