//! How long artifacts stay and how many a tenant may have, with a store in memory and files in a temporary folder.

use std::sync::Arc;
use std::time::Duration;

use orlop_cloud::artifact::UploadStore;
use orlop_core::error::Problem;
use orlop_core::id::{Epoch, JobId, TenantName};
use orlop_core::machine::job::JobState;
use orlop_core::ports::fleet_store::{
    ArtifactLink, Document as _, Documents as _, FleetStore as _, Kind, Record, Retention,
};
use orlop_core::task::TaskRef;
use orlop_core::testing::fleet_store::MemoryFleet;
use orlop_scheduler::event::Quota;
use serde_json::json;

use super::super::tests::fixture::{Fixture, spec, tenant, until};
use super::super::{Batch, Options, Status, Submission};
use super::retain::Swept;
use super::{Beginning, Code, Stored, named};

const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

struct World {
    fixture: Fixture,
    backend: UploadStore,
    folder: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let backend = UploadStore::open(folder.path()).unwrap();
        let options = Options { artifacts: Some(Arc::new(backend.clone())), ..Options::default() };
        Self { fixture: Fixture::with(MemoryFleet::new(), options).await, backend, folder }
    }

    async fn begin(&self, name: &str, bytes: u64) -> Result<String, Problem> {
        let asked = Beginning { name: name.to_owned(), bytes, ..Beginning::default() };
        Ok(self.fixture.handle().begin_upload(&tenant(), asked).await?.upload_id)
    }

    async fn upload(&self, name: &str) {
        let (handle, sees) = (self.fixture.handle(), |_: &TenantName| true);
        let id = self.begin(name, 5).await.unwrap();
        handle.add_to_upload(sees, &id, 0, "hello".into()).await.unwrap();
        handle.end_upload(sees, &id, HELLO).await.unwrap();
    }

    /// Submits a job with the artifact of a name as its input.
    async fn refer(&self, name: &str) -> Result<JobId, Problem> {
        let mut spec = spec(&json!({ "artifacts_in": [{ "name": name, "path": "in" }] }));
        self.fixture.handle().pin_inputs(&tenant(), &mut spec, "").await?;
        let jobs = vec![Submission::of(&spec, &tenant(), None).unwrap()];
        Ok(self.fixture.handle().submit(Batch { jobs, once: None }).await?.jobs[0])
    }

    /// Has a job end, and be as old as what is deleted.
    async fn forget(&self, job: JobId) {
        self.fixture.handle().cancel(job, Vec::new()).await.unwrap();
        self.fixture.reaches(job, JobState::Cancelled).await;
        let Status::Leading { epoch } = self.fixture.handle().status() else { panic!("it leads") };
        let now = self.fixture.handle().clock().wall();
        let policy = Retention { now, jobs_before: now.plus(DAY), audit_before: now, batch: 100 };
        self.fixture.store.retain(epoch, &policy).await.unwrap();
    }

    async fn walk(&self) -> Swept {
        self.fixture.handle().retain_artifacts(DAY).await.unwrap()
    }

    async fn stored(&self) -> Option<Stored> {
        self.fixture.store.get(HELLO).await.unwrap()
    }

    fn there(&self) -> bool {
        self.backend.read(HELLO).unwrap().is_some()
    }

    async fn name(&self) -> Option<ArtifactLink> {
        self.fixture.store.get(&named(&tenant(), "greeting", "").key()).await.unwrap()
    }
}

