//! What each side of a session does, rule by rule.

use bytes::Bytes;
use orlop_core::machine::worker::WorkerState;
use orlop_core::task::{LogStream, StartMode, TaskEnd};

use super::super::super::attempt::{AssignJob, JobResult, JobStarted, LogChunk};
use super::super::super::bound::{CHUNK_MAX, FRAME_BYTES, FRAME_ENTRIES, LOG_CREDIT, OnWire as _};
use super::super::super::frame::{DirectiveKind, ServerFrame, WorkerFrame};
use super::super::super::status::WorkerStatus;
use super::super::super::tests::attempt;
use super::*;

fn result(number: u64) -> JobResult {
    JobResult::new(attempt(number), TaskEnd::Succeeded)
}

fn started(number: u64) -> JobStarted {
    JobStarted::new(attempt(number), None, None)
}

fn chunk(number: u64, bytes: usize) -> LogChunk {
    LogChunk::new(attempt(1), LogStream::Stdout, number, vec![b'x'; bytes])
}

fn status() -> WorkerStatus {
    WorkerStatus { worker_id: "w".into(), state: WorkerState::Available.number(), ..WorkerStatus::default() }
}

fn assign(number: u64, spec_id: u64) -> Outgoing {
    Outgoing::Assign(AssignJob::new(attempt(number), spec_id, StartMode::Now), spec(spec_id))
}

#[test]
fn a_frame_goes_at_once_when_idle_and_waits_a_millisecond_after_another() {
    let (mut agent, mut server) = pair();
    open(&mut agent, &mut server, 0);
    assert_eq!((agent.due(10), agent.poll(10)), (None, Vec::new()));
    agent.accepted(attempt(1));
    assert_eq!((agent.due(10), agent.poll(10).len()), (Some(10), 1));
    agent.accepted(attempt(2));
    agent.accepted(attempt(3));
    assert_eq!((agent.due(400), agent.poll(400).len()), (Some(1010), 0));
    assert_eq!(agent.poll(1010)[0].accepted.len(), 2);
    (0..FRAME_ENTRIES as u64).for_each(|number| agent.accepted(attempt(number)));
    assert_eq!(agent.poll(1020).len(), 1, "a full frame never waits");
    server.decided(0, vec![assign(1, 1)]).unwrap();
    assert_eq!((server.due(5), server.poll(5).len()), (Some(5), 1));
    server.decided(0, vec![assign(2, 1)]).unwrap();
    assert_eq!((server.poll(6).len(), server.due(6)), (0, Some(1005)));
}

#[test]
fn results_starts_and_acceptances_go_before_logs_and_no_start_before_an_end() {
    let (mut agent, mut server) = pair();
    open(&mut agent, &mut server, 0);
    agent.log(chunk(1, 10)).unwrap();
    agent.need_spec(7);
    agent.need_spec(7);
    agent.accepted(attempt(1));
    agent.started(started(2));
    (0..FRAME_ENTRIES as u64 + 5).for_each(|number| agent.ended(result(number)));
    let frames = agent.poll(1);
    assert_eq!(frames.len(), 2);
    assert_eq!((frames[0].entries(), frames[0].started.len(), frames[0].logs.len()), (FRAME_ENTRIES, 0, 0));
    assert_eq!((frames[1].results.len(), frames[1].started.len(), frames[1].logs.len()), (5, 1, 1));
    assert_eq!(frames[1].need_specs, [7]);
    assert_eq!((frames[0].seq, frames[1].seq), (1, 2));
}

#[test]
fn frames_stay_below_a_mebibyte() {
    let (mut agent, mut server) = pair();
    open(&mut agent, &mut server, 0);
    for number in 0..40 {
        let tail = Bytes::from(vec![0; 8 << 10]);
        let outputs = [("k".to_owned(), "v".repeat(60 << 10))].into();
        agent.ended(JobResult { tail, outputs, ..result(number) });
    }
    let frames = agent.poll(1);
    assert!(frames.iter().all(|frame| frame.results.iter().map(JobResult::size).sum::<usize>() <= FRAME_BYTES));
    assert_eq!(frames.iter().map(|frame| frame.results.len()).sum::<usize>(), 40);
}

