//! Slots on the agent against a model of the server: never more runs than there are slots, and all that was sent runs.

use std::collections::VecDeque;

use orlop_core::task::{StartMode, TaskEnd, TaskRef};
use proptest::prelude::*;

use super::super::super::attempt::{AssignJob, JobResult};
use super::super::super::frame::{ServerFrame, WorkerFrame};
use super::super::super::tests::attempt;
use super::*;

/// One worker with slots of one class, and a server that places and prefills.
struct World {
    slots: Slots<u8>,
    agent: AgentSession,
    server: ServerSession,
    up: VecDeque<WorkerFrame>,
    down: VecDeque<ServerFrame>,
    /// Attempts that run.
    running: Vec<u64>,
    ran: Vec<u64>,
    /// The server's view: free slots, attempts that hold one, attempts that wait for one, the oldest first.
    free: usize,
    holding: Vec<u64>,
    outstanding: VecDeque<u64>,
    looked_at: u64,
    next: u64,
    now: u64,
}

const SLOTS: usize = 3;
const KEY: u8 = 7;

impl World {
    fn new() -> Self {
        let (mut agent, mut server) = pair();
        open(&mut agent, &mut server, 0);
        Self {
            slots: Slots::default(),
            agent,
            server,
            up: VecDeque::new(),
            down: VecDeque::new(),
            running: Vec::new(),
            ran: Vec::new(),
            free: SLOTS,
            holding: Vec::new(),
            outstanding: VecDeque::new(),
            looked_at: 0,
            next: 0,
            now: 0,
        }
    }

    fn start(&mut self, attempt: TaskRef) {
        let number = attempt.job.as_u64();
        self.running.push(number);
        self.ran.push(number);
        assert!(self.running.len() <= SLOTS, "{:?} run in {SLOTS} slots", self.running);
    }

    fn assign(&mut self, mode: StartMode) {
        self.next += 1;
        let assign = AssignJob::new(attempt(self.next), 1, mode);
        match mode {
            StartMode::Now => {
                self.free -= 1;
                self.holding.push(self.next);
            }
            StartMode::Inherit => self.outstanding.push_back(self.next),
        }
        self.server.decided(self.looked_at, vec![Outgoing::Assign(assign, spec(1))]).unwrap();
    }

    fn end(&mut self, which: usize) {
        if self.running.is_empty() {
            return;
        }
        let ended = self.running.remove(which % self.running.len());
        self.agent.ended(JobResult::new(attempt(ended), TaskEnd::Succeeded));
        if let Some(next) = self.slots.ended(&KEY, attempt(ended)) {
            self.start(next);
        }
    }

    fn deliver_up(&mut self) {
        let Some(frame) = self.up.pop_front() else { return };
        let Some(frame) = self.server.receive(frame).unwrap() else { return };
        for result in &frame.results {
            let number = result.attempt().job.as_u64();
            let held = self.holding.iter().position(|holding| *holding == number);
            self.holding.remove(held.expect("an attempt ends that held a slot"));
            match self.outstanding.pop_front() {
                Some(heir) => self.holding.push(heir),
                None => self.free += 1,
            }
        }
        self.looked_at = self.looked_at.max(frame.seq);
    }

    fn deliver_down(&mut self) {
        let Some(frame) = self.down.pop_front() else { return };
        let Some(frame) = self.agent.receive(frame).unwrap().frame else { return };
        self.slots.received(&frame);
        for assign in frame.assign {
            match assign.start_mode() {
                StartMode::Now => {
                    self.slots.started(&KEY);
                    self.start(assign.attempt());
                }
                StartMode::Inherit => {
                    if self.slots.inherit(&KEY, assign.attempt()) {
                        self.start(assign.attempt());
                    }
                }
            }
        }
    }

    fn poll(&mut self) {
        let frames = self.agent.poll(self.now);
        frames.iter().for_each(|frame| self.slots.framed(frame));
        self.up.extend(frames);
        self.down.extend(self.server.poll(self.now));
    }

