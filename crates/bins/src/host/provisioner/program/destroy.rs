//! The verb `destroy`: a deployment by name or id, one whose journal is damaged or lost, and all that nobody knows.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use orlop_cloud::exit::Exit;
use orlop_cloud::openstack::client::SystemClock;
use orlop_cloud::provision::deployments::{Salvage, StoredDeployment};
use orlop_cloud::provision::drive::{Hands, Orphan, Surroundings, orphans, remove, take_up};
use orlop_cloud::provision::journal::{FileJournal, Kind, Line, MemoryJournal};
use orlop_cloud::provision::keypair::remove_made;
use orlop_cloud::provision::mark::DeploymentId;
use orlop_cloud::provision::order::DeploymentOrder;
use orlop_cloud::provision::saga::{Event, Login, Probe, Saga, Stop};
use serde_json::{Value, json};

use super::args::DestroyArgs;
use super::ask;
use super::carry::{CliContext, OTHER_ADDRESS, Work, settings};
use super::document::Report;
use super::examine::Run;
use super::failure::Failure;
use super::manage::first_site;
use super::record::Record;
use super::show;
use super::sign_in::{Site, Sources};
use super::signals::Signals;
use super::steps::Steps;
use super::surroundings::DeploymentSurroundings;

/// `destroy`: removes what a deployment owns.
pub(super) async fn destroy(args: &DestroyArgs, run: &mut Run, signals: &Signals) -> Result<Report, Failure> {
    let (settings, state_dir) = settings(&args.output, run)?;
    let context = CliContext { state_dir, output: &args.output, signals, keep_on_interrupt: false };
    let sources = Sources::read(&args.cloud, &settings)?;
    let named = match (&args.name, &args.id) {
        (Some(name), _) => Some(context.known(name)?),
        (None, Some(id)) => match context.deployments().salvage(id)? {
            // Its id was given, and what is known of it together with its marks tells what it owns.
            Some(salvage) => return damaged(args, &context, &sources, salvage, run).await,
            None => context.deployments().read(id)?,
        },
        (None, None) => None,
    };
    if named.is_none() && args.keep_key {
        return Err(Failure::usage("--keep-key: the name of the key is unknown where the state was lost"));
    }
    match (named, &args.id) {
        (Some(known), _) => one(args, &context, &sources, known, run).await,
        (None, Some(id)) => {
            let site = sources.sign_in(&first_site(&sources, args.site.as_ref())?, None, run).await?;
            let marked = marked(&site, run).await?.into_iter().filter(|one| one.deployment == *id).collect();
            lost(args, &context, &site, marked, run).await
        }
        (None, None) => {
            let site = sources.sign_in(&first_site(&sources, args.site.as_ref())?, None, run).await?;
            // The cloud first: whatever it shows was written down here before, if this machine has made it.
            let marked = marked(&site, run).await?;
            let all = context.deployments().not_owned(marked)?;
            let agreed = if args.dry_run || args.yes { all } else { agreed(all).await? };
            lost(args, &context, &site, agreed, run).await
        }
    }
}

/// What a deployment has, by its marks and by what was written down of it.
async fn objects_of(
    known: &StoredDeployment,
    keep_key: bool,
    site: &Site,
    run: &mut Run,
) -> Result<Vec<Value>, Failure> {
    let mut found = marked(site, run).await?;
    found.retain(|one| one.deployment == known.id && !(keep_key && one.kind == Kind::Key));
    let mut objects: Vec<Value> = found.iter().map(object).collect();
    let written = Kind::ALL.into_iter().filter_map(|kind| Some((kind, known.saga.id_of(kind)?)));
    for (kind, id) in written.filter(|(_, id)| !found.iter().any(|one| one.id == *id)) {
        if kind != Kind::Key || !keep_key {
            objects.push(json!({"deployment": known.id.as_str(), "kind": kind.as_str(), "id": id, "name": ""}));
        }
    }
    Ok(objects)
}

