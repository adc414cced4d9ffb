//! A fleet that has been busy for an hour: it is full, its queue is old, the clock moves, and workers are reserved; also with
//! time limits, with tenants at their quota, with heartbeats in between. Each state beside the same without reservations,
//! measured in turns.

use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_core::task::TaskRef;
use orlop_scheduler::event::{Event, Outcome, Quota};
use orlop_scheduler::token::WorkerKey;

use crate::curve::Report;
use crate::fleet::{Bench, TENANTS, take_sent};

/// How old the queue is when the measuring begins, in milliseconds: older than `reserve_after`.
const AGE: u64 = 20_000;
/// How many jobs wait.
const QUEUED: u64 = 100_000;
/// Pairs that are measured at a time, and how often.
const PAIRS: u64 = 4000;
const RUNS: u32 = 7;
const IDLE: u32 = 2000;

/// What a busy fleet has beside a full house and an old queue.
#[derive(Clone, Copy, Default)]
struct State {
    /// Jobs have time limits.
    limits: bool,
    /// Half of the tenants hold all that their quota allows.
    quotas: bool,
    /// A heartbeat comes with every end.
    heartbeats: bool,
}

/// A busy fleet.
struct Busy {
    bench: Bench,
    state: State,
    now: u64,
    sent: Vec<(TaskRef, WorkerKey)>,
    at: usize,
}

impl Busy {
    fn new(workers: u32, state: State, reservations: u32) -> Self {
        let mut bench = Bench::new(workers, TENANTS);
        // Nobody is silent or unaccepted for too long only because the benchmark does not say so.
        bench.configure(|config| {
            config.max_reservations = reservations;
            (config.heartbeat_timeout, config.reassign_after, config.fail_after) = (1 << 40, 1 << 40, 1 << 40);
            config.accept_timeout = 1 << 40;
        });
        if state.limits {
            for (number, spec) in (0_u64..).zip(&mut bench.specs) {
                Arc::make_mut(spec).timeout_ms = 60_000 * (1 + number % 59);
            }
        }
        bench.submit(u64::from(workers) * 40);
        let sent = bench.fill_and_list();
        bench.leave(QUEUED, &sent);
        let mut busy = Self { bench, state, now: AGE, sent, at: 0 };
        if state.quotas {
            busy.limit_tenants();
        }
        busy.start(0);
        // Reservations come to be, and caches and tables are warm.
        busy.idle(1);
        busy.pairs(PAIRS);
        busy
    }

    fn apply(&mut self, event: Event) {
        let taken = self.bench.scheduler.apply(self.now, event, &mut self.bench.effects);
        assert!(taken.is_ok(), "a benchmark breaks no rule");
    }

    /// Every second tenant may use as much as it does now.
    fn limit_tenants(&mut self) {
        let mut tenants: Vec<_> = self.bench.specs.iter().map(|spec| spec.tenant.clone()).collect();
        tenants.dedup();
        for tenant in tenants.into_iter().step_by(2) {
            let running = self.bench.scheduler.tenant(&tenant).map(|tenant| tenant.running);
            let quota = Quota { max_running_jobs: running, ..Quota::unlimited() };
            self.apply(Event::QuotaChanged { tenant, quota });
        }
    }

    /// What was sent from there on is accepted and has started.
    fn start(&mut self, from: usize) {
        for at in from..self.sent.len() {
            let Some((attempt, worker)) = self.sent.get(at).copied() else { return };
            self.apply(Event::Accepted { attempt, worker });
            self.apply(Event::Started { attempt, worker });
            self.bench.effects.clear();
        }
    }

    /// Ends of attempts, the oldest first, each followed by a round; the time of all of them.
    fn pairs(&mut self, pairs: u64) -> Duration {
        let before = self.sent.len();
        let begin = Instant::now();
        for _ in 0..pairs {
            let Some((attempt, worker)) = self.sent.get(self.at).copied() else { unreachable!("a full fleet") };
            self.at += 1;
            self.now += 1;
            if self.state.heartbeats {
                self.apply(Event::Heartbeat { worker });
            }
            self.apply(Event::Result { attempt, worker, outcome: Outcome::Succeeded, ran_ms: None });
            let _stats = self.bench.scheduler.round(self.now, u32::MAX, &mut self.bench.effects);
            if self.bench.effects.len() > 4000 {
                take_sent(&mut self.bench.effects, &mut self.sent);
            }
        }
        let time = begin.elapsed();
        take_sent(&mut self.bench.effects, &mut self.sent);
        // What was placed is submitted again, so that the queue keeps its length.
        self.bench.submit((self.sent.len() - before) as u64);
        self.start(before);
        time
    }

    /// Rounds in which nothing changed but the clock.
    fn idle(&mut self, rounds: u32) -> Duration {
        let begin = Instant::now();
        for _ in 0..rounds {
            self.now += 1;
            let _stats = self.bench.scheduler.round(self.now, u32::MAX, &mut self.bench.effects);
        }
        let time = begin.elapsed();
        take_sent(&mut self.bench.effects, &mut self.sent);
        time
    }
}

/// Measures a state on several fleets, with reservations and without; prints what each costs, and whether the target holds.
fn compare(report: &Report, title: &str, state: State, fleets: &[u32]) {
    if !report.wants(title) {
        return;
    }
    println!("\n{title} (at least 0.5x of the same without reservations; a round without news at most 5 µs)");
    println!(
        "{:>12} {:>9} {:>12} {:>12} {:>8} {:>12}",
        "workers", "reserved", "pair", "without", "ratio", "idle round"
    );
    let (fleets, runs, pairs) =
        if report.is_brief() { (fleets.get(..1).unwrap_or(fleets), 1, 100) } else { (fleets, RUNS, PAIRS) };
    let mut holds = true;
    for workers in fleets {
        let (mut with, mut without) = (Busy::new(*workers, state, 16), Busy::new(*workers, state, 0));
        let (mut best, mut idle) = ([f64::INFINITY; 2], f64::INFINITY);
        for _ in 0..runs {
            for (best, busy) in best.iter_mut().zip([&mut with, &mut without]) {
                *best = best.min(busy.pairs(pairs).as_secs_f64() * 1e9 / pairs as f64);
            }
            with.idle(1);
            idle = idle.min(with.idle(IDLE).as_secs_f64() * 1e9 / f64::from(IDLE));
        }
        let reserved = with.bench.scheduler.reservations().count();
        let ratio = best[1] / best[0];
        holds &= ratio >= 0.5 && idle <= 5000.0;
        println!("{workers:>12} {reserved:>9} {:>9.0} ns {:>9.0} ns {ratio:>7.2}x {idle:>9.0} ns", best[0], best[1]);
    }
    if !report.is_brief() {
        println!("target: {}", if holds { "held" } else { "NOT held" });
    }
}

/// A full fleet with an old queue and 16 reservations, over the size of the fleet.
pub(crate) fn reserved(report: &Report) {
    compare(report, "reserved: end and next placement, 100,000 queued", State::default(), &[100, 1000, 10_000]);
}

/// The same in other states of a busy fleet.
pub(crate) fn states(report: &Report) {
    let fleets = &[1000];
    compare(report, "reserved, with time limits", State { limits: true, ..State::default() }, fleets);
    compare(report, "reserved, with tenants at their quota", State { quotas: true, ..State::default() }, fleets);
    let all = State { limits: true, quotas: true, heartbeats: true };
    compare(report, "reserved, with time limits, quotas and heartbeats", all, fleets);
}
