//! A sample of faults against real services: answers cut off after the effect, requests that never arrive, and the death of
//! whoever asks or writes the journal. Afterwards there is one of each, or nothing, and destroying leaves nothing that an
//! administrator sees.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use orlop_cloud::openstack::wire::{Lost, Response, Sent, Transport};
use orlop_cloud::provision::drive::{apply, take_up};
use orlop_cloud::provision::journal::{Entry, Journal, JournalError, Line, MemoryJournal};
use orlop_cloud::provision::order::DeploymentOrder;
use orlop_cloud::provision::saga::Event;
use orlop_cloud::testing::openstack::{Census, RealServices};
use orlop_core::machine::saga::SagaState;
use orlop_core::time::Time;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::services::{FastClock, assert_nothing, assert_unchanged, cloud_as, find, hands, order};

/// What is done to one request.
#[derive(Debug, Clone, Copy)]
enum Cut {
    /// It is done, and its answer is lost.
    Answer,
    /// It never arrives.
    Request,
    /// It is done, and an error of the service comes back.
    Failure,
    /// It is done, and an error of the way comes back.
    Gateway,
    /// It is refused for now.
    Away,
    /// It is done, and half of the answer comes back.
    Half,
    /// It is refused as too many.
    Busy,
    /// Whoever asks dies before.
    Death,
    /// It is done, and whoever asks dies.
    DeathAfter,
}

/// A way to the services that cuts the create of a number, from 0.
struct Cutter {
    inner: Arc<dyn Transport>,
    cut: Option<(usize, Cut)>,
    creates: AtomicUsize,
    died: Arc<Notify>,
}

impl Cutter {
    async fn die(&self) -> ! {
        self.died.notify_one();
        std::future::pending().await
    }
}

pub(super) fn is_create(sent: &Sent) -> bool {
    let path = sent.request.path.as_str();
    let made = ["/os-keypairs", "/leases", "/servers", "/floatingips"];
    sent.request.method == orlop_cloud::openstack::wire::Method::Post && made.contains(&path)
}

fn refused(status: u16) -> Response {
    Response { status, body: "{}".to_owned(), ..Response::default() }
}

#[async_trait]
impl Transport for Cutter {
    async fn send(&self, sent: &Sent) -> Result<Response, Lost> {
        let number = if is_create(sent) { Some(self.creates.fetch_add(1, Ordering::Relaxed)) } else { None };
        let Some((_, cut)) = self.cut.filter(|(at, _)| Some(*at) == number) else { return self.inner.send(sent).await };
        match cut {
            Cut::Request => return Err(Lost::Timeout),
            Cut::Busy => return Ok(refused(429)),
            Cut::Away => return Ok(refused(503)),
            Cut::Death => self.die().await,
            _ => {}
        }
        let done = self.inner.send(sent).await?;
        match cut {
            Cut::Gateway => Ok(Response { status: 502, body: "<html>".to_owned(), ..done }),
            Cut::Failure => Ok(Response { status: 500, body: "{}".to_owned(), ..done }),
            Cut::Half => Ok(Response { body: done.body.chars().take(done.body.len() / 2).collect(), ..done }),
            Cut::DeathAfter => self.die().await,
            _ => Err(Lost::Broken),
        }
    }
}

/// A journal whose writer dies before or after it has written the entry of a number, from 0.
struct Mortal {
    inner: MemoryJournal,
    dies: Option<(usize, bool)>,
    entries: AtomicUsize,
    died: Arc<Notify>,
}

#[async_trait]
impl Journal for Mortal {
    async fn lines(&self) -> Result<Vec<Line>, JournalError> {
        self.inner.lines().await
    }