/// Removes a deployment that this machine knows.
async fn one(
    args: &DestroyArgs,
    context: &CliContext<'_>,
    sources: &Sources<'_>,
    known: StoredDeployment,
    run: &mut Run,
) -> Result<Report, Failure> {
    let journal = context.open(&known)?;
    let steps = Steps::new(&args.output, 0..1);
    let arriving = async {
        match context.sign_in(sources, &known, run).await {
            Err(failure) if failure.code == OTHER_ADDRESS && args.id.is_some() => {
                by_its_marks(sources, &known, failure, run).await
            }
            other => other,
        }
    };
    let site = steps.during(0, arriving).await?;
    if args.dry_run {
        let objects = objects_of(&known, args.keep_key, &site, run).await?;
        return Ok(would(&objects));
    }
    let mut notes = known.notes.clone();
    let mut event = Event::Destroy;
    if args.keep_key {
        notes.key_kept = true;
        context.deployments().note(&known.id, &notes, None)?;
        event = Event::DestroyKeepingKey;
    }
    let surroundings = DeploymentSurroundings::new(context, known.folder.clone(), notes, journal, 0..0);
    removed(context, &site, surroundings, event, run).await
}

/// The cloud at another address than a deployment was made at, if it has anything of it: then it is the same one.
async fn by_its_marks(
    sources: &Sources<'_>,
    known: &StoredDeployment,
    refused: Failure,
    run: &mut Run,
) -> Result<Site, Failure> {
    let site = sources.sign_in(&known.notes.site, known.notes.entry(), run).await?;
    if site.account.project_id != known.saga.order().project_id {
        return Err(refused);
    }
    let is_there = marked(&site, run).await?.iter().any(|one| one.deployment == known.id);
    if is_there { Ok(site) } else { Err(refused) }
}

/// Removes a deployment that has nothing to do.
pub(super) async fn idle(
    context: &CliContext<'_>,
    site: &Site,
    known: &StoredDeployment,
    journal: Arc<FileJournal>,
    run: &mut Run,
) -> Result<Report, Failure> {
    let surroundings = DeploymentSurroundings::new(context, known.folder.clone(), known.notes.clone(), journal, 0..0);
    let mut report = removed(context, site, surroundings, Event::Destroy, run).await?;
    if report.failure.is_none() {
        report.text.insert_str(0, "it was idle; ");
    }
    Ok(report)
}

async fn removed(
    context: &CliContext<'_>,
    site: &Site,
    surroundings: Arc<DeploymentSurroundings>,
    event: Event,
    run: &mut Run,
) -> Result<Report, Failure> {
    let saga = context.carry(site, &surroundings, Work::TakeUp(event), run).await?;
    let mut report = context.report(&saga, &surroundings, run);
    if report.failure.is_none() {
        forget_run(context, &saga.order().server_name, &saga.order().id, run);
        report.text = format!("{} is removed; nothing of it is left\n", saga.order().server_name);
    }
    Ok(report)
}

/// Forgets a run over several sites whose deployment was destroyed: nobody goes on with it.
fn forget_run(context: &CliContext<'_>, name: &str, id: &DeploymentId, run: &mut Run) {
    let forgotten = match Record::read(&context.state_dir, name) {
        Ok(Some(record)) if record.holds(id) => {
            Record::remove(&context.state_dir, name).map_err(|error| error.to_string())
        }
        Ok(_) => Ok(()),
        Err(failure) => Err(failure.to_string()),
    };
    if let Err(why) = forgotten {
        run.warnings.push(format!("the record of the run of {name} cannot be removed: {why}"));
    }
}

/// Everything in the project that bears a mark.
async fn marked(site: &Site, run: &mut Run) -> Result<Vec<Orphan>, Failure> {
    let found = orphans(&site.cloud, &site.account.project_id).await;
    run.count(&site.name, site.asked());
    found.map_err(|error| Failure::of_cloud(&error))
}

