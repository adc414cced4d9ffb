//! Who may call what: every route with every role, tokens, tenants, browsers, rates.

use orlop_core::rate::Rate;
use orlop_core::testing::fleet_store::MemoryFleet;
use serde_json::json;

use super::fixture::{Ask, Fixture, noop};
use crate::api::Options;
use crate::api::auth::Role;
use crate::api::route::{Method, Needs};
use crate::api::table::ROUTES;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_is_refused_to_whom_it_is_not_for() {
    let fixture = Fixture::new().await;
    let admin = fixture.token(None, "admin", &["*"]).await;
    let mut tokens = vec![(Role::Admin, admin.clone())];
    for role in [Role::Viewer, Role::Submitter, Role::Operator] {
        tokens.push((role, fixture.token(Some(&admin), role.as_str(), &["*"]).await));
    }
    for route in ROUTES {
        let path = route.path.replace("{id}", "x").replace("{name}", "x").replace("{sha256}", "x");
        let ask = || {
            let ask = Ask::new(route.method.as_str(), &path);
            if route.body > 0 { ask.json(&json!({ "unknown_field": 1 })) } else { ask }
        };
        let without = fixture.ask(ask().token("")).await;
        let open = route.needs == Needs::Nothing;
        assert_eq!(
            without.status == 401,
            !open,
            "{} {path} without a token: {}",
            route.method.as_str(),
            without.status
        );
        for (role, token) in &tokens {
            // A stream has no end: one that is let in is not read.
            let answer = if route.media == "text/event-stream" {
                fixture.head(ask().token(token)).await
            } else {
                fixture.ask(ask().token(token)).await
            };
            let may = match route.needs {
                Needs::Nothing => true,
                Needs::Role(needed) => role.may(needed),
            };
            assert_eq!(answer.status == 403, !may, "{} {path} as {role:?}: {}", route.method.as_str(), answer.text);
            assert_ne!(answer.status, 401, "{path}");
        }
    }
}

/// As long as the store does not say what a token is good for, nobody passes with it, and nobody waits for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_store_is_silent_nobody_passes_and_nobody_waits_for_ever() {
    let store = MemoryFleet::new();
    let fixture = Fixture::on(store.clone()).await;
    let token = format!("orlop_{}_{}", "0".repeat(16), "0".repeat(52));
    let ask = || Ask::get("/stats").token(&token);
    assert_eq!(fixture.ask(ask()).await.status, 401);
    store.silence(true);
    let asked = [(); 3].map(|()| fixture.ask(ask()));
    let answers = futures::future::join_all(asked);
    let answers = tokio::time::timeout(std::time::Duration::from_secs(60), answers).await.expect("they are answered");
    for answer in answers {
        assert_eq!(
            (answer.status, &answer.body()["type"]),
            (503, &json!("urn:orlop:error:store-unavailable")),
            "{}",
            answer.text
        );
    }
    store.silence(false);
    assert_eq!(fixture.ask(ask()).await.status, 401, "it speaks again");
}