    async fn append(&self, now: Time, attempt: u32, entry: &Entry) -> Result<(), JournalError> {
        let number = self.entries.fetch_add(1, Ordering::Relaxed);
        let after = self.dies.filter(|(at, _)| *at == number).map(|(_, after)| after);
        if after != Some(false) {
            self.inner.append(now, attempt, entry).await?;
        }
        if after.is_some() {
            self.died.notify_one();
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

/// What goes wrong in a deployment.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// A create of a number.
    Create(usize, Cut),
    /// Whoever writes the journal dies at an entry of a number: after it is written, or before.
    Entry(usize, bool),
}

/// Whether there is time for everything: every entry of a journal four times instead of once, 128 runs instead of 66 or so.
fn long() -> bool {
    std::env::var_os("ORLOP_TEST_LONG").is_some()
}

/// How many times faster than real ones the clocks of deployments run here.
const FASTER: u32 = 40;

async fn one(
    services: &RealServices,
    census: &Census,
    order: &DeploymentOrder,
    fault: Fault,
    destroy: bool,
) -> SagaState {
    let what = format!("{fault:?}, destroy {destroy}");
    let died = Arc::new(Notify::new());
    let (cut, dies) = match fault {
        Fault::Create(at, cut) => (Some((at, cut)), None),
        Fault::Entry(at, after) => (None, Some((at, after))),
    };
    let cutter = |inner| Cutter { inner, cut, creates: AtomicUsize::new(0), died: Arc::clone(&died) };
    let wrap = |inner| Arc::new(cutter(inner)) as Arc<dyn Transport>;
    let (cloud, _) = services.open("tester", wrap).unwrap();
    let journal = MemoryJournal::default();
    let mortal = Mortal { inner: journal.clone(), dies, entries: AtomicUsize::new(0), died: Arc::clone(&died) };
    let first = hands(cloud, Arc::new(mortal), Arc::new(FastClock::new(FASTER)));
    let applied = tokio::select! {
        applied = timeout(Duration::from_secs(120), apply(&first, order.clone(), "nonce", Vec::new())) => {
            Some(applied.unwrap_or_else(|_| panic!("{what}: apply takes too long")).unwrap())
        }
        () = died.notified() => None,
    };
    // Whoever died is followed by another, on a way that is not cut.
    let cloud = cloud_as(services, "tester");
    let second = hands(cloud.clone(), Arc::new(journal), Arc::new(FastClock::new(FASTER)));
    let mut saga = applied;
    if saga.is_none() && !destroy {
        let resumed = timeout(Duration::from_secs(120), take_up(&second, Event::Resume)).await;
        saga = resumed.unwrap_or_else(|_| panic!("{what}: resume takes too long")).unwrap();
    }
    let state = saga.as_ref().map_or(SagaState::Planned, orlop_cloud::provision::saga::Saga::state);
    if let Some(saga) = &saga {
        assert!(matches!(state, SagaState::Ready | SagaState::Failed), "{what}: {state} {:?}", saga.failure());
        let count = cloud.compute.servers(Some(order.id.as_str())).await.unwrap().len();
        let leases = cloud.reservations.leases().await.unwrap();
        let leases = leases.iter().filter(|lease| order.id.marks().lease_attempt(&lease.name).is_some()).count();
        let wanted = usize::from(state == SagaState::Ready);
        assert_eq!((count, leases), (wanted, wanted), "{what}: {state}");
    }
    let destroyed = timeout(Duration::from_secs(120), take_up(&second, Event::Destroy)).await;
    match destroyed.unwrap_or_else(|_| panic!("{what}: destroy takes too long")).unwrap() {
        Some(saga) => assert_eq!((saga.state(), saga.failure()), (SagaState::Destroyed, None), "{what}"),
        // Who dies before the plan is written has asked for nothing.
        None => assert!(matches!(fault, Fault::Entry(0, _) | Fault::Entry(1, false)), "{what}: no plan"),
    }
    assert_nothing(&cloud, order, &what).await;
    assert_unchanged(census, order, &what).await;
    state
}

/// Entries that the journal of a deployment has when nothing goes wrong.
async fn entries(services: &RealServices, census: &Census) -> usize {
    let cloud = cloud_as(services, "tester");
    let order = order(&cloud, "orlop-whole", "compute_haswell").await;
    let journal = MemoryJournal::default();
    let hands = hands(cloud, Arc::new(journal.clone()), Arc::new(FastClock::new(FASTER)));
    assert_eq!(apply(&hands, order.clone(), "nonce", Vec::new()).await.unwrap().state(), SagaState::Ready);
    let entries = journal.lines().await.unwrap().len();
    take_up(&hands, Event::Destroy).await.unwrap();
    assert_unchanged(census, &order, "without a fault").await;
    entries
}

#[tokio::test(flavor = "multi_thread")]
async fn creates_that_are_cut_off_complete_or_leave_nothing() {
    let Some(services) = find().await else { return };
    let census = Census::take(&services).await.unwrap();
    let cloud = cloud_as(&services, "tester");
    let cuts = [Cut::Answer, Cut::Request, Cut::Failure, Cut::Gateway, Cut::Away, Cut::Half, Cut::Busy];
    let deaths = [(Cut::Death, false), (Cut::DeathAfter, true), (Cut::Death, true), (Cut::DeathAfter, false)];
    let all = cuts.map(|cut| (cut, false)).into_iter().chain(deaths);
    let mut runs = 0;
    for (cut, destroy) in all {
        // Every fault at every create.
        for number in 0..4 {
            let order = order(&cloud, &format!("orlop-cut-{number}"), "compute_haswell").await;
            let state = one(&services, &census, &order, Fault::Create(number, cut), destroy).await;
            assert!(matches!(cut, Cut::Death | Cut::DeathAfter) || state == SagaState::Ready, "{number} {cut:?}");
            runs += 1;
        }
    }
    assert_eq!(runs, 44);
    println!("{runs} runs with a create cut off");
}

#[tokio::test(flavor = "multi_thread")]
async fn deaths_at_entries_of_the_journal_complete_or_leave_nothing() {
    let Some(services) = find().await else { return };
    let census = Census::take(&services).await.unwrap();
    let cloud = cloud_as(&services, "tester");
    let entries = entries(&services, &census).await;
    let mut runs = 0;
    for number in 0..entries {
        for (after, destroy) in [(false, true), (true, false), (false, false), (true, true)] {
            // Every second entry, before and after it, gone on with and given up in turns; in the long mode all of that.
            if long() || (number % 2 == usize::from(after) && destroy == (number % 4 < 2)) {
                let order = order(&cloud, &format!("orlop-entry-{number}"), "compute_haswell").await;
                one(&services, &census, &order, Fault::Entry(number, after), destroy).await;
                runs += 1;
            }
        }
    }
    assert!(runs >= entries, "{runs} runs with {entries} entries");
    println!("{runs} runs with a death at one of {entries} entries");
}