#[tokio::test]
async fn an_upload_is_given_up_when_it_rests_and_not_while_it_goes_on() {
    let world = World::new().await;
    let (handle, sees) = (world.fixture.handle(), |_: &TenantName| true);
    let id = world.begin("greeting", 5).await.unwrap();
    for (offset, piece) in (0..).zip(["h", "e", "l", "l"]) {
        world.fixture.pass(20 * HOUR);
        handle.add_to_upload(sees, &id, offset, piece.into()).await.unwrap();
        assert_eq!(world.walk().await, Swept::default());
    }
    // Who asks how far it is goes on with it too.
    world.fixture.pass(20 * HOUR);
    let name = "greeting".to_owned();
    let asked = Beginning { name, bytes: 5, upload: Some(id.clone()), ..Beginning::default() };
    assert_eq!(handle.begin_upload(&tenant(), asked).await.unwrap().committed, 4);
    world.fixture.pass(20 * HOUR);
    assert_eq!(world.walk().await, Swept::default());
    world.fixture.pass(4 * HOUR);
    assert_eq!(world.walk().await, Swept { uploads: 1, ..Swept::default() });
    assert_eq!(handle.add_to_upload(sees, &id, 4, "o".into()).await.unwrap_err().code, Code::NotFound);
}

#[tokio::test]
async fn an_artifact_stays_a_day_after_the_last_job_that_refers_to_it() {
    let world = World::new().await;
    world.upload("greeting").await;
    let job = world.refer("greeting").await.unwrap();
    assert_eq!(world.walk().await, Swept::default());
    assert_eq!(world.stored().await.unwrap().unreferenced_at, None, "a job refers to it");
    world.fixture.pass(30 * DAY);
    assert_eq!(world.walk().await, Swept::default());
    world.forget(job).await;
    assert_eq!(world.walk().await, Swept { links: 1, ..Swept::default() }, "its day begins");
    world.fixture.pass(DAY - HOUR);
    assert_eq!(world.walk().await, Swept::default());
    assert!(world.there() && world.name().await.is_some());
    world.fixture.pass(HOUR);
    assert_eq!(world.walk().await, Swept { artifacts: 1, bytes: 5, ..Swept::default() });
    assert!(!world.there() && world.stored().await.is_none());
    assert!(world.name().await.is_none(), "its name leads nowhere");
    let refused = world.refer("greeting").await.unwrap_err();
    assert_eq!(refused.code, Code::InvalidSpec, "{refused}");
    // As new it is sent again.
    world.upload("greeting").await;
    assert!(world.there());
}

#[tokio::test]
async fn a_name_that_leads_elsewhere_by_now_stays() {
    let world = World::new().await;
    world.upload("greeting").await;
    world.fixture.pass(DAY);
    let links = world.fixture.handle().links().await.unwrap();
    let other = named(&tenant(), "greeting", &"0".repeat(64));
    world.fixture.handle().put(vec![Record::put(&other).unwrap()]).await.unwrap();
    let (now, mut swept) = (world.fixture.handle().clock().wall(), Swept::default());
    world.fixture.handle().settle(HELLO, false, now, DAY, &links, &mut swept).await.unwrap();
    assert_eq!((swept.artifacts, world.name().await), (1, Some(other)));
}

#[tokio::test]
async fn what_is_stored_again_or_submitted_with_during_a_walk_stays() {
    for again in [true, false] {
        let world = World::new().await;
        world.upload("greeting").await;
        world.fixture.pass(2 * DAY);
        // What the walk has read is old when it comes to the artifact.
        let links = world.fixture.handle().links().await.unwrap();
        if again {
            world.upload("greeting").await;
        } else {
            world.refer("greeting").await.unwrap();
        }
        let (now, mut swept) = (world.fixture.handle().clock().wall(), Swept::default());
        world.fixture.handle().settle(HELLO, false, now, DAY, &links, &mut swept).await.unwrap();
        assert_eq!((swept, world.there()), (Swept::default(), true), "again: {again}");
        assert!(world.stored().await.is_some());
    }
}

