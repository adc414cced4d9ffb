//! The verbs `status`, `resume`, `extend` and `list`: from a deployment's name to what the library is asked to do with it.

use std::time::Duration;

use orlop_cloud::exit::Exit;
use orlop_cloud::openstack::client::SystemClock;
use orlop_cloud::openstack::port::{Clock as _, CloudError, FloatingIp, Lease, Server};
use orlop_cloud::provision::deployments::StoredDeployment;
use orlop_cloud::provision::drive::orphans;
use orlop_cloud::provision::idle::Decision;
use orlop_cloud::provision::info::{Info, JournalPlace};
use orlop_cloud::provision::journal::{JournalError, Kind};
use orlop_cloud::provision::order::Verify;
use orlop_cloud::provision::prepare::later;
use orlop_cloud::provision::saga::{Event, Saga};
use orlop_core::error::Class;
use orlop_core::machine::Named;
use orlop_core::machine::saga::SagaState;
use serde_json::{Value, json};

use super::apply::{Job, read_plan};
use super::args::{ApplyArgs, ExtendArgs, ListArgs, OneArgs, StatusArgs};
use super::carry::{CliContext, Work, data, settings};
use super::destroy;
use super::document::Report;
use super::examine::Run;
use super::failure::Failure;
use super::fleet::fleet;
use super::idle::Watcher;
use super::record::Record;
use super::show;
use super::sign_in::{Site, Sources};
use super::signals::Signals;
use super::steps::Steps;
use super::surroundings::DeploymentSurroundings;

/// Between two looks of `status --watch`.
const WATCH: Duration = Duration::from_secs(30);

/// `resume`: goes on with a deployment.
pub(super) async fn resume(args: &OneArgs, run: &mut Run, signals: &Signals) -> Result<Report, Failure> {
    let (settings, state_dir) = settings(&args.output, run)?;
    let context = CliContext { state_dir, output: &args.output, signals, keep_on_interrupt: args.keep_on_interrupt };
    let sources = Sources::read(&args.cloud, &settings)?;
    let known = context.known(&args.name);
    let name = known.as_ref().map_or(args.name.as_str(), |known| &known.saga.order().server_name);
    let is_same =
        |record: &Record| known.as_ref().is_err() || known.as_ref().is_ok_and(|known| record.holds(&known.id));
    if let Some(record) = Record::read(&context.state_dir, name)?.filter(is_same) {
        let saved = |args: &ApplyArgs| args.run.plan.as_ref().map(read_plan).transpose();
        match record.arguments().and_then(|args| Ok((saved(&args)?, args))) {
            Ok((saved, mut begun)) => {
                // The next one signs in as it says itself.
                begun.cloud = args.cloud.clone();
                let mut job = Job::new(&begun, &settings, &sources, context, saved)?;
                job.record = Some(record);
                return job.carry_out(run).await;
            }
            Err(failure) => run.warnings.push(format!("no other site is tried: {failure}")),
        }
    }
    let known = known?;
    let journal = context.open(&known)?;
    let steps = Steps::new(&args.output, 0..1);
    let site = steps.during(0, context.sign_in(&sources, &known, run)).await?;
    let surroundings = DeploymentSurroundings::new(&context, known.folder.clone(), known.notes.clone(), journal, 3..10);
    if known.saga.order().verify == Verify::Join {
        surroundings.asks(Some(&fleet(&args.fleet, &settings, known.notes.fleet.as_deref())?.fleet));
    }
    let saga = context.carry(&site, &surroundings, Work::TakeUp(Event::Resume), run).await?;
    Ok(context.report(&saga, &surroundings, run))
}

