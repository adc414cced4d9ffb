//! Tests of the outbox log as a whole: order, acknowledgement, restarts, bounds and a full disk.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use orlop_core::id::{Epoch, JobId};
use orlop_core::task::{LogGap, LogStream, TaskEnd};
use orlop_core::time::Time;
use proptest::prelude::*;

use super::*;

fn id(job: u64) -> TaskRef {
    TaskRef { job: JobId::from_u64(job), index: 0, member: 0, attempt: 1, epoch: Epoch(1) }
}

fn chunk(seq: u64, data: &[u8]) -> LogChunk {
    LogChunk { stream: LogStream::Stdout, seq, time: Time::EPOCH, data: data.to_vec(), gap: None }
}

fn end() -> AttemptEnd {
    AttemptEnd::without_run(TaskEnd::Succeeded, "", Time::EPOCH)
}

fn started() -> Started {
    Started { handle: "7@8".to_owned(), at: Time::EPOCH }
}

fn open(dir: &Path) -> (OutboxLog, Vec<Recovered>) {
    OutboxLog::open(OutboxOptions { reserve: 1 << 20, ..OutboxOptions::new(dir) }).unwrap()
}

fn small(dir: &Path, logs: u64) -> OutboxLog {
    OutboxLog::open(OutboxOptions { reserve: 1 << 16, logs, segment: 4096, ..OutboxOptions::new(dir) }).unwrap().0
}

#[test]
fn a_result_is_kept_until_acknowledged_also_over_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let (mut outbox, found) = open(dir.path());
    assert!(found.is_empty());
    outbox.accepted(id(1), b"plan", false).unwrap();
    outbox.started(id(1), started()).unwrap();
    outbox.flush().unwrap();
    let items = outbox.next_items(10);
    assert_eq!(
        items.iter().map(|(.., item)| item.clone()).collect::<Vec<_>>(),
        [Item::Accepted, Item::Started(started())]
    );
    items.iter().for_each(|(no, ..)| outbox.release(*no));
    outbox.ended(id(1), end()).unwrap();
    outbox.flush().unwrap();
    drop(outbox);
    for _ in 0..3 {
        // Handed out again and again, by every agent that starts, until it is acknowledged.
        let (mut outbox, found) = open(dir.path());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].id, &*found[0].body, found[0].ended), (id(1), &b"plan"[..], true));
        assert_eq!(found[0].started, Some(started()));
        assert_eq!(outbox.stats().results, 1);
        let items = outbox.next_items(10);
        assert_eq!(items.iter().map(|(.., item)| item.clone()).collect::<Vec<_>>(), [Item::Ended(Arc::new(end()))]);
        assert!(outbox.next_items(10).is_empty());
        outbox.rewind(Cursor::default());
        assert_eq!(outbox.next_items(10), items);
    }
    let (mut outbox, _) = open(dir.path());
    let items = outbox.next_items(10);
    outbox.release(items[0].0);
    outbox.flush().unwrap();
    assert_eq!(outbox.stats().results, 0);
    drop(outbox);
    let (mut outbox, found) = open(dir.path());
    assert!(found.is_empty() && outbox.next_items(10).is_empty());
    // Numbers go on: none is used twice.
    outbox.rejected(id(2), "full").unwrap();
    outbox.flush().unwrap();
    assert!(outbox.next_items(1)[0].0 > items[0].0);
}

#[test]
fn a_start_reported_again_after_a_restart_adds_no_entry() {
    let dir = tempfile::tempdir().unwrap();
    let (mut outbox, _) = open(dir.path());
    outbox.accepted(id(1), b"body", false).unwrap();
    outbox.started(id(1), started()).unwrap();
    outbox.flush().unwrap();
    for _ in 0..2 {
        drop(outbox);
        outbox = open(dir.path()).0;
        outbox.started(id(1), started()).unwrap();
        outbox.flush().unwrap();
    }
    outbox.ended(id(1), end()).unwrap();
    outbox.flush().unwrap();
    let items = outbox.next_items(10);
    assert!(matches!(items[..], [(.., Item::Ended(_))]), "{items:?}");
    outbox.release(items[0].0);
    outbox.flush().unwrap();
    drop(outbox);
    let (mut outbox, found) = open(dir.path());
    assert!(found.is_empty() && outbox.next_items(10).is_empty(), "{found:?}");
}

#[test]
fn an_end_that_is_not_told_yet_implies_start_and_acceptance() {
    let dir = tempfile::tempdir().unwrap();
    let (mut outbox, _) = open(dir.path());
    outbox.accepted(id(1), b"", false).unwrap();
    outbox.started(id(1), started()).unwrap();
    outbox.ended(id(1), end()).unwrap();
    outbox.flush().unwrap();
    let items = outbox.next_items(10);
    assert_eq!(items.len(), 1);
    assert!(matches!(items[0].2, Item::Ended(_)));
}

