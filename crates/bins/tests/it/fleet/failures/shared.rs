//! Kills of a server that keeps its books in PostgreSQL and tells of jobs over NATS: a schema and a NATS server of the test's
//! own. Owns both for as long as it runs, and the reckoning of what was told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use orlop::cloud::bus::nats::{NatsBus, NatsOptions};
use orlop::core::ports::bus::{Delivery, EventBus as _, SubjectFilter};

use super::super::lead::database;
use super::super::nats::{free, nats};
use super::super::programs::{Programs, Running, until};
use super::kills::{Books, Done, Victim, killed_at_full_load, reckon_by_asking};

#[test]
fn a_server_on_postgresql_and_nats_that_is_killed_at_full_load_loses_nothing_and_tells_every_end_once() {
    // Whoever comes after one that was killed waits for its term to run out: ten seconds each time.
    if let Some(shared) = Shared::new("kills") {
        killed_at_full_load(Victim::Server, shared);
    }
}

#[test]
fn of_two_servers_the_one_that_leads_is_killed_at_full_load_and_the_other_loses_nothing() {
    if let Some(shared) = Shared::new("takeovers") {
        killed_at_full_load(Victim::Leader, shared);
    }
}

/// See the module.
struct Shared {
    args: Vec<String>,
    bus: String,
    heard: Option<Heard>,
    _nats: Running,
    _files: Programs,
}

impl Shared {
    /// None, and said so, where one of the two is not here.
    fn new(name: &str) -> Option<Self> {
        let [url, schema] = database(name)?;
        let files = Programs::new();
        let (port, monitor) = (free(), free());
        let nats = nats(&files, port, monitor)?;
        until("the NATS server", || std::net::TcpStream::connect(("127.0.0.1", port)).ok().map(drop));
        let bus = format!("nats://127.0.0.1:{port}");
        let args = vec![url, schema, format!("--bus-url={bus}")];
        Some(Self { args, bus, heard: None, _nats: nats, _files: files })
    }

    /// Listens to events of jobs from now on.
    fn listen(&self) -> Heard {
        let (bus, known, stop) = (self.bus.clone(), EventsById::default(), Arc::new(AtomicBool::new(false)));
        let (ready, is_ready) = mpsc::channel();
        let (ours, ending) = (Arc::clone(&known), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let bus = NatsBus::open(NatsOptions::new(&bus, "orlop")).await.expect("the bus is there");
                let filter = SubjectFilter::new("orlop.events.job.>").expect("a filter");
                let mut heard = bus.subscribe(filter).await.expect("it is heard");
                ready.send(()).expect("somebody waits");
                while !ending.load(Ordering::SeqCst) {
                    let wait = std::time::Duration::from_millis(100);
                    let Ok(next) = tokio::time::timeout(wait, heard.next()).await else { continue };
                    let Some(Delivery::Event(event)) = next else { panic!("the bus stays: {next:?}") };
                    let body: serde_json::Value = serde_json::from_str(&event.body).expect("JSON");
                    let verb = event.subject.rsplit('.').next().expect("a verb").to_owned();
                    let job = body["job"].as_str().expect("a job").to_owned();
                    ours.lock().expect("nobody panicked").insert(event.id, (job, verb));
                }
            });
        });
        is_ready.recv().expect("it listens");
        Heard { known, stop, thread }
    }
}

impl Books for Shared {
    fn args(&self) -> Vec<String> {
        self.args.clone()
    }

    fn begin(&mut self) {
        self.heard = Some(self.listen());
    }

    fn reckon_while_it_runs(&self, rest: &str, done: &Done<'_>) {
        reckon_by_asking(rest, done);
    }

    fn reckon(self, _: &Programs, done: &Done<'_>) {
        self.heard.expect("it listened from the beginning").check(done.acknowledged);
    }
}

/// Jobs and verbs by the ids of events: what comes again under the same id is the same event.
type EventsById = Arc<Mutex<BTreeMap<u64, (String, String)>>>;

/// What is heard of jobs.
struct Heard {
    known: EventsById,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Heard {
    /// That each of these jobs, and no other, was told to have been created and to have ended well, once each and in this
    /// order.
    fn check(self, jobs: &BTreeSet<String>) {
        let of = |wanted: &str| -> BTreeMap<String, Vec<u64>> {
            let known = self.known.lock().expect("nobody panicked");
            let mut ids: BTreeMap<String, Vec<u64>> = BTreeMap::new();
            for (id, (job, _)) in known.iter().filter(|(_, (_, verb))| verb == wanted) {
                ids.entry(job.clone()).or_default().push(*id);
            }
            ids
        };
        until("the events of all ends", || (of("completed").len() >= jobs.len()).then_some(()));
        self.stop.store(true, Ordering::SeqCst);
        let (created, completed) = (of("created"), of("completed"));
        self.thread.join().expect("it listened to the end");
        for reported in [&created, &completed] {
            assert!(reported.keys().eq(jobs.iter()), "{} of {} jobs", reported.len(), jobs.len());
            let again: Vec<_> = reported.iter().filter(|(_, ids)| ids.len() != 1).collect();
            assert!(again.is_empty(), "told more than once: {again:?}");
        }
        assert!(created.iter().all(|(job, ids)| ids[0] < completed[job][0]), "the beginning comes before the end");
    }
}
