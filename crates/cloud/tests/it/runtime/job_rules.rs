//! What is true of every attempt of a worker, beyond what is true of every program. Owns these rules.

use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_cloud::runtime::worker::{Cause, InUse};
use orlop_core::spec::job::{LogPolicy, OnFull};
use orlop_core::task::{LogStream, TaskEnd, TaskRef};

use super::suite::mark;
use super::{Jobs, Subject, Work};
use crate::process::{until, with_text};
use crate::worker::fresh;

pub(super) async fn preempted_it_says_so(jobs: Jobs) {
    let text = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done";
    let id = jobs.start(Work::script(text)).await;
    jobs.reported.until(id, |reports| reports.text() == "ready\n");
    jobs.runtime.end(id, Cause::Preempt, Duration::from_secs(60));
    let end = jobs.wait(&id).await;
    assert_eq!((end.outcome, end.exit_code), (TaskEnd::Preempted, Some(7)), "{end:?}");
}

pub(super) async fn bytes_that_are_no_text_arrive(jobs: Jobs) {
    let id = jobs.start(Work::script(r"printf 'a\377\000b'")).await;
    jobs.wait(&id).await;
    assert_eq!(jobs.output(&id, LogStream::Stdout), b"a\xff\x00b");
}

pub(super) async fn the_program_is_given_its_numbers(jobs: Jobs) {
    let id = jobs.start(Work::script("echo $ORLOP_JOB_ID $ORLOP_ATTEMPT")).await;
    jobs.wait(&id).await;
    assert_eq!(jobs.output(&id, LogStream::Stdout), format!("{} 1\n", id.job).as_bytes());
}

/// Its first process holds the memory, a child of it uses the CPU.
pub(super) async fn what_it_uses_is_reported_while_it_runs(mut jobs: Jobs) {
    let text = "x=$(head -c 8000000 /dev/zero | tr '\\0' a); echo ready; sh -c 'while :; do :; done'; echo ${#x}";
    let id = jobs.start(Work::script(text)).await;
    jobs.reported.until(id, |reports| reports.text() == "ready\n");
    let used = is_used(&jobs, id, InUse::default()).await;
    if jobs.survives() {
        jobs = jobs.restarted(async || {}).await;
        is_used(&jobs, id, used).await;
    }
    jobs.end(&id, Duration::ZERO).await;
    jobs.wait(&id).await;
    assert_eq!(jobs.runtime.in_use(&[id]).await.unwrap(), [], "it has ended");
}

/// Waits until an attempt has used more CPU than before, and some at all.
async fn is_used(jobs: &Jobs, id: TaskRef, mut before: InUse) -> InUse {
    let (other, begun, wanted) = (fresh(), Instant::now(), before.cpu_ms.max(400) + 100);
    loop {
        let found = jobs.runtime.in_use(&[id, other]).await.unwrap();
        assert!(found.len() <= 1 && found.iter().all(|(known, _)| *known == id), "{found:?}");
        if let Some((_, used)) = found.first() {
            assert!(used.cpu_ms >= before.cpu_ms, "CPU time does not go back: {used:?} after {before:?}");
            before = *used;
            // The script is held in it once at least; nothing else here is that large.
            if used.cpu_ms >= wanted && used.memory_bytes >= 8_000_000 {
                assert!(used.memory_bytes < 1 << 30, "{used:?}");
                return before;
            }
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{found:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn logged(jobs: &Jobs, text: &str, limit: u64, on_full: OnFull) -> TaskRef {
    let mut plan = jobs.plan(Work { grace: Duration::from_millis(300), ..Work::script(text) });
    Arc::make_mut(&mut plan.run).log = LogPolicy { limit, on_full };
    let id = plan.id;
    jobs.begin(plan);
    id
}

pub(super) async fn a_flood_is_read_to_the_limit_and_stops_nothing(jobs: Jobs) {
    let id = logged(&jobs, "head -c 3000000 /dev/zero; sleep 0.1; echo done >&2", 1 << 20, OnFull::Drop);
    let end = jobs.wait(&id).await;
    let dropped = 3_000_005 - (1 << 20);
    assert_eq!((end.outcome, end.log.bytes, end.log.dropped_bytes), (TaskEnd::Succeeded, 1 << 20, dropped), "{end:?}");
    let gaps = jobs.reported.so_far(id).chunks.into_iter().filter_map(|chunk| chunk.gap);
    assert_eq!(gaps.map(|gap| gap.bytes).sum::<u64>(), dropped, "every byte that is missing is in a gap");
}

pub(super) async fn a_full_log_fails_it_or_lets_it_wait(jobs: Jobs) {
    let id = logged(&jobs, "trap '' TERM; while :; do echo xxxxxxxxxxxxxxx; done", 100_000, OnFull::Fail);
    let end = jobs.wait(&id).await;
    assert_eq!((end.outcome, end.reason.as_str(), end.log.bytes), (TaskEnd::Failed, "log_limit", 100_000));
    // There is no room in the outbox: the program waits, and goes on when there is.
    jobs.reported.set_full(true);
    let id = logged(&jobs, "head -c 3000000 /dev/zero; echo done >&2", 64 << 20, OnFull::Block);
    jobs.reported.until(id, |reports| !reports.chunks.is_empty());
    tokio::time::sleep(Duration::from_millis(500)).await;
    let held = jobs.reported.so_far(id);
    assert!(held.end.is_none() && held.bytes(LogStream::Stdout).len() < 2_900_000);
    jobs.reported.set_full(false);
    jobs.runtime.resume(id);
    let end = jobs.wait(&id).await;
    assert_eq!((end.outcome, jobs.output(&id, LogStream::Stdout).len()), (TaskEnd::Succeeded, 3_000_000));
}

pub(super) async fn what_may_not_overlap_ends_with_the_lease_without_an_agent(jobs: Jobs) {
    let mark = mark();
    let text = format!(": {mark}; trap '' TERM; echo up; while :; do sleep 0.02; done");
    let mut plan = jobs.plan(Work { grace: Duration::from_millis(200), ..Work::script(&text) });
    let (id, run) = (plan.id, Arc::make_mut(&mut plan.run));
    (run.survive, run.forbid_overlap) = (false, true);
    jobs.runtime.renew_lease(Duration::from_secs(15));
    jobs.begin(plan);
    if !jobs.is_supervised() {
        let end = jobs.wait(&id).await;
        assert_eq!((end.outcome, end.reason.as_str()), (TaskEnd::StartFailed, "supervisor"), "nobody could end it");
        return;
    }
    jobs.reported.until(id, |reports| reports.text() == "up\n");
    let renewed = Instant::now();
    jobs.runtime.renew_lease(Duration::from_secs(20));
    let jobs = jobs.restarted(async || until(|| with_text(&mark).is_empty()).await).await;
    let end = jobs.wait(&id).await;
    assert_eq!((end.outcome, end.reason.as_str()), (TaskEnd::Lost, "lease_expired"), "{end:?}");
    assert!(renewed.elapsed() >= Duration::from_millis(19_900), "it was renewed: {:?}", renewed.elapsed());
}
