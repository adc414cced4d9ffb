//! How pods end: exit codes, signals, deadlines, stops, restarts in place, and what is left of their processes.

use std::time::{Duration, Instant};

use orlop_cloud::runtime::pod::PodResult;

use super::{PodFixture, StartSignal, container, is_alive, lines, reason, state, until, with_text};

#[tokio::test]
async fn exit_codes_and_signals() {
    let exit = PodFixture::new("true").run().await;
    assert_eq!((reason(&exit), exit.containers[0].exit_code), ("Succeeded", 0));
    assert!(exit.started_at.unwrap() <= exit.ended_at);
    let exit = PodFixture::new("exit 3").run().await;
    assert_eq!((reason(&exit), exit.containers[0].exit_code), ("NonZeroExit", 3));
    let exit = PodFixture::new("exit 128").run().await;
    assert_eq!((reason(&exit), exit.containers[0].exit_code), ("NonZeroExit", 128));
    let exit = PodFixture::new("kill -SEGV $$").run().await;
    assert_eq!((reason(&exit), exit.containers[0].exit_code, exit.containers[0].signal), ("Signalled", 139, Some(11)));
    let exit = PodFixture::new("kill -40 $$").run().await;
    assert_eq!((reason(&exit), exit.containers[0].exit_code), ("Signalled", 168));
}

