//! Both sides over streams that break anywhere: everything arrives exactly once and in order, nothing is acknowledged
//! before it is committed or journalled, and nothing grows without bound.

use std::collections::VecDeque;

use bytes::Bytes;
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::task::{LogStream, StartMode, TaskEnd};
use proptest::prelude::*;

use super::super::super::attempt::{AssignJob, JobResult, LogChunk};
use super::super::super::frame::{Judgement, ServerFrame, WorkerFrame};
use super::super::super::tests::attempt;
use super::*;

/// What one side sent to the other, by the kind of entry.
#[derive(Default)]
struct EntryLog {
    results: Vec<u64>,
    accepted: Vec<u64>,
    logs: Vec<u64>,
    assigned: Vec<u64>,
    judged: Vec<u64>,
}

struct World {
    agent: AgentSession,
    server: ServerSession,
    up: VecDeque<WorkerFrame>,
    down: VecDeque<ServerFrame>,
    last_up: Option<WorkerFrame>,
    last_down: Option<ServerFrame>,
    sent: EntryLog,
    got: EntryLog,
    /// Numbers of frames the server received and did not commit.
    uncommitted: VecDeque<u64>,
    committed: u64,
    journalled: u64,
    /// Numbers of frames that the agent knows to be committed.
    freed: Vec<u64>,
    unstored: u64,
    now: u64,
    next: u64,
}

impl World {
    fn new() -> Self {
        let (agent, server) = pair();
        Self {
            agent,
            server,
            up: VecDeque::new(),
            down: VecDeque::new(),
            last_up: None,
            last_down: None,
            sent: EntryLog::default(),
            got: EntryLog::default(),
            uncommitted: VecDeque::new(),
            committed: 0,
            journalled: 0,
            freed: Vec::new(),
            unstored: 0,
            now: 0,
            next: 0,
        }
    }

