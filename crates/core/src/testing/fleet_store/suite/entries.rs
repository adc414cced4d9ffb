//! Checks of documents.

use super::{at, lead, tenant, worker, write};
use crate::id::{Epoch, Incarnation, SessionId};
use crate::machine::worker::WorkerState;
use crate::ports::fleet_store::{
    Approval, Artifact, ArtifactLink, Document, Documents as _, Entry, EntryFilter, FleetFlow, FleetStore, FlowStep,
    Kind, Page, Pipeline, Record, Secret, Session, SessionGrant, SessionLink, Tenant, Token, Upload, Worker,
};
use crate::testing::suite::{CheckResult, same};

fn entry(key: &str, of: Option<&str>, ended: Option<i64>) -> Entry {
    let body = format!("{{\"key\":\"{key}\"}}").into();
    Entry { kind: Kind::Flow, key: key.to_owned(), tenant: of.map(tenant), ended_at: ended.map(at), body }
}

fn put(entry: Entry) -> Record {
    Record::Put(Box::new(entry))
}

pub(super) async fn documents_come_back_and_are_replaced<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = lead(store).await?;
    let first = entry("a/'\u{1f980}", Some("t"), None);
    write(store, epoch, vec![put(first.clone())]).await?;
    same("the document", &store.entry(Kind::Flow, &first.key).await?, &Some(first.clone()))?;
    same("that of another kind", &store.entry(Kind::Pipeline, &first.key).await?, &None)?;
    let later = Entry { ended_at: Some(at(3)), tenant: None, body: "[]".into(), ..first.clone() };
    write(store, epoch, vec![put(first), put(later.clone())]).await?;
    same("the later document", &store.entry(Kind::Flow, &later.key).await?, &Some(later))
}

pub(super) async fn documents_are_listed_by_prefix_tenant_and_life<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = lead(store).await?;
    let all = [
        entry("a/1", Some("t"), None),
        entry("a/2", Some("u"), Some(5)),
        entry("a%/3", Some("t"), None),
        entry("B/1", None, None),
        entry("b/1", Some("t"), Some(9)),
    ];
    write(store, epoch, all.iter().cloned().map(put).collect()).await?;
    let any = EntryFilter::default;
    let cases = [
        (any(), vec!["B/1", "a%/3", "a/1", "a/2", "b/1"]),
        (EntryFilter { prefix: "a/".to_owned(), ..any() }, vec!["a/1", "a/2"]),
        (EntryFilter { prefix: "a%".to_owned(), ..any() }, vec!["a%/3"]),
        (EntryFilter { tenants: Some(vec![tenant("t")]), ..any() }, vec!["a%/3", "a/1", "b/1"]),
        (EntryFilter { live: true, ..any() }, vec!["B/1", "a%/3", "a/1"]),
        (EntryFilter { tenants: Some(vec![tenant("u")]), live: true, ..any() }, vec![]),
    ];
    for (filter, wanted) in cases {
        let page = store.entries(Kind::Flow, &filter, &Page::first(9)).await?;
        same(
            &format!("the list of {filter:?}"),
            &page.items.iter().map(|entry| entry.key.as_str()).collect(),
            &wanted,
        )?;
    }
    let page = store.entries(Kind::Flow, &any(), &Page::after("a%/3".to_owned(), 2)).await?;
    same("a page", &page.items.iter().map(|entry| entry.key.as_str()).collect(), &vec!["a/1", "a/2"])?;
    same("its cursor", &page.next, &Some("a/2".to_owned()))
}

pub(super) async fn deleting_a_document_twice_is_fine<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = lead(store).await?;
    let gone = || Record::Delete(Kind::Flow, "a".to_owned());
    write(store, epoch, vec![put(entry("a", None, None)), put(entry("b", None, None))]).await?;
    write(store, epoch, vec![gone()]).await?;
    write(store, epoch, vec![gone()]).await?;
    same("the document", &store.entry(Kind::Flow, "a").await?, &None)?;
    write(store, epoch, vec![gone(), put(entry("a", None, None))]).await?;
    same("one put after", &store.entry(Kind::Flow, "a").await?, &Some(entry("a", None, None)))?;
    write(store, epoch, vec![put(entry("b", None, Some(1))), Record::Delete(Kind::Flow, "b".to_owned())]).await?;
    same("one deleted after", &store.entry(Kind::Flow, "b").await?, &None)
}