#[tokio::test]
async fn what_a_crash_has_left_goes() {
    let world = World::new().await;
    world.upload("greeting").await;
    // The file went, its document did not: it does not keep others from sending it.
    world.backend.remove(HELLO).unwrap();
    assert_eq!(world.walk().await, Swept { orphans: 1, ..Swept::default() });
    assert!(world.stored().await.is_none());
    world.upload("greeting").await;
    // The document went, its file did not; and the file of an upload without a document.
    let handle = world.fixture.handle();
    handle.put(vec![Record::Delete(Kind::Artifact, HELLO.to_owned())]).await.unwrap();
    world.backend.begin("lost").unwrap();
    assert_eq!(world.walk().await, Swept { orphans: 2, ..Swept::default() });
    assert!(!world.there() && world.backend.uploads().unwrap().is_empty());
}

#[tokio::test]
async fn an_upload_that_rests_is_given_up() {
    let world = World::new().await;
    let (handle, sees) = (world.fixture.handle(), |_: &TenantName| true);
    let id = world.begin("greeting", 5).await.unwrap();
    handle.add_to_upload(sees, &id, 0, "hel".into()).await.unwrap();
    world.fixture.pass(DAY);
    assert_eq!(world.walk().await, Swept { uploads: 1, ..Swept::default() });
    assert_eq!(handle.add_to_upload(sees, &id, 3, "lo".into()).await.unwrap_err().code, Code::NotFound);
    assert!(world.backend.uploads().unwrap().is_empty());
    assert_eq!(handle.artifact_bytes().await.unwrap().get(&tenant()), Some(&0));
}

#[tokio::test]
async fn a_server_without_artifacts_walks_nowhere() {
    let fixture = Fixture::new().await;
    assert_eq!(fixture.handle().retain_artifacts(DAY).await.unwrap(), Swept::default());
    assert!(fixture.handle().artifact_bytes().await.unwrap().is_empty());
}

/// Gives the tenant limits.
async fn limit(fixture: &Fixture, quota: Quota) {
    fixture.handle().set_tenant(tenant(), None, Some(quota.clone())).await.unwrap();
    let handle = fixture.handle();
    // Snapshots of the fleet are made now and then.
    fixture.pass(Duration::from_secs(1));
    let known = async || handle.snapshot().tenants.get(&tenant()).is_some_and(|known| known.quota == quota);
    until("the quota", async || known().await.then_some(())).await;
}

#[tokio::test]
async fn chunks_beyond_max_artifact_bytes_are_refused() {
    let mut world = World::new().await;
    limit(&world.fixture, Quota { max_artifact_bytes: Some(12), ..Quota::default() }).await;
    world.upload("greeting").await;
    world.upload("other").await;
    let sees = |_: &TenantName| true;
    let used = async |world: &World| world.fixture.handle().artifact_bytes().await.unwrap()[&tenant()];
    assert_eq!(used(&world).await, 5, "the same content is stored once");
    let refused = world.begin("large", 8).await.unwrap_err();
    let quota = refused.details().quota.clone().unwrap();
    assert_eq!(
        (refused.code, quota.name.as_str(), quota.limit, quota.used),
        (Code::QuotaExceeded, "max_artifact_bytes", 12, 13)
    );
    // Two that fit one by one do not fit together.
    let (one, two) = (world.begin("one", 6).await.unwrap(), world.begin("two", 6).await.unwrap());
    let handle = world.fixture.handle();
    assert_eq!(handle.add_to_upload(sees, &one, 0, "abcdef".into()).await.unwrap(), 6);
    assert_eq!(handle.add_to_upload(sees, &two, 0, "ab".into()).await.unwrap_err().code, Code::QuotaExceeded);
    // Of others nothing is taken.
    let asked = Beginning { name: "x".into(), bytes: 100, ..Beginning::default() };
    handle.begin_upload(&"chemistry".parse().unwrap(), asked).await.unwrap();
    // The next server counts the same.
    world.fixture.crash();
    world.fixture.start().await;
    assert_eq!(used(&world).await, 11);
    // What is not what was announced is gone, and counts no more.
    let handle = world.fixture.handle();
    assert_eq!(handle.end_upload(sees, &one, HELLO).await.unwrap_err().code, Code::Checksum);
    assert_eq!(used(&world).await, 5);
    handle.add_to_upload(sees, &two, 0, "ab".into()).await.unwrap();
}

