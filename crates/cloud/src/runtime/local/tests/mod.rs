//! Tests of the local substrate over played pods and real directories.

mod artifacts;
mod control;
mod crash;
mod fake;
mod resources;
mod store;
mod suite;

use std::sync::Arc;
use std::time::Duration;

use orlop_core::attempt::{AttemptEnd, AttemptKey, AttemptSpec, EndResult};
use serde_json::{Value, json};
use tempfile::TempDir;

use self::fake::{Fake, TestClock};
use self::store::{Echo, MemoryStore};
use super::{Clock, LocalOptions, LocalPorts, LocalSubstrate};
use crate::runtime::plan::request::Machine;
use crate::runtime::pod::{PodKey, PodPlan};

/// A run directory, a runtime and options, over which substrates come and go.
struct Bench {
    root: TempDir,
    fake: Fake,
    store: Arc<MemoryStore>,
    options: LocalOptions,
    ports: LocalPorts,
}

impl Bench {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(TestClock::new());
        let mut options = LocalOptions::new(root.path().join("run"));
        let machine = Machine { name: "box".into(), cpu_milli: 4_000, memory_bytes: 8 << 30, gpus: vec![0, 1] };
        (options.machine, options.memory_dir) = (machine, Some(root.path().join("memory")));
        options.volumes_dir = Some(root.path().join("claims"));
        options.secrets_dir = Some(root.path().join("secrets"));
        options.configs_dir = Some(root.path().join("configs"));
        let store = Arc::new(MemoryStore::default());
        let ports =
            LocalPorts { clock: clock.clone(), download: Some(Arc::new(Echo)), ..LocalPorts::new(store.clone()) };
        Self { fake: Fake::new(clock), store, options, ports, root }
    }

    fn open(&self) -> LocalSubstrate<Fake> {
        LocalSubstrate::open(Arc::new(self.fake.clone()), self.options.clone(), self.ports.clone()).unwrap()
    }

    fn set_volumes(&self, spec: &mut AttemptSpec, volumes: Value) {
        Arc::make_mut(&mut spec.template)["spec"]["template"]["spec"]["volumes"] = volumes;
    }

    /// The plan of the first pod of a step once it runs.
    async fn running(&self, step: &str) -> PodPlan {
        let key = PodKey { attempt: key(step), pod: 0 };
        let running = self.fake.until(&key, |pod| Some(pod.plan.clone()));
        tokio::time::timeout(Duration::from_secs(3_600), running).await.unwrap()
    }
}

fn key(step: &str) -> AttemptKey {
    AttemptKey { flow: "f".into(), step: step.into(), item: None, attempt: 1 }
}

/// An attempt of a Job with one container `main` of these fields.
fn spec(step: &str, container: Value) -> AttemptSpec {
    let mut container = container;
    container["name"] = "main".into();
    let pod = json!({"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [container]}});
    AttemptSpec {
        function: None,
        key: key(step),
        flow_name: "flow".into(),
        namespace: "default".into(),
        job_name: format!("flow-{step}-f"),
        template: Arc::new(json!({"spec": {"template": pod}})),
        inputs: Vec::new(),
        output_files: Vec::new(),
        output_artifacts: Vec::new(),
    }
}

fn failure(end: &AttemptEnd) -> (&str, &str) {
    match &end.result {
        EndResult::Failed { reason, message } => (reason, message),
        other => panic!("{other:?}"),
    }
}
