//! Jobs over HTTP: submit, list, wait, cancel, errors, idempotency.

use serde_json::{Value, json};

use super::fixture::{Ask, Fixture, noop};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_submitted_listed_shown_and_cancelled() {
    let fixture = Fixture::new().await;
    let spec = noop(&json!({ "name": "hello", "labels": { "x": "1" }, "priority": 2 }));
    let made = fixture.ask(Ask::post("/jobs", &spec)).await;
    let id = made.body()["id"].as_str().unwrap().to_owned();
    assert_eq!((made.status, made.header("location")), (202, format!("/api/v1/jobs/{id}").as_str()));
    let job = fixture.get(&format!("/jobs/{id}")).await;
    assert_eq!((&job["state"], &job["name"], &job["tenant"]), (&json!("Queued"), &json!("hello"), &json!("default")));
    assert_eq!(job["spec"]["runtime"], "noop");
    assert_eq!(job["correlation_id"].as_str(), Some(made.header("x-request-id")));
    for (query, count) in [
        ("", 1),
        ("?state=Queued", 1),
        ("?state=QUEUED,failed&order=Oldest", 1),
        ("?state=Failed,Completed", 0),
        ("?label=x=1", 1),
        ("?label=x=2", 0),
    ] {
        assert_eq!(fixture.get(&format!("/jobs{query}")).await["items"].as_array().unwrap().len(), count, "{query}");
    }
    let early = fixture.get(&format!("/jobs/{id}?wait=10ms")).await;
    assert_eq!(early["state"], "Queued", "time that is up is no error");
    let cancelled = fixture.ask(Ask::new("POST", &format!("/jobs/{id}/cancel"))).await;
    assert_eq!((cancelled.status, &cancelled.body()["cancelled"]), (202, &json!(1)));
    assert_eq!(fixture.get(&format!("/jobs/{id}?wait=20s")).await["state"], "Cancelled");
    assert_eq!(fixture.ask(Ask::new("POST", &format!("/jobs/{id}/cancel"))).await.status, 200, "it had ended");
    assert_eq!(fixture.get(&format!("/jobs/{id}/attempts")).await["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arrays_tell_how_far_they_are_and_elements_are_named_by_their_indices() {
    let fixture = Fixture::new().await;
    let array = noop(&json!({ "array": { "indices": "0-9" } }));
    let id = fixture.ask(Ask::post("/jobs", &array)).await.body()["id"].as_str().unwrap().to_owned();
    let named = noop(&json!({ "runtime": "process", "command": ["/usr/bin/env", "x"] }));
    let single = fixture.ask(Ask::post("/jobs", &named)).await.body()["id"].as_str().unwrap().to_owned();
    assert_eq!(fixture.get("/jobs").await["items"][1].get("elements"), None, "what costs a look is asked for");
    let list = fixture.get("/jobs?details").await;
    assert_eq!(
        (&list["items"][0]["program"], &list["items"][1]["elements"]["waiting"]),
        (&json!("/usr/bin/env"), &json!(10))
    );
    let order = |elements: &str| json!({ "elements": elements });
    let ask = async |verb: &str, elements: &str| {
        fixture.ask(Ask::post(&format!("/jobs/{id}/{verb}"), &order(elements))).await.status
    };
    assert_eq!((ask("cancel", "2-4").await, ask("cancel", "2,3").await, ask("cancel", "9-10").await), (202, 200, 404));
    assert_eq!((ask("retry", "1").await, ask("retry", "x").await, ask("retry", "3").await), (409, 400, 202));
    let counts = fixture.get(&format!("/jobs/{id}")).await["elements"].clone();
    assert_eq!((&counts["waiting"], &counts["cancelled"]), (&json!(7), &json!(3)));
    let some = fixture.get(&format!("/jobs/{id}/elements?index=4-5")).await;
    let states: Vec<_> = some["items"].as_array().unwrap().iter().map(|item| item["state"].clone()).collect();
    assert_eq!(states, ["Cancelled", "Queued"]);
    assert_eq!(fixture.get(&format!("/jobs/{id}/explain?index=4")).await["state"], "Cancelled");
    assert_eq!(fixture.get(&format!("/jobs/{id}/explain?index=5")).await["state"], "Queued");
    fixture.ask(Ask::new("POST", &format!("/jobs/{id}/cancel"))).await;
    for _ in 0..2 {
        let ended = fixture.get(&format!("/jobs/{id}?wait=20s")).await;
        assert_eq!((&ended["state"], &ended["elements"]["cancelled"]), (&json!("Cancelled"), &json!(10)));
    }
    for path in ["elements?index=0", "explain?index=0", "logs?index=0-"] {
        assert_eq!(fixture.ask(Ask::get(&format!("/jobs/{single}/{path}"))).await.status, 400, "{path}");
    }
    assert_eq!(fixture.ask(Ask::get(&format!("/jobs/{single}/logs?index=0-1"))).await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_taken_all_or_none() {
    let fixture = Fixture::new().await;
    let made = fixture.ask(Ask::post("/jobs", &json!({ "jobs": [noop(&json!({})), noop(&json!({}))] }))).await;
    assert_eq!((made.status, made.body()["ids"].as_array().unwrap().len()), (202, 2));
    assert_eq!(made.body().get("id"), None);
    let bad = noop(&json!({ "priority": 77, "comand": ["x"] }));
    let refused = fixture.ask(Ask::post("/jobs", &json!({ "jobs": [noop(&json!({})), bad] }))).await;
    assert_eq!(refused.status, 400);
    let paths: Vec<_> = refused.body()["errors"].as_array().unwrap().iter().map(|e| e["path"].clone()).collect();
    assert_eq!(paths, [json!("jobs[1].comand"), json!("jobs[1].priority")]);
    assert_eq!(fixture.get("/jobs").await["items"].as_array().unwrap().len(), 2, "nothing of it is stored");
    for body in
        [json!({ "jobs": [] }), json!({ "jobs": 1 }), json!({ "jobs": [], "name": "x" }), json!([]), json!(null)]
    {
        assert_eq!(fixture.ask(Ask::post("/jobs", &body)).await.status, 400, "{body}");
    }
    let many: Vec<Value> = (0..10_001).map(|_| json!({})).collect();
    assert_eq!(fixture.ask(Ask::post("/jobs", &json!({ "jobs": many }))).await.status, 413);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_come_in_pages() {
    let fixture = Fixture::new().await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(fixture.submit(&json!({})).await);
    }
    let (mut seen, mut path) = (Vec::new(), "/jobs?limit=2&order=oldest".to_owned());
    loop {
        let page = fixture.get(&path).await;
        seen.extend(page["items"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/jobs?limit=2&order=oldest&cursor={cursor}");
    }
    assert_eq!(seen, ids);
    for query in
        ["limit=0", "limit=1001", "cursor=zz", "cursor=00", "order=x", "unknown=1", "state=X", "label=x", "since=x"]
    {
        assert_eq!(fixture.ask(Ask::get(&format!("/jobs?{query}"))).await.status, 400, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arrays_show_their_elements_and_cancel_them_in_part() {
    let fixture = Fixture::new().await;
    let id = fixture.submit(&json!({ "array": { "count": 5 } })).await;
    let elements = fixture.get(&format!("/jobs/{id}/elements?limit=3")).await;
    assert_eq!(elements["items"].as_array().unwrap().len(), 3);
    assert_eq!(elements["items"][0]["state"], "Queued");
    let part = Ask::post(&format!("/jobs/{id}/cancel"), &json!({ "elements": "0-1" }));
    assert_eq!(fixture.ask(part).await.status, 202);
    let rest = fixture.get(&format!("/jobs/{id}/elements?state=Cancelled")).await;
    assert_eq!(rest["items"].as_array().unwrap().len(), 2);
    let bad = Ask::post(&format!("/jobs/{id}/cancel"), &json!({ "elements": "x" }));
    assert_eq!(fixture.ask(bad).await.status, 400);
    let single = fixture.submit(&json!({})).await;
    let bad = Ask::post(&format!("/jobs/{single}/cancel"), &json!({ "elements": "0" }));
    assert_eq!(fixture.ask(bad).await.status, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_cancels_what_it_names_and_nothing_by_accident() {
    let fixture = Fixture::new().await;
    for label in ["1", "1", "2"] {
        fixture.submit(&json!({ "labels": { "x": label } })).await;
    }
    assert_eq!(fixture.ask(Ask::post("/jobs/cancel", &json!({}))).await.status, 400);
    let some = fixture.ask(Ask::post("/jobs/cancel", &json!({ "label": { "x": "1" } }))).await;
    assert_eq!((some.status, &some.body()["cancelled"]), (202, &json!(2)));
    let none = fixture.ask(Ask::post("/jobs/cancel", &json!({ "state": ["Completed"] }))).await;
    assert_eq!(none.body()["cancelled"], 0);
    assert_eq!(fixture.ask(Ask::post("/jobs/cancel", &json!({ "all": true }))).await.body()["cancelled"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_makes_a_submit_take_effect_once() {
    let fixture = Fixture::new().await;
    let ask = |name: &str| Ask::post("/jobs", &noop(&json!({ "name": name }))).with("idempotency-key", "k1");
    let first = fixture.ask(ask("a")).await;
    let again = fixture.ask(ask("a")).await;
    assert_eq!((first.header("idempotent-replay"), again.header("idempotent-replay")), ("", "true"));
    assert_eq!(first.body(), again.body());
    let other = fixture.ask(ask("b")).await;
    assert_eq!((other.status, &other.body()["type"]), (422, &json!("urn:orlop:error:idempotency-mismatch")));
    assert_eq!(fixture.get("/jobs").await["items"].as_array().unwrap().len(), 1);
    let long = "k".repeat(129);
    assert_eq!(fixture.ask(Ask::post("/jobs", &noop(&json!({}))).with("idempotency-key", &long)).await.status, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_posts_under_a_key_are_answered_again() {
    let fixture = Fixture::new().await;
    let tenant = |name: &str| Ask::post("/tenants", &json!({ "name": name })).with("idempotency-key", "k");
    let first = fixture.ask(tenant("a")).await;
    let again = fixture.ask(tenant("a")).await;
    assert_eq!((first.status, again.status, first.body()), (201, 201, again.body()));
    assert_eq!((again.header("idempotent-replay"), again.header("location")), ("true", "/api/v1/tenants/a"));
    assert_eq!(fixture.ask(tenant("b")).await.status, 422);
    let token = || Ask::post("/tokens", &json!({ "role": "admin", "tenants": ["*"] })).with("idempotency-key", "t");
    let made = fixture.ask(token()).await;
    let secret = made.body()["token"].as_str().unwrap().to_owned();
    assert_eq!(fixture.ask(token().token(&secret)).await.status, 201, "another caller has keys of its own");
    assert_eq!(fixture.ask(token().token(&secret)).await.status, 409, "a secret is shown once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_have_a_type_and_a_size() {
    let fixture = Fixture::new().await;
    let plain = Ask::new("POST", "/jobs").raw(b"{}".to_vec()).with("content-type", "text/plain");
    assert_eq!(fixture.ask(plain).await.status, 415);
    assert_eq!(fixture.ask(Ask::new("POST", "/jobs").raw(b"{}".to_vec())).await.status, 415);
    let broken = Ask::new("POST", "/jobs").raw(b"{".to_vec()).with("content-type", "application/json; charset=utf-8");
    assert_eq!(fixture.ask(broken).await.status, 400);
    let large = || vec![b' '; (1 << 20) + 1];
    let ask = |path| Ask::new("POST", path).raw(large()).with("content-type", "application/json");
    assert_eq!(fixture.ask(ask("/tenants")).await.status, 413);
    assert_eq!(fixture.ask(ask("/jobs")).await.status, 400, "batches may be larger");
    let get = Ask::get("/jobs").raw(b"{}".to_vec());
    assert_eq!(fixture.ask(get).await.status, 413, "it takes none");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_job_is_explained_and_an_ended_one_is_tried_again() {
    let fixture = Fixture::new().await;
    let id = fixture.submit(&json!({ "name": "again" })).await;
    let why = fixture.get(&format!("/jobs/{id}/explain")).await;
    assert_eq!((&why["state"], &why["workers"]), (&json!("Queued"), &json!([])));
    assert!(why["summary"].as_str().unwrap().starts_with("Queued"), "{why}");
    let retry = || Ask::new("POST", &format!("/jobs/{id}/retry")).with("idempotency-key", "r");
    assert_eq!(fixture.ask(retry()).await.status, 409, "it is live");
    fixture.ask(Ask::new("POST", &format!("/jobs/{id}/cancel"))).await;
    fixture.get(&format!("/jobs/{id}?wait=20s")).await;
    let again = fixture.ask(retry()).await;
    let new = again.body()["id"].as_str().unwrap().to_owned();
    assert_eq!((again.status, fixture.ask(retry()).await.body()["id"].as_str()), (202, Some(new.as_str())));
    let job = fixture.get(&format!("/jobs/{new}")).await;
    assert_eq!((&job["retry_of"], &job["name"]), (&json!(id), &json!("again")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_streamed_until_the_server_ends() {
    use http_body_util::BodyExt as _;
    let fixture = Fixture::new().await;
    assert_eq!(fixture.ask(Ask::get("/events?type=a%20b")).await.status, 400);
    let mut stream = fixture.stream(Ask::get("/events?type=job.*")).await;
    let mut text = String::new();
    let mut id = String::new();
    while !text.contains("event: job.cancelled") {
        let frame = tokio::time::timeout(std::time::Duration::from_secs(60), stream.frame()).await;
        let frame = frame.expect("events come").expect("the stream goes on").unwrap();
        text.push_str(&String::from_utf8_lossy(&frame.into_data().unwrap()));
        if id.is_empty() {
            id = fixture.submit(&json!({})).await;
            fixture.ask(Ask::new("POST", &format!("/jobs/{id}/cancel"))).await;
        }
    }
    assert!(text.contains("event: job.created") && text.contains(&id), "{text}");
    fixture.end_streams();
    let rest = tokio::time::timeout(std::time::Duration::from_secs(60), stream.collect()).await;
    assert!(rest.is_ok(), "the stream ends with the server");
}
