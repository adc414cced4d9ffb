//! Tenants, quotas and the fleet at a glance over HTTP.

use serde_json::json;

use super::fixture::{Ask, Fixture, noop};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_is_made_changed_and_closed() {
    let fixture = Fixture::new().await;
    let new = json!({ "name": "physics", "weight": 200, "quota": { "max_running_jobs": 5 } });
    let made = fixture.ask(Ask::post("/tenants", &new)).await;
    assert_eq!((made.status, made.header("location")), (201, "/api/v1/tenants/physics"));
    assert_eq!(fixture.ask(Ask::post("/tenants", &new)).await.status, 409);
    let shown = fixture.ask(Ask::get("/tenants/physics")).await;
    assert_eq!((&shown.body()["weight"], &shown.body()["quota"]), (&json!(200), &json!({ "max_running_jobs": 5 })));
    let patch =
        |etag: &str| Ask::new("PATCH", "/tenants/physics").json(&json!({ "weight": 300 })).with("if-match", etag);
    assert_eq!(fixture.ask(patch("\"999999\"")).await.status, 412);
    let changed = fixture.ask(patch(shown.header("etag"))).await;
    assert_eq!((changed.status, &changed.body()["weight"]), (200, &json!(300)));
    assert_eq!(changed.body()["quota"], json!({ "max_running_jobs": 5 }), "the rest stays");
    for bad in
        [json!({ "weight": 0 }), json!({ "state": "closing" }), json!({ "priority_best": 10 }), json!({ "x": 1 })]
    {
        assert_eq!(fixture.ask(Ask::new("PATCH", "/tenants/physics").json(&bad)).await.status, 400, "{bad}");
    }
    let names: Vec<_> =
        fixture.get("/tenants").await["items"].as_array().unwrap().iter().map(|t| t["name"].clone()).collect();
    assert_eq!(names, [json!("default"), json!("physics")]);
    assert_eq!(fixture.ask(Ask::new("DELETE", "/tenants/physics")).await.status, 204);
    let late = fixture.ask(Ask::post("/jobs", &noop(&json!({ "tenant": "physics" })))).await;
    assert_eq!(late.status, 409, "{}", late.text);
    // It has no jobs left, so it is gone; nobody gets its tokens and secrets with its name.
    assert_eq!(fixture.ask(Ask::get("/tenants/physics")).await.status, 404);
    assert_eq!(fixture.get("/tenants").await["items"].as_array().unwrap().len(), 1);
    let again = fixture.ask(Ask::post("/tenants", &json!({ "name": "physics" }))).await;
    assert!(again.status == 409 && again.text.contains("not given again"), "{}", again.text);
    assert_eq!(fixture.ask(Ask::new("PUT", "/tenants/physics/quota").json(&json!({}))).await.status, 404);
    assert_eq!(fixture.ask(Ask::new("DELETE", "/tenants/default")).await.status, 409);
    assert_eq!(fixture.ask(Ask::get("/tenants/nobody")).await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_quota_answers_429_with_the_limit() {
    let fixture = Fixture::new().await;
    let put = Ask::new("PUT", "/tenants/default/quota").json(&json!({ "max_pending_jobs": 2 }));
    assert_eq!(fixture.ask(put).await.body(), json!({ "max_pending_jobs": 2 }));
    fixture.submit(&json!({})).await;
    fixture.submit(&json!({})).await;
    let full = fixture.ask(Ask::post("/jobs", &noop(&json!({})))).await;
    assert_eq!((full.status, full.header("retry-after")), (429, "1"));
    assert_eq!(full.body()["quota"]["name"], "max_pending_jobs");
    assert_eq!(full.body()["type"], "urn:orlop:error:quota-exceeded");
    let array = fixture.ask(Ask::post("/jobs", &noop(&json!({ "array": { "count": 9 } })))).await;
    assert_eq!(array.status, 429, "arrays count elements");
    let put = |quota| Ask::new("PUT", "/tenants/default/quota").json(&quota);
    assert_eq!(fixture.ask(put(json!({ "max_array": 3 }))).await.status, 200);
    let never = fixture.ask(Ask::post("/jobs", &noop(&json!({ "array": { "count": 9 } })))).await;
    assert_eq!((never.status, &never.body()["type"]), (422, &json!("urn:orlop:error:never-fits")));
    assert_eq!(fixture.ask(put(json!({ "max_cpus": 3 }))).await.status, 400, "unknown fields are refused");
    assert_eq!(fixture.ask(put(json!({ "on_exceed": "x" }))).await.status, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_version_stats_and_metrics_answer() {
    let fixture = Fixture::new().await;
    fixture.submit(&json!({})).await;
    assert_eq!(fixture.get("/health/live").await["status"], "live");
    assert_eq!(fixture.get("/health/ready").await["status"], "leading");
    assert_eq!(fixture.get("/version").await["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(fixture.get("/stats").await["status"], "leading");
    assert_eq!(fixture.get("/workers").await["items"], json!([]));
    assert_eq!(fixture.ask(Ask::get("/workers/nobody")).await.status, 404);
    assert_eq!(fixture.ask(Ask::new("POST", "/workers/nobody/cordon")).await.status, 404);
    let metrics = fixture.ask(Ask::get("/metrics")).await.text;
    assert!(
        metrics.contains("orlop_leader 1") && metrics.contains("route=\"jobs.submit\",code=\"202\"} 1"),
        "{metrics}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_for_a_tenant_that_is_not_there_is_refused_with_those_that_the_caller_sees() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::full(folder.path()).await;
    let admin = fixture.token(None, "admin", &["*"]).await;
    fixture.tenants(Some(&admin), &["maths", "physics"]).await;
    let bound = fixture.token(Some(&admin), "operator", &["maths", "physisc"]).await;
    let of = |tenant: &str, more: &serde_json::Value| {
        let mut body = more.clone();
        body["tenant"] = tenant.into();
        body
    };
    let asks = |tenant: &str| {
        [
            Ask::post("/jobs", &of(tenant, &noop(&json!({})))),
            Ask::post("/uploads", &of(tenant, &json!({ "name": "x", "bytes": 1 }))),
            Ask::new("PUT", &format!("/secrets/db?tenant={tenant}")).json(&json!({ "value": "long enough" })),
            Ask::post("/jobs", &json!({ "jobs": [of("maths", &noop(&json!({}))), of(tenant, &noop(&json!({})))] })),
        ]
    };
    for (number, ask) in asks("physisc").into_iter().enumerate() {
        let refused = fixture.ask(ask.clone().token(&bound)).await;
        assert_eq!(refused.status, 404, "{}", refused.text);
        let place = if number == 3 { "jobs[1].tenant" } else { "tenant" };
        assert_eq!(refused.body()["errors"][0]["path"], place, "{}", refused.text);
        let detail = refused.body()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("there is no tenant `physisc` (there are maths);"), "{detail}");
        let all = fixture.ask(ask.token(&admin)).await.body()["detail"].as_str().unwrap().to_owned();
        assert!(all.contains("(there are default, maths, physics);"), "{all}");
    }
    assert_eq!(fixture.ask(Ask::get("/tenants/physisc").token(&admin)).await.status, 404, "nothing was made");
    for ask in asks("maths") {
        let taken = fixture.ask(ask.token(&admin)).await;
        assert!(taken.status < 300, "{}", taken.text);
    }
}

/// A server that takes every name, as before; one that does not goes on with the tenants that have jobs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_come_into_being_by_their_jobs_where_that_is_configured_and_stay_afterwards() {
    let store = orlop_core::testing::fleet_store::MemoryFleet::new();
    let open = Fixture::open_on(store.clone()).await;
    open.submit(&json!({ "tenant": "chemistry", "runtime": "noop" })).await;
    open.end().await;
    let fixture = Fixture::on(store).await;
    fixture.submit(&json!({ "tenant": "chemistry" })).await;
    assert_eq!(fixture.ask(Ask::post("/jobs", &noop(&json!({ "tenant": "other" })))).await.status, 404);
}
