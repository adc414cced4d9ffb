//! What is ordered about flows of a cluster: decisions, suspension, ends, repeats, deletion.

use orlop_core::spec::flow::{JobFlow, StopMode, SuspendMode};
use orlop_core::spec::status::Decision;
use orlop_k8s::client::{ApprovalDecision, RetryOptions};

use super::super::control::{ConfirmGoneArgs, DecideArgs, Mode, NameArgs, SuspendArgs};
use super::super::delete::DeleteArgs;
use super::super::drive::exit_of;
use super::super::failure::{Exit, Failure};
use super::super::manifest;
use super::super::output::{self, Format};
use super::super::retry::RetryArgs;
use super::show::end;
use super::watch::{Tells, Watcher, is_older};
use super::{Cluster, status};
use crate::host::control::caller;

fn done(name: &str, what: &str) -> Result<Exit, Failure> {
    output::print(&format!("{name}: {what}"))?;
    Ok(Exit::Done)
}

/// `orlop flow approve` and `reject`
pub(super) async fn decide(args: DecideArgs, approved: bool) -> Result<Exit, Failure> {
    let cluster = Cluster::of(&args.globals).await?;
    let by = caller();
    let decision = if approved { Decision::Approved } else { Decision::Rejected };
    let decided = ApprovalDecision { step: &args.step, decision, by: Some(&by), reason: args.reason.as_deref() };
    cluster.flows.decide(&args.name, &decided).await?;
    done(&args.name, &format!("{} {}", if approved { "approved" } else { "rejected" }, args.step))
}

/// `orlop flow confirm-gone`
pub(super) async fn confirm_gone(args: ConfirmGoneArgs) -> Result<Exit, Failure> {
    let cluster = Cluster::of(&args.globals).await?;
    let step = args.record();
    cluster.flows.confirm_gone(&args.name, &step, &caller(), args.reason.as_deref()).await?;
    done(&args.name, &format!("{step} is confirmed to be gone"))
}

/// `orlop flow suspend`
pub(super) async fn suspend(args: SuspendArgs) -> Result<Exit, Failure> {
    let mode = match args.mode {
        Mode::Drain => SuspendMode::Drain,
        Mode::Suspend => SuspendMode::Suspend,
    };
    Cluster::of(&args.globals).await?.flows.suspend(&args.name, mode).await?;
    done(&args.name, "suspended")
}

/// `orlop flow resume`
pub(super) async fn resume(args: NameArgs) -> Result<Exit, Failure> {
    Cluster::of(&args.globals).await?.flows.resume(&args.name).await?;
    done(&args.name, "resumed")
}

/// `orlop flow stop` and `terminate`
pub(super) async fn stop(args: NameArgs, graceful: bool) -> Result<Exit, Failure> {
    let mode = if graceful { StopMode::Graceful } else { StopMode::Terminate };
    let stop = async { Ok::<_, Failure>(Cluster::of(&args.globals).await?.flows.stop(&args.name, mode).await?) };
    output::with_patience(&format!("{}: the API server is asked and has not answered yet", args.name), stop).await?;
    done(&args.name, if graceful { "stopping" } else { "terminating" })
}

/// `orlop flow retry`
pub(super) async fn retry(args: RetryArgs) -> Result<Exit, Failure> {
    let spec = match &args.file {
        Some(file) => Some(manifest::one(file, super::submit::limits(false), Some(&args.name))?.manifest.flow.spec),
        None => None,
    };
    let cluster = Cluster::of(&args.globals).await?;
    let repeat = RetryOptions {
        steps: args.step,
        force: args.force,
        spec,
        parameters: args.param.into_iter().collect(),
        name: args.new_name,
        key: uuid::Uuid::new_v4().to_string(),
    };
    let made = cluster.flows.repeat(&args.name, repeat).await?;
    let name = &made.metadata.name;
    if !args.wait {
        output::print(name)?;
        return Ok(Exit::Done);
    }
    output::tell(&format!("{name} created in namespace {}", cluster.namespace));
    let flow = Watcher::new(&cluster, name, Tells::steps_if(args.output == Format::Table)).ended().await?;
    end(&flow, &args.globals, args.output)?;
    Ok(exit_of(&status(&flow)))
}

/// `orlop flow delete`
pub(super) async fn delete(args: DeleteArgs) -> Result<Exit, Failure> {
    let cluster = Cluster::of(&args.globals).await?;
    let mut chosen = Vec::new();
    for name in &args.names {
        chosen.push(cluster.flows.find(name).await?);
    }
    if args.completed || args.older_than.is_some() {
        let old = |flow: &JobFlow| status(flow).phase.is_terminal() && is_older(flow, args.older_than);
        chosen.extend(cluster.flows.list(&[]).await?.into_iter().filter(old));
    }
    for flow in chosen {
        let name = &flow.metadata.name;
        if !status(&flow).phase.is_terminal() {
            if !args.force {
                let message = format!("`{name}` has not ended; terminate it first, or say --force");
                return Err(Failure::new(Exit::Conflict, message));
            }
            match cluster.flows.stop(name, StopMode::Terminate).await.map_err(Failure::from) {
                // It ended by itself.
                Err(failure) if failure.exit != Exit::Conflict => return Err(failure),
                _ => {}
            }
            Watcher::new(&cluster, name, Tells::Nothing).ended().await?;
        }
        cluster.flows.delete(&flow).await?;
        output::print(&format!("{name} deleted"))?;
    }
    Ok(Exit::Done)
}