#[tokio::test]
async fn commands_that_cannot_be_run_say_why() {
    let mut fixture = PodFixture::new("");
    fixture.plan.main.command = vec!["no-such-command-anywhere".to_owned()];
    let exit = fixture.run().await;
    assert_eq!(exit.containers[0].exit_code, 127);
    insta::assert_snapshot!(format!("{:?}", exit.result), @r#"Failed { reason: "NonZeroExit", message: "container `main` ended with exit code 127: command `no-such-command-anywhere` was not found" }"#);
    let mut fixture = PodFixture::new("");
    fixture.plan.main.command = vec!["/etc/passwd".to_owned()];
    let exit = fixture.run().await;
    insta::assert_snapshot!(exit.containers[0].message, @"command `/etc/passwd` cannot be run: Permission denied (os error 13)");
    assert_eq!(exit.containers[0].exit_code, 126);
    let mut fixture = PodFixture::new("");
    fixture.plan.main.working_dir = Some("/etc/passwd".to_owned());
    let exit = fixture.run().await;
    assert_eq!((reason(&exit), exit.containers[0].exit_code), ("NonZeroExit", 128));
}

#[tokio::test]
async fn init_containers_run_in_sequence_and_the_first_failure_counts() {
    let mut fixture = PodFixture::new("echo main");
    fixture.plan.init = vec![container("a", "echo a"), container("b", "echo b")];
    let exit = fixture.run().await;
    assert_eq!(reason(&exit), "Succeeded");
    assert_eq!(fixture.out(), ["a", "b", "main"]);
    assert_eq!(exit.containers.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["a", "b", "main"]);
    let mut fixture = PodFixture::new("echo main");
    fixture.plan.init = vec![container("a", "exit 4"), container("b", "echo b")];
    let exit = fixture.run().await;
    assert_eq!((reason(&exit), exit.containers.len(), exit.containers[0].exit_code), ("NonZeroExit", 1, 4));
    assert!(fixture.out().is_empty());
}

#[tokio::test]
async fn restarts_in_place_up_to_the_limit() {
    let mut fixture = PodFixture::new("echo run >> /tmp/runs; test $(wc -l < /tmp/runs) -ge 3");
    fixture.plan.restart_on_failure = true;
    fixture.plan.restart_limit = 5;
    let exit = fixture.run().await;
    assert_eq!((reason(&exit), exit.containers.len(), exit.containers[0].restarts), ("Succeeded", 1, 2));
    let mut fixture = PodFixture::new("echo again; exit 7");
    fixture.plan.restart_on_failure = true;
    fixture.plan.restart_limit = 2;
    let exit = fixture.run().await;
    assert_eq!((reason(&exit), exit.containers[0].restarts, fixture.out().len()), ("NonZeroExit", 2, 3));
}

#[tokio::test]
async fn deadline_is_kept_by_the_supervisor() {
    let mut fixture = PodFixture::new("sleep 1000");
    fixture.plan.active_deadline = Some(Duration::from_millis(300));
    let exit = fixture.run().await;
    assert_eq!((reason(&exit), exit.containers[0].signal), ("DeadlineExceeded", Some(15)));
    let mut fixture = PodFixture::new("exit 1");
    fixture.plan.restart_on_failure = true;
    fixture.plan.restart_limit = u32::MAX;
    fixture.plan.active_deadline = Some(Duration::from_millis(300));
    assert_eq!(reason(&fixture.run().await), "DeadlineExceeded");
}

#[tokio::test]
async fn a_stop_asks_first() {
    let fixture = PodFixture::new("trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.01; done");
    fixture.start().await;
    fixture.line("ready").await;
    fixture.stop(Duration::from_secs(30)).await;
    let exit = fixture.wait().await;
    assert_eq!(exit.result, PodResult::Cancelled);
    assert!(fixture.out().contains(&"asked".to_owned()));
    // Again, and after the end: nothing happens.
    fixture.stop(Duration::ZERO).await;
    assert_eq!(fixture.wait().await, exit);
}

#[tokio::test]
async fn a_stop_kills_what_does_not_listen_after_the_grace() {
    let fixture = PodFixture::new("trap '' TERM; echo ready; while :; do sleep 0.01; done");
    fixture.start().await;
    fixture.line("ready").await;
    let before = Instant::now();
    fixture.stop(Duration::from_millis(400)).await;
    let exit = fixture.wait().await;
    assert!(before.elapsed() >= Duration::from_millis(400));
    assert_eq!((exit.result, exit.containers[0].signal), (PodResult::Cancelled, Some(9)));
    // A second stop with less patience counts.
    let fixture = PodFixture::new("trap '' TERM; echo ready; while :; do sleep 0.01; done");
    fixture.start().await;
    fixture.line("ready").await;
    fixture.stop(Duration::from_secs(3600)).await;
    fixture.stop(Duration::ZERO).await;
    assert_eq!(fixture.wait().await.result, PodResult::Cancelled);
}

#[tokio::test]
async fn a_stop_before_the_start_keeps_anything_from_running() {
    let fixture = PodFixture::new("echo ran");
    fixture.stop(Duration::ZERO).await;
    let exit = fixture.run().await;
    assert_eq!((exit.result, fixture.out().len(), exit.containers.len()), (PodResult::Cancelled, 0, 0));
}

#[tokio::test]
async fn nothing_survives_the_end_whatever_it_did_to_hide() {
    let mark = "orlop-test-hide-1";
    let script = format!(
        "setsid sh -c 'trap \"\" TERM HUP; : {mark}; while :; do sleep 0.05; done' & \
         (setsid env -i /bin/sh -c ': {mark}; /bin/sleep 1000; :' </dev/null >/dev/null 2>&1 &) ; \
         sh -c ': {mark}; sleep 1000; :' & while [ ! -e /orlop-go/go ]; do sleep 0.02; done; exit 5"
    );
    let mut fixture = PodFixture::new(&script);
    let gate = StartSignal::of(&mut fixture);
    fixture.start().await;
    until(|| with_text(mark).len() >= 3).await;
    gate.open();
    let exit = fixture.wait().await;
    assert_eq!(exit.containers[0].exit_code, 5);
    assert_eq!(with_text(mark), Vec::<i32>::new());
}

#[tokio::test]
async fn a_fork_storm_ends_with_its_pod() {
    let mark = "orlop-test-storm-2";
    let fixture = PodFixture::new(&format!(
        "storm() {{ : {mark}; while :; do (sleep 0.01 &); done; }}; storm & storm & storm & echo ready; sleep 1000"
    ));
    fixture.start().await;
    fixture.line("ready").await;
    fixture.stop(Duration::ZERO).await;
    assert_eq!(fixture.wait().await.result, PodResult::Cancelled);
    assert_eq!(with_text(mark), Vec::<i32>::new());
}

#[tokio::test]
async fn a_frozen_pod_stands_still_and_its_deadline_too() {
    let mut fixture = PodFixture::new("echo $$; while [ ! -e /orlop-go/go ]; do sleep 0.02; done; echo end");
    let gate = StartSignal::of(&mut fixture);
    fixture.plan.active_deadline = Some(Duration::from_secs(5));
    fixture.start().await;
    until(|| !fixture.out().is_empty()).await;
    let pid: i32 = fixture.out()[0].parse().unwrap();
    fixture.freeze(true).await;
    // A shell that was just making a process waits for that one, which is stopped.
    let is_still = || matches!(state(pid), Some('T' | 'D'));
    until(is_still).await;
    // Longer than the deadline.
    tokio::time::sleep(Duration::from_millis(5500)).await;
    assert!(is_still() && fixture.out().len() == 1, "{:?}", state(pid));
    gate.open();
    fixture.freeze(false).await;
    let exit = fixture.wait().await;
    assert_eq!((reason(&exit), fixture.out().len()), ("Succeeded", 2));
}

#[tokio::test]
async fn a_frozen_pod_can_be_stopped_and_one_frozen_before_its_start_waits() {
    let fixture = PodFixture::new("echo $$; sleep 1000");
    fixture.start().await;
    until(|| !fixture.out().is_empty()).await;
    fixture.freeze(true).await;
    fixture.stop(Duration::from_secs(30)).await;
    assert_eq!(fixture.wait().await.result, PodResult::Cancelled);
    let fixture = PodFixture::new("echo ran");
    fixture.freeze(true).await;
    fixture.start().await;
    assert!(is_alive(fixture.supervisor()) && fixture.out().is_empty());
    fixture.freeze(false).await;
    assert_eq!((reason(&fixture.wait().await), fixture.out().len()), ("Succeeded", 1));
}

#[tokio::test]
async fn last_words_come_from_the_file_or_the_log() {
    let fixture = PodFixture::new("echo log; echo the file > /dev/termination-log; exit 1");
    let exit = fixture.run().await;
    assert_eq!(exit.containers[0].message, "the file\n");
    let mut fixture = PodFixture::new("echo out; echo err >&2; exit 1");
    assert_eq!(fixture.run().await.containers[0].message, "");
    fixture = PodFixture::new("echo out; sleep 0.1; echo err >&2; exit 1");
    fixture.plan.main.message_falls_back_to_logs = true;
    assert_eq!(fixture.run().await.containers[0].message, "out\nerr\n");
    let fixture = PodFixture::new("head -c 10000 /dev/zero | tr '\\0' x > /dev/termination-log");
    assert_eq!(fixture.run().await.containers[0].message.len(), 4096);
}

#[tokio::test]
async fn secrets_are_masked_everywhere() {
    let script =
        "printf 'a hun'; sleep 0.05; echo 'ter22 b'; echo hunter22 >&2; echo hunter22 > /dev/termination-log; exit 1";
    let fixture = PodFixture::new(script).env("PASSWORD", "hunter22", true);
    let exit = fixture.run().await;
    assert_eq!(fixture.out(), ["a *** b"]);
    assert_eq!(lines(&fixture.plan.stderr), ["***"]);
    assert!(!format!("{exit:?}").contains("hunter22"), "{exit:?}");
    for entry in walk(fixture.dir.path()) {
        let bytes = std::fs::read(&entry).unwrap();
        assert!(!bytes.windows(8).any(|window| window == b"hunter22"), "{}", entry.display());
    }
    let mut fixture = PodFixture::new("echo file says hunter33; echo hunter33 > /dev/termination-log");
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("token"), "hunter33\n").unwrap();
    fixture.plan.secret_files = vec![elsewhere.path().join("token"), elsewhere.path().join("optional")];
    assert!(!format!("{:?}", fixture.run().await).contains("hunter33"));
    assert_eq!(fixture.out(), ["file says ***"], "a Secret mounted as a volume");
    let fixture = PodFixture::new("[ \"$PASSWORD\" = hunter22 ]").env("PASSWORD", "hunter22", true);
    assert_eq!(reason(&fixture.run().await), "Succeeded");
}

fn walk(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let kind = std::fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            found.extend(walk(&path));
        } else if kind.is_file() {
            found.push(path);
        }
    }
    found
}

#[tokio::test]
async fn the_environment_is_the_plan_s() {
    let fixture = PodFixture::new("env | cut -d= -f1 | sort | tr '\\n' ' '").env("B", "1", false);
    fixture.run().await;
    let names = fixture.out().join(" ");
    assert!(names.contains(" B ") || names.starts_with("B "), "{names}");
    assert!(!names.contains("CARGO"), "{names}");
    let mut fixture = PodFixture::new("echo $CUDA_VISIBLE_DEVICES");
    fixture.plan.main.gpus = vec![1, 3];
    fixture.run().await;
    assert_eq!(fixture.out(), ["1,3"]);
}
