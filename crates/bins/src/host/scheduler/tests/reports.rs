//! What workers say of themselves reaches readers, on a server where nothing else happens too.

use std::time::Duration;

use orlop_core::machine::worker::WorkerState;

use super::agent::Agent;
use super::fixture::{Fixture, until};
use crate::wire::bound::OnWire as _;
use crate::wire::status::{Measured, WorkerStatus};

pub(super) fn status(cpu_percent: f64) -> WorkerStatus {
    WorkerStatus {
        worker_id: "w1".to_owned(),
        state: WorkerState::Available.number(),
        measured: Some(Measured { cpu_percent, ..Measured::default() }),
        ..WorkerStatus::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_idle_worker_measures_is_in_the_next_snapshot() {
    let mut fixture = Fixture::new().await;
    let mut agent = Agent::join(&fixture.handle(), "w1", 1).await;
    let shown = || {
        let snapshot = fixture.handle().snapshot();
        snapshot.workers.values().next().and_then(|worker| Some(worker.status.as_ref()?.measured.as_ref()?.cpu_percent))
    };
    for percent in [10.0, 20.0, 30.0] {
        agent.report(status(percent)).await;
        // Answered behind the report: that has been taken by then.
        agent.beat().await;
        // A snapshot for that alone is made once a second at most.
        fixture.pass(Duration::from_secs(1));
        until("the snapshot", async || (shown() == Some(percent)).then_some(())).await;
    }
    fixture.stop().await;
}
