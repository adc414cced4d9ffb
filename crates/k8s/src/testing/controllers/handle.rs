//! What tests see of the controllers.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::super::Shared;
use super::super::store::key;
use super::{PodHabits, next_due, settle, step};

/// The controllers of a server: Jobs, pods, garbage, namespaces. They act only when told to.
#[derive(Clone)]
pub struct ControllersHandle {
    pub(crate) shared: Arc<Shared>,
}

impl ControllersHandle {
    /// Lets them act until none has anything to do at this moment of the server's clock. Returns the number of their turns.
    pub fn settle(&self) -> usize {
        settle(&mut self.shared.lock())
    }

    /// Lets one of them take one turn; false where none has anything to do at this moment.
    pub fn step(&self) -> bool {
        step(&mut self.shared.lock())
    }

    /// When they have something to do next, in milliseconds since 1970, after they have settled.
    #[must_use]
    pub fn next_due(&self) -> Option<i64> {
        next_due(&self.shared.lock())
    }

    /// Settles them and moves the clock from one due time to the next, until that much time is over. Returns the number
    /// of their turns.
    pub fn run_for(&self, time: Duration) -> usize {
        let length = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let mut state = self.shared.lock();
        let end = state.now().saturating_add(length);
        let mut turns = settle(&mut state);
        while let Some(due) = next_due(&state).filter(|due| *due <= end) {
            let wait = due - state.now();
            state.advance(wait.max(0));
            turns += settle(&mut state);
        }
        let rest = end - state.now();
        state.advance(rest.max(0));
        turns
    }

    /// Lets them act whenever there is something to do, for ever: to be spawned, on a server whose clock follows tokio's.
    pub async fn run(&self) {
        loop {
            let (revision, due) = {
                let mut state = self.shared.lock();
                settle(&mut state);
                (state.revision, next_due(&state).map(|due| due - state.now()))
            };
            let change = std::future::poll_fn(|context| {
                let mut state = self.shared.lock();
                if state.revision > revision {
                    return Poll::Ready(());
                }
                state.tables.iter_mut().for_each(|table| table.wait(context.waker()));
                Poll::Pending
            });
            match due {
                // Either may come first; what is due is looked up again.
                Some(due) => {
                    let wait = Duration::from_millis(u64::try_from(due).unwrap_or_default());
                    let _ = tokio::time::timeout(wait, change).await;
                }
                None => change.await,
            }
        }
    }

    /// How pods run from now on that do not say how by annotation.
    pub fn set_habits(&self, habits: PodHabits) {
        self.shared.lock().controllers.habits = habits;
    }

    /// A node does not answer any more: its pods are marked and told to go, and stay, as nobody says that they went.
    pub fn lose_node(&self, node: &str) {
        super::lose_node(&mut self.shared.lock(), node);
    }

    /// A node is taken out of the cluster: its pods end as failed and go.
    pub fn remove_node(&self, node: &str) {
        super::remove_node(&mut self.shared.lock(), node);
    }

    /// A node ends a pod because it is short of memory. False where there is no such pod.
    pub fn evict(&self, namespace: &str, pod: &str) -> bool {
        super::evict(&mut self.shared.lock(), &key(namespace, pod))
    }
}
