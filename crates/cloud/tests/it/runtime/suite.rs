//! What is true of every program that runs on this machine, whichever port and implementation runs it. Owns the rules;
//! [`Subject`] says in what implementations differ.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use orlop_cloud::runtime::worker::{AttemptEnd, Secret};
use orlop_core::spec::job::SecretAs;
use orlop_core::task::{LogStream, TaskEnd};

use super::{Subject, Work};
use crate::process::{until, with_text};

/// More than any test takes.
pub(super) const LONG: Duration = Duration::from_secs(3600);

/// A text for the command line of a program, by which it is found among all processes.
pub(super) fn mark() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("orlop-suite-{}-{}.", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A command that waits for [`go`].
fn until_go<S: Subject>() -> String {
    format!("until [ -e {}/go ]; do sleep 0.02; done", S::SHARED)
}

/// Lets a program go on that waits for it.
fn go(shared: &Path) {
    fs::write(shared.join("go"), "").unwrap();
}

fn stdout<S: Subject>(subject: &S, run: &S::Run) -> String {
    String::from_utf8(subject.output(run, LogStream::Stdout)).unwrap()
}

/// Starts a script and waits until it has written a line.
async fn started<S: Subject>(subject: &S, text: &str, line: &str) -> S::Run {
    let run = subject.start(Work::script(text)).await;
    written(subject, &run, line).await;
    run
}

async fn written<S: Subject>(subject: &S, run: &S::Run, line: &str) {
    until(|| stdout(subject, run).lines().any(|found| found == line)).await;
}

/// The ends of several runs at the same time.
async fn ends<S: Subject>(subject: &S, all: impl IntoIterator<Item = Work>) -> Vec<AttemptEnd> {
    let (mut runs, mut ends) = (Vec::new(), Vec::new());
    for work in all {
        runs.push(subject.start(work).await);
    }
    for run in &runs {
        ends.push(subject.wait(run).await);
    }
    ends
}

pub(super) async fn exit_code_zero_is_success<S: Subject>(subject: S) {
    let run = subject.start(Work::script("exit 0")).await;
    let end = subject.wait(&run).await;
    assert_eq!((end.outcome, end.exit_code, end.signal), (TaskEnd::Succeeded, Some(0), None), "{end:?}");
    assert!(end.started_at.unwrap() <= end.finished_at, "{end:?}");
}

pub(super) async fn exit_codes_arrive<S: Subject>(subject: S) {
    let codes = [3, 128, 200];
    let scripts = codes.map(|code| Work::script(&format!("exit {code}")));
    for (code, end) in codes.into_iter().zip(ends(&subject, scripts).await) {
        assert_eq!((end.outcome, end.exit_code, end.signal), (TaskEnd::Failed, Some(code), None), "{end:?}");
    }
}

pub(super) async fn signals_arrive<S: Subject>(subject: S) {
    let signals = [11, 40];
    // The first process of a container gets no signal that it does not handle.
    let script = |signal| format!("sh -c 'kill -{signal} $$'; code=$?; kill -{signal} $$; exit $code");
    let scripts = signals.map(|signal| Work::script(&script(signal)));
    for (signal, end) in signals.into_iter().zip(ends(&subject, scripts).await) {
        assert_eq!((end.outcome, end.signal), (TaskEnd::Failed, subject.names_signals().then_some(signal)), "{end:?}");
        let is_named = end.exit_code.is_none() && subject.names_signals();
        assert!(end.exit_code == Some(128 + signal) || is_named, "{end:?}");
    }
}

pub(super) async fn a_command_that_is_not_there_ends_with_127_and_is_named<S: Subject>(subject: S) {
    let argv = vec!["no-such-program-anywhere".to_owned()];
    let run = subject.start(Work { argv, ..Work::script("") }).await;
    let end = subject.wait(&run).await;
    assert!(matches!(end.outcome, TaskEnd::Failed | TaskEnd::StartFailed), "{end:?}");
    assert_eq!((end.exit_code, end.signal), (Some(127), None), "{end:?}");
    assert!(end.reason.contains("no-such-program-anywhere"), "{end:?}");
}

pub(super) async fn both_streams_arrive_as_written<S: Subject>(subject: S) {
    let run = subject
        .start(Work::script(r"printf 'ä\001\000\tb\n\n'; head -c 100000 /dev/zero | tr '\0' x; printf 'err' >&2"))
        .await;
    let end = subject.wait(&run).await;
    assert_eq!(end.outcome, TaskEnd::Succeeded, "{end:?}");
    let last: &[u8] = if S::LINES { b"\n" } else { b"" };
    assert_eq!(
        subject.output(&run, LogStream::Stdout),
        ["ä\u{1}\0\tb\n\n".as_bytes(), &[b'x'; 100_000], last].concat()
    );
    assert_eq!(subject.output(&run, LogStream::Stderr), [b"err", last].concat());
}

pub(super) async fn asked_to_end_it_is_asked_first_and_its_own_exit_code_counts<S: Subject>(subject: S) {
    let text = "trap 'echo asked; exit 7' TERM; echo ready; while :; do sleep 0.05; done";
    let run = started(&subject, text, "ready").await;
    subject.end(&run, LONG).await;
    let end = subject.wait(&run).await;
    assert_eq!((end.outcome, end.exit_code, end.signal), (TaskEnd::Cancelled, Some(7), None), "{end:?}");
    assert_eq!(stdout(&subject, &run), "ready\nasked\n");
    subject.end(&run, Duration::ZERO).await;
    assert_eq!(subject.wait(&run).await, end, "asked after its end");
}

pub(super) async fn what_does_not_listen_is_killed_after_the_grace<S: Subject>(subject: S) {
    let grace = Duration::from_millis(800);
    let run = started(&subject, "trap '' TERM; echo ready; while :; do sleep 0.05; done", "ready").await;
    let asked = Instant::now();
    subject.end(&run, grace).await;
    let end = subject.wait(&run).await;
    let after = asked.elapsed();
    assert_eq!(end.outcome, TaskEnd::Cancelled, "{end:?}");
    assert!(end.signal == Some(9) || end.exit_code == Some(137), "{end:?}");
    assert!(after >= grace, "killed after {after:?}");
}

pub(super) async fn asked_again_the_shorter_grace_counts<S: Subject>(subject: S) {
    for graces in [[LONG, Duration::ZERO], [Duration::from_millis(400), LONG]] {
        let text = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.05; done";
        let run = started(&subject, text, "ready").await;
        subject.end(&run, graces[0]).await;
        written(&subject, &run, "asked").await;
        subject.end(&run, graces[1]).await;
        subject.end(&run, LONG).await;
        let end = subject.wait(&run).await;
        assert_eq!(end.outcome, TaskEnd::Cancelled, "{end:?}");
        assert!(end.signal == Some(9) || end.exit_code == Some(137), "{end:?}");
    }
}

pub(super) async fn the_time_limit_ends_it_and_says_so<S: Subject>(subject: S) {
    let limit = Duration::from_millis(300);
    // The limit of a pod counts from before its first container, which is when its end says that it started.
    let asked = Instant::now();
    let run = subject.start(Work { timeout: Some(limit), grace: limit, ..Work::script("sleep 600") }).await;
    let end = subject.wait(&run).await;
    assert_eq!(end.outcome, TaskEnd::TimedOut, "{end:?}");
    assert!(asked.elapsed() >= limit, "{end:?}");
}

pub(super) async fn the_time_limit_holds_for_another_instance<S: Subject>(subject: S) {
    let (limit, outcome) =
        if subject.survives() { (Duration::from_secs(2), TaskEnd::TimedOut) } else { (LONG, TaskEnd::Lost) };
    let work = Work { timeout: Some(limit), grace: Duration::ZERO, ..Work::script("echo ready; sleep 600") };
    let run = subject.start(work).await;
    written(&subject, &run, "ready").await;
    let subject = subject.restarted(async || {}).await;
    let end = subject.wait(&run).await;
    assert_eq!(end.outcome, outcome, "{end:?}");
}

fn secret(value: &str, given_as: SecretAs, target: &str) -> Secret {
    Secret { name: "s".to_owned(), value: value.to_owned(), given_as, target: target.to_owned() }
}

pub(super) async fn secrets_reach_the_program_and_nothing_else<S: Subject>(subject: S) {
    // What it is compared with is no secret as it is written here.
    let text = format!(
        "[ $TOKEN = 'in-env-''9482' ] && [ $(cat {file}) = 'in-file-''7731' ] && echo both; \
         cat {file}; echo; echo $TOKEN >&2; printf 'a in-env-'; sleep 0.3; echo '9482 b'; {}; \
         echo answer=$TOKEN$(cat {file}) >> {}",
        until_go::<S>(),
        S::REPORT,
        file = S::SECRET_FILE,
    );
    let secrets = vec![secret("in-file-7731", SecretAs::File, "key"), secret("in-env-9482", SecretAs::Env, "TOKEN")];
    let run = subject.start(Work { secrets, ..Work::script(&text) }).await;
    written(&subject, &run, "a *** b").await;
    assert_eq!(holding_secrets(subject.place().path()), Vec::<PathBuf>::new(), "while it runs");
    go(&subject.shared(&run));
    let end = subject.wait(&run).await;
    assert_eq!(end.outcome, TaskEnd::Succeeded, "{end:?}");
    assert_eq!(stdout(&subject, &run), "both\n***\na *** b\n");
    assert_eq!(subject.output(&run, LogStream::Stderr), b"***\n");
    let reported = format!("{end:?}");
    assert!(reported.contains("******") && !reported.contains("9482") && !reported.contains("7731"), "{reported}");
    assert_eq!(holding_secrets(subject.place().path()), Vec::<PathBuf>::new(), "after its end");
}

/// Files below a directory in which a secret can be read, without the one that the program itself wrote for its end.
fn holding_secrets(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).map(|metadata| metadata.file_type());
        if kind.as_ref().is_ok_and(fs::FileType::is_dir) {
            found.extend(holding_secrets(&path));
        } else if kind.is_ok_and(|kind| kind.is_file()) {
            let bytes = fs::read(&path).unwrap_or_default();
            let holds = |secret: &[u8]| bytes.windows(secret.len()).any(|window| window == secret);
            let is_own = path.ends_with("termination-0") || path.ends_with(".orlop-output");
            if !is_own && (holds(b"in-env-9482") || holds(b"in-file-7731")) {
                found.push(path);
            }
        }
    }
    found
}

