//! A scripted substrate as a test holds it: its script, its clock, its faults and its records. Owns the test's side; the
//! host's side is the port.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::call::{Call, Operation};
use super::play::{Play, Refusal, When};
use super::world::{Fault, Session, World};
use crate::attempt::{AttemptKey, AttemptSpec, EndResult};
use crate::error::Class;
use crate::testing::wait::lock;
use crate::time::Time;

/// An in-memory substrate whose attempts end as a script says; without a script they succeed at once.
///
/// Its clock is virtual and starts at the Unix epoch. By itself it jumps to the next end whenever the host waits in
/// `next`; after [`ScriptedSubstrate::use_manual_clock`] only [`ScriptedSubstrate::advance`] moves it. Clones are the
/// same host's substrate; [`ScriptedSubstrate::reconnect`] gives the substrate of the next host after a crash.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use orlop_core::testing::substrate::{Play, ScriptedSubstrate, When};
/// let substrate = ScriptedSubstrate::new();
/// substrate.script(When::step("test").attempt(1), Play::exit(3));
/// substrate.script(When::step("deploy"), Play::forever());
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ScriptedSubstrate {
    world: Arc<Mutex<World>>,
    pub(super) session: usize,
}

/// How reports travel to the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// How many copies of each report arrive beside the first.
    pub duplicates: u32,
    /// How long each takes, in virtual time.
    pub delay: Duration,
    /// Up to how much longer each takes, drawn anew for each: reports overtake each other.
    pub jitter: Duration,
    /// What the draws depend on.
    pub seed: u64,
}

impl Default for ScriptedSubstrate {
    fn default() -> Self {
        Self::new()
    }
}

impl ScriptedSubstrate {
    /// An empty world with one host.
    #[must_use]
    pub fn new() -> Self {
        let mut world = World::default();
        world.sessions.push(Session::default());
        Self { world: Arc::new(Mutex::new(world)), session: 0 }
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    /// The substrate of another host over the same world, as after a crash: it is told of nothing it has not started,
    /// adopted or cancelled itself.
    #[must_use]
    pub fn reconnect(&self) -> Self {
        let mut world = self.world();
        let session = world.sessions.len();
        world.sessions.push(Session::default());
        Self { world: Arc::clone(&self.world), session }
    }

    /// Has matching attempts created from now on do this. Of several that match, the last added counts.
    pub fn script(&self, when: When, play: Play) {
        self.world().script.push((when, play));
    }

    /// The virtual time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.world().now
    }

    /// Stops the clock from moving by itself.
    pub fn use_manual_clock(&self) {
        self.world().manual_clock = true;
    }

    /// Moves the clock, and ends what is due.
    pub fn advance(&self, by: Duration) {
        let now = self.now().plus(by);
        self.advance_to(now);
    }

    /// Moves the clock to a time, unless it is there already or later, and ends what is due.
    pub fn advance_to(&self, time: Time) {
        let mut world = self.world();
        world.now = world.now.max(time);
        world.settle();
        world.wake();
    }

    /// Has reports that are sent from now on travel so.
    pub fn deliver(&self, delivery: Delivery) {
        self.world().delivery = delivery;
    }

    /// Keeps all reports back until [`ScriptedSubstrate::release_reports`].
    pub fn hold_reports(&self) {
        self.world().held = true;
    }

    /// Lets reports go that were kept back.
    pub fn release_reports(&self) {
        let mut world = self.world();
        world.held = false;
        world.wake();
    }

    /// The next `count` calls of an operation fail with an error of this class and do nothing.
    pub fn fail_calls(&self, operation: Operation, count: usize, class: Class) {
        self.add_faults(operation, count, class, false);
    }

    /// The next `count` calls of an operation are carried out and fail as Transient nevertheless, as when the answer is
    /// lost.
    pub fn lose_answers(&self, operation: Operation, count: usize) {
        self.add_faults(operation, count, Class::Transient, true);
    }

    fn add_faults(&self, operation: Operation, count: usize, class: Class, carried_out: bool) {
        let what = if carried_out { "lose the answer of" } else { "fail" };
        let message = format!("the test had the substrate {what} this call of {operation}");
        let answer = Refusal { class, reason: None, message, retry_after: None, times: None };
        let fault = Fault { operation, answer, carried_out };
        self.world().faults.extend(std::iter::repeat_n(fault, count));
    }

    /// Ends a live attempt now, as its play says.
    pub fn finish(&self, key: &AttemptKey) {
        self.world().finish(key, None);
    }

    /// Ends a live attempt now, as told; what it leaves is its play's.
    pub fn finish_as(&self, key: &AttemptKey, result: EndResult) {
        self.world().finish(key, Some(result));
    }

    /// Loses every live attempt now, as when a machine dies.
    pub fn lose_all(&self) {
        for key in self.live() {
            self.finish_as(&key, EndResult::Lost);
        }
    }

    /// Says that an object of this name belongs to somebody else, so that `ensure_resources` meets it.
    pub fn occupy(&self, namespace: impl Into<String>, name: impl Into<String>) {
        self.world().resources.insert((namespace.into(), name.into()), String::new());
    }

    /// Every call so far, of all hosts, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.world().calls.clone()
    }

    /// Every call since the last time these were taken.
    #[must_use]
    pub fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.world().calls)
    }

    /// How many executions were ever created under a key.
    #[must_use]
    pub fn executions(&self, key: &AttemptKey) -> u32 {
        self.world().created.get(key).copied().unwrap_or(0)
    }

    /// Keys under which more than one execution was created: none, if the host is right.
    #[must_use]
    pub fn repeated(&self) -> Vec<AttemptKey> {
        self.world().created.iter().filter(|(_, count)| **count > 1).map(|(key, _)| key.clone()).collect()
    }

    /// Keys of executions that have not ended.
    #[must_use]
    pub fn live(&self) -> Vec<AttemptKey> {
        let mut world = self.world();
        world.settle();
        world.executions.iter().filter(|(_, execution)| execution.is_live()).map(|(key, _)| key.clone()).collect()
    }

    /// What an execution was started with.
    #[must_use]
    pub fn spec(&self, key: &AttemptKey) -> Option<AttemptSpec> {
        self.world().executions.get(key).map(|execution| execution.spec.clone())
    }
}
