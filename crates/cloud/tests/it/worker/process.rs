//! What is special to attempts as processes: directories, environment, outputs, secrets in memory.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::PoisonError;
use std::time::Duration;

use orlop_cloud::runtime::worker::{AttemptPlan, JobRuntime, Secret};
use orlop_core::spec::job::SecretAs;
use orlop_core::task::{LogStream, Run, TaskEnd};

use super::{Machine, PROGRAM, plan, script};
use crate::process::with_text;

#[test]
fn a_fresh_directory_of_its_own_that_is_gone_after() {
    let machine = Machine::new();
    let job = script("pwd; stat -c %a .; mkdir -p deep/er; chmod 0 deep; touch file");
    let id = job.id;
    machine.runtime.start(job);
    let (reports, _) = machine.reported.ended(id);
    let dir = machine.dir.path().join("work").join(id.to_string());
    assert_eq!(reports.text(), format!("{}\n700\n", dir.display()));
    assert!(!dir.exists());
    assert_eq!(fs::metadata(dir.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
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
fn secrets_are_files_in_memory_that_are_gone_after() {
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
    let (reports, _) = machine.reported.ended(id);
    let text = reports.text();
    let lines: Vec<&str> = text.lines().rev().collect();
    assert_eq!(lines[1..3], ["400", "700"], "{text}");
    assert!(!fs::exists(lines[0]).unwrap(), "{text}");
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
fn a_process_that_hides_all_its_marks_is_found_when_nothing_else_runs() {
    let _alone = PROGRAM.write().unwrap_or_else(PoisonError::into_inner);
    let machine = Machine::with(|options| options.exclusive = true);
    let time = format!("{}.3", 70_000 + std::process::id());
    let go = tempfile::tempdir().unwrap();
    let waits = format!("until [ -e {}/go ]; do sleep 0.02; done", go.path().display());
    let job = script(&format!("(env -i setsid sleep {time} >/dev/null 2>&1 &); {waits}"));
    let id = job.id;
    machine.runtime.start(job);
    while with_text(&time).is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::fs::write(go.path().join("go"), "").unwrap();
    machine.reported.ended(id);
    assert_eq!(with_text(&time), Vec::<i32>::new());
}

#[test]
fn outputs_come_with_the_end() {
    let machine = Machine::new();
    let job = script("echo answer=42 >> $ORLOP_OUTPUT; echo nonsense >> $ORLOP_OUTPUT");
    let id = job.id;
    machine.runtime.start(job);
    let (reports, end) = machine.reported.ended(id);
    assert_eq!(end.outputs.get("answer").map(String::as_str), Some("42"));
    assert!(String::from_utf8(reports.bytes(LogStream::System)).unwrap().contains("1 lines"));
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
    let (reports, end) = machine.reported.ended(id);
    assert_eq!((end.reason.as_str(), end.exit_code), ("command: `true` was not found", Some(127)));
    assert_eq!(reports.bytes(LogStream::System), b"command `true` was not found\n");
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
