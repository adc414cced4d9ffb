//! Flows and pipelines over the interface: what is refused, what is answered, who may decide.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::fixture::{Answer, Ask, Fixture};

/// A pipeline whose first step waits for a person: no worker is needed until then.
fn manual(name: &str) -> Value {
    let step = json!({
        "name": "gate", "type": "Manual", "message": "may it go on?",
        "metadata": { "annotations": { "orlop.io/approvers": "nobody" } },
    });
    json!({
        "apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": { "name": name },
        "spec": { "steps": [step] },
    })
}

fn pipeline() -> Value {
    let job = |after: &[&str]| json!({ "depends_on": after, "job_spec": { "command": ["true"] } });
    let named = |name: &str, step: Value| {
        let mut step = step;
        step["name"] = json!(name);
        step
    };
    json!({
        "name": "Nightly Build", "variables": { "env": "dev" },
        "steps": [named("Fetch All", job(&[])), named("test", job(&["Fetch All"])), named("pack", job(&["Fetch All"]))],
    })
}

async fn paused(fixture: &Fixture, id: &str, token: Option<&str>) -> Value {
    let began = Instant::now();
    loop {
        let ask = Ask::get(&format!("/flows/{id}"));
        let answer = fixture.ask(token.map_or(ask.clone(), |token| ask.token(token))).await;
        if answer.body()["phase"] == "Paused" {
            return answer.body();
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{}", answer.text);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn good(answer: &Answer, status: u16) -> Value {
    assert_eq!(answer.status, status, "{}", answer.text);
    answer.body()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_definition_is_refused_with_all_that_is_wrong() {
    let fixture = Fixture::new().await;
    let command = json!({ "command": ["true"] });
    let wrong = json!({ "name": "x", "steps": [
        { "name": "a", "depends_on": ["b"], "job_spec": command },
        { "name": "c", "depends_on": ["d"], "job_spec": command },
    ] });
    for path in ["/pipelines", "/flows"] {
        let refused = good(&fixture.ask(Ask::post(path, &wrong)).await, 400);
        let errors = refused["errors"].as_array().unwrap();
        let paths: Vec<&str> = errors.iter().map(|error| error["path"].as_str().unwrap()).collect();
        assert_eq!(paths, ["steps[0].depends_on[0]", "steps[1].depends_on[0]"]);
        let unknown = json!({ "name": "x", "steps": [{ "name": "c", "job_spec": { "comand": ["true"] } }] });
        let refused = good(&fixture.ask(Ask::post(path, &unknown)).await, 400);
        assert!(refused.to_string().contains("steps[0].job_spec.comand"), "{refused}");
    }
    let cycle = json!({ "name": "x", "steps": [
        { "name": "a", "depends_on": ["b"], "job_spec": { "command": ["true"] } },
        { "name": "b", "depends_on": ["a"], "job_spec": { "command": ["true"] } },
    ] });
    let refused = good(&fixture.ask(Ask::post("/pipelines", &cycle)).await, 400);
    assert!(refused.to_string().contains("cycle"), "{refused}");
    assert_eq!(fixture.get("/pipelines").await["items"], json!([]), "nothing is stored");
    assert_eq!(fixture.get("/flows").await["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelines_are_kept_by_version() {
    let fixture = Fixture::new().await;
    let made = fixture.ask(Ask::post("/pipelines", &pipeline())).await;
    let body = good(&made, 201);
    let id = body["id"].as_str().unwrap();
    assert_eq!(made.header("location"), format!("/api/v1/pipelines/{id}"));
    assert_eq!((&body["name"], &body["version"], made.header("etag")), (&json!("Nightly Build"), &json!(1), "\"1\""));
    let shown = fixture.get(&format!("/pipelines/{id}")).await;
    assert_eq!(shown["definition"], pipeline());
    let dag = fixture.get(&format!("/pipelines/{id}/dag")).await;
    let nodes: Vec<String> =
        dag["nodes"].as_array().unwrap().iter().map(|node| format!("{}@{}", node["name"], node["wave"])).collect();
    assert_eq!(nodes, ["\"Fetch All\"@0", "\"test\"@1", "\"pack\"@1"]);
    assert_eq!(dag["edges"][0], json!({ "from": "Fetch All", "to": "test" }));
    let put = |etag: &str| Ask::new("PUT", &format!("/pipelines/{id}")).json(&pipeline()).with("if-match", etag);
    assert_eq!(good(&fixture.ask(put("\"1\"")).await, 200)["version"], 2);
    assert_eq!(fixture.ask(put("\"1\"")).await.status, 412);
    assert_eq!(fixture.get("/pipelines").await["items"].as_array().unwrap().len(), 1);
    let run = good(
        &fixture.ask(Ask::post(&format!("/pipelines/{id}/flows"), &json!({ "parameters": { "env": "prod" } }))).await,
        202,
    );
    let flow = fixture.get(&format!("/flows/{}", run["id"].as_str().unwrap())).await;
    assert_eq!((&flow["pipeline"], &flow["version"]), (&json!(id), &json!(2)));
    assert_eq!(flow["steps"][0]["name"], "Fetch All", "the names of its definition");
    let step = fixture.get(&format!("/flows/{}/steps/Fetch%20All", run["id"].as_str().unwrap())).await;
    assert_eq!(step["name"], "Fetch All");
    let unknown =
        fixture.ask(Ask::post(&format!("/pipelines/{id}/flows"), &json!({ "parameters": { "nobody": "x" } }))).await;
    assert_eq!(good(&unknown, 400)["errors"][0]["path"], "parameters");
    assert_eq!(fixture.ask(Ask::new("DELETE", &format!("/pipelines/{id}"))).await.status, 204);
    assert_eq!(fixture.ask(Ask::get(&format!("/pipelines/{id}"))).await.status, 404);
    let cancelled = fixture.ask(Ask::post(&format!("/flows/{}/cancel", run["id"].as_str().unwrap()), &json!({}))).await;
    assert_eq!(cancelled.status, 202, "its flow is still there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decisions_are_for_operators_and_who_is_named() {
    let fixture = Fixture::new().await;
    let admin = fixture.token(None, "admin", &["*"]).await;
    fixture.tenants(Some(&admin), &["physics"]).await;
    let operator = fixture.token(Some(&admin), "operator", &["physics"]).await;
    let submitter = fixture.token(Some(&admin), "submitter", &["physics"]).await;
    let stranger = fixture.token(Some(&admin), "operator", &["chemistry"]).await;
    let taken = good(&fixture.ask(Ask::post("/flows", &manual("release")).token(&submitter)).await, 202);
    let id = taken["id"].as_str().unwrap();
    let flow = paused(&fixture, id, Some(&submitter)).await;
    assert_eq!(
        (&flow["tenant"], &flow["state"], &flow["steps"][0]["phase"]),
        (&json!("physics"), &json!("Running"), &json!("PendingApproval"))
    );
    let decide = async |verb: &str, token: &str| {
        let path = format!("/flows/{id}/steps/gate/{verb}");
        fixture.ask(Ask::post(&path, &json!({ "reason": "seen" })).token(token)).await.status
    };
    assert_eq!(decide("confirm-gone", &submitter).await, 409, "nothing of it was cancelled");
    assert_eq!(decide("confirm-gone", &stranger).await, 404, "it does not see the flow");
    assert_eq!(decide("approve", &submitter).await, 403);
    assert_eq!(decide("approve", &stranger).await, 404, "it does not see the flow");
    assert_eq!(decide("reject", &operator).await, 202);
    assert_eq!(decide("reject", &operator).await, 202, "the same again");
    assert_eq!(decide("approve", &operator).await, 409);
    let ended = fixture.ask(Ask::get(&format!("/flows/{id}?wait=20s")).token(&submitter)).await.body();
    assert_eq!((&ended["state"], &ended["cause"]), (&json!("Failed"), &json!("FlowFailed")));
    let approval = &ended["steps"][0]["approval"];
    assert_eq!(
        (&approval["decision"], &approval["verified"], &approval["reason"]),
        (&json!("Rejected"), &json!(true), &json!("seen"))
    );
    assert_eq!(fixture.ask(Ask::post(&format!("/flows/{id}/cancel"), &json!({})).token(&submitter)).await.status, 200);
    let again = good(&fixture.ask(Ask::post(&format!("/flows/{id}/retry"), &json!({})).token(&submitter)).await, 202);
    assert_eq!(again["name"], "release-r2");
    paused(&fixture, again["id"].as_str().unwrap(), Some(&submitter)).await;
    let live = fixture.ask(Ask::post("/flows/release-r2/retry", &json!({})).token(&submitter)).await;
    assert_eq!(live.status, 409);
    assert_eq!(fixture.ask(Ask::new("DELETE", "/flows/release-r2").token(&submitter)).await.status, 409);
    assert_eq!(fixture.ask(Ask::new("DELETE", &format!("/flows/{id}")).token(&submitter)).await.status, 204);
    assert_eq!(fixture.ask(Ask::get(&format!("/flows/{id}")).token(&submitter)).await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flows_are_listed_suspended_and_ended() {
    let fixture = Fixture::new().await;
    let order = json!({ "definition": manual("one"), "name": "two", "suspend": true });
    let ask = || Ask::post("/flows", &order).with("idempotency-key", "k");
    let taken = good(&fixture.ask(ask()).await, 202);
    let again = fixture.ask(ask()).await;
    assert_eq!((again.header("idempotent-replay"), &again.body()["id"]), ("true", &taken["id"]));
    let flow = fixture.get("/flows/two?object=true").await;
    assert_eq!((&flow["phase"], &flow["object"]["metadata"]["name"]), (&json!("Suspended"), &json!("two")));
    assert_eq!(fixture.ask(Ask::post("/flows/two/resume", &json!({}))).await.status, 202);
    paused(&fixture, "two", None).await;
    assert_eq!(fixture.ask(Ask::post("/flows/two/resume", &json!({}))).await.status, 409);
    assert_eq!(
        fixture.ask(Ask::post("/flows", &json!({ "definition": manual("one"), "name": "two" }))).await.status,
        409
    );
    assert_eq!(fixture.ask(Ask::post("/flows/two/cancel", &json!({}))).await.status, 202);
    let ended = fixture.get("/flows/two?wait=20s").await;
    assert_eq!((&ended["state"], &ended["cause"]), (&json!("Cancelled"), &json!("Terminated")));
    let began = Instant::now();
    while fixture.get("/flows?state=Cancelled").await["items"].as_array().unwrap().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "it is listed as cancelled");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(fixture.get("/flows?state=Running").await["items"], json!([]));
    assert_eq!(fixture.ask(Ask::get("/flows/none")).await.status, 404);
    let text = "kind: JobFlow\napiVersion: workflow.kube-zen.io/v1alpha1\nmetadata: {name: y}\nspec: {steps: [{name: g, type: Manual}]}\n";
    let yaml = good(&fixture.ask(Ask::post("/flows", &json!({ "definition": text }))).await, 202);
    assert_eq!(yaml["name"], "y");
    assert_eq!(fixture.get("/flows?limit=1").await["items"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_is_looked_at_with_the_lines_of_what_is_wrong_and_nothing_is_kept() {
    let fixture = Fixture::new().await;
    let viewer = fixture.token(None, "viewer", &["*"]).await;
    let check = async |text: &str| {
        let ask = Ask::post("/flows/validate", &json!({ "definition": text, "backend": "process" })).token(&viewer);
        let answer = fixture.ask(ask).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.body()
    };
    let wrong = check("steps:\n  - name: a\n    run: [true]\n  - name: b\n    ned: [a]\n").await;
    assert_eq!((&wrong["valid"], &wrong["flows"], &wrong["graph"]), (&json!(false), &json!([]), &Value::Null));
    let lines: Vec<u64> = wrong["report"]["violations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|violation| violation["at"]["line"].as_u64().unwrap())
        .collect();
    assert!(lines.contains(&3) && lines.contains(&5), "{wrong}");
    let text = serde_json::to_string(&json!({
        "apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": { "name": "release" },
        "spec": {
            "parameters": [{ "name": "place", "enum": ["here", "there"] }, { "name": "size", "value": "1" }],
            "steps": [
                { "name": "gate", "type": "Manual" }, { "name": "after", "type": "Manual", "dependencies": ["gate"] },
            ],
        },
    }))
    .unwrap();
    let good = check(&text).await;
    let flow = &good["flows"][0];
    assert_eq!((&good["valid"], &flow["name"], &flow["steps"]), (&json!(true), &json!("release"), &json!(2)));
    let place = &flow["parameters"][0];
    assert_eq!((&place["required"], &place["enum"]), (&json!(true), &json!(["here", "there"])));
    assert_eq!(flow["parameters"][1]["required"], false);
    assert_eq!(good["graph"]["nodes"]["name"], json!(["gate", "after"]));
    assert_eq!(fixture.ask(Ask::get("/flows").token(&viewer)).await.body()["items"], json!([]));
}
