//! What a substrate brings to its suite: worlds to open, attempts that behave as asked, patience. Owns the fixture of the
//! scripted double.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};

use crate::attempt::AttemptKey;
use crate::ports::substrate::Substrate;
use crate::testing::substrate::{Play, ScriptedSubstrate, When};
use crate::testing::wait::{at_once, lock};

/// What an attempt of the suite does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Ends with this exit code.
    Exit(u8),
    /// Writes a file, then succeeds.
    Write {
        /// Absolute path, as the container sees it.
        path: &'static str,
        /// The file's text.
        text: &'static str,
    },
    /// Takes this long, then succeeds.
    Take(Duration),
    /// Runs until it is told to end.
    Run,
    /// Runs until it is killed: it does not hear when it is told to end.
    Resist,
}

/// Worlds for [`super::substrate_suite`].
pub trait SubstrateWorlds {
    /// The substrate under test.
    type Substrate: Substrate;

    /// Opens the world of a number: empty the first time; later as its next host finds it after the first is gone.
    fn open(&self, number: u32) -> impl Future<Output = Self::Substrate>;

    /// A `batch/v1` Job whose only container does this. See [`shell_job`].
    fn template(&self, number: u32, key: &AttemptKey, behaviour: &Behaviour) -> Value;

    /// The output of a future, or none when it has none in the time within which everything due must have happened: for
    /// real attempts some seconds.
    fn within<T>(&self, future: impl Future<Output = T>) -> impl Future<Output = Option<T>>;

    /// The same for what comes in any case, so that waiting for it longer costs nothing: on a busy machine it may be late.
    fn due<T>(&self, future: impl Future<Output = T>) -> impl Future<Output = Option<T>> {
        self.within(future)
    }

    /// How many executions were ever created under a key, where that can be told.
    fn executions(&self, number: u32, key: &AttemptKey) -> impl Future<Output = Option<u32>>;

    /// How many checks may run beside one another, each in its own world. Where time is real, most of them only wait.
    fn at_once(&self) -> usize {
        1
    }

    /// Whether attempts can be suspended. Checks of suspension pass unseen where they cannot.
    fn can_suspend(&self) -> bool {
        true
    }

    /// Whether there are volumes and ConfigMaps. Checks of resources pass unseen where there are none.
    fn has_resources(&self) -> bool {
        true
    }
}

/// A `batch/v1` Job with one container `main` that behaves so in a POSIX shell; `prelude` is run first.
#[must_use]
pub fn shell_job(image: &str, prelude: &str, behaviour: &Behaviour) -> Value {
    let script = match behaviour {
        Behaviour::Exit(code) => format!("exit {code}"),
        Behaviour::Write { path, text } => format!("printf '%s' '{}' > '{path}'", text.replace('\'', "'\\''")),
        Behaviour::Take(time) => format!("sleep {}.{:03}", time.as_secs(), time.subsec_millis()),
        Behaviour::Run => "trap 'exit 143' TERM; while :; do sleep 0.05; done".to_owned(),
        Behaviour::Resist => "trap '' TERM; while :; do sleep 0.05; done".to_owned(),
    };
    let script = if prelude.is_empty() { script } else { format!("{prelude}\n{script}") };
    let container = json!({ "name": "main", "image": image, "command": ["/bin/sh", "-c", script] });
    let pod = json!({ "restartPolicy": "Never", "containers": [container] });
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {},
        "spec": { "backoffLimit": 0, "template": { "metadata": {}, "spec": pod } },
    })
}

/// Worlds of scripted substrates, where no time passes.
#[derive(Debug, Default)]
pub struct ScriptedWorlds {
    worlds: Mutex<BTreeMap<u32, ScriptedSubstrate>>,
}

impl ScriptedWorlds {
    fn world(&self, number: u32) -> ScriptedSubstrate {
        lock(&self.worlds).entry(number).or_default().clone()
    }
}

impl SubstrateWorlds for ScriptedWorlds {
    type Substrate = ScriptedSubstrate;

    async fn open(&self, number: u32) -> ScriptedSubstrate {
        self.world(number).reconnect()
    }

    fn template(&self, number: u32, key: &AttemptKey, behaviour: &Behaviour) -> Value {
        let play = match behaviour {
            Behaviour::Exit(code) => Play::exit(i32::from(*code)).without("missing"),
            // The file of the suite's specs is called `file`; a substrate takes one newline off its end.
            Behaviour::Write { text, .. } => {
                Play::success().without("missing").file("file", text.strip_suffix('\n').unwrap_or(text))
            }
            Behaviour::Take(time) => Play::success().after(*time),
            Behaviour::Run => Play::forever(),
            Behaviour::Resist => Play::forever().cancel_takes(Duration::from_secs(1)),
        };
        self.world(number).script(When::key(key), play);
        shell_job("busybox", "", behaviour)
    }

    async fn within<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        at_once(future).await
    }

    async fn executions(&self, number: u32, key: &AttemptKey) -> Option<u32> {
        Some(self.world(number).executions(key))
    }
}