#[test]
fn logs_wait_for_credit_and_nothing_else_does() {
    let (mut agent, mut server) = pair();
    open(&mut agent, &mut server, 0);
    let sent = (1..).map_while(|number| agent.log(chunk(number, CHUNK_MAX)).ok()).count();
    assert_eq!((sent as u64, agent.log_room()), (LOG_CREDIT / CHUNK_MAX as u64, 0));
    agent.accepted(attempt(1));
    for frame in agent.poll(1) {
        server.receive(frame).unwrap();
    }
    assert!(agent.log(chunk(99, 1)).is_err());
    server.stored(10);
    for frame in server.poll(5) {
        assert_eq!((frame.seq, frame.log_credit), (0, LOG_CREDIT + 10));
        agent.receive(frame).unwrap();
    }
    assert!(agent.log(chunk(99, 11)).is_err() && agent.log(chunk(99, 10)).is_ok());
    let greedy = WorkerFrame { seq: server.received() + 1, logs: vec![chunk(1, 11)], ..WorkerFrame::default() };
    let before = server.received();
    let refused = SessionError::Credit { given: LOG_CREDIT + 11, credit: LOG_CREDIT + 10 };
    assert_eq!(server.receive(greedy.clone()), Err(refused.clone()));
    assert_eq!((server.received(), server.receive(greedy)), (before, Err(refused)), "it did not come");
}

#[test]
fn a_specification_is_sent_once_a_session_and_again_when_asked_for() {
    let (mut agent, mut server) = pair();
    open(&mut agent, &mut server, 0);
    server.decided(0, vec![assign(1, 7), assign(2, 7), assign(3, 8)]).unwrap();
    let frame = server.poll(1).remove(0);
    assert_eq!((frame.specs.iter().map(|spec| spec.spec_id).collect::<Vec<_>>(), frame.assign.len()), (vec![7, 8], 3));
    server.decided(0, vec![assign(4, 7), Outgoing::Spec(spec(8))]).unwrap();
    let frame = server.poll(2000).remove(0);
    assert_eq!((frame.specs.len(), frame.specs[0].spec_id, frame.assign.len()), (1, 8, 1));
}

#[test]
fn a_frame_with_assignments_acknowledges_what_its_batch_had_looked_at() {
    let (mut agent, mut server) = pair();
    open(&mut agent, &mut server, 0);
    for now in [1, 5000, 10_000] {
        agent.accepted(attempt(now));
        agent.poll(now).into_iter().for_each(|frame| drop(server.receive(frame).unwrap()));
    }
    server.decided(1, vec![Outgoing::Revoke(attempt(1))]).unwrap();
    server.decided(2, vec![assign(1, 1)]).unwrap();
    server.decided(2, vec![Outgoing::Revoke(attempt(2)), assign(2, 1)]).unwrap();
    server.decided(3, vec![Outgoing::Revoke(attempt(3))]).unwrap();
    server.decided(3, vec![assign(3, 1)]).unwrap();
    let frames = server.poll(20_000);
    let shown: Vec<_> =
        frames.iter().map(|frame| (frame.seq, frame.ack, frame.revoke.len(), frame.assign.len())).collect();
    assert_eq!(shown, [(1, 2, 3, 2), (2, 3, 0, 1)]);
}