/// `extend`: gives a lease another end.
pub(super) async fn extend(args: &ExtendArgs, run: &mut Run, signals: &Signals) -> Result<Report, Failure> {
    let (settings, state_dir) = settings(&args.output, run)?;
    let context = CliContext { state_dir, output: &args.output, signals, keep_on_interrupt: false };
    let sources = Sources::read(&args.cloud, &settings)?;
    let known = context.known(&args.name)?;
    let journal = context.open(&known)?;
    let present = known.saga.lease_end();
    let end = match (args.until, args.hours, present) {
        (Some(until), _, _) => later(until, 0),
        (None, Some(hours), Some(present)) => later(present, hours),
        _ => {
            let message = format!("{} has no lease to extend", args.name);
            return Err(Failure::new(Exit::Conflict, Class::Conflict, "no_lease", message));
        }
    };
    let site = context.sign_in(&sources, &known, run).await?;
    let surroundings = DeploymentSurroundings::new(&context, known.folder.clone(), known.notes.clone(), journal, 0..0);
    let saga = context.carry(&site, &surroundings, Work::TakeUp(Event::Extend { end }), run).await?;
    let mut report = context.report(&saga, &surroundings, run);
    if report.failure.is_none() {
        report.text = format!("{}: the lease lasts until {end}\n", saga.order().server_name);
    }
    Ok(report)
}

