//! Exactly once, whatever is killed when.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use orlop_cloud::runtime::pod::{PodPlan, PodResult, PodRuntime};
use orlop_cloud::runtime::process::{Paths, ProcessRuntime};
use orlop_core::error::Class;

use super::{PodFixture, in_time, is_alive, plan, program, reason, runtime, state, until, with_text};

/// Moments of a life that are tried in the long mode, evenly spread over it.
const ROUNDS: u32 = 40;
/// Those that are tried otherwise: the first, and so many of the others.
const FEW: usize = 7;

fn moments() -> impl Iterator<Item = u32> {
    let others = orlop_core::sample!(ROUNDS as usize - 1, FEW).into_iter();
    std::iter::once(0).chain(others.map(|number| u32::try_from(number + 1).expect("a small number")))
}

fn kill_hard(pid: i32) {
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
}

/// Stops the supervisor of a fixture, and waits until it has stopped.
async fn stop_supervisor(fixture: &PodFixture) {
    kill(Pid::from_raw(fixture.supervisor()), Signal::SIGSTOP).unwrap();
    until(|| state(fixture.supervisor()) == Some('T')).await;
}

/// The example program as the parent of a pod in this directory.
fn parent(fixture: &PodFixture, script: &str) -> Child {
    let mut command = Command::new(program());
    command.arg(&fixture.plan.directory).args(["sh", "-c", script]).stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// A fixture for a pod that the example program starts.
fn fixture() -> PodFixture {
    let mut fixture = PodFixture::new("unused");
    fixture.plan.key.attempt.flow = "example".into();
    fixture.plan.key.attempt.step = "only".into();
    fixture.plan.stdout = fixture.plan.directory.join("out.log");
    fixture
}

#[tokio::test]
async fn a_dead_supervisor_is_lost_and_leaves_nothing() {
    let mark = "orlop-test-orphan-3";
    let fixture = PodFixture::new(&format!(
        "(setsid env -i /bin/sh -c ': {mark}; /bin/sleep 1000; :' </dev/null >/dev/null 2>&1 &); \
         sh -c ': {mark}; trap \"\" TERM; sleep 1000; :' & : {mark}; echo ready; sleep 1000; :"
    ));
    fixture.start().await;
    fixture.line("ready").await;
    until(|| with_text(mark).len() >= 3).await;
    let wait = async {
        let exit = fixture.wait().await;
        assert_eq!(with_text(mark), Vec::<i32>::new());
        exit
    };
    let (exit, ()) = tokio::join!(wait, async { kill_hard(fixture.supervisor()) });
    assert_eq!(exit.result, PodResult::Lost);
    assert_eq!(fixture.wait().await, exit);
    // It never runs again.
    fixture.start().await;
    assert_eq!(fixture.wait().await, exit);
}

#[tokio::test]
async fn the_main_process_dies_with_its_supervisor_before_anybody_looks() {
    let fixture = PodFixture::new("echo $$; sleep 1000; :");
    fixture.start().await;
    until(|| !fixture.out().is_empty()).await;
    let pid: i32 = fixture.out()[0].parse().unwrap();
    kill_hard(fixture.supervisor());
    until(|| !is_alive(pid)).await;
    assert_eq!(fixture.wait().await.result, PodResult::Lost);
}

#[tokio::test]
async fn no_trace_is_lost_and_closes_the_directory_for_good() {
    let fixture = PodFixture::new("echo ran");
    assert_eq!(fixture.wait().await.result, PodResult::Lost);
    fixture.start().await;
    assert_eq!((fixture.wait().await.result, fixture.out().len()), (PodResult::Lost, 0));
    let fixture = PodFixture::new("echo ran");
    fixture.stop(Duration::ZERO).await;
    assert_eq!(fixture.wait().await.result, PodResult::Cancelled);
}

#[tokio::test]
async fn a_directory_belongs_to_one_pod() {
    let mut fixture = PodFixture::new("true");
    fixture.run().await;
    fixture.plan.key.pod = 1;
    let error = fixture.runtime.start(&fixture.plan).await.unwrap_err();
    assert_eq!(error.class, Class::Exists);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_starts_of_one_pod_run_it_once() {
    let runtime = Arc::new(runtime(None));
    for round in orlop_core::sample!(200, 20) {
        let dir = tempfile::tempdir().unwrap();
        let plan = plan(dir.path(), "echo ran");
        std::fs::create_dir(&plan.directory).unwrap();
        let start = || {
            let (runtime, plan) = (Arc::clone(&runtime), plan.clone());
            tokio::spawn(async move { runtime.start(&plan).await })
        };
        let (a, b) = (start(), start());
        let (a, b) = (in_time(a).await.unwrap().unwrap(), in_time(b).await.unwrap().unwrap());
        assert_eq!(a.id, b.id, "round {round}");
        let exit = in_time(runtime.wait(&plan.key, &plan.directory)).await.unwrap();
        assert_eq!((reason(&exit), super::lines(&plan.stdout).len()), ("Succeeded", 1), "round {round}");
    }
}

#[tokio::test]
async fn a_parent_killed_at_any_moment_leaves_one_run_or_none() {
    let script = "echo x >> runs";
    let whole = Instant::now();
    let fixture = fixture();
    parent(&fixture, script).wait().unwrap();
    let whole = whole.elapsed();
    let (mut before, mut after) = (0, 0);
    for round in moments() {
        let fixture = self::fixture();
        let mut parent = parent(&fixture, script);
        // Beyond the end of the first one, should the machine be busier by now.
        std::thread::sleep(whole * 2 * round / ROUNDS);
        parent.kill().unwrap();
        parent.wait().unwrap();
        *if fixture.plan.directory.join("claim").exists() { &mut after } else { &mut before } += 1;
        // The next host finds the pod, or starts it for the first time.
        let plan = PodPlan { main: super::container("main", script), ..fixture.plan.clone() };
        in_time(fixture.runtime.start(&plan)).await.unwrap();
        let exit = in_time(fixture.runtime.wait(&plan.key, &plan.directory)).await.unwrap();
        assert_eq!(reason(&exit), "Succeeded", "round {round}");
        let runs = std::fs::read_to_string(fixture.fetch("/runs").await.unwrap()).unwrap();
        assert_eq!(runs, "x\n", "round {round}");
    }
    assert!(before > 0 && after > 0, "the kills hit {before} times before the claim and {after} times after it");
}

#[tokio::test]
async fn a_supervisor_killed_at_any_moment_is_lost_or_done_and_leaves_nothing() {
    let mark = "orlop-test-supervisor-4";
    let script = format!("setsid sh -c ': {mark}; sleep 1000; :' & : {mark}; sleep 0.005");
    for groups in [true, false] {
        let begun = Instant::now();
        PodFixture::new(&script).run().await;
        let whole = begun.elapsed();
        let (mut lost, mut done) = (0, 0);
        for round in moments() {
            let mut fixture = PodFixture::new(&script);
            if !groups {
                fixture.runtime = without_groups();
            }
            fixture.start().await;
            std::thread::sleep(whole * round / ROUNDS);
            match kill(Pid::from_raw(fixture.supervisor()), Signal::SIGKILL) {
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(error) => panic!("{error}"),
            }
            match fixture.wait().await.result {
                PodResult::Lost => lost += 1,
                PodResult::Succeeded => done += 1,
                other => panic!("round {round}: {other:?}"),
            }
            assert_eq!(with_text(mark), Vec::<i32>::new(), "round {round}");
            in_time(fixture.runtime.remove(&fixture.plan.key, &fixture.plan.directory)).await.unwrap();
            let claim = fixture.claim();
            assert_eq!(claim["cgroup"].is_null(), !groups || !in_groups(&fixture).await);
            assert!(!claim["cgroup"].as_str().is_some_and(|group| Path::new(group).exists()), "round {round}");
        }
        assert!(lost > 0, "{lost} {done}");
    }
}

async fn in_groups(fixture: &PodFixture) -> bool {
    fixture.runtime.capabilities().await.unwrap().limits.parent.is_some()
}

/// A runtime that has no control groups for pods.
fn without_groups() -> ProcessRuntime {
    super::runtime_with(|options| options.cgroup = Some("/nowhere".into()))
}

#[tokio::test]
async fn a_dead_supervisor_without_groups_or_namespaces_leaves_nothing_either() {
    let mark = "orlop-test-bare-5";
    let mut fixture = PodFixture::new(&format!(
        "(setsid sh -c ': {mark}; sleep 1000; :' </dev/null >/dev/null 2>&1 &); sh -c ': {mark}; sleep 1000; :' & \
         (env -i /bin/sh -c ': {mark}; /bin/sleep 1000; :' &); : {mark}; echo ready; sleep 1000; :"
    ));
    fixture.runtime = super::runtime_with(|options| {
        options.cgroup = Some("/nowhere".into());
        options.paths = Some(Paths::Rewritten);
    });
    fixture.start().await;
    fixture.line("ready").await;
    until(|| with_text(mark).len() >= 4).await;
    kill_hard(fixture.supervisor());
    assert_eq!(fixture.wait().await.result, PodResult::Lost);
    assert_eq!(with_text(mark), Vec::<i32>::new());
}

#[tokio::test]
async fn a_supervisor_told_to_end_ends_its_pod_as_lost() {
    let fixture = PodFixture::new("trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.01; done");
    fixture.start().await;
    fixture.line("ready").await;
    kill(Pid::from_raw(fixture.supervisor()), Signal::SIGTERM).unwrap();
    assert_eq!(fixture.wait().await.result, PodResult::Lost);
    assert!(fixture.out().contains(&"asked".to_owned()));
}

#[tokio::test]
async fn a_parent_that_ignores_its_children_has_supervisors_that_do_not() {
    let fixture = fixture();
    let mut command = Command::new("env");
    command.arg("--ignore-signal=CHLD").arg(program()).arg(&fixture.plan.directory);
    assert!(command.args(["sh", "-c", "exit 9"]).stdout(Stdio::null()).status().unwrap().success());
    assert_eq!(fixture.wait().await.containers[0].exit_code, 9);
}

#[tokio::test]
async fn a_supervisor_that_died_is_replaced_and_its_pods_alone_are_lost() {
    let fixture = PodFixture::new("echo ready; sleep 1000");
    fixture.start().await;
    fixture.line("ready").await;
    let other = |name: &str, number, script| {
        let mut other = plan(fixture.dir.path(), script);
        (other.directory, other.key.pod) = (fixture.dir.path().join(name), number);
        std::fs::create_dir(&other.directory).unwrap();
        other
    };
    let together = other("together", 1, "sleep 1000");
    in_time(fixture.runtime.start(&together)).await.unwrap();
    let supervisor = fixture.supervisor();
    kill_hard(supervisor);
    until(|| !is_alive(supervisor)).await;
    let after = other("after", 2, "exit 5");
    // Its socket may be open for a moment longer: an order that it got has no answer, and is given again.
    while let Err(error) = in_time(fixture.runtime.start(&after)).await {
        assert_eq!(error.class, Class::Transient, "{error}");
    }
    let end = async |plan: &PodPlan| in_time(fixture.runtime.wait(&plan.key, &plan.directory)).await.unwrap();
    assert_eq!(end(&after).await.containers[0].exit_code, 5);
    assert_eq!(end(&together).await.result, PodResult::Lost);
    assert_eq!(fixture.wait().await.result, PodResult::Lost);
}

/// Starts so many pods of one script.
async fn start_many(runtime: &ProcessRuntime, dir: &Path, count: u32, script: &str) -> Vec<PodPlan> {
    let mut plans = Vec::new();
    for number in 0..count {
        let mut plan = plan(dir, script);
        (plan.directory, plan.key.pod) = (dir.join(format!("pod-{number}")), number);
        std::fs::create_dir(&plan.directory).unwrap();
        in_time(runtime.start(&plan)).await.unwrap();
        plans.push(plan);
    }
    plans
}

#[tokio::test]
async fn one_supervisor_keeps_all_pods_of_a_runtime() {
    let (runtime, dir) = (runtime(None), tempfile::tempdir().unwrap());
    let mut supervisors = std::collections::BTreeSet::new();
    for plan in start_many(&runtime, dir.path(), 20, "sleep 0.2; exit 3").await {
        let exit = in_time(runtime.wait(&plan.key, &plan.directory)).await.unwrap();
        assert_eq!(exit.containers[0].exit_code, 3);
        let claim: serde_json::Value =
            serde_json::from_slice(&std::fs::read(plan.directory.join("claim")).unwrap()).unwrap();
        supervisors.insert(claim["supervisor"].to_string());
    }
    assert_eq!(supervisors.len(), 1, "{supervisors:?}");
}

#[tokio::test]
async fn what_a_long_pod_leaves_dead_behind_does_not_pile_up() {
    let fixture = PodFixture::new("for n in $(seq 1 30); do (setsid true &); done; echo made; sleep 1000");
    fixture.start().await;
    fixture.line("made").await;
    let supervisor = fixture.supervisor();
    let dead = || {
        let pids =
            std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let of_supervisor = |pid: &i32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let fields = stat.rsplit_once(") ").map(|(_, fields)| fields.to_owned()).unwrap_or_default();
            fields.starts_with(&format!("Z {supervisor} "))
        };
        pids.filter(of_supervisor).count()
    };
    until(|| dead() == 0).await;
    fixture.stop(Duration::ZERO).await;
    assert_eq!(fixture.wait().await.result, PodResult::Cancelled);
}

#[tokio::test]
async fn many_pods_are_cancelled_at_once() {
    let (runtime, dir) = (runtime(None), tempfile::tempdir().unwrap());
    let plans = start_many(&runtime, dir.path(), 100, "sleep 1000").await;
    let began = Instant::now();
    for plan in &plans {
        in_time(runtime.stop(&plan.key, &plan.directory, Duration::from_secs(30))).await.unwrap();
    }
    for plan in &plans {
        let exit = in_time(runtime.wait(&plan.key, &plan.directory)).await.unwrap();
        assert_eq!(exit.result, PodResult::Cancelled);
    }
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

/// A program may stop its supervisor, which then does not look at what is asked of it.
#[tokio::test]
async fn a_pod_whose_supervisor_is_stopped_ends_when_it_is_asked_to() {
    let fixture = PodFixture::new("echo ready; trap '' TERM; while :; do sleep 0.1; done");
    fixture.start().await;
    fixture.line("ready").await;
    stop_supervisor(&fixture).await;
    fixture.stop(Duration::from_millis(200)).await;
    assert_eq!(fixture.wait().await.result, PodResult::Cancelled);
    // Where it is stopped again the programs of that pod are killed, and those of others are not.
    let fixture = PodFixture::new("echo ready; trap 'echo asked' TERM; while :; do sleep 0.1; done");
    fixture.start().await;
    fixture.line("ready").await;
    let mut other = plan(fixture.dir.path(), "sleep 1; exit 7");
    (other.directory, other.key.pod) = (fixture.dir.path().join("other"), 1);
    std::fs::create_dir(&other.directory).unwrap();
    in_time(fixture.runtime.start(&other)).await.unwrap();
    fixture.stop(Duration::from_secs(1000)).await;
    fixture.line("asked").await;
    stop_supervisor(&fixture).await;
    fixture.stop(Duration::from_secs(1000)).await;
    assert_eq!(fixture.wait().await.result, PodResult::Cancelled);
    let exit = in_time(fixture.runtime.wait(&other.key, &other.directory)).await.unwrap();
    assert_eq!(exit.containers[0].exit_code, 7);
}