fn object(one: &Orphan) -> Value {
    json!({"deployment": one.deployment.as_str(), "kind": one.kind.as_str(), "id": one.id, "name": one.name})
}

fn would(objects: &[Value]) -> Report {
    let text = if objects.is_empty() {
        "nothing would be removed\n".to_owned()
    } else {
        format!("would be removed:\n{}", show::objects(objects))
    };
    Report { text, data: json!({"would_remove": objects}), failure: None }
}

/// What was removed of deployments without a journal.
fn without_journal(removed: &[Value], left: &[String], failure: Option<Failure>) -> Report {
    let text = if removed.is_empty() && failure.is_none() {
        "there is nothing to remove\n".to_owned()
    } else {
        format!("removed:\n{}", show::objects(removed))
    };
    Report { text, data: json!({"removed": removed, "leftovers": left}), failure }
}

/// Asks for each object; one that stays keeps the rest of its deployment.
async fn agreed(all: Vec<Orphan>) -> Result<Vec<Orphan>, Failure> {
    if all.is_empty() {
        return Ok(all);
    }
    if !ask::has_reader() {
        let message = format!("{} objects have marks that this machine does not know", all.len());
        let class = orlop_core::error::Class::Invalid;
        return Err(Failure::new(Exit::Unconfirmed, class, "confirmation", message)
            .hint("check them with --dry-run, then confirm with --yes"));
    }
    let mut kept = Vec::new();
    for one in &all {
        if kept.contains(&one.deployment) {
            continue;
        }
        let words = crate::view::text::one_line(&one.name, 120);
        let question = format!("remove {} {} ({words}) of deployment {}?", one.kind.as_str(), one.id, one.deployment);
        if !ask::agrees(&question).await? {
            kept.push(one.deployment.clone());
        }
    }
    Ok(all.into_iter().filter(|one| !kept.contains(&one.deployment)).collect())
}

/// Removes deployments that this machine has no journal of.
async fn lost(
    args: &DestroyArgs,
    context: &CliContext<'_>,
    site: &Site,
    found: Vec<Orphan>,
    run: &mut Run,
) -> Result<Report, Failure> {
    if args.dry_run {
        return Ok(would(&found.iter().map(object).collect::<Vec<_>>()));
    }
    let mut by_deployment: BTreeMap<DeploymentId, Vec<Value>> = BTreeMap::new();
    for one in &found {
        by_deployment.entry(one.deployment.clone()).or_default().push(object(one));
    }
    // One that shows nothing is asked for all the same: something may be on its way.
    if let Some(id) = &args.id {
        by_deployment.entry(id.clone()).or_default();
    }
    let (mut removed, mut left, mut failure) = (Vec::new(), Vec::new(), None);
    context.signals.claim(false);
    for (id, objects) in by_deployment {
        let saga = removed_of(context, site, id, Vec::new(), Event::Destroy).await?;
        left.extend(saga.leftovers().iter().cloned());
        let failed = saga.failure().cloned().map(Failure::from);
        if failed.is_none() {
            removed.extend(objects);
        }
        failure = failure.or(failed);
    }
    context.signals.release();
    run.count(&site.name, site.asked());
    Ok(without_journal(&removed, &left, failure))
}

/// Removes what bears the mark of a deployment that has no journal here, and what lines of one tell that it made.
async fn removed_of(
    context: &CliContext<'_>,
    site: &Site,
    id: DeploymentId,
    lines: Vec<Line>,
    event: Event,
) -> Result<Saga, Failure> {
    let is_lost = lines.is_empty();
    let hands = Hands {
        cloud: site.cloud.clone(),
        journal: Arc::new(MemoryJournal::of(lines)),
        clock: Arc::new(SystemClock),
        around: Arc::new(Bare(context.signals.clone())),
    };
    if is_lost {
        return Ok(remove(&hands, DeploymentOrder::to_remove(id, &site.account.project_id)).await?);
    }
    take_up(&hands, event).await?.ok_or_else(|| Failure::internal("the other lines hold no plan any more"))
}

