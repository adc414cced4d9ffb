//! Attempts as containers, against a real engine. Without one every test prints `skipped: …` and passes.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::query_parameters as query;
use orlop_cloud::runtime::process::RoleProgram;
use orlop_cloud::runtime::worker::docker::{ContainerOptions, ContainerRuntime};
use orlop_cloud::runtime::worker::{AttemptPlan, Cause, JobRuntime, RemainsState};
use orlop_core::error::Class;
use orlop_core::spec::job::Pull;
use orlop_core::task::{LogStream, Run, TaskEnd, TaskRef};

use super::plan;
use super::recorder::Recorder;
use crate::docker::bench::{Bench, address, with};
use crate::docker::outage::Door;
use crate::process::program;

/// A runtime of containers in its own directory.
struct Machine {
    runtime: ContainerRuntime,
    reported: Arc<Recorder>,
    bench: Arc<Bench>,
}

impl Machine {
    fn with(bench: Arc<Bench>, change: impl FnOnce(&mut ContainerOptions)) -> Self {
        let reported = Arc::new(Recorder::default());
        Self { runtime: open(&bench, change, reported.clone()), reported, bench }
    }

    /// The agent is gone, and another comes with the same directory.
    fn another(self, change: impl FnOnce(&mut ContainerOptions)) -> Self {
        let Self { runtime, bench, .. } = self;
        drop(runtime);
        Self::with(bench, change)
    }

    fn spec(&self, text: &str) -> Run {
        spec(&self.bench, text)
    }

    fn script(&self, text: &str) -> AttemptPlan {
        plan(Run { cpu_m: 500, memory_bytes: 64 << 20, ..self.spec(text) })
    }

    /// Containers of this test that exist.
    async fn containers(&self) -> usize {
        let filters = HashMap::from([("label".to_owned(), vec![format!("orlop.agent={}", self.bench.flow)])]);
        let options = query::ListContainersOptions { all: true, filters: Some(filters), ..Default::default() };
        self.bench.docker.list_containers(Some(options)).await.unwrap().len()
    }
}

/// A runtime of the containers of a bench.
pub(crate) fn open(
    bench: &Bench,
    change: impl FnOnce(&mut ContainerOptions),
    events: Arc<Recorder>,
) -> ContainerRuntime {
    let mut options = ContainerOptions::new(bench.flow.clone(), bench.directory.path().join("work"));
    change(&mut options);
    ContainerRuntime::new(options, events).unwrap()
}

pub(crate) fn spec(bench: &Bench, text: &str) -> Run {
    let argv = ["/bin/sh", "-c", text].map(str::to_owned).to_vec();
    Run { argv, image: Some(bench.image()), pull: Pull::Never, cpu_m: 1000, ..Run::default() }
}

fn name(bench: &Bench, id: TaskRef) -> String {
    format!("orlop-{}-{id}", bench.flow)
}

/// Whether the container of an attempt exists.
pub(crate) async fn exists(bench: &Bench, id: TaskRef) -> bool {
    bench.docker.inspect_container(&name(bench, id), None).await.is_ok()
}

pub(crate) fn plain(options: &mut ContainerOptions) {
    options.address = address();
}

/// With a supervisor, which is what an agent has.
pub(crate) fn supervised(options: &mut ContainerOptions) {
    options.address = address();
    options.supervisor = Some(RoleProgram { path: program(), args: vec!["__supervisor".into()] });
}

async fn on_a_machine<F: Future<Output = ()>>(test: &str, run: impl FnOnce(Machine) -> F) {
    with(test, |bench| async move { run(Machine::with(bench, plain)).await }).await;
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
        let reports = machine.reported.until(id, |reports| reports.text().contains("up"));
        let lines = reports.text();
        let lines: Vec<&str> = lines.lines().map(str::trim).collect();
        assert_eq!(lines[..3], ["CapEff:\t0000000000000000", "NoNewPrivs:\t1", "0"], "{lines:?}");
        assert_eq!(lines[3..5], ["/orlop/job", "/orlop/job/.orlop-output"]);
        let found = machine.bench.inspect(&name(&machine.bench, id)).await;
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
        machine.reported.until(id, |reports| reports.bytes(LogStream::Stdout).starts_with(b"0\xff\n1\xff\n"));
        door.close();
        assert!(machine.runtime.check().await.is_err(), "health is bad while the engine is away");
        tokio::time::sleep(Duration::from_millis(700)).await;
        assert!(machine.reported.so_far(id).end.is_none(), "an outage ends nothing");
        door.open();
        machine.runtime.check().await.unwrap();
        let (reports, end) = machine.reported.ended(id);
        assert_eq!((end.outcome, end.exit_code), (TaskEnd::Succeeded, Some(0)), "{end:?}");
        let expected: Vec<u8> = (0..30).flat_map(|i| [format!("{i}").as_bytes(), b"\xff\n"].concat()).collect();
        assert_eq!(reports.bytes(LogStream::Stdout), expected);
        // What the engine keeps ends with a line feed, whether the job wrote one or not.
        let said = reports.bytes(LogStream::Stderr);
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
        machine.reported.until(id, |reports| reports.text().contains("up"));
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
async fn an_image_that_is_not_there_fails_the_start_for_good() {
    on_a_machine("an_image_that_is_not_there_fails_the_start_for_good", |machine| async move {
        for (image, pull) in [("localhost/orlop-no-such:1", Pull::Never), ("A B", Pull::IfMissing)] {
            let job = plan(Run { image: Some(image.to_owned()), pull, ..machine.spec("true") });
            let id = job.id;
            machine.runtime.start(job);
            let (reports, end) = machine.reported.ended(id);
            assert_eq!((end.outcome, end.reason.as_str()), (TaskEnd::StartFailed, "image"), "{reports:?}");
            assert!(String::from_utf8(reports.bytes(LogStream::System)).unwrap().contains(image));
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
async fn another_agent_removes_what_is_nobodys() {
    on_a_machine("another_agent_removes_what_is_nobodys", |machine| async move {
        let job = machine.script("sleep 600");
        let (id, dir) = (job.id, machine.bench.directory.path().join("work").join(job.id.to_string()));
        machine.runtime.start(job);
        machine.reported.until(id, |reports| reports.started.is_some());
        let next = machine.another(plain);
        let found = next.runtime.list().await.unwrap();
        assert!(found.len() == 1 && matches!(found[0].state, RemainsState::Alive { .. }), "{found:?}");
        next.runtime.remove(id).await.unwrap();
        assert!(!dir.exists() && next.containers().await == 0);
        assert_eq!(next.runtime.adopt(id, 0).await.unwrap_err().class, Class::NotFound);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_knows_is_removed_when_the_engine_is_back() {
    with("what_nobody_knows_is_removed_when_the_engine_is_back", |bench| async move {
        let first = Machine::with(bench, plain);
        let job = first.script("sleep 600");
        let id = job.id;
        first.runtime.start(job);
        first.reported.until(id, |reports| reports.started.is_some());
        let Machine { runtime, bench, .. } = first;
        drop(runtime);
        let door = Door::new(&bench);
        door.close();
        let second = Machine::with(bench, |options| options.address = Some(door.address()));
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
