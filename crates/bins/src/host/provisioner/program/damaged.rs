//! `destroy --id` of a deployment whose journal is damaged: what its other lines tell, and what bears its mark. Owns what becomes of
//! its folder.

use std::path::Path;
use std::sync::Arc;

use orlop_cloud::openstack::client::SystemClock;
use orlop_cloud::provision::deployments::{Salvage, StoredDeployment};
use orlop_cloud::provision::drive::{Hands, remove, take_up};
use orlop_cloud::provision::journal::{Kind, MemoryJournal};
use orlop_cloud::provision::keypair::remove_made;
use orlop_cloud::provision::saga::{Event, Saga};
use serde_json::json;

use super::args::DestroyArgs;
use super::carry::CliContext;
use super::destroy::{Bare, forget_run, objects_of, would};
use super::document::Report;
use super::examine::Run;
use super::failure::Failure;
use super::manage::first_site;
use super::show;
use super::sign_in::{Site, Sources};

/// Removes what such a deployment made, and sets it aside once nothing is left.
pub(super) async fn destroy(
    args: &DestroyArgs,
    context: &CliContext<'_>,
    sources: &Sources<'_>,
    salvage: Salvage,
    run: &mut Run,
) -> Result<Report, Failure> {
    let known = &salvage.known;
    let told = if salvage.lines.is_empty() { "" } else { "what its other lines tell and " };
    run.warnings.push(format!("deployment {}: {}; {told}what bears its mark is removed", known.id, salvage.damage));
    if args.keep_key && salvage.lines.is_empty() {
        return Err(Failure::usage("--keep-key: which key it has is not known any more"));
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
    let saga = removed(context, &site, &salvage, keep_key).await;
    run.count(&site.name, site.asked());
    let saga = saga?;
    let failure = saga.failure().cloned().map(Failure::from);
    let left = saga.leftovers().to_vec();
    if failure.is_none() {
        end(context, salvage, &saga, keep_key, run)?;
    }
    let removed = if failure.is_none() { objects } else { Vec::new() };
    let text = match (&failure, removed.is_empty()) {
        (None, true) => "there is nothing to remove\n".to_owned(),
        _ => format!("removed:\n{}", show::objects(&removed)),
    };
    Ok(Report { text, data: json!({"removed": removed, "leftovers": left}), failure })
}

async fn removed(context: &CliContext<'_>, site: &Site, salvage: &Salvage, keep_key: bool) -> Result<Saga, Failure> {
    let hands = Hands {
        cloud: site.cloud.clone(),
        // The damaged one stays as it is; anyone who comes after a death begins with it again.
        journal: Arc::new(MemoryJournal::of(salvage.lines.clone())),
        clock: Arc::new(SystemClock),
        around: Arc::new(Bare(context.signals.clone())),
    };
    context.signals.claim(false);
    let done = carried(&hands, salvage, site, keep_key).await;
    context.signals.release();
    done
}

async fn carried(hands: &Hands, salvage: &Salvage, site: &Site, keep_key: bool) -> Result<Saga, Failure> {
    if salvage.lines.is_empty() {
        let id = salvage.known.id.clone();
        let order = orlop_cloud::provision::order::DeploymentOrder::to_remove(id, &site.account.project_id);
        return Ok(remove(hands, order).await?);
    }
    if keep_key {
        take_up(hands, Event::KeepKey).await?;
    }
    let saga = take_up(hands, Event::Destroy).await?;
    saga.ok_or_else(|| Failure::internal("the other lines hold no plan any more"))
}

/// Nothing of it is left, as far as can be seen.
fn end(context: &CliContext<'_>, salvage: Salvage, saga: &Saga, keep_key: bool, run: &mut Run) -> Result<(), Failure> {
    let StoredDeployment { id, notes, .. } = salvage.known.clone();
    if salvage.lines.is_empty() {
        run.warnings.push(
            "what has a name that you gave bears no mark: look for a lease of --lease-name and a key of --key-name"
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
    let aside = context.shelf().set_aside(salvage)?;
    run.warnings.push(format!("what was written down of it is in {} now", aside.display()));
    forget_run(context, &notes.server_name, &id, run);
    Ok(())
}