#[test]
fn a_torn_tail_is_cut_and_the_rest_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let (mut outbox, _) = open(dir.path());
    for job in 1..=3 {
        outbox.accepted(id(job), b"", false).unwrap();
        outbox.ended(id(job), end()).unwrap();
    }
    outbox.flush().unwrap();
    drop(outbox);
    let last = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let last = last.filter(|path| path.to_str().unwrap().contains("/c")).max().unwrap();
    let bytes = fs::read(&last).unwrap();
    fs::write(&last, &bytes[..bytes.len() - 3]).unwrap();
    let (outbox, found) = open(dir.path());
    assert_eq!(found.iter().filter(|known| known.ended).count(), 2);
    assert_eq!((found.len(), outbox.stats().results), (3, 2));
}

#[test]
fn output_is_handed_out_in_order_within_a_credit_and_once() {
    let dir = tempfile::tempdir().unwrap();
    let (mut outbox, _) = open(dir.path());
    for seq in 1..=4 {
        let _ = outbox.log(id(1), chunk(seq, &[b'x'; 100]));
    }
    outbox.flush().unwrap();
    let before = outbox.cursor();
    assert_eq!(outbox.next_chunks(10, 250).len(), 2);
    outbox.rewind(before);
    let first = outbox.next_chunks(10, 250);
    assert_eq!(first.iter().map(|(_, _, chunk)| chunk.seq).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(outbox.next_chunks(1, 1000).len(), 1);
    assert_eq!(outbox.next_chunks(10, 1000).len(), 1);
    assert!(!outbox.has_more().1);
    outbox.release(first[0].0);
    outbox.flush().unwrap();
    drop(outbox);
    let (mut outbox, _) = open(dir.path());
    let again: Vec<u64> = outbox.next_chunks(10, 1000).iter().map(|(_, _, chunk)| chunk.seq).collect();
    assert_eq!(again, [2, 3, 4], "what was acknowledged does not come again");
    assert_eq!(outbox.last_seq(&id(1)), 4);
}

#[test]
fn beyond_the_bound_the_oldest_of_the_largest_is_dropped_and_leaves_a_gap() {
    let dir = tempfile::tempdir().unwrap();
    let mut outbox = small(dir.path(), 20_000);
    let _ = outbox.log(id(1), chunk(1, b"small"));
    for seq in 1..=40 {
        assert_eq!(outbox.log(id(2), chunk(seq, &[b'x'; 1000])), LogCapacity::Free);
    }
    outbox.flush().unwrap();
    let reported = outbox.next_chunks(100, 1 << 20);
    assert_eq!(reported[0].2, chunk(1, b"small"), "the small one is not touched");
    let large: Vec<&LogChunk> = reported.iter().filter(|(_, of, _)| *of == id(2)).map(|(_, _, chunk)| chunk).collect();
    let gone = 40 - large.len() as u64;
    assert!(gone > 20, "{gone}");
    assert_eq!(large[0].gap, Some(LogGap { chunks: gone, bytes: gone * 1000 }));
    assert_eq!(large[0].seq, gone + 1);
    assert!(large[1..].iter().all(|chunk| chunk.gap.is_none()));
    assert_eq!(outbox.stats().dropped, gone * 1000);
    // The end reports it, and so does the next opening of the outbox log.
    outbox.ended(id(2), end()).unwrap();
    outbox.flush().unwrap();
    let Item::Ended(end) = &outbox.next_items(1)[0].2 else { panic!("an end") };
    assert_eq!((end.log.dropped_chunks, end.log.dropped_bytes), (gone, gone * 1000));
    drop(outbox);
    let mut outbox = small(dir.path(), 20_000);
    let again = outbox.next_chunks(100, 1 << 20);
    assert_eq!(again.len(), reported.len());
    assert_eq!(again[1].2.gap, Some(LogGap { chunks: gone, bytes: gone * 1000 }));
}

#[test]
fn while_all_that_is_kept_is_on_its_way_the_newest_stays_and_tells_what_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let mut outbox = small(dir.path(), 20_000);
    for seq in 1..=15 {
        let _ = outbox.log(id(1), chunk(seq, &[b'x'; 1000]));
    }
    let sent = outbox.next_chunks(100, 1 << 20);
    assert_eq!(sent.len(), 15);
    for seq in 16..=40 {
        let _ = outbox.log(id(1), chunk(seq, &[b'x'; 1000]));
    }
    outbox.ended(id(1), end()).unwrap();
    outbox.flush().unwrap();
    let reported: Vec<LogChunk> = outbox.next_chunks(100, 1 << 20).into_iter().map(|(.., chunk)| chunk).collect();
    assert_eq!(reported.last().map(|chunk| chunk.seq), Some(40), "how it ended");
    let gone = 25 - reported.len() as u64;
    assert!(gone > 15, "{gone}");
    assert_eq!(reported[0].gap, Some(LogGap { chunks: gone, bytes: gone * 1000 }));
    assert_eq!(outbox.stats().dropped, gone * 1000);
}

