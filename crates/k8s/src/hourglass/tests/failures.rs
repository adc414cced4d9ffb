//! A broken invariant, for one object among others.

use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt as _;
use orlop_core::error::Class;
use orlop_core::time::Time;
use serde_json::{Value, json};

use super::{RESYNC, Steps, TestEnv};
use crate::api::{Api, ApiError, Kind};
use crate::hourglass::Config;
use crate::hourglass::children::Meta;
use crate::hourglass::cluster::Cluster;
use crate::hourglass::controller::{Context, Controller, Monitor, Reconciler};
use crate::hourglass::plan::{Failure, Plan};
use crate::performer::{Observation, Performers};
use crate::shell::fake::{Server, TestClock};
use crate::shell::{Clock, Key};

/// Performers, but no plan can be made for those whose image says so.
struct Breaking;

#[async_trait]
impl Reconciler for Breaking {
    const KIND: Kind = Performers::KIND;
    const NAME: &'static str = Performers::NAME;
    const FINALIZER: &'static str = Performers::FINALIZER;
    const OWNER_LABEL: &'static str = Performers::OWNER_LABEL;
    const CHILD_SELECTOR: &'static str = Performers::CHILD_SELECTOR;
    const CHILD_KINDS: &'static [Kind] = Performers::CHILD_KINDS;
    const WATCHED_KINDS: &'static [Kind] = Performers::WATCHED_KINDS;
    type Observation = Observation;

    async fn observe<A: Api>(context: Context<'_, A>) -> Result<Option<Observation>, ApiError> {
        Performers::observe(context).await
    }

    fn meta(observation: &Observation) -> &Meta {
        Performers::meta(observation)
    }

    fn stored_status(observation: &Observation) -> &Value {
        Performers::stored_status(observation)
    }

    fn with_cluster(observation: &Observation, cluster: Arc<Cluster>) -> Observation {
        Performers::with_cluster(observation, cluster)
    }

    fn plan(observation: &Observation, config: &Config, now: Time) -> Plan {
        match observation.spec.as_ref().map(|spec| spec.image.as_str()) {
            Ok("panics" | "unspeakable") => std::panic::panic_any(()),
            Ok("impossible") => Plan { invariant_broken: true, ..Performers::plan(observation, config, now) },
            _ => Performers::plan(observation, config, now),
        }
    }

    fn failure_plan(object: &Value, failure: &Failure, now: Time) -> Plan {
        if object["spec"]["image"] == "unspeakable" {
            std::panic::panic_any(());
        }
        Performers::failure_plan(object, failure, now)
    }
}

fn degraded(env: &TestEnv<Breaking>, name: &str) -> (String, String) {
    (env.status(name)["phase"].as_str().unwrap_or("-").to_owned(), env.condition(name, "Degraded"))
}

#[test]
fn a_broken_invariant_stops_one_object_and_no_other() {
    for image in ["panics", "impossible"] {
        let mut env = TestEnv::<Breaking>::new();
        env.add(Kind::Node, super::host("node-1", json!({}), json!({})));
        let spec = |image: &str| json!({"avsAddress": "0x1234567890abcdef1234567890abcdef12345678", "image": image});
        env.submit("bad", spec(image));
        env.submit("good", spec("well"));
        env.rest();
        assert_eq!(degraded(&env, "bad"), ("Failed".to_owned(), "True/InvariantBroken".to_owned()), "{image}");
        assert_eq!(degraded(&env, "good"), ("Running".to_owned(), "False/AsExpected".to_owned()), "{image}");
        assert_eq!(env.failures(), [Class::Fatal], "once");
        assert!(env.events().contains(&"InvariantBroken".to_owned()));
        // Nothing that happens around it makes it act, until its spec is another.
        env.add(Kind::Node, super::host("node-2", json!({}), json!({})));
        let before = env.writes().len();
        env.wait(RESYNC.as_secs() * 2);
        assert_eq!((env.failures().len(), env.writes().len()), (1, before), "{image}");
        env.change("bad", |spec| spec["image"] = json!("well"));
        env.rest();
        assert_eq!(degraded(&env, "bad"), ("Running".to_owned(), "False/AsExpected".to_owned()), "{image}");
    }
}

