//! Finding deployments, damage, names and keys.

use super::*;
use crate::provision::journal::{Entry, FileJournal, Journal as _};
use crate::provision::order::DeploymentOrder;

fn id(name: &str) -> DeploymentId {
    DeploymentId::new(name, "project", "nonce")
}

async fn begun(deployments: &DeploymentStore, nonce: &str, name: &str, at: i64, state: SagaState) -> DeploymentId {
    let id = id(nonce);
    deployments
        .note(&id, &Notes { server_name: name.to_owned(), site: "uc".into(), ..Notes::default() }, None)
        .unwrap();
    let journal = FileJournal::open(&deployments.place(&id), id.as_str()).unwrap();
    let order = DeploymentOrder { server_name: name.to_owned(), ..DeploymentOrder::to_remove(id.clone(), "project") };
    let time = Time::from_millis(at);
    journal.append(time, 1, &Entry::Open { version: "0".into(), nonce: nonce.into() }).await.unwrap();
    journal.append(time, 1, &Entry::Plan(Box::new(order))).await.unwrap();
    journal.append(time, 1, &Entry::Observed { state, destroy: false, failure: None }).await.unwrap();
    id
}

#[tokio::test]
async fn a_deployment_is_found_by_name_the_living_first_and_by_id() {
    let folder = tempfile::tempdir().unwrap();
    let deployments = DeploymentStore::new(folder.path());
    let alive = begun(&deployments, "a", "demo", 1000, SagaState::Ready).await;
    let gone = begun(&deployments, "b", "demo", 2000, SagaState::Destroyed).await;
    begun(&deployments, "c", "other", 3000, SagaState::Ready).await;
    assert_eq!(deployments.find("demo").unwrap().unwrap().id, alive);
    assert_eq!(deployments.find(gone.as_str()).unwrap().unwrap().id, gone);
    assert!(deployments.find("nothing").unwrap().is_none() && deployments.read(&id("z")).unwrap().is_none());
    let (all, damaged) = deployments.all().unwrap();
    let names: Vec<&str> = all.iter().map(|known| known.saga.order().server_name.as_str()).collect();
    assert_eq!((names, damaged.len()), (vec!["other", "demo", "demo"], 0));
    assert_eq!(all.first().unwrap().notes.site, "uc");
}

#[tokio::test]
async fn a_damaged_deployment_is_reported_and_hides_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let deployments = DeploymentStore::new(folder.path());
    let good = begun(&deployments, "a", "demo", 1000, SagaState::Ready).await;
    let bad = begun(&deployments, "b", "other", 2000, SagaState::Ready).await;
    let path = deployments.place(&bad).join("journal.jsonl");
    let text = fs::read_to_string(&path).unwrap().replacen("nonce", "ponce", 1);
    fs::write(&path, text).unwrap();
    let (all, damaged) = deployments.all().unwrap();
    assert_eq!((all.len(), all.first().unwrap().id.clone()), (1, good));
    assert!(damaged.first().unwrap().contains("damaged at line 1"), "{damaged:?}");
}

/// Else removing what nobody owns would remove a server that only its journal has lost.
#[tokio::test]
async fn what_a_damaged_journal_may_own_is_nobodys_orphan() {
    let folder = tempfile::tempdir().unwrap();
    let deployments = DeploymentStore::new(folder.path());
    let alive = begun(&deployments, "a", "demo", 1000, SagaState::Ready).await;
    let gone = begun(&deployments, "b", "other", 2000, SagaState::Destroyed).await;
    let bad = begun(&deployments, "c", "third", 3000, SagaState::Ready).await;
    let path = deployments.place(&bad).join("journal.jsonl");
    fs::write(&path, fs::read_to_string(&path).unwrap().replacen("nonce", "ponce", 1)).unwrap();
    let unknown = id("z");
    let orphan = |deployment: &DeploymentId| Orphan {
        deployment: deployment.clone(),
        kind: crate::provision::journal::Kind::Server,
        id: "server".into(),
        name: "n".into(),
    };
    let marked = [&alive, &gone, &bad, &unknown, &bad].map(orphan).to_vec();
    let left: Vec<DeploymentId> =
        deployments.not_owned(marked).unwrap().into_iter().map(|one| one.deployment).collect();
    assert_eq!(left, [gone, unknown]);
}

#[test]
fn a_name_belongs_to_one_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let deployments = DeploymentStore::new(folder.path());
    let first = deployments.take_name("demo").unwrap();
    assert!(matches!(deployments.take_name("demo"), Err(JournalError::Locked { .. })));
    let other = deployments.take_name("other").unwrap();
    drop(first);
    let again = deployments.take_name("demo").unwrap();
    drop((other, again));
}

#[tokio::test]
async fn notes_that_are_damaged_or_gone_hide_no_deployment_and_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let deployments = DeploymentStore::new(folder.path());
    for (nonce, damage) in [("a", Some("{\"site\": ")), ("b", None)] {
        let id = begun(&deployments, nonce, nonce, 1000, SagaState::Ready).await;
        let path = deployments.place(&id).join(NOTES);
        match damage {
            Some(text) => fs::write(&path, text).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let known = deployments.find(nonce).unwrap().unwrap();
        assert!(known.id == id && known.is_alive(), "it is there, so no other one of its name begins");
        let trouble = known.trouble.unwrap();
        assert!(trouble.contains(NOTES) && trouble.ends_with(&format!("destroy {nonce}")), "{trouble}");
        assert!(deployments.all().unwrap().1.contains(&trouble), "a list tells it too");
    }
}

