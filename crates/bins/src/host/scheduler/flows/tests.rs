//! Flows of a server whose steps wait for people: what is taken, decided, ended, and gone on with after a crash.

use std::sync::Arc;

use orlop_core::error::Code;
use orlop_core::machine::flow::FlowPhase;
use orlop_core::ports::bus::{Delivery, EventBody, SubjectFilter, Subscription as _};
use orlop_core::ports::fleet_store::{
    Approval, Documents as _, EntryFilter, FleetFlow, FleetReads as _, FlowStep, Kind, Page,
};
use orlop_core::spec::job::StepBackend;
use orlop_core::spec::status::Decision;
use serde_json::{Value, json};

use super::submit::read_definition;
use super::*;
use crate::host::flow::{Clock as _, SystemClock};
use crate::host::scheduler::tests::fixture::{Fixture, until};

/// A flow that waits for one decision after another.
fn manual(name: &str, steps: &[&str]) -> String {
    let mut before: Option<&str> = None;
    let steps = steps.iter().map(|step| {
        let after: Vec<&str> = before.replace(step).into_iter().collect();
        let annotations = json!({ "orlop.io/approvers": "ann, bob" });
        json!({ "name": step, "type": "Manual", "dependencies": after, "metadata": { "annotations": annotations } })
    });
    let steps: Vec<Value> = steps.collect();
    let object = json!({
        "apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": { "name": name },
        "spec": { "steps": steps },
    });
    object.to_string()
}

fn new(text: &str) -> NewFlow {
    let definition = read_definition(text, StepBackend::Process, None).unwrap();
    let driver = Driver { by: "ann".to_owned(), ..Driver::default() };
    NewFlow::of(&definition, "physics".parse().unwrap(), None, driver).unwrap()
}

fn by(name: &str, operator: bool) -> (Decider, Option<String>) {
    (Decider { name: name.to_owned(), verified: true, operator }, Some("why".to_owned()))
}

