//! Placements that an operator orders: what is placed, what is refused, and why; and whose a session is.

use orlop_core::error::Code;
use orlop_core::id::{Epoch, JobId};
use orlop_core::task::TaskEnd;
use serde_json::json;

use super::super::WorkerOrder;
use super::super::clock::Clock as _;
use super::agent::Agent;
use super::fixture::Fixture;
use crate::wire::attempt::JobAccepted;
use crate::wire::frame::{Hello, OutboxRange, WorkerFrame};
use crate::wire::identity::{Authority, Csr, PeerCertificate};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_placement_is_answered_once_the_worker_has_accepted() {
    let fixture = Fixture::new().await;
    let mut agent = Agent::join(&fixture.handle(), "w1", 1).await;
    let (handle, worker) = (fixture.handle(), || "w1".parse().unwrap());
    for _ in 0..20 {
        handle.order(worker(), WorkerOrder::Cordon).await.unwrap();
        let job = fixture.submit(&[json!({})]).await[0];
        let accept = async {
            let attempt = agent.given(1).await[0];
            agent.send(WorkerFrame { accepted: vec![JobAccepted::new(attempt)], ..WorkerFrame::default() }).await;
            attempt
        };
        // Both in one batch, unless the loop was quicker: then the round has placed the job before.
        let uncordon = handle.order(worker(), WorkerOrder::Uncordon);
        let (_, placed, attempt) = tokio::join!(uncordon, handle.place(worker(), job), accept);
        agent.end(&[attempt], TaskEnd::Succeeded).await;
        handle.ended(job).await.unwrap();
        match placed {
            Ok(placed) => return assert_eq!(placed, attempt),
            Err(late) => assert!(late.message.contains("only a queued job can be placed"), "{late}"),
        }
    }
    panic!("it was never placed by the operator");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_good_with_the_certificate_of_its_worker_only() {
    let fixture = Fixture::new().await;
    let agent = Agent::join(&fixture.handle(), "w1", 1).await;
    let now = fixture.clock.wall();
    let (authority, _) = Authority::create(now).unwrap();
    let of = |worker: &str| {
        let request = Csr::new().unwrap().request;
        PeerCertificate::new(authority.sign(&request, &worker.parse().unwrap(), now).unwrap())
    };
    let hello = || Hello {
        session_id: agent.session.id().as_bytes().to_vec(),
        highest_epoch: agent.session.facts().epoch.0,
        outbox: Some(OutboxRange { first_seq: 1, count: 0 }),
        ..Hello::default()
    };
    let foreign = fixture.handle().open_stream(hello(), Some(of("w2"))).await.unwrap_err();
    assert_eq!(foreign.code, Code::Forbidden, "{foreign}");
    let beat = fixture.handle().alive(agent.session.id(), None, Some(of("w2"))).await.unwrap_err();
    assert_eq!(beat.code, Code::Forbidden);
    assert!(fixture.handle().alive(agent.session.id(), None, Some(of("w1"))).await.is_ok());
    assert!(fixture.handle().open_stream(hello(), Some(of("w1"))).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_placed_is_reported_with_its_explanation() {
    let fixture = Fixture::new().await;
    let mut agent = Agent::join(&fixture.handle(), "w1", 1).await;
    let jobs = fixture.submit(&vec![json!({}); 2]).await;
    let attempt = agent.given(1).await[0];
    let place = async |worker: &str, job| fixture.handle().place(worker.parse().unwrap(), job).await.unwrap_err();
    let full = place("w1", jobs[1]).await;
    assert_eq!(full.code, Code::Precondition);
    assert!(
        full.message.contains("cannot be placed on worker `w1` now: max jobs")
            && full.message.contains("nearest is w1"),
        "{full}"
    );
    assert_eq!(place("w2", jobs[1]).await.code, Code::NotFound);
    assert_eq!(place("w1", JobId::new(Epoch(9), 9).unwrap()).await.code, Code::NotFound);
    let running = place("w1", jobs[0]).await;
    assert!(
        running.code == Code::Precondition && running.message.contains("only a queued job can be placed"),
        "{running}"
    );
    agent.end(&[attempt], TaskEnd::Succeeded).await;
}