#[test]
fn what_cannot_even_say_what_is_broken_stops_no_other() {
    let mut env = TestEnv::<Breaking>::new();
    env.add(Kind::Node, super::host("node-1", json!({}), json!({})));
    let spec = |image: &str| json!({"avsAddress": "0x1234567890abcdef1234567890abcdef12345678", "image": image});
    env.submit("bad", spec("unspeakable"));
    env.submit("good", spec("well"));
    env.wait(RESYNC.as_secs() * 2);
    assert_eq!(degraded(&env, "bad"), ("-".to_owned(), "-/-".to_owned()));
    assert_eq!(degraded(&env, "good"), ("Running".to_owned(), "False/AsExpected".to_owned()));
    assert_eq!(env.failures(), [Class::Fatal], "once");
    env.change("bad", |spec| spec["image"] = json!("well"));
    env.rest();
    assert_eq!(degraded(&env, "bad"), ("Running".to_owned(), "False/AsExpected".to_owned()));
}

#[test]
fn another_object_of_the_name_of_a_stopped_one_is_worked_on() {
    let mut env = TestEnv::<Breaking>::new();
    env.add(Kind::Node, super::host("node-1", json!({}), json!({})));
    let spec = |image: &str| json!({"avsAddress": "0x1234567890abcdef1234567890abcdef12345678", "image": image});
    env.submit("bad", spec("panics"));
    env.rest();
    // Before anybody has looked whether the first one is gone.
    env.server.remove(Kind::Performer, "bad");
    env.submit("bad", spec("well"));
    env.rest();
    assert_eq!(degraded(&env, "bad"), ("Running".to_owned(), "False/AsExpected".to_owned()));
}

#[test]
fn what_starts_a_pass_is_everything_of_an_object_but_its_status() {
    let clock = Arc::new(TestClock::new());
    let server = Server::new(Arc::clone(&clock));
    let controller: Controller<Server, Performers> =
        Controller::new(server.clone(), Arc::clone(&clock) as Arc<dyn Clock>, Arc::default(), RESYNC);
    let mut object = server.put(Kind::Performer, json!({"kind": "Performer", "metadata": {"name": "avs"}, "spec": {}}));
    let starts = |object: &Value| !controller.object_applied(Kind::Performer, object).is_empty();
    assert!(starts(&object), "it is new");
    object["status"] = json!({"phase": "Creating", "observedGeneration": 1});
    object["metadata"]["resourceVersion"] = json!("99");
    object["metadata"]["managedFields"] = json!([{"manager": "orlop-operator-status", "subresource": "status"}]);
    assert!(!starts(&object), "its status alone");
    for (version, (path, value)) in (100..).zip([
        ("generation", json!(2)),
        ("annotations", json!({"a": "b"})),
        ("labels", json!({"a": "b"})),
        ("finalizers", json!(["f"])),
        ("deletionTimestamp", json!("2026-11-21T10:00:00Z")),
        ("uid", json!("another")),
    ]) {
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        object["metadata"][path] = value;
        assert!(starts(&object), "{path}");
        assert!(!starts(&object), "{path}: seen already");
    }
}

#[test]
fn a_pass_says_whether_it_failed() {
    let clock = Arc::new(TestClock::new());
    let server = Server::new(Arc::clone(&clock));
    let steps = Arc::new(Steps::default());
    let controller: Controller<Server, Breaking> =
        Controller::new(server.clone(), Arc::clone(&clock) as Arc<dyn Clock>, Arc::default(), RESYNC)
            .measured(steps as Arc<dyn Monitor>);
    let spec = |image: &str| json!({"avsAddress": "0x1234567890abcdef1234567890abcdef12345678", "image": image});
    for (name, image, failed) in [("good", "well", false), ("bad", "panics", true)] {
        let object = json!({"kind": "Performer", "metadata": {"name": name}, "spec": spec(image)});
        let object = server.put(Kind::Performer, object);
        let _ = controller.object_applied(Kind::Performer, &object);
        let next = controller.reconcile(&Key::of(&object)).now_or_never().expect("nothing here waits");
        assert_eq!(next.failed, failed, "{name}");
    }
}
