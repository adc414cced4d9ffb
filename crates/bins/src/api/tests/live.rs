//! Live views over HTTP: the whole first, then what changes, each caller its own tenants alone.

use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt as _;
use orlop_core::testing::fleet_store::MemoryFleet;
use serde_json::{Value, json};

use super::fixture::{Ask, Fixture, noop};

/// How long a test waits for what must come.
const SOON: Duration = Duration::from_secs(30);

/// A stream as a page reads it.
struct Stream {
    body: Body,
    text: String,
    /// Events that were passed over by who waited for another one.
    held: Vec<Event>,
}

/// An event.
#[derive(Debug)]
struct Event {
    id: String,
    kind: String,
    data: Value,
}

impl Stream {
    async fn open(fixture: &Fixture, ask: Ask) -> Self {
        Self { body: fixture.stream(ask).await, text: String::new(), held: Vec::new() }
    }

    /// The next event; none at the end.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
                let event = Event {
                    id: field("id: ").to_owned(),
                    kind: field("event: ").to_owned(),
                    data: serde_json::from_str(field("data: ")).unwrap(),
                };
                self.text = rest.to_owned();
                return Some(event);
            }
            let frame = tokio::time::timeout(SOON, self.body.frame()).await.expect("an event comes")?;
            self.text.push_str(std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap());
        }
    }

    /// The next event of a kind about a topic.
    async fn about(&mut self, kind: &str, topic: &str) -> Event {
        let is_it = |event: &Event| event.kind == kind && event.data["topic"] == topic;
        if let Some(place) = self.held.iter().position(is_it) {
            return self.held.remove(place);
        }
        let deadline = tokio::time::Instant::now() + SOON;
        loop {
            let next = tokio::time::timeout_at(deadline, self.next()).await;
            let event = next.unwrap_or_else(|_| panic!("no {kind} of {topic}, but {:#?}", self.held));
            let event = event.expect("the stream goes on");
            if is_it(&event) {
                return event;
            }
            self.held.push(event);
        }
    }
}

fn live(topics: &str) -> Ask {
    Ask::get(&format!("/live?topics={topics}"))
}

fn manual(name: &str) -> Value {
    json!({
        "apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": { "name": name },
        "spec": { "steps": [
            { "name": "gate", "type": "Manual", "message": "may it go on?" },
            { "name": "after", "type": "Manual", "dependencies": ["gate"], "message": "and on?" },
        ] },
    })
}