pub(super) async fn nothing_that_it_started_is_left_after_its_end<S: Subject>(subject: S) {
    let marks = [mark(), mark()];
    let script = |mark: &str| {
        format!(
            "trap '' TERM HUP; setsid sh -c 'trap \"\" TERM HUP; : {mark}; while :; do sleep 0.05; done' & \
             (setsid env -i /bin/sh -c ': {mark}; /bin/sleep 1000; :' </dev/null >/dev/null 2>&1 &); \
             (cd / && setsid env -i /bin/sh -c ': {mark}; /bin/sleep 1000; :' &); \
             (sh -c ': {mark}; sleep 1000; :' &); echo ready; {}; exit 5",
            until_go::<S>(),
        )
    };
    let exits = started(&subject, &script(&marks[0]), "ready").await;
    let is_ended = started(&subject, &script(&marks[1]), "ready").await;
    until(|| marks.iter().all(|mark| with_text(mark).len() >= 5)).await;
    go(&subject.shared(&exits));
    let end = subject.wait(&exits).await;
    assert_eq!((end.outcome, end.exit_code), (TaskEnd::Failed, Some(5)), "{end:?}");
    assert_eq!(with_text(&marks[0]), Vec::<i32>::new(), "after its own end");
    assert!(with_text(&marks[1]).len() >= 5, "that of another is left alone");
    subject.end(&is_ended, Duration::from_millis(100)).await;
    let end = subject.wait(&is_ended).await;
    assert_eq!(end.outcome, TaskEnd::Cancelled, "{end:?}");
    assert_eq!(with_text(&marks[1]), Vec::<i32>::new(), "after it was killed");
}

