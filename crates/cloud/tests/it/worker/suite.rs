//! What every runtime of a worker does alike. Owns the cases; each runtime brings a command that works for it.

use std::sync::Arc;
use std::time::Duration;

use orlop_cloud::runtime::worker::noop::NoopRuntime;
use orlop_cloud::runtime::worker::{AttemptPlan, Cause, JobRuntime};
use orlop_core::task::{LogStream, Run, TaskEnd};

use super::recorder::Recorder;
use super::{Machine, fresh};

/// A runtime under test.
pub(crate) struct Subject<'a> {
    pub(crate) runtime: &'a dyn JobRuntime,
    pub(crate) reported: &'a Recorder,
    /// The spec of a shell script; none where nothing is run.
    pub(crate) script: Option<&'a dyn Fn(&str) -> Run>,
    /// Whether it is told by which signal an attempt ended; else by the code that stands for it.
    pub(crate) signals: bool,
}

impl Subject<'_> {
    fn plan(&self, script: &str) -> AttemptPlan {
        let spec = self.script.map_or_else(Run::default, |make| make(script));
        AttemptPlan::new(fresh(), Arc::new(spec))
    }
}

/// Runs all cases.
pub(crate) async fn holds(subject: &Subject<'_>) {
    succeeds(subject);
    asking_for_what_is_not_there_is_fine(subject).await;
    if subject.script.is_some() {
        fails_with_a_code(subject);
        both_streams_come_as_written(subject);
        cancelled_with_and_without_grace(subject);
        times_out(subject);
        cannot_start(subject);
        secrets_are_given_and_masked(subject);
        what_it_uses_is_reported_while_it_runs(subject).await;
    }
}

fn succeeds(subject: &Subject<'_>) {
    let plan = subject.plan("exit 0");
    let id = plan.id;
    subject.runtime.start(plan);
    let (story, end) = subject.reported.ended(id);
    assert_eq!((end.outcome, end.exit_code, end.signal), (TaskEnd::Succeeded, Some(0), None), "{end:?}");
    let started = story.started.unwrap();
    assert!(end.started_at == Some(started.at) && started.at <= end.finished_at);
    subject.reported.flushed();
}

async fn asking_for_what_is_not_there_is_fine(subject: &Subject<'_>) {
    let id = fresh();
    subject.runtime.end(id, Cause::Cancel, Duration::ZERO);
    subject.runtime.resume(id);
    subject.runtime.remove(id).await.unwrap();
    assert!(subject.runtime.adopt(id, 0).await.is_err());
    assert!(!subject.runtime.list().await.unwrap().iter().any(|remains| remains.id == id));
    subject.runtime.check().await.unwrap();
}

fn fails_with_a_code(subject: &Subject<'_>) {
    // The first process of a container gets no signal that it does not handle.
    let by_signal = if subject.signals { (None, Some(11)) } else { (Some(139), None) };
    for (text, (code, signal)) in
        [("exit 3", (Some(3), None)), ("sh -c 'kill -SEGV $$'; kill -SEGV $$; exit 139", by_signal)]
    {
        let plan = subject.plan(text);
        let id = plan.id;
        subject.runtime.start(plan);
        let (_, end) = subject.reported.ended(id);
        assert_eq!((end.outcome, end.exit_code, end.signal), (TaskEnd::Failed, code, signal), "{end:?}");
    }
}

fn both_streams_come_as_written(subject: &Subject<'_>) {
    let plan = subject.plan(r"printf 'a\377\000b'; printf 'err' >&2; echo $ORLOP_JOB_ID $ORLOP_ATTEMPT");
    let id = plan.id;
    subject.runtime.start(plan);
    let (story, end) = subject.reported.ended(id);
    let expected = [b"a\xff\x00b".as_slice(), format!("{} 1\n", id.job).as_bytes()].concat();
    assert_eq!(story.bytes(LogStream::Stdout), expected);
    assert_eq!(story.bytes(LogStream::Stderr), b"err");
    assert_eq!(end.log.bytes, expected.len() as u64 + 3);
}

fn cancelled_with_and_without_grace(subject: &Subject<'_>) {
    for (cause, outcome) in [(Cause::Cancel, TaskEnd::Cancelled), (Cause::Preempt, TaskEnd::Preempted)] {
        let plan = subject.plan("trap 'echo asked; exit 7' TERM; echo ready; while :; do sleep 0.05; done");
        let id = plan.id;
        subject.runtime.start(plan);
        subject.reported.until(id, |story| story.text().contains("ready"));
        subject.runtime.end(id, cause, Duration::from_secs(30));
        let (story, end) = subject.reported.ended(id);
        assert_eq!((end.outcome, end.exit_code), (outcome, Some(7)), "{end:?}");
        assert_eq!(story.text(), "ready\nasked\n");
    }
    let plan = subject.plan("trap '' TERM; echo ready; while :; do sleep 0.05; done");
    let id = plan.id;
    subject.runtime.start(plan);
    subject.reported.until(id, |story| story.text().contains("ready"));
    subject.runtime.end(id, Cause::Cancel, Duration::from_secs(1));
    let (_, end) = subject.reported.ended(id);
    assert_eq!(end.outcome, TaskEnd::Cancelled, "{end:?}");
    assert!(end.signal == Some(9) || end.exit_code == Some(137), "{end:?}");
}

