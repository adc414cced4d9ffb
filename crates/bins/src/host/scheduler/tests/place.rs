//! Placements that an operator orders: what is refused, and why.

use orlop_core::id::{Epoch, JobId};
use serde_json::json;

use super::agent::Agent;
use super::bed::Bed;
use crate::wire::problem::Code;
use crate::wire::result::Ending;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s4_what_cannot_be_placed_is_told_with_its_explanation() {
    let bed = Bed::new().await;
    let mut agent = Agent::join(&bed.handle(), "w1", 1).await;
    let jobs = bed.submit(&vec![json!({}); 2]).await;
    let attempt = agent.given(1).await[0];
    let place = async |worker: &str, job| bed.handle().place(worker.parse().unwrap(), job).await.unwrap_err();
    let full = place("w1", jobs[1]).await;
    assert_eq!(full.code, Code::Precondition);
    assert!(
        full.detail.contains("cannot be placed on worker `w1` now: max jobs") && full.detail.contains("nearest is w1"),
        "{full}"
    );
    assert_eq!(place("w2", jobs[1]).await.code, Code::NotFound);
    assert_eq!(place("w1", JobId::new(Epoch(9), 9).unwrap()).await.code, Code::NotFound);
    let running = place("w1", jobs[0]).await;
    assert!(
        running.code == Code::Precondition && running.detail.contains("only a queued job can be placed"),
        "{running}"
    );
    agent.end(&[attempt], Ending::Succeeded).await;
}