/// Removes what a deployment made whose journal is damaged, as far as its other lines and its marks tell, and sets it aside once
/// nothing is left.
async fn damaged(
    args: &DestroyArgs,
    context: &CliContext<'_>,
    sources: &Sources<'_>,
    salvage: Salvage,
    run: &mut Run,
) -> Result<Report, Failure> {
    let known = &salvage.known;
    let lines = if salvage.lines.is_empty() { "" } else { "what its other lines record and " };
    run.warnings
        .push(format!("deployment {}: {}; {lines}everything with its mark is removed", known.id, salvage.damage));
    if args.keep_key && salvage.lines.is_empty() {
        return Err(Failure::usage("--keep-key: the name of its key is no longer known"));
    }
    let site = if salvage.is_placed {
        context.sign_in(sources, known, run).await?
    } else {
        sources.sign_in(&first_site(sources, args.site.as_ref())?, None, run).await?
    };
    let keep_key = args.keep_key || known.notes.key_kept;
    let objects = objects_of(known, keep_key, &site, run).await?;
    if args.dry_run {
        return Ok(would(&objects));
    }
    let event = if keep_key { Event::DestroyKeepingKey } else { Event::Destroy };
    context.signals.claim(false);
    // The damaged journal stays as it is; anyone who comes after a death begins with it again.
    let saga = removed_of(context, &site, known.id.clone(), salvage.lines.clone(), event).await;
    context.signals.release();
    run.count(&site.name, site.asked());
    let saga = saga?;
    let failure = saga.failure().cloned().map(Failure::from);
    if failure.is_none() {
        set_aside(context, salvage, &saga, keep_key, run)?;
    }
    let removed = if failure.is_none() { objects } else { Vec::new() };
    Ok(without_journal(&removed, saga.leftovers(), failure))
}

/// Nothing of it is left, as far as can be seen.
fn set_aside(
    context: &CliContext<'_>,
    salvage: Salvage,
    saga: &Saga,
    keep_key: bool,
    run: &mut Run,
) -> Result<(), Failure> {
    let StoredDeployment { id, notes, .. } = salvage.known.clone();
    if salvage.lines.is_empty() {
        run.warnings.push(
            "objects with a name that you gave have no mark: look for a lease of --lease-name and a key of --key-name"
                .to_owned(),
        );
    }
    if !salvage.is_placed {
        run.warnings.push(format!("where deployment {id} was is not known: its folder stays as it is"));
        return Ok(());
    }
    let made = notes.key_file.as_deref().zip(notes.key_digest.as_deref());
    if let Some((file, digest)) = made.filter(|_| !keep_key) {
        let is_gone = !salvage.lines.is_empty() && saga.id_of(Kind::Key).is_none();
        match if is_gone { remove_made(Path::new(file), digest) } else { Ok(false) } {
            Ok(true) => {}
            Ok(false) => run.warnings.push(format!("the private key {file} stays")),
            Err(error) => run.warnings.push(format!("the private key {file} cannot be removed: {error}")),
        }
    }
    let aside = context.deployments().set_aside(salvage)?;
    run.warnings.push(format!("what was written down of it is in {} now", aside.display()));
    forget_run(context, &notes.server_name, &id, run);
    Ok(())
}

/// Surroundings of a deployment of which nothing is known.
struct Bare(Signals);

#[async_trait::async_trait]
impl Surroundings for Bare {
    async fn probe(&self, _: &str, _: Option<&Login>) -> Probe {
        Probe::Silent
    }

    fn stop(&self) -> Option<Stop> {
        self.0.stop()
    }

    async fn stopped(&self) {
        self.0.stopped().await;
    }
}
