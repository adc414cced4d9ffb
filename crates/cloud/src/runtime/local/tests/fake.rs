//! A runtime whose pods are played from their commands in the time of the test. Owns the double only; it outlives the
//! substrates of a test as processes and containers outlive theirs.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use orlop_core::error::{Class, Problem};
use orlop_core::ports::clock::Clock;
use orlop_core::time::Time;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::runtime::pod::{ContainerExit, PodExit, PodHandle, PodKey, PodPlan, PodResult, PodRuntime};
use crate::runtime::volume::locate::mount_above;

/// The time of the test, from a fixed day on.
pub(super) struct TestClock(Instant);

impl TestClock {
    pub(super) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for TestClock {
    fn now(&self) -> Time {
        Time::from_millis(1_700_000_000_000).plus(self.0.elapsed())
    }
}

/// The runtime. Clones are the same one.
#[derive(Clone)]
pub(super) struct Fake(Arc<Shared>);

struct Shared {
    clock: Arc<dyn Clock>,
    world: Mutex<World>,
    changed: Notify,
}

#[derive(Default)]
pub(super) struct World {
    pub(super) pods: BTreeMap<PodKey, FakePod>,
    /// What the next starts are answered, before anything is created.
    pub(super) refusals: VecDeque<Problem>,
    /// What the next starts are answered after the pod was created.
    pub(super) doubts: VecDeque<Problem>,
    /// What the next waits are answered.
    pub(super) blindness: VecDeque<Problem>,
    /// How the next freezings are answered.
    pub(super) unwilling: VecDeque<Problem>,
    /// How long a start takes.
    pub(super) slowness: Duration,
    pub(super) removed: Vec<PodKey>,
    pub(super) fetched: Vec<String>,
}

pub(super) struct FakePod {
    pub(super) plan: PodPlan,
    pub(super) exit: Option<PodExit>,
    pub(super) frozen: bool,
    pub(super) stops: Vec<Duration>,
    files: BTreeMap<String, String>,
    started_at: Time,
}

impl Fake {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Shared { clock, world: Mutex::default(), changed: Notify::new() }))
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.0.world.lock().unwrap()
    }

    /// Plans of all pods ever created, by key.
    pub(super) fn plans(&self) -> Vec<PodPlan> {
        self.world().pods.values().map(|pod| pod.plan.clone()).collect()
    }

    /// A pod ends so.
    pub(super) fn end(&self, key: &PodKey, result: PodResult, code: Option<i32>) {
        let now = self.0.clock.now();
        if let Some(pod) = self.world().pods.get_mut(key).filter(|pod| pod.exit.is_none()) {
            let started_at = pod.started_at;
            let message = match pod.plan.main.args.as_slice() {
                [] => String::new(),
                args => args.join(" "),
            };
            let container = |exit_code| ContainerExit {
                name: pod.plan.main.name.clone(),
                exit_code,
                signal: None,
                oom_killed: exit_code == 137
                    && matches!(&result, PodResult::Failed { reason, .. } if reason == "OOMKilled"),
                message: message.clone(),
                masked: false,
                restarts: 0,
                started_at,
                ended_at: now,
            };
            pod.exit = Some(PodExit {
                containers: code.map(container).into_iter().collect(),
                result: result.clone(),
                started_at: Some(started_at),
                ended_at: now,
            });
        }
        self.0.changed.notify_waiters();
    }

    fn exit(&self, key: &PodKey, code: i32) {
        let result = match code {
            0 => PodResult::Succeeded,
            code => {
                let message = format!("container main ended with exit code {code}");
                PodResult::Failed { reason: "NonZeroExit".into(), message }
            }
        };
        self.end(key, result, Some(code));
    }

    /// Plays a pod's command: `exit CODE`, `exits CODE…` (by pod number, `-` runs on), `take MILLIS`, `write PATH TEXT`, `run`, `resist`.
    async fn play(self, key: PodKey, command: Vec<String>) {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let played = async {
            match words.as_slice() {
                ["exit", code] => self.exit(&key, code.parse().unwrap()),
                ["exits", codes @ ..] => {
                    let code = codes.get(key.pod as usize).or(codes.last()).unwrap();
                    match code.parse() {
                        Ok(code) => self.exit(&key, code),
                        Err(_) => std::future::pending().await,
                    }
                }
                ["take", millis] => {
                    let mut left: u32 = millis.parse::<u32>().unwrap() / 10;
                    while left > 0 {
                        sleep(Duration::from_millis(10)).await;
                        let frozen = self.world().pods.get(&key).is_none_or(|pod| pod.frozen);
                        left -= u32::from(!frozen);
                    }
                    self.exit(&key, 0);
                }
                ["write", path, text] => {
                    self.write(&key, path, text);
                    self.exit(&key, 0);
                }
                _ => std::future::pending().await,
            }
        };
        let stopped = async {
            let grace = self.until(&key, |pod| pod.stops.iter().min().copied()).await;
            if words.first() == Some(&"resist") {
                sleep(grace).await;
            }
            self.end(&key, PodResult::Cancelled, Some(143));
        };
        tokio::select! {
            () = played => {}
            () = stopped => {}
        }
    }

    fn write(&self, key: &PodKey, path: &str, text: &str) {
        let mut world = self.world();
        let pod = world.pods.get_mut(key).unwrap();
        match mount_above(&pod.plan.main.mounts, path) {
            Some((mount, rest)) => std::fs::write(mount.source.join(rest), text).unwrap(),
            None => drop(pod.files.insert(path.to_owned(), text.to_owned())),
        }
    }

    /// Waits until a pod shows something.
    pub(super) async fn until<T>(&self, key: &PodKey, look: impl Fn(&FakePod) -> Option<T>) -> T {
        loop {
            let mut changed = pin!(self.0.changed.notified());
            changed.as_mut().enable();
            if let Some(seen) = self.world().pods.get(key).and_then(&look) {
                return seen;
            }
            changed.await;
        }
    }
}

