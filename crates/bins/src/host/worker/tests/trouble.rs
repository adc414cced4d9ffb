//! What an agent does when something is lost: frames, streams, sessions, leases, itself.

use std::time::Duration;

use orlop_core::id::Epoch;
use orlop_core::task::{StartMode, TaskEnd};

use super::fixture::{Fixture, attempt, script};
use crate::host::worker::link::LinkError;
use crate::wire::frame::{AttemptState, Directive, DirectiveKind, LiveAttempt, ServerFrame, Welcome, refs};
use crate::wire::status::Heartbeat;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_acknowledged_comes_again_on_the_next_stream() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new(dir.path()).await;
    fixture.assign(script("exit 5"), &[1], StartMode::Now).await;
    fixture.result(1).await;
    // The server had it, but its commit was lost.
    fixture.results.clear();
    fixture.last = 0;
    fixture.reconnect().await;
    assert!(fixture.stream.hello.outbox.unwrap().count > 0, "{:?}", fixture.stream.hello);
    fixture.welcome(Welcome::default()).await;
    assert_eq!(fixture.result(1).await.exit_code, Some(5));
    // Acknowledged, it comes no more.
    fixture.send(ServerFrame::default()).await;
    fixture.assign(script("exit 6"), &[2], StartMode::Now).await;
    fixture.result(2).await;
    fixture.results.clear();
    let seen = fixture.last;
    fixture.reconnect().await;
    fixture.welcome(Welcome { last_worker_seq: seen, ..Welcome::default() }).await;
    fixture.assign(script("exit 7"), &[3], StartMode::Now).await;
    fixture.result(3).await;
    assert_eq!(fixture.results.len(), 1);
    assert_eq!(fixture.server.registrations.lock().unwrap().len(), 1, "one session all the time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_that_comes_again_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new(dir.path()).await;
    fixture.assign(script("true"), &[1], StartMode::Now).await;
    fixture.result(1).await;
    fixture.send(ServerFrame::default()).await;
    let before = fixture.frames.len();
    // The first assignment again, as after a stream that broke.
    fixture
        .send_as(ServerFrame {
            seq: 1,
            assign: vec![crate::wire::attempt::AssignJob::new(attempt(2), 1, StartMode::Now)],
            ..ServerFrame::default()
        })
        .await;
    fixture.assign(script("exit 3"), &[3], StartMode::Now).await;
    fixture.result(3).await;
    assert!(fixture.frames[before..].iter().all(|frame| frame.need_specs.is_empty()));
    assert!(!fixture.accepted(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn welcome_judges_what_is_held() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new(dir.path()).await;
    fixture.assign(script("sleep 600"), &[1, 2], StartMode::Now).await;
    fixture.started(1).await;
    fixture.started(2).await;
    let last = fixture.last;
    fixture.reconnect().await;
    let mut live: Vec<_> = fixture.stream.hello.live.iter().map(|live| (live.attempt(), live.state())).collect();
    live.sort_by_key(|(attempt, _)| *attempt);
    assert_eq!(live, [(attempt(1), AttemptState::Running), (attempt(2), AttemptState::Running)]);
    let (keep, kill) = (refs([attempt(1)]), refs([attempt(2)]));
    fixture.welcome(Welcome { last_worker_seq: last, keep, kill, ..Welcome::default() }).await;
    assert_eq!(fixture.result(2).await.task_end(), TaskEnd::Cancelled);
    assert!(!fixture.results.contains_key(&attempt(1)), "what is kept goes on");
    fixture.agent.cancel();
    fixture.result(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_gone_is_replaced_and_nothing_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new(dir.path()).await;
    fixture.assign(script("exit 5"), &[1], StartMode::Now).await;
    fixture.result(1).await;
    fixture.results.clear();
    fixture.last = 0;
    *fixture.server.epoch.lock().unwrap() = Epoch(2);
    let directive = Directive { kind: DirectiveKind::Reregister.into(), reason: "restart".to_owned(), deadline_ms: 0 };
    fixture.send(ServerFrame { directive: Some(directive), ..ServerFrame::default() }).await;
    fixture.next_stream().await;
    assert_eq!(fixture.server.registrations.lock().unwrap().len(), 2);
    assert_eq!(fixture.stream.hello.highest_epoch, 2);
    fixture.welcome(Welcome::default()).await;
    assert_eq!(fixture.result(1).await.exit_code, Some(5), "under a new number");
    assert_eq!(fixture.last, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_an_older_epoch_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new(dir.path()).await;
    *fixture.server.epoch.lock().unwrap() = Epoch(5);
    fixture.send(ServerFrame::default()).await;
    fixture.assign(script("true"), &[1], StartMode::Now).await;
    fixture.result(1).await;
    *fixture.server.epoch.lock().unwrap() = Epoch(4);
    fixture.assign(script("true"), &[2], StartMode::Now).await;
    fixture.next_stream().await;
    assert_eq!(fixture.stream.hello.highest_epoch, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_lease_nothing_more_is_started() {
    let dir = tempfile::tempdir().unwrap();
    // A lease that has run out before anything arrives, and heartbeats that renew it no longer.
    let mut fixture = Fixture::leased(dir.path(), 0).await;
    fixture.assign(script("true"), &[1], StartMode::Now).await;
    fixture.until(|fixture| fixture.accepted(1)).await;
    let beats = |fixture: &Fixture| fixture.frames.iter().filter(|frame| frame.status.is_some()).count();
    let before = beats(&fixture);
    fixture.until(|fixture| beats(fixture) > before + 2).await;
    assert!(!fixture.results.contains_key(&attempt(1)), "it is held");
    *fixture.server.lease_ms.lock().unwrap() = 20_000;
    assert_eq!(fixture.result(1).await.task_end(), TaskEnd::Succeeded, "and starts with the next lease");
}

/// Waits until the server has heard so many signs of life.
async fn beats(fixture: &Fixture, count: usize) -> Vec<Heartbeat> {
    let heard = async {
        loop {
            let heard = fixture.server.beats.lock().unwrap().clone();
            if heard.len() >= count {
                return heard;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), heard).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_asks_to_wait_hears_that_the_worker_lives_and_renews_its_lease() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::leased(dir.path(), 0).await;
    let file = dir.path().join("ran");
    fixture.assign(script(&format!("touch {}", file.display())), &[1], StartMode::Now).await;
    fixture.until(|fixture| fixture.accepted(1)).await;
    // The next stream is refused for longer than this test may take.
    *fixture.server.busy.lock().unwrap() = Some(LinkError::Later("busy".to_owned(), Duration::from_secs(600)));
    fixture.cut();
    let heard = beats(&fixture, 2).await;
    let session = fixture.stream.hello.session();
    assert!(heard.iter().all(|beat| beat.session() == session && beat.epoch == 1), "{heard:?}");
    let held: Vec<_> = heard[1].status.as_ref().unwrap().refs.clone();
    assert_eq!(held, refs([attempt(1)]));
    assert!(!file.exists(), "there is no lease");
    *fixture.server.lease_ms.lock().unwrap() = 20_000;
    let begun = std::time::Instant::now();
    while !file.exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it starts with the lease of a heartbeat");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // One that knows the session no more is registered with at once.
    *fixture.server.busy.lock().unwrap() = None;
    let directive = Directive { kind: DirectiveKind::Reregister.into(), reason: "restart".to_owned(), deadline_ms: 0 };
    *fixture.server.directive.lock().unwrap() = Some(directive);
    fixture.next_stream().await;
    assert_eq!(fixture.server.registrations.lock().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_held_does_not_start_before_the_server_says_that_it_still_counts() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::leased(dir.path(), 0).await;
    let file = |job: u64| dir.path().join(format!("ran{job}"));
    for job in [1, 2] {
        fixture.assign(script(&format!("touch {}", file(job).display())), &[job], StartMode::Now).await;
        fixture.until(|fixture| fixture.accepted(job)).await;
    }
    // The session is new, and with it there is a lease.
    *fixture.server.lease_ms.lock().unwrap() = 20_000;
    let directive = Directive { kind: DirectiveKind::Reregister.into(), reason: "silent".to_owned(), deadline_ms: 0 };
    fixture.send(ServerFrame { directive: Some(directive), ..ServerFrame::default() }).await;
    fixture.next_stream().await;
    fixture.last = 0;
    let (keep, kill) = (refs([attempt(1)]), refs([attempt(2)]));
    fixture.welcome(Welcome { keep, kill, ..Welcome::default() }).await;
    assert_eq!(fixture.result(1).await.task_end(), TaskEnd::Succeeded);
    fixture.until(|fixture| fixture.revoked(2) || fixture.results.contains_key(&attempt(2))).await;
    assert!(file(1).exists() && !file(2).exists(), "the other runs elsewhere by now");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_to_configure_itself_anew_registers_again_while_work_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new(dir.path()).await;
    fixture.assign(script("echo up; sleep 600"), &[1], StartMode::Now).await;
    fixture.started(1).await;
    let directive =
        Directive { kind: DirectiveKind::Reconfigure.into(), reason: "new limits".to_owned(), deadline_ms: 0 };
    fixture.send(ServerFrame { directive: Some(directive), ..ServerFrame::default() }).await;
    fixture.next_stream().await;
    assert_eq!(fixture.server.registrations.lock().unwrap().len(), 2);
    assert_eq!(fixture.stream.hello.live.iter().map(LiveAttempt::attempt).collect::<Vec<_>>(), [attempt(1)]);
    fixture.cancel(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_worker_tries_again_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new(dir.path()).await;
    *fixture.server.refusal.lock().unwrap() = Some(LinkError::Refused("the token has expired".to_owned()));
    let over = Err(LinkError::SessionOver("gone".to_owned()));
    fixture.stream.to.send(over).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    *fixture.server.refusal.lock().unwrap() = None;
    fixture.next_stream().await;
    assert_eq!(fixture.server.registrations.lock().unwrap().len(), 2);
}

/// As when another agent of the same name takes every session over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_whose_sessions_end_at_once_asks_for_new_ones_after_pauses() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::with(dir.path(), |options| options.backoff = Duration::from_secs(60)).await;
    *fixture.server.busy.lock().unwrap() = Some(LinkError::SessionOver("taken over".to_owned()));
    fixture.stream.to.send(Err(LinkError::SessionOver("taken over".to_owned()))).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let registrations = fixture.server.registrations.lock().unwrap().len();
    assert!((2..10).contains(&registrations), "the first one at once, further ones seldom: {registrations}");
    *fixture.server.busy.lock().unwrap() = None;
    fixture.next_stream().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_is_renewed_by_registering_again_while_work_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new(dir.path()).await;
    fixture.assign(script("echo up; sleep 600"), &[1], StartMode::Now).await;
    fixture.started(1).await;
    fixture.server.renewal.store(true, std::sync::atomic::Ordering::Relaxed);
    fixture.next_stream().await;
    assert_eq!(fixture.server.registrations.lock().unwrap().len(), 2);
    assert_eq!(fixture.stream.hello.live.iter().map(LiveAttempt::attempt).collect::<Vec<_>>(), [attempt(1)]);
    fixture.cancel(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_crash_results_are_reported_and_what_nobody_kept_is_ended_and_lost() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new(dir.path()).await;
    fixture.assign(script("echo up; sleep 600"), &[2], StartMode::Now).await;
    fixture.started(2).await;
    // Of its own kind, so that nobody's end starts it.
    let other = serde_json::json!({"script": "true", "resources": {"cpu_m": 7}});
    fixture.assign(other, &[3], StartMode::Inherit).await;
    fixture.until(|fixture| fixture.accepted(3)).await;
    fixture.assign(script("exit 5"), &[1], StartMode::Now).await;
    fixture.result(1).await;
    // The agent dies with everything it knew but its files; nothing was acknowledged.
    let Fixture { agent, stream, .. } = fixture;
    agent.abort().await;
    drop(stream);
    let mut fixture = Fixture::new(dir.path()).await;
    assert!(fixture.stream.hello.live.is_empty(), "{:?}", fixture.stream.hello);
    assert_eq!(fixture.result(1).await.exit_code, Some(5));
    let lost = fixture.result(2).await;
    assert_eq!((lost.task_end(), lost.reason.as_str()), (TaskEnd::Lost, "agent_restart"));
    fixture.until(|fixture| fixture.revoked(3)).await;
    let left = std::fs::read_dir(dir.path().join("state/work")).unwrap();
    let ours = |name: &std::ffi::OsString| name == ".trash" || name == ".spare";
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).filter(|name| !ours(name)).collect();
    assert!(left.is_empty(), "{left:?}");
}