    fn step(&mut self, what: u8) {
        match what {
            0 | 1 if self.free > 0 => self.assign(StartMode::Now),
            2..=4 if !self.holding.is_empty() && self.outstanding.len() < 5 => self.assign(StartMode::Inherit),
            5..=7 => self.end(usize::from(what)),
            8..=10 => self.poll(),
            11 | 12 => self.deliver_up(),
            13 | 14 => self.deliver_down(),
            15 => {
                (self.up, self.down) = Default::default();
                open(&mut self.agent, &mut self.server, self.now);
            }
            _ => self.now += 700,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn never_more_run_than_there_are_slots_and_all_that_was_sent_runs(steps in prop::collection::vec(0..18_u8, 0..400)) {
        let mut world = World::new();
        steps.into_iter().for_each(|what| world.step(what));
        world.step(15);
        for _ in 0..3000 {
            world.now += 2000;
            world.end(0);
            world.poll();
            while !world.up.is_empty() || !world.down.is_empty() {
                world.deliver_up();
                world.deliver_down();
            }
        }
        world.ran.sort_unstable();
        prop_assert_eq!(world.ran, (1..=world.next).collect::<Vec<_>>());
        prop_assert_eq!((world.free, world.slots.waiting().count()), (SLOTS, 0));
    }
}

#[test]
fn a_vacancy_is_taken_below_its_mark_and_gone_at_it() {
    let frame = |seq, ack| ServerFrame { seq, ack, epoch: 1, ..ServerFrame::default() };
    let framed = |seq, number| WorkerFrame {
        seq,
        results: vec![JobResult::new(attempt(number), TaskEnd::Succeeded)],
        ..WorkerFrame::default()
    };
    let mut slots = Slots::default();
    for number in [1, 2, 3] {
        assert_eq!(slots.ended(&KEY, attempt(number)), None);
    }
    slots.framed(&framed(5, 1));
    slots.framed(&framed(6, 2));
    slots.framed(&framed(0, 3));
    slots.received(&frame(0, 9));
    slots.received(&frame(1, 5));
    assert!(slots.inherit(&KEY, attempt(11)), "of the end in frame 6");
    slots.received(&frame(2, 6));
    assert!(slots.inherit(&KEY, attempt(12)), "of the end that is in no frame yet");
    assert!(!slots.inherit(&KEY, attempt(13)));
    assert!(!slots.inherit(&KEY, attempt(14)));
    assert!(slots.revoke(&KEY, attempt(13)) && !slots.revoke(&KEY, attempt(13)) && !slots.revoke(&8, attempt(14)));
    assert_eq!(slots.ended(&8, attempt(4)), None, "another class");
    assert_eq!(slots.ended(&KEY, attempt(11)), Some(attempt(14)));
    assert!(!slots.inherit(&KEY, attempt(15)));
    assert_eq!(slots.ended(&KEY, attempt(14)), Some(attempt(15)));
    assert_eq!(slots.ended(&KEY, attempt(15)), None);
    slots.new_session();
    assert!(!slots.inherit(&KEY, attempt(16)), "a new session knows no vacancies");
}

#[test]
fn an_end_that_is_reported_again_has_the_number_of_the_frame_that_tells_it() {
    let frame = |seq, ack| ServerFrame { seq, ack, epoch: 1, ..ServerFrame::default() };
    let framed = |seq, numbers: &[u64]| WorkerFrame {
        seq,
        results: numbers.iter().map(|number| JobResult::new(attempt(*number), TaskEnd::Succeeded)).collect(),
        ..WorkerFrame::default()
    };
    let mut slots = Slots::default();
    for number in [1, 2] {
        assert_eq!(slots.ended(&KEY, attempt(number)), None);
        slots.framed(&framed(5 + number, &[number]));
    }
    // The stream broke after frame 5: both ends go out again, in one frame.
    slots.resumed(5);
    slots.received(&frame(1, 7));
    assert!(slots.inherit(&KEY, attempt(11)), "what was sent before the break counts no more");
    slots.framed(&framed(8, &[1, 2]));
    slots.received(&frame(2, 8));
    assert!(!slots.inherit(&KEY, attempt(12)), "the server had both ends when it decided");
}

#[test]
fn who_waits_does_not_wait_for_ever() {
    let mut slots = Slots::default();
    assert!(!slots.inherit(&KEY, attempt(1)) && slots.stuck(0, 1000).is_empty());
    assert_eq!((slots.stuck(999, 1000), slots.stuck(1000, 1000)), (Vec::new(), vec![attempt(1)]));
    slots.started(&KEY);
    assert!(!slots.inherit(&KEY, attempt(3)));
    assert!(slots.stuck(1000, 1000).is_empty() && slots.stuck(9000, 1000).is_empty(), "an end will come");
}

#[test]
fn slots_are_fed_when_enough_waits_in_every_line_where_something_runs() {
    let mut slots = Slots::default();
    assert!(!slots.are_fed(2), "nothing runs");
    slots.started(&1);
    assert!((2..6).all(|job| !slots.inherit(&1, attempt(job))));
    assert!(slots.are_fed(4) && !slots.are_fed(5));
    // It would run dry though many wait in the other one.
    slots.started(&2);
    assert!(!slots.are_fed(2));
    assert!((6..8).all(|job| !slots.inherit(&2, attempt(job))));
    assert!(slots.are_fed(2));
}