#[test]
fn writes_need_more_than_a_viewer() {
    for route in ROUTES {
        let needs = route.needs;
        let harmless = matches!(needs, Needs::Nothing | Needs::Role(Role::Viewer));
        let guarded = matches!(route.name, "tokens.list" | "secrets.list" | "join_tokens.list");
        // Who signs in or out changes nothing but that, and what is only looked at is not kept.
        let keeps_nothing =
            route.name.starts_with("session.") || ["live.topics", "flows.validate"].contains(&route.name);
        assert_eq!(harmless, keeps_nothing || route.method == Method::Get && !guarded, "{}", route.name);
        assert!(!route.name.is_empty() && !route.summary.is_empty());
    }
    let mut names: Vec<_> = ROUTES.iter().map(|route| route.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ROUTES.len(), "names are unique");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_in_the_table_is_not_there() {
    let fixture = Fixture::new().await;
    for ask in [Ask::get("/nothing"), Ask::get("/other").at_root(), Ask::get("/health").at_root()] {
        let answer = fixture.ask(ask).await;
        assert_eq!((answer.status, answer.header("content-type")), (404, "application/problem+json"));
        assert_eq!(answer.body()["type"], "urn:orlop:error:not-found");
    }
    for method in ["PUT", "TRACE"] {
        let answer = fixture.ask(Ask::new(method, "/jobs")).await;
        assert_eq!((answer.status, answer.header("content-type")), (405, "application/problem+json"));
        let allowed = answer.header("allow");
        assert!(["GET", "POST"].iter().all(|method| allowed.contains(method)), "{allowed}");
    }
    assert_eq!(fixture.ask(Ask::get("/metrics").at_root()).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_is_not_read_as_the_fields_of_an_object() {
    let fixture = Fixture::new().await;
    for (method, path) in [("POST", "/join-tokens"), ("POST", "/tokens"), ("POST", "/jobs"), ("POST", "/tenants")] {
        let answer = fixture.ask(Ask::new(method, path).json(&json!([]))).await;
        assert_eq!(answer.status, 400, "{path}: {}", answer.body());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_are_shown_once_and_revoked_at_once() {
    let fixture = Fixture::new().await;
    let admin = fixture.token(None, "admin", &["*"]).await;
    let viewer = fixture.token(Some(&admin), "viewer", &["a"]).await;
    assert_eq!(fixture.ask(Ask::get("/stats").token(&viewer)).await.status, 200);
    let list = fixture.ask(Ask::get("/tokens").token(&admin)).await;
    let secret = viewer.rsplit_once('_').unwrap().1;
    assert!(!list.text.contains(secret) && !list.text.contains("hash"), "{}", list.text);
    let id = viewer.split('_').nth(1).unwrap();
    let revoked = fixture.ask(Ask::new("DELETE", &format!("/tokens/{id}")).token(&admin)).await;
    assert_eq!(revoked.status, 204);
    let after = fixture.ask(Ask::get("/stats").token(&viewer)).await;
    assert_eq!((after.status, after.header("www-authenticate")), (401, "Bearer"));
    let wrong = format!("{}{}", &admin[..admin.len() - 1], if admin.ends_with('0') { '1' } else { '0' });
    assert_eq!(fixture.ask(Ask::get("/stats").token(&wrong)).await.status, 401);
    assert_eq!(fixture.ask(Ask::get("/stats").with("authorization", "Basic x")).await.status, 401);
    let brief = json!({ "role": "viewer", "tenants": ["a"], "expires_in": "1ns" });
    let brief =
        fixture.ask(Ask::post("/tokens", &brief).token(&admin)).await.body()["token"].as_str().unwrap().to_owned();
    tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    assert_eq!(fixture.ask(Ask::get("/stats").token(&brief)).await.status, 401, "it has expired");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_of_others_are_as_if_they_were_not_there() {
    let fixture = Fixture::new().await;
    let admin = fixture.token(None, "admin", &["*"]).await;
    let a = fixture.token(Some(&admin), "submitter", &["a"]).await;
    let b = fixture.token(Some(&admin), "submitter", &["b"]).await;
    let both = fixture.token(Some(&admin), "submitter", &["a", "b"]).await;
    fixture.tenants(Some(&admin), &["a", "b"]).await;
    let made = fixture.ask(Ask::post("/jobs", &noop(&json!({}))).token(&a)).await;
    let id = made.body()["id"].as_str().unwrap().to_owned();
    assert_eq!(fixture.ask(Ask::get(&format!("/jobs/{id}")).token(&a)).await.body()["tenant"], "a");
    for path in [format!("/jobs/{id}"), format!("/jobs/{id}/attempts"), "/tenants/a".into(), "/tenants/a/usage".into()]
    {
        assert_eq!(fixture.ask(Ask::get(&path).token(&b)).await.status, 404, "{path}");
    }
    assert_eq!(fixture.ask(Ask::new("POST", &format!("/jobs/{id}/cancel")).token(&b)).await.status, 404);
    assert_eq!(fixture.ask(Ask::get("/jobs").token(&b)).await.body()["items"], json!([]));
    assert_eq!(fixture.ask(Ask::get("/jobs?tenant=a").token(&b)).await.body()["items"], json!([]));
    let all = Ask::post("/jobs/cancel", &json!({ "all": true })).token(&b);
    assert_eq!(fixture.ask(all).await.body()["cancelled"], 0);
    let foreign = Ask::post("/jobs", &noop(&json!({ "tenant": "a" }))).token(&b);
    assert_eq!(fixture.ask(foreign).await.status, 403);
    let which = fixture.ask(Ask::post("/jobs", &noop(&json!({}))).token(&both)).await;
    assert_eq!((which.status, &which.body()["errors"][0]["path"]), (400, &json!("tenant")));
    let urgent = Ask::post("/jobs", &noop(&json!({ "urgent": true }))).token(&a);
    assert_eq!(fixture.ask(urgent).await.status, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_from_elsewhere_and_floods_are_held_off() {
    let slow = Rate { per_second: 1, burst: 3 };
    let fixture = Fixture::with(|options| Options { rate: slow, address_rate: slow, ..options }).await;
    assert_eq!(fixture.ask(Ask::get("/stats").with("host", "evil.example")).await.status, 403);
    assert_eq!(fixture.ask(Ask::get("/stats").with("origin", "http://evil.example")).await.status, 403);
    let admin = fixture.token(None, "admin", &["*"]).await;
    let mut codes = Vec::new();
    for _ in 0..5 {
        codes.push(fixture.ask(Ask::get("/stats").token(&admin)).await.status);
    }
    assert_eq!(codes, [200, 200, 200, 429, 429]);
    let refused = fixture.ask(Ask::get("/stats").token(&admin)).await;
    assert_eq!((refused.header("retry-after"), &refused.body()["type"]), ("1", &json!("urn:orlop:error:rate-limited")));
    let mut strangers = Vec::new();
    for _ in 0..4 {
        strangers.push(fixture.ask(Ask::get("/stats").token("")).await.status);
    }
    assert_eq!(strangers, [401, 401, 401, 429]);
    assert_eq!(fixture.ask(Ask::get("/health/live")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_and_refusals_are_in_the_audit_trail() {
    use orlop_core::ports::fleet_store::{AuditFilter, Page};
    let fixture = Fixture::new().await;
    fixture.submit(&json!({})).await;
    fixture.ask(Ask::post("/jobs", &json!({ "comand": [] })).with("x-request-id", "r-7")).await;
    let store = fixture.server().handle().store().clone();
    let began = std::time::Instant::now();
    let entries = loop {
        let found = store.audit(&AuditFilter::default(), &Page::first(10)).await.unwrap().items;
        if found.len() >= 2 {
            break found;
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "the trail is written");
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    };
    let row = |at: usize| (entries[at].actor.as_str(), &*entries[at].action, &*entries[at].outcome);
    assert_eq!((row(0), row(1)), (("local", "jobs.submit", "ok"), ("local", "jobs.submit", "invalid-spec")));
    assert_eq!(entries[1].request_id.as_deref(), Some("r-7"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_trail_names_who_calls_too_fast_once() {
    use orlop_core::ports::fleet_store::{AuditFilter, Page};
    let fixture = Fixture::with(|options| Options { rate: Rate { per_second: 1, burst: 3 }, ..options }).await;
    let admin = fixture.token(None, "admin", &["*"]).await;
    for _ in 0..20 {
        fixture.ask(Ask::get("/stats").token(&admin)).await;
    }
    let store = fixture.server().handle().store().clone();
    let began = std::time::Instant::now();
    let hasty = loop {
        let found = store.audit(&AuditFilter::default(), &Page::first(50)).await.unwrap().items;
        let hasty: Vec<_> = found.into_iter().filter(|entry| &*entry.outcome == "rate-limited").collect();
        if !hasty.is_empty() {
            break hasty;
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "the trail is written");
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    };
    let id = admin.split('_').nth(1).unwrap();
    assert!(hasty.len() == 1 && hasty[0].actor.contains(id), "{hasty:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_trail_names_the_tenant_a_request_was_about() {
    use orlop_core::ports::fleet_store::{AuditEntry, AuditFilter, Page};
    let fixture = Fixture::new().await;
    let admin = fixture.token(None, "admin", &["*"]).await;
    let theirs = fixture.token(Some(&admin), "submitter", &["chemistry"]).await;
    let mut expected = vec![("tokens.create", None, "ok"), ("tokens.create", None, "ok")];
    fixture.tenants(Some(&admin), &["physics"]).await;
    expected.push(("tenants.create", Some("physics"), "ok"));
    let job = fixture.ask(Ask::post("/jobs", &noop(&json!({ "tenant": "physics" }))).token(&admin)).await.body();
    let job = job["id"].as_str().unwrap().to_owned();
    expected.push(("jobs.submit", Some("physics"), "ok"));
    let cancel = || Ask::new("POST", &format!("/jobs/{job}/cancel"));
    assert_eq!(fixture.ask(cancel().token(&theirs)).await.status, 404);
    expected.push(("jobs.cancel", Some("physics"), "not-found"));
    assert_eq!(fixture.ask(cancel().token(&admin)).await.status, 202);
    expected.push(("jobs.cancel", Some("physics"), "ok"));
    assert_eq!(fixture.ask(Ask::post("/tenants", &json!({ "name": "biology" })).token(&admin)).await.status, 201);
    expected.push(("tenants.create", Some("biology"), "ok"));
    assert_eq!(fixture.ask(Ask::new("PUT", "/tenants/biology/quota").json(&json!({})).token(&admin)).await.status, 200);
    expected.push(("tenants.set_quota", Some("biology"), "ok"));
    assert_eq!(fixture.ask(Ask::post("/workers/w1/cordon", &json!({})).token(&theirs)).await.status, 403);
    // The caller's only tenant, for who was refused is known.
    expected.push(("workers.cordon", Some("chemistry"), "forbidden"));
    for _ in 0..2 {
        let key = Ask::post("/tenants", &json!({ "name": "botany" })).with("idempotency-key", "k1");
        assert_eq!(fixture.ask(key.token(&admin)).await.status, 201);
        expected.push(("tenants.create", Some("botany"), "ok"));
    }
    for _ in 0..3 {
        assert_eq!(fixture.ask(Ask::get("/jobs").token("")).await.status, 401);
    }
    expected.push(("jobs.list", None, "unauthenticated"));
    let store = fixture.server().handle().store().clone();
    let began = std::time::Instant::now();
    let entries = loop {
        let found = store.audit(&AuditFilter::default(), &Page::first(50)).await.unwrap().items;
        if found.len() >= expected.len() {
            break found;
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "the trail is written");
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    };
    let line = |entry: &AuditEntry| {
        (entry.action.to_string(), entry.tenant.as_ref().map(ToString::to_string), entry.outcome.to_string())
    };
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(action, tenant, outcome)| (action.to_owned(), tenant.map(str::to_owned), outcome.to_owned()))
        .collect();
    assert_eq!(entries.iter().map(line).collect::<Vec<_>>(), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_from_elsewhere_read_answers_only_where_they_are_listed() {
    let from = |origin: &str| Ask::get("/version").with("origin", origin);
    let console = "https://console.example";
    let fixture = Fixture::new().await;
    assert_eq!(fixture.ask(from(console)).await.status, 403, "off unless listed");
    let fixture = Fixture::with(|options| Options { origins: vec![console.to_owned()], ..options }).await;
    let answer = fixture.ask(from(console)).await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, console));
    assert!(answer.header("access-control-expose-headers").contains("etag"));
    let other = fixture.ask(from("https://other.example")).await;
    assert_eq!((other.status, other.header("access-control-allow-origin")), (403, ""));
    let before = fixture.ask(Ask::new("OPTIONS", "/jobs").with("origin", console)).await;
    assert_eq!((before.status, before.header("access-control-allow-origin")), (204, console));
    assert!(before.header("access-control-allow-headers").contains("authorization"));
    assert!(before.header("access-control-allow-methods").contains("DELETE"));
    assert_eq!(fixture.ask(Ask::new("OPTIONS", "/jobs").with("origin", "https://other.example")).await.status, 405);
    assert_eq!(answer.header("access-control-allow-credentials"), "", "there are no cookies");
}

/// What ends a right, and how long a stream has for it.
async fn ends_with(fixture: &Fixture, token: &str, end: impl AsyncFnOnce()) {
    use http_body_util::BodyExt as _;
    let mut body = fixture.stream(Ask::get("/events").token(token)).await;
    let first = body.frame().await.expect("a stream").expect("its beginning");
    assert!(first.into_data().is_ok_and(|data| data.starts_with(b": events")));
    end().await;
    let began = std::time::Instant::now();
    let last = tokio::time::timeout(std::time::Duration::from_secs(60), async {
        loop {
            match body.frame().await {
                Some(Ok(_)) => {}
                other => return other.map(|frame| frame.map(drop)),
            }
        }
    });
    let last = last.await.expect("the stream ends");
    assert!(last.is_some_and(|last| last.is_err()), "it breaks, so that whoever reads it asks again");
    assert!(began.elapsed() < std::time::Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_under_way_when_its_token_ends_is_refused() {
    let fixture = Fixture::new().await;
    let admin = fixture.token(None, "admin", &["*"]).await;
    let job = fixture.ask(Ask::post("/jobs", &noop(&json!({}))).token(&admin)).await.body()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let other = fixture.token(Some(&admin), "admin", &["*"]).await;
    let id = other.split('_').nth(1).unwrap().to_owned();
    // A body that comes while its token is revoked, and an answer that is waited for.
    let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
    let body = json!({ "role": "admin", "tenants": ["*"] }).to_string();
    let (first, rest) = body.split_at(5);
    let (first, rest) = (first.to_owned(), rest.to_owned());
    let pieces = futures::StreamExt::chain(
        futures::stream::iter([Ok::<_, std::io::Error>(bytes::Bytes::from(first))]),
        futures::stream::once(async move {
            receiver.await.map(|()| bytes::Bytes::from(rest)).map_err(std::io::Error::other)
        }),
    );
    let slow = Ask::new("POST", "/tokens").with("content-type", "application/json").token(&other);
    let slow = fixture.ask_with(slow, axum::body::Body::from_stream(pieces));
    let waits = fixture.ask(Ask::get(&format!("/jobs/{job}?wait=1m")).token(&other));
    let revoke = async {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        assert_eq!(fixture.ask(Ask::new("DELETE", &format!("/tokens/{id}")).token(&admin)).await.status, 204);
        // Where the request was given up already, nobody reads the rest.
        let _late = sender.send(());
    };
    let all = tokio::time::timeout(std::time::Duration::from_secs(10), async { tokio::join!(slow, waits, revoke) });
    let (slow, waits, ()) = all.await.expect("they end");
    assert_eq!((slow.status, waits.status), (401, 401), "{} {}", slow.text, waits.text);
    assert_eq!(fixture.ask(Ask::get("/tokens").token(&admin)).await.body()["items"].as_array().map(Vec::len), Some(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_streams_end_with_the_token_behind_them() {
    let fixture = Fixture::new().await;
    let admin = fixture.token(None, "admin", &["*"]).await;
    let viewer = fixture.token(Some(&admin), "viewer", &["a"]).await;
    let id = viewer.split('_').nth(1).unwrap().to_owned();
    ends_with(&fixture, &viewer, async || {
        assert_eq!(fixture.ask(Ask::new("DELETE", &format!("/tokens/{id}")).token(&admin)).await.status, 204);
    })
    .await;
    let brief = json!({ "role": "viewer", "tenants": ["a"], "expires_in": "500ms" });
    let brief =
        fixture.ask(Ask::post("/tokens", &brief).token(&admin)).await.body()["token"].as_str().unwrap().to_owned();
    ends_with(&fixture, &brief, async || tokio::time::sleep(std::time::Duration::from_millis(500)).await).await;
    // Tokens of others change nothing.
    let other = fixture.token(Some(&admin), "viewer", &["b"]).await;
    let body = fixture.stream(Ask::get("/events").token(&other)).await;
    fixture.token(Some(&admin), "viewer", &["c"]).await;
    let waits =
        tokio::time::timeout(std::time::Duration::from_millis(300), http_body_util::BodyExt::collect(body)).await;
    assert!(waits.is_err(), "it goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_token_takes_all_streams() {
    let fixture = Fixture::new().await;
    let greedy = fixture.token(None, "viewer", &["a"]).await;
    let other = fixture.token(None, "viewer", &["a"]).await;
    let mut open = Vec::new();
    for _ in 0..100 {
        open.push(fixture.stream(Ask::get("/events").token(&greedy)).await);
    }
    let more = fixture.ask(Ask::get("/events").token(&greedy)).await;
    assert_eq!((more.status, more.header("retry-after")), (429, "5"), "{}", more.text);
    open.push(fixture.stream(Ask::get("/events").token(&other)).await);
    drop(open.swap_remove(0));
    open.push(fixture.stream(Ask::get("/events").token(&greedy)).await);
}

/// An event that many streams send reaches each of them that may see it, in its order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_stream_has_the_events_that_it_may_see() {
    use http_body_util::BodyExt as _;
    let fixture = Fixture::new().await;
    let (a, b) = (fixture.token(None, "viewer", &["a"]).await, fixture.token(None, "viewer", &["b"]).await);
    let asks =
        [("/events", ""), ("/events", a.as_str()), ("/events", b.as_str()), ("/events?type=job.queued", a.as_str())];
    let mut bodies = Vec::new();
    for (path, token) in asks {
        let ask = Ask::get(path);
        bodies.push(fixture.stream(if token.is_empty() { ask } else { ask.token(token) }).await);
    }
    fixture.tenants(None, &["a", "b"]).await;
    for tenant in ["a", "b"] {
        fixture.submit(&json!({ "tenant": tenant })).await;
    }
    let wanted = [("\"b\"", "job.created"), ("\"a\"", "job.queued"), ("\"b\"", "job.queued"), ("\"a\"", "job.queued")];
    for (number, (mut body, (tenant, kind))) in bodies.into_iter().zip(wanted).enumerate() {
        let mut text = String::new();
        let line = format!("event: {kind}\n");
        while !text.split("\n\n").any(|event| event.contains(&line) && event.contains(tenant)) {
            let frame = tokio::time::timeout(std::time::Duration::from_secs(60), body.frame()).await.expect("it comes");
            text.push_str(std::str::from_utf8(&frame.unwrap().unwrap().into_data().unwrap()).unwrap());
        }
        assert_eq!(text.contains("\"tenant\":\"a\""), number != 2, "{number}: {text}");
        assert!(number == 0 || number == 2 || !text.contains("\"tenant\":\"b\""), "{number}: {text}");
        assert!(number != 3 || !text.contains("job.created"), "{text}");
    }
}
