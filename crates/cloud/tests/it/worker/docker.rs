//! Attempts as containers, against a real engine. Without one every test prints `skipped: …` and passes.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::query_parameters as query;
use orlop_cloud::runtime::process::RoleProgram;
use orlop_cloud::runtime::worker::docker::{ContainerOptions, ContainerRuntime};
use orlop_cloud::runtime::worker::{AttemptPlan, Cause, JobRuntime, RemainsState, Secret};
use orlop_core::error::Class;
use orlop_core::spec::job::{LogPolicy, OnFull, Pull, SecretAs};
use orlop_core::task::{LogStream, Run, TaskEnd, TaskRef};

use super::recorder::Recorder;
use super::suite::{Subject, holds};
use super::{fresh, plan};
use crate::docker::bench::{Bench, address, with};
use crate::docker::outage::Door;
use crate::process::program;

/// A runtime of containers in its own directory.
struct Machine {
    runtime: ContainerRuntime,
    reported: Arc<Recorder>,
    bench: Arc<Bench>,
    mark: String,
}

impl Machine {
    fn new(bench: Arc<Bench>) -> Self {
        Self::with(bench, |options| options.address = address())
    }

    fn with(bench: Arc<Bench>, change: impl FnOnce(&mut ContainerOptions)) -> Self {
        let mark = bench.flow.clone();
        Self::named(bench, mark, change)
    }

    fn named(bench: Arc<Bench>, mark: String, change: impl FnOnce(&mut ContainerOptions)) -> Self {
        let reported = Arc::new(Recorder::default());
        let mut options = ContainerOptions::new(mark.clone(), bench.directory.path().join("work"));
        change(&mut options);
        let runtime = ContainerRuntime::new(options, reported.clone()).unwrap();
        Self { runtime, reported, bench, mark }
    }

    /// The agent is gone, and another comes with the same directory.
    fn another(self) -> Self {
        let Self { runtime, bench, mark, .. } = self;
        drop(runtime);
        Self::named(bench, mark, |options| options.address = address())
    }

    fn spec(&self, text: &str) -> Run {
        let argv = ["/bin/sh", "-c", text].map(str::to_owned).to_vec();
        Run { argv, image: Some(self.bench.image()), pull: Pull::Never, cpu_m: 1000, ..Run::default() }
    }

    fn script(&self, text: &str) -> AttemptPlan {
        plan(Run { cpu_m: 500, memory_bytes: 64 << 20, ..self.spec(text) })
    }

    fn name(&self, id: TaskRef) -> String {
        format!("orlop-{}-{id}", self.mark)
    }

    /// Containers of this test that exist.
    async fn containers(&self) -> usize {
        let filters = HashMap::from([("label".to_owned(), vec![format!("orlop.agent={}", self.mark)])]);
        let options = query::ListContainersOptions { all: true, filters: Some(filters), ..Default::default() };
        self.bench.docker.list_containers(Some(options)).await.unwrap().len()
    }
}

/// With a supervisor, which is what an agent has.
fn supervised(options: &mut ContainerOptions) {
    options.address = address();
    options.supervisor = Some(RoleProgram { path: program(), args: vec!["__supervisor".into()] });
}