#[async_trait]
impl PodRuntime for Fake {
    fn kind(&self, _image: Option<&str>) -> &'static str {
        "Fake"
    }

    async fn start(&self, plan: &PodPlan) -> Result<PodHandle, Problem> {
        let slowness = self.world().slowness;
        let mut slow = pin!(sleep(slowness));
        loop {
            let mut changed = pin!(self.0.changed.notified());
            tokio::select! {
                () = &mut slow => break,
                () = &mut changed => {}
            }
        }
        let mut world = self.world();
        if let Some(error) = world.refusals.pop_front() {
            return Err(error);
        }
        let handle = PodHandle { name: plan.name.clone(), id: format!("id of {}", plan.name) };
        if !world.pods.contains_key(&plan.key) {
            let pod = FakePod {
                plan: plan.clone(),
                exit: None,
                frozen: false,
                stops: Vec::new(),
                files: BTreeMap::new(),
                started_at: self.0.clock.now(),
            };
            world.pods.insert(plan.key.clone(), pod);
            tokio::spawn(self.clone().play(plan.key.clone(), plan.main.command.clone()));
        }
        let doubt = world.doubts.pop_front();
        drop(world);
        self.0.changed.notify_waiters();
        doubt.map_or(Ok(handle), Err)
    }

    async fn wait(&self, key: &PodKey, _directory: &Path) -> Result<PodExit, Problem> {
        if let Some(error) = self.world().blindness.pop_front() {
            return Err(error);
        }
        if !self.world().pods.contains_key(key) {
            let ended_at = self.0.clock.now();
            return Ok(PodExit { result: PodResult::Lost, containers: Vec::new(), started_at: None, ended_at });
        }
        Ok(self.until(key, |pod| pod.exit.clone()).await)
    }

    async fn stop(&self, key: &PodKey, _directory: &Path, grace: Duration) -> Result<(), Problem> {
        if let Some(pod) = self.world().pods.get_mut(key) {
            pod.stops.push(grace);
        }
        self.0.changed.notify_waiters();
        Ok(())
    }

    async fn freeze(&self, key: &PodKey, _directory: &Path, on: bool) -> Result<(), Problem> {
        if let Some(error) = self.world().unwilling.pop_front() {
            return Err(error);
        }
        if let Some(pod) = self.world().pods.get_mut(key) {
            pod.frozen = on;
        }
        self.0.changed.notify_waiters();
        Ok(())
    }

    async fn fetch(&self, key: &PodKey, _plan: &PodPlan, inside: &str, scratch: &Path) -> Result<PathBuf, Problem> {
        let mut world = self.world();
        world.fetched.push(inside.to_owned());
        let text = world.pods.get(key).and_then(|pod| pod.files.get(inside)).cloned();
        let text = text.ok_or_else(|| Problem::new(Class::NotFound, format!("there is nothing at {inside}")))?;
        let path = scratch.join(inside.replace('/', "_"));
        std::fs::write(&path, text)?;
        Ok(path)
    }

    async fn remove(&self, key: &PodKey, _directory: &Path) -> Result<(), Problem> {
        self.world().removed.push(key.clone());
        Ok(())
    }
}
