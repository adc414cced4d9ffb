//! Waiting for flows of a cluster.

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use orlop_core::error::Class;
use orlop_core::spec::flow::JobFlow;
use orlop_k8s::client::watch::{Change, changes};
use orlop_k8s::client::{is_moving, missing, shown};
use serde_json::Value;
use tokio::time::Instant;

use super::super::changes::ReportedChanges;
use super::super::failure::{Exit, Failure};
use super::super::output;
use super::super::target::Wait;
use super::Cluster;
use super::with_hint;

/// How long a server may be away before waiting ends.
const AWAY: Duration = Duration::from_secs(60);

/// How long an operator may take to take a flow up before that is reported.
const OBSERVED_WITHIN: Duration = Duration::from_secs(10);

/// The flow once it has ended, or once it is to be left. A server that is away for a while is waited for.
///
/// # Errors
/// When the server refuses or is away for longer, or the flow is gone.
pub(super) async fn ended(cluster: &Cluster, name: &str, wait: Wait) -> Result<JobFlow, Failure> {
    let mut changes = pin!(changes(cluster.client.clone(), &cluster.namespace, name));
    let (mut reported, mut away, mut uid) = (ReportedChanges::default(), None::<Instant>, None);
    let mut patience = pin!(tokio::time::sleep(OBSERVED_WITHIN));
    // Whether nobody works on the flow, and whether that was reported.
    let (mut untaken, mut said) = (false, false);
    loop {
        let change = tokio::select! {
            change = changes.next() => change,
            () = &mut patience, if untaken && !said => {
                said = true;
                output::tell(&super::untaken(name, &cluster.namespace));
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
        let status = flow.status.clone().unwrap_or_default();
        reported.report(wait.reports, name, &status)?;
        if status.phase.is_terminal() {
            return last(cluster, name, *object).await;
        }
        if wait.leaves(&status) {
            return Ok(flow);
        }
    }
    Err(with_hint(missing(name, &cluster.namespace)))
}

/// A flow that has ended, with all its steps. It may be gone by now: then what was reported of it is all there is.
async fn last(cluster: &Cluster, name: &str, object: Value) -> Result<JobFlow, Failure> {
    let flows = &cluster.flows;
    match flows.read(&object).await {
        Err(error) if is_moving(&error) => match flows.get(name).await {
            Err(error) if error.class == Class::NotFound => Ok(shown(&object)),
            flow => flow.map_err(with_hint),
        },
        flow => flow.map_err(with_hint),
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