    fn reconnect(&mut self) {
        (self.up, self.down, self.last_up, self.last_down) = Default::default();
        let receipt = open(&mut self.agent, &mut self.server, self.now);
        self.freed.extend(receipt.committed.iter().map(|frame| frame.seq));
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn poll(&mut self) {
        let frames = self.agent.poll(self.now);
        assert!(frames.iter().all(|frame| frame.ack <= self.journalled), "acknowledged before it was journalled");
        self.up.extend(frames);
        let frames = self.server.poll(self.now);
        assert!(frames.iter().all(|frame| frame.ack <= self.committed), "acknowledged before it was committed");
        self.down.extend(frames);
    }

    fn deliver_up(&mut self) {
        let Some(frame) = self.up.pop_front() else { return };
        self.last_up = Some(frame.clone());
        let Some(frame) = self.server.receive(frame).unwrap() else { return };
        self.got.results.extend(frame.results.iter().map(|result| result.attempt().job.as_u64()));
        self.got.accepted.extend(frame.accepted.iter().map(|accepted| accepted.attempt().job.as_u64()));
        self.got.logs.extend(frame.logs.iter().map(|chunk| chunk.seq));
        self.unstored += frame.logs.iter().map(|chunk| chunk.data.len() as u64).sum::<u64>();
        if frame.seq > 0 {
            self.uncommitted.push_back(frame.seq);
        }
    }

    fn deliver_down(&mut self) {
        let Some(frame) = self.down.pop_front() else { return };
        self.last_down = Some(frame.clone());
        let receipt = self.agent.receive(frame).unwrap();
        self.freed.extend(receipt.committed.iter().map(|frame| frame.seq));
        let Some(frame) = receipt.frame else { return };
        self.got.assigned.extend(frame.assign.iter().map(|assign| assign.attempt().job.as_u64()));
        self.got.judged.extend(frame.verdicts.iter().map(|verdict| verdict.attempt().job.as_u64()));
    }

    fn commit(&mut self, frames: usize) {
        self.uncommitted.drain(..frames.min(self.uncommitted.len())).for_each(|seq| self.committed = seq);
    }

    fn decide(&mut self, assigns: bool) {
        let number = self.number();
        let entry = if assigns {
            self.sent.assigned.push(number);
            Outgoing::Assign(AssignJob::new(attempt(number), number % 3, StartMode::Now), spec(number % 3))
        } else {
            self.sent.judged.push(number);
            Outgoing::Verdict(Judgement::new(attempt(number), ReportVerdict::Accepted))
        };
        self.server.decided(self.committed, vec![entry]).unwrap();
    }

    fn report(&mut self, kind: u8) {
        let number = self.number();
        match kind {
            0 => {
                self.sent.results.push(number);
                self.agent.ended(JobResult::new(attempt(number), TaskEnd::Failed));
            }
            1 => {
                self.sent.accepted.push(number);
                self.agent.accepted(attempt(number));
            }
            _ => {
                let data = Bytes::from(vec![0; 30_000]);
                let stream = LogStream::Stdout;
                let chunk = LogChunk::new(attempt(1), stream, number, data);
                if self.agent.log(chunk).is_ok() {
                    self.sent.logs.push(number);
                }
            }
        }
    }

    /// One thing that can happen.
    fn step(&mut self, what: u8) {
        match what {
            0..=2 => self.report(what),
            3 => self.decide(true),
            4 => self.decide(false),
            5 | 6 => self.poll(),
            7 | 8 => self.deliver_up(),
            9 | 10 => self.deliver_down(),
            11 => self.commit(2),
            12 => {
                self.journalled = self.got_seq();
                self.agent.journalled(self.journalled);
            }
            13 => self.reconnect(),
            14 => {
                self.server.stored(std::mem::take(&mut self.unstored));
                self.server.committed(self.committed);
            }
            15 => {
                // A frame that came appears twice.
                if let Some(frame) = self.last_up.clone().filter(|frame| frame.seq > 0) {
                    assert_eq!(self.server.receive(frame), Ok(None));
                }
                if let Some(frame) = self.last_down.clone().filter(|frame| frame.seq > 0) {
                    assert_eq!(self.agent.receive(frame).unwrap().frame, None);
                }
            }
            _ => self.now += 700,
        }
    }

    /// The last frame of the server that came.
    fn got_seq(&mut self) -> u64 {
        self.agent.clone().hello(0, Vec::new()).hello.unwrap().last_server_seq
    }

    /// Until nothing is on its way any more.
    fn settle(&mut self) {
        self.reconnect();
        for _ in 0..200 {
            self.now += 2000;
            self.poll();
            while !self.up.is_empty() {
                self.deliver_up();
            }
            self.commit(usize::MAX);
            self.step(14);
            while !self.down.is_empty() {
                self.deliver_down();
            }
            self.step(12);
            if self.agent.due(self.now).is_none() && self.server.due(self.now).is_none() {
                return;
            }
        }
        panic!("the two never come to rest");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn everything_arrives_exactly_once_and_in_order(steps in prop::collection::vec(0..17_u8, 0..400)) {
        let mut world = World::new();
        world.reconnect();
        steps.into_iter().for_each(|what| world.step(what));
        world.settle();
        let (sent, got) = (&world.sent, &world.got);
        prop_assert_eq!(&got.results, &sent.results);
        prop_assert_eq!(&got.accepted, &sent.accepted);
        prop_assert_eq!(&got.logs, &sent.logs);
        prop_assert_eq!(&got.assigned, &sent.assigned);
        prop_assert_eq!(&got.judged, &sent.judged);
        let freed: Vec<u64> = (1..=world.committed).collect();
        prop_assert_eq!(&world.freed, &freed, "the spool hears of each committed frame once");
        prop_assert_eq!((world.agent.waiting(), world.server.waiting()), (0, 0));
    }
}

#[test]
fn what_is_not_acknowledged_is_bounded() {
    let (mut agent, mut server) = pair();
    open(&mut agent, &mut server, 0);
    let mut sent = 0;
    for round in 0..5000_u64 {
        agent.accepted(attempt(round));
        sent += agent.poll(round * 2000).len();
    }
    assert_eq!((sent, agent.waiting()), (1024, 5000 - 1024));
    let full = (0..).find(|round| {
        let entry = Outgoing::Revoke(attempt(*round));
        server.decided(0, vec![entry; 1000]).is_err()
    });
    insta::assert_snapshot!(full.unwrap(), @"262");
    assert!(server.poll(1).len() <= 1024);
}
