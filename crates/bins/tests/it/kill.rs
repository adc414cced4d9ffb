//! `kill -9` of a run at a hundred moments, or a sample of them: `--resume` always ends with the same outcomes, no succeeded
//! attempt runs again, and nothing is left behind.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Moments at which the program is killed in the long mode.
const KILLS: u32 = 100;
/// Runs that are killed otherwise.
const FEW: usize = 2;
/// Kills of one run before it may end.
const KILLS_PER_RUN: u32 = 5;

/// Each attempt notes its begin and its end in a volume.
const FLOW: &str = r#"
apiVersion: workflow.kube-zen.io/v1alpha1
kind: JobFlow
metadata: {name: killed}
spec:
  executionPolicy: {parallelism: 3}
  resourceTemplates:
    volumeClaimTemplates:
      - metadata: {name: marks}
        spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
  steps:
    - {name: a, template: &job {apiVersion: batch/v1, kind: Job, spec: {template: {spec: {
        containers: [{name: main, image: busybox, volumeMounts: [{name: marks, mountPath: /marks}],
          env: [{name: STEP, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['workflow.kube-zen.io/step-name']"}}},
                {name: ATTEMPT, valueFrom: {fieldRef: {fieldPath: "metadata.labels['workflow.kube-zen.io/attempt']"}}}],
          command: [/bin/sh, -c, 'echo "begin $STEP $ATTEMPT" >> /marks/log; sleep 0.1; test "$STEP-$ATTEMPT" = c-1 && exit 1; echo "end $STEP $ATTEMPT" >> /marks/log']}],
        volumes: [{name: marks, persistentVolumeClaim: {claimName: marks}}]}}}}}
    - {name: b, dependencies: [a], template: *job}
    - {name: c, dependencies: [a], template: *job, retryPolicy: {limit: 2, backoff: {type: Fixed, duration: 100ms}}}
    - {name: d, dependencies: [b, c], template: *job}
    - {name: e, dependencies: [d], template: *job, withItems: [1, 2]}
  finally:
    - {name: f, template: *job}
"#;

fn orlop(run_dir: &Path, arguments: &[&str], mark: &str) -> Command {
    let mut command = crate::role::program();
    command.args(["run", "--target", "process", "--progress", "none", "--run-dir"]).arg(run_dir).args(arguments);
    command.env("ORLOP_KILL_TEST", mark).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Begins a run or goes on with it, and kills it after a while, unless it ends before.
fn begin_and_kill(run_dir: &Path, file: &str, after: Duration, mark: &str) {
    let mut child = orlop(run_dir, &["--resume", file], mark).stderr(Stdio::null()).spawn().expect("orlop starts");
    std::thread::sleep(after);
    child.kill().expect("a child can be killed");
    child.wait().expect("a child can be waited for");
}

/// Processes of this machine that carry the mark of this test.
fn marked(mark: &str) -> Vec<String> {
    let wanted = format!("ORLOP_KILL_TEST={mark}");
    let processes = std::fs::read_dir("/proc").expect("a process table");
    let environs = processes.flatten().filter_map(|entry| {
        let environ = std::fs::read(entry.path().join("environ")).ok()?;
        environ.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()).then(|| {
            let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            format!("{} {}", entry.file_name().display(), String::from_utf8_lossy(&command).replace('\0', " "))
        })
    });
    environs.collect()
}

#[test]
fn a_run_killed_at_a_hundred_moments_ends_the_same() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let file = root.path().join("flow.yaml");
    std::fs::write(&file, FLOW).expect("the flow is written");
    let file = file.to_str().expect("a path in UTF-8");
    for run in orlop_core::sample!((KILLS / KILLS_PER_RUN) as usize, FEW) {
        let run = u32::try_from(run).expect("a small number");
        let run_dir = root.path().join(format!("run-{run}"));
        let mark = format!("{}-{run}", std::process::id());
        for kill in 0..KILLS_PER_RUN {
            // Moments spread over a run of about a second and over the start of the program.
            let moment = u64::from((run * KILLS_PER_RUN + kill) * 37 % 400);
            begin_and_kill(&run_dir, file, Duration::from_millis(moment), &mark);
        }
        let output = orlop(&run_dir, &["--resume", file], &mark).output().expect("orlop runs");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "run {run}: {text}");
        check_marks(&run_dir, run);
        assert_eq!(marked(&mark), Vec::<String>::new(), "run {run} left processes behind");
    }
}

/// Every step ended once; only the first attempt of `c` began without ending, besides attempts lost with their host.
fn check_marks(run_dir: &Path, run: u32) {
    let log = std::fs::read_to_string(find(&run_dir.join("volumes")).expect("the volume")).expect("the marks");
    let mut lines: BTreeMap<&str, u32> = BTreeMap::new();
    for line in log.lines() {
        *lines.entry(line).or_default() += 1;
    }
    let once = |(line, count): (&&str, &u32)| *count == 1 || (line.contains(" e ") && *count == 2);
    assert!(lines.iter().all(once), "run {run}: an attempt ran twice:\n{log}");
    for step in ["a", "b", "c", "d", "f"] {
        let ends = log.lines().filter(|line| line.starts_with(&format!("end {step} "))).count();
        assert_eq!(ends, 1, "run {run}: step {step}:\n{log}");
        let begins: Vec<&str> = log.lines().filter(|line| line.starts_with(&format!("begin {step} "))).collect();
        let expected = if step == "c" { 2 } else { 1 };
        assert_eq!(begins.len(), expected, "run {run}: step {step}: {begins:?}");
    }
    assert_eq!(log.lines().filter(|line| line.starts_with("end e ")).count(), 2, "run {run}:\n{log}");
}

/// The file `log` below a directory.
fn find(directory: &Path) -> Option<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?.flatten().map(|entry| entry.path());
    let claims: Vec<_> = entries.map(|claim| claim.join("log")).filter(|log| log.is_file()).collect();
    claims.into_iter().next()
}
