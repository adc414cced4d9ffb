//! The operator as a library, over a client of the API server double: its way from the election to the end of a flow.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orlop::core::time::Time;
use orlop::host::operator::{Operator, Plan, Stop};
use orlop::k8s::admission::Settings;
use orlop::k8s::shell::{Clock, lease};
use orlop::k8s::testing::{ApiServer, Fault, Match, What, flow_reviewer};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{flow, step};

const FLOWS: &str = "jobflows.workflow.kube-zen.io";
const LEASES: &str = "leases.coordination.k8s.io";

/// The clock of a server.
pub(super) struct ServerClock(pub(super) ApiServer);

impl Clock for ServerClock {
    fn now(&self) -> Time {
        Time::from_millis(self.0.clock().now())
    }
}

/// The configurations of webhooks that ship.
pub(super) fn configurations() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kustomize/webhook/configurations.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    text.split("\n---\n").map(|part| serde_saphyr::from_str(part).unwrap()).collect()
}

/// A server with definitions, whose cluster works by itself and which asks the operator's webhook about every flow.
pub(super) fn server(define: bool) -> ApiServer {
    let server = plain_server(define);
    let reviewer = flow_reviewer(Settings::default());
    for configuration in configurations() {
        server.webhooks(&configuration, &reviewer).unwrap();
    }
    server
}

/// A server with definitions, whose cluster works by itself.
pub(super) fn plain_server(define: bool) -> ApiServer {
    let server = ApiServer::new();
    server.namespace("orlop");
    server.namespace("other");
    if define {
        for (_, definition) in orlop::k8s::crd::all() {
            server.install(&definition).unwrap();
        }
    }
    server.clock().follow_tokio();
    let cluster = server.jobs();
    tokio::spawn(async move { cluster.run().await });
    server
}

fn plan(identity: &str) -> Plan {
    let mut plan = Plan::default();
    plan.election = Some(lease::Options::operator(identity, "orlop", true));
    plan
}

fn operator(server: &ApiServer, plan: Plan) -> Operator {
    let name = plan.election.as_ref().map_or("operator", |election| election.identity.as_str()).to_owned();
    Operator::new(plan, server.client_named(&name), Arc::new(ServerClock(server.clone())))
}

fn submit(server: &ApiServer, namespace: &str, name: &str, spec: &Value) {
    server.create("workflow.kube-zen.io", "jobflows", namespace, &flow(name, spec)).expect("the server takes the flow");
}

fn phase(server: &ApiServer, namespace: &str, name: &str) -> String {
    let found = server.look(FLOWS, namespace, name).unwrap_or_default();
    found["status"]["phase"].as_str().unwrap_or_default().to_owned()
}

async fn until(what: &str, mut look: impl FnMut() -> bool) {
    for _ in 0..600 {
        if look() {
            return;
        }
        sleep(Duration::from_secs(1)).await;
    }
    panic!("{what} does not come");
}

fn holder(server: &ApiServer, name: &str) -> String {
    let lease = server.look(LEASES, "orlop", name).unwrap_or_default();
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

fn two() -> Value {
    json!({"steps": [step("a", &[], &json!({})), step("b", &["a"], &json!({"fake/run-seconds": "20"}))]})
}

#[tokio::test(start_paused = true)]
async fn a_leader_runs_flows_and_its_standby_goes_on_with_them() {
    let server = server(true);
    let (first, second) = (operator(&server, plan("first")), operator(&server, plan("second")));
    let ((stop_first, first_stops), (stop_second, second_stops)) = (Stop::new(), Stop::new());
    let test = async {
        submit(&server, "default", "etl", &two());
        until("the first step", || phase(&server, "default", "etl") == "Running").await;
        let (leader, standby) = if holder(&server, lease::OPERATOR) == "first" {
            ((&first, &stop_first), (&second, &stop_second))
        } else {
            ((&second, &stop_second), (&first, &stop_first))
        };
        assert!(leader.0.health().leads() && !standby.0.health().leads());
        assert_eq!(holder(&server, lease::FLOWS), holder(&server, lease::OPERATOR), "both leases have one holder");
        leader.1.send(true).unwrap();
        until("another leader", || standby.0.health().leads()).await;
        until("the end of the flow", || phase(&server, "default", "etl") == "Succeeded").await;
        let text = standby.0.metrics().text().unwrap();
        for line in [
            "orlop_flows_finished_total{outcome=\"Succeeded\",reason=\"\"} 1",
            "orlop_status_writes_total{level=\"0\",result=\"stored\"}",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        standby.1.send(true).unwrap();
    };
    let (one, two, ()) = tokio::join!(first.run(&first_stops), second.run(&second_stops), test);
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(holder(&server, lease::OPERATOR), "", "the lease is given back");
}

#[tokio::test(start_paused = true)]
async fn losing_the_lease_ends_the_work() {
    let server = server(true);
    let operator = operator(&server, plan("only"));
    let (_stop, stops) = Stop::new();
    let test = async {
        until("a leader", || operator.health().leads()).await;
        let when = Match { resource: Some("leases".into()), times: 0, ..Match::any() };
        server.faults().push(Fault { when, what: What::Unreachable });
    };
    let (ended, ()) = tokio::join!(operator.run(&stops), test);
    let why = ended.unwrap_err().message;
    assert!(why.contains("could not be renewed"), "{why}");
    assert!(!operator.health().leads());
}

#[tokio::test(start_paused = true)]
async fn only_the_namespaces_that_are_named_are_worked_in() {
    let server = server(true);
    let mut plan = plan("only");
    plan.namespaces = vec!["other".into(), "orlop".into()];
    let operator = operator(&server, plan);
    let (stop, stops) = Stop::new();
    let test = async {
        for namespace in ["default", "other", "orlop"] {
            submit(&server, namespace, "etl", &two());
        }
        for namespace in ["other", "orlop"] {
            until("the end of the flow", || phase(&server, namespace, "etl") == "Succeeded").await;
        }
        // A relist of one namespace does not take away what is in another.
        sleep(Duration::from_secs(900)).await;
        submit(&server, "orlop", "again", &two());
        until("the end of the flow", || phase(&server, "orlop", "again") == "Succeeded").await;
        assert_eq!(phase(&server, "default", "etl"), "");
        stop.send(true).unwrap();
    };
    let (ended, ()) = tokio::join!(operator.run(&stops), test);
    ended.unwrap();
    let elsewhere: Vec<_> =
        server.writes().into_iter().filter(|write| write.namespace == "default" && write.client == "only").collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
}

#[tokio::test(start_paused = true)]
async fn flows_run_as_soon_as_they_are_defined() {
    let server = server(false);
    let operator = operator(&server, plan("only"));
    let (stop, stops) = Stop::new();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    operator.serve(Some(listener), None).unwrap();
    let test = async {
        until("a leader", || operator.health().leads()).await;
        sleep(Duration::from_secs(10)).await;
        server.install(&orlop::k8s::crd::job_flow()).unwrap();
        submit(&server, "default", "etl", &two());
        until("the end of the flow", || phase(&server, "default", "etl") == "Succeeded").await;
        stop.send(true).unwrap();
    };
    let (ended, ()) = tokio::join!(operator.run(&stops), test);
    ended.unwrap();
}
