//! One question: repetitions, steps down, times, bounds, and that nothing of the key is seen.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use orlop_core::error::{Class, Problem};
use orlop_core::ports::advisor::{Advisor, Message, Question, Reply, Speaker};
use orlop_core::testing::{Deed, advisor_suite};
use serde_json::json;

use super::endpoint::{Act, Endpoint, status, words};
use super::{Client, client, client_with};

const PATIENCE: Duration = Duration::from_secs(20);

fn question() -> Question {
    Question {
        name: "duration",
        messages: vec![Message::new(Speaker::User, "How long?")],
        schema: json!({"type": "object"}),
    }
}

/// As long as an endpoint is waited for that says nothing, or not enough.
const SHORT: Duration = Duration::from_millis(600);

async fn asked(acts: Vec<Act>) -> (Result<Reply, Problem>, Endpoint) {
    let is_late = acts.iter().any(|act| matches!(act, Act::Silence | Act::Drips));
    let endpoint = Endpoint::new(acts).await;
    let client = if is_late { client_with(endpoint.port, SHORT) } else { client(endpoint.port) };
    let reply = client.ask(&question(), PATIENCE).await;
    (reply, endpoint)
}

/// A client together with its endpoint, which ends with it.
struct Both {
    client: Client,
    _endpoint: Endpoint,
}

#[async_trait]
impl Advisor for Both {
    async fn ask(&self, question: &Question, patience: Duration) -> Result<Reply, Problem> {
        self.client.ask(question, patience).await
    }
}

#[tokio::test]
async fn the_client_passes_the_suite_of_its_port() {
    let open = async |deeds: Vec<Deed>| {
        let is_late = deeds.iter().any(|deed| matches!(deed, Deed::IsSilent));
        let acts = deeds.into_iter().map(|deed| match deed {
            Deed::Answers(text) => words(&text),
            Deed::Refuses => Act::Says(200, "", json!({"choices": [{"message": {"refusal": "no"}}]}).to_string()),
            Deed::Denies => status(401),
            Deed::Fails => status(503),
            Deed::IsSilent => Act::Silence,
        });
        let endpoint = Endpoint::new(acts.collect()).await;
        let client = if is_late { client_with(endpoint.port, SHORT) } else { client(endpoint.port) };
        Both { client, _endpoint: endpoint }
    };
    let passed = advisor_suite(open).await.unwrap_or_else(|error| panic!("{error}"));
    assert!(passed.len() >= 8, "{passed:?}");
}

#[tokio::test]
async fn what_may_pass_is_repeated_twice_and_the_rest_is_not() {
    for (acts, requests, wanted) in [
        (vec![status(429), status(503), words("{}")], 3, None),
        (vec![Act::Silence, words("{}")], 2, None),
        (vec![Act::BreaksOff, words("{}")], 2, None),
        (vec![status(500)], 3, Some(Class::Transient)),
        (vec![status(401)], 1, Some(Class::Denied)),
        (vec![status(403)], 1, Some(Class::Denied)),
        (vec![status(404)], 1, Some(Class::Invalid)),
        (vec![Act::Says(302, "Location: http://127.0.0.1:1/\r\n", String::new())], 1, Some(Class::Invalid)),
        (vec![Act::Says(200, "", "<html>".into())], 1, Some(Class::Invalid)),
        (vec![Act::Endless], 1, Some(Class::Invalid)),
        (vec![Act::Drips], 3, Some(Class::Transient)),
    ] {
        let shown = format!("{acts:?}");
        let (reply, endpoint) = asked(acts).await;
        assert_eq!(reply.as_ref().err().map(|error| error.class), wanted, "{shown}");
        assert_eq!(endpoint.asked().len(), requests, "{shown}");
        if let Ok(reply) = reply {
            assert_eq!((reply.requests as usize, reply.tokens), (requests, 10), "{shown}");
        }
    }
}

#[tokio::test]
async fn an_endpoint_that_knows_less_is_asked_for_less_from_then_on() {
    let refusal = |word: &str| {
        Act::Says(400, "", json!({"error": {"message": format!("Unsupported parameter: '{word}'")}}).to_string())
    };
    let endpoint =
        Endpoint::new(vec![refusal("max_tokens"), refusal("response_format"), refusal("temperature"), words("{}")])
            .await;
    let client = client(endpoint.port);
    assert_eq!(client.ask(&question(), PATIENCE).await.unwrap().requests, 4);
    assert_eq!(client.ask(&question(), PATIENCE).await.unwrap().requests, 1, "it is remembered");
    let last = endpoint.asked().pop().unwrap();
    assert!(
        last.contains("max_completion_tokens") && last.contains("json_object") && !last.contains("temperature"),
        "{last}"
    );
}

#[tokio::test]
async fn patience_ends_a_wait_that_the_endpoint_asks_for() {
    let endpoint = Endpoint::new(vec![Act::Says(429, "Retry-After: 3600\r\n", "{}".into())]).await;
    let started = Instant::now();
    let error = client(endpoint.port).ask(&question(), Duration::from_millis(300)).await.unwrap_err();
    assert_eq!(error.class, Class::Transient);
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn the_key_goes_into_a_header_and_nowhere_else() {
    let leak = json!({"error": {"message": "no such key planted-key-of-the-endpoint"}}).to_string();
    let endpoint = Endpoint::new(vec![Act::Says(404, "", leak)]).await;
    let client = client(endpoint.port);
    let error = client.ask(&question(), PATIENCE).await.unwrap_err();
    let request = endpoint.asked().pop().unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("planted-key-of-the-endpoint") && !body.contains("planted-key"));
    assert!(!format!("{client:?} {error:?} {}", error.chain()).contains("planted-key"), "{error:?}");
}
