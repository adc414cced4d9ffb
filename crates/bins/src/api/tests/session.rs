//! Browser sessions over HTTP: links, both halves, pages from elsewhere, and the end of a right.

use orlop_core::testing::fleet_store::MemoryFleet;
use serde_json::{Value, json};

use super::fixture::{Answer, Ask, Fixture};
use crate::api::Options;

/// A page of the server in a browser.
#[derive(Clone, Debug)]
struct Page {
    cookie: String,
    proof: String,
}

impl Page {
    fn of(answer: &Answer) -> Self {
        assert_eq!(answer.status, 201, "{}", answer.text);
        let cookie = answer.header("set-cookie").split(';').next().unwrap().to_owned();
        Self { cookie, proof: answer.body()["proof"].as_str().unwrap().to_owned() }
    }

    /// A request as its page sends it.
    fn ask(&self, ask: Ask) -> Ask {
        ask.token("")
            .with("cookie", &self.cookie)
            .with("orlop-proof", &self.proof)
            .with("origin", "http://localhost:7070")
            .with("sec-fetch-site", "same-origin")
    }
}

fn sign_in(body: &Value) -> Ask {
    Ask::post("/session", body).token("").with("origin", "http://localhost:7070").with("sec-fetch-site", "same-origin")
}

async fn link(fixture: &Fixture, by: Option<&str>, wanted: &Value) -> String {
    let ask = Ask::post("/session-links", wanted);
    let answer = fixture.ask(by.map_or(ask.clone(), |token| ask.token(token))).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.body()["url"].as_str().unwrap().to_owned()
}

fn key_of(url: &str) -> Value {
    json!({ "key": url.rsplit_once("#k=").unwrap().1 })
}

async fn page(fixture: &Fixture, by: Option<&str>) -> Page {
    let url = link(fixture, by, &json!({})).await;
    Page::of(&fixture.ask(sign_in(&key_of(&url))).await)
}

