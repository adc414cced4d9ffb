//! Who may do what with whose objects: every route, asked by every role of one tenant, about objects of that tenant, of
//! another, of both, and of all. A route that is not in it fails.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_core::id::{SessionId, WorkerId};
use orlop_core::time::Time;
use orlop_scheduler::event::Capabilities;
use orlop_scheduler::job::Runtime;
use serde_json::{Value, json};

use super::fixture::{Ask, Fixture, noop};
use crate::api::Options;
use crate::api::auth::Role;
use crate::api::route::{Needs, Route};
use crate::api::table::ROUTES;
use crate::host::scheduler::Registration;
use crate::wire::identity::Authority;

/// Whose an object is, as seen by the callers of this test, who are all of tenant `own`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Whose {
    Own,
    Foreign,
    Shared,
    Everybodys,
}

const ALL: [Whose; 4] = [Whose::Own, Whose::Foreign, Whose::Shared, Whose::Everybodys];

impl Whose {
    fn tenants(self) -> &'static [&'static str] {
        match self {
            Self::Own => &["own"],
            Self::Foreign => &["foreign"],
            Self::Shared => &["own", "foreign"],
            Self::Everybodys => &["*"],
        }
    }
}

/// What a route is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    /// An object of one tenant.
    One(&'static str),
    /// An object that tenants share: who sees one of them may see it.
    Shared(&'static str),
    /// The same, and only who has all of its tenants may change it.
    Changed(&'static str),
    /// A right: nobody learns of one that is good for more than his own.
    Right(&'static str),
    /// Something new of one tenant, named in the body or the query.
    New,
    /// A right that is made.
    NewRight,
    /// A list: it names nobody else's objects.
    List,
    /// The fleet's own matters.
    Fleet,
    /// Nobody's object.
    Nothing,
}

fn about(name: &str) -> About {
    match name {
        "jobs.submit" | "uploads.begin" | "pipelines.create" | "flows.submit" | "secrets.list" | "secrets.put"
        | "secrets.delete" => About::New,
        "jobs.list" | "jobs.cancel_many" | "pipelines.list" | "flows.list" | "workers.list" | "tenants.list"
        | "tokens.list" | "join_tokens.list" | "server.stats" | "approvals.list" => About::List,
        "artifacts.get" => About::One("artifact"),
        "uploads.add" | "uploads.finish" => About::One("upload"),
        "workers.get" => About::Shared("worker"),
        "tenants.create" | "tenants.change" | "tenants.close" | "tenants.set_quota" | "server.metrics" => About::Fleet,
        "tenants.get" | "tenants.quota" | "tenants.usage" => About::One("tenant"),
        "tokens.create" | "join_tokens.create" => About::NewRight,
        "tokens.revoke" => About::Right("token"),
        "join_tokens.revoke" => About::Right("join token"),
        "flows.validate" | "console.get" | "live.open" | "live.topics" | "session.begin" | "session.end"
        | "session.link" => About::Nothing,
        "server.events" | "server.live" | "server.ready" | "server.version" | "server.openapi" => About::Nothing,
        name if name.starts_with("jobs.") => About::One("job"),
        name if name.starts_with("pipelines.") => About::One("pipeline"),
        name if name.starts_with("flows.") => About::One("flow"),
        name if name.starts_with("workers.") => About::Changed("worker"),
        name => panic!("{name}: whose objects is this route about?"),
    }
}

/// What a caller whose role is good enough is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answered {
    Well,
    NotFound,
    Forbidden,
}

fn expected(about: About, whose: Whose) -> Option<Answered> {
    use {Answered as A, Whose as W};
    Some(match (about, whose) {
        (About::Nothing | About::List, W::Own) => A::Well,
        (About::Fleet, W::Own) => A::Forbidden,
        (About::Nothing | About::List | About::Fleet, _) => return None,
        (About::One(_) | About::New, W::Shared | W::Everybodys) => return None,
        (_, W::Own) => A::Well,
        (About::New | About::NewRight, _) => A::Forbidden,
        (_, W::Foreign) | (About::Right(_), _) => A::NotFound,
        (About::Shared(_), _) => A::Well,
        (About::Changed(_), _) => A::Forbidden,
    })
}

fn flow(name: &str) -> Value {
    let step = json!({ "name": "gate", "type": "Manual", "message": "may it go on?" });
    json!({
        "apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": { "name": name },
        "spec": { "steps": [step] },
    })
}

/// A server with objects of everybody.
struct World {
    fixture: Fixture,
    admin: String,
    /// Tokens of tenant `own`.
    callers: Vec<(Role, String)>,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::create(Time::from_millis(1_700_000_000_000)).unwrap().0;
        let fixture =
            Fixture::full_with(folder.path(), |options| Options { authority: Some(Arc::new(authority)), ..options });
        let fixture = fixture.await;
        let admin = fixture.token(None, "admin", &["*"]).await;
        fixture.tenants(Some(&admin), &["own", "foreign"]).await;
        let mut callers = Vec::new();
        for role in [Role::Viewer, Role::Submitter, Role::Operator, Role::Admin] {
            callers.push((role, fixture.token(Some(&admin), role.as_str(), &["own"]).await));
        }
        Self { fixture, admin, callers, _folder: folder }
    }

    async fn made(&self, path: &str, body: &Value, field: &str) -> String {
        let answer = self.fixture.ask(Ask::post(path, body).token(&self.admin)).await;
        assert!(answer.status < 300, "{path}: {}", answer.text);
        answer.body()[field].as_str().unwrap_or_else(|| panic!("{path}: {}", answer.text)).to_owned()
    }

    /// A new object.
    async fn object(&self, kind: &str, whose: Whose, number: usize) -> String {
        let (tenants, tenant) = (whose.tenants(), whose.tenants()[0]);
        match kind {
            "job" => self.made("/jobs", &noop(&json!({ "tenant": tenant })), "id").await,
            "pipeline" => {
                let definition = flow(&format!("p{number}"));
                self.made("/pipelines", &json!({ "tenant": tenant, "definition": definition }), "id").await
            }
            "flow" => {
                let definition = flow(&format!("f{number}"));
                self.made("/flows", &json!({ "tenant": tenant, "definition": definition }), "id").await
            }
            "upload" => self.made("/uploads", &json!({ "tenant": tenant, "name": "x", "bytes": 3 }), "id").await,
            "artifact" => self.artifact(tenant, number).await,
            "tenant" => tenant.to_owned(),
            "token" => self.made("/tokens", &json!({ "role": "viewer", "tenants": tenants }), "id").await,
            "join token" => self.made("/join-tokens", &json!({ "tenants": tenants }), "id").await,
            "worker" => {
                let id = format!("w{number}");
                self.worker(&id, tenants).await;
                id
            }
            kind => panic!("there is no {kind}"),
        }
    }

    async fn artifact(&self, tenant: &str, number: usize) -> String {
        let text = format!("{tenant} {number}");
        let begun = json!({ "tenant": tenant, "name": "x", "bytes": text.len() });
        let upload = self.made("/uploads", &begun, "id").await;
        let piece = Ask::new("PATCH", &format!("/uploads/{upload}?offset=0")).raw(text.clone().into_bytes());
        let piece = piece.with("content-type", "application/octet-stream").token(&self.admin);
        assert_eq!(self.fixture.ask(piece).await.status, 204);
        let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
        let sha256 = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        self.made(&format!("/uploads/{upload}/finalize"), &json!({ "sha256": sha256 }), "sha256").await
    }

    async fn worker(&self, id: &str, tenants: &[&str]) {
        let capabilities = Capabilities {
            cpu_m: 1000,
            memory_bytes: 1 << 30,
            max_jobs: 4,
            runtimes: [Runtime::Process].into(),
            tenants: tenants.iter().filter(|name| **name != "*").map(|name| name.parse().unwrap()).collect(),
            ..Capabilities::default()
        };
        let registration = Registration {
            worker: id.parse::<WorkerId>().unwrap(),
            state_id: id.to_owned(),
            place: String::new(),
            capabilities: Arc::new(capabilities),
            agent_version: "1".to_owned(),
            session: SessionId::from_bytes(uuid::Uuid::new_v4().into_bytes()),
        };
        drop(self.fixture.server().handle().register(registration).await.unwrap());
        // Snapshots of the fleet are taken a few times a second.
        let began = std::time::Instant::now();
        while self.fixture.ask(Ask::get(&format!("/workers/{id}")).token(&self.admin)).await.status != 200 {
            assert!(began.elapsed() < std::time::Duration::from_secs(60), "{id} does not appear");
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }

    /// A request to a route about an object, or about something new of somebody.
    async fn ask(&self, route: &Route, about: About, whose: Whose, number: usize) -> Ask {
        let (tenants, tenant) = (whose.tenants(), whose.tenants()[0]);
        let object = match about {
            About::One(kind) | About::Shared(kind) | About::Changed(kind) | About::Right(kind) => {
                self.object(kind, whose, number).await
            }
            About::Fleet => tenant.to_owned(),
            _ => format!("new{number}"),
        };
        let mut path = route.path.to_owned();
        for (part, value) in [("{id}", &*object), ("{name}", &object), ("{sha256}", &object), ("{step}", "gate")] {
            path = path.replace(part, value);
        }
        let query = match route.name {
            "uploads.add" => "?offset=0".to_owned(),
            "secrets.list" | "secrets.put" | "secrets.delete" => format!("?tenant={tenant}"),
            _ => String::new(),
        };
        let ask = Ask::new(route.method.as_str(), &format!("{path}{query}"));
        let body = match route.name {
            "jobs.submit" => noop(&json!({ "tenant": tenant })),
            "jobs.cancel_many" => json!({ "all": true }),
            "uploads.begin" => json!({ "tenant": tenant, "name": "x", "bytes": 3 }),
            "uploads.finish" => json!({ "sha256": "0".repeat(64) }),
            "pipelines.create" | "flows.submit" => json!({ "tenant": tenant, "definition": flow(&object) }),
            "pipelines.put" => json!({ "definition": flow(&object) }),
            "secrets.put" => json!({ "value": "x" }),
            "tenants.create" => json!({ "name": "own" }),
            "tokens.create" => json!({ "role": "viewer", "tenants": tenants }),
            "join_tokens.create" => json!({ "tenants": tenants }),
            _ => json!({}),
        };
        match route.body {
            0 => ask,
            _ if route.raw => ask.raw(b"abc".to_vec()).with("content-type", "application/octet-stream"),
            _ => ask.json(&body),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_token_reaches_beyond_its_role_and_its_tenants_on_any_route() {
    let world = World::new().await;
    // Lists have something to hide.
    for (number, kind) in ["job", "pipeline", "flow", "artifact", "token", "join token", "worker"].iter().enumerate() {
        world.object(kind, Whose::Foreign, 9000 + number).await;
    }
    let (mut number, mut answers) = (0, BTreeMap::new());
    for route in ROUTES {
        let about = about(route.name);
        for whose in ALL {
            let Some(wanted) = expected(about, whose) else { continue };
            for (role, token) in &world.callers {
                number += 1;
                let ask = world.ask(route, about, whose, number).await.token(token);
                let answer = if route.media == "text/event-stream" {
                    world.fixture.head(ask).await
                } else {
                    world.fixture.ask(ask).await
                };
                let may = match route.needs {
                    Needs::Nothing => true,
                    Needs::Role(needed) => role.may(needed),
                };
                let place = format!("{} {} as {} about {whose:?}", route.method.as_str(), route.path, role.as_str());
                let found = match answer.status {
                    403 => Answered::Forbidden,
                    404 => Answered::NotFound,
                    status if status == 401 || status >= 500 => panic!("{place}: {status} {}", answer.text),
                    _ => Answered::Well,
                };
                // Approving is for operators and whom a step names; a secret that is not there cannot be deleted.
                let wanted = match (route.name, wanted) {
                    _ if !may => Answered::Forbidden,
                    ("flows.approve" | "flows.reject", Answered::Well) if !role.may(Role::Operator) => {
                        Answered::Forbidden
                    }
                    ("secrets.delete", Answered::Well) => Answered::NotFound,
                    (_, wanted) => wanted,
                };
                assert_eq!(found, wanted, "{place}: {} {}", answer.status, answer.text);
                if about == About::List && may {
                    assert!(!answer.text.contains("foreign"), "{place}: {}", answer.text);
                    assert!(!answer.text.contains("\"*\""), "{place}: {}", answer.text);
                }
                *answers.entry(wanted as u8).or_insert(0) += 1;
            }
        }
    }
    assert!(
        answers.values().all(|count| *count > 40) && answers.len() == 3,
        "all kinds of answers were met: {answers:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_ends_makes_none_that_goes_on() {
    let fixture = Fixture::new().await;
    let admin = fixture.token(None, "admin", &["*"]).await;
    let brief = json!({ "role": "admin", "tenants": ["*"], "expires_in": "1h" });
    let made = fixture.ask(Ask::post("/tokens", &brief).token(&admin)).await.body();
    let (brief, ends) = (made["token"].as_str().unwrap().to_owned(), made["expires_at"].clone());
    let ask = |life: Value| {
        Ask::post("/tokens", &json!({ "role": "admin", "tenants": ["*"], "expires_in": life })).token(&brief)
    };
    let beyond = fixture.ask(ask(json!("2h"))).await;
    assert!(beyond.status == 403 && beyond.text.contains("expires_in"), "{}", beyond.text);
    assert_eq!(fixture.ask(ask(Value::Null)).await.body()["expires_at"], ends, "it ends with its maker");
    assert_eq!(fixture.ask(ask(json!("10m"))).await.status, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_ends_makes_no_join_token_that_goes_on() {
    let world = World::new().await;
    let brief = json!({ "role": "operator", "tenants": ["own"], "expires_in": "30m" });
    let made = world.fixture.ask(Ask::post("/tokens", &brief).token(&world.admin)).await.body();
    let (brief, ends) = (made["token"].as_str().unwrap(), &made["expires_at"]);
    let ask = |body: Value| Ask::post("/join-tokens", &body).token(brief);
    let beyond = world.fixture.ask(ask(json!({ "tenants": ["own"], "ttl": "8784h" }))).await;
    assert!(beyond.status == 403 && beyond.text.contains("ttl"), "{}", beyond.text);
    assert_eq!(&world.fixture.ask(ask(json!({ "tenants": ["own"] }))).await.body()["expires_at"], ends);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_gone_can_be_shut_out_and_removed() {
    let world = World::new().await;
    let order =
        async |method: &str, path: &str| world.fixture.ask(Ask::new(method, path).token(&world.admin)).await.status;
    for (number, (method, path)) in
        [("POST", "/revoke"), ("DELETE", ""), ("DELETE", "?force=true")].into_iter().enumerate()
    {
        let id = world.object("worker", Whose::Own, number).await;
        assert_eq!(order("DELETE", &format!("/workers/{id}?force=true")).await, 202);
        assert_eq!(order(method, &format!("/workers/{id}{path}")).await, 202, "{method} {path}");
        assert_eq!(order(method, &format!("/workers/nobody{path}")).await, 404, "{method} {path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_explanation_names_no_worker_of_others() {
    let world = World::new().await;
    for (number, whose) in ALL.into_iter().enumerate() {
        world.object("worker", whose, number).await;
    }
    let job = world.object("job", Whose::Own, 9).await;
    for (token, names) in [(&world.callers[0].1, &["w0", "w2", "w3"][..]), (&world.admin, &["w0", "w1", "w2", "w3"])] {
        let reported = world.fixture.ask(Ask::get(&format!("/jobs/{job}/explain")).token(token)).await.body();
        let reported: Vec<_> =
            reported["workers"].as_array().unwrap().iter().map(|fit| fit["worker"].clone()).collect();
        assert_eq!(reported, names);
    }
}

/// Its namespace names the directory of claims on its worker.
#[tokio::test]
async fn a_step_of_a_flow_is_of_the_tenant_of_its_job() {
    let fixture = Fixture::new().await;
    let admin = fixture.token(None, "admin", &["*"]).await;
    fixture.tenants(Some(&admin), &["own", "foreign"]).await;
    let token = fixture.token(Some(&admin), "submitter", &["own"]).await;
    let submit = async |namespace: &str| {
        let step = json!({"attempt": {
            "key": {"flow": "u", "step": "s", "attempt": 1}, "flow_name": "f", "namespace": namespace, "job_name": "f-s",
            "template": {}, "inputs": [], "output_files": [], "output_artifacts": [],
        }});
        fixture.ask(Ask::post("/jobs", &json!({"tenant": "own", "step": step})).token(&token)).await
    };
    let refused = submit("foreign").await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert!(refused.text.contains("step.attempt.namespace"), "{}", refused.text);
    let taken = submit("own").await;
    assert_eq!(taken.status, 202, "{}", taken.text);
    fixture.end().await;
}