async fn submit_flow(fixture: &Fixture, token: &str, tenant: &str, name: &str) -> String {
    let ask = Ask::post("/flows", &json!({ "definition": manual(name), "tenant": tenant })).token(token);
    let answer = fixture.ask(ask).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    answer.body()["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_says_where_it_is_then_the_whole_then_what_changes() {
    let fixture = Fixture::new().await;
    let mut stream = Stream::open(&fixture, live("jobs,overview")).await;
    let hello = stream.next().await.unwrap();
    assert_eq!(hello.kind, "hello");
    let epoch = hello.data["epoch"].as_str().unwrap().to_owned();
    let whole = stream.about("snapshot", "overview").await;
    assert_eq!((&whole.data["data"]["running"], &whole.data["data"]["failed"]["count"]), (&json!(0), &json!(0)));
    stream.about("snapshot", "jobs").await;
    let job = fixture.submit(&json!({ "name": "first" })).await;
    let delta = stream.about("delta", "jobs").await;
    let row = &delta.data["data"]["rows"][0];
    assert_eq!((&row["id"], &row["name"]), (&json!(job), &json!("first")));
    assert_eq!(delta.id, format!("{epoch}-{}", delta.data["seq"]));
    let waiting = stream.about("delta", "overview").await;
    assert_eq!(waiting.data["data"]["waiting"]["total"], 1, "{:?}", waiting.data);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_steps_of_a_flow_and_its_decisions_are_seen_as_they_happen() {
    let fixture = Fixture::new().await;
    let admin = fixture.token(None, "admin", &["*"]).await;
    let flow = submit_flow(&fixture, &admin, "default", "release").await;
    let topic = format!("flow:{flow}");
    let mut stream = Stream::open(&fixture, live(&format!("{topic},approvals,flows")).token(&admin)).await;
    let mut shown = stream.about("snapshot", &topic).await.data["data"].clone();
    let waits = stream.about("snapshot", "approvals").await;
    let asked = &waits.data["data"]["rows"];
    while shown["nodes"]["phase"][0] != "PendingApproval" {
        let delta = stream.about("delta", &topic).await.data["data"].clone();
        merge(&mut shown, &delta);
    }
    assert!(asked[0]["step"] == "gate" || asked == &json!([]), "{asked}");
    let approve = Ask::post(&format!("/flows/{flow}/steps/gate/approve"), &json!({ "reason": "fine" })).token(&admin);
    assert_eq!(fixture.ask(approve).await.status, 202);
    while shown["nodes"]["phase"] != json!(["Succeeded", "PendingApproval"]) {
        let delta = stream.about("delta", &topic).await.data["data"].clone();
        merge(&mut shown, &delta);
    }
    let state = fixture.ask(Ask::get(&format!("/flows/{flow}/state")).token(&admin)).await.body();
    assert_eq!(state, shown, "what a page put together is what a fresh one is shown");
    let listed = fixture.ask(Ask::get("/approvals").token(&admin)).await.body();
    assert_eq!(listed["items"][0]["step"], "after");
    fixture.end().await;
}

/// What a page does with a delta of a flow.
fn merge(shown: &mut Value, delta: &Value) {
    shown["seq"] = delta["seq"].clone();
    if !delta["flow"].is_null() {
        shown["flow"] = delta["flow"].clone();
    }
    let Some(index) = delta["nodes"]["index"].as_array() else { return };
    for (place, node) in index.iter().enumerate() {
        let node = usize::try_from(node.as_u64().unwrap()).unwrap();
        for (name, column) in delta["nodes"].as_object().unwrap().iter().filter(|(name, _)| *name != "index") {
            shown["nodes"][name][node] = column[place].clone();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_foreign_is_in_any_byte_of_a_stream() {
    let fixture = Fixture::new().await;
    let admin = fixture.token(None, "admin", &["*"]).await;
    fixture.tenants(Some(&admin), &["own", "foreign"]).await;
    let own = fixture.token(Some(&admin), "submitter", &["own"]).await;
    let foreign_flow = submit_flow(&fixture, &admin, "foreign", "foreign-flow").await;
    let job =
        |tenant: &str, name: &str| Ask::post("/jobs", &noop(&json!({ "tenant": tenant, "name": name }))).token(&admin);
    let foreign_job = fixture.ask(job("foreign", "foreign-job")).await.body()["id"].as_str().unwrap().to_owned();
    let topics = format!("overview,flows,jobs,workers,approvals,flow:{foreign_flow},job:{foreign_job}");
    let mut stream = Stream::open(&fixture, live(&topics).token(&own)).await;
    for topic in [format!("flow:{foreign_flow}"), format!("job:{foreign_job}")] {
        let refused = stream.about("refused", &topic).await;
        assert_eq!(refused.data["problem"]["status"], 404, "{:?}", refused.data);
    }
    fixture.ask(job("foreign", "foreign-later")).await;
    submit_flow(&fixture, &admin, "foreign", "foreign-flow-2").await;
    submit_flow(&fixture, &own, "own", "own-flow").await;
    fixture.ask(job("own", "own-job")).await;
    let (mut seen, mut text) = ((false, false), String::new());
    while seen != (true, true) {
        let event = stream.next().await.unwrap();
        seen.0 |= event.data["topic"] == "flows" && event.data["data"]["rows"][0]["name"] == "own-flow";
        seen.1 |= event.data["topic"] == "jobs" && event.data["data"]["rows"][0]["name"] == "own-job";
        text.push_str(&event.data.to_string());
    }
    assert!(!text.contains("foreign"), "{text}");
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_are_changed_without_a_new_stream_by_the_same_caller_alone() {
    let fixture = Fixture::new().await;
    let admin = fixture.token(None, "admin", &["*"]).await;
    let other = fixture.token(Some(&admin), "admin", &["*"]).await;
    let mut stream = Stream::open(&fixture, live("").token(&admin)).await;
    let id = stream.next().await.unwrap().data["stream"].as_str().unwrap().to_owned();
    let change =
        |topics: Value, token: &str| Ask::post(&format!("/live/{id}"), &json!({ "topics": topics })).token(token);
    assert_eq!(fixture.ask(change(json!(["workers"]), &other)).await.status, 404);
    assert_eq!(fixture.ask(change(json!(["nothing"]), &admin)).await.status, 400);
    assert_eq!(fixture.ask(change(json!(["workers"]), &admin)).await.status, 204);
    stream.about("snapshot", "workers").await;
    drop(stream);
    let gone = async {
        while fixture.ask(change(json!([]), &admin)).await.status != 404 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, gone).await.expect("a stream that was left is not there any more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_was_cut_goes_on_with_exactly_what_was_missed() {
    let fixture = Fixture::new().await;
    let mut stream = Stream::open(&fixture, live("jobs")).await;
    stream.about("snapshot", "jobs").await;
    fixture.submit(&json!({ "name": "seen" })).await;
    let last = stream.about("delta", "jobs").await.id;
    drop(stream);
    fixture.submit(&json!({ "name": "missed" })).await;
    let mut again = Stream::open(&fixture, live("jobs").with("last-event-id", &last)).await;
    assert_eq!(again.next().await.unwrap().kind, "hello");
    let missed = again.next().await.unwrap();
    assert_eq!((missed.kind.as_str(), &missed.data["data"]["rows"][0]["name"]), ("delta", &json!("missed")));
    let mut other = Stream::open(&fixture, live("jobs").with("last-event-id", "another-7")).await;
    assert_eq!(other.next().await.unwrap().kind, "hello");
    let resync = other.next().await.unwrap();
    assert_eq!((resync.kind.as_str(), &resync.data["why"]), ("resync", &json!("epoch")));
    assert_eq!(other.next().await.unwrap().kind, "snapshot");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_says_goodbye_when_the_server_ends_and_when_its_token_is_revoked() {
    let fixture = Fixture::new().await;
    let admin = fixture.token(None, "admin", &["*"]).await;
    let brief = fixture.token(Some(&admin), "viewer", &["*"]).await;
    let mut of_brief = Stream::open(&fixture, live("jobs").token(&brief)).await;
    let mut of_admin = Stream::open(&fixture, live("jobs").token(&admin)).await;
    of_brief.about("snapshot", "jobs").await;
    let id = brief.split('_').nth(1).unwrap();
    assert_eq!(fixture.ask(Ask::new("DELETE", &format!("/tokens/{id}")).token(&admin)).await.status, 204);
    let last = of_brief.next().await.unwrap();
    assert_eq!((last.kind.as_str(), &last.data["reason"]), ("bye", &json!("signed-out")));
    assert!(of_brief.next().await.is_none());
    of_admin.about("snapshot", "jobs").await;
    fixture.end_streams();
    let last = of_admin.next().await.unwrap();
    assert_eq!((last.kind.as_str(), &last.data["reason"]), ("bye", &json!("stopping")));
    assert!(of_admin.next().await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_store_is_silent_a_stream_ends_and_asks_to_come_again() {
    let store = MemoryFleet::new();
    let fixture = Fixture::on(store.clone()).await;
    store.silence(true);
    let flow = format!("flow:{}", "0".repeat(8));
    let mut stream = Stream::open(&fixture, live(&flow)).await;
    assert_eq!(stream.next().await.unwrap().kind, "hello");
    let bye = stream.next().await.unwrap();
    assert_eq!((bye.kind.as_str(), &bye.data["reason"]), ("bye", &json!("unavailable")));
    assert!(bye.data["retry_ms"].as_u64().unwrap() > 0 && stream.next().await.is_none());
    store.silence(false);
    Stream::open(&fixture, live(&flow)).await.about("refused", &flow).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_foreign_is_not_resumed_either() {
    let fixture = Fixture::new().await;
    let admin = fixture.token(None, "admin", &["*"]).await;
    fixture.tenants(Some(&admin), &["own", "foreign"]).await;
    let own = fixture.token(Some(&admin), "submitter", &["own"]).await;
    let flow = submit_flow(&fixture, &admin, "foreign", "foreign-flow").await;
    let job = Ask::post("/jobs", &noop(&json!({ "tenant": "foreign", "name": "foreign-job" }))).token(&admin);
    let job = fixture.ask(job).await.body()["id"].as_str().unwrap().to_owned();
    let topics = [format!("flow:{flow}"), format!("job:{job}")];
    let mut watched = Stream::open(&fixture, live(&topics.join(",")).token(&admin)).await;
    for topic in &topics {
        watched.about("snapshot", topic).await;
    }
    let mut hello = Stream::open(&fixture, live("").token(&own)).await;
    let hello = hello.next().await.unwrap().data;
    let last = format!("{}-{}", hello["epoch"].as_str().unwrap(), hello["seq"]);
    for topic in &topics {
        let mut stream = Stream::open(&fixture, live(topic).token(&own).with("last-event-id", &last)).await;
        let refused = stream.about("refused", topic).await;
        assert_eq!(refused.data["problem"]["status"], 404, "{:?}", refused.data);
        assert!(stream.held.iter().all(|event| event.kind == "hello" || event.kind == "resync"), "{:?}", stream.held);
    }
    fixture.end().await;
}