/// Its first process holds the memory, a child of it uses the CPU.
async fn what_it_uses_is_reported_while_it_runs(subject: &Subject<'_>) {
    let text = "x=$(head -c 8000000 /dev/zero | tr '\\0' a); echo ready; sh -c 'while :; do :; done'; echo ${#x}";
    let plan = subject.plan(text);
    let (id, other) = (plan.id, fresh());
    subject.runtime.start(plan);
    subject.reported.until(id, |story| story.text().contains("ready"));
    let begun = std::time::Instant::now();
    let mut before = 0;
    loop {
        let found = subject.runtime.in_use(&[id, other]).await.unwrap();
        assert!(found.len() <= 1 && found.iter().all(|(known, _)| *known == id), "{found:?}");
        if let Some((_, used)) = found.first() {
            assert!(used.cpu_ms >= before, "CPU time does not go back: {used:?} after {before}");
            before = used.cpu_ms;
            // The script is held in it once at least; nothing else here is that large.
            if used.cpu_ms >= 500 && used.memory_bytes >= 8_000_000 {
                assert!(used.memory_bytes < 1 << 30, "{used:?}");
                break;
            }
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{found:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    subject.runtime.end(id, Cause::Cancel, Duration::ZERO);
    subject.reported.ended(id);
    assert_eq!(subject.runtime.in_use(&[id]).await.unwrap(), [], "it has ended");
}

fn times_out(subject: &Subject<'_>) {
    let mut plan = subject.plan("sleep 600");
    let id = plan.id;
    (plan.timeout, plan.grace) = (Some(Duration::from_millis(300)), Duration::from_millis(300));
    subject.runtime.start(plan);
    let (_, end) = subject.reported.ended(id);
    assert_eq!(end.outcome, TaskEnd::TimedOut, "{end:?}");
}

fn cannot_start(subject: &Subject<'_>) {
    let mut plan = subject.plan("");
    let id = plan.id;
    let argv = vec!["no-such-program-anywhere".to_owned()];
    plan.run = Arc::new(Run { argv, ..(*plan.run).clone() });
    subject.runtime.start(plan);
    let (story, end) = subject.reported.ended(id);
    assert_eq!(end.outcome, TaskEnd::StartFailed, "{end:?}");
    assert!(end.reason.starts_with("command: `no-such-program-anywhere` "), "{end:?}");
    assert!(end.exit_code == Some(127), "{end:?}");
    let said = String::from_utf8(story.bytes(LogStream::System)).unwrap();
    assert!(said.contains("no-such-program-anywhere"), "{said}");
    assert!(story.started.is_none());
}

fn secrets_are_given_and_masked(subject: &Subject<'_>) {
    use orlop_cloud::runtime::worker::Secret;
    use orlop_core::spec::job::SecretAs;
    let text = "cat $ORLOP_SECRETS_DIR/sub/key; echo; echo $TOKEN; printf in-env-; sleep 0.3; printf 9482; \
                echo \"a=$TOKEN\" >> $ORLOP_OUTPUT";
    let mut plan = subject.plan(text);
    let id = plan.id;
    let secret = |value: &str, given_as, target: &str| Secret {
        name: "s".to_owned(),
        value: value.to_owned(),
        given_as,
        target: target.to_owned(),
    };
    plan.secrets =
        vec![secret("in-file-7731", SecretAs::File, "sub/key"), secret("in-env-9482", SecretAs::Env, "TOKEN")];
    subject.runtime.start(plan);
    let (story, end) = subject.reported.ended(id);
    assert_eq!(end.outcome, TaskEnd::Succeeded, "{end:?}");
    assert_eq!(story.text(), "***\n***\n***");
    assert_eq!(end.outputs.get("a").map(String::as_str), Some("***"));
}

#[tokio::test]
async fn noop() {
    let reported = Arc::new(Recorder::default());
    let runtime = NoopRuntime::new(reported.clone());
    holds(&Subject { runtime: &runtime, reported: &reported, script: None, signals: true }).await;
}

#[tokio::test]
async fn process() {
    let machine = Machine::new();
    let make = |text: &str| Run { argv: ["/bin/sh", "-c", text].map(str::to_owned).to_vec(), ..Run::default() };
    holds(&Subject { runtime: &machine.runtime, reported: &machine.reported, script: Some(&make), signals: true })
        .await;
}

#[tokio::test]
async fn supervised_process() {
    let machine = Machine::with(super::supervised::with_supervisor);
    let make =
        |text: &str| Run { argv: ["/bin/sh", "-c", text].map(str::to_owned).to_vec(), survive: true, ..Run::default() };
    holds(&Subject { runtime: &machine.runtime, reported: &machine.reported, script: Some(&make), signals: true })
        .await;
}