#[test]
fn disk_use_stays_bounded_though_every_segment_holds_something() {
    let dir = tempfile::tempdir().unwrap();
    let mut outbox = small(dir.path(), 40_000);
    for seq in 1..=400 {
        let _ = outbox.log(id(2), chunk(seq, &[b'x'; 1000]));
        if seq % 10 == 0 {
            let _ = outbox.log(id(1), chunk(seq / 10, b"small"));
        }
        outbox.flush().unwrap();
        assert!(outbox.stats().bytes < 100_000, "{}", outbox.stats().bytes);
    }
    drop(outbox);
    let mut outbox = small(dir.path(), 40_000);
    let reported = outbox.next_chunks(1000, 1 << 20);
    let seqs: Vec<u64> = reported.iter().filter(|(_, of, _)| *of == id(1)).map(|(_, _, chunk)| chunk.seq).collect();
    assert_eq!(seqs, (1..=40).collect::<Vec<_>>(), "of the small attempt nothing is lost");
}

#[test]
fn who_may_not_lose_output_is_told_to_wait_and_to_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut outbox = small(dir.path(), 20_000);
    outbox.accepted(id(1), b"", true).unwrap();
    let mut seq = 0;
    while outbox.log(id(1), chunk(seq + 1, &[b'x'; 1000])) == LogCapacity::Free {
        seq += 1;
    }
    outbox.flush().unwrap();
    assert!(outbox.take_relieved().is_empty());
    let reported = outbox.next_chunks(100, 1 << 20);
    assert!(reported.iter().all(|(_, _, chunk)| chunk.gap.is_none()));
    for (no, ..) in &reported[..8] {
        outbox.release(*no);
    }
    assert_eq!(outbox.take_relieved(), [id(1)]);
    assert!(outbox.take_relieved().is_empty());
}

#[test]
fn control_segments_do_not_pile_up_behind_a_long_attempt() {
    let dir = tempfile::tempdir().unwrap();
    let mut outbox = small(dir.path(), 20_000);
    outbox.accepted(id(1), &[7; 100], false).unwrap();
    outbox.started(id(1), started()).unwrap();
    outbox.rejected(id(3), "full").unwrap();
    for job in 100..3000 {
        outbox.accepted(id(job), &[0; 50], false).unwrap();
        outbox.ended(id(job), end()).unwrap();
        outbox.flush().unwrap();
        for (no, of, _) in outbox.next_items(10) {
            if of.job.as_u64() >= 100 {
                outbox.release(no);
            }
        }
    }
    assert!(outbox.stats().bytes < 100_000, "{}", outbox.stats().bytes);
    drop(outbox);
    let (mut outbox, found) = open(dir.path());
    assert_eq!(found.iter().filter(|known| !known.ended).map(|known| known.id).collect::<Vec<_>>(), [id(1)]);
    assert_eq!((&*found[0].body, found[0].started.as_ref()), (&[7_u8; 100][..], Some(&started())));
    assert!(
        outbox.next_items(10).iter().any(|(_, of, item)| *of == id(3) && *item == Item::Rejected("full".to_owned()))
    );
}

#[test]
fn what_nobody_wants_to_hear_is_discarded() {
    let dir = tempfile::tempdir().unwrap();
    let (mut outbox, _) = open(dir.path());
    outbox.accepted(id(1), b"", false).unwrap();
    outbox.started(id(1), started()).unwrap();
    let _ = outbox.log(id(1), chunk(1, b"x"));
    outbox.flush().unwrap();
    outbox.discard(&id(1));
    outbox.flush().unwrap();
    assert_eq!(outbox.has_more(), (false, false));
    drop(outbox);
    assert!(open(dir.path()).1.is_empty());
}