pub(super) async fn a_fork_loop_ends_with_it<S: Subject>(subject: S) {
    let mark = mark();
    let text = format!(
        "storm() {{ while :; do setsid sh -c ': {mark}; sleep 600; :' & (sleep 0.02 &); sleep 0.01; done; }}; \
         storm & storm & echo ready; sleep 600"
    );
    let run = started(&subject, &text, "ready").await;
    until(|| with_text(&mark).len() >= 10).await;
    subject.end(&run, Duration::ZERO).await;
    assert_eq!(subject.wait(&run).await.outcome, TaskEnd::Cancelled);
    assert_eq!(with_text(&mark), Vec::<i32>::new());
}

pub(super) async fn another_instance_finds_it_and_reports_its_one_end<S: Subject>(subject: S) {
    let mark = mark();
    let text = format!(
        ": {mark}; echo run >> {0}/runs; n=0; \
         until [ -e {0}/go ]; do n=$((n+1)); echo $n $TOKEN; sleep 0.02; done; exit 3",
        S::SHARED
    );
    let secret = secret("in-env-9482", SecretAs::Env, "TOKEN");
    let run = subject.start(Work { secrets: vec![secret], ..Work::script(&text) }).await;
    written(&subject, &run, "3 ***").await;
    let (shared, survives, catches_up) = (subject.shared(&run), subject.survives(), subject.catches_up());
    let subject = subject.restarted(async || {}).await;
    if survives {
        let before = stdout(&subject, &run).len();
        until(|| stdout(&subject, &run).len() > before).await;
        go(&shared);
    }
    let end = subject.wait(&run).await;
    let (outcome, exit_code) = if survives { (TaskEnd::Failed, Some(3)) } else { (TaskEnd::Lost, None) };
    assert_eq!((end.outcome, end.exit_code), (outcome, exit_code), "{end:?}");
    assert_eq!(with_text(&mark), Vec::<i32>::new());
    let text = stdout(&subject, &run);
    let numbers: Vec<u32> = text.lines().map(|line| line.strip_suffix(" ***").unwrap().parse().unwrap()).collect();
    assert!(numbers.is_sorted_by(|a, b| if catches_up { a + 1 == *b } else { a < b }), "{numbers:?}");
    if survives {
        assert_eq!(fs::read_to_string(shared.join("runs")).unwrap(), "run\n", "nothing runs twice");
    }
}

