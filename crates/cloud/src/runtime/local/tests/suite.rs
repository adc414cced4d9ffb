//! The conformance suite of the substrate port, over played pods.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use orlop_core::attempt::AttemptKey;
use orlop_core::testing::substrate::{Behaviour, SubstrateWorlds, substrate_suite};
use serde_json::{Value, json};

use super::Bench;
use super::fake::Fake;
use crate::runtime::local::LocalSubstrate;

#[derive(Default)]
struct Worlds(Mutex<BTreeMap<u32, Arc<Bench>>>);

impl Worlds {
    fn bench(&self, number: u32) -> Arc<Bench> {
        self.0.lock().unwrap().entry(number).or_insert_with(|| Arc::new(Bench::new())).clone()
    }
}

impl SubstrateWorlds for Worlds {
    type Substrate = LocalSubstrate<Fake>;

    async fn open(&self, number: u32) -> Self::Substrate {
        self.bench(number).open()
    }

    fn template(&self, _number: u32, _key: &AttemptKey, behaviour: &Behaviour) -> Value {
        let command = match behaviour {
            Behaviour::Exit(code) => json!(["exit", code.to_string()]),
            Behaviour::Write { path, text } => json!(["write", path, text]),
            Behaviour::Take(time) => json!(["take", time.as_millis().to_string()]),
            Behaviour::Run => json!(["run"]),
            Behaviour::Resist => json!(["resist"]),
        };
        let container = json!({"name": "main", "image": "i", "command": command});
        json!({"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}})
    }

    async fn within<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(Duration::from_secs(40), future).await.ok()
    }

    async fn executions(&self, number: u32, key: &AttemptKey) -> Option<u32> {
        let pods = self.bench(number).fake.plans();
        u32::try_from(pods.iter().filter(|plan| plan.key.attempt == *key).count()).ok()
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_a_substrate() {
    let checks = substrate_suite(&Worlds::default()).await.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(checks.len() > 40, "{}", checks.len());
}
