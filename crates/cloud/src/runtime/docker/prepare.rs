//! From a plan to containers that wait to be started. Owns that a pod's containers are created once, found again after a
//! crash, and never mixed up with others of their name.

use std::path::Path;
use std::time::Duration;

use orlop_core::backoff::Backoff;
use orlop_core::error::{Class, Problem};

use super::create::{self, Surroundings};
use super::engine::{Created, Engine};
use super::images::Images;
use super::pod::now;
use super::record::{Container, Files, Record, Words};
use super::{archive, label, words};
use crate::artifact::Limits;
use crate::runtime::blocking::blocking;
use crate::runtime::pod::{ContainerPlan, PodKey, PodPlan};
use crate::runtime::volume::give::give;

/// How often a name that is taken by nothing is asked for again, and how long the first wait is; about 13 seconds in all.
const TRIES: u32 = 8;
const AGAIN: Duration = Duration::from_millis(50);

/// Creates the containers of a pod and records it; nothing of it has run before, and nothing runs after.
///
/// Dropping the future leaves containers that a second call adopts.
pub(super) async fn pod(engine: &Engine, images: &Images, files: &Files, plan: &PodPlan) -> Result<Record, Problem> {
    match containers(engine, images, files, plan).await {
        Ok(containers) => {
            let record = Record::new(plan, containers, now());
            let files = files.clone();
            blocking(move || files.write_record(&record).map(|()| record)).await
        }
        Err(error) => {
            if !error.class.is_retryable() {
                discard(engine, &plan.key).await?;
            }
            Err(error)
        }
    }
}

/// Deletes all containers of a pod.
pub(super) async fn discard(engine: &Engine, key: &PodKey) -> Result<(), Problem> {
    for container in engine.list(key).await? {
        if let Some(id) = &container.id {
            engine.remove(id).await?;
        }
    }
    Ok(())
}

async fn containers(
    engine: &Engine,
    images: &Images,
    files: &Files,
    plan: &PodPlan,
) -> Result<Vec<Container>, Problem> {
    let all: Vec<&ContainerPlan> = plan.init.iter().chain([&plan.main]).collect();
    let mut users = Vec::with_capacity(all.len());
    for container in &all {
        users.push(images.ensure(engine, &plan.pull_secrets, container).await?);
    }
    let mut created = Vec::with_capacity(all.len());
    // The main container first: its name is the one that may be taken.
    for (index, (container, user)) in all.iter().zip(&users).enumerate().rev() {
        let file = std::path::absolute(files.words(index))?;
        let words = create::words(container, &file);
        if let Words::File(path) = &words {
            words::prepare(path)?;
        }
        check(container)?;
        let seccomp = create::seccomp(container)?;
        let around = Surroundings { facts: engine.facts(), words: &words, image_user: user, seccomp };
        let name = name(plan, index);
        let id = one(engine, plan, container, &name, &around).await?;
        let secrets = container.env.iter().filter(|(_, text)| text.secret).map(|(name, _)| name.clone());
        created.push(Container {
            name: container.name.clone(),
            id,
            secrets: secrets.collect(),
            words,
            falls_back: container.message_falls_back_to_logs,
        });
    }
    created.reverse();
    if let (Some(main), Some(user), None) = (created.last(), users.last(), plan.main.user) {
        give_inputs(engine, plan, &main.id, user).await?;
    }
    Ok(created)
}

/// Gives what was delivered to the user that the image names: root's files would be closed to it.
async fn give_inputs(engine: &Engine, plan: &PodPlan, id: &str, image_user: &str) -> Result<(), Problem> {
    let (user, group) = image_user.split_once(':').unwrap_or((image_user, ""));
    if plan.delivered.is_empty() || matches!(user, "" | "0" | "root") {
        return Ok(());
    }
    let user = match user.parse() {
        Ok(user) => Some(user),
        // A name means what the image's own list of users says.
        Err(_) => user_of(engine, plan, id, user).await?,
    };
    let Some(user) = user else {
        let (image, name) = (plan.main.image.as_deref().unwrap_or_default(), image_user);
        tracing::warn!(image, user = name, "the image does not list its user, so its input artifacts stay root's");
        return Ok(());
    };
    let (paths, group) = (plan.delivered.clone(), group.parse().ok());
    blocking(move || Ok(paths.iter().try_for_each(|path| give(path, user, group))?)).await
}

