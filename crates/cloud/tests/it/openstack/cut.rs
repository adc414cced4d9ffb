//! A sample of faults against real services: answers cut off after the effect, requests that never arrive, and the death of
//! whoever asks. Afterwards there is one of each, or nothing, and destroying leaves nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use orlop_cloud::openstack::wire::{Lost, Response, Sent, Transport};
use orlop_cloud::provision::drive::{apply, take_up};
use orlop_cloud::provision::journal::MemoryJournal;
use orlop_cloud::provision::order::Order;
use orlop_cloud::provision::saga::Event;
use orlop_core::machine::saga::SagaState;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::services::{FastClock, Services, assert_nothing, hands, order};

/// What is done to one request.
#[derive(Debug, Clone, Copy)]
enum Cut {
    /// It is done, and its answer is lost.
    Answer,
    /// It never arrives.
    Request,
    /// It is done, and an error of the way comes back.
    Gateway,
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

fn is_create(sent: &Sent) -> bool {
    let path = sent.request.path.as_str();
    let made = ["/os-keypairs", "/leases", "/servers", "/floatingips"];
    sent.request.method == orlop_cloud::openstack::wire::Method::Post && made.contains(&path)
}

#[async_trait]
impl Transport for Cutter {
    async fn send(&self, sent: &Sent) -> Result<Response, Lost> {
        let number = if is_create(sent) { Some(self.creates.fetch_add(1, Ordering::Relaxed)) } else { None };
        let Some((_, cut)) = self.cut.filter(|(at, _)| Some(*at) == number) else { return self.inner.send(sent).await };
        match cut {
            Cut::Request => return Err(Lost::Timeout),
            Cut::Busy => return Ok(Response { status: 429, body: "{}".to_owned(), ..Response::default() }),
            Cut::Death => self.die().await,
            _ => {}
        }
        let done = self.inner.send(sent).await?;
        match cut {
            Cut::Gateway => Ok(Response { status: 502, body: "<html>".to_owned(), ..done }),
            Cut::Half => Ok(Response { body: done.body.chars().take(done.body.len() / 2).collect(), ..done }),
            Cut::DeathAfter => self.die().await,
            _ => Err(Lost::Broken),
        }
    }
}

/// How many times faster than real ones the clocks of deployments run here.
const FASTER: u32 = 40;

async fn one(services: &Services, order: &Order, cut: Option<(usize, Cut)>, destroy: bool) -> SagaState {
    let what = format!("{cut:?}, destroy {destroy}");
    let died = Arc::new(Notify::new());
    let cutter = |inner| Cutter { inner, cut, creates: AtomicUsize::new(0), died: Arc::clone(&died) };
    let wrap = |inner| Arc::new(cutter(inner)) as Arc<dyn Transport>;
    let (cloud, _) = services.open("tester", wrap);
    let journal = MemoryJournal::default();
    let clock = Arc::new(FastClock::new(FASTER));
    let first = hands(cloud, Arc::new(journal.clone()), clock);
    let applied = tokio::select! {
        applied = timeout(Duration::from_secs(120), apply(&first, order.clone(), "nonce", Vec::new())) => {
            Some(applied.unwrap_or_else(|_| panic!("{what}: apply takes too long")).unwrap())
        }
        () = died.notified() => None,
    };
    // Whoever died is followed by another, on a way that is not cut.
    let (cloud, _) = services.open("tester", |transport| transport);
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
    let destroyed = destroyed.unwrap_or_else(|_| panic!("{what}: destroy takes too long")).unwrap().unwrap();
    assert_eq!((destroyed.state(), destroyed.failure()), (SagaState::Destroyed, None), "{what}");
    assert_nothing(&cloud, order, &what).await;
    state
}

#[tokio::test(flavor = "multi_thread")]
async fn creates_that_are_cut_off_complete_or_leave_nothing() {
    let Some(services) = Services::find().await else { return };
    let (cloud, _) = services.open("tester", |transport| transport);
    let cuts = [Cut::Answer, Cut::Request, Cut::Gateway, Cut::Half, Cut::Busy];
    let mut runs = 0;
    for round in 0..2 {
        for number in 0..4 {
            for cut in cuts {
                let order = order(&cloud, &format!("orlop-cut-{round}-{number}"), "compute_haswell").await;
                assert_eq!(
                    one(&services, &order, Some((number, cut)), false).await,
                    SagaState::Ready,
                    "{number} {cut:?}"
                );
                runs += 1;
            }
            for cut in [Cut::Death, Cut::DeathAfter] {
                for destroy in [false, true] {
                    let order = order(&cloud, &format!("orlop-die-{round}-{number}"), "compute_haswell").await;
                    one(&services, &order, Some((number, cut)), destroy).await;
                    runs += 1;
                }
            }
        }
        if std::env::var_os("ORLOP_TEST_LONG").is_none() {
            break;
        }
    }
    println!("{runs} runs with a create cut off");
}
