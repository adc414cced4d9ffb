//! What is special to attempts as processes: directories, limits of output, outputs, secrets in memory, remains.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

use orlop_cloud::runtime::worker::{AttemptPlan, Cause, JobRuntime, RemainsState, Secret};
use orlop_core::spec::job::{LogPolicy, OnFull, SecretAs};
use orlop_core::task::{LogStream, Run, TaskEnd};

use super::{Machine, fresh, plan, script};

fn logged(text: &str, limit: u64, on_full: OnFull) -> AttemptPlan {
    let argv = ["/bin/sh", "-c", text].map(str::to_owned).to_vec();
    plan(Run { argv, log: LogPolicy { limit, on_full }, ..Run::default() })
}

#[test]
fn a_fresh_directory_of_its_own_that_is_gone_after() {
    let machine = Machine::new();
    let job = script("pwd; stat -c %a .; mkdir -p deep/er; chmod 0 deep; touch file");
    let id = job.id;
    machine.runtime.start(job);
    let (story, _) = machine.reported.ended(id);
    let dir = machine.dir.path().join("work").join(id.to_string());
    assert_eq!(story.text(), format!("{}\n700\n", dir.display()));
    assert!(!dir.exists());
}

#[test]
fn nothing_of_the_agents_environment_passes() {
    let machine = Machine::new();
    let env = vec![("GREETING".to_owned(), "job {{job}} element {{index}}".to_owned())];
    let argv = ["env"].map(str::to_owned).to_vec();
    let job = plan(Run { argv, env, ..Run::default() });
    let id = job.id;
    machine.runtime.start(job);
    let text = machine.reported.ended(id).0.text();
    assert!(text.contains(&format!("GREETING=job {} element 0\n", id.job)), "{text}");
    assert!(!text.contains("CARGO"), "{text}");
    let names: Vec<&str> = text.lines().filter_map(|line| line.split('=').next()).collect();
    let known = |name: &&str| !["PATH", "HOME", "LANG", "GREETING"].contains(name) && !name.starts_with("ORLOP_");
    assert_eq!(names.iter().copied().find(known), None);
}

#[test]
fn secrets_are_files_in_memory_that_are_gone_after_and_never_on_disk() {
    let machine = Machine::new();
    let mut job = script(
        "stat -c '%a %T' -f $ORLOP_SECRETS_DIR 2>/dev/null; stat -c '%a' $ORLOP_SECRETS_DIR $ORLOP_SECRETS_DIR/key; echo $ORLOP_SECRETS_DIR; read x",
    );
    job = AttemptPlan {
        secrets: vec![Secret {
            name: "key".to_owned(),
            value: "hunter22-hunter22".to_owned(),
            given_as: SecretAs::File,
            target: "key".to_owned(),
        }],
        ..job
    };
    let id = job.id;
    machine.runtime.start(job);
    let (story, _) = machine.reported.ended(id);
    let text = story.text();
    let lines: Vec<&str> = text.lines().rev().collect();
    assert_eq!(lines[1..3], ["400", "700"], "{text}");
    assert!(!fs::exists(lines[0]).unwrap(), "{text}");
    let grep = std::process::Command::new("grep").args(["-rq", "hunter22"]).arg(machine.dir.path()).status().unwrap();
    assert_eq!(grep.code(), Some(1), "nothing is found");
    // And a secret that would leave its directory is refused.
    let mut bad = script("true");
    bad.secrets = vec![Secret {
        name: "k".to_owned(),
        value: "value".to_owned(),
        given_as: SecretAs::File,
        target: "../k".to_owned(),
    }];
    let id = bad.id;
    machine.runtime.start(bad);
    let (_, end) = machine.reported.ended(id);
    assert_eq!(end.outcome, TaskEnd::StartFailed);
    assert_eq!(end.reason, "secret");
}

#[test]
fn a_flood_is_read_to_the_limit_and_never_stops_the_job() {
    let machine = Machine::new();
    let job = logged("head -c 20000000 /dev/zero | tr '\\0' 'x'; echo >&2 done", 1 << 20, OnFull::Drop);
    let id = job.id;
    machine.runtime.start(job);
    let (story, end) = machine.reported.ended(id);
    assert_eq!(
        (end.outcome, end.log.bytes, end.log.dropped_bytes),
        (TaskEnd::Succeeded, 1 << 20, 20_000_005 - (1 << 20))
    );
    let gaps: u64 = story.chunks.iter().filter_map(|chunk| chunk.gap).map(|gap| gap.bytes).sum();
    assert_eq!(gaps, end.log.dropped_bytes, "every byte that is missing is in a gap");
    assert_eq!(story.bytes(LogStream::Stdout).len(), 1 << 20);
    let seqs: Vec<u64> = story.chunks.iter().map(|chunk| chunk.seq).collect();
    assert_eq!(seqs, (1..=end.log.last_seq).collect::<Vec<_>>());
}

