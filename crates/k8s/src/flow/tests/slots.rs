//! Live Jobs over all flows: never too many, nobody passed over, and no flow stuck behind what it cannot have.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::super::{Clock, Controller, Options};
use super::server::{Server, TestClock};
use super::test_env::{TestEnv, job};
use crate::api::{Api, ApiError, Kind, Request, Verb};

fn env(most: usize) -> TestEnv {
    TestEnv::with_options(Options { max_live_jobs: most, ..Options::default() })
}

fn live(env: &TestEnv) -> Vec<String> {
    let jobs = env.server.list(Kind::Job).into_iter().filter(|job| job["status"]["conditions"].is_null());
    jobs.map(|job| job["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

fn wide(steps: usize) -> Value {
    json!({"steps": (0..steps).map(|number| job(&format!("s{number}"))).collect::<Vec<_>>()})
}

#[test]
fn all_flows_together_have_no_more_live_jobs_than_may_be() {
    let mut env = env(3);
    for name in ["a", "b", "c"] {
        env.submit(name, wide(6));
    }
    env.settle();
    env.sleep(2);
    assert_eq!(live(&env).len(), 3);
    let step = &env.status("c")["steps"][0];
    assert_eq!((&step["phase"], &step["reason"]), (&json!("Pending"), &json!("Throttled")), "{step}");
    let mut ended = Vec::new();
    while let Some(name) = live(&env).into_iter().next() {
        assert!(live(&env).len() <= 3);
        env.end_job(&name, true);
        ended.push(name);
        env.settle();
    }
    assert_eq!(ended.len(), 18);
    for name in ["a", "b", "c"] {
        assert_eq!(env.status(name)["phase"], "Succeeded");
    }
    env.check_created_once();
}

#[test]
fn flows_get_slots_in_turns() {
    let mut env = env(1);
    env.submit("a-large", wide(20));
    env.settle();
    env.submit("b-small", wide(2));
    env.settle();
    let mut order = String::new();
    while let Some(name) = live(&env).into_iter().next() {
        order.push_str(&name[..1]);
        env.end_job(&name, true);
        env.settle();
    }
    assert!(
        order.starts_with("aabab") || order.starts_with("abab"),
        "the small one does not wait for the large one: {order}"
    );
    assert_eq!(order.len(), 22);
}

#[test]
fn a_flow_that_waits_for_slots_can_be_ended_suspended_and_taken_over() {
    let mut env = env(1);
    env.endless = vec!["s"];
    for name in ["a", "b", "c"] {
        env.submit(name, wide(2));
    }
    env.settle();
    assert_eq!(live(&env).len(), 1);
    env.server.edit(Kind::JobFlow, "b", |flow| flow["spec"]["stop"] = json!("Terminate"));
    env.server.edit(Kind::JobFlow, "c", |flow| flow["spec"]["suspend"] = json!(true));
    env.settle();
    env.sleep(2);
    assert_eq!(env.status("b")["phase"], "Failed", "{}", env.status("b"));
    env.restart();
    env.settle();
    for _ in 0..2 {
        let name = live(&env).remove(0);
        assert!(name.starts_with("a-"), "what is suspended starts nothing: {name}");
        env.end_job(&name, true);
        env.settle();
    }
    assert_eq!((live(&env).len(), env.status("a")["phase"].as_str()), (0, Some("Succeeded")));
    env.server.edit(Kind::JobFlow, "c", |flow| flow["spec"]["suspend"] = json!(false));
    env.settle();
    assert_eq!(live(&env).len(), 1, "{}", env.status("c"));
    env.check_created_once();
}

/// A server that takes a second for each Job, during which others are asked for.
#[derive(Clone)]
struct Slow {
    server: Server,
    clock: Arc<TestClock>,
    /// Creations under way, and the most there ever were.
    under_way: Arc<(AtomicUsize, AtomicUsize)>,
}

#[async_trait]
impl Api for Slow {
    async fn send(&self, request: &Request) -> Result<Value, ApiError> {
        if request.kind != Kind::Job || request.verb != Verb::Create {
            return self.server.send(request).await;
        }
        let (now, most) = &*self.under_way;
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.clock.set(self.clock.now().plus(Duration::from_secs(1)));
        let answer = self.server.send(request).await;
        now.fetch_sub(1, Ordering::SeqCst);
        answer
    }
}

#[tokio::test]
async fn sixteen_starts_of_a_flow_are_under_way_at_once_and_a_pass_goes_on_for_5_s() {
    let clock = Arc::new(TestClock::new());
    let server = Server::new(Arc::clone(&clock));
    let under_way = Arc::<(AtomicUsize, AtomicUsize)>::default();
    let slow = Slow { server: server.clone(), clock: Arc::clone(&clock), under_way: Arc::clone(&under_way) };
    let controller = Controller::new(slow, Arc::clone(&clock) as Arc<dyn Clock>, Options::default());
    let steps: Vec<Value> = (0..40).map(|number| job(&format!("s{number}"))).collect();
    let flow = server.put(
        Kind::JobFlow,
        json!({"apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": {"name": "etl"}, "spec": {"steps": steps}}),
    );
    let key = controller.flow_applied(&flow).remove(0);
    let mut made = Vec::new();
    for _ in 0..4 {
        let next = controller.reconcile(&key).await;
        made.push((server.list(Kind::Job).len(), next.again_at == Some(clock.now())));
    }
    assert_eq!(made, [(0, true), (16, true), (32, true), (40, false)], "the rest is done in the next pass, at once");
    assert_eq!(under_way.1.load(Ordering::SeqCst), 16);
}