async fn on_a_machine<F: Future<Output = ()>>(test: &str, run: impl FnOnce(Machine) -> F) {
    with(test, |bench| async move { run(Machine::new(bench)).await }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_pass_the_suite_of_all_runtimes() {
    on_a_machine("containers_pass_the_suite_of_all_runtimes", |machine| async move {
        let make = |text: &str| machine.spec(text);
        holds(&Subject { runtime: &machine.runtime, reported: &machine.reported, script: Some(&make), signals: false })
            .await;
        assert_eq!(machine.containers().await, 0, "always removed");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_limited_and_has_no_privilege() {
    on_a_machine("a_container_is_limited_and_has_no_privilege", |machine| async move {
        let job = machine.script(
            "grep -E 'CapEff|NoNewPrivs' /proc/self/status; ulimit -c; pwd; echo $ORLOP_OUTPUT; \
             touch here; echo up; sleep 600",
        );
        let id = job.id;
        machine.runtime.start(job);
        let story = machine.reported.until(id, |story| story.text().contains("up"));
        let lines = story.text();
        let lines: Vec<&str> = lines.lines().map(str::trim).collect();
        assert_eq!(lines[..3], ["CapEff:\t0000000000000000", "NoNewPrivs:\t1", "0"], "{lines:?}");
        assert_eq!(lines[3..5], ["/orlop/job", "/orlop/job/.orlop-output"]);
        let found = machine.bench.inspect(&machine.name(id)).await;
        let host = found.host_config.unwrap();
        assert_eq!((host.nano_cpus, host.memory), (Some(500_000_000), Some(64 << 20)));
        assert_eq!((host.pids_limit, host.privileged), (Some(4096), Some(false)));
        assert_eq!(found.config.unwrap().labels.unwrap().get("orlop.ref"), Some(&id.to_string()));
        let dir = machine.bench.directory.path().join("work").join(id.to_string());
        assert!(dir.join("here").exists());
        machine.runtime.end(id, Cause::Cancel, Duration::ZERO);
        assert_eq!(machine.reported.ended(id).1.outcome, TaskEnd::Cancelled);
        assert!(!dir.exists() && machine.containers().await == 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_needs_more_memory_than_it_has_failed_for_oom() {
    on_a_machine("a_job_that_needs_more_memory_than_it_has_failed_for_oom", |machine| async move {
        let info = machine.bench.docker.info().await.unwrap();
        if info.memory_limit != Some(true) {
            eprintln!("skipped: this engine cannot limit memory");
            return;
        }
        let mut job = machine.script("tail /dev/zero; exit $?");
        // Where swap is not limited a job may use it, and is slow instead.
        job.timeout = (info.swap_limit != Some(true)).then(|| Duration::from_secs(20));
        let id = job.id;
        machine.runtime.start(job);
        let (_, end) = machine.reported.ended(id);
        if info.swap_limit == Some(true) {
            assert_eq!((end.outcome, end.reason.as_str()), (TaskEnd::Failed, "oom"), "{end:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_is_read_byte_for_byte_also_through_an_outage() {
    with("output_is_read_byte_for_byte_also_through_an_outage", |bench| async move {
        let door = Door::new(&bench);
        let machine = Machine::with(bench, |options| options.address = Some(door.address()));
        let text = "i=0; while [ $i -lt 30 ]; do printf \"$i\\377\\n\"; i=$((i+1)); sleep 0.1; done; printf end >&2";
        let job = machine.script(text);
        let id = job.id;
        machine.runtime.start(job);
        machine.reported.until(id, |story| story.bytes(LogStream::Stdout).starts_with(b"0\xff\n1\xff\n"));
        door.close();
        assert!(machine.runtime.check().await.is_err(), "health is bad while the engine is away");
        tokio::time::sleep(Duration::from_millis(700)).await;
        assert!(machine.reported.so_far(id).end.is_none(), "an outage ends nothing");
        door.open();
        machine.runtime.check().await.unwrap();
        let (story, end) = machine.reported.ended(id);
        assert_eq!((end.outcome, end.exit_code), (TaskEnd::Succeeded, Some(0)), "{end:?}");
        let expected: Vec<u8> = (0..30).flat_map(|i| [format!("{i}").as_bytes(), b"\xff\n"].concat()).collect();
        assert_eq!(story.bytes(LogStream::Stdout), expected);
        // What the engine keeps ends with a line feed, whether the job wrote one or not.
        let said = story.bytes(LogStream::Stderr);
        assert!(said.starts_with(b"end"), "{}", said.escape_ascii());
        assert_eq!(machine.containers().await, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_cancelled_during_an_outage_ends_after_it() {
    with("a_job_that_is_cancelled_during_an_outage_ends_after_it", |bench| async move {
        let door = Door::new(&bench);
        let machine = Machine::with(bench, |options| options.address = Some(door.address()));
        let job = machine.script("trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done");
        let id = job.id;
        machine.runtime.start(job);
        machine.reported.until(id, |story| story.text().contains("up"));
        door.close();
        machine.runtime.end(id, Cause::Cancel, Duration::from_secs(30));
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(machine.reported.so_far(id).end.is_none());
        door.open();
        assert_eq!(machine.reported.ended(id).1.outcome, TaskEnd::Cancelled);
        // Without an engine an attempt is given back after some patience.
        door.close();
        let job = machine.script("true");
        let id = job.id;
        machine.runtime.start(job);
        let (_, end) = machine.reported.ended(id);
        assert_eq!((end.outcome, end.reason.as_str()), (TaskEnd::StartFailed, "engine"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_container_is_limited_and_may_block_or_fail_it() {
    on_a_machine("the_log_of_a_container_is_limited_and_may_block_or_fail_it", |machine| async move {
        let logged = |text: &str, limit, on_full| plan(Run { log: LogPolicy { limit, on_full }, ..machine.spec(text) });
        let job = logged("head -c 3000000 /dev/zero; echo done >&2", 1 << 20, OnFull::Drop);
        let id = job.id;
        machine.runtime.start(job);
        let (story, end) = machine.reported.ended(id);
        assert_eq!((end.outcome, end.log.bytes), (TaskEnd::Succeeded, 1 << 20));
        assert_eq!(story.bytes(LogStream::Stdout).len() as u64 + end.log.dropped_bytes, 3_000_005);
        let job = logged("while :; do echo xxxxxxxxxxxxxxx; done", 100_000, OnFull::Fail);
        let id = job.id;
        machine.runtime.start(job);
        let (_, end) = machine.reported.ended(id);
        assert_eq!((end.outcome, end.reason.as_str()), (TaskEnd::Failed, "log_limit"));
        // There is no room: the job waits, and goes on when there is.
        machine.reported.set_full(true);
        let job = logged("head -c 3000000 /dev/zero; echo done >&2", 64 << 20, OnFull::Block);
        let id = job.id;
        machine.runtime.start(job);
        machine.reported.until(id, |story| !story.chunks.is_empty());
        tokio::time::sleep(Duration::from_millis(500)).await;
        let before = machine.reported.so_far(id);
        assert!(before.end.is_none() && before.bytes(LogStream::Stdout).len() < 3_000_000);
        machine.reported.set_full(false);
        machine.runtime.resume(id);
        let (story, end) = machine.reported.ended(id);
        assert_eq!((end.outcome, story.bytes(LogStream::Stdout).len()), (TaskEnd::Succeeded, 3_000_000));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_not_there_fails_the_start_for_good() {
    on_a_machine("an_image_that_is_not_there_fails_the_start_for_good", |machine| async move {
        for (image, pull) in [("localhost/orlop-no-such:1", Pull::Never), ("A B", Pull::IfMissing)] {
            let job = plan(Run { image: Some(image.to_owned()), pull, ..machine.spec("true") });
            let id = job.id;
            machine.runtime.start(job);
            let (story, end) = machine.reported.ended(id);
            assert_eq!((end.outcome, end.reason.as_str()), (TaskEnd::StartFailed, "image"), "{story:?}");
            assert!(String::from_utf8(story.bytes(LogStream::System)).unwrap().contains(image));
        }
        // The image's own command, in the image's own way.
        let job = plan(Run { argv: Vec::new(), ..machine.spec("") });
        let id = job.id;
        machine.runtime.start(job);
        assert_eq!(machine.reported.ended(id).0.text(), "default\n");
        assert_eq!(machine.containers().await, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_agent_adopts_containers_and_removes_orphans() {
    on_a_machine("another_agent_adopts_containers_and_removes_orphans", |machine| async move {
        let text = "echo $TOKEN; while [ ! -e /orlop/job/go ]; do sleep 0.05; done; echo after $TOKEN; exit 3";
        let mut job = machine.script(text);
        job.secrets = vec![Secret {
            name: "s".to_owned(),
            value: "in-env-7731".to_owned(),
            given_as: SecretAs::Env,
            target: "TOKEN".to_owned(),
        }];
        let (id, orphan) = (job.id, machine.script("sleep 600"));
        let (lost, lost_dir) = (orphan.id, machine.bench.directory.path().join("work").join(orphan.id.to_string()));
        machine.runtime.start(job);
        machine.runtime.start(orphan);
        let story = machine.reported.until(id, |story| story.text().contains("***"));
        machine.reported.until(lost, |story| story.started.is_some());
        let last = story.chunks.last().unwrap().seq;
        let next = machine.another();
        let mut found = next.runtime.list().await.unwrap();
        found.sort_by_key(|remains| remains.id);
        let ids: Vec<TaskRef> = found.iter().map(|remains| remains.id).collect();
        assert_eq!(ids, [id.min(lost), id.max(lost)]);
        assert!(found.iter().all(|remains| matches!(remains.state, RemainsState::Alive { .. })), "{found:?}");
        next.runtime.adopt(id, last).await.unwrap();
        next.runtime.remove(lost).await.unwrap();
        assert!(!lost_dir.exists());
        std::fs::write(next.bench.directory.path().join("work").join(id.to_string()).join("go"), "").unwrap();
        let (story, end) = next.reported.ended(id);
        assert_eq!((end.outcome, end.exit_code), (TaskEnd::Failed, Some(3)), "{end:?}");
        assert!(story.started.is_none() && story.chunks[0].seq == last + 1);
        assert!(story.text().contains("after ***"), "{}", story.text());
        assert_eq!(next.containers().await, 0);
        assert_eq!(next.runtime.adopt(fresh(), 0).await.unwrap_err().class, Class::NotFound);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn supervised_containers_pass_the_suite_too() {
    with("supervised_containers_pass_the_suite_too", |bench| async move {
        let machine = Machine::with(bench, supervised);
        let make = |text: &str| machine.spec(text);
        holds(&Subject { runtime: &machine.runtime, reported: &machine.reported, script: Some(&make), signals: false })
            .await;
        assert_eq!(machine.containers().await, 0, "always removed");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_supervised_container_is_taken_over_with_all_of_its_output() {
    with("a_supervised_container_is_taken_over_with_all_of_its_output", |bench| async move {
        let machine = Machine::with(bench, supervised);
        let text = "i=0; while [ $i -lt 40 ]; do echo $i; i=$((i+1)); sleep 0.05; done; exit 3";
        let job = machine.script(text);
        let id = job.id;
        machine.runtime.start(job);
        let story = machine.reported.until(id, |story| story.text().contains("\n5\n"));
        let (last, before) = (story.chunks.last().unwrap().seq, story.bytes(LogStream::Stdout));
        let Machine { runtime, bench, mark, .. } = machine;
        drop(runtime);
        tokio::time::sleep(Duration::from_millis(500)).await;
        let next = Machine::named(bench, mark, supervised);
        let found = next.runtime.list().await.unwrap();
        assert!(matches!(found[0].state, RemainsState::Alive { .. } | RemainsState::Ended), "{found:?}");
        next.runtime.adopt(id, last).await.unwrap();
        let (story, end) = next.reported.ended(id);
        assert_eq!((end.outcome, end.exit_code), (TaskEnd::Failed, Some(3)), "{end:?}");
        let whole = [before, story.bytes(LogStream::Stdout)].concat();
        let expected: String = (0..40).map(|i| format!("{i}\n")).collect();
        assert_eq!(String::from_utf8(whole).unwrap(), expected);
        assert_eq!(next.containers().await, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_may_not_overlap_ends_with_the_lease_without_the_agent() {
    with("a_container_that_may_not_overlap_ends_with_the_lease_without_the_agent", |bench| async move {
        let machine = Machine::with(bench, supervised);
        machine.runtime.renew_lease(Duration::from_secs(20));
        let job = plan(Run { forbid_overlap: true, ..machine.spec("echo up; sleep 600") });
        let job = AttemptPlan { grace: Duration::from_millis(200), ..job };
        let id = job.id;
        machine.runtime.start(job);
        machine.reported.until(id, |story| story.text().contains("up"));
        let Machine { runtime, bench, mark, .. } = machine;
        drop(runtime);
        let limit = Instant::now() + Duration::from_secs(60);
        let next = Machine::named(bench, mark, supervised);
        while next.containers().await > 0 {
            assert!(Instant::now() < limit, "it goes on without a lease");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        next.runtime.adopt(id, 1).await.unwrap();
        let (_, end) = next.reported.ended(id);
        assert_eq!((end.outcome, end.reason.as_str()), (TaskEnd::Lost, "lease_expired"), "{end:?}");
    })
    .await;
    // Without a supervisor nobody could end it: it is refused.
    let dir = tempfile::tempdir().unwrap();
    let (reported, mut options) = (Arc::new(Recorder::default()), ContainerOptions::new("w", dir.path().join("work")));
    options.address = Some("unix:///does/not/exist.sock".to_owned());
    let runtime = ContainerRuntime::new(options, reported.clone()).unwrap();
    let job = plan(Run { forbid_overlap: true, ..Run::default() });
    let id = job.id;
    runtime.start(job);
    assert_eq!(reported.ended(id).1.reason, "supervisor");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_knows_is_removed_when_the_engine_is_back() {
    with("what_nobody_knows_is_removed_when_the_engine_is_back", |bench| async move {
        let first = Machine::new(bench);
        let job = first.script("sleep 600");
        let id = job.id;
        first.runtime.start(job);
        first.reported.until(id, |story| story.started.is_some());
        let Machine { runtime, bench, mark, .. } = first;
        drop(runtime);
        let door = Door::new(&bench);
        door.close();
        let second = Machine::named(bench, mark, |options| options.address = Some(door.address()));
        assert!(second.runtime.list().await.is_err());
        door.open();
        second.runtime.check().await.unwrap();
        let limit = Instant::now() + Duration::from_secs(30);
        while second.containers().await > 0 {
            assert!(Instant::now() < limit, "it is still there");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
}

#[test]
fn the_machines_own_network_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = ContainerOptions::new("w", dir.path().join("work"));
    options.network = Some("host".to_owned());
    let error = ContainerRuntime::new(options, Arc::new(Recorder::default())).unwrap_err();
    insta::assert_snapshot!(error, @"containers of jobs may not be in the network `host`; name one of the engine's own, or `none`");
}