/// `status`: what should be there, and what is.
pub(super) async fn status(args: &StatusArgs, run: &mut Run, signals: &Signals) -> Result<Report, Failure> {
    let (settings, state_dir) = settings(&args.output, run)?;
    let context = CliContext { state_dir, output: &args.output, signals, keep_on_interrupt: false };
    let sources = Sources::read(&args.cloud, &settings)?;
    let mut known = context.known(&args.name)?;
    let mut watcher = Watcher::of(&known, args, &settings)?;
    let site = context.sign_in(&sources, &known, run).await?;
    loop {
        let report = look(&context, &site, &known, run).await?;
        let state = report.data.get("status").and_then(Value::as_str).unwrap_or_default().to_owned();
        let may_change = state.parse().is_ok_and(|state: SagaState| !state.is_final());
        if !args.watch || !may_change {
            return Ok(report);
        }
        show::interim(&args.output, &report);
        known = context.known(known.id.as_str())?;
        let is_good = matches!(known.saga.state(), SagaState::Ready | SagaState::Degraded);
        let mut pause = WATCH;
        if let Some(watcher) = watcher.as_mut().filter(|_| is_good && report.data["working"] == false) {
            let decision = watcher.look(&known, &report.data["live"]).await;
            pause = watcher.pause(decision, WATCH);
            if decision == Decision::Destroy {
                match context.open(&known) {
                    Ok(journal) => return destroy::idle(&context, &site, &known, journal, run).await,
                    // Somebody works on it: the next look tells what became of that.
                    Err(JournalError::Locked { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        tokio::time::sleep(pause).await;
        known = context.known(known.id.as_str())?;
    }
}

/// One look at a deployment. While another process works on it, its journal is only read.
async fn look(
    context: &CliContext<'_>,
    site: &Site,
    known: &StoredDeployment,
    run: &mut Run,
) -> Result<Report, Failure> {
    let journal = match context.open(known) {
        Ok(journal) => journal,
        Err(JournalError::Locked { .. }) => {
            let path = known.folder.join("journal.jsonl").display().to_string();
            let journal = JournalPlace { path, last_seq: known.last_seq };
            let info = Info::of(&known.saga, &known.notes, journal, SystemClock.now());
            let mut data = data(&info);
            data["working"] = json!(true);
            let text = show::deployment(&info, known.saga.state(), None) + "another process works on it\n";
            return Ok(Report { data, text, failure: None });
        }
        Err(error) => return Err(error.into()),
    };
    let surroundings = DeploymentSurroundings::new(context, known.folder.clone(), known.notes.clone(), journal, 0..0);
    let saga = context.carry(site, &surroundings, Work::TakeUp(Event::Look), run).await?;
    let info = surroundings.info(&saga);
    run.take_warnings(&info.warnings);
    let live = live(site, &saga).await;
    let mut data = data(&info);
    data["working"] = json!(false);
    data["live"] = live.clone();
    let text = show::deployment(&info, saga.state(), None) + &show::live(&live);
    run.count(&site.name, site.asked());
    // What failed before is history here, unless nothing could be asked.
    let failure =
        saga.failure().filter(|failure| failure.exit == Exit::Unreachable && !saga.state().is_final()).cloned();
    Ok(Report { data, text, failure: failure.map(Failure::from) })
}

/// What the cloud shows of the objects of a deployment.
async fn live(site: &Site, saga: &Saga) -> Value {
    let lease = async {
        let id = saga.id_of(Kind::Lease)?;
        let shown = |lease: Lease| {
            let (status, end) = (lease.status.map(Named::as_str), lease.end.map(|end| end.to_string()));
            json!({"id": id, "status": status, "degraded": lease.degraded, "end": end})
        };
        Some(site.cloud.reservations.lease(id).await.map_or_else(|error| missing(id, &error), shown))
    };
    let server = async {
        let id = saga.id_of(Kind::Server)?;
        let shown = |server: Server| json!({"id": id, "status": server.status.as_str(), "fault": server.fault});
        Some(site.cloud.compute.server(id).await.map_or_else(|error| missing(id, &error), shown))
    };
    let address = async {
        let id = saga.id_of(Kind::Address)?;
        let shown = |one: FloatingIp| json!({"id": id, "address": one.address, "bound": one.port.is_some()});
        Some(site.cloud.network.floating_ip(id).await.map_or_else(|error| missing(id, &error), shown))
    };
    let (lease, server, address) = tokio::join!(lease, server, address);
    json!({"lease": lease, "server": server, "floating_ip": address})
}

fn missing(id: &str, error: &CloudError) -> Value {
    if error.is_gone() {
        json!({"id": id, "status": "gone"})
    } else {
        json!({"id": id, "status": "unknown", "error": error.to_string()})
    }
}

/// `list`: deployments of this machine, or what bears a mark in the project.
pub(super) async fn list(args: &ListArgs, run: &mut Run, signals: &Signals) -> Result<Report, Failure> {
    let (settings, state_dir) = settings(&args.output, run)?;
    let context = CliContext { state_dir, output: &args.output, signals, keep_on_interrupt: false };
    let (all, damaged) = context.deployments().all()?;
    run.warnings.extend(damaged);
    if !args.remote {
        let rows: Vec<Value> = all.iter().map(row).collect();
        return Ok(Report { text: show::list(&rows), data: json!({"deployments": rows}), failure: None });
    }
    let sources = Sources::read(&args.cloud, &settings)?;
    let site = sources.sign_in(&first_site(&sources, args.site.as_ref())?, None, run).await?;
    let found = orphans(&site.cloud, &site.account.project_id).await;
    run.count(&site.name, site.asked());
    let found = found.map_err(|error| Failure::of_cloud(&error))?;
    let objects: Vec<Value> = found
        .iter()
        .map(|one| {
            let known = all.iter().find(|known| known.id == one.deployment);
            json!({
                "deployment": one.deployment.as_str(), "kind": one.kind.as_str(), "id": one.id, "name": one.name,
                "known": known.is_some(), "status": known.map(|known| known.saga.state().to_string()),
            })
        })
        .collect();
    Ok(Report { text: show::objects(&objects), data: json!({"site": site.name, "objects": objects}), failure: None })
}

/// The site of verbs that work on a whole project.
pub(super) fn first_site(sources: &Sources<'_>, named: Option<&String>) -> Result<String, Failure> {
    let named: Vec<String> = named.into_iter().cloned().collect();
    sources.sites(&named).into_iter().next().ok_or_else(|| Failure::usage("no site is given: use --site"))
}

fn row(known: &StoredDeployment) -> Value {
    let (saga, notes) = (&known.saga, &known.notes);
    json!({
        "server_name": saga.order().server_name, "deployment_id": known.id.as_str(), "status": saga.state().to_string(),
        "site": notes.site, "node_type": saga.choice().map(|choice| choice.node_type.clone()),
        "lease_end": saga.lease_end().map(|end| end.to_string()),
        "address": saga.detail_of(Kind::Address).or(saga.fixed_address()), "created_at": known.began.to_string(),
    })
}
