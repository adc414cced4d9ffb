//! What watches show in the middle of a pass, and what is kept of what they showed. Owns an API that shows such things;
//! never what other tests do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use futures::FutureExt as _;
use serde_json::{Value, json};

use super::super::cache::Cache;
use super::super::{Clock, Controller, Key, Options};
use super::server::{Server, TestClock};
use super::test_env::{after, job};
use crate::api::{Api, ApiError, Kind, Request};

/// After the first Job is created another controller writes the status, and a watch shows it before the pass goes on.
#[derive(Clone)]
struct Another {
    server: Server,
    shown_to: Arc<OnceLock<Weak<Controller<Another>>>>,
    wrote: Arc<AtomicBool>,
}

#[async_trait]
impl Api for Another {
    async fn send(&self, request: &Request) -> Result<Value, ApiError> {
        let answer = self.server.send(request).await;
        let creates = request.verb.name() == "create" && request.kind == Kind::Job;
        if creates && !self.wrote.swap(true, Ordering::Relaxed) {
            self.server.edit(Kind::JobFlow, "etl", |flow| flow["status"]["steps"][0]["phase"] = json!("Succeeded"));
            let controller = self.shown_to.get().and_then(Weak::upgrade).unwrap();
            let shown = controller.flow_applied(&self.server.get(Kind::JobFlow, "etl").unwrap());
            assert_eq!(shown.len(), 1);
        }
        answer
    }
}

#[test]
fn a_status_of_somebody_else_shown_in_the_middle_of_a_pass_is_not_overwritten() {
    let clock = Arc::new(TestClock::new());
    let server = Server::new(Arc::clone(&clock));
    let api = Another { server: server.clone(), shown_to: Arc::default(), wrote: Arc::default() };
    let controller = Arc::new(Controller::new(api.clone(), clock as Arc<dyn Clock>, Options::default()));
    api.shown_to.set(Arc::downgrade(&controller)).unwrap();
    let flow = server.put(
        Kind::JobFlow,
        json!({"apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": {"name": "etl"},
            "spec": {"steps": [job("a"), after("b", &["a"])]}}),
    );
    let key = Key::of(&flow);
    controller.flow_applied(&flow);
    drop(controller.prime());
    let phases = || -> Vec<Value> {
        let flow = server.get(Kind::JobFlow, "etl").unwrap();
        flow["status"]["steps"].as_array().unwrap().iter().map(|step| step["phase"].clone()).collect()
    };
    while !api.wrote.load(Ordering::Relaxed) {
        drop(controller.reconcile(&key).now_or_never().unwrap());
    }
    assert_eq!(phases(), ["Succeeded", "Pending"]);
    // The next pass begins with what the other one has written.
    drop(controller.reconcile(&key).now_or_never().unwrap());
    drop(controller.reconcile(&key).now_or_never().unwrap());
    assert_eq!(phases(), ["Succeeded", "Running"]);
}

#[test]
fn nothing_is_kept_for_flows_that_are_not_known() {
    let mut cache = Cache::default();
    let owner = json!([{"kind": "JobFlow", "name": "etl", "uid": "u", "controller": true}]);
    let run = json!({"metadata": {"name": "etl-a", "namespace": "default", "uid": "j", "ownerReferences": owner}});
    let flow = json!({"metadata": {"name": "etl", "namespace": "default", "uid": "u", "resourceVersion": "1"}});
    assert_eq!(cache.job_applied(&run), None);
    assert_eq!(cache.job_deleted(&run), None);
    assert!(cache.take_changed("u").is_empty());
    let key = cache.flow_applied(&flow).unwrap();
    assert_eq!(cache.job_applied(&run), Some(key.clone()));
    assert_eq!(cache.take_changed("u").len(), 1);
    assert!(cache.job_deleted(&run).is_some());
    cache.forget_flow(&key);
    assert!(cache.take_changed("u").is_empty());
}
