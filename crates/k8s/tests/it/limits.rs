//! The pace of requests, against the API server double in virtual time.

use std::time::Duration;

use futures::future::join_all;
use orlop_core::rate::Rate;
use orlop_k8s::api::{Api, Client, Kind, Request};
use orlop_k8s::shell::limits::Limited;
use orlop_k8s::testing::{ApiServer, Fault, Match, What};
use tokio::time::Instant;

fn request() -> Request {
    Request::get(Kind::ConfigMap, "default", "none")
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_their_turn_in_order_and_are_throttled_when_it_does_not_come() {
    let server = ApiServer::new();
    let api = Limited::new(Client::new(server.client()), Rate { per_second: 10, burst: 20 });
    let start = Instant::now();
    let answers = join_all((0..100).map(|_| async {
        let code = api.send(&request()).await.expect_err("there is none").code;
        (code, start.elapsed().as_millis())
    }))
    .await;
    let times: Vec<u128> = answers.iter().filter(|(code, _)| *code == Some(404)).map(|(_, time)| *time).collect();
    assert!(times.is_sorted() && times[19] < 100 && times[29] >= 1_000, "{times:?}");
    assert!((68..=71).contains(&times.len()), "burst and five seconds: {}", times.len());
    let throttled: Vec<_> = answers.iter().filter(|(code, _)| *code == Some(429)).collect();
    assert_eq!((throttled.len(), api.rate().per_second), (100 - times.len(), 10), "our own limit lowers nothing");
    let asked: u64 = server.requests().iter().map(|asked| asked.count).sum();
    assert_eq!(asked, times.len() as u64, "what is throttled is not sent");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_is_asked_less_and_later() {
    let server = ApiServer::new();
    server.faults().push(Fault { when: Match::any().times(1), what: What::Refuse(429) });
    let api = Limited::new(Client::new(server.client()), Rate { per_second: 10, burst: 20 });
    let error = api.send(&request()).await.expect_err("it is refused");
    assert_eq!((error.code, api.rate()), (Some(429), Rate { per_second: 5, burst: 10 }));
    let start = Instant::now();
    let _ = api.send(&request()).await;
    let waited = start.elapsed();
    let asked = error.retry_after.unwrap_or(Duration::from_secs(1));
    assert!(waited >= asked && waited < asked + Duration::from_millis(500), "{waited:?} of {asked:?}");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let _ = api.send(&request()).await;
    assert_eq!(api.rate(), Rate { per_second: 10, burst: 20 });
}
