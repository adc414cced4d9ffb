//! Running the controller of flows. Owns what its loop is told and what becomes of it; the loop is that of every controller.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use futures::future::{join, select};
use orlop_core::time::Time;
use serde_json::Value;

use super::watch::{FLOWS, streams, watched};
use super::{Controller, ControllerEvent, Key, Next};
use crate::api;
use crate::shell::LoopEvent;
pub use crate::shell::RunOptions;
use crate::shell::run::{WorkLoop, run};
use crate::shell::watch::AllFailures;

/// How long events are published that wait when a controller ends.
const LAST_EVENTS: Duration = Duration::from_secs(2);

impl<A: api::Api> Controller<A> {
    /// Watches flows and Jobs and passes over flows until `stop` is ready; passes under way are finished first. `client`
    /// reads; writes go through the client this controller has.
    pub async fn run(&self, client: kube::Client, options: &RunOptions, stop: impl Future<Output = ()> + Send) {
        let failures = AllFailures::default();
        let watches = || streams(&client, options, &failures);
        let passes = pin!(run(self, watched(options), watches, options, stop));
        select(passes, pin!(join(self.publish_events(), self.look_up_pods()))).await;
        // Events that are not published yet may be lost.
        drop(tokio::time::timeout(LAST_EVENTS, self.publish_waiting()).await);
    }
}

impl<A: api::Api> WorkLoop for Controller<A> {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn steady(&self) -> Duration {
        self.monitor.now()
    }

    fn record(&self, event: LoopEvent<'_>) {
        self.monitor.record(ControllerEvent::Loop(event));
    }

    fn on_apply(&self, of: usize, object: &Value) -> Vec<Key> {
        if of == FLOWS { self.flow_applied(object) } else { self.job_applied(object) }
    }

    fn on_delete(&self, of: usize, object: &Value) -> Vec<Key> {
        if of == FLOWS { self.flow_deleted(object) } else { self.job_deleted(object) }
    }

    fn on_list(&self, of: usize, uids: &BTreeSet<String>, namespace: Option<&str>) -> Vec<Key> {
        if of == FLOWS { self.flows_listed(uids, namespace) } else { self.jobs_listed(uids, namespace) }
    }

    fn keys(&self) -> Vec<Key> {
        self.prime()
    }

    fn comes_first(&self, key: &Key) -> bool {
        self.is_under_way(key)
    }

    async fn next_wake(&self) -> Key {
        self.next_looked_up().await
    }

    async fn pass(&self, key: &Key) -> Next {
        self.reconcile(key).await
    }
}