#[test]
fn a_job_may_fail_or_wait_when_its_log_is_full() {
    let machine = Machine::new();
    let job = logged("while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done", 100_000, OnFull::Fail);
    let id = job.id;
    machine.runtime.start(job);
    let (_, end) = machine.reported.ended(id);
    assert_eq!((end.outcome, end.reason.as_str(), end.log.bytes), (TaskEnd::Failed, "log_limit", 100_000));

    // There is no room in the outbox log: the job waits, and goes on when there is.
    machine.reported.set_full(true);
    let job = logged("head -c 1000000 /dev/zero; echo >&2 done", 64 << 20, OnFull::Block);
    let id = job.id;
    machine.runtime.start(job);
    machine.reported.until(id, |story| !story.chunks.is_empty());
    std::thread::sleep(Duration::from_millis(200));
    let held = machine.reported.so_far(id);
    assert!(held.end.is_none() && held.bytes(LogStream::Stdout).len() < 900_000);
    machine.reported.set_full(false);
    machine.runtime.resume(id);
    let (story, end) = machine.reported.ended(id);
    assert_eq!((end.outcome, story.bytes(LogStream::Stdout).len()), (TaskEnd::Succeeded, 1_000_000));
}

#[test]
fn outputs_come_with_the_end() {
    let machine = Machine::new();
    let job = script("echo answer=42 >> $ORLOP_OUTPUT; echo nonsense >> $ORLOP_OUTPUT");
    let id = job.id;
    machine.runtime.start(job);
    let (story, end) = machine.reported.ended(id);
    assert_eq!(end.outputs.get("answer").map(String::as_str), Some("42"));
    assert!(String::from_utf8(story.bytes(LogStream::System)).unwrap().contains("1 lines"));
}

#[test]
fn cpu_and_memory_of_an_attempt_are_reported() {
    let machine = Machine::new();
    let job =
        script("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; head -c 50000000 /dev/zero | tail -c 1; sleep 1");
    let id = job.id;
    machine.runtime.start(job);
    let (_, end) = machine.reported.ended(id);
    assert!(end.usage.cpu_ms > 20, "{:?}", end.usage);
    assert!(end.usage.max_rss > 500_000, "{:?}", end.usage);
}

#[test]
fn no_core_of_the_agent_is_shared_and_commands_are_found_in_the_jobs_path() {
    let machine = Machine::new();
    let env = vec![("PATH".to_owned(), "/nowhere".to_owned())];
    let job = plan(Run { argv: vec!["true".to_owned()], env, ..Run::default() });
    let id = job.id;
    machine.runtime.start(job);
    let (story, end) = machine.reported.ended(id);
    assert_eq!((end.reason.as_str(), end.exit_code), ("command: `true` was not found", Some(127)));
    assert_eq!(story.bytes(LogStream::System), b"command `true` was not found\n");
}

#[tokio::test]
async fn what_an_earlier_agent_left_without_supervisor_is_ended_and_lost() {
    let machine = Machine::with(|options| options.mark = "earlier".to_owned());
    let job = script("setsid sh -c 'echo up; sleep 600' & sleep 600");
    let id = job.id;
    machine.runtime.start(job);
    machine.reported.until(id, |story| story.text().contains("up"));
    let pid: i32 = machine.reported.so_far(id).started.unwrap().handle.split('@').next().unwrap().parse().unwrap();
    // The agent is gone, its directory and processes are not.
    let work = machine.dir.path().join("work");
    drop(machine.runtime);
    let reported = Arc::new(super::Recorder::default());
    let mut options = orlop_cloud::runtime::worker::process::ProcessOptions::new("w", &work);
    options.mark = "earlier".to_owned();
    let next = orlop_cloud::runtime::worker::process::ProcessRuntime::new(options, reported.clone()).unwrap();
    fs::create_dir(work.join(fresh().to_string())).unwrap();
    let found = next.list().await.unwrap();
    assert_eq!(
        found.iter().map(|remains| &remains.state).collect::<Vec<_>>(),
        [&RemainsState::Orphaned, &RemainsState::Gone]
    );
    for remains in found {
        next.adopt(remains.id, 0).await.unwrap();
        let (_, end) = reported.ended(remains.id);
        assert_eq!((end.outcome, end.reason.as_str()), (TaskEnd::Lost, "agent_restart"));
    }
    assert!(next.list().await.unwrap().is_empty());
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "{state}");
    next.end(id, Cause::Cancel, Duration::ZERO);
    assert_eq!(fs::metadata(&work).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn the_directories_of_the_latest_failures_stay_as_many_as_asked_for() {
    let machine = Machine::with(|options| options.keep_failed = 2);
    let mut ids = Vec::new();
    for text in ["echo 1 > it; exit 1", "exit 0", "echo 2 > it; exit 1", "echo 3 > it; exit 1"] {
        let job = script(text);
        ids.push(job.id);
        machine.runtime.start(job);
        machine.reported.ended(*ids.last().unwrap());
    }
    let work = machine.dir.path().join("work");
    let kept = |id: &orlop_core::task::TaskRef| work.join(".failed").join(id.to_string()).join("it");
    assert_eq!(ids.iter().map(|id| kept(id).exists()).collect::<Vec<_>>(), [false, false, true, true]);
    assert_eq!(fs::read_to_string(kept(&ids[3])).unwrap(), "3\n");
    assert!(ids.iter().all(|id| !work.join(id.to_string()).exists()));
}

#[test]
fn no_core_dumps_and_at_most_so_many_open_files() {
    let machine = Machine::new();
    let job = script("ulimit -c; ulimit -n; ulimit -Hn");
    let id = job.id;
    machine.runtime.start(job);
    let text = machine.reported.ended(id).0.text();
    let lines: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert!(lines[0] == 0 && lines[1] == lines[2] && lines[1] <= 65_536, "{lines:?}");
}
