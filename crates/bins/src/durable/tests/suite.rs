//! The conformance suite of the substrate port, over functions of this program.

use std::collections::BTreeMap;
use std::future::Future;

use orlop_core::attempt::AttemptKey;
use orlop_core::testing::substrate::{Behaviour, SubstrateWorlds, substrate_suite};

use super::*;

/// Functions that behave as set by the key of their attempt.
#[derive(Default)]
struct Worlds(Mutex<BTreeMap<u32, World>>);

#[derive(Clone)]
struct World {
    functions: Arc<Functions>,
    behaviours: Arc<Mutex<BTreeMap<String, Behaviour>>>,
    runs: Arc<Mutex<BTreeMap<String, u32>>>,
}

/// Names of the steps in the suite are not known before it uses them: each is a function.
const STEPS: [&str; 16] = [
    "adopted",
    "again",
    "bad",
    "ended",
    "good",
    "named",
    "one",
    "other",
    "patience",
    "restarted",
    "running",
    "step",
    "stubborn",
    "twice",
    "unknown",
    "writer",
];

impl World {
    fn new() -> Self {
        let behaviours: Arc<Mutex<BTreeMap<String, Behaviour>>> = Arc::default();
        let runs: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
        let mut functions = Functions::new();
        let numbered = (0..100).map(|number| format!("step-{number:02}"));
        for step in STEPS.map(str::to_owned).into_iter().chain(numbered) {
            let (behaviours, runs) = (Arc::clone(&behaviours), Arc::clone(&runs));
            functions.add_with_grace(step, Duration::from_millis(300), move |step, _| {
                let key = format!("{}/{}", step.key(), step.attempt());
                *runs.lock().unwrap().entry(key.clone()).or_default() += 1;
                let behaviour = behaviours.lock().unwrap()[&key].clone();
                act(step, behaviour)
            });
        }
        Self { functions: Arc::new(functions), behaviours, runs }
    }
}

async fn act(step: StepContext, behaviour: Behaviour) -> Result<FunctionOutputs, StepError> {
    match behaviour {
        Behaviour::Exit(0) => Ok(FunctionOutputs::new()),
        Behaviour::Exit(code) => Err(StepError::new(format!("exit code {code}")).with_exit_code(i32::from(code))),
        Behaviour::Write { text, .. } => {
            let text = text.strip_suffix('\n').unwrap_or(text);
            Ok([("file".to_owned(), text.to_owned())].into())
        }
        Behaviour::Take(time) => {
            tokio::time::sleep(time).await;
            Ok(FunctionOutputs::new())
        }
        Behaviour::Run => {
            step.cancelled().await;
            Err("asked to end".into())
        }
        Behaviour::Resist => std::future::pending().await,
    }
}

impl SubstrateWorlds for Worlds {
    type Substrate = Functions;

    async fn open(&self, number: u32) -> Functions {
        self.0.lock().unwrap().entry(number).or_insert_with(World::new).functions.reconnect().begins_at_once()
    }

    fn template(&self, number: u32, key: &AttemptKey, behaviour: &Behaviour) -> serde_json::Value {
        let world = self.0.lock().unwrap().entry(number).or_insert_with(World::new).clone();
        world.behaviours.lock().unwrap().insert(key.to_string(), behaviour.clone());
        serde_json::Value::Null
    }

    async fn within<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(Duration::from_secs(2), future).await.ok()
    }

    async fn executions(&self, number: u32, key: &AttemptKey) -> Option<u32> {
        let world = self.0.lock().unwrap().get(&number)?.clone();
        let runs = world.runs.lock().unwrap().get(&key.to_string()).copied();
        Some(runs.unwrap_or(0))
    }

    fn can_suspend(&self) -> bool {
        false
    }

    fn has_resources(&self) -> bool {
        false
    }
}

#[tokio::test(start_paused = true)]
async fn functions_are_a_substrate_like_any_other() {
    let checks = substrate_suite(&Worlds::default()).await.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(checks.len() > 30, "{checks:?}");
}