#[tokio::test]
async fn a_key_whose_deployment_never_began_is_removed_and_nothing_else() {
    use crate::provision::keypair::KeyPair;
    let folder = tempfile::tempdir().unwrap();
    let deployments = DeploymentStore::new(folder.path().join("state"));
    let keys = folder.path();
    let noted = |nonce: &str| {
        let (id, pair, path) = (id(nonce), KeyPair::make(nonce).unwrap(), keys.join(nonce));
        let key_file = Some(path.display().to_string());
        let notes = Notes { key_file, key_digest: Some(pair.digest()), ..Notes::default() };
        deployments.note(&id, &notes, None).unwrap();
        pair.save(&path).unwrap();
        (id, path)
    };
    let (killed, key) = noted("killed");
    let (living, living_key) = noted("living");
    let held = FileJournal::open(&deployments.place(&living), living.as_str()).unwrap();
    let (other, foreign) = noted("other");
    fs::write(&foreign, "somebody's").unwrap();
    let (ready, ready_key) = noted("ready");
    begun(&deployments, "ready", "demo", 1000, SagaState::Ready).await;
    let removed = deployments.sweep_unbegun().unwrap();
    assert_eq!(removed.len(), 1, "{removed:?}");
    assert!(removed[0].contains(&key.display().to_string()), "{removed:?}");
    assert!(!key.exists() && !deployments.place(&killed).exists());
    assert!(living_key.exists() && deployments.place(&living).exists(), "another process is about to begin it");
    assert_eq!(fs::read_to_string(&foreign).unwrap(), "somebody's");
    assert!(!deployments.place(&other).exists() && ready_key.exists() && deployments.place(&ready).exists());
    drop(held);
    assert_eq!(deployments.sweep_unbegun().unwrap().len(), 1, "it never began it");
}

/// Damages the first line of a journal.
fn damage(deployments: &DeploymentStore, id: &DeploymentId) {
    let path = deployments.place(id).join("journal.jsonl");
    fs::write(&path, fs::read_to_string(&path).unwrap().replacen("nonce", "ponce", 1)).unwrap();
}

#[tokio::test]
async fn a_name_whose_journal_is_damaged_is_not_free_and_tells_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let deployments = DeploymentStore::new(folder.path());
    let bad = begun(&deployments, "a", "demo", 1000, SagaState::Ready).await;
    begun(&deployments, "b", "demo", 500, SagaState::Destroyed).await;
    begun(&deployments, "c", "other", 500, SagaState::Destroyed).await;
    damage(&deployments, &bad);
    for asked in ["demo", bad.as_str()] {
        let error = deployments.find(asked).unwrap_err();
        assert_eq!(error.exit().code(), 1);
        let words = error.to_string().replace(bad.as_str(), "ID");
        insta::allow_duplicates! { insta::assert_snapshot!(words, @"deployment ID of server demo: the journal is damaged at line 1: its checksum does not match; find what the deployment made with `list --remote`, or remove it with `destroy --id ID`") };
    }
    assert!(deployments.find("other").unwrap().is_some() && deployments.find("third").unwrap().is_none());
    let alive = begun(&deployments, "d", "demo", 200, SagaState::Ready).await;
    assert_eq!(deployments.find("demo").unwrap().unwrap().id, alive, "one that lives is what is meant");
}

#[tokio::test]
async fn of_a_damaged_deployment_its_other_lines_are_reported_and_its_name_is_free_once_it_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let deployments = DeploymentStore::new(folder.path().join("state"));
    let id = begun(&deployments, "a", "demo", 1000, SagaState::Ready).await;
    assert!(deployments.salvage(&id).unwrap().is_none(), "one that can be read is not damaged");
    assert!(deployments.salvage(&self::id("z")).unwrap().is_none());
    let owner = FileJournal::open(&deployments.place(&id), id.as_str()).unwrap();
    let path = deployments.place(&id).join("journal.jsonl");
    // One after the third line, so that this was not just torn.
    owner.append(Time::from_millis(2000), 1, &Entry::Close { state: SagaState::Ready }).await.unwrap();
    fs::write(&path, fs::read_to_string(&path).unwrap().replacen("Ready", "Keady", 1)).unwrap();
    assert!(matches!(deployments.salvage(&id), Err(JournalError::Locked { .. })), "somebody works on it");
    drop(owner);
    let salvage = deployments.salvage(&id).unwrap().unwrap();
    assert_eq!((salvage.lines.len(), salvage.damage.line, salvage.is_placed), (3, 3, true));
    assert_eq!(salvage.known.saga.order().server_name, "demo");
    assert!(matches!(deployments.salvage(&id), Err(JournalError::Locked { .. })), "it is taken");
    let aside = deployments.set_aside(salvage).unwrap();
    assert!(aside.join("journal.jsonl").exists() && !deployments.place(&id).exists());
    assert!(deployments.find("demo").unwrap().is_none() && deployments.all().unwrap().1.is_empty());
    let again = begun(&deployments, "a", "demo", 1000, SagaState::Ready).await;
    let path = deployments.place(&again).join("journal.jsonl");
    fs::write(&path, fs::read_to_string(&path).unwrap().replace("\"crc\":\"", "\"crc\":\"0")).unwrap();
    let salvage = deployments.salvage(&again).unwrap().unwrap();
    assert_eq!((salvage.lines.len(), salvage.is_placed), (0, false), "whose project it was is not known");
    assert_ne!(deployments.set_aside(salvage).unwrap(), aside, "the first one stays as it is");
}