async fn round<S: FleetStore, D: Document + Clone + PartialEq + std::fmt::Debug>(
    store: &S,
    epoch: crate::id::Epoch,
    document: &D,
) -> CheckResult {
    write(store, epoch, vec![Record::put(document)?]).await?;
    same("the document", &store.get::<D>(&document.key()).await?.as_ref(), &Some(document))?;
    let page = store.list::<D>(&EntryFilter::default(), &Page::first(2)).await?;
    same("the list", &page.items, &vec![document.clone()])
}

async fn typed_sessions<S: FleetStore>(store: &S, epoch: Epoch) -> CheckResult {
    let grant = SessionGrant {
        token: Some("i/1".to_owned()),
        role: "viewer".to_owned(),
        tenants: vec!["*".to_owned()],
        token_expires_at: Some(at(1)),
    };
    let session = Session {
        id: "i/1".to_owned(),
        cookie: vec![1, 2],
        proof: vec![3],
        grant: grant.clone(),
        created_at: at(0),
        used_at: at(0),
        expires_at: at(1),
    };
    round(store, epoch, &session).await?;
    round(store, epoch, &SessionLink { hash: vec![0, 255], grant, expires_at: at(1) }).await
}

pub(super) async fn every_typed_document_comes_back<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = lead(store).await?;
    let mut machine = Worker::new(worker("w1"), Incarnation::FIRST, WorkerState::Available, at(0));
    machine.session = Some(SessionId::from_bytes([7; 16]));
    machine.labels.insert("zone".to_owned(), "a".to_owned());
    machine.capabilities = serde_json::json!({ "cpu_m": 8000 });
    round(store, epoch, &machine).await?;
    round(store, epoch, &Tenant::new(tenant("t"))).await?;
    let (t, name, id) = (tenant("t"), "n".to_owned(), "i/1".to_owned());
    let token = Token {
        id: id.clone(),
        hash: vec![1, 2, 255],
        kind: "access".to_owned(),
        role: "viewer".to_owned(),
        tenants: vec!["*".to_owned()],
        labels: Vec::new(),
        note: String::new(),
        created_at: at(0),
        expires_at: Some(at(1)),
        uses_left: Some(3),
        revoked_at: None,
    };
    round(store, epoch, &token).await?;
    typed_sessions(store, epoch).await?;
    let (key_id, nonce, ciphertext) = ("k1".to_owned(), vec![0; 12], vec![9, 8]);
    let sealed =
        Secret { tenant: t.clone(), name: name.clone(), version: 1, key_id, nonce, ciphertext, created_at: at(0) };
    round(store, epoch, &sealed).await?;
    let definition = serde_json::json!({ "steps": [] });
    let (tenant, created_at) = (t.clone(), at(0));
    let pipeline =
        Pipeline { id: id.clone(), tenant, name: name.clone(), version: 2, definition, created_at, deleted_at: None };
    round(store, epoch, &pipeline).await?;
    let flow = FleetFlow {
        id: id.clone(),
        tenant: t.clone(),
        name: name.clone(),
        pipeline: Some((id.clone(), 2)),
        phase: "Running".to_owned(),
        engine: serde_json::json!([1]),
        revision: 4,
        created_at: at(0),
        ended_at: None,
    };
    round(store, epoch, &flow).await?;
    let (flow, step, phase) = (id.clone(), "s".to_owned(), "Running".to_owned());
    let job = Some(super::id(4));
    round(store, epoch, &FlowStep { flow, step, phase, reason: String::new(), job, ended_at: None }).await?;
    let (flow, step, who, decision) = (id.clone(), "s".to_owned(), "me".to_owned(), "approve".to_owned());
    round(store, epoch, &Approval { flow, step, who, when: at(1), decision, ended_at: Some(at(2)) }).await?;
    let sha256 = "ab".repeat(32);
    round(
        store,
        epoch,
        &Artifact { sha256: sha256.clone(), bytes: 5, refs: 1, unreferenced_at: None, tenants: [t.clone()].into() },
    )
    .await?;
    let (job, left_by) = (super::id(4), Vec::new());
    round(store, epoch, &ArtifactLink { job, name, sha256, tenant: t.clone(), left_by, executable: true }).await?;
    let (expires_at, name, left_by) = (at(9), "n".to_owned(), Some((super::id(4), 7)));
    round(store, epoch, &Upload { id, tenant: t, received: 1, total: 2, expires_at, name, left_by, executable: true })
        .await
}