/// The number of a user by the list of users in a container.
async fn user_of(engine: &Engine, plan: &PodPlan, id: &str, name: &str) -> Result<Option<u32>, Problem> {
    let limits = Limits { max_bytes: 1 << 20, max_entries: 1 };
    let copied = match archive::copy(engine, id, "/etc/passwd", &plan.directory, limits).await {
        Err(error) if error.class == Class::NotFound => return Ok(None),
        copied => copied?,
    };
    let name = name.to_owned();
    blocking(move || {
        let text = std::fs::read_to_string(&copied)?;
        std::fs::remove_dir_all(copied.parent().unwrap_or(&copied))?;
        let number = |line: &str| {
            let mut fields = line.split(':');
            (fields.next() == Some(&name)).then(|| fields.nth(1)?.parse().ok()).flatten()
        };
        Ok(text.lines().find_map(number))
    })
    .await
}

/// The main container has the pod's name; the others have one that no pod can have, for Job names know no underscore.
fn name(plan: &PodPlan, index: usize) -> String {
    if index == plan.init.len() { plan.name.clone() } else { format!("{}_init-{index}", plan.name) }
}

/// Engines take paths as text.
fn check(container: &ContainerPlan) -> Result<(), Problem> {
    let odd = |path: &Path| path.to_str().is_none() || !path.is_absolute();
    match container.mounts.iter().find(|mount| odd(&mount.source)) {
        None => Ok(()),
        Some(mount) => {
            let message = format!(
                "container `{}` cannot mount {}: an engine needs an absolute path in UTF-8",
                container.name,
                mount.source.display()
            );
            Err(Problem::new(Class::Invalid, message))
        }
    }
}

/// Creates one container, or finds the one that an earlier call created.
async fn one(
    engine: &Engine,
    plan: &PodPlan,
    container: &ContainerPlan,
    name: &str,
    around: &Surroundings<'_>,
) -> Result<String, Problem> {
    let mut tries = 0;
    loop {
        let created = engine.create(name, create::body(plan, container, around)).await;
        let reported = match created.map_err(|error| masked(&error, container))? {
            Created::New(id) => return Ok(id),
            Created::Taken(reported) => reported,
        };
        match engine.labels(name).await? {
            Some((id, labels)) if label::is_ours(&labels, &plan.key, &container.name) => return Ok(id),
            Some((id, labels)) => return Err(taken(name, &id, &label::owner(&labels))),
            // A request of a process that died may still be at work, and then be finished or taken back.
            None if tries < TRIES => {
                tokio::time::sleep(Backoff { base: AGAIN, ..Backoff::default() }.delay(tries, 0.0)).await;
            }
            None => {
                return Err(Problem::new(Class::Conflict, format!("creating container `{name}` failed: {reported}")));
            }
        }
        tries += 1;
    }
}

fn taken(name: &str, id: &str, owner: &str) -> Problem {
    let message = format!(
        "the name `{name}` is taken by container {id} of {owner}; delete or rename that container, nothing was changed"
    );
    Problem::new(Class::Exists, message).with_reason("NameConflict")
}

/// An engine may quote what it does not like.
fn masked(error: &Problem, container: &ContainerPlan) -> Problem {
    let secrets = container.env.iter().filter(|(_, text)| text.secret).map(|(_, text)| &text.value);
    let masker = crate::runtime::logs::Masker::new(secrets);
    // The cause holds the same text, so it goes.
    Problem { reason: error.reason, ..Problem::new(error.class, masker.mask_text(&error.message)) }
}