#[test]
fn each_heartbeat_has_one_answer_and_hello_counts_as_one() {
    let (mut agent, mut server) = pair();
    assert_eq!(agent.lease_until(), 20_000_000);
    open(&mut agent, &mut server, 1_000_000);
    assert_eq!(agent.lease_until(), 21_000_000);
    for now in [5_000_000, 10_000_000] {
        agent.heartbeat(status());
        let frame = agent.poll(now).remove(0);
        assert_eq!(frame.seq, 0);
        server.receive(frame).unwrap();
    }
    let answers = server.poll(11_000_000);
    assert_eq!(answers.iter().map(|frame| frame.lease_ms).collect::<Vec<_>>(), [20_000, 20_000]);
    agent.receive(answers[0].clone()).unwrap();
    assert_eq!(agent.lease_until(), 25_000_000);
    agent.receive(answers[1].clone()).unwrap();
    assert!(agent.may_start(29_999_999) && !agent.may_start(30_000_000));
    agent.disconnected();
    agent.heartbeat(status());
    assert_eq!(agent.poll(12_000_000), []);
}

#[test]
fn a_stream_that_is_not_right_cannot_go_on() {
    let (mut agent, mut server) = pair();
    insta::assert_snapshot!(agent.receive(ServerFrame { epoch: 1, ..Default::default() }).unwrap_err(), @"a stream begins with hello and welcome, and has each of them once");
    insta::assert_snapshot!(server.receive(WorkerFrame::default()).unwrap_err(), @"a stream begins with hello and welcome, and has each of them once");
    open(&mut agent, &mut server, 0);
    insta::assert_snapshot!(agent.receive(ServerFrame::default()).unwrap_err(), @"the server is of epoch 0, epoch 1 was seen before; another server leads");
    let frame = |seq, ack| WorkerFrame { seq, ack, ..WorkerFrame::default() };
    insta::assert_snapshot!(server.receive(frame(2, 0)).unwrap_err(), @"frame 2 came after frame 0; open the stream again");
    insta::assert_snapshot!(server.receive(frame(1, 1)).unwrap_err(), @"frame 1 is acknowledged, but 0 is the last that was sent");
    let loose = WorkerFrame { results: vec![result(1)], ..WorkerFrame::default() };
    insta::assert_snapshot!(server.receive(loose).unwrap_err(), @"a frame without a number holds entries, which could be lost");
    let mut hello = agent.hello(0, Vec::new()).hello.unwrap();
    hello.last_server_seq = 9;
    assert!(server.welcome(&hello, Default::default()).is_err());
}

#[test]
fn a_server_without_the_session_says_so_and_spooled_frames_get_new_numbers() {
    let (mut agent, mut server) = pair();
    open(&mut agent, &mut server, 0);
    agent.ended(result(1));
    agent.log(chunk(1, 5)).unwrap();
    assert_eq!(agent.poll(1).len(), 1);
    agent.ended(result(2));
    drop(agent.hello(2, Vec::new()));
    let receipt = agent.receive(ServerSession::reregister(orlop_core::id::Epoch(2), "new epoch")).unwrap();
    assert_eq!(receipt.frame.unwrap().directive.unwrap().kind(), DirectiveKind::Reregister);
    let registered = registered(2, 2);
    agent.renew(&registered, 5);
    let mut server = ServerSession::new(registered.session, registered.epoch, 20_000);
    open(&mut agent, &mut server, 10);
    let frames = agent.poll(20);
    assert_eq!((frames.len(), frames[0].seq, frames[0].epoch, frames[0].logs.len()), (1, 1, 2, 1));
    let order: Vec<u64> = frames[0].results.iter().map(|result| result.attempt().job.as_u64()).collect();
    assert_eq!((order, agent.log_room()), (vec![1, 2], LOG_CREDIT - 5));
}

#[test]
fn assignments_on_their_way_are_distinguished_from_lost_ones() {
    let (mut agent, mut server) = pair();
    open(&mut agent, &mut server, 0);
    server.decided(0, vec![assign(1, 1)]).unwrap();
    let first = server.poll(1).remove(0);
    agent.receive(first).unwrap();
    server.decided(0, vec![assign(2, 1)]).unwrap();
    assert_eq!(server.poll(5000).len(), 1, "it is lost with the stream");
    server.decided(0, vec![assign(3, 1)]).unwrap();
    let hello = agent.hello(6000, Vec::new()).hello.unwrap();
    assert_eq!(server.undelivered(&hello), [attempt(2), attempt(3)]);
}