#[tokio::test]
async fn the_log_of_a_job_is_no_longer_than_its_tenant_may_have_it() {
    let fixture = Fixture::new().await;
    limit(&fixture, Quota { max_log_bytes_per_job: Some(4096), ..Quota::default() }).await;
    let mut spec = spec(&json!({ "log": { "limit": "1Mi", "on_full": "fail" } }));
    fixture.handle().complete(&tenant(), &mut spec);
    assert_eq!(spec.log.limit, 4096);
    spec.log.limit = 100;
    fixture.handle().complete(&tenant(), &mut spec);
    assert_eq!(spec.log.limit, 100, "less is fine");
}

#[tokio::test]
async fn a_name_under_which_several_jobs_left_different_files_is_refused_until_they_are_gone() {
    const WORLD: &str = "486ea46224d1bb4fb680f34f7c9ad96a8f24ec88be73ea8e5a6c65260e9cb8a7";
    let world = World::new().await;
    let (handle, sees) = (world.fixture.handle(), |_: &TenantName| true);
    let leave = async |job: JobId, index: u32, content: &'static str, sha256: &str| {
        let attempt = Some(TaskRef { job, index, member: 0, attempt: 1, epoch: Epoch(1) });
        let asked =
            Beginning { name: "out".to_owned(), bytes: 5, sha256: None, attempt, upload: None, executable: false };
        let id = handle.begin_upload(&tenant(), asked).await.unwrap().upload_id;
        handle.add_to_upload(sees, &id, 0, content.into()).await.unwrap();
        handle.end_upload(sees, &id, sha256).await.unwrap();
    };
    world.upload("greeting").await;
    let (one, two) = (world.refer("greeting").await.unwrap(), world.refer("greeting").await.unwrap());
    leave(one, 0, "hello", HELLO).await;
    leave(two, 0, "hello", HELLO).await;
    world.refer("out").await.unwrap();
    leave(two, 3, "world", WORLD).await;
    let refused = world.refer("out").await.unwrap_err();
    let text = &refused.fields[0].message;
    assert!(refused.code == Code::InvalidSpec && text.contains(&format!("{two}.3/out, {two}.0/out")), "{text}");
    // What one attempt left in place of another is not two things.
    leave(two, 3, "hello", HELLO).await;
    world.refer("out").await.unwrap();
    leave(one, 0, "world", WORLD).await;
    assert!(world.refer("out").await.is_err());
    world.forget(one).await;
    world.refer("out").await.unwrap();
}

#[test]
fn digests_are_compared_by_their_numbers() {
    let stored = |sha256: &str| super::retain::number(sha256);
    assert_ne!(stored(HELLO), stored(&HELLO.replace('2', "3")));
    assert_eq!(stored("short"), None);
    assert_eq!(stored(&"x".repeat(64)), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_whose_content_is_compared_holds_up_no_other() {
    let world = World::new().await;
    let slow = world.begin("slow", 0).await.unwrap();
    // A pipe without a writer is a file that takes for ever to read.
    let file = world.folder.path().join("uploads").join(&slow);
    std::fs::remove_file(&file).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
    let handle = world.fixture.handle();
    let ending = tokio::spawn(async move { handle.end_upload(|_| true, &slow, HELLO).await });
    let others = async { world.upload("other").await };
    tokio::time::timeout(Duration::from_secs(30), others).await.expect("nobody waits for the slow one");
    let writer = tokio::task::spawn_blocking(move || std::fs::OpenOptions::new().write(true).open(file).unwrap());
    assert!(ending.await.unwrap().is_err(), "a pipe is no upload");
    drop(writer.await.unwrap());
}