/// A file system in memory of one megabyte; none where this user may not mount.
fn tiny(dir: &Path) -> bool {
    let status = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
        .arg(dir)
        .stderr(std::process::Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

#[test]
fn on_a_full_disk_output_is_dropped_and_results_go_into_the_room_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    if !tiny(dir.path()) {
        eprintln!("skipped: this user may not mount a file system");
        return;
    }
    let options = OutboxOptions { reserve: 256 << 10, ..OutboxOptions::new(dir.path().join("outbox")) };
    let (mut outbox, _) = OutboxLog::open(options.clone()).unwrap();
    for seq in 1..=100 {
        let _ = outbox.log(id(1), chunk(seq, &[b'x'; 16 << 10]));
        outbox.flush().unwrap();
    }
    assert!(outbox.stats().dropped > 0, "the disk is full");
    for job in 2..200 {
        outbox.accepted(id(job), &[0; 100], false).unwrap();
        outbox.ended(id(job), end()).unwrap();
        outbox.flush().unwrap();
    }
    drop(outbox);
    let (mut outbox, found) = OutboxLog::open(options).unwrap();
    assert_eq!(found.iter().filter(|known| known.ended).count(), 198, "no result is lost");
    let chunks = outbox.next_chunks(1000, 1 << 30);
    assert!(!chunks.is_empty());
    drop(outbox);
    let status = std::process::Command::new("umount").arg("-l").arg(dir.path()).status().unwrap();
    assert!(status.success());
}

#[test]
fn output_that_is_lost_after_the_end_is_reported_once_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    if !tiny(dir.path()) {
        println!("skipped: s6_output_that_is_lost_after_the_end…: this user may not mount a file system");
        return;
    }
    let (mut outbox, _) =
        OutboxLog::open(OutboxOptions { reserve: 64 << 10, ..OutboxOptions::new(dir.path().join("outbox")) }).unwrap();
    let ballast = dir.path().join("ballast");
    // As much as there is room for.
    let written = fs::write(&ballast, vec![0; 2 << 20]);
    assert!(written.is_err(), "the disk is full");
    let _ = outbox.log(id(1), chunk(1, &[b'x'; 20_000]));
    let _ = outbox.log(id(1), chunk(2, &[b'x'; 10_000]));
    outbox.ended(id(1), end()).unwrap();
    outbox.flush().unwrap();
    assert_eq!((outbox.stats().dropped, outbox.next_chunks(10, 1 << 20).len()), (30_000, 0));
    let reported = outbox.next_items(10);
    let Some((.., Item::Ended(end))) = reported.last() else { panic!("{reported:?}") };
    assert_eq!(end.log.dropped_bytes, 0, "it was told before");
    outbox.flush().unwrap();
    fs::remove_file(&ballast).unwrap();
    for _ in 0..3 {
        outbox.flush().unwrap();
    }
    let chunks = outbox.next_chunks(10, 1 << 20);
    let [(no, of, last)] = &chunks[..] else { panic!("{chunks:?}") };
    assert_eq!((*of, last.seq, last.data.len()), (id(1), 2, 0));
    assert_eq!(last.gap, Some(LogGap { chunks: 2, bytes: 30_000 }));
    outbox.release(*no);
    outbox.flush().unwrap();
    assert_eq!(outbox.next_chunks(10, 1 << 20).len(), 0, "once");
    drop(outbox);
    let status = std::process::Command::new("umount").arg("-l").arg(dir.path()).status().unwrap();
    assert!(status.success());
}

/// What may happen to an outbox log.
#[derive(Clone, Debug)]
enum Step {
    Accept(u64),
    End,
    Log(u64),
    Flush,
    TakeAndRelease(usize),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0_u64..6).prop_map(Step::Accept),
        Just(Step::End),
        (0_u64..6).prop_map(Step::Log),
        Just(Step::Flush),
        (0_usize..5).prop_map(Step::TakeAndRelease),
        Just(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_flushed_end_is_lost_and_none_comes_after_its_acknowledgement(
        steps in proptest::collection::vec(step(), 0..60),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut outbox = small(dir.path(), 1 << 20);
        let (mut unflushed, mut owed, mut next) = (Vec::new(), Vec::new(), 0);
        for step in steps {
            match step {
                Step::Accept(job) => outbox.accepted(id(job), b"body", false).unwrap(),
                Step::End => {
                    next += 1;
                    outbox.ended(id(1000 + next), end()).unwrap();
                    unflushed.push(id(1000 + next));
                }
                Step::Log(job) => drop(outbox.log(id(job), chunk(next, b"text"))),
                Step::Flush => {
                    outbox.flush().unwrap();
                    owed.append(&mut unflushed);
                }
                Step::TakeAndRelease(max) => {
                    outbox.flush().unwrap();
                    owed.append(&mut unflushed);
                    for (no, of, item) in outbox.next_items(max) {
                        if matches!(item, Item::Ended(_)) {
                            prop_assert!(owed.contains(&of));
                            owed.retain(|one| *one != of);
                        }
                        outbox.release(no);
                    }
                    outbox.flush().unwrap();
                }
                Step::Restart => {
                    drop(outbox);
                    unflushed.clear();
                    outbox = small(dir.path(), 1 << 20);
                }
            }
            outbox.rewind(Cursor::default());
            let mut reported: Vec<TaskRef> = outbox.next_items(1000).into_iter()
                .filter(|(.., item)| matches!(item, Item::Ended(_))).map(|(_, of, _)| of).collect();
            reported.retain(|one| !unflushed.contains(one));
            prop_assert_eq!(&reported, &owed);
            outbox.rewind(Cursor::default());
        }
    }
}