pub(super) async fn another_instance_can_end_it<S: Subject>(subject: S) {
    let text = "trap 'echo asked; exit 9' TERM; echo ready; while :; do sleep 0.05; done";
    let run = started(&subject, text, "ready").await;
    let subject = subject.restarted(async || {}).await;
    subject.end(&run, LONG).await;
    let end = subject.wait(&run).await;
    let (outcome, exit_code, output) = match subject.survives() {
        true => (TaskEnd::Cancelled, Some(9), "ready\nasked\n"),
        false => (TaskEnd::Lost, None, "ready\n"),
    };
    assert_eq!((end.outcome, end.exit_code), (outcome, exit_code), "{end:?}");
    assert_eq!(stdout(&subject, &run), output);
}

pub(super) async fn what_ended_while_nobody_looked_is_reported_by_the_next_instance<S: Subject>(subject: S) {
    let mark = mark();
    let text = format!(": {mark}; echo run >> {}/runs; echo up; {}; echo down; exit 4", S::SHARED, until_go::<S>());
    let run = started(&subject, &text, "up").await;
    let shared = subject.shared(&run);
    let ends = async || {
        go(&shared);
        until(|| with_text(&mark).is_empty()).await;
    };
    let subject = subject.restarted(ends).await;
    let end = subject.wait(&run).await;
    let (outcome, exit_code) = if subject.survives() { (TaskEnd::Failed, Some(4)) } else { (TaskEnd::Lost, None) };
    assert_eq!((end.outcome, end.exit_code), (outcome, exit_code), "{end:?}");
    if subject.survives() {
        assert_eq!(stdout(&subject, &run), if subject.catches_up() { "up\ndown\n" } else { "up\n" });
        assert_eq!(fs::read_to_string(shared.join("runs")).unwrap(), "run\n", "nothing runs twice");
    }
}

pub(super) async fn asking_for_what_is_not_there_is_fine<S: Subject>(subject: S) {
    let absent = subject.absent();
    assert!(!subject.finds(&absent).await);
    for _ in 0..2 {
        subject.ask_everything(&absent).await;
    }
    assert!(!subject.finds(&absent).await);
    let run = subject.start(Work::script("exit 0")).await;
    let end = subject.wait(&run).await;
    for _ in 0..2 {
        subject.ask_everything(&run).await;
        assert_eq!(subject.wait(&run).await, end, "asked after its end");
    }
}