#[tokio::test]
async fn a_link_signs_a_browser_in_once_and_says_the_same_of_everything_that_does_not() {
    let fixture = Fixture::new().await;
    let url = link(&fixture, None, &json!({ "path": "flows/nightly" })).await;
    assert!(url.starts_with("http://localhost:7070/ui/flows/nightly#k="), "{url}");
    let first = fixture.ask(sign_in(&key_of(&url))).await;
    let cookie = first.header("set-cookie").to_owned();
    let rest = cookie.split_once("; ").unwrap().1;
    assert_eq!(rest, "Path=/; HttpOnly; SameSite=Strict");
    assert_eq!(first.body()["caller"], "local");
    assert_eq!(fixture.ask(Page::of(&first).ask(Ask::get("/stats"))).await.status, 200);
    let mut refusals = Vec::new();
    let token = json!({ "token": "orlop_aaaaaaaaaaaaaaab_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb" });
    for body in [key_of(&url), json!({ "key": "no such key" }), token, json!({ "token": "no token" })] {
        let answer = fixture.ask(sign_in(&body)).await;
        refusals.push((answer.status, answer.body()["detail"].clone(), answer.header("set-cookie").to_owned()));
    }
    refusals.dedup();
    insta::assert_debug_snapshot!(refusals, @r#"
    [
        (
            401,
            String("this link or token is not valid: it is wrong, was used, or has expired"),
            "",
        ),
    ]
    "#);
}

#[tokio::test]
async fn a_request_is_of_a_session_only_with_cookie_and_proof_and_from_the_page() {
    let fixture = Fixture::new().await;
    let page = page(&fixture, None).await;
    let bare = || Ask::get("/stats").token("");
    let status = async |ask: Ask| fixture.ask(ask).await.status;
    assert_eq!(status(bare().with("cookie", &page.cookie)).await, 401);
    assert_eq!(status(bare().with("orlop-proof", &page.proof)).await, 401);
    let both = || bare().with("cookie", &page.cookie).with("orlop-proof", &page.proof);
    assert_eq!(status(both()).await, 200);
    for site in ["cross-site", "same-site", "none"] {
        assert_eq!(status(both().with("sec-fetch-site", site)).await, 403, "{site}");
    }
    assert_eq!(status(both().with("origin", "http://localhost:8080")).await, 403);
    let write = || {
        let ask = Ask::post("/jobs", &json!({ "runtime": "noop" })).token("");
        ask.with("cookie", &page.cookie).with("orlop-proof", &page.proof)
    };
    assert_eq!(status(write()).await, 403, "a write must say its origin");
    assert_eq!(status(write().with("origin", "http://localhost:7070")).await, 202);
    let wrong = Page { proof: page.proof.chars().rev().collect(), ..page.clone() };
    assert_eq!(status(wrong.ask(Ask::get("/stats"))).await, 401);
    // A token beside them is what counts.
    let beside = both().with("authorization", "Bearer orlop_x");
    assert_eq!(status(beside).await, 401);
}

#[tokio::test]
async fn a_link_gives_no_more_than_its_maker_may_and_stays_below_the_page() {
    let fixture = Fixture::new().await;
    let admin = fixture.token(None, "admin", &["*"]).await;
    fixture.tenants(Some(&admin), &["physics"]).await;
    let operator = fixture.token(Some(&admin), "operator", &["physics"]).await;
    let up = fixture.ask(Ask::post("/session-links", &json!({ "role": "admin" })).token(&operator)).await;
    assert_eq!(up.status, 403, "{}", up.text);
    let url = link(&fixture, Some(&operator), &json!({ "role": "viewer" })).await;
    let begun = fixture.ask(sign_in(&key_of(&url))).await;
    assert_eq!((&begun.body()["role"], &begun.body()["tenants"]), (&json!("viewer"), &json!(["physics"])));
    let page = Page::of(&begun);
    assert_eq!(fixture.ask(page.ask(Ask::post("/jobs", &json!({ "runtime": "noop" })))).await.status, 403);
    for path in ["/flows", "//evil.example", "../api", "a/../../b", "javascript:x", "a#k=1", "a b", "a\"b"] {
        let answer = fixture.ask(Ask::post("/session-links", &json!({ "path": path }))).await;
        assert_eq!((answer.status, &answer.body()["errors"][0]["path"]), (400, &json!("path")), "{path}");
    }
}

#[tokio::test]
async fn a_session_ends_with_its_token_by_sign_out_and_not_with_the_server() {
    let store = MemoryFleet::new();
    let fixture = Fixture::on(store.clone()).await;
    let admin = fixture.token(None, "admin", &["*"]).await;
    let other = fixture.token(Some(&admin), "viewer", &["*"]).await;
    let (of_admin, of_other) = (page(&fixture, Some(&admin)).await, page(&fixture, Some(&other)).await);
    fixture.end().await;
    let fixture = Fixture::on(store).await;
    assert_eq!(fixture.ask(of_admin.ask(Ask::get("/stats"))).await.status, 200, "a restarted server knows it");
    assert_eq!(fixture.ask(of_other.ask(Ask::get("/stats"))).await.status, 200);
    let id = other.split('_').nth(1).unwrap();
    let revoked = fixture.ask(Ask::new("DELETE", &format!("/tokens/{id}")).token(&admin)).await;
    assert_eq!(revoked.status, 204, "{}", revoked.text);
    assert_eq!(fixture.ask(of_other.ask(Ask::get("/stats"))).await.status, 401);
    let ended = fixture.ask(of_admin.ask(Ask::new("DELETE", "/session"))).await;
    assert_eq!(ended.status, 204, "{}", ended.text);
    assert!(ended.header("set-cookie").contains("Max-Age=0"));
    assert_eq!(fixture.ask(of_admin.ask(Ask::get("/stats"))).await.status, 401);
}

#[tokio::test]
async fn failures_to_sign_in_are_limited_and_lock_nobody_out_who_has_a_link() {
    let fixture = Fixture::new().await;
    let mut seen = Vec::new();
    for _ in 0..12 {
        seen.push(fixture.ask(sign_in(&json!({ "key": "wrong" }))).await.status);
    }
    assert_eq!(seen, [[401; 10].as_slice(), &[429; 2]].concat());
    page(&fixture, None).await;
}

#[tokio::test]
async fn the_console_says_nothing_of_the_server_before_somebody_signs_in() {
    let fixture = Fixture::new().await;
    let before = fixture.ask(Ask::get("/console").token("")).await;
    assert_eq!(before.status, 200, "{}", before.text);
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!((keys(&before.body()["server"]), &before.body()["session"]), (vec!["time".to_owned()], &Value::Null));
    let page = page(&fixture, None).await;
    let after = fixture.ask(page.ask(Ask::get("/console"))).await.body();
    assert_eq!(keys(&after["server"]), ["epoch", "name", "time", "version"]);
    assert_eq!(after["session"]["role"], "admin");
}

#[tokio::test]
async fn without_a_console_there_are_no_sessions() {
    let fixture = Fixture::with(|options| Options { console: None, ..options }).await;
    assert_eq!(fixture.ask(Ask::get("/console").token("")).await.status, 404);
    assert_eq!(fixture.ask(sign_in(&json!({ "key": "x" }))).await.status, 404);
    assert_eq!(fixture.ask(Ask::post("/session-links", &json!({}))).await.status, 404);
}

#[tokio::test]
async fn the_audit_names_the_session_of_a_write_and_no_half_of_it() {
    let fixture = Fixture::new().await;
    let page = page(&fixture, None).await;
    assert_eq!(fixture.ask(page.ask(Ask::post("/jobs", &json!({ "runtime": "noop" })))).await.status, 202);
    let id = page.cookie.split('_').nth(3).unwrap();
    let text = fixture.audit(3).await.join("\n");
    assert_eq!(
        text.replace(id, "ID"),
        "local session.link /api/v1/session-links ok\n\
         local session.begin /api/v1/session session=ID ok\n\
         local jobs.submit /api/v1/jobs session=ID ok"
    );
    let secret = page.cookie.rsplit('_').next().unwrap();
    assert!(!text.contains(secret) && !text.contains(&page.proof), "{text}");
}

#[tokio::test]
async fn the_page_is_served_with_nothing_allowed_but_its_own_files() {
    let fixture = Fixture::new().await;
    let at = |path: &str| Ask::get(path).at_root().token("");
    let root = fixture.ask(at("/")).await;
    assert_eq!((root.status, root.header("location")), (303, "/ui/"));
    let document = fixture.ask(at("/ui/flows/etl.v2/graph")).await;
    assert_eq!((document.status, document.header("content-type")), (200, "text/html; charset=utf-8"));
    assert_eq!(document.header("cache-control"), "no-cache");
    assert!(document.header("content-security-policy").starts_with("default-src 'none'; script-src 'self'"));
    let again = fixture.ask(at("/ui/").with("if-none-match", document.header("etag"))).await;
    assert_eq!((again.status, again.text.as_str()), (304, ""));
    let packed = fixture.head(at("/ui/").with("accept-encoding", "br, gzip")).await;
    assert_eq!((packed.header("content-encoding"), packed.header("vary")), ("gzip", "accept-encoding"));
    assert_ne!(packed.header("etag"), document.header("etag"));
    let script = document.text.split("src=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().to_owned();
    let script = fixture.ask(at(&script)).await;
    assert_eq!((script.status, script.header("content-type")), (200, "text/javascript; charset=utf-8"));
    assert_eq!(script.header("cache-control"), "public, max-age=31536000, immutable");
    let unknown = fixture.ask(at("/ui/app-12345678.js")).await;
    assert_eq!((unknown.status, unknown.header("content-type")), (404, "text/plain; charset=utf-8"));
    assert!(unknown.header("content-security-policy").starts_with("default-src 'none'"));
    for path in ["/", "/ui/", "/ui/app-12345678.js"] {
        let rebound = fixture.ask(at(path).with("host", "evil.example:7070")).await;
        assert_eq!(rebound.status, 403, "{path} by a name that was made to resolve to this machine");
    }
}

#[tokio::test]
async fn long_answers_are_gzipped_for_who_takes_that_and_those_with_a_secret_never() {
    let fixture = Fixture::new().await;
    for _ in 0..20 {
        fixture.submit(&json!({})).await;
    }
    let plain = fixture.ask(Ask::get("/jobs")).await;
    assert_eq!((plain.header("content-encoding"), plain.text.len() > 1024), ("", true));
    let packed = fixture.head(Ask::get("/jobs").with("accept-encoding", "gzip")).await;
    assert_eq!(packed.header("content-encoding"), "gzip");
    assert_eq!(
        fixture.head(Ask::get("/jobs").with("accept-encoding", "gzip;q=0")).await.header("content-encoding"),
        ""
    );
    let names: Vec<String> = (0..400).map(|number| format!("tenant-{number}")).collect();
    let order = json!({ "role": "viewer", "tenants": names });
    let secret = fixture.head(Ask::post("/tokens", &order).with("accept-encoding", "gzip")).await;
    assert_eq!((secret.status, secret.header("content-encoding")), (201, ""));
}