async fn reaches(flows: &Flows, flow: &str, phase: FlowPhase) -> FleetFlow {
    until(&format!("{flow} {phase}"), async || {
        let found = flows.find(flow, None).await.ok()?;
        let read = flows.read(found.clone()).await.ok()?;
        (read.status().phase == phase).then_some(found)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_is_taken_once_from_who_may_decide() {
    let fixture = Fixture::new().await;
    let flows = Flows::start(fixture.handle());
    let taken = flows.submit(new(&manual("release", &["gate", "then"]))).await.unwrap();
    let flow = reaches(&flows, &taken.uid, FlowPhase::Paused).await;
    let decide =
        async |step: &str, decision, by| flows.decide(&flow, step, decision, by).await.map_err(|error| error.code);
    assert_eq!(decide("gate", Decision::Approved, by("eve", false)).await, Err(Code::Forbidden));
    assert_eq!(decide("none", Decision::Approved, by("ann", false)).await, Err(Code::NotFound));
    assert_eq!(decide("gate", Decision::Approved, by("ann", false)).await, Ok(()));
    assert_eq!(decide("gate", Decision::Approved, by("bob", false)).await, Ok(()), "the same again");
    assert_eq!(decide("gate", Decision::Rejected, by("eve", true)).await, Err(Code::Conflict));
    assert_eq!(decide("then", Decision::Rejected, by("eve", true)).await, Ok(()));
    let flow = reaches(&flows, &taken.uid, FlowPhase::Failed).await;
    let again = flows.decide(&flow, "then", Decision::Rejected, by("ann", false)).await;
    assert!(again.is_ok(), "also after the end");
    let approval: Approval = fixture.store.get(&format!("{}/gate", taken.uid)).await.unwrap().unwrap();
    assert_eq!((approval.who.as_str(), approval.decision.as_str()), ("ann", "approve"));
    let read = flows.read(flow).await.unwrap().status();
    let record = read.steps.iter().find(|step| step.name == "gate").unwrap().approval.clone().unwrap();
    assert_eq!((record.by.as_deref(), record.verified), (Some("ann"), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn flows_go_on_under_the_next_server() {
    let mut fixture = Fixture::new().await;
    let flows = Flows::start(fixture.handle());
    let taken = flows.submit(new(&manual("release", &["one", "two"]))).await.unwrap();
    let flow = reaches(&flows, &taken.uid, FlowPhase::Paused).await;
    flows.decide(&flow, "one", Decision::Approved, by("ann", false)).await.unwrap();
    fixture.crash();
    drop(flows);
    fixture.start().await;
    let flows = Flows::start(fixture.handle());
    until("the flow is driven", async || (flows.live() == 1).then_some(())).await;
    flows.decide(&flow, "two", Decision::Approved, by("ann", false)).await.unwrap();
    let flow = reaches(&flows, &taken.uid, FlowPhase::Succeeded).await;
    until("nothing is driven", async || (flows.live() == 0).then_some(())).await;
    // Documents of steps are written behind the journal.
    until("the step is told", async || {
        let step: FlowStep = fixture.store.get(&format!("{}/two", flow.id)).await.unwrap()?;
        (step.phase == "Succeeded").then_some(())
    })
    .await;
    // What has ended is read from the journal.
    let flow = flows.find("release", None).await.unwrap();
    assert!(flow.ended_at.is_some());
    assert_eq!(flows.read(flow).await.unwrap().status().progress.summary, "2/2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_that_was_seen_to_end_is_listed_as_ended_and_can_be_deleted() {
    let fixture = Fixture::new().await;
    let flows = Flows::start(fixture.handle());
    for round in 0..20 {
        let taken = flows.submit(new(&manual(&format!("f{round}"), &["gate"]))).await.unwrap();
        let flow = reaches(&flows, &taken.uid, FlowPhase::Paused).await;
        let mut changes = flows.changes(&taken.uid).unwrap();
        assert_eq!(flows.delete(&flow).await.map_err(|error| error.code), Err(Code::Conflict), "it has not ended");
        assert!(flows.cancel(&flow, false).await.unwrap());
        changes.wait_for(|view| view.status.phase.is_terminal()).await.unwrap();
        assert!(flows.find(&taken.uid, None).await.unwrap().ended_at.is_some(), "round {round}");
        // What was read of it before its end will do.
        flows.delete(&flow).await.unwrap();
        assert!(flows.changes(&taken.uid).is_none(), "its host writes nothing any more");
        assert_eq!(flows.find(&taken.uid, None).await.map_err(|error| error.code).unwrap_err(), Code::NotFound);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_to_a_flow_is_published_and_every_gate_by_name() {
    let fixture = Fixture::new().await;
    let mut events = fixture.handle().subscribe(SubjectFilter::new("orlop.events.flow.*").unwrap()).unwrap();
    let mut next = async |uid: &str| {
        let Some(Delivery::Event(event)) = events.next().await else { panic!("no event") };
        let body: EventBody = serde_json::from_str(&event.body).unwrap();
        assert_eq!((body.tenant.as_deref(), &body.data["flow"]), (Some("physics"), &json!(uid)));
        format!("{} {}", body.kind, body.data["step"])
    };
    let flows = Flows::start(fixture.handle());
    let taken = flows.submit(new(&manual("release", &["one", "two"]))).await.unwrap();
    assert_eq!(next(&taken.uid).await, "flow.started null");
    assert_eq!(next(&taken.uid).await, "flow.waiting_approval \"one\"");
    let flow = flows.find(&taken.uid, None).await.unwrap();
    // The flow waits before as after the decision: it may never be seen to run between.
    flows.decide(&flow, "one", Decision::Approved, by("ann", false)).await.unwrap();
    assert_eq!(next(&taken.uid).await, "flow.waiting_approval \"two\"");
    assert!(flows.cancel(&flow, false).await.unwrap());
    assert_eq!(next(&taken.uid).await, "flow.cancelled null");
    until("it is listed as cancelled", async || {
        let list = flows.list(None, None, 10, |_| true).await.unwrap();
        list.items.first().is_some_and(|known| known.cancelled && known.document.ended_at.is_some()).then_some(())
    })
    .await;
    let flow = flows.find(&taken.uid, None).await.unwrap();
    assert!(!flows.cancel(&flow, false).await.unwrap(), "it has ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_ended_is_repeated_under_another_name() {
    let fixture = Fixture::new().await;
    let flows = Flows::start(fixture.handle());
    let taken = flows.submit(new(&manual("release", &["gate"]))).await.unwrap();
    let clash = flows.submit(new(&manual("release", &["gate"]))).await.unwrap_err();
    assert_eq!(clash.code, Code::Conflict);
    let flow = reaches(&flows, &taken.uid, FlowPhase::Paused).await;
    assert_eq!(flows.retry(&flow, Again::default()).await.unwrap_err().code, Code::Conflict);
    flows.decide(&flow, "gate", Decision::Rejected, by("ann", false)).await.unwrap();
    reaches(&flows, &taken.uid, FlowPhase::Failed).await;
    let missing = Again { steps: vec!["nothing".to_owned()], ..Again::default() };
    assert_eq!(flows.retry(&flow, missing).await.unwrap_err().code, Code::NotFound);
    let wrong = Again { name: Some("Bad_Name".to_owned()), ..Again::default() };
    assert_eq!(flows.retry(&flow, wrong).await.unwrap_err().code, Code::InvalidSpec);
    let again = flows.retry(&flow, Again::default()).await.unwrap();
    assert_eq!(again.name, "release-r2");
    reaches(&flows, "release-r2", FlowPhase::Paused).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn flows_of_one_key_run_one_after_the_other_also_after_a_crash() {
    let mut fixture = Fixture::new().await;
    let flows = Flows::start(fixture.handle());
    let keyed = |name: &str| {
        let mut new = new(&manual(name, &["gate"]));
        new.flow.metadata.labels.insert(orlop_dag::gate::KEY.to_owned(), "k".to_owned());
        new
    };
    let one = flows.submit(keyed("one")).await.unwrap();
    let flow = reaches(&flows, &one.uid, FlowPhase::Paused).await;
    let two = flows.submit(keyed("two")).await.unwrap();
    fixture.crash();
    drop(flows);
    fixture.start().await;
    let flows = Flows::start(fixture.handle());
    until("both are driven", async || (flows.live() == 2).then_some(())).await;
    let waits = flows.find(&two.uid, None).await.unwrap();
    assert_eq!(flows.read(waits).await.unwrap().status().phase, FlowPhase::Pending);
    flows.decide(&flow, "gate", Decision::Approved, by("ann", false)).await.unwrap();
    reaches(&flows, &two.uid, FlowPhase::Paused).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelines_have_versions() {
    let fixture = Fixture::new().await;
    let flows = Flows::start(fixture.handle());
    let tenant: orlop_core::id::TenantName = "physics".parse().unwrap();
    let pipeline = |step: &str| json!({ "name": "Nightly Build", "steps": [{ "name": step, "job_spec": { "command": ["true"] } }] });
    let wrong = json!({ "name": "x", "steps": [{ "name": "a", "depends_on": ["b"], "job_spec": { "command": [] } }] });
    let refused = flows.create_pipeline(tenant.clone(), wrong).await.unwrap_err();
    assert_eq!(refused.code, Code::InvalidSpec);
    assert!(
        refused.fields.len() >= 2 && refused.fields.iter().all(|error| error.path.starts_with("steps[0]")),
        "{refused:?}"
    );
    assert!(flows.pipelines(None, None, 10).await.unwrap().items.is_empty(), "nothing is stored");
    let one = flows.create_pipeline(tenant.clone(), pipeline("a")).await.unwrap();
    assert_eq!((one.name.as_str(), one.version), ("Nightly Build", 1));
    let two = flows.update_pipeline(&one.id, None, Some(1), pipeline("b")).await.unwrap();
    assert_eq!(two.version, 2);
    let late = flows.update_pipeline(&one.id, None, Some(1), pipeline("c")).await.unwrap_err();
    assert_eq!(late.code, Code::Precondition);
    let others: [orlop_core::id::TenantName; 1] = ["other".parse().unwrap()];
    assert_eq!(flows.pipeline(&one.id, Some(&others)).await.unwrap_err().code, Code::NotFound);
    assert_eq!(flows.pipelines(None, None, 10).await.unwrap().items, [two]);
    flows.delete_pipeline(&one.id, None, None).await.unwrap();
    assert_eq!(flows.pipeline(&one.id, None).await.unwrap_err().code, Code::NotFound);
    assert!(flows.pipelines(None, None, 10).await.unwrap().items.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_are_checked_before_anything_is_stored() {
    let fixture = Fixture::new().await;
    let flows = Flows::start(fixture.handle());
    let mut flow = new(&manual("release", &["gate"]));
    flow.parameters.insert("nobody".to_owned(), "x".to_owned());
    let refused = flows.submit(flow).await.unwrap_err();
    assert_eq!((refused.code, refused.fields[0].path.as_str()), (Code::InvalidSpec, "parameters"));
    assert!(flows.find("release", None).await.is_err());
    // A name that was refused is free.
    flows.submit(new(&manual("release", &["gate"]))).await.unwrap();
    assert_eq!(Arc::strong_count(&flows.inner), 1, "its tasks do not keep it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_is_deleted_when_its_time_after_its_end_is_over() {
    let mut fixture = Fixture::new().await;
    let flows = Flows::start(fixture.handle());
    let submit = async |name: &str, ttl: i32| {
        let mut new = new(&manual(name, &["gate"]));
        let policy = new.flow.spec.execution_policy.get_or_insert_default();
        policy.ttl_seconds_after_finished = Some(ttl);
        let uid = flows.submit(new).await.unwrap().uid;
        let flow = reaches(&flows, &uid, FlowPhase::Paused).await;
        flows.cancel(&flow, false).await.unwrap();
        reaches(&flows, &uid, FlowPhase::Failed).await;
        until("nothing is driven", async || (flows.live() == 0).then_some(())).await;
        uid
    };
    let (short, long) = (submit("short", 0).await, submit("long", 60).await);
    let there = async |flows: &Flows, uid: &str| flows.find(uid, None).await.is_ok();
    let later = |seconds: u64| SystemClock.now().plus(std::time::Duration::from_secs(seconds));
    assert!(there(&flows, &short).await, "who waits for its end sees it");
    flows.inner.expire(later(6)).await;
    until("the first one goes", async || (!there(&flows, &short).await).then_some(())).await;
    assert!(there(&flows, &long).await);
    // The next server goes on counting.
    fixture.crash();
    drop(flows);
    fixture.start().await;
    let flows = Flows::start(fixture.handle());
    until("flows can be changed", async || flows.inner.may_act().await.ok()).await;
    flows.inner.expire(later(30)).await;
    assert!(there(&flows, &long).await);
    flows.inner.expire(later(61)).await;
    until("the other one goes", async || (!there(&flows, &long).await).then_some(())).await;
    let left = fixture.store.entries(Kind::FlowEntry, &EntryFilter::default(), &Page::first(100)).await.unwrap().items;
    assert!(left.is_empty(), "{left:?}");
}
