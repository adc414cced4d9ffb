//! `orlop flow submit` and `orlop run --target kube`: a flow is created in a cluster, and watched where that is asked for. Owns
//! what is created and how waiting ends.

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::pin;

use orlop_core::machine::flow::FlowPhase;
use orlop_core::name::sha256_hex;
use orlop_core::spec::flow::{JobFlow, StopMode};
use orlop_core::spec::status::{Decision, FlowStatus};
use orlop_dag::manifest::Limits;
use orlop_k8s::client::{ApprovalDecision, NewFlow};

use super::super::drive::{exit_of, goes_on};
use super::super::failure::{Exit, Failure};
use super::super::globals::GlobalArgs;
use super::super::manifest::{self, flow_name};
use super::super::output::{self, Format};
use super::super::run::RunArgs;
use super::super::signals::Signals;
use super::super::submit::SubmitArgs;
use super::watch::{Tells, Watcher, late, within};
use super::{Cluster, logs, show, status};
use crate::host::control::caller;

/// What a flow must keep to run in a cluster.
pub(super) fn limits(strict: bool) -> Limits {
    let mut limits = if strict { Limits::kubernetes().strict() } else { Limits::kubernetes() };
    // Whether secrets may be text is the operator's to say, and its webhook's.
    limits.secrets_as_text = true;
    limits
}

/// The flow of a file, as it is to be created. Without a name it has one that follows from the key.
fn order(
    file: &Path,
    name: Option<&str>,
    param: &[(String, String)],
    key: Option<&str>,
    strict: bool,
) -> Result<NewFlow, Failure> {
    let loaded = manifest::one(file, limits(strict), name)?;
    let key = key.map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned);
    let mut flow: JobFlow = loaded.manifest.flow.clone();
    flow.metadata.name = flow_name(&loaded.manifest, name, &sha256_hex(key.as_bytes(), 8));
    flow.metadata.generate_name = None;
    let parameters: BTreeMap<String, String> = param.iter().cloned().collect();
    Ok(NewFlow { flow, parameters, key })
}

/// Where a flow is created: in the namespace it names, which must not contradict the options.
fn placed(globals: &GlobalArgs, new: &NewFlow) -> Result<GlobalArgs, Failure> {
    let (own, mut globals) = (&new.flow.metadata.namespace, globals.clone());
    match (own, &globals.namespace) {
        (Some(own), Some(given)) if own != given => {
            let name = &new.flow.metadata.name;
            return Err(Failure::usage(format!(
                "flow `{name}` says namespace `{own}`, and -n says `{given}`; leave one of them out"
            )));
        }
        (Some(own), None) => globals.namespace = Some(own.clone()),
        _ => {}
    }
    Ok(globals)
}

/// Creates a flow.
pub(super) async fn submit(args: SubmitArgs) -> Result<Exit, Failure> {
    let mut new = order(&args.file, args.name.as_deref(), &args.param, args.key.as_deref(), false)?;
    if args.suspend {
        new.flow.spec.suspend = Some(true);
    }
    let globals = placed(&args.globals, &new)?;
    let cluster = Cluster::of(&globals).await?;
    let made = cluster.flows.create(new).await?;
    let name = &made.metadata.name;
    let waits = args.wait || args.watch || args.logs;
    match args.output {
        Format::Table if waits => output::tell(&format!("{name} created in namespace {}", cluster.namespace)),
        Format::Table | Format::Name => output::print(name)?,
        _ if waits => {}
        format => output::print(&output::serialized(&made, format)?)?,
    }
    if !waits {
        return Ok(Exit::Done);
    }
    let watcher = Watcher::new(&cluster, name, Tells::steps_if(args.watch && args.output == Format::Table));
    let Some(flow) = within(args.timeout, watcher.ended()).await? else { return Ok(late(name)) };
    if args.logs {
        logs::all(&cluster, &flow).await?;
    }
    show::end(&flow, &globals, args.output)?;
    Ok(exit_of(&status(&flow)))
}

/// Creates the flow of a file and waits for its end. An interrupt ends it gracefully, a second one at once, a third one leaves
/// it running.
pub(super) async fn run(args: RunArgs) -> Result<Exit, Failure> {
    args.not_local()?;
    let Some(file) = &args.file else {
        return Err(Failure::usage(
            "a cluster goes on with its flows by itself; watch one with `orlop flow watch NAME --target kube`",
        ));
    };
    let new = order(file, args.name.as_deref(), &args.param, None, args.strict)?;
    let globals = placed(&args.globals, &new)?;
    let cluster = Cluster::of(&globals).await?;
    let mut signals = Signals::take()?;
    let name = cluster.flows.create(new).await?.metadata.name;
    for step in &args.auto_approve {
        let by = caller();
        let decided = ApprovalDecision { step, decision: Decision::Approved, by: Some(&by), reason: None };
        cluster.flows.decide(&name, &decided).await?;
    }
    let watcher = Watcher::new(&cluster, &name, Tells::steps_if(args.output == Format::Table));
    let leaves = |status: &FlowStatus| args.no_wait_approval && status.phase == FlowPhase::Paused && !goes_on(status);
    let mut ended = pin!(watcher.until(leaves));
    let mut interrupts = 0;
    let flow = loop {
        tokio::select! {
            flow = &mut ended => break flow?,
            exit = signals.next() => {
                interrupts += 1;
                let (mode, text) = match interrupts {
                    1 => (StopMode::Graceful, "stopping: live attempts finish; interrupt again to cancel them"),
                    2 => (StopMode::Terminate, "cancelling what runs; interrupt again to leave it running"),
                    _ => {
                        output::tell("the flow goes on; see it with `orlop flow watch`");
                        return Ok(exit);
                    }
                };
                output::tell(text);
                match cluster.flows.stop(&name, mode).await.map_err(Failure::from) {
                    // It has ended in this moment.
                    Err(failure) if failure.exit != Exit::Conflict => return Err(failure),
                    _ => {}
                }
            }
        }
    };
    show::end(&flow, &globals, args.output)?;
    let status = status(&flow);
    Ok(if status.phase.is_terminal() { exit_of(&status) } else { Exit::Paused })
}
