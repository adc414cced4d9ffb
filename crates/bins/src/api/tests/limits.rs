//! Limits of the interface: how long a body may take, how large it may be, how many streams
//! there are.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt as _;
use serde_json::json;

use super::fixture::{Ask, Fixture, noop};

#[tokio::test]
async fn a_body_that_takes_longer_than_ten_seconds_is_not_waited_for() {
    let fixture = Fixture::new().await;
    let text = noop(&json!({})).to_string();
    let body = |pause: Duration| {
        let (first, second) = text.split_at(10);
        let [first, second] = [first, second].map(|part| Bytes::from(part.to_owned()));
        let rest = async move {
            tokio::time::sleep(pause).await;
            Ok::<_, std::io::Error>(second)
        };
        Body::from_stream(futures::stream::iter([Ok(first)]).chain(futures::stream::once(rest)))
    };
    tokio::time::pause();
    let submit = || Ask::new("POST", "/jobs").with("content-type", "application/json");
    let slow = fixture.ask_with(submit(), body(Duration::from_secs(11))).await;
    assert_eq!((slow.status, &slow.body()["type"]), (504, &json!("urn:orlop:error:deadline")), "{}", slow.text);
    let slow = fixture.ask_with(submit(), body(Duration::from_secs(9))).await;
    assert_eq!(slow.status, 202, "{}", slow.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beyond_a_thousand_streams_the_next_is_refused_until_one_ends() {
    let fixture = Fixture::new().await;
    let mut streams = Vec::new();
    for _ in 0..800 {
        streams.push(fixture.stream(Ask::get("/events")).await);
    }
    let own = fixture.head(Ask::get("/events")).await;
    assert_eq!(own.status, 429, "the client token leaves some to others: {}", own.text);
    for _ in 0..2 {
        let token = fixture.token(None, "viewer", &["*"]).await;
        for _ in 0..100 {
            streams.push(fixture.stream(Ask::get("/events").token(&token)).await);
        }
    }
    let third = fixture.token(None, "viewer", &["*"]).await;
    let refused = fixture.head(Ask::get("/events").token(&third)).await;
    assert_eq!(refused.status, 429, "{}", refused.text);
    streams.pop();
    drop(fixture.stream(Ask::get("/events").token(&third)).await);
    streams.push(fixture.stream(Ask::get("/events").token(&third)).await);
    let refused = fixture.head(Ask::get("/events")).await;
    assert_eq!(refused.status, 429, "{}", refused.text);
    assert!(!refused.header("retry-after").is_empty());
    assert_eq!(fixture.ask(Ask::get("/stats")).await.status, 200, "whoever asks for no stream is answered");
    drop(streams.swap_remove(0));
    drop(fixture.stream(Ask::get("/events")).await);
}
